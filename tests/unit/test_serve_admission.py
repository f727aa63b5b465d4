"""What the core of the service accepts, refuses and says of its models, without a model."""

import asyncio
import contextlib
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from transduce.config import DecodeConfig
from transduce.engines.interface import TokenConstraints
from transduce.serve import whole_texts
from transduce.serve.calls import CancelledRequestError, Ticket
from transduce.serve.config import BatchingConfig, ServeConfig, ServerConfig
from transduce.serve.queued_engine import _Translating
from transduce.serve.requests import (
    DeadlineError,
    OverloadedError,
    Priority,
    StoppingError,
    TranslatedText,
    TranslationRequest,
    UnavailableError,
    Waiting,
)
from transduce.serve.service import Service
from transduce.serve.whole_texts import translate_window
from transduce.translation.pipeline import TextOptions
from transduce.translation.pipeline.many_sentences import MANY_SENTENCES
from transduce.translation.result import Translation
from transduce.translation.windows import Window

BEST = Translation("x", -1.0, -2.0, ("x",), finished=True, source_truncated=False)


class Model:
    """A model, its scheduler and its slot in one; it translates by writing the target behind the text."""

    def __init__(self, source: str = "a", target: str = "b", zero_shot: bool = False) -> None:
        self.name = f"{source}-{target}"
        self.pairs = {(source, target): zero_shot}
        self.domains: tuple[str, ...] = ("law",)
        self.num_waiting, self.backlog_seconds, self.waits = 0, 0.0, {Priority.INTERACTIVE: 0.0, Priority.BULK: 0.0}
        self.num_computing, self.seconds = 0, 0.0
        self.num_lent = 0

    @property
    def loaded(self) -> "Model":
        return self

    scheduler = loaded

    @property
    def schedulers(self) -> list["Model"]:
        return [self]

    def expected_wait_seconds(self, priority: Priority) -> float:
        return self.waits[priority]

    def oldest_seconds(self) -> float:
        return 0.0

    def batch_seconds(self) -> float:
        return self.seconds

    def acquire_loaded(self) -> "Model":
        self.num_lent += 1
        return self

    def release(self, _: object) -> None:
        self.num_lent -= 1

    def whole_texts(self, request: TranslationRequest, _: object) -> str:
        return request.target


class Models:
    """Those of a service."""

    def __init__(self, *slots: Model) -> None:
        self.slots, self.pivot = slots, "p"

    def route(self, source: str, target: str) -> tuple[Model, ...]:
        return tuple(each for each in self.slots if (source, target) in each.pairs) or self.slots


class Calls:
    """Computes at once."""

    async def run(self, _: Model, __: object, work: str, texts: list[str], ___: object) -> list[list[Translation]]:
        return [[replace(BEST, text=f"{text} {work}")] for text in texts]


def service_of(monkeypatch: pytest.MonkeyPatch, *models: Model, **batching: Any) -> Service:
    monkeypatch.setattr("transduce.serve.service.Models", lambda *_: Models(*models))
    service = Service(ServeConfig(batching=BatchingConfig(**batching)))
    service._ready, service._calls = True, Calls()  # type: ignore[assignment]
    return service


def request_of(*texts: str, **fields: Any) -> TranslationRequest:
    return TranslationRequest(texts=texts, **{"source": "a", "target": "b"} | fields)


BULK = Priority.BULK


@pytest.mark.parametrize(
    ("num_texts", "fields", "state", "retry_after"),
    [
        (50, {}, {}, None),  # nothing waits: a list may be as long as it likes
        (9, {}, {"num_waiting": 1}, None),
        (10, {}, {"num_waiting": 1}, 1),
        (4, {"priority": BULK}, {"num_waiting": 1}, None),
        (5, {"priority": BULK}, {"num_waiting": 1}, 1),
        (10, {}, {"num_waiting": 1, "wait": 2.5}, 3),
        (1, {}, {"backlog_seconds": 20.0, "wait": 20.0}, None),
        (1, {}, {"backlog_seconds": 20.5, "wait": 20.0}, None),  # of which bulk makes up a part
        (1, {}, {"backlog_seconds": 20.5, "wait": 20.5}, 21),
        (1, {"timeout_seconds": 5.0}, {"backlog_seconds": 6.0, "wait": 6.0}, 6),
        (1, {"timeout_seconds": 7.0}, {"backlog_seconds": 6.0, "wait": 6.0}, None),
        (1, {"timeout_seconds": 99.0}, {"backlog_seconds": 30.0, "wait": 30.0}, 30),
    ],
)
def test_a_request_is_refused_where_too_much_waits(
    monkeypatch: pytest.MonkeyPatch,
    num_texts: int,
    fields: dict[str, Any],
    state: dict[str, Any],
    retry_after: int | None,
) -> None:
    limits = {"max_waiting_sentences": 10, "max_wait_seconds": 20.0, "deadline_seconds": 30.0}
    model = Model()
    service = service_of(monkeypatch, model, **limits)
    request = request_of(*["t"] * num_texts, **fields)
    model.waits[request.priority] = state.pop("wait", 0.0)
    for name, value in state.items():
        setattr(model, name, value)
    if retry_after is None:
        with service._accepted(request, [model]):  # type: ignore[list-item]
            assert service._num_accepted[request.priority] == 1
    else:
        with pytest.raises(OverloadedError) as raised, service._accepted(request, [model]):  # type: ignore[list-item]
            pytest.fail("too much waits")
        assert raised.value.retry_after_seconds == retry_after
    assert service._num_accepted[request.priority] == 0


@pytest.mark.parametrize(
    ("num_interactive", "num_bulk", "accepts_interactive", "accepts_bulk"),
    [(0, 1, True, True), (1, 2, True, False), (2, 1, True, True), (3, 1, False, False), (4, 0, False, False)],
)
def test_of_requests_that_are_worked_on_half_may_be_bulk(
    monkeypatch: pytest.MonkeyPatch, num_interactive: int, num_bulk: int, accepts_interactive: bool, accepts_bulk: bool
) -> None:
    model = Model()
    service = service_of(monkeypatch, model, max_requests=4)
    service._num_accepted = {Priority.INTERACTIVE: num_interactive, BULK: num_bulk}
    for priority, accepts in ((Priority.INTERACTIVE, accepts_interactive), (BULK, accepts_bulk)):
        accepted = service._accepted(request_of("t", priority=priority), [model])  # type: ignore[list-item]
        with contextlib.nullcontext() if accepts else pytest.raises(OverloadedError), accepted:
            assert accepts


def test_models_that_compute_for_too_long_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    models = [Model(), Model("b", "c"), Model("c", "d")]
    service = service_of(monkeypatch, *models, max_batch_seconds=60.0)
    models[0].seconds, models[1].seconds, models[2].seconds = 60.0, 60.5, 0.0
    assert service.hung_models() == ["b-c"]


def test_a_text_goes_through_one_model_or_two(monkeypatch: pytest.MonkeyPatch) -> None:
    models = [Model("a", "p"), Model("p", "b", zero_shot=True)]
    service = service_of(monkeypatch, *models)
    [direct] = asyncio.run(service.translate(request_of("t", source="p")))
    assert direct == TranslatedText([replace(BEST, text="t b")], "p", "b", zero_shot=True)
    found = asyncio.run(service.translate(request_of("t", "u")))
    assert [(each.best[0].text, each.source, each.target, each.via) for each in found] == [
        ("t p b", "a", "b", "p"),
        ("u p b", "a", "b", "p"),
    ]
    assert [model.num_lent for model in models] == [0, 0]


def test_of_several_requests_of_a_client_the_longest_wait_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    service = service_of(monkeypatch, Model())
    waiting = Waiting()
    for seconds in (1.5, 3.0, 2.0):
        with service._ticket(request_of("t", waiting=waiting)) as ticket:
            assert service._tickets == {ticket}
            ticket.waited_seconds = seconds
    assert waiting.seconds == 3.0
    assert service._tickets == set()


@pytest.mark.parametrize(("given", "expected"), [(None, 30.0), (5.0, 5.0), (0.0, 0.0)])
def test_a_ticket_ends_at_the_deadline_of_its_request(
    monkeypatch: pytest.MonkeyPatch, given: float | None, expected: float
) -> None:
    service = service_of(monkeypatch, Model(), deadline_seconds=30.0)
    monkeypatch.setattr("transduce.serve.service.time", SimpleNamespace(monotonic=lambda: 100.0))
    with service._ticket(request_of("t", timeout_seconds=given, priority=BULK)) as ticket:
        assert (ticket.deadline, ticket.priority) == (100.0 + expected, BULK)


_CONFIGURED = TextOptions(split="always", markup="placeholders", guard=True, capitals=True, signs=True)


@pytest.mark.parametrize(
    ("fields", "own", "expected"),
    [
        ({}, None, _CONFIGURED),
        ({}, TextOptions(split="never"), TextOptions(split="never")),
        ({"prefixes": [""], "required": [[]]}, None, _CONFIGURED),
        ({"prefixes": ["P"]}, None, TextOptions(markup="placeholders", signs=True)),
        ({"required": [["R"]]}, None, TextOptions(markup="placeholders", signs=True)),
        # What a request asks for itself stays, and is refused later where it cannot be.
        ({"prefixes": ["P"]}, TextOptions(split="never", confidence=True), TextOptions(split="never", confidence=True)),
        ({"prefixes": ["P"]}, TextOptions(markup="html", split="always", guard=True), TextOptions(markup="html")),
        ({"prefixes": ["P"]}, TextOptions(markup="none", domain="law"), TextOptions(domain="law")),
    ],
)
def test_options_that_are_configured_do_not_hold_for_texts_that_are_bound_as_a_whole(
    fields: dict[str, Any], own: TextOptions | None, expected: TextOptions
) -> None:
    """They work on parts of texts: sentences, markup, translations that are tried again."""
    assert request_of("t", text_options=own, **fields).text_options_for(("law",), _CONFIGURED) == expected


@pytest.mark.parametrize(
    ("own", "domains", "expected"),
    [
        (None, ["law", "news"], "law"),
        (None, ["news"], "law"),  # which the model refuses
        (None, [], ""),
        ("law", [], ""),  # as if it named none
        ("news", [], "news"),  # which the model refuses
        ("", ["law"], ""),
    ],
)
def test_a_domain_that_is_configured_does_not_hold_for_a_model_without_domains(
    own: str | None, domains: list[str], expected: str
) -> None:
    configured = TextOptions(domain="law")
    request = request_of("t", text_options=None if own is None else TextOptions(domain=own))
    assert request.text_options_for(domains, configured).domain == expected


def test_a_long_text_is_streamed_in_growing_groups_and_two_are_worked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """1, 2, 4 and 8 sentences, and 8 again and again: the first ones come soon, and later batches are full."""
    service = service_of(monkeypatch, Model())
    begun: list[int] = []

    async def run_group(request: TranslationRequest, _: object) -> list[TranslatedText]:
        begun.append(len(request.texts))
        return [TranslatedText([replace(BEST, text=text)], "a", "b") for text in request.texts]

    service._run_group = run_group  # type: ignore[method-assign, assignment]
    text = " ".join(["A dog runs."] * 25)

    async def test() -> list[str]:
        parts, seen = service.stream(request_of(text)), []
        async for part in parts:
            seen.append(part.text)
            await asyncio.sleep(0)
            if len(seen) == 1:
                assert begun == [1, 2]
        return seen

    assert "".join(asyncio.run(test())) == text
    assert begun == [1, 2, 4, 8, 8, 2]
    assert not any(service._num_accepted.values())


@pytest.mark.parametrize("of_model", [((), ("law",)), (("law",), ()), (("law",), ("law",))])
def test_a_domain_that_is_configured_holds_for_each_model_over_a_pivot(
    monkeypatch: pytest.MonkeyPatch, of_model: tuple[tuple[str, ...], ...]
) -> None:
    """In a stream, too."""
    used: list[str] = []

    class Noting(Model):
        def whole_texts(self, request: TranslationRequest, options: Any) -> str:
            used.append(options.domain)
            return request.target

    models = [Noting("a", "p"), Noting("p", "b")]
    for model, domains in zip(models, of_model, strict=True):
        model.domains = domains
    service = service_of(monkeypatch, *models)
    service.config = replace(service.config, text=TextOptions(domain="law"))

    async def test() -> None:
        await service.translate(request_of("t"))
        async for _ in service.stream(request_of("t")):
            pass

    asyncio.run(test())
    assert used == 2 * [domains[0] if domains else "" for domains in of_model]


def test_over_a_pivot_texts_take_the_time_of_both_models(monkeypatch: pytest.MonkeyPatch) -> None:
    models = [Model("a", "p"), Model("p", "b")]
    for model, seconds in zip(models, (0.5, 0.25), strict=True):
        model.seconds_of = lambda tokens, each=seconds: tokens * each  # type: ignore[attr-defined, misc]
    service = service_of(monkeypatch, *models)
    assert service.expected_seconds("a", "b", ["abcd" * 10]) == 11 * 0.75
    assert service.expected_seconds("p", "b", ["abcd" * 10, ""]) == 12 * 0.25


@pytest.mark.parametrize("limit", [0.0, 0.05])
def test_what_is_accepted_is_waited_for_or_cancelled_after_a_while(
    monkeypatch: pytest.MonkeyPatch, limit: float
) -> None:
    service = service_of(monkeypatch, Model())
    service.config = replace(service.config, server=ServerConfig(shutdown_seconds=limit))
    events: list[str] = []
    service._close = lambda: events.append("closed")  # type: ignore[method-assign]

    async def ask() -> None:
        request = request_of("t")
        with service._accepted(request, []), service._ticket(request) as ticket:
            monkeypatch.setattr(ticket, "cancel", lambda: events.append("cancelled"))
            await asyncio.sleep(0.3)
            events.append("answered")

    async def test() -> None:
        asking = asyncio.create_task(ask())
        await asyncio.sleep(0)
        await service.stop()
        await asking

    asyncio.run(test())
    assert events == (["cancelled", "closed", "answered"] if limit else ["answered", "closed"])
    assert service.stopping
    assert not service.ready


def test_models_are_looked_after_each_second_whatever_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service, slept, done = service_of(monkeypatch, Model()), list[float](), list[int]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 4:
            raise asyncio.CancelledError

    def maintain() -> None:
        done.append(1)
        if len(done) == 1:
            raise OSError("the disk is away")

    service._models.maintain = maintain  # type: ignore[method-assign]
    monkeypatch.setattr("transduce.serve.service.asyncio.sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(service._watch())
    service._maintenance.shutdown()
    assert (slept, len(done)) == ([1.0] * 4, 3)
    assert caplog.messages == ["the models could not be looked after"]


def test_a_late_request_is_told_when_the_queue_of_its_priority_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    model.waits = {Priority.INTERACTIVE: 0.2, BULK: 6.5}
    service = service_of(monkeypatch, model)

    async def retry_after(error: Exception, priority: Priority) -> UnavailableError:
        with pytest.raises(UnavailableError) as raised:
            async with service._model(model, Ticket(priority)):  # type: ignore[arg-type]
                raise error
        return raised.value

    for priority, seconds in ((Priority.INTERACTIVE, 1), (BULK, 7)):
        late = asyncio.run(retry_after(DeadlineError(), priority))
        assert isinstance(late, DeadlineError)
        assert late.retry_after_seconds == seconds
    assert model.num_lent == 0


def test_requests_that_the_end_cancels_are_refused_wherever_they_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second long request waits until the first has shown how fast the model is."""
    model, gate = Model(), asyncio.Event()
    model.seconds_of = lambda _: 0.0  # type: ignore[attr-defined]
    service = service_of(monkeypatch, model)
    service.config = replace(service.config, server=ServerConfig(shutdown_seconds=0.05))
    service._close = lambda: None  # type: ignore[method-assign]
    monkeypatch.setattr("transduce.serve.service.num_tokens", lambda *_: 10_000)

    async def compute(*_: object) -> None:
        await gate.wait()
        raise CancelledRequestError

    monkeypatch.setattr(Calls, "run", compute)

    async def test() -> None:
        asking = [asyncio.create_task(service.translate(request_of("t"))) for _ in range(2)]
        await asyncio.sleep(0)
        await service.stop()
        gate.set()
        for each in asking:
            with pytest.raises(StoppingError):
                await each
        with pytest.raises(StoppingError), service._ticket(request_of("the next sentences of a stream")):
            pytest.fail("the models are closed")

    asyncio.run(test())
    assert not any(service._num_accepted.values())


def test_the_warning_of_many_sentences_joins_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    best = replace(BEST, warnings=("w",))
    monkeypatch.setattr(whole_texts, "run_pipeline", lambda *_: [[best], [best, best]])
    monkeypatch.setattr(whole_texts, "lines_of_many_sentences", lambda *_: [1])
    request: Any = type("Request", (), {"text_options": None})
    model: Any = None
    warned = replace(best, warnings=("w", MANY_SENTENCES))
    assert translate_window(model, Window(1, ["t", "u"]), request) == [[best], [warned, warned]]


@pytest.mark.parametrize("given", [(), (1,), (0, 1)])
def test_constraints_of_one_line_of_a_batch_reach_the_engine(given: tuple[int, ...]) -> None:
    """Lines of several requests are searched together, of which some have constraints."""
    seen: list[Any] = []
    engine = SimpleNamespace(translate=lambda *arguments: seen.append(arguments))
    asked, options = TokenConstraints(forbidden=((5,),)), DecodeConfig()
    model: Any = SimpleNamespace(engine=engine)
    _Translating(options, 2)(model, [([number], asked if number in given else None) for number in range(2)])
    expected = [asked if number in given else TokenConstraints() for number in range(2)] if given else None
    assert seen == [([[0], [1]], options, 2, expected)]
