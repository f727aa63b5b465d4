"""The demo's parallel corpus, generated when needed: real language, unlimited, no licence, no network.

English→German puts dates, times, quantities, amounts and numbers into carrier phrases; any other pair of CLDR
locales gets the plain patterns, alone and in lists of two. A source line never has two translations, so that
exact match means something.

How training, validation and test are separated:

- **Values.** A hash of each value (March 3, 15:47, 17 kilometers, €3.50, the number 342) says which part
  it belongs to: 6 in 100 to test, 4 to validation. Every value in a test line is a test value, in any format,
  and never occurs in training or validation; likewise for the other parts. Words of closed classes (weekdays,
  nouns, names), the parts of spelled-out numbers ("seven", "forty", "three hundred") and singulars ("1 day") are
  not held out, so that a held-out value can be composed of known parts.
- **Combinations.** The same holds for each combination of a carrier phrase with the kinds of value in it ("The
  parcel weighs …" with grams): 10 in 100 belong to test, 5 to validation, and are never in training. Half of the
  test and validation lines are such combinations; the other half are known combinations with unknown values.

The hashes do not depend on the seed: no corpus of one seed leaks the test lines of another.
"""

import functools
import hashlib
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Literal, get_args

from transduce.errors import ConfigError
from transduce.files import write_text

if TYPE_CHECKING:
    from transduce.data.demo.cldr import Cldr
    from transduce.data.demo.slots import Form, Pair, Slots

Part = Literal["train", "validation", "test"]
_SLOT = re.compile(r"\{(\w+?)\d?\}")
_VALUE_SHARES = {"test": 6, "validation": 4}  # in 100
_COMBINATION_SHARES = {"test": 10, "validation": 5}
_MAX_TRIES = 20_000  # for one new line; after that there are no new lines left


@dataclass(frozen=True)
class Line:
    """One pair, with the combination and values that determine its part."""

    source: str
    target: str
    combination: str
    values: tuple[str, ...]


def make_demo_corpus(
    folder: Path,
    *,
    source_language: str = "en",
    target_language: str = "de",
    num_train: int = 40_000,
    num_validation: int = 500,
    num_test: int = 1_000,
) -> dict[Part, tuple[Path, Path]]:
    """Writes `train`, `validation` and `test` files into `folder`, named by language: `train.en`, `train.de`.

    Returns the file of the sources and that of the targets of each part.

    Raises:
        MissingDependencyError: `babel` or `num2words` is not installed.
        ConfigError: a language is not a CLDR locale, both are the same, or the pair has not that many lines.
    """
    sizes: dict[Part, int] = {"train": num_train, "validation": num_validation, "test": num_test}
    files = demo_files(folder, source_language, target_language)
    for part, lines in generate(source_language, target_language, sizes).items():
        write_text(files[part][0], "".join(f"{line.source}\n" for line in lines))
        write_text(files[part][1], "".join(f"{line.target}\n" for line in lines))
    return files


def demo_files(folder: Path, source_language: str, target_language: str) -> dict[Part, tuple[Path, Path]]:
    """Returns where `make_demo_corpus` writes the source and the target of each part."""
    parts: tuple[Part, ...] = get_args(Part)
    return {part: (folder / f"{part}.{source_language}", folder / f"{part}.{target_language}") for part in parts}


def generate(
    source_language: str, target_language: str, sizes: dict[Part, int], seed: int = 1
) -> dict[Part, list[Line]]:
    """Returns `sizes[part]` lines for each part; no source line occurs twice in the whole corpus."""
    from transduce.data.demo.cldr import Cldr  # needs babel, which is optional

    if source_language == target_language:
        raise ConfigError(f"The demo corpus translates between two languages; both are '{source_language}'.")
    phrasebook = _phrasebook(Cldr(source_language), Cldr(target_language))
    corpus: dict[Part, list[Line]] = {}
    seen: set[str] = set()
    # The smallest parts come first: they have few values to draw from.
    for part in sorted(sizes, key=lambda part: sizes[part]):
        lines = phrasebook.lines(part, Random(f"{seed}/{part}"))
        corpus[part] = list(itertools.islice(_distinct(lines, seen, part), sizes[part]))
    return corpus


def _distinct(lines: Iterator[Line], seen: set[str], part: Part) -> Iterator[Line]:
    tries = 0
    for line in lines:
        tries += 1
        if line.source not in seen:
            seen.add(line.source)
            tries = 0
            yield line
        elif tries > _MAX_TRIES:
            raise ConfigError(f"The demo corpus has no more distinct {part} lines for this pair. Request fewer.")


def _phrasebook(source: "Cldr", target: "Cldr") -> "Phrasebook":
    if (source.language, target.language) == ("en", "de"):
        from transduce.data.demo.german import german_slots
        from transduce.data.demo.phrases import PHRASES

        return Phrasebook(PHRASES, german_slots(source, target))
    from transduce.data.demo.slots import plain_slots

    slots = plain_slots(source, target)
    names = [f"{{{slot}}}" for slot in slots]
    listed = [(source.listing(pair), target.listing(pair)) for pair in itertools.combinations(names, 2)]
    return Phrasebook([*zip(names, names, strict=True), *listed], slots)


def bucket(text: str, shares: dict[str, int]) -> Part:
    """Returns the part that `text` belongs to, by its hash alone."""
    number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") % 100
    if number < shares["test"]:
        return "test"
    return "validation" if number < shares["test"] + shares["validation"] else "train"


class Phrasebook:
    """Carrier phrases and the values for their slots; draws lines of a part of the corpus."""

    def __init__(self, phrases: Sequence["Pair"], slots: "Slots") -> None:
        self._phrases = [_Phrase(source, target, slots) for source, target in phrases]
        self._part_of = functools.lru_cache(100_000)(functools.partial(bucket, shares=_VALUE_SHARES))

    def lines(self, part: Part, random: Random) -> Iterator[Line]:
        """Yields lines of `part` endlessly; a line may occur more than once."""
        while True:
            # Half of the held-out lines are known combinations with unknown values.
            wanted: Part = part if random.random() < 0.5 else "train"
            phrase, forms, combination = self._choose(wanted, random)
            drawn = [value for form in forms if (value := _draw(form, part, random, self._part_of))]
            names = tuple(name for _, of_value in drawn for name in of_value)
            # A held-out line without values must be an unknown combination.
            if len(drawn) < len(forms) or (wanted != part and not names):
                continue
            source, target = phrase.fill([texts for texts, _ in drawn])
            yield Line(source, target, combination, names)

    def _choose(self, wanted: Part, random: Random) -> "tuple[_Phrase, list[Form], str]":
        """Returns a phrase, a form for each of its slots, and their combination, which is of `wanted`."""
        while True:
            phrase = random.choice(self._phrases)
            forms = [random.choice(choices) for choices in phrase.choices]
            combination = phrase.combination(forms)
            if phrase.part(combination) == wanted:
                return phrase, forms, combination


class _Phrase:
    def __init__(self, source: str, target: str, slots: "Slots") -> None:
        self.source, self.target = source, target
        self.slots = re.findall(r"\{(\w+)\}", source)
        self.choices = [slots[name] for name in _SLOT.findall(source)]
        # Nouns count as part of the combination only if there are hardly any kinds of value.
        self._by_kind = math.prod(len(choices) for choices in self.choices if choices[0].family) > 2
        first = self.combination([choices[0] for choices in self.choices])
        self.part = functools.cache(lambda text: "train" if text == first else bucket(text, _COMBINATION_SHARES))

    def fill(self, texts: "Sequence[Pair]") -> "Pair":
        """Returns the source and the target with `texts` in their slots."""
        sources = {slot: text[0] for slot, text in zip(self.slots, texts, strict=True)}
        targets = {slot: text[1] for slot, text in zip(self.slots, texts, strict=True)}
        return self.source.format(**sources), self.target.format(**targets)

    def combination(self, forms: Sequence["Form"]) -> str:
        """`The train leaves at {clock}. | h:mm a`."""
        kinds = [form.name for form in forms if form.family or not self._by_kind]
        return " | ".join([self.source, *kinds])


def _draw(form: "Form", part: Part, random: Random, part_of: Callable[[str], Part]) -> "tuple[Pair, list[str]] | None":
    """Draws a value that belongs to `part`; returns its texts, and the names by which it is held out.

    A name is the value's family and key, as in `day (3, 14)`. Closed classes and building blocks have none. Returns
    None if no value is found.
    """
    if not form.family:
        return form.render(form.draw(random)), []
    for _ in range(2000):
        value = form.draw(random)
        keys = form.keys(value)
        names = [f"{form.family} {key}" for key in keys or ()]
        parts = {"train"} if keys is None else {part_of(name) for name in names}
        if parts == {part}:
            return form.render(value), names
    return None
