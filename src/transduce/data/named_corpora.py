"""Named corpora for `data.download`: where each comes from, its terms, its files, and their checksums.

To add a corpus, add an entry to `NAMED_CORPORA`; nothing else in the source changes.

The checksum of an archive is that of the file as it is served. Gzip files of the same text differ in their headers, so
for plain `.gz` files the *text* is verified. If a checksum is unknown, the field is None: the digest of the first
download is shown, written to `checksums.json`, and required of every later download.
"""

import os
import re
import shutil
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from transduce.data.archives import extract
from transduce.data.download import MAX_BYTES, advice, check_url, download, verify
from transduce.errors import ConfigError, DownloadError, suggestion
from transduce.files import exclusive, read_json_object, sha256, sync, write_json

MIRROR_VARIABLE = "TRANSDUCE_MIRROR"
_SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg>", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class RemoteFile:
    """A file on a server. `checksum` is `sha256:…` or `md5:…`, or None if it is unknown."""

    url: str
    checksum: str | None = None
    max_bytes: int = MAX_BYTES  # of the file, and of what is extracted from it

    @property
    def name(self) -> str:
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class CorpusFile:
    """A file of a corpus: a member of an archive ("" for a plain `.gz`), and the SHA-256 of its text if it is known.

    A member that ends in `.sgm` is converted to plain text, one segment a line.
    """

    name: str
    remote: RemoteFile
    member: str = ""
    text_sha256: str | None = None


@dataclass(frozen=True)
class NamedCorpus:
    """A corpus that can be downloaded by name."""

    description: str
    homepage: str
    terms: str
    files: tuple[CorpusFile, ...]


def _multi30k(name: str, text_sha256: str) -> CorpusFile:
    url = f"https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/{name}.gz"
    return CorpusFile(name, RemoteFile(url, max_bytes=10_000_000), text_sha256=text_sha256)


_EUROPARL = RemoteFile(
    "https://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz",
    "sha256:0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
)
_COMMON_CRAWL = RemoteFile(
    "https://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz",
    "sha256:c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
)
_NEWS_COMMENTARY = RemoteFile(
    "https://www.statmt.org/wmt14/training-parallel-nc-v9.tgz",
    "sha256:cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
)
_UN = RemoteFile(
    "https://www.statmt.org/wmt13/training-parallel-un.tgz",
    "sha256:29141b5c1eba149a94f7a59d3b1a834b2e47fe0f8758d68dcd77a3d3f497ee47",
)
_GIGA = RemoteFile(
    "https://www.statmt.org/wmt10/training-giga-fren.tar",
    "sha256:3ff8319f6919393520559bfbc7ad6a747ec81b3abc7be9993b338d4b017b4d9a",
)
_TEST_2013 = RemoteFile("https://www.statmt.org/wmt13/test.tgz", "md5:48eca5d02f637af44e85186847141f67")
_TEST_2014 = RemoteFile("https://www.statmt.org/wmt14/test-full.tgz", "md5:a8cd784e006feb32ac6f3d9ec7eb389a")
_WMT_HOMEPAGE = "https://www.statmt.org/wmt14/translation-task.html"
_WMT_TERMS = "Free for research; each part has terms of its own, which its homepage states."


def _wmt14(language: str) -> tuple[CorpusFile, ...]:
    """Returns the files common to English-German and English-French; `language` is the other language."""
    parallel = [
        (_EUROPARL, "training/", f"europarl-v7.{language}-en"),
        (_COMMON_CRAWL, "", f"commoncrawl.{language}-en"),
        (_NEWS_COMMENTARY, "training/", f"news-commentary-v9.{language}-en"),
    ]
    training = [
        CorpusFile(f"{name}.{side}", remote, f"{folder}{name}.{side}")
        for remote, folder, name in parallel
        for side in ("en", language)
    ]
    pair = f"{language}en"
    return (
        *training,
        CorpusFile("newstest2013.en", _TEST_2013, "test/newstest2013-src.en.sgm"),
        CorpusFile(f"newstest2013.{language}", _TEST_2013, f"test/newstest2013-src.{language}.sgm"),
        CorpusFile("newstest2014.en", _TEST_2014, f"test-full/newstest2014-{pair}-src.en.sgm"),
        CorpusFile(f"newstest2014.{language}", _TEST_2014, f"test-full/newstest2014-{pair}-ref.{language}.sgm"),
    )


NAMED_CORPORA: dict[str, NamedCorpus] = {
    "multi30k-en-de": NamedCorpus(
        description="Image captions: 29 000 training pairs, validation, test sets of 2016 and 2017",
        homepage="https://github.com/multi30k/dataset",
        terms="None stated; used for research. The captions describe Flickr photographs.",
        files=(
            _multi30k("train.en", "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6"),
            _multi30k("train.de", "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72"),
            _multi30k("val.en", "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227"),
            _multi30k("val.de", "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660"),
            _multi30k("test_2016_flickr.en", "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182"),
            _multi30k("test_2016_flickr.de", "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16"),
            _multi30k("test_2017_flickr.en", "ce1450ddc5ab0834502579d77a170849952e15a2938b34cc503bdc25ebb4fb98"),
            _multi30k("test_2017_flickr.de", "c3078bc3b36808bf9d20eb2347ed6137016179ef59ec0d2b9b8ecc3fb2880081"),
        ),
    ),
    "wmt14-en-de": NamedCorpus(
        description="WMT 2014 English-German: Europarl v7, Common Crawl, News Commentary v9; newstest2013 and 2014",
        homepage=_WMT_HOMEPAGE,
        terms=_WMT_TERMS,
        files=_wmt14("de"),
    ),
    "wmt14-en-fr": NamedCorpus(
        description="WMT 2014 English-French: as English-German, with the UN and 10^9 corpora; 36 million pairs",
        homepage=_WMT_HOMEPAGE,
        terms=_WMT_TERMS,
        files=(
            *_wmt14("fr"),
            CorpusFile("undoc.2000.fr-en.en", _UN, "un/undoc.2000.fr-en.en"),
            CorpusFile("undoc.2000.fr-en.fr", _UN, "un/undoc.2000.fr-en.fr"),
            CorpusFile("giga-fren.release2.fixed.en.gz", _GIGA, "giga-fren.release2.fixed.en.gz"),
            CorpusFile("giga-fren.release2.fixed.fr.gz", _GIGA, "giga-fren.release2.fixed.fr.gz"),
        ),
    ),
}


def fetch(name: str, folder: Path, *, mirror: Path | None = None, progress: bool = True) -> None:
    """Fetches the files of the corpus `name` into `folder`. Files that are there already are kept.

    Archives stay in `folder/downloads` until you delete them. A mirror folder (the argument, else the environment
    variable TRANSDUCE_MIRROR) replaces the network: it has the archives, or the files themselves, under their names.

    Raises:
        ConfigError: no corpus has that name.
        DownloadError: a file could not be fetched, or has a wrong checksum; or another process downloads into `folder`.
    """
    if name not in NAMED_CORPORA:
        raise ConfigError(f"data.download = '{name}': no such corpus.{suggestion(name, NAMED_CORPORA)}")
    if mirror is None and os.environ.get(MIRROR_VARIABLE):
        mirror = Path(os.environ[MIRROR_VARIABLE])
    corpus = NAMED_CORPORA[name]
    missing = [file for file in corpus.files if not (folder / file.name).is_file()]
    if missing and progress:
        print(f"{name}: {corpus.description}\n  from {mirror or corpus.homepage}\n  terms: {corpus.terms}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with exclusive(folder / "downloads") if missing and mirror is None else nullcontext(True) as is_alone:
            if not is_alone:
                raise DownloadError(
                    f"{folder / 'downloads'}: another process downloads into it. Wait until it is done."
                )
            for remote in dict.fromkeys(file.remote for file in missing):
                files = [file for file in missing if file.remote == remote]
                _fetch_file(remote, files, folder, mirror, progress=progress)
    except OSError as error:
        raise DownloadError(f"{name}: cannot write to or read from '{error.filename or folder}': {error}") from None


def _fetch_file(
    remote: RemoteFile, files: list[CorpusFile], folder: Path, mirror: Path | None, *, progress: bool
) -> None:
    """Extracts `files` from `remote`. They appear in `folder` when all of them are extracted and verified."""
    with tempfile.TemporaryDirectory(prefix=".extract.", dir=folder) as staging:
        staged = {file.member: Path(staging, str(number)) for number, file in enumerate(files)}
        plain = [mirror / file.name for file in files] if mirror else []
        if plain and all(path.is_file() for path in plain) and not any(p.name == remote.name for p in plain):
            for file, path in zip(files, plain, strict=True):
                shutil.copyfile(path, staged[file.member])
            _accept(files, staged, folder, converted=True)
            return
        archive = _archive(remote, folder, mirror, progress=progress)
        try:
            extract(archive, staged, remote.max_bytes)
            _accept(files, staged, folder, converted=False)
        except DownloadError:
            if mirror is None and remote.checksum is None:
                archive.unlink()  # unverified, and now known to be wrong: the next run must not use it again
            raise
        _record(remote, archive, folder, progress=progress)


def _recorded(folder: Path) -> dict[str, str]:
    """Returns the SHA-256 of every file that was downloaded into `folder` before."""
    ledger = folder / "checksums.json"
    if not ledger.is_file():
        return {}
    try:
        digests = read_json_object(ledger)
        if not all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests.values()):
            raise ValueError("a value is not a SHA-256")
    except (ValueError, TypeError) as error:
        raise DownloadError(
            f"{ledger}: damaged: {error}. Restore it; or delete it and {folder / 'downloads'}, and fetch again."
        ) from None
    return digests


def _record(remote: RemoteFile, archive: Path, folder: Path, *, progress: bool) -> None:
    recorded = _recorded(folder)
    if remote.name in recorded:
        return
    digest = sha256(archive)
    if progress and remote.checksum is None:
        print(f"  {remote.name}: sha256 {digest}, kept in {folder / 'checksums.json'}")
    write_json(folder / "checksums.json", {**recorded, remote.name: digest})


def _archive(remote: RemoteFile, folder: Path, mirror: Path | None, *, progress: bool) -> Path:
    """Returns the verified file from the mirror, from an earlier download, or from the network."""
    recorded = _recorded(folder)
    checksum = remote.checksum
    if checksum is None and remote.name in recorded:
        checksum = f"sha256:{recorded[remote.name]}"
    if mirror is not None:
        archive = mirror / remote.name
        if not archive.is_file():
            raise DownloadError(f"{archive}: not in the mirror folder. The file comes from {remote.url}.")
    else:
        check_url(remote.url)
        archive = folder / "downloads" / remote.name
        if not archive.is_file():
            download(remote.url, archive, checksum, max_bytes=remote.max_bytes, progress=progress)
            return archive
    if checksum is not None:
        verify(archive, checksum, str(archive))
    return archive


def _accept(files: list[CorpusFile], staged: dict[str, Path], folder: Path, *, converted: bool) -> None:
    """Verifies the staged files, then moves all of them to `folder`."""
    for file in files:
        path = staged[file.member]
        if file.member.endswith(".sgm") and not converted:
            lines = segments(path.read_text(encoding="utf-8"))
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        if file.text_sha256 is not None:
            verify(path, f"sha256:{file.text_sha256}", f"{file.name} from {file.remote.url}")
        if path.stat().st_size == 0:
            raise DownloadError(f"{file.remote.url}: '{file.name}' is empty. {advice(file.remote.url)}")
        sync(path)
    for file in files:
        staged[file.member].replace(folder / file.name)
    sync(folder)


def segments(text: str) -> list[str]:
    """Returns the segments of a WMT `.sgm` file: one line each, white space squeezed, as sacreBLEU does.

    >>> segments('<doc><seg id="1"> Hello  world </seg><seg id="2">Bye</seg></doc>')
    ['Hello world', 'Bye']
    """
    return [" ".join(segment.split()) for segment in _SEGMENT.findall(text)]
