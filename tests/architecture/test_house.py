"""What `make check` prints: lines of code, and words of new lines that could be plainer."""

import pytest

import house


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ('"""A module."""\n', 0),
        ('"""A module."""\n\n# a comment\nx = 1  # one\n', 1),
        ('def f():\n    """Of\n    two lines."""\n    return (\n        1,\n    )\n', 4),
        ('class A:\n    """A."""\n\n    x = """a\n    b"""\n', 3),
        ('x = """no docstring\n"""\n', 2),
    ],
)
def test_lines_of_code(text: str, count: int) -> None:
    assert house.lines_of_code(text) == count


def test_words_of_added_lines() -> None:
    diff = "+++ b/docs/x.md\n-It stands.\n+It is beside it, and Told.\n+Outside and understood.\n"
    assert [(file, word) for file, word, _ in house.words_in(diff)] == [("docs/x.md", "beside"), ("docs/x.md", "Told")]
