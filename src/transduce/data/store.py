"""Token ids of a parallel corpus in one memory-mapped Arrow file, with access to any pair in constant time.

The file is Arrow IPC: two columns `source` and `target`, lists of uint16 (int32 for vocabularies above 65 536), in
record batches of a fixed number of rows, so that row i is in batch i // BATCH_ROWS. Ids are stored without the final
EOS. Reading returns numpy views on the mapped bytes: nothing is copied until a pair is used, and processes share one
copy in memory.
"""

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from transduce.errors import DataError
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


class ParallelStore:
    """The pairs of one split, read-only.

    Attributes:
        path: the file.
        tokenizer_fingerprint: fingerprint of the tokenizer that made the ids.
        vocab_size: its vocabulary size; every id is below it.
        source_lengths: number of tokens of each source, EOS counted.
        target_lengths: number of tokens of each target, EOS counted.
    """

    def __init__(self, path: Path, metadata: dict[str, Any], columns: list["_Column"]) -> None:
        self.path = path
        self.tokenizer_fingerprint: str = metadata["tokenizer_fingerprint"]
        self.vocab_size: int = metadata["vocab_size"]
        self._source, self._target = columns
        self.source_lengths = self._source.lengths()
        self.target_lengths = self._target.lengths()

    @classmethod
    def open(cls, path: Path) -> "ParallelStore":
        """Maps the file into memory.

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
            reason = str(error).splitlines()[0]
            raise DataError(f"{path}: damaged, cut short, or not an Arrow file ({reason}). {advice}") from None
        metadata = _read_metadata(path, reader.schema)
        rows = [batch.num_rows for batch in batches]
        if any(count != BATCH_ROWS for count in rows[:-1]):
            raise DataError(f"{path}: damaged: its record batches do not have {BATCH_ROWS} rows each. {advice}")
        try:
            columns = [_Column([batch.column(name) for batch in batches], metadata) for name in _COLUMNS]
        except (ValueError, KeyError) as error:
            raise DataError(f"{path}: damaged: {error}. {advice}") from None
        return cls(path, metadata, columns)

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


class _Column:
    """Numpy views on one list column."""

    def __init__(self, arrays: list[Any], metadata: dict[str, Any]) -> None:
        self._offsets: list[NDArray[np.int32]] = []
        self._values: list[Ids] = []
        dtype = id_type(metadata["vocab_size"])
        self._arrays = arrays  # keeps the bytes behind the views alive
        for array in arrays:
            if array.type != pa.list_(pa.from_numpy_dtype(dtype)):
                raise ValueError(f"a column of {array.type}, not of lists of {dtype}")
            offsets = np.frombuffer(array.buffers()[1], dtype=np.int32, count=len(array) + 1, offset=4 * array.offset)
            values = np.asarray(array.values)
            if offsets[0] < 0 or offsets[-1] > len(values) or np.any(np.diff(offsets) < 0):
                raise ValueError("row offsets out of order")
            self._offsets.append(offsets)
            self._values.append(values)

    def lengths(self) -> Lengths:
        """Returns the number of ids of each row, plus 1 for EOS."""
        if not self._offsets:
            return np.zeros(0, dtype=np.int32)
        return np.concatenate([np.diff(offsets) + np.int32(1) for offsets in self._offsets]).astype(np.int32)

    def row(self, index: int) -> Ids:
        batch, row = divmod(index, BATCH_ROWS)
        if index < 0:
            raise IndexError(f"row {index}: rows are counted from 0")
        offsets = self._offsets[batch]
        return self._values[batch][offsets[row] : offsets[row + 1]]


class StoreWriter:
    """Writes a store, one record batch at a time. Use it in a `with` statement.

    The file appears at `path` only when the block ends without an exception.

    Attributes:
        num_pairs: number of pairs written.
    """

    def __init__(self, path: Path, *, tokenizer_fingerprint: str, vocab_size: int) -> None:
        self.num_pairs = 0
        self._path = path
        self._dtype = id_type(vocab_size)
        self._vocab_size = vocab_size
        ids = pa.list_(pa.from_numpy_dtype(self._dtype))
        metadata = {
            "format_version": FORMAT_VERSION,
            "tokenizer_fingerprint": tokenizer_fingerprint,
            "vocab_size": vocab_size,
        }
        self._schema = pa.schema(
            [(name, ids) for name in _COLUMNS], metadata={_METADATA_KEY: json.dumps(metadata).encode()}
        )
        self._pending = [_Pending(self._dtype), _Pending(self._dtype)]
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            temporary = stack.enter_context(atomic_path(self._path))
            self._writer = stack.enter_context(pa.ipc.new_file(str(temporary), self._schema))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._flush(whole=False)
        except BaseException as failure:
            self._stack.__exit__(type(failure), failure, failure.__traceback__)
            raise
        self._stack.__exit__(kind, error, trace)

    def write(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> None:
        """Appends pairs, given as ids without EOS."""
        sides: list[Any] = []
        for rows in (sources, targets):
            lengths = np.fromiter((len(row) for row in rows), dtype=np.int32, count=len(rows))
            ids = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows]) if len(rows) else np.zeros(0, int)
            sides += [ids, lengths]
        self.write_flat(*sides)

    def write_flat(self, source_ids: Ids, source_counts: Lengths, target_ids: Ids, target_counts: Lengths) -> None:
        """Appends pairs, given as the ids of all rows in one array and the number of ids of each row."""
        if len(source_counts) != len(target_counts):
            raise ValueError(f"{len(source_counts)} sources and {len(target_counts)} targets")
        for ids in (source_ids, target_ids):
            if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < self._vocab_size:
                raise ValueError(f"an id is outside the vocabulary of {self._vocab_size}")
        self._pending[0].append(source_ids, source_counts)
        self._pending[1].append(target_ids, target_counts)
        self.num_pairs += len(source_counts)
        self._flush(whole=True)

    def _flush(self, *, whole: bool) -> None:
        """Writes pending rows in full batches; if `whole` is False, also a shorter last batch."""
        while (rows := min(self._pending[0].num_rows, BATCH_ROWS)) == BATCH_ROWS or (rows and not whole):
            self._writer.write_batch(pa.record_batch([side.take(rows) for side in self._pending], schema=self._schema))


class _Pending:
    """Rows of one column that wait until their record batch is full."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.num_rows = 0
        self._dtype = dtype
        self._ids: list[Ids] = []
        self._counts: list[Lengths] = []

    def append(self, ids: Ids, counts: Lengths) -> None:
        if int(counts.sum()) != len(ids):
            raise ValueError(f"row lengths add up to {int(counts.sum())}, but there are {len(ids)} ids")
        self._ids.append(ids.astype(self._dtype))
        self._counts.append(counts.astype(np.int32))
        self.num_rows += len(counts)

    def take(self, rows: int) -> Any:
        """Removes the first `rows` rows and returns them as an Arrow array."""
        ids, counts = np.concatenate(self._ids), np.concatenate(self._counts)
        offsets = np.zeros(rows + 1, dtype=np.int32)
        np.cumsum(counts[:rows], out=offsets[1:])
        end = int(offsets[-1])
        # Copies: views would keep the whole of `ids` alive.
        self._ids, self._counts = [ids[end:].copy()], [counts[rows:].copy()]
        self.num_rows -= rows
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(ids[:end]))


def _read_metadata(path: Path, schema: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    with contextlib.suppress(KeyError, TypeError, ValueError):  # reported just below
        metadata = json.loads(schema.metadata[_METADATA_KEY])
    if not {"format_version", "tokenizer_fingerprint", "vocab_size"} <= metadata.keys():
        raise DataError(f"{path}: an Arrow file that 'transduce prepare' did not write.")
    if metadata["format_version"] != FORMAT_VERSION:
        raise DataError(
            f"{path}: store format {metadata['format_version']}; this version reads format {FORMAT_VERSION}. "
            "Run 'transduce prepare' again."
        )
    return metadata
