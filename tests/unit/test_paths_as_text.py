"""Public functions accept a path as a `str`, too; a test of the public names says that all of them declare it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from made_models import made_bundle, made_tokenizer
from small_recipe import RECIPE
from text_engine import text_translator
from transduce import runs
from transduce.alignment.word_aligner import WordAligner
from transduce.augmentation import back_translate, distill, forward_translate
from transduce.augmentation.filtering import filter_corpus
from transduce.augmentation.student import student_config
from transduce.config import load_recipe
from transduce.export import Certificate
from transduce.export.certificate import EXACT, Measured
from transduce.inspection import Panel, View, draw, draw_panels, view, write_arrays
from transduce.text import SubwordTokenizer, load_tokenizer
from transduce.translation.documents import format_of, recognised_format, require_format, translate_document
from transduce.translation.streams import ResumableOutput, translate_file
from transduce.treebank import read_bracket_parameters, read_trees

TRANSLATOR = text_translator(str.upper)
LINES = [f"the dog number {number} runs over the hill" for number in range(40)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of small inputs, which is the working folder: every test names its files by short strings."""
    monkeypatch.chdir(tmp_path)
    for name in ("train.en", "train.de", "dev.en", "dev.de"):
        Path(name).write_text("".join(f"{line} {name[-2:]}\n" for line in LINES), encoding="utf-8")
    Path("page.html").write_text("<html><p>a dog</p></html>", encoding="utf-8")
    Path("a.trees").write_text("(S (NP (DT the) (NN dog)))\n", encoding="utf-8")
    Path("a.prm").write_text("CUTOFF_LEN 7\n", encoding="utf-8")
    Path("recipe.toml").write_text(RECIPE, encoding="utf-8")
    made_tokenizer().save(Path("tokenizer.json"))
    return tmp_path


def saved_tokenizer() -> str:
    made_tokenizer().save("saved.json")
    return Path("saved.json").read_text(encoding="utf-8")


def saved_aligner() -> WordAligner:
    aligner = WordAligner.learn(LINES, LINES)
    aligner.save("aligner")
    return WordAligner.load("aligner")


def certificate_of(folder: str) -> dict[str, Any]:
    measured = Measured(
        lines=1, target_tokens=1, lines_cut_alike=1.0, token_agreement=1.0, mean_difference=0.0, max_difference=0.0
    )
    made = Certificate(original="a", export="b", sentences="some", measured=measured, thresholds=EXACT)
    return made.to_dict(folder)["export"]["sha256"]


def trained() -> Path:
    config = load_recipe("recipe.toml", ["train.max_steps=1", "data.drop_leaked=false"])
    runs.train(config, "run", show_progress=False)
    runs.train(config, "again", data="run/data", mirror="run", show_progress=False)
    return runs.average_run("run", "mean", show_progress=False).path


def small_filter() -> int:
    report = filter_corpus(load_recipe("recipe.toml").data, "clean")
    assert Path("clean/report.json").is_file()
    return report.num_pairs


def resumable() -> Path:
    with ResumableOutput("rows", {}, resume=False) as output:
        output.write(["a"], ["b"])
    return output.path


CASES: dict[str, tuple[Callable[[], Any], Any]] = {
    "load_recipe": (lambda: load_recipe("recipe.toml").name, "small"),
    "train, average_run": (trained, Path("mean")),
    "translate_file": (lambda: translate_file(TRANSLATOR, "train.en", "out.gz").num_lines, len(LINES)),
    "ResumableOutput": (resumable, Path("rows")),
    "translate_document": (lambda: translate_document(TRANSLATOR, "page.html", "seite.html").num_segments, 1),
    "format_of": (lambda: format_of("page.html"), "html"),
    "recognised_format": (lambda: recognised_format(None, "page.html"), "html"),
    "require_format": (lambda: require_format("", "page.html", "page.html").title, "HTML"),
    "back_translate": (lambda: back_translate(TRANSLATOR, "train.en", "made").num_lines, len(LINES)),
    "forward_translate": (lambda: forward_translate(TRANSLATOR, "train.en", "made").num_lines, len(LINES)),
    "distill, a text": (lambda: distill(TRANSLATOR, "train.en", "made").num_lines, len(LINES)),
    "distill, two files": (lambda: distill(TRANSLATOR, ["train.en", "train.de"], "made").num_lines, len(LINES)),
    "student_config": (
        lambda: student_config("recipe.toml", from_teacher=str(made_bundle(Path("teacher")).path)).init.model,
        "teacher",
    ),
    "filter_corpus": (small_filter, len(LINES)),
    "read_trees": (lambda: [*map(str, read_trees("a.trees"))], ["(S (NP (DT the) (NN dog)))"]),
    "read_bracket_parameters": (lambda: read_bracket_parameters("a.prm").cutoff_length, 7),
    "load_tokenizer": (lambda: load_tokenizer("tokenizer.json").vocab_size, made_tokenizer().vocab_size),
    "Tokenizer.load": (lambda: SubwordTokenizer.load("tokenizer.json").vocab_size, made_tokenizer().vocab_size),
    "Tokenizer.save": (saved_tokenizer, made_tokenizer().to_json()),
    "WordAligner": (lambda: bool(saved_aligner().links(LINES[0], LINES[0])), True),
    "Certificate.to_dict": (lambda: "page.html" in certificate_of("."), True),
}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", CASES)
def test_a_path_may_be_a_string(name: str) -> None:
    call, expected = CASES[name]
    assert call() == expected


@pytest.mark.usefixtures("folder")
def test_a_picture_and_a_data_file_may_be_named_by_a_string(random_attention: Callable[..., Any]) -> None:
    attention = random_attention("a dog", "ein Hund")
    write_arrays(attention, "a.json")
    assert Path("a.json").is_file()
    pytest.importorskip("matplotlib", reason="pictures need transduce[figures]")
    cross: View = view(attention, "cross")
    draw(cross, "one.svg")
    draw_panels([Panel(cross)], "two.svg")
    assert Path("one.svg").read_bytes() == Path("two.svg").read_bytes()
