"""The files of deploy/ name options, keys, addresses and metrics that exist."""

import configparser
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from transduce.cli.main import build_parser
from transduce.serve.config import ServeConfig, read_config
from transduce.serve.operations.metrics import Metrics
from transduce.serve.requests import Priority
from transduce.serve.state.store import default_path

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (pip install pyyaml): the manifest is NOT tested")

_DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
_MANIFEST = (_DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")
_DOCKERFILE = (_DEPLOY / "Dockerfile").read_text(encoding="utf-8")


def kinds() -> dict[str, Any]:
    """Returns the objects of the manifest by their kind."""
    documents = list(yaml.safe_load_all(_MANIFEST))
    found = {each["kind"]: each for each in documents}
    assert len(found) == len(documents)
    return found


def config_of(text: str, folder: Path) -> ServeConfig:
    (folder / "serve.toml").write_text(text, encoding="utf-8")
    return read_config(folder / "serve.toml")


@pytest.fixture
def config(tmp_path: Path) -> ServeConfig:
    return config_of(kinds()["ConfigMap"]["data"]["serve.toml"], tmp_path)


@pytest.fixture
def container() -> dict[str, Any]:
    [found] = kinds()["Deployment"]["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_the_manifests_labels_belong_together() -> None:
    objects = kinds()
    template = objects["Deployment"]["spec"]["template"]
    labels = template["metadata"]["labels"]
    assert objects["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert objects["Service"]["spec"]["selector"] == labels
    assert objects["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"] == "transduce"


def test_the_manifest_probes_what_the_service_has(container: dict[str, Any], config: ServeConfig) -> None:
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"http": config.server.port, "metrics": config.server.metrics_port}
    assert kinds()["Service"]["spec"]["ports"][0]["targetPort"] in ports
    # Where clients have all connections of the service, it is alive all the same.
    assert container["livenessProbe"]["httpGet"] == {"path": "/health", "port": "metrics"}
    for name in ("startupProbe", "readinessProbe"):
        assert container[name]["httpGet"] == {"path": "/ready", "port": "http"}
    annotations = kinds()["Deployment"]["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(ports["metrics"])


def test_the_manifests_container_has_what_its_configuration_names(
    container: dict[str, Any], config: ServeConfig
) -> None:
    mounts = [each["mountPath"] for each in container["volumeMounts"]]
    assert container["args"] == ["--config", "/etc/transduce/serve.toml"]
    assert "/etc/transduce/serve.toml" in mounts
    assert str(Path(config.keys.file).parent) in mounts
    assert all(any(entry.path.startswith(mount) for mount in mounts) for entry in config.models)
    assert config.state.url.startswith("postgresql://")
    assert container["securityContext"]["readOnlyRootFilesystem"]
    volumes = {each["name"] for each in kinds()["Deployment"]["spec"]["template"]["spec"]["volumes"]}
    assert {each["name"] for each in container["volumeMounts"]} == volumes


def test_the_manifest_scales_on_a_metric_that_exists() -> None:
    [metric] = kinds()["HorizontalPodAutoscaler"]["spec"]["metrics"]
    name = metric["pods"]["metric"]["name"]
    measured = name.removesuffix("_mean")
    metrics = Metrics()
    metrics.waited("m30k", Priority.INTERACTIVE, 0.1)
    assert f"\n{measured}_sum{{".encode() in metrics.exposition()[0]
    guide = (_DEPLOY.parent / "docs" / "guides" / "operating.md").read_text(encoding="utf-8")
    assert f"as: {name}" in guide
    assert f"rate({measured}_sum" in guide


def test_the_guide_shows_the_configuration_that_is_there() -> None:
    guide = (_DEPLOY.parent / "docs" / "guides" / "operating.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^```toml\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    assert (_DEPLOY / "serve.toml").read_text(encoding="utf-8").endswith(example)


def test_time_to_end_is_longer_than_what_is_waited_for(container: dict[str, Any], config: ServeConfig) -> None:
    sleep = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    grace = kinds()["Deployment"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > sleep + config.batching.deadline_seconds


def test_the_image_runs_a_command_that_exists_and_not_as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = re.search(r"^ENTRYPOINT (\[.*\])$", _DOCKERFILE, re.MULTILINE)
    command = re.search(r"^CMD (\[.*\])$", _DOCKERFILE, re.MULTILINE)
    assert entry is not None
    assert command is not None
    arguments = [*yaml.safe_load(entry[1]), *yaml.safe_load(command[1])]
    assert arguments[0] == "transduce"
    build_parser().parse_args(arguments[1:])
    uid = int(re.findall(r"^USER (\d+)$", _DOCKERFILE, re.MULTILINE)[-1])
    assert uid > 0
    pod = kinds()["Deployment"]["spec"]["template"]["spec"]["securityContext"]
    assert pod["runAsUser"] == uid
    assert f"--uid {uid}" in _DOCKERFILE
    assert f"EXPOSE {ServeConfig().server.port}\n" in _DOCKERFILE
    state = re.search(r"XDG_STATE_HOME=(\S+)", _DOCKERFILE)
    assert state is not None
    monkeypatch.setenv("XDG_STATE_HOME", state[1])
    assert f"\nVOLUME {default_path().parents[1]}\n" in _DOCKERFILE


def test_the_image_copies_files_that_exist_and_installs_extras_that_exist() -> None:
    [copied] = re.findall(r"^COPY (?!--)(.*) \./$", _DOCKERFILE, re.MULTILINE)
    kept = set(re.findall(r"^!(.*)$", (_DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8"), re.MULTILINE))
    for name in copied.split():
        assert (_DEPLOY.parent / name).is_file()
        assert name in kept
    [extras] = re.findall(r"'\.\[(.*)\]'", _DOCKERFILE)
    project = tomllib.loads((_DEPLOY.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(extras.split(",")) <= set(project["optional-dependencies"])


def test_the_unit_runs_a_command_that_exists(tmp_path: Path) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None, comment_prefixes=("#",))
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(_DEPLOY / "transduce.service")
    program, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert program.endswith("/transduce")
    build_parser().parse_args(arguments)
    assert "HUP" in unit["Service"]["ExecReload"]
    assert "XDG_STATE_HOME=/var/lib " in unit["Service"]["Environment"]
    assert unit["Service"]["StateDirectory"] == "transduce"
    assert "ProcSubset" not in unit["Service"]  # the metrics of memory and processor time need /proc/stat
    config = config_of((_DEPLOY / "serve.toml").read_text(encoding="utf-8"), tmp_path)
    assert int(unit["Service"]["LimitNOFILE"]) > config.server.max_connections
    assert int(unit["Service"]["TimeoutStopSec"]) > config.batching.deadline_seconds


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed: apt install systemd")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """With another program, because systemd looks for it, and /opt/transduce is not on this machine."""
    unit = (_DEPLOY / "transduce.service").read_text(encoding="utf-8")
    copied = tmp_path / "transduce.service"
    for text, is_accepted in ((unit, True), (unit.replace("Restart=on-failure", "Restart=sometimes"), False)):
        copied.write_text(re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={sys.executable}", text), encoding="utf-8")
        command = ["systemd-analyze", "verify", "--man=no", str(copied)]
        verified = subprocess.run(command, capture_output=True, text=True, check=False)
        found = [line for line in verified.stderr.splitlines() if "transduce.service" in line]
        assert (found == []) is is_accepted, verified.stderr
        assert verified.returncode == 0 or not is_accepted, verified.stderr
