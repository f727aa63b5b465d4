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


def test_how_much_there_may_be_in_one_paragraph() -> None:
    """4,000 words with tags; or 447 words in 894 tags, which are 399,618 words times tags, and not 401,408."""
    require_few_marks(f"<b>a</b> {'word ' * 3999}", "html")
    require_few_marks("<i>a</i> " * 447, "html")
    for text in (f"<b>a</b> {'word ' * 4000}", "<i>a</i> " * 448):
        with pytest.raises(DataError, match="in one paragraph: at most 4,000 words, and 400,000 words times tags"):
            require_few_marks(text, "html")


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
