"""Documents through the three protocols: accepted, asked for, fetched, deleted; refused where something is wrong."""

import asyncio
import io
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from described_answers import DescribedClient
from fake_service import FakeService, fake_app, read_documents_here
from transduce.serve.config import DocumentsConfig, LimitsConfig, ServeConfig, ServerConfig
from transduce.serve.documents.runner import DocumentRunner
from transduce.serve.operations.keys import KeyRing, add_key
from transduce.serve.operations.proxies import ForwardedHeaders
from transduce.serve.requests import ModelUnavailableError, OverloadedError, Priority
from transduce.serve.state.database import Database, StateError
from transduce.serve.state.documents import TRANSLATING, NewDocument
from transduce.serve.state.store import open_store
from transduce.serve.web import uploads
from waiting import wait_until

TEXT = b"# A dog\n\nIt *runs*.\n"
TRANSLATED = b"# \\[de\\] A DOG\n\n\\[de\\] IT *RUNS*.\n"
LANGUAGES = {"source": "en", "target": "de"}
_DEEPL = {"Authorization": "DeepL-Auth-Key any"}


@pytest.fixture
def read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets documents be read in this process, which takes less time."""

    read_documents_here(monkeypatch)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a request wait until its document is read, on a slow machine too."""
    monkeypatch.setattr("transduce.serve.documents.service._READING_SECONDS", 300.0)


def send(client: DescribedClient, content: bytes = TEXT, name: str = "dog.md", **options: Any) -> Any:
    """Sends a document in our own protocol."""
    fields = LANGUAGES | options.pop("data", {})
    return client.post("/api/documents", data=fields, files={"file": (name, content)}, **options)


def ended(client: DescribedClient, document_id: str, **options: Any) -> Mapping[str, Any]:
    """Returns the description of a document that has ended."""
    wait_until(lambda: client.get(f"/api/documents/{document_id}", **options).json()["state"] in ("done", "failed"))
    found: Mapping[str, Any] = client.get(f"/api/documents/{document_id}", **options).json()
    return found


def zipped(**members: bytes) -> bytes:
    """Returns a ZIP archive."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


# --- our own protocol -----------------------------------------------------------------------------------------


def test_a_document_is_sent_asked_for_fetched_and_deleted(client: DescribedClient, service: FakeService) -> None:
    made = send(client)
    assert made.status_code == 202
    assert made.headers["location"] == f"/api/documents/{made.json()['id']}"
    found = ended(client, made.json()["id"])
    assert (found["state"], found["progress"], found["segments_done"]) == ("done", 1.0, found["segments"])
    assert (found["name"], found["result_name"], found["source"]) == ("dog.md", "dog.de.md", "en")
    assert found["characters"] == len("A dogIt runs.")
    for _ in range(2):
        result = client.get(f"/api/documents/{found['id']}/result")
        assert (result.status_code, result.content) == (200, TRANSLATED)
        assert result.headers["content-disposition"] == "attachment; filename=\"dog.de.md\"; filename*=UTF-8''dog.de.md"
        assert result.headers["x-content-type-options"] == "nosniff"
    assert {request.priority for request in service.requests} == {Priority.BULK}
    assert client.delete(f"/api/documents/{found['id']}").status_code == 204
    for path in ("", "/result"):
        assert client.get(f"/api/documents/{found['id']}{path}").status_code == 404
    assert client.delete(f"/api/documents/{found['id']}").status_code == 404


@pytest.mark.usefixtures("read_here")
def test_a_document_that_waits_says_how_far_it_is(client: DescribedClient, service: FakeService) -> None:
    assert client.portal is not None
    gate = client.portal.call(asyncio.Event)
    service.gate = gate
    made = send(client, b"".join(b"A dog of %d years runs.\n\n" % number for number in range(600))).json()
    wait_until(lambda: bool(service.requests))
    assert client.get(f"/api/documents/{made['id']}").json()["state"] == "translating"
    early = client.get(f"/api/documents/{made['id']}/result")
    assert (early.status_code, early.json()["error"]["code"], early.headers["retry-after"]) == (409, "not_ready", "1")
    service.gate = client.portal.call(asyncio.Event)
    client.portal.call(gate.set)
    wait_until(lambda: 0 < client.get(f"/api/documents/{made['id']}").json()["progress"] < 1)
    client.portal.call(service.gate.set)
    assert ended(client, made["id"])["segments_done"] == 600


@pytest.mark.usefixtures("read_here")
def test_a_document_that_is_deleted_is_not_translated_further(client: DescribedClient, service: FakeService) -> None:
    assert client.portal is not None
    service.gate = client.portal.call(asyncio.Event)
    made = send(client).json()
    wait_until(lambda: bool(service.requests))
    assert client.delete(f"/api/documents/{made['id']}").status_code == 204
    wait_until(lambda: service.cancelled == 1)
    client.portal.call(service.gate.set)
    assert client.get(f"/api/documents/{made['id']}").status_code == 404
    assert ended(client, send(client).json()["id"])["state"] == "done"  # others go on


@pytest.mark.usefixtures("read_here")
def test_options_reach_the_search(client: DescribedClient, service: FakeService) -> None:
    options = {"beam_size": "3", "length_penalty": "0.8", "glossary": '{"dog": "Hund"}', "format": "text"}
    made = send(client, name="dog.unknown", data=options).json()
    assert ended(client, made["id"])["state"] == "done"
    [request] = service.requests
    assert dict(request.options) == {"beam_size": 3, "length_penalty": 0.8}
    assert request.glossary is not None
    assert request.text_options is not None
    assert (request.text_options.markup, request.text_options.split) == ("html", "always")


def test_columns_of_a_table_are_chosen(client: DescribedClient) -> None:
    made = send(client, b"name,text\ndog,dog\n", "a.csv", data={"columns": "text"}).json()
    assert (ended(client, made["id"])["state"], made["characters"]) == ("done", len("dog"))
    assert client.get(f"/api/documents/{made['id']}/result").content == b"name,text\ndog,[de] DOG\n"
    refused = send(client, b"name,text\n", "a.csv", data={"columns": "x"})
    assert (refused.status_code, "has no column 'x'" in refused.json()["error"]["message"]) == (400, True)


@pytest.mark.usefixtures("read_here")
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a.xls: is from a version before 2007. Save it as .xlsx first."),
        ("a.docx", b"", "a.docx: is empty."),
        ("a.txt", b"", "a.txt: is empty."),
        ("a.docx", b"a dog", "a.docx: is not DOCX, or is damaged. If it has another format, give it the extension of "),
        ("a.txt", b"WEBVTT\n", "its content is WebVTT. Change its extension, or name the format."),
        ("a.txt", b"a\0dog", "a.txt: is not text: it has null characters."),
        ("a.tmx", b"<a/>", "a.tmx: is not TMX"),
        ("a.csv", b'"', "a.csv: line 1: a cell begins"),
    ],
)
def test_no_answer_names_options_of_the_command_line(
    client: DescribedClient, name: str, content: bytes, message: str
) -> None:
    answer = send(client, content, name)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]
    assert "--" not in answer.json()["error"]["message"]


@pytest.mark.usefixtures("read_here")
def test_what_became_of_a_first_line_is_a_warning(client: DescribedClient) -> None:
    made = send(client, b"name,price\ndog,5\n", "a.csv").json()
    assert "its first line was taken for the names of its columns" in ended(client, made["id"])["warnings"][0]
    assert client.get(f"/api/documents/{made['id']}/result").content == b"name,price\n[de] DOG,5\n"


@pytest.mark.usefixtures("read_here")
@pytest.mark.parametrize(
    ("fields", "name", "message"),
    [
        ({"target": "fr"}, "dog.md", "The language 'fr' is not supported"),
        ({"source": "fr"}, "dog.md", "The language 'fr' is not supported"),
        ({"source": "pt"}, "dog.md", "not supported"),
        ({"beam_size": "x"}, "dog.md", "must be JSON"),
        ({"beam_size": "99"}, "dog.md", "beam_size"),
        ({"glossary": '["a"]'}, "dog.md", "must be an object"),
        ({"beem_size": "4"}, "dog.md", "Did you mean 'beam_size'"),
        ({"format": "pdf"}, "dog.md", "The format 'pdf' is not known"),
        ({}, "dog.pdf", "dog.pdf: its file extension is that of no known format. Known are .arb"),
        ({"format": "docx"}, "dog.md", "dog.md: is not DOCX"),
        ({}, "../..", "has no name"),
    ],
)
def test_wrong_requests_are_refused(client: DescribedClient, fields: dict[str, str], name: str, message: str) -> None:
    answer = send(client, name=name, data=fields)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


@pytest.mark.usefixtures("read_here")
def test_the_content_shows_the_format(client: DescribedClient) -> None:
    xliff = b'<xliff version="1.2"><file><trans-unit><source>a dog</source></trans-unit></file></xliff>'
    assert ended(client, send(client, xliff, "dog.odd").json()["id"])["state"] == "done"
    answer = send(client, xliff, "dog.txt")
    assert answer.status_code == 400
    assert "stands for plain text, but its content is XLIFF" in answer.json()["error"]["message"]
    assert send(client, xliff, "dog.txt", data={"format": "text"}).status_code == 202


@pytest.mark.usefixtures("read_here")
def test_a_name_has_no_folders_and_nothing_unprintable(client: DescribedClient) -> None:
    made = send(client, name="C:\\docs\\/tmp/ü \u202edog.md").json()
    assert (made["name"], made["result_name"]) == ("ü dog.md", "ü dog.de.md")
    assert ended(client, made["id"])["state"] == "done"
    result = client.get(f"/api/documents/{made['id']}/result")
    disposition = "attachment; filename=\"_ dog.de.md\"; filename*=UTF-8''%C3%BC%20dog.de.md"
    assert result.headers["content-disposition"] == disposition
    assert send(client, name=f"{'x' * 300}.md").json()["name"] == f"{'x' * 197}.md"


@pytest.mark.usefixtures("read_here")
def test_the_language_is_detected(client: DescribedClient) -> None:
    made = send(client, "Das Wetter ist heute schön.\n".encode(), "a.txt", data={"source": "auto"}).json()
    assert made["source"] == "de"  # the target: it comes back as it is
    assert ended(client, made["id"])["state"] == "done"
    assert client.get(f"/api/documents/{made['id']}/result").text == "Das Wetter ist heute schön.\n"


BOMB = zipped(**{"[Content_Types].xml": b"<Types/>", "word/document.xml": b" " * (65 << 20)})
ENTITIES = b'<!DOCTYPE x [<!ENTITY a "aaaa">]><xliff version="1.2"><file><body>&a;</body></file></xliff>'


HOSTILE = [
    ("a.docx", b"\xd0\xcf\x11\xe0 old", "a.docx: is protected by a password"),
    ("a.docx", b"PK\x03\x04 damaged", "a.docx: is damaged or incomplete"),
    ("a.docx", BOMB, "a.docx"),
    ("a.xlf", ENTITIES, "a.xlf"),
    ("a.xlf", b"<x>" * 100_000, "a.xlf"),
    ("a.txt", b"\xff\xfe\x00", "a.txt: is not utf-16-le text"),
]


def assert_refused(client: DescribedClient, path: str, name: str, content: bytes, message: str) -> None:
    """A document is refused, and the next one is taken."""
    fields = {"target_lang": "DE"} if path.startswith("/v2") else LANGUAGES
    answer = client.post(path, data=fields, files={"file": (name, content)}, headers=_DEEPL)
    assert answer.status_code == 400
    assert message in answer.text
    assert client.post(path, data=fields, files={"file": ("a.txt", b"A dog.")}, headers=_DEEPL).status_code < 300


def test_a_process_of_its_own_refuses_a_hostile_document_and_the_service_goes_on(client: DescribedClient) -> None:
    assert_refused(client, "/api/documents", "a.docx", BOMB, "a.docx")


@pytest.mark.usefixtures("read_here")
@pytest.mark.parametrize("path", ["/api/documents", "/v2/document", "/translate_file"])
@pytest.mark.parametrize(("name", "content", "message"), HOSTILE)
def test_a_hostile_document_is_refused_and_the_service_goes_on(
    client: DescribedClient, path: str, name: str, content: bytes, message: str
) -> None:
    assert_refused(client, path, name, content, message)


@pytest.mark.parametrize(
    ("limit", "value", "content", "what"),
    [("_MAX_SECONDS", 0.0, b"\n" * 10_000_000, "time"), ("_MAX_BYTES", 80 << 20, b"1 2 " * 4_500_000, "memory")],
    ids=["time", "memory"],
)
def test_a_document_that_takes_long_or_much_to_read_is_refused(
    client: DescribedClient, monkeypatch: pytest.MonkeyPatch, limit: str, value: float, content: bytes, what: str
) -> None:
    monkeypatch.setattr(f"transduce.serve.documents.survey.{limit}", value)
    answer = send(client, content, "dog.txt")
    assert answer.status_code == 400
    assert f"dog.txt: takes too much {what} to read" in answer.json()["error"]["message"]
    monkeypatch.undo()
    assert send(client).status_code == 202


@pytest.mark.usefixtures("read_here")
def test_a_service_that_has_too_much_to_do_is_asked_again(client: DescribedClient, service: FakeService) -> None:
    service.error = OverloadedError("Too much work waits.", 0)
    made = send(client).json()
    wait_until(lambda: len(service.requests) > 1)
    service.error = None
    assert ended(client, made["id"])["state"] == "done"


@pytest.mark.usefixtures("read_here")
def test_a_model_that_fails_again_and_again_fails_the_document(client: DescribedClient, service: FakeService) -> None:
    service.error = ModelUnavailableError("The model failed. Try again later.", 0)
    found = ended(client, send(client).json()["id"])
    assert (found["state"], found["error"]) == ("failed", "The model failed. Try again later.")
    assert len(service.requests) == 3
    result = client.get(f"/api/documents/{found['id']}/result")
    assert (result.status_code, result.json()["error"]["code"]) == (409, "failed")


@pytest.mark.usefixtures("read_here")
def test_an_unexpected_error_fails_the_document_only(
    client: DescribedClient, service: FakeService, caplog: pytest.LogCaptureFixture
) -> None:
    service.error = KeyError("a secret text")
    found = ended(client, send(client).json()["id"])
    assert (found["state"], found["error"]) == ("failed", "dog.md: the service failed (KeyError).")
    service.error = None
    assert ended(client, send(client).json()["id"])["state"] == "done"


# --- limits and keys ------------------------------------------------------------------------------------------


def test_large_documents_are_refused() -> None:
    limits = LimitsConfig(document_bytes=1000, document_characters=20)
    with DescribedClient(fake_app(config=ServeConfig(limits=limits))) as client:
        large = send(client, b"x" * 1001)
        assert large.status_code == 413
        assert large.json()["error"]["message"] == "dog.md: is larger than 1,000 bytes. Split the document."
        long = send(client, b"A dog runs over the grass.\n")
        assert long.status_code == 400
        assert "dog.md: has more than 20 characters to translate" in long.json()["error"]["message"]
        assert send(client, b"A dog.\n" + b"\n" * 900).status_code == 202


@pytest.mark.usefixtures("read_here")
@pytest.mark.parametrize("path", ["/api/documents", "/v2/document", "/translate_file"])
def test_limits_hold_in_each_protocol(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    limits = LimitsConfig(document_bytes=10, document_characters=8, body_bytes=1000)
    fields = {"source_lang": "EN", "target_lang": "DE"} if path.startswith("/v2") else LANGUAGES

    with DescribedClient(fake_app(config=ServeConfig(limits=limits))) as client:

        def status(content: bytes) -> int:
            return client.post(path, data=fields, files={"file": ("a.txt", content)}, headers=_DEEPL).status_code

        assert status(b"A dog.\n\n\n\n") in (200, 202)
        assert [status(b"A dog.\n\n\n\n\n"), status(b"Two cats.\n")] == [413, 400]
        monkeypatch.setattr("transduce.serve.documents.service._MAX_READING", 0)
        assert status(b"A dog.") == 503


@pytest.mark.usefixtures("read_here")
def test_only_so_many_documents_may_wait(tmp_path: Path, service: FakeService) -> None:
    path = tmp_path / "keys.toml"
    one, other = (
        {"headers": {"Authorization": f"Bearer {add_key(path, name, per_day=100)}"}} for name in ("one", "other")
    )
    config = ServeConfig(documents=DocumentsConfig(running=1, waiting=3, waiting_per_key=2))
    service.ready = False
    with DescribedClient(fake_app(service, config, KeyRing(path))) as client:
        made = [send(client, **one) for _ in range(3)]
        assert [each.status_code for each in made] == [202, 202, 429]
        assert int(made[2].headers["retry-after"]) > 0
        made += [send(client, **other) for _ in range(2)]
        assert [each.status_code for each in made[3:]] == [202, 503]
        assert int(made[4].headers["retry-after"]) > 0
        assert client.delete(f"/api/documents/{made[0].json()['id']}", **one).status_code == 204
        assert send(client, **other).status_code == 202


@pytest.mark.usefixtures("read_here")
def test_there_is_room_for_so_many_bytes(service: FakeService) -> None:
    service.ready = False
    config = ServeConfig(documents=DocumentsConfig(stored_bytes=2 * len(TEXT)))
    with DescribedClient(fake_app(service, config)) as client:
        assert [send(client).status_code for _ in range(3)] == [202, 202, 503]


@pytest.mark.usefixtures("read_here")
def test_only_so_many_documents_are_read_at_a_time(client: DescribedClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.serve.documents.service._MAX_READING", 0)
    assert send(client).status_code == 503
    monkeypatch.undo()
    assert send(client).status_code == 202


def used(client: DescribedClient, secret: str) -> int:
    """Returns how many characters of today a key was charged with."""
    headers = {"Authorization": f"DeepL-Auth-Key {secret}"}
    count: int = client.get("/v2/usage", headers=headers).json()["character_count"]
    return count


@pytest.mark.usefixtures("read_here")
def test_a_document_belongs_to_its_key_and_is_charged_to_it(tmp_path: Path, service: FakeService) -> None:
    path = tmp_path / "keys.toml"
    secrets = [add_key(path, name, per_day=100) for name in ("one", "other")]
    one, other = ({"headers": {"Authorization": f"Bearer {secret}"}} for secret in secrets)
    with DescribedClient(fake_app(service, keys=KeyRing(path))) as client:
        assert send(client).status_code == 401
        made = send(client, **one)
        characters = made.json()["characters"]
        assert used(client, secrets[0]) == characters
        address = f"/api/documents/{made.json()['id']}"
        assert client.get(address, **other).status_code == 404
        assert client.get(f"{address}/result", **other).status_code == 404
        assert client.delete(address, **other).status_code == 404
        assert ended(client, made.json()["id"], **one)["state"] == "done"
        service.error = ModelUnavailableError("The model failed.", 0)
        assert ended(client, send(client, **one).json()["id"], **one)["state"] == "failed"
        wait_until(lambda: used(client, secrets[0]) == characters)  # those of the other were given back
        service.error = None
        assert send(client, b"word " * 21, "a.txt", **one).status_code == 202  # the last one may take more
        assert send(client, **one).status_code == 429
        assert send(client, **other).status_code == 202


@pytest.mark.usefixtures("read_here")
def test_characters_of_a_deleted_document_are_given_back(tmp_path: Path, service: FakeService) -> None:
    path = tmp_path / "keys.toml"
    secret = add_key(path, "one", per_minute=1000)
    key = {"headers": {"Authorization": f"Bearer {secret}"}}
    service.ready = False
    with DescribedClient(fake_app(service, keys=KeyRing(path))) as client:
        made = send(client, **key).json()
        assert used(client, secret) == made["characters"]
        assert client.delete(f"/api/documents/{made['id']}", **key).status_code == 204
        assert used(client, secret) == 0


@pytest.mark.usefixtures("read_here")
def test_results_expire(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.serve.documents.runner._UPKEEP_SECONDS", 0.01)
    config = ServeConfig(documents=DocumentsConfig(keep_seconds=0.01))
    with DescribedClient(fake_app(service, config)) as client:
        made = send(client).json()
        wait_until(lambda: client.get(f"/api/documents/{made['id']}").status_code == 404)


def test_of_a_document_that_expires_unfinished_what_is_not_translated_is_given_back() -> None:
    """Of 70 characters 40 are translated. Those of a document that failed were given back when it failed."""
    given_back: list[tuple[str, int]] = []
    ended: list[str] = []

    async def test() -> None:
        store = open_store("memory")
        new = NewDocument(
            protocol="transduce", owner="one", name="a.txt", source="en", target="de", num_segments=7, num_characters=70
        )
        made = store.documents.add(new, b"text")
        assert store.documents.claim(TRANSLATING, "other replica", 600) is not None
        assert store.documents.renew(made.id, "other replica", 600, 4, 40)
        done = store.documents.add(new, b"text")
        assert store.documents.claim(TRANSLATING, "third replica", 600) is not None
        assert store.documents.finish(done.id, "third replica", [], -1)
        failed = store.documents.add(new, b"text")
        assert store.documents.claim(TRANSLATING, "fourth replica", 600) is not None
        assert store.documents.fail(failed.id, "fourth replica", "damaged", -1)
        store.documents.keep_unfinished(made.id, -1)
        reader: Any = SimpleNamespace(refund=lambda document, left: given_back.append((document.id, left)))
        runner = DocumentRunner(FakeService(), ServeConfig(), store.documents, reader, ended.append)
        runner.start()
        while len(ended) < 3:
            await asyncio.sleep(0.01)
        await runner.stop()
        store.close()
        assert given_back == [(made.id, 30)]
        assert ended == ["expired"] * 3

    asyncio.run(asyncio.wait_for(test(), 60))


# --- the store ------------------------------------------------------------------------------------------------


class BrokenStore:
    """Lets each use of the store fail from now on, until `mend`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.num_failures = 0
        self._works = Database.run
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(Database, "run", lambda *_: self._fail())

    def _fail(self) -> None:
        self.num_failures += 1
        raise StateError

    def mend(self) -> None:
        """Lets the store work again."""
        self._monkeypatch.setattr(Database, "run", self._works)


@pytest.mark.usefixtures("read_here")
def test_without_the_store_documents_are_neither_taken_nor_given(
    client: DescribedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = ended(client, send(client).json()["id"])["id"]
    handle = client.post("/v2/document", data={"target_lang": "DE"}, files={"file": ("a.txt", b"A dog.")}).json()
    wait_until(lambda: deepl_status(client, handle)["status"] == "done")
    store = BrokenStore(monkeypatch)
    key = {"document_key": handle["document_key"]}
    answers = [
        send(client),
        client.get(f"/api/documents/{done}"),
        client.get(f"/api/documents/{done}/result"),
        client.delete(f"/api/documents/{done}"),
        client.post("/translate_file", data=LANGUAGES, files={"file": ("a.txt", b"A dog.")}),
        client.get("/download_file/x/a.txt"),
        client.post(f"/v2/document/{handle['document_id']}", json=key),
        client.post(f"/v2/document/{handle['document_id']}/result", json=key),
    ]
    assert [answer.status_code for answer in answers] == [503] * len(answers)
    assert all(int(answer.headers["retry-after"]) > 0 for answer in answers)
    store.mend()
    assert client.get(f"/api/documents/{done}/result").content == TRANSLATED


@pytest.mark.usefixtures("read_here")
def test_a_document_waits_for_the_store_to_come_back(
    client: DescribedClient, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.portal is not None
    service.gate = client.portal.call(asyncio.Event)
    made = send(client).json()
    wait_until(lambda: bool(service.requests))
    store = BrokenStore(monkeypatch)
    client.portal.call(service.gate.set)
    wait_until(lambda: store.num_failures > 5)
    store.mend()
    assert ended(client, made["id"])["state"] == "done"
    assert client.get(f"/api/documents/{made['id']}/result").content == TRANSLATED
    assert len(service.requests) == 1  # it was translated once


@pytest.mark.usefixtures("read_here")
def test_a_document_that_kills_the_service_is_given_up(
    client: DescribedClient, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.serve.documents.runner._MAX_ATTEMPTS", 1)
    assert ended(client, send(client).json()["id"])["state"] == "done"  # the first attempt of one
    service.requests.clear()
    monkeypatch.setattr("transduce.serve.documents.runner._MAX_ATTEMPTS", 0)
    found = ended(client, send(client).json()["id"])
    assert found["error"] == "dog.md: the service ended 0 times while it was being translated."
    assert service.requests == []


# --- forms ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("read_here")
def test_forms_without_a_file_are_refused(client: DescribedClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.post("/api/documents", json=LANGUAGES).status_code == 415
    assert client.post("/api/documents", data=LANGUAGES).status_code == 415
    answer = client.post("/api/documents", data=LANGUAGES, files={"other": ("a.txt", b"x")})
    assert (answer.status_code, "no part 'file'" in answer.text) == (400, True)
    two = [("file", ("a.txt", b"x")), ("file", ("b.txt", b"x"))]
    assert "two files" in client.post("/api/documents", data=LANGUAGES, files=two).text
    form = {"content-type": "multipart/form-data; boundary=b"}
    cut_off = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nHello'
    for body, message in ((cut_off, "cut off"), (b"nonsense", "malformed")):
        answer = client.post("/api/documents", content=body, headers=form)
        assert (answer.status_code, message in answer.text) == (400, True)
    monkeypatch.setattr(uploads, "_MAX_FIELD_BYTES", 100)
    assert send(client, data={"glossary": "x" * 101}).status_code == 413


@pytest.mark.usefixtures("read_here")
def test_a_full_disk_is_said(client: DescribedClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(uploads._FileParts, "on_part_data", full)
    answer = send(client)
    assert answer.status_code == 503
    assert "no room" in answer.json()["error"]["message"]


# --- the other protocols --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("read_here")
def test_libretranslate_answers_when_the_file_is_translated(client: DescribedClient) -> None:
    answer = client.post("/translate_file", data=LANGUAGES, files={"file": ("dog.md", TEXT)})
    assert answer.status_code == 200
    address = answer.json()["translatedFileUrl"]
    assert address.startswith("http://testserver/download_file/")
    assert address.endswith("/dog.de.md")
    assert client.get(address).content == TRANSLATED
    assert client.get("/download_file/unknown/dog.de.md").status_code == 404
    settings = client.get("/frontend/settings").json()
    assert settings["filesTranslation"] is True
    assert {".docx", ".txt", ".epub"} <= set(settings["supportedFilesFormat"])


@pytest.mark.usefixtures("read_here")
def test_the_address_of_a_file_is_the_one_that_a_trusted_proxy_forwards() -> None:
    forwarded = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "docs.example.org"}
    for trusted, start in ((["203.0.113.1"], "https://docs.example.org/"), ([], "http://testserver/")):
        app = fake_app()
        with TestClient(ForwardedHeaders(app, trusted), client=("203.0.113.1", 4000)) as client:
            answer = client.post("/translate_file", data=LANGUAGES, files={"file": ("a.txt", b"A.")}, headers=forwarded)
            assert answer.json()["translatedFileUrl"].startswith(f"{start}download_file/")


@pytest.mark.usefixtures("read_here")
@pytest.mark.parametrize(
    ("trusted", "public_url", "start"),
    [
        ((), "", "http://testserver/"),
        (("203.0.113.1",), "", "http://evil.example/"),
        ((), "https://docs.example.org/mt/", "https://docs.example.org/mt/"),
        (("203.0.113.1",), "https://docs.example.org", "https://docs.example.org/"),
    ],
)
def test_only_a_trusted_proxy_may_name_the_host_and_the_configuration_wins(
    trusted: tuple[str, ...], public_url: str, start: str
) -> None:
    app = fake_app(config=ServeConfig(server=ServerConfig(public_url=public_url)))
    with TestClient(ForwardedHeaders(app, trusted), client=("203.0.113.1", 4000)) as client:
        headers = {"Host": "evil.example"}
        answer = client.post("/translate_file", data=LANGUAGES, files={"file": ("a.txt", b"A.")}, headers=headers)
        assert answer.json()["translatedFileUrl"].startswith(f"{start}download_file/")


@pytest.mark.usefixtures("read_here")
def test_libretranslate_says_why_a_file_cannot_be_translated(client: DescribedClient, service: FakeService) -> None:
    for fields, message in (
        ({"source": "en"}, "missing target"),
        ({"target": "de"}, "missing source"),
        (LANGUAGES | {"source": "fr"}, "fr is not supported"),
        (LANGUAGES | {"target": "fr"}, "fr is not supported"),
    ):
        answer = client.post("/translate_file", data=fields, files={"file": ("dog.md", TEXT)})
        assert (answer.status_code, message in answer.json()["error"]) == (400, True)
    service.error = ModelUnavailableError("The model failed.", 0)
    answer = client.post("/translate_file", data=LANGUAGES, files={"file": ("dog.md", TEXT)})
    assert (answer.status_code, answer.json()) == (400, {"error": "The model failed."})


@pytest.mark.usefixtures("read_here")
def test_libretranslate_needs_the_key_of_the_form(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    secret = add_key(path, "one")
    with DescribedClient(fake_app(keys=KeyRing(path))) as client:
        for key, status in (({}, 400), ({"api_key": "wrong"}, 403), ({"api_key": secret}, 200)):
            answer = client.post("/translate_file", data=LANGUAGES | key, files={"file": ("dog.md", TEXT)})
            assert answer.status_code == status


def deepl_status(client: DescribedClient, handle: Mapping[str, str]) -> Mapping[str, Any]:
    """Returns what DeepL's protocol says about a document."""
    key = {"document_key": handle["document_key"]}
    found: Mapping[str, Any] = client.post(f"/v2/document/{handle['document_id']}", json=key, headers=_DEEPL).json()
    return found


@pytest.mark.usefixtures("read_here")
def test_deepl_gives_a_result_once(client: DescribedClient) -> None:
    made = client.post("/v2/document", data={"target_lang": "DE"}, files={"file": ("dog.md", TEXT)}, headers=_DEEPL)
    handle = made.json()
    wait_until(lambda: deepl_status(client, handle)["status"] == "done")
    assert deepl_status(client, handle)["billed_characters"] == len("A dogIt runs.")
    address, key = f"/v2/document/{handle['document_id']}", {"document_key": handle["document_key"]}
    for wrong in ({"document_key": "wrong"}, {"document_key": "ü"}):
        assert client.post(f"{address}/result", json=wrong, headers=_DEEPL).status_code == 404
    assert client.post(f"{address}/result", json={}, headers=_DEEPL).status_code == 400
    assert client.get(f"/api/documents/{handle['document_id']}").status_code == 404  # it came by another protocol
    assert client.post(f"{address}/result", data=key, headers=_DEEPL).content == TRANSLATED
    for path in (address, f"{address}/result"):
        assert client.post(path, json=key, headers=_DEEPL).status_code == 404


@pytest.mark.usefixtures("read_here")
def test_deepl_translates_no_document_into_its_own_language(client: DescribedClient) -> None:
    """It is accepted and then fails, as clients expect; the id and the key have the form that they read."""
    fields = {"target_lang": "DE", "source_lang": "DE"}
    handle = client.post("/v2/document", data=fields, files={"file": ("hund.md", TEXT)}, headers=_DEEPL).json()
    assert re.fullmatch("[0-9A-F]{32} [0-9A-F]{64}", f"{handle['document_id']} {handle['document_key']}")
    wait_until(lambda: deepl_status(client, handle)["status"] == "error")
    assert deepl_status(client, handle)["message"] == "hund.md: Source and target language are equal."
    assert client.get("/v2/usage").json()["character_count"] == 0


@pytest.mark.usefixtures("read_here")
def test_deepl_tells_the_states(client: DescribedClient, service: FakeService) -> None:
    assert client.portal is not None
    gate = client.portal.call(asyncio.Event)
    service.gate = gate
    text = b"".join(b"A dog of %d years runs.\n\n" % number for number in range(600))
    fields = {"target_lang": "DE", "source_lang": "EN", "filename": "other.md"}
    handle = client.post("/v2/document", data=fields, files={"file": ("x", text)}, headers=_DEEPL).json()
    wait_until(lambda: bool(service.requests))
    assert deepl_status(client, handle)["status"] == "translating"
    result = f"/v2/document/{handle['document_id']}/result"
    early = client.post(result, json={"document_key": handle["document_key"]}, headers=_DEEPL)
    assert (early.status_code, early.headers["retry-after"]) == (503, "1")
    service.gate = client.portal.call(asyncio.Event)
    client.portal.call(gate.set)
    wait_until(lambda: deepl_status(client, handle).get("seconds_remaining", 0) > 0)
    service.error = ModelUnavailableError("The model failed.", 0)
    client.portal.call(service.gate.set)
    wait_until(lambda: deepl_status(client, handle)["status"] == "error")
    told = deepl_status(client, handle)  # clients read the one or the other
    assert (told["message"], told["error_message"]) == ("The model failed.", "The model failed.")
    failed = client.post(result, json={"document_key": handle["document_key"]}, headers=_DEEPL)
    assert failed.json() == {"message": "The model failed."}


@pytest.mark.usefixtures("read_here")
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "Parameter 'target_lang' not specified"),
        ({"target_lang": "FR"}, "Value for 'target_lang' not supported"),
        ({"target_lang": "DE", "source_lang": "FR"}, "Value for 'source_lang' not supported"),
        ({"target_lang": "DE", "output_format": "pdf"}, "'output_format' is not supported"),
        ({"target_lang": "DE", "formality": "more"}, "'formality' is not supported"),
        ({"target_lang": "DE", "glossary_id": "x"}, "requires the source_lang parameter"),
    ],
)
def test_deepl_refuses_what_it_cannot_do(client: DescribedClient, fields: dict[str, str], message: str) -> None:
    answer = client.post("/v2/document", data=fields, files={"file": ("dog.md", TEXT)}, headers=_DEEPL)
    assert (answer.status_code, message in answer.json()["message"]) == (400, True)


@pytest.mark.usefixtures("read_here")
def test_deepl_takes_a_glossary(client: DescribedClient, service: FakeService) -> None:
    terms = {"name": "a", "source_lang": "en", "target_lang": "de", "entries": "dog\tHund", "entries_format": "tsv"}
    glossary = client.post("/v2/glossaries", json=terms, headers=_DEEPL).json()
    fields = {"target_lang": "DE", "source_lang": "EN", "glossary_id": glossary["glossary_id"], "output_format": "md"}
    handle = client.post("/v2/document", data=fields, files={"file": ("dog.md", TEXT)}, headers=_DEEPL).json()
    wait_until(lambda: deepl_status(client, handle)["status"] == "done")
    assert service.requests[0].glossary is not None
    unknown = fields | {"glossary_id": "none"}
    answer = client.post("/v2/document", data=unknown, files={"file": ("dog.md", TEXT)}, headers=_DEEPL)
    assert answer.status_code == 404
