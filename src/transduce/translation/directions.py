"""The pairs of languages that a model translates between, and the tags that ask for one of them.

A model of several target languages, or of domains, reads tags in front of each source (`text/tags.py`). Which pairs it
was trained on is in its configuration. Any other pair of its languages is *zero-shot*: allowed, and said to be so.

M2M100 and NLLB read the source's language there, and that of the target as the first token of the target
(`data.language_tags`). They translate between any two of their languages, and none of these is a default.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import permutations
from pathlib import Path
from typing import Literal

from transduce.bundle import Bundle
from transduce.config import DataConfig
from transduce.engines.interface import Engine
from transduce.engines.tagged import with_tags
from transduce.errors import ConfigError, suggestion
from transduce.text import Tokenizer
from transduce.text.languages import codes_meant, language_of, without_region
from transduce.text.tags import source_tags
from transduce.translation.text_model import TextModel

_LISTED = 20  # names in a message; of more, those nearest to what was meant


@dataclass(frozen=True)
class Direction:
    """The direction that a translation is wanted in.

    Attributes:
        source: code of the source language, "" where it is not known.
        target: code of the target language, likewise.
        domain: "" for none.
        zero_shot: whether the model was not trained on this pair of languages.
        tags: in front of each source.
        target_tags: in front of each target.
    """

    source: str
    target: str
    domain: str
    zero_shot: bool
    tags: tuple[str, ...]
    target_tags: tuple[str, ...] = ()

    @property
    def notice(self) -> str:
        """What to tell a user of a zero-shot pair; else ""."""
        pair = f"{self.source} → {self.target}"
        return f"{pair} is zero-shot: the model was not trained on this pair." if self.zero_shot else ""

    def wrong_source(self, text: Path) -> str:
        """Returns what is wrong with a text that is named by the target language; else ""."""
        source, target, named = self.source, self.target, language_of(text)
        if not named or named != without_region(target) or named == without_region(source):
            return ""
        return f"{text}: by its name its language is {named}, but the model translates {source} → {target}."

    def require_source(self, text: Path) -> None:
        """Raises ConfigError if a text is named by the target language."""
        if wrong := self.wrong_source(text):
            raise ConfigError(
                f"{wrong} Use a model of {self.target} → {self.source}, a text in the other language, or give the "
                "file another name."
            )


@dataclass(frozen=True)
class Directions:
    """The directions of a model.

    Attributes:
        pairs: the pairs of languages that it was trained on, the default one first; codes may be "".
        targets: the target languages that have a tag; none where there is one target language.
        domains: the domains that it was trained on.
        language_tags: where tags name the languages, as in `data.language_tags`. With "both" each pair of `targets` is
            one that it translates between.
    """

    pairs: tuple[tuple[str, str], ...]
    targets: tuple[str, ...]
    domains: tuple[str, ...]
    language_tags: Literal["source", "target", "both"] = "source"

    @classmethod
    def of(cls, tokenizer: Tokenizer, bundle: Bundle | None) -> "Directions":
        """Returns the directions of a model."""
        if bundle is None:
            return cls((("", ""),), tokenizer.target_languages, tokenizer.domains)
        return cls.of_data(tokenizer, bundle.config.data)

    @classmethod
    def of_data(cls, tokenizer: Tokenizer, data: DataConfig) -> "Directions":
        """Returns the directions of a model that was trained on `data`."""
        own = (data.source_language, data.target_language)
        pairs = list(dict.fromkeys((each.source_language, each.target_language) for each in data.training_corpora))
        first = [pair for pair in pairs if pair == own] or [pair for pair in pairs if pair[1] == own[1]] or pairs[:1]
        known = tuple(dict.fromkeys((*(first or [own]), *pairs)))
        return cls(known, tokenizer.target_languages, tokenizer.domains, data.language_tags)

    def choose(self, source: str = "", target: str = "", domain: str = "") -> Direction:
        """Returns the direction that is wanted; "" leaves the default: that of the recipe, or of its first corpus.

        Raises:
            ConfigError: the model does not know a language or the domain, or has no default language.
        """
        domain = _known("domain", domain, self.domains) if domain else ""
        own_source, own_target = self.pairs[0]
        known = self.targets or ((own_target,) if own_target else ())
        if self.language_tags == "both":
            self._require_named(source or own_source, target or own_target)
            source = _known("source language", source or own_source, known)
            chosen = _known("target language", target or own_target, known)
            return self._direction(source, chosen, domain)
        if not target and not own_target and len(known) > 1:
            raise ConfigError(f"this model has several target languages: name one (--target). {_listed('', known)}")
        chosen = _known("target language", target, known) if target else own_target or "".join(known)
        sources = dict.fromkeys(pair[0] for pair in self.pairs if pair[0])
        if not self.targets:
            # A model of one source language gets its source for other reasons, such as how to split sentences.
            zero_shot = len(sources) > 1 and bool(source) and without_region(source) not in map(without_region, sources)
            return self._direction(source or own_source, chosen, domain, zero_shot=zero_shot)
        if source:
            source = _known("source language", source, [*sources, *self.targets]) if sources else source
        elif (own_source, chosen) in self.pairs:
            source = own_source
        else:
            source = next((pair[0] for pair in self.pairs if pair[1] == chosen), "")
        zero_shot = bool(source and sources) and (source, chosen) not in self.pairs
        return self._direction(source, chosen, domain, zero_shot=zero_shot)

    def example(self, source: str = "", target: str = "", domain: str = "") -> Direction:
        """Returns what `choose` does; a language that has no default is one that the model knows."""
        own_source, own_target = self.pairs[0]
        target = target or own_target or next((each for each in self.targets if each != source), "")
        if self.language_tags == "both":
            source = source or own_source or next((each for each in self.targets if each != target), target)
        return self.choose(source, target, domain)

    def served(self, *, zero_shot: bool) -> dict[tuple[str, str], bool]:
        """Returns the pairs that a model of several target languages can translate, and whether each is zero-shot.

        Args:
            zero_shot: whether to include pairs of a source and a target language that were not trained as a pair.
        """
        if self.language_tags == "both":
            return dict.fromkeys(permutations(self.targets, 2), False)
        trained = dict.fromkeys((pair for pair in self.pairs if all(pair)), False)
        if not trained and (source := self.pairs[0][0]):  # imported: it says no more than its source language
            trained = dict.fromkeys(((source, target) for target in self.targets), False)
        sources = dict.fromkeys(source for source, _ in trained)
        others = ((source, target) for source in sources for target in self.targets if source != target)
        return trained | ({pair: True for pair in others if pair not in trained} if zero_shot else {})

    def _direction(self, source: str, target: str, domain: str, *, zero_shot: bool = False) -> Direction:
        """Returns a direction of known languages with its tags."""
        target_tag = target if self.targets else ""
        in_front = {"source": target_tag, "target": "", "both": source}[self.language_tags]
        begins = source_tags(target_language=target_tag) if self.language_tags != "source" else ()
        return Direction(
            source, target, domain, zero_shot, source_tags(target_language=in_front, domain=domain), begins
        )

    def _require_named(self, source: str, target: str) -> None:
        """Raises ConfigError where a language is not named that has no default."""
        options = {"--source-language": source, "--target": target}
        if missing := [option for option, code in options.items() if not code]:
            raise ConfigError(
                f"this model translates between any two of its {len(self.targets)} languages: name them "
                f"({' and '.join(missing)} missing). {_listed('', self.targets)}"
            )


def _known(what: str, name: str, known: Iterable[str]) -> str:
    """Returns the known name that is meant: upper and lower case do not matter, nor does a region that is not known.

    Raises:
        ConfigError: none is, or several fit.
    """
    names = list(dict.fromkeys(known))
    if what == "domain":
        found = [each for each in names if each.lower().replace("_", "-") == name.lower().replace("_", "-")]
    else:
        found = codes_meant(name, names)
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"{what} '{name}': several fit: {', '.join(found)}. Name one of them.")
    listed = f" {_listed(name, names)}" if names else f" It has no {what} to choose."
    raise ConfigError(f"{what} '{name}': this model does not know it.{listed}{suggestion(name, names)}")


def _listed(name: str, known: Sequence[str]) -> str:
    """Returns the names that a model knows, in words; of very many, those nearest to `name`, or the first."""
    if len(known) <= _LISTED:
        return f"It knows: {', '.join(known)}."
    begins = [each for size in (2, 1) for each in known if name and each.lower().startswith(name[:size].lower())]
    near = list(dict.fromkeys((*get_close_matches(name, known, n=3), *begins))) or [*known]
    shown = ", ".join(near[:_LISTED])
    return f"It knows {len(known)}, such as {shown}; 'transduce info' lists them all."


@dataclass(slots=True)
class DirectedModel:
    """A model that translates in one direction: its engine puts the tags in front of each source and target."""

    engine: Engine
    tokenizer: Tokenizer
    bundle: Bundle | None
    direction: Direction


def directed(model: TextModel, source: str = "", target: str = "", domain: str = "") -> DirectedModel:
    """Returns the model as it translates in a direction.

    Raises:
        ConfigError: the model does not know a language or the domain, or has no default language.
    """
    direction = Directions.of(model.tokenizer, model.bundle).choose(source, target, domain)
    engine = with_tags(model.engine, *tag_ids(model.tokenizer, direction))
    return DirectedModel(engine, model.tokenizer, model.bundle, direction)


def tag_ids(tokenizer: Tokenizer, direction: Direction) -> tuple[list[int], list[int]]:
    """Returns the ids of the tags of a direction: in front of each source, and of each target."""
    target = tokenizer.target.tags
    return [tokenizer.tags[tag] for tag in direction.tags], [target[tag] for tag in direction.target_tags]


def default_tags(tokenizer: Tokenizer, bundle: Bundle | None) -> list[int]:
    """Returns the ids of the tags that a model reads where no direction is given."""
    return tag_ids(tokenizer, Directions.of(tokenizer, bundle).example())[0]


def default_target(tokenizer: Tokenizer, bundle: Bundle | None) -> str:
    """Returns the code of the target language that a model of several writes where none is given; else ""."""
    return Directions.of(tokenizer, bundle).example().target if tokenizer.target_languages else ""


def languages_of(model: TextModel) -> tuple[str, str]:
    """Returns the codes of the source and the target language, those of its default; "" where they are not known."""
    if isinstance(model, DirectedModel):
        return model.direction.source, model.direction.target
    return Directions.of(model.tokenizer, model.bundle).pairs[0]
