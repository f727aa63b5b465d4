"""Numbers that a translation made up, where a placeholder stood for one."""

import pytest

from text_engine import text_translator
from transduce.translation.pipeline import TextOptions
from transduce.translation.pipeline.invented_numbers import invented_numbers

EN_DE = ("en", "de-AT")


@pytest.mark.parametrize(
    ("source", "target", "languages", "expected"),
    [
        ("dogs", "fünf Hunde", EN_DE, ("fünf",)),
        ("dogs", "Fünf Hunde und 7 Katzen, fünf", EN_DE, ("7", "Fünf", "fünf")),
        ("dogs", "ein Hund", EN_DE, ()),  # an article
        ("five dogs", "fünf Hunde", EN_DE, ()),
        ("five dogs", "5 Hunde", EN_DE, ()),
        ("5 dogs", "fünf Hunde", EN_DE, ()),
        ("5 dogs", "5 Hunde", EN_DE, ()),
        ("5 dogs", "15 Hunde", EN_DE, ("15",)),
        ("1,000.5 dogs", "1.000,5 Hunde", EN_DE, ()),
        ("3 dogs", "\u0663 \u0643\u0644\u0627\u0628", ("en", "ar"), ()),  # the digit of another script
        ("1,000.5 dogs", "\u0661\u066c\u0660\u0660\u0660\u066b\u0665", ("en", "ar"), ()),
        ("3 dogs", "\u0664 \u0643\u0644\u0627\u0628", ("en", "ar"), ("\u0664",)),
        ("100,000 or 12,345,678.5", "1,00,000 या १,२३,४५,६७८.५", ("en", "hi"), ()),
        ("1,00,000", "100,001", ("hi", "en"), ("100,001",)),
        ("dogs", "5 Hunde, 5", ("", ""), ("5",)),
        ("dogs", "fünf Hunde", ("", "de"), ()),  # a dozen might have been there
        ("koiria", "fünf Hunde", ("fi", "de"), ()),
        ("dogs", "Hundert Hunde", EN_DE, ("Hundert",)),
    ],
)
def test_numbers_that_are_not_in_the_source(
    source: str, target: str, languages: tuple[str, str], expected: tuple[str, ...]
) -> None:
    assert invented_numbers(source, target, languages) == expected


@pytest.mark.parametrize("copies", [False, True])
def test_a_number_beside_a_placeholder_is_named(copies: bool) -> None:
    def model(text: str) -> str:
        return f"7 {text}" if copies else f"7 {text.replace('{count}', '')}"

    translator = text_translator(model)
    for line, named in (("{count} dogs", True), ("dogs", False), ("{count} dogs and 7 men", False)):
        [[best]] = translator.translate_n_best([line], 1, text_options=TextOptions(markup="placeholders"))
        expected = ("'7' is not in the source, and stands beside a placeholder: made up, perhaps.",) if named else ()
        assert best.warnings == expected
        assert best.text.count("{count}") == line.count("{count}")
        assert "7" in best.text  # said, and left as it is


@pytest.mark.parametrize("line", ["<b>5</b>% of {dogs}", "press <b>5</b>: {dogs}"])
def test_a_number_of_the_source_within_tags_is_not_made_up(line: str) -> None:
    translator = text_translator(str.upper)
    [[best]] = translator.translate_n_best([line], 1, text_options=TextOptions(markup="html"))
    assert (best.text, best.warnings) == (line.upper().replace("B>", "b>").replace("DOGS", "dogs"), ())
