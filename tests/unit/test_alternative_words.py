"""The words that alternatives are made of: a hyphen or an apostrophe does not end one."""

import pytest

from transduce.translation.alternatives import word_end


@pytest.mark.parametrize(
    ("text", "start", "word"),
    [
        ("ein T-Shirt.", 4, "T-Shirt"),
        ("ein T-Shirt.", 5, "-Shirt"),
        ("the dog\u2019s ball", 4, "dog\u2019s"),
        ("ein Hund - und", 4, "Hund"),
        ("ein Hund-", 4, "Hund"),
        ("ein Hund.", 8, "."),
        ("an up-to-date map", 3, "up-to-date"),
        ("ein Hund", 8, ""),
    ],
)
def test_a_word_ends_where_neither_hyphen_nor_apostrophe_continues_it(text: str, start: int, word: str) -> None:
    assert text[start : word_end(text, start)] == word
