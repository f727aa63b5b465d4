"""Processes that make the pairs of an epoch ahead, so that a GPU does not wait for them.

A process runs `worker.py`. It gets calls of methods of `Modifiers` and sends back what they return, over pipes and by
pickle. It never imports the script that trains, nor PyTorch, and it ends when its pipe is closed, however the training
ended. What a process makes is a pure function of its arguments. So where one ends early, the training makes the same.
"""

import contextlib
import os
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from transduce.config import Config
from transduce.data.store import ParallelStore

T = TypeVar("T")
_Process = subprocess.Popen[bytes]
_PROGRAM = "transduce.data.modifiers.worker"
_PATIENCE_SECONDS = 600.0  # for one call, of which most need seconds


class Owner(Protocol):
    """`Modifiers`: what a worker makes its own of."""

    config: Config
    store: ParallelStore


class LostWorkersError(Exception):
    """A worker process ended before its time."""


class Workers:
    """Worker processes, which start with the first call; `close` ends them.

    A thread waits for each call. With a count of 0, this process makes everything itself, when it is needed.
    """

    def __init__(self, modifiers: Owner, count: int = 0) -> None:
        self.count = count
        self._modifiers = modifiers
        self._lock, self._is_reported, self._is_closing = threading.Lock(), False, False
        self._threads: ThreadPoolExecutor | None = None
        self._processes: list[_Process] = []
        self._idle: SimpleQueue[_Process | LostWorkersError] = SimpleQueue()  # an error: none is left

    def submit(self, method: Callable[..., T], *arguments: Any) -> Callable[[], T]:
        """Begins a call of a method of `Modifiers`; returns what waits for its result."""
        here: Callable[[], T] = partial(method, self._modifiers, *arguments)
        if self.count == 0:
            return here
        if self._is_closing:  # a function that `run` runs goes no further
            raise LostWorkersError("are closed")
        future: Future[T] = self._started().submit(self._call, method, arguments)

        def result() -> T:
            try:
                return self._wait(future)
            except LostWorkersError as error:
                if self._is_closing:
                    raise
                self._report(error)
                return here()
            except KeyboardInterrupt:
                self.close()
                raise

        return result

    def _wait(self, future: Future[T]) -> T:
        """Returns what a call returns. If a process hangs, perhaps on a lost disk, all are ended."""
        try:
            return future.result(_PATIENCE_SECONDS)
        except TimeoutError:
            self._report(LostWorkersError(f"one did not answer for {_PATIENCE_SECONDS:.0f} seconds"))
            for process in self._processes:
                process.kill()
            return future.result()

    def run(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        """Runs a function of this process, which waits for calls, in a thread."""
        return self._started().submit(function, *arguments)

    def close(self) -> None:
        """Ends the processes, also those that are at work."""
        if self._threads is not None:
            self._is_closing = True
            self._threads.shutdown(wait=False, cancel_futures=True)
            for process in self._processes:
                process.kill()
            self._threads.shutdown()
            self._end()
            self._threads, self._is_closing = None, False

    def _started(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._threads is None:
                self._idle, self._processes = SimpleQueue(), []
                for _ in range(self.count):
                    self._start()
                if not self._processes:
                    self._idle.put(LostWorkersError("cannot be started"))
                self._end = weakref.finalize(self, _end, self._processes)
                self._threads = ThreadPoolExecutor(self.count + 1, "modifiers")  # one for `run`
            return self._threads

    def _start(self) -> None:
        paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
        alone = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        store = self._modifiers.store
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", _PROGRAM],  # -P: imports nothing from the working directory
                env=os.environ | paths | alone,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the training, which ends when its step is done
            )
        except OSError as error:
            self._report(LostWorkersError(f"cannot be started: {error.strerror}"))
            return
        self._processes.append(process)
        with contextlib.suppress(OSError):  # it has ended: its first call will say so
            _send((self._modifiers.config, store.path, store.corpora), process)
        self._idle.put(process)

    def _call(self, method: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        process = self._idle.get()
        if isinstance(process, LostWorkersError):
            self._idle.put(process)
            raise LostWorkersError(*process.args)
        assert process.stdout is not None
        try:
            _send((method, arguments), process)
            answer = pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            process.kill()
            code = process.wait()
            ended = f"signal {-code}" if code < 0 else f"exit code {code}"
            lost = LostWorkersError(f"process {process.pid} has ended ({ended})")
            with self._lock:
                if all(each.returncode is not None for each in self._processes):
                    self._idle.put(lost)
            raise lost from None
        self._idle.put(process)
        return answer

    def _report(self, error: LostWorkersError) -> None:
        """Reports once, on any rank, that the training makes pairs itself."""
        if not self._is_reported:
            self._is_reported = True
            message = f"warning: train.modifiers: the worker processes: {error}. What they do not make, the training"
            print(
                f"{message} makes itself: the same, but slower. If memory is short, lower train.num_workers.",
                file=sys.stderr,
                flush=True,
            )


def _send(message: Any, process: _Process) -> None:
    assert process.stdin is not None
    pickle.dump(message, process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
    process.stdin.flush()


def _end(processes: list[_Process]) -> None:
    for process in processes:
        process.kill()
    for process in processes:
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):  # what it did not read any more
                if pipe is not None:
                    pipe.close()
