"""Translation memories: the pairs of a TMX file, versions 1.1 to 1.4b, in a stream.

`expat` reads the file block by block. Memory holds the unit (`tu`) that is being read, and 16 bytes for each run of
units that are skipped. Nothing outside the file is read, and a file that declares entities is refused.

A pair is a unit with a segment in both languages; other units are skipped. A variant (`tuv`) is in a language if it has
the same code, or else a code of the same language: "en" finds "en-US" and "EN_gb". Of several variants in a language,
the one with the same code is taken, or else the first. Where a language is not given, the header's `srclang` is the
source, and the only other language of the file is the target.

Of a segment, the text is taken, that of `hi` included. The codes of a program (`bpt`, `ept`, `ph`, `it`, `ut`) are left
out with all that they hold (`sub`). A run of white space with a line end or a tab becomes one space, and so does a
code that is a line break. Spaces at both ends are removed.
"""

import re
import xml.parsers.expat
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path

from transduce.errors import DataError
from transduce.reporting.tables import counted

_MAX_DEPTH = 100
_MAX_SEGMENT_CHARACTERS = 1 << 20
_MAX_TAG_BYTES = 2 << 20  # or bytes of a comment: `expat` holds it in memory, and scans it again with each block
_MAX_LANGUAGES, _MAX_CODE_CHARACTERS = 1000, 60
_CODES = frozenset(("bpt", "ept", "ph", "it", "ut", "sub"))
_LINE_BREAKS = frozenset(("lb", "pb", "cb"))  # types of `ph`: breaks of a line, page or column
_BREAKS = re.compile("[\t\n\r\x85\u2028\u2029]+")
_SHOWN_SKIPPED, _SHOWN_LANGUAGES = 3, 30
_EXACT, _SAME_LANGUAGE = 2, 1


def is_tmx(path: Path) -> bool:
    """Returns whether a file is a translation memory, by its name: `.tmx`, `.tmx.gz` or `.tmx.zst`."""
    return path.name.lower().removesuffix(".gz").removesuffix(".zst").endswith(".tmx")


class TranslationMemory:
    """The pairs of a TMX file, and which unit each of them is.

    Attributes:
        languages: codes of source and target as they were given, or as the file has them, once its pairs are read.
        num_units: units read so far.
        num_pairs: pairs read so far; other units were skipped.
        skipped: numbers of the first few units that were skipped, from 1.
    """

    def __init__(self, name: str, languages: tuple[str, str] = ("", "")) -> None:
        """Describes a file.

        Args:
            name: of the file, for errors.
            languages: codes of source and target; "" where they are not known.
        """
        self._name = name
        self._given = self.languages = languages
        self._begin()

    def _begin(self) -> None:
        self.num_units = self.num_pairs = 0
        self.skipped: list[int] = []
        # Of each run of pairs without a skipped unit between them: the first pair, and how many units were skipped.
        self._first_pairs, self._offsets = array("q", [1]), array("q", [0])

    def pairs(self, blocks: Iterable[bytes]) -> Iterator[tuple[str, str]]:
        """Yields source and target of each unit that has both.

        Args:
            blocks: the content of the file.

        Raises:
            DataError: the file is damaged, hostile or not TMX, no unit is in both languages, or the languages are not
                known; after the pairs that were good.
        """
        self._begin()
        units = _UnitReader(self._name, self._given)
        for unit in units.read(blocks):
            self.num_units += 1
            if unit is None:
                if len(self.skipped) < _SHOWN_SKIPPED:
                    self.skipped.append(self.num_units)
                continue
            self.num_pairs += 1
            offset = self.num_units - self.num_pairs
            if offset != self._offsets[-1]:
                self._offsets.append(offset)  # first, for `unit` may run in another thread
                self._first_pairs.append(self.num_pairs)
            yield unit
        self.languages = units.languages
        if self.num_units and not self.num_pairs:
            source, target = units.languages
            raise DataError(
                f"{self._name}: none of its {counted(self.num_units, 'unit')} has a text in both '{source}' and "
                f"'{target or '?'}'. {units.found_languages()}"
            )

    def unit(self, pair: int) -> int:
        """Returns the number of the unit that the pair with this number is; both from 1."""
        return pair + self._offsets[bisect_right(self._first_pairs, pair) - 1]


class _UnitReader:
    """Yields the units of a file: source and target, or None where a language is missing."""

    def __init__(self, name: str, languages: tuple[str, str]) -> None:
        self._name = name
        self._wanted = list(languages)
        self._open_sides = [side for side in (0, 1) if not languages[side]]
        self._sides: dict[str, tuple[int, int] | None] = {}  # of each code: its side, and how well it matches
        self._is_unclear = False  # which two languages are meant
        self._depth = self._unit_depth = self._segment_depth = self._code_depth = 0  # 0: not in such an element
        self._ranks, self._sides_of_unit = [0, 0], ["", ""]  # of the unit: how well each side matches, and its text
        self._variant: tuple[int, int] | None = None
        self._texts: list[str] = []
        self._found: list[tuple[str, str] | None] = []
        self._num_bytes = 0
        self._parser = xml.parsers.expat.ParserCreate()
        self._parser.StartElementHandler = self._start_element
        self._parser.EndElementHandler = self._end_element
        self._parser.StartDoctypeDeclHandler = self._start_doctype
        self._parser.SkippedEntityHandler = self._skip_entity

    @property
    def languages(self) -> tuple[str, str]:
        source, target = self._wanted
        return source, target

    def found_languages(self) -> str:
        """Returns the languages of the file, and how to name two of them, in words."""
        more = ", …" if len(self._sides) > _SHOWN_LANGUAGES else ""
        found = ", ".join(sorted(self._sides)[:_SHOWN_LANGUAGES]) or "none"
        return (
            f"The languages in it: {found}{more}. Name two of them: source_language and target_language of the corpus "
            "or of [data] in a recipe, or the command's options for languages."
        )

    def read(self, blocks: Iterable[bytes]) -> Iterator[tuple[str, str] | None]:
        for block in blocks:
            failure = self._parse(block)
            yield from self._found
            self._found.clear()
            if failure is not None:  # only after the good units, so that work done on them is kept
                raise failure
        if (failure := self._parse(b"", is_final=True)) is not None:
            raise failure
        if self._is_unclear:
            raise DataError(f"{self._name}: it is not clear which languages are meant. {self.found_languages()}")

    def _parse(self, block: bytes, *, is_final: bool = False) -> DataError | None:
        try:
            self._parser.Parse(block, is_final)
        except DataError as error:  # of one of the handlers
            return error
        except xml.parsers.expat.ExpatError as error:
            problem = xml.parsers.expat.ErrorString(error.code)
            advice = "Save the file again with the program it is from."
            if error.code == xml.parsers.expat.errors.codes[xml.parsers.expat.errors.XML_ERROR_INVALID_TOKEN]:
                advice = "Is it a bare '<' or '&', a control character, or another encoding than the file declares?"
            return DataError(f"{self._name}, line {error.lineno}, column {error.offset + 1}: {problem}. {advice}")
        except (LookupError, ValueError) as error:
            return DataError(f"{self._name}: its encoding is not supported ({error}). Convert it to UTF-8.")
        self._num_bytes += len(block)
        if sum(map(len, self._texts)) > _MAX_SEGMENT_CHARACTERS:
            return self._refused(f"a segment has more than {_MAX_SEGMENT_CHARACTERS:,} characters")
        if self._num_bytes - self._parser.CurrentByteIndex > _MAX_TAG_BYTES and not is_final:
            return self._refused(f"a tag or a comment has more than {_MAX_TAG_BYTES >> 20} MiB")
        return None

    def _refused(self, problem: str) -> DataError:
        parser = self._parser
        where = f"line {parser.CurrentLineNumber}, column {parser.CurrentColumnNumber + 1}"
        return DataError(f"{self._name}, {where}: {problem}. No usual program writes that; correct the file.")

    def _start_element(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._refused(f"elements are nested more than {_MAX_DEPTH} deep")
        if ":" in name:
            name = name.rpartition(":")[2]  # some files have a prefix for the namespace
        if self._segment_depth:
            if name in _CODES and not self._code_depth:
                self._code_depth = self._depth
                self._parser.CharacterDataHandler = None
                if attributes.get("type") in _LINE_BREAKS:
                    self._texts.append("\n")
        elif name == "seg":
            if self._variant is not None:
                self._segment_depth = self._depth
                self._parser.CharacterDataHandler = self._texts.append
        elif name == "tuv":
            self._start_variant(attributes.get("xml:lang") or attributes.get("lang", ""))
        elif name == "tu":
            self._unit_depth = self._depth
            self._ranks = [0, 0]
        elif name == "header":
            self._read_header(attributes.get("srclang", ""))
        elif self._depth == 1 and name != "tmx":
            raise DataError(f"{self._name}: is not TMX: its first element is <{name[:60]}>.")

    def _end_element(self, _: str) -> None:
        depth, self._depth = self._depth, self._depth - 1
        if depth == self._code_depth:
            self._code_depth = 0
            self._parser.CharacterDataHandler = self._texts.append
        elif depth == self._segment_depth:
            self._segment_depth = 0
            self._parser.CharacterDataHandler = None
            assert self._variant is not None  # else the segment is not read
            side, self._ranks[side] = self._variant
            self._sides_of_unit[side] = _as_line("".join(self._texts))
            self._texts.clear()
            self._variant = None
        elif depth == self._unit_depth:
            self._unit_depth = 0
            source, target = self._sides_of_unit
            self._found.append((source, target) if all(self._ranks) else None)

    def _start_variant(self, code: str) -> None:
        if code not in self._sides:
            code = " ".join(code.split())[:_MAX_CODE_CHARACTERS]
        if code not in self._sides:
            if len(self._sides) >= _MAX_LANGUAGES:
                raise self._refused(f"the file has more than {_MAX_LANGUAGES:,} languages")
            self._sides[code] = self._side(code)
        found = self._sides[code]
        is_better = found is not None and found[1] > self._ranks[found[0]]
        self._variant = found if is_better and self._unit_depth and not self._is_unclear else None

    def _side(self, code: str) -> tuple[int, int] | None:
        """Returns the side of a language, and how well it matches; None if it is neither source nor target."""
        if not code:
            return None
        for side, wanted in enumerate(self._wanted):
            if wanted and _normal(code) == _normal(wanted):
                return side, _EXACT
        source, target = map(_language, self._wanted)
        if source != target and (language := _language(code)) in (source, target):
            return int(language == target), _SAME_LANGUAGE
        if len(self._open_sides) == 1 and not self._wanted[self._open_sides[0]]:
            self._wanted[self._open_sides[0]] = code
            return self._open_sides[0], _EXACT
        self._is_unclear = self._is_unclear or bool(self._open_sides)
        return None

    def _read_header(self, language: str) -> None:
        """Takes the source language from the header, if none was given."""
        is_target = _language(language) == _language(self._wanted[1])
        if 0 in self._open_sides and language not in ("", "*all*") and not is_target:
            self._wanted[0] = language[:_MAX_CODE_CHARACTERS]
            self._open_sides.remove(0)

    def _start_doctype(self, _: str, __: str | None, ___: str | None, has_internal_subset: int) -> None:
        if has_internal_subset:
            raise self._refused("the file declares entities or elements of its own (<!DOCTYPE … [ … ]>)")

    def _skip_entity(self, name: str, is_parameter: bool) -> None:
        if not is_parameter:
            raise self._refused(f"undefined entity &{name[:60]};")


def _normal(code: str) -> str:
    return code.replace("_", "-").lower()


def _language(code: str) -> str:
    """Returns a code without region and script. `transduce.text.languages` has this too, but is slow to import."""
    return _normal(code).partition("-")[0]


def _as_line(text: str) -> str:
    """Returns a segment as one line without tabs."""
    if not _BREAKS.search(text):
        return text.strip(" ")
    parts = (part.strip(" ") for part in _BREAKS.split(text))  # split first: a pattern with spaces could be quadratic
    return " ".join(filter(None, parts))
