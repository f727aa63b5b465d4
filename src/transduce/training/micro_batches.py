"""How batches are split into micro-batches from each step on, recorded so that a resumed run splits them identically.

A split changes an update by rounding, and by the numbers that dropout draws. So what was decided by the memory at hand,
before the first step or when memory ran out, is written to `RUN/micro_batches.json`, and a resumed run follows it:

    {"checksum": "…",
     "splits": [{"from_step": 1, "setting": "auto", "target_tokens": [12500], ...},
                {"from_step": 807, "setting": "auto", "target_tokens": [6250], ...}]}

`target_tokens` has a limit for each process; with another number of processes, the least of them holds for all.
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch

from transduce.config import TrainConfig
from transduce.config.checked_json import read_checked, write_checked
from transduce.data.batching import Indices, micro_batches
from transduce.data.store import Pairs
from transduce.data.word_links import PieceLinks
from transduce.errors import TrainingError
from transduce.training.batch import Batch, collate
from transduce.training.distributed import Ranks
from transduce.training.memory import available_bytes, gibibytes, is_out_of_memory, return_freed_memory, used_bytes
from transduce.training.optimizer import kept_bytes
from transduce.training.run_folder import MICRO_BATCHES, damaged
from transduce.training.trainable import TrainableModel

# With fewer target tokens at once, matrix products are so small that computing layers twice costs less time.
LEAST_TOKENS = 1024


@dataclass(frozen=True)
class Split:
    """How batches are split from a step on."""

    from_step: int
    setting: int | str  # of `train.micro_batch_tokens`
    target_tokens: list[int]  # most of a micro-batch, padding counted; one number for each process
    activation_checkpointing: bool
    peak_bytes: int  # predicted, of one process; 0 if it is unknown
    reason: str


@dataclass
class BatchSplits:
    """The splits of a run, by its record and its configuration."""

    run: Path
    train: TrainConfig
    model: TrainableModel
    pairs: Pairs  # that rows are rows of; in training, those of the epoch
    device: torch.device
    ranks: Ranks
    links: PieceLinks | None = None  # that batches are made with
    entries: list[Split] = field(default_factory=list)
    own_limit: int | None = None  # where memory ran out in this step, in this process

    def __post_init__(self) -> None:
        self.model.checkpointing = self.train.activation_checkpointing is True
        self.model.rounded_shapes = self.train.rounded_shapes

    @property
    def whole(self) -> int:
        """The limit that splits no batch."""
        return self.train.target_batch_tokens

    def load(self, step: int) -> bool:
        """Reads the record of a run after `step` updates; returns whether it is known how to split the next batch.

        It is not where `train.micro_batch_tokens` is "auto" and no update was made with that.

        Raises:
            TrainingError: the record is damaged.
        """
        if step == 0 and self.ranks.is_main:  # of an earlier attempt, which failed before its first checkpoint
            (self.run / MICRO_BATCHES).unlink(missing_ok=True)
        self.entries = read_splits(self.run / MICRO_BATCHES) if step else []
        setting = self.train.micro_batch_tokens
        if self.entries and self.entries[-1].setting == setting:
            if self.train.activation_checkpointing == "auto":
                self.model.checkpointing = self.entries[-1].activation_checkpointing
            return True
        if self.entries and setting != "auto":
            self.add(step + 1, [self._set_limit()] * self.ranks.world_size, "set")
        return setting != "auto"

    def limit(self, step: int) -> int:
        """Returns the most target tokens of a micro-batch of this process in `step`, padding counted."""
        if self.own_limit is not None:
            return self.own_limit
        split = next((each for each in reversed(self.entries) if each.from_step <= step), None)
        if split is None:
            return self._set_limit()
        same = len(split.target_tokens) == self.ranks.world_size
        return split.target_tokens[self.ranks.rank] if same else min(split.target_tokens)

    def _set_limit(self) -> int:
        tokens = self.train.micro_batch_tokens
        return tokens if isinstance(tokens, int) and tokens else self.whole

    @property
    def least(self) -> int:
        """The least limit of any process now: the same number in all of them."""
        return min(self.entries[-1].target_tokens, default=self.whole) if self.entries else self._set_limit()

    def parts(self, rows: Indices, step: int) -> list[Indices]:
        """Returns the micro-batches of this process's share of a batch."""
        if self.own_limit is not None:  # memory ran out; the tensors of the failed attempt are free by now
            return_freed_memory(self.device)
        lengths = self.pairs.lengths(rows)
        return [rows[part] for part in micro_batches(np.arange(len(rows)), *lengths, self.limit(step))]

    def collate(self, rows: Indices) -> Batch:
        """Returns a micro-batch on the device, of rounded sizes if `train.rounded_shapes` says so."""
        return collate(self.pairs, rows, self.device, model=self.model, links=self.links)

    def add(self, step: int, target_tokens: list[int], reason: str, *, peak_bytes: int = 0) -> None:
        """Records how batches are split from `step` on; the main process writes it."""
        split = Split(
            from_step=step,
            setting=self.train.micro_batch_tokens,
            target_tokens=target_tokens,
            activation_checkpointing=self.model.checkpointing,
            peak_bytes=peak_bytes,
            reason=reason,
        )
        self.entries = [*(each for each in self.entries if each.from_step < step), split]
        if self.ranks.is_main:
            write_checked(self.run / MICRO_BATCHES, {"splits": [asdict(each) for each in self.entries]})

    # --- when memory runs out in a step -------------------------------------------------------------------------

    def lower(self, error: BaseException, rows: Indices, step: int) -> None:
        """Lowers this process's limit after an `error` in its share of a batch, for the share to be computed again.

        Raises:
            TrainingError: one pair alone is too large.
            BaseException: `error` itself, if it is no lack of memory.
        """
        if not is_out_of_memory(error):
            raise error
        limit = self.limit(step)
        sizes = [len(part) * int(self.pairs.lengths(part)[1].max()) for part in self.parts(rows, step) if len(part) > 1]
        halved = min(limit, max(sizes, default=0)) // 2
        if halved < LEAST_TOKENS and self.train.activation_checkpointing == "auto" and not self.model.checkpointing:
            self.model.checkpointing = True
            halved = limit
        elif not sizes:
            raise TrainingError(
                f"{self.run}: step {step}: memory ran out in a micro-batch of one pair. Free memory, lower "
                "data.max_tokens or make the model smaller."
            ) from error
        self.own_limit = halved

    def settle(self, step: int) -> str:
        """Records what `lower` did in `step`, in any process, and returns a line about it; all processes call it.

        So a resumed run splits this batch and those after it as this one did.
        """
        limits = torch.zeros(self.ranks.world_size, dtype=torch.int64, device=self.device)
        limits[self.ranks.rank] = self.limit(step)
        self.ranks.sum([limits])
        self.add(step, limits.tolist(), "memory ran out")
        self.own_limit = None
        return f"warning: step {step}: memory ran out; from here on, {self.description()}"

    def announcement(self) -> list[str]:
        """Returns the message before training: how batches are split, the memory needed, and whether it suffices."""
        lines = [self.description()]
        peak = self.entries[-1].peak_bytes if self.entries else 0
        free = available_bytes(self.device)
        if peak and free is not None:
            total = free + used_bytes(self.device)
            copied = snapshot_bytes(self.model, self.device, self.ranks, self.train)
            lines[0] += f"; memory at most {gibibytes(peak)} of {gibibytes(total)}, by trial"
            lines[0] += f", and {gibibytes(copied)} more for checkpoints" if copied else ""
            if peak + copied > total:  # the machine has less than when this was decided
                advice = f"set train.micro_batch_tokens to less than {self.limit(self.entries[-1].from_step):,}"
                lines.append(f"warning: that is more than there is now. To continue all the same, {advice}")
        return lines

    def description(self) -> str:
        """Returns how batches are split now."""
        least = self.least
        text = "whole batches" if least >= self.whole else f"micro-batches of at most {least:,} target tokens"
        return f"{text}, layers computed twice" if self.model.checkpointing else text


def snapshot_bytes(model: TrainableModel, device: torch.device, ranks: Ranks, train: TrainConfig) -> int:
    """Returns the bytes on `device` of the copy of weights and moments from which checkpoints are written."""
    if device.type != "cpu" or not ranks.is_main:
        return 0
    return sum(each.nbytes + kept_bytes(train, each) for each in model.parameters())


def read_splits(path: Path) -> list[Split]:
    """Returns the splits that a file records; raises TrainingError where it is damaged."""
    if not path.is_file():  # a run of a version that wrote none
        return []
    try:
        return [Split(**each) for each in read_checked(path)["splits"]]
    except (ValueError, TypeError, KeyError) as error:
        raise damaged(path, error) from None
