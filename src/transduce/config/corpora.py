"""The tables of a recipe that stand in arrays: the corpora to train on, and the phases of training.

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
from typing import Annotated

from transduce.config.ranges import Range, check_ranges, require_within, shown
from transduce.errors import ConfigError, suggestion

WEIGHTS = Range(0, 1_000_000)
_STEPS = Range(0, 1_000_000_000)
_NAME = re.compile(r"[^\s,=]+")
_COMPRESSED = (".gz", ".zst")


@dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """A part of the training corpus: an entry of `[[data.corpora]]`."""

    files: tuple[str, ...] = ()  # a pair of files or a TSV file; of trees, any number of treebanks
    name: str = ""  # in reports and in `train.phases`; empty: the name of the first file, without its endings
    weight: Annotated[float, WEIGHTS] = 1.0  # how often an epoch has each pair; 0.2: every fifth
    source_language: str = ""  # BCP 47 code; empty: `data.source_language`
    target_language: str = ""  # BCP 47 code; empty: `data.target_language`

    def __post_init__(self) -> None:
        check_ranges("data.corpora", self)
        if self.name and not _NAME.fullmatch(self.name):
            demand = "a name without spaces, commas and equals signs"
            raise ConfigError(f"data.corpora: name = {shown(self.name)}: must be {demand}.")


@dataclass(frozen=True, kw_only=True)
class PhaseConfig:
    """A part of training with weights of its own: an entry of `[[train.phases]]`."""

    from_step: Annotated[int, _STEPS] = 0  # the number of updates after which it begins
    weights: dict[str, float] = field(default_factory=dict)  # by the names of corpora; the others keep their own

    def __post_init__(self) -> None:
        check_ranges("train.phases", self)
        for name, weight in self.weights.items():
            require_within(weight, f"train.phases.weights.{name}", float, WEIGHTS)


def with_names(corpora: Sequence[CorpusConfig]) -> tuple[CorpusConfig, ...]:
    """Returns the corpora, each with a name; a name that two corpora would share gets a number: `train`, `train-2`."""
    given = {corpus.name for corpus in corpora}
    named: list[CorpusConfig] = []
    for corpus in corpora:
        name, number = corpus.name, 1
        if not name:
            base = name = _file_name(corpus.files[0])
            while name in given:
                number += 1
                name = f"{base}-{number}"
            given.add(name)
        named.append(replace(corpus, name=name))
    return tuple(named)


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
                    f"train.phases: the phase from step {phase.from_step} weights '{name}', and no corpus has this "
                    f"name; there are: {', '.join(names)}.{suggestion(name, names)}"
                )
        if not any(phase.weights.get(corpus.name, corpus.weight) for corpus in corpora):
            raise ConfigError(f"train.phases: the phase from step {phase.from_step} gives all corpora the weight 0.")
