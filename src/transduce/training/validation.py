"""Validation: perplexity per subword of held-out pairs (§6.2), and scores of what the model decodes."""

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from transduce.config import TrainConfig
from transduce.data.store import ParallelStore
from transduce.training.batch import collate
from transduce.training.device import Compute
from transduce.training.loss import Smoothing
from transduce.training.progress import Progress
from transduce.training.step import batch_loss
from transduce.training.trainable import TrainableModel

_BATCHES = TrainConfig(source_batch_tokens=8192, target_batch_tokens=8192, seed=0)

# Decodes the validation sources with a model and scores the result, such as {"bleu": 31.2}. Models are chosen by the
# first score, and higher is better. Passed in: training knows no search and no metric.
Scorer = Callable[[Any], dict[str, float]]


def mean_scorer(scorers: Mapping[str, Scorer]) -> Scorer:
    """Returns a scorer of all sets by name: the mean of each score, and then the scores of each set, as "bleu.NAME".

    Of a single set, it is the scorer itself.
    """
    [first_scorer, *others] = scorers.values()
    if not others:
        return first_scorer

    def score(model: Any) -> dict[str, float]:
        found = {name: scorer(model) for name, scorer in scorers.items()}
        first = next(iter(found.values()))
        means = {kind: statistics.fmean(scores[kind] for scores in found.values()) for kind in first}
        return means | {f"{kind}.{name}": value for name, each in found.items() for kind, value in each.items()}

    return score


@dataclass(frozen=True)
class Validation:
    """What a model is measured by while it trains: the validation sets, one after the other in a store."""

    store: ParallelStore
    scorer: Scorer | None = None

    def scores(self, model: TrainableModel, compute: Compute, *, decode: bool = True) -> dict[str, float]:
        """Returns the perplexity, and the scores of what is decoded.

        Of several sets these are means, and behind them stand the scores of each set, such as "bleu.NAME". The mean of
        perplexities is the geometric one.
        """
        sets = self.store.rows_of_corpora()
        found = {f"perplexity.{name}": perplexity(model, self.store, compute, rows) for name, rows in sets.items()}
        values = [*found.values()]
        scores = {"perplexity": statistics.geometric_mean(values) if len(values) > 1 else values[0]}
        if decode and self.scorer is not None:
            scores |= self.scorer(model)
        return scores | (found if len(values) > 1 else {})


def perplexity(model: TrainableModel, store: ParallelStore, compute: Compute, rows: range | None = None) -> float:
    """Returns exp of the mean -log p of each target token, EOS counted, without label smoothing.

    Args:
        model: is measured.
        store: the pairs.
        compute: where and how the model computes.
        rows: of the store; None: all of them.
    """
    was_training = model.training
    model.eval()
    chosen = slice(None) if rows is None else slice(rows.start, rows.stop)
    plan = store.plan_epoch(_BATCHES, epoch=0, rows=np.arange(len(store))[chosen])
    no_smoothing = Smoothing(1.0, 0.0)
    total = 0.0
    with torch.no_grad():
        for index in range(len(plan)):
            batch = collate(store, plan.batch(index), compute.device)
            total += float(batch_loss(model, batch, no_smoothing, compute)[1])
    model.train(was_training)
    return math.exp(min(total / int(store.target_lengths[chosen].sum()), 700.0))


def update_best(progress: Progress, scores: dict[str, float], best_by: str) -> bool:
    """Records a validation's scores in `progress`; returns whether the model is the best so far.

    The measure is the first score but perplexity, unless there is none or `best_by` is "perplexity"; of several sets it
    is the mean. NaN is never best.
    """
    decoded = [name for name in scores if name != "perplexity" and "." not in name]
    measure = decoded[0] if decoded and best_by != "perplexity" else "perplexity"
    score = -scores[measure] if measure == "perplexity" else scores[measure]
    if progress.best_by != measure:  # at first, or where a resumed training has changed its measure
        progress.best_by, progress.best_score, progress.validations_since_best = measure, None, 0
    best = not math.isnan(score) and (progress.best_score is None or score > progress.best_score)
    progress.validations = scores | {"step": float(progress.step)}
    progress.validations_since_best = 0 if best else progress.validations_since_best + 1
    if best:
        progress.best_score, progress.best_step = score, progress.step
    return best
