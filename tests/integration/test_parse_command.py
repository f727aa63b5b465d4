"""`transduce parse`: trees in; scores, pictures or brackets out; clear errors for the rest."""

import gzip
import io
import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from transduce.cli.main import main

_GOLD = ["(S (NP (DT The) (NN dog)) (VP (VBZ barks)))", "(S (NP (NN Rain)) (VP (VBZ falls)))"]
_PARSED = ["(S (NP (DT The) (NN dog)) (VP (VBZ barks)))", "(S (NP (NN Rain) (VBZ falls)))"]
_MRG = "\n( (S\n    (NP-SBJ (NNP Köln) )\n    (VP (VBZ rains)\n      (NP (-NONE- *) ))))\n( (S (NP (NN Rain) )))\n"


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, lines in {"gold": _GOLD, "parsed": _PARSED}.items():
        Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    Path("a.mrg").write_text(_MRG, encoding="utf-8")
    return tmp_path


def standard_input(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_score(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parse", "score", "--reference", "gold", "--hypothesis", "parsed"]) == 0
    output, errors = capsys.readouterr()
    # Gold has S, NP, VP twice; of the second parse's S and NP only S is right.
    assert "Bracketing Recall         =  66.67" in output
    assert "Bracketing Precision      =  80.00" in output
    assert "Complete match            =  50.00" in output
    assert output.startswith("=== Summary ===")
    assert errors == ""


def test_score_compared_with_another_parser(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["parse", "score", "--reference", "gold", "--hypothesis", "gold", "--compare", "parsed"]
    assert main(command) == 0
    output = capsys.readouterr().out
    # "parsed" has 4 of its 5 brackets right, of 6: F1 is 8 / 11. A quarter of the resamples lack the second sentence.
    assert "-- Paired bootstrap --\nNumber of sentence        =      2\n" in output
    assert "FMeasure                  = 100.00\nFMeasure of the other     =  72.73\n" in output
    assert "Difference                = +27.27\n" in output
    assert main([*command, "--json"]) == 0
    comparison = json.loads(capsys.readouterr().out)["comparison"]
    assert comparison["difference"] == pytest.approx(100 - 100 * 8 / 11)
    assert comparison["not_better"] == pytest.approx(25, abs=2)
    assert (comparison["low"], comparison["num_resamples"]) == (0, 10_000)


def test_score_needs_the_same_sentences_of_both_parsers(capsys: pytest.CaptureFixture[str]) -> None:
    Path("short").write_text(_PARSED[0] + "\n", encoding="utf-8")
    command = ["parse", "score", "--reference", "gold", "--hypothesis", "parsed", "--compare", "short"]
    assert main(command) == 3
    assert "short" in capsys.readouterr().err
    assert main(["parse", "score", "--reference", "gold", "--hypothesis", "-", "--compare", "-"]) == 2
    assert "standard input ('-') can be only one of the files" in capsys.readouterr().err


def test_standard_input_has_its_name_in_errors(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    standard_input(monkeypatch, f"{_PARSED[0]}\n")
    assert main(["parse", "score", "--reference", "gold", "--hypothesis", "parsed", "--compare", "-"]) == 3
    assert "gold has 2 lines and standard input has 1: " in capsys.readouterr().err
    standard_input(monkeypatch, f"{_PARSED[0]}\n")
    assert main(["parse", "draw", "--number", "2"]) == 3
    assert "standard input: there is no tree number 2" in capsys.readouterr().err


def test_score_per_sentence_with_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.prm").write_text("DELETE_LABEL NP\nCUTOFF_LEN 2\n", encoding="utf-8")
    main(
        [
            "parse",
            "score",
            "--reference",
            "gold",
            "--hypothesis",
            "parsed",
            "--parameters",
            "mine.prm",
            "--per-sentence",
        ]
    )
    output = capsys.readouterr().out
    assert "   2    2    0   50.00 100.00     1      2    1      0      2     2   100.00\n" in output
    assert "-- len<=2 --\nNumber of sentence        =      1\n" in output


def test_score_from_standard_input_as_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with gzip.open("gold.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(_GOLD))
    standard_input(monkeypatch, f"{_PARSED[0]}\n(S (NN Snow) (NN falls))\n")
    assert main(["parse", "score", "--reference", "gold.gz", "--hypothesis", "-", "--json", "--per-sentence"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["all"]["f1"] == 100
    assert result["errors"] == {"2": "word 1 is 'Rain' in the gold tree and 'Snow' in the parse."}
    assert [sentence["matched"] for sentence in result["sentences"]] == [3, 0]


def test_score_warns_of_what_it_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    Path("three").write_text("".join(f"{tree}\n" for tree in [*_GOLD, _GOLD[0]]), encoding="utf-8")
    Path("parsed").write_text(f"(S (NP\n\n{_GOLD[0]}\n", encoding="utf-8")
    assert main(["parse", "score", "--reference", "three", "--hypothesis", "parsed"]) == 0
    output, errors = capsys.readouterr()
    assert errors.startswith("transduce: warning: line 1 is left out: parsed, line 1, column 4: this bracket")
    assert errors.count("\n") == 1
    assert "Number of Skip  sentence  =      1" in output


@pytest.mark.parametrize("options", [[], ["--json"], ["--per-sentence"]])
@pytest.mark.parametrize(
    ("parsed", "message"),
    [
        ("(S (NP\n)S\n", "none of 2 sentences could be scored: 2 could not be compared with the gold tree, 0 have no"),
        ("\n\n", "none of 2 sentences could be scored: 0 could not be compared with the gold tree, 2 have no parse."),
    ],
)
def test_nothing_to_score_is_an_error(
    parsed: str, message: str, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("parsed").write_text(parsed, encoding="utf-8")
    assert main(["parse", "score", "--reference", "gold", "--hypothesis", "parsed", *options]) == 3
    output, errors = capsys.readouterr()
    assert output == ""
    assert message in errors


def test_score_with_analysis(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["parse", "score", "--reference", "gold", "--hypothesis", "parsed", "--analysis"]
    assert main(command) == 0
    output = capsys.readouterr().out
    assert output.startswith("=== Summary ===")
    assert "## By label\n\n| label | gold | parsed | recall | precision | F1 |\n" in output
    assert "| NP | 2 | 2 | 50.00 | 50.00 | 50.00 |\n" in output
    assert "| NP → NN VBZ | 1 | 100.0 % |\n" in output
    assert main([*command, "--json"]) == 0
    analysis = json.loads(capsys.readouterr().out)["analysis"]
    assert [each["production"] for each in analysis["missed"]] == ["NP → NN", "VP → VBZ"]


def test_score_of_short_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["parse", "score", "--reference", "gold", "--hypothesis", "parsed", "--max-words"]
    assert main([*command, "2", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["all"]
    assert (scores["num_sentences"], scores["gold"], scores["parsed"], scores["matched"]) == (1, 3, 2, 1)
    assert main([*command, "1"]) == 3
    assert "gold has no sentence of 1 words or less" in capsys.readouterr().err


def test_score_stops_at_too_many_errors_and_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    Path("many").write_text(f"{_GOLD[0]}\n" * 12, encoding="utf-8")
    Path("wrong").write_text("(S (NN a))\n" * 12, encoding="utf-8")
    command = ["parse", "score", "--reference", "many", "--hypothesis", "wrong"]
    assert main(command) == 3
    assert "more than 10 of the first 12 sentences cannot be compared" in (errors := capsys.readouterr().err)
    assert "--max-errors, or MAX_ERROR in a parameter file, allows more of them" in errors
    Path("wrong").write_text("(S (NN a))\n" * 11 + f"{_GOLD[0]}\n", encoding="utf-8")
    assert main([*command, "--max-errors", "11"]) == 0
    assert "Number of Error sentence  =     11\n" in capsys.readouterr().out
    assert main([*command, "--max-errors", "-1"]) == 2
    assert "--max-errors -1: must be a whole number from 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["--reference", "gold", "--hypothesis", "none"], 3, "none: no such file"),
        (["--reference", "-", "--hypothesis", "-"], 2, "standard input"),
        (["--reference", "gold", "--hypothesis", "a.mrg"], 3, "gold has 2 lines and a.mrg has 6"),
        (["--reference", "gold", "--hypothesis", "parsed", "--parameters", "gold"], 2, "gold, line 1: unknown keyword"),
    ],
)
def test_score_errors(arguments: list[str], exit_code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parse", "score", *arguments]) == exit_code
    assert message in capsys.readouterr().err


def test_draw_text(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    standard_input(monkeypatch, "\n".join(_GOLD))
    assert main(["parse", "draw", "--width", "80"]) == 0
    first, second = capsys.readouterr().out.split("\n\n")
    assert first.endswith("The  dog  barks")
    assert second.endswith("Rain  falls\n")
    assert main(["parse", "draw", "gold", "--width", "1", "--number", "2"]) == 0
    assert capsys.readouterr().out == "S\n├─ NP\n│  └─ NN Rain\n└─ VP\n   └─ VBZ falls\n"


def test_draw_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    main(["parse", "draw", "a.mrg", "--format", "brackets"])
    assert capsys.readouterr().out == (
        "(TOP (S (NP-SBJ (NNP Köln)) (VP (VBZ rains) (NP (-NONE- *)))))\n(TOP (S (NP (NN Rain))))\n"
    )
    main(["parse", "draw", "a.mrg", "--format", "brackets", "--normalise"])
    assert capsys.readouterr().out == "(S (NP (NNP Köln)) (VP (VBZ rains)))\n(S (NP (NN Rain)))\n"


def test_draw_svg_to_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parse", "draw", "a.mrg", "--format", "svg", "--output", "tree.svg"]) == 0
    assert capsys.readouterr().out == ""
    texts = [element.text for element in ET.parse("tree.svg").iter("{http://www.w3.org/2000/svg}text")]
    assert {"Köln", "NP-SBJ", "Rain"} < set(texts)


def test_a_dash_is_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parse", "draw", "gold", "--format", "brackets", "--output", "-"]) == 0
    assert capsys.readouterr().out.splitlines() == _GOLD
    assert not Path("-").exists()


@pytest.mark.parametrize(
    ("output", "options", "begins"),
    [
        ("tree.svg", [], "<svg"),
        ("tree.SVG", [], "<svg"),
        ("tree.txt", ["--width", "80"], " "),
        ("tree.trees", [], "(TOP"),
        ("tree.gold", ["--format", "brackets"], "(TOP"),
        ("tree", ["--width", "80"], " "),
    ],
)
def test_the_ending_says_what_is_drawn(output: str, options: list[str], begins: str) -> None:
    assert main(["parse", "draw", "a.mrg", "--output", output, *options]) == 0
    assert Path(output).read_text(encoding="utf-8").startswith(begins)


@pytest.mark.parametrize(
    ("output", "options", "message"),
    [
        ("tree.png", ["--format", "svg"], "tree.png: no format has the ending '.png'. Use one of .svg (svg), .txt"),
        ("tree.gold", [], "tree.gold: no format has the ending '.gold'."),
        ("tree.svg.gz", [], "tree.svg.gz: no format has the ending '.gz'."),
        ("tree.svg", ["--format", "text"], "--format text: tree.svg has the ending of svg"),
    ],
)
def test_an_ending_that_does_not_fit_is_refused(
    output: str, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["parse", "draw", "a.mrg", "--output", output, *options]) == 2
    assert message in capsys.readouterr().err
    assert not Path(output).exists()


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [("3", 3, "a.mrg: there is no tree number 3"), ("0", 2, "--number 0: must be"), ("-1", 2, "--number -1: must be")],
)
def test_draw_a_tree_that_is_not_there(
    number: str, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["parse", "draw", "a.mrg", "--number", number]) == code
    assert message in capsys.readouterr().err


def test_draw_what_is_no_tree(capsys: pytest.CaptureFixture[str]) -> None:
    Path("text").write_text("A dog runs.\n", encoding="utf-8")
    assert main(["parse", "draw", "text", "--output", "tree.txt"]) == 3
    assert "text, line 1, column 1: stray text 'A'" in capsys.readouterr().err
    assert not Path("tree.txt").exists()
