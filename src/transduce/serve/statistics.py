"""The state of the service at a moment, for metrics."""

from collections.abc import Sequence
from dataclasses import dataclass

from transduce.serve.model_slot import ModelSlot


@dataclass(frozen=True, slots=True)
class ModelStatistics:
    """The state of one model."""

    name: str
    loaded: bool
    num_waiting: int  # sentences in the queue
    num_computing: int  # sentences in batches
    oldest_seconds: float  # how long the first in the queue has waited
    batch_seconds: float  # how long the batch has been computed that takes longest


@dataclass(frozen=True, slots=True)
class ServiceStatistics:
    """The state of the service."""

    num_requests: int  # that are worked on
    models: list[ModelStatistics]

    @property
    def num_waiting(self) -> int:
        """Sentences in all queues."""
        return sum(model.num_waiting for model in self.models)


def statistics_of(num_requests: int, slots: Sequence[ModelSlot]) -> ServiceStatistics:
    """Returns the state of a service that works on so many requests with the models of these slots."""
    return ServiceStatistics(num_requests, [_of_model(slot) for slot in slots])


def _of_model(slot: ModelSlot) -> ModelStatistics:
    model = slot.loaded
    schedulers = model.schedulers if model is not None else []
    return ModelStatistics(
        name=slot.name,
        loaded=model is not None,
        num_waiting=sum(scheduler.num_waiting for scheduler in schedulers),
        num_computing=sum(scheduler.num_computing for scheduler in schedulers),
        oldest_seconds=max((scheduler.oldest_seconds() for scheduler in schedulers), default=0.0),
        batch_seconds=max((scheduler.batch_seconds() for scheduler in schedulers), default=0.0),
    )
