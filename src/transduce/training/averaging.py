"""Which checkpoints are averaged, and the mean of their weights (§6.1)."""

import contextlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from transduce.config import TrainConfig
from transduce.config.tensors import read_weights
from transduce.errors import BundleError
from transduce.training.progress import (
    WEIGHTS,
    Progress,
    averageable_checkpoints,
    check_checkpoint,
    read_progress,
)
from transduce.training.run_folder import checkpoint_step, checkpoints
from transduce.training.schedule import untuned_steps

_MUCH_WORSE = 0.9  # times the score of a single checkpoint: a mean below that is worse, even at a lower perplexity


def average(paths: Sequence[Path]) -> dict[str, np.ndarray]:
    """Returns the mean of the checkpoints' weights, summed in float64, one checkpoint in memory at a time.

    Raises:
        BundleError: there is nothing to average, a weight is not finite, or the checkpoints are of different models.
    """
    if not paths:
        raise BundleError("There are no checkpoints to average.")
    total: dict[str, np.ndarray] = {}
    for path in paths:
        weights = read_weights(path / WEIGHTS)
        if total and {n: w.shape for n, w in weights.items()} != {n: w.shape for n, w in total.items()}:
            raise BundleError(f"{path} is a checkpoint of another model than {paths[0]}.")
        for name, weight in weights.items():
            total[name] = total[name] + weight if name in total else weight.astype(np.float64)
    return {name: (weight / len(paths)).astype(np.float32) for name, weight in total.items()}


def tuned_checkpoints(run: Path, train: TrainConfig) -> list[Path]:
    """Returns the `averageable_checkpoints` of the steps that tune for int8; all of them before there is one."""
    found = averageable_checkpoints(run)
    return [path for path in found if checkpoint_step(path) > untuned_steps(train)] or found


def average_checkpoints(
    run: Path, last: int, train: TrainConfig, *, best: bool = False
) -> tuple[list[Progress], dict[str, np.ndarray]]:
    """Returns the progress of the checkpoints averaged and the mean of their weights.

    Averaged are the last `last` of `tuned_checkpoints`, or the one with the `best` score. If training was stopped
    before there is any, the newest checkpoint is taken, with a warning. A training that is still running may remove
    the oldest one meanwhile: the choice is then made anew.

    Raises:
        BundleError: the run has no checkpoint, or one is damaged.
    """
    paths: list[Path] = []
    while True:
        before, paths = paths, [run / "best"] if best else tuned_checkpoints(run, train)[-last:]
        if not paths and (stopped := checkpoints(run)):
            paths = stopped[-1:]
            print(f"warning: {run}: there is no regular checkpoint yet; taking {paths[0].name}", file=sys.stderr)
        if not paths or not paths[0].is_dir():
            raise BundleError(f"{run}: no {'best ' if best else ''}checkpoint to make a model of.")
        if best:
            _best_progress(run, _newest_progress(run))
        try:
            return [check_checkpoint(path) for path in paths], average(paths)
        except BundleError:
            if paths == before:  # not removed, but damaged
                raise


def compare_with_single(run: Path, metrics: Mapping[str, Any], progress: Progress, *, show: bool) -> None:
    """Prints the averaged model's validation scores next to the last checkpoint's; warns if that or the best is better.

    Args:
        run: the run folder.
        metrics: of the averaged model, RUN/model.
        progress: that of the last checkpoint.
        show: whether to print more than the warning.
    """
    singles = [(progress, "the last checkpoint alone", "--last 1")]
    with contextlib.suppress(BundleError):  # without validation data there is none; a damaged one cannot be delivered
        best = _best_progress(run, progress)
        singles.append((best, f"the best checkpoint, after step {best.step}", "--best"))
    mean = {name.removeprefix("validation_"): score for name, score in metrics.items()}
    better = []
    for single, what, option in singles:
        scores = {name: score for name, score in single.validations.items() if f"validation_{name}" in metrics}
        if not scores or metrics["averaged_steps"] == str(single.step):
            continue
        if show and single is progress:
            print(
                f"validation: {_listed(mean, scores)} by the mean of the checkpoints after steps "
                f"{metrics['averaged_steps']}; {_listed(scores, scores)} by the last one alone",
                file=sys.stderr,
            )
        by = progress.best_by if progress.best_by in scores else "perplexity"
        if _is_worse(mean, scores, by):
            better.append((-scores[by] if by == "perplexity" else scores[by], by, scores[by], what, option))
    if better:
        _, by, score, what, option = max(better)
        print(
            f"warning: {run / 'model'}: by {by.replace('_', ' ')}, this mean of checkpoints ({mean[by]:.2f}) is worse "
            f"than {what} ({score:.2f}). For a model of that one: transduce average {run} {option} --output MODEL.",
            file=sys.stderr,
        )


def _newest_progress(run: Path) -> Progress:
    """Returns the progress of the last checkpoint that can be read; where there is none, that of no step."""
    for path in reversed(checkpoints(run)):
        with contextlib.suppress(BundleError):  # damaged, or removed meanwhile
            return read_progress(path)
    return Progress()


def _best_progress(run: Path, last: Progress) -> Progress:
    """Returns the progress of RUN/best, where `last` is that of the last checkpoint.

    Raises:
        BundleError: it is missing, damaged, or of steps that a resumed training has made again with other results.
    """
    best = read_progress(run / "best")
    if best.step < last.step and best.step != last.best_step:
        raise BundleError(
            f"{run / 'best'}: has step {best.step} from before the training was resumed at an earlier checkpoint. The "
            f"best step of the training as it is now, {last.best_step}, is lost: average without --best."
        )
    return best


def _listed(scores: Mapping[str, float], names: Iterable[str]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {scores[name]:.2f}" for name in names)


def _is_worse(mean: Mapping[str, float], single: Mapping[str, float], by: str) -> bool:
    """Returns whether a mean of checkpoints is worse than a single one.

    A score of a few hundred sentences may be worse by chance. Perplexity must be worse too, or the score by a tenth.
    """
    if by != "perplexity" and mean[by] < _MUCH_WORSE * single[by]:
        return True
    names = {by, "perplexity"} & single.keys()
    return all(mean[name] > single[name] if name == "perplexity" else mean[name] < single[name] for name in names)
