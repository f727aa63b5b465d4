"""From the outputs of CTranslate2's search to hypotheses with the model's scores, best first."""

import math
from collections.abc import Sequence

from transduce.config import DecodeConfig
from transduce.decoding.scores import Hypothesis, hypothesis
from transduce.engines.ctranslate2_batches import Line, Output
from transduce.engines.interface import Engine

Ids = tuple[int, ...]


def ranked(
    engine: Engine,
    found: Sequence[tuple[Line, Sequence[Output]]],
    options: DecodeConfig,
    n_best: int,
    *,
    shortlisted: bool,
) -> list[list[Hypothesis]]:
    """Returns for each line the best finished outputs, best first, or else those that were open at the limit.

    CTranslate2's score of an output is not the model's where a prefix is forced, which it gives no score, or where some
    tokens were forbidden, which take no part in its softmax. These are scored here, for all lines in one call.

    The output that ends right after its prefix is added. CTranslate2 finds it only if EOS is the best token there. At
    other positions EOS need only be among the K best for a beam of K, as it is if its probability is at least 1/K.

    Args:
        engine: scores.
        found: lines, and the outputs of their searches.
        options: of the search.
        n_best: hypotheses of each line.
        shortlisted: whether the searches were in a part of the vocabulary only.
    """
    targets = [_targets(*each, options, shortlisted=shortlisted) for each in found]
    sources = [line.source for (line, _), of_line in zip(found, targets, strict=True) for _ in of_line]
    starts = [line.constraints.start for line, _ in found]
    forced = [(*start, *ids) for start, of_line in zip(starts, targets, strict=True) for ids in of_line]
    scores = iter(engine.score(sources, forced) if sources else ())
    return [
        _scored(line, outputs, options, {ids: next(scores)[len(line.constraints.start) :] for ids in of_line})[:n_best]
        for (line, outputs), of_line in zip(found, targets, strict=True)
    ]


def _targets(line: Line, outputs: Sequence[Output], options: DecodeConfig, *, shortlisted: bool) -> list[Ids]:
    """Returns the targets of a line to be scored: its prefix, and outputs whose scores do not follow from it."""
    given = line.constraints
    forbids = line.suppress or bool(given.forbidden) or options.no_repeat_ngram > 0 or options.min_tokens > 0
    scored = [given.prefix] if given.prefix else []
    finished = [output for output in outputs if output.finished]
    if not finished:
        scored += _open(line, outputs)
    elif forbids or (shortlisted and given.prefix):
        scored += [output.ids for output in finished]
    return list(dict.fromkeys(scored))


def _scored(
    line: Line, outputs: Sequence[Output], options: DecodeConfig, scores: dict[Ids, list[float]]
) -> list[Hypothesis]:
    """Returns the outputs of a line, best first; `scores` has those of its `_targets`."""
    alpha, prefix = options.length_penalty, line.constraints.prefix
    before = sum(scores[prefix][:-1]) if prefix else 0.0
    finished = {output.ids: before + output.log_probability for output in outputs if output.finished}
    totals = {ids: sum(scores[ids]) if ids in scores else total for ids, total in finished.items()}
    if prefix and len(prefix) >= options.min_tokens and scores[prefix][-1] >= -math.log(options.beam_size):
        totals[prefix] = sum(scores[prefix])
    if totals:
        results = [hypothesis([*ids], total, True, alpha) for ids, total in totals.items()]
    else:
        results = [hypothesis([*ids], sum(scores[ids][:-1]), False, alpha) for ids in _open(line, outputs)]
    return sorted(results, key=lambda each: -each.score)  # stable: of equals, CTranslate2's order


def _open(line: Line, outputs: Sequence[Output]) -> list[Ids]:
    """Returns the outputs that were open at the limit.

    They have one token too many, from the last step, which was for EOS. Those that differ only there are one.
    """
    return list(dict.fromkeys(output.ids[: line.limit] for output in outputs))
