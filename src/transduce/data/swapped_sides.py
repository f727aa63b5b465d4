"""Which parts of a corpus have their two sides the wrong way round, or one side in the other's language.

Parts are compared with each other: no list of languages is needed to see that `validation` is the other way round from
`train` and from two test sets. The fewer parts are at fault. Where it stands one against one, the ten or so most
frequent words of some languages decide, if file names or the configuration say which languages it should be.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from transduce.config import DataConfig
from transduce.data.corpus import CorpusFiles, Part, read_chunks
from transduce.data.wrong_language import SideLanguages

_SAMPLE_PAIRS = 2_000
_JUDGED_CHARACTERS = 48
_MOST = 0.5  # share of pairs with equal sides above which a part is meant to be a copy
_FUNCTION_WORDS = {
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
    """What language each side has.

    Attributes:
        languages: learned from the corpus; None where its sides cannot be told apart.
        faults: what is wrong with a part as a whole, in words.
    """

    languages: SideLanguages | None
    faults: dict[Part, str]


def compare_sides(files: CorpusFiles, data: DataConfig) -> Sides:
    """Returns what the two sides look like, and the parts that differ from the rest."""
    held_out = ([files.validation] if files.validation else []) + list(files.test.values())
    parts = [part for part in dict.fromkeys([*files.train, *held_out]) if not part.trees]
    languages = _learn(files.train)
    for part in parts:
        languages = languages or _learn([part])
    if languages is None:
        return Sides(None, {})
    samples = {part: _sample(part) for part in parts}
    verdicts = {part: languages.turned(sample) for part, sample in samples.items()}
    turned = [part for part, verdict in verdicts.items() if all(verdict)]
    straight = [part for part, verdict in verdicts.items() if not any(verdict)]
    tie = len(turned) == len(straight)
    if len(turned) > len(straight) or (
        tie and turned and _are_turned([samples[part] for part in straight], straight, data)
    ):
        languages, turned, straight = languages.exchanged(), straight, turned
        verdicts = {part: languages.turned(sample) for part, sample in samples.items()}
    faults = {}
    for part in parts:
        if part in turned:
            faults[part] = _swapped(part, straight)
        elif any(verdicts[part]) and not all(verdicts[part]) and not _is_copy(samples[part]):
            source, target = side_names(part)
            wrong, other = (source, target) if verdicts[part][0] else (target, source)
            faults[part] = f"{wrong} is in the language that {other} should be in"
    return Sides(languages, faults)


def _learn(parts: Sequence[Part]) -> SideLanguages | None:
    return SideLanguages.learn(pair for chunk in read_chunks(parts, "", progress=False) for pair in chunk.pairs)


def _sample(part: Part) -> list[tuple[str, str]]:
    """Returns the beginning of a part, short lines put together: by themselves they are not judged.

    A line feed stays between them: "dogs. cats" within a line is not the end of one line and the start of another.
    """
    sample: list[tuple[str, str]] = []
    source: list[str] = []
    target: list[str] = []
    for pair in islice(
        (pair for chunk in read_chunks([part], "", progress=False) for pair in chunk.pairs), _SAMPLE_PAIRS
    ):
        source.append(pair[0])
        target.append(pair[1])
        if min(sum(map(len, source)), sum(map(len, target))) >= _JUDGED_CHARACTERS:
            sample.append(("\n".join(source), "\n".join(target)))
            source, target = [], []
    return sample


def _is_copy(pairs: Sequence[tuple[str, str]]) -> bool:
    return sum(source == target for source, target in pairs) > _MOST * len(pairs)


def _swapped(part: Part, straight: Sequence[Part]) -> str:
    source, target = side_names(part)
    rest = f"the other way round from {straight[0]}" if straight else "the wrong way round"
    return f"{source} and {target} are swapped: their languages are {rest}"


def side_names(part: Part) -> tuple[str, str]:
    """Returns what to call the two sides of a part."""
    if len(part.paths) == 1:
        return f"{part.paths[0]}, column 1", f"{part.paths[0]}, column 2"
    return str(part.paths[0]), str(part.paths[1])


def _are_turned(samples: Sequence[Sequence[tuple[str, str]]], parts: Sequence[Part], data: DataConfig) -> bool:
    """Tells whether frequent words show these parts to be the wrong way round; False where nothing is known."""
    wrong = right = 0
    for sample, part in zip(samples, parts, strict=True):
        suffixes = [path.name.removesuffix(".gz").removesuffix(".zst").rsplit(".", 1)[-1] for path in part.paths]
        codes = (data.source_language or suffixes[0], data.target_language or suffixes[-1])
        words = [set(_FUNCTION_WORDS.get(code.split("-")[0].lower(), "").split()) for code in codes]
        if not all(words) or codes[0] == codes[1]:
            continue
        only = (words[0] - words[1], words[1] - words[0])
        for pair in sample:
            for side, line in enumerate(pair):
                found = _LETTERS.findall(line.lower())
                right += sum(word in only[side] for word in found)
                wrong += sum(word in only[1 - side] for word in found)
    return wrong > 2 * right
