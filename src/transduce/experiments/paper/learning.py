"""A plain training loop for tasks whose batches are drawn at random: no corpus, no epochs, no checkpoints."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from transduce.config import Config
from transduce.experiments.paper.experiment import Say
from transduce.model import Transformer
from transduce.text import SPECIAL_TOKENS
from transduce.training.batch import Batch, pad
from transduce.training.device import Compute
from transduce.training.loss import Smoothing
from transduce.training.optimizer import make_optimizer
from transduce.training.schedule import learning_rate
from transduce.training.step import batch_loss

FIRST_SYMBOL = len(SPECIAL_TOKENS)

MakeBatch = Callable[[np.random.Generator], Batch]


def train(config: Config, make_batch: MakeBatch, compute: Compute, say: Say) -> tuple[Transformer, float]:
    """Trains a model for `config.train.max_steps` steps on batches drawn from its seed.

    Returns:
        The model, in evaluation mode, and its mean loss over the last tenth of the steps, in nats per target token.
    """
    settings = config.train
    torch.manual_seed(settings.seed)
    model = Transformer(config.model).to(compute.device).train()
    optimizer = make_optimizer(model.parameters(), config.train)
    smoothing = Smoothing.of(settings.label_smoothing, config.model.vocab_size, settings.smoothing)
    generator = np.random.default_rng(settings.seed)
    losses = []
    for step in range(1, settings.max_steps + 1):
        batch = make_batch(generator)
        optimizer.zero_grad(set_to_none=True)
        loss = batch_loss(model, batch, smoothing, compute)[0] / batch.num_target_tokens
        loss.backward()
        if settings.max_gradient_norm:
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_gradient_norm)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, config)
        optimizer.step()
        losses.append(loss.detach())
        if step % 50 == 0:
            say(f"step {step:,} of {settings.max_steps:,}, loss {float(losses[-1]):.3f}")
    last = losses[-max(1, len(losses) // 10) :]
    return model.eval(), float(torch.stack(last).mean())


def copying(sequences: Sequence[np.ndarray], device: torch.device) -> Batch:
    """Returns a batch whose targets are its sources."""
    ids, lengths = pad(sequences)
    ids = ids.to(device)
    return Batch(ids, lengths, ids, lengths)


def draw_sequences(generator: np.random.Generator, lengths: Sequence[int], num_symbols: int) -> list[np.ndarray]:
    """Returns random sequences of symbols; ids begin after the special tokens."""
    return [generator.integers(FIRST_SYMBOL, FIRST_SYMBOL + num_symbols, length) for length in lengths]


def right_tokens(model: Transformer, batch: Batch) -> torch.Tensor:
    """Returns which target tokens are the most probable one, given the true ones before them: (N) bool, EOS counted."""
    with torch.inference_mode():
        states_ND = model(*batch.inputs)
        return model.logits(states_ND).argmax(dim=-1) == batch.targets_N
