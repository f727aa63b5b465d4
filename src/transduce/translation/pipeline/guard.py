"""The stage "guard": outputs that repeat themselves or copy their source are searched for again, or get a warning.

A model that is lost writes "a man in a a a a a", or the same phrase again and again, or copies its source. Both are
rare in a good model, and simple counts find them. The thresholds are such that real translations do not cross them
(tests/integration/test_guard.py counts on Multi30k).
"""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from transduce.config import DecodeConfig
from transduce.text.phrases import is_in_word
from transduce.translation.pipeline.atoms import atoms
from transduce.translation.pipeline.checkpoints import Checkpoint
from transduce.translation.pipeline.splitting import Part
from transduce.translation.pipeline.survival import mark_counts, without_items
from transduce.translation.pipeline.text_options import Markup
from transduce.translation.result import Results, Translation

Search = Callable[[Sequence[Part], DecodeConfig, int], Results]

REPEATS = "repeats itself"
COPIES = "copies the source"

_LONGEST_PHRASE = 12  # atoms of a phrase that may be repeated
_WORD_TIMES = 4  # a word that occurs this often in a row is a loop ("very very very" is none)
_PHRASE_TIMES = 3  # a phrase likewise
_CHARACTER_TIMES = 16  # a single character or sign likewise: "!!!!!", ".........", 哈哈哈哈
_COPY_NGRAM = 4
_COPY_SHARE = 0.5  # of the output's 4-grams of words that are in the source
_COPY_WORDS = 6  # an output of fewer words is never a copy: names, titles, numbers
_RETRY_BEAM = 4
_RETRY_NGRAM = 3
_SEEDS = 2**62  # seeds are smaller


def repeats(text: str, source: str = "") -> bool:
    """Returns whether `text` has a word or phrase several times in a row, more often than `source` has any."""
    most = max((times for times, length, is_word in _runs(text) if times >= _allowed(length, is_word)), default=1)
    return most > 1 and most > max((times for times, _, _ in _runs(source)), default=1)


def copies(text: str, source: str) -> bool:
    """Returns whether most of `text` is in `source`, word for word."""
    words, given = _words(text), _words(source)
    # In a script without spaces each character is a word here: two count as one.
    size = 1 if 2 * sum(is_in_word(word[0]) for word in words) >= len(words) else 2
    if len(words) < size * _COPY_WORDS:
        return False
    known, written = set(_ngrams(given, size * _COPY_NGRAM)), _ngrams(words, size * _COPY_NGRAM)
    return sum(ngram in known for ngram in written) >= _COPY_SHARE * len(written)


def _words(text: str) -> list[str]:
    text = text.casefold()
    return [word for start, end in atoms(text) if any(map(str.isalpha, word := text[start:end]))]


def _ngrams(words: Sequence[str], length: int) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + length]) for i in range(len(words) - length + 1)]


def doubts(source: str, text: str, *, same_language: bool = False) -> tuple[str, ...]:
    """Returns what is wrong with a translation: nothing, `REPEATS`, `COPIES` or both."""
    looped = (REPEATS,) if repeats(text, source) else ()
    return (*looped, COPIES) if not same_language and copies(text, source) else looped


def guard(
    results: Results,
    parts: Sequence[Part],
    options: DecodeConfig,
    n_best: int,
    search: Search,
    checkpoint: Checkpoint,
    *,
    same_language: bool,
    markup: Markup = "none",
) -> Results:
    """Returns the results. If the best one of a part is wrong, it is replaced by another one, or gets a warning.

    The rest of the n-best list is tried first, then a search that may not repeat three tokens. Random draws are drawn
    again, with other seeds. Items that are to be copied, such as URLs, are left out of account.
    """

    def bad(index: int, candidate: Translation) -> tuple[str, ...]:
        checkpoint()
        source, text = parts[index].text, candidate.text
        if items := frozenset(mark_counts(source, markup)):
            source, text = (without_items(side, markup, items) for side in (source, text))
        return doubts(source, text, same_language=same_language)

    waiting = [index for index, found in enumerate(results) if bad(index, found[0])]
    for again in _retries(options, n_best):
        if not waiting:
            break
        found = search([parts[index] for index in waiting], again, max(n_best, again.beam_size))
        for index, candidates in zip(waiting, found, strict=True):
            clean = [candidate for candidate in candidates if not bad(index, candidate)]
            results[index] = clean[:n_best] or results[index]
        waiting = [index for index in waiting if bad(index, results[index][0])]
    for index in waiting:
        results[index] = [replace(found, warnings=(*found.warnings, *bad(index, found))) for found in results[index]]
    return results


def _retries(options: DecodeConfig, n_best: int) -> list[DecodeConfig]:
    beam_size = max(options.beam_size, n_best, _RETRY_BEAM)
    if options.temperature > 0:
        first, second = ((options.seed + added) % _SEEDS for added in (1, 2))
        again = replace(options, beam_size=beam_size, seed=first)
        return [again, replace(again, seed=second, no_repeat_ngram=_RETRY_NGRAM)]
    wide = replace(options, beam_size=beam_size, diversity_groups=1)
    return [wide, replace(wide, no_repeat_ngram=_RETRY_NGRAM)]


def _allowed(length: int, is_word: bool) -> int:
    return _PHRASE_TIMES if length > 1 else _WORD_TIMES if is_word else _CHARACTER_TIMES


def _runs(text: str) -> list[tuple[int, int, bool]]:
    """Returns (times, length, whether it has a word) of each phrase that occurs several times in a row."""
    words = [text[start:end].casefold() for start, end in atoms(text)]
    pairs = list(pairwise(words))
    if len(set(pairs)) == len(pairs) and all(first != second for first, second in pairs):
        return []  # most texts: a phrase that follows itself has a pair of words twice
    found = []
    for length in range(1, min(_LONGEST_PHRASE, len(words) // 2) + 1):
        equal = bytes(map(operator.eq, words[length:], words))
        for run in re.finditer(b"\x01{%d,}" % length, equal):
            phrase = words[run.end() : run.end() + length]
            # One word again and again is no phrase, nor are signs; nor is a single character a word.
            varied = len(phrase[0] if length == 1 else set(phrase)) > 1
            has_words = varied and any(map(str.isalpha, "".join(phrase)))
            # The last time, a phrase may end with another sign: ", … , … , … ."
            whole = run.end() - run.start() + (length > 2)
            if length == 1 or has_words:
                found.append((whole // length + 1, length, has_words))
    return found
