"""Warnings that a score may mislead: which texts have them, with the counts and lines that they name."""

import pytest

from transduce.evaluation import Text
from transduce.evaluation.leakage import leakage_warnings
from transduce.evaluation.text_warnings import copied_share, copy_warnings, text_warnings

REFERENCE = ["A dog.", "Two cats."]
DOG = "A big brown dog runs quickly over the green grass."
CATS = "Zwei kleine graue Katzen schlafen heute in der warmen Sonne."


@pytest.mark.parametrize(
    ("hypothesis", "reference", "options", "beginnings"),
    [
        (["A dog!", "Two cats."], REFERENCE, {}, []),
        (
            ["A dog .", "Two"],
            REFERENCE,
            {},
            ["out looks tokenised: it has 1 line with a space before a full stop or comma."],
        ),
        (
            ["A dog .", "Two , three"],
            REFERENCE,
            {"tokenized": True},
            ["ref does not look tokenised: it has 2 lines with a full stop or comma, 0 with a space before it."],
        ),
        (["A dog ."] * 2 + ["A dog."] * 8, ["A dog!"] * 10, {}, ["out looks tokenised: it has 2 lines with"]),
        (["A dog ."] + ["A dog."] * 9, ["A dog!"] * 10, {}, []),
        (["A , b"], ["A, b"], {}, ["out looks tokenised: it has 1 line with"]),
        (["A", "", " ", "B"], ["A", "B", "C", "D"], {}, ["out has 2 empty lines; the first is line 2."]),
        (["A", "B"], ["A", ""], {}, ["ref has 1 empty line; the first is line 2."]),
        (["Do@@ gs"] * 2 + ["Dogs"] * 98, ["Dog"] * 100, {}, ["out has 2 lines with subword marks"]),
        (["▁Dogs"] * 2 + ["Dogs"] * 98, ["Dog"] * 100, {}, ["out has 2 lines with subword marks"]),
        (["Do@@ gs"] + ["Dogs"] * 99, ["Dog"] * 100, {}, []),
        (["a dog"], ["A dog"], {}, ["ref has capital letters, out has none. Pass --lowercase"]),
        (["A dog"], ["a dog"], {}, ["out has capital letters, ref has none. Pass --lowercase"]),
        (["a dog"], ["A dog"], {"lowercase": True}, []),
        (["A dog"], ["A dog"], {}, ["out and ref are the same text"]),
    ],
)
def test_warnings_of_texts(
    hypothesis: list[str], reference: list[str], options: dict[str, bool], beginnings: list[str]
) -> None:
    other = Text("another", [f"{line} X" for line in hypothesis])  # with nothing to say about it but marks
    found = text_warnings(Text("out", hypothesis), [Text("ref", reference)], **options)
    assert len(found) == len(beginnings)
    assert all(each.startswith(beginning) for each, beginning in zip(found, beginnings, strict=True))
    both = text_warnings(Text("out", hypothesis), [other, Text("ref", reference)], **options)
    assert set(found) <= set(both)  # the second reference too


def test_copies_of_the_source_are_counted_among_its_long_lines() -> None:
    source = Text("src", ["one two three four", "a dog", "one two three four five", " six seven eight nine "])
    hypothesis = Text("out", ["one two three four ", "a dog", "eins", "six seven eight nine"])
    assert copied_share(hypothesis, source) == pytest.approx(2 / 3)
    assert copied_share(Text("out", ["a dog"]), Text("src", ["a dog"])) == 0
    assert copy_warnings(hypothesis, source, 0.05) == []
    assert copy_warnings(hypothesis, source, 0.051) == ["out: 5.1% of its longer lines are copied from src unchanged."]


def test_leaks_name_the_lines_of_both_sides() -> None:
    sources = Text("test.en", [DOG, "Thank you.", "A man sits on the bench near the old river today."])
    targets = Text("test.de", ["Ein Hund.", "Danke schön, mein lieber Freund.", CATS])
    training = {
        "train.en": ["x", DOG.upper().rstrip("."), "Thank you.", DOG, DOG.replace("brown", "black")],
        "train.tsv": ["y", f"z\t{CATS.replace('graue', 'weiße')}", f"z\t{sources.lines[2]}"],
    }
    leaked_source, leaked_target = leakage_warnings([sources, targets], training)
    assert leaked_source.startswith(
        "test.en: the training data has 2 lines of it (66.7%); line 1 is line 2 of train.en."
    )
    assert leaked_target.startswith(
        "test.de: the training data has near-copies of 1 line of it (33.3%), in which one word differs; line 3 "
        "resembles line 2 of train.tsv."
    )
    assert leakage_warnings([targets], {"train.en": [DOG, "Thank you.", "Ein Hund."]}) == []


def test_leaks_behind_the_first_block_of_training_lines_keep_their_number() -> None:
    training = {"train.en": [*(f"number {i}" for i in range(4100)), DOG]}
    [warning] = leakage_warnings([Text("test.en", [DOG])], training)
    assert "line 1 is line 4101 of train.en" in warning


def test_lines_of_sixteen_bytes_can_leak_and_shorter_ones_cannot() -> None:
    for line, number in (("a dog runs home!", 1), ("a dog runs home", 0)):
        assert len(leakage_warnings([Text("test.en", [line])], {"train.en": [line]})) == number


def test_copies_are_found_in_scripts_without_spaces() -> None:
    source = Text("src", ["我们今天去公园散步。", "她昨天在家里看书了。", "田中太郎"])
    hypothesis = Text("out", ["我们今天去公园散步。", "She was reading at home yesterday.", "田中太郎"])
    assert copied_share(hypothesis, source) == 0.5  # the name is short
