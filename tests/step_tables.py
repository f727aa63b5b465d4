"""A model in the eyes of a search: logits from a table, written by hand or made at random, and nothing behind it."""

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from transduce.decoding.scores import Hypothesis, gnmt_penalty
from transduce.decoding.search import SearchTask

BOS, EOS, UNK = 1, 2, 3
A, B, C = 4, 5, 6

# (sentence, tokens so far) → logits
Table = Callable[[int, tuple[int, ...]], list[float]]


@dataclass(frozen=True)
class FakeState:
    """Remembers what each row is: its sentence and its tokens so far."""

    rows: tuple[tuple[int, tuple[int, ...]], ...]
    num_beams: int = 1

    def expand(self, num_beams: int) -> "FakeState":
        assert self.num_beams == 1
        return FakeState(tuple(row for row in self.rows for _ in range(num_beams)), num_beams)

    def reorder(self, rows_R: Tensor) -> "FakeState":
        moved = FakeState(tuple(self.rows[row] for row in rows_R.tolist()), self.num_beams)
        assert [s for s, _ in moved.rows] == [s for s, _ in self.rows]
        return moved

    def keep(self, sentences_B: Tensor) -> "FakeState":
        k = self.num_beams
        return FakeState(
            tuple(row for s in sentences_B.tolist() for row in self.rows[s * k : (s + 1) * k]), self.num_beams
        )


class FakeModel:
    """Looks logits up in a table, and counts rows."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.num_rows: list[int] = []

    def start(self, num_sentences: int) -> FakeState:
        return FakeState(tuple((s, ()) for s in range(num_sentences)))

    def task(self, limits: Sequence[int], **more: Any) -> SearchTask[FakeState]:
        """A sentence for each limit; for `more` see `SearchTask`."""
        return SearchTask(self.step, self.start(len(limits)), limits, **more)

    def step(self, tokens_R: Tensor, state: FakeState) -> tuple[Tensor, FakeState]:
        assert tokens_R.numel() == len(state.rows)
        self.num_rows.append(len(state.rows))
        rows = tuple((s, (*past, t)) for (s, past), t in zip(state.rows, tokens_R.tolist(), strict=True))
        assert all(past[0] == BOS for _, past in rows)
        logits = torch.tensor([self.table(s, past[1:]) for s, past in rows], dtype=torch.float32)
        return logits, FakeState(rows, state.num_beams)


def random_table(seed: int, vocab_size: int = 7, eos_bias: float = 0.0, spread: float = 1.5) -> Table:
    """A table of logits that depend on the whole past, and on nothing else."""

    @functools.cache
    def table(sentence: int, past: tuple[int, ...]) -> list[float]:
        generator = torch.Generator().manual_seed(hash((seed, sentence, *past)) % 2**31)
        logits = torch.randn(vocab_size, generator=generator) * spread
        logits[EOS] += eos_bias
        return [float(x) for x in logits]

    return table


def only(table: Table, sentence: int) -> Table:
    """The table of one sentence of a batch, which is then the first."""
    return lambda _, past: table(sentence, past)


def log_softmax(logits: list[float]) -> list[float]:
    return torch.log_softmax(torch.tensor(logits), dim=0).tolist()


def every_output(
    table: Table,
    limit: int,
    allowed: Callable[[tuple[int, ...]], bool] = lambda ids: True,
    *,
    vocab: Sequence[int] = (A, B, C),
    alpha: float = 0.6,
) -> list[Hypothesis]:
    """Brute force: all finished outputs of up to `limit` tokens that are allowed, best first."""
    found = []
    for length in range(limit + 1):
        for ids in filter(allowed, itertools.product(vocab, repeat=length)):
            total = sum(log_softmax(table(0, ids[:i]))[token] for i, token in enumerate((*ids, EOS)))
            found.append(Hypothesis(list(ids), total / gnmt_penalty(length + 1, alpha), total, True))
    return sorted(found, key=lambda h: -h.score)
