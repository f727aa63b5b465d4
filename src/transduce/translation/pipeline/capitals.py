"""Capitals: text in capitals, or a title, is translated as ordinary text, and its translation gets the capitals.

Training text has few capitals. So a subword vocabulary cuts a word in capitals into single letters, and most models
have not learned what they mean. Each word is therefore written in the form that the vocabulary knows best: of "hund",
"Hund" and "HUND", the one with the fewest pieces, and of equals the one whose pieces come first, as vocabularies begin
with what is frequent. So German nouns, names and "NATO" keep their capitals.

Nothing changes the length of a text here: spans of characters stay right.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from transduce.text import UNK, Tokenizer
from transduce.text.signs import ACCENTS, is_caseless
from transduce.translation.pipeline.markup import Notation, scan
from transduce.translation.pipeline.sentences import Span, sentence_spans
from transduce.translation.pipeline.text_options import TextOptions
from transduce.translation.result import Results, Translation
from transduce.translation.windows import Window

_LETTERS = rf"[^\W\d_]+(?:[{ACCENTS}]+[^\W\d_]*)*+"  # possessive: else it takes exponential time
# Not a part of an address, a path or a code.
_WORD = re.compile(rf"(?<![\w@/\\:%#.{ACCENTS}]){_LETTERS}(?:['’]{_LETTERS})*(?![\w@/\\{ACCENTS}]|[.:][\w/])")
_FEWEST_IN_CAPITALS = 2  # words of two letters or more: one alone may be a name, such as NATO
_FEWEST_OF_TITLE = 4  # words: fewer with a capital each may be names
_OTHER_RULES = ("tr", "az")  # languages in which the small form of I is ı


@dataclass(frozen=True, slots=True)
class _Recased:
    """A sentence, or a whole line, whose capitals are removed."""

    span: Span
    words: list[Span]
    restore: Callable[[str], str]  # gives a word of the translation the capitals of the source


class Capitals:
    """The capitals of some lines."""

    def __init__(self, window: Window, tokenizer: Tokenizer, text_options: TextOptions, target: str) -> None:
        """Finds the lines, or with `split="always"` the sentences, that are in capitals or have a title's.

        Lines with a prefix or required terms are left alone, as are tags and items such as addresses.

        Args:
            window: the lines.
            tokenizer: of the model's sources.
            text_options: how the lines are translated.
            target: code of the target language.
        """
        self._window, self._tokenizer = window, tokenizer
        self._language = text_options.language
        self._notation = text_options.notation
        self._by_sentence = text_options.split == "always"
        is_other = any(code.partition("-")[0] in _OTHER_RULES for code in (self._language, target))
        self._found: dict[int, list[_Recased]] = {}
        for index, line in enumerate(window.lines):
            if is_other or window.constraints_of(index).bind_whole_line or not any(map(str.isupper, line)):
                continue
            if found := self._recased(line):
                self._found[index] = found

    @property
    def lines(self) -> list[int]:
        """The indices of these lines."""
        return list(self._found)

    def removed(self) -> Window:
        """Returns the lines as ordinary text."""
        if not self._found:
            return self._window
        lines = list(self._window.lines)
        words = {
            lines[index][slice(*span)] for index, each in self._found.items() for one in each for span in one.words
        }
        known = _known_forms(sorted(words), self._tokenizer)
        for index, found in self._found.items():
            line, written = lines[index], list(lines[index])
            outside = _words(line, self._notation)
            sentences = (_within(outside, *span) for span in sentence_spans(line, self._language))
            first = {each[0] for each in sentences if each}
            for start, end in (span for each in found for span in each.words):
                form = known[line[start:end]]
                written[start:end] = _capitalized(form) if (start, end) in first else form
            lines[index] = "".join(written)
        return replace(self._window, lines=lines)

    def restored(self, results: Results) -> Results:
        """Returns the translations with the capitals of their sources."""
        return [
            [self._restored(best, self._found[index]) for best in found] if index in self._found else found
            for index, found in enumerate(results)
        ]

    def _recased(self, line: str) -> list[_Recased]:
        words = _words(line, self._notation)
        spans = sentence_spans(line, self._language) if self._by_sentence else [(0, len(line))]
        found = []
        for start, end in spans:
            inside = [span for span in _within(words, start, end) if _has_case(line[slice(*span)])]
            restore = _kind([line[slice(*span)] for span in inside])
            if restore and not any(map(is_caseless, line[start:end])):
                found.append(_Recased((start, end), inside, restore))
        return found

    def _restored(self, best: Translation, parts: Sequence[_Recased]) -> Translation:
        written, outside = list(best.text), _words(best.text, self._notation)
        starts = [part.span[0] for part in parts]
        for source, target in best.sentences:
            part = parts[max(0, bisect_right(starts, source[0]) - 1)]
            if part.span[0] <= source[0] < part.span[1]:
                for start, end in _within(outside, *target):
                    written[start:end] = part.restore(best.text[start:end])
        text, words, at = "".join(written), [], 0
        for word, probability in best.words:
            if (found := best.text.find(word, at)) >= 0:
                at = found + len(word)
                word = text[found:at]
            words.append((word, probability))
        return replace(best, text=text, words=tuple(words))


def _kind(words: Sequence[str]) -> Callable[[str], str] | None:
    """Returns what restores the capitals of a text with these words; None: it is ordinary text."""
    if all(map(str.isupper, words)):
        return _upper if sum(sum(map(str.isalpha, word)) > 1 for word in words) >= _FEWEST_IN_CAPITALS else None
    return _capitalized if len(words) >= _FEWEST_OF_TITLE and all(word[0].isupper() for word in words) else None


def _words(text: str, notation: Notation) -> list[Span]:
    """Returns the words of a text that are part of no markup and no item."""
    kept = [(found.start, found.end) for found in scan(text, notation)]
    ends = [end for _, end in kept]
    found = []
    for match in _WORD.finditer(text):
        start, end = match.span()
        next_kept = bisect_right(ends, start)
        if next_kept == len(kept) or kept[next_kept][0] >= end:
            found.append((start, end))
    return found


def _within(words: list[Span], start: int, end: int) -> list[Span]:
    """Returns the words that begin in a part of their text."""
    return words[bisect_left(words, (start, start)) : bisect_left(words, (end, end))]


def _known_forms(words: Sequence[str], tokenizer: Tokenizer) -> dict[str, str]:
    """Returns for each word the form that the vocabulary knows best."""
    forms = {word: [_lower(word), _capitalized(_lower(word)), word] for word in words}
    flat = [form for each in forms.values() for form in each]
    # After another word: a word that begins a text may have other pieces.
    encoded = tokenizer.encode_batch([f"a {form}" for form in flat])
    costs = {form: (ids.count(UNK), len(ids), sum(ids)) for form, ids in zip(flat, encoded, strict=True)}
    return {word: min(each, key=costs.__getitem__) for word, each in forms.items()}


def _has_case(word: str) -> bool:
    return word.upper() != word.lower()


def _lower(word: str) -> str:
    """Returns a word in small letters; İ, whose small form is two characters, stays."""
    lowered = word.lower()  # whole, since the Greek Σ has another small form at the end
    if len(lowered) == len(word):
        return lowered
    return "".join(map(_lower, word)) if len(word) > 1 else word


def _upper(word: str) -> str:
    """Returns a word in capitals; ß becomes ẞ, which is one character as well."""
    return "".join(capital if len(capital := each.upper()) == 1 else each for each in word.replace("ß", "ẞ"))


def _capitalized(word: str) -> str:
    """Returns a word with a capital at its beginning; Georgian has capitals for whole words only."""
    first = word[0].title()
    return first + word[1:] if len(first) == 1 else word
