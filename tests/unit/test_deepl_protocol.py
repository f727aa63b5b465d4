"""The protocol of DeepL: languages, tags, glossaries, keys, and the words of its errors."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from described_answers import DescribedClient
from fake_service import FakeService, fake_app
from transduce.serve.config import BatchingConfig, LimitsConfig, ServeConfig
from transduce.serve.operations.keys import ANONYMOUS, KeyRing, add_key
from transduce.serve.state.store import StoredDictionary, StoredGlossary
from transduce.serve.web import deepl, deepl_glossaries
from transduce.serve.web.deepl_fields import tag_names
from transduce.serve.web.refusals import Refusal
from transduce.translation.constraints.glossary import Glossary

_GLOSSARY = {"name": "pets", "source_lang": "en", "target_lang": "de", "entries": "dog\tHund\ncat\tKatze"}


@pytest.fixture
def client(service: FakeService) -> Iterator[DescribedClient]:
    """A client of a service with low limits, and without keys."""
    limits = LimitsConfig(body_bytes=200_000, text_characters=100, list_length=3)
    with DescribedClient(fake_app(service, ServeConfig(limits=limits))) as made:
        yield made


def _fields(**changes: Any) -> dict[str, Any]:
    return {"text": ["Hello"], "target_lang": "DE", "source_lang": "EN"} | changes


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (_fields(text=None), "Parameter 'text' not specified."),
        (_fields(text=[]), "Parameter 'text' not specified."),
        (_fields(text=[1]), "Parameter 'text' must be a list of texts."),
        (_fields(text=["a"] * 4), "Too many texts: 4, at most 3."),
        (_fields(text=["a" * 101]), "Text too long: 101 characters, at most 100."),
        (_fields(target_lang=None), "Parameter 'target_lang' not specified."),
        (_fields(target_lang="XX"), "Value for 'target_lang' not supported."),
        (_fields(source_lang="XX"), "Value for 'source_lang' not supported."),
        (_fields(source_lang=5), "Value for 'source_lang' must be a text."),
        (_fields(tag_handling="latex"), "Value for 'tag_handling' not supported: use one of xml, html."),
        (
            _fields(split_sentences="2"),
            "Value for 'split_sentences' not supported: use one of 0, 1, nonewlines.",
        ),
        (
            _fields(formality="more"),
            "'formality' is not supported: leave it out, or use 'prefer_more' or 'prefer_less'.",
        ),
        (_fields(style_id="x"), "'style_id' is not supported."),
        (_fields(custom_instructions=["Be nice"]), "'custom_instructions' is not supported."),
        (
            _fields(tag_handling="xml", ignore_tags=[1]),
            "Value for 'ignore_tags' must be a list of names of tags.",
        ),
        (_fields(tag_handling="xml", ignore_tags=["x"] * 101), "Too many 'ignore_tags': 101, at most 100."),
        (
            _fields(tag_handling="xml", ignore_tags=["x" * 101]),
            "Value for 'ignore_tags' has a name of more than 100 characters.",
        ),
        (
            _fields(glossary_id="x", source_lang=None),
            "Use of a glossary requires the source_lang parameter to be specified.",
        ),
    ],
)
def test_wrong_requests_are_refused_in_the_protocol_s_words(
    client: DescribedClient, fields: dict[str, Any], message: str
) -> None:
    answer = client.post("/v2/translate", json=fields)
    assert (answer.status_code, answer.json()) == (400, {"message": message})


def test_requests_end_when_clients_ask_again(client: DescribedClient, service: FakeService) -> None:
    client.post("/v2/translate", json=_fields())
    assert service.requests[-1].timeout_seconds == 10


def test_work_that_clients_would_not_wait_for_is_refused_at_once(client: DescribedClient, service: FakeService) -> None:
    service.seconds_per_character = 1.0
    fields = _fields(text=["It is fine.", "Das Wetter ist heute schön."], source_lang=None)
    answer = client.post("/v2/translate", json=fields)
    assert answer.status_code == 400
    assert answer.json()["message"].startswith("Text too long: it would take about 11 s here, and clients wait 10 s.")
    assert service.requests == []
    service.seconds_per_character = 0.9
    assert client.post("/v2/translate", json=fields).status_code == 200


def test_work_in_several_languages_adds_up(client: DescribedClient, service: FakeService) -> None:
    """Of 21 and 25 characters; neither alone takes more than 10 seconds."""
    service.seconds_per_character = 0.25
    fields = {"text": ["Das Wetter ist schön.", "מזג האוויר נאה היום מאוד."], "target_lang": "EN"}
    answer = client.post("/v2/translate", json=fields)
    assert answer.status_code == 400
    assert answer.json()["message"].startswith("Text too long: it would take about 12 s here")
    service.seconds_per_character = 0.2
    assert client.post("/v2/translate", json=fields).status_code == 200
    assert {(request.source, len(request.texts)) for request in service.requests} == {("de", 1), ("he", 1)}


def test_a_deadline_below_the_patience_of_clients_holds(service: FakeService) -> None:
    config = ServeConfig(batching=BatchingConfig(deadline_seconds=4))
    with DescribedClient(fake_app(service, config)) as client:
        assert client.post("/v2/translate", json=_fields()).status_code == 200
    assert service.requests[-1].timeout_seconds == 4


def test_languages_are_told_as_clients_choose_them(client: DescribedClient) -> None:
    """Sources have no region. A target without one is offered with those that clients know; its own code stays."""
    german, hebrew = {"language": "DE", "name": "German"}, {"language": "HE", "name": "Hebrew"}
    sources = [german, {"language": "EN", "name": "English"}, hebrew]
    assert client.get("/v2/languages").json() == sources
    assert client.post("/v2/languages", data={"type": "source"}).json() == sources
    targets = [
        *(("DE", "German"), ("EN-GB", "English (British)"), ("EN-US", "English (American)")),
        ("PT-BR", "Portuguese (Brazil)"),
    ]
    assert client.get("/v2/languages?type=target").json() == [
        {"language": code, "name": name, "supports_formality": False} for code, name in targets
    ]
    assert client.get("/v2/languages?type=both").status_code == 400
    portuguese = [("PT-BR", "Portuguese (Brazilian)"), ("PT-PT", "Portuguese (European)")]
    assert list(deepl._target_variants("pt")) == portuguese


def test_a_key_without_a_limit_is_told_that_of_the_protocol(client: DescribedClient) -> None:
    assert client.get("/v2/usage").json() == {"character_count": 0, "character_limit": 10**12}


def test_hints_are_ignored(client: DescribedClient) -> None:
    hints = {"context": "A letter.", "formality": "prefer_less", "unknown": 1}
    expected = {"text": "[de] HELLO", "detected_source_language": "EN", "billed_characters": 5}
    assert client.post("/v2/translate", json=_fields(**hints)).json() == {"translations": [expected]}


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("quality_optimized", "quality_optimized"),
        ("prefer_quality_optimized", "quality_optimized"),
        ("latency_optimized", "latency_optimized"),
    ],
)
def test_a_type_of_model_is_repeated(client: DescribedClient, given: str, used: str) -> None:
    found = client.post("/v2/translate", json=_fields(model_type=given)).json()["translations"]
    assert found[0]["model_type_used"] == used
    assert client.post("/v2/translate", json=_fields(model_type="best")).status_code == 400


def test_source_languages_are_detected_for_each_text(client: DescribedClient) -> None:
    texts = ["Das Wetter ist schön.", "It is a fine day."]
    found = client.post("/v2/translate", json={"text": texts, "target_lang": "EN-US"}).json()["translations"]
    assert [each["detected_source_language"] for each in found] == ["DE", "EN"]
    assert [each["text"] for each in found] == ["[en] DAS WETTER IST SCHÖN.", "It is a fine day."]
    assert [each["billed_characters"] for each in found] == [21, 17]


@pytest.mark.parametrize("target", ["PT", "PT-BR", "pt-pt", "PB"])
def test_targets_with_another_region_are_what_is_served(client: DescribedClient, target: str) -> None:
    found = client.post("/v2/translate", json=_fields(target_lang=target)).json()["translations"]
    assert found[0]["text"] == "[pt-BR] HELLO"


def test_ignored_tags_keep_their_content(client: DescribedClient, service: FakeService) -> None:
    text = 'Press <x id="1">Stop</x> or <y>Go</y> in <X>a</X> <x/> <xy>b</xy>\ttranslate="no"'
    fields = _fields(text=[text], tag_handling="xml", ignore_tags=["x", "y"])
    [found] = client.post("/v2/translate", json=fields).json()["translations"]
    assert found["text"] == '[de] PRESS <x id="1">Stop</x> OR <y>Go</y> IN <X>a</X> <x/> <xy>B</xy>\tTRANSLATE="NO"'
    assert found["billed_characters"] == len(text)
    assert service.requests[-1].text_options is not None
    assert service.requests[-1].text_options.markup == "html"
    client.post("/v2/translate", json=_fields(text=[text], ignore_tags="x"))
    assert service.requests[-1].texts == [text]


@pytest.mark.parametrize(
    ("given", "names"),
    [(None, []), ("", []), ("x", ["x"]), ("x, y,", ["x", "y"]), (["x,y", " z "], ["x", "y", "z"])],
)
def test_names_of_tags_come_as_a_list_or_with_commas(given: Any, names: list[str]) -> None:
    assert tag_names(given) == names


def test_marks_of_ignored_tags_are_none_that_the_text_has(client: DescribedClient, service: FakeService) -> None:
    text = '<x>a</x> <x\ttranslate="yes">b</x> \t\ttranslate="no" \t\t\t'
    fields = _fields(text=[text], tag_handling="xml", ignore_tags=["x"])
    [found] = client.post("/v2/translate", json=fields).json()["translations"]
    assert service.requests[-1].texts[0].startswith('<x\t\t\ttranslate="no">a</x>')
    assert found["text"].startswith('[de] <x>a</x> <x\ttranslate="yes">b</x>')


def test_how_sentences_are_split(client: DescribedClient, service: FakeService) -> None:
    for given, split, read in (("0", "auto", "A.\nB."), ("1", "always", "A.\nB."), ("nonewlines", "always", "A. B.")):
        client.post("/v2/translate", json=_fields(text=["A.\nB."], split_sentences=given))
        request = service.requests[-1]
        assert request.text_options is not None
        assert (request.text_options.split, request.texts) == (split, [read])
    client.post("/v2/translate", json=_fields())
    assert service.requests[-1].text_options is None


def test_more_glossaries_than_are_kept_in_memory_can_be_used(client: DescribedClient, service: FakeService) -> None:
    ids = []
    for number in range(40):
        made = client.post("/v2/glossaries", json=_GLOSSARY | {"entries": f"dog\tHund{number}"}).json()
        ids.append(made["glossary_id"])
    for number in [*range(40), 39, 0]:
        answer = client.post("/v2/translate", json=_fields(text=["A dog"], glossary_id=ids[number]))
        assert answer.status_code == 200
        used = service.requests[-1].glossary
        assert isinstance(used, Glossary)
        assert used.required_in("A dog") == ((f"Hund{number}",),)


def test_the_glossaries_that_were_used_last_stay_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, str]] = []
    monkeypatch.setattr(deepl_glossaries, "Glossary", lambda terms: made.append(terms) or terms)  # type: ignore[func-returns-value]

    class Kept:
        """A store that has a glossary of each id."""

        def dictionary(self, owner: str, glossary_id: str, source: str, target: str) -> StoredDictionary | None:
            terms = StoredDictionary("en", "pt", (("a", glossary_id),))
            return terms if (source, target) == ("en", "pt") else None

        def glossary(self, owner: str, glossary_id: str) -> StoredGlossary:
            return StoredGlossary(glossary_id, owner, "n", (), datetime.now(UTC))

    nothing: Any = None
    store: Any = Kept()
    glossaries = deepl_glossaries.DeeplGlossaries(nothing, store)

    def use(number: int) -> None:
        found: Any = asyncio.run(glossaries.for_translation(ANONYMOUS, str(number), "EN-us", "pt-BR"))
        assert found == {"a": str(number)}

    for number in [*range(32), 0, 32, 0, 2, 1]:
        use(number)
    assert [each["a"] for each in made] == [str(number) for number in [*range(33), 1]], "1 was used the longest ago"
    assert glossaries._ready.cache_info().currsize == 32
    assert asyncio.run(glossaries.for_translation(ANONYMOUS, "", "en", "de")) is None
    for source, target in (("de", "pt"), ("en", "de")):
        with pytest.raises(Refusal, match=r"No dictionary found for language pair .* in this glossary"):
            asyncio.run(glossaries.for_translation(ANONYMOUS, "1", source, target))


def test_glossaries_are_made_used_and_deleted(client: DescribedClient, service: FakeService) -> None:
    made = client.post("/v2/glossaries", json=_GLOSSARY)
    assert made.status_code == 201
    glossary = made.json()
    expected = {"name": "pets", "ready": True, "source_lang": "en", "target_lang": "de", "entry_count": 2}
    assert expected.items() <= glossary.items()
    assert datetime.strptime(glossary["creation_time"], "%Y-%m-%dT%H:%M:%S.%f%z").utcoffset() is not None
    path = f"/v2/glossaries/{glossary['glossary_id']}"
    assert client.get(path).json() == glossary
    assert client.get("/v2/glossaries").json() == {"glossaries": [glossary]}
    entries = client.get(f"{path}/entries", headers={"accept": "text/tab-separated-values"})
    assert entries.text == "dog\tHund\ncat\tKatze"
    fields = _fields(text=["A dog"], glossary_id=glossary["glossary_id"])
    assert client.post("/v2/translate", json=fields).status_code == 200
    used = service.requests[-1].glossary
    assert isinstance(used, Glossary)
    assert used.required_in("A dog") == (("Hund",),)
    wrong = fields | {"target_lang": "PT-BR"}
    assert client.post("/v2/translate", json=wrong).status_code == 400
    assert client.delete(path).status_code == 204
    for answer in (client.get(path), client.delete(path), client.get(f"{path}/entries")):
        assert (answer.status_code, answer.json()) == (404, {"message": "Glossary not found."})
    assert client.post("/v2/translate", json=fields).status_code == 404


def test_terms_may_hold_any_printable_sign(client: DescribedClient) -> None:
    made = client.post("/v2/glossaries", json=_GLOSSARY | {"entries": "a\u00a0b~\tc \u20acd\n\n \t \nx\ty"}).json()
    assert client.get(f"/v2/glossaries/{made['glossary_id']}/entries").text == "a\u00a0b~\tc \u20acd\nx\ty"
    assert made["entry_count"] == 2


def test_glossaries_in_csv(client: DescribedClient) -> None:
    entries = '"dog, big",Hund,EN-US,de\r\ncat,"Katze ""Mau""",,\r\n\r\n'
    made = client.post("/v2/glossaries", data=_GLOSSARY | {"entries_format": "csv", "entries": entries}).json()
    found = client.get(f"/v2/glossaries/{made['glossary_id']}/entries").text
    assert found == 'dog, big\tHund\ncat\tKatze "Mau"'


def test_quotation_marks_in_tab_separated_glossaries_are_part_of_the_terms(client: DescribedClient) -> None:
    entries = '"dog"\t"Hund"\n the "big" cat \tKatze, \'groß\''
    made = client.post("/v2/glossaries", json=_GLOSSARY | {"entries": entries}).json()
    found = client.get(f"/v2/glossaries/{made['glossary_id']}/entries")
    assert found.text == '"dog"\t"Hund"\nthe "big" cat\tKatze, \'groß\''
    assert found.headers["content-type"].startswith("text/tab-separated-values")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": " "}, "Parameter 'name' not specified."),
        ({"name": "a\0"}, "Value for 'name' holds a NUL character."),
        ({"name": "a" * 2000}, "Value for 'name' has more than 1024 characters."),
        ({"target_lang": "xx"}, "Unsupported glossary language pair."),
        ({"source_lang": "de"}, "Unsupported glossary language pair."),
        ({"entries_format": "xls"}, "Value for 'entries_format' not supported: use one of tsv, csv."),
        ({"entries_format": []}, "Value for 'entries_format' not supported: use one of tsv, csv."),
        ({"entries": "dog"}, "Invalid glossary entries: line 1 does not have two terms."),
        ({"entries": "a\tb\nc\td\te"}, "Invalid glossary entries: line 2 does not have two terms."),
        ({"entries": "a\tb\n\tc"}, "Invalid glossary entries: a term in line 2 is empty or not text."),
        (
            {"entries_format": "csv", "entries": "a,b\nHund,dog,DE,EN"},
            "Invalid glossary entries: line 2 is of de-en, not en-de.",
        ),
        ({"entries": "a\tb\na\tc"}, "Invalid glossary entries: 'a' in line 2 is there already."),
        (
            {"entries": "\n".join(f"{number}\ta" for number in range(10_001))},
            "Invalid glossary entries: more than 10,000.",
        ),
        (
            {"entries": "a\tb\n" + "c" * 501 + "\td"},
            "Invalid glossary entries: a term in line 2 has 501 characters, and at most 500 are allowed.",
        ),
        ({"entries": "a\tb\x07"}, "Invalid glossary entries: a term in line 1 is empty or not text."),
        *(
            ({"entries": f"a\tb{sign}c"}, "Invalid glossary entries: a term in line 1 is empty or not text.")
            for sign in ("\x01", "\x1f", "\x7f", "\x9f")
        ),
        ({"entries": "a\t "}, "Invalid glossary entries: a term in line 1 is empty or not text."),
        ({"entries": "a\tb\ten\tde"}, "Invalid glossary entries: line 1 does not have two terms."),
        ({"entries": "a,b,en", "entries_format": "csv"}, "Invalid glossary entries: line 1 does not have two terms."),
        ({"entries": " \n\t\n"}, "Parameter 'entries' not specified."),
        ({"entries": ",", "entries_format": "csv"}, "Invalid glossary entries: there are none."),
    ],
)
def test_wrong_glossaries_are_refused(client: DescribedClient, changes: dict[str, Any], message: str) -> None:
    answer = client.post("/v2/glossaries", json=_GLOSSARY | changes)
    assert (answer.status_code, answer.json()) == (400, {"message": message})


def test_pairs_of_glossaries(client: DescribedClient) -> None:
    found = client.get("/v2/glossary-language-pairs").json()["supported_languages"]
    assert {"source_lang": "en", "target_lang": "pt"} in found
    assert len(found) == 4
    assert found == sorted(found, key=lambda pair: (pair["source_lang"], pair["target_lang"]))


def test_a_glossary_may_be_as_large_as_it_may_be(client: DescribedClient) -> None:
    entries = "\n".join([f"{number}\ta" for number in range(9999)] + ["b" * 500 + "\t" + "c" * 500])
    made = client.post("/v2/glossaries", json=_GLOSSARY | {"name": "a" * 1024, "entries": entries})
    assert (made.status_code, made.json()["entry_count"]) == (201, 10_000)
    second = client.post("/v2/glossaries", json=_GLOSSARY | {"entries": "a\t" + "c" * 501})
    assert (second.status_code, "501 characters" in second.json()["message"]) == (400, True)


def test_keys_see_their_own_glossaries_and_usage_only(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    one, other = add_key(path, "one", per_day=27), add_key(path, "other", per_minute=1)
    with DescribedClient(fake_app(keys=KeyRing(path))) as client:

        def of(secret: str) -> dict[str, str]:
            return {"authorization": f"DeepL-Auth-Key {secret}"}

        for headers in ({}, of("wrong"), {"authorization": f"Bearer {one}"}):
            answer = client.get("/v2/usage", headers=headers)
            assert answer.status_code == 403
            assert "Authorization failed" in answer.json()["message"]
        made = client.post("/v2/glossaries", json=_GLOSSARY, headers=of(one)).json()
        assert client.get("/v2/glossaries", headers=of(other)).json() == {"glossaries": []}
        assert client.get(f"/v2/glossaries/{made['glossary_id']}", headers=of(other)).status_code == 404
        assert client.post("/v2/translate", json=_fields(text=["Twelve signs"]), headers=of(one)).status_code == 200
        usage = {"character_count": 27, "character_limit": 27}  # with those of the glossary's terms
        assert client.get("/v2/usage", headers=of(one)).json() == usage
        assert client.post("/v2/translate", json=_fields(), headers=of(one)).status_code == 456
        assert client.post("/v2/translate", json=_fields(), headers=of(other)).status_code == 200
        assert client.post("/v2/translate", json=_fields(), headers=of(other)).status_code == 429
