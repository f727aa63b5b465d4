"""What a replica of Ray Serve runs, without Ray: an application that starts and stops with its lifespan."""

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from made_models import untied_folder
from served_process import write_config
from transduce.errors import ConfigError
from transduce.serve.config import read_config
from transduce.serve.ray_app import Replica, build
from transduce.translation.translator import Translator

pytestmark = pytest.mark.computes


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untied_folder(tmp_path_factory.mktemp("model") / "made")


def test_a_replica_answers_from_its_start_to_its_end(tmp_path: Path, model: Path) -> None:
    replica = Replica(read_config(write_config(tmp_path, model), changes={"server": {"metrics_port": 9100}}))
    service = replica._application.service
    assert not service.ready
    with TestClient(replica) as client:
        assert service.ready
        answer = client.post("/translate", json={"q": "A dog runs.", "source": "en", "target": "de"})
        expected = Translator.load(model, engine="ctranslate2", threads=1).translate(["A dog runs."])
        assert answer.json()["translatedText"] == expected[0]
        assert "transduce_ready 1.0" in client.get("/metrics").text, "Ray has no other port of ours"
    assert service.stopping
    assert replica._application.store.usage("", "2000-01-01", "2999-12-31") == len("A dog runs.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "'config' is missing"),
        ({"confg": "x"}, "unknown argument 'confg'. Did you mean 'config'?"),
        ({"config": "nowhere.toml"}, "nowhere.toml"),
        ({"config": "x", "replicas": "0"}, "replicas = '0': must be a whole number from 1"),
        ({"config": "x", "replicas": "two"}, "replicas = 'two'"),
    ],
)
def test_wrong_arguments_are_errors(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")):
        build(arguments)
