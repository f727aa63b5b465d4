"""How a text is cut that is translated while its first sentences are read."""

import pytest

from transduce.serve.cut_text import CutText
from transduce.serve.requests import TranslationRequest
from transduce.translation.pipeline import TextOptions
from transduce.translation.pipeline.text_options import Split

TEXT = "A dog runs. Two dogs run."


@pytest.mark.parametrize(
    ("split", "expected"), [("always", ["A dog runs.", "Two dogs run."]), ("never", [TEXT]), ("auto", [TEXT])]
)
def test_a_text_is_cut_where_it_would_be_split(split: Split, expected: list[str]) -> None:
    options = TextOptions(split=split)
    cut = CutText(TranslationRequest(texts=[TEXT], source="en", target="de"), options, "en")
    groups = list(cut.groups((1,)))
    assert [text for each in groups for text in each.texts] == expected
    assert all(each.text_options == TextOptions(split="auto" if split == "always" else split) for each in groups)
