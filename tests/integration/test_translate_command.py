"""`transduce translate` and `Translator` on a tiny model with random weights: what it says is noise, how is not."""

import dataclasses
import gzip
import io
import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from command_files import translated
from made_models import untied_folder
from transduce.cli import main as command_line
from transduce.engines import loading
from transduce.engines.torch import TorchEngine
from transduce.errors import BundleError, ConfigError, DataError, MissingDependencyError
from transduce.model.transformer import Transformer
from transduce.translation.pipeline import TextOptions
from transduce.translation.pipeline.survival import is_nested, mark_counts
from transduce.translation.translator import Translator

pytestmark = [pytest.mark.computes, pytest.mark.usefixtures("only_translate")]

MAX_POSITIONS = 64
KEPT = TextOptions(markup="placeholders")  # the command's default
LINES = [
    "A dog runs.",
    "",
    "Two dogs run over the green grass to a man with a ball.",
    "   \t ",
    "日本語 😀 \x00 ༀ",
    "odd\u2028separators\u0085and\x0cform\rfeeds",
    "<s> <pad> </s> <unk>",
    "a man " * 100,  # far more than the model reads
    "A dog runs.",
]


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    return untied_folder(folder, positions="learned", max_positions=MAX_POSITIONS)  # so that there is a longest source


@pytest.fixture
def translator(model_folder: Path) -> Translator:
    return Translator.load(model_folder, device="cpu")


# --- the command ------------------------------------------------------------------------------------------


def test_one_line_out_for_each_line_in(
    model_folder: Path, translator: Translator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = translated(model_folder, tmp_path, LINES)
    assert len(output) == len(LINES)
    assert output[1] == output[3] == ""
    assert all(output[i] for i in (0, 2, 4, 5, 6, 7, 8))
    assert output[0] == output[8]
    assert output == translator.translate(LINES, text_options=KEPT)
    said = capsys.readouterr().err
    # Which "auto" took, and no more; the model is hardly trained.
    assert re.fullmatch(r"transduce: engine: .*\n(transduce: warning: .* the translation repeats itself: .*\n)*", said)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.txt.journal.json", "in.txt", "out.txt"]


def test_a_line_that_is_cut_short_is_named(
    model_folder: Path, translator: Translator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = translated(model_folder, tmp_path, LINES, "--split-sentences", "never")
    assert output == translator.translate(LINES, text_options=TextOptions(split="never", markup="placeholders"))
    assert output != translator.translate(LINES, text_options=KEPT)
    warnings = capsys.readouterr().err
    assert "line 8: longer than the 63 tokens" in warnings
    assert len([line for line in warnings.splitlines() if "warning" in line and "repeats itself" not in line]) == 1


def test_batch_size_changes_nothing(model_folder: Path, tmp_path: Path) -> None:
    for beam in ("1", "4"):
        outputs = [
            translated(model_folder, tmp_path, LINES, "--beam-size", beam, "--batch-size", size)
            for size in ("1", "3", "32")
        ]
        assert outputs[0] == outputs[1] == outputs[2]


def test_standard_input_and_output(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    # The last line has no line end, as in `printf`.
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(LINES).encode())))
    assert command_line.main(["translate", str(model_folder)]) == 0
    output = capsysbinary.readouterr().out.decode("utf-8")
    assert output.split("\n")[:-1] == Translator.load(model_folder).translate(LINES, text_options=KEPT)
    print("standard output is still open")


def test_lines_that_are_typed_are_answered_one_by_one(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    answers: list[bytes] = []

    class Typist(io.BytesIO):
        """Types a line, and waits for its translation before the next."""

        def read1(self, size: int | None = -1) -> bytes:
            answers.append(capsysbinary.readouterr().out)
            return self.readline()

    stdin = io.TextIOWrapper(Typist(b"A\nTwo dogs\n\nA dog runs.\n"))
    monkeypatch.setattr(stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stdin", stdin)
    assert command_line.main(["translate", str(model_folder)]) == 0
    expected = Translator.load(model_folder).translate(["A", "Two dogs", "", "A dog runs."])
    assert b"".join(answers).decode().split("\n")[:-1] == expected
    assert [answer.count(b"\n") for answer in answers] == [0, 1, 1, 1, 1]


def test_n_best_with_scores(model_folder: Path, translator: Translator, tmp_path: Path) -> None:
    rows = [row.split("\t") for row in translated(model_folder, tmp_path, LINES, "--n-best", "3", "--scores")]
    assert all(len(row) == 3 for row in rows)
    numbers = [int(row[0]) for row in rows]
    assert sorted(numbers) == numbers
    assert set(numbers) == set(range(1, len(LINES) + 1))
    by_line = {number: [row for row in rows if int(row[0]) == number] for number in numbers}
    assert by_line[2] == [["2", "", "0.000000"]]
    assert len(by_line[1]) == 3
    for line in by_line.values():
        scores = [float(row[2]) for row in line]
        assert scores == sorted(scores, reverse=True)
    best = [line[0][1] for line in by_line.values()]
    assert best == [text.replace("\t", " ") for text in translator.translate(LINES, text_options=KEPT)]


def test_scores_alone(model_folder: Path, tmp_path: Path) -> None:
    rows = [row.split("\t") for row in translated(model_folder, tmp_path, LINES, "--scores")]
    assert len(rows) == len(LINES)
    assert all(len(row) == 2 and float(row[1]) <= 0 for row in rows)


def test_compressed_input(model_folder: Path, translator: Translator, tmp_path: Path) -> None:
    source, output = tmp_path / "in.gz", tmp_path / "out"
    source.write_bytes(gzip.compress(b"A dog runs.\nTwo dogs\n"))
    assert command_line.main(["translate", str(model_folder), "--source", str(source), "--output", str(output)]) == 0
    expected = translator.translate(["A dog runs.", "Two dogs"])
    assert output.read_text(encoding="utf-8").split("\n")[:-1] == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--n-best", "5"], "n-best = 5"),
        (["--beam-size", "0"], "--beam-size 0"),
        (["--length-penalty", "-1"], "--length-penalty -1:"),
        (["--device", "quantum"], "device 'quantum'"),
        (["--threads", "0"], "--threads 0"),
    ],
)
def test_bad_options_are_one_line_and_leave_no_output(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    source = tmp_path / "in.txt"
    source.write_text("A dog runs.\n")
    output = tmp_path / "out.txt"
    arguments = ["--source", str(source), "--output", str(output), *options]
    assert command_line.main(["translate", str(model_folder), *arguments]) == ConfigError.exit_code
    errors = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("transduce: engine: ")]
    [error] = errors
    assert message in error
    assert error.startswith("transduce: error: ")
    assert list(tmp_path.iterdir()) == [source]


def test_an_output_never_replaces_what_is_read(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, link = tmp_path / "text", tmp_path / "link"
    text.write_text("A dog runs.\n", encoding="utf-8")
    link.symlink_to(text)
    model = str(model_folder)
    for arguments in (
        ["translate", model, "--source", str(text), "--output", str(text)],
        ["translate", model, "--source", str(text), "--output", str(link)],
        ["translate", model, "--source", "-", "--prefix", str(text), "--output", str(text)],
    ):
        assert command_line.main(arguments) == DataError.exit_code
        assert "is an input of this command, and would be overwritten" in capsys.readouterr().err
        assert text.read_text(encoding="utf-8") == "A dog runs.\n"


def test_help_needs_no_torch() -> None:
    program = (
        "import sys; from transduce.cli import main; main.COMMANDS = ('translate',)\n"
        "try: main.main(['translate', '--help'])\n"
        "except SystemExit: assert not {'torch', 'tokenizers'} & sys.modules.keys(), 'imported'"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "examples:" in done.stdout


def run_on(model: Path, source: Path, output: Path, *options: str) -> int:
    return command_line.main(["translate", str(model), "--source", str(source), "--output", str(output), *options])


def test_json_lines_and_columns(model_folder: Path, translator: Translator, tmp_path: Path) -> None:
    first, second = translator.translate(["A dog runs.", "Two dogs"])
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text('{"id": 1, "en": "A dog runs."}\n\n{"id": 2, "en": "Two dogs"}\n', encoding="utf-8")
    assert run_on(model_folder, source, output, "--field", "en", "--into", "de", "--scores", "--n-best", "2") == 0
    rows = [json.loads(row) if row else None for row in output.read_bytes().decode().split("\n")[:-1]]
    assert rows[1] is None
    assert [row and row["de"] for row in rows] == [first, None, second]
    assert all(len(row["de_n_best"]) == 2 and row["de_score"] == row["de_n_best"][0]["score"] for row in rows if row)
    table, columns = tmp_path / "in.tsv", tmp_path / "out.tsv"
    table.write_text("1\tA dog runs.\n2\tTwo dogs\n", encoding="utf-8")
    assert run_on(model_folder, table, columns, "--column", "2") == 0
    assert columns.read_bytes().decode() == f"1\tA dog runs.\t{first}\n2\tTwo dogs\t{second}\n"
    assert run_on(model_folder, table, columns, "--column", "2", "--replace", "--overwrite") == 0
    assert columns.read_bytes().decode() == f"1\t{first}\n2\t{second}\n"


def test_alignments_are_fields_of_json_lines(model_folder: Path, translator: Translator, tmp_path: Path) -> None:
    text = "<p>A <b>dog</b> runs.</p><p>Two dogs</p>"
    [[best]] = translator.translate_n_best([text], 1, text_options=TextOptions(markup="html", alignment=True))
    assert len(best.sentences) == 2
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(json.dumps({"text": text}) + "\n", encoding="utf-8")
    assert run_on(model_folder, source, output, "--field", "text", "--alignment", "--markup", "html") == 0
    row = json.loads(output.read_text(encoding="utf-8"))
    assert row["translation"] == best.text
    for name, pairs in (("alignment", best.alignment), ("sentences", best.sentences)):
        assert row[f"translation_{name}"] == [[[*source], [*target]] for source, target in pairs]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--field", "a", "--column", "1"], "give one of them"),
        (["--into", "a"], "--into names a field"),
        (["--replace"], "--column N as well"),
        (["--column", "1", "--n-best", "2"], "Use JSON lines"),
        (["--column", "0"], "--column 0: must be a whole number from 1"),
        (["--field", "a", "--into", "a"], "cannot go into the field"),
        (["--alignment"], "'transduce inspect --pharaoh FILE'"),
        (["--alignment", "--column", "1"], "word alignments are fields of JSON lines: give --field NAME"),
    ],
)
def test_contradicting_layouts_are_refused(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    source = tmp_path / "in.txt"
    source.write_text("A dog\n")
    assert run_on(model_folder, source, tmp_path / "out", *options) == ConfigError.exit_code
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [source]


def test_resume_on_the_command_line(model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    window = 4 * 32  # 32 batches
    good = [json.dumps({"text": "A dog runs." if n % 2 else "Two dogs"}) for n in range(window + 5)]
    source.write_text("\n".join([*good[:window], "broken"]) + "\n")
    options = ["--field", "text", "--beam-size", "1", "--resume"]
    assert run_on(model_folder, source, output, *options) == DataError.exit_code
    errors = capsys.readouterr().err
    assert f"in.jsonl, line {window + 1}, column 1: not JSON" in errors
    assert f"{window} lines are done and kept. Add --resume to continue." in errors
    source.write_text("\n".join(good) + "\n")
    assert run_on(model_folder, source, output, *options, "--max-extra-tokens", "3") == ConfigError.exit_code
    assert "was begun with max_extra_tokens = 5, and now max_extra_tokens = 3" in capsys.readouterr().err
    assert run_on(model_folder, source, output, *options) == 0
    assert f"resumed after {window} lines done before; {window + 5} in all" in capsys.readouterr().err
    whole = tmp_path / "whole.jsonl"
    assert run_on(model_folder, source, whole, *options[:4]) == 0
    assert output.read_bytes() == whole.read_bytes()
    assert (
        command_line.main(["translate", str(model_folder), "--source", str(source), "--resume"])
        == ConfigError.exit_code
    )


def test_what_is_finished_is_finished(model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, output = tmp_path / "in", tmp_path / "out"
    source.write_text("A dog runs.\n")
    assert run_on(model_folder, source, output, "--beam-size", "1") == 0
    before = output.read_bytes(), output.stat().st_mtime_ns
    assert run_on(model_folder, source, output, "--beam-size", "1", "--resume") == 0
    assert f"transduce: {output}: finished already, by the same command; 1 line.\n" in capsys.readouterr().err
    assert run_on(model_folder, source, output, "--beam-size", "2", "--resume") == ConfigError.exit_code
    assert f"{output}: was made with beam_size = 1, and now beam_size = 2" in capsys.readouterr().err
    assert run_on(Path("no model"), source, output, "--beam-size", "1") == DataError.exit_code  # before it is loaded
    assert f"{output}: exists already. Add --overwrite" in capsys.readouterr().err
    assert run_on(model_folder, source, output, "--resume", "--overwrite") == ConfigError.exit_code
    source.write_text("Two dogs.\n")
    assert run_on(model_folder, source, output, "--beam-size", "1", "--resume") == DataError.exit_code
    assert "was made from another input" in capsys.readouterr().err
    assert (output.read_bytes(), output.stat().st_mtime_ns) == before
    assert run_on(model_folder, source, output, "--beam-size", "1", "--overwrite") == 0


def test_a_closed_output_and_a_reader_that_goes_away_are_no_success(model_folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.write_text("A dog runs.\n" * 2000)
    command = f"{sys.executable} -m transduce translate {model_folder} --beam-size 1 --source {source} --window 20"
    closed = subprocess.run(f"{command} >&-", shell=True, capture_output=True, text=True, check=False)
    assert closed.returncode == 1
    assert "standard output is closed" in closed.stderr
    assert "Traceback" not in closed.stderr
    pipe = f"({command}; echo $? >&2) | head -1"
    read = subprocess.run(pipe, shell=True, capture_output=True, text=True, check=False)
    assert read.stderr.endswith("\n141\n")
    assert "Traceback" not in read.stderr
    assert read.stdout.count("\n") == 1


def test_a_window_of_one_answers_each_line_at_once(model_folder: Path) -> None:
    arguments = [sys.executable, "-m", "transduce", "translate", str(model_folder), "--beam-size", "1", "--window"]
    with subprocess.Popen([*arguments, "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in ("A dog runs.", "Two dogs."):
            process.stdin.write(line + "\n")
            process.stdin.flush()
            assert process.stdout.readline().endswith("\n")  # while the input is open
        process.stdin.close()
        assert process.stdout.read() == ""
    assert process.returncode == 0
    assert command_line.main(["translate", str(model_folder), "--window", "0"]) == ConfigError.exit_code


def test_markup_guard_and_confidence(model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    lines = ["<p>A <b>dog</b> runs to {name}.</p>", "", "Two dogs &amp; a man<br>with a ball: https://a.de/?b=1&amp;c"]
    source.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    options = ["--markup", "html", "--guard", "--confidence", "--split-sentences", "always", "--beam-size", "1"]
    assert run_on(model_folder, source, output, *options) == 0
    assert "this model is not calibrated" in capsys.readouterr().err
    rows = [row.split("\t") for row in output.read_bytes().decode().split("\n")[:-1]]
    assert [len(row) for row in rows] == [2, 2, 2]
    assert rows[1] == ["", ""]
    for row, line in zip(rows, lines, strict=True):
        assert mark_counts(row[0], "html") == mark_counts(line, "html")
        assert is_nested(row[0], "html")
    assert all(0 < float(row[1]) <= 1 for row in (rows[0], rows[2]))


def test_words_that_tags_cut_come_back_from_the_command(model_folder: Path, tmp_path: Path) -> None:
    words = ["m<sup>2</sup>", "CO<sub>2</sub>", "nas<span>@</span>debian<span>.</span>org", "<sup>1</sup>"]
    line = "<b>A</b> dog{3} runs on 20 {0}, with {1}, to {2}.".format(*words)
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text(line + "\n", encoding="utf-8")
    assert run_on(model_folder, source, output, "--markup", "html") == 0
    translation = output.read_text(encoding="utf-8").rstrip("\n")
    assert translation != line
    assert [translation.count(word) for word in words] == [1, 1, 1, 1]


def test_calibrate(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_line, "COMMANDS", ("translate", "calibrate"))
    model = tmp_path / "model"
    shutil.copytree(model_folder, model)
    sources = [f"A dog runs {n}." for n in range(60)]
    outputs = Translator.load(model).translate(sources, beam_size=1)
    references = [output if n % 3 else "nothing alike" for n, output in enumerate(outputs)]
    files = []
    for name, lines in (("source", sources), ("reference", references)):
        (tmp_path / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="\n")
        files += [f"--{name}", str(tmp_path / name)]
    tests = ["--test-source", files[1], "--test-reference", files[3]]
    assert command_line.main(["calibrate", str(model), *files, *tests, "--beam-size", "1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["lines"] == report["test"]["lines"] == 60
    assert report["share_good"] == pytest.approx(2 / 3)
    [[best]] = Translator.load(model).translate_n_best(["A dog runs."], 1, text_options=TextOptions(confidence=True))
    assert best.calibrated
    assert 0 < (best.confidence or 0) < 1
    assert command_line.main(["calibrate", str(model), *files, "--test-source", files[1]]) == ConfigError.exit_code
    assert "belong together" in capsys.readouterr().err
    before = (model / "confidence.json").read_bytes()
    assert command_line.main(["calibrate", str(model), *files]) == DataError.exit_code
    assert f"{model / 'confidence.json'}: exists already. Add --overwrite to replace it." in capsys.readouterr().err
    assert (model / "confidence.json").read_bytes() == before
    files.append("--overwrite")
    (tmp_path / "blank").write_text("\n" * 60)
    (tmp_path / "short").write_text("A dog.\n")
    for source, reason in (
        ("blank", "no pair of lines with text"),
        ("short", "short has 1 line"),
        ("none", "no such"),
    ):
        wrong = ["--test-source", str(tmp_path / source), "--test-reference", files[3]]
        assert command_line.main(["calibrate", str(model), *files, *wrong]) == DataError.exit_code
        assert reason in capsys.readouterr().err
    (tmp_path / "good").write_text("".join(f"{output}\n" for output in outputs), encoding="utf-8", newline="\n")
    all_good = ["--beam-size", "1", *tests[:2], "--test-reference", str(tmp_path / "good")]
    assert command_line.main(["calibrate", str(model), *files, *all_good]) == 0
    assert "AUC unknown (unknown)" in capsys.readouterr().out
    assert command_line.main(["calibrate", str(model), *files, *all_good, "--json"]) == 0
    assert '"auc": null' in capsys.readouterr().out
    quantized = ["--engine", "torch", "--quantization", "int16"]  # which that engine has not
    assert command_line.main(["calibrate", str(model), *files, *quantized]) == ConfigError.exit_code
    assert "int16" in capsys.readouterr().err
    assert command_line.main(["calibrate", str(model), *files, "--beam-size", "1"]) == 0
    assert "60 lines; good (chrF at least 60): 66.7 %" in capsys.readouterr().out
    for damaged in ("{", '{"format": 1, "sha256": {}, "calibration": {}}'):  # what is there is not looked at
        (model / "confidence.json").write_text(damaged)
        assert command_line.main(["calibrate", str(model), *files, "--beam-size", "1"]) == 0
    assert Translator.load(model).translate(["A dog."], text_options=TextOptions(confidence=True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--threshold", "nan"], "--threshold nan: chrF goes from 0 to 100"),
        (["--threshold", "200"], "--threshold 200: chrF goes from 0 to 100"),
        (["--beam-size", "0"], "--beam-size 0: must be a whole number from 1 to 1,024."),
        (["--length-penalty", "nan"], "--length-penalty nan: must be a number from 0 to 10."),
        (["--threads", "0"], "--threads 0: must be a whole number from 1 to 1,024."),
        (["--threshold", "0"], "all of the 60 translations have a chrF of 0 or more, and a fit needs good and bad"),
    ],
)
def test_errors_name_the_option_as_it_was_typed(
    options: list[str],
    message: str,
    model_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "lines").write_text("A dog runs.\n" * 60, encoding="utf-8")
    files = ["--source", str(tmp_path / "lines"), "--reference", str(tmp_path / "lines")]
    monkeypatch.setattr(command_line, "COMMANDS", ("calibrate",))
    assert command_line.main(["calibrate", str(model_folder), *files, "--beam-size", "1", *options]) in (2, 3)
    assert message in capsys.readouterr().err


def test_too_few_lines_are_refused_before_a_model_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lines").write_text("A dog runs.\n" * 9, encoding="utf-8")
    files = ["--source", str(tmp_path / "lines"), "--reference", str(tmp_path / "lines")]
    monkeypatch.setattr(command_line, "COMMANDS", ("calibrate",))
    assert command_line.main(["calibrate", str(tmp_path / "no-model"), *files]) == DataError.exit_code
    assert "9 lines with text: a calibration needs at least 50" in capsys.readouterr().err


# --- the Python face --------------------------------------------------------------------------------------


def test_the_best_of_several_is_the_translation(translator: Translator) -> None:
    several = translator.translate_n_best(LINES, 4)
    assert [found[0].text for found in several] == translator.translate(LINES)
    assert [found[0].num_parts > 1 for found in several] == [i == 7 for i in range(len(LINES))]
    assert not any(found[0].source_truncated for found in several)
    short = translator.translate_n_best(LINES, 4, text_options=TextOptions(split="never"))
    assert [found[0].source_truncated for found in short] == [i == 7 for i in range(len(LINES))]
    for found in several:
        assert all("\n" not in t.text for t in found)
        assert [t.score for t in found] == sorted((t.score for t in found), reverse=True)
        assert len({t.tokens for t in found}) == len(found)


def test_a_stream_is_the_list(translator: Translator) -> None:
    expected = translator.translate_n_best(LINES, 2)
    for window in (1, 2, 100):
        found = list(translator.stream(iter(LINES), n_best=2, window=window))
        assert [[t.text for t in line] for line in found] == [[t.text for t in line] for line in expected]
        assert [line[0].score for line in found] == pytest.approx([line[0].score for line in expected])


def test_a_stream_reads_no_more_than_its_window(translator: Translator) -> None:
    taken = 0

    def lines() -> Any:
        nonlocal taken
        while True:
            taken += 1
            yield "A dog"

    stream = translator.stream(lines(), window=3)
    for _ in range(4):
        next(stream)
    assert taken == 6


def test_line_breaks_in_a_translation_become_spaces(translator: Translator) -> None:
    newline_ids = translator.tokenizer.encode("A\ndog")

    class Repeats:
        name, max_source_tokens, independent_lines = "fake", 100, True

        def translate(self, sources: Any, options: Any, n_best: int = 1) -> Any:
            from transduce.decoding.scores import Hypothesis

            return [[Hypothesis(newline_ids, 0.0, 0.0, True)] for _ in sources]

    fake = Translator(Repeats(), translator.tokenizer, translator.options)
    assert fake.translate(["x", "y"]) == ["A dog", "A dog"]


def test_options_of_a_call(translator: Translator) -> None:
    short = translator.translate_n_best(["A dog runs."], 1, beam_size=1, max_extra_tokens=0)[0][0]
    assert len(short.tokens) <= len(translator.tokenizer.encode("A dog runs."))
    assert translator.translate([]) == []
    with pytest.raises(ConfigError, match="n-best = 0"):
        translator.translate_n_best(["A dog"], 0)
    with pytest.raises(ConfigError, match=r"engine 'torc'\. Did you mean 'torch'\?"):
        Translator.load("anywhere", engine="torc")
    with pytest.raises(BundleError):
        Translator.load("nowhere")


def test_a_single_line_is_not_taken_for_its_letters(translator: Translator) -> None:
    for translate in (translator.translate, lambda text: translator.translate_n_best(text, 1)):
        with pytest.raises(TypeError, match=r"\[line\]"):
            translate("A dog runs.")
    with pytest.raises(TypeError, match=r"\[line\]"):
        next(translator.stream("A dog runs."))


def test_scores_are_those_of_the_model(model_folder: Path) -> None:
    """What the cached search sums up is what the whole-sequence decoder says of the same output."""
    translator = Translator.load(model_folder, engine="torch", device="cpu")
    engine = translator.engine
    assert isinstance(engine, TorchEngine)
    source = translator.tokenizer.encode("Two dogs run over the green grass.")
    options = dataclasses.replace(translator.options, length_penalty=1.0)
    [found] = engine.translate([source], options, n_best=4)
    for hypothesis in found:
        target = [*hypothesis.ids, 2]
        with torch.inference_mode():
            engine.model.eval()
            memory = engine.model.encode(torch.tensor([[*source, 2]]), torch.tensor([len(source) + 1]))
            gains = engine.model.decode(memory, torch.tensor([target])).log_softmax(-1)[0]
        total = sum(
            float(gains[i, token]) for i, token in enumerate(target) if hypothesis.finished or i < len(target) - 1
        )
        length = len(hypothesis.ids) + hypothesis.finished
        assert hypothesis.log_probability == pytest.approx(total, abs=1e-3)
        assert hypothesis.score == pytest.approx(total * 6 / (5 + length), abs=1e-3)


def test_a_model_in_training_stays_in_training(model_folder: Path) -> None:
    translator = Translator.load(model_folder, engine="torch", device="cpu")
    assert isinstance(translator.engine, TorchEngine)
    torch.manual_seed(1)
    model = Transformer(translator.engine.model.config).train()
    first = TorchEngine(model).translate([[5, 6, 7], []], translator.options)
    assert model.training
    assert first == TorchEngine(model).translate([[5, 6, 7], []], translator.options)  # no dropout
    assert first[1][0].ids == []


def test_an_output_without_numbers_is_still_an_output(model_folder: Path) -> None:
    translator = Translator.load(model_folder, engine="torch", device="cpu")
    assert isinstance(translator.engine, TorchEngine)
    with torch.no_grad():
        for parameter in translator.engine.model.parameters():
            parameter.fill_(math.nan)
    assert len(translator.translate(LINES)) == len(LINES)
    assert len(translator.translate(LINES, beam_size=1)) == len(LINES)


def test_without_torch_the_message_names_the_extra(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = loading.find_spec
    monkeypatch.setattr(loading, "find_spec", lambda name: None if name == "torch" else find_spec(name))
    with pytest.raises(MissingDependencyError, match=r"pip install .*\[train\]"):
        Translator.load(model_folder, engine="torch")
