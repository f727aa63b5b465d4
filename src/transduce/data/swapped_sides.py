"""Parts of a corpus whose two sides are swapped, or that have one side in the other side's language.

Parts are compared with each other. No list of languages is needed to see that the sides of `validation` are swapped
relative to `train` and two test sets. The minority is considered wrong. In a tie, and where all parts agree, the most
frequent words of a few languages decide, if the configuration or file names say which languages are expected.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from transduce.data.corpus import CorpusFiles, Part
from transduce.data.tmx import is_tmx
from transduce.data.wrong_language import SideLanguages

_SAMPLE_PAIRS = 2_000
_MIN_CHARACTERS = 48  # of a sample
_FEWEST_FREQUENT = 20  # frequent words on the other side, where no other part contradicts
_COPY_SHARE = 0.5  # a part with a larger share of equal sides is a copy task
FUNCTION_WORDS = {
    "cs": "a se na je že v z do s to",
    "de": "der die das und ist nicht ein eine von mit",
    "en": "the of and to is that with for are on",
    "es": "el los las y es que una por con del",
    "fr": "le les des et est une que dans pour du",
    "it": "il di che è una per non con della gli",
    "nl": "het een van en is niet dat met voor zijn",
    "pl": "w i na się z że do nie to jest",
    "pt": "o os e que uma não para com do da",
    "ru": "и в не на что с по это как из",
    "sv": "och att det är som en på inte med för",
}
_LETTERS = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class Sides:
    """The languages of the two sides.

    Attributes:
        languages: learned from the corpus; None if the sides cannot be distinguished.
        faults: what is wrong with a part as a whole, in words.
    """

    languages: SideLanguages | None
    faults: dict[Part, str]


def compare_sides(files: CorpusFiles) -> dict[tuple[str, str], Sides]:
    """Returns for each pair of languages what the two sides look like, and which parts differ from the rest."""
    parts = dict.fromkeys([*files.train, *files.held_out().values()])
    pairs = dict.fromkeys(part.languages for part in parts)
    return {
        pair: _compare(
            [part for part in files.train if part.languages == pair],
            [part for part in parts if part.languages == pair and not part.trees],
        )
        for pair in pairs
    }


def _compare(training: Sequence[Part], parts: Sequence[Part]) -> Sides:
    """Compares `parts`, all of one pair of languages, with what the training parts of this pair look like."""
    languages = _learn(training)
    for part in parts:
        languages = languages or _learn([part])
    if languages is None:
        return Sides(None, {})
    samples = {part: _sample(part) for part in parts}
    is_wrong = {part: languages.wrong_sides(sample) for part, sample in samples.items()}
    swapped = [part for part, sides in is_wrong.items() if all(sides)]
    right = [part for part, sides in is_wrong.items() if not any(sides)]
    is_open = bool(right) and len(swapped) in (0, len(right))  # all agree, or there is a tie
    fewest = 0 if swapped else _FEWEST_FREQUENT
    if len(swapped) > len(right) or (is_open and _frequent_words_say_swapped(right, samples, fewest)):
        languages, swapped, right = languages.exchanged(), right, swapped
        is_wrong = {part: languages.wrong_sides(sample) for part, sample in samples.items()}
    faults = {}
    for part in parts:
        source, target = side_names(part)
        if part in swapped:
            others = f"the opposite of {right[0]}" if right else "the wrong way round"
            faults[part] = f"{source} and {target} are swapped: their languages are {others}"
        elif any(is_wrong[part]) and not all(is_wrong[part]) and not _is_copy(samples[part]):
            wrong, other = (source, target) if is_wrong[part][0] else (target, source)
            faults[part] = f"{wrong} is in the language that {other} should be in"
    return Sides(languages, faults)


def _learn(parts: Sequence[Part]) -> SideLanguages | None:
    return SideLanguages.learn(pair for part in parts for pair in part.open())


def _sample(part: Part) -> list[tuple[str, str]]:
    """Returns the first pairs of a part. Short lines are joined: alone, they do not show their language.

    They are joined by a line feed, so that no trigram spans two lines.
    """
    sample: list[tuple[str, str]] = []
    source: list[str] = []
    target: list[str] = []
    for source_line, target_line in islice(part.open(), _SAMPLE_PAIRS):
        source.append(source_line)
        target.append(target_line)
        if min(sum(map(len, source)), sum(map(len, target))) >= _MIN_CHARACTERS:
            sample.append(("\n".join(source), "\n".join(target)))
            source, target = [], []
    return sample


def _is_copy(pairs: Sequence[tuple[str, str]]) -> bool:
    return sum(source == target for source, target in pairs) > _COPY_SHARE * len(pairs)


def side_names(part: Part) -> tuple[str, str]:
    """Returns the names that messages give to the two sides of a part."""
    if is_tmx(part.paths[0]):
        return f"{part.paths[0]}, source", f"{part.paths[0]}, target"
    if len(part.paths) == 1:
        return f"{part.paths[0]}, column 1", f"{part.paths[0]}, column 2"
    return str(part.paths[0]), str(part.paths[1])


def _frequent_words_say_swapped(
    parts: Sequence[Part], samples: Mapping[Part, Sequence[tuple[str, str]]], fewest: int = 0
) -> bool:
    """Returns whether at least `fewest` frequent words show that the sides of these parts are swapped."""
    wrong = right = 0
    for part in parts:
        suffixes = [path.name.removesuffix(".gz").removesuffix(".zst").rsplit(".", 1)[-1] for path in part.paths]
        codes = (part.languages[0] or suffixes[0], part.languages[1] or suffixes[-1])
        words = [set(FUNCTION_WORDS.get(code.split("-")[0].lower(), "").split()) for code in codes]
        if not all(words) or codes[0] == codes[1]:
            continue
        only = (words[0] - words[1], words[1] - words[0])
        for pair in samples[part]:
            for side, line in enumerate(pair):
                found = _LETTERS.findall(line.lower())
                right += sum(word in only[side] for word in found)
                wrong += sum(word in only[1 - side] for word in found)
    return wrong > 2 * right and wrong >= fewest
