"""Packages of Argos, folders of downloads, and downloads that are damaged or hostile."""

import json
import os
import random
import shutil
import stat
import struct
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import ctranslate2
import pytest
import sentencepiece

pytest.importorskip("transformers")

from argos_packages import argos_archive, argos_folder
from ctranslate2_folders import LINES, marian_folder, opennmt_folder
from transduce.bundle import Bundle
from transduce.cli.main import main as cli
from transduce.errors import BundleError, ExportError, TransduceError
from transduce.export.downloads import list_downloads
from transduce.export.imports import find_format, import_model
from transduce.translation.translator import Translator

pytestmark = pytest.mark.computes


@pytest.mark.parametrize("packed", ["a folder", "an archive", "an archive without a folder"])
def test_a_package_of_argos_becomes_a_model(tmp_path: Path, packed: str) -> None:
    folder = argos_folder(tmp_path / "en_de-1.9")
    (folder / "LICENSE").write_text("CC0")
    path = folder
    if packed != "a folder":
        path = argos_archive(tmp_path / "en_de.argosmodel", folder, "" if "without" in packed else "x/")
        shutil.rmtree(folder)
    assert find_format(path) == "argos"
    certificate = import_model(path, tmp_path / "model", sample=4)
    assert certificate is not None
    assert (certificate.verdict, certificate.measured.token_agreement) == ("passed", 1)
    assert set(tmp_path.iterdir()) == {path, tmp_path / "model"}
    config = Bundle.load(tmp_path / "model").config
    assert config.name == path.name.removesuffix(".argosmodel")
    assert (tmp_path / "model" / "ORIGINAL_README.md").read_text() == "# English → German\n\nCC0.\n"
    assert (tmp_path / "model" / "LICENSE").read_text() == "CC0"
    assert (config.data.source_language, config.data.target_language) == ("en", "de")
    assert (config.decode.beam_size, config.decode.length_penalty) == (4, 0.2)
    assert config.model.source_end == "none"


@pytest.mark.parametrize("prefix", ["", "__de__"])
def test_its_text_is_what_argos_joins(tmp_path: Path, prefix: str) -> None:
    folder = argos_folder(tmp_path / "package", target_prefix=prefix)
    import_model(folder, tmp_path / "model", sample=3)
    model = ctranslate2.Translator(str(folder / "model"), device="cpu", compute_type="float32", intra_threads=1)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.model"))
    expected = []
    never = ["<unk>", "<blank>", "<s>", *(("__de__", "__fr__") if prefix else ())]
    for line in LINES[:24]:
        pieces = processor.encode(line, out_type=str)
        [found] = model.translate_batch(
            [pieces],
            [[prefix]] if prefix else None,
            beam_size=1,
            max_decoding_length=len(pieces) + 10 + bool(prefix),
            min_decoding_length=0,
            suppress_sequences=[[name] for name in never],
        )
        text = "".join(found.hypotheses[0]).replace("▁", " ").removeprefix(prefix)
        expected.append(text.removeprefix(" "))
    for engine in ("torch", "ctranslate2"):
        translator = Translator.load(tmp_path / "model", engine=engine, device="cpu")
        assert translator.translate(LINES[:24], beam_size=1, length_penalty=0, max_extra_tokens=10) == expected
    assert len(set(expected)) > 12


REFUSED: dict[str, tuple[dict[str, object], type[TransduceError], str]] = {
    "a first piece": ({"target_prefix": "▁the"}, ExportError, "begin with '▁the' (target_prefix)"),
    "an unknown language": ({"target_prefix": "__sv__"}, ExportError, "begin with '__sv__' (target_prefix)"),
    "another kind": ({"type": "sbd"}, ExportError, "type 'sbd'"),
    "no language": ({"from_code": None}, BundleError, "from_code = None"),
    "a path as language": ({"to_code": "../../x"}, BundleError, "to_code = "),
    "a number as prefix": ({"target_prefix": 3}, BundleError, "target_prefix = 3"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_packages_that_cannot_be_read_are_refused_by_name(tmp_path: Path, kind: str) -> None:
    changes, error, named = REFUSED[kind]
    folder = argos_folder(tmp_path / "package", **changes)
    with pytest.raises(error) as caught:
        import_model(folder, tmp_path / "model")
    assert named in str(caught.value)
    assert "package" in str(caught.value)


def test_codes_of_moses_are_refused_with_what_to_do(tmp_path: Path) -> None:
    folder = argos_folder(tmp_path / "package")
    (folder / "sentencepiece.model").rename(folder / "bpe.model")
    with pytest.raises(ExportError, match=r"bpe\.model: cannot be imported.*Moses.*Take a version"):
        import_model(folder, tmp_path / "model")


# --- hostile archives -----------------------------------------------------------------------------------------

_NAMES = [
    "../out",
    "/etc/x",
    "a/../../b",
    "model/../../x",
    "..\\x",
    "C:\\x",
    "c:x",
    "a//b",
    "./x",
    "a/./b",
    "a\nb",
    "\x1b[2J",
]
_MODES = [stat.S_IFLNK | 0o777, stat.S_IFIFO | 0o600, stat.S_IFCHR | 0o600, stat.S_IFBLK | 0o600, stat.S_IFSOCK | 0o600]


def with_member(path: Path, name: str, data: bytes = b"x", mode: int = 0) -> None:
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        info = zipfile.ZipInfo("placeholder" if "\0" in name else name)
        info.filename = info.orig_filename = name
        info.external_attr, info.compress_type = mode << 16, zipfile.ZIP_DEFLATED
        archive.writestr(info, data)


def with_many_members(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive:
        for index in range(10_001):
            archive.writestr(f"x/{index}", b"")


def with_two_of_a_name(path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        with_member(path, "x/metadata.json", b"{}")


def rewritten(path: Path, change: Callable[[bytearray], object]) -> None:
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)


def patch_sizes(data: bytearray, size: int) -> None:
    """Declares another size for every member, in the directory at the end."""
    place = data.find(b"PK\x01\x02")
    while place >= 0:
        data[place + 24 : place + 28] = struct.pack("<I", size)
        place = data.find(b"PK\x01\x02", place + 4)


def patch_crc(data: bytearray) -> None:
    place = data.find(b"PK\x01\x02")
    while place >= 0:
        data[place + 16] ^= 0xFF
        place = data.find(b"PK\x01\x02", place + 4)


def encrypt(data: bytearray) -> None:
    place = data.find(b"PK\x01\x02")
    while place >= 0:
        data[place + 8] |= 1
        place = data.find(b"PK\x01\x02", place + 4)


HOSTILE: dict[str, Callable[[Path], object]] = {
    **{f"the name {name!r}": partial(with_member, name=name) for name in _NAMES},
    **{f"the mode {mode:o}": partial(with_member, name="x/y", mode=mode) for mode in _MODES},
    "a bomb": partial(with_member, name="x/stanza/y", data=bytes(64 << 20)),
    "many members": with_many_members,
    "two of a name": with_two_of_a_name,
    "sizes of 4 GB": partial(rewritten, change=partial(patch_sizes, size=0xFFFF_FFF0)),
    "sizes of 1": partial(rewritten, change=partial(patch_sizes, size=1)),
    "wrong checksums": partial(rewritten, change=patch_crc),
    "encrypted": partial(rewritten, change=encrypt),
    "no end": partial(rewritten, change=lambda data: data.__delitem__(slice(len(data) - 30, None))),
    "cut in half": partial(rewritten, change=lambda data: data.__delitem__(slice(len(data) // 2, None))),
    "empty": partial(rewritten, change=lambda data: data.clear()),
    "no archive": partial(rewritten, change=lambda data: data.__setitem__(slice(None), b"hello" * 50)),
    "no beginning": partial(rewritten, change=lambda data: data.__delitem__(slice(0, 3000))),
    "noise": partial(rewritten, change=lambda data: data.__setitem__(slice(0, 4000), os.urandom(4000))),
}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    return argos_archive(folder / "en_de.argosmodel", argos_folder(folder / "package"), "x/")


def refused(path: Path, output: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Imports with the command, and returns its one line of error."""
    before = {each for each in path.parent.rglob("*") if each != path}
    assert cli(["import", str(path), "--output", str(output)]) not in (0, None)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert not output.exists()
    assert {each for each in path.parent.rglob("*") if each != path} == before
    assert path.name in captured.err
    return captured.err


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_archives_are_refused(
    archive: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(shutil.copy(archive, tmp_path / "en_de.argosmodel"))
    HOSTILE[kind](path)
    lines = refused(path, tmp_path / "model", capsys).strip().splitlines()
    assert (
        len([line for line in lines if not line.startswith("importing and comparing: ")]) == 1
    )  # a slow machine's bar


# --- damaged folders ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    made = tmp_path_factory.mktemp("folders")
    return [opennmt_folder(made / "opennmt", "int8"), marian_folder(made / "marian", "float16")]


def damage(path: Path, generator: random.Random) -> str:
    """Damages a file in one of several ways; returns which."""
    data = bytearray(path.read_bytes())
    kind = generator.choice(["cut", "header", "lengths", "longer", "empty", "noise"])
    if kind == "cut":
        del data[generator.randrange(len(data)) :]
    elif kind == "header":
        data[generator.randrange(min(30, len(data)))] ^= 1 << generator.randrange(8)
    elif kind == "lengths":
        place = generator.randrange(min(2000, len(data)))
        data[place : place + 4] = b"\xff\xff\xff\xff"
    elif kind == "longer":
        data += bytes(generator.randrange(1, 50))
    elif kind == "empty":
        data.clear()
    else:
        for _ in range(200):
            data[generator.randrange(len(data))] = generator.randrange(256)
    path.write_bytes(data)
    return kind


@pytest.mark.parametrize("seed", range(45))
def test_damaged_folders_are_refused_or_change_nothing(
    folders: list[Path], tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Damage to a weight cannot be seen: then the import does what CTranslate2 does with the same file."""
    generator = random.Random(seed)
    folder = Path(shutil.copytree(generator.choice(folders), tmp_path / "folder"))
    name = generator.choice(["model.bin"] * 4 + ["config.json", "shared_vocabulary.json", "spm"])
    path = next(each for each in sorted(folder.iterdir()) if each.name == name or each.suffix in (f".{name}", ".model"))
    path = folder / name if name != "spm" else path
    kind = damage(path, generator)
    code = cli(["import", str(folder), "--output", str(tmp_path / "model"), "--sample", "2"])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert {each.name for each in tmp_path.iterdir()} <= {"folder", "model"}
    if code == 0:
        assert (tmp_path / "model" / "certificate.json").is_file()
        assert kind in ("noise", "header", "lengths", "longer")
    else:
        assert not (tmp_path / "model").exists()
        assert "folder" in captured.err


def test_a_huge_length_takes_no_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = opennmt_folder(tmp_path / "folder")
    header = struct.pack("<IH", 6, 16) + b"TransformerSpec\0" + struct.pack("<II", 7, 1) + struct.pack("<H", 2) + b"x\0"
    huge = struct.pack("<BII", 2, 1 << 15, 1 << 14) + struct.pack("<BI", 0, 1 << 31)
    (folder / "model.bin").write_bytes(header + huge)
    message = refused(folder, tmp_path / "model", capsys)
    assert "model.bin" in message
    assert "'x' needs 2,147,483,648 bytes, and 0 are left" in message


# --- folders of downloads -------------------------------------------------------------------------------------


def test_a_folder_of_downloads_is_listed(archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    downloads = tmp_path / "downloads"
    marian_folder(downloads / "opus")
    shutil.copy(archive, downloads / "en_de.argosmodel")
    argos_folder(downloads / "prefixed", target_prefix="__sv__")
    (downloads / "npz").mkdir()
    (downloads / "npz" / "decoder.yml").write_text("models: [opus.npz]\n")
    (downloads / "damaged.argosmodel").write_bytes(b"no archive")
    broken = opennmt_folder(downloads / "broken")
    (broken / "model.bin").write_bytes((broken / "model.bin").read_bytes()[:5000])
    (downloads / "notes.txt").write_text("x")
    assert cli(["import", "--list", str(downloads), "--json"]) == 0
    listed = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    found = {name: (each["format"], each["source_language"], each["problem"] == "") for name, each in listed.items()}
    assert found == {
        "broken": ("ctranslate2", "", False),
        "damaged.argosmodel": ("argos", "", False),
        "en_de.argosmodel": ("argos", "en", True),
        "notes.txt": ("", "", False),
        "npz": ("marian", "", False),
        "opus": ("ctranslate2", "", True),
        "prefixed": ("argos", "", False),
    }
    assert listed["notes.txt"]["problem"] == "no format fits: it is a file that ends in '.txt'."
    assert "target_prefix" in listed["prefixed"]["problem"]
    assert "model.bin" in listed["broken"]["problem"]
    assert listed["en_de.argosmodel"]["num_bytes"] == archive.stat().st_size
    assert cli(["import", "--list", str(downloads)]) == 0
    table = capsys.readouterr().out.splitlines()
    assert len(table) == 2 + len(found)
    assert "en → de" in next(line for line in table if "en_de" in line)


def test_listing_reads_no_weights(tmp_path: Path) -> None:
    folder = opennmt_folder(tmp_path / "downloads" / "opus", "float32")
    [download] = list_downloads(tmp_path / "downloads")
    assert download.problem == ""
    data = bytearray((folder / "model.bin").read_bytes())
    place = data.find(b"decoder/embeddings/weight\0") + 100
    data[place : place + 1000] = b"\xff" * 1000  # not finite
    (folder / "model.bin").write_bytes(data)
    [download] = list_downloads(tmp_path / "downloads")
    assert download.problem == ""
    with pytest.raises(BundleError, match="decoder/embeddings/weight has numbers that are infinite"):
        import_model(folder, tmp_path / "model")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--list", "x", "--output", "y"], "--list DIR imports nothing"),
        (["x"], "--output MODEL"),
        (["--json"], "--list"),
        (["x", "--output", "y", "--no-compare", "--max-difference", "0.1"], "--max-difference is for the comparison"),
        (["x", "--output", "y", "--no-compare", "--force"], "--force is for the comparison"),
    ],
)
def test_options_that_do_not_go_together(arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["import", *arguments]) == 2
    assert named in capsys.readouterr().err
