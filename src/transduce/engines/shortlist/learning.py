"""Learns the shortlist of a model from a training corpus, and measures its coverage of other text."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from transduce.alignment.lexicon import Lexicon, learn_lexicon, num_ticks
from transduce.config.special_ids import EOS
from transduce.data.learned_tokenizer import spread
from transduce.data.progress import progress_bar
from transduce.data.readers import STDIN, read_pairs
from transduce.engines.shortlist.table import Shortlist
from transduce.errors import ConfigError, DataError
from transduce.text import Tokenizer

# Other numbers of candidates whose coverage is shown too.
SHOWN_CANDIDATES = (10, 20, 50, 100, 200)

_HELD_OUT = 1000  # pairs of the corpus to measure on where no other text is given; they are not learned from
_ENCODED_TOGETHER = 10_000
_MAX_TOKENS = 256  # of a side; longer ones are seldom sentences, and the cost is quadratic

_Row = Sequence[int] | np.ndarray


@dataclass(frozen=True, eq=False)
class Pairs:
    """Aligned ids, without EOS."""

    sources: list[np.ndarray]
    targets: list[np.ndarray]

    def __len__(self) -> int:
        return len(self.sources)

    def take(self, indices: np.ndarray) -> "Pairs":
        """Returns the pairs at `indices`."""
        chosen = indices.tolist()
        return Pairs([self.sources[i] for i in chosen], [self.targets[i] for i in chosen])


@dataclass(frozen=True)
class Coverage:
    """How much of the references of other text is in the shortlists."""

    num_candidates: int
    share_of_tokens: float  # in the shortlist of their sentence
    share_of_sentences: float  # with all of their tokens
    mean_ids: float  # size of a sentence's shortlist


@dataclass(frozen=True, eq=False)
class Learned:
    """What a shortlist is made from."""

    lexicon: Lexicon
    by_frequency: np.ndarray  # target ids, most frequent first
    vocab_size: int  # of the target side
    same_V: np.ndarray  # the target id of each source id's own piece; EOS where that side has no such piece
    num_pairs: int
    iterations: int

    def shortlist(self, num_candidates: int, num_frequent: int) -> Shortlist:
        """Returns the table of the `num_candidates` best of each source id and the `num_frequent` of all."""
        width = min(num_candidates, max(map(len, self.lexicon.targets)))
        table_VK = np.full((len(self.same_V), width + 1), EOS, dtype=np.int32)
        for source, (same, targets) in enumerate(zip(self.same_V, self.lexicon.targets, strict=False)):
            if source > EOS:  # no source has PAD (the empty token) or BOS; EOS ends every source
                table_VK[source, 0] = same
                found = targets[targets != same][:width]
                table_VK[source, 1 : 1 + len(found)] = found
        facts = {
            "pairs": self.num_pairs,
            "iterations": self.iterations,
            "candidates": num_candidates,
            "frequent": num_frequent,
        }
        return Shortlist(table_VK, self.by_frequency[:num_frequent].astype(np.int32), facts, self.vocab_size)


def same_pieces(tokenizer: Tokenizer) -> np.ndarray:
    """Returns the target id of each source id's own piece; EOS where the target side has no such piece."""
    if not tokenizer.target_vocab_size:
        return np.arange(tokenizer.vocab_size)
    ids = {name: index for index, name in enumerate(tokenizer.target.tokens())}
    return np.array([ids.get(name, EOS) for name in tokenizer.tokens()])


def learn(
    pairs: Pairs, vocab_size: int, same_V: np.ndarray | None = None, *, iterations: int, progress: bool = False
) -> Learned:
    """Learns the likely targets of each source id.

    Args:
        pairs: token ids of source and target.
        vocab_size: of the target side.
        same_V: see `same_pieces`; None: both sides share a vocabulary.
        iterations: of EM.
        progress: whether to show progress.

    Raises:
        DataError: there are no pairs.
    """
    same_V = np.arange(vocab_size) if same_V is None else same_V
    largest = max(vocab_size, len(same_V))
    if not len(pairs):
        raise DataError("no pairs with text on both sides: there is nothing to learn a shortlist from.")
    total = num_ticks(pairs.sources, iterations)
    with progress_bar("learning word translations", total, unit=" tokens", shown=progress) as bar:
        lexicon = learn_lexicon(pairs.sources, pairs.targets, largest, iterations=iterations, tick=bar.update)
    counts_V = np.bincount(np.concatenate(pairs.targets), minlength=vocab_size)
    counts_V[: EOS + 1] = 0
    by_frequency = np.argsort(-counts_V, kind="stable")
    by_frequency = by_frequency[counts_V[by_frequency] > 0]
    return Learned(lexicon, by_frequency, vocab_size, same_V, len(pairs), iterations)


def coverage(shortlist: Shortlist, pairs: Pairs) -> Coverage:
    """Returns how much of the references is in the shortlists of their sources; EOS is not counted."""
    covered = tokens = whole = ids = 0
    for source, target in zip(pairs.sources, pairs.targets, strict=True):
        [allowed_V] = shortlist.allowed([source])
        hits = int(allowed_V[target].sum())
        covered, tokens, ids = covered + hits, tokens + len(target), ids + int(allowed_V.sum())
        whole += hits == len(target)
    return Coverage(
        num_candidates=int(shortlist.facts["candidates"]),
        share_of_tokens=covered / max(tokens, 1),
        share_of_sentences=whole / max(len(pairs), 1),
        mean_ids=ids / max(len(pairs), 1),
    )


def learn_shortlist(
    learned: Learned, held_out: Pairs, *, num_candidates: int, num_frequent: int
) -> tuple[Shortlist, list[Coverage]]:
    """Returns the shortlist, and the coverage of `held_out` by it and by some wider and narrower ones.

    Raises:
        ConfigError: a number is out of range.
    """
    if num_candidates < 1 or num_frequent < 0:
        raise ConfigError(
            f"{num_candidates} candidates and {num_frequent} frequent pieces: at least 1 and 0 are needed."
        )
    widths = sorted({num_candidates, *SHOWN_CANDIDATES})
    coverages = [coverage(learned.shortlist(width, num_frequent), held_out) for width in widths]
    [chosen] = [each for each in coverages if each.num_candidates == num_candidates]
    shortlist = learned.shortlist(num_candidates, num_frequent)
    shortlist.facts["coverage"] = asdict(chosen) | {"pairs": len(held_out)}
    return shortlist, coverages


# --- reading pairs --------------------------------------------------------------------------------------------


def read_files(paths: Sequence[Path], tokenizer: Tokenizer, max_pairs: int, *, progress: bool = False) -> Pairs:
    """Reads two aligned files, or one of tab-separated columns, and encodes them.

    Takes at most `max_pairs` pairs, evenly spread. The files are read twice.

    Raises:
        DataError: the files are missing, damaged or not aligned, or a pipe, which cannot be read twice.
    """
    for path in paths:
        if path == STDIN or (path.exists() and not path.is_file()):
            raise DataError(f"{path}: is read twice, and so must be a file: write what comes from the pipe into one.")
    with progress_bar("counting", None, unit=" pairs", shown=progress) as bar:
        total = 0
        for total, _ in enumerate(read_pairs(paths), start=1):
            if total % 10_000 == 0:
                bar.update(10_000)
    taken = spread(np.ones(total, np.bool_), max_pairs)
    chosen = (pair for is_taken, pair in zip(taken.tolist(), read_pairs(paths), strict=True) if is_taken)
    found = Pairs([], [])
    with progress_bar("encoding", int(taken.sum()), unit=" pairs", shown=progress) as bar:
        while chunk := list(islice(chosen, _ENCODED_TOGETHER)):
            sources, targets = zip(*chunk, strict=True)
            _add(found, tokenizer.encode_batch(sources), tokenizer.target.encode_batch(targets))
            bar.update(len(chunk))
    return found


def read_prepared(folder: Path, tokenizer: Tokenizer, max_pairs: int) -> tuple[Pairs, Pairs]:
    """Reads the training and the validation pairs of a folder that `transduce prepare` wrote; see `read_files`.

    Raises:
        DataError: the folder is not prepared or damaged, or was prepared with another tokenizer.
    """
    from transduce.data.prepared import load_prepared
    from transduce.data.store import ParallelStore  # only here: it needs pyarrow

    prepared = load_prepared(folder, checksums=False)
    if prepared.tokenizer_fingerprint != tokenizer.fingerprint:
        raise DataError(
            f"{folder}: was prepared with another tokenizer than the model's. Name the folder that the model was "
            "trained on, or give text with --source and --target."
        )

    def read(path: Path) -> Pairs:
        pairs, store = Pairs([], []), ParallelStore.open(path)
        indices = np.flatnonzero(spread(np.ones(len(store), np.bool_), max_pairs))
        for start in range(0, len(indices), _ENCODED_TOGETHER):
            _add(pairs, *store.pairs(indices[start : start + _ENCODED_TOGETHER]))
        return pairs

    return read(prepared.train), read(prepared.validation) if prepared.validation else Pairs([], [])


def hold_out(pairs: Pairs) -> tuple[Pairs, Pairs]:
    """Splits pairs into those to learn from and those to measure on: a tenth, at most a thousand, evenly spread."""
    held = spread(np.ones(len(pairs), np.bool_), min(_HELD_OUT, len(pairs) // 10))
    return pairs.take(np.flatnonzero(~held)), pairs.take(np.flatnonzero(held))


def _add(pairs: Pairs, sources: Iterable[_Row], targets: Iterable[_Row]) -> None:
    for source, target in zip(sources, targets, strict=True):
        if 0 < len(source) <= _MAX_TOKENS and 0 < len(target) <= _MAX_TOKENS:
            pairs.sources.append(np.asarray(source, dtype=np.int32))
            pairs.targets.append(np.asarray(target, dtype=np.int32))
