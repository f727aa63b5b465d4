"""The health check of a container finds the service wherever its configuration and its options put it."""

import json
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from fake_service import FakeService, fake_app
from made_models import untied_folder
from running_app import running
from served_process import serving, write_config
from transduce.cli.main import main as command_line

_DOCKERFILE = Path(__file__).resolve().parents[2] / "deploy" / "Dockerfile"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untied_folder(tmp_path_factory.mktemp("check"))


def health_check(process_id: int) -> subprocess.CompletedProcess[str]:
    """Runs the health check of the image, as if a process were the first one of a container."""
    [found] = re.findall(r"^HEALTHCHECK .*\\\n\s+CMD (\[.*\])$", _DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    command = [each.replace("/proc/1/", f"/proc/{process_id}/") for each in json.loads(found)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


@pytest.mark.parametrize("encrypted", [False, True])
def test_the_health_check_of_the_image_follows_the_configuration(tmp_path: Path, model: Path, encrypted: bool) -> None:
    server = {"host": "0.0.0.0", "port": 5000}  # the option wins over this port
    if encrypted:
        if shutil.which("openssl") is None:
            pytest.skip(
                "openssl is not installed (apt install openssl), which makes the certificate: TLS is NOT tested"
            )
        command = (
            "openssl req -x509 -newkey rsa:2048 -nodes -keyout both.pem -out both.pem -days 2 -subj /CN=example.org"
        )
        subprocess.run(command.split(), check=True, capture_output=True, cwd=tmp_path)
        server["certificate"] = "both.pem"
    with serving(write_config(tmp_path, model, server=server), "--port", str(free_port())) as service:
        found = health_check(service.process.pid)
        assert (found.returncode, found.stderr) == (0, "")
        assert service.stop() == 0


def test_a_service_that_does_not_answer_is_told(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, port = str(write_config(tmp_path, model)), free_port()
    assert command_line(["serve", "--config", config, "--port", str(port), "--check"]) == 1
    assert f"no service answers at 127.0.0.1, port {port}: " in capsys.readouterr().err
    assert command_line(["serve", "--config", config, "--port", "0", "--check"]) == 2
    assert "server.port = 0" in capsys.readouterr().err


def test_a_service_that_asks_for_a_restart_is_told(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = FakeService()
    with running(fake_app(service)) as address:
        arguments = ["serve", "--config", str(write_config(tmp_path, model)), "--port", address.rpartition(":")[2]]
        assert command_line([*arguments, "--check"]) == 0
        service.hung = ["m30k"]
        assert command_line([*arguments, "--check"]) == 1
    assert "is not alive: status 503" in capsys.readouterr().err


def test_the_check_does_not_search_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A probe comes every few seconds: it must not hash or import packages."""
    folder = tmp_path / "not-there"
    arguments = ["serve", "--models", str(folder), "--port", str(free_port()), "--check"]
    assert command_line(arguments) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert "no service answers at 127.0.0.1" in line
    with running(fake_app(FakeService())) as address:
        assert command_line([*arguments[:-2], address.rpartition(":")[2], "--check"]) == 0
