"""The models of the service by language pair, with what happens to them while it runs."""

import gc
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from transduce.engines.allocator import give_back_memory
from transduce.errors import ConfigError, TransduceError
from transduce.serve.config import AUTO, EngineConfig, ModelEntry, ServeConfig
from transduce.serve.model_folder import FoundModel, by_preference, find_models, leave_out
from transduce.serve.model_slot import ModelSlot
from transduce.serve.operations.metrics import Metrics
from transduce.serve.requests import UnknownPairError

_PIVOT = "en"  # where a folder is served and no pivot language is configured
_log = logging.getLogger(__name__)

Pair = tuple[str, str]  # language codes of source and target


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
        """Opens the model folders, and loads nothing yet; imports the packages of `[folder]`.

        Raises:
            BundleError: one that is named is no model folder.
            ConfigError: two of these translate between the same languages, or the languages of one are not known; or
                no model is left.
        """
        self._config, self._metrics = config, metrics
        self.pivot = config.pivot.language  # "": none
        if self.pivot == AUTO:
            self.pivot = _PIVOT if config.folder.path else ""
        self._leaving: list[ModelSlot] = []  # removed, and still answering
        self._making_room = threading.Lock()
        self._loading: set[ModelSlot] = set()  # on demand
        self._serve(self._chosen_slots({}))

    def _serve(self, slots: Mapping[Pair, ModelSlot]) -> None:
        """Translates by these models from now on."""
        self._slots, self._routes = slots, self._all_routes(slots)
        self.language_pairs = tuple(sorted(self._routes))  # between which the service translates

    def _chosen_slots(self, before: Mapping[ModelEntry, ModelSlot]) -> dict[Pair, ModelSlot]:
        """Returns the model of each pair of languages; those in `before` are used again."""
        config = self._config
        found = find_models(config.folder) if config.folder.path else []
        models = {each.path.resolve(): str(each.model) for each in found}
        named = [replace(each, path=models.get(Path(each.path).resolve(), each.path)) for each in config.models]
        slots: dict[Pair, ModelSlot] = {}
        for entry in named:
            slot = before.get(entry) or ModelSlot(entry, config.batching, self._metrics)
            for source, target in slot.pairs:
                other = slots.setdefault((source, target), slot)
                if other is not slot:
                    raise ConfigError(
                        f"{entry.path} and {other.entry.path} both translate from '{source}' to '{target}'. "
                        "Serve one of them."
                    )
        elsewhere = {Path(entry.path).resolve() for entry in named}
        candidates = [each for each in found if each.model.resolve() not in elsewhere]
        self._add_candidates(slots, candidates, before)
        if not slots and config.folder.path:
            raise ConfigError(f"{config.folder.path}: holds no model that can be served, not even one level down.")
        return slots

    def _add_candidates(
        self,
        slots: dict[Pair, ModelSlot],
        candidates: Iterable[FoundModel],
        before: Mapping[ModelEntry, ModelSlot],
    ) -> None:
        """Adds models of the folder for the pairs that have none, with a line in the log for each that is not used.

        Of two for a pair, the one of fewer pairs is used; of two of as many, the last by name.
        """
        folder = self._config.folder
        options = {each.name: getattr(folder, each.name) for each in fields(EngineConfig)}
        opened = []
        for each in sorted(candidates, key=lambda each: by_preference(each.path), reverse=True):
            entry = ModelEntry(path=str(each.model), **options)
            try:
                slot = before.get(entry) or ModelSlot(entry, self._config.batching, self._metrics, on_demand=True)
            except TransduceError as error:
                leave_out(each.path, error)
            else:
                opened.append((each.path, slot))
        paths = {slot: path for path, slot in opened}
        for path, slot in sorted(opened, key=lambda each: len(each[1].pairs)):
            others = {other for pair in slot.pairs if (other := slots.setdefault(pair, slot)) is not slot}
            for other in others:
                pairs = ", ".join(f"{one}→{two}" for one, two in sorted(slot.pairs) if slots[one, two] is other)
                _log.warning("%s: %s is used, not %s", pairs, paths.get(other, other.entry.path), path)

    def _all_routes(self, slots: Mapping[Pair, ModelSlot]) -> dict[Pair, tuple[ModelSlot, ...]]:
        """Returns for each pair of languages the models that text goes through."""
        routes: dict[Pair, tuple[ModelSlot, ...]] = {pair: (slot,) for pair, slot in slots.items()}
        pivot = self.pivot
        known = {language for pair in slots for language in pair}
        if pivot and pivot not in known and self._config.pivot.language != AUTO:
            raise ConfigError(f"pivot.language = '{pivot}': no model translates from or into it.")
        for source in sorted(known - {pivot}) if pivot else ():
            for target in sorted(known - {pivot, source}):
                if (source, pivot) in slots and (pivot, target) in slots:
                    way = (slots[source, pivot], slots[pivot, target])
                    routes.setdefault((source, target), way)
        return routes

    @property
    def slots(self) -> list[ModelSlot]:
        """The slots of all models."""
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
            via = self.pivot if len(route) > 1 else ""
            name = " + ".join(slot.name for slot in route)
            model = route[0].loaded
            attention = False if via else None if model is None else model.returns_attention
            zero_shot = not via and route[0].pairs[source, target]
            domains = () if via else route[0].domains
            found.append(ServedPair(source, target, name, via, attention, zero_shot, domains))
        return found

    def reload(self, *, always: bool = False) -> list[str]:
        """Exchanges the models whose folders have changed, or all; returns what happened, for the log.

        Args:
            always: whether all are read again, and `[folder]` is searched for other models.

        Raises:
            ConfigError: `[folder]` is gone, or no model is left; those from before are still served.
        """
        changed = self._search_again() if always and self._config.folder.path else []
        return changed + [message for slot in self.slots if (message := slot.reload(always=always)) is not None]

    def _search_again(self) -> list[str]:
        """Serves the models that are in the folder now; returns those that came and went."""
        before = self.slots
        self._serve(self._chosen_slots({slot.entry: slot for slot in before}))
        after = self.slots
        gone = [slot for slot in before if slot not in after]
        for slot in gone:
            slot.remove()
        self._leaving += gone
        come = [f"{slot.name}: served from now on" for slot in after if slot not in before]
        return come + [f"{slot.name}: not served any more" for slot in gone]

    def ensure_loaded(self, slot: ModelSlot) -> None:
        """Loads a model where it is not loaded; one that is loaded on demand may take the place of another.

        Raises:
            ModelUnavailableError: it cannot be loaded.
        """
        if not slot.on_demand:
            slot.ensure_loaded()
            return
        with self._making_room:
            self._loading.add(slot)
            self._make_room()
        try:
            slot.ensure_loaded()
        finally:
            with self._making_room:
                self._loading.discard(slot)

    def _make_room(self) -> None:
        """Unloads those models of the folder that were unused for longest, until there are not too many.

        Models in use stay, so there may be more for a moment; `maintain` tries again.
        """
        limit = self._config.folder.max_loaded
        loaded = [slot for slot in self.slots if slot.on_demand and slot.loaded is not None]
        idle = sorted(set(loaded) - self._loading, key=lambda slot: slot.last_used)
        excess = len(idle) + len(self._loading) - limit if limit else 0
        for slot in idle:
            if excess > 0 and slot.unload_if_unused():
                excess -= 1
                slot.close_unused()
                _log.info("%s: unloaded, to make room", slot.name)
                _return_memory()

    def maintain(self) -> None:
        """Does what is due: exchanges models whose folders have changed, unloads idle ones, returns their memory."""
        for message in self.reload():
            _log.warning("%s", message)
        for slot in self.slots:
            if slot.unload_if_idle():
                _log.warning("%s: unloaded, as nobody used it", slot.name)
        with self._making_room:
            self._make_room()
        if sum(slot.close_unused() for slot in [*self.slots, *self._leaving]):
            _return_memory()
        self._leaving = [slot for slot in self._leaving if not slot.is_closed]

    def close(self) -> None:
        """Closes all models; nobody uses them any more."""
        for slot in [*self.slots, *self._leaving]:
            slot.close()
        _return_memory()


def _return_memory() -> None:
    """Gives the memory of models that were dropped back to the system."""
    gc.collect()
    give_back_memory()
