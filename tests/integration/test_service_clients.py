"""Clients that people have, as they are published, against a running service."""

import asyncio
import json
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import deepl
import pytest
from deep_translator import LibreTranslator
from deep_translator.exceptions import AuthorizationException
from deepl.api_data import MultilingualGlossaryDictionaryEntries
from libretranslatepy import LibreTranslateAPI

from fake_service import FakeService, fake_app, read_documents_here
from running_app import running
from transduce.serve.operations.keys import KeyRing, add_key

_GERMAN = "Das Wetter ist heute schön."

# These clients leave it to the interpreter to close what they opened.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The secret of a key that may use the service."""
    return add_key(_keys(tmp_path_factory), "client")


def _keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp() / "keys.toml"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, secret: str) -> Iterator[str]:
    """The address of a service that needs keys."""
    with pytest.MonkeyPatch.context() as patch:
        read_documents_here(patch)  # a process that reads them may start late, and an upload is answered before
        with running(fake_app(keys=KeyRing(_keys(tmp_path_factory)))) as found:
            yield found


def test_libretranslatepy(address: str, secret: str) -> None:
    client = LibreTranslateAPI(address, api_key=secret)
    assert client.translate("Hello & you?", "en", "de") == "[de] HELLO & YOU?"
    assert client.translate(_GERMAN, "auto", "en") == f"[en] {_GERMAN.upper()}"
    assert client.detect(_GERMAN)[0]["language"] == "de"
    assert [each["code"] for each in client.languages()] == ["de", "en", "he", "pt-BR"]


def test_deep_translator(address: str, secret: str) -> None:
    client = LibreTranslator(source="en", target="de", api_key=secret, custom_url=f"{address}/")
    assert client.translate("Hello you 😀") == "[de] HELLO YOU 😀"
    assert client.translate_batch(["One", "Two"]) == ["[de] ONE", "[de] TWO"]
    stranger = LibreTranslator(source="en", target="de", api_key="wrong", custom_url=f"{address}/")
    with pytest.raises(AuthorizationException):
        stranger.translate("Hello")


def test_deepl_translates(address: str, secret: str) -> None:
    client = deepl.DeepLClient(secret, server_url=address)
    found = client.translate_text("Hello", source_lang="EN", target_lang="DE")
    assert isinstance(found, deepl.TextResult)
    assert (found.text, found.detected_source_lang, found.billed_characters) == ("[de] HELLO", "EN", 5)
    many = client.translate_text([_GERMAN, "It is a fine day."], target_lang="EN-GB")
    assert isinstance(many, list)
    assert [each.text for each in many] == [f"[en] {_GERMAN.upper()}", "It is a fine day."]
    assert [each.detected_source_lang for each in many] == ["DE", "EN"]
    marked = client.translate_text(
        "Press <x>Stop</x>.",
        source_lang="EN",
        target_lang="PT-BR",
        tag_handling="xml",
        ignore_tags=["x"],
        split_sentences=deepl.SplitSentences.NO_NEWLINES,
        formality=deepl.Formality.PREFER_LESS,
        context="A button",
    )
    assert isinstance(marked, deepl.TextResult)
    assert marked.text == "[pt-BR] PRESS <x>Stop</x>."


def test_deepl_lists_languages_and_usage(address: str, secret: str) -> None:
    client = deepl.DeepLClient(secret, server_url=address)
    assert [each.code for each in client.get_source_languages()] == ["DE", "EN", "HE"]
    assert [each.code for each in client.get_target_languages()] == ["DE", "EN-GB", "EN-US", "PT-BR"]
    assert {(each.source_lang, each.target_lang) for each in client.get_glossary_languages()} >= {("en", "de")}
    usage = client.get_usage()
    assert usage.character.valid
    assert not usage.any_limit_reached


def test_deepl_has_glossaries(address: str, secret: str) -> None:
    client = deepl.DeepLClient(secret, server_url=address)
    made = client.create_glossary("pets", source_lang="EN", target_lang="DE", entries={"dog": "Hund", "cat": "Katze"})
    assert (made.name, made.ready, made.entry_count, made.source_lang, made.target_lang) == (
        "pets",
        True,
        2,
        "EN",
        "DE",
    )
    assert client.get_glossary(made.glossary_id).creation_time == made.creation_time
    assert made.glossary_id in [each.glossary_id for each in client.list_glossaries()]
    assert client.get_glossary_entries(made) == {"dog": "Hund", "cat": "Katze"}
    found = client.translate_text_with_glossary("A dog", made)
    assert isinstance(found, deepl.TextResult)
    assert found.text == "[de] A DOG"
    csv = client.create_glossary_from_csv("csv", source_lang="EN", target_lang="DE", csv_data='"dog, big",Hund\n')
    assert client.get_glossary_entries(csv) == {"dog, big": "Hund"}
    client.delete_glossary(made)
    with pytest.raises(deepl.exceptions.GlossaryNotFoundException):
        client.get_glossary(made.glossary_id)


def test_deepl_has_glossaries_of_several_dictionaries(address: str, secret: str) -> None:
    client = deepl.DeepLClient(secret, server_url=address)
    given = [
        MultilingualGlossaryDictionaryEntries(*pair, terms)
        for pair, terms in ((("EN", "DE"), {"dog": "Hund"}), (("DE", "EN"), {"Hund": "hound"}))
    ]
    made = client.create_multilingual_glossary("pets", given)
    assert [(each.source_lang, each.target_lang) for each in made.dictionaries] == [("EN", "DE"), ("DE", "EN")]
    more = MultilingualGlossaryDictionaryEntries("EN", "DE", {"cat": "Katze"})
    assert client.update_multilingual_glossary_dictionary(made, more).dictionaries[0].entry_count == 2
    assert client.update_multilingual_glossary_name(made, "animals").name == "animals"
    [found] = client.get_multilingual_glossary_entries(made, "EN", "DE").dictionaries
    assert found.entries == "dog\tHund\ncat\tKatze"
    used = client.translate_text("A dog", source_lang="EN", target_lang="DE", glossary=made)
    assert isinstance(used, deepl.TextResult)
    assert used.text == "[de] A DOG"
    assert client.replace_multilingual_glossary_dictionary(made, more).entry_count == 1
    client.delete_multilingual_glossary_dictionary(made, source_lang="DE", target_lang="EN")
    assert client.get_glossary(made.glossary_id).entry_count == 1
    client.delete_multilingual_glossary(made)
    assert made.glossary_id not in [each.glossary_id for each in client.list_multilingual_glossaries()]


def test_deepl_translates_documents(address: str, secret: str, tmp_path: Path) -> None:
    client = deepl.DeepLClient(secret, server_url=address)
    (tmp_path / "ü dog.md").write_text("# A dog\n\nIt *runs*.\n", encoding="utf-8")
    status = client.translate_document_from_filepath(
        tmp_path / "ü dog.md", tmp_path / "hund.md", source_lang="EN", target_lang="DE"
    )
    assert (status.done, status.billed_characters) == (True, len("A dogIt runs."))
    assert (tmp_path / "hund.md").read_text(encoding="utf-8") == "# \\[de\\] A DOG\n\n\\[de\\] IT *RUNS*.\n"
    handle = client.translate_document_upload(_GERMAN, target_lang="EN-GB", filename="a.txt")
    _wait_for(lambda: client.translate_document_get_status(handle).done, 60)
    response = client.translate_document_download(handle)
    assert response is not None
    assert response.content.decode() == f"[en] {_GERMAN.upper()}"
    with pytest.raises(deepl.DeepLException, match="Not found"):
        client.translate_document_download(handle)
    with pytest.raises(deepl.DeepLException, match="Document not found"):
        client.translate_document_get_status(deepl.DocumentHandle(handle.document_id, "wrong"))


def test_deepl_is_told_what_is_wrong(address: str, secret: str) -> None:
    client = deepl.DeepLClient(secret, server_url=address)
    with pytest.raises(deepl.DeepLException, match="Value for 'target_lang' not supported"):
        client.translate_text("Hello", target_lang="XX")
    with pytest.raises(deepl.DeepLException, match="'formality' is not supported"):
        client.translate_text("Hello", source_lang="EN", target_lang="DE", formality=deepl.Formality.MORE)
    with pytest.raises(deepl.DeepLException, match="Glossary not found"):
        client.translate_text("Hello", source_lang="EN", target_lang="DE", glossary=str(uuid.uuid4()))
    with pytest.raises(deepl.DeepLException, match=r"a\.docx: is not DOCX, or is damaged"):
        client.translate_document_upload("Hello", target_lang="DE", filename="a.docx")
    with pytest.raises(deepl.exceptions.AuthorizationException):
        deepl.DeepLClient("wrong", server_url=address).get_usage()


@pytest.mark.parametrize("stream", [False, True])
def test_work_is_given_up_when_a_client_closes_its_connection(stream: bool) -> None:
    service = FakeService()
    service.gate = asyncio.Event()  # nothing is ever answered
    fields = {"text": "Hello", "source": "en", "target": "de", "stream": stream}
    body = json.dumps(fields).encode()
    head = b"POST /api/translate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    with running(fake_app(service)) as address:
        port = int(address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(head % len(body) + body)
            _wait_for(lambda: len(service.requests) == 1)
            assert service.cancelled == 0
        _wait_for(lambda: service.cancelled == 1)


def _wait_for(condition: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)
