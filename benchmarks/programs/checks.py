"""What is compared between a document of a program and its translation."""

import re
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Sequence
from pathlib import Path

from programs import texts
from programs.frames import READERS, counted, frame_of, prose
from programs.recipes import run

_TARGETS = re.compile(
    r"\s*(?:<target\b[^>]*/>|<target\b[^>]*(?<!/)>.*?</target>|<tuv xml:lang=\"de\">.*?</tuv>)", re.DOTALL
)
_LETTERS = re.compile(r"[^\W\d_]{4,}")
# Words of the sources that are prose, less those that are also names of elements and the like.
_PROSE = {
    word for word in _LETTERS.findall(texts.MARKDOWN + texts.MKDOCS + texts.RST + texts.RST_SECOND) if word.islower()
}
_PROSE -= set(_LETTERS.findall(
    "keep https example note title lang author picture python code block math image table list link header text rows "
    "function param return heading term name width html page fetches method words the this true only class"
))  # fmt: skip
_COPIED = re.compile(
    r"\]\([^()]*\)|\{[^{}]*\}|<(?P<name>code|pre|script|style|svg|annotation|kbd)\b.*?</(?P=name)>|<!--.*?-->|<[^>]*>|```.*?```|`[^`]*`",
    re.DOTALL,
)
_BUILT = re.compile(rb"Build Date UTC : [^\n]*")
_MOST_SHOWN = 5


def around(name: str, given: bytes, found: bytes) -> list[str]:
    """Returns what is not as it was around the prose."""
    ending = name.rpartition(".")[2]
    if ending in ("po", "pot"):
        return _catalogue(given.decode(), found.decode())
    if ending in ("xlf", "sdlxliff", "mqxliff", "mxliff", "tmx"):
        without = [_TARGETS.sub("", each.decode("utf-8-sig")) for each in (given, found)]
        return _different(without[0].split(), without[1].split()) + _targets(found, ending)
    return _different(frame_of(name, given), frame_of(name, found))


def _different(given: object, found: object) -> list[str]:
    """Returns the first difference between two frames."""
    if given == found:
        return []
    if isinstance(given, list) and isinstance(found, list):
        if len(given) != len(found):
            lengths = f"{len(given)} parts, now {len(found)}"
            place = next((i for i, (a, b) in enumerate(zip(given, found, strict=False)) if a != b), len(found))
            return [f"{lengths}; at {place}: {given[place : place + 3]} → {found[place : place + 3]}"[:600]]
        return next(inner for a, b in zip(given, found, strict=True) if (inner := _different(a, b)))
    if isinstance(given, tuple) and isinstance(found, tuple) and len(given) == len(found) == 2 and given[0] == found[0]:
        return [f"{given[0]}: {each}" for each in _different(given[1], found[1])]
    if isinstance(given, str) and isinstance(found, str):
        place = next((i for i, (a, b) in enumerate(zip(given, found, strict=False)) if a != b), 0)
        return [f"…{given[max(0, place - 40) : place + 40]!r} → …{found[max(0, place - 40) : place + 40]!r}"]
    return [f"{given!r} → {found!r}"[:600]]


def _catalogue(given: str, found: str) -> list[str]:
    """Compares all but the translations of two catalogues, in the layout that gettext gives both."""
    entries = []
    for text in (given, found):
        with tempfile.NamedTemporaryFile(suffix=".po") as file:
            # A template's encoding and language are named in its translation, as msginit does.
            named = re.sub(
                r'"Language: .*\n', '"Language: de\\\\n"\n', text.replace("charset=CHARSET", "charset=UTF-8")
            )
            Path(file.name).write_text(named, encoding="utf-8")
            entries.append(run(["msgcat", "--no-wrap", file.name], Path("/")).split("\n\n"))
    wrong = []
    for i, (before, after) in enumerate(zip(*entries, strict=True)):
        one, other = (
            re.sub(r"^(msgstr(?:\[\d\])?) .*(?:\n\".*)*", r"\1", each, flags=re.MULTILINE) for each in (before, after)
        )
        if one != other or (i == 0 and before != after):
            wrong.append(f"{before} → {after}")
        if i and 'msgstr ""' in after.replace('msgstr ""\n"', "") and "#~" not in after:
            wrong.append(f"not translated: {after}")
    return wrong[:_MOST_SHOWN]


def _targets(found: bytes, ending: str) -> list[str]:
    """Compares targets with their sources: the same words but for their case, and the same elements."""
    wrong = []
    unit, source, target = ("tu", "seg", "seg") if ending == "tmx" else ("trans-unit", "source", "target")
    for each in ET.fromstring(found).iter():
        if each.tag.rpartition("}")[2] != unit or each.get("translate") == "no":
            continue
        one, other = (_side(children, name) for children, name in ((list(each), source), (list(each)[::-1], target)))
        if one is None or other is None:
            wrong.append(f"no target: {ET.tostring(each)[:300]!r}")
        elif one != other and one[0] and not other[0].startswith("keep"):
            wrong.append(f"{one} → {other}"[:400])
    return wrong[:_MOST_SHOWN]


def _side(children: Sequence[ET.Element], name: str) -> tuple[str, list[tuple[str, dict[str, str]]]] | None:
    """Returns the words and the elements of the first child with a name; None if there is none."""
    found = next((each for each in children if each.tag.rpartition("}")[2] in (name, "tuv")), None)
    if found is None:
        return None
    elements = [(each.tag, each.attrib) for each in found.iter() if each.get("mtype") != "seg"]
    return prose("".join(found.itertext())), elements[1:]


def lost(reader_key: str, given: Path, found: Path) -> tuple[dict[str, int], list[str]]:
    """Returns what pandoc counts in a document, and what differs in its translation."""
    reader = READERS.get(given.suffix[1:], READERS.get(reader_key, "markdown"))
    (before, held), (after, still_held) = (counted(reader, str(path)) for path in (given, found))
    wrong = [f"pandoc counts {name}: {before.get(name, 0)} → {after.get(name, 0)}" for name in {*before, *after}
             if before.get(name) != after.get(name)]  # fmt: skip
    return before, wrong + _different(held, still_held)


def untranslated(name: str, found: bytes) -> list[str]:
    """Returns words of prose that are as they were."""
    if name.rpartition(".")[2] in ("docx", "pptx", "odt", "ott", "odp", "epub"):
        with tempfile.TemporaryFile() as file:
            file.write(found)
            with zipfile.ZipFile(file) as archive:
                text = "\n".join(
                    archive.read(each).decode() for each in archive.namelist() if each.endswith(("xml", "html", "ncx"))
                )
    else:
        text = found.decode("utf-8-sig")
    text = _COPIED.sub(" ", text)
    return sorted(set(_LETTERS.findall(text)) & _PROSE)


def opened(given: Sequence[Path], found: Sequence[Path]) -> dict[str, str]:
    """Opens documents and translations with the programs that own the formats; returns what is wrong, by names."""
    wrong: dict[str, str] = {}
    pairs = list(zip(given, found, strict=True))
    for kinds, form in ((("docx", "odt", "ott"), "txt:Text (encoded):UTF8"), (("pptx", "odp"), "odp")):
        wrong |= _office([pair for pair in pairs if pair[0].suffix[1:] in kinds], form)
    wrong |= _site([pair for pair in pairs if (pair[0].parents[1] / "mkdocs.yml").exists()])
    for before, after in pairs:
        try:
            match after.suffix:
                case ".po" | ".pot":
                    # An empty header is an error of every template.
                    run(
                        ["msgfmt", *(["-c"] if after.suffix == ".po" else []), "-o", "/dev/null", str(after)],
                        after.parent,
                    )
                case ".srt" | ".vtt":
                    cues = [
                        run(["ffmpeg", "-v", "error", "-i", str(path), "-f", "srt", "-"], after.parent)
                        for path in (before, after)
                    ]
                    assert prose(cues[0]) == prose(cues[1]), "FFmpeg reads other cues"
                case ".xlf" | ".sdlxliff" | ".mqxliff" | ".mxliff":
                    run(["xmlstarlet", "val", "-e", str(after)], after.parent)
                    with tempfile.TemporaryDirectory() as folder:
                        shutil.copy(after, f"{folder}/a.xlf")
                        run(["xliff2po", "--progress=none", "a.xlf", "a.po"], Path(folder))
                        words = (Path(folder) / "a.po").read_text(encoding="utf-8")
                    assert "msgstr" in words, "xliff2po finds no unit"
                case ".tmx" | ".xhtml":
                    run(["xmlstarlet", "val", "-e", str(after)], after.parent)
                case _:
                    pass
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            wrong[before.name] = f"{error} {getattr(error, 'stderr', '') or ''}"[:400]
    return wrong


def _site(pages: Sequence[tuple[Path, Path]]) -> dict[str, str]:
    """Builds a site of MkDocs from translated pages, and compares what is on it."""
    if not pages:
        return {}
    source = pages[0][0].parents[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "mkdocs"
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*.translated.*", "site"))
        for given, found in pages:
            shutil.copy(found, folder / "docs" / given.name)
        run(["mkdocs", "build", "-q", "--strict", "-f", "mkdocs.yml"], folder)
        sides = [
            [
                frame_of("a.html", _BUILT.sub(b"", (each / "site" / page).read_bytes()))
                for page in ("index.html", "guide/index.html")
            ]
            for each in (source, folder)
        ]
    wrong = _different(*sides)
    return {pages[0][0].name: f"MkDocs builds another page: {wrong[0]}"} if wrong else {}


def _office(pairs: Sequence[tuple[Path, Path]], form: str) -> dict[str, str]:
    """Compares what LibreOffice reads of documents and of their translations."""
    wrong: dict[str, str] = {}
    if not pairs:
        return wrong
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for i, pair in enumerate(pairs):
            for side, path in zip("ab", pair, strict=True):
                shutil.copy(path, folder / f"{i}{side}{path.suffix}")
        home = "-env:UserInstallation=file:///tmp/documents-of-programs-office"
        files = [each.name for each in sorted(folder.iterdir())]
        run(["soffice", home, "--headless", "--convert-to", form, "--outdir", "out", *files], folder)
        for i, (before, _) in enumerate(pairs):
            read = []
            for side in "ab":
                path = folder / "out" / f"{i}{side}.{form[:3]}"
                if form == "odp" and path.exists():
                    with zipfile.ZipFile(path) as archive:
                        read.append(prose("".join(ET.fromstring(archive.read("content.xml")).itertext())))
                else:
                    read.append(prose(path.read_text(encoding="utf-8-sig")) if path.exists() else "")
            if read[0] != read[1] or not read[0]:
                wrong[before.name] = f"LibreOffice reads other text: {_different(*read)}"
    return wrong
