"""The models of the service by language pair, with what happens to them while it runs."""

import contextlib
import ctypes
import gc
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from transduce.errors import ConfigError
from transduce.serve.config import ServeConfig
from transduce.serve.model_slot import ModelSlot
from transduce.serve.operations.metrics import Metrics
from transduce.serve.requests import UnknownPairError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServedPair:
    """Two languages between which the service translates."""

    source: str
    target: str
    model: str  # its name; of a pivot, both names
    via: str = ""  # code of the pivot language; "": none
    attention: bool | None = None  # whether its engine returns attention weights; None while it is not loaded
    zero_shot: bool = False  # whether the model was not trained on this pair
    domains: tuple[str, ...] = ()  # that a request may name; none over a pivot


class Models:
    """All models of the service."""

    def __init__(self, config: ServeConfig, metrics: Metrics) -> None:
        """Opens the model folders, and loads nothing yet.

        Raises:
            BundleError: one is no model folder.
            ConfigError: two translate between the same languages, or the languages of one are not known.
        """
        self._pivot = config.pivot.language
        self._slots: dict[tuple[str, str], ModelSlot] = {}
        for entry in config.models:
            slot = ModelSlot(entry, config.batching, metrics)
            for source, target in slot.pairs:
                other = self._slots.setdefault((source, target), slot)
                if other is not slot:
                    raise ConfigError(
                        f"{entry.path} and {other.entry.path} both translate from '{source}' to '{target}'. "
                        "Serve one of them."
                    )
        self._routes = self._all_routes()

    def _all_routes(self) -> dict[tuple[str, str], tuple[ModelSlot, ...]]:
        """Returns for each pair of languages the models that text goes through."""
        routes: dict[tuple[str, str], tuple[ModelSlot, ...]] = {pair: (slot,) for pair, slot in self._slots.items()}
        pivot = self._pivot
        known = {language for pair in self._slots for language in pair}
        if pivot and pivot not in known:
            raise ConfigError(f"pivot.language = '{pivot}': no model translates from or into it.")
        for source in sorted(known - {pivot}) if pivot else ():
            for target in sorted(known - {pivot, source}):
                if (source, pivot) in self._slots and (pivot, target) in self._slots:
                    way = (self._slots[source, pivot], self._slots[pivot, target])
                    routes.setdefault((source, target), way)
        return routes

    @property
    def slots(self) -> list[ModelSlot]:
        """The places of all models."""
        return list(dict.fromkeys(self._slots.values()))

    def route(self, source: str, target: str) -> Sequence[ModelSlot]:
        """Returns the models that a text goes through from one language to the other: one, or two with a pivot.

        Raises:
            UnknownPairError: there are none.
        """
        route = self._routes.get((source, target))
        if route is None:
            raise UnknownPairError(source, target)
        return route

    def pairs(self) -> list[ServedPair]:
        """Returns what is served, sorted."""
        found = []
        for (source, target), route in sorted(self._routes.items(), key=lambda item: item[0]):
            via = self._pivot if len(route) > 1 else ""
            name = " + ".join(slot.name for slot in route)
            model = route[0].loaded
            attention = False if via else None if model is None else model.returns_attention
            zero_shot = not via and route[0].pairs[source, target]
            domains = () if via else route[0].domains
            found.append(ServedPair(source, target, name, via, attention, zero_shot, domains))
        return found

    def reload(self, *, always: bool = False) -> list[str]:
        """Exchanges the models whose folders have changed, or all; returns what happened, for the log."""
        return [message for slot in self.slots if (message := slot.reload(always=always)) is not None]

    def maintain(self) -> None:
        """Does what is due: exchanges models whose folders have changed, unloads idle ones, returns their memory."""
        for message in self.reload():
            _log.warning("%s", message)
        for slot in self.slots:
            if slot.unload_if_idle():
                _log.warning("%s: unloaded, as nobody used it", slot.name)
        if sum(slot.close_unused() for slot in self.slots):
            _return_memory()

    def close(self) -> None:
        """Closes all models; nobody uses them any more."""
        for slot in self.slots:
            slot.close()
        _return_memory()


def _return_memory() -> None:
    """Gives the memory of models that were dropped back to the system."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library: its allocator decides
        ctypes.CDLL(None).malloc_trim(0)
