"""Which rows an epoch has where corpora have weights: a pure function of sizes, weights, seed and epoch.

A weight says how often an epoch has each pair of a corpus. The pairs are on a ring in a random order, and each epoch
takes up where the one before it ended, for weight × size pairs. With five pairs, a random order of 3 0 4 1 2, and a
weight of 0.4, three epochs are

    epoch 0   3 0            epoch 1   4 1            epoch 2   2 3

So no pair comes again before all have come, and after any number of epochs each pair has come equally often, or once
more than others. Weights above 1 go round more than once: a weight of 3 gives each pair three times. All of this holds
at any epoch without a look at those before it, so that training resumes from an index.

Where all weights are 1, an epoch has the rows in the order of the store, as without weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

import numpy as np

from transduce.config import Config
from transduce.data.batching import Indices, random_numbers
from transduce.errors import DataError

_DIGITS = 6  # of weights that a temperature gives: powers differ between machines in their last digits
_MOST_PAIRS, _MOST_TIMES = 100_000_000, 10  # of an epoch: a number, or times the pairs of the store, whichever is more
_SALT = 2  # 0 and 1 are used by the plan of batches


@dataclass(frozen=True)
class CorpusRows:
    """The rows of one corpus in a store, which are consecutive.

    Attributes:
        name: what the recipe calls the corpus.
        num_pairs: number of rows.
        source_tokens: of these rows, EOS counted.
        target_tokens: likewise.
    """

    name: str
    num_pairs: int
    source_tokens: int
    target_tokens: int


@dataclass(frozen=True)
class Phase:
    """Steps of training with the same weights.

    Attributes:
        from_step: the number of updates after which it begins.
        weights: how often an epoch has each pair, for each corpus.
    """

    from_step: int
    weights: tuple[Fraction, ...]


@dataclass(frozen=True)
class Mixture:
    """The corpora of a store and their weights in each phase of training.

    Attributes:
        corpora: in the order of the store.
        phases: the first begins at step 0.
    """

    corpora: tuple[CorpusRows, ...]
    phases: tuple[Phase, ...]

    @classmethod
    def of(cls, config: Config, corpora: Sequence[CorpusRows]) -> "Mixture":
        """Returns the mixture that a configuration describes, for the corpora of a store.

        Args:
            config: its corpora have the names of those of the store, unless they all have the weight 1.
            corpora: of the store.

        Raises:
            DataError: the store has other corpora, or an epoch of a phase would have no pairs, or too many to plan.
        """
        wanted, temperature = config.data.training_corpora, config.data.temperature
        # Earlier versions repeated pairs in the store itself, for `data.repeat`, and did not note the corpora.
        as_stored = all(each.weight == 1 for each in wanted) or (config.data.repeat and not corpora)
        if as_stored and not config.train.phases and not temperature:
            return cls(tuple(corpora), (Phase(0, (Fraction(1),) * len(corpora)),))
        names, found = [corpus.name for corpus in wanted], [corpus.name for corpus in corpora]
        if names != found:
            theirs = (
                f"have the corpora {', '.join(found)}" if found else "do not say which pairs belong to which corpus"
            )
            raise DataError(
                f"the prepared data {theirs}, but the recipe has weights for {', '.join(names)}. "
                "Prepare them again: 'transduce prepare RECIPE --output DIR --overwrite'."
            )
        own = [Fraction(str(corpus.weight)) for corpus in wanted]
        if temperature:
            own = temperature_weights([corpus.num_pairs for corpus in corpora], temperature)
        phases = [Phase(0, tuple(own))] if not config.train.phases or config.train.phases[0].from_step else []
        for phase in config.train.phases:
            changed = {name: Fraction(str(weight)) for name, weight in phase.weights.items()}
            weights = (changed.get(name, weight) for name, weight in zip(names, own, strict=True))
            phases.append(Phase(phase.from_step, tuple(weights)))
        mixture = cls(tuple(corpora), tuple(phases))
        mixture._require_pairs()
        return mixture

    def _require_pairs(self) -> None:
        for phase in self.phases:
            sizes = [weight * corpus.num_pairs for weight, corpus in zip(phase.weights, self.corpora, strict=True)]
            most = max(_MOST_PAIRS, _MOST_TIMES * sum(corpus.num_pairs for corpus in self.corpora))
            if sum(sizes) > most:
                weight, corpus = max(zip(phase.weights, self.corpora, strict=True), key=lambda pair: pair[0])
                raise DataError(
                    f"data.corpora or train.phases: weight = {float(weight):g} of {corpus.name}: an epoch would have "
                    f"{int(sum(sizes)):,} pairs, and at most {most:,} can be planned. Lower all weights alike."
                )
            if max(sizes) < 1:
                raise DataError(
                    f"the weights from step {phase.from_step} on are so small that an epoch has less than one pair "
                    "of each corpus "
                    f"({', '.join(f'{corpus.name}: {corpus.num_pairs:,} pairs' for corpus in self.corpora)}). "
                    "Raise them."
                )

    def phase_at(self, step: int) -> Phase:
        """Returns the phase of the update that follows `step` updates."""
        return next(phase for phase in reversed(self.phases) if phase.from_step <= step)

    def rows(self, phase: Phase, seed: int, epoch: int) -> Indices | None:
        """Returns the rows of an epoch, corpus by corpus: whole rounds first, then the part of a round.

        None stands for all rows of the store, once each.
        """
        if all(weight == 1 for weight in phase.weights):
            return None
        starts = accumulate((corpus.num_pairs for corpus in self.corpora), initial=0)
        parts = [
            start + draw(corpus.num_pairs, weight, seed=seed, epoch=epoch, corpus=index)
            for index, (start, corpus, weight) in enumerate(zip(starts, self.corpora, phase.weights, strict=False))
        ]
        return np.concatenate(parts)


def temperature_weights(sizes: Sequence[int], temperature: float) -> list[Fraction]:
    """Returns weights that give each corpus the share size^(1 / temperature); that of the largest corpus is 1.

    Example: 1,000,000 and 10,000 pairs with temperature 2 have shares of 1000 to 100, so the weights 1 and 10.
    """
    exponent, largest = 1 - 1 / temperature, max(sizes)
    return [Fraction(str(round((largest / max(size, 1)) ** exponent, _DIGITS))) for size in sizes]


def draw(size: int, weight: Fraction, *, seed: int, epoch: int, corpus: int) -> Indices:
    """Returns the rows of one corpus in an epoch, from 0.

    Args:
        size: number of rows.
        weight: how often each is taken.
        seed: of the run.
        epoch: number of the epoch.
        corpus: number of the corpus: each has an order of its own.
    """
    begin, end = (int(weight * size * number) for number in (epoch, epoch + 1))
    rounds, rest = divmod(end - begin, max(size, 1))
    every = np.arange(size, dtype=np.int64)
    parts = [every] * rounds
    if rest:
        order = np.argsort(random_numbers(size, seed, corpus, salt=_SALT))  # no two are equal: any sort gives the same
        positions = np.arange(begin % size, begin % size + rest) % size
        parts.append(np.sort(order[positions]))
    return np.concatenate(parts) if parts else every[:0]
