"""The program of a worker process: it answers calls of methods of `Modifiers` until its input ends."""

import os
import pickle
import signal
import sys
import threading
import traceback
from queue import SimpleQueue
from typing import IO, Any

from transduce.data.modifiers.modified import Modifiers
from transduce.data.store import ParallelStore


def main() -> None:
    """Reads the configuration and the store, and then one call after the other."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the training decides when it ends
        signal.signal(number, signal.SIG_IGN)
    output, sys.stdout = sys.stdout.buffer, sys.stderr
    calls: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_receive, args=(sys.stdin.buffer, calls), daemon=True).start()
    try:
        config, path, corpora = calls.get()
        modifiers = Modifiers.of(config, ParallelStore.open(path, corpora))
        while True:
            method, arguments = calls.get()
            pickle.dump(method(modifiers, *arguments), output, protocol=pickle.HIGHEST_PROTOCOL)
            output.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)  # the thread still reads


def _receive(stream: IO[bytes], calls: "SimpleQueue[Any]") -> None:
    """Reads calls while others are answered, and so notices at once that the training has ended, even by a kill."""
    while True:
        try:
            calls.put(pickle.load(stream))
        except (EOFError, OSError, pickle.UnpicklingError):
            os._exit(0)


if __name__ == "__main__":
    main()
