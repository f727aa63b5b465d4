"""A clean stop: the first Ctrl-C or SIGTERM is remembered until the current step is done."""

import signal
import threading
from types import FrameType
from typing import Any, Self


class StopSignals:
    """Within it, the first SIGINT or SIGTERM is kept in `received`; a second one acts at once."""

    received: int | None = None

    def __enter__(self) -> Self:
        self._handlers: dict[int, Any] = {}  # those of before
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._handlers[number] = signal.signal(number, self._receive)
        return self

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self.__exit__()

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
