"""The stage "join": the translations of a text's parts are put together, with the white space of the source."""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from transduce.translation.pipeline.protecting import SegmentInput
from transduce.translation.pipeline.sentences import CHINESE, NO_SPACES, Span
from transduce.translation.pipeline.splitting import Part
from transduce.translation.result import SpanPair, Translation

_SCORE_DIGITS = 3  # beyond which two scores count as equal


def join(
    inputs: Sequence[SegmentInput],
    parts: Sequence[Part],
    results: Sequence[list[Translation]],
    n_best: int,
    drawn: bool,
) -> Iterator[list[Translation]]:
    """Yields at most `n_best` translations of each text, best first; scores and log-probabilities are sums.

    Args:
        inputs: the texts.
        parts: those of all texts, in order.
        results: the translations of each part.
        n_best: translations of each text.
        drawn: whether translations are random draws, which stay in their order: see `choices_of_parts`.
    """
    for index, group in groupby(zip(parts, results, strict=True), key=lambda pair: pair[0].index):
        text, (of_text, found) = inputs[index].marked.plain, zip(*group, strict=True)
        spans = [part.span for part in of_text]
        if spans == [(0, len(text))]:
            yield found[0]
        else:
            yield [_joined(text, spans, choice) for choice in choices_of_parts(found, n_best, drawn)]


def choices_of_parts(found: Sequence[list[Translation]], n_best: int, drawn: bool) -> list[list[Translation]]:
    """Returns the `n_best` choices of one translation for each part with the greatest sums of scores.

    Sums that differ by rounding only, as where a sentence comes twice, are equal: then the part that comes first has
    the better translation. So the order does not depend on the batches that the parts were in.

    Of random draws, the k-th of all parts together are the k-th of the whole: then it is a fair sample as well.
    """
    if drawn:
        return [[*each] for each in zip(*found, strict=False)][:n_best]
    choices: list[tuple[float, list[Translation]]] = [(0.0, [])]
    for options in found:
        # The first of a part is its best, also where a term was put in place at the cost of a lower score.
        extended = [
            (loss + max(0.0, options[0].score - t.score), [*chosen, t]) for loss, chosen in choices for t in options
        ]
        choices = heapq.nsmallest(n_best, extended, key=lambda choice: round(choice[0], _SCORE_DIGITS))
    return [chosen for _, chosen in choices]


def _joined(text: str, spans: Sequence[Span], chosen: Sequence[Translation]) -> Translation:
    written = text[: spans[0][0]]
    starts = []
    for i, (span, part) in enumerate(zip(spans, chosen, strict=True)):
        if i:
            between = text[spans[i - 1][1] : span[0]]
            written += gap_between(between, chosen[i - 1].text, part.text, text[slice(*spans[i - 1])])
        starts.append((span[0], len(written)))
        written += part.text
    return merged(chosen, written + text[spans[-1][1] :], starts)


def merged(chosen: Sequence[Translation], text: str, starts: Sequence[tuple[int, int]]) -> Translation:
    """Returns the translation of several parts, whose text together is `text`.

    Args:
        chosen: the translations of the parts.
        text: theirs, joined.
        starts: where each part begins, in the source and in `text`.
    """
    if starts == [(0, 0)]:  # a single part, and nothing before it
        return replace(chosen[0], text=text)
    parts = list(zip(chosen, starts, strict=True))
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
        sentences=tuple(pair for part, start in parts for pair in _shifted(part.sentences, *start)),
        alignment=tuple(pair for part, start in parts for pair in _shifted(part.alignment, *start)),
        warnings=tuple(dict.fromkeys(warning for part in chosen for warning in part.warnings)),
        token_log_probabilities=tuple(value for part in chosen for value in part.token_log_probabilities),
        words=tuple(word for part in chosen for word in part.words),
        required=tuple(term for part in chosen for term in part.required),
        forced=tuple(term for part in chosen for term in part.forced),
    )


def _shifted(pairs: Sequence[SpanPair], source_by: int, target_by: int) -> Iterator[SpanPair]:
    for (source_start, source_end), (target_start, target_end) in pairs:
        yield (source_start + source_by, source_end + source_by), (target_start + target_by, target_end + target_by)


def gap_between(gap: str, before: str, after: str, source_before: str) -> str:
    """Returns the white space between two parts: the source's, or as the target's script has it.

    Chinese and Japanese have no spaces between sentences, Thai and others have some.
    """
    if gap.strip(" ") or not before or not after:
        return gap
    if NO_SPACES.match(source_before[-1:]):
        return gap or ("" if NO_SPACES.match(before[-1]) or NO_SPACES.match(after[0]) else " ")
    return "" if CHINESE.match(before[-1]) else gap
