"""Searches for translations that keep constraints given as text.

An engine knows token ids only (`engines.interface.TokenConstraints`), and a text can be spelled in many ways:

prefix     passed on in the usual spelling, with the pieces that may complete its last word
forbidden  searched for in the text that comes out; if found, that spelling is forbidden and the line is searched again
required   searched for in the text that comes out; if missing, the line is searched again with the terms in the beam
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from transduce.config import DecodeConfig
from transduce.decoding.scores import Hypothesis, hypothesis
from transduce.engines.interface import TokenConstraints
from transduce.text import UNK, Tokenizer
from transduce.text.phrases import phrase_pattern
from transduce.translation.constraints.forced_terms import forced_terms
from transduce.translation.constraints.line_constraints import Constraints
from transduce.translation.constraints.required_terms import Choice, joining_pieces, missing, term_spellings
from transduce.translation.constraints.respellings import respellings
from transduce.translation.text_model import TextModel

_WIDE_BEAM = 8  # at least, in the last search for required terms
# Searches of one line for outputs without its forbidden phrases. The first ones forbid a spelling that begins within a
# word, as in "(dog", together with the piece before it, so that "underdog" is not lost; the last ones forbid it alone.
_MAX_SEARCHES, _SEARCHES_IN_CONTEXT = 20, 6


class Found(NamedTuple):
    """What a constrained search found for each source."""

    hypotheses: list[list[Hypothesis]]
    forced: list[list[tuple[Choice, ...]]]  # terms of each hypothesis: see `forced_terms`
    without_terms: list[list[Hypothesis]]  # what was found before terms were required


def constrained_search(
    model: TextModel,
    sources: Sequence[Sequence[int]],
    options: DecodeConfig,
    n_best: int,
    constraints: Sequence[Constraints],
    names: Sequence[str],
) -> Found:
    """Returns what `Engine.translate` does under each source's constraints, and the forced terms of each hypothesis.

    If forbidden phrases come back in ever new spellings, the result is an unfinished hypothesis without tokens.

    Args:
        model: searches.
        sources: token ids.
        options: of the search.
        n_best: hypotheses for each source.
        constraints: of each source.
        names: of the lines that the sources come from, for errors.

    Raises:
        ConfigError: the engine does not support them.
        DataError: they contradict each other.
    """
    for each, name in zip(constraints, names, strict=True):
        each.require_valid(name)
    search = _ConstrainedSearch(model, sources, options, n_best, constraints)
    search.find_required()
    search.avoid_forbidden()
    return Found(search.found, search.forced(), search.without_terms)


def refusal(found: Hypothesis, constraints: Constraints) -> tuple[str, ...]:
    """Returns the warning for a line without any output free of its forbidden phrases."""
    if not constraints.forbidden or found.ids or found.finished:
        return ()
    phrases = ", ".join(map(repr, constraints.forbidden))
    return (f"no translation without {phrases} was found in {_MAX_SEARCHES} searches: it is left empty.",)


@dataclass
class _ConstrainedSearch:
    """The hypotheses found so far, and the token constraints under which each source was last searched."""

    model: TextModel
    sources: Sequence[Sequence[int]]
    options: DecodeConfig
    n_best: int
    constraints: Sequence[Constraints]

    def __post_init__(self) -> None:
        self._engine, self._tokenizer = self.model.engine, self.model.tokenizer.target
        if required := next((each.required for each in self.constraints if each.required), None):
            # An empty source is not searched, but its constraints are checked: an engine or a search that does not
            # support required terms refuses them now, even if no line will need the search for them.
            spelled = self._spelled(required, capitals=False)
            self._engine.translate([()], self.options, self.n_best, [TokenConstraints(required=spelled)])
        self._applied = [
            replace(prefix_constraints(each.prefix, self._tokenizer), brackets=each.brackets)
            for each in self.constraints
        ]
        self.found = self._engine.translate(self.sources, self.options, self.n_best, self._applied)
        self.without_terms = list(self.found)

    def find_required(self) -> None:
        """Searches the lines that lack required terms again: with either case of the first letter, then as written.

        The second search is for a capital that was written inside a sentence. Its wider beam is for hypotheses that do
        not end in time.
        """
        if not any(each.required for each in self.constraints):
            return
        wide = replace(self.options, beam_size=max(_WIDE_BEAM, self.options.beam_size))
        for options, capitals in ((self.options, True), (wide, False)):
            incomplete = [i for i, source in enumerate(self.sources) if source and self._lacks_terms(i)]
            for i in incomplete:
                self._require_terms(i, capitals=capitals)
            self._search_again(incomplete, options)

    def avoid_forbidden(self) -> None:
        """Searches the lines that hold forbidden phrases again, with one more spelling forbidden each time."""
        open_lines = [i for i, each in enumerate(self.constraints) if each.forbidden]
        for number in range(_MAX_SEARCHES):
            in_context = number < _SEARCHES_IN_CONTEXT
            spellings = {i: self._spellings(i, in_context) | self._respellings(i, in_context) for i in open_lines}
            open_lines = [i for i in open_lines if spellings[i]]
            for i in open_lines:
                forbidden = tuple(sorted({*self._applied[i].forbidden, *spellings[i]}))
                self._applied[i] = replace(self._applied[i], forbidden=forbidden)
                if self.constraints[i].required and not self._applied[i].required:  # they came by themselves until now
                    self._require_terms(i, capitals=True)
            self._search_again(open_lines, self.options)
        for i in open_lines:
            self.found[i] = self._allowed(i) or [self._nothing(i)]

    def forced(self) -> list[list[tuple[Choice, ...]]]:
        """Returns for each hypothesis the terms that only a search for them produced; see `forced_terms`."""
        return [
            forced_terms(self.model, source, found, each.required) if applied.required else [()] * len(found)
            for source, found, each, applied in zip(
                self.sources, self.found, self.constraints, self._applied, strict=True
            )
        ]

    def _search_again(self, indices: Sequence[int], options: DecodeConfig) -> None:
        if not indices:
            return
        sources, applied = [self.sources[i] for i in indices], [self._applied[i] for i in indices]
        again = self._engine.translate(sources, options, self.n_best, applied)
        for i, hypotheses in zip(indices, again, strict=True):
            self.found[i] = hypotheses

    def _require_terms(self, index: int, *, capitals: bool) -> None:
        required = self._spelled(self.constraints[index].required, capitals=capitals)
        self._applied[index] = replace(self._applied[index], required=required, joining=joining_pieces(self._tokenizer))

    def _spelled(self, terms: Sequence[Choice], *, capitals: bool) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """Returns the pieces of each choice that the vocabulary can write; of any other, a warning says the rest."""
        spelled = (term_spellings(choice, self._tokenizer, capitals=capitals) for choice in terms)
        return tuple(each for each in spelled if each)

    def _texts(self, hypotheses: Sequence[Hypothesis]) -> list[str]:
        """Returns the texts as translations are shown: without line breaks."""
        return [text.replace("\n", " ") for text in self._tokenizer.decode_batch([each.ids for each in hypotheses])]

    def _lacks_terms(self, index: int) -> bool:
        required = self.constraints[index].required
        return bool(required) and any(missing(text, required) for text in self._texts(self.found[index]))

    def _allowed(self, index: int) -> list[Hypothesis]:
        """Returns the hypotheses that neither hold nor respell a forbidden phrase."""
        found = [each for each in self.found[index] if not self._respelled(index, each, in_context=True)]
        pattern = phrase_pattern(self.constraints[index].forbidden)
        return [each for each, text in zip(found, self._texts(found), strict=True) if not pattern.search(text)]

    def _nothing(self, index: int) -> Hypothesis:
        [log_probabilities] = self._engine.score([self.sources[index]], [[]])
        return hypothesis([], sum(log_probabilities), False, self.options.length_penalty)

    def _respelled(self, index: int, each: Hypothesis, *, in_context: bool) -> set[tuple[int, ...]]:
        return respellings(self.model, self.sources[index], each, self._applied[index], in_context=in_context)

    def _respellings(self, index: int, in_context: bool) -> set[tuple[int, ...]]:
        return set().union(*(self._respelled(index, each, in_context=in_context) for each in self.found[index]))

    def _spellings(self, index: int, in_context: bool) -> set[tuple[int, ...]]:
        """Returns the pieces that spell forbidden phrases in the hypotheses, and the usual spellings of the same.

        With `in_context`, pieces that do not begin with a space include the piece before them (`_MAX_SEARCHES`).
        """
        pattern = phrase_pattern(self.constraints[index].forbidden)
        spellings = set()
        for ids in (each.ids for each in self.found[index]):
            spelled = self._tokenizer.piece_bytes(ids)
            ends = [0, *itertools.accumulate(map(len, spelled))]
            text = b"".join(spelled).decode("utf-8", errors="surrogateescape")  # encodes back to the same bytes
            text = text.replace("\n", " ")  # as translations are shown
            for match in pattern.finditer(text):
                first_byte, last_byte = (_num_bytes(text[:at]) for at in match.span())
                first = max(i for i in range(len(ids)) if ends[i] <= first_byte)
                last = min(i for i in range(len(ids)) if ends[i + 1] >= last_byte)
                if in_context and first > 0 and ends[first] == first_byte:
                    first -= 1
                spellings |= {tuple(ids[first : last + 1]), tuple(self._tokenizer.encode(match[0]))}
        return spellings


def prefix_constraints(prefix: str, tokenizer: Tokenizer) -> TokenConstraints:
    """Returns the prefix in token ids, with the pieces that may complete its last word.

    A piece never spells more than one word. The prefix "A do" is spelled " A", " d", "o". At its second position the
    completions are " do", " dog", " down" …; at its third "o", "og", "own" …; at its first there are none.
    """
    if not prefix:
        return TokenConstraints()
    ids = readable_prefix(prefix, tokenizer)
    spelled = tokenizer.piece_bytes(ids)
    last_word = max((i for i, piece in enumerate(spelled) if piece.startswith(b" ")), default=0)
    completions = (
        tokenizer.ids_beginning_with(b"".join(spelled[i:])) if i >= last_word else () for i in range(len(ids))
    )
    return TokenConstraints(prefix=ids, completions=tuple(completions))


def readable_prefix(prefix: str, tokenizer: Tokenizer) -> tuple[int, ...]:
    """Returns the ids of a prefix without unknown pieces, and without the space before the last of them."""
    ids = tokenizer.encode(prefix)
    last = [index for index in ids if index != UNK]
    if ids and ids[-1] == UNK and last and not tokenizer.piece_bytes(last[-1:])[0].strip():
        last.pop()
    return tuple(last)


def with_prefix(text: str, prefix: str, tokenizer: Tokenizer) -> str:
    """Returns a text that was found with a prefix, beginning with the prefix to the letter.

    The tokenizer of an imported model normalises it, and does not know all characters.
    """
    if not prefix or tokenizer.exact:
        return text
    read = tokenizer.decode(readable_prefix(prefix, tokenizer))
    return prefix + text.removeprefix(read) if text.startswith(read) else text


def _num_bytes(text: str) -> int:
    return len(text.encode("utf-8", errors="surrogateescape"))
