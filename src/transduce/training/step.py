"""One update: forward and backward over micro-batches, the gradient's norm, Adam."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from transduce.config import Config
from transduce.data.batching import micro_batches, share
from transduce.data.store import ParallelStore
from transduce.model import Transformer
from transduce.training.batch import Batch, collate
from transduce.training.device import Compute
from transduce.training.distributed import Ranks
from transduce.training.flops import BatchShape, training_flops
from transduce.training.guidance import Guidance
from transduce.training.loss import Smoothing, projected_loss
from transduce.training.schedule import cooldown, noam


@dataclass(frozen=True)
class StepResult:
    """What one update did; losses are sums over `target_tokens`, in nats. `loss` has that of a guidance in it."""

    loss: float
    negative_log_likelihood: float
    target_tokens: int
    source_tokens: int
    gradient_norm: float
    learning_rate: float
    flops: int = 0  # of matrix products, over all processes

    @property
    def finite(self) -> bool:
        """Whether the update was made. DEVIATION: one whose gradient is not finite is left out; the paper is silent."""
        return math.isfinite(self.gradient_norm)


def make_optimizer(model: Transformer, config: Config) -> torch.optim.Adam:
    """Returns Adam as in §5.3, with PyTorch's fused kernel."""
    train = config.train
    return torch.optim.Adam(
        model.parameters(),
        lr=0.0,
        betas=(train.adam_beta1, train.adam_beta2),
        eps=train.adam_epsilon,
        fused=True,
    )


def batch_loss(
    model: Transformer, batch: Batch, smoothing: Smoothing, compute: Compute, guidance: Guidance | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the summed smoothed loss, with that of a guidance, and the summed -log p of a batch's target tokens."""
    with compute.autocast():
        states_ND = model(batch.source_BS, batch.source_lengths_B, batch.target_BT, batch.target_lengths_B)
    loss, nll = projected_loss(states_ND.to(compute.dtype), model.output_embedding, batch.targets_N, smoothing)
    if guidance is not None:
        loss = loss + guidance.loss(guidance.scores_LBTS, batch)
    return loss, nll


def train_step(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    store: ParallelStore,
    rows: np.ndarray,
    step: int,
    config: Config,
    compute: Compute,
    ranks: Ranks,
    guidance: Guidance | None = None,
) -> StepResult:
    """Makes update number `step` (from 1) on the global batch `rows`, of which this process takes its share.

    The loss is divided by the global number of target tokens, over processes and micro-batches, so that neither changes
    the update. Dropout is drawn from (seed, step, rank): nothing about chance outlives the step.
    """
    train, model_config = config.train, config.model
    torch.manual_seed(int(np.random.SeedSequence([train.seed, step, ranks.rank]).generate_state(1, np.uint64)[0] >> 1))
    smoothing = Smoothing.of(train.label_smoothing, model_config.vocab_size, train.smoothing)
    num_target_tokens = int(store.target_lengths[rows].sum())
    own = share(rows, ranks.rank, ranks.world_size)
    limit = train.micro_batch_tokens or train.target_batch_tokens
    model.train()
    optimizer.zero_grad(set_to_none=True)
    sums = torch.zeros(2, dtype=torch.float64, device=compute.device)
    flops = 0
    for part in micro_batches(own, store.source_lengths, store.target_lengths, limit):
        batch = collate(store, part, compute.device)
        loss, nll = batch_loss(model, batch, smoothing, compute, guidance)
        (loss / num_target_tokens).backward()
        sums += torch.stack([loss.detach(), nll])
        flops += training_flops(model_config, BatchShape.of(batch)).total
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if ranks.world_size > 1:
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        counted = torch.tensor(flops, device=compute.device)
        ranks.sum([sums, counted, *(parameter.grad for parameter in parameters if parameter.grad is not None)])
        flops = int(counted)
    norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    if train.max_gradient_norm:
        torch.nn.utils.clip_grads_with_norm_(parameters, train.max_gradient_norm, norm)
    rate = noam(step, model_config.d_model, train.warmup_steps, train.learning_rate_factor)
    rate *= cooldown(step, train.max_steps, train.cooldown_steps)
    # All that the host needs to know, in one wait: a GPU then updates while the next batch is made.
    gradient_norm, total_loss, total_nll = torch.cat([norm.double()[None], sums]).tolist()
    if math.isfinite(gradient_norm):
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    num_source_tokens = int(store.source_lengths[rows].sum())
    return StepResult(total_loss, total_nll, num_target_tokens, num_source_tokens, gradient_norm, rate, flops)
