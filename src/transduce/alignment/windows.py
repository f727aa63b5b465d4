"""Samples of consecutive lines of a corpus."""

from collections.abc import Sequence

Window = tuple[list[str], list[str]]  # consecutive lines of the source, and of the target

WINDOW_LINES = 64


class WindowSampler:
    """Samples windows from a stream of pairs, evenly spread, although the length of the stream is unknown.

    Attributes:
        windows: by the index of their first pair.
        num_pairs: number of pairs so far.
        stride: distance of the first pairs of two windows; it doubles as the stream goes on.
    """

    def __init__(self, max_windows: int) -> None:
        self.windows: dict[int, Window] = {}
        self.num_pairs = 0
        self.stride = WINDOW_LINES
        self._max_windows = max_windows

    def add(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Adds the next pairs of the stream."""
        first, end = self.num_pairs, self.num_pairs + len(pairs)
        self.num_pairs = end
        start = first // self.stride * self.stride
        while start < end:
            inside = pairs[max(start, first) - first : max(0, start + WINDOW_LINES - first)]
            if inside:
                window = self.windows.setdefault(start, ([], []))
                window[0].extend(source for source, _ in inside)
                window[1].extend(target for _, target in inside)
            if len(self.windows) > self._max_windows:
                self.stride *= 2
                self.windows = {at: window for at, window in self.windows.items() if at % self.stride == 0}
            start = (start // self.stride + 1) * self.stride

    def complete(self) -> dict[int, Window]:
        """Returns the windows, without a last one that is too short."""
        return {at: window for at, window in self.windows.items() if len(window[0]) >= WINDOW_LINES // 2}
