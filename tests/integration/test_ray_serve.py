"""The service in Ray Serve's local mode: replicas that answer as `Translator.translate` does.

Ray is heavy, and not among what `make` installs: pip install '.[serve,ray]' for these tests. What a replica
runs is tested without it in tests/unit/test_serve_replica.py.
"""

import json
import os
import socket
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from made_models import untied_folder
from served_process import write_config
from transduce.serve.ray_app import build
from transduce.translation.translator import Translator

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install '.[serve,ray]'")
serve = pytest.importorskip(
    "ray.serve", reason="Ray Serve is not installed: pip install '.[serve,ray]'", exc_type=ImportError
)
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.computes]  # the warnings are Ray's own

_LINES = [f"a man with {number} balls" for number in range(40)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untied_folder(tmp_path_factory.mktemp("model") / "made")


@pytest.fixture(scope="module")
def address(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two replicas, in a cluster that stays for this module."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        config = write_config(tmp_path_factory.mktemp("config"), model)
        serve.run(build({"config": str(config), "replicas": "2"}))
        yield f"http://127.0.0.1:{port}"
        serve.shutdown()
    finally:
        ray.shutdown()


def translated(address: str, text: str) -> str:
    fields = json.dumps({"q": text, "source": "en", "target": "de"}).encode()
    request = urllib.request.Request(f"{address}/translate", fields, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        found: str = json.load(answer)["translatedText"]
    return found


def test_replicas_answer_as_one_machine_does(address: str, model: Path) -> None:
    expected = Translator.load(model, engine="ctranslate2", threads=1).translate(_LINES)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda line: translated(address, line), _LINES)) == expected


def test_replicas_are_ready(address: str) -> None:
    for path in ("/health", "/ready", "/languages"):
        with urllib.request.urlopen(address + path, timeout=60) as answer:
            assert answer.status == 200
