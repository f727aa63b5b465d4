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
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transduce.config import DataConfig
from transduce.data.batching import Lengths
from transduce.data.corpus import Chunk
from transduce.data.doctor import Examination, Finding
from transduce.data.dropped import Dropped
from transduce.data.mixture import CorpusRows
from transduce.data.origins import Origins
from transduce.data.readers import Location
from transduce.text import Tokenizer

_OVERLAPPING_CALLS = 2  # the Python work of one chunk, and the encoding of the next
_CHUNKS_IN_FLIGHT_A_THREAD = 2

# A chunk; the locations of its pairs that are kept, their source and target ids; and its pairs that are dropped.
_Encoded = tuple[Chunk, list[Location], list[list[int]], list[list[int]], list[Dropped]]


@dataclass
class EncodedPart:
    """What is stored of one part of a split.

    Attributes:
        num_read: pairs read.
        num_kept: pairs stored, one after the other.
        source_tokens: source tokens stored, EOS counted.
        target_tokens: target tokens stored, EOS counted.
    """

    num_read: int = 0
    num_kept: int = 0
    source_tokens: int = 0
    target_tokens: int = 0

    def add(self, other: "EncodedPart") -> None:
        """Adds the counts of what is stored after it."""
        self.num_read += other.num_read
        self.num_kept += other.num_kept
        self.source_tokens += other.source_tokens
        self.target_tokens += other.target_tokens


@dataclass
class EncodedSplit(EncodedPart):
    """The outcome of encoding a split.

    Attributes:
        over_long: pairs with a side longer than `data.max_tokens`.
        odd_ratio: other pairs whose lengths differ by more than `data.max_ratio` allows.
        parts: the counts of each part, in the order of the store.
    """

    over_long: Finding = field(default_factory=Finding)
    odd_ratio: Finding = field(default_factory=Finding)
    parts: list[EncodedPart] = field(default_factory=list)

    def rows(self, names: Sequence[str]) -> list[CorpusRows]:
        """Returns which rows of the store are of which part, given the names of all parts."""
        parts = [*self.parts, *[EncodedPart()] * (len(names) - len(self.parts))]  # the last files may be empty
        return [
            CorpusRows(name, part.num_kept, part.source_tokens, part.target_tokens)
            for name, part in zip(names, parts, strict=True)
        ]


def encode_split(
    chunks: Iterable[Chunk],
    path: Path,
    tokenizer: Tokenizer,
    *,
    read: Callable[[str], str] = str,
    tags: tuple[Sequence[Sequence[str]], Sequence[Sequence[str]]] = ((), ()),
    examination: Examination | None,
    limits: DataConfig | None,
    num_workers: int | None,
) -> tuple[EncodedSplit, Origins]:
    """Encodes the pairs of a split, writes them to a store, and returns the counts and where each row comes from.

    Args:
        chunks: the pairs, in order.
        path: where to write the store.
        tokenizer: encodes both sides.
        read: turns a source into the text that the model reads.
        tags: for each part the tags in front of its sources, and those in front of its targets, which no limit counts;
            none: no tags.
        examination: says which pairs are kept, and where those that are dropped here are logged: duplicates, and by
            the limits. None: all pairs with text on both sides, and no log.
        limits: pairs beyond its `max_tokens` and `max_ratio` are counted and dropped; None: no limits.
        num_workers: number of threads that encode; None: all cores.
    """
    result, origins = EncodedSplit(), Origins()
    prefixes = [
        [[own.tags[tag] for tag in of_part] for of_part in side]
        for own, side in zip((tokenizer, tokenizer.target), tags, strict=True)
    ]
    encode = partial(
        _encode_chunk, tokenizer=tokenizer, read=read, prefixes=prefixes, examination=examination, limits=limits
    )
    from transduce.data.store import StoreWriter  # only here: it needs pyarrow, and a check needs none

    with StoreWriter.open(
        path,
        tokenizer_fingerprint=tokenizer.fingerprint,
        vocab_size=max(tokenizer.vocab_size, tokenizer.target.vocab_size),
    ) as writer:
        for chunk, locations, sources, targets, dropped in _in_order(encode, chunks, num_workers):
            writer.write(sources, targets)
            origins.add(locations)
            num_tokens = (sum(len(ids) + 1 for ids in side) for side in (sources, targets))
            counts = EncodedPart(len(chunk.pairs), len(sources), *num_tokens)
            result.add(counts)
            while len(result.parts) <= chunk.part:
                result.parts.append(EncodedPart())
            result.parts[chunk.part].add(counts)
            for rule, finding in (("length", result.over_long), ("ratio", result.odd_ratio)):
                finding.add([f"{each.location} ({each.reason})" for each in dropped if each.rule == rule])
            if examination:
                for each in dropped:
                    examination.log(each)
    return result, origins


def _in_order(
    encode: Callable[[Chunk], _Encoded], chunks: Iterable[Chunk], num_workers: int | None
) -> Iterator[_Encoded]:
    """Yields the encoded chunks in the order of `chunks`, with a bounded number of them in progress."""
    num_threads = num_workers or _OVERLAPPING_CALLS
    pending: deque[Future[_Encoded]] = deque()
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
    tokenizer: Tokenizer,
    read: Callable[[str], str],
    prefixes: Sequence[Sequence[list[int]]],
    examination: Examination | None,
    limits: DataConfig | None,
) -> _Encoded:
    dropped: dict[int, Dropped] = {}
    if examination is None:
        indices = [i for i, (src, tgt) in enumerate(chunk.pairs) if src.strip() and tgt.strip()]
    else:
        indices = np.flatnonzero(examination.kept[chunk.start : chunk.start + len(chunk.pairs)]).tolist()
        dropped = examination.dropped_repeats(chunk)
    sources = tokenizer.encode_batch([read(chunk.pairs[i][0]) for i in indices])
    targets = tokenizer.target.encode_batch([chunk.pairs[i][1] for i in indices])
    if limits is not None:
        lengths = [np.fromiter(map(len, side), dtype=np.int32, count=len(side)) for side in (sources, targets)]
        long, odd = exceeds(lengths[0], lengths[1], limits)
        for i in np.flatnonzero(long | odd).tolist():
            pair, reason = indices[i], f"{lengths[0][i]} to {lengths[1][i]} subwords"
            dropped[pair] = Dropped(chunk.location(pair), "length" if long[i] else "ratio", reason, *chunk.pairs[pair])
        keep = np.flatnonzero(~(long | odd)).tolist()
        sources, targets = [sources[i] for i in keep], [targets[i] for i in keep]
        indices = [indices[i] for i in keep]
    sources, targets = (
        [of_side[chunk.part] + ids for ids in side] if of_side and of_side[chunk.part] else side
        for side, of_side in zip((sources, targets), prefixes, strict=True)
    )
    locations = [chunk.reader.location(chunk.line + i) for i in indices]
    return chunk, locations, sources, targets, [dropped[i] for i in sorted(dropped)]


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
