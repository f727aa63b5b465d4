"""The files of a run: which checkpoints are left, what a crash leaves, and how a failed write is reported."""

import math
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from transduce.config.checked_json import read_checked, write_checked
from transduce.errors import BundleError, TrainingError
from transduce.files import sha256
from transduce.training import checkpoint_writer, run_folder
from transduce.training.checkpoint_writer import CheckpointWriter
from transduce.training.checkpoints import (
    advice_not_finite,
    last_finite_checkpoint,
    prune,
    set_aside,
    set_aside_damaged,
)
from transduce.training.progress import OPTIMIZER, WEIGHTS, CheckpointKind, Progress, write_state
from transduce.training.run_folder import (
    checkpoint_path,
    checkpoints,
    load_run_data,
    remove_leftovers,
    require_run_folder,
    save_run_data,
)

REGULAR, FINAL, STOPPED = CheckpointKind.REGULAR, CheckpointKind.FINAL, CheckpointKind.RESUME_ONLY


def written(run: Path, step: int, kind: CheckpointKind = REGULAR, weight: float = 1.0, moment: float = 1.0) -> Path:
    path = checkpoint_path(run, step)
    path.mkdir(parents=True)
    for name, value in ((WEIGHTS, weight), (OPTIMIZER, moment)):
        save_file({"a": np.array([value], np.float32)}, path / name)
    write_state(path, Progress(step=step), kind, {name: sha256(path / name) for name in (WEIGHTS, OPTIMIZER)})
    return path


def steps_of(run: Path) -> list[int]:
    return [int(path.name.removeprefix("step-")) for path in checkpoints(run)]


def test_the_last_finite_checkpoint_has_finite_weights_and_moments(tmp_path: Path) -> None:
    assert last_finite_checkpoint(tmp_path) is None
    assert advice_not_finite(tmp_path) == (
        "No checkpoint with finite weights is left: begin again with a lower train.learning_rate_factor, or with "
        "train.max_gradient_norm (1.0, say)."
    )
    good = written(tmp_path, 1)
    written(tmp_path, 2, weight=math.nan)
    written(tmp_path, 3, moment=math.inf)
    damaged = written(tmp_path, 4)
    (damaged / WEIGHTS).write_bytes(b"x")
    assert last_finite_checkpoint(tmp_path) == good
    assert advice_not_finite(tmp_path).startswith(f"The last checkpoint with finite weights is {good}: continue")
    newest = written(tmp_path, 5, STOPPED)
    assert last_finite_checkpoint(tmp_path) == newest


def test_damaged_checkpoints_are_set_aside_until_enough_are_whole(tmp_path: Path) -> None:
    paths = {step: written(tmp_path, step) for step in (1, 2, 3, 4, 5)}
    written(tmp_path, 6, STOPPED, weight=math.nan)  # is not averaged: it stays
    (paths[5] / OPTIMIZER).write_bytes(b"x")
    (paths[2] / WEIGHTS).write_bytes(b"x")
    (paths[1] / WEIGHTS).write_bytes(b"x")
    earlier = paths[5].with_name("damaged-step-00000005")
    earlier.mkdir()
    (earlier / "old").touch()
    assert set_aside_damaged(tmp_path, 0) == []
    [line] = set_aside_damaged(tmp_path, 2)
    assert line.endswith(f"its checksum differs from the one in state.json. It is set aside as {earlier}.")
    assert (steps_of(tmp_path), (earlier / "old").exists()) == ([1, 2, 3, 4, 6], False)
    assert len(set_aside_damaged(tmp_path, 3)) == 2
    assert steps_of(tmp_path) == [3, 4, 6]
    assert set_aside(paths[3]).name == "damaged-step-00000003"


@pytest.mark.parametrize(
    ("keep", "kinds", "left"),
    [
        (1, {1: REGULAR, 2: REGULAR, 3: REGULAR}, [3]),
        (2, {1: REGULAR, 2: STOPPED, 3: REGULAR, 4: FINAL}, [3, 4]),
        (2, {1: REGULAR, 2: REGULAR, 3: FINAL, 4: STOPPED}, [1, 2, 4]),  # training went on from the end
        (5, {1: REGULAR, 2: STOPPED}, [1, 2]),
        (1, {}, []),
    ],
)
def test_which_checkpoints_are_kept(
    keep: int, kinds: dict[int, CheckpointKind], left: list[int], tmp_path: Path
) -> None:
    for step, kind in kinds.items():
        written(tmp_path, step, kind)
    half_removed = tmp_path / "checkpoints" / ".step-00000001.removing.part"
    half_removed.mkdir(parents=True)
    prune(tmp_path, keep)
    assert steps_of(tmp_path) == left
    assert {path.name for path in (tmp_path / "checkpoints").glob(".*")} <= {half_removed.name}


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    own = ["best", "model", "config.json", "data.json", "ancestor.json", "micro_batches.json", "metrics.jsonl"]
    own += ["quarantine.jsonl", "data/manifest.json", "data/train.arrow", "data/lines.bin", "data/dropped.jsonl"]
    own += ["checkpoints/step-00000003"]
    others = ["notes.txt", "data/mine.txt", "checkpoints/mine"]

    def temporary(name: str) -> Path:
        path = tmp_path / name
        return path.with_name(f".{path.name}.abcd1234.part")

    for name in [*own, *others]:
        temporary(name).parent.mkdir(parents=True, exist_ok=True)
        temporary(name).write_text("half")
    empty, whole = checkpoint_path(tmp_path, 4), written(tmp_path, 5)
    empty.mkdir()  # left by version 0.1.0
    remove_leftovers(tmp_path)
    assert [name for name in own if temporary(name).exists()] == []
    assert all(temporary(name).exists() for name in others)
    assert (empty.exists(), whole.exists()) == (False, True)
    remove_leftovers(tmp_path / "none")


def test_a_folder_of_other_files_is_no_run_folder(tmp_path: Path) -> None:
    require_run_folder(tmp_path / "none")
    for name in ("config.json", "micro_batches.json", "quarantine.jsonl", "metrics.jsonl", "ancestor.json", ".lock"):
        (tmp_path / name).touch()
    for name in ("data", "checkpoints", "best", "tensorboard", "model"):
        (tmp_path / name).mkdir()
    require_run_folder(tmp_path)
    for name in "cbad":
        (tmp_path / name).touch()
    with pytest.raises(TrainingError, match=rf"--output {tmp_path}: is not a run folder.*\(a, b, c, …\)"):
        require_run_folder(tmp_path)
    (tmp_path / "d").unlink()
    with pytest.raises(TrainingError, match=r"\(a, b, c\)"):
        require_run_folder(tmp_path)
    (tmp_path / "data.json").touch()
    require_run_folder(tmp_path)


# --- the data ---------------------------------------------------------------------------------------------------------


def test_a_run_knows_its_data_by_their_checksums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sums = {"train.arrow": "t", "validation.arrow": "v"}
    folder, run = tmp_path / "elsewhere", tmp_path / "run"
    folder.mkdir()
    (folder / "manifest.json").touch()
    loaded: list[Any] = []

    def load(path: Path, *, checksums: bool) -> Any:
        loaded.append((path, checksums))
        manifest = {"files": {name: {"sha256": value} for name, value in sums.items()}}
        validation = path / "validation.arrow" if "validation.arrow" in sums else None
        aligner = path / "aligner" if "aligner" in sums else None
        names = {"folder": path, "train": path / "train.arrow", "validation": validation, "aligner": aligner}
        return SimpleNamespace(manifest=manifest, tokenizer_fingerprint=fingerprint, **names)

    fingerprint = "f"
    monkeypatch.setattr(run_folder, "load_prepared", load)
    save_run_data(run, load(folder, checksums=False))
    assert read_checked(run / "data.json") == {
        "folder": str(folder),
        "train_sha256": "t",
        "validation_sha256": "v",
        "tokenizer_fingerprint": "f",
    }
    loaded.clear()
    load_run_data(run)
    load_run_data(run, checksums=False)
    assert loaded == [(folder, True), (folder, False)]
    for name in ("train.arrow", "validation.arrow"):
        monkeypatch.setitem(sums, name, "other")
        with pytest.raises(TrainingError, match=rf"was started with other data than {folder}"):
            load_run_data(run)
        monkeypatch.setitem(sums, name, name[0])
    fingerprint = "g"
    with pytest.raises(TrainingError, match="was started with other data"):
        load_run_data(run)
    fingerprint = "f"
    sums["aligner"] = "a"
    load_run_data(run)  # it was started without one, and needs none
    save_run_data(run, load(folder, checksums=False))
    sums["aligner"] = "other"
    with pytest.raises(TrainingError, match="was started with other data"):
        load_run_data(run)
    del sums["aligner"]
    del sums["validation.arrow"]
    with pytest.raises(TrainingError, match="was started with other data"):
        load_run_data(run)
    sums["validation.arrow"] = "other"
    write_checked(run / "data.json", {"folder": str(folder), "train_sha256": "t", "tokenizer_fingerprint": "f"})
    load_run_data(run)  # 0.1.0 did not note the validation data
    with pytest.raises(TrainingError, match=rf"{tmp_path}/x: has no manifest"):
        load_run_data(run, tmp_path / "x")
    write_checked(run / "data.json", {"folder": str(folder)})
    with pytest.raises(TrainingError, match="it has no 'train_sha256'"):
        load_run_data(run)
    write_checked(run / "data.json", {"folder": 3})
    with pytest.raises(TrainingError, match="'folder' is 3"):
        load_run_data(run)
    save_run_data(run, load(run / "data", checksums=False))
    assert "folder" not in read_checked(run / "data.json")


# --- the thread that writes -------------------------------------------------------------------------------------------


class Log:
    """Notes what is said however quiet a training is."""

    def __init__(self) -> None:
        self.warned: list[str] = []

    def warn(self, message: str) -> None:
        self.warned.append(message)


def writer_of(run: Path, log: Log, keep: int = 2) -> CheckpointWriter:
    model: Any = SimpleNamespace(weights=dict, named_parameters=list)
    optimizer: Any = SimpleNamespace(state={})
    return CheckpointWriter(run, keep, model, optimizer, log)  # type: ignore[arg-type]


FAULTS = [
    (OSError(28, "No space left"), "{path}: cannot be written: No space left. Make room and continue with --resume."),
    (ValueError("an accident"), "{path}: cannot be written: ValueError: an accident."),
    (BundleError("a is not finite after step 1."), "{run}: a is not finite after step 1. No checkpoint with finite"),
]


@pytest.mark.parametrize(("fault", "said"), FAULTS)
def test_a_failed_write_is_raised_or_said_beside_another_error(
    fault: Exception, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> None:
        raise fault

    monkeypatch.setattr(checkpoint_writer, "write_checkpoint", failing)
    log, path = Log(), checkpoint_path(tmp_path, 1)
    expected = said.format(path=path, run=tmp_path)
    with pytest.raises(TrainingError) as caught, writer_of(tmp_path, log) as writer:
        writer.save(path, Progress(step=1), REGULAR)
    assert str(caught.value).startswith(expected)
    assert log.warned == []
    with pytest.raises(ValueError, match="another"), writer_of(tmp_path, log) as writer:  # noqa: PT012
        writer.save(path, Progress(step=1), REGULAR)
        raise ValueError("another")
    [warned] = log.warned
    assert warned.startswith(f"warning: {expected}")
    with writer_of(tmp_path, log) as writer:
        writer.save(path, Progress(step=1), REGULAR)
        with pytest.raises(TrainingError):
            writer.wait()
        writer.check()  # it is raised once


def test_an_interruption_abandons_what_is_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    interrupted = threading.Event()

    def write(path: Path, _: Any, progress: Progress, __: Any, proceed: Any) -> None:
        if progress.step == 2:
            assert interrupted.wait(60)
        proceed()
        done.append(progress.step)

    monkeypatch.setattr(checkpoint_writer, "write_checkpoint", write)
    log, writer = Log(), writer_of(tmp_path, Log())
    with pytest.raises(KeyboardInterrupt), writer:  # noqa: PT012
        writer.save(checkpoint_path(tmp_path, 1), Progress(step=1), REGULAR)
        writer.save(checkpoint_path(tmp_path, 2), Progress(step=2), REGULAR)
        threading.Timer(0.05, interrupted.set).start()
        raise KeyboardInterrupt
    assert (done, log.warned) == ([1], [])


def test_where_a_write_fails_the_checkpoint_before_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> None:
        raise OSError(28, "No space left")

    written(tmp_path, 1)
    monkeypatch.setattr(checkpoint_writer, "write_checkpoint", failing)
    complete = r"No space left\. step-00000001 is complete: make room and continue with --resume\."
    with pytest.raises(TrainingError, match=complete), writer_of(tmp_path, Log()) as writer:
        writer.save(checkpoint_path(tmp_path, 2), Progress(step=2), REGULAR)


def test_calls_after_the_same_step_share_the_copy_and_the_best_prunes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[Any] = []
    monkeypatch.setattr(
        checkpoint_writer, "write_checkpoint", lambda path, _, progress, kind, __: jobs.append((path, progress, kind))
    )
    monkeypatch.setattr(
        checkpoint_writer, "update_progress", lambda path, progress: jobs.append((path, progress, None))
    )
    monkeypatch.setattr(checkpoint_writer, "prune", lambda *given: jobs.append(given))
    taken: list[int] = []
    progress, first = Progress(step=1), checkpoint_path(tmp_path, 1)
    place = "transduce.training.checkpoint_writer.Snapshot.take"
    monkeypatch.setattr(place, lambda _: taken.append(progress.step))
    with writer_of(tmp_path, Log(), keep=3) as writer:
        writer.save(first, progress, STOPPED)
        progress.best_step = 1  # after the call: what is written has not changed
        writer.save(tmp_path / "best", progress, CheckpointKind.BEST)
        writer.record_validation(first, progress)
        progress = Progress(step=2)
        writer.save(checkpoint_path(tmp_path, 2), progress, REGULAR)
    assert taken == [1, 2]
    assert jobs == [
        (first, Progress(step=1), STOPPED),
        (tmp_path, 3),
        (tmp_path / "best", Progress(step=1, best_step=1), CheckpointKind.BEST),
        (first, Progress(step=1, best_step=1), None),
        (checkpoint_path(tmp_path, 2), Progress(step=2), REGULAR),
        (tmp_path, 3),
    ]
