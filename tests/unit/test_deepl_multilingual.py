"""The protocol of DeepL, version 3: glossaries of several dictionaries, on the same store as those of version 2."""

from pathlib import Path
from typing import Any

import pytest

from described_answers import DescribedClient
from fake_service import FakeService, fake_app
from transduce.serve.operations.keys import KeyRing, add_key
from transduce.serve.web import deepl_glossaries
from transduce.translation.constraints.glossary import Glossary

_URL = "/v3/glossaries"
_EN_DE = {"source_lang": "EN", "target_lang": "DE", "entries": "dog\tHund\ncat\tKatze", "entries_format": "tsv"}
_DE_EN = {"source_lang": "de", "target_lang": "en-GB", "entries": "Hund,hound", "entries_format": "csv"}
_GLOSSARY = {"name": "pets", "dictionaries": [_EN_DE, _DE_EN]}
_NONE = {"message": "The glossary has no dictionary for these languages."}


def _made(client: DescribedClient, **changes: Any) -> str:
    made = client.post(_URL, json=_GLOSSARY | changes)
    assert made.status_code == 201
    return f"{_URL}/{made.json()['glossary_id']}"


def _terms(client: DescribedClient, path: str, source: str, target: str) -> str:
    found = client.get(f"{path}/entries", params={"source_lang": source, "target_lang": target})
    [dictionary] = found.json()["dictionaries"]
    assert (dictionary["source_lang"], dictionary["target_lang"]) == (source.lower(), target.lower())
    assert dictionary["entries_format"] == "tsv"
    terms: str = dictionary["entries"]
    return terms


def _counts(client: DescribedClient, path: str) -> list[tuple[str, str, int]]:
    listed = client.get(path).json()["dictionaries"]
    return [(each["source_lang"], each["target_lang"], each["entry_count"]) for each in listed]


def test_a_glossary_has_a_dictionary_for_each_pair(client: DescribedClient) -> None:
    path = _made(client)
    described = client.get(path).json()
    assert (described["name"], client.get(_URL).json()) == ("pets", {"glossaries": [described]})
    assert _counts(client, path) == [("en", "de", 2), ("de", "en", 1)]
    assert _terms(client, path, "EN", "DE") == "dog\tHund\ncat\tKatze"
    assert _terms(client, path, "de", "en") == "Hund\thound"
    missing = client.get(f"{path}/entries", params={"source_lang": "EN", "target_lang": "PT"})
    assert (missing.status_code, missing.json()) == (404, _NONE)


def test_a_glossary_may_have_no_dictionary_yet(client: DescribedClient) -> None:
    path = _made(client, dictionaries=[])
    assert (_counts(client, path), len(client.get(_URL).json()["glossaries"])) == ([], 1)
    fields = {"text": ["A dog"], "source_lang": "EN", "target_lang": "DE", "glossary_id": path.rpartition("/")[2]}
    answer = client.post("/v2/translate", json=fields)
    message = "No dictionary found for language pair en-de in this glossary."
    assert (answer.status_code, answer.json()) == (400, {"message": message})
    client.put(f"{path}/dictionaries", json=_EN_DE)
    assert client.post("/v2/translate", json=fields).status_code == 200


def test_forms_spell_dictionaries_with_indices(client: DescribedClient) -> None:
    """As the official client for Node.js has it, and as PHP's forms have it; the fields may come in any order."""
    form = {"name": "pets"}
    form |= {f"dictionaries[1].{name}": value for name, value in _DE_EN.items()}
    form |= {f"dictionaries[0][{name}]": value for name, value in _EN_DE.items()}
    made = client.post(_URL, data=form).json()
    assert _counts(client, f"{_URL}/{made['glossary_id']}") == [("en", "de", 2), ("de", "en", 1)]


def test_each_direction_uses_its_own_terms(client: DescribedClient, service: FakeService) -> None:
    path = _made(client)
    fields = {"text": ["A dog, ein Hund"], "source_lang": "EN", "target_lang": "DE"}
    fields["glossary_id"] = path.rpartition("/")[2]
    for source, target, word in (("EN", "DE", "Hund"), ("DE", "EN-US", "hound")):
        answer = client.post("/v2/translate", json=fields | {"source_lang": source, "target_lang": target})
        assert answer.status_code == 200
        used = service.requests[-1].glossary
        assert isinstance(used, Glossary)
        assert used.required_in("A dog, ein Hund") == ((word,),)
    assert client.post("/v2/translate", json=fields | {"target_lang": "PT-BR"}).status_code == 400
    client.patch(path, json={"dictionaries": [_EN_DE | {"entries": "dog\tKöter"}]})
    client.post("/v2/translate", json=fields)
    used = service.requests[-1].glossary
    assert isinstance(used, Glossary)
    assert used.required_in("A dog, ein Hund") == (("Köter",),), "not the terms from before the change"


def test_a_change_adds_and_replaces_terms(client: DescribedClient) -> None:
    path = _made(client)
    changed = client.patch(
        path, json={"name": "animals", "dictionaries": [_EN_DE | {"entries": "cat\tKater\ncow\tKuh"}]}
    )
    assert (changed.status_code, changed.json()) == (200, client.get(path).json())
    assert changed.json()["name"] == "animals"
    assert _counts(client, path) == [("en", "de", 3), ("de", "en", 1)]
    assert _terms(client, path, "en", "de") == "dog\tHund\ncat\tKater\ncow\tKuh"
    assert client.patch(path, json={"name": "pets"}).json()["dictionaries"] == changed.json()["dictionaries"]
    client.patch(path, json={"dictionaries": [_EN_DE | {"target_lang": "PT", "entries": "dog\tcão"}]})
    assert _counts(client, path) == [("en", "de", 3), ("de", "en", 1), ("en", "pt", 1)]
    assert client.get(path).json()["name"] == "pets"


def test_a_dictionary_is_replaced_and_deleted(client: DescribedClient) -> None:
    path = _made(client)
    put = client.put(f"{path}/dictionaries", json=_EN_DE | {"entries": "cow\tKuh"})
    assert (put.status_code, put.json()) == (200, {"source_lang": "en", "target_lang": "de", "entry_count": 1})
    assert _terms(client, path, "en", "de") == "cow\tKuh"
    pair = {"source_lang": "EN", "target_lang": "DE"}
    assert client.delete(f"{path}/dictionaries", params=pair).status_code == 204
    assert _counts(client, path) == [("de", "en", 1)]
    missing = client.delete(f"{path}/dictionaries", params=pair)
    assert (missing.status_code, missing.json()) == (404, _NONE)


def test_both_versions_have_the_same_glossaries(client: DescribedClient) -> None:
    """Version 2 has those of one dictionary."""
    old = client.post("/v2/glossaries", json={"name": "old"} | _EN_DE).json()["glossary_id"]
    assert _terms(client, f"{_URL}/{old}", "EN", "DE") == "dog\tHund\ncat\tKatze"
    path = _made(client)
    new = path.rpartition("/")[2]
    assert [each["glossary_id"] for each in client.get(_URL).json()["glossaries"]] == [old, new]
    assert [each["glossary_id"] for each in client.get("/v2/glossaries").json()["glossaries"]] == [old]
    hidden = client.get(f"/v2/glossaries/{new}")
    assert (hidden.status_code, hidden.json()) == (
        404,
        {"message": "This glossary has 2 dictionaries: use /v3/glossaries."},
    )
    client.delete(f"{path}/dictionaries", params={"source_lang": "de", "target_lang": "en"})
    assert client.get(f"/v2/glossaries/{new}").json()["entry_count"] == 2
    assert client.delete(f"{_URL}/{old}").status_code == 204
    assert client.delete(f"/v2/glossaries/{new}").status_code == 204
    assert client.get(_URL).json() == {"glossaries": []}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": None}, "Parameter 'name' not specified."),
        ({"dictionaries": "x"}, "Value for 'dictionaries' must be a list of dictionaries."),
        ({"dictionaries": [1]}, "Value for 'dictionaries' must be a list of dictionaries."),
        ({"dictionaries": [_EN_DE, _EN_DE]}, "Value for 'dictionaries' has two dictionaries for the same languages."),
        ({"dictionaries": [_EN_DE | {"target_lang": "XX"}]}, "Unsupported glossary language pair."),
        ({"dictionaries": [_EN_DE | {"entries": "dog"}]}, "Invalid glossary entries: line 1 does not have two terms."),
    ],
)
def test_wrong_glossaries_are_refused(client: DescribedClient, changes: dict[str, Any], message: str) -> None:
    answer = client.post(_URL, json=_GLOSSARY | changes)
    assert (answer.status_code, answer.json()) == (400, {"message": message})
    assert client.get(_URL).json() == {"glossaries": []}


def test_changes_add_up_to_no_more_terms_than_allowed(client: DescribedClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deepl_glossaries, "_MAX_TERMS", 2)
    path = _made(client)
    answer = client.patch(path, json={"dictionaries": [_EN_DE | {"entries": "cow\tKuh"}]})
    assert (answer.status_code, answer.json()) == (400, {"message": "Invalid glossary entries: more than 2."})
    assert _counts(client, path) == [("en", "de", 2), ("de", "en", 1)]


def test_what_is_not_there_is_answered_in_the_protocol_s_words(client: DescribedClient) -> None:
    pair = "?source_lang=EN&target_lang=DE"
    for answer in (
        client.get(f"{_URL}/x"),
        client.patch(f"{_URL}/x", json={"name": "y"}),
        client.delete(f"{_URL}/x"),
        client.get(f"{_URL}/x/entries{pair}"),
        client.put(f"{_URL}/x/dictionaries", json=_EN_DE),
        client.delete(f"{_URL}/x/dictionaries{pair}"),
    ):
        assert (answer.status_code, answer.json()) == (404, {"message": "Glossary not found."})
    assert client.get("/v3/nothing").json() == {"message": "There is nothing at this address."}


def test_glossaries_belong_to_their_key_which_pays_for_their_terms(tmp_path: Path) -> None:
    """A change that fails costs nothing."""
    path = tmp_path / "keys.toml"
    one, other = ({"authorization": f"DeepL-Auth-Key {add_key(path, name)}"} for name in ("one", "other"))
    with DescribedClient(fake_app(keys=KeyRing(path))) as client:
        made = client.post(_URL, json=_GLOSSARY, headers=one).json()
        found = f"{_URL}/{made['glossary_id']}"
        assert client.get(_URL).status_code == 403
        assert client.get(_URL, headers=other).json() == {"glossaries": []}
        assert client.put(f"{found}/dictionaries", json=_EN_DE, headers=other).status_code == 404
        assert client.patch(found, json={"name": "mine"}, headers=other).status_code == 404
        change = {"dictionaries": [_EN_DE | {"entries": "cow\tKuh"}]}
        assert client.patch(found, json=change, headers=one).json()["name"] == "pets"
        used = [client.get("/v2/usage", headers=each).json()["character_count"] for each in (one, other)]
        assert used == [3 + 4 + 3 + 5 + 4 + 5 + 3 + 3, 0]
