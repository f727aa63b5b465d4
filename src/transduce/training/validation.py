"""Validation: perplexity per subword of held-out pairs (§6.2), and scores of what the model decodes."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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

# Decodes with a model and scores the result, such as {"bleu": 31.2}. Models are chosen by the first score, and higher
# is better. Passed in: training knows no search and no metric.
Scorer = Callable[[Any], dict[str, float]]


@dataclass(frozen=True)
class Validation:
    """What a model is measured by while it trains."""

    store: ParallelStore
    scorer: Scorer | None = None


def perplexity(model: TrainableModel, store: ParallelStore, compute: Compute) -> float:
    """Returns exp of the mean -log p of each target token, EOS counted, without label smoothing."""
    was_training = model.training
    model.eval()
    plan = store.plan_epoch(_BATCHES, epoch=0)
    no_smoothing = Smoothing(1.0, 0.0)
    total = 0.0
    with torch.no_grad():
        for index in range(len(plan)):
            batch = collate(store, plan.batch(index), compute.device)
            total += float(batch_loss(model, batch, no_smoothing, compute)[1])
    model.train(was_training)
    return math.exp(min(total / int(store.target_lengths.sum()), 700.0))


def update_best(progress: Progress, scores: dict[str, float], best_by: str) -> bool:
    """Records a validation's scores in `progress`; returns whether the model is the best so far.

    The measure is the first score but perplexity, unless there is none or `best_by` is "perplexity". NaN is never best.
    """
    decoded = [name for name in scores if name != "perplexity"]
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
