"""Every way of decoding by `transduce translate` and `Translator`, and `transduce score`, on tiny random models."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from command_files import command, translated, write
from made_models import untied_folder
from transduce.cli import main as command_line
from transduce.config import DecodeConfig
from transduce.errors import ConfigError, DataError
from transduce.files import sha256
from transduce.translation.constraints.line_constraints import Constraints
from transduce.translation.translator import Translator

pytestmark = pytest.mark.computes

LINES = ["A dog runs.", "", "Two dogs run over the green grass to a man with a ball.", "grass", "a man", "A dog runs."]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of `a` and `b`, which share a vocabulary, and `c`, which has another."""
    folder = tmp_path_factory.mktemp("models")
    untied_folder(folder / "a", seed=3)
    untied_folder(folder / "b", seed=4)
    untied_folder(folder / "c", seed=5, text=["Ein Hund rennt.", "das grüne Gras"])
    return folder


@pytest.fixture
def translator(models: Path) -> Translator:
    return Translator.load(models / "a", device="cpu")


@pytest.fixture(autouse=True)
def only_these_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_line, "COMMANDS", ("translate", "score"))


# --- translate --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        ("--beam-size", "4", "--diversity-groups", "2", "--n-best", "4", "--scores"),
        ("--temperature", "1", "--n-best", "6", "--scores"),
        ("--temperature", "0.7", "--top-k", "30", "--top-p", "0.9", "--seed", "5"),
        ("--coverage-penalty", "0.3", "--scores"),
        ("--min-tokens", "4", "--max-tokens", "8", "--no-repeat-ngram", "2"),
    ],
    ids=" ".join,
)
def test_batch_size_changes_nothing(models: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    assert translated(models / "a", tmp_path, LINES, *options) != translated(
        models / "a", tmp_path, LINES, *options[-1:] * ("--scores" in options)
    )
    alone = translated(models / "a", tmp_path, LINES, *options, "--batch-size", "1")
    together = translated(models / "a", tmp_path, LINES, *options, "--batch-size", "32")
    if "--scores" in options:  # rounding may differ in their last digit
        alone, together = ([row.rpartition("\t")[0] for row in rows] for rows in (alone, together))
    assert alone == together


def test_draws_follow_seed_and_line(models: Path, tmp_path: Path) -> None:
    first = translated(models / "a", tmp_path, LINES, "--temperature", "1")
    assert first[0] == first[5]  # equal lines
    assert first == translated(models / "a", tmp_path, LINES, "--temperature", "1")
    assert first != translated(models / "a", tmp_path, LINES, "--temperature", "1", "--seed", "2")
    rows = [row.split("\t") for row in translated(models / "a", tmp_path, LINES, "--temperature", "1", "--n-best", "9")]
    assert next(text for number, text in rows if number == "1") == first[0]
    assert sum(number == "1" for number, _ in rows) == 9  # more than the beam size


def test_prefixes_come_out_to_the_letter(models: Path, tmp_path: Path) -> None:
    prefixes = ["Two do", "ignored", "", "gr", "A dog ", "(é"]
    output = translated(models / "a", tmp_path, LINES, "--prefix", write(tmp_path / "begun.txt", prefixes))
    plain = translated(models / "a", tmp_path, LINES)
    for index, (prefix, text) in enumerate(zip(prefixes, output, strict=True)):
        if index == 1:
            assert text == ""  # an empty line stays empty
        else:
            assert text.startswith(prefix)
    assert output[2] == plain[2]


@pytest.mark.parametrize(("lines", "message"), [(["a"], "fewer lines"), (["a"] * 7, "more lines")])
@pytest.mark.parametrize("option", ["--prefix", "--forbid-by-line"])
def test_a_file_beside_the_input_has_its_length(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, lines: list[str], message: str
) -> None:
    source, beside, output = (
        write(tmp_path / "in", LINES),
        write(tmp_path / "beside", lines),
        tmp_path / "out",
    )
    assert command("translate", models / "a", "--source", source, "--output", output, option, beside) == 3
    assert f"{beside}: has {message} than the input" in capsys.readouterr().err
    assert not output.exists()


def test_forbidden_phrases_do_not_come_out(models: Path, tmp_path: Path) -> None:
    plain = translated(models / "a", tmp_path, LINES)
    phrases = [word for text in plain for word in re.findall(r"[A-Za-z]+", text)]
    assert len(phrases) >= 4
    output = translated(models / "a", tmp_path, LINES, "--forbid", write(tmp_path / "never", phrases))
    assert all(set(re.findall(r"\w+", text)).isdisjoint(phrases) for text in output)
    here = ["", "", "", re.findall(r"[A-Za-z]+", plain[3])[0], "", ""]
    by_line = translated(models / "a", tmp_path, LINES, "--forbid-by-line", write(tmp_path / "here", here))
    assert here[3] not in re.findall(r"\w+", by_line[3])
    assert by_line[:3] + by_line[4:] == plain[:3] + plain[4:]  # without a prefix nothing changes


def test_standard_input_serves_once(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("translate", models / "a", "--prefix", "-") == 2
    assert "standard input ('-') can be only one of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--top-k", "5"), "--top-k 5: must be 0 where decode.temperature is 0"),
        (("--temperature", "1", "--coverage-penalty", "1"), "--coverage-penalty 1.0: must be 0 where"),
        (("--diversity-penalty", "0.3"), "--diversity-penalty acts between groups of beams: add --diversity-groups 2"),
        (("--diversity-groups", "3"), "--diversity-groups 3: must be a divisor of decode.beam_size (4)"),
        (("--min-tokens", "9", "--max-tokens", "8"), "--min-tokens 9: must be at most decode.max_tokens (8)"),
        (("--n-best", "5"), "n-best = 5: must be at least 1 and at most the beam size, 4"),
        (("--beam-size", "1", "--coverage-penalty", "1"), "--coverage-penalty 1.0: must be 0 where"),
    ],
)
def test_contradicting_options_are_refused(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], message: str
) -> None:
    assert command("translate", models / "a", "--source", write(tmp_path / "in", LINES), *options) == 2
    assert message in capsys.readouterr().err


def test_ensembles(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = translated(models / "a", tmp_path, LINES)
    assert translated(models / "a", tmp_path, LINES, "--ensemble", models / "a") == plain
    both = translated(models / "a", tmp_path, LINES, "--ensemble", models / "b")
    assert both != plain
    assert both == Translator.load(models / "b", ensemble=[models / "a"], device="cpu").translate(LINES)
    source = write(tmp_path / "in", LINES)
    assert command("translate", models / "a", "--ensemble", models / "b", models / "c", "--source", source) == 4
    message = capsys.readouterr().err
    assert f"{models / 'c'}: its tokenizer is not that of {models / 'a'}" in message


# --- Translator -------------------------------------------------------------------------------------------


def test_options_are_keywords_and_a_misspelt_one_is_refused(translator: Translator) -> None:
    wrong: Any = {"temprature": 1.0}
    with pytest.raises(ConfigError, match=r"unknown key 'decode.temprature'. Did you mean 'temperature'\?"):
        translator.translate(LINES, **wrong)
    wrong = {"temperature": "hot"}
    with pytest.raises(ConfigError, match=r"decode\.temperature = 'hot': must be a number"):
        translator.translate(LINES, **wrong)
    assert translator.with_options(temperature=None, min_tokens=3) == DecodeConfig(
        max_extra_tokens=5, batch_size=4, min_tokens=3
    )


def test_each_of_an_n_best_list_keeps_the_constraints(translator: Translator) -> None:
    found = translator.translate_n_best(LINES, 4, prefixes=["A d"] * 6, forbidden=["dog"], min_tokens=3)
    for line, translations in zip(LINES, found, strict=True):
        for each in translations if line else []:
            assert each.text.startswith("A d")
            assert "dog" not in each.text.split()
            assert not each.finished or len(each.tokens) >= 3


def test_a_stream_reads_constraints_alongside(translator: Translator) -> None:
    constraints = [Constraints(prefix="A"), Constraints(), Constraints(forbidden=("x",))] * 2
    streamed = [best.text for [best] in translator.stream(iter(LINES), window=2, constraints=iter(constraints))]
    assert streamed == translator.translate(LINES, prefixes=["A", "", ""] * 2, forbidden=[[], [], ["x"]] * 2)
    with pytest.raises(DataError, match="constraints up to line 3 only"):
        list(translator.stream(LINES, window=2, constraints=constraints[:3]))
    wrong = [*constraints[:4], Constraints(prefix="dog", forbidden=("dog",)), Constraints()]
    with pytest.raises(DataError, match="line 5: the prefix 'dog' holds"):
        list(translator.stream(LINES, window=2, constraints=wrong))


# --- score ------------------------------------------------------------------------------------------------


def test_a_target_that_is_too_long_is_looked_for_in_its_file(
    models: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.engines.ctranslate2.max_positions", lambda config: 100)
    source = write(tmp_path / "source", ["A dog."] * 1030)
    target = write(tmp_path / "target", ["A dog."] * 1027 + ["dog " * 200] + ["A dog."] * 2)
    arguments = ("--source", source, "--target", target, "--engine", "ctranslate2")
    assert command("score", models / "a", *arguments) == DataError.exit_code
    assert "target, from line 1,025 on: target 4 has " in capsys.readouterr().err


def test_score_line_by_line(models: Path, translator: Translator, tmp_path: Path, capsys: Any) -> None:
    targets = ["Two dogs run.", "", "a ball", "gr", "", "Two dogs run."]
    source, target = write(tmp_path / "s", LINES), write(tmp_path / "t", targets)
    assert command("score", models / "a", "--source", source, "--target", target) == 0
    printed = capsys.readouterr()
    rows = [[float(value) for value in row.split("\t")] for row in printed.out.splitlines()]
    scores = translator.score(LINES, targets)
    assert len(rows) == len(LINES)
    for (perplexity, score, log_probability), each in zip(rows, scores, strict=True):
        assert log_probability == pytest.approx(sum(each.log_probabilities), abs=1e-4)
        assert perplexity == pytest.approx(math.exp(-log_probability / len(each.pieces)), rel=1e-4)
        assert score == pytest.approx(log_probability / ((5 + len(each.pieces)) / 6) ** 0.6, abs=1e-4)
        assert each.pieces[-1] == "</s>"
    assert scores[0] == pytest.approx(scores[5])
    assert f"6 lines, {sum(len(each.pieces) for each in scores)} pieces" in printed.err
    [other] = translator.score(LINES[:1], targets[:1], length_penalty=0.0)
    assert other.score == pytest.approx(other.log_probability)


def test_score_piece_by_piece_and_as_json(models: Path, tmp_path: Path, capsys: Any) -> None:
    files = (
        "--source",
        write(tmp_path / "s", LINES[:2]),
        "--target",
        write(tmp_path / "t", ["Two dogs run.", "a"]),
    )
    output = tmp_path / "out"
    assert command("score", models / "a", *files, "--json", "--output", output) == 0
    assert command("score", models / "a", *files, "--tokens") == 0
    rows = [row.split("\t") for row in capsys.readouterr().out.splitlines()]
    objects = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    assert [values["line"] for values in objects] == [1, 2]
    for values in objects:
        mine = [row for row in rows if row[0] == str(values["line"])]
        assert [piece for _, piece, _ in mine] == values["pieces"]
        assert [float(p) for _, _, p in mine] == pytest.approx(values["log_probabilities"], abs=1e-6)
        assert values["log_probability"] == pytest.approx(sum(values["log_probabilities"]))
    assert "".join(objects[0]["pieces"]) == "▁Two▁dogs▁run.</s>"


def test_a_translation_of_the_search_has_the_score_that_it_said(translator: Translator) -> None:
    sources = [line for line in LINES if line]
    for source, found in zip(sources, translator.translate_n_best(sources, 4), strict=True):
        for each in (each for each in found if each.finished):
            [scored] = translator.score([source], [each.text])
            if scored.pieces[:-1] == each.tokens:  # the tokenizer spells it as the search did
                assert scored.log_probability == pytest.approx(each.log_probability, abs=1e-4)
                assert scored.score == pytest.approx(each.score, abs=1e-4)


def test_a_translation_depends_on_the_files_of_all_models(models: Path) -> None:
    """By these checksums, a job on a file refuses to be resumed with another ensemble."""
    both = Translator.load(models / "a", ensemble=[models / "b"], device="cpu")
    for model, name in (("a", "the model's"), ("b", "the")):
        digest = sha256(models / model / "model.safetensors")
        assert both.checksums[f"{name} model.safetensors" + (" of model 2" if model == "b" else "")] == digest


def test_an_ensemble_scores_by_its_mean(models: Path, tmp_path: Path) -> None:
    one, other = (Translator.load(models / name, device="cpu") for name in "ab")
    both = Translator.load(models / "a", ensemble=[models / "b"], device="cpu")
    a, b, mean = (each.score(LINES[:1], ["a ball"])[0].log_probabilities for each in (one, other, both))
    assert mean == pytest.approx(
        [math.log((math.exp(x) + math.exp(y)) / 2) for x, y in zip(a, b, strict=True)], abs=1e-5
    )


def test_score_wants_a_target_for_each_source(models: Path, tmp_path: Path, capsys: Any) -> None:
    files = "--source", write(tmp_path / "s", LINES), "--target", write(tmp_path / "t", ["a"])
    assert command("score", models / "a", *files) == 3
    assert "has 6 lines" in capsys.readouterr().err
    assert command("score", models / "a", "--source", "-", "--target", "-") == 2
    assert "can be only one of" in capsys.readouterr().err
    translator = Translator.load(models / "a", device="cpu")
    with pytest.raises(DataError, match="2 sources and 1 target"):
        translator.score(["a", "b"], ["c"])
    with pytest.raises(TypeError, match="Give lists of lines"):
        translator.score("ab", ["c", "d"])


def test_score_refuses_files_without_lines(models: Path, tmp_path: Path, capsys: Any) -> None:
    files = "--source", write(tmp_path / "s", []), "--target", write(tmp_path / "t", [])
    assert command("score", models / "a", *files, "--output", tmp_path / "out") == DataError.exit_code
    assert f"{tmp_path / 's'} has no lines: there is nothing to score." in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("score", "MODEL", "--source", "TEXT", "--target", "TEXT", "--output", "MINE"),
        ("translate", "MODEL", "--source", "TEXT", "--output", "MINE"),
        ("parse", "run", "MODEL", "--source", "TEXT", "--output", "MINE"),
        ("parse", "draw", "TREES", "--output", "MINE"),
        ("verify", "MODEL", "--report", "MINE"),
        ("inspect", "MODEL", "--sentence", "A", "--output", "MINE"),
        ("inspect", "MODEL", "--sentence", "A", "--arrays", "MINE"),
        ("inspect", "MODEL", "--sentence", "A", "--pharaoh", "MINE"),
    ],
)
def test_an_output_that_exists_is_not_replaced(
    models: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
) -> None:
    monkeypatch.setattr(command_line, "COMMANDS", ("translate", "score", "parse", "verify", "inspect"))
    mine = write(tmp_path / "mine.json", ["mine"])
    named = {
        "MODEL": models / "a",
        "TEXT": write(tmp_path / "text", LINES),
        "TREES": write(tmp_path / "trees", ["(S (NN dog))"]),
        "MINE": mine,
    }
    assert command(*(named.get(argument, argument) for argument in arguments)) == DataError.exit_code
    option = arguments[-2]
    expected = f"{mine}: exists already. Add --overwrite to replace it, or name another {option}.\n"
    assert capsys.readouterr().err.endswith(expected)
    assert Path(mine).read_text() == "mine\n"
