"""Many workers in Ray's local mode: the file of one machine, byte for byte; errors, lost workers, resuming.

Ray is heavy, and not among what `make` installs: pip install '.[ray]' for these tests. What surrounds it is
tested without it in tests/unit/test_windows.py.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import transduce
from made_models import made_bundle
from transduce.cli import main as command_line
from transduce.errors import BundleError, ConfigError, DataError, TransduceError
from transduce.translation.streams import Columns, FileJob, PlainLines, Summary, translate_file
from transduce.translation.streams.cluster import RayWorkers, Worker, ray_workers
from transduce.translation.streams.workers import FileRequest, JobFingerprint
from transduce.translation.translator import Translator

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install '.[ray]'")
pytestmark = pytest.mark.filterwarnings("default")  # Ray's own

LINES = [f"a man with {number} balls\tTwo dogs run over the green grass {number}." for number in range(40)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "model"
    made_bundle(folder, ending=1.0)
    return folder


@pytest.fixture(scope="module")
def workers(model: Path) -> Iterator[RayWorkers]:
    """Two workers, in a cluster that stays for this module."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    with ray_workers(model, num_workers=2, device="cpu") as started:
        yield started
    assert ray.is_initialized()  # it was there before, and is not ours to end
    ray.shutdown()


@pytest.fixture(scope="module")
def translator(model: Path) -> Translator:
    return Translator.load(model, device="cpu", threads=1)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("".join(line + "\n" for line in LINES), encoding="utf-8")
    return path


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_the_file_of_one_machine(
    workers: RayWorkers, translator: Translator, source: Path, tmp_path: Path, suffix: str
) -> None:
    one, many = tmp_path / f"one{suffix}", tmp_path / f"many{suffix}"
    layout = PlainLines(many=True, scores=True)
    translate_file(translator, source, one, FileJob(layout=layout, n_best=3, window=6))
    assert translate_file(workers, source, many, FileJob(layout=layout, n_best=3, window=6)) == Summary(40, 0)
    assert many.read_bytes() == one.read_bytes()


def test_an_error_names_file_and_line_and_the_rest_is_kept(
    workers: RayWorkers, translator: Translator, source: Path, tmp_path: Path
) -> None:
    good, output, whole = source.read_text(), tmp_path / "out", tmp_path / "whole"
    translate_file(translator, source, whole, FileJob(layout=Columns(2), window=6))
    source.write_text(good.replace("with 33 balls\t", "with 33 balls "))
    with pytest.raises(DataError, match=r"in\.txt, line 34: has 1 column, and column 2 is to be translated"):
        translate_file(workers, source, output, FileJob(layout=Columns(2), window=6))
    source.write_text(good)
    assert translate_file(workers, source, output, FileJob(layout=Columns(2), window=6, resume=True)) == Summary(40, 30)
    assert output.read_bytes() == whole.read_bytes()


def test_a_killed_worker_is_restarted(
    workers: RayWorkers, translator: Translator, source: Path, tmp_path: Path
) -> None:
    source.write_text(source.read_text() * 8)
    one, many = tmp_path / "one", tmp_path / "many"
    translate_file(translator, source, one, FileJob(window=6))
    before = _process(workers)

    def kill() -> None:  # somewhere within the job
        deadline = time.monotonic() + 300
        while not (tmp_path / "many.partial.json").exists() and time.monotonic() < deadline:
            time.sleep(0.005)
        os.kill(before, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    summary = translate_file(workers, source, many, FileJob(window=6))
    killer.join()
    assert summary == Summary(320, 0)
    assert many.read_bytes() == one.read_bytes()
    assert _process(workers) != before


def _process(workers: RayWorkers) -> int:
    """Returns the number of the first worker's process."""
    return int(ray.get(workers._actors[0].__ray_call__.remote(lambda worker: os.getpid())))


def test_unlike_workers_are_refused(workers: RayWorkers, source: Path, tmp_path: Path) -> None:
    class Other:
        def introduce(self, request: FileRequest) -> tuple[str, str, JobFingerprint]:
            return "elsewhere", version, JobFingerprint({}, "another", None)

    version = transduce.__version__
    other = RayWorkers(workers.bundle, [*workers._actors, ray.remote(Other).remote()])
    with pytest.raises(ConfigError, match=r"the engine is not the same on .* and elsewhere: .* and another"):
        translate_file(other, source, tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


def test_workers_that_cannot_start(workers: RayWorkers, model: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"9 workers of 1 thread each: there is room for 4 \(4 processors"):
        ray_workers(model, num_workers=9, device="cpu").__enter__()
    with pytest.raises(BundleError, match="nowhere"):
        ray_workers(tmp_path / "nowhere").__enter__()
    with pytest.raises(ConfigError, match="no engine 'torhc'"):
        ray_workers(model, engine="torhc").__enter__()

    class Broken:
        def __init__(self) -> None:
            raise ModuleNotFoundError("No module named 'transduce'")

        def introduce(self, request: FileRequest) -> None:
            """Is never reached."""

    broken = RayWorkers(workers.bundle, [ray.remote(Broken).remote()])
    with pytest.raises(TransduceError, match=r"did not start \(.*No module named 'transduce'\)"):
        translate_file(broken, model / "config.json", tmp_path / "out")
    missing = ray.remote(Worker).remote(str(tmp_path / "nowhere"), {})
    with pytest.raises(TransduceError, match="nowhere"):  # a machine that has no such folder
        translate_file(RayWorkers(workers.bundle, [missing]), model / "config.json", tmp_path / "out")


def test_the_command(
    workers: RayWorkers, model: Path, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, many = tmp_path / "one.gz", tmp_path / "many.gz"
    arguments = ["translate", str(model), "--source", str(source), "--device", "cpu", "--batch-size", "1"]
    assert command_line.main([*arguments, "--threads", "1", "--output", str(one)]) == 0
    assert command_line.main([*arguments, "--ray", "local", "--workers", "2", "--output", str(many)]) == 0
    assert many.read_bytes() == one.read_bytes()
    assert "workers: 2" in capsys.readouterr().err
    assert command_line.main([*arguments, "--workers", "2"]) == 2
    assert "--ray" in capsys.readouterr().err
