"""A loaded model as requests use it: whose work goes to which engine, in which direction, within which bounds."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from transduce.config import DecodeConfig
from transduce.engines.automatic import AutomaticEngine
from transduce.errors import ConfigError, DataError
from transduce.serve import model_slot, served_model
from transduce.serve.calls import Call, Ticket
from transduce.serve.config import ModelEntry
from transduce.serve.event_loop_calls import EventLoopCalls
from transduce.serve.model_slot import num_tokens, schedulers_of
from transduce.serve.queued_engine import QueuedEngine
from transduce.serve.requests import TranslationRequest
from transduce.serve.served_model import ServedModel
from transduce.serve.whole_texts import WholeTexts
from transduce.translation.pipeline import TextOptions

Note = Callable[..., Any]


def model_of(**parts: Any) -> Any:
    """Returns a model that is made of what is given."""
    made: Any = object.__new__(ServedModel)
    for name, value in parts.items():
        setattr(made, name, value)
    return made


def request_of(*texts: str, **fields: Any) -> TranslationRequest:
    return TranslationRequest(texts=list(texts), source="en", target="de", **fields)


# --- directions and domains -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("has_targets", "options", "expected"),
    [
        (False, None, "queued"),
        (False, TextOptions(), "queued"),
        (False, TextOptions(domain="law"), ("queued", (), {"domain": "law"})),
        (True, None, ("queued", ("en", "de", ""), {})),
        (True, TextOptions(domain="law"), ("queued", ("en", "de", "law"), {})),
    ],
)
def test_a_single_text_is_read_in_its_direction_and_domain(
    monkeypatch: pytest.MonkeyPatch, has_targets: bool, options: TextOptions | None, expected: Any
) -> None:
    monkeypatch.setattr(served_model, "directed", lambda model, *languages, **domain: (model, languages, domain))
    model = model_of(_has_targets=has_targets, _queued=lambda _: "queued")
    assert model._directed(request_of("a", text_options=options), Ticket()) == expected


@pytest.mark.parametrize("has_targets", [True, False])
def test_a_model_of_several_languages_is_told_which(has_targets: bool) -> None:
    given = TextOptions(language="fr", guard=True, domain="law")
    told = TextOptions(language="en", target="de", guard=True, domain="law")
    model = model_of(_has_targets=has_targets, _request_of=lambda *arguments: arguments)
    asked = request_of("a", n_best=3, options={"length_penalty": 0.5, "beam_size": 4})
    expected = ((("beam_size", 4), ("length_penalty", 0.5)), 3, told if has_targets else given)
    assert model._pipeline_request(asked, given) == expected


@pytest.mark.parametrize(
    ("entry", "data", "expected"),
    [
        ({}, ("en", "de"), {("en", "de"): False}),
        ({"source": "en-GB"}, ("en", "de"), {("en-GB", "de"): False}),
        ({"target": "de-AT"}, ("en", "de"), {("en", "de-AT"): False}),
        ({"source": "a", "target": "b"}, ("", ""), {("a", "b"): False}),
        ({"source": "a"}, ("", ""), "does not say which languages"),
        ({}, ("en", ""), "does not say which languages"),
        ({"source": "de", "target": "en"}, ("en", "de"), r"x: translates en → de, and its .* says de → en"),
        ({"source": "de"}, ("en", "de"), r"x: translates en → de, and its .* says de → de"),
        ({"target": "en"}, ("en", "de"), r"x: translates en → de, and its .* says en → en"),
        ({"source": "no", "target": "no"}, ("nb", "nb"), {("no", "no"): False}),
    ],
)
def test_the_configuration_wins_over_the_languages_of_the_folder(
    monkeypatch: pytest.MonkeyPatch, entry: dict[str, str], data: tuple[str, str], expected: Any
) -> None:
    _bundle(monkeypatch, data)
    if isinstance(expected, str):
        with pytest.raises(ConfigError, match=expected):
            model_slot._directions(ModelEntry(path="x", **entry))  # type: ignore[arg-type]
    else:
        assert model_slot._directions(ModelEntry(path="x", **entry)) == (expected, ("law",))  # type: ignore[arg-type]


def _bundle(
    monkeypatch: pytest.MonkeyPatch, languages: tuple[str, str], *, kind: str = "pairs", targets: str = ""
) -> None:
    data = SimpleNamespace(format=kind, source_language=languages[0], target_language=languages[1])
    tokenizer = SimpleNamespace(target_languages=tuple(targets.split()), domains=("law",))
    bundle = SimpleNamespace(config=SimpleNamespace(data=data), tokenizer=tokenizer)
    monkeypatch.setattr(model_slot.Bundle, "load", lambda path: bundle)


def test_a_parser_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    _bundle(monkeypatch, ("en", "de"), kind="trees")
    with pytest.raises(ConfigError, match="x: is a parser"):
        model_slot._directions(ModelEntry(path="x"))


class _Directions:
    """Those of a model that was trained on en-de and de-en, and knows fr."""

    def example(self, source: str, target: str) -> Any:
        return SimpleNamespace(source=source.lower(), target=target.lower())

    def served(self, *, zero_shot: bool) -> dict[tuple[str, str], bool]:
        trained = {("en", "de"): False, ("de", "en"): False}
        return trained | ({("en", "fr"): True, ("fr", "de"): True} if zero_shot else {})


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({}, {("en", "de"): False, ("de", "en"): False}),
        ({"source": "EN"}, {("en", "de"): False}),
        ({"target": "EN"}, {("de", "en"): False}),
        ({"zero_shot": True, "source": "en"}, {("en", "de"): False, ("en", "fr"): True}),
        ({"zero_shot": True, "target": "de"}, {("en", "de"): False, ("fr", "de"): True}),
        ({"source": "en", "target": "fr"}, None),
    ],
)
def test_of_a_model_of_several_languages_the_pairs_are_chosen(
    monkeypatch: pytest.MonkeyPatch, entry: dict[str, Any], expected: Any
) -> None:
    _bundle(monkeypatch, ("en", "de"), targets="en de fr")
    monkeypatch.setattr(model_slot.Directions, "of", lambda *_: _Directions())
    if expected is None:
        with pytest.raises(ConfigError, match="Set zero_shot = true"):
            model_slot._directions(ModelEntry(path="x", **entry))
    else:
        assert model_slot._directions(ModelEntry(path="x", **entry)) == (expected, ("law",))


# --- engines --------------------------------------------------------------------------------------------------


class _Scheduler:
    """Computes at once, and notes with how many tokens."""

    def __init__(self, model: Any) -> None:
        self.model, self.tokens, self.num_computing, self.closed = model, list[int](), 0, False

    def run(self, ticket: Ticket, work: Any, inputs: Sequence[Any], tokens: Sequence[int]) -> list[Any]:
        self.tokens = list(tokens)
        return list(work(self.model, list(inputs)))

    def close(self) -> None:
        self.closed = True


class _Engine:
    """An engine whose results name their inputs."""

    name, independent_lines, max_source_tokens, batch_tokens, num_workers = "made", False, 90, 800, 2

    def undivided(self) -> "_Engine":
        return self

    def score(self, sources: Any, targets: Any) -> Any:
        return [("score", *pair) for pair in zip(sources, targets, strict=True)]

    def align(self, sources: Any, targets: Any) -> Any:
        return [("align", *pair) for pair in zip(sources, targets, strict=True)]

    def next_scores(self, source: Any, prefix: Any) -> Any:
        return ("next", source, prefix)

    def attend(self, source: Any, target: Any) -> Any:
        return ("attend", source, target)

    def translate(self, *_: Any) -> Any:
        return None


def test_results_of_pairs_come_back_in_order_and_both_sides_are_counted() -> None:
    """Longer pairs are computed first; each side has an end."""
    engine: Any = _Engine()
    scheduler: Any = _Scheduler(SimpleNamespace(engine=engine))
    queued = QueuedEngine(engine, scheduler, Ticket())
    assert (queued.name, queued.independent_lines, queued.num_workers) == ("made", False, 1)
    assert (queued.max_source_tokens, queued.batch_tokens) == (90, 800)
    assert queued.undivided() is queued
    sources, targets = [[1], [2, 2], []], [[3, 3, 3], [4], []]
    pairs = list(zip(sources, targets, strict=True))
    assert queued.score(sources, targets) == [("score", *pair) for pair in pairs]
    assert scheduler.tokens == [6, 5, 2]
    assert queued.align(sources, targets) == [("align", *pair) for pair in pairs]
    assert queued.next_scores([1], [2, 2]) == ("next", [1], [2, 2])
    assert queued.attend([1], [2]) == ("attend", [1], [2])
    assert scheduler.tokens == [4]


def test_of_texts_the_end_is_counted() -> None:
    engine: Any = _Engine()
    engine.translate = lambda sources, options, n_best, constraints: [
        [(source, n_best, constraint)] for source, constraint in zip(sources, constraints, strict=True)
    ]
    scheduler: Any = _Scheduler(SimpleNamespace(engine=engine))
    queued = QueuedEngine(engine, scheduler, Ticket())
    constraints: Any = ["c0", "c1", "c2"]
    found = queued.translate([[1], [], [2, 2, 2]], DecodeConfig(beam_size=2), 2, constraints)
    assert found == [[([1], 2, "c0")], [([], 2, "c1")], [([2, 2, 2], 2, "c2")]]
    assert scheduler.tokens == [4, 2, 1]
    with pytest.raises(ConfigError, match="beam size"):
        queued.translate([[1]], DecodeConfig(beam_size=2), 3)


class _Tokenizer:
    """A token for each word."""

    def encode(self, text: str) -> list[str]:
        return text.split()

    def encode_batch(self, texts: Sequence[str]) -> list[list[str]]:
        return [text.split() for text in texts]


def attending(monkeypatch: pytest.MonkeyPatch, engine: Any) -> Any:
    monkeypatch.setattr(served_model, "attend", lambda *arguments: arguments)
    main = SimpleNamespace(engine=engine, tokenizer=_Tokenizer())
    return model_of(_main=main, _directed=lambda *_: "model", translator=SimpleNamespace(options="options"))


@pytest.mark.parametrize(("source", "target"), [(256, 256), (257, 1), (1, 257), (256, None)])
def test_attention_is_of_sides_of_at_most_256_tokens(
    monkeypatch: pytest.MonkeyPatch, source: int, target: int | None
) -> None:
    model = attending(monkeypatch, _Engine())
    text, translation = "a " * source, None if target is None else "b " * target
    if 257 in (source, target):
        with pytest.raises(DataError, match="257 tokens, and at most 256 are allowed"):
            model.attention(request_of(text), Ticket(), translation, signs=False)
    else:
        assert model.attention(request_of(text), Ticket(), translation, signs=False) == (
            "model",
            "options",
            text,
            translation,
        )


def test_an_engine_without_attention_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    model = attending(monkeypatch, SimpleNamespace(name="ctranslate2"))
    with pytest.raises(ConfigError, match=r"\(ctranslate2\) does not return attention weights"):
        model.attention(request_of("a"), Ticket(), None, signs=False)


def test_both_engines_of_a_model_are_counted_and_closed() -> None:
    first, second = _Scheduler(None), _Scheduler(None)
    model = model_of(scheduler=first, _reference_scheduler=None)
    assert model.schedulers == [first]
    model._reference_scheduler = second
    assert model.schedulers == [first, second]
    assert not model.is_computing
    second.num_computing = 1
    assert model.is_computing
    model.close()
    assert (first.closed, second.closed) == (True, True)


@pytest.mark.parametrize(("needs_reference", "together"), [(True, False), (False, True)])
def test_texts_that_need_the_reference_engine_do_not_go_together(needs_reference: bool, together: bool) -> None:
    engine: Any = object.__new__(AutomaticEngine)
    engine.needs_reference = lambda options: needs_reference
    made: Any = SimpleNamespace(options="options")
    model = model_of(_engine=engine, _request_of=lambda *_: made, _has_targets=False)
    assert model.whole_texts(request_of("a"), TextOptions()) == (WholeTexts(made) if together else None)
    assert model.whole_texts(request_of("a" * 1001), TextOptions()) is None


# --- how much there is to do ----------------------------------------------------------------------------------


def test_tokens_are_sampled_where_many_are_expected() -> None:
    """The estimate is a token for each four characters, and one for each text; here a word is a token."""
    loaded = SimpleNamespace(translator=SimpleNamespace(tokenizer=_Tokenizer()), scheduler="scheduler")
    route: Any = [SimpleNamespace(loaded=loaded), SimpleNamespace(loaded=None)]
    assert num_tokens(["ab " * 340], route) == 1020 // 4 + 1, "256 are not sampled"
    text = "ab " * 2000
    sampled = num_tokens([text], route)
    assert 2000 / 1.1 < sampled < 2000 * 1.1, "the estimate is 1501"
    assert num_tokens([text], route[::-1]) == 6000 // 4 + 1, "the first model is not loaded"
    assert schedulers_of(route) == ["scheduler"]


def test_a_coroutine_leaves_nothing_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Call] = []

    class Scheduler:
        """Ends each call while it is submitted."""

        def submit(self, ticket: Ticket, work: Any, inputs: Any, tokens: Any, on_end: Any) -> Call:
            call = Call(ticket, work, inputs, tokens, lambda _: on_end())
            calls.append(call)
            ticket.enter(call)
            for sentence in list(call.waiting):
                call.finish(sentence, sentence.input * 2)
            return call

    async def test() -> None:
        loop_calls, ticket = EventLoopCalls(asyncio.get_running_loop()), Ticket(deadline=1e12)
        scheduler: Any = Scheduler()
        assert await loop_calls.run(scheduler, ticket, "work", [], []) == []
        assert calls == []
        assert await loop_calls.run(scheduler, ticket, "work", [1, 2], [10, 20]) == [2, 4]
        assert ticket._call is None
        assert ticket.waiting_tokens == 0
        timers = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
        assert all(timer.cancelled() for timer in timers), "nothing happens at the deadline"

    asyncio.run(test())
