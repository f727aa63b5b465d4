"""What commands make of their options, and the rows and sentences that they print."""

import errno
import io
import json
import math
import os
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from transduce.cli import calibrate, evaluate, info, score, translate
from transduce.cli.arguments import decode_changes, require_both
from transduce.cli.constraint_files import ConstraintFiles
from transduce.cli.failures import report
from transduce.cli.options import add_number, real, whole
from transduce.config import TrainConfig
from transduce.errors import ConfigError, DataError
from transduce.files import sha256
from transduce.training.progress import Progress
from transduce.translation.constraints.line_constraints import Constraints
from transduce.translation.forced_scores import TargetScore
from transduce.translation.pipeline import TextOptions
from transduce.translation.streams import Columns, JsonLines, Layout, PlainLines, Summary

_LINES = {"n_best": 1, "scores": False, "confidence": False, "field": None, "column": None, "into": None}
_LINES |= {"replace": False, "alignment": False}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, PlainLines()),
        ({"n_best": 2}, PlainLines(many=True)),
        ({"scores": True}, PlainLines(scores=True)),
        ({"confidence": True}, PlainLines(confidence=True)),
        ({"field": "a"}, JsonLines("a")),
        ({"field": "a", "into": "b"}, JsonLines("a", "b")),
        ({"field": "a", "n_best": 2}, JsonLines("a", many=True)),
        ({"field": "a", "scores": True}, JsonLines("a", scores=True)),
        ({"field": "a", "confidence": True}, JsonLines("a", confidence=True)),
        ({"field": "a", "alignment": True}, JsonLines("a", alignment=True)),
        ({"column": 2}, Columns(2)),
        ({"column": 2, "replace": True}, Columns(2, replace=True)),
        ({"column": 2, "scores": True}, Columns(2, scores=True)),
        ({"column": 2, "confidence": True}, Columns(2, confidence=True)),
    ],
)
def test_layouts_by_options(given: dict[str, Any], expected: Layout) -> None:
    assert translate._layout(Namespace(**_LINES | given)) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"field": "a", "column": 2}, "give one of them"),
        ({"into": "b"}, "--into names a field"),
        ({"field": "a", "replace": True}, "--replace puts"),
        ({"column": 2, "alignment": True}, "--alignment"),
        ({"column": 2, "n_best": 2}, "--n-best"),
    ],
)
def test_options_that_do_not_go_with_a_layout(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        translate._layout(Namespace(**_LINES | given))


_TEXT = {"split_sentences": "always", "markup": "none", "guard": True, "confidence": False, "alignment": True}
_TEXT |= {"capitals": True, "signs": True}
_TEXT |= {"source_language": "en", "target": "de", "domain": "law"}
_TEXT |= {"prefix": None, "require_by_line": None, "inline_terms": False, "document": None}


def test_options_of_texts_are_passed_on() -> None:
    assert translate._text_options(Namespace(**_TEXT)) == TextOptions(
        split="always",
        markup="none",
        guard=True,
        capitals=True,
        signs=True,
        alignment=True,
        language="en",
        target="de",
        domain="law",
    )
    given = _TEXT | {"guard": False, "confidence": True, "split_sentences": "auto", "alignment": False}
    assert translate._text_options(Namespace(**given)).confidence
    neither = _TEXT | {"guard": None, "capitals": None, "signs": None}
    for document, is_on in ((None, False), (Path("a.docx"), True)):
        of_document = translate._text_options(Namespace(**neither | {"document": document}))
        assert (of_document.guard, of_document.capitals, of_document.signs) == (is_on,) * 3
    for name in ("prefix", "require_by_line", "inline_terms"):
        assert translate._text_options(Namespace(**given | {name: Path("x")})).split == "auto"
        with pytest.raises(ConfigError, match="does not go with prefixes"):
            translate._text_options(Namespace(**_TEXT | {name: Path("x")}))


@pytest.mark.parametrize(
    ("summary", "quiet", "shown"),
    [
        (
            Summary(1200, 3, 5, 2, 1),
            False,
            "transduce: resumed after 3 lines done before; 1,200 in all.\n"
            "transduce: 2 of 5 required terms came out; 1 more forced.\n",
        ),
        (Summary(9, 0, 1, 1), False, "transduce: 1 of 1 required term came out.\n"),
        (Summary(9, 3, 5, 2, 1), True, ""),
        (Summary(9, 9, was_finished=True), True, "transduce: out: finished already, by the same command; 9 lines.\n"),
    ],
)
def test_summaries(summary: Summary, quiet: bool, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    translate._print_summary(Namespace(output=Path("out"), quiet=quiet), summary)
    assert capsys.readouterr().err == shown


def _files(folder: Path, **texts: str) -> Namespace:
    names = ("prefix", "forbid", "forbid_by_line", "glossary", "require_by_line")
    paths: dict[str, Path | None] = dict.fromkeys(names)
    for name, text in texts.items():
        paths[name] = folder / name
        (folder / name).write_text(text)
    return Namespace(source=Path("in"), **paths)


def test_constraints_of_files(tmp_path: Path) -> None:
    given = {
        "prefix": "A\n\n",
        "forbid": "bad\n \nworse one\n",
        "forbid_by_line": "x\ty\n\t\n",
        "require_by_line": "Hund|Köter\tKatze\n\t\n",
    }
    args = _files(tmp_path, **given)
    files = ConstraintFiles(args)
    assert files.name == f"forbid {sha256(tmp_path / 'forbid')}"
    found = files.constraints()
    assert found is not None
    assert next(found) == Constraints("A", ("bad", "worse one", "x", "y"), (("Hund", "Köter"), ("Katze",)))
    with pytest.raises(DataError, match="prefix: has more lines than the input"):
        files.check_end()
    files = ConstraintFiles(args)
    found = files.constraints()
    assert found is not None
    assert [next(found), next(found)][1] == Constraints("", ("bad", "worse one"), ())
    files.check_end()
    with pytest.raises(DataError, match="prefix: has fewer lines than the input"):
        next(found)
    assert ConstraintFiles(_files(tmp_path)).constraints() is None


def test_a_file_from_standard_input_has_its_name_in_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"A\nB\n")))
    args = _files(tmp_path)
    args.prefix = Path("-")
    files = ConstraintFiles(args)
    found = files.constraints()
    assert found is not None
    next(found)
    with pytest.raises(DataError, match=r"^standard input: has more lines than the input"):
        files.check_end()


def test_files_for_all_lines_have_no_end(tmp_path: Path) -> None:
    files = ConstraintFiles(_files(tmp_path, forbid="bad\n", glossary="dog\tHund\n"))
    assert files.name == f"forbid {sha256(tmp_path / 'forbid')}, glossary {sha256(tmp_path / 'glossary')}"
    found = files.constraints()
    assert found is not None
    assert [next(found) for _ in range(3)] == [Constraints(forbidden=("bad",))] * 3
    files.check_end()
    assert files.glossary is not None
    assert files.glossary.required_in("a dog") == (("Hund",),)
    args = Namespace(**vars(_files(tmp_path)) | {"source": Path("-"), "prefix": Path("-")})
    with pytest.raises(ConfigError, match="can be only one of"):
        ConstraintFiles(args)


SCORED = TargetScore(("▁A", "</s>"), (-1.0, -2.0), -1.5, source_truncated=False)


def test_rows_of_scores() -> None:
    rows = score._rows
    assert list(rows(7, SCORED, tokens=True, as_json=False)) == ["7\t▁A\t-1.000000\n", "7\t</s>\t-2.000000\n"]
    assert list(rows(7, SCORED, tokens=False, as_json=False)) == ["4.48169\t-1.500000\t-3.000000\n"]  # exp(3 / 2)
    [row] = rows(7, SCORED, tokens=False, as_json=True)
    assert json.loads(row) == {
        "line": 7,
        "perplexity": pytest.approx(math.exp(1.5)),
        "score": -1.5,
        "log_probability": -3.0,
        "pieces": ["▁A", "</s>"],
        "log_probabilities": [-1.0, -2.0],
    }


def test_a_calibration_in_words() -> None:
    report = {"threshold_chrf": 60.0, "lines": 1000, "share_good": 0.5}
    report |= {"ece_cross_validated": 0.012, "ece_uncalibrated": 0.2}
    fitted = (
        "m: calibrated on 1,000 lines; good (chrF at least 60): 50.0 %.\n"
        "ECE, cross-validated: 1.2 % (mean probability of the tokens: 20.0 %)."
    )
    assert calibrate._text(report, Path("m")) == fitted
    test: dict[str, Any] = {"lines": 1, "share_good": 0.25, "ece": 0.03, "ece_uncalibrated": 0.04}
    test |= {"brier": 0.1, "brier_uncalibrated": 0.2, "auc": None, "auc_uncalibrated": 0.75}
    assert calibrate._text(report | {"test": test}, Path("m")) == (
        f"{fitted}\nOn 1 test line, 25.0 % of them good: ECE 3.0 % (4.0 %), Brier score 0.100 (0.200), "
        "AUC unknown (0.750); in brackets without the fit."
    )


def test_options_of_scores() -> None:
    args = Namespace(metrics=["chrf", "bleu", "chrf"], paper=True)
    assert evaluate._metrics(args) == ["chrf", "bleu", "bleu-paper"]
    assert evaluate._metrics(Namespace(metrics=["bleu"], paper=False)) == ["bleu"]
    none = {"tokenized": False, "lowercase": False, "intervals": False, "target_language": None}
    names = {"tokenized": "tokenized", "lowercase": "lowercase", "intervals": "confidence"}
    for given, name in names.items():
        found = evaluate._score_options(Namespace(**none | {given: True}))
        assert found == dict.fromkeys(names.values(), False) | {name: True}
    assert evaluate._score_options(Namespace(**none | {"target_language": "de"}))["language"] == "de"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sets": ["a"], "reference": ["b"]}, "--sets is for the test sets"),
        ({"corpus": Path("c"), "model": None}, "--corpus is for the test sets"),
        ({"translate": True, "source": "a"}, "--translate needs"),
        ({"translate": True, "source": "a", "reference": ["b"], "hypothesis": "c"}, "--translate needs"),
        ({"domain": "law"}, "each test set of the recipe says its own"),
        ({"source": "a", "reference": ["b"], "beam_size": 2}, "add --translate"),
        ({"source": "a", "reference": ["b"], "robustness": True}, "--robustness translates"),
        ({"source": "a", "reference": ["b"], "capitals": True}, "--capitals is for translating"),
        ({"source": "a", "reference": ["b"], "signs": True}, "--signs is for translating"),
        ({"robustness": True, "train": ["c"]}, "leave it out with --robustness"),
    ],
)
def test_options_of_translating_that_do_not_go_together(given: dict[str, Any], message: str) -> None:
    none: dict[str, Any] = {
        "model": Path("m"),
        "hypothesis": None,
        "reference": [],
        "source": None,
        "sets": [],
        "recipe": None,
    }
    none |= {"corpus": None, "translate": False, "target": "", "domain": "", "source_language": "", "beam_size": None}
    none |= {"robustness": False, "capitals": False, "signs": False, "train": []}
    assert evaluate._translates(Namespace(**none))
    assert evaluate._translates(Namespace(**none | {"translate": True, "source": "a", "reference": ["b"]}))
    assert not evaluate._translates(Namespace(**none | {"source": "a", "reference": ["b"]}))
    with pytest.raises(ConfigError, match=message):
        evaluate._translates(Namespace(**none | given))


@pytest.mark.parametrize("last_seen", [0, 1])
def test_the_size_of_a_run_whose_files_are_removed_meanwhile(
    last_seen: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("stays", "goes"):
        (tmp_path / name).write_bytes(b"12345")
    seen, stat = [0], Path.stat

    def found(path: Path, **options: Any) -> os.stat_result:
        seen[0] += path.name == "goes"
        if path.name == "goes" and seen[0] > last_seen:
            raise FileNotFoundError(path)
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", found)
    assert info._size(tmp_path) == 5 + 5 * last_seen


def test_progress_of_a_run_in_words() -> None:
    progress = Progress(50, 1, seconds=3909, skipped_steps=2, best_score=31.234, best_by="bleu_mean", best_step=40)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in _progress(progress)]
    assert rows[2:] == [
        ["steps", "50 of 200 (25%)"],
        ["epoch", "2"],
        ["time spent", "1:05:09"],
        ["time left, at the speed so far", "3:15:27"],
        ["updates left out, not finite", "2; see quarantine.jsonl"],
        ["best bleu mean", "31.23 at step 40"],
    ]
    perplexity = replace(progress, best_score=-6.543, best_by="perplexity")
    assert _progress(perplexity)[-1] == "| best perplexity | 6.54 at step 40 |"
    assert len(_progress(Progress())) == 5


def _progress(progress: Progress) -> list[str]:
    return info._progress_text(progress, TrainConfig(max_steps=200)).split("\n")


def test_options_that_belong_together() -> None:
    require_both(Namespace(a_b=None, c=None), "a_b", "c")
    require_both(Namespace(a_b=0, c=""), "a_b", "c")
    for given in ({"a_b": None, "c": 1}, {"a_b": 1, "c": None}):
        with pytest.raises(ConfigError, match="--a-b and --c belong together"):
            require_both(Namespace(**given), "a_b", "c")
    changes = decode_changes(Namespace(beam_size=0, other=5))
    assert (changes["beam_size"], changes["length_penalty"], "other" in changes) == (0, None, False)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (BrokenPipeError(), 141, ""),
        (KeyboardInterrupt(), 130, "transduce: interrupted\n"),
        (ConfigError("decode.beam_size = 0: must be 1."), 2, "transduce: error: --beam-size 0: must be 1.\n"),
        (ConfigError("decode.top_k = 0: must be 1."), 2, "transduce: error: decode.top_k = 0: must be 1.\n"),
        (DataError("x: no such file."), 3, "transduce: error: x: no such file.\n"),
        (RecursionError(), 3, "transduce: error: an input is nested too deeply"),
        (MemoryError("12 GB"), 1, "transduce: error: not enough memory: 12 GB. Smaller batches"),
        (  # of a folder of a library that Python looks through
            OSError(errno.ENOMEM, "Cannot allocate memory", "numpy/fft"),
            1,
            "transduce: error: not enough memory: [Errno 12] Cannot allocate memory: 'numpy/fft'. Smaller batches",
        ),
        (
            UnicodeDecodeError("utf-8", b"ab\xff", 2, 3, "bad"),
            3,
            "transduce: error: an input is not utf-8 text (byte 3",
        ),
        (
            OSError(errno.ENOSPC, "No space left", "out"),
            1,
            "transduce: error: out: No space left. Make room, and run the command again.\n",
        ),
        (
            OSError(errno.EISDIR, "x", "d"),
            1,
            "transduce: error: d: this is a folder, but a file is needed; name a file",
        ),
    ],
)
def test_errors_have_one_line_and_a_code(
    error: BaseException, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(error, {"beam_size": 0, "top_k": None}) == code
    shown = capsys.readouterr().err
    assert shown.startswith(message)
    assert shown.count("\n") == bool(message)


def test_numbers_are_read_within_their_range() -> None:
    assert [whole(1, 10)(text) for text in ("1", "10")] == [1, 10]
    assert [real(0, 1, above=True)(text) for text in ("1e-9", "1")] == [1e-9, 1]
    for number, text, message in (
        (whole(1, 10), "0", "--x 0: must be a whole number from 1 to 10."),
        (whole(1, 10), "11", "--x 11: must be a whole number"),
        (whole(1, 10), "1.5", "--x 1.5: must be a whole number"),
        (real(0, 1, above=True), "0", "--x 0: must be a number greater than 0 and at most 1."),
        (real(0, 1), "nan", "--x nan: must be a number"),
        (real(0, 1), "7" * 50, f"--x {'7' * 40}…: must be"),
        (real(0, 1), "7" * 40, f"--x {'7' * 40}: must be"),
    ):
        parser = ArgumentParser()
        add_number(parser, "--x", number, "N", "a number")
        with pytest.raises(ConfigError) as caught:
            parser.parse_args(["--x", text])
        assert str(caught.value).startswith(message)
