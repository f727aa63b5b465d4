"""What every system to compare provides: the log-probabilities of given translations, and its own translations."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from transduce.bundle import Bundle
from transduce.config.special_ids import EOS
from transduce.engines.interface import Engine
from transduce.engines.tagged import with_tags
from transduce.translation.directions import Directions, tag_ids
from transduce.translation.pipeline import TextOptions
from transduce.translation.translator import Translator

BATCH = 16  # pairs or lines that are computed together
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Forced:
    """A system's predictions for one target, EOS included, given the tokens before each (teacher forcing)."""

    log_probabilities: list[float]
    choices: list[int]  # the most probable token at each position, over the whole vocabulary


class System(ABC):
    """Runs a model: ours, or that of a library."""

    name: str  # what runs, for the certificate
    # The greatest length of a source with its EOS, or of a target; None: as long as our engines allow.
    num_positions: int | None = None

    @abstractmethod
    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns our token ids of each line, without EOS, as this system's tokeniser gives them."""

    @abstractmethod
    def translate(self, lines: Sequence[str]) -> list[str] | None:
        """Returns each line's translation by the system's own search; None where it has none."""

    @abstractmethod
    def logits(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Iterable[np.ndarray]:
        """Returns for each pair the logits of each target token and of EOS, (T, V); rows beyond them are padding.

        Ids are without EOS, which is added to both.
        """

    def force(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Forced]:
        """Returns the model's predictions for each pair; ids are without EOS, which is added to both."""
        pairs = list(zip(sources, targets, strict=True))
        found = (logits for batch in in_batches(pairs, BATCH) for logits in self.logits(*zip(*batch, strict=True)))
        return [forced(logits, [*target, EOS]) for logits, target in zip(found, targets, strict=True)]


class EngineSystem(System):
    """A model that one of our engines runs, in its default direction, or an example where it has none."""

    def __init__(self, engine: Engine, bundle: Bundle) -> None:
        tokenizer = bundle.tokenizer
        direction = Directions.of(tokenizer, bundle).example()
        self.tags, self.target_tags = tag_ids(tokenizer, direction)
        self.engine = with_tags(engine, (), self.target_tags)  # sources have their tags already
        self._options = TextOptions(target=direction.target if tokenizer.target_languages else "")
        if self.target_tags:
            self._options = replace(self._options, language=direction.source)
        self.translator = Translator(engine, tokenizer, bundle.config.decode, bundle if self.target_tags else None)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the token ids of each line, after the tags of the default direction."""
        return [[*self.tags, *ids] for ids in self.translator.tokenizer.encode_batch(lines)]

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Translates as the model's configuration says, in the default direction."""
        return self.translator.translate(lines, text_options=self._options)


def forced(logits_TV: np.ndarray, target: Sequence[int]) -> Forced:
    """Returns the predictions for one target from its logits; rows of `logits_TV` beyond it are padding."""
    logits = np.asarray(logits_TV[: len(target)], np.float64)
    greatest = logits.max(axis=1, keepdims=True)
    normaliser = np.log(np.exp(logits - greatest).sum(axis=1)) + greatest[:, 0]
    chosen = logits[np.arange(len(target)), list(target)] - normaliser
    return Forced(chosen.tolist(), logits.argmax(axis=1).tolist())


def in_batches(items: Sequence[_T], size: int) -> list[Sequence[_T]]:
    """Divides items into batches of `size`; the last one may be smaller."""
    return [items[start : start + size] for start in range(0, len(items), size)]
