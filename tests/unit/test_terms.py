"""The licence that the card of an original declares."""

import pytest

from transduce.config.terms import ORIGINAL_CARD, licence_in


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ("---\nlicense: apache-2.0\nlanguage: en\n---\n# Model", "apache-2.0"),
        ("---\nlanguage: en\nlicence:   'cc-by-nc-4.0' \n---\n", "cc-by-nc-4.0"),
        ("---\nlicense:\nlanguage: en\n---\n", ""),  # the next line is none
        ("---\nlicense:\n- apache-2.0\n---\n", ""),
        ("# Model\nlicense: mit\n", ""),  # no front matter
        ("---\nlicense:" + " " * 1_000_000 + '""x\n---\n', "x"),  # in linear time
    ],
    ids=["plain", "quoted", "empty", "list", "no front matter", "spaces"],
)
def test_the_licence_is_what_stands_on_its_line(card: str, licence: str) -> None:
    assert licence_in({ORIGINAL_CARD: card.encode()}) == licence
