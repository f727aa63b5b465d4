"""A first recipe for the user's own corpus: preset, vocabulary size and number of steps follow from its size."""

import json
import math
from array import array
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transduce import files
from transduce.config import Config, load_recipe
from transduce.data.batching import plan_epoch
from transduce.data.readers import read_lines, read_pairs, require_file
from transduce.errors import ConfigError, DataError
from transduce.reporting.tables import counted

_PACKED = (".gz", ".zst")
_LARGE_PAIRS = 1_000_000  # enough for the paper's base model
_MIN_PAIRS = 20
_MAX_VALIDATION = 1000
_VALIDATION_STEP = 20  # every 20th pair is held out, up to the number above
_EPOCHS = 34  # for a small corpus, as in recipes/multi30k-en-de.toml


@dataclass(frozen=True)
class Corpus:
    """The size of two aligned files.

    Attributes:
        source: the file of the sources.
        target: the file of the targets.
        lengths: (2, pairs) estimated subwords of each source and target, of pairs with text on both sides, with a
            vocabulary of 5000 or more: 1.3 a word, or one for four letters if there are no spaces.
    """

    source: Path
    target: Path
    lengths: NDArray[np.float32]

    @property
    def num_pairs(self) -> int:
        """Pairs of lines with text on both sides."""
        return len(self.lengths[0])

    @property
    def num_tokens(self) -> int:
        """Estimated subwords of the longer side."""
        return math.ceil(float(self.lengths.sum(axis=1, dtype=np.float64).max()))


def measure_corpus(source: Path, target: Path) -> Corpus:
    """Counts pairs and tokens of two aligned files.

    Raises:
        DataError: a file is missing or not UTF-8, both are the same file, they differ in length, or there is too little
            in them.
    """
    for path in (source, target):
        require_file(path)
        if not path.is_file():
            raise DataError(f"{path}: not a regular file. A recipe needs files that can be read again.")
    if source.samefile(target):
        raise DataError(f"{source} and {target} are the same file. Name a file of sources and a file of translations.")
    lengths = (array("f"), array("f"))
    for pair in read_pairs([source, target]):
        if all(line.strip() for line in pair):
            for side, line in zip(lengths, pair, strict=True):
                side.append(max(1.3 * len(line.split()), len(line) / 4))
    num_pairs = len(lengths[0])
    if num_pairs < _MIN_PAIRS:
        raise DataError(
            f"{source} and {target}: {counted(num_pairs, 'pair')} of lines with text; a recipe needs at least "
            f"{_MIN_PAIRS}, and a model that is of use thousands."
        )
    return Corpus(source, target, np.array(lengths, dtype=np.float32))


def language_of(path: Path) -> str:
    """Returns "de" for `train.de` and `train.de.gz`, and "" if the name has no language code."""
    suffixes = [suffix[1:] for suffix in path.suffixes if suffix not in _PACKED]
    last = suffixes[-1] if suffixes else ""
    return last if len(last) == 2 and last.isalpha() and last.isascii() and last.islower() else ""


def write_recipe(
    corpus: Corpus, languages: tuple[str, str], output: Path, validation: tuple[Path, Path] | None = None
) -> Config:
    """Writes a recipe, and a validation set next to it if none is given; returns the loaded recipe.

    The validation set consists of pairs of the corpus, evenly spread. The corpus itself is not changed: training leaves
    out the validation pairs (`data.drop_leaked`).

    Raises:
        ConfigError: a file that would be written exists.
        DataError: the validation files are not aligned, or have no text.
    """
    held_out = validation or _validation_paths(output, corpus)
    for path in (output, *(() if validation else held_out)):
        if path.exists():
            raise ConfigError(f"{path}: exists and is not overwritten. Choose another --output, or delete it.")
    if validation is None:
        _hold_out(corpus, held_out)
    elif not any(source.strip() and target.strip() for source, target in read_pairs(validation)):
        raise DataError(f"{validation[0]} and {validation[1]} have no pair of lines with text.")
    files.write_text(output, _recipe(corpus, languages, output, held_out, is_own=validation is None))
    return load_recipe(output)


def _validation_paths(output: Path, corpus: Corpus) -> tuple[Path, Path]:
    names = [language_of(path) or side for path, side in ((corpus.source, "source"), (corpus.target, "target"))]
    if names[0] == names[1]:
        names = ["source", "target"]
    first, second = (output.with_name(f"{output.stem}.validation.{name}") for name in names)
    return first, second


def _hold_out(corpus: Corpus, paths: tuple[Path, Path]) -> None:
    pairs = (pair for pair in read_pairs([corpus.source, corpus.target]) if all(line.strip() for line in pair))
    step = max(_VALIDATION_STEP, -(-corpus.num_pairs // _MAX_VALIDATION))
    chosen = list(islice(pairs, 0, None, step))
    for path, lines in zip(paths, zip(*chosen, strict=True), strict=True):
        files.write_text(path, "".join(f"{line}\n" for line in lines))


def _recipe(
    corpus: Corpus, languages: tuple[str, str], output: Path, validation: tuple[Path, Path], *, is_own: bool
) -> str:
    train, held_out = ([_named(path, output) for path in pair] for pair in ((corpus.source, corpus.target), validation))
    count = sum(1 for _ in read_lines(validation[0]))
    origin = "taken from the corpus, evenly spread; training leaves these pairs out" if is_own else "never trained on"
    large = corpus.num_pairs >= _LARGE_PAIRS
    name = json.dumps(output.stem, ensure_ascii=False)
    pairs = f"{corpus.num_pairs:,} pairs of sentences"
    where = json.dumps(str(output), ensure_ascii=False)[1:-1]
    return f"""# A first recipe for {pairs}, by 'transduce init'. Every key is explained in
# docs/guides/configuration.md; 'transduce info {where}' shows what differs from the preset, and what a step costs.
#
#   transduce prepare {where} --check-only
#   transduce train {where} --output runs/{name[1:-1]}

preset = "{"paper-base" if large else "tiny"}"
name = {name}

[data]
folder = "."                 # relative names start here: the folder of this file
source_language = "{languages[0]}"{_unknown(languages[0])}
target_language = "{languages[1]}"{_unknown(languages[1])}
train = [{json.dumps(train, ensure_ascii=False)}]
# {count:,} pairs, {origin}
validation = {json.dumps(held_out, ensure_ascii=False)}
# test = {{ test = ["test.xx", "test.yy"] }}   # to score the finished model

{_LARGE if large else _small(corpus)}"""


def _named(path: Path, output: Path) -> str:
    """Returns a file's name for the recipe: a relative path if the file is in the recipe's folder or below."""
    absolute, folder = path.resolve(), output.parent.resolve()
    return str(absolute.relative_to(folder) if absolute.is_relative_to(folder) else absolute)


def _unknown(language: str) -> str:
    return "" if language else '         # a code such as "en": for splitting sentences, and the paper\'s BLEU'


_LARGE = """[text]
vocab_size = 32_000          # pieces, one vocabulary for both languages

[train]
max_steps = 100_000          # the paper's; days on one GPU, not feasible on a CPU
source_batch_tokens = 25_000
target_batch_tokens = 25_000
micro_batch_tokens = "auto"  # target tokens at once: as many as fit into memory; the same training
"""


def _small(corpus: Corpus) -> str:
    batch = 2048 if corpus.num_pairs < 50_000 else 4096
    vocabulary = _rounded(min(10_000, max(1000, corpus.num_pairs / 6)))
    # A small vocabulary spells the same text in more pieces: with 1000 it was 1.4 to 1.5 times as many, with 2000 1.4,
    # with 3500 1.1 (Multi30k, Tatoeba, Europarl).
    pieces = max(1.0, (5000 / vocabulary) ** 0.25)
    tokens = corpus.num_tokens * pieces
    steps = _rounded(min(30_000, max(1000, _EPOCHS * tokens / batch)))
    dropout = 0.25 if corpus.num_pairs < 100_000 else 0.1
    source, target = np.ceil(corpus.lengths * pieces).astype(np.int64) + 1  # EOS
    epochs = steps / len(plan_epoch(source, target, source_budget=batch, target_budget=batch, seed=1, epoch=0))
    text = f"""[model]
dropout = {dropout:<18} # small corpora need more, large ones less
norm = "pre"                 # learns in a fraction of the steps of the paper's "post" here

[text]
vocab_size = {vocabulary:<15_} # pieces to learn; fewer if the text has fewer

[train]
max_steps = {steps:<16_} # about {epochs:,.0f} epochs; 'transduce train' counts them
source_batch_tokens = {batch:<6_} # tokens of a step
target_batch_tokens = {batch:<6_}
learning_rate_factor = 1.5   # a small model tolerates more than the paper's 1.0
warmup_steps = {steps // 7:<13_}
validate_steps = {steps // 10:<11_}
checkpoint_minutes = 0.0     # by steps instead, so that runs are reproducible on any machine
checkpoint_steps = {steps // 50:<9_}
keep_checkpoints = 10
average_last = 10            # the finished model averages this many checkpoints
"""
    return "\n".join(line.rstrip() for line in text.split("\n"))


def _rounded(value: float) -> int:
    """Returns the next multiple of 500."""
    return math.ceil(value / 500) * 500
