"""Long texts in parts: each is translated on its own, and the translations stand in the source's white space."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from transduce.text import SubwordTokenizer
from transduce.translation.pipeline.handling import Handling
from transduce.translation.pipeline.sentences import NO_SPACES, Span, fitting_spans, sentence_spans

if TYPE_CHECKING:
    from transduce.translation.result import Translation

Search = Callable[[Sequence[str], int], "list[list[Translation]]"]


@dataclass(frozen=True, slots=True)
class Joined:
    """A translation of a whole text, and which stretch of it is the translation of which of the source."""

    translation: "Translation"
    pairs: tuple[tuple[Span, Span], ...]  # (of the source, of the translation's text), in order


def in_parts(
    search: Search,
    texts: Sequence[str],
    n_best: int,
    *,
    handling: Handling,
    limit: int,
    tokenizer: SubwordTokenizer,
    drawn: bool = False,
) -> list[list[Joined]]:
    """Translates each text, in parts where `handling` says so, and returns for each at most `n_best`, best first.

    The score and log-probability of several parts are the sums of theirs.

    Args:
        search: translates texts that are short enough.
        texts: any texts; one of white space only gives an empty translation.
        n_best: translations of each.
        handling: whether to cut, and the language.
        limit: tokens that the model reads.
        tokenizer: what counts tokens.
        drawn: whether translations are random draws, which stay in their order: see `choices_of_parts`.
    """
    cuts = _all_parts(texts, handling, limit, tokenizer)
    flat = [text[start:end] for text, spans in zip(texts, cuts, strict=True) for start, end in spans]
    found = iter(search(flat, n_best))
    return [
        _join(text, spans, [next(found) for _ in spans], n_best, drawn) for text, spans in zip(texts, cuts, strict=True)
    ]


def _all_parts(texts: Sequence[str], handling: Handling, limit: int, tokenizer: SubwordTokenizer) -> list[list[Span]]:
    whole = [[(0, len(text))] for text in texts]
    if handling.split == "never":
        return whole
    # A token holds at least a byte, and a character at most four: what is shorter fits, and need not be counted.
    counted = [i for i, text in enumerate(texts) if handling.split == "always" or 4 * len(text) > limit]
    counts = dict(zip(counted, tokenizer.encode_batch([texts[i] for i in counted]), strict=True))
    parts = []
    for i, text in enumerate(texts):
        too_long = i in counts and len(counts[i]) > limit
        if not text.strip() or (handling.split == "auto" and not too_long):
            parts.append(whole[i])
            continue
        spans = sentence_spans(text, handling.language)
        parts.append(
            [part for span in spans for part in fitting_spans(text, span, limit, tokenizer)] if too_long else spans
        )
    return parts


def _join(
    text: str, spans: Sequence[Span], found: Sequence[list["Translation"]], n_best: int, drawn: bool
) -> list[Joined]:
    if len(spans) == 1 and spans[0] == (0, len(text)):
        return [Joined(best, ((spans[0], (0, len(best.text))),)) for best in found[0]]
    return [_joined(text, spans, choice) for choice in choices_of_parts(found, n_best, drawn)]


def choices_of_parts(
    found: "Sequence[list[Translation]]", n_best: int, drawn: bool = False
) -> list[list["Translation"]]:
    """Returns the `n_best` choices of one translation for each part with the greatest sums of scores.

    Of what was drawn, the k-th draws of all parts together are the k-th of the whole: a sample as honest as they.
    """
    if drawn:
        return [[*each] for each in zip(*found, strict=False)][:n_best]
    choices: list[tuple[float, list[Translation]]] = [(0.0, [])]
    for options in found:
        extended = [(total + t.score, [*chosen, t]) for total, chosen in choices for t in options]
        choices = heapq.nlargest(n_best, extended, key=lambda choice: choice[0])
    return [chosen for _, chosen in choices]


def _joined(text: str, spans: Sequence[Span], chosen: Sequence["Translation"]) -> Joined:
    pieces = [text[: spans[0][0]]]
    length = len(pieces[0])
    pairs = []
    for i, (span, part) in enumerate(zip(spans, chosen, strict=True)):
        if i:
            gap = _gap(text[spans[i - 1][1] : span[0]], chosen[i - 1].text, part.text, text[: spans[i - 1][1]])
            pieces.append(gap)
            length += len(gap)
        pairs.append((span, (length, length + len(part.text))))
        pieces.append(part.text)
        length += len(part.text)
    pieces.append(text[spans[-1][1] :])
    return Joined(merged(chosen, "".join(pieces)), tuple(pairs))


def merged(chosen: Sequence["Translation"], text: str) -> "Translation":
    """Returns the translation of several parts, whose text together is `text`."""
    return replace(
        chosen[0],
        text=text,
        score=sum(part.score for part in chosen),
        log_probability=sum(part.log_probability for part in chosen),
        tokens=tuple(token for part in chosen for token in part.tokens),
        ids=tuple(token for part in chosen for token in part.ids),
        finished=all(part.finished for part in chosen),
        source_truncated=any(part.source_truncated for part in chosen),
        num_parts=sum(part.num_parts for part in chosen),
        warnings=tuple(dict.fromkeys(warning for part in chosen for warning in part.warnings)),
        token_log_probabilities=tuple(value for part in chosen for value in part.token_log_probabilities),
        words=tuple(word for part in chosen for word in part.words),
        required=tuple(term for part in chosen for term in part.required),
        forced=tuple(term for part in chosen for term in part.forced),
    )


def _gap(gap: str, before: str, after: str, source_before: str) -> str:
    """Returns the source's gap; where a script without spaces had none and the target's has some, a space."""
    if gap or not before or not after or not NO_SPACES.match(source_before[-1:]):
        return gap
    return "" if NO_SPACES.match(before[-1]) or NO_SPACES.match(after[0]) else " "
