"""The models of the service by pair of languages, pivots among them."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from transduce.errors import ConfigError
from transduce.serve import models as module
from transduce.serve.config import ModelEntry, PivotConfig, ServeConfig
from transduce.serve.models import Models, ServedPair
from transduce.serve.operations.metrics import Metrics
from transduce.serve.requests import UnknownPairError


class _Slot:
    """The place of a model whose path lists its pairs: "en-de,en-fr"; "?" behind one: it is zero-shot."""

    def __init__(self, entry: ModelEntry, *_: object) -> None:
        self.entry, self.name, self.domains = entry, entry.path, ("law",)
        codes = [(pair.rstrip("?").split("-"), pair.endswith("?")) for pair in entry.path.split(",")]
        self.pairs = {(source, target): zero_shot for (source, target), zero_shot in codes}
        self.loaded: Any = None
        self.calls: list[str] = []

    def load(self, *, attention: bool) -> None:
        self.loaded = SimpleNamespace(returns_attention=attention)

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
