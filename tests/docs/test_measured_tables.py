"""Each figure in the tables of README.md and benchmarks/README.md is that of a result file."""

import json
import re
import tomllib
from pathlib import Path

import pytest

import measured

_REPOSITORY = Path(__file__).resolve().parents[2]
_DECLARED = tomllib.loads((_REPOSITORY / "benchmarks/measured.toml").read_text(encoding="utf-8"))
_FIGURE = re.compile(r"\{[^{}]+\}")


def test_pages_show_what_the_result_files_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert measured.main(["--check"]) == 0, f"{capsys.readouterr().err}: run python benchmarks/measured.py"


@pytest.mark.parametrize("name", _DECLARED)
def test_no_figure_is_typed_by_hand(name: str) -> None:
    for label, *cells in _DECLARED[name]["rows"]:
        for cell in cells:
            prose = _FIGURE.sub("", cell)
            assert not re.search(r"\d\.\d|\d{3}", prose), f"{label}: {cell}"


def test_each_table_is_shown() -> None:
    pages = [(_REPOSITORY / page).read_text(encoding="utf-8") for page in ("README.md", "benchmarks/README.md")]
    shown = {name for page in pages for name in re.findall(r"<!-- measured: ([\w-]+) -->", page)}
    assert shown == set(_DECLARED)


def test_the_readme_has_at_most_three_tables_of_six_rows() -> None:
    names = re.findall(r"<!-- measured: ([\w-]+) -->", (_REPOSITORY / "README.md").read_text(encoding="utf-8"))
    assert len(names) <= 3
    assert all(len(_DECLARED[name]["rows"]) <= 6 for name in names)


def test_a_cell_is_filled_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = {"a": {"b": 1234.5}, "rows": [{"kind": "x", "n": 1, "s": 4.0}, {"kind": "x", "n": 2, "s": 2.0}]}
    (tmp_path / "result.json").write_text(json.dumps(result))
    monkeypatch.setattr(measured, "REPOSITORY", tmp_path)
    assert measured.filled("{result.json:a>b:,} tokens") == "1,234 tokens"
    assert measured.filled("{result.json:rows>kind=x,n=2>s:.2f} s") == "2.00 s"
    assert measured.filled("{result.json:rows>0>s ÷ rows>1>s:.1f} ×") == "2.0 ×"
    assert measured.filled("{result.json:a>b ÷ 1e3:.2f}") == "1.23"
    assert measured.filled("{result.json:a>*:.1f}") == "1234.5"
    assert measured.filled("{result.json:rows>kind=x>s:.1f}") == "3.0"  # the mean of 4 and 2
    with pytest.raises(KeyError, match="kind=y"):
        measured.filled("{result.json:rows>kind=y>s:.2f}")


def test_the_median_of_several_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = [{"system": "ours", "speed": speed} for speed in (228.0, 264.0, 262.0)]
    (tmp_path / "rounds.json").write_text(json.dumps(rounds))
    monkeypatch.setattr(measured, "REPOSITORY", tmp_path)
    assert measured.filled("{rounds.json:median system=ours>speed:,}") == "262"
    assert measured.filled("{rounds.json:median system=ours>speed ÷ 0>speed:.2f}") == "1.15"


def test_a_ratio_in_the_readme_is_the_quotient_of_the_two_figures_before_it() -> None:
    text = (_REPOSITORY / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+) \| ([\d.,]+) \| ([\d.,]+),[^|]* \| ([\d.]+) × \|$", text, re.MULTILINE)
    assert len(rows) == len(_DECLARED["speed"]["rows"])
    for work, *figures in rows:
        ours, peer, ratio = (float(figure.replace(",", "")) for figure in figures)
        expected = peer / ours if "seconds" in work else ours / peer
        rounding = sum(
            0.5 * 10 ** -len(figure.partition(".")[2]) / float(figure.replace(",", "")) for figure in figures
        )
        assert abs(ratio / expected - 1) <= rounding * 1.01, f"{work}: {ratio}, not {expected:.3f}"
