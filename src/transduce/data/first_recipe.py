"""A first recipe for the user's own corpus: preset, vocabulary size and number of steps follow from its size."""

import json
import math
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transduce import files
from transduce.config import Config, load_recipe
from transduce.config.modifiers import MODIFIERS
from transduce.data.batching import plan_epoch
from transduce.data.corpus import absolute
from transduce.data.readers import PairReader, read_pairs, require_file
from transduce.errors import ConfigError, DataError
from transduce.reporting.tables import counted
from transduce.text.languages import language_of, without_region
from transduce.text.phrases import HAN, KANA

_LARGE_PAIRS = 1_000_000  # enough for the paper's base model
_MIN_PAIRS = 20
_MAX_VALIDATION = 1000
_VALIDATION_STEP = 20  # every 20th pair is held out, up to the number above
_ADAPTING_EPOCHS = 5  # from a model
_CHINESE = re.compile(f"[{KANA}{HAN}]")
_EPOCHS = 34  # for a small corpus, as in recipes/multi30k-en-de.toml


@dataclass(frozen=True)
class Corpus:
    """The size of a corpus.

    Attributes:
        paths: two aligned files, one TSV file, or one translation memory.
        lengths: (2, pairs) estimated subwords of each source and target, of pairs with text on both sides, with a
            vocabulary of 5000 or more: 1.3 a word, or one for four letters if there are no spaces; three for five
            Chinese or Japanese characters.
        languages: codes of source and target: those given, or else what the translation memory, or the names of two
            files say; "" if they say nothing.
        num_skipped: units of a translation memory that have not both languages.
    """

    paths: tuple[Path, ...]
    lengths: NDArray[np.float32]
    languages: tuple[str, str] = ("", "")
    num_skipped: int = 0

    @property
    def num_pairs(self) -> int:
        """Pairs of lines with text on both sides."""
        return len(self.lengths[0])

    @property
    def num_tokens(self) -> int:
        """Estimated subwords of the longer side."""
        return math.ceil(float(self.lengths.sum(axis=1, dtype=np.float64).max()))


def measure_corpus(paths: Sequence[Path], languages: tuple[str, str] = ("", "")) -> Corpus:
    """Counts pairs and tokens of a corpus.

    Args:
        paths: two aligned files, one TSV file, or one translation memory.
        languages: of source and target; "": as the names of the files, or the translation memory, say.

    Raises:
        DataError: a file is missing or not UTF-8, both are the same file, they differ in length, there is too little in
            them, or their names are of the opposite languages; or what `TranslationMemory` raises.
    """
    for path in paths:
        require_file(path)
        if not path.is_file():
            raise DataError(f"{path}: not a regular file. A recipe needs files that can be read again.")
    names = " and ".join(map(str, paths))
    if len(paths) == 2 and paths[0].samefile(paths[1]):
        raise DataError(f"{names} are the same file. Name a file of sources and a file of translations.")
    lengths = (array("f"), array("f"))
    reader = PairReader(paths, languages=languages)
    for pair in reader:
        if all(line.strip() for line in pair):
            for side, line in zip(lengths, pair, strict=True):
                num_characters = 0 if line.isascii() else len(_CHINESE.findall(line))
                side.append(max(1.3 * len(line.split()), len(line) / 4 + 0.35 * num_characters))
    num_pairs = len(lengths[0])
    if num_pairs < _MIN_PAIRS:
        raise DataError(
            f"{names}: {counted(num_pairs, 'pair')} of lines with text; a recipe needs at least "
            f"{_MIN_PAIRS}, and a model that is of use thousands."
        )
    found = [*(map(language_of, paths) if len(reader.paths) == 2 else map(without_region, reader.languages))]
    if found[0] and found == [*map(without_region, languages[::-1])] and found[0] != found[1]:
        raise DataError(
            f"{names}: by their names {found[0]} → {found[1]}, but the languages are {' → '.join(languages)}. "
            "Name the files in the other order."
        )
    known = [given or (code if code.isalnum() else "") for given, code in zip(languages, found, strict=True)]
    return Corpus(tuple(paths), np.array(lengths, dtype=np.float32), (known[0], known[1]), reader.skipped[0])


def write_recipe(
    corpus: Corpus,
    languages: tuple[str, str],
    output: Path,
    validation: Sequence[Path] = (),
    ancestor: Path | None = None,
) -> Config:
    """Writes a recipe, and a validation set next to it if none is given; returns the loaded recipe.

    The validation set consists of pairs of the corpus, evenly spread. The corpus itself is not changed: training leaves
    out the validation pairs (`data.drop_leaked`).

    Args:
        corpus: what is trained on.
        languages: of source and target.
        output: the recipe.
        validation: files that are given.
        ancestor: a model to start from; None: random weights.

    Raises:
        ConfigError: a file that would be written exists.
        DataError: the validation files are not aligned, have no text, or are those of the corpus.
    """
    held_out = validation or _validation_paths(output, languages)
    for path in (output, *(() if validation else held_out)):
        if path.exists():
            raise ConfigError(f"{path}: exists and is not overwritten. Choose another --output, or delete it.")
    if not validation:
        _hold_out(corpus, languages, held_out)
    pairs = read_pairs(held_out, languages=languages)
    if twice := [path for path in validation if absolute(path) in map(absolute, corpus.paths)]:
        raise DataError(f"{twice[0]}: is given for training and for validation. Leave out --validation, or name a set.")
    num_held_out = sum(1 for pair in pairs if all(line.strip() for line in pair))
    if not num_held_out:
        raise DataError(f"{' and '.join(map(str, held_out))}: no pair of lines with text.")
    data = _data(corpus, languages, output, held_out, num_held_out, is_own=not validation)
    recipe = _recipe(corpus, output, data) if ancestor is None else _adaptation(corpus, output, data, ancestor)
    files.write_text(output, "\n".join(line.rstrip() for line in recipe.split("\n")))
    return load_recipe(output)


def _validation_paths(output: Path, languages: tuple[str, str]) -> tuple[Path, Path]:
    names = [language or side for language, side in zip(languages, ("source", "target"), strict=True)]
    if names[0] == names[1]:
        names = ["source", "target"]
    first, second = (output.with_name(f"{output.stem}.validation.{name}") for name in names)
    return first, second


def _hold_out(corpus: Corpus, languages: tuple[str, str], paths: Sequence[Path]) -> None:
    all_pairs = read_pairs(corpus.paths, languages=languages)
    pairs = (pair for pair in all_pairs if all(line.strip() for line in pair))
    step = max(_VALIDATION_STEP, -(-corpus.num_pairs // _MAX_VALIDATION))
    chosen = list(islice(pairs, 0, None, step))
    for path, lines in zip(paths, zip(*chosen, strict=True), strict=True):
        files.write_text(path, "".join(f"{line}\n" for line in lines))


def _data(
    corpus: Corpus, languages: tuple[str, str], output: Path, held_out: Sequence[Path], count: int, *, is_own: bool
) -> str:
    """Returns the section of the data."""
    train, validation = ([_named(path, output) for path in paths] for paths in (corpus.paths, held_out))
    origin = "taken from the corpus, evenly spread; training leaves these pairs out" if is_own else "never trained on"
    return f"""[data]
folder = "."                 # relative names start here: the folder of this file
source_language = "{languages[0]}"{_unknown(languages[0])}
target_language = "{languages[1]}"{_unknown(languages[1])}
train = [{json.dumps(train, ensure_ascii=False)}]
# {count:,} pairs, {origin}
validation = {json.dumps(validation, ensure_ascii=False)}
# test = {{ test = ["test.xx", "test.yy"] }}   # to score the finished model
"""


def _recipe(corpus: Corpus, output: Path, data: str) -> str:
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

{data}
{_LARGE if large else _small(corpus)}{_modifiers()}"""


def _adaptation(corpus: Corpus, output: Path, data: str, ancestor: Path) -> str:
    """Returns a recipe that adapts a model: a few epochs at a low rate, so that it does not forget what it knows."""
    name, where = (json.dumps(text, ensure_ascii=False) for text in (output.stem, str(output)))
    source, target = np.ceil(corpus.lengths).astype(np.int64) + 1  # EOS
    batch = 1024 if corpus.num_pairs < 10_000 else 4096
    steps_an_epoch = len(plan_epoch(source, target, source_budget=batch, target_budget=batch, seed=1, epoch=0))
    steps = max(20, _ADAPTING_EPOCHS * steps_an_epoch)
    return f"""# A recipe that adapts a model to {corpus.num_pairs:,} pairs of sentences, by 'transduce init'. Every key
# is explained in docs/guides/configuration.md; docs/guides/fine-tuning.md says what to change where too little is
# learned, or too much forgotten.
#
#   transduce train {where[1:-1]} --output runs/{name[1:-1]}

name = {name}

[init]
model = {json.dumps(_named(ancestor, output), ensure_ascii=False)}
learning_rate = 1e-4         # higher: the corpus is learned sooner, and more of what the model knew is forgotten

{data}
[train]
max_steps = {steps:<16_} # about {_ADAPTING_EPOCHS} epochs; 'transduce train' counts them
warmup_steps = {max(1, steps // 10):<13_}
source_batch_tokens = {batch:<6_} # tokens of a step
target_batch_tokens = {batch:<6_}
validate_steps = {max(1, steps // 5):<11_}
checkpoint_minutes = 0.0     # by steps instead, so that runs are reproducible on any machine
checkpoint_steps = {max(1, steps // 5):<9_}
average_last = 1
{_modifiers()}"""


def _named(path: Path, output: Path) -> str:
    """Returns a path for the recipe: a relative path if the file is in the recipe's folder or below."""
    found, folder = absolute(path), output.parent.resolve()
    return str(found.relative_to(folder) if found.is_relative_to(folder) else found)


def _unknown(language: str) -> str:
    return "" if language else '         # a code such as "en": for splitting sentences, and the paper\'s BLEU'


def _modifiers() -> str:
    """Returns lines for all modifiers, as comments: they belong to the section of training."""
    entries = (
        (f'{{ name = "{name}", probability = {kind.usual:f}'.rstrip("0") + " },", kind.effect)
        for name, kind in MODIFIERS.items()
    )
    lines = (f"#   {entry:<47} # {effect}" for entry, effect in entries)
    return "\n".join(
        [
            "# To learn text as people write it, delete the '# ' of these lines: see docs/guides/robustness.md.",
            "# modifiers = [",
            *lines,
            "# ]",
            "",
        ]
    )


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
    return f"""[model]
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


def _rounded(value: float) -> int:
    """Returns the next multiple of 500."""
    return math.ceil(value / 500) * 500
