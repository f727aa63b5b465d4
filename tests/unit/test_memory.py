"""How much memory is available, how much a piece of work used, and which errors are a lack of it."""

import errno
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
import torch

from transduce import files
from transduce.config.tensors import read_header
from transduce.data.store import ParallelStore
from transduce.errors import TrainingError
from transduce.training import memory
from transduce.training.memory import available_bytes, gibibytes, is_out_of_memory, measured, named_memory_error
from transduce.training.progress import check_checkpoint

CPU = torch.device("cpu")
MIB = 1 << 20


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system with 1000 MiB available and no limits."""
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "groups")
    monkeypatch.setattr(memory, "_address_space_bytes", lambda: None)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    write(tmp_path / "proc/meminfo", f"MemTotal: {2000 * 1024} kB\nMemAvailable:   {1000 * 1024} kB\n")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_what_the_system_has(system: Path) -> None:
    assert available_bytes(CPU) == 1000 * MIB


def test_a_limit_of_a_control_group_of_version_2(system: Path) -> None:
    """A group may be limited by one above it. Files that are not in use can be dropped from memory."""
    write(system / "proc/self/cgroup", "0::/service/job\n")
    write(system / "groups/service/memory.max", f"{500 * MIB}\n")
    write(system / "groups/service/memory.current", f"{300 * MIB}\n")
    write(system / "groups/service/memory.stat", f"anon 1\ninactive_file {50 * MIB}\n")
    write(system / "groups/service/job/memory.max", "max\n")
    write(system / "groups/service/job/memory.current", f"{300 * MIB}\n")
    assert available_bytes(CPU) == 250 * MIB


def test_a_limit_of_a_control_group_of_version_1(system: Path) -> None:
    write(system / "proc/self/cgroup", "9:name=systemd:/\n4:memory:/job\n1:cpu:/job\n0::/\n")
    write(system / "groups/memory/job/memory.limit_in_bytes", f"{400 * MIB}\n")
    write(system / "groups/memory/job/memory.usage_in_bytes", f"{100 * MIB}\n")
    write(system / "groups/memory/job/memory.stat", f"inactive_file 1\ntotal_inactive_file {10 * MIB}\n")
    write(system / "groups/memory/memory.limit_in_bytes", f"{1 << 63}\n")
    write(system / "groups/memory/memory.usage_in_bytes", f"{100 * MIB}\n")
    assert available_bytes(CPU) == 310 * MIB


def test_processes_of_one_machine_share_its_memory(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert available_bytes(CPU) == 250 * MIB


def test_a_limit_of_the_address_space(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_address_space_bytes", lambda: 70 * MIB)
    assert available_bytes(CPU) == 70 * MIB


def test_the_address_space_in_use_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(memory, "PROC", tmp_path)
    monkeypatch.setattr(memory, "CGROUPS", tmp_path)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (500 * MIB, 900 * MIB))
    assert available_bytes(CPU) is None
    write(tmp_path / "self" / "status", f"VmPeak: {300 * 1024} kB\nVmSize:  {100 * 1024} kB\n")
    assert available_bytes(CPU) == 400 * MIB
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY,) * 2)
    assert available_bytes(CPU) is None


def test_what_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "PROC", tmp_path)
    monkeypatch.setattr(memory, "_address_space_bytes", lambda: None)
    assert available_bytes(CPU) is None
    assert available_bytes(torch.device("meta")) is None
    with measured(CPU) as usage:
        torch.ones(10)
    assert (usage.before, usage.peak, usage.growth) == (0, 0, 0)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux counts the peak of a process")
def test_the_peak_of_a_process_is_measured_anew() -> None:
    large = torch.ones(400 * MIB // 4)
    del large
    with measured(CPU) as usage:
        small = torch.ones(200 * MIB // 4)
    assert 190 * MIB < usage.growth < 300 * MIB
    del small


def test_what_a_gpu_has_and_what_was_used_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the allocator holds and does not use is as good as free; a peak is what it held."""
    gpu, asked = torch.device("cuda"), list[str]()
    held = {"memory_reserved": 50, "memory_allocated": 30, "max_memory_reserved": 90}
    for name, value in held.items():
        monkeypatch.setattr(torch.cuda, name, lambda _, value=value: value * MIB)
    for name in ("empty_cache", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda *_, name=name: asked.append(name))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (700 * MIB, 1000 * MIB))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")  # each process has a GPU of its own
    assert available_bytes(gpu) == 720 * MIB
    assert memory.used_bytes(gpu) == 50 * MIB
    with measured(gpu) as usage:
        assert asked == ["empty_cache", "reset_peak_memory_stats"]
    assert (usage.before, usage.peak, usage.growth) == (50 * MIB, 90 * MIB, 40 * MIB)
    assert memory.Usage(9, 4).growth == 0
    assert memory.used_bytes(torch.device("meta")) == 0


def test_which_errors_are_a_lack_of_memory() -> None:
    with pytest.raises(RuntimeError) as refused:
        torch.empty(1 << 58, dtype=torch.uint8)
    assert is_out_of_memory(refused.value)
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory."))
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("The size of tensor a (3) must match the size of tensor b (4)"))
    assert not is_out_of_memory(ValueError("can't allocate memory"))


def test_a_lack_of_memory_says_what_to_do() -> None:
    said = r"^step 3: CPU ran out of memory\..*--set train\.micro_batch_tokens="
    with pytest.raises(TrainingError, match=said), named_memory_error("step 3: CPU"):
        raise MemoryError
    with pytest.raises(RuntimeError, match="shapes"), named_memory_error("step 3: CPU"):
        raise RuntimeError("shapes")


def test_sizes_are_written_for_people() -> None:
    assert [gibibytes(size) for size in (2**30 - 1, 2**30, 1.5 * 2**30)] == ["1024 MiB", "1.0 GiB", "1.5 GiB"]
    assert [gibibytes(size) for size in (300 * MIB, 11.24 * (1 << 30))] == ["300 MiB", "11.2 GiB"]


NO_MEMORY = OSError("Memory mapping file failed: Cannot allocate memory")  # of PyArrow: without a number
TOO_MANY = OSError(errno.EMFILE, "Too many open files")


@pytest.mark.parametrize(("error", "raised"), [(NO_MEMORY, MemoryError), (TOO_MANY, OSError)])
def test_a_file_that_cannot_be_read_for_lack_of_memory_is_not_damaged(
    error: OSError, raised: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or for lack of descriptors. A checkpoint that counts as damaged is set aside."""

    def refuse(*_: object, **__: object) -> None:
        raise error

    readers: list[tuple[object, str, Callable[[Path], object]]] = [
        (pa, "memory_map", ParallelStore.open),
        (Path, "open", read_header),
        (files, "read_json_object", check_checkpoint),
    ]
    (tmp_path / "file").write_bytes(b"whole")
    for owner, name, read in readers:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, refuse)
            with pytest.raises(raised, match=r"file could not be read|Too many open files: .*file"):
                read(tmp_path / "file")
