"""From the outputs of CTranslate2's search to hypotheses with the model's scores, best first."""

import math
from collections.abc import Sequence
from typing import Protocol

from transduce.config import DecodeConfig
from transduce.decoding.scores import Hypothesis, gnmt_penalty, hypothesis
from transduce.engines.ctranslate2_batches import Line, Output

Ids = tuple[int, ...]


class Engine(Protocol):
    """What the ranking needs of `CTranslate2Engine`."""

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Returns for each pair the log-probability of each target token, and last that of EOS."""
        ...

    def ids_of(self, output: Output) -> list[int]:
        """Returns the ids of an output, without EOS."""
        ...


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
    targets = [_targets(engine, *each, options, shortlisted=shortlisted) for each in found]
    sources = [line.source for (line, _), of_line in zip(found, targets, strict=True) for _ in of_line]
    scores = iter(engine.score(sources, [ids for of_line in targets for ids in of_line]) if sources else ())
    results = []
    for (line, outputs), of_line in zip(found, targets, strict=True):
        known = {ids: next(scores) for ids in of_line}
        results.append(
            _scored(engine, line, outputs, options, known) if known else _plain(engine, outputs, options, n_best)
        )
    return [hypotheses[:n_best] for hypotheses in results]


def _targets(
    engine: Engine, line: Line, outputs: Sequence[Output], options: DecodeConfig, *, shortlisted: bool
) -> list[Ids]:
    """Returns the targets of a line to be scored: its prefix, and outputs whose scores do not follow from it."""
    given = line.constraints
    forbids = line.suppress or bool(given.forbidden) or options.no_repeat_ngram > 0 or options.min_tokens > 0
    scored = [given.prefix] if given.prefix else []
    finished = [output for output in outputs if output.finished]
    if not finished:
        scored += _open(engine, line, outputs)
    elif forbids or (shortlisted and given.prefix):
        scored += [tuple(engine.ids_of(output)) for output in finished]
    return list(dict.fromkeys(scored))


def _plain(engine: Engine, outputs: Sequence[Output], options: DecodeConfig, n_best: int) -> list[Hypothesis]:
    """Returns the best of finished outputs whose scores are the model's; the others need no ids."""
    alpha, finished = options.length_penalty, [output for output in outputs if output.finished]
    best = sorted(finished, key=lambda o: -o.log_probability / gnmt_penalty(len(o.tokens), alpha))[:n_best]
    return [hypothesis(engine.ids_of(o), o.log_probability, True, alpha) for o in best]


def _scored(
    engine: Engine, line: Line, outputs: Sequence[Output], options: DecodeConfig, scores: dict[Ids, list[float]]
) -> list[Hypothesis]:
    """Returns the outputs of a line of which something had to be scored."""
    alpha, prefix = options.length_penalty, line.constraints.prefix
    before = sum(scores[prefix][:-1]) if prefix else 0.0
    finished = {tuple(engine.ids_of(o)): before + o.log_probability for o in outputs if o.finished}
    totals = {ids: sum(scores[ids]) if ids in scores else total for ids, total in finished.items()}
    if prefix and len(prefix) >= options.min_tokens and scores[prefix][-1] >= -math.log(options.beam_size):
        totals[prefix] = sum(scores[prefix])
    if totals:
        results = [hypothesis([*ids], total, True, alpha) for ids, total in totals.items()]
    else:
        results = [hypothesis([*ids], sum(scores[ids][:-1]), False, alpha) for ids in _open(engine, line, outputs)]
    return sorted(results, key=lambda each: -each.score)  # stable: of equals, CTranslate2's order


def _open(engine: Engine, line: Line, outputs: Sequence[Output]) -> list[Ids]:
    """Returns the outputs that were open at the limit.

    They have one token too many, from the last step, which was for EOS. Those that differ only there are one.
    """
    return list(dict.fromkeys(tuple(engine.ids_of(output)[: line.limit]) for output in outputs))
