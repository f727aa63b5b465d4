"""Glossaries and required terms by `transduce translate` and `Translator`, on tiny random models."""

import json
import math
import re
from pathlib import Path

import pytest

from command_files import command, write
from made_models import untied_folder
from transduce.cli import main as command_line
from transduce.engines.interface import TokenConstraints
from transduce.errors import ConfigError, DataError
from transduce.translation.pipeline import TextOptions
from transduce.translation.translator import Translator

pytestmark = [pytest.mark.computes, pytest.mark.usefixtures("only_translate")]

LINES = ["A dog runs.", "", "Two dogs run over the green grass to a man with a ball.", "grass", "a man", "A dog runs."]
GLOSSARY = ["dog\tman\tgrass", "green grass\tred ball", "ball\tTwo dogs"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    untied_folder(folder / "a", seed=3, max_extra_tokens=12)
    untied_folder(folder / "b", seed=4, max_extra_tokens=12)
    return folder


@pytest.fixture(autouse=True)
def every_term_has_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes no term forced: to a model of random weights all words are as improbable as one that is."""
    monkeypatch.setattr("transduce.translation.constraints.forced_terms.LEAST", -math.inf)


def holds(text: str, *terms: str) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(term)}(?!\w)", text, re.IGNORECASE) for term in terms)


@pytest.mark.parametrize("more", [(), ("--ensemble",), ("--no-repeat-ngram", "3"), ("--coverage-penalty", "0.2")])
def test_a_glossary_comes_out_whatever_the_batch(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    more = (*more, str(models / "b")) if more == ("--ensemble",) else more
    source, terms = write(tmp_path / "in", LINES), write(tmp_path / "terms.tsv", GLOSSARY)
    outputs = []
    for size in ("1", "32"):
        output = tmp_path / f"out{size}"
        arguments = ("--source", source, "--output", output, "--glossary", terms, "--batch-size", size, *more)
        assert command("translate", models / "a", *arguments) == 0
        outputs.append(output.read_bytes().decode().split("\n")[:-1])  # a text may hold "\\r"
        assert "transduce: 4 of 4 required terms came out." in capsys.readouterr().err
    assert outputs[0] == outputs[1]
    first, empty, long, *others, last = outputs[0]
    assert holds(first, "man", "grass")
    assert first == last
    assert empty == ""
    assert holds(long, "red ball")
    assert holds(long, "Two dogs")
    plain = Translator.load(models / "a", device="cpu", ensemble=more[1:] if "--ensemble" in more else ())
    if not more or "--ensemble" in more:
        assert others == plain.translate(LINES[3:5])  # lines without terms are what they were


def test_a_finished_job_is_of_its_glossary(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, terms, output = (
        write(tmp_path / "in", LINES),
        write(tmp_path / "terms", GLOSSARY),
        tmp_path / "out",
    )
    arguments = ("translate", models / "a", "--source", source, "--output", output, "--glossary", terms)
    assert command(*arguments) == 0
    assert command(*arguments, "--resume") == 0
    before = output.read_bytes()
    write(tmp_path / "terms", ["dog\tball"])
    assert command(*arguments, "--resume") == 2
    assert "was made with constraints = glossary " in capsys.readouterr().err
    assert output.read_bytes() == before


def test_terms_by_line(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, output = write(tmp_path / "in", LINES), tmp_path / "out"
    required = write(tmp_path / "required", ["green grass\tman|ball", "dog", "", "", "Two dogs", ""])
    begun = write(tmp_path / "begun", ["Two do", "", "", "", "", ""])
    arguments = ("--source", source, "--output", output, "--require-by-line", required, "--prefix", begun)
    assert command("translate", models / "a", *arguments) == 0
    first, empty, *_, with_dogs, _ = output.read_text(encoding="utf-8").split("\n")[:-1]
    assert first.startswith("Two do")
    assert holds(first, "green grass")
    assert holds(first, "man", "ball")
    assert empty == ""
    assert holds(with_dogs, "Two dogs")
    assert "3 of 3 required terms came out" in capsys.readouterr().err  # an empty line has no required terms


def test_a_wrong_term_is_refused_by_the_line_of_its_file(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, required = write(tmp_path / "in", LINES[:2]), write(tmp_path / "required", ["", "dog|"])
    arguments = ("--source", source, "--output", tmp_path / "out", "--require-by-line", required)
    assert command("translate", models / "a", *arguments) == 3
    assert f"{required}, line 2: a required term is empty" in capsys.readouterr().err


def test_terms_marked_in_the_line(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    marked = ['A <term to="Two dogs">dog</term> runs.', "", '{"text": 1}', "grass"]
    source, output = write(tmp_path / "in", marked), tmp_path / "out"
    required = write(tmp_path / "required", ["ball", "", "", ""])
    arguments = ("--source", source, "--output", output, "--inline-terms", "--require-by-line", required)
    assert command("translate", models / "a", *arguments) == 0
    lines = output.read_text(encoding="utf-8").split("\n")[:-1]
    assert holds(lines[0], "Two dogs")
    assert holds(lines[0], "ball")
    plain = Translator.load(models / "a", device="cpu")
    assert lines[1:] == plain.translate(marked[1:], text_options=TextOptions(markup="placeholders"))
    assert lines[:1] == plain.translate(["A dog runs."], required=[["ball", "Two dogs"]])
    assert "2 of 2 required terms came out" in capsys.readouterr().err


def test_a_mark_changes_nothing_for_the_lines_beside_it(tmp_path: Path) -> None:
    model = untied_folder(tmp_path / "short", positions="learned", max_positions=24)
    translator = Translator.load(model, device="cpu")
    long = "Two dogs run over the green grass. A man with a ball. Two dogs run over the grass. A man runs."
    [alone] = translator.translate_n_best([long], 1)
    assert alone[0].num_parts > 1  # cut, since the model reads less
    beside = translator.translate_n_best([long, "A dog runs."], 1, required=[[], ["ball"]])
    assert [each.ids for each in beside[0]] == [each.ids for each in alone]
    assert beside[0][0].score == pytest.approx(alone[0].score, rel=1e-5)  # kernels for two rows round in their own way
    assert holds(beside[1][0].text, "ball")
    with pytest.raises(DataError, match=r"^line 2: the prefix 'a ball ' holds the forbidden phrase 'ball'"):
        translator.translate([long, "A dog runs."], prefixes=["", "a ball "], forbidden=[[], ["ball"]])


@pytest.mark.parametrize("option", [("--markup", "html"), ("--guard",), ("--split-sentences", "always")])
def test_what_contradicts_marks_is_refused_before_the_first_line(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: tuple[str, ...]
) -> None:
    source, output = write(tmp_path / "in", ["A dog runs."]), tmp_path / "out"
    arguments = ("--source", source, "--output", output, "--inline-terms", *option)
    assert command("translate", models / "a", *arguments) == 2
    assert "does not go with prefixes or required terms by line" in capsys.readouterr().err
    assert not output.exists()


def test_markup_with_an_ensemble(models: Path, tmp_path: Path) -> None:
    source, output = write(tmp_path / "in", ["A <b>dog</b> runs over {name}."]), tmp_path / "out"
    arguments = ("--source", source, "--output", output, "--ensemble", models / "b", "--markup", "html")
    assert command("translate", models / "a", *arguments) == 0
    assert all(output.read_text(encoding="utf-8").count(mark) == 1 for mark in ("<b>", "</b>", "{name}"))


def test_a_wrong_mark_is_refused_by_its_line(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path / "in", ["A dog", 'A <term to="Hund">dog'])
    assert command("translate", models / "a", "--source", source, "--inline-terms") == 3
    assert 'in, line 2: <term to="Hund"> is never closed' in capsys.readouterr().err


def test_missing_terms_are_reported(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, output = write(tmp_path / "in", ["A dog runs."]), tmp_path / "out"
    terms = write(tmp_path / "terms.tsv", ["dog\tTwo dogs run over the green grass", "runs\tman"])
    arguments = ("--source", source, "--output", output, "--glossary", terms, "--max-tokens", "4")
    assert command("translate", models / "a", *arguments) == 0
    said = capsys.readouterr().err
    assert "line 1: the required term 'Two dogs run over the green grass' did not come out." in said
    assert re.search(r"transduce: [01] of 2 required terms came out\.", said)


def test_n_best_lists_hold_the_terms(models: Path) -> None:
    translator = Translator.load(models / "a", device="cpu")
    [found] = translator.translate_n_best(["A dog runs."], 3, required=[["grass", ["man", "ball"]]])
    assert len(found) == 3
    for index, each in enumerate(found):
        assert [choice for choice, _ in each.required] == [("grass",), ("man", "ball")]
        came = [came for _, came in each.required]
        assert came == [holds(each.text, "grass"), holds(each.text, "man", "ball")]
        assert all(came) or (index > 0 and not each.finished)  # of what the limit cut off, what met most comes first
        assert len(each.warnings) == came.count(False)
        # the model's own log-probability, whatever was offered
        ids = [list(each.ids)]
        [gains] = translator.engine.score([translator.tokenizer.encode("A dog runs.")], ids)
        assert each.log_probability == pytest.approx(sum(gains if each.finished else gains[:-1]), abs=1e-3)


def test_a_glossary_goes_with_what_cuts_and_marks(models: Path) -> None:
    translator = Translator.load(models / "a", engine="torch", device="cpu")
    text_options = TextOptions(split="always", markup="html", guard=True, confidence=True)
    [text] = translator.translate(
        ["A dog runs. The <b>ball</b>."], glossary={"dog": "red", "ball": "green"}, text_options=text_options
    )
    assert text.count("<b>") == 1
    assert holds(re.sub(r"</?b>", "", text), "red")
    [[best]] = translator.translate_n_best(
        ["A dog runs. The ball."], 1, glossary={"dog": "red", "ball": "green"}, text_options=TextOptions(split="always")
    )
    assert best.num_parts == 2
    assert best.required == ((("red",), True), (("green",), True))
    with pytest.raises(ConfigError, match="markup = 'html' does not go with prefixes or required terms by line"):
        translator.translate(["a"], required=[["dog"]], text_options=TextOptions(markup="html"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--beam-size", "1"), "--beam-size 1: required phrases need 2 or more"),
        (("--temperature", "1"), "--temperature 1.0: required phrases need 0"),
        (("--diversity-groups", "2"), "--diversity-groups 2: required phrases need 1"),
    ],
    ids=" ".join,
)
def test_searches_without_required_terms_are_refused(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], message: str
) -> None:
    source, terms = write(tmp_path / "in", ["dog"]), write(tmp_path / "terms.tsv", ["dog\tdog"])
    arguments = ("--source", source, "--output", tmp_path / "out", "--glossary", terms, *options)
    assert command("translate", models / "a", *arguments) != 0
    assert message in capsys.readouterr().err


def test_a_wrong_glossary_is_refused_by_its_line(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, terms = write(tmp_path / "in", LINES), write(tmp_path / "terms.tsv", ["dog\tman", "cat"])
    assert command("translate", models / "a", "--source", source, "--glossary", terms) == 3
    assert "terms.tsv, line 2: no target term" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("required", "message"), [(((),), "empty"), ((((),),), "empty"), ((((2,),),), "holds a special token")]
)
def test_the_engine_refuses_what_no_output_can_hold(
    models: Path, required: tuple[tuple[tuple[int, ...], ...], ...], message: str
) -> None:
    translator = Translator.load(models / "a", device="cpu")
    with pytest.raises(ConfigError, match=message):
        translator.engine.translate([[5, 6]], translator.options, 1, [TokenConstraints(required=required)])


def test_forced_terms_are_named_and_counted_separately(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.translation.constraints.forced_terms.LEAST", 0.0)  # whatever did not come by itself
    source = write(tmp_path / "in", ['{"text": "A dog runs."}', '{"text": "a man"}'])
    terms = write(tmp_path / "terms", ["ball", ""])
    arguments = ["translate", str(models / "a"), "--source", source, "--field", "text", "--require-by-line", terms]
    assert command_line.main([*arguments, "--output", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().err
    assert f"warning: {source}, line 1: the required term 'ball' was forced: the model expected other words" in said
    assert "transduce: 0 of 1 required term came out; 1 more forced.\n" in said
    first, second = map(json.loads, (tmp_path / "out").read_text(encoding="utf-8").splitlines())
    assert first["translation_forced"] == [["ball"]]
    assert "translation_forced" not in second
