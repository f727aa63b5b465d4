"""What a trial of an ablation and a point of a sweep are measured by, and which results are kept."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from noted_calls import Noting
from transduce import files
from transduce.config import Config, DataConfig, apply_settings, preset
from transduce.errors import DataError
from transduce.evaluation import Text
from transduce.experiments.ablation import ablate, worker
from transduce.experiments.ablation.grid import Grid, Row, constant
from transduce.experiments.ablation.results import TrialResult
from transduce.experiments.ablation.source import training_source
from transduce.experiments.ablation.trials import Ablation
from transduce.experiments.sweep import sweep as sweeping
from transduce.experiments.sweep.results import Axes, Measured, Point, SweepResults
from transduce.experiments.sweep.sweep import Task, sweep
from transduce.translation.pipeline import TextOptions


def test_a_trial_is_measured_by_its_own_search_on_all_pairs(noting: Noting) -> None:
    config = apply_settings(preset("tiny"), ["decode.beam_size=3", "train.device=cpu", "train.validate_beam_size=1"])
    metrics = {"validation_perplexity": 4.5, "target_tokens_seen": 90, "steps": 7, "training_seconds": 2.0}
    bundle = SimpleNamespace(config=config, metrics=metrics | {"training_flops": 11}, tokenizer="tokenizer")
    noting("transduce.experiments.ablation.worker.Bundle.load", bundle)
    prepared = SimpleNamespace(validation="v", train="t", folder=Path("d"))
    loaded = noting((worker, "load_prepared"), prepared)
    noting((worker, "data_folder"), Path("d"))

    class Store:
        source_lengths, target_lengths = np.array([100] * 700), np.array([10, 20])

        def __len__(self) -> int:
            return len(self.source_lengths)

    store = Store()
    noting("transduce.experiments.ablation.worker.ParallelStore.open", store)
    model = SimpleNamespace(num_parameters=5)
    noting((worker, "load_model"), SimpleNamespace(eval=lambda: model))
    scorers = noting((worker, "bleu_scorer"), lambda found: {"bleu": 9.0} if found is model else {})
    result = worker.measure(Path("run"), "A1", 2, "metric")  # type: ignore[arg-type]
    assert vars(result) == {
        "row": "A1",
        "seed": 2,
        "perplexity": 4.5,
        "bleu": 9.0,
        "parameters": 5,
        "steps": 7,
        "epochs": 3.0,  # 90 target tokens seen, of 30
        "training_seconds": 2.0,
        "training_flops": 11,
        "training_flops_estimate": None,
        "error": "",
        "source": "",
    }
    [((searched, tokenizer, validation), further)] = scorers
    assert (searched.train.validate_beam_size, searched.train.validate_bleu_sentences) == (3, 700)
    assert (tokenizer, validation, further) == ("tokenizer", store, {"metric": "metric"})
    assert loaded == [((Path("d"),), {"checksums": False})]
    prepared.validation = None
    with pytest.raises(DataError, match="has no validation data"):
        worker.measure(Path("run"), "A1", 2, "metric")  # type: ignore[arg-type]


@pytest.fixture
def base(tmp_path: Path) -> Config:
    return apply_settings(
        preset("tiny"), ["data.train=[['a','b']]", "data.validation=['c','d']", f"data.folder={tmp_path}"]
    )


@pytest.mark.parametrize(
    ("signal", "tokenized", "paper", "code"),
    [(None, True, False, 0), (None, False, True, 0), (15, False, False, 143)],
)
def test_the_process_of_a_trial_trains_and_measures_what_its_request_says(
    signal: int | None, tokenized: bool, paper: bool, code: int, base: Config, tmp_path: Path, noting: Noting
) -> None:
    corpora = '[{files=["a", "b"], source_language="en", target_language="de"}]'  # the recipe itself names none
    base = apply_settings(base, ["data.train=[]", f"data.corpora={corpora}"])
    ablation = Ablation(GRID, base, tmp_path, tokenized=tokenized, paper_bleu=paper)
    trial = ablation.trials()[1]
    trial.write_request()
    noting((worker, "_stop_with_starter"))
    trained = noting((worker, "train"), SimpleNamespace(signal=signal))
    metrics = noting((worker, "bleu_metric"), "metric")
    measured = noting((worker, "measure"), TrialResult("wide", 1, 4.0, 30.0))
    assert worker.main(trial.folder) == code
    [((config, folder), options)] = trained
    assert (config, folder) == (trial.config, trial.folder)
    assert options["resume"] is True
    assert options["data"].resolve() == trial.data.resolve()
    if signal is not None:
        assert (metrics, measured, trial.done) == ([], [], False)
        return
    assert metrics == [(("de",), {"tokenized": tokenized, "in_paper_way": paper})]
    assert measured == [((trial.folder, "wide", 1, "metric"), {})]
    assert json.loads((trial.folder / "result.json").read_text()) == asdict(
        TrialResult("wide", 1, 4.0, 30.0, source=training_source())
    )
    assert worker.main(trial.folder) == 0
    assert len(trained) == 1  # there is a result already


GRID = Grid("mine", (Row("base", constant({})), Row("wide", constant({"model": {"d_ff": 512}}))))


@pytest.mark.parametrize(("code", "ended"), [(1, "exit code 1"), (-9, "ended by signal 9")])
def test_a_failed_trial_says_how_it_ended_and_what_it_said_last(
    code: int, ended: str, base: Config, tmp_path: Path
) -> None:
    trial = Ablation(GRID, base, tmp_path).trials()[0]
    trial.folder.mkdir(parents=True)
    log = trial.folder / "log.txt"
    log.write_text("begins\nno memory \n\n")
    assert ablate._failure(trial, code) == f"{ended}; it last said: no memory ({log})"
    log.write_text("\n")
    assert ablate._failure(trial, code) == f"{ended}; it last said: nothing ({log})"


def test_the_words_of_a_file_make_other_data(base: Config, tmp_path: Path) -> None:
    grid = Grid("words", tuple(Row(f"row{name}", constant({"init": {"words_file": name}})) for name in ("", "a", "b")))
    folders = {trial.data for trial in Ablation(grid, apply_settings(base, ["init.model=m"]), tmp_path).trials()}
    assert len(folders) == 3


def test_progress_of_an_ablation_has_the_time_left(
    base: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each training takes a minute; the second one fails."""
    clock = 0.0
    prepared: list[Any] = []

    def run(waiting: Any, jobs: int) -> Any:
        nonlocal clock
        for number, trial in enumerate(waiting):
            clock += 60.0
            trial.folder.mkdir(parents=True, exist_ok=True)
            (trial.folder / "log.txt").write_text("no memory\n")
            if number != 1:
                result = TrialResult(trial.row, trial.seed, 4.0, 30.0, steps=1200, training_seconds=90.0)
                files.write_json(trial.folder / "result.json", asdict(result))
            yield trial, int(number == 1)

    def prepare(trials: Any, *given: Any) -> dict[Path, str]:
        prepared.append((len(trials), given))
        return {}

    monkeypatch.setattr(ablate, "_run", run)
    monkeypatch.setattr(ablate, "_prepare_data", prepare)
    monkeypatch.setattr(ablate, "time", SimpleNamespace(monotonic=lambda: clock))
    pictures: list[Any] = []
    monkeypatch.setattr(ablate, "draw", lambda *given: pictures.append(given))
    ablation = Ablation(GRID, base, tmp_path / "out", num_seeds=2)
    results = ablate.ablate(ablation, jobs=3, mirror=Path("w"))
    assert [(each.row, each.seed, bool(each.error)) for each in results.trials] == [
        ("base", 1, False),
        ("base", 2, False),
        ("wide", 1, True),
        ("wide", 2, False),
    ]
    log = tmp_path / "out" / "runs" / "wide-seed1" / "log.txt"
    figures = "perplexity 4.000, BLEU 30.00, 1,200 steps in 1.5 minutes"
    assert capsys.readouterr().err.splitlines() == [
        "4 trainings, 0 of them done, 3 at a time",
        f"[1/4] base, seed 1: {figures}; about 3 minutes left",
        f"[2/4] wide, seed 1: failed: exit code 1; it last said: no memory ({log}); about 2 minutes left",
        f"[3/4] base, seed 2: {figures}; about 1 minute left",
        f"[4/4] wide, seed 2: {figures}; about 0 minutes left",
    ]
    assert pictures == [(results, tmp_path / "out" / "rows.png")]
    ablate.ablate(ablation, ["base"], show_progress=False)
    assert prepared == [(4, (Path("w"), True)), (0, (None, False))]
    ablate.ablate(ablation)
    assert capsys.readouterr().err.splitlines()[0] == "4 trainings, 3 of them done, 1 at a time"


# --- a sweep ----------------------------------------------------------------------------------------------------------

TASK = Task(Text("s", ["a", "b"]), [Text("r", ["x", "y"])])


class Sweep:
    """Fakes of what a sweep asks for: weights by the number of checkpoints, and the score of each point."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.weights = {0: "w0", 1: "w1", 5: "w5"}
        self.measured: list[Any] = []
        self.loaded: list[Any] = []
        config = SimpleNamespace(data=DataConfig())
        monkeypatch.setattr(sweeping, "subject_config", lambda _: config)
        monkeypatch.setattr(sweeping, "_weights", lambda _, count: ([], self.weights[count]))
        monkeypatch.setattr(sweeping, "draw", lambda *_: None)
        monkeypatch.setattr(sweeping, "_translator", self.load)
        monkeypatch.setattr(sweeping, "_measure", self.measure)

    def load(self, subject: Path, count: int, device: str) -> tuple[str, str]:
        self.loaded.append((subject, count, device))
        return "translator", self.weights[count]

    def measure(self, _: Any, task: Task, point: Point, weights: str, batch_size: int | None) -> Any:
        self.measured.append((point, batch_size))
        return Measured(point, weights, float(len(self.measured)), 1.0, 2.0), "signature"


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Sweep:
    return Sweep(monkeypatch)


def points_of(results: SweepResults) -> list[tuple[Any, ...]]:
    return [(*vars(one.point).values(), one.weights, one.score) for one in results.measured]


def test_greedy_search_is_measured_once_for_each_model(
    fakes: Sweep, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    axes = Axes((5, 1), (1, 4), (0.0, 0.6))
    results = sweep(Path("run"), TASK, axes, tmp_path, device="cpu", batch_size=9)
    assert fakes.loaded == [(Path("run"), 5, "cpu"), (Path("run"), 1, "cpu")]
    assert fakes.measured == [
        (Point(5, 1, 0.0), 9),
        (Point(5, 4, 0.0), 9),
        (Point(5, 4, 0.6), 9),
        (Point(1, 1, 0.0), 9),
        (Point(1, 4, 0.0), 9),
        (Point(1, 4, 0.6), 9),
    ]
    assert points_of(results) == [
        (1, 1, 0.0, "w1", 4.0),
        (1, 1, 0.6, "w1", 4.0),
        (1, 4, 0.0, "w1", 5.0),
        (1, 4, 0.6, "w1", 6.0),
        (5, 1, 0.0, "w5", 1.0),
        (5, 1, 0.6, "w5", 1.0),
        (5, 4, 0.0, "w5", 2.0),
        (5, 4, 0.6, "w5", 3.0),
    ]
    assert results.signature == "signature"
    assert "5 averaged, beam 4, length penalty 0.6: 3.00 in 2.0 s\n" in capsys.readouterr().err
    again = sweep(Path("run"), TASK, axes, tmp_path, show_progress=False)
    assert (again, len(fakes.measured), len(fakes.loaded)) == (results, 6, 2)


def test_points_of_other_weights_are_decoded_again(
    fakes: Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep(Path("run"), TASK, Axes((1, 5), (2,), (0.0,)), tmp_path)
    fakes.weights[5] = "new"
    capsys.readouterr()
    results = sweep(Path("run"), TASK, Axes((1,), (2,), (0.0,)), tmp_path)
    assert points_of(results) == [(1, 2, 0.0, "w1", 1.0)]
    assert "1 points were decoded with weights that run no longer has: dropped" in capsys.readouterr().err
    found = iter(["new", "newer"])  # the run was trained further between the two looks at it

    def load(subject: Path, count: int, device: str) -> tuple[str, str]:
        return "translator", next(found)

    monkeypatch.setattr(sweeping, "_translator", load)
    fakes.weights[5] = "new"
    sweep(Path("run"), TASK, Axes((5,), (2,), (0.0,)), tmp_path)
    results = sweep(Path("run"), TASK, Axes((5,), (2, 4), (0.0,)), tmp_path)
    assert [(one.point.beam_size, one.weights) for one in results.measured if one.point.average == 5] == [
        (2, "newer"),
        (4, "newer"),
    ]


def test_a_point_is_decoded_with_its_own_search(noting: Noting) -> None:
    asked: list[Any] = []

    def translate(lines: Any, **options: Any) -> list[str]:
        asked.append((lines, options))
        return ["x", "z"]

    evaluation = SimpleNamespace(scores={"chrf": SimpleNamespace(value=7.0, length_ratio=0.5, signature="sig")})
    scored = noting((sweeping, "evaluate"), evaluation)
    task = replace(TASK, metric="chrf", tokenized=True, lowercase=True, language="de", target="fr", domain="law")
    translator: Any = SimpleNamespace(translate=translate)
    measured, signature = sweeping._measure(translator, task, Point(1, 4, 0.3), "w1", 9)
    directed = TextOptions(target="fr", domain="law")
    options = {"beam_size": 4, "length_penalty": 0.3, "batch_size": 9, "text_options": directed}
    assert asked == [(["a", "b"], options)]
    assert (replace(measured, seconds=0.0), signature) == (Measured(Point(1, 4, 0.3), "w1", 7.0, 0.5, 0.0), "sig")
    [((text, references), further)] = scored
    assert (text.lines, references) == (["x", "z"], task.references)
    assert further == {"metrics": ["chrf"], "language": "de", "tokenized": True, "lowercase": True}


def test_what_scores_must_share_to_be_compared() -> None:
    plain = TASK.comparability
    changes: dict[str, Any] = {"metric": "chrf", "tokenized": True, "lowercase": True, "target": "fr", "domain": "law"}
    changes |= {"source": Text("s", ["a", "c"]), "references": [Text("r", ["x", "z"])]}
    for key, value in changes.items():
        assert replace(TASK, **{key: value}).comparability != plain, key
    assert replace(TASK, language="de").comparability == plain
    paper = replace(TASK, metric="bleu-paper", language="de")
    assert (paper.comparability.language, replace(paper, tokenized=True).comparability.language) == ("de", "")
    assert replace(paper, language="fra_Latn").comparability == replace(paper, language="fr").comparability


def test_the_best_of_equal_points_is_the_first() -> None:
    one, other = (Measured(Point(1, size, 0.0), "w", 3.0, None, 1.0) for size in (1, 4))
    assert SweepResults("m", TASK.comparability, "", (one, other)).best is one
    assert SweepResults("m", TASK.comparability, "", (one, replace(other, score=3.1))).best.point.beam_size == 4


def test_the_default_number_of_checkpoints_is_that_of_the_recipe_where_there_are_so_many(
    tmp_path: Path, noting: Noting
) -> None:
    config = apply_settings(preset("tiny"), ["train.average_last=3"])
    noting((sweeping, "subject_config"), config)
    assert sweeping.default_averages(tmp_path) == (0,)
    for step, expected in enumerate((1, 2, 3, 3), start=1):
        checkpoint = tmp_path / "checkpoints" / f"step-{step:08}"
        checkpoint.mkdir(parents=True)
        (checkpoint / "model.safetensors").touch()
        assert sweeping.default_averages(tmp_path) == (expected,)
    (tmp_path / "model.safetensors").touch()
    assert sweeping.default_averages(tmp_path) == (0,)
