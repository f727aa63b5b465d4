"""What all protocols ask of the service: languages, charges, priorities, and what is noted for the log."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from starlette.requests import Request

from fake_service import FakeService
from transduce import Attention
from transduce.serve.config import ServeConfig
from transduce.serve.operations.access import Access
from transduce.serve.operations.keys import ANONYMOUS, Key
from transduce.serve.operations.limits import Budgets, Usage
from transduce.serve.operations.request_record import record_of
from transduce.serve.requests import OverloadedError, Priority, TranslationRequest, UnknownPairError
from transduce.serve.state.store import open_store
from transduce.serve.web.backend import Backend
from transduce.serve.web.detection import Detector, Guess
from transduce.serve.web.disconnection import ClientLeftError, while_connected
from transduce.serve.web.refusals import Refusal

BULK = Key("one", "0" * 64, priority="bulk")


@pytest.fixture
def backend(service: FakeService) -> Backend:
    access = Access(None, Budgets(Usage(open_store("memory"), lambda: None, lambda: "2026-01-02")))
    return Backend(service, ServeConfig(), access, Detector())  # type: ignore[arg-type]


async def _stays() -> Any:
    """Is a client that sends nothing and does not leave."""
    await asyncio.Event().wait()


def client() -> Request:
    return Request({"type": "http", "headers": []}, _stays)


def used(backend: Backend, key: Key = ANONYMOUS) -> int:
    return backend.access.budgets.usage.of_today(key.name)


def asked(*texts: str, **fields: Any) -> TranslationRequest:
    return TranslationRequest(texts=list(texts), source="en", target="de", **fields)


def test_languages_of_the_pairs(backend: Backend) -> None:
    """en-de, de-en, en-pt-BR and he-en."""
    assert backend.targets_by_language() == {"de": ["en"], "en": ["de", "pt-BR"], "he": ["en"], "pt-BR": []}
    assert list(backend.targets_by_language()) == ["de", "en", "he", "pt-BR"]
    assert backend.sources() == ["en", "de", "he"]
    assert [backend.sources(target) for target in ("en", "de", "he")] == [["de", "he"], ["en"], []]
    assert backend.languages() == ["en", "de", "he", "pt-BR"]
    assert [backend.target_language(code) for code in ("EN-gb", "pt", "he")] == ["en", "pt-BR", None]
    for code, target, expected in (
        ("EN", "de", "en"),
        ("de-AT", "de", "de"),  # a text that is in the target language already
        ("pt", "pt-BR", "pt-BR"),
        ("he", "de", "he"),  # served, though not into this language
        ("fr", "de", None),
        ("pt", "de", None),
    ):
        assert backend.source_language(code, target) == expected


def test_a_named_source_is_sure_and_an_unknown_one_is_refused_with_a_hint(backend: Backend) -> None:
    assert asyncio.run(backend.sources_of(["a", "b"], "EN-us", "de")) == [Guess("en", 100.0)] * 2
    with pytest.raises(Refusal, match=r"The language 'aut' is not supported\. Did you mean 'auto'\?") as raised:
        asyncio.run(backend.sources_of(["a"], "aut", "de"))
    assert (raised.value.status, raised.value.code) == (400, "unknown_language")


def test_a_source_is_detected_among_those_that_reach_the_target_and_the_target_itself(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []

    async def guesses(texts: Any, among: Any, *, html: bool = False) -> Any:
        calls.append((texts, among, html))
        return [[Guess("de", 60.0), Guess("en", 40.0)] for _ in texts]

    monkeypatch.setattr(backend.detector, "guesses", guesses)
    assert asyncio.run(backend.sources_of(["a", "b"], "auto", "en", html=True)) == [Guess("de", 60.0)] * 2
    assert len(asyncio.run(backend.detect(client(), ANONYMOUS, ["a" * 1999, "b" * 2000, "c" * 2001]))) == 3
    assert calls == [
        (["a", "b"], ["de", "he", "en"], True),
        (["a" * 1999, "b" * 2000, "c" * 2001], ["en", "de", "he", "pt-BR"], False),
    ]
    assert used(backend) == 1999 + 2000 + 2000


def test_texts_of_several_languages_come_back_in_their_order(backend: Backend, service: FakeService) -> None:
    """A request for each language; texts in the target language, and those that are named, are not translated."""
    request = client()
    texts, sources = ["a", "bb", "ccc", "dddd", "eeeee"], ["he", "en", "de", "he", "de"]
    fields: dict[str, Any] = {"prefixes": [*"PQRST"], "forbidden": None, "n_best": 2}
    found = asyncio.run(
        backend.translate(request, BULK, texts, sources, "en", unchanged=[2], further_characters=7, **fields)
    )
    assert [each.best[0].text for each in found] == ["[en] A", "bb", "ccc", "[en] DDDD", "[en] EEEEE"]
    assert [(each.source, each.target) for each in found] == [(source, "en") for source in sources]
    first, second = service.requests
    assert (first.texts, first.source, first.prefixes, first.forbidden) == (["a", "dddd"], "he", ["P", "S"], None)
    assert (second.texts, second.source, second.prefixes, second.n_best) == (["eeeee"], "de", ["T"], 2)
    assert first.priority is second.priority is Priority.BULK
    assert first.waiting is second.waiting is record_of(request.scope).waiting
    assert used(backend, BULK) == 1 + 2 + 3 + 4 + 5 + 7
    assert record_of(request.scope).characters == 22


def test_a_pair_that_is_not_served_costs_nothing(backend: Backend, service: FakeService) -> None:
    with pytest.raises(UnknownPairError):
        asyncio.run(backend.translate(client(), ANONYMOUS, ["a", "b"], ["en", "he"], "de"))
    assert (service.requests, used(backend)) == ([], 0)


def test_a_request_may_have_another_priority_than_its_key(backend: Backend, service: FakeService) -> None:
    asyncio.run(backend.translate(client(), ANONYMOUS, ["a"], ["en"], "de", priority=Priority.BULK))
    asyncio.run(backend.translate(client(), ANONYMOUS, ["a"], ["en"], "de"))
    assert [each.priority for each in service.requests] == [Priority.BULK, Priority.INTERACTIVE]


def test_where_one_language_fails_the_others_are_given_up_and_nothing_is_charged(
    backend: Backend, service: FakeService
) -> None:
    translate = service.translate

    async def failing(request: TranslationRequest) -> Any:
        if request.source == "he":
            raise OverloadedError("full")
        return await translate(request)

    async def test() -> None:
        service.gate = asyncio.Event()
        service.translate = failing  # type: ignore[method-assign]
        with pytest.raises(OverloadedError):
            await backend.translate(client(), ANONYMOUS, ["a", "b"], ["de", "he"], "en")

    asyncio.run(test())
    assert (service.cancelled, used(backend)) == (1, 0)


# --- clients that leave ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("leaves", "cancelled", "error"),
    [
        (False, False, None),
        (True, False, ClientLeftError),
        (False, True, asyncio.CancelledError),
        (True, True, asyncio.CancelledError),  # whoever cancels the request is told so, also when its client leaves
    ],
)
def test_work_is_given_up_when_its_client_leaves(leaves: bool, cancelled: bool, error: Any) -> None:
    given_up: list[bool] = []

    async def work() -> str:
        try:
            await asyncio.sleep(3600 if leaves or cancelled else 0.01)
        except asyncio.CancelledError:
            given_up.append(True)
            raise
        return "done"

    async def test() -> Any:
        begun = asyncio.Event()

        async def receive() -> Any:
            begun.set()
            if leaves:
                return {"type": "http.disconnect"}
            return await asyncio.Event().wait()

        task = asyncio.create_task(while_connected(Request({"type": "http", "headers": []}, receive), work()))
        await begun.wait()
        if cancelled:
            task.cancel()
        return await task

    if error is None:
        assert asyncio.run(test()) == "done"
    else:
        with pytest.raises(error):
            asyncio.run(test())
    assert given_up == [True] * (error is not None)


# --- one text -------------------------------------------------------------------------------------------------


async def _streamed(backend: Backend, request: Request, key: Key, given: TranslationRequest) -> Any:
    return [part.text async for part in backend.stream(request, key, given, 3)]


Work = Callable[[Backend, Request, TranslationRequest], Awaitable[Any]]


@pytest.mark.parametrize(
    ("work", "fields", "characters"),
    [
        (lambda backend, request, given: _streamed(backend, request, BULK, given), {}, 6 + 3),
        (lambda backend, request, given: backend.alternatives(request, BULK, given, 2), {}, 6),
        (lambda backend, request, given: backend.alternatives(request, BULK, given, 2), {"prefixes": ["Ein "]}, 6 + 4),
        (lambda backend, request, given: backend.attention(request, BULK, given, "Ein Hund"), {}, 6 + 8),
        (lambda backend, request, given: backend.attention(request, BULK, given, None), {}, 6),
    ],
)
def test_what_is_noted_and_charged_for_a_single_text(
    backend: Backend,
    service: FakeService,
    random_attention: Callable[..., Attention],
    work: Work,
    fields: dict[str, Any],
    characters: int,
) -> None:
    service.attended = random_attention("a dog", "ein Hund")
    request, given = client(), asked("A dog.", **fields)

    async def test() -> None:
        await work(backend, request, given)

    asyncio.run(test())
    assert record_of(request.scope).waiting is given.waiting
    assert record_of(request.scope).characters == characters
    assert used(backend, BULK) == characters
    service.error = OverloadedError("full")
    with pytest.raises(OverloadedError):
        asyncio.run(test())
    assert used(backend, BULK) == characters, "what fails before its first word costs nothing"


def test_a_stream_that_breaks_off_later_is_paid_for(backend: Backend, service: FakeService) -> None:
    service.error, service.error_after = OverloadedError("full"), 1
    with pytest.raises(OverloadedError):
        asyncio.run(_streamed(backend, client(), ANONYMOUS, asked("One. Two.")))
    assert used(backend) == 9 + 3


def test_a_stream_of_text_in_the_target_language_is_one_part(backend: Backend, service: FakeService) -> None:
    given = replace(asked("Eins. Zwei."), source="de")

    async def test() -> list[Any]:
        return [part async for part in backend.stream(client(), ANONYMOUS, given, 3)]

    [part] = asyncio.run(test())
    assert (part.span, part.text, part.translated.source, part.translated.target) == (
        (0, 11),
        given.texts[0],
        "de",
        "de",
    )
    assert part.translated.best[0].text == given.texts[0]
    assert (used(backend), service.requests) == (11 + 3, [])
