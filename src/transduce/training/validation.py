"""Perplexity per subword of held-out pairs (§6.2)."""

import math

import torch

from transduce.data.batching import plan_epoch
from transduce.data.store import ParallelStore
from transduce.model import Transformer
from transduce.training.batch import collate
from transduce.training.device import Compute
from transduce.training.loss import Smoothing
from transduce.training.step import batch_loss

_BATCH_TOKENS = 8192


def perplexity(model: Transformer, store: ParallelStore, compute: Compute) -> float:
    """Returns exp of the mean -log p of each target token, EOS counted, without label smoothing."""
    was_training = model.training
    model.eval()
    plan = plan_epoch(
        store.source_lengths,
        store.target_lengths,
        source_budget=_BATCH_TOKENS,
        target_budget=_BATCH_TOKENS,
        seed=0,
        epoch=0,
    )
    no_smoothing = Smoothing(1.0, 0.0)
    total = 0.0
    with torch.no_grad():
        for index in range(len(plan)):
            batch = collate(store, plan.batch(index), compute.device)
            total += float(batch_loss(model, batch, no_smoothing, compute)[1])
    model.train(was_training)
    return math.exp(min(total / int(store.target_lengths.sum()), 700.0))
