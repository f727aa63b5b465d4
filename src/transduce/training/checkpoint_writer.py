"""Writes checkpoints in a thread while training continues.

Training waits only while weights and moments are copied. There is one copy: the next one waits until the files of the
last are complete. A checkpoint gets its name when it is complete, so a kill at any moment leaves the one before.
"""

import copy
import queue
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import torch

from transduce.errors import BundleError, TrainingError
from transduce.training.checkpoints import Snapshot, advice_not_finite, prune, write_checkpoint
from transduce.training.log import TrainingLog
from transduce.training.progress import CheckpointKind, Progress, update_progress
from transduce.training.run_folder import checkpoints
from transduce.training.trainable import TrainableModel


class CheckpointWriter:
    """The checkpoints of a run; on exit, pending writes are completed, unless the process is interrupted."""

    def __init__(
        self, run: Path, keep: int, model: TrainableModel, optimizer: torch.optim.Optimizer, log: TrainingLog
    ) -> None:
        self._run, self._keep, self._log = run, keep, log
        self._snapshot = Snapshot(model, optimizer)
        self._step = -1  # of the snapshot
        self._waiting: queue.Queue[tuple[Path, Progress, CheckpointKind | None] | None] = queue.Queue()
        self._thread: threading.Thread | None = None
        self._failed: tuple[Path, Exception] | None = None
        self._is_abandoned = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None and not isinstance(error, Exception):  # Ctrl-C: at once
            self._is_abandoned = True
        self._waiting.put(None)
        if self._thread is not None:
            self._thread.join()
        if error is None:
            self.check()
        elif self._failed is not None:
            self._log.warn(f"warning: {self._error()}")

    def save(self, path: Path, progress: Progress, kind: CheckpointKind) -> None:
        """Copies weights and moments, and has them written to `path`; other calls after the same step share the copy.

        Raises:
            TrainingError: an earlier checkpoint could not be written.
        """
        if progress.step != self._step:
            self.wait()
            self._snapshot.take()
            self._step = progress.step
        self._enqueue(path, progress, kind)

    def record_validation(self, path: Path, progress: Progress) -> None:
        """Has the scores in `progress` added to the checkpoint at `path`, if there is one.

        A checkpoint is written before the validation of its weights, which may take long, or need more memory than
        there is.
        """
        self._enqueue(path, progress, None)

    def _enqueue(self, path: Path, progress: Progress, kind: CheckpointKind | None) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="checkpoints", daemon=True)
            self._thread.start()
        self._waiting.put((path, copy.deepcopy(progress), kind))

    def wait(self) -> None:
        """Waits until nothing is being written; raises as `check` does."""
        self._waiting.join()
        self.check()

    def check(self) -> None:
        """Raises TrainingError if a checkpoint could not be written."""
        if self._failed is not None:
            error, self._failed = self._error(), None
            raise error

    def _error(self) -> TrainingError:
        assert self._failed is not None
        path, error = self._failed
        if isinstance(error, BundleError):
            return TrainingError(f"{self._run}: {error} {advice_not_finite(self._run)}")
        if not isinstance(error, OSError):
            return TrainingError(f"{path}: cannot be written: {type(error).__name__}: {error}.")
        found = checkpoints(self._run)
        left = f"{found[-1].name} is complete: make" if found else "Make"
        return TrainingError(
            f"{path}: cannot be written: {error.strerror or error}. {left} room and continue with --resume."
        )

    # --- in the thread --------------------------------------------------------------------------------------------

    def _write(self) -> None:
        while (job := self._waiting.get()) is not None:
            path, progress, kind = job
            try:
                if self._failed is None and kind is None:
                    update_progress(path, progress)
                elif self._failed is None and kind is not None:
                    write_checkpoint(path, self._snapshot, progress, kind, self._proceed)
                    if kind != CheckpointKind.BEST:
                        prune(self._run, self._keep)
            except _AbandonedError:
                self._step = -1
            except Exception as error:  # the trainer raises it
                self._failed = path, error
            finally:
                self._waiting.task_done()

    def _proceed(self) -> None:
        if self._is_abandoned:
            raise _AbandonedError


class _AbandonedError(Exception):
    """The process is ending: what is half written is removed."""
