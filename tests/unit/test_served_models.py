"""The models of the service by pair of languages, pivots among them."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from transduce.errors import BundleError, ConfigError
from transduce.serve import models as module
from transduce.serve.config import FolderConfig, ModelEntry, PivotConfig, ServeConfig
from transduce.serve.model_folder import FoundModel
from transduce.serve.models import Models, ServedPair
from transduce.serve.operations.metrics import Metrics
from transduce.serve.requests import UnknownPairError


class _Slot:
    """The place of a model whose path lists its pairs: "en-de,en-fr"; "?" behind one: it is zero-shot.

    What follows a "." in the path is not read.
    """

    def __init__(self, entry: ModelEntry, *_: object, on_demand: bool = False) -> None:
        if entry.path == "bad":
            raise BundleError("bad: its weights\nare missing.")
        self.entry, self.name, self.domains = entry, entry.path, ("law",)
        listed = Path(entry.path).name.partition(".")[0]
        codes = [(pair.rstrip("?").split("-"), pair.endswith("?")) for pair in listed.split(",")]
        self.pairs = {(source, target): zero_shot for (source, target), zero_shot in codes}
        self.loaded: Any = None
        self.on_demand, self.last_used, self.num_uses, self.is_closed = on_demand, 0.0, 0, True
        self.calls: list[str] = []

    def load(self, *, attention: bool) -> None:
        self.loaded = SimpleNamespace(returns_attention=attention)

    def ensure_loaded(self) -> None:
        self.load(attention=False)

    def unload_if_unused(self) -> bool:
        if self.num_uses:
            return False
        self.loaded = None
        return True

    def remove(self) -> None:
        self.calls.append("remove")
        self.is_closed = False

    def reload(self, *, always: bool = False) -> str | None:
        self.calls.append(f"reload {always}")
        return f"{self.name}: reloaded" if always else None

    def unload_if_idle(self) -> bool:
        self.calls.append("unload")
        return self.name == "en-de"

    def close_unused(self) -> int:
        self.calls.append("close unused")
        return 1

    def close(self) -> None:
        self.calls.append("close")


def _models(monkeypatch: pytest.MonkeyPatch, *paths: str, pivot: str = "") -> Models:
    monkeypatch.setattr(module, "ModelSlot", _Slot)
    entries = tuple(ModelEntry(path=path) for path in paths)
    return Models(ServeConfig(models=entries, pivot=PivotConfig(language=pivot)), Metrics())


def test_pairs_over_a_pivot_go_through_both_models_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    models = _models(monkeypatch, "de-en", "en-fr,en-es?", "es-fr", pivot="en")
    names = {(pair.source, pair.target): pair.model for pair in models.pairs()}
    assert names == {
        ("de", "en"): "de-en",
        ("de", "es"): "de-en + en-fr,en-es?",
        ("de", "fr"): "de-en + en-fr,en-es?",
        ("en", "es"): "en-fr,en-es?",
        ("en", "fr"): "en-fr,en-es?",
        ("es", "fr"): "es-fr",
    }
    assert list(names) == sorted(names)
    first, second, _ = models.slots
    assert list(models.route("de", "fr")) == [first, second]
    with pytest.raises(UnknownPairError):
        models.route("fr", "de")
    assert ("de", "fr") not in {(pair.source, pair.target) for pair in _models(monkeypatch, "de-en", "en-fr").pairs()}
    direct = _models(monkeypatch, "de-en", "en-fr", "de-fr", pivot="en")
    assert [slot.name for slot in direct.route("de", "fr")] == ["de-fr"]


def test_what_is_known_of_a_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    models = _models(monkeypatch, "de-en", "en-fr?", pivot="en")
    slots: list[Any] = models.slots
    assert models.pairs() == [
        ServedPair("de", "en", "de-en", domains=("law",)),
        ServedPair("de", "fr", "de-en + en-fr?", "en", attention=False),
        ServedPair("en", "fr", "en-fr?", zero_shot=True, domains=("law",)),
    ]
    slots[0].load(attention=True)
    slots[1].load(attention=False)
    assert [pair.attention for pair in models.pairs()] == [True, False, False]


@pytest.mark.parametrize(
    ("paths", "pivot", "message"),
    [
        (["en-de", "en-fr,en-de"], "", "en-fr,en-de and en-de both translate from 'en' to 'de'"),
        (["en-de"], "fr", "pivot.language = 'fr': no model"),
    ],
)
def test_what_cannot_be_served(monkeypatch: pytest.MonkeyPatch, paths: list[str], pivot: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _models(monkeypatch, *paths, pivot=pivot)


def test_all_models_are_looked_after(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    models = _models(monkeypatch, "en-de", "en-fr")
    slots: list[Any] = models.slots
    assert models.reload(always=True) == ["en-de: reloaded", "en-fr: reloaded"]
    assert models.reload() == []
    with caplog.at_level(logging.WARNING):
        models.maintain()
    models.close()
    done = ["reload True", "reload False", "reload False", "unload", "close unused", "close"]
    assert [slot.calls for slot in slots] == [done, done]
    assert caplog.messages == ["en-de: unloaded, as nobody used it"]


# --- a folder -------------------------------------------------------------------------------------------------


class _Folder:
    """A folder whose models are listed; a package "p:…" of it has become "…"."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.names = names
        monkeypatch.setattr(module, "ModelSlot", _Slot)
        monkeypatch.setattr(module, "find_models", lambda _: self._found())

    def _found(self) -> list[FoundModel]:
        return [FoundModel(Path(name), Path(name.removeprefix("p:"))) for name in self.names]

    def models(self, *paths: str, max_loaded: int = 0, **further: Any) -> Models:
        """Returns the models of a service with this folder, and with the models of `paths`."""
        config = ServeConfig(
            models=tuple(ModelEntry(path=path) for path in paths),
            folder=FolderConfig(path="all", max_loaded=max_loaded, quantization="int8"),
            **further,
        )
        return Models(config, Metrics())


def _pairs(models: Models) -> dict[str, tuple[str, str]]:
    """Returns the model of each pair, and over which language it goes."""
    return {f"{pair.source}-{pair.target}": (pair.model, pair.via) for pair in models.pairs()}


def test_a_folders_models_go_through_english_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _Folder(monkeypatch, "de-en", "en-fr", "de-es", "es-fr")
    own = {name: (name, "") for name in folder.names}
    assert _pairs(folder.models()) == own | {"de-fr": ("de-en + en-fr", "en")}
    assert _pairs(folder.models(pivot=PivotConfig(language=""))) == own
    assert _pairs(folder.models(pivot=PivotConfig(language="es"))) == own | {"de-fr": ("de-es + es-fr", "es")}
    assert folder.models().pivot == "en"
    folder.names = ("de-fr",)
    assert _pairs(folder.models()) == {"de-fr": ("de-fr", "")}, "no English is no error"
    named = Models(ServeConfig(models=(ModelEntry(path="de-en"), ModelEntry(path="en-fr"))), Metrics())
    assert _pairs(named) == {"de-en": ("de-en", ""), "en-fr": ("en-fr", "")}, "by itself, only of a folder"


def test_of_two_for_a_pair_one_is_used_and_both_are_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = _Folder(monkeypatch, "en-de.1_10", "en-de.1_9", "en-de,en-fr.9", "en-fr,en-es,en-it.9")
    pairs = _pairs(folder.models())
    assert {pair: model for pair, (model, _) in pairs.items()} == {
        "en-de": "en-de.1_10",  # the last by name of those of one pair
        "en-fr": "en-de,en-fr.9",  # two pairs, not three
        "en-es": "en-fr,en-es,en-it.9",
        "en-it": "en-fr,en-es,en-it.9",
    }
    assert caplog.messages == [
        "en→de: en-de.1_10 is used, not en-de.1_9",
        "en→de: en-de.1_10 is used, not en-de,en-fr.9",
        "en→fr: en-de,en-fr.9 is used, not en-fr,en-es,en-it.9",
    ]
    caplog.clear()
    assert _pairs(folder.models("en-de.0"))["en-de"] == ("en-de.0", "")
    assert "en→de: en-de.0 is used, not en-de.1_10" in caplog.messages


def test_models_that_are_named_are_loaded_at_the_start_and_those_of_a_folder_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    models = _Folder(monkeypatch, "en-de", "p:de-en", "p:en-fr").models("p:de-en", "de-es")
    shown = {slot.name: (slot.on_demand, slot.entry.quantization) for slot in models.slots}
    # The entry of a package has become that of its import, and is served once.
    assert shown == {"de-en": (False, ""), "de-es": (False, ""), "en-de": (True, "int8"), "en-fr": (True, "int8")}


def test_what_cannot_be_opened_is_left_out(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    folder = _Folder(monkeypatch, "p:bad", "en-de")
    assert _pairs(folder.models()) == {"en-de": ("en-de", "")}
    assert caplog.messages == ["left out: p:bad: bad: its weights are missing."]
    folder.names = ("p:bad",)
    with pytest.raises(ConfigError, match="all: holds no model that can be served"):
        folder.models()
    assert _pairs(folder.models("en-fr")) == {"en-fr": ("en-fr", "")}
    with pytest.raises(BundleError):
        folder.models("p:bad")


def test_the_folder_is_searched_again_when_all_is_reloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _Folder(monkeypatch, "de-en", "en-fr")
    models = folder.models("en-es")
    slots: dict[str, Any] = {slot.name: slot for slot in models.slots}
    folder.names = ("en-it", "en-fr")
    assert models.reload() == []
    assert models.reload(always=True) == [
        "en-it: served from now on",
        "de-en: not served any more",
        *(f"{name}: reloaded" for name in ("en-es", "en-it", "en-fr")),
    ]
    assert set(_pairs(models)) == {"en-es", "en-fr", "en-it"}
    assert [slots[slot.name] is slot for slot in models.slots if slot.name != "en-it"] == [True, True]
    gone = slots["de-en"]
    assert gone.calls == ["reload False", "remove"]
    models.maintain()
    assert gone.calls[2:] == ["close unused"], "it still answers"
    gone.is_closed = True
    models.maintain()
    models.maintain()
    assert gone.calls[3:] == ["close unused"]
    models.close()
    assert "close" not in gone.calls


def test_a_folder_without_models_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _Folder(monkeypatch, "de-en", "en-fr")
    models = folder.models()
    before = _pairs(models)
    folder.names = ()
    with pytest.raises(ConfigError, match="holds no model"):
        models.reload(always=True)
    assert _pairs(models) == before
    assert [slot.name for slot in models.slots] == ["en-fr", "de-en"]


def test_the_model_that_was_unused_for_longest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    models = _Folder(monkeypatch, "en-de", "en-fr", "en-it", "en-nl").models("en-es", max_loaded=2)
    slots: dict[str, Any] = {slot.name: slot for slot in models.slots}

    def loaded() -> list[str]:
        return sorted(name for name, slot in slots.items() if slot.loaded is not None)

    def use(name: str, now: float) -> list[str]:
        models.ensure_loaded(slots[name])
        slots[name].last_used = now
        return loaded()

    assert use("en-es", 1.0) == ["en-es"]
    assert use("en-de", 2.0) == ["en-de", "en-es"]
    assert use("en-fr", 3.0) == ["en-de", "en-es", "en-fr"], "one that is named does not count"
    slots["en-de"].last_used = 4.0
    assert use("en-it", 5.0) == ["en-de", "en-es", "en-it"]
    slots["en-de"].num_uses = 1
    assert use("en-nl", 6.0) == ["en-de", "en-es", "en-nl"], "one in use stays, and the next goes"
    slots["en-nl"].num_uses = 1
    assert use("en-fr", 7.0) == ["en-de", "en-es", "en-fr", "en-nl"], "all others are in use"
    slots["en-de"].num_uses = slots["en-nl"].num_uses = 0
    models.maintain()
    assert loaded() == ["en-es", "en-fr", "en-nl"]
