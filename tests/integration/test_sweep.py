"""`transduce sweep` over a small run: every point decoded once, with the weights and the search that it names."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transduce.bundle import Bundle
from transduce.cli.main import main as command_line
from transduce.config import load_recipe
from transduce.evaluation.bleu import bleu
from transduce.experiments.sweep.results import Measured, Point, SweepResults
from transduce.runs import average_run, train
from transduce.training.outcome import End
from transduce.translation.translator import Translator

pytestmark = pytest.mark.computes

RECIPE = """
name = "small"

[model]
num_encoder_layers = 1
num_decoder_layers = 1
d_model = 32
d_ff = 32
num_heads = 2
d_k = 16
d_v = 16
dropout = 0.0
norm = "pre"

[text]
vocab_size = 300

[data]
folder = "."
target_language = "de"
train = [["train.en", "train.de"]]

[train]
source_batch_tokens = 300
target_batch_tokens = 300
warmup_steps = 50
max_steps = 150
device = "cpu"
precision = "fp32"
checkpoint_minutes = 0.0
checkpoint_steps = 50
keep_checkpoints = 3
average_last = 2
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    generator = np.random.default_rng(1)
    words = ["red", "blue", "dog", "man", "runs", "sits", "on", "a", "the", "hill"]
    for split, count in (("train", 200), ("dev", 10)):
        lines = [" ".join(generator.choice(words, int(generator.integers(3, 7)))) for _ in range(count)]
        (folder / f"{split}.en").write_text("\n".join(lines) + "\n")
        (folder / f"{split}.de").write_text("\n".join(lines) + "\n")
    (folder / "recipe.toml").write_text(RECIPE)
    return folder


@pytest.fixture(scope="module")
def run(corpus: Path) -> Path:
    assert train(load_recipe(corpus / "recipe.toml"), corpus / "run", show_progress=False).end == End.MAX_STEPS
    return corpus / "run"


def command(subject: Path, corpus: Path, output: Path, *more: str) -> list[str]:
    texts = ["--source", str(corpus / "dev.en"), "--reference", str(corpus / "dev.de")]
    return ["sweep", str(subject), *texts, "--output", str(output), "--device", "cpu", *more]


def points(output: Path) -> dict[Point, Measured]:
    return {one.point: one for one in SweepResults.load(output / "results.json").measured}


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_each_point_is_the_search_and_the_weights_that_it_names(run: Path, corpus: Path, tmp_path: Path) -> None:
    more = ("--average", "1,3", "--beam-size", "1,3", "--length-penalty", "0,1", "--quiet")
    assert command_line(command(run, corpus, tmp_path / "out", *more)) == 0
    found = points(tmp_path / "out")
    assert len(found) == 8
    for count in (1, 3):
        model = tmp_path / f"model{count}"
        average_run(run, model, last=count, show_progress=False)
        translator = Translator.load(model, engine="torch", device="cpu")
        for beam_size, penalty in ((1, 0.0), (3, 0.0), (3, 1.0)):
            lines = translator.translate(lines_of(corpus / "dev.en"), beam_size=beam_size, length_penalty=penalty)
            expected = bleu(lines, [lines_of(corpus / "dev.de")])
            one = found[Point(count, beam_size, penalty)]
            assert one.score == pytest.approx(expected.value)
            assert one.length_ratio == pytest.approx(expected.length_ratio)
    assert found[Point(1, 1, 0.0)].score == found[Point(1, 1, 1.0)].score
    assert len({one.score for one in found.values()}) > 2  # the points do differ
    page = (tmp_path / "out" / "table.md").read_text()
    assert sum(line.startswith(("| 1 |", "| 3 |")) for line in page.splitlines()) == 8
    assert "tok:13a" in page


def test_what_is_known_is_not_decoded_again(
    run: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[tuple[int, float]] = []
    translate = Translator.translate

    def noted(self: Translator, lines: list[str], **options: Any) -> list[str]:
        decoded.append((options["beam_size"], options["length_penalty"]))
        return translate(self, lines, **options)

    monkeypatch.setattr(Translator, "translate", noted)
    first = command(run, corpus, tmp_path / "out", "--beam-size", "1,2", "--length-penalty", "0,0.6", "--quiet")
    assert command_line(first) == 0
    assert decoded == [(1, 0.0), (2, 0.0), (2, 0.6)]  # greedy search knows no penalty
    before = points(tmp_path / "out")
    assert {point.average for point in before} == {2}  # as many as the recipe averages
    assert command_line(first) == 0
    assert len(decoded) == 3
    more = command(run, corpus, tmp_path / "out", "--beam-size", "2,4", "--length-penalty", "0.6", "--quiet")
    assert command_line(more) == 0
    assert decoded[3:] == [(4, 0.6)]
    assert {point: one for point, one in points(tmp_path / "out").items() if point in before} == before


def test_weights_that_have_changed_are_decoded_again(run: Path, corpus: Path, tmp_path: Path) -> None:
    arguments = command(run, corpus, tmp_path / "out", "--average", "1", "--beam-size", "2", "--quiet")
    assert command_line(arguments) == 0
    results = tmp_path / "out" / "results.json"
    right = points(tmp_path / "out")
    values = json.loads(results.read_text())
    for one in values["measured"]:
        one |= {"weights": "others", "score": 99.0}
    results.write_text(json.dumps(values))
    assert command_line(arguments) == 0
    assert {p: one.score for p, one in points(tmp_path / "out").items()} == {p: one.score for p, one in right.items()}


def test_a_model_folder_is_taken_as_it_is(run: Path, corpus: Path, tmp_path: Path) -> None:
    arguments = command(run / "model", corpus, tmp_path / "out", "--beam-size", "2", "--length-penalty", "0.6")
    assert command_line([*arguments, "--metric", "chrf", "--quiet"]) == 0
    (one,) = points(tmp_path / "out").values()
    assert one.point == Point(0, 2, 0.6)
    assert one.weights == Bundle.load(run / "model").checksums["model.safetensors"]
    assert one.length_ratio is None


def test_scores_that_do_not_compare_stand_in_no_table(
    run: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ("--beam-size", "1", "--length-penalty", "0", "--quiet")
    assert command_line(command(run, corpus, tmp_path / "out", *small)) == 0
    before = (tmp_path / "out" / "results.json").read_bytes()
    assert command_line(command(run, corpus, tmp_path / "out", *small, "--lowercase")) == 2
    assert "lowercase was False, now True" in capsys.readouterr().err
    assert command_line(command(run / "model", corpus, tmp_path / "out", *small)) == 2
    assert "holds scores of other settings: subject was" in capsys.readouterr().err
    assert (tmp_path / "out" / "results.json").read_bytes() == before


def test_points_of_weights_that_are_no_more_leave_the_table(
    run: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ("--beam-size", "1", "--length-penalty", "0")
    assert command_line(command(run, corpus, tmp_path / "out", "--average", "1,2", *small)) == 0
    results = tmp_path / "out" / "results.json"
    values = json.loads(results.read_text())
    (of_one, of_two) = values["measured"]
    of_one |= {"weights": "others", "score": 99.0}
    of_nine = json.loads(json.dumps(of_one))
    of_nine["point"]["average"] = 9  # of a time when the run had as many checkpoints
    values["measured"] += [of_nine]
    results.write_text(json.dumps(values))
    capsys.readouterr()
    assert command_line(command(run, corpus, tmp_path / "out", "--average", "2", *small)) == 0
    output, messages = capsys.readouterr()
    assert "2 points were decoded with weights that" in messages
    assert "99.00" not in output
    (left,) = points(tmp_path / "out").values()
    assert (left.point.average, left.score) == (2, of_two["score"])


def test_the_papers_bleu_is_of_one_language(
    run: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ("--beam-size", "1", "--length-penalty", "0", "--quiet")
    papers = command(run, corpus, tmp_path / "out", *small, "--metric", "bleu-paper")
    results = tmp_path / "out" / "results.json"
    assert command_line(papers) == 0  # the recipe's target language
    assert SweepResults.load(results).comparability.language == "de"
    assert command_line([*papers, "--target-language", "de"]) == 0
    values = json.loads(results.read_text())
    del values["comparability"]["language"]
    for text in (
        results.read_text(),
        json.dumps(values),
    ):  # and of a version that did not note it
        results.write_text(text)
        assert command_line([*papers, "--target-language", "en"]) == 2
        assert "language was 'de', now 'en'" in capsys.readouterr().err
    assert command_line(papers) == 0
    assert SweepResults.load(results).comparability.language == "de"
    plain = command(run, corpus, tmp_path / "plain", *small)
    assert command_line([*plain, "--target-language", "en"]) == 0
    assert command_line([*plain, "--target-language", "de"]) == 0  # sacreBLEU does not depend on it


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["--average", "9"], 4, "has 3 checkpoints, 9 are to be averaged"),
        (["--average", "0"], 2, "--average 0: must be a whole number from 1 to"),
        (["--beam-size", "1,two"], 2, "--beam-size two: must be a whole number from 1 to"),
        (["--beam-size", "0"], 2, "--beam-size 0"),
        (["--length-penalty=-1"], 2, "--length-penalty -1: must be a number from 0 to 10"),
        (["--metric", "blue"], 3, "unknown metric 'blue'"),
        (["--metric", "bleu-intl", "--tokenized"], 3, "bleu-intl tokenises by itself"),
    ],
)
def test_bad_arguments_are_named(
    run: Path,
    corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    code: int,
    message: str,
) -> None:
    assert command_line(command(run, corpus, tmp_path / "out", "--quiet", *more)) == code
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "results.json").exists()


def test_what_is_neither_run_nor_model_is_named(
    run: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line(command(tmp_path, corpus, tmp_path / "out", "--quiet")) == 4
    assert "not a model folder" in capsys.readouterr().err
    assert command_line(command(run / "model", corpus, tmp_path / "out", "--average", "2", "--quiet")) == 2
    assert "not a run folder" in capsys.readouterr().err


def test_source_and_reference_must_be_aligned(
    run: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "short.de").write_text("one\n")
    arguments = ["sweep", str(run), "--source", str(corpus / "dev.en"), "--reference", str(tmp_path / "short.de")]
    assert command_line([*arguments, "--output", str(tmp_path / "out")]) == 3
    assert "has 10 lines" in capsys.readouterr().err
