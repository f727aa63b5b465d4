"""Our scores against what others computed: WMT 2021's official ones, TensorFlow NMT's, and sacreBLEU itself."""

import csv
from pathlib import Path

import pytest
import sacrebleu

from transduce.evaluation import bleu, chrf, paper_bleu, tokenized_bleu


def read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


@pytest.fixture(scope="module")
def wmt21(shared: Path) -> Path:
    return shared / "conformance/wmt21-en-de"


@pytest.fixture(scope="module")
def references(wmt21: Path) -> dict[str, list[str]]:
    return {name: read(wmt21 / f"newstest2021.en-de.ref.{name}.de") for name in "ACD"}


@pytest.fixture(scope="module")
def outputs(wmt21: Path) -> dict[str, list[str]]:
    prefix, suffix = "newstest2021.en-de.hyp.", ".de"
    files = sorted(wmt21.glob(f"{prefix}*{suffix}"))
    return {file.name.removeprefix(prefix).removesuffix(suffix): read(file) for file in files}


@pytest.fixture(scope="module")
def official(wmt21: Path) -> dict[str, dict[str, float]]:
    """The official scores of each system: "bleu-A" against reference A, "bleu-all" against all at once."""
    scores: dict[str, dict[str, float]] = {}
    with (wmt21 / "automatic-scores.tsv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if row["pair"] == "en-de":
                scores.setdefault(row["system"], {})[row["metric"]] = float(row["score"])
    return scores


@pytest.mark.parametrize(("reference", "first"), [("A", 0), ("C", 1), ("D", 2)])  # four systems each, never the same
def test_official_scores_of_systems(
    outputs: dict[str, list[str]],
    references: dict[str, list[str]],
    official: dict[str, dict[str, float]],
    reference: str,
    first: int,
) -> None:
    assert len(outputs) == 20
    assert outputs.keys() == official.keys()
    for number, system in enumerate([*outputs][first::5]):
        lines, expected = outputs[system], official[system]
        assert bleu(lines, [references[reference]]).value == pytest.approx(expected[f"bleu-{reference}"], abs=1e-6)
        if number == first:  # another one for each reference, and no more: chrF takes a second
            assert chrf(lines, [references[reference]]).value == pytest.approx(expected[f"chrf-{reference}"], abs=1e-6)


def test_official_scores_with_all_references(
    outputs: dict[str, list[str]],
    references: dict[str, list[str]],
    official: dict[str, dict[str, float]],
) -> None:
    together = list(references.values())
    for system in ("Facebook-AI", "UF"):
        assert bleu(outputs[system], together).value == pytest.approx(official[system]["bleu-all"], abs=1e-6)
    assert chrf(outputs["UF"], together).value == pytest.approx(official["UF"]["chrf-all"], abs=1e-6)


def test_scores_and_signatures_are_those_of_sacrebleu(
    outputs: dict[str, list[str]], references: dict[str, list[str]]
) -> None:
    lines, reference = outputs["HuaweiTSC"][:250], [references["C"][:250]]
    for tokenizer in ("13a", "intl", "none"):
        metric = sacrebleu.BLEU(tokenize=tokenizer)
        score = bleu(lines, reference, tokenizer=tokenizer)
        assert score.value == metric.corpus_score(lines, reference).score
        assert score.signature == str(metric.get_signature())
    metric = sacrebleu.CHRF(word_order=2)
    assert chrf(lines, reference, word_order=2).value == metric.corpus_score(lines, reference).score


def test_the_papers_bleu_is_that_of_moses(outputs: dict[str, list[str]], references: dict[str, list[str]]) -> None:
    """Values by the Moses tokenizer (its abbreviation list included), quotes normalised, compounds split."""
    for system, moses in {"BUPT_rush": 34.821, "Facebook-AI": 43.308, "HuaweiTSC": 39.888}.items():
        score = paper_bleu(outputs[system], [references["C"]], language="de")
        assert score.value == pytest.approx(moses, abs=0.02)


def test_tokenized_bleu_of_a_known_output(shared: Path) -> None:
    folder = shared / "conformance/tf-nmt-bleu"
    first = [line.replace("@@ ", "") for line in read(folder / "deen_ref_bpe")]
    second = [line.replace(" ", "").replace("▁", " ") for line in read(folder / "deen_ref_spm")]
    assert [line.split() for line in first] == [line.split() for line in second]
    hypotheses = read(folder / "deen_output")
    # Their script counts an empty line as one word; sacreBLEU counts no word, and comes out lower by 0.0008.
    assert hypotheses.count("") == 3
    filled = [line or "EMPTY" for line in hypotheses]
    assert tokenized_bleu(filled, [first]).value == pytest.approx(22.5855, abs=1e-4)
    assert tokenized_bleu(hypotheses, [second]).value == pytest.approx(22.5847, abs=1e-4)
