"""What earlier versions wrote still loads, translates and resumes: tests/fixtures/make.py says how it was made."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from transduce import Parser, Translator
from transduce.cli.main import main
from transduce.data.prepared import load_prepared
from transduce.data.store import ParallelStore
from transduce.translation.pipeline import TextOptions

pytestmark = pytest.mark.computes

_FIXTURES = Path(__file__).parents[1] / "fixtures"
_VERSIONS = ("0.1.0", "0.2.0")
_since_0_2_0 = pytest.mark.parametrize("folder", _VERSIONS[1:], indirect=True)
# Scores of about 1; float32 sums in another order differ by some 1e-6 a token.
_ROUNDING = 1e-4


@pytest.fixture(scope="module", params=_VERSIONS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a copy of a version's fixtures: engines write their conversions into the model folder."""
    return Path(shutil.copytree(_FIXTURES / request.param, tmp_path_factory.mktemp("older") / request.param))


@pytest.fixture(scope="module")
def expected(folder: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    return values


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
@pytest.mark.parametrize("model", ["model", "model-learned"])
def test_models_translate_as_before(folder: Path, expected: dict[str, Any], model: str, engine: str) -> None:
    before = expected[model]
    translator = Translator.load(folder / model, engine=engine, device="cpu")
    found = [best for [best] in translator.translate_n_best(before["sources"], 1)]
    assert [best.text for best in found] == before["translations"]
    assert [best.score for best in found] == pytest.approx(before["scores"], abs=_ROUNDING)
    assert translator.translate(before["sources"], beam_size=1) == before["greedy"]


@_since_0_2_0
@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_model_of_several_directions_translates_as_before(
    folder: Path, expected: dict[str, Any], engine: str
) -> None:
    before = expected["model-many"]
    texts = TextOptions(target="en", domain="home")
    translator = Translator.load(folder / "model-many", engine=engine, device="cpu")
    assert translator.translate(before["sources"], text_options=texts) == before["translations"]
    assert translator.translate(before["sources"], text_options=texts, beam_size=1) == before["greedy"]


@_since_0_2_0
@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_shortlist_is_used_as_before(folder: Path, expected: dict[str, Any], engine: str) -> None:
    before = expected["model"]
    translator = Translator.load(folder / "model", engine=engine, shortlist="on", device="cpu")
    assert translator.translate(before["sources"]) == before["with a shortlist"]


@_since_0_2_0
def test_confidence_is_as_before(folder: Path, expected: dict[str, Any]) -> None:
    before, texts = expected["model"], TextOptions(confidence=True)
    translator = Translator.load(folder / "model", engine="torch", device="cpu")
    found = [best for [best] in translator.translate_n_best(before["sources"], 1, text_options=texts)]
    assert all(best.calibrated for best in found)
    assert [best.confidence for best in found] == pytest.approx(before["confidence"], abs=_ROUNDING)


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_parser_parses_as_before(folder: Path, expected: dict[str, Any], engine: str) -> None:
    before = expected["parser"]
    trees = Parser.load(folder / "parser", engine=engine, device="cpu", constrained=False).parse(before["sentences"])
    assert [str(tree) for tree in trees] == before["trees"]


def test_a_prepared_folder_opens(folder: Path) -> None:
    prepared = load_prepared(folder / "prepared")
    assert len(ParallelStore.open(prepared.train)) == 887
    assert prepared.validation is not None
    assert len(ParallelStore.open(prepared.validation)) == 30


def test_a_run_resumes_as_before(folder: Path, expected: dict[str, Any]) -> None:
    run, before = folder / "run", expected["resumed"]
    assert main(["train", str(folder / "recipe.toml"), "--output", str(run), "--resume", "--quiet"]) == 0
    logged = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    losses = {str(line["step"]): line["loss"] for line in logged if "loss" in line and line["step"] > 280}
    assert losses == pytest.approx(before["losses"], rel=1e-3)  # 40 updates carry rounding on
    metrics = json.loads((run / "model" / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["steps"] == before["step"]
    assert metrics["validation_perplexity"] == pytest.approx(before["validation_perplexity"], rel=1e-3)
    translator = Translator.load(run / "model", engine="torch", device="cpu")
    assert translator.translate(before["sources"]) == before["translations"]


def test_a_run_starts_from_a_prepared_folder(folder: Path) -> None:
    arguments = ["train", str(folder / "recipe.toml"), "--data", str(folder / "prepared"), "--quiet"]
    steps = ["--set", "train.max_steps=2"]
    assert main([*arguments, "--output", str(folder / "from-prepared"), *steps]) == 0
    assert (folder / "from-prepared" / "model" / "model.safetensors").is_file()
