"""The core of the service with real models: answers under load, models that come and go, what ends early."""

import asyncio
import re
import shutil
import weakref
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_models import untied_folder
from running_service import Events, config_of, request_of, run, running, until
from transduce import Translator
from transduce.errors import BundleError, ConfigError, DataError
from transduce.serve import service as service_module
from transduce.serve import whole_texts
from transduce.serve.calls import Ticket
from transduce.serve.config import BatchingConfig, ModelEntry, PivotConfig, ServeConfig
from transduce.serve.long_requests import LongRequests
from transduce.serve.requests import (
    DeadlineError,
    ModelUnavailableError,
    OverloadedError,
    StoppingError,
    TranslationRequest,
    UnknownPairError,
)
from transduce.serve.scheduler import Scheduler
from transduce.serve.service import Service
from transduce.translation.pipeline import TextOptions
from transduce.translation.result import Translation

pytestmark = pytest.mark.computes

TEXT = (
    "A dog runs over the green grass. Two dogs run.",
    "a man with a ball",
    "Two dogs run over the green grass! A man runs. The ball, green.",
    "",
    "The green man with two green balls runs over a dog, and the dog runs over the grass with a ball.",
)


@pytest.fixture(autouse=True)
def short_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a service look at its model folders ten times a second: tests wait for that."""
    monkeypatch.setattr(service_module, "_WATCH_SECONDS", 0.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untied_folder(tmp_path_factory.mktemp("model") / "first")


@pytest.fixture(scope="module")
def other_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untied_folder(tmp_path_factory.mktemp("other") / "second", seed=7)


MIXED: list[dict[str, Any]] = [
    {},
    {"options": {"beam_size": 2}},
    {"options": {"beam_size": 1}, "text_options": TextOptions()},
    {"n_best": 3},
    {"text_options": TextOptions(confidence=True, split="always")},
    {"forbidden": ["dog"]},
    {"glossary": {"dog": "Hund"}, "text_options": TextOptions(split="always")},
    {"options": {"temperature": 0.8, "seed": 5}, "text_options": TextOptions()},
    {"options": {"length_penalty": 0.0, "max_extra_tokens": 20}},
    {"prefixes": ["A", "", "", "", "T"], "text_options": TextOptions()},
    {"text_options": TextOptions(markup="html")},
    {"text_options": TextOptions(alignment=True, split="always")},
]


def offline(translator: Translator, case: dict[str, Any], texts: tuple[str, ...]) -> list[Any]:
    case = dict(case)
    options, n_best = case.pop("options", {}), case.pop("n_best", 1)
    case.setdefault("text_options", ServeConfig().text)
    return translator.translate_n_best(texts, n_best, **case, **options)


@pytest.mark.parametrize("further", [(), (" ".join(TEXT) * 2,), TEXT], ids=["short", "long", "many"])
def test_answers_under_load_are_those_of_the_translator(
    folder: Path, further: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few short texts go through the pipeline with those of others, long ones and many ones sentence by sentence."""
    monkeypatch.setattr(whole_texts, "_MAX_TEXTS", 8)
    monkeypatch.setattr(whole_texts, "_MAX_CHARACTERS", 400)
    translator = Translator.load(folder)
    texts = (*TEXT, "<b>A dog</b> runs.", *further)
    expected = [offline(translator, fitting(case, len(texts)), texts) for case in MIXED]

    async def test() -> None:
        async with running(
            config_of(folder, batching=BatchingConfig(deadline_seconds=600, max_wait_seconds=600))
        ) as service:

            async def ask(number: int) -> None:
                case = MIXED[number % len(MIXED)]
                request = TranslationRequest(texts=texts, source="a", target="b", **fitting(case, len(texts)))
                found = await service.translate(request)
                require_same([each.best for each in found], expected[number % len(MIXED)], str(case))

            await asyncio.gather(*(ask(number) for number in range(2 * len(MIXED))))

    run(test)


def require_same(found: list[list[Translation]], expected: list[list[Translation]], case: str) -> None:
    """Compares all but the last digits of scores, which float32 rounds differently in batches of another shape."""
    assert [list(map(without_scores, each)) for each in found] == [
        list(map(without_scores, each)) for each in expected
    ], case
    for one, other in zip(flat(found), flat(expected), strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-3), case
        assert one.confidence == pytest.approx(other.confidence, abs=1e-4), case


def flat(found: list[list[Translation]]) -> list[Translation]:
    return [each for best in found for each in best]


def without_scores(each: Translation) -> Translation:
    words = tuple((word, 0.0) for word, _ in each.words)
    confidence = None if each.confidence is None else 0.0
    return replace(each, score=0.0, log_probability=0.0, confidence=confidence, words=words, token_log_probabilities=())


def fitting(case: dict[str, Any], num_texts: int) -> dict[str, Any]:
    prefixes = case.get("prefixes")
    return case if prefixes is None else case | {"prefixes": [*prefixes, *[""] * (num_texts - len(prefixes))]}


def test_what_is_streamed_is_the_translation(folder: Path) -> None:
    text = "  A dog runs. Two dogs run over the green grass.\n\nA man with a ball! The dog runs. Green. A ball. \n"
    expected = Translator.load(folder).translate([text], text_options=TextOptions(split="always", guard=True))

    async def test() -> None:
        async with running(config_of(folder)) as service:
            parts = [part async for part in service.stream(request_of(text))]
            assert len(parts) == 6
            assert [text[slice(*part.span)] for part in parts][:2] == [
                "A dog runs.",
                "Two dogs run over the green grass.",
            ]
            assert ["".join(part.text for part in parts)] == expected
            with pytest.raises(ConfigError, match="2"):
                await anext(service.stream(request_of("A dog.", "A man.")))

    run(test)


def test_how_long_texts_take_is_known_once_some_were_translated(folder: Path) -> None:
    async def test() -> None:
        async with running(config_of(folder)) as service:
            await service.translate(request_of(*TEXT))
            short = service.expected_seconds("a", "b", ["A dog runs."])
            assert 0 < short < service.expected_seconds("a", "b", ["A dog runs."] * 100)
            with pytest.raises(UnknownPairError):
                service.expected_seconds("b", "a", ["A dog runs."])

    run(test)


def test_a_long_list_is_admitted_by_the_tokens_that_it_has(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    admitted, seen = LongRequests.admitted, []

    def noted(requests: LongRequests, ticket: Ticket, num_tokens: int, schedulers: Sequence[Scheduler]) -> Any:
        seen.append((ticket, num_tokens))
        return admitted(requests, ticket, num_tokens, schedulers)

    monkeypatch.setattr(LongRequests, "admitted", noted)

    async def test() -> None:
        async with running(config_of(folder)) as service:
            await service.translate(request_of(*["Two dogs run over the grass.", "A man sees a ball."] * 200))
        [(ticket, num_tokens)] = seen
        assert ticket.served_tokens / 1.2 < num_tokens < ticket.served_tokens * 1.2

    run(test)


def test_more_translations_than_the_beam_is_wide_need_a_wider_beam(folder: Path) -> None:
    translator = Translator.load(folder)
    wide = translator.options.beam_size + 2
    expected = translator.translate_n_best(["A dog runs."], wide, beam_size=wide)

    async def test() -> None:
        async with running(config_of(folder)) as service:
            [found] = await service.translate(request_of("A dog runs.", n_best=wide, text_options=TextOptions()))
            assert len(found.best) > translator.options.beam_size
            require_same([found.best], expected, "n_best")
            with pytest.raises(ConfigError, match="at most the beam size"):
                await service.translate(request_of("A dog runs.", n_best=wide, options={"beam_size": 2}))

    run(test)


def test_alternatives_at_a_word_are_those_of_the_translator(folder: Path, other_folder: Path) -> None:
    translator = Translator.load(folder)
    [written] = translator.translate(["A dog runs."])
    prefix = written[: len(written) // 2]
    expected = translator.alternatives("A dog runs.", prefix, 4)

    async def test() -> None:
        async with running(config_of(folder, other_folder, pivot=PivotConfig(language="b"))) as service:
            found = await service.alternatives(request_of("A dog runs.", prefixes=[prefix]), 4)
            assert [each.word for each in found] == [each.word for each in expected]
            for one, other in zip(found, expected, strict=True):
                assert one.probability == pytest.approx(other.probability, abs=1e-4)
                require_same([[one.translation]], [[other.translation]], "alternatives")
            rare = await service.alternatives(request_of("A\u2009dog\u00a0runs.", prefixes=[prefix]), 4)
            assert [each.word for each in rare] == [each.word for each in expected]
            with pytest.raises(ConfigError, match="101"):
                await service.alternatives(request_of("A dog runs."), 101)
            with pytest.raises(ConfigError, match="two models"):
                await service.alternatives(request_of("A dog runs.", target="c"), 4)

    run(test)


def test_attention_is_that_of_the_translator_where_the_engine_tells_it(folder: Path, other_folder: Path) -> None:
    expected = Translator.load(folder, engine="torch").attend("A dog runs.", "A dog.")
    entries = config_of(folder, other_folder, pivot=PivotConfig(language="b"))
    config = replace(entries, models=(replace(entries.models[0], engine="torch"), entries.models[1]))

    async def test() -> None:
        async with running(config) as service:
            found = await service.attention(request_of("A dog runs."), "A dog.")
            assert found.target_pieces == expected.target_pieces
            np.testing.assert_allclose(found.cross, expected.cross, atol=1e-5)
            assert (await service.attention(request_of("A dog runs."), None)).target
            rare = await service.attention(request_of("A\u2009dog\u00a0runs."), "A dog.")
            assert rare.source_pieces == expected.source_pieces
            with pytest.raises(DataError, match="at most 256"):
                await service.attention(request_of("A dog runs. " * 200), None)
            with pytest.raises(ConfigError, match="two models"):
                await service.attention(request_of("A dog runs.", target="c"), None)
            second = TranslationRequest(texts=["A dog runs."], source="b", target="c")
            with pytest.raises(ConfigError, match="does not return attention weights"):
                await service.attention(second, None)

    run(test)


def test_a_pivot_translates_twice_and_says_so(folder: Path, other_folder: Path) -> None:
    options = TextOptions(split="always", guard=True)
    between = Translator.load(folder).translate(TEXT, text_options=options)
    expected = Translator.load(other_folder).translate(between, text_options=options)

    async def test() -> None:
        config = config_of(folder, other_folder, pivot=PivotConfig(language="b"))
        async with running(config) as service:
            assert [(pair.source, pair.target, pair.via) for pair in service.pairs()] == [
                ("a", "b", ""),
                ("a", "c", "b"),
                ("b", "c", ""),
            ]
            found = await service.translate(request_of(*TEXT, target="c"))
            assert [each.best[0].text for each in found] == expected
            assert {each.via for each in found} == {"b"}
            assert all("'b'" in each.best[0].warnings[-1] for each in found)
            with pytest.raises(ConfigError, match="glossary"):
                await service.translate(request_of("A dog.", target="c", glossary={"dog": "Hund"}))
            with pytest.raises(UnknownPairError, match="'c'"):
                await service.translate(TranslationRequest(texts=["A dog."], source="c", target="a"))

    run(test)


def test_prefixes_and_required_terms_do_not_contradict_what_is_configured(folder: Path) -> None:
    """Texts are split and guarded by default, and a prefix goes with neither."""

    async def test() -> None:
        async with running(config_of(folder)) as service:
            [found] = await service.translate(request_of("A dog runs.", prefixes=["Ein"]))
            assert found.best[0].text.startswith("Ein")
            with_markup = request_of("A dog.", prefixes=["Ein"], text_options=TextOptions(markup="html"))
            with pytest.raises(ConfigError, match="markup"):
                await service.translate(with_markup)
            with pytest.raises(DataError):
                await service.translate(request_of("A dog.", forbidden=[" "]))

    run(test)


def test_a_changed_folder_is_loaded_and_a_damaged_one_is_not(folder: Path, other_folder: Path, tmp_path: Path) -> None:
    served = tmp_path / "served"
    shutil.copytree(folder, served)
    first, second = (Translator.load(each).translate([TEXT[1]]) for each in (folder, other_folder))
    assert first != second
    events = Events()

    async def translation(service: Service) -> list[str]:
        return [each.best[0].text for each in await service.translate(request_of(TEXT[1]))]

    async def test() -> None:
        async with running(config_of(served), events) as service:
            assert await translation(service) == first
            weights = served / "model.safetensors"
            whole = weights.read_bytes()
            weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
            await until(lambda: "served failed" in events.events)
            for _ in range(3):
                await asyncio.to_thread(service._models.maintain)
            assert events.events.count("served failed") == 1, "it is tried once for each change"
            assert await translation(service) == first
            for name in ("config.json", "model.safetensors", "tokenizer.json"):
                shutil.copy(other_folder / name, served / name)
            while "served reloaded" not in events.events:  # no request fails meanwhile
                assert await translation(service) in (first, second)
            assert await translation(service) == second
            [message] = await service.reload()
            assert message == "served: reloaded"

    run(test)


def test_a_new_shortlist_is_noticed(folder: Path, tmp_path: Path) -> None:
    served, events = tmp_path / "served", Events()
    shutil.copytree(folder, served)

    async def test() -> None:
        async with running(config_of(served), events):
            for content in ("first", "second, longer"):
                events.events.clear()
                (served / "shortlist.safetensors").write_text(content)
                await until(lambda: "served reloaded" in events.events)

    run(test)


def test_an_idle_model_is_unloaded_and_loaded_again_once_for_all(folder: Path) -> None:
    events = Events()
    config = config_of(folder)
    config = replace(config, models=(replace(config.models[0], unload_after_seconds=0.2),))

    async def test() -> None:
        async with running(config, events) as service:
            model = weakref.ref(service._models.slots[0].loaded)
            await until(lambda: events.events == ["first loaded", "first unloaded"])
            assert service.slots[0].loaded is None
            await until(lambda: model() is None)  # its memory is free
            found = await asyncio.gather(*(service.translate(request_of(TEXT[1])) for _ in range(8)))
            assert len({each.best[0].text for (each,) in found}) == 1
            assert events.events == ["first loaded", "first unloaded", "first loaded"]

    run(test)


def test_a_folder_that_is_damaged_at_the_start_is_an_error_that_names_it(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "damaged")
    (tmp_path / "damaged" / "tokenizer.json").write_text("{}", encoding="utf-8")

    with pytest.raises(BundleError, match="damaged"):
        Service(config_of(tmp_path / "damaged"))
    with pytest.raises(ConfigError, match="languages"):
        Service(ServeConfig(models=(ModelEntry(path=str(folder)),)))
    with pytest.raises(ConfigError, match="both translate"):
        Service(config_of(folder, folder, languages="ab ab"))


def test_stopping_answers_what_was_accepted_and_nothing_else(folder: Path) -> None:
    async def test() -> None:
        service = Service(config_of(folder))
        with pytest.raises(StoppingError, match="starting"):
            await service.translate(request_of("A dog."))
        await service.start()
        texts = [" ".join(TEXT)] * 20
        accepted = [asyncio.create_task(service.translate(request_of(*texts))) for _ in range(8)]
        await asyncio.sleep(0.05)
        stopping = asyncio.create_task(service.stop())
        await asyncio.sleep(0)
        with pytest.raises(StoppingError):
            await service.translate(request_of("A dog."))
        await stopping
        assert all(task.done() and len(task.result()) == len(texts) for task in accepted)

    run(test)


def test_work_that_cannot_be_done_is_refused_or_given_up(folder: Path) -> None:
    """A slow request is given up at its deadline, or once nobody waits; a full service refuses more."""
    slow = request_of(*[" ".join(TEXT)] * 200, options={"beam_size": 8})
    config = config_of(folder, batching=BatchingConfig(max_requests=2, max_waiting_sentences=1000))

    async def test() -> None:
        async with running(config) as service:
            with pytest.raises(DeadlineError):
                await service.translate(replace(slow, timeout_seconds=0.05))
            assert not any(service._num_accepted.values())
            tasks = [asyncio.create_task(service.translate(slow)) for _ in range(2)]
            await asyncio.sleep(0.1)
            with pytest.raises(OverloadedError) as refused:
                await service.translate(request_of("A dog."))
            assert refused.value.retry_after_seconds >= 1
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            assert all(task.cancelled() for task in tasks)
            assert not any(each.num_waiting for slot in service.slots for each in slot.schedulers)
            assert await service.translate(request_of("A dog."))

    run(test)


def test_an_unread_stream_is_given_up(folder: Path) -> None:
    events = Events()

    async def test() -> None:
        async with running(config_of(folder), events) as service:
            parts = service.stream(request_of("A dog runs. " * 500))
            await anext(parts)
            await asyncio.sleep(0.2)
            assert events.num_sentences <= 3, "no more is read ahead"
            await parts.aclose()  # type: ignore[attr-defined]
            assert not any(service._num_accepted.values())
            assert await service.translate(request_of("A dog."))

    run(test)


def test_reloading_again_and_again_under_load_loses_nothing(other_folder: Path) -> None:
    """Requests whose phrases are forbidden search several times; their model stays until they are done."""
    translator = Translator.load(other_folder)
    texts = [TEXT[1], TEXT[4]]
    words = [word for found in translator.translate(texts) for word in re.findall("[a-zA-Z]+", found)]
    expected = translator.translate(texts, forbidden=words)
    events = Events()

    async def test() -> None:
        async with running(config_of(other_folder), events) as service:
            reloading = True

            async def ask(forbidden: list[str]) -> None:
                request = request_of(*texts, text_options=TextOptions(), forbidden=forbidden)
                while reloading:
                    found = await service.translate(request)
                    assert not forbidden or [each.best[0].text for each in found] == expected

            asking = [asyncio.create_task(ask(words if number % 2 else [])) for number in range(8)]
            for _ in range(8):
                await service.reload()
                await asyncio.to_thread(service._models.maintain)
            reloading = False
            await asyncio.gather(*asking)
            assert events.events.count("second reloaded") == 8

    run(test)


def test_a_model_that_cannot_be_loaded_again_is_not_tried_by_each_request(folder: Path, tmp_path: Path) -> None:
    served = tmp_path / "served"
    shutil.copytree(folder, served)
    events = Events()
    config = config_of(served)
    config = replace(config, models=(replace(config.models[0], unload_after_seconds=0.2),))

    async def test() -> None:
        async with running(config, events) as service:
            await until(lambda: "served unloaded" in events.events)
            (served / "tokenizer.json").unlink()
            for _ in range(3):
                with pytest.raises(ModelUnavailableError) as found:
                    await service.translate(request_of(TEXT[1]))
                assert found.value.retry_after_seconds > 0
            assert events.events.count("served failed") == 1

    run(test)
