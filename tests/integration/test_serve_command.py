"""`transduce serve` as a process: signals under load, reloading, keys and limits, TLS, errors at the start."""

import contextlib
import http.client
import json
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from described_answers import require_described
from made_models import untied_folder
from postgres_server import PostgresServer
from served_process import Answer, Serving, ask, serving, write_config
from transduce.cli.main import main as command_line
from transduce.serve.operations.keys import add_key
from transduce.translation.translator import Translator

pytestmark = pytest.mark.computes

TEXTS = ["A dog runs.", "Two dogs run over the green grass.", "a man with a ball"]
_MANY = " ".join(TEXTS * 300)  # takes seconds


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untied_folder(tmp_path_factory.mktemp("model") / "made")


@pytest.fixture(scope="module")
def expected(model: Path) -> dict[str, str]:
    with_engine = Translator.load(model, device="cpu", threads=1, engine="ctranslate2")
    return dict(zip(TEXTS, with_engine.translate(TEXTS), strict=True))


@pytest.fixture
def config(tmp_path: Path, model: Path) -> Path:
    return write_config(tmp_path, model)


def translate(service: Serving, text: str = TEXTS[0], **more: Any) -> Answer:
    return service.ask("/translate", {"q": text, "source": "en", "target": "de", **more})


# --- the end --------------------------------------------------------------------------------------------------


def test_a_service_answers_until_it_is_told_to_end(config: Path, expected: dict[str, str]) -> None:
    """It is started and ends as a user's; those of the other tests begin with their modules loaded."""
    with serving(config) as service:
        assert service.ask("/health").status == 200
        assert service.ask("/ready").status == 200
        answer = translate(service)
        assert (answer.status, answer.json["translatedText"]) == (200, expected[TEXTS[0]])
        measured = service.ask("/metrics")
        require_described("GET", "/metrics", measured.status, measured.headers["content-type"], measured.body)
        assert b"transduce_sentences_total" in measured.body
        assert service.stop() == 0
        assert [line for line in service.events if "serving" in line or "stop" in line] == [
            next(line for line in service.events if line.startswith("transduce: serving en→de at http://127.0.0.1:")),
            "transduce: stopping: no new work; waiting for the answers under way",
            "transduce: stopped",
        ]
        [line] = [line for line in service.requests if line["route"] == "/translate"]
        assert (line["status"], line["characters"]) == (200, len(TEXTS[0]))
        assert 0 < line["queue_seconds"] < line["seconds"]
        assert "dog" not in service.log
        assert expected[TEXTS[0]] not in service.log


class Client(threading.Thread):
    """Sends one request after another over connections that it keeps, and notes each outcome by request id."""

    def __init__(self, service: Serving, number: int) -> None:
        super().__init__()
        self.outcomes: dict[str, Answer | Exception] = {}
        self.texts: dict[str, str] = {}
        self.enough = threading.Event()
        self._service, self._number = service, number

    def run(self) -> None:
        for count in range(10_000):
            if self.enough.is_set():
                return
            connection = self._service.connection()
            with contextlib.closing(connection):
                for turn in range(20):
                    name = f"{self._number}-{count}-{turn}"
                    self.texts[name] = TEXTS[(count + turn + self._number) % len(TEXTS)]
                    fields = {"q": self.texts[name], "source": "en", "target": "de"}
                    try:
                        answer = ask(connection, "/translate", fields, {"X-Request-ID": name})
                    except (OSError, http.client.HTTPException) as error:
                        self.outcomes[name] = error
                        return
                    self.outcomes[name] = answer
                    if answer.status != 200:
                        return


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_no_accepted_request_is_lost_at_the_end(
    config: Path, expected: dict[str, str], number: int, warm_python: Path
) -> None:
    with serving(config, python=warm_python) as service:
        clients = [Client(service, each) for each in range(16)]
        for client in clients:
            client.start()
        service.wait_until(lambda: sum(len(client.outcomes) for client in clients) > 200)
        assert service.stop(number) == 0
        for client in clients:
            client.join(60)
        outcomes = {name: each for client in clients for name, each in client.outcomes.items()}
        texts = {name: text for client in clients for name, text in client.texts.items()}
    accepted = [line["request_id"] for line in service.requests if line["status"] == 200]
    assert len(accepted) > 200
    for name in accepted:  # what the service says it has answered has arrived, whole and right
        outcome = outcomes[name]
        assert isinstance(outcome, Answer), (name, outcome)
        assert (outcome.status, outcome.json["translatedText"]) == (200, expected[texts[name]])
    logged = {line["request_id"]: line["status"] for line in service.requests}
    assert set(logged.values()) <= {200, 503}
    for name, outcome in outcomes.items():
        if isinstance(outcome, Answer) and outcome.status != 200:
            assert outcome.status == 503
            assert outcome.headers["connection"] == "close"
            assert "retry-after" in outcome.headers
        if isinstance(outcome, Exception):
            assert name not in logged, "an accepted request was cut off"


def test_reloading_under_load_disturbs_nobody(config: Path, expected: dict[str, str], warm_python: Path) -> None:
    with serving(config, python=warm_python) as service:
        clients = [Client(service, each) for each in range(8)]
        for client in clients:
            client.start()
        for turn in range(1, 6):
            service.process.send_signal(signal.SIGHUP)
            service.wait_until(lambda turn=turn: service.log.count("reload: made: reloaded") == turn)  # type: ignore[misc]
        for client in clients:
            client.enough.set()
        for client in clients:
            client.join(60)
            assert len(client.outcomes) >= 20
            for name, outcome in client.outcomes.items():
                assert isinstance(outcome, Answer), outcome
                assert (outcome.status, outcome.json["translatedText"]) == (200, expected[client.texts[name]])
        assert service.stop() == 0


@contextlib.contextmanager
def stopping(
    folder: Path, model: Path, warm_python: Path
) -> Iterator[tuple[Serving, http.client.HTTPConnection, Future[Answer], Path]]:
    """Yields a service that was told to end while it works, a connection from before, the work, and its gate."""
    config = write_config(folder, model, batching={"deadline_seconds": 600})
    with (
        serving(config, gate=folder / "gate", python=warm_python) as service,
        contextlib.closing(service.connection()) as kept,
        ThreadPoolExecutor(1) as pool,
    ):
        assert ask(kept, "/ready").status == 200
        work = pool.submit(translate, service)
        service.wait_until(lambda: b'transduce_computing_sentences{model="made"} 1.0' in service.ask("/metrics").body)
        service.process.send_signal(signal.SIGTERM)
        service.wait_until(lambda: any("stopping" in line for line in service.events))
        yield service, kept, work, folder / "gate"


def test_work_under_way_is_finished_and_new_work_refused(
    tmp_path: Path, model: Path, expected: dict[str, str], warm_python: Path
) -> None:
    with stopping(tmp_path, model, warm_python) as (service, kept, work, gate):
        refused = ask(kept, "/translate", {"q": "A dog runs.", "source": "en", "target": "de"})
        assert (refused.status, refused.headers["connection"]) == (503, "close")
        assert service.ask("/ready").status == 503
        assert service.ask("/health").status == 200
        gate.touch()
        answer = work.result(60)
        assert (answer.status, answer.json["translatedText"]) == (200, expected[TEXTS[0]])
        assert service.wait() == 0


def test_a_second_signal_ends_it_at_once(tmp_path: Path, model: Path, warm_python: Path) -> None:
    with stopping(tmp_path, model, warm_python) as (service, _, work, _):
        assert service.stop(signal.SIGINT, seconds=60) == 128 + signal.SIGINT
        assert "transduce: stopped at once, by a second signal" in service.events
        with pytest.raises((OSError, http.client.HTTPException)):
            work.result(60)


def test_half_sent_requests_do_not_hold_the_end_up(config: Path, warm_python: Path) -> None:
    with serving(config, python=warm_python) as service, contextlib.ExitStack() as stack:
        address = urlsplit(service.address)
        for sent in (
            b"",
            b"POST /translate HT",
            b"POST /translate HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nq=A+dog",
            b"POST /translate HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nq=A\r\n",
        ):
            half = stack.enter_context(socket.create_connection((address.hostname, address.port)))
            half.sendall(sent)
        service.wait_until(lambda: b"transduce_requests_in_progress 3.0" in service.ask("/metrics").body)
        assert translate(service).status == 200
        assert service.stop(seconds=15) == 0


def test_a_client_that_leaves_is_noted_and_its_work_given_up(config: Path, warm_python: Path) -> None:
    with serving(config, python=warm_python) as service:
        for _ in range(3):
            connection = service.connection()
            body = json.dumps({"q": _MANY, "source": "en", "target": "de"})
            connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
            service.wait_until(lambda: b"transduce_requests_in_progress 2.0" in service.ask("/metrics").body)
            connection.close()
            service.wait_until(lambda: b"transduce_requests_in_progress 1.0" in service.ask("/metrics").body)
        service.wait_until(lambda: b'transduce_waiting_sentences{model="made"} 0.0' in service.ask("/metrics").body)
        assert translate(service).status == 200
        assert service.stop() == 0  # afterwards the whole log has been read
    assert [line["status"] for line in service.requests if line["route"] == "/translate"] == [499, 499, 499, 200]


# --- keys, limits, reloading ----------------------------------------------------------------------------------


def test_keys_and_limits_are_kept_and_reloaded(tmp_path: Path, model: Path, warm_python: Path) -> None:
    keys = tmp_path / "keys.toml"
    first = add_key(keys, "first", per_minute=100)
    with serving(write_config(tmp_path, model), "--keys", str(keys), python=warm_python) as service:
        assert translate(service).status in (400, 401, 403)
        answer = translate(service, api_key=first)
        assert answer.status == 200
        assert answer.headers["ratelimit-policy"] == '"minute";q=100;w=60'
        assert translate(service, TEXTS[1] * 4, api_key=first).status == 200  # overdraws
        refused = translate(service, api_key=first)
        assert (refused.status, int(refused.headers["retry-after"]) > 0) == (429, True)
        second = add_key(keys, "second")
        assert translate(service, api_key=second).status == 403
        service.process.send_signal(signal.SIGHUP)
        service.wait_until(lambda: "transduce: reload: 2 keys" in service.events)
        assert translate(service, api_key=second).status == 200
        keys.write_text("[[keys]", encoding="utf-8")
        service.process.send_signal(signal.SIGHUP)
        service.wait_until(lambda: any("error: reload:" in line and "stays in use" in line for line in service.events))
        assert translate(service, api_key=second).status == 200
        assert service.stop() == 0  # afterwards the whole log has been read
    assert first not in service.log
    assert second not in service.log
    assert {line["key"] for line in service.requests} == {"", "first", "second"}


def test_a_new_key_is_printed_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = str(tmp_path / "keys.toml")
    arguments = ["serve", "--keys", keys, "--add-key", "weblate", "--characters-per-day", "5000", "--bulk"]
    assert command_line(arguments) == 0
    secret = capsys.readouterr().out.strip()
    assert len(secret) == 48
    text = Path(keys).read_text(encoding="utf-8")
    assert secret not in text
    assert 'name = "weblate"' in text
    assert "characters_per_day = 5000" in text
    assert 'priority = "bulk"' in text
    assert command_line(arguments) == 2
    assert "has a key 'weblate' already" in capsys.readouterr().err


def test_metrics_can_have_a_port_of_their_own(tmp_path: Path, model: Path, warm_python: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with serving(write_config(tmp_path, model, server={"metrics_port": port}), python=warm_python) as service:
        missing = service.ask("/metrics")
        require_described("GET", "/metrics", missing.status, missing.headers["content-type"], missing.body)
        assert missing.status == 404
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
            assert b"transduce_ready 1.0" in ask(connection, "/metrics").body
            assert ask(connection, "/health").status == 200
        assert service.stop() == 0


def test_pages_of_other_origins_are_served_only_if_set(tmp_path: Path, model: Path, warm_python: Path) -> None:
    origin = {"Origin": "https://page.example"}
    fields = {"q": "A dog runs.", "source": "en", "target": "de"}
    with serving(write_config(tmp_path, model), python=warm_python) as service:
        assert "access-control-allow-origin" not in service.ask("/translate", fields, origin).headers
    with serving(write_config(tmp_path, model, server={"cors_origins": ["*"]}), python=warm_python) as service:
        assert service.ask("/translate", fields, origin).headers["access-control-allow-origin"] == "*"


# --- the store fails ------------------------------------------------------------------------------------------


def test_translation_goes_on_without_the_database(
    tmp_path: Path, model: Path, postgres: PostgresServer, warm_python: Path
) -> None:
    config = write_config(tmp_path, model, state={"url": postgres.new_database()})
    glossary = {"name": "a", "source_lang": "en", "target_lang": "de", "entries": "dog\tHund", "entries_format": "tsv"}
    with serving(config, python=warm_python) as service:
        made = service.ask("/v2/glossaries", glossary)
        assert made.status == 201, made.body
        path = f"/v2/glossaries/{made.json['glossary_id']}"
        postgres.stop()
        try:
            for _ in range(3):
                assert translate(service).status == 200
                assert service.ask(path).status == 503
            service.wait_until(lambda: b"transduce_store_failing 1.0" in service.ask("/metrics").body)
            assert service.ask("/ready").status == 200
        finally:
            postgres.start()
        service.wait_until(lambda: service.ask(path).status == 200)
        service.wait_until(lambda: b"transduce_store_failing 0.0" in service.ask("/metrics").body)
        assert service.stop() == 0  # afterwards the whole log has been read
    assert sum("cannot be used" in line for line in service.events) <= 2
    assert any("can be used again" in line for line in service.events)


def test_usage_outlasts_the_service(tmp_path: Path, model: Path, warm_python: Path) -> None:
    keys = tmp_path / "keys.toml"
    secret = add_key(keys, "first", per_day=1000)
    config = write_config(tmp_path, model, keys={"file": str(keys)})
    headers = {"Authorization": f"DeepL-Auth-Key {secret}"}
    with serving(config, python=warm_python) as service:
        assert translate(service, api_key=secret).status == 200
        assert service.stop() == 0
    with serving(config, python=warm_python) as service:
        assert service.ask("/v2/usage", headers=headers).json["character_count"] == len(TEXTS[0])
        answer = translate(service, api_key=secret)
        assert f"r={1000 - 2 * len(TEXTS[0])};" in answer.headers["ratelimit"]


# --- TLS ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed (apt install openssl), which makes the certificate: TLS is NOT tested")
    folder = tmp_path_factory.mktemp("tls")
    make_certificate(folder)
    return folder / "cert.pem", folder / "key.pem"


def make_certificate(folder: Path) -> None:
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem"), "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )


def test_tls_is_spoken_and_a_renewed_certificate_is_taken(
    tmp_path: Path, model: Path, certificate: tuple[Path, Path], warm_python: Path
) -> None:
    for path in certificate:
        shutil.copy(path, tmp_path)
    paths = {"certificate": "cert.pem", "private_key": "key.pem"}  # relative to the configuration
    with serving(write_config(tmp_path, model, server=paths), python=warm_python) as service:
        parts = urlsplit(service.address)
        assert parts.scheme == "https"

        def status() -> int:
            context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
            connection = http.client.HTTPSConnection(str(parts.hostname), parts.port, context=context, timeout=20)
            with contextlib.closing(connection):
                return ask(connection, "/ready").status

        assert status() == 200
        make_certificate(tmp_path)
        with pytest.raises(ssl.SSLError):
            status()
        service.process.send_signal(signal.SIGHUP)
        service.wait_until(lambda: any("reload" in line for line in service.events))
        assert status() == 200
        (tmp_path / "cert.pem").write_text("broken", encoding="utf-8")
        service.process.send_signal(signal.SIGHUP)
        service.wait_until(lambda: any("error: reload: server.certificate" in line for line in service.events))
        assert service.stop() == 0


# --- errors at the start --------------------------------------------------------------------------------------


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Runs the command and returns its exit code and the one line that it prints."""
    code = command_line(["serve", *arguments])
    [line] = capsys.readouterr().err.splitlines()
    return code, line


def test_a_port_in_use_is_one_line(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, line = refusal(capsys, "--config", str(config), "--port", port)
    assert code == 1
    assert line == (
        f"transduce: error: cannot listen at 127.0.0.1, port {port}: Address already in use. "
        "Choose another with --host or --port."
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere"], 4, "nowhere"),
        ([], 2, "No model: name at least one model folder to serve, or a folder of them with --models."),
        (["--config", "nowhere.toml"], 2, "nowhere.toml: no such"),
        (["--add-key", "a"], 2, "give --keys FILE as well"),
        (["--bulk"], 2, "give --add-key NAME as well"),
        (["--port", "70000"], 2, "--port 70000: must be a whole number"),
    ],
)
def test_wrong_arguments_are_one_line(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, line = refusal(capsys, *arguments)
    assert (found, message in line) == (code, True), line


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--keys", "nowhere.toml"], 2, "nowhere.toml: no such file of keys"),
        (["--state", "/proc/nowhere/serve.db"], 2, "[state] url: /proc/nowhere/serve.db: cannot be made"),
        (["--host", "203.0.113.1"], 1, "cannot listen at 203.0.113.1"),
        (["--host", "not a host"], 1, "--host not a host"),
    ],
)
def test_what_cannot_be_used_is_one_line(
    config: Path, arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, line = refusal(capsys, "--config", str(config), *arguments)
    assert (found, message in line) == (code, True), line


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"certificate": "nowhere.pem"}, "server.certificate: "),
        ({"certificate": "serve.toml"}, "cannot be used: "),
        ({"trusted_proxies": ["proxy"]}, "server.trusted_proxies: "),
        ({"max_conections": 3}, "unknown key 'server.max_conections'. Did you mean 'max_connections'?"),
    ],
)
def test_a_wrong_configuration_is_one_line(
    tmp_path: Path, model: Path, section: dict[str, Any], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path, model, server=section)
    code, line = refusal(capsys, "--config", str(config), "--port", "0")
    assert (code, message in line) == (2, True), line


def test_a_model_that_cannot_be_loaded_ends_the_service(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(model, damaged)
    weights = damaged / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    code = command_line(["serve", "--config", str(write_config(tmp_path, damaged)), "--port", "0"])
    assert code == 4
    assert "Traceback" not in capsys.readouterr().err
    time.sleep(0)  # nothing is left running
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("request")]
