"""What is recorded of a line and its translations: which one is taken, and why a pair is left out."""

import json
from typing import Any

import pytest

from transduce.augmentation.translation_records import TranslationRecords, line_of_pair
from transduce.evaluation.sentence_scores import sentence_bleu, sentence_chrf
from transduce.translation.result import Translation

REFERENCE = "Ein Hund läuft über das grüne Gras."


def translation(text: str, score: float = -1.0, **others: Any) -> Translation:
    values = {"log_probability": score, "tokens": (), "finished": True, "source_truncated": False} | others
    return Translation(text=text, score=score, **values)


def record(records: TranslationRecords, line: str, *translations: Translation) -> dict[str, Any]:
    [row] = records.rows(line, 7, translations)
    found: dict[str, Any] = json.loads(row)
    return found


PLAIN = TranslationRecords("distill")


def test_the_best_translation_is_taken() -> None:
    found = record(PLAIN, "A dog\truns.", translation("Ein Hund läuft.", -0.123456), translation("Hund"))
    assert found == {"text": "A dog\truns.", "translation": "Ein Hund läuft.", "score": -0.1235}
    assert PLAIN.text("A dog\truns.", "") == "A dog\truns."


@pytest.mark.parametrize(
    ("text", "given", "reason"),
    [
        (" \u3000", translation(""), "empty line"),
        ("", translation(""), "empty line"),
        ("A dog.", translation(" "), "empty translation"),
        ("A dog.", translation("Ein", finished=False), "translation cut: it reached the length limit"),
        ("A dog.", translation("Ein", source_truncated=True), "line cut: longer than the model reads"),
        (
            "A dog.",
            translation("a a", warnings=("repeats itself", "copies the source")),
            "repeats itself, copies the source",
        ),
        (
            "A dog.",
            translation("", finished=False),
            "translation cut: it reached the length limit, empty translation",
        ),
    ],
)
def test_a_pair_is_left_out_with_its_reason(text: str, given: Translation, reason: str) -> None:
    assert record(PLAIN, text, given)["left_out"] == reason


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_the_translation_nearest_to_the_reference_is_taken(metric: Any) -> None:
    records, line = TranslationRecords("distill", metric), line_of_pair("A dog runs.", REFERENCE)
    assert records.text(line, "") == "A dog runs."
    near = translation("Ein Hund läuft über das Gras.", -2.0)
    found = record(records, line, translation("Hunde rennen."), near, translation("Ein Hund.", -3.0))
    assert found["translation"] == near.text
    assert found["reference"] == REFERENCE
    expected = {"bleu": sentence_bleu, "chrf": sentence_chrf}[metric](near.text, REFERENCE)
    assert found[metric] == pytest.approx(expected, abs=1e-4)
    assert "left_out" not in found


def test_of_equally_near_translations_the_best_is_taken() -> None:
    first, second = translation("xyz", -1.0), translation("uvw", -2.0)
    assert record(TranslationRecords("distill", "bleu"), line_of_pair("a", "b"), first, second)["score"] == -1.0


def test_a_faulty_translation_is_not_taken_though_it_is_nearer() -> None:
    records, line = TranslationRecords("distill", "chrf"), line_of_pair("A dog runs over the green grass.", REFERENCE)
    sound = translation("Hunde laufen.", -5.0)
    cut = translation(REFERENCE, finished=False)
    loop = translation(REFERENCE + " Gras Gras Gras Gras Gras")
    assert record(records, line, cut, loop, sound)["translation"] == sound.text
    unguarded = TranslationRecords("distill", "chrf", guard=False)
    assert record(unguarded, line, cut, loop, sound)["translation"] == loop.text
    only_cut = record(records, line, cut)
    assert only_cut["left_out"] == "translation cut: it reached the length limit"


def test_scores_of_sentences() -> None:
    assert sentence_bleu("ein Hund", "ein Hund") == pytest.approx(100)  # though it has no 4-grams
    assert sentence_chrf(REFERENCE, REFERENCE) == pytest.approx(100)
    assert sentence_bleu("eine Katze", "ein Hund") < sentence_bleu("ein Katze", "ein Hund") < 100
    assert sentence_chrf("Hunde", "Hund") > sentence_chrf("Katze", "Hund")
