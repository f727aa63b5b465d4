"""Sequences of ids end to end in one array: a few bytes a token, where a list of arrays takes a hundred for each."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from transduce.data.batching import Indices
from transduce.data.store import Ids, Lengths, id_type


@dataclass(frozen=True)
class PackedIds:
    """Sequences of ids.

    Attributes:
        ids: of all of them, one after the other.
        starts: where each begins in `ids`, and at the end the number of ids.
    """

    ids: Ids
    starts: Indices

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int] | Ids], vocab_size: int) -> "PackedIds":
        """Returns sequences in one array, of the smallest type that holds each id below `vocab_size`."""
        starts = np.array([*accumulate(map(len, sequences), initial=0)])
        ids = np.empty(starts[-1], id_type(vocab_size))
        for begin, sequence in zip(starts.tolist(), sequences, strict=False):
            ids[begin : begin + len(sequence)] = sequence
        return cls(ids, starts)

    @classmethod
    def joined(cls, parts: Sequence["PackedIds"]) -> "PackedIds":
        """Returns the sequences of all of `parts`, of which there is at least one."""
        begins = accumulate((len(part.ids) for part in parts), initial=0)
        starts = [part.starts[:-1] + begin for part, begin in zip(parts, begins, strict=False)]
        ids = np.concatenate([part.ids for part in parts])
        return cls(ids, np.concatenate([*starts, [len(ids)]]))

    @property
    def lengths(self) -> Lengths:
        """The number of ids of each sequence."""
        return np.diff(self.starts).astype(np.int32)

    def __getitem__(self, index: int) -> Ids:
        return self.ids[self.starts[index] : self.starts[index + 1]]
