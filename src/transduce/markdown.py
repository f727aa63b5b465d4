"""Tables in Markdown."""

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, text_columns: int = 1) -> str:
    """Returns a table whose first `text_columns` columns are set left and the others, numbers, right."""
    rule = ["---" if column < text_columns else "---:" for column in range(len(header))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows)) + "\n"
