"""A stream of lines, some at a time."""

from collections.abc import Iterable, Iterator

# A window ends when it has this many characters, whatever the number of its lines: long ones must not fill the memory.
_WINDOW_CHARACTERS = 1 << 22


def windows(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    """Yields lists of at most `size` lines, in order; lists of very long lines are shorter."""
    chunk: list[str] = []
    characters = 0
    for line in lines:
        chunk.append(line)
        characters += len(line)
        if len(chunk) == size or characters >= _WINDOW_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk
