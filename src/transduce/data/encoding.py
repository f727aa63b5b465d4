"""Text to token ids, a whole corpus at a time: streamed, on all cores, in order.

The main thread reads and writes; a few threads encode. The tokeniser releases Python's lock and uses all cores by
itself. On Europarl, threads were faster than a pool of processes, which has to copy the text and needs a tokeniser in
each process. The number of chunks in progress is bounded, so memory does not grow with the corpus.
"""

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transduce.config import DataConfig
from transduce.data.corpus import Chunk
from transduce.data.doctor import Finding
from transduce.data.store import Ids, Lengths, StoreWriter, id_type
from transduce.text import SubwordTokenizer

_OVERLAPPING_CALLS = 2  # the Python work of one chunk, and the encoding of the next
_CHUNKS_IN_FLIGHT_A_THREAD = 2


@dataclass
class EncodedSplit:
    """The outcome of encoding a split.

    Attributes:
        num_read: pairs read.
        num_kept: pairs stored.
        source_tokens: source tokens stored, EOS counted.
        target_tokens: target tokens stored, EOS counted.
        over_long: pairs with a side longer than `data.max_tokens`.
        odd_ratio: other pairs whose lengths differ by more than `data.max_ratio` allows.
    """

    num_read: int = 0
    num_kept: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    over_long: Finding = field(default_factory=Finding)
    odd_ratio: Finding = field(default_factory=Finding)


@dataclass(frozen=True)
class _EncodedChunk:
    num_read: int
    source: tuple[Ids, Lengths]
    target: tuple[Ids, Lengths]
    over_long: list[str]
    odd_ratio: list[str]


def encode_split(
    chunks: Iterable[Chunk],
    path: Path,
    tokenizer: SubwordTokenizer,
    *,
    read: Callable[[str], str] = str,
    kept: NDArray[np.bool_] | None,
    limits: DataConfig | None,
    num_workers: int | None,
) -> EncodedSplit:
    """Encodes the pairs of a split and writes them to a store.

    Args:
        chunks: the pairs, in order.
        path: where to write the store.
        tokenizer: encodes both sides.
        read: turns a source into the text that the model reads.
        kept: for each pair whether it is kept; None: all pairs with text on both sides.
        limits: pairs beyond its `max_tokens` and `max_ratio` are counted and dropped; None: no limits.
        num_workers: number of threads that encode; None: all cores.
    """
    result = EncodedSplit()
    dtype = id_type(tokenizer.vocab_size)

    def encode(chunk: Chunk) -> _EncodedChunk:
        return _encode_chunk(chunk, tokenizer, dtype, read, kept, limits)

    with StoreWriter(path, tokenizer_fingerprint=tokenizer.fingerprint, vocab_size=tokenizer.vocab_size) as writer:
        for encoded in _in_order(encode, chunks, num_workers):
            writer.write_flat(*encoded.source, *encoded.target)
            num_pairs = len(encoded.source[1])
            result.num_read += encoded.num_read
            result.num_kept += num_pairs
            result.source_tokens += len(encoded.source[0]) + num_pairs
            result.target_tokens += len(encoded.target[0]) + num_pairs
            result.over_long.add(encoded.over_long)
            result.odd_ratio.add(encoded.odd_ratio)
    return result


def _in_order(
    encode: Callable[[Chunk], _EncodedChunk], chunks: Iterable[Chunk], num_workers: int | None
) -> Iterator[_EncodedChunk]:
    """Yields the encoded chunks in the order of `chunks`, with a bounded number of them in progress."""
    num_threads = num_workers or _OVERLAPPING_CALLS
    pending: deque[Future[_EncodedChunk]] = deque()
    with _tokenizer_threads(own=num_workers is None), ThreadPoolExecutor(num_threads, "encode") as pool:
        for chunk in chunks:
            pending.append(pool.submit(encode, chunk))
            if len(pending) > _CHUNKS_IN_FLIGHT_A_THREAD * num_threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


@contextlib.contextmanager
def _tokenizer_threads(*, own: bool) -> Iterator[None]:
    """Lets the tokeniser use all cores (`own`), or keeps it in the calling thread, if our threads do the work."""
    name = "TOKENIZERS_PARALLELISM"  # the library's only switch; the user's value is kept if `own`
    before = os.environ.get(name)
    os.environ[name] = (before or "true") if own else "false"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _encode_chunk(
    chunk: Chunk,
    tokenizer: SubwordTokenizer,
    dtype: np.dtype[Any],
    read: Callable[[str], str],
    kept: NDArray[np.bool_] | None,
    limits: DataConfig | None,
) -> _EncodedChunk:
    if kept is None:
        indices = [i for i, (src, tgt) in enumerate(chunk.pairs) if src.strip() and tgt.strip()]
    else:
        indices = np.flatnonzero(kept[chunk.start : chunk.start + len(chunk.pairs)]).tolist()
    texts = [read(chunk.pairs[i][0]) for i in indices], [chunk.pairs[i][1] for i in indices]
    sides = [tokenizer.encode_batch(side) for side in texts]
    counts = [np.fromiter(map(len, side), dtype=np.int32, count=len(side)) for side in sides]
    over_long: list[str] = []
    odd_ratio: list[str] = []
    if limits is not None:
        long, odd = exceeds(counts[0], counts[1], limits)
        over_long = [_location(chunk, indices, counts, i) for i in np.flatnonzero(long).tolist()]
        odd_ratio = [_location(chunk, indices, counts, i) for i in np.flatnonzero(odd).tolist()]
        keep = np.flatnonzero(~(long | odd)).tolist()
        sides = [[side[i] for i in keep] for side in sides]
        counts = [count[keep] for count in counts]
    flat = [
        np.fromiter(chain.from_iterable(side), dtype=dtype, count=int(count.sum()))
        for side, count in zip(sides, counts, strict=True)
    ]
    return _EncodedChunk(len(chunk.pairs), (flat[0], counts[0]), (flat[1], counts[1]), over_long, odd_ratio)


def exceeds(source: Lengths, target: Lengths, limits: DataConfig) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Returns which pairs are over-long, and which of the others have an odd length ratio; EOS is not counted.

    Example with `max_ratio` 4 and `ratio_slack_tokens` 8: 2 to 10 tokens passes, since the difference is at most 8;
    2 to 11 does not.
    """
    longer, shorter = np.maximum(source, target), np.minimum(source, target)
    long = longer > limits.max_tokens
    if limits.max_ratio == 0:
        return long, np.zeros_like(long)
    odd = (longer > limits.max_ratio * shorter) & (longer - shorter > limits.ratio_slack_tokens)
    return long, odd & ~long


def _location(chunk: Chunk, indices: Sequence[int], counts: Sequence[Lengths], index: int) -> str:
    return f"{chunk.location(indices[index])} ({counts[0][index]} to {counts[1][index]} subwords)"
