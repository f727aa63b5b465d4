"""`transduce serve --models`: a folder with models of Transduce, a package of another system, and a broken one."""

import json
import logging
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from argos_packages import argos_archive, argos_folder
from ctranslate2_folders import LINES, marian_folder
from made_models import TEXT, made_bundle
from running_service import run, running
from served_process import Serving, serving
from transduce.bundle import save_bundle
from transduce.config import DataConfig
from transduce.export import export_model
from transduce.export.imports import import_model
from transduce.serve.config import FolderConfig, ModelEntry, ServeConfig
from transduce.serve.requests import ModelUnavailableError, TranslationRequest
from transduce.translation.translator import Translator

pytestmark = pytest.mark.computes


def make(folder: Path, seed: int) -> Path:
    """Writes a model between the languages of its name, such as "en-de"."""
    source, target = folder.name.split("-")
    made = made_bundle(
        folder.with_name(f"plain-{seed}"), seed=seed, ending=0.4, tie_embeddings="none", layer_norm_epsilon=1e-5
    )
    config = replace(made.config, name="", data=DataConfig(source_language=source, target_language=target))
    save_bundle(folder, config, made.weights(), made.tokenizer, {})
    shutil.rmtree(made.path)
    return folder


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("originals")
    for seed, name in enumerate(("en-de", "de-en", "en-fr", "en-it"), 1):
        make(folder / name, seed)
    export_model(folder / "en-de", folder / "package", "huggingface", sample=2)
    return folder


@pytest.fixture
def folder(tmp_path: Path, originals: Path) -> Path:
    """Directly in it a model and two packages, one of them cut off; one level down another model."""
    all_models = tmp_path / "all"
    shutil.copytree(originals / "de-en", all_models / "de-en")
    shutil.copytree(originals / "en-fr", all_models / "more" / "en-fr")
    for name in ("opus-en-de", "broken"):
        shutil.copytree(originals / "package", all_models / name)
    weights = all_models / "broken" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    return all_models


@contextmanager
def served(folder: Path, python: Path, *arguments: str) -> Iterator[Serving]:
    config = folder.parent / "serve.toml"
    config.write_text(f"[state]\nurl = {json.dumps(str(folder.parent / 'serve.db'))}\n", encoding="utf-8")
    with serving(config, "--models", str(folder), *arguments, python=python) as service:
        yield service


def targets(service: Serving) -> dict[str, list[str]]:
    return {each["code"]: each["targets"] for each in service.ask("/languages").json}


def translated(service: Serving, source: str, target: str) -> str:
    answer = service.ask("/translate", {"q": TEXT[0], "source": source, "target": target})
    assert answer.status == 200, answer.body
    return str(answer.json["translatedText"])


def expected(originals: Path, *names: str) -> str:
    """Returns what the models give one after the other, each in a translator of its own."""
    text = TEXT[0]
    for name in names:
        [text] = Translator.load(originals / name, threads=1).translate([text], text_options=ServeConfig().text)
    return text


def loaded(service: Serving) -> set[str]:
    """Returns the models in memory."""
    lines = service.ask("/metrics").body.decode().splitlines()
    prefix = 'transduce_model_loaded{model="'
    return {
        line.removeprefix(prefix).partition('"')[0] for line in lines if line.startswith(prefix) and line[-3:] == "1.0"
    }


def test_a_folder_is_served_searched_again_and_found_again(folder: Path, originals: Path, warm_python: Path) -> None:
    with served(folder, warm_python, "--max-loaded", "1") as service:
        assert loaded(service) == set()
        assert service.ask("/ready").status == 200
        assert targets(service) == {"de": ["de", "en", "fr"], "en": ["de", "en", "fr"], "fr": ["fr"]}
        assert translated(service, "en", "de") == expected(originals, "en-de")
        assert loaded(service) == {"opus-en-de"}
        over_english = translated(service, "de", "fr")
        assert over_english == expected(originals, "de-en", "en-fr")
        assert over_english not in (expected(originals, "de-en"), expected(originals, "en-fr"))
        assert loaded(service) == {"en-fr"}
        assert [line for line in service.events if "broken" in line][1:] == [
            next(line for line in service.events if "left out: " in line)
        ]

        shutil.copytree(originals / "en-it", folder / "en-it")
        shutil.rmtree(folder / "more")
        service.process.send_signal(signal.SIGHUP)
        service.wait_until(lambda: any("not served any more" in line for line in service.events))
        assert "transduce: reload: en-it: served from now on" in service.events
        assert "transduce: reload: en-fr: not served any more" in service.events
        service.wait_until(
            lambda: targets(service) == {"de": ["de", "en", "it"], "en": ["de", "en", "it"], "it": ["it"]}
        )
        assert translated(service, "de", "it") == expected(originals, "de-en", "en-it")
        assert service.ask("/translate", {"q": "x", "source": "de", "target": "fr"}).status == 400
        assert service.stop() == 0
        begun = [line for line in service.events if "importing" in line]
        assert [line.partition(" into ")[0] for line in begun] == [
            f"transduce: importing {folder / 'broken'} (1 of 2)",
            f"transduce: importing {folder / 'opus-en-de'} (2 of 2)",
            f"transduce: importing {folder / 'broken'} (1 of 1)",
        ]
    with served(folder, warm_python) as service:
        assert translated(service, "en", "de") == expected(originals, "en-de")
        assert not any("opus-en-de" in line for line in service.events), "the import was found"


def test_a_folder_without_a_model_ends_the_start_in_one_line(folder: Path) -> None:
    for name in ("de-en", "more", "opus-en-de"):
        shutil.rmtree(folder / name)
    started = Serving(["--models", str(folder), "--state", "memory"])
    assert started.wait() == 2
    begun, left_out, ended = started.events
    assert "importing" in begun
    assert left_out.startswith(f"transduce: warning: left out: {folder / 'broken' / 'model.safetensors'}: ")
    assert f"{folder}: holds no model that can be served" in ended
    assert [path.name for path in (folder / ".transduce").iterdir()] == [".lock"]
    started.process.stderr.close()  # type: ignore[union-attr]


def test_a_removed_model_is_not_loaded_again_and_its_requests_are_answered(tmp_path: Path, originals: Path) -> None:
    folder = tmp_path / "all"
    for name in ("en-de", "de-en"):
        shutil.copytree(originals / name, folder / name)

    async def test() -> None:
        config = ServeConfig(folder=FolderConfig(path=str(folder), threads=1))
        async with running(config) as service:
            request = TranslationRequest(texts=[TEXT[0]], source="en", target="de")
            [answer] = await service.translate(request)
            [slot] = service._models.route("en", "de")
            model = slot.acquire_loaded()
            assert model is not None
            shutil.rmtree(folder / "en-de")
            assert "en-de: not served any more" in await service.reload()
            service._models.maintain()
            assert not model.scheduler._closed
            slot.release(model)
            service._models.maintain()
            assert model.scheduler._closed
            assert slot not in service.slots
            with pytest.raises(ModelUnavailableError, match="'en-de' is not served any more"):
                slot.ensure_loaded()
            assert answer.best[0].text == expected(originals, "en-de")

    run(test)


def test_packages_of_argos_and_folders_of_ctranslate2_are_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One does not say its languages: without them it is left out."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "all"
    folder.mkdir()
    argos_archive(folder / "translate-en_de-1_9.argosmodel", argos_folder(tmp_path / "en-de"))
    argos_folder(folder / "translate-de_en-1_9", from_code="de", to_code="en")
    marian_folder(folder / "opus")
    names = ["opus", "translate-de_en-1_9", "translate-en_de-1_9.argosmodel"]
    text = LINES[0]
    for name in ("translate-de_en-1_9", "opus"):
        import_model(folder / name, tmp_path / "imports" / name, compare=False)
        translator = Translator.load(tmp_path / "imports" / name, threads=1)
        [text] = translator.translate([text], text_options=ServeConfig().text)

    async def test() -> None:
        without = ServeConfig(folder=FolderConfig(path=str(folder), threads=1))
        async with running(without) as service:
            assert {(pair.source, pair.target) for pair in service.pairs()} == {("de", "en"), ("en", "de")}
            [line] = [line for line in caplog.messages if "left out" in line]
            assert line.startswith(f"left out: {folder / 'opus'}: {tmp_path / 'cache' / 'transduce' / 'imports'}")
            assert "Set source and target in the [[models]] of that path" in line
        entry = ModelEntry(path=str(folder / "opus"), source="en", target="fr", threads=1)
        async with running(replace(without, models=(entry,))) as service:
            assert {(pair.source, pair.target): pair.via for pair in service.pairs()} == {
                ("de", "en"): "",
                ("de", "fr"): "en",
                ("en", "de"): "",
                ("en", "fr"): "",
            }
            assert [slot.name for slot in service.slots if slot.loaded] == ["opus"]
            [found] = await service.translate(TranslationRequest(texts=[LINES[0]], source="de", target="fr"))
            assert found.best[0].text == text

    with caplog.at_level(logging.INFO):
        run(test)
    begun = [line.partition(" into ")[0] for line in caplog.messages if line.startswith("importing ")]
    assert begun == [f"importing {folder / name} ({number} of 3)" for number, name in enumerate(names, 1)]
