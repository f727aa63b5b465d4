"""`transduce demo`, with a training of seconds."""

from pathlib import Path

import pytest

from transduce.cli.main import main
from transduce.config import apply_settings, preset
from transduce.errors import TrainingError
from transduce.experiments.demo import DemoResult, run_demo
from transduce.translation.translator import Translator

SHORT = [
    "train.max_steps=8",
    "train.cooldown_steps=0",
    "train.validate_steps=8",
    "train.validate_bleu_sentences=2",
    "decode.max_extra_tokens=5",
]
SMALL = [
    *("model.num_encoder_layers=1", "model.num_decoder_layers=1", "model.d_model=16", "model.d_ff=32"),
    *("model.num_heads=2", "model.d_k=8", "model.d_v=8"),
]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> DemoResult:
    folder = tmp_path_factory.mktemp("demo") / "demo"
    config = apply_settings(preset("demo"), SHORT)
    return run_demo(config, folder, num_train=2000, num_test=12, show_progress=False, show=lambda line: None)


@pytest.mark.computes
def test_both_engines_translate_the_held_out_lines(result: DemoResult) -> None:
    ours = Translator.load(result.model, engine="torch").translate(result.sources)
    assert result.translated.lines == ours
    assert len(result.translated_int8.lines) == len(result.translated.references) == 12


def test_exact_match_counts_equal_lines(result: DemoResult) -> None:
    references = result.translated.references
    some = type(result.translated)([*references[:9], "", "", ""], references, 1.0)
    assert some.exact_match == 0.75
    assert some.bleu.value < 100


def test_the_page_shows_the_example(result: DemoResult) -> None:
    assert result.example[0].startswith("The train to Berlin")
    assert "Berlin" in result.page.read_text(encoding="utf-8")


def test_another_demo_is_replaced_only_when_told(result: DemoResult) -> None:
    with pytest.raises(TrainingError, match="--overwrite"):
        run_demo(preset("demo"), result.model.parent, show_progress=False, show=lambda line: None)


@pytest.mark.slow
def test_the_command_ends_with_three_ways_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "demo"
    settings = [argument for each in SHORT + SMALL for argument in ("--set", each)]
    assert (
        main(["demo", "--quiet", "--languages", "en", "fr", "--pairs", "1500", "--output", str(output), *settings]) == 0
    )
    last = capsys.readouterr().out.splitlines()[-4:]
    assert "| transduce translate" in last[0]
    assert str(output / "attention.html") in last[2]
    assert "in int8" in last[3]
    assert "1,000 lines" in last[3]
