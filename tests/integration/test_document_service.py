"""Documents through `transduce serve`: killed in the middle, told to end, with two replicas, without its database."""

import contextlib
import io
import json
import secrets
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from made_models import untied_folder
from postgres_server import PostgresServer
from served_process import Answer, Serving, serving, write_config
from transduce.translation.documents import DocumentJob, Languages, translate_document
from transduce.translation.pipeline import TextOptions
from transduce.translation.translator import Translator

pytestmark = [pytest.mark.computes, pytest.mark.slow]

_NAME = "private.md"
_WORDS = ["a", "dog", "runs", "over", "the", "green", "grass", "with", "ball", "man", "two"]
_SMALL = b"# A dog\n\nTwo dogs *run* over the grass.\n"
_PATIENCE = 300.0  # seconds: the machine may be busy
_PAUSE = 0.2  # seconds between two looks at a document: each is a request
_PARAGRAPHS = 600  # of the book: more than two windows of `translate_parts`
_FREE = 384  # sentences that a held service translates: the first window, and a part of the second


def _book(num_paragraphs: int) -> bytes:
    """Returns a document of paragraphs that all differ, of one sentence each."""
    words = [_WORDS[(number * 7 + number // 11) % len(_WORDS)] for number in range(5 * num_paragraphs)]
    paragraphs = [f"{number} " + " ".join(words[number * 5 : number * 5 + 5]) for number in range(num_paragraphs)]
    return "\n\n".join(paragraphs).encode() + b"\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untied_folder(tmp_path_factory.mktemp("model") / "made")


@pytest.fixture(scope="module")
def offline(model: Path) -> Callable[[bytes], bytes]:
    """Returns what `translate_document` makes of a document."""
    translator = Translator.load(model, device="cpu", threads=1, engine="ctranslate2")
    options = TextOptions(split="always", guard=True, language="en")

    def translated(content: bytes) -> bytes:
        output = io.BytesIO()
        languages = Languages("", "de")
        translate_document(
            translator, content, output, DocumentJob(name=_NAME, languages=languages, text_options=options)
        )
        return output.getvalue()

    return translated


@pytest.fixture(scope="module")
def book(offline: Callable[[bytes], bytes]) -> tuple[bytes, bytes]:
    """A document of several windows, and its translation."""
    content = _book(_PARAGRAPHS)
    return content, offline(content)


class DocumentClient:
    """A client of one replica."""

    def __init__(self, service: Serving) -> None:
        self.service = service

    def request(self, method: str, path: str, body: bytes = b"", kind: str = "") -> Answer:
        """Sends a request."""
        with contextlib.closing(self.service.connection()) as connection:
            connection.request(method, path, body, {"Content-Type": kind} if kind else {})
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())

    def send(self, content: bytes) -> Answer:
        """Sends a document."""
        boundary = secrets.token_hex(16)
        fields = [f'name="{name}"\r\n\r\n{value}'.encode() for name, value in (("source", "en"), ("target", "de"))]
        parts = [*fields, f'name="file"; filename="{_NAME}"\r\n\r\n'.encode() + content]
        body = b"".join(f"--{boundary}\r\nContent-Disposition: form-data; ".encode() + part + b"\r\n" for part in parts)
        kind = f"multipart/form-data; boundary={boundary}"
        return self.request("POST", "/api/documents", body + f"--{boundary}--\r\n".encode(), kind)

    def state(self, document: str) -> Mapping[str, Any]:
        """Returns the description of a document."""
        found: Mapping[str, Any] = json.loads(self.request("GET", f"/api/documents/{document}").body)
        return found

    def result(self, document: str) -> bytes:
        """Waits until a document has ended, and returns its result."""
        self.service.wait_until(lambda: self.state(document)["state"] in ("done", "failed"), _PATIENCE, _PAUSE)
        assert self.state(document)["error"] is None
        return self.request("GET", f"/api/documents/{document}/result").body

    def begun(self, content: bytes) -> str:
        """Sends a document to a held service, waits until a part of it is translated, and returns its id."""
        document: str = self.send(content).json["id"]
        self.service.wait_until(lambda: self.state(document).get("progress", 0) > 0, _PATIENCE, _PAUSE)
        assert self.state(document)["state"] == "translating"
        return document

    def has_no_work(self) -> bool:
        """Returns whether the model has nothing to do."""
        metrics = self.request("GET", "/metrics").body.decode()
        return all(f'transduce_{what}_sentences{{model="made"}} 0.0' in metrics for what in ("waiting", "computing"))


@contextlib.contextmanager
def document_client(config: Path, python: Path) -> Iterator[DocumentClient]:
    """Yields a client of a service that is ready; see `serving`."""
    with serving(config, python=python) as service:
        yield DocumentClient(service)


@contextlib.contextmanager
def held_client(config: Path, python: str | Path) -> Iterator[DocumentClient]:
    """Yields a client of a service that stops in the second window of a book until the file "gate" is there."""
    with serving(config, gate=config.parent / "gate", free=_FREE, python=python) as service:
        yield DocumentClient(service)


def end_leases(database: str | Path) -> None:
    """Does what time does to the leases of a service that does not renew them."""
    ended = "UPDATE documents SET leased_until = leased_until - 3600 WHERE state = 'translating'"
    if isinstance(database, Path):
        with contextlib.closing(sqlite3.connect(database, isolation_level=None, timeout=60)) as connection:
            connection.execute(ended)
        return
    import psycopg

    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(ended)


def test_a_service_that_was_killed_translates_the_document_after_its_start(
    tmp_path: Path, model: Path, book: tuple[bytes, bytes], warm_python: Path
) -> None:
    config = write_config(tmp_path, model)
    content, expected = book
    with held_client(config, warm_python) as client:
        document = client.begun(content)
        client.service.process.kill()
        client.service.process.wait(60)
    with document_client(config, warm_python) as client:
        assert client.state(document)["state"] == "translating"  # until the lease has ended
        end_leases(tmp_path / "serve.db")
        assert client.result(document) == expected
        assert client.request("DELETE", f"/api/documents/{document}").status == 204
        assert client.request("GET", f"/api/documents/{document}").status == 404
        assert "private" not in client.service.log
        assert "grass" not in client.service.log
        assert client.service.stop() == 0


def test_a_service_that_is_told_to_end_puts_the_document_back(
    tmp_path: Path, model: Path, book: tuple[bytes, bytes], warm_python: Path
) -> None:
    config = write_config(tmp_path, model)
    content, expected = book
    with held_client(config, warm_python) as client:
        document = client.begun(content)
        assert client.service.stop(signal.SIGTERM) == 0
    with document_client(config, warm_python) as client:
        assert client.result(document) == expected
        metrics = client.request("GET", "/metrics").body.decode()
        assert 'transduce_documents_total{end="done"} 1.0' in metrics


def test_another_replica_takes_over_what_a_dead_one_had(
    tmp_path: Path, model: Path, postgres: PostgresServer, book: tuple[bytes, bytes], warm_python: Path
) -> None:
    database = postgres.new_database()
    config = write_config(tmp_path, model, state={"url": database})
    content, expected = book
    with held_client(config, sys.executable) as dead:  # what `warm_python` starts is not stopped by SIGSTOP
        document = dead.begun(content)
        dead.service.process.send_signal(signal.SIGSTOP)
        with document_client(config, warm_python) as second:
            end_leases(database)
            assert second.result(document) == expected
            dead.service.process.send_signal(signal.SIGCONT)  # it was not dead after all
            dead.service.wait_until(dead.has_no_work)  # though it would hold the book for ever
            (tmp_path / "gate").touch()
            assert dead.result(dead.send(_SMALL).json["id"])
            assert dead.result(document) == expected
            assert dead.service.stop() == 0
            assert second.result(document) == expected


def test_a_document_that_one_replica_translates_is_deleted_by_another(
    tmp_path: Path, model: Path, postgres: PostgresServer, warm_python: Path
) -> None:
    config = write_config(tmp_path, model, state={"url": postgres.new_database()}, documents={"running": 1})
    with held_client(config, warm_python) as first, held_client(config, warm_python) as second:
        clients = [first, second]
        documents = [first.begun(_book(_PARAGRAPHS))]
        first.service.wait_until(lambda: not all(each.has_no_work() for each in clients))
        if not first.has_no_work():
            clients.reverse()  # the second translates the first document
        documents.append(first.begun(_book(_PARAGRAPHS)))  # the other replica: each translates one at a time
        for document, client in zip(documents, clients, strict=True):
            assert client.request("DELETE", f"/api/documents/{document}").status == 204
        for client in clients:  # each is free again, though it would hold the book for ever
            client.service.wait_until(client.has_no_work)
        (tmp_path / "gate").touch()
        for client in clients:
            assert client.result(client.send(_SMALL).json["id"])
        assert [client.request("GET", f"/api/documents/{documents[0]}").status for client in clients] == [404, 404]


def test_a_document_outlasts_its_database(
    tmp_path: Path, model: Path, postgres: PostgresServer, book: tuple[bytes, bytes], warm_python: Path
) -> None:
    config = write_config(tmp_path, model, state={"url": postgres.new_database()})
    content, expected = book
    with held_client(config, warm_python) as client:
        document = client.begun(content)
        postgres.stop()
        try:
            assert client.request("GET", f"/api/documents/{document}").status == 503
            assert client.send(_SMALL).status == 503
            (tmp_path / "gate").touch()
        finally:
            postgres.start()
        path = f"/api/documents/{document}"
        client.service.wait_until(lambda: client.request("GET", path).status == 200, _PATIENCE, _PAUSE)
        assert client.result(document) == expected
