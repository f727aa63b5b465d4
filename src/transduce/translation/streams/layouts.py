"""Layouts: a line of a file is a text, a JSON object or a row of columns; its translations become rows of the output.

What is not translated stays as it is, byte for byte.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from transduce.errors import ConfigError, DataError, suggestion
from transduce.reporting.tables import counted

if TYPE_CHECKING:
    from transduce.translation.result import Translation

_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
_SHOWN_NAMES = 8  # of a JSON object's fields, in an error message


class Layout(Protocol):
    """Where lines hold their text. An immutable dataclass; its `repr` is part of a job's description."""

    def text(self, line: str, where: str) -> str:
        """Returns the text to translate; raises DataError, beginning with the line's name `where`, if there is none."""
        ...

    def rows(self, line: str, number: int, translations: Sequence["Translation"]) -> Iterator[str]:
        """Yields the rows, without line ends, of the line with this number (from 1)."""
        ...


@dataclass(frozen=True)
class PlainLines:
    """A line is a text. Several translations, or scores, are written as tab-separated rows."""

    many: bool = False  # a row for each translation, with the line's number in front
    scores: bool = False  # a column with the score
    confidence: bool = False  # a column with the confidence

    def text(self, line: str, where: str) -> str:
        """Returns the line."""
        return line

    def rows(self, line: str, number: int, translations: Sequence["Translation"]) -> Iterator[str]:
        """Yields the translation, or rows of [number] translation [score] [confidence]."""
        if not (self.many or self.scores or self.confidence):
            yield translations[0].text
            return
        for translation in translations if self.many else translations[:1]:
            columns = [str(number)] if self.many else []
            yield "\t".join([*columns, _cell(translation.text), *_measures(translation, self.scores, self.confidence)])


@dataclass(frozen=True)
class Columns:
    """A line is a row of tab-separated columns, one of which is translated."""

    column: int  # from 1
    replace: bool = False  # whether the translation replaces the column; else it is added as the last one
    scores: bool = False
    confidence: bool = False

    def __post_init__(self) -> None:
        if self.column < 1:
            raise ConfigError(f"column = {self.column}: columns count from 1.")

    def text(self, line: str, where: str) -> str:
        """Returns the column of the line; that of an empty line is empty."""
        columns = line.split("\t")
        if line and len(columns) < self.column:
            raise DataError(
                f"{where}: has {counted(len(columns), 'column')}, and column {self.column} is to be translated."
            )
        return columns[self.column - 1] if line else ""

    def rows(self, line: str, number: int, translations: Sequence["Translation"]) -> Iterator[str]:
        """Yields the one row, with the translation, its score and its confidence; an empty line stays empty."""
        if not line:
            yield ""
            return
        columns = line.split("\t")
        if self.replace:
            columns[self.column - 1] = _cell(translations[0].text)
        else:
            columns.append(_cell(translations[0].text))
        yield "\t".join([*columns, *_measures(translations[0], self.scores, self.confidence)])


@dataclass(frozen=True)
class JsonLines:
    """A line is a JSON object. The translation of one field becomes another field; the rest stays, byte for byte."""

    field: str
    into: str = "translation"
    many: bool = False  # all translations with their scores, in the field `into` + "_n_best"
    scores: bool = False  # in `into` + "_score"
    confidence: bool = False  # in `into` + "_confidence", and each word's probability in `into` + "_words"
    alignment: bool = False  # in `into` + "_alignment", and the spans of sentences in `into` + "_sentences"

    def __post_init__(self) -> None:
        if self.into == self.field:
            raise ConfigError(f"field '{self.field}': the translation cannot go into the field that it is made from.")

    def text(self, line: str, where: str) -> str:
        """Returns the field of the object; that of a line of white space is empty."""
        if not line.strip():
            return ""
        try:
            values = json.loads(line)
        except json.JSONDecodeError as error:
            raise _not_json(f"{where}, column {error.colno}", error.msg) from None
        except RecursionError:
            raise _not_json(where, "nested too deep") from None
        except ValueError:
            raise _not_json(where, "a number of too many digits") from None
        if not isinstance(values, dict):
            raise DataError(f"{where}: is not a JSON object ({{…}}), as each line must be.")
        if self.field not in values:
            names = ", ".join(list(values)[:_SHOWN_NAMES]) or "none"
            near = suggestion(self.field, values)
            raise DataError(f"{where}: has no field '{self.field}'.{near} It has: {names}.")
        for name in self._new_fields():
            if name in values:
                raise DataError(f"{where}: has a field '{name}' already: choose another name with --into.")
        text = values[self.field]
        if not isinstance(text, str):
            raise DataError(f"{where}: the field '{self.field}' is not a string, but {json.dumps(text)[:40]}.")
        if lone := _LONE_SURROGATE.search(text):
            raise DataError(
                f"{where}: the field '{self.field}' has half a character, \\u{ord(lone[0]):04x}, as where a text was "
                "cut within an emoji. Take it out."
            )
        return text

    def rows(self, line: str, number: int, translations: Sequence["Translation"]) -> Iterator[str]:
        """Yields the object with the new fields last; a line of white space stays as it is."""
        if not line.strip():
            yield line
            return
        added = json.dumps(self._values(translations), ensure_ascii=False)
        # Added to the text, not to the value, so that numbers, order and spacing of the other fields stay as they are.
        yield f"{line.rstrip()[:-1].rstrip()}, {added[1:]}"

    def _new_fields(self) -> list[str]:
        suffixes = [""] + ["_n_best"] * self.many + ["_score"] * self.scores
        suffixes += ["_confidence", "_words"] * self.confidence + ["_alignment", "_sentences"] * self.alignment
        return [self.into + suffix for suffix in [*suffixes, "_forced"]]

    def _values(self, translations: Sequence["Translation"]) -> dict[str, Any]:
        best = translations[0]
        values: dict[str, Any] = {self.into: best.text}
        if self.many:
            values[f"{self.into}_n_best"] = [
                {"text": t.text, "score": _finite(t.score), "log_probability": _finite(t.log_probability)}
                for t in translations
            ]
        if self.scores:
            values[f"{self.into}_score"] = _finite(best.score)
        if self.confidence:
            values[f"{self.into}_confidence"] = None if best.confidence is None else round(best.confidence, 6)
            values[f"{self.into}_words"] = [[word, round(probability, 6)] for word, probability in best.words]
        if self.alignment:  # tuples are written as lists
            values |= {f"{self.into}_alignment": best.alignment, f"{self.into}_sentences": best.sentences}
        if best.forced:
            values[f"{self.into}_forced"] = [list(choice) for choice in best.forced]
        return values


def _not_json(where: str, reason: str) -> DataError:
    return DataError(f"{where}: not JSON: {reason}. Each line must be one JSON object.")


def _cell(text: str) -> str:
    return text.replace("\t", " ")


def _finite(value: float) -> float | None:
    return round(value, 6) if abs(value) < float("inf") else None  # JSON has no infinity


def _measures(translation: "Translation", scores: bool, confidence: bool) -> list[str]:
    columns = [f"{translation.score:.6f}"] if scores else []
    if confidence:
        columns.append("" if translation.confidence is None else f"{translation.confidence:.6f}")
    return columns
