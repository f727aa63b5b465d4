"""How many workers a cluster gets, and with what, without Ray: a cluster that is only told of."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from made_models import made_bundle
from transduce.config import DecodeConfig
from transduce.errors import ConfigError, TransduceError
from transduce.translation.pipeline import Request
from transduce.translation.streams import PlainLines
from transduce.translation.streams.cluster import RayWorkers, Worker, _dispatcher, ray_workers
from transduce.translation.streams.workers import FileRequest, JobFingerprint
from transduce.translation.windows import Window

REQUEST = FileRequest(Request(DecodeConfig()), PlainLines())


class Cluster:
    """What this package uses of the module `ray`; notes all calls."""

    def __init__(self, **resources: float) -> None:
        self.resources = resources
        self.joined = False
        self.calls: list[tuple[Any, ...]] = []
        self.ended: list[str] = []  # calls of workers

    def is_initialized(self) -> bool:
        return self.joined

    def init(self, **options: Any) -> None:
        self.calls.append(("init", options))

    def shutdown(self) -> None:
        self.calls.append(("shutdown",))

    def cluster_resources(self) -> Mapping[str, float]:
        return self.resources

    def remote(self, **needs: Any) -> Any:
        def of(worker: type) -> Any:
            def start(*arguments: Any) -> str:
                self.calls.append(("start", worker, needs, *arguments))
                return f"actor {len(self.calls)}"

            return SimpleNamespace(remote=start)

        return of

    def kill(self, actor: str) -> None:
        self.calls.append(("kill", actor))

    def put(self, value: Any) -> Any:
        return ("put", value)

    def wait(self, calls: list[str], *, num_returns: int, timeout: float) -> tuple[list[str], list[str]]:
        assert num_returns == len(calls)
        return [each for each in calls if each in self.ended], [each for each in calls if each not in self.ended]

    def started(self) -> list[tuple[Any, ...]]:
        return [each[1:] for each in self.calls if each[0] == "start"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_bundle(tmp_path_factory.mktemp("models") / "m").path


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster(CPU=8.0)
    monkeypatch.setitem(sys.modules, "ray", cast(Any, cluster))
    return cluster


@pytest.mark.parametrize(
    ("resources", "asked", "count", "device", "threads", "gpus"),
    [
        ({"CPU": 8.0}, {}, 8, "cpu", 1, 0),
        ({"CPU": 8.0}, {"num_workers": 3}, 3, "cpu", 1, 0),
        ({"CPU": 8.0}, {"threads": 3}, 2, "cpu", 3, 0),
        ({"CPU": 8.0, "GPU": 2.0}, {}, 2, "cuda", 1, 1),
        ({"CPU": 8.0, "GPU": 2.0}, {"device": "cpu"}, 8, "cpu", 1, 0),
        ({"CPU": 3.0, "GPU": 4.0}, {"threads": 2}, 1, "cuda", 2, 1),  # as few as there are processors for
        ({"CPU": 8.0, "GPU": 2.0}, {"device": "cuda:1"}, 2, "cuda:1", 1, 1),
        ({"CPU": 8.0, "GPU": 0.5}, {}, 8, "cpu", 1, 0),
    ],
)
def test_a_cluster_gets_as_many_workers_as_it_has_room_for(
    ray: Cluster, model: Path, resources: dict[str, float], asked: Any, count: int, device: str, threads: int, gpus: int
) -> None:
    ray.resources = resources
    with ray_workers(model, engine="torch", ensemble=["other"], **asked) as workers:
        assert workers.num_workers == count
        assert workers.bundle.path == model
        assert workers.options == workers.bundle.config.decode
    needs = {"num_cpus": threads, "num_gpus": gpus, "max_restarts": 3, "max_task_retries": 3}
    loading = {key: value for key, value in asked.items() if key != "num_workers"}
    loading |= {"engine": "torch", "device": device, "threads": threads, "ensemble": [str(Path("other").absolute())]}
    assert ray.started() == [(Worker, needs, str(model.absolute()), loading)] * count
    assert ray.calls[0] == (
        "init",
        {"address": "local", "log_to_driver": False, "logging_level": "error", "include_dashboard": False},
    )
    assert [each[0] for each in ray.calls[1 + count :]] == ["shutdown"]


@pytest.mark.parametrize(
    ("loading", "message"),
    [({"ensemble": "other"}, r"for a single one, \[folder\]"), ({"quantisation": "int8"}, "argument 'quantisation'")],
)
def test_keywords_that_load_refuses_are_refused_before_anything_starts(
    ray: Cluster, model: Path, loading: Any, message: str
) -> None:
    with pytest.raises(TypeError, match=message), ray_workers(model, **loading):
        pytest.fail("workers were started")
    assert ray.calls == []


@pytest.mark.parametrize(
    ("draft", "passed"),
    [("self", "self"), ("blockwise", "blockwise"), ("", ""), ("small", str(Path("small").absolute()))],
)
def test_workers_get_the_whole_path_of_a_model_that_drafts(ray: Cluster, model: Path, draft: str, passed: str) -> None:
    with ray_workers(model, num_workers=1, draft=draft):
        pass
    [(*_, loading)] = ray.started()
    assert loading["draft"] == passed


@pytest.mark.parametrize(
    ("resources", "asked", "message"),
    [
        ({"CPU": 8.0}, {"num_workers": 9}, "9 workers of 1 thread each: there is room for 8 (8 processors, 0 GPUs)."),
        ({"CPU": 8.0}, {"num_workers": 0}, "0 workers of 1 thread each: there is room for 8 (8 processors, 0 GPUs)."),
        (
            {"CPU": 1.0, "GPU": 1.0},
            {"threads": 2},
            "1 workers of 2 threads and a GPU each: there is room for 0 (1 processors, 1 GPUs).",
        ),
    ],
)
def test_a_cluster_that_is_too_small_is_refused(
    ray: Cluster, model: Path, resources: dict[str, float], asked: Any, message: str
) -> None:
    ray.resources = resources
    with pytest.raises(ConfigError) as error:
        ray_workers(model, **asked).__enter__()
    assert str(error.value).startswith(message)
    assert not ray.started()


def test_workers_in_a_cluster_that_was_joined_before_are_ended_and_the_cluster_stays(ray: Cluster, model: Path) -> None:
    ray.joined = True
    with ray_workers(model, address="auto", num_workers=2):
        pass
    assert [each for each in ray.calls if each[0] != "start"] == [("kill", "actor 1"), ("kill", "actor 2")]


def test_another_cluster_is_joined_by_its_address(ray: Cluster, model: Path) -> None:
    with ray_workers(model, address="head:6379", num_workers=1):
        pass
    assert ray.calls[0] == ("init", {"address": "head:6379", "log_to_driver": False, "logging_level": "error"})


def test_a_window_goes_to_the_worker_that_has_the_least_to_do(ray: Cluster) -> None:
    given: list[tuple[int, Any, Any]] = []

    def actor(number: int) -> Any:
        def remote(window: Window, request: Any) -> str:
            given.append((number, window.first, request))
            return f"call {window.first}"

        return SimpleNamespace(translate=SimpleNamespace(remote=remote))

    submit = _dispatcher([actor(0), actor(1)], REQUEST)
    for first in range(1, 8):
        if first == 5:
            ray.ended = ["call 2", "call 4"]  # those of the second worker
        submit(Window(first, ["a"]))
    assert [(number, first) for number, first, _ in given] == [(0, 1), (1, 2), (0, 3), (1, 4), (1, 5), (1, 6), (0, 7)]
    assert all(request == ("put", REQUEST) for *_, request in given)


def test_workers_that_do_not_start_are_counted(ray: Cluster) -> None:
    actors = [SimpleNamespace(introduce=SimpleNamespace(remote=lambda _, name=name: name)) for name in "abc"]
    ray.ended = ["a", "c"]
    bundle = cast(Any, SimpleNamespace(config=SimpleNamespace(decode=DecodeConfig())))
    with pytest.raises(ConfigError, match=r"^Only 2 of 3 workers started within 600 s"):
        RayWorkers(bundle, actors).fingerprint(REQUEST)


def test_errors_of_workers_are_those_of_this_process_or_say_what_was_lost(
    ray: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    class RayTaskError(Exception):
        cause: BaseException = ValueError("x")

    class RayActorError(Exception):
        actor_init_failed = False

    exceptions = SimpleNamespace(RayTaskError=RayTaskError, RayActorError=RayActorError)
    monkeypatch.setitem(sys.modules, "ray.exceptions", cast(Any, exceptions))
    of_ours, of_others = RayTaskError(), RayTaskError()
    of_ours.cause = ConfigError("ours")
    not_started, lost = RayActorError("first\nlast"), RayActorError("first\nlast")
    not_started.actor_init_failed = True
    for raised, kind, message in (
        (of_ours, ConfigError, "^ours$"),
        (of_others, RayTaskError, "^$"),
        (not_started, TransduceError, r"^A worker did not start \(last\)"),
        (lost, TransduceError, r"^A worker was lost 4 times \(first\)"),
    ):

        def get(call: Any, raised: Exception = raised) -> Any:
            raise raised

        monkeypatch.setattr(ray, "get", get, raising=False)
        actor = SimpleNamespace(translate=SimpleNamespace(remote=lambda *_: "call"))
        with pytest.raises(kind, match=message):
            _dispatcher([actor], REQUEST)(Window(1, ["a"]))()


def test_a_worker_says_where_and_what_it_is(model: Path) -> None:
    worker = Worker(str(model), {"engine": "ctranslate2", "device": "cpu"})
    host, version, fingerprint = worker.introduce(REQUEST)
    assert host
    assert version
    assert isinstance(fingerprint, JobFingerprint)
    assert fingerprint.engine.startswith("ctranslate2")
    assert len(worker.translate(Window(1, ["A dog.", "A man."]), REQUEST).rows) == 2
