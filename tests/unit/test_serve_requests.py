"""Requests on their way through the service, without a model: over a pivot, sentence by sentence, a model's slot."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from text_engine import text_translator
from transduce.errors import ConfigError
from transduce.serve import model_slot
from transduce.serve.config import BatchingConfig, ModelEntry
from transduce.serve.cut_text import CutText
from transduce.serve.documents.translation import DocumentTranslation
from transduce.serve.model_slot import ModelSlot
from transduce.serve.operations.metrics import Metrics
from transduce.serve.pivot import over_pivot, request_from_pivot, request_into_pivot
from transduce.serve.requests import ModelUnavailableError, TranslatedText, TranslationRequest
from transduce.serve.served_model import ServedModel
from transduce.serve.whole_texts import are_short
from transduce.translation.pipeline import TextOptions
from transduce.translation.result import Translation

BEST = Translation("x", -1.0, -2.0, ("x",), finished=True, source_truncated=False, confidence=0.5)


def request_of(*texts: str, **fields: Any) -> TranslationRequest:
    return TranslationRequest(texts=texts, source="a", target="c", **fields)


def test_constraints_and_options_of_a_request_are_for_the_second_model() -> None:
    """The first model writes one text for each, without what is asked of the translation."""
    constraints: dict[str, Any] = {"prefixes": ["P"], "forbidden": ["F"], "required": [["R"]]}
    options = TextOptions(language="a", confidence=True)
    request = request_of("t", n_best=3, options={"beam_size": 5}, text_options=options, **constraints)
    first = request_into_pivot(request, "b")
    assert first.text_options == options
    assert (first.pair, first.texts, first.n_best, first.options) == (("a", "b"), ("t",), 1, {})
    assert (first.prefixes, first.forbidden, first.required) == (None, None, None)
    between = [TranslatedText([replace(BEST, text="u"), replace(BEST, text="v")], "a", "b")]
    second = request_from_pivot(request, between)
    assert second == replace(request, source="b", texts=["u"], text_options=replace(options, language=""))
    assert request_from_pivot(replace(request, texts=[]), []).texts == []
    with pytest.raises(ConfigError, match="glossary"):
        request_into_pivot(request_of("t", glossary={"d": "D"}), "b")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({}, {}, {"confidence": 0.25}),
        ({"finished": False}, {}, {"finished": False, "confidence": 0.25}),
        ({}, {"finished": False}, {"finished": False, "confidence": 0.25}),
        ({"source_truncated": True}, {}, {"source_truncated": True, "confidence": 0.25}),
        ({}, {"source_truncated": True}, {"source_truncated": True, "confidence": 0.25}),
        ({"confidence": 0.2}, {"confidence": 0.9}, {"confidence": pytest.approx(0.18)}),
        ({"confidence": None}, {}, {"confidence": None}),
        ({}, {"confidence": None}, {"confidence": None}),
        ({"calibrated": True}, {"calibrated": True}, {"calibrated": False, "confidence": 0.25}),
    ],
)
def test_what_is_said_of_a_translation_over_a_pivot_holds_for_both_models(
    first: dict[str, Any], second: dict[str, Any], expected: dict[str, Any]
) -> None:
    span = (((0, 1), (0, 1)),)
    before = TranslatedText([replace(BEST, text="u", warnings=("w1",), **first)], "a", "b")
    after = replace(BEST, text="y", warnings=("w2",), sentences=span, alignment=span, **second)
    [found] = over_pivot([before], [TranslatedText([after, replace(after, text="z")], "b", "c")])
    assert (found.source, found.target, found.via, found.zero_shot) == ("a", "c", "b", False)
    warnings = ("into 'b': w1", "w2", "translated over 'b', which can lose meaning")
    plain = replace(BEST, warnings=warnings, **{"finished": True} | expected)
    assert found.best == [replace(plain, text="y"), replace(plain, text="z")]


# --- a text sentence by sentence ------------------------------------------------------------------------------


def cut(text: str, **fields: Any) -> CutText:
    options = fields.pop("options", TextOptions(split="always"))
    return CutText(request_of(text, **fields), options, "en")


def test_sentences_come_in_groups_and_are_joined_with_the_white_space_of_the_text() -> None:
    text = "  A dog. Two  men.\n\nThree! Four. \n"
    stream = cut(text, forbidden=["x", "y"])
    groups = list(stream.groups([1, 2]))
    assert [each.texts for each in groups] == [["A dog."], ["Two  men.", "Three!"], ["Four."]]
    assert {each.text_options for each in groups} == {TextOptions(split="auto")}
    assert [each.forbidden for each in groups] == [["x", "y"]] * 3
    written = ["EIN HUND.", "ZWEI", "DREI!", "VIER."]
    parts = [stream.join(TranslatedText([replace(BEST, text=each)], "a", "c")) for each in written]
    assert [part.text for part in parts] == ["  EIN HUND.", " ZWEI", "\n\nDREI!", " VIER. \n"]
    assert [text[slice(*part.span)] for part in parts] == ["A dog.", "Two  men.", "Three!", "Four."]
    of_texts = list(cut(text, forbidden=[["x"]]).groups([3, 1]))
    assert [each.forbidden for each in of_texts] == [[["x"]] * 3, [["x"]]]


def test_between_sentences_of_scripts_without_spaces_there_is_none() -> None:
    """Whether a space stands between two translations depends on both of them."""
    stream = cut("一只狗。两个人。三。")
    [group] = stream.groups([9])
    assert group.texts == ["一只狗。", "两个人。", "三。"]
    written = ["A dog.", "Two men.", "三。"]
    parts = [stream.join(TranslatedText([replace(BEST, text=each)], "a", "c")).text for each in written]
    assert parts == ["A dog.", " Two men.", "三。"]


def test_the_language_that_is_named_decides_where_sentences_end() -> None:
    """In German a number with a full stop ends none. What a request says of it wins over the language of its text."""
    text = "Es war am 3. Mai. Katzen."
    for language, given, number in (("de", "", 2), ("en", "", 3), ("en", "de", 2), ("de", "en", 3)):
        made = CutText(request_of(text), TextOptions(split="always", language=given), language)
        assert len([each for group in made.groups([1]) for each in group.texts]) == number


@pytest.mark.parametrize(
    "fields",
    [
        {"options": TextOptions(markup="html")},
        {"prefixes": ["Ein"]},
        {"required": [["Hund"]]},
    ],
)
def test_what_is_bound_as_a_whole_is_one_part(fields: dict[str, Any]) -> None:
    text = "A dog. Two men."
    [group] = cut(text, **fields).groups([1])
    assert group.texts == [text]


# --- short texts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (request_of(*["a" * 1000] * 64), True),
        (request_of(*["a"] * 65), False),
        (request_of("a", "a" * 1001), False),
        (request_of("a", prefixes=["P"]), False),
        (request_of("a", forbidden=["F"]), False),
        (request_of("a", required=[["R"]]), False),
        (request_of("a", glossary={"d": "D"}), False),
    ],
)
def test_only_short_texts_without_constraints_go_together(request_: TranslationRequest, expected: bool) -> None:
    assert are_short(request_) is expected


# --- a loaded model and its documents -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "n_best", "language", "expected"),
    [
        ({}, 1, "", (4, 4, "en")),
        ({}, 9, "", (9, 4, "en")),  # the beam is as wide as the list, where nothing else is said
        ({"beam_size": 12}, 9, "", (12, 4, "en")),
        ({"beam_size": 9}, 9, "", (9, 4, "en")),
        ({"beam_size": 2, "batch_size": 1}, 2, "fr", (2, 4, "fr")),  # batches are the service's own
    ],
)
def test_how_a_model_searches_for_a_request(
    options: dict[str, int], n_best: int, language: str, expected: tuple[int, int, str]
) -> None:
    model = object.__new__(ServedModel)
    model.translator, model._language, model._has_targets = text_translator(), "en", False
    made = model._new_request(tuple(options.items()), n_best, TextOptions(language=language))
    assert (made.options.beam_size, made.options.batch_size, made.text_options.language) == expected
    assert made.n_best == n_best
    with pytest.raises(ConfigError, match="at most the beam size, 2"):
        model._new_request((("beam_size", 2),), 3, TextOptions())


@pytest.mark.parametrize(("configured", "split"), [("never", "never"), ("auto", "always"), ("always", "always")])
def test_texts_of_documents_are_html_and_cut_unless_nothing_is(configured: Any, split: str) -> None:
    options = TextOptions(split=configured, guard=True, confidence=True, alignment=True)
    nothing: Any = None
    made = DocumentTranslation(nothing, nothing, nothing, options)
    assert made._text_options == TextOptions(split=split, guard=True, markup="html")  # type: ignore[arg-type]


# --- the slot of a model --------------------------------------------------------------------------------------


class Model:
    """A model that is lent."""

    num_uses, is_computing, closed = 0, False, False

    def close(self) -> None:
        self.closed = True


class Slot:
    """A slot with models that are made up, whose folder tests change."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state, self.models = 1, list[Model]()
        self.domains: tuple[str, ...] = ("law",)
        self.pair = ("a", "b")
        self.error: Exception | None = None
        monkeypatch.setattr(model_slot, "_folder_state", lambda _: (self.state,))
        monkeypatch.setattr(model_slot, "_directions", lambda _: ({self.pair: False}, self.domains))
        monkeypatch.setattr("transduce.serve.model_slot.ServedModel.load", self.load)
        entry = ModelEntry(path="x", unload_after_seconds=100.0)
        self.slot = ModelSlot(entry, BatchingConfig(), Metrics())

    @property
    def loaded(self) -> object:
        return self.slot.loaded

    def load(self, *_: object) -> Model:
        if self.error is not None:
            raise self.error
        self.models.append(Model())
        return self.models[-1]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Slot:
    return Slot(monkeypatch)


def test_a_folder_is_read_again_once_it_has_changed_and_does_not_change_any_more(made: Slot) -> None:
    made.slot.load()
    assert made.slot.reload() is None
    made.state, made.domains = 2, ("law", "news")
    assert (made.slot.reload(), len(made.models)) == (None, 1), "it may still be written"
    assert (made.slot.reload(), len(made.models)) == ("x: reloaded", 2)
    assert (made.slot.reload(), len(made.models)) == (None, 2)
    assert (made.slot.reload(always=True), len(made.models)) == ("x: reloaded", 3)
    assert made.slot.domains == ("law", "news")
    assert made.loaded is made.models[2]
    made.error = ConfigError("broken")
    assert str(made.slot.reload(always=True)).startswith("x: not reloaded, the model from before stays: broken")
    assert made.loaded is made.models[2]


def test_models_are_closed_when_nobody_uses_them_and_nothing_is_computed(made: Slot) -> None:
    made.slot.load()
    lent = made.slot.acquire_loaded()
    assert lent is not None
    made.slot.acquire_loaded()
    made.slot.reload(always=True)
    first, second = made.models
    assert (made.slot.acquire_loaded(), first.num_uses, second.num_uses) == (second, 2, 1)
    made.slot.release(lent)
    assert (made.slot.close_unused(), first.closed, first.num_uses) == (False, False, 1)
    first.is_computing = True
    made.slot.release(lent)
    assert (made.slot.close_unused(), first.closed) == (False, False)
    first.is_computing = False
    assert (made.slot.close_unused(), first.closed, made.models[1].closed) == (True, True, False)
    assert not made.slot.close_unused()


def test_an_idle_model_is_unloaded_and_one_in_use_is_not(made: Slot) -> None:
    assert not made.slot.unload_if_idle()
    made.slot.load()
    lent = made.slot.acquire_loaded()
    assert lent is not None
    made.slot.last_used -= 200
    assert not made.slot.unload_if_idle(), "somebody uses it"
    made.slot.release(lent)
    assert not made.slot.unload_if_idle(), "somebody has used it just now"
    made.slot.last_used -= 99
    assert not made.slot.unload_if_idle()
    made.slot.last_used -= 2
    assert made.slot.unload_if_idle()
    assert made.slot.loaded is None


def test_a_model_that_cannot_be_loaded_is_tried_again_after_a_while_or_when_its_folder_changes(made: Slot) -> None:
    made.error = ConfigError("broken")
    with pytest.raises(ModelUnavailableError) as raised:
        made.slot.ensure_loaded()
    assert raised.value.retry_after_seconds == 5
    assert 0 < made.slot._retry_at - time.monotonic() <= 5
    made.error = None
    with pytest.raises(ModelUnavailableError):
        made.slot.ensure_loaded()
    made.state = 2
    for _ in range(2):
        assert made.slot.reload() is None
    made.slot.ensure_loaded()
    assert made.loaded is made.models[0]
    assert len(made.models) == 1


def test_a_folder_that_changed_before_it_was_loaded_has_its_new_domains_and_no_other_languages(
    made: Slot, caplog: pytest.LogCaptureFixture
) -> None:
    made.domains = ("news",)
    made.slot.load()
    assert made.slot.domains == ("news",)
    made.slot.last_used -= 200
    assert made.slot.unload_if_idle()
    made.pair = ("a", "c")
    with pytest.raises(ModelUnavailableError):
        made.slot.ensure_loaded()
    assert "x: its languages have changed. Start the service anew." in caplog.text
    assert len(made.models) == 1


def test_a_file_that_changes_or_goes_away_changes_the_state_of_its_folder(tmp_path: Path) -> None:
    states = [model_slot._folder_state(tmp_path)]
    for name in ("config.json", "model.safetensors", "tokenizer.json", "shortlist.safetensors"):
        (tmp_path / name).write_text("1")
        states.append(model_slot._folder_state(tmp_path))
    (tmp_path / "config.json").unlink()
    assert len({*states, model_slot._folder_state(tmp_path)}) == 6
