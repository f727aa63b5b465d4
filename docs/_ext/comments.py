"""What a dataclass's source says of each field: the comment behind it, or above it."""

import inspect
import io
import re
import tokenize

_FIELD = re.compile(r"    (\w+): [^=#\n]+")


def comments_of(kind: type) -> dict[str, str]:
    """Returns the comment of each field, empty where there is none."""
    source = inspect.getsource(kind)
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    lines = source.splitlines()
    found = {}
    for number, line in enumerate(lines, start=1):
        if (name := _FIELD.match(line)) is None:
            continue
        first = number
        while first > 1 and lines[first - 2].lstrip().startswith("#"):
            first -= 1
        found[name[1]] = comments.get(number) or " ".join(comments[above] for above in range(first, number))
    return found
