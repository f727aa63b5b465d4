"""A small encoder and two tasks that it learns in seconds: each position has to name symbols of other positions."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transduce.config import ModelConfig
from transduce.experiments.paper.compatibility import CompatibilityAttention, Kind
from transduce.experiments.paper.experiment import Say, Values
from transduce.model.layers import FeedForward, Residual
from transduce.model.positions import Positions

Task = Literal["mirror", "two places"]


@dataclass(frozen=True)
class Tagging:
    """A task and how to train on it. Symbols are random; the answer at a position is the symbol of another.

    `mirror`: the symbol as far from the end as this position is from the start. `two places`: that symbol, and the one
    three positions later (around the end). A head that attends to both gets their average, which has no order.
    """

    task: Task
    length: int
    num_symbols: int
    num_layers: int
    d_model: int
    num_heads: int
    d_k: int
    max_steps: int
    batch_sequences: int
    learning_rate: float

    def draw(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Returns symbols, (B, T), and answers, (B, T, number of answers)."""
        symbols_BT = torch.randint(self.num_symbols, (self.batch_sequences, self.length), generator=generator)
        mirrored = symbols_BT.flip(1)
        if self.task == "mirror":
            return symbols_BT, mirrored[..., None]
        return symbols_BT, torch.stack([mirrored, symbols_BT.roll(-3, dims=1)], dim=-1)


class Tagger(nn.Module):
    """Embedding and sinusoids, pre-norm encoder layers, and a projection to each answer's symbols."""

    def __init__(self, tagging: Tagging, kind: Kind) -> None:
        super().__init__()
        d_model, heads = tagging.d_model, tagging.num_heads
        config = ModelConfig(d_model=d_model, d_ff=2 * d_model, dropout=0.0, norm="pre")
        self.num_answers = 1 if tagging.task == "mirror" else 2
        self.embedding = nn.Embedding(tagging.num_symbols, d_model)
        self.positions = Positions(config)
        d_v = d_model // heads
        self.attention = nn.ModuleList(
            CompatibilityAttention(kind, d_model, heads, tagging.d_k, d_v) for _ in range(tagging.num_layers)
        )
        self.feed_forward = nn.ModuleList(FeedForward(config) for _ in range(tagging.num_layers))
        self.residuals = nn.ModuleList(Residual(config) for _ in range(2 * tagging.num_layers))
        self.norm = nn.LayerNorm(d_model)
        self.answers = nn.Linear(d_model, self.num_answers * tagging.num_symbols)

    def forward(self, symbols_BT: Tensor) -> Tensor:
        """Returns logits of each answer, (B, T, answers, symbols)."""
        x = self.embedding(symbols_BT) + self.positions(0, symbols_BT.size(1))
        sublayers = [layer for pair in zip(self.attention, self.feed_forward, strict=True) for layer in pair]
        for sublayer, residual in zip(sublayers, self.residuals, strict=True):
            x = residual.leave(x, sublayer(residual.enter(x)))  # type: ignore[operator]
        logits: Tensor = self.answers(self.norm(x)).unflatten(-1, (self.num_answers, -1))
        return logits


def train_tagger(tagging: Tagging, kind: Kind, seed: int, device: torch.device, say: Say) -> Values:
    """Trains with Adam at one learning rate, after a warm-up over a tenth of the steps.

    Returns:
        `loss` over the last tenth of the steps (nats per answer), and `right`, the share of answers of fresh sequences.
    """
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = Tagger(tagging, kind).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=tagging.learning_rate)
    warmup = max(1, tagging.max_steps // 10)
    losses = []
    for step in range(1, tagging.max_steps + 1):
        symbols, answers = (x.to(device) for x in tagging.draw(generator))
        for group in optimizer.param_groups:
            group["lr"] = tagging.learning_rate * min(1.0, step / warmup)
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(symbols).flatten(0, 2), answers.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if step % 50 == 0:
            say(f"step {step:,} of {tagging.max_steps:,}, loss {float(losses[-1]):.3f}")
    fresh = torch.Generator().manual_seed(10_000)
    with torch.inference_mode():
        symbols, answers = (x.to(device) for x in tagging.draw(fresh))
        right = model(symbols).argmax(dim=-1) == answers
    last = losses[-max(1, len(losses) // 10) :]
    return {"loss": float(torch.stack(last).mean()), "right": float(right.float().mean())}
