"""The points of a sweep and the page that shows them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from transduce.errors import ConfigError
from transduce.experiments.sweep.results import Axes, Comparability, Measured, Point, SweepResults, draw, render

TEXTS = Comparability("ab", "cd", "bleu", tokenized=False, lowercase=False)
RESULTS = SweepResults(
    "runs/m30k",
    TEXTS,
    "tok:13a",
    (
        Measured(Point(1, 1, 0.0), "w1", 30.0, 0.98, 1.25),
        Measured(Point(1, 4, 0.0), "w1", 31.0, 0.95, 4.0),
        Measured(Point(5, 1, 0.0), "w5", 32.0, 0.99, 1.5),
        Measured(Point(5, 4, 0.6), "w5", 33.0, None, 4.5),
    ),
)


def test_all_combinations_those_of_one_model_together() -> None:
    points = Axes((1, 5), (1, 4), (0.0, 0.6)).points()
    assert len(points) == len(set(points)) == 8
    assert [point.average for point in points] == [1, 1, 1, 1, 5, 5, 5, 5]
    assert points[1] == Point(1, 1, 0.6)


def test_the_page() -> None:
    page = render(RESULTS)
    assert "| 1 | 4 | 0 | 31.00 | 0.950 | 4.0 |" in page
    assert "| 5 | 4 | 0.6 | 33.00 |  | 4.5 |" in page
    assert "Best: 33.00 at beam 4, α 0.6, 5 checkpoints averaged." in page
    assert "- mean score by checkpoints averaged: 1: 30.50, 5: 32.50" in page
    assert "- mean score by beam size: 1: 31.00, 4: 32.00" in page
    assert "tok:13a" in page


def test_of_a_model_folder_nothing_is_said_of_averages() -> None:
    points = tuple(replace(one, point=replace(one.point, average=0)) for one in RESULTS.measured[:2])
    page = render(replace(RESULTS, measured=points))
    assert "| as it is | 4 | 0 | 31.00 |" in page
    assert "averaged." not in page
    assert "mean score by checkpoints" not in page


def test_saved_and_read_again(tmp_path: Path) -> None:
    RESULTS.save(tmp_path / "results.json")
    assert SweepResults.load(tmp_path / "results.json") == RESULTS
    for content in ("{", "[]", '{"format": 2}', '{"format": 1}'):
        (tmp_path / "results.json").write_text(content)
        with pytest.raises(ConfigError, match=r"results\.json"):
            SweepResults.load(tmp_path / "results.json")


def test_of_an_older_version_the_language_is_not_known(tmp_path: Path) -> None:
    RESULTS.save(tmp_path / "results.json")
    values = json.loads((tmp_path / "results.json").read_text())
    del values["comparability"]["language"]
    (tmp_path / "results.json").write_text(json.dumps(values))
    assert SweepResults.load(tmp_path / "results.json").comparability == replace(TEXTS, language=None)


def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw(RESULTS, tmp_path / "sweep.png")
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_with_one_beam_size_averages_share_a_panel(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    one_beam = replace(RESULTS, measured=tuple(one for one in RESULTS.measured if one.point.beam_size == 4))
    widths = []
    for name, results in (("both", RESULTS), ("one", one_beam)):
        draw(results, tmp_path / f"{name}.png")
        widths.append(int.from_bytes((tmp_path / f"{name}.png").read_bytes()[16:20]))  # of a PNG
    assert widths[0] == 2 * widths[1]
