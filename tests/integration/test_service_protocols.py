"""All protocols over a real model: each answers what `Translator` does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deepl
import httpx2
import pytest
from deep_translator import LibreTranslator
from libretranslatepy import LibreTranslateAPI

from described_answers import events_of, require_described
from made_models import untied_folder
from real_app import real_app
from running_app import running
from serve_conformance import conformance
from transduce import Translator
from transduce.translation.pipeline import TextOptions

pytestmark = [
    pytest.mark.computes,
    # The clients leave it to the interpreter to close what they opened.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

_TEXTS = ["A dog runs.", "Two dogs run over the green grass! A man with a ball.", "a man\n\nwith a ball", ""]
_HTML = "<p>A <b>dog</b> runs.</p><p>Two dogs, {name}.</p>"
_DEFAULT = TextOptions(split="always", guard=True)  # of the service


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder."""
    return untied_folder(tmp_path_factory.mktemp("models") / "model")


@pytest.fixture(scope="module")
def translator(folder: Path) -> Translator:
    """The model by itself."""
    return Translator.load(folder)


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """The address of a service with the model."""
    with running(real_app(folder)) as found:
        yield found


def _asked(address: str, path: str, fields: dict[str, Any]) -> Any:
    answer = httpx2.post(f"{address}{path}", json=fields, timeout=60)
    require_described("POST", path, answer.status_code, answer.headers["content-type"], answer.content)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_clients_get_what_the_translator_writes(address: str, translator: Translator) -> None:
    expected = translator.translate(_TEXTS, text_options=_DEFAULT)
    libre = LibreTranslateAPI(address)
    assert [libre.translate(text, "en", "de") for text in _TEXTS[:3]] == expected[:3]
    deep = LibreTranslator(source="en", target="de", api_key="none", custom_url=f"{address}/")
    assert [deep.translate(text) for text in _TEXTS[:3]] == expected[:3]
    found = deepl.DeepLClient("none", server_url=address).translate_text(_TEXTS, source_lang="EN", target_lang="DE")
    assert isinstance(found, list)
    assert [each.text for each in found] == expected


def test_html_keeps_its_tags(address: str, translator: Translator) -> None:
    [expected] = translator.translate([_HTML], text_options=TextOptions(split="always", guard=True, markup="html"))
    fields = {"source": "en", "target": "de"}
    found = _asked(address, "/translate", {"q": [_HTML], "format": "html"} | fields)
    assert found["translatedText"] == [expected]
    for tag in ("<p>", "<b>", "</b>", "{name}"):
        assert expected.count(tag) == _HTML.count(tag)
    kept = {"text": ["A <x>dog</x> runs."], "source_lang": "EN", "target_lang": "DE", "tag_handling": "xml"}
    found = _asked(address, "/v2/translate", kept | {"ignore_tags": ["x"]})["translations"][0]["text"]
    assert found.count("<x>dog</x>") == 1
    assert "translate=" not in found


def test_words_that_tags_cut_come_back_from_every_protocol(address: str) -> None:
    """A model of random weights writes none of these words: each comes back all the same, with its tags."""
    words = ["m<sup>2</sup>", "CO<sub>2</sub>", "nas<span>@</span>debian<span>.</span>org", "<sup>1</sup>"]
    text = "<b>A</b> dog{3} runs on 20 {0}, with {1}, to {2}.".format(*words)
    deepl = {"text": [text], "source_lang": "EN", "target_lang": "DE"}
    found = [_asked(address, "/v2/translate", {**deepl, "tag_handling": kind}) for kind in ("xml", "html")]
    texts = [each["translations"][0]["text"] for each in found]
    libre = {"q": text, "source": "en", "target": "de", "format": "html"}
    texts.append(_asked(address, "/translate", libre)["translatedText"])
    own = {"text": [text], "source": "en", "target": "de", "markup": "html"}
    texts.append(_asked(address, "/api/translate", own)["translations"][0]["text"])
    for translation in texts:
        assert translation != text
        assert [translation.count(word) for word in words] == [1, 1, 1, 1]


def test_our_own_protocol_has_what_the_translator_knows(address: str, translator: Translator) -> None:
    options = TextOptions(split="always", guard=True, confidence=True, alignment=True)
    expected = translator.translate_n_best(_TEXTS, 2, text_options=options, beam_size=3)
    fields = {"text": _TEXTS, "source": "en", "target": "de", "n_best": 2, "beam_size": 3}
    found = _asked(address, "/api/translate", fields)["translations"]
    for one, best in zip(found, expected, strict=True):
        assert one["text"] == best[0].text
        assert [each["text"] for each in one["n_best"]] == [each.text for each in best]
        assert one["confidence"] == pytest.approx(best[0].confidence, abs=1e-4)
        assert [word["text"] for word in one["words"]] == [word for word, _ in best[0].words]
        for name in ("sentences", "alignment"):
            spans = [[list(source), list(target)] for source, target in getattr(best[0], name)]
            assert [[each["source"], each["target"]] for each in one[name]] == spans
    assert len(found[1]["sentences"]) == 2
    assert len(found[0]["alignment"]) > 0


def test_alternatives_are_lists_of_other_translations(address: str, translator: Translator) -> None:
    wide = translator.options.beam_size + 3
    [expected] = translator.translate_n_best(["A dog runs."], wide, text_options=_DEFAULT, beam_size=wide)
    found = _asked(
        address, "/translate", {"q": "A dog runs.", "source": "en", "target": "de", "alternatives": wide - 1}
    )
    others = list(dict.fromkeys(each.text for each in expected))
    assert [found["translatedText"], *found["alternatives"]] == others


def test_required_terms_come_out_and_say_so(address: str) -> None:
    fields = {"text": "A dog runs.", "source": "en", "target": "de", "required": ["Hund"], "prefix": "Ein"}
    [found] = _asked(address, "/api/translate", fields)["translations"]
    assert found["text"].startswith("Ein")
    [term] = found["required"]
    assert (term["terms"], term["found"]) == (["Hund"], "Hund" in found["text"])
    glossary = {"name": "pets", "source_lang": "EN", "target_lang": "DE", "entries": "dog\tHund"}
    made = httpx2.post(f"{address}/v2/glossaries", json=glossary).json()
    fields = {"text": ["A dog runs."], "source_lang": "EN", "target_lang": "DE", "glossary_id": made["glossary_id"]}
    assert "Hund" in _asked(address, "/v2/translate", fields)["translations"][0]["text"]


def test_a_stream_is_the_translation(address: str, translator: Translator) -> None:
    text = "A dog runs. Two dogs run over the green grass!\n\nA man with a ball."
    [expected] = translator.translate([text], text_options=_DEFAULT)
    fields = {"text": text, "source": "en", "target": "de", "stream": True}
    answer = httpx2.post(f"{address}/api/translate", json=fields, timeout=60)
    require_described("POST", "/api/translate", 200, answer.headers["content-type"], answer.content)
    events = events_of(answer.text)
    assert [name for name, _ in events] == ["sentence", "sentence", "sentence", "done"]
    assert "".join(event["added"] for _, event in events[:-1]) == expected == events[-1][1]["text"]
    assert [text[slice(*event["span"])] for _, event in events[:2]] == [
        "A dog runs.",
        "Two dogs run over the green grass!",
    ]


@pytest.mark.slow
def test_no_request_of_hundreds_breaks_the_service(address: str) -> None:
    """Requests that schemathesis makes from the OpenAPI document: no server error, no answer that is not described."""
    found = conformance(address, cases=500, max_examples=6)
    assert found["failures"] == []
    assert found["cases"] >= 500
    assert found["operations"] == 46
    assert set(found["phases"].values()) == {"success"}
