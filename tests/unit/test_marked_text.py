"""Texts with too much markup for one table of words."""

import pytest

from transduce.errors import DataError
from transduce.serve.marked_text import require_few_marks

_LONG = "word " * 4001


def test_a_text_may_be_long_where_it_has_paragraphs_or_no_tags() -> None:
    require_few_marks(f"<b>a</b> {_LONG}", "none")
    require_few_marks(f"<p>{_LONG}</p>", "html")
    require_few_marks(f"<p>The <b>word</b> {'word ' * 1000}</p>" * 10, "html")
    require_few_marks("{a} " * 600, "placeholders")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"<b>a</b> {_LONG}", "A text has 4,002 words with 2 tags or placeholders in one paragraph: at most 4,000"),
        ("<i>a</i> " * 500, "A text has 500 words with 1,000 tags"),
    ],
)
def test_a_long_paragraph_with_tags_is_refused(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        require_few_marks(text, "html")
