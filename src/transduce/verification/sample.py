"""The sentences that a model is verified on: the user's, else the model's validation set, else generated ones."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from transduce.bundle import Bundle
from transduce.config import DataConfig
from transduce.data.readers import read_lines
from transduce.data.treebank_reader import sentence_reader
from transduce.errors import ConfigError, DataError, MissingDependencyError
from transduce.export.sentences import spread, validation_part

_MAX_READ = 20_000  # lines of a file that are read
_SEED = 1


@dataclass(frozen=True, slots=True)
class Sample:
    """Sentences, their names in the report, and where they come from."""

    lines: tuple[str, ...]
    names: tuple[str, ...]  # "line 12" of a file, "sentence 3" of generated ones
    origin: str


def choose(bundle: Bundle, given: Path | Sequence[str] | None, count: int, target: str = "") -> Sample:
    """Returns at most `count` sentences, evenly spread over their source; lines of white space are skipped.

    Args:
        bundle: whose validation set, languages and vocabulary are used where nothing is given.
        given: a file, plain, gz or zst, or the sentences themselves.
        count: at least 1.
        target: the target language, for a model with a validation set for each; "" is the default.

    Raises:
        DataError: what was given has no sentences, or the file cannot be read.
    """
    if count < 1:
        raise ConfigError(f"count = {count}: verify on at least one sentence.")
    if isinstance(given, Path):
        found = _spread(read_lines(given), count, f"{given}")
    elif given is not None:
        found = _spread(given, count, "those given", called="sentence")
    else:
        data = bundle.config.data
        found = _of_validation(data, count, target) or _of_demo(data, count) or _of_vocabulary(bundle, count)
    return replace(found, lines=tuple(map(sentence_reader(bundle.config.data, bundle.tokenizer), found.lines)))


def _spread(lines: Iterable[str], count: int, origin: str, called: str = "line") -> Sample:
    """Returns `count` of the lines, evenly spread over all that are read."""
    taken = itertools.islice(lines, _MAX_READ)
    found = [(index, line) for index, line in enumerate(taken, start=1) if line.strip()]
    if not found:
        raise DataError(f"{origin}: no sentences: every line is empty. Give a text with one sentence a line.")
    chosen = spread(found, count)
    return Sample(tuple(line for _, line in chosen), tuple(f"{called} {index}" for index, _ in chosen), origin)


def _of_validation(data: DataConfig, count: int, target: str) -> Sample | None:
    """Returns sources of the validation set, or None where the model names none or it is not on this machine."""
    part = validation_part(data, target)
    if part is None:
        return None
    origin = f"the validation set, {part.paths[0]}"
    if data.format == "text" and len(part.paths) == 2:
        return _spread(read_lines(part.paths[0]), count, origin)
    return _spread((source for source, _ in part.open()), count, origin, called="sentence")


def _of_demo(data: DataConfig, count: int) -> Sample | None:
    """Returns phrases of the demo's corpus in the model's language, or None where the generator is not installed."""
    from transduce.data.demo_corpus import generate

    source, target = data.source_language or "en", data.target_language or "de"
    if source == target or data.format == "trees":
        source, target = "en", "de"
    try:
        lines = [line.source for line in generate(source, target, {"test": count}, _SEED)["test"]]
    except (MissingDependencyError, ConfigError):  # no babel here, or a language that it does not know
        return None
    return _spread(lines, count, f"generated: the demo corpus, {source}", called="sentence")


def _of_vocabulary(bundle: Bundle, count: int) -> Sample:
    """Returns sequences of random pieces of the model's vocabulary: noise, but every check must hold for it."""
    tokenizer, random = bundle.tokenizer, Random(_SEED)
    lines: list[str] = []
    while len(lines) < count:
        ids = [random.randrange(4, tokenizer.vocab_size) for _ in range(random.randint(3, 30))]
        text = tokenizer.decode(ids).replace("\n", " ").replace("\ufffd", "").strip()
        if text:
            lines.append(text)
    return _spread(lines, count, "generated: random pieces of the model's vocabulary", called="sentence")
