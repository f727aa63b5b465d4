"""The main job from the command line on real language: corpus → model → translations → scores."""

import json
import random
from pathlib import Path

import pytest

from transduce import Translator
from transduce.cli.main import main
from transduce.data.demo_corpus import make_demo_corpus

pytestmark = [pytest.mark.computes, pytest.mark.slow]

TIE = 1e-4  # scores closer than this may fall either way: float32 sums in another order

RECIPE = """
preset = "demo"

[model]
d_model = 64
d_ff = 128
num_heads = 4

[text]
vocab_size = 600

[data]
source_language = "en"
target_language = "de"
folder = "corpus"
train = [["train.en", "train.de"]]
validation = ["validation.en", "validation.de"]

[train]
max_steps = 400
cooldown_steps = 0
average_last = 5
warmup_steps = 100
checkpoint_steps = 25
validate_steps = 400
validate_bleu_sentences = 50
device = "cpu"
precision = "fp32"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few hundred steps: long enough to have learned, too short to be sure of itself."""
    folder = tmp_path_factory.mktemp("job")
    make_demo_corpus(folder / "corpus", num_train=6000, num_validation=100, num_test=200)
    (folder / "recipe.toml").write_text(RECIPE)
    assert main(["train", str(folder / "recipe.toml"), "--output", str(folder / "run"), "--quiet"]) == 0
    return folder


def test_training_leaves_an_average_that_has_learned(folder: Path) -> None:
    assert main(["average", str(folder / "run"), "--last", "4", "--output", str(folder / "model")]) == 0
    metrics = json.loads((folder / "model" / "metrics.json").read_text())
    assert metrics["averaged_steps"] == "325, 350, 375, 400"
    assert metrics["validation_perplexity"] < 12  # of 600 pieces; nothing learned would be near 600


def test_translate_and_evaluate_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, output, reference = folder / "corpus/test.en", folder / "test.out", folder / "corpus/test.de"
    model = str(folder / "run/model")
    assert main(["translate", model, "--source", str(source), "--output", str(output)]) == 0
    assert output.read_text().count("\n") == 200
    assert main(["evaluate", "--hypothesis", str(output), "--reference", str(reference), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert scores["bleu"]["value"] > 8
    assert main(["evaluate", "--model", model, "--source", str(source), "--reference", str(reference), "--json"]) == 0
    assert 1 < json.loads(capsys.readouterr().out)["perplexity"] < 20


def test_a_translation_does_not_depend_on_its_neighbours(folder: Path) -> None:
    lines = (folder / "corpus/test.en").read_text().splitlines()
    translator = Translator.load(folder / "run/model", device="cpu")

    def best(order: list[int], batch_size: int) -> dict[int, tuple[str, float]]:
        options = translator.with_options(batch_size=batch_size)
        results = translator.stream([lines[index] for index in order], options=options)
        return {index: (found[0].text, found[0].score) for index, found in zip(order, results, strict=True)}

    in_order = list(range(len(lines)))
    shuffled = random.Random(1).sample(in_order, len(in_order))
    alone = best(in_order, 1)
    num_ties = 0
    for order, batch_size in ((in_order, 7), (in_order, 64), (shuffled, 64)):
        for index, (text, score) in best(order, batch_size).items():
            assert score == pytest.approx(alone[index][1], abs=TIE), lines[index]
            num_ties += text != alone[index][0]
    assert num_ties <= 3, "so many equal scores are no coincidence"
