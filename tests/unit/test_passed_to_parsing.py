"""Every option of the commands of a parser is passed on to what does the work."""

import json
import sys
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from noted_calls import Noting
from transduce.cli import parse_run
from transduce.cli.main import main
from transduce.config import DecodeConfig
from transduce.parser import Parse
from transduce.treebank import COLLINS, parse_trees

_SEARCH = DecodeConfig(beam_size=5)


def file_of(folder: Path, name: str, text: str = "a\nb\n") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_parse_run(
    noting: Noting, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    [tree] = parse_trees(["(S (NN a))"], "-")
    parses = [
        Parse(("a",), tree, repaired=False, score=0.0, finished=True, source_truncated=False),
        Parse(("a",), tree, repaired=True, score=0.0, finished=False, source_truncated=True),
        Parse((), None, repaired=False, score=0.0, finished=True, source_truncated=False),
        Parse(("a",), tree, repaired=False, score=0.0, finished=True, source_truncated=False),
    ]
    streamed: list[Any] = []

    def stream(*args: Any, **options: Any) -> list[Parse]:
        streamed.append(([*args[0]], options))
        return parses

    engine = SimpleNamespace(max_source_tokens=9, name="torch")
    translator = SimpleNamespace(engine=engine)
    choice = SimpleNamespace(name="torch", fallback=None, reason="asked for")
    noting((parse_run, "open_model"), SimpleNamespace(options=_SEARCH, choice=choice))
    loaded = noting("transduce.parser.Parser.load", SimpleNamespace(stream=stream, translator=translator))
    source = file_of(tmp_path, "s", "a\nb\n\nc\n")
    given = ["parse", "run", "m", "--source", source, "--engine", "torch", "--device", "cpu", "--threads", "2"]
    assert main([*given, "--only-well-formed"]) == 0
    machine = {"engine": "torch", "device": "cpu", "threads": 2, "quantization": None}
    assert loaded == [((Path("m"),), {**machine, "constrained": False})]
    assert streamed == [(["a", "b", "", "c"], {"options": _SEARCH})]
    shown = capsys.readouterr()
    assert shown.out == "(S (NN a))\n\n\n(S (NN a))\n"
    assert shown.err == (
        f"transduce: warning: {source}, sentence 2: longer than the 9 tokens that the model reads; only its beginning "
        "is parsed.\n3 sentences; 1 outputs (33.3%) were not a tree over their words and were left out; 1 reached the "
        "length limit\n"
    )
    assert main([*given, "--output", str(tmp_path / "o")]) == 0
    assert loaded[1:] == [((Path("m"),), {**machine, "constrained": True})]
    assert main([*given, "--unconstrained"]) == 0
    assert loaded[2:] == loaded[:1]
    capsys.readouterr()
    assert (tmp_path / "o").read_text() == "(S (NN a))\n(S (NN a))\n\n(S (NN a))\n"
    assert main([*given, "--output", str(tmp_path / "o")]) == 3
    updates: list[None] = []
    bar = SimpleNamespace(update=lambda: updates.append(None))
    bars = noting("transduce.data.progress.progress_bar", nullcontext(bar))
    for is_terminal, output in ((False, ["--output", str(tmp_path / "p")]), (True, []), (True, ["--output", "q"])):
        monkeypatch.setattr(sys.stderr, "isatty", lambda shown=is_terminal: shown)
        assert main([*given, *output]) == 0
    capsys.readouterr()
    assert main([*given, "--output", "r", "--quiet"]) == 0
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("transduce: warning: ")
    assert bars == [
        (("parsing", total), {"unit": " lines", "shown": shown})
        for total, shown in ((None, False), (None, False), (4, True), (None, False))
    ]
    assert len(updates) == 4 * len(parses)


def test_parse_score(noting: Noting, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sentences = (SimpleNamespace(status="error", number=2, message="other words"),)
    summary = SimpleNamespace(num_valid=1, num_sentences=2, num_errors=1, num_skipped=0)
    evaluation = SimpleNamespace(sentences=sentences, summary=lambda: summary)
    evaluation.to_dict = lambda per_sentence: {"per_sentence": per_sentence}
    analysis = SimpleNamespace(evaluation=evaluation, to_dict=lambda: "errors")
    place = "transduce.treebank"
    analysed = noting(f"{place}.bracket_analysis.analyse_brackets", analysis)
    other = noting(f"{place}.brackets.score_brackets", "other")
    comparison = SimpleNamespace(to_dict=lambda: "difference")
    compared = noting((import_module(f"{place}.paired_bootstrap"), "paired_bootstrap"), comparison)
    for name in ("sentence_table", "summary_text", "bootstrap_text", "analysis_text"):
        noting(f"{place}.bracket_report.{name}", name)
    gold, parsed, third = (file_of(tmp_path, name, f"({name})\n") for name in "gpq")
    given = ["parse", "score", "--reference", gold, "--hypothesis", parsed]
    options = ["--gold-punctuation", "--max-words", "7", "--compare", third, "--per-sentence", "--analysis"]
    assert main([*given, *options, "--max-errors", "4"]) == 0
    [((golds, parses, parameters), further)] = analysed
    assert (golds, parses, parameters) == (["(g)"], ["(p)"], replace(COLLINS, max_errors=4))
    assert further == {"names": (gold, parsed), "gold_punctuation": True, "max_words": 7}
    assert other == [((["(g)"], ["(q)"], parameters), further | {"names": (gold, third)})]
    assert compared == [((evaluation, "other"), {})]
    shown = capsys.readouterr()
    assert shown.out == "sentence_table\nsummary_text\n\nbootstrap_text\n\nanalysis_text\n"
    assert shown.err == "transduce: warning: line 2 is left out: other words\n"
    file_of(tmp_path, "c.prm", "MAX_ERROR 3\n")
    assert main([*given, "--parameters", str(tmp_path / "c.prm")]) == 0
    assert analysed[1][0][2].max_errors == 3
    assert analysed[1][1] == {"names": (gold, parsed), "gold_punctuation": False, "max_words": None}
    assert capsys.readouterr().out == "summary_text\n"
    assert main([*given, "--json", *options]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "per_sentence": True,
        "comparison": "difference",
        "analysis": "errors",
    }
    summary.num_valid = 0
    assert main(given) == 3
    assert "none of 2 sentences could be scored: 1 could not be compared" in capsys.readouterr().err


def test_parse_draw(noting: Noting, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    texts = noting("transduce.treebank.draw_text", "drawn")
    pictures = noting("transduce.treebank.draw_svg", "<svg>")
    trees = file_of(tmp_path, "t", "(TOP (S-X (NN a)))\n(S (NN b))\n(S (NN c))\n")
    first, second, third = parse_trees(["(TOP (S-X (NN a)))", "(S (NN b))", "(S (NN c))"], "-")
    assert main(["parse", "draw", trees, "--width", "40", "--number", "2"]) == 0
    assert main(["parse", "draw", trees, "--width", "9"]) == 0
    assert texts == [((tree, width), {}) for tree, width in ((second, 40), (first, 9), (second, 9), (third, 9))]
    assert capsysbinary.readouterr().out == b"drawn\n" + b"drawn\n\ndrawn\n\ndrawn\n"
    assert main(["parse", "draw", trees, "--format", "brackets", "--normalise"]) == 0
    assert capsysbinary.readouterr().out == b"(S (NN a))\n(S (NN b))\n(S (NN c))\n"
    picture = tmp_path / "o.svg"
    assert main(["parse", "draw", trees, "--output", str(picture)]) == 0
    assert pictures == [(([first, second, third],), {})]
    assert picture.read_text() == "<svg>"
    for name, form in (("o.mrg", "brackets"), ("o.trees", "brackets"), ("o.brackets", "brackets"), ("o.txt", "text")):
        assert main(["parse", "draw", trees, "--number", "3", "--output", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_text() == ("(S (NN c))\n" if form == "brackets" else "drawn\n")
        other = "svg" if form == "brackets" else "brackets"
        assert main(["parse", "draw", trees, "--output", str(tmp_path / f"x{name}"), "--format", other]) == 2
    assert main(["parse", "draw", trees, "--output", str(picture)]) == 3
    assert main(["parse", "draw", trees, "--output", str(tmp_path / "o.png"), "--format", "svg"]) == 2
    for made in (["--format", "svg"], ["--format", "brackets"], ["--output", str(tmp_path / "w.svg")]):
        assert main(["parse", "draw", trees, "--width", "40", *made]) == 2
    assert not (tmp_path / "w.svg").exists()
    assert main(["parse", "draw", trees, "--number", "4"]) == 3
