"""The explorer's page is one small file that holds all weights, loads nothing, and lets no text out of its place."""

import base64
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from transduce import Attention
from transduce.inspection import (
    Unit,
    View,
    align,
    alignment_scores,
    best_heads,
    explorer,
    explorer_page,
    head_statistics,
    views,
    word_weights,
)
from transduce.inspection.explorer import explorer_files

MakeAttention = Callable[..., Attention]

HOSTILE = '</script><script>alert(1)</script> <!-- & "{{script}}" \u2028 ]]>'


class Elements(HTMLParser):
    """Notes the elements of a page, what scripts hold, and what attributes would load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.scripts: list[str] = []
        self.titles: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href", "action", "data", "poster")]

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script":
            self.scripts.append(data)
        if self.tags and self.tags[-1] in ("title", "h1") and data.strip():
            self.titles.append(data)


def data_of(page: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(Elements(page).scripts[0])
    return data


def test_the_page_has_every_weight_to_a_255th(random_attention: MakeAttention) -> None:
    attention = random_attention("making it difficult", "es schwierig machen")
    data = data_of(explorer_page(attention, model="m30k"))
    assert [unit["unit"] for unit in data["units"]] == ["word", "piece"]
    by_word, by_piece = (unit["views"] for unit in data["units"])
    for shown, expected in zip([*by_word, *by_piece], views(attention, words=True) + views(attention), strict=True):
        weights = np.frombuffer(base64.b64decode(shown["weights"]), np.uint8).reshape(expected.weights.shape) / 255
        np.testing.assert_allclose(weights, expected.weights, atol=0.5 / 255 + 1e-6)
        assert shown["queries"] == [unit.label for unit in expected.queries]
        assert shown["keys"] == [unit.label for unit in expected.keys]
        np.testing.assert_allclose(shown["statistics"]["entropy"], head_statistics(expected).entropy, atol=1e-4)


def test_the_page_knows_the_alignment(random_attention: MakeAttention) -> None:
    attention = random_attention("making it difficult", "es schwierig machen")
    data = data_of(explorer_page(attention, model="m30k", words=True))
    scores = alignment_scores(word_weights(attention))
    assert data["alignment"]["best"] == [list(head) for head in best_heads(scores)]
    links = align(word_weights(attention), best_heads(scores))
    assert data["alignment"]["links"] == [list(link) for link in links]
    assert data["alignment"]["pharaoh"] == " ".join(f"{source}-{target}" for source, target in links)
    [words] = data["units"]
    assert words["unit"] == "word"
    np.testing.assert_allclose(words["views"][2]["statistics"]["alignment"], scores, atol=1e-4)
    assert words["views"][2]["keys"] == ["making", "it", "difficult", "</s>"]
    assert data["alignment"]["source"] == ["making", "it", "difficult"]
    assert data["alignment"]["target"] == ["es", "schwierig", "machen"]
    assert (data["model"], data["source"], data["target"]) == ("m30k", attention.source, attention.target)
    assert len(data["colours"]) == 3, "one for each head"
    shapes = [(each["kind"], each["layers"], each["heads"]) for each in words["views"]]
    assert shapes == [("encoder", 2, 3), ("decoder", 2, 3), ("cross", 2, 3)]
    assert ["alignment" in each["statistics"] for each in words["views"]] == [False, False, True]


def test_forty_words_of_the_papers_model_stay_below_three_megabytes(random_attention: MakeAttention) -> None:
    source = " ".join(f"word{n}s" for n in range(40))  # two pieces each
    page = explorer_page(random_attention(source, source, layers=6, heads=8), model="base")
    assert len(page.encode()) < 3_000_000
    assert [len(unit["views"][0]["queries"]) for unit in data_of(page)["units"]] == [41, 81]


def test_the_page_names_nothing_to_load(random_attention: MakeAttention) -> None:
    page = explorer_page(random_attention("a b", "c"), model="m30k")
    elements = Elements(page)
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(", page)
    assert elements.loads == ["data:,"]  # an empty icon, so that none is asked for
    assert "default-src 'none'" in page
    assert not {"iframe", "object", "embed", "img", "video", "audio"} & set(elements.tags)


def test_text_stays_text(random_attention: MakeAttention) -> None:
    plain = Elements(explorer_page(random_attention("a b c d e f", "g"), model="m"))
    page = explorer_page(random_attention(HOSTILE, HOSTILE), model=HOSTILE)
    elements = Elements(page)
    assert elements.tags == plain.tags
    data = json.loads(elements.scripts[0])
    assert data["source"] == data["target"] == data["model"] == HOSTILE
    assert elements.titles == [f"Attention of {HOSTILE}"] * 2
    assert "\u2028" not in elements.scripts[0]


def test_the_same_page_each_time(random_attention: MakeAttention) -> None:
    attention = random_attention("making it difficult", "schwierig")
    assert explorer_page(attention, model="m") == explorer_page(attention, model="m")


@pytest.mark.parametrize("target", ["", "x"])
def test_short_pairs_have_a_page(random_attention: MakeAttention, target: str) -> None:
    data = data_of(explorer_page(random_attention("a", target, layers=1, heads=1), model="m"))
    assert data["alignment"]["best"] == [[1, 1]]
    assert data["alignment"]["links"] == ([[0, 0]] if target else [])


def test_a_server_gives_out_the_parts_without_data(random_attention: MakeAttention) -> None:
    """Its pages may have no script inside: one file has them all, another one sends the data."""
    parts = explorer_files("data?a=1&b=2")
    assert sorted(parts) == ["explorer.css", "explorer.html", "explorer.js"]
    elements = Elements(parts["explorer.html"])
    assert elements.loads == ["explorer.css", "data?a=1&b=2"]
    assert [script.strip() for script in elements.scripts if script.strip()] == []
    assert "Content-Security-Policy" not in parts["explorer.html"]
    assert "{{" not in parts["explorer.html"]
    assert elements.titles[0] == "Attention"
    page = explorer_page(random_attention("a b", "c"), model="m")
    assert parts["explorer.js"] in page
    assert parts["explorer.css"] in page
    assert parts["explorer.js"].startswith('"use strict";\n')


def test_weights_are_bytes_from_none_to_all() -> None:
    view = View("cross", np.array([[[[0.0, 1.0, 1.2, 0.5, 0.001, 0.003]]]]), (Unit("a", 0),), (Unit("b", 0),) * 6)
    shown = explorer._view(view, np.array([[0.123456]]))
    assert list(base64.b64decode(shown["weights"])) == [0, 255, 255, 128, 0, 1]
    assert shown["statistics"]["alignment"] == [[0.1235]]
    assert set(shown["statistics"]) == {"distance", "entropy", "peak", "previous", "diagonal", "next", "alignment"}
    assert (shown["queries"], shown["keys"]) == (["a"], ["b"] * 6)
