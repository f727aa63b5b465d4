"""Validation: perplexity per subword of held-out pairs (§6.2), and scores of what the model decodes.

The work is shared out: each process has every n-th batch and every n-th sentence. The batches and the order of the sum
are those of one process, so the scores do not depend on the number of processes.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch

from transduce.config import TrainConfig
from transduce.data.batching import Indices, micro_batches
from transduce.data.store import ParallelStore
from transduce.errors import TrainingError
from transduce.training.batch import collate
from transduce.training.block_heads import pass_counts, scores_of_counts
from transduce.training.device import Compute
from transduce.training.distributed import ALONE, Ranks
from transduce.training.loss import NO_SMOOTHING
from transduce.training.memory import MEMORY_ERRORS, is_out_of_memory, named_memory_error, return_freed_memory
from transduce.training.progress import Progress
from transduce.training.step import batch_loss
from transduce.training.trainable import TrainableModel, evaluating

BATCH_TOKENS = 8192  # fewer where memory is short
_BATCHES = TrainConfig(source_batch_tokens=BATCH_TOKENS, target_batch_tokens=BATCH_TOKENS, seed=0)
_BATCH_SENTENCES = 64  # decoded at once, likewise

_T = TypeVar("_T")

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
    scorer: Scorer | None = None  # None: nothing is decoded

    def scores(
        self, model: TrainableModel, compute: Compute, ranks: Ranks = ALONE, *, most_tokens: int = BATCH_TOKENS
    ) -> dict[str, float]:
        """Returns the perplexity, and the scores of what is decoded; all processes take part.

        Of several sets these are means, and after them come the scores of each set, such as "bleu.NAME". The mean of
        perplexities is the geometric one. No more than `most_tokens` target tokens are computed at once.
        """
        with named_memory_error(f"{self.store.path}: validation on {compute}"):
            found = {
                f"perplexity.{name}": perplexity(model, self.store, compute, rows, ranks, most_tokens)
                for name, rows in self.store.rows_of_corpora().items()
            }
            decoded = self.scorer(model) if self.scorer is not None else {}
        values = [*found.values()]
        scores = {"perplexity": statistics.geometric_mean(values) if len(values) > 1 else values[0]} | decoded
        return (
            scores | block_scores(model, self.store, compute, ranks, most_tokens) | (found if len(values) > 1 else {})
        )


def require_validation(train: TrainConfig, sets: object) -> None:
    """Raises TrainingError where training may stop early, and there are no validation `sets`."""
    if train.early_stopping and not sets:
        raise TrainingError("train.early_stopping needs data.validation: there is nothing to measure progress by.")


def perplexity(
    model: TrainableModel,
    store: ParallelStore,
    compute: Compute,
    rows: range | None = None,
    ranks: Ranks = ALONE,
    most_tokens: int = BATCH_TOKENS,
) -> float:
    """Returns exp of the mean -log p of each target token, EOS counted, without label smoothing.

    Args:
        model: is measured.
        store: the pairs.
        compute: where and how the model computes.
        rows: of the store; None: all of them.
        ranks: the processes, each of which computes its share.
        most_tokens: computed at once, of the target; fewer where memory runs out.
    """
    chosen = slice(None) if rows is None else slice(rows.start, rows.stop)
    plan = store.plan_epoch(_BATCHES, epoch=0, rows=np.arange(len(store))[chosen])
    sums = torch.zeros(len(plan), dtype=torch.float64)
    with evaluating(model), torch.no_grad():
        for index in range(ranks.rank, len(plan), ranks.world_size):
            parts = micro_batches(plan.batch(index), store.source_lengths, store.target_lengths, most_tokens)
            sums[index] = sum(_summed_nll(model, store, part, compute) for part in parts)
    shared = sums.to(compute.device)
    ranks.sum([shared])
    return math.exp(min(math.fsum(shared.tolist()) / int(store.target_lengths[chosen].sum()), 700.0))


def _summed_nll(model: TrainableModel, store: ParallelStore, rows: Indices, compute: Compute) -> float:
    """Returns the summed -log p of the target tokens of a batch, by halves where memory runs out."""
    try:
        return float(batch_loss(model, collate(store, rows, compute.device), NO_SMOOTHING, compute)[1])
    except MEMORY_ERRORS as error:
        if not is_out_of_memory(error) or len(rows) == 1:
            raise
    return_freed_memory(compute.device)
    halves = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    return sum(_summed_nll(model, store, half, compute) for half in halves)


def block_scores(
    model: TrainableModel, store: ParallelStore, compute: Compute, ranks: Ranks, most_tokens: int
) -> dict[str, float]:
    """Returns the tokens that a pass of a search with the model's heads gives, and each head's share of right ones.

    Right is what the model itself says there, so many tokens later in the same target. Without heads, it is empty.
    """
    if model.block_heads is None:
        return {}
    plan = store.plan_epoch(_BATCHES, epoch=0)
    counts = torch.zeros(2 * model.block_heads.block_size, dtype=torch.float64)
    with evaluating(model):
        for index in range(ranks.rank, len(plan), ranks.world_size):
            for part in micro_batches(plan.batch(index), store.source_lengths, store.target_lengths, most_tokens):
                counts += pass_counts(model, collate(store, part, compute.device), compute)
    shared = counts.to(compute.device)
    ranks.sum([shared])
    return scores_of_counts(shared.tolist())


def decode_shares(
    decode: Callable[[Sequence[_T], int], Sequence[Sequence[int]]],
    sources: Sequence[_T],
    ranks: Ranks,
) -> list[list[int]]:
    """Returns what `decode` makes of each source, given sources and how many to decode at once, on all processes.

    Each process decodes its share, fewer at once where memory runs out.
    """
    own, at_once = sources[ranks.rank :: ranks.world_size], _BATCH_SENTENCES
    while True:
        try:
            found = decode(own, at_once)
            break
        except MEMORY_ERRORS as error:
            if not is_out_of_memory(error) or at_once == 1:
                raise
        return_freed_memory(torch.device("cpu"))  # the allocator of a GPU does so by itself
        at_once //= 2
    return ranks.gather(found, len(sources))


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
