"""The points of a sweep and the page that shows them."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from noted_calls import Noting
from transduce import files
from transduce.bundle import Bundle
from transduce.config import Config, DataConfig
from transduce.errors import BundleError, ConfigError
from transduce.evaluation import Text
from transduce.experiments.sweep import sweep
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


def test_the_page() -> None:
    page = render(RESULTS)
    assert "| 1 | 4 | 0 | 31.00 | 0.950 | 4.0 |" in page
    assert "| 5 | 4 | 0.6 | 33.00 |  | 4.5 |" in page
    assert "Best: 33.00 at beam 4, α 0.6, 5 checkpoints averaged." in page
    assert "- mean score by checkpoints averaged: 1: 30.00, 5: 32.00" in page  # beam 1, α 0: what both have
    assert "- mean score by beam size: 1: 30.00, 4: 31.00" in page  # 1 checkpoint, α 0
    assert "- mean score by length penalty" not in page  # no other settings were measured with both
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


# --- the weights of a point -------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path, noting: Noting) -> Path:
    """Returns a run whose checkpoints 1, 2 and 3 may be averaged."""
    paths = [tmp_path / "run" / "checkpoints" / str(number) for number in (1, 2, 3)]
    paths[0].mkdir(parents=True)
    noting((sweep, "tuned_checkpoints"), paths)
    noting((sweep, "subject_config"), Config())
    return tmp_path / "run"


def test_weights_of_a_run_are_told_by_the_checksums_of_its_last_checkpoints(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums = {"1": "a", "2": "b", "3": "c"}
    monkeypatch.setattr(sweep, "recorded_checksum", lambda path: sums[path.name])
    paths, two = sweep._weights(run, 2)
    assert [path.name for path in paths] == ["2", "3"]
    assert two == hashlib.sha256(b"b\nc").hexdigest()
    assert len(sweep._weights(run, 3)[0]) == 3
    with pytest.raises(BundleError, match="has 3 checkpoints, 4 are to be averaged"):
        sweep._weights(run, 4)
    with pytest.raises(ConfigError, match="is not a run folder"):
        sweep._weights(run.parent, 1)
    found = sweep._current_weights(run, [2, 4])
    assert found == {2: two, 4: None}
    sums["1"] = "x"
    assert sweep._current_weights(run, [2]) == {2: two}
    sums["3"] = "x"
    assert sweep._current_weights(run, [2]) != {2: two}


def test_a_point_of_a_run_is_decoded_with_the_mean_of_its_checkpoints(
    run: Path, noting: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "recorded_checksum", lambda path: path.name)
    config: Any = SimpleNamespace(model="shape", decode="search")
    noting((sweep, "load_run_config"), config)
    data = noting((sweep, "load_run_data"), SimpleNamespace(tokenizer="t"))
    means = noting((sweep, "average"), {"a": 1})
    made = noting(
        "transduce.experiments.sweep.sweep.Transformer.from_weights", SimpleNamespace(to=lambda device: device)
    )
    tokenizer = SimpleNamespace(target=SimpleNamespace(tags={"<2de>": 7}))
    tokenizers = noting((sweep, "load_tokenizer"), tokenizer)
    engines = noting((sweep, "TorchEngine"), "engine")
    translators = noting((sweep, "Translator"), "translator")
    found, weights = sweep._translator(run, 2, "cpu")
    assert (found, weights) == ("translator", hashlib.sha256(b"2\n3").hexdigest())  # type: ignore[comparison-overlap]
    assert [path.name for path in means[0][0][0]] == ["2", "3"]
    assert made == [(("shape", {"a": 1}, str(run)), {})]
    assert data == [((run,), {"checksums": False})]
    assert tokenizers == [(("t",), {})]
    [(_, options)] = engines
    assert list(options["tags"]) == [7], "which no output holds, as with the model folder of the run"
    assert translators == [(("engine", tokenizer, "search", Bundle(run, config, {})), {})], "whose languages it knows"


def test_a_parser_is_refused(tmp_path: Path, noting: Noting) -> None:
    noting((sweep, "subject_config"), Config(data=DataConfig(format="trees")))
    text = Text("lines", ["a"])
    with pytest.raises(ConfigError, match=r"wsj: this model is a parser\."):
        sweep.sweep(Path("wsj"), sweep.Task(text, [text]), Axes((0,), (1,), (0.0,)), tmp_path)


def test_one_sweep_at_a_time_writes_to_a_folder(tmp_path: Path, noting: Noting) -> None:
    noting((sweep, "subject_config"), Config())
    text, axes = Text("lines", ["a"]), Axes((), (1,), (0.0,))
    with files.exclusive(tmp_path), pytest.raises(ConfigError, match="another sweep is at work here"):
        sweep.sweep(Path("run"), sweep.Task(text, [text]), axes, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is a file; name a folder"):
        sweep.sweep(Path("run"), sweep.Task(text, [text]), axes, tmp_path / "file")


def test_results_of_other_texts_or_settings_are_refused(tmp_path: Path, noting: Noting) -> None:
    config = SimpleNamespace(data=SimpleNamespace(target_language="de"))
    noting((sweep, "subject_config"), config)
    RESULTS.save(tmp_path / "results.json")
    same = sweep._begin(Path("runs/m30k"), TEXTS, tmp_path)
    assert same == RESULTS
    for subject, texts in (
        ("runs/other", TEXTS),
        ("runs/m30k", replace(TEXTS, metric="chrf")),
        ("runs/m30k", replace(TEXTS, source_sha256="x")),
        ("runs/m30k", replace(TEXTS, lowercase=True)),
    ):
        with pytest.raises(ConfigError, match=rf"{tmp_path}: holds scores of other settings"):
            sweep._begin(Path(subject), texts, tmp_path)
    paper = replace(TEXTS, metric="bleu-paper", language=None)  # of an older version: the model's language
    replace(RESULTS, comparability=paper).save(tmp_path / "results.json")
    sweep._begin(Path("runs/m30k"), replace(paper, language="de"), tmp_path)
    with pytest.raises(ConfigError, match="language was 'de', now 'fr'"):
        sweep._begin(Path("runs/m30k"), replace(paper, language="fr"), tmp_path)
    replace(RESULTS, comparability=replace(TEXTS, language=None)).save(tmp_path / "results.json")
    sweep._begin(Path("runs/m30k"), TEXTS, tmp_path)  # it does not matter to BLEU of words as they are


def test_points_are_written_in_order_with_the_table(tmp_path: Path) -> None:
    results = sweep._begin(Path("runs/m30k"), TEXTS, tmp_path)
    for one in reversed(RESULTS.measured):
        results = results.with_point(one, "tok:13a")
    sweep._save(results, tmp_path)
    assert SweepResults.load(tmp_path / "results.json") == RESULTS
    assert (tmp_path / "table.md").read_text() == render(RESULTS)
    current = results.current({1: "w1", 5: "other", 9: None})
    assert [point.average for point in current.points] == [1, 1]
    assert current.current({1: None}).measured == ()
