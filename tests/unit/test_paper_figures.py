"""Figures 3 to 5: heads chosen by numbers that can be worked out by hand, and the report of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transduce import Attention
from transduce.errors import ConfigError
from transduce.experiments.paper import figures, figures_report
from transduce.experiments.paper.figures import Attend, SentenceAttention, Sentences, structural_heads
from transduce.experiments.paper.figures_report import draw, render
from transduce.inspection import Panel, draw_panels, view
from transduce.inspection.statistics import entropy_bits

MakeAttention = Callable[..., Attention]
SENTENCES = Sentences(
    "one two three four five six seven, eight", "two", ("seven",), "The dog barks at its tail.", "its", "dog"
)


def seen(attention: Attention, layer: int = 1) -> SentenceAttention:
    return SentenceAttention(view(attention, "encoder", words=True), layer, attention.target)


@pytest.fixture
def attend(random_attention: MakeAttention) -> Attend:
    """A model whose attention is known: three heads, two layers, random, but for what tests set."""
    made = {text: random_attention(text, "x") for text in (SENTENCES.sentence, SENTENCES.anaphora)}
    return lambda sentence: seen(made[sentence])


def test_entropy() -> None:
    rows = np.array([[1.0, 0, 0, 0], [0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0, 0]])
    assert entropy_bits(rows).tolist() == [0.0, 2.0, 1.0]


def test_heads_that_look_at_words_and_not_where_another_looks() -> None:
    first, same, other = np.eye(4)[[1, 2, 3, 0]], np.eye(4)[[1, 2, 3, 0]], np.eye(4)[[2, 3, 0, 1]]
    weights = np.stack([first, same, other])
    assert structural_heads(weights, [0.9, 0.8, 0.3]) == [0, 2]
    assert structural_heads(weights, [0.1, 0.8, 0.3]) == [1, 2]
    assert structural_heads(weights, [-0.1, -0.8, -0.3]) == [0, 1]  # never the same one twice
    assert structural_heads(weights[:1], [0.1]) == [0]


def test_a_word_is_found_with_its_punctuation(random_attention: MakeAttention) -> None:
    found = seen(random_attention("one two, three.", "x"))
    assert found.label("two") == "two,"
    assert found.rows_of("three") == [2]
    assert found.rows_of("one") == [0]
    with pytest.raises(ConfigError, match=r"'thre' is not among .* Did you mean 'three\.'\?"):
        found.rows_of("thre")


def test_figure_3_shows_the_weight_of_distant_words(attend: Attend) -> None:
    values = figures._figure3(attend, SENTENCES, print)
    weights = attend(SENTENCES.sentence).weights[:, 1]  # of "two", by words and "</s>"
    for head in range(3):
        assert values["weights"][head] == pytest.approx(weights[head], abs=1e-4)
        assert values["far"][head] == pytest.approx(weights[head, 5:8].sum(), abs=1e-4)  # six, seven, eight
        assert values["on_related"][head] == pytest.approx(weights[head, 6], abs=1e-4)
        assert values["most_far"][head] == ["six", "seven,", "eight"][int(weights[head, 5:8].argmax())]
    assert values["even_share"] == pytest.approx(3 / 9, abs=1e-4)  # of eight words and "</s>"


def test_figure_4_takes_the_heads_that_find_the_antecedent(attend: Attend) -> None:
    values = figures._figure4(attend, SENTENCES, print)
    weights = attend(SENTENCES.anaphora).weights
    on_antecedent = weights[:, 4, 1]  # from "its" to "dog"
    assert [head - 1 for head in values["heads"]] == np.argsort(-on_antecedent)[:2].tolist()
    assert values["even_share"] == pytest.approx(1 / weights.shape[-1], abs=1e-4)
    assert values["on_antecedent"] == pytest.approx(on_antecedent, abs=1e-4)
    assert np.array(values["weights"][0]) == pytest.approx(weights[values["heads"][0] - 1], abs=1e-4)
    assert values["entropy"] == pytest.approx(entropy_bits(weights[:, 4]), abs=1e-4)


def test_the_weights_are_those_of_the_layer(random_attention: MakeAttention) -> None:
    attention = random_attention("one two three", "x")
    first, second = view(attention, "encoder", words=True).weights
    assert not np.array_equal(first, second)
    for layer, expected in ((1, first), (2, second)):
        assert np.array_equal(seen(attention, layer).weights, expected)


def test_figure_5_takes_the_heads_with_a_peak_that_is_at_no_fixed_distance(attend: Attend) -> None:
    values = figures._figure5(attend, SENTENCES, print)
    found = values["statistics"]
    fixed = zip(found["previous"], found["diagonal"], found["next"], strict=True)
    scores = [peak - max(shares) for peak, shares in zip(found["peak"], fixed, strict=True)]
    assert values["scores"] == pytest.approx(scores, abs=2e-4)
    weights = attend(SENTENCES.anaphora).weights
    assert values["heads"] == [head + 1 for head in structural_heads(weights, scores)]
    assert values["heads"][0] == 1 + int(np.argmax(scores))
    assert np.array(values["weights"]) == pytest.approx(weights[[head - 1 for head in values["heads"]]], abs=1e-4)


def test_an_antecedent_that_occurs_twice_counts_twice(random_attention: MakeAttention) -> None:
    attention = seen(random_attention("dog dog its", "x"))
    sentences = Sentences("", "", (), "dog dog its", "its", "dog")
    values = figures._figure4(lambda sentence: attention, sentences, print)
    assert values["on_antecedent"] == pytest.approx(attention.weights[:, 2, :2].sum(axis=1), abs=1e-4)
    assert values["even_share"] == 0.5  # of three words and "</s>"


def test_the_claims_by_hand() -> None:
    third = {"word": "two", "far": [0.1, 0.5, 0.3], "even_share": 0.2, "most_far": ["a", "b", "c"]}
    fourth = {"word": "its", "antecedent": "dog", "heads": [3, 1], "on_antecedent": [0.4, 0.1, 0.6]}
    fourth |= {"entropy": [1.0, 2.0, 0.5], "usual_entropy": [2.0, 2.5, 3.0], "even_share": 0.25}
    fifth = {"heads": [2, 3], "scores": [0.1, 0.9, 0.4]}
    assert figures_report._about_claims(third, fourth, fifth) == [
        "“two”: 2 of 3 heads give words more than three away more than an even share (20%); at most 50% (head 2, most "
        "of it to “b”)",
        "from “its” to “dog”: head 3 60%, head 1 40% (an even share: 25%)",
        "head 3 0.50 bits (all words 3.00), head 1 1.00 bits (all words 2.00)",
        "score: head 2 0.90, head 3 0.40",
    ]


def test_the_weights_of_chosen_heads_are_drawn_as_theirs() -> None:
    kept = [[[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.25, 0.75]]]
    values = {"words": ["a", "b"], "num_layers": 3, "num_heads": 4, "layer": 2, "weights": kept}
    drawn = figures_report._view(values, [4, 2]).weights
    assert (drawn[1, 3].tolist(), drawn[1, 1].tolist()) == (kept[0], kept[1])
    assert drawn.sum() == np.sum(kept)


def test_the_report_and_the_pictures(attend: Attend, tmp_path: Path) -> None:
    measured: dict[str, Any] = {
        "model": {
            "name": "mine",
            "shape": {"num_encoder_layers": 2, "num_heads": 3, "d_model": 12},
            "metrics": {},
        },
        "figure3": figures._figure3(attend, SENTENCES, print),
        "figure4": figures._figure4(attend, SENTENCES, print),
        "figure5": figures._figure5(attend, SENTENCES, print),
    }
    page = render("laptop", measured)
    assert "The encoder's layer 1 of 2 of mine (the paper: layer 5 of 6)." in page
    chosen = measured["figure4"]["heads"]
    assert f"Heads {chosen[0]} and {chosen[1]} were chosen, for they give most of the weight of “its” to “dog”" in page
    assert page.count(f"| **{chosen[0]}** |") >= 1
    assert "to “seven”" in page
    assert "Smoke scale" not in page
    draw(measured, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figure3.png", "figure4.png", "figure5.png"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sentence": "a b"}, "--sentence, --word"),
        ({"related": ["a"]}, "--sentence, --word"),
        ({"anaphora": "a b", "anaphor": "b"}, "--anaphora, --anaphor and --antecedent go together"),
    ],
)
def test_options_that_go_together(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        figures.experiment(figures.FiguresOptions("smoke", tmp_path, **options))


def test_other_scales_need_a_model(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"figures --scale laptop looks into a trained model: name one, --model DIR"):
        figures.experiment(figures.FiguresOptions("laptop", tmp_path))


def test_panels_stand_side_by_side(random_attention: MakeAttention, tmp_path: Path) -> None:
    shown = view(random_attention("one two three", "x"), "encoder", words=True)
    panels = [Panel(shown, 2, [1]), Panel(shown, 2, [1, 3], word="two")]
    draw_panels(panels, tmp_path / "both.svg")
    text = (tmp_path / "both.svg").read_text(encoding="utf-8")
    assert text.count("Encoder, layer 2 of 2") >= 2
    assert text.count('id="head-1"') + text.count('id="head-3"') == 3
    assert panels[0].rows() == [0, 1, 2, 3]
    assert panels[1].rows() == [1]


def test_each_figure_shows_its_own_heads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    drawn: dict[str, list[Panel]] = {}
    monkeypatch.setattr(figures_report, "draw_panels", lambda panels, path: drawn.update({path.name: panels}))
    same = {"num_layers": 3, "num_heads": 4, "layer": 2, "words": ["a", "b"]}
    rows = [[0.1, 0.9], [0.2, 0.8], [0.3, 0.7], [0.4, 0.6]]
    whole = [[[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.25, 0.75]]]
    draw(
        {
            "figure3": same | {"word": "b", "weights": rows},
            "figure4": same | {"word": "b", "heads": [4, 2], "weights": whole},
            "figure5": same | {"heads": [3, 1], "weights": whole},
        },
        tmp_path,
    )
    [third], fourth, fifth = (drawn[f"figure{number}.png"] for number in (3, 4, 5))
    assert (third.layer, third.heads, third.word) == (2, None, "b")
    assert third.view.weights[1][:, 1].tolist() == rows
    assert not third.view.weights[1][:, 0].any()
    assert [(each.layer, each.heads, each.word) for each in fourth] == [(2, [4], None), (2, [4, 2], "b")]
    assert [(each.layer, each.heads, each.word) for each in fifth] == [(2, [3], None), (2, [1], None)]
    assert fourth[0].view.weights[1, 3].tolist() == fifth[0].view.weights[1, 2].tolist() == whole[0]


def test_the_tables_of_the_report_by_hand() -> None:
    """Three heads, of which the third and the first were chosen for Figure 4, the second alone for Figure 5."""
    same = {"num_layers": 6, "num_heads": 3, "layer": 5, "words": ["a"]}
    third = same | {"sentence": "s3", "word": "w", "related": ["r1", "r2"], "far": [0.1, 0.5, 0.3], "even_share": 0.25}
    third |= {"on_related": [0.01, 0.02, 0.03], "most_far": ["x", "y", "z"]}
    fourth = same | {"sentence": "s4", "word": "its", "antecedent": "dog", "heads": [3, 1], "even_share": 0.125}
    fourth |= {"on_antecedent": [0.4, 0.1, 0.6], "entropy": [1.0, 2.0, 0.5], "usual_entropy": [2.0, 2.5, 3.0]}
    fifth = same | {"sentence": "s5", "heads": [2], "scores": [0.1, 0.9, 0.4]}
    names = ("distance", "entropy", "peak", "previous", "diagonal", "next")
    fifth["statistics"] = {name: [number + 0.1, number + 0.2, number + 0.3] for number, name in enumerate(names)}
    shape = {"num_encoder_layers": 6, "num_heads": 3, "d_model": 12}
    measured = {"model": {"name": "m", "shape": shape}, "figure3": third, "figure4": fourth, "figure5": fifth}
    text = render("laptop", measured)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:2] == "| "]
    tables = [row for row in rows if row[0].strip("*") in ("head", "1", "2", "3")]
    assert tables == [
        ["head", "to distant words", "most of it to", "to “r1 r2”"],
        *(["1", "10%", "x", "1%"], ["2", "50%", "y", "2%"], ["3", "30%", "z", "3%"]),
        ["head", "from “its” to “dog”", "its entropy, bits", "of all words"],
        *(["**1**", "40%", "1.00", "2.00"], ["2", "10%", "2.00", "2.50"], ["**3**", "60%", "0.50", "3.00"]),
        ["head", "score", *names],
        ["1", "0.10", "0.10", "1.10", "2.10", "3.10", "4.10", "5.10"],
        ["**2**", "0.90", "0.20", "1.20", "2.20", "3.20", "4.20", "5.20"],
        ["3", "0.40", "0.30", "1.30", "2.30", "3.30", "4.30", "5.30"],
    ]
    assert "all words equally would give them 25%." in text
    assert "- The model: m, 6 encoder layers of 3 heads, d_model 12;" in text
    third["related"] = []
    assert "to “" not in render("laptop", measured).split("## Figure 4")[0].split("## Figure 3")[1]


def test_the_two_heads_of_figure_4_are_in_order(random_attention: MakeAttention) -> None:
    """Of three heads the third gives the antecedent 0.6, the first 0.4; the second nothing."""
    attention = random_attention("dog its", "x")
    attention.encoder[0, :, 1] = [[0.4, 0.3, 0.3], [0.0, 0.5, 0.5], [0.6, 0.2, 0.2]]
    assert attention.encoder.shape[-1] == 3
    sentences = Sentences("", "", (), "dog its", "its", "dog")
    values = figures._figure4(lambda sentence: seen(attention), sentences, print)
    assert (values["heads"], values["on_antecedent"]) == ([3, 1], pytest.approx([0.4, 0.0, 0.6]))
