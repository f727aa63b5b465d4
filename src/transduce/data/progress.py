"""Progress bars on standard error for work that takes more than two seconds."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, Self

_DELAY_SECONDS = 2.0


def progress_bar(label: str, total: int | None, *, unit: str, shown: bool) -> Any:
    """Returns a progress bar, with an estimate of the time left if `total` is known. It appears after two seconds."""
    if not shown:
        return _NoBar(total)
    from tqdm import tqdm  # here, since importing it is slow

    return tqdm(
        desc=label,
        total=total,
        unit=unit,
        unit_scale=total is None or total >= 1000,  # "12k"; a small total would be shown as "12.0"
        dynamic_ncols=True,
        leave=None,  # a nested bar disappears when it is done
        delay=_DELAY_SECONDS,
        mininterval=0.2 if sys.stderr.isatty() else 10.0,  # less often in a log file
    )


class _NoBar:
    """Replaces a progress bar that is not shown."""

    def __init__(self, total: int | None) -> None:
        self.initial, self.n, self.total = 0, 0, total

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, count: int = 1) -> None:
        self.n += count

    def set_postfix_str(self, text: str, refresh: bool = True) -> None:
        pass


@contextlib.contextmanager
def elapsed_time(label: str, *, shown: bool) -> Iterator[None]:
    """Shows how long the block has been running, for work of unknown length."""
    done, started = threading.Event(), time.time()

    def tick() -> None:
        if done.wait(_DELAY_SECONDS):
            return
        from tqdm import tqdm

        interval = 1.0 if sys.stderr.isatty() else 10.0
        with tqdm(desc=label, bar_format="{desc}: {elapsed}", delay=1e-9) as bar:  # not shown before it has its start
            bar.start_t = started
            bar.refresh()
            while not done.wait(interval):
                bar.refresh()

    thread = threading.Thread(target=tick, name="progress", daemon=True)
    if shown:
        thread.start()
    try:
        yield
    finally:
        done.set()
        if shown:
            thread.join()
