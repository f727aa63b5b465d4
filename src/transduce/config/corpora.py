"""The arrays of tables in a recipe: corpora to train on, held-out sets, and the phases of training.

[[data.corpora]]                                 [[train.phases]]
name = "web"                                     from_step = 0
files = ["web.en", "web.de"]                     weights = { news = 0.2 }

[[data.corpora]]                                 [[train.phases]]
name = "news"                                    from_step = 80_000
files = ["news.en", "news.de"]                   weights = { web = 0.1, news = 2 }
weight = 2.0
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, TypeVar

from transduce.config.quantities import CountOrNone
from transduce.config.ranges import Range, check_ranges, require_within, shown
from transduce.errors import ConfigError, suggestion

WEIGHTS = Range(0, 1_000_000)
_NAME = re.compile(r"[^\s,=]+")
_TAG_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_COMPRESSED = (".gz", ".zst")


@dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """A part of the training corpus: an entry of `[[data.corpora]]`."""

    files: tuple[str, ...] = ()  # a pair of files, or a TSV or TMX file; of trees, any number of treebanks
    name: str = ""  # in reports and in `train.phases`; empty: the name of the first file, without its endings
    weight: Annotated[float, WEIGHTS] = 1.0  # how often an epoch has each pair; 0.2: every fifth
    source_language: str = ""  # BCP 47 code; empty: `data.source_language`
    target_language: str = ""  # BCP 47 code; empty: `data.target_language`
    domain: str = ""  # a tag in front of each source that a translation may ask for, such as "law"
    tag: str = ""  # a tag in front of each source that no translation asks for, such as "bt" for back-translated text

    def __post_init__(self) -> None:
        check_ranges("data.corpora", self)
        _check_names("data.corpora", self.name, domain=self.domain, tag=self.tag)


@dataclass(frozen=True, kw_only=True)
class HeldOutSetConfig:
    """A validation or test set of several: an entry of `[[data.validation_sets]]` or `[[data.test_sets]]`."""

    files: tuple[str, ...] = ()  # a pair of files, or a TSV or TMX file
    name: str = ""  # in logs and reports; empty: the name of the first file, without its endings
    source_language: str = ""  # BCP 47 code; empty: `data.source_language`
    target_language: str = ""  # BCP 47 code; empty: `data.target_language`
    domain: str = ""  # a domain of the corpora; its tag precedes each source


def _check_names(key: str, name: str, **tags: str) -> None:
    if name and not _NAME.fullmatch(name):
        demand = "a name without spaces, commas and equals signs"
        raise ConfigError(f"{key}: name = {shown(name)}: must be {demand}.")
    for kind, tag in tags.items():
        if tag and not _TAG_NAME.fullmatch(tag):
            raise ConfigError(
                f"{key}: {kind} = {shown(tag)}: must consist of A-Z, a-z, 0-9, '_', '-' and '.', "
                "and begin with a letter or a digit."
            )


@dataclass(frozen=True, kw_only=True)
class PhaseConfig:
    """A part of training with weights of its own: an entry of `[[train.phases]]`."""

    from_step: CountOrNone = 0  # the number of updates after which it begins
    weights: dict[str, float] = field(default_factory=dict)  # by the names of corpora; the others keep their own

    def __post_init__(self) -> None:
        check_ranges("train.phases", self)
        for name, weight in self.weights.items():
            require_within(weight, f"train.phases.weights.{name}", float, WEIGHTS)


Corpus = TypeVar("Corpus", CorpusConfig, HeldOutSetConfig)


def filled_in(corpora: Sequence[Corpus], source_language: str, target_language: str) -> tuple[Corpus, ...]:
    """Returns the corpora, each with a name, and with these languages where it names none.

    A name that two corpora would share gets a number: `train`, `train-2`.
    """
    given = {corpus.name for corpus in corpora}
    filled: list[Corpus] = []
    for corpus in corpora:
        name, number = corpus.name, 1
        if not name:
            base = name = _file_name(corpus.files[0])
            while name in given:
                number += 1
                name = f"{base}-{number}"
            given.add(name)
        languages = (corpus.source_language or source_language, corpus.target_language or target_language)
        filled.append(replace(corpus, name=name, source_language=languages[0], target_language=languages[1]))
    return tuple(filled)


def require_names(key: str, corpora: Sequence[CorpusConfig] | Sequence[HeldOutSetConfig]) -> None:
    """Raises ConfigError where an entry of an array of tables has an unusable name, or the name of another."""
    for corpus in corpora:
        _check_names(key, corpus.name, domain=corpus.domain)
    given = [corpus.name for corpus in corpora if corpus.name]
    if twice := next((name for name in given if given.count(name) > 1), ""):
        raise ConfigError(f"{key}: two entries have the name '{twice}'. Give each a different name.")


def require_languages(
    key: str, corpora: Sequence[CorpusConfig] | Sequence[HeldOutSetConfig], language_tags: str = "source"
) -> None:
    """Raises ConfigError where a corpus does not name a language that has a tag, or no tag can be made of it."""
    reason = "the corpora have several target languages"
    if language_tags != "source":
        reason = f'the model is given languages as tags (data.language_tags = "{language_tags}")'
    for corpus in corpora:
        languages = {"target_language": corpus.target_language}
        if language_tags == "both":
            languages["source_language"] = corpus.source_language
        for side, language in languages.items():
            if not _TAG_NAME.fullmatch(language):
                raise ConfigError(
                    f"{key}: '{corpus.name}' has {side} = {shown(language)}: {reason}, so each must name one, such as "
                    '"de" or "pt-BR".'
                )


def _file_name(file: str) -> str:
    """Returns what a corpus is called after one of its files: `news.en.gz` becomes `news`."""
    name = Path(file).name
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    name = name.rsplit(".", 1)[0] or name
    return "-".join(_NAME.findall(name)) or "corpus"


def require_phases(phases: Sequence[PhaseConfig], corpora: Sequence[CorpusConfig]) -> None:
    """Checks that phases follow each other, name corpora that there are, and leave something to train on.

    Raises:
        ConfigError: they do not.
    """
    steps = [phase.from_step for phase in phases]
    if any(later <= earlier for earlier, later in pairwise(steps)):
        raise ConfigError(f"train.phases: from_step = {shown(steps)}: each phase must begin after the one before it.")
    names = [corpus.name for corpus in corpora]
    for phase in phases:
        for name in phase.weights:
            if name not in names:
                raise ConfigError(
                    f"train.phases: the phase from step {phase.from_step} has a weight for '{name}', which is not a "
                    f"corpus. The corpora are: {', '.join(names)}.{suggestion(name, names)}"
                )
        if not any(phase.weights.get(corpus.name, corpus.weight) for corpus in corpora):
            raise ConfigError(
                f"train.phases: the phase from step {phase.from_step} gives all corpora the weight 0: nothing is "
                "left to train on."
            )
