"""The engine as one request sees it: it waits its turn, and is computed together with other requests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from transduce.config import DecodeConfig
from transduce.decoding.scores import Hypothesis
from transduce.engines.interface import AttendingEngine, AttentionWeights, Engine, TokenConstraints
from transduce.serve.calls import Ticket
from transduce.serve.scheduler import Scheduler
from transduce.translation.text_model import TextModel

if TYPE_CHECKING:
    import numpy as np

_UNCONSTRAINED = TokenConstraints()


# A kind of call to a model: returns a result for each input. The inputs of equal work can be computed in one call.
Work = Callable[[TextModel, list[Any]], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class _Translating:
    options: DecodeConfig
    n_best: int

    def __call__(self, model: TextModel, inputs: list[Any]) -> Sequence[Any]:
        sources = [source for source, _ in inputs]
        constraints = [given or _UNCONSTRAINED for _, given in inputs] if any(given for _, given in inputs) else None
        return model.engine.translate(sources, self.options, self.n_best, constraints)


def _scores(model: TextModel, pairs: list[Any]) -> Sequence[Any]:
    return model.engine.score(*zip(*pairs, strict=True))


def _alignments(model: TextModel, pairs: list[Any]) -> Sequence[Any]:
    return model.engine.align(*zip(*pairs, strict=True))


def _attention(model: TextModel, pairs: list[Any]) -> Sequence[Any]:
    assert isinstance(model.engine, AttendingEngine)
    return [model.engine.attend(source, target) for source, target in pairs]


def _next_scores(model: TextModel, pairs: list[Any]) -> Sequence[Any]:
    return [model.engine.next_scores(source, prefix) for source, prefix in pairs]


class QueuedEngine:
    """An `Engine` whose calls go through a scheduler."""

    num_workers = 1  # a request makes its calls one after another

    def __init__(self, engine: Engine, scheduler: Scheduler, ticket: Ticket) -> None:
        """Takes the engine, the scheduler that computes with it, and the request's ticket."""
        self._scheduler, self._ticket = scheduler, ticket
        self.name, self.independent_lines = engine.name, engine.independent_lines
        self.max_source_tokens, self.batch_tokens = engine.max_source_tokens, engine.batch_tokens

    def undivided(self) -> "QueuedEngine":
        """Returns this engine: the scheduler divides what waits."""
        return self

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        options: DecodeConfig,
        n_best: int = 1,
        constraints: Sequence[TokenConstraints] | None = None,
    ) -> list[list[Hypothesis]]:
        """Returns each source's hypotheses, best first; see `Engine.translate` and `Scheduler.run`."""
        options.require_n_best(n_best)
        given: Sequence[TokenConstraints | None] = constraints or [None] * len(sources)
        inputs = list(zip(sources, given, strict=True))
        return self._run(_Translating(options, n_best), inputs, [len(source) + 1 for source in sources])

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Returns the log-probability of each target token; see `Engine.score` and `Scheduler.run`."""
        return self._run_pairs(_scores, sources, targets)

    def align(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> "list[np.ndarray]":
        """Returns how much each target token comes from each source token; see `Engine.align` and `Scheduler.run`."""
        return self._run_pairs(_alignments, sources, targets)

    def next_scores(self, source: Sequence[int], prefix: Sequence[int]) -> "np.ndarray":
        """Returns the log-probability of each next token; see `Engine.next_scores` and `Scheduler.run`."""
        found: np.ndarray
        [found] = self._run_pairs(_next_scores, [source], [prefix])
        return found

    def attend(self, source: Sequence[int], target: Sequence[int]) -> AttentionWeights:
        """Returns the attention weights for one pair; see `AttendingEngine.attend` and `Scheduler.run`."""
        found: AttentionWeights
        [found] = self._run_pairs(_attention, [source], [target])
        return found

    def _run_pairs(self, work: Work, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Any]:
        pairs = list(zip(sources, targets, strict=True))
        return self._run(work, pairs, [len(s) + len(t) + 2 for s, t in pairs])

    def _run(self, work: Work, inputs: Sequence[Any], tokens: Sequence[int]) -> list[Any]:
        """Returns the result of each input. Long ones are computed first, next to others of about the same length."""
        order = sorted(range(len(inputs)), key=lambda index: -tokens[index])
        found = self._scheduler.run(
            self._ticket, work, [inputs[index] for index in order], [tokens[index] for index in order]
        )
        results: list[Any] = [None] * len(inputs)
        for index, result in zip(order, found, strict=True):
            results[index] = result
        return results
