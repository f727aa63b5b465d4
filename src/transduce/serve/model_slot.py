"""One entry of the configuration with its model, which is loaded, replaced when its folder changes, and unloaded."""

import logging
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from transduce.bundle import CHECKED, Bundle
from transduce.engines.shortlist import FILE as SHORTLIST
from transduce.errors import ConfigError, TransduceError
from transduce.serve.config import BatchingConfig, ModelEntry
from transduce.serve.operations.metrics import Metrics
from transduce.serve.requests import ModelUnavailableError
from transduce.serve.scheduler import Scheduler
from transduce.serve.sentence_queue import STEP_TOKENS
from transduce.serve.served_model import ServedModel
from transduce.serve.whole_texts import estimated_tokens, sampled_tokens
from transduce.translation.directions import Directions

_WATCHED = ("config.json", *CHECKED, SHORTLIST)
_RETRY_SECONDS = 5.0  # after a model could not be loaded, requests do not try again for this long
_log = logging.getLogger(__name__)

FolderState = tuple[tuple[int, ...] | None, ...]


class ModelSlot:
    """A model folder that is served, with its model if that is loaded. Its methods can be called from any thread."""

    def __init__(
        self, entry: ModelEntry, batching: BatchingConfig, metrics: Metrics, *, on_demand: bool = False
    ) -> None:
        """Opens the model folder, and loads nothing yet.

        Args:
            entry: the model folder, and how it is run.
            batching: how much goes into a batch.
            metrics: count what happens.
            on_demand: whether the model is loaded when it is first requested, and may have to make room for others.

        Raises:
            BundleError: it is no model folder.
            ConfigError: its languages are not known, or it is a parser.
        """
        self.entry, self._batching, self._metrics = entry, batching, metrics
        self.on_demand = on_demand
        self.name = entry.name  # read here once: each request asks for it, and it costs file accesses
        self.pairs, self.domains = _directions(entry)
        self.loaded: ServedModel | None = None  # the model, if it is loaded
        self._retired: list[ServedModel] = []
        self._loading = threading.Lock()  # held while a model is loaded or exchanged
        self._lending = threading.Lock()  # held while a model is lent or taken back
        self._tried = self._seen = _folder_state(Path(entry.path))
        self.last_used = time.monotonic()
        self._retry_at = 0.0
        self._is_removed = False

    @property
    def schedulers(self) -> list[Scheduler]:
        """What computes for the model; nothing does while it is not loaded."""
        model = self.loaded
        return [] if model is None else model.schedulers

    def load(self) -> None:
        """Loads the model, unless it is loaded.

        Raises:
            TransduceError: it cannot be loaded.
        """
        with self._loading:
            if self.loaded is None and not self._is_removed:
                self.loaded = self._load()

    def acquire_loaded(self) -> ServedModel | None:
        """Lends the model if it is loaded; `release` takes it back."""
        with self._lending:
            if self.loaded is not None:
                self.loaded.num_uses += 1
            return self.loaded

    def release(self, model: ServedModel) -> None:
        """Takes back a model that was lent."""
        self.last_used = time.monotonic()
        with self._lending:
            model.num_uses -= 1

    def ensure_loaded(self) -> None:
        """Loads the model where it is not loaded, once for all who wait.

        Raises:
            ModelUnavailableError: it cannot be loaded, or was removed.
        """
        if self._is_removed:
            raise ModelUnavailableError(f"The model '{self.name}' is not served any more.", round(_RETRY_SECONDS))
        try:
            if self.loaded is None and time.monotonic() >= self._retry_at:
                self.load()
        except BaseException as error:  # an extension's panic, too: the request ends and the service goes on
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            self._report_failure(error)
        if self.loaded is None and time.monotonic() < self._retry_at:
            raise ModelUnavailableError(f"The model '{self.name}' could not be loaded.", round(_RETRY_SECONDS))

    def reload(self, *, always: bool = False) -> str | None:
        """Exchanges the model if its folder has changed since the last try, and nothing changes there now.

        The new one is loaded and tried first, and the old one closed when its requests are done. If the new one cannot
        be loaded, the old one stays.

        Args:
            always: whether a folder that has not changed is read again too.

        Returns:
            What happened, for the log; None if nothing did.
        """
        state = _folder_state(Path(self.entry.path))
        settled, self._seen = state == self._seen, state
        if not always and (state == self._tried or not settled):
            return None
        self._tried, self._retry_at = state, 0.0
        with self._loading:
            if self.loaded is None:
                return None  # the next request loads it
            try:
                new = self._load()
            except BaseException as error:  # an extension's panic, too
                self._report_failure(error)
                return (
                    f"{self.name}: not reloaded, the model from before stays: {error} "
                    f"Fix {self.entry.path}, or restore the earlier folder."
                )
            self._exchange(new)
        self._metrics.model_event(self.name, "reloaded")
        return f"{self.name}: reloaded"

    def unload_if_idle(self) -> bool:
        """Unloads the model if nobody has used it for as long as its entry says; returns whether it did."""
        limit = self.entry.unload_after_seconds
        return bool(limit) and self.unload_if_unused(limit)

    def unload_if_unused(self, seconds: float = 0.0) -> bool:
        """Unloads the model if nobody uses it, or has used it for `seconds`; returns whether it did."""
        with self._loading:
            model = self.loaded
            if model is None or model.num_uses or time.monotonic() - self.last_used < seconds:
                return False
            self._exchange(None)
        self._metrics.model_event(self.name, "unloaded")
        return True

    def remove(self) -> None:
        """Unloads the model for ever; requests that it has accepted are answered."""
        with self._loading:
            self._is_removed = True
            self._exchange(None)

    @property
    def is_closed(self) -> bool:
        """Whether the slot holds no model, not even one that still answers."""
        return self.loaded is None and not self._retired

    def close_unused(self) -> bool:
        """Closes the models that were exchanged and whose requests are done; returns whether there were any."""
        with self._loading:
            unused = [model for model in self._retired if not model.num_uses and not model.is_computing]
            for model in unused:
                self._retired.remove(model)
                model.close()
        return bool(unused)

    def close(self) -> None:
        """Closes the model, which nobody uses any more."""
        with self._loading:
            self._exchange(None)
            for model in self._retired:
                model.close()
            self._retired.clear()

    def _load(self) -> ServedModel:
        pairs, domains = _directions(self.entry)  # the folder may be another one than when it was opened
        if pairs != self.pairs:
            raise ConfigError(f"{self.entry.path}: its languages have changed. Start the service anew.")
        model = ServedModel.load(self.entry, self._batching, self._metrics)
        self.domains, self.last_used = domains, time.monotonic()
        self._metrics.model_event(self.name, "loaded")
        return model

    def _exchange(self, new: ServedModel | None) -> None:
        with self._lending:  # nobody is lent the old one from now on
            old, self.loaded = self.loaded, new
        if old is not None:
            self._retired.append(old)

    def _report_failure(self, error: BaseException) -> None:
        expected = isinstance(error, TransduceError)
        _log.error("%s: cannot be loaded: %s", self.name, error, exc_info=None if expected else error)
        self._metrics.model_event(self.name, "failed")


def schedulers_of(route: Sequence[ModelSlot]) -> list[Scheduler]:
    """Returns what computes for those models that are loaded."""
    return [model.scheduler for slot in route if (model := slot.loaded) is not None]


def num_tokens(texts: Sequence[str], route: Sequence[ModelSlot]) -> int:
    """Returns about how many tokens of the first model texts have together."""
    estimated = sum(estimated_tokens(texts))
    model = route[0].loaded
    if model is None or estimated <= STEP_TOKENS // 2:
        return estimated
    return sampled_tokens(texts, model.translator.tokenizer)


def _directions(entry: ModelEntry) -> tuple[dict[tuple[str, str], bool], tuple[str, ...]]:
    """Returns the pairs of languages that an entry serves, whether each is zero-shot, and the domains of its model.

    Codes are those in the configuration, or else those of the model folder. Of a model of several languages the
    configuration chooses among its pairs.
    """
    bundle = Bundle.load(entry.path)
    data = bundle.config.data
    if data.format == "trees":
        raise ConfigError(f"{entry.path}: is a parser, and the service runs translators only.")
    if bundle.tokenizer.target_languages:
        directions = Directions.of(bundle.tokenizer, bundle)
        chosen = directions.example(entry.source, entry.target)  # refuses languages that the model does not know
        found = {
            pair: zero_shot
            for pair, zero_shot in directions.served(zero_shot=entry.zero_shot).items()
            if (not entry.source or pair[0] == chosen.source) and (not entry.target or pair[1] == chosen.target)
        }
        if not found:
            raise ConfigError(f"{entry.path}: was not trained on the pair of its [[models]]. Set zero_shot = true.")
        return found, bundle.tokenizer.domains
    source, target = entry.source or data.source_language, entry.target or data.target_language
    if not source or not target:
        raise ConfigError(
            f"{entry.path}: does not say which languages it translates. Set source and target in the [[models]] of "
            "that path, in serve.toml."
        )
    own_source, own_target = data.source_language, data.target_language
    if own_source != own_target and (source == own_target or target == own_source):
        raise ConfigError(
            f"{entry.path}: translates {own_source} → {own_target}, and its [[models]] says {source} → {target}."
        )
    return {(source, target): False}, bundle.tokenizer.domains


def _folder_state(folder: Path) -> FolderState:
    """Returns what changes when one of the model's files does."""
    states: list[tuple[int, ...] | None] = []
    for name in _WATCHED:
        try:
            status = (folder / name).stat()
        except OSError:  # missing, or out of reach for the moment
            states.append(None)
        else:
            states.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(states)
