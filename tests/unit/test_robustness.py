"""The versions of a test set, and what is measured of their translations."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest

from transduce.config import DecodeConfig
from transduce.data.modifiers.perturbations import Line, Version, versions
from transduce.errors import EvaluationError
from transduce.evaluation import Text
from transduce.translation.directions import Direction
from transduce.translation.pipeline import TextOptions
from transduce.translation.result import Translation
from transduce.translation.robustness import robustness_table, score_robustness
from transduce.translation.set_scores import EvaluationSet

SOURCES = ["Several children play outside.", 'He said: "It\'s - well - large!"', "一只狗。"]
REFERENCES = ["Mehrere Kinder spielen draußen.", 'Er sagte: "Es ist - nun - groß!"', "Ein Hund."]
NAMES = ["clean", "upper case", "title case", "typos", "no final sign", "other signs", "noise", "item added", "mixed",
         "already translated", "two lines in one"]  # fmt: skip


def made(sources: Sequence[str] = SOURCES, references: Sequence[str] = REFERENCES) -> dict[str, Version]:
    return {each.name: each for each in versions(sources, [references])}


def test_versions_that_follow_from_their_lines() -> None:
    found = made()
    assert [*found] == NAMES
    assert found["clean"].lines == [Line(*each) for each in zip(SOURCES, [(each,) for each in REFERENCES], strict=True)]
    assert [(each.source, each.references) for each in found["upper case"].lines] == [
        ("SEVERAL CHILDREN PLAY OUTSIDE.", ("MEHRERE KINDER SPIELEN DRAUSSEN.",)),
        ('HE SAID: "IT\'S - WELL - LARGE!"', ('ER SAGTE: "ES IST - NUN - GROSS!"',)),
        ("一只狗。", ("Ein Hund.",)),  # its script has no capitals
    ]
    assert found["title case"].lines[0].source == "Several Children Play Outside."
    assert found["title case"].lines[0].references == ("Mehrere Kinder Spielen Draußen.",)
    assert [(each.source, *each.references) for each in found["no final sign"].lines] == [
        ("Several children play outside", "Mehrere Kinder spielen draußen"),
        (SOURCES[1], REFERENCES[1]),
        ("一只狗", "Ein Hund"),
    ]
    assert found["two lines in one"].lines[2] == Line(f"一只狗。 {SOURCES[0]}", (f"Ein Hund. {REFERENCES[0]}",))
    assert found["already translated"].lines[1] == Line(REFERENCES[1], (REFERENCES[1],), REFERENCES[1])
    assert found["already translated"].whole
    assert found["noise"].whole
    assert not found["item added"].whole


def test_versions_with_random_choices() -> None:
    many = [f"Several children are playing outside between houses number {n}." for n in range(400)]
    found = made(many, [f"Haus {n}." for n in range(400)])
    typos = [line for line, clean in zip(found["typos"].lines, many, strict=True) if line.source != clean]
    assert 250 < len(typos) < 350  # 1 - 0.85^7 = 0.68
    assert all(line.references == (f"Haus {number}.",) for number, line in enumerate(found["typos"].lines))
    assert any("\u2009" in line.source for line in found["other signs"].lines)
    assert all(re.fullmatch(r"[\u0e00-\u0e7f\u10a0-\u10ff\u0530-\u058f ]+", line.kept) for line in found["noise"].lines)
    for line, clean in zip(found["item added"].lines, many, strict=True):
        assert line.kept
        assert line.source.replace(line.kept, "") == line.references[0].replace(line.kept, "").replace(
            line.references[0].replace(line.kept, "").strip(" –[]"), clean
        )
    assert len({line.kept for line in found["item added"].lines}) > 350
    changed = [line.source != clean for line, clean in zip(found["mixed"].lines, many, strict=True)]
    assert 0.85 < sum(changed) / 400 < 1
    assert versions(many, [many]) == versions(many, [many])


class Parrot:
    """Returns its lines, but for one that it says five times."""

    def __init__(self) -> None:
        self.directions = self
        self.text_options_of_calls: list[TextOptions] = []

    def choose(self, source: str, target: str, domain: str) -> Direction:
        return Direction(source, target, domain, False, ())

    def stream(
        self, lines: Sequence[str], *, options: DecodeConfig | None, text_options: TextOptions
    ) -> Iterator[list[Translation]]:
        self.text_options_of_calls.append(text_options)
        for index, line in enumerate(lines):
            text = "really good " * 5 if index == 1 else line
            yield [Translation(text, 0.0, 0.0, (), finished=True, source_truncated=False)]


def test_what_is_measured_of_each_version() -> None:
    """A parrot copies what is to be copied, and its BLEU is that of the sources as translations."""
    model = Parrot()
    given = EvaluationSet(name="news", source=Text("a.en", SOURCES), references=[Text("a.de", REFERENCES)])
    found = {each.version: each for each in score_robustness(cast(Any, model), [given], metrics=["chrf"])}
    assert [*found] == NAMES
    assert {name: each.kept_share for name, each in found.items() if each.kept_share is not None} == {
        "noise": pytest.approx(2 / 3),
        "item added": pytest.approx(2 / 3),
        "mixed": found["mixed"].kept_share,
        "already translated": pytest.approx(2 / 3),
    }
    assert all(each.loop_share == pytest.approx(1 / 3) for each in found.values())
    assert found["already translated"].scores["chrf"].value > found["clean"].scores["chrf"].value
    assert {(each.markup, each.guard) for each in model.text_options_of_calls} == {("none", False)}
    table = robustness_table([*found.values()])
    assert "| news | already translated | 3 |" in table
    assert "66.7%" in table
    assert "33.3%" in table
    assert table.splitlines()[-1].startswith("chrF2: ")
    assert found["clean"].to_dict()["kept_share"] is None


def test_unequal_sides_are_refused_before_anything_is_translated() -> None:
    model = Parrot()
    given = EvaluationSet(name="news", source=Text("a.en", SOURCES), references=[Text("a.de", REFERENCES[:2])])
    with pytest.raises(EvaluationError, match="has 3 lines and"):
        score_robustness(cast(Any, model), [given])
    assert model.text_options_of_calls == []


def test_warnings_about_the_texts_are_those_of_the_clean_version() -> None:
    lines = [f"Ein Hund , der {number} Mal läuft ." for number in range(20)]
    given = EvaluationSet(name="news", source=Text("a.de", lines), references=[Text("b.de", lines)])
    found = score_robustness(cast(Any, Parrot()), [given], metrics=["chrf"])
    assert [each.version for each in found if each.warnings] == ["clean"]
    assert any("tokenized" in warning or "tokenised" in warning for warning in found[0].warnings)
