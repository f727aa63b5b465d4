"""`transduce translate` with both engines on a hundred lines: the same lines out, whatever goes with them."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from command_files import translated
from made_models import made_bundle
from transduce.cli import main as command_line
from transduce.translation.pipeline import TextOptions
from transduce.translation.translator import Translator

pytestmark = [pytest.mark.computes, pytest.mark.usefixtures("only_translate")]

_WORDS = ["a", "dog", "runs", "two", "dogs", "grass", "man", "ball", "green", "over", "the", "12", "Ä", "😀"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("models") / "ending"
    # It reads 127 tokens and the end: a longer line is cut, and what is beside it in a batch is padded to no more.
    return made_bundle(folder, ending=1.5, tie_embeddings="none", max_length=128).path


@pytest.fixture(scope="module")
def lines() -> list[str]:
    generator = random.Random(0)
    made = [" ".join(generator.choices(_WORDS, k=generator.randrange(1, 9))) for _ in range(100)]
    return [*made, "", " \t", "odd\u2028separators", "<s> <pad> </s> <unk>", "a man " * 900]


@pytest.mark.parametrize("quantization", ["float32", "int8"])
def test_a_line_is_translated_alike_in_any_company(
    model: Path, lines: list[str], tmp_path: Path, quantization: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--engine", "ctranslate2", "--quantization", quantization, "--max-extra-tokens", "3"]
    options += ["--split-sentences", "never"]
    expected = translated(model, tmp_path, lines, *options)
    assert len(expected) == len(lines)
    assert expected[100:102] == ["", ""]
    assert "line 105: longer than the 127 tokens" in capsys.readouterr().err
    for batch_size in (1, 7, 64):
        order = random.Random(batch_size).sample(range(len(lines)), len(lines))
        shuffled = translated(
            model, tmp_path, [lines[place] for place in order], *options, "--batch-size", str(batch_size)
        )
        assert [expected[place] for place in order] == shuffled


def test_greedy_search_gives_the_lines_of_the_torch_engine(model: Path, lines: list[str], tmp_path: Path) -> None:
    options = ("--beam-size", "1", "--max-extra-tokens", "3")
    ours = translated(model, tmp_path, lines, "--engine", "torch", *options)
    theirs = translated(model, tmp_path, lines, "--engine", "ctranslate2", *options)
    assert ours == theirs


def test_n_best_rows_have_the_same_form(model: Path, lines: list[str], tmp_path: Path) -> None:
    options = ("--n-best", "3", "--scores", "--max-extra-tokens", "3")
    forms = []
    for engine in ("torch", "ctranslate2"):
        rows = [row.split("\t") for row in translated(model, tmp_path, lines[:50], "--engine", engine, *options)]
        assert {len(row) for row in rows} == {3}
        assert all(float(score) <= 0 for _, _, score in rows)
        forms.append([number for number, _, _ in rows])
    assert set(forms[0]) == set(forms[1]) == {str(number) for number in range(1, 51)}


@pytest.mark.parametrize("quiet", [False, True])
def test_the_conversion_and_the_choice_are_said_once_and_never_with_quiet(tmp_path: Path, quiet: bool) -> None:
    folder = made_bundle(tmp_path / "model").path
    command = [sys.executable, "-m", "transduce", "translate", str(folder), "--quantization", "int8_float32"]
    said = []
    for options in [], ["--engine", "ctranslate2"]:
        more = [*options, "--quiet"] if quiet else options
        done = subprocess.run([*command, *more], input="A dog.\n", capture_output=True, text=True, check=True)
        shown = [line.partition(f" {folder}")[0] for line in done.stderr.splitlines()]
        said.append([line for line in shown if "repeats itself" not in line])  # as random weights do
    conversion = "transduce: converting for CTranslate2, this once:"
    choice = "transduce: engine: ctranslate2 on cpu, int8_float32 (torch has no int8_float32)"
    assert said == ([[], []] if quiet else [[conversion, choice], []])


def test_what_an_engine_has_not_is_an_error_that_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = made_bundle(tmp_path / "model", attention_window=4).path
    assert command_line.main(["translate", str(folder), "--engine", "ctranslate2", "--source", __file__]) == 2
    assert "model.attention_window = 4" in capsys.readouterr().err
    assert command_line.main(["translate", str(folder), "--engine", "torch", "--quantization", "int16"]) == 2
    assert "quantization 'int16'" in capsys.readouterr().err


def test_a_line_is_translated_without_what_takes_long_to_import(model: Path, lines: list[str]) -> None:
    program = (
        "import sys; from transduce.cli import main\n"
        "main.main(sys.argv[1:])\n"
        "assert 'ctranslate2' in sys.modules\n"
        "print({'numpy', 'torch', 'tqdm', 'safetensors'} & sys.modules.keys(), file=sys.stderr)"
    )
    arguments = ["translate", str(model), "--engine", "ctranslate2"]
    command = [sys.executable, "-c", program, *arguments]
    for said in (None, "set()\n"):  # the first time, the model may still have to be converted
        done = subprocess.run(command, input=lines[0], capture_output=True, text=True, check=True)
        assert done.stdout.count("\n") == 1
        assert said is None or done.stderr == said


def test_standard_input_to_standard_output_in_a_process_of_its_own(model: Path, lines: list[str]) -> None:
    options = ["--engine", "ctranslate2", "--quantization", "int8"]
    command = [sys.executable, "-m", "transduce", "translate", str(model), *options]
    done = subprocess.run(command, input="\n".join(lines[:3]), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    translator = Translator.load(model, engine="ctranslate2", quantization="int8", device="cpu")
    assert done.stdout.split("\n")[:-1] == translator.translate(
        lines[:3], text_options=TextOptions(markup="placeholders")
    )
