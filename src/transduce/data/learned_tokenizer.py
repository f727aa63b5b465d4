"""The tokeniser that is learned from a corpus, and the frequent words of a corpus that are added to a given one."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from transduce.config import Config
from transduce.data.corpus import CorpusFiles, read_chunks
from transduce.data.progress import elapsed_time
from transduce.text import SubwordTokenizer, Tokenizer
from transduce.text.new_words import frequent_words, with_new_words
from transduce.treebank import pairs, rare_words
from transduce.treebank.pairs import sentence_words

_NUM_REPEATS = 1000  # of a word that must become a piece of the vocabulary


def learn_tokenizer(files: CorpusFiles, kept: NDArray[np.bool_], config: Config, *, progress: bool) -> Tokenizer:
    """Learns a tokeniser from a sample of the pairs that are kept, as `text` says."""
    text, by_shape = config.text, config.data.rare_words == "signatures"
    sample = spread(kept, text.sample_pairs)
    whole = pairs.WHOLE if any(part.trees for part in files.train) else ""
    read: Callable[[str], str] = str
    if by_shape:
        whole, read = rare_words.WHOLE, _spelling(files, sample, progress=progress)
    with contextlib.ExitStack() as stack:

        def lines() -> Iterator[str]:
            if by_shape:
                yield " ".join([rare_words.ANY] * _NUM_REPEATS)
            for source, target in _sampled_pairs(files, sample, progress=progress):
                yield read(source)
                yield target
            stack.enter_context(elapsed_time("learning the vocabulary", shown=progress))

        return SubwordTokenizer.train(
            lines(), algorithm=text.algorithm, vocab_size=text.vocab_size, min_frequency=text.min_frequency, whole=whole
        )


def with_frequent_words(
    tokenizer: Tokenizer, files: CorpusFiles, kept: NDArray[np.bool_], config: Config, *, progress: bool
) -> Tokenizer:
    """Returns the tokeniser with the most frequent new words of the corpus, `init.new_words` of them."""
    pairs = _sampled_pairs(files, spread(kept, config.text.sample_pairs), progress=progress)
    texts = (text for pair in pairs for text in pair)
    words = frequent_words(texts, tokenizer, config.init.new_words, min_frequency=config.text.min_frequency)
    return with_new_words(tokenizer, words)


def _spelling(files: CorpusFiles, sample: NDArray[np.bool_], *, progress: bool) -> Callable[[str], str]:
    """Returns a function that replaces the rare words of a source by their signatures."""
    words: Counter[str] = Counter()
    for source, _ in _sampled_pairs(files, sample, progress=progress):
        words.update(sentence_words(source))
    spelling = rare_words.Spelling.learned(words)
    return lambda source: spelling(sentence_words(source))


def spread(kept: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
    """Returns `kept` with at most `count` entries still set, evenly spread."""
    positions = np.flatnonzero(kept)
    count = min(count, len(positions))
    sample = np.zeros_like(kept)
    sample[positions[np.arange(count) * len(positions) // max(1, count)]] = True
    return sample


def _sampled_pairs(files: CorpusFiles, sample: NDArray[np.bool_], *, progress: bool) -> Iterator[tuple[str, str]]:
    for chunk in read_chunks(files.train, "reading for the tokenizer", progress=progress):
        for i in np.flatnonzero(sample[chunk.start : chunk.start + len(chunk.pairs)]).tolist():
            yield chunk.pairs[i]
