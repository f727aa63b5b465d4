"""The device that a name stands for, the precision that `auto` stands for, and how fast a device is said to be."""

from typing import Any

import pytest
import torch

from transduce.errors import ConfigError
from transduce.model.device import choose_device, send
from transduce.training import device as device_module
from transduce.training.cost import UNKNOWN, Capacity
from transduce.training.device import Compute, _measured_cpu, computes_bf16, device_capacity


@pytest.mark.parametrize(
    ("avx512_bf16", "amx", "capability", "expected"),
    [
        (True, False, "AVX512", True),
        (False, True, "AVX512", True),
        (False, False, "AVX512", False),
        (True, True, "AVX2", False),  # ATEN_CPU_CAPABILITY keeps PyTorch from what the processor has
        (True, True, "DEFAULT", False),
    ],
)
def test_bf16_where_pytorch_uses_the_instructions(
    monkeypatch: pytest.MonkeyPatch, avx512_bf16: bool, amx: bool, capability: str, expected: bool
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512_bf16)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert computes_bf16(torch.device("cpu")) == expected
    assert Compute.of("cpu", "auto").dtype == (torch.bfloat16 if expected else torch.float32)
    assert Compute.of("cpu", "fp32").dtype == torch.float32


def test_precision_and_name_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = torch.device("cuda")
    for capability, expected in (((7, 5), False), ((8, 0), True), ((9, 0), True)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, it=capability: it)
        assert computes_bf16(gpu) == expected
    assert not computes_bf16(torch.device("meta"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H200")
    assert str(Compute(gpu, torch.bfloat16)) == "NVIDIA H200, bf16"
    assert device_capacity(Compute(gpu, torch.bfloat16)) == Capacity(989e12, "peak")
    assert device_capacity(Compute(gpu, torch.float32)) == Capacity(67e12, "peak")
    assert device_capacity(Compute(torch.device("meta"), torch.float32)) == UNKNOWN
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert str(Compute(torch.device("cpu"), torch.float32)) == "CPU, 3 threads, fp32"


@pytest.mark.parametrize(
    ("seconds", "speed"),
    [
        ({512: 0.01}, 2 * 512**3 / 0.01),  # a product of n × n matrices: n³ multiplications and as many additions
        ({512: 0.0099, 1024: 0.02}, 2 * 1024**3 / 0.02),
        ({512: 0.001, 1024: 0.002, 2048: 0.004, 4096: 0.008}, 2 * 4096**3 / 0.008),
    ],
)
def test_the_speed_of_a_cpu_is_that_of_products_that_take_long_enough(
    seconds: dict[int, float], speed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    delays = iter([0.5, 0.0, 0.25] * 9)  # the fastest of three counts
    monkeypatch.setattr(device_module, "_product_seconds", lambda size, _: seconds[size] + next(delays))
    assert _measured_cpu.__wrapped__(1, torch.float32) == pytest.approx(speed)


def test_the_speed_of_a_cpu_is_measured_with_its_threads_and_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr(device_module, "_measured_cpu", lambda *given: given)
    found: Any = device_capacity(Compute(torch.device("cpu"), torch.bfloat16))
    assert (found.flops_per_second, found.basis) == ((3, torch.bfloat16), "measured")


@pytest.mark.parametrize(
    ("name", "has_gpu", "expected"), [("auto", True, "cuda"), ("auto", False, "cpu"), ("cpu", True, "cpu")]
)
def test_auto_is_the_first_gpu(monkeypatch: pytest.MonkeyPatch, name: str, has_gpu: bool, expected: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    assert choose_device(name) == torch.device(expected)


def test_a_device_that_cannot_be_used_is_named_with_its_option(monkeypatch: pytest.MonkeyPatch) -> None:
    known = "Write auto, cpu, cuda or cuda:N."
    with pytest.raises(ConfigError) as error:
        choose_device("banana", "train.device")
    assert str(error.value) == f"train.device = 'banana': is not the name of a device. {known}"

    def no_device(*_: object, **__: object) -> None:
        raise RuntimeError("no such GPU\nand much more")

    monkeypatch.setattr(torch, "empty", no_device)
    with pytest.raises(ConfigError) as error:
        choose_device("cuda:7")
    assert str(error.value) == f"device = 'cuda:7': cannot be used here: no such GPU. {known}"


def test_numbers_for_a_gpu_go_through_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which a device of another type does not read, and what is there already need not."""
    calls: list[object] = []

    class Numbers:
        def __init__(self, kind: str) -> None:
            self.device = torch.device(kind)

        def pin_memory(self) -> "Numbers":
            calls.append("pinned")
            return self

        def to(self, device: torch.device, *, non_blocking: bool) -> str:
            calls.append((device.type, non_blocking))
            return "there"

    for own, target, pinned in (("cpu", "cuda", True), ("cpu", "meta", False), ("cuda", "cuda", False)):
        calls.clear()
        assert send(Numbers(own), torch.device(target)) == "there"  # type: ignore[arg-type, comparison-overlap]
        assert calls == [*(["pinned"] if pinned else []), (target, True)]
