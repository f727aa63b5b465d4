"""The pairs of languages that a model translates between, and the tags that ask for one of them.

A model of several target languages, or of domains, reads tags in front of each source (`text/tags.py`). Which pairs it
was trained on is in its configuration. Any other pair of its languages is *zero-shot*: allowed, and said to be so.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from transduce.bundle import Bundle
from transduce.config import DataConfig
from transduce.engines.interface import Engine
from transduce.engines.tagged import with_tags
from transduce.errors import ConfigError, suggestion
from transduce.text import SubwordTokenizer
from transduce.text.languages import without_region
from transduce.text.tags import source_tags
from transduce.translation.text_model import TextModel


@dataclass(frozen=True)
class Direction:
    """The direction that a translation is wanted in.

    Attributes:
        source: code of the source language, "" where it is not known.
        target: code of the target language, likewise.
        domain: "" for none.
        zero_shot: whether the model was not trained on this pair of languages.
        tags: in front of each source.
    """

    source: str
    target: str
    domain: str
    zero_shot: bool
    tags: tuple[str, ...]

    @property
    def notice(self) -> str:
        """What to tell a user of a zero-shot pair; else ""."""
        pair = f"{self.source} → {self.target}"
        return f"{pair} is zero-shot: the model was not trained on this pair." if self.zero_shot else ""


@dataclass(frozen=True)
class Directions:
    """The directions of a model.

    Attributes:
        pairs: the pairs of languages that it was trained on, the default one first; codes may be "".
        targets: the target languages that have a tag; none where there is one target language.
        domains: the domains that it was trained on.
    """

    pairs: tuple[tuple[str, str], ...]
    targets: tuple[str, ...]
    domains: tuple[str, ...]

    @classmethod
    def of(cls, tokenizer: SubwordTokenizer, bundle: Bundle | None) -> "Directions":
        """Returns the directions of a model."""
        if bundle is None:
            return cls((("", ""),), tokenizer.target_languages, tokenizer.domains)
        return cls.of_data(tokenizer, bundle.config.data)

    @classmethod
    def of_data(cls, tokenizer: SubwordTokenizer, data: DataConfig) -> "Directions":
        """Returns the directions of a model that was trained on `data`."""
        own = (data.source_language, data.target_language)
        pairs = list(dict.fromkeys((each.source_language, each.target_language) for each in data.training_corpora))
        first = [pair for pair in pairs if pair == own] or [pair for pair in pairs if pair[1] == own[1]] or pairs[:1]
        return cls(tuple(dict.fromkeys((*(first or [own]), *pairs))), tokenizer.target_languages, tokenizer.domains)

    def choose(self, source: str = "", target: str = "", domain: str = "") -> Direction:
        """Returns the direction that is wanted; "" leaves the default: that of the recipe, or of its first corpus.

        Raises:
            ConfigError: the model does not know a language or the domain.
        """
        sources = dict.fromkeys(pair[0] for pair in self.pairs if pair[0])
        own_source, own_target = self.pairs[0]
        known = self.targets or ((own_target,) if own_target else ())
        chosen = _known("target language", target, known) if target else own_target or "".join(known[:1])
        if not self.targets:
            # A model of one source language gets its source for other reasons, such as how to split sentences.
            zero_shot = len(sources) > 1 and bool(source) and without_region(source) not in map(without_region, sources)
            source = source or own_source
        else:
            if source:
                source = _known("source language", source, [*sources, *self.targets]) if sources else source
            elif (own_source, chosen) in self.pairs:
                source = own_source
            else:
                source = next((pair[0] for pair in self.pairs if pair[1] == chosen), "")
            zero_shot = bool(source and sources) and (source, chosen) not in self.pairs
        domain = _known("domain", domain, self.domains) if domain else ""
        tags = source_tags(target_language=chosen if self.targets else "", domain=domain)
        return Direction(source, chosen, domain, zero_shot, tags)

    def served(self, *, zero_shot: bool) -> dict[tuple[str, str], bool]:
        """Returns the pairs that a model of several target languages can translate, and whether each is zero-shot.

        Args:
            zero_shot: whether to include pairs of a source and a target language that were not trained as a pair.
        """
        trained = {pair: False for pair in self.pairs if all(pair)}
        sources = dict.fromkeys(source for source, _ in trained)
        others = ((source, target) for source in sources for target in self.targets if source != target)
        return trained | ({pair: True for pair in others if pair not in trained} if zero_shot else {})


def _known(what: str, name: str, known: Iterable[str]) -> str:
    """Returns the known name that is meant: upper and lower case do not matter, nor does a region that is not known."""
    names = {each.lower().replace("_", "-"): each for each in known}
    wanted = name.lower().replace("_", "-")
    if found := names.get(wanted) or (names.get(wanted.partition("-")[0]) if what != "domain" else None):
        return found
    listed = f" It knows: {', '.join(names.values())}." if names else f" It has no {what} to choose."
    raise ConfigError(f"{what} '{name}': this model does not know it.{listed}{suggestion(name, names.values())}")


@dataclass(slots=True)
class DirectedModel:
    """A model that translates in one direction: its engine puts the tags in front of each source."""

    engine: Engine
    tokenizer: SubwordTokenizer
    bundle: Bundle | None
    direction: Direction


def directed(model: TextModel, source: str = "", target: str = "", domain: str = "") -> DirectedModel:
    """Returns the model as it translates in a direction.

    Raises:
        ConfigError: the model does not know a language or the domain.
    """
    direction = Directions.of(model.tokenizer, model.bundle).choose(source, target, domain)
    tags = [model.tokenizer.tags[tag] for tag in direction.tags]
    return DirectedModel(with_tags(model.engine, tags), model.tokenizer, model.bundle, direction)


def default_tags(tokenizer: SubwordTokenizer, bundle: Bundle | None) -> list[int]:
    """Returns the ids of the tags that a model reads where no direction is given."""
    return [tokenizer.tags[tag] for tag in Directions.of(tokenizer, bundle).choose().tags]


def default_target(tokenizer: SubwordTokenizer, bundle: Bundle | None) -> str:
    """Returns the code of the target language that a model of several writes where none is given; else ""."""
    return Directions.of(tokenizer, bundle).choose().target if tokenizer.target_languages else ""


def languages_of(model: TextModel) -> tuple[str, str]:
    """Returns the codes of the source and the target language, those of its default; "" where they are not known."""
    if isinstance(model, DirectedModel):
        return model.direction.source, model.direction.target
    return Directions.of(model.tokenizer, model.bundle).pairs[0]
