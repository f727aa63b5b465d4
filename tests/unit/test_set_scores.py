"""Several test sets, each in its own direction: the calls of the model, and the table of the scores."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from transduce.config import DataConfig, DecodeConfig
from transduce.config.corpora import CorpusConfig, HeldOutSetConfig
from transduce.errors import ConfigError, DataError, EvaluationError
from transduce.evaluation import Evaluation, Score, Text
from transduce.translation.directions import Direction
from transduce.translation.forced_scores import TargetScore
from transduce.translation.pipeline import TextOptions
from transduce.translation.result import Translation
from transduce.translation.robustness import score_robustness
from transduce.translation.set_scores import EvaluationSet, SetScores, read_test_sets, score_sets, scores_table


class Noting:
    """Translates to capitals, and notes its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.directions = self

    def choose(self, source: str, target: str, domain: str) -> Direction:
        if target == "xx":
            raise ConfigError("unknown")
        return Direction(source, target, domain, target == "fr", ())

    def stream(
        self, lines: Sequence[str], *, options: DecodeConfig | None, text_options: TextOptions
    ) -> Iterator[list[Translation]]:
        self.calls.append((*lines, options, text_options.language, text_options.target, text_options.domain))
        for line in lines:
            yield [Translation(line.upper(), 0.0, 0.0, (), finished=True, source_truncated=False)]

    def score(self, sources: Sequence[str], targets: Sequence[str], **options: str) -> list[TargetScore]:
        self.calls.append((*sources, *targets, options))
        values = [(-float(len(sources)),) * len(target.split()) for target in targets]
        return [TargetScore(("x",) * len(each), each, 0.0, source_truncated=False) for each in values]


SETS = [
    EvaluationSet(
        name="one",
        source=Text("a.en", ["a dog", "a cat"]),
        references=[Text("a.de", ["A DOG", "A CAT"]), Text("b.de", ["x", "y"])],
        source_language="en",
        target_language="de",
        domain="law",
    ),
    EvaluationSet(name="two", source=Text("c.en", ["two big dogs run"]), references=[Text("c.fr", ["DEUX CHIENS"])]),
    EvaluationSet(
        name="three", source=Text("d.en", ["a"]), references=[Text("d.fr", ["B"])], target_language="fr"
    ),
]  # fmt: skip


def test_each_set_is_translated_and_scored_in_its_own_direction() -> None:
    model, search = Noting(), DecodeConfig(beam_size=2)
    found = score_sets(cast(Any, model), SETS, search=search, metrics=["bleu-paper"], options={"lowercase": True})
    assert model.calls == [
        ("a dog", "a cat", "A DOG", "A CAT", {"source_language": "en", "target_language": "de", "domain": "law"}),
        ("two big dogs run", "DEUX CHIENS", {"source_language": "", "target_language": "", "domain": ""}),
        ("a", "B", {"source_language": "", "target_language": "fr", "domain": ""}),
        ("a dog", "a cat", search, "en", "de", "law"),
        ("two big dogs run", search, "", "", ""),
        ("a", search, "", "fr", ""),
    ]
    assert [each.name for each in found] == ["one", "two", "three"]
    assert [each.perplexity for each in found] == [pytest.approx(math.exp(n)) for n in (2, 1, 1)]
    assert [each.subwords for each in found] == [4, 2, 1]
    assert [each.evaluation.num_references for each in found] == [2, 1, 1]
    assert [each.pair for each in found] == ["en → de", "? → ?", "? → fr (zero-shot)"]
    signatures = [each.evaluation.scores["bleu-paper"].signature for each in found]
    assert [language for each in signatures for language in ("-de", "-fr") if f"moses-like{language}" in each] == [
        "-de",
        "-fr",  # by the name of the reference
        "-fr",
    ]
    assert all("lc" in each for each in signatures)


def test_a_direction_that_is_unknown_names_its_set_before_anything_is_translated() -> None:
    model = Noting()
    unknown = EvaluationSet(name="four", source=SETS[2].source, references=SETS[2].references, target_language="xx")
    with pytest.raises(ConfigError, match="test set 'four': unknown"):
        score_sets(cast(Any, model), [*SETS, unknown])
    assert model.calls == []


def test_a_reference_that_is_too_long_names_its_file_before_anything_is_translated() -> None:
    class Short(Noting):
        def score(self, sources: Sequence[str], targets: Sequence[str], **options: str) -> list[TargetScore]:
            if "DEUX CHIENS" in targets:
                raise DataError("target 1 has 3 tokens, but this model's positions end at 2.")
            return super().score(sources, targets, **options)

    model = Short()
    with pytest.raises(DataError, match=r"^c\.fr: target 1 has 3 tokens, but"):
        score_sets(cast(Any, model), SETS, metrics=["bleu-paper"])
    assert [len(call) for call in model.calls] == [5]  # the first set was scored


def test_the_table_has_a_row_for_each_set_and_each_signature_once() -> None:
    def scored(name: str, domain: str, bleu: float, confidence: float | None = None) -> SetScores:
        scores = {
            "bleu": Score(name="BLEU", value=bleu, signature="same", confidence=confidence),
            "chrf": Score(name="chrF2", value=50, signature=f"of {name}"),
        }
        return SetScores(
            name=name,
            direction=Direction("en", "de", domain, domain == "law", ()),
            perplexity=12.345,
            subwords=10,
            evaluation=Evaluation(num_lines=1200, num_references=1, scores=scores),
        )

    assert scores_table([scored("a", "", 30.126)]).split("\n")[0] == (
        "| test set | languages | lines | perplexity | BLEU | chrF2 |"
    )
    assert scores_table([scored("a", "", 30.126), scored("b", "law", 7, 1.5)]).split("\n") == [
        "| test set | languages | domain | lines | perplexity | BLEU | chrF2 |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: |",
        "| a | en → de |  | 1,200 | 12.3 | 30.13 | 50.00 |",
        "| b | en → de (zero-shot) | law | 1,200 | 12.3 | 7.00 ± 1.50 | 50.00 |",
        "",
        "BLEU: same",
        "chrF2: of a",
        "chrF2: of b",
    ]
    chinese = scored("c", "", 7)
    chinese.evaluation.scores["bleu"] = Score(name="BLEU, zh", value=7, signature="other")
    drawn = scores_table([scored("a", "", 30.126), chinese]).split("\n")
    assert drawn[0] == "| test set | languages | lines | perplexity | BLEU; BLEU, zh | chrF2 |"
    assert drawn[-4:] == ["BLEU: same", "chrF2: of a", "BLEU, zh: other", "chrF2: of c"]
    found = scored("a", "law", 30.126)
    values = found.to_dict()
    assert values["scores"]["bleu"]["value"] == 30.126
    assert [values[key] for key in ("name", "source_language", "target_language", "domain", "zero_shot")] == [
        *("a", "en", "de", "law"),
        True,
    ]
    assert (values["perplexity"], values["subwords"]) == (12.345, 10)
    assert [text.name for text in SETS[0].texts] == ["a.en", "a.de", "b.de"]


def test_sets_of_a_recipe_are_read_once_in_the_order_in_which_they_are_named(tmp_path: Path) -> None:
    for name, text in (("a.en", "a dog\na cat\n"), ("a.de", "ein Hund\neine Katze\n"), ("b.tsv", "two\tdeux\n")):
        (tmp_path / name).write_text(text)
    first = HeldOutSetConfig(
        name="one", files=("a.en", "a.de"), source_language="en", target_language="de", domain="law"
    )
    second = HeldOutSetConfig(name="two", files=("b.tsv",), source_language="en", target_language="fr")
    corpora = tuple(
        CorpusConfig(files=(f"{code}.tsv",), source_language="en", target_language=code, domain="law")
        for code in ("de", "fr")
    )
    data = DataConfig(folder=str(tmp_path), corpora=corpora, test_sets=(first, second))
    two, one = read_test_sets(data, ["two", "one", "two"])
    assert (one.name, one.source_language, one.target_language, one.domain) == ("one", "en", "de", "law")
    assert (two.name, two.source_language, two.target_language, two.domain) == ("two", "en", "fr", "")
    assert one.source == Text(str(tmp_path / "a.en"), ["a dog", "a cat"])
    assert one.references == [Text(str(tmp_path / "a.de"), ["ein Hund", "eine Katze"])]
    assert two.source == Text(f"{tmp_path / 'b.tsv'}, column 1", ["two"])
    assert two.references == [Text(f"{tmp_path / 'b.tsv'}, column 2", ["deux"])]
    assert [each.name for each in read_test_sets(data)] == ["one", "two"]
    (tmp_path / "a.de").unlink()
    with pytest.raises(DataError, match=r"'one': .*a\.de: no such file"):
        read_test_sets(data)
    with pytest.raises(ConfigError, match=r"no test set 'tow'; there are: one, two\..*two"):
        read_test_sets(data, ["tow"])
    with pytest.raises(ConfigError, match="names no test sets"):
        read_test_sets(replace(data, test_sets=()))
    with pytest.raises(ConfigError, match="parse score"):
        read_test_sets(DataConfig(format="trees", train=(("a.trees",),)))


@pytest.mark.parametrize("score", [score_sets, score_robustness])
@pytest.mark.parametrize(("metric", "message"), [("bluu", "Did you mean 'bleu'"), ("bleu-intl", "tokenises by itself")])
def test_a_wrong_metric_is_refused_before_anything_is_translated(score: Any, metric: str, message: str) -> None:
    translator = Noting()
    with pytest.raises(EvaluationError, match=message):
        score(translator, SETS, metrics=[metric], options={"tokenized": True})
    assert translator.calls == []
