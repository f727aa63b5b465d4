"""The mean of checkpoints."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from transduce.config import TrainConfig
from transduce.errors import BundleError
from transduce.files import sha256
from transduce.training.averaging import average, average_checkpoints, compare_with_single
from transduce.training.checkpoints import prune
from transduce.training.progress import (
    OPTIMIZER,
    WEIGHTS,
    CheckpointKind,
    Progress,
    check_checkpoint,
    checkpoint_kind,
    last_progress,
    read_progress,
    update_progress,
    write_state,
)
from transduce.training.run_folder import STATE, checkpoint_path, checkpoints


def checkpoint(folder: Path, **weights: list[float]) -> Path:
    folder.mkdir()
    arrays = {name: np.array(values, np.float32) for name, values in weights.items()}
    save_file(arrays, folder / "model.safetensors")
    return folder


def test_by_hand(tmp_path: Path) -> None:
    paths = [
        checkpoint(tmp_path / "1", a=[1.0, 2.0], b=[0.5]),
        checkpoint(tmp_path / "2", a=[3.0, -2.0], b=[0.5]),
        checkpoint(tmp_path / "3", a=[5.0, 3.0], b=[2.0]),
    ]
    mean = average(paths)
    assert {name: weight.tolist() for name, weight in mean.items()} == {"a": [3.0, 1.0], "b": [1.0]}
    assert {weight.dtype for weight in mean.values()} == {np.dtype(np.float32)}


def test_one_is_itself(tmp_path: Path) -> None:
    value = np.float32(0.1)
    (only,) = average([checkpoint(tmp_path / "1", a=[float(value)])]).values()
    assert only.tolist() == [value]


def test_small_parts_are_not_lost_in_the_sum(tmp_path: Path) -> None:
    """2²⁴ + 1 is not a float32: summed in float32, each 1 would vanish."""
    paths = [checkpoint(tmp_path / "0", a=[2.0**24])]
    paths += [checkpoint(tmp_path / str(i), a=[1.0]) for i in range(1, 8)]
    assert average(paths)["a"].tolist() == [float(np.float32((2**24 + 7) / 8))]
    assert np.float32((2**24 + 7) / 8) != np.float32(2**24 / 8)


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    first = checkpoint(tmp_path / "1", a=[1.0, 2.0], b=[3.0])
    for name, other in (
        ("shape", checkpoint(tmp_path / "2", a=[1.0], b=[3.0])),
        ("missing", checkpoint(tmp_path / "3", a=[1.0, 2.0])),
        ("more", checkpoint(tmp_path / "4", a=[1.0, 2.0], b=[3.0], c=[4.0])),
    ):
        with pytest.raises(BundleError, match=rf"{other} is a checkpoint of another model than {first}"):
            average([first, other])
        assert name


def test_nothing_to_average() -> None:
    with pytest.raises(BundleError, match="no checkpoints"):
        average([])


def test_a_damaged_file(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "1", a=[1.0, 2.0])
    file = path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(BundleError, match=rf"{file}: cannot be read"):
        average([path])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_is_not_averaged(tmp_path: Path, value: float) -> None:
    paths = [checkpoint(tmp_path / "1", a=[1.0], b=[2.0]), checkpoint(tmp_path / "2", a=[1.0], b=[value])]
    with pytest.raises(BundleError, match=rf"{paths[1]}/model\.safetensors: b: 1 of 1 numbers are infinite or NaN"):
        average(paths)


def run_with(folder: Path, kinds: dict[int, CheckpointKind]) -> Path:
    """Returns a run with a checkpoint of each kind after each step; the weight of each is its step."""
    (folder / "checkpoints").mkdir()
    for step, kind in kinds.items():
        path = checkpoint(checkpoint_path(folder, step), a=[float(step)])
        save_file({}, path / OPTIMIZER)
        write_state(path, Progress(step=step), kind, {name: sha256(path / name) for name in (WEIGHTS, OPTIMIZER)})
    return folder


def test_the_end_counts_unless_training_went_on_from_there(tmp_path: Path) -> None:
    regular, end = CheckpointKind.REGULAR, CheckpointKind.FINAL
    run_with(tmp_path, {2: regular, 3: end, 4: regular, 5: end})
    found, weights = average_checkpoints(tmp_path, 4, TrainConfig())
    assert [progress.step for progress in found] == [2, 4, 5]
    assert weights["a"].tolist() == pytest.approx([(2 + 4 + 5) / 3])


def test_once_a_step_has_tuned_for_int8_only_such_checkpoints_are_averaged(tmp_path: Path) -> None:
    """Of 8 steps, the last 4 are tuned."""
    train = TrainConfig(max_steps=8, int8_tuning_steps=4)
    run_with(tmp_path, dict.fromkeys((2, 4), CheckpointKind.REGULAR))
    assert [progress.step for progress in average_checkpoints(tmp_path, 5, train)[0]] == [2, 4]
    (tmp_path / "checkpoints").rename(tmp_path / "before")
    run_with(tmp_path, dict.fromkeys((2, 4, 5, 6), CheckpointKind.REGULAR))
    found, weights = average_checkpoints(tmp_path, 5, train)
    assert ([progress.step for progress in found], weights["a"].tolist()) == ([5, 6], [5.5])
    assert [progress.step for progress in average_checkpoints(tmp_path, 1, train)[0]] == [6]


def test_checkpoints_of_stops_are_not_counted_among_those_that_are_kept(tmp_path: Path) -> None:
    regular, stopped = CheckpointKind.REGULAR, CheckpointKind.RESUME_ONLY
    run_with(tmp_path, {1: regular, 2: regular, 3: stopped, 4: regular, 5: stopped, 6: stopped})
    prune(tmp_path, 2)
    assert checkpoints(tmp_path) == [checkpoint_path(tmp_path, step) for step in (2, 4, 6)]


def test_scores_are_added_to_a_checkpoint_and_its_kind_stays(tmp_path: Path) -> None:
    kinds = {2: CheckpointKind.REGULAR, 10: CheckpointKind.RESUME_ONLY, 9: CheckpointKind.FINAL}
    run = run_with(tmp_path, kinds)
    assert (last_progress(tmp_path / "none"), last_progress(run)) == (None, Progress(step=10))
    for step, kind in kinds.items():
        path = checkpoint_path(run, step)
        update_progress(path, Progress(step=step, validations={"bleu": 9.0}))
        assert check_checkpoint(path).validations == {"bleu": 9.0}
        assert checkpoint_kind(path) == kind
    update_progress(tmp_path / "none", Progress())  # it may have been removed meanwhile
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "wrong", [{"step": -1}, {"batch": 1.5}, {"epoch": True}, {"seconds": -0.5}, {"best_score": "x"}, {"cost": {}}]
)
def test_progress_that_cannot_be_is_damaged(tmp_path: Path, wrong: dict[str, Any]) -> None:
    write_state(tmp_path, Progress(**({"step": 3, "seconds": 0.0} | wrong)), CheckpointKind.REGULAR, {})
    with pytest.raises(BundleError, match="incomplete or damaged checkpoint"):
        read_progress(tmp_path)


@pytest.mark.parametrize("name", [WEIGHTS, OPTIMIZER])
def test_both_files_of_a_checkpoint_are_compared_with_their_checksums(tmp_path: Path, name: str) -> None:
    file = checkpoint_path(run_with(tmp_path, {2: CheckpointKind.REGULAR}), 2) / name
    assert check_checkpoint(file.parent).step == 2
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    with pytest.raises(BundleError, match=f"{file}: damaged: its checksum differs"):
        check_checkpoint(file.parent)


def test_without_a_regular_checkpoint_the_newest_is_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Training ended after step 3, continued, and was stopped after step 5: neither checkpoint may be averaged."""
    run_with(tmp_path, {3: CheckpointKind.FINAL, 5: CheckpointKind.RESUME_ONLY})
    ((progress,), weights) = average_checkpoints(tmp_path, 4, TrainConfig())
    assert (progress.step, weights["a"].tolist()) == (5, [5.0])
    assert "there is no regular checkpoint yet; taking step-00000005" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("best", "recorded", "last", "is_used"),
    [
        (4, 4, 9, True),
        (9, 4, 9, True),  # stopped before the checkpoint had its score
        (12, 4, 9, True),  # a validation after the last checkpoint
        (7, 4, 9, False),  # killed after step 7, and resumed at an earlier one with other settings
    ],
)
def test_the_best_checkpoint_is_of_the_training_as_it_is_now(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], best: int, recorded: int, last: int, is_used: bool
) -> None:
    run_with(tmp_path, {best: CheckpointKind.BEST})
    checkpoint_path(tmp_path, best).rename(tmp_path / "best")
    (tmp_path / "checkpoints").rmdir()
    newest = checkpoint_path(run_with(tmp_path, {last: CheckpointKind.REGULAR}), last)
    progress = Progress(step=last, best_by="perplexity", best_step=recorded, validations={"perplexity": 9.0})
    update_progress(newest, progress)
    update_progress(tmp_path / "best", Progress(step=best, validations={"perplexity": 8.0}))
    compare_with_single(tmp_path, {"validation_perplexity": 30.0, "averaged_steps": "3, 6"}, progress, show=False)
    assert ("--best" in capsys.readouterr().err) == is_used
    if is_used:
        ((found,), weights) = average_checkpoints(tmp_path, 4, TrainConfig(), best=True)
        assert (found.step, weights["a"].tolist()) == (best, [float(best)])
    else:
        with pytest.raises(BundleError, match="best: has step 7 from before the training was resumed"):
            average_checkpoints(tmp_path, 4, TrainConfig(), best=True)


def test_a_damaged_last_checkpoint_does_not_refuse_the_best(tmp_path: Path) -> None:
    run_with(tmp_path, {2: CheckpointKind.REGULAR, 4: CheckpointKind.BEST, 6: CheckpointKind.REGULAR})
    checkpoint_path(tmp_path, 4).rename(tmp_path / "best")
    (checkpoint_path(tmp_path, 6) / STATE).write_text("{")
    assert average_checkpoints(tmp_path, 4, TrainConfig(), best=True)[1]["a"].tolist() == [4.0]


@pytest.mark.parametrize(
    ("bleu", "perplexity", "warns"), [(16.0, 9.0, True), (16.0, 8.0, False), (18.0, 9.0, False), (18.0, 8.0, False)]
)
def test_a_score_alone_may_be_worse_by_chance(
    bleu: float, perplexity: float, warns: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = Progress(step=9, best_by="bleu", validations={"bleu": 17.0, "perplexity": 8.5, "step": 9.0})
    metrics = {"validation_bleu": bleu, "validation_perplexity": perplexity, "averaged_steps": "3, 6, 9"}
    compare_with_single(Path("run"), metrics, progress, show=False)
    assert ("by bleu, this mean of checkpoints (16.00) is worse" in capsys.readouterr().err) == warns


@pytest.mark.parametrize(
    ("mean", "last", "best", "advice"),
    [
        (
            (11.2, 30.0),
            (11.0, 31.0),
            (14.8, 25.0),
            "the best checkpoint, after step 4 (14.80). For a model of that one",
        ),
        ((11.2, 20.0), (11.0, 31.0), (14.8, 25.0), "--best --output"),  # far worse, whatever its perplexity
        ((14.0, 20.0), (11.0, 31.0), (14.8, 25.0), ""),  # by chance, perhaps
        ((14.0, 30.0), (14.5, 24.0), (14.8, 25.0), "--best --output"),
        ((14.0, 30.0), (14.5, 24.0), (14.2, 25.0), "--last 1 --output"),  # the best by another beam size, say
    ],
)
def test_the_mean_is_compared_with_the_best_checkpoint_too(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    mean: tuple[float, float],
    last: tuple[float, float],
    best: tuple[float, float],
    advice: str,
) -> None:
    """Each has BLEU and perplexity."""

    def progress(step: int, bleu: float, perplexity: float) -> Progress:
        scores = {"bleu": bleu, "perplexity": perplexity, "step": step}
        return Progress(step=step, best_by="bleu", best_step=4, validations=scores)

    (tmp_path / "best").mkdir()
    write_state(tmp_path / "best", progress(4, *best), CheckpointKind.BEST, {})
    for steps in ("3, 6, 9", "9"):  # also where the last checkpoint alone is the model
        if steps == "9" and "--last" in advice:
            continue
        metrics = {"validation_bleu": mean[0], "validation_perplexity": mean[1], "averaged_steps": steps}
        compare_with_single(tmp_path, metrics, progress(9, *last), show=False)
        said = capsys.readouterr().err
        assert said.count("warning") == bool(advice)
        assert advice in said


def test_models_are_compared_by_the_measure_of_the_training_now(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The best one was chosen by its perplexity, before the training was resumed with another measure."""
    (tmp_path / "best").mkdir()
    scores = {"bleu": 14.8, "perplexity": 25.0, "step": 4.0}
    best = Progress(step=4, best_by="perplexity", validations=scores)
    write_state(tmp_path / "best", best, CheckpointKind.BEST, {})
    scores = {"bleu": 13.0, "perplexity": 31.0, "step": 9.0}
    last = Progress(step=9, best_by="bleu", best_step=4, validations=scores)
    metrics = {"validation_bleu": 14.0, "validation_perplexity": 30.0, "averaged_steps": "3, 6, 9"}
    compare_with_single(tmp_path, metrics, last, show=True)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == (
        "validation: bleu 14.00, perplexity 30.00 by the mean of the checkpoints after steps 3, 6, 9; bleu 13.00, "
        "perplexity 31.00 by the last one alone"
    )
    assert (
        "by bleu, this mean of checkpoints (14.00) is worse than the best checkpoint, after step 4 (14.80)" in said[1]
    )


@pytest.mark.parametrize(
    ("last", "best", "advice"),
    [
        (24.0, 22.0, "(22.00). For a model of that one: transduce average {run} --best --output"),
        (22.0, 24.0, "--last 1 --"),
    ],
)
def test_of_two_better_checkpoints_the_one_of_the_lowest_perplexity_is_named(
    last: float, best: float, advice: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "best").mkdir()
    write_state(
        tmp_path / "best", Progress(step=4, validations={"perplexity": best, "step": 4.0}), CheckpointKind.BEST, {}
    )
    metrics = {"validation_perplexity": 30.0, "averaged_steps": "3, 6, 9"}
    progress = Progress(step=9, best_by="perplexity", best_step=4, validations={"perplexity": last, "step": 9.0})
    compare_with_single(tmp_path, metrics, progress, show=False)
    said = capsys.readouterr().err
    assert "by perplexity, this mean of checkpoints (30.00) is worse than" in said
    assert advice.format(run=tmp_path) in said
