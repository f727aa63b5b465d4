"""Windows: consecutive lines of a stream, which are translated together."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from transduce.config.ranges import Range, require_within
from transduce.errors import DataError
from transduce.translation.constraints.line_constraints import Constraints

# A window ends at this many characters, however few lines it has, so that long lines do not fill the memory.
_WINDOW_CHARACTERS = 1 << 22


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive lines."""

    first: int  # the number of the first line, from 1
    lines: Sequence[str]
    constraints: Sequence[Constraints] | None = None  # one for each line
    origin: str = ""  # what line numbers in errors begin with, such as "test.en, "

    def name(self, index: int) -> str:
        """Returns the name of a line for messages, such as "test.en, line 7"."""
        return f"{self.origin}line {self.first + index}"

    def constraints_of(self, index: int) -> Constraints:
        """Returns the constraints of a line."""
        return Constraints() if self.constraints is None else self.constraints[index]


def cut_windows(
    lines: Iterable[str],
    size: int,
    constraints: Iterable[Constraints] | None = None,
    *,
    first: int = 1,
    origin: str = "",
) -> Iterator[Window]:
    """Yields windows of at most `size` lines, in order; `constraints` are read alongside.

    Of the lines of an open file, the line break at their end is left out.

    Raises:
        ConfigError: `size` is no number of lines.
        DataError: there are fewer constraints than lines.
        TypeError: a line is no string.
    """
    require_within(size, "window", int, Range(1, 10_000_000))
    unread = None if constraints is None else iter(constraints)
    for chunk in _chunks(_strings(lines), size):
        of_chunk = None if unread is None else list(islice(unread, len(chunk)))
        if of_chunk is not None and len(of_chunk) < len(chunk):
            last = first + len(of_chunk) - 1
            raise DataError(f"{origin}line {last + 1}: there are constraints up to line {last} only.")
        yield Window(first, chunk, of_chunk, origin)
        first += len(chunk)


def _strings(lines: Iterable[str]) -> Iterator[str]:
    is_file = hasattr(lines, "readline")
    for line in lines:
        if not isinstance(line, str):
            raise TypeError("Give lines that are str each: a file is opened as text, not as bytes.")
        yield line.removesuffix("\n") if is_file else line


def _chunks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    chunk: list[str] = []
    num_characters = 0
    for line in lines:
        chunk.append(line)
        num_characters += len(line)
        if len(chunk) == size or num_characters >= _WINDOW_CHARACTERS:
            yield chunk
            chunk, num_characters = [], 0
    if chunk:
        yield chunk
