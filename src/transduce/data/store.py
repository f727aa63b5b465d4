"""Token ids of a parallel corpus in one memory-mapped Arrow file, with access to any pair in constant time.

The file is Arrow IPC: two columns `source` and `target`, lists of uint16 (int32 for vocabularies above 65 536), in
record batches of a fixed number of rows, so that row i is in batch i // BATCH_ROWS. Ids are stored without the final
EOS. Reading returns numpy views on the mapped bytes: nothing is copied until a pair is used, and processes share one
copy in memory.
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from transduce.config import TrainConfig
from transduce.config.checked_json import format_problem
from transduce.data.batching import BatchPlan, Indices, plan_epoch
from transduce.data.mixture import CorpusRows
from transduce.errors import DataError, require_resources
from transduce.files import atomic_path

FORMAT_VERSION = 1
BATCH_ROWS = 65_536

_METADATA_KEY = b"transduce.store"
_COLUMNS = ("source", "target")

Ids = NDArray[Any]  # uint16 or int32
Lengths = NDArray[np.int32]


def id_type(vocab_size: int) -> np.dtype[Any]:
    """Returns the smallest type that holds every id of the vocabulary."""
    return np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.int32)


class Pairs(Protocol):
    """Pairs that batches are made of: those of a `ParallelStore`, or those of an epoch that modifiers change.

    Attributes:
        source_lengths: number of tokens of each source, EOS counted; of modified ones about.
        target_lengths: the same of each target.
    """

    source_lengths: Lengths
    target_lengths: Lengths

    def pairs(self, indices: Indices) -> tuple[list[Ids], list[Ids]]:
        """Returns the sources and the targets of several pairs, without EOS, in the order of `indices`."""

    def lengths(self, indices: Indices) -> tuple[Lengths, Lengths]:
        """Returns the real numbers of tokens of several sources and of their targets, EOS counted."""

    def store_rows(self, indices: Indices) -> Indices:
        """Returns the row of the store that each pair comes from."""


class ParallelStore:
    """The pairs of one split, read-only.

    Attributes:
        path: the file.
        tokenizer_fingerprint: fingerprint of the tokenizer that made the ids.
        vocab_size: its vocabulary size; every id is below it.
        source_lengths: number of tokens of each source, EOS counted.
        target_lengths: number of tokens of each target, EOS counted.
        corpora: which rows belong to which corpus; empty where that is not known.
    """

    def __init__(
        self, path: Path, metadata: dict[str, Any], columns: list["_Column"], corpora: Sequence[CorpusRows] = ()
    ) -> None:
        self.path = path
        self.corpora = tuple(corpora)
        self.tokenizer_fingerprint: str = metadata["tokenizer_fingerprint"]
        self.vocab_size: int = metadata["vocab_size"]
        self._source, self._target = columns
        self.source_lengths = self._source.lengths()
        self.target_lengths = self._target.lengths()

    @classmethod
    def open(cls, path: Path, corpora: Sequence[CorpusRows] = ()) -> "ParallelStore":
        """Maps the file into memory; `corpora` are those that the manifest of its folder lists.

        Raises:
            DataError: the file is missing, cut short, damaged, or not one of ours.
        """
        advice = "Run 'transduce prepare' again."
        try:
            reader = pa.ipc.open_file(pa.memory_map(str(path)))
            batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
        except FileNotFoundError:
            raise DataError(f"{path}: no such file. {advice}") from None
        except (pa.ArrowException, OSError) as error:
            require_resources(error, path)
            reason = str(error).splitlines()[0]
            raise DataError(f"{path}: damaged, cut short, or not an Arrow file ({reason}). {advice}") from None
        metadata = _read_metadata(path, reader.schema)
        if any(batch.num_rows != BATCH_ROWS for batch in batches[:-1]):
            raise DataError(f"{path}: damaged: its record batches do not have {BATCH_ROWS} rows each. {advice}")
        try:
            columns = [_Column([batch.column(name) for batch in batches], metadata) for name in _COLUMNS]
        except (ValueError, KeyError) as error:
            raise DataError(f"{path}: damaged: {error}. {advice}") from None
        store = cls(path, metadata, columns, corpora)
        if corpora and sum(corpus.num_pairs for corpus in corpora) != len(store):
            raise DataError(f"{path}: has {len(store)} pairs, and the corpora of its manifest do not. {advice}")
        return store

    def __len__(self) -> int:
        return len(self.source_lengths)

    def source(self, index: int) -> Ids:
        """Returns the ids of one source, without EOS: a read-only view."""
        return self._source.row(index)

    def target(self, index: int) -> Ids:
        """Returns the ids of one target, without EOS: a read-only view."""
        return self._target.row(index)

    def pairs(self, indices: NDArray[np.integer[Any]]) -> tuple[list[Ids], list[Ids]]:
        """Returns the sources and the targets of several pairs, in the order of `indices`."""
        rows: list[int] = indices.tolist()
        return [self._source.row(i) for i in rows], [self._target.row(i) for i in rows]

    def lengths(self, indices: Indices) -> tuple[Lengths, Lengths]:
        """Returns the numbers of tokens of several sources and of their targets, EOS counted."""
        return self.source_lengths[indices], self.target_lengths[indices]

    def store_rows(self, indices: Indices) -> Indices:
        """Returns `indices`: pairs are rows here."""
        return indices

    def rows_of_corpora(self) -> dict[str, range]:
        """Returns the rows of each corpus by its name; of a store that does not know them, all rows by ""."""
        if not self.corpora:
            return {"": range(len(self))}
        ends = [*accumulate(corpus.num_pairs for corpus in self.corpora)]
        return {corpus.name: range(end - corpus.num_pairs, end) for corpus, end in zip(self.corpora, ends, strict=True)}

    def plan_epoch(self, train: TrainConfig, epoch: int, rows: Indices | None = None) -> BatchPlan:
        """Returns the batches of an epoch over these pairs, or over `rows` of them, within the budgets of `train`."""
        return plan_lengths((self.source_lengths, self.target_lengths), train, epoch, rows)


def plan_lengths(
    lengths: tuple[Lengths, Lengths], train: TrainConfig, epoch: int, rows: Indices | None = None
) -> BatchPlan:
    """Returns the batches of an epoch over pairs of these lengths, or `rows` of them, within the budgets of `train`."""
    return plan_epoch(
        *lengths,
        source_budget=train.source_batch_tokens,
        target_budget=train.target_batch_tokens,
        seed=train.seed,
        epoch=epoch,
        rows=rows,
    )


class _Column:
    """Numpy views on one list column."""

    def __init__(self, arrays: list[Any], metadata: dict[str, Any]) -> None:
        self._batches: list[tuple[NDArray[np.int32], Ids]] = []  # where each row begins, and the ids of all
        dtype = id_type(metadata["vocab_size"])
        self._arrays = arrays  # keeps the bytes of the views alive
        for array in arrays:
            if array.type != pa.list_(pa.from_numpy_dtype(dtype)):
                raise ValueError(f"a column of {array.type}, not of lists of {dtype}")
            offsets = np.frombuffer(array.buffers()[1], dtype=np.int32, count=len(array) + 1, offset=4 * array.offset)
            values = np.asarray(array.values)
            if offsets[0] < 0 or offsets[-1] > len(values) or np.any(np.diff(offsets) < 0):
                raise ValueError("row offsets out of order")
            self._batches.append((offsets, values))

    def lengths(self) -> Lengths:
        """Returns the number of ids of each row, plus 1 for EOS."""
        return np.concatenate([np.zeros(0, np.int32), *(np.diff(starts) + np.int32(1) for starts, _ in self._batches)])

    def row(self, index: int) -> Ids:
        batch, row = divmod(index, BATCH_ROWS)
        if index < 0:
            raise IndexError(f"row {index}: rows are counted from 0")
        offsets, values = self._batches[batch]
        return values[offsets[row] : offsets[row + 1]]


class StoreWriter:
    """Writes a store, one record batch at a time.

    Attributes:
        num_pairs: number of pairs written.
    """

    def __init__(self, file: Any, schema: Any, vocab_size: int) -> None:
        """Do not call this: use `open`."""
        self.num_pairs = 0
        self._file = file
        self._schema = schema
        self._vocab_size = vocab_size
        self._pending = schema.empty_table()  # rows that wait until their record batch is full

    @classmethod
    @contextlib.contextmanager
    def open(cls, path: Path, *, tokenizer_fingerprint: str, vocab_size: int) -> Iterator[Self]:
        """Opens a writer for a `with` statement. The file appears only when the block ends without an exception."""
        metadata = {
            "format_version": FORMAT_VERSION,
            "tokenizer_fingerprint": tokenizer_fingerprint,
            "vocab_size": vocab_size,
        }
        ids = pa.list_(pa.from_numpy_dtype(id_type(vocab_size)))
        schema = pa.schema(dict.fromkeys(_COLUMNS, ids), metadata={_METADATA_KEY: json.dumps(metadata).encode()})
        with atomic_path(path) as temporary, pa.ipc.new_file(str(temporary), schema) as file:
            writer = cls(file, schema, vocab_size)
            yield writer
            writer._flush(whole=False)

    def write(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> None:
        """Appends pairs, given as ids without EOS.

        Raises:
            ValueError: an id is outside the vocabulary, or the numbers of sources and targets differ.
        """
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} sources and {len(targets)} targets")
        columns = [pa.array(rows, pa.list_(pa.int64())) for rows in (sources, targets)]
        for column in columns:
            ids = np.asarray(column.values)
            if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < self._vocab_size:
                raise ValueError(f"an id is outside the vocabulary of {self._vocab_size}")
        self._pending = pa.concat_tables([self._pending, pa.table(columns, _COLUMNS).cast(self._schema)])
        self.num_pairs += len(sources)
        self._flush(whole=True)

    def _flush(self, *, whole: bool) -> None:
        """Writes pending rows in full batches; if `whole` is False, also a shorter last batch."""
        while len(self._pending) >= BATCH_ROWS or (len(self._pending) and not whole):
            self._file.write_table(self._pending.slice(0, BATCH_ROWS).combine_chunks())
            self._pending = self._pending.slice(BATCH_ROWS)


def _read_metadata(path: Path, schema: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    with contextlib.suppress(KeyError, TypeError, ValueError):  # reported just below
        metadata = json.loads(schema.metadata[_METADATA_KEY])
    if not {"format_version", "tokenizer_fingerprint", "vocab_size"} <= metadata.keys():
        raise DataError(f"{path}: an Arrow file that 'transduce prepare' did not write.")
    if problem := format_problem(metadata, FORMAT_VERSION, key="format_version"):
        raise DataError(f"{path}: {problem}. Run 'transduce prepare' again.")
    return metadata
