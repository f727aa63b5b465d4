"""The account of a training's cost: the paper's own figures, sums over sittings and devices, and what is not known."""

import json
from dataclasses import asdict

import pytest

from transduce.training.cost import PAPER_DEVICES, Capacity, CostAccount, DeviceTime, gpu_capacity
from transduce.training.device import Compute, device_capacity

_HOUR = 3600.0


@pytest.mark.parametrize(("hours", "printed"), [(12, "3.3e+18"), (3.5 * 24, "2.3e+19")])
def test_the_estimates_of_table_2(hours: float, printed: str) -> None:
    """Base and big: 12 hours and 3.5 days on eight P100."""
    account = CostAccount()
    account.add(1, hours * _HOUR, "Tesla P100-SXM2-16GB, fp32", gpu_capacity("Tesla P100-SXM2-16GB", "fp32"), 8)
    assert f"{account.estimate:.1e}" == printed


def test_sums_over_sittings_and_devices() -> None:
    account = CostAccount()
    cpu, gpu = Capacity(1e11, "measured"), Capacity(2e13, "peak")
    account.add(5_000, 2.0, "CPU", cpu, 1)
    account.add(7_000, 3.0, "CPU", cpu, 1)
    account.add(11_000, 0.5, "GPU", gpu, 4)
    assert (account.flops, account.steps) == (23_000, 3)
    assert account.estimate == pytest.approx(5.0 * 1e11 + 2.0 * 2e13)
    terms = (
        "5 device seconds × 0.1 TFLOP/s (CPU: measured on products of large matrices) + "
        "2 device seconds × 20 TFLOP/s (GPU: peak by its data sheet)"
    )
    assert account.summary() == (
        f"cost: 2.30e+04 FLOPs counted over 3 steps; the paper's estimate 4.05e+13 = {terms}; 0% used"
    )
    few = CostAccount()
    few.add(3 * 10**12, 1.0, "GPU", gpu, 2)
    assert few.summary().endswith(
        "; the paper's estimate 4.00e+13 = 2 device seconds × 20 TFLOP/s (GPU: peak by its data sheet); 8% used"
    )
    again = CostAccount.from_dict(json.loads(json.dumps(asdict(account))))
    assert again == account
    again.add(1, 1.0, "CPU", cpu, 1)
    assert (again.devices["CPU"].seconds, account.devices["CPU"].seconds) == (6.0, 5.0)


def test_one_unknown_device_makes_the_estimate_unknown() -> None:
    account = CostAccount()
    account.add(10**15, 10.0, "CPU", Capacity(1e14, "measured"), 1)
    assert account.metrics()["training_flops_estimate"] == pytest.approx(1e15)
    assert "100% used" in account.summary()
    account.add(10**15, 10.0, "Abacus", Capacity(None, "unknown"), 1)
    assert account.estimate is None
    assert "training_flops_estimate" not in account.metrics()
    assert account.metrics()["training_flops"] == 2 * 10**15
    assert "unknown" in account.summary()
    assert "Abacus" in account.summary()


def test_what_was_not_counted_is_not_claimed() -> None:
    assert CostAccount().metrics() == {}
    assert CostAccount().summary() == "cost: not counted"


@pytest.mark.parametrize(
    ("name", "precision", "expected"),
    [
        ("Tesla K80", "fp32", Capacity(2.8e12, "paper")),
        ("Tesla K40m", "fp32", Capacity(3.7e12, "paper")),
        ("Tesla M40 24GB", "fp32", Capacity(6.0e12, "paper")),
        ("Tesla P100-PCIE-16GB", "fp32", Capacity(9.5e12, "paper")),
        ("Tesla P100-PCIE-16GB", "bf16", Capacity(None, "unknown")),
        ("NVIDIA H100 80GB HBM3", "fp32", Capacity(67e12, "peak")),
        ("NVIDIA B200", "bf16", Capacity(2250e12, "peak")),
        ("Quadro P1000", "fp32", Capacity(None, "unknown")),
        ("NVIDIA A100-SXM4-80GB", "bf16", Capacity(312e12, "peak")),
        ("NVIDIA A100 80GB PCIe", "fp32", Capacity(19.5e12, "peak")),
        ("NVIDIA A10", "bf16", Capacity(125e12, "peak")),
        ("NVIDIA A10G", "bf16", Capacity(None, "unknown")),
        ("NVIDIA L40", "fp32", Capacity(None, "unknown")),
        ("NVIDIA L40S", "fp32", Capacity(91.6e12, "peak")),
        ("NVIDIA L4", "bf16", Capacity(121e12, "peak")),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "fp32", Capacity(None, "unknown")),
        ("NVIDIA H100 80GB HBM3", "bf16", Capacity(989e12, "peak")),
        ("NVIDIA H100 PCIe", "bf16", Capacity(756e12, "peak")),
        ("NVIDIA H200", "bf16", Capacity(989e12, "peak")),
        ("Tesla V100-SXM2-16GB", "fp32", Capacity(15.7e12, "peak")),
        ("Tesla V100-SXM2-16GB", "bf16", Capacity(None, "unknown")),
        ("Tesla V100-PCIE-32GB", "fp32", Capacity(14e12, "peak")),
        ("Tesla T4", "fp32", Capacity(8.1e12, "peak")),
        ("NVIDIA A10", "fp32", Capacity(31.2e12, "peak")),
        ("NVIDIA L4", "fp32", Capacity(30.3e12, "peak")),
        ("NVIDIA L40S", "bf16", Capacity(362e12, "peak")),
        ("NVIDIA GeForce RTX 3090", "fp32", Capacity(35.6e12, "peak")),
        ("NVIDIA GeForce RTX 3090", "bf16", Capacity(71e12, "peak")),
        ("NVIDIA GeForce RTX 4090", "fp32", Capacity(82.6e12, "peak")),
        ("NVIDIA GeForce RTX 4090", "bf16", Capacity(165e12, "peak")),
        ("NVIDIA H100 PCIe", "fp32", Capacity(51e12, "peak")),
        ("NVIDIA H200", "fp32", Capacity(67e12, "peak")),
        ("NVIDIA B200", "fp32", Capacity(75e12, "peak")),
    ],
)
def test_devices_are_known_by_name(name: str, precision: str, expected: Capacity) -> None:
    assert gpu_capacity(name, precision) == expected


def test_the_papers_devices_are_the_papers() -> None:
    assert {name: figure / 1e12 for name, figure in PAPER_DEVICES.items()} == {
        "K80": 2.8,
        "K40": 3.7,
        "M40": 6.0,
        "P100": 9.5,
    }


def test_a_cpu_is_measured_once() -> None:
    first = device_capacity(Compute.of("cpu", "fp32"))
    assert first.basis == "measured"
    assert first.flops_per_second is not None
    assert 1e7 < first.flops_per_second < 1e14
    assert device_capacity(Compute.of("cpu", "fp32")) == first


def test_an_account_of_version_0_1_0_goes_on_under_the_name_of_today() -> None:
    entry = {"seconds": 2.0, "capacity": 1e9, "basis": "measured"}
    account = CostAccount.from_dict({"flops": 5, "steps": 1, "devices": {"CPU, 1 threads, fp32": entry}})
    account.add(5, 1.0, "CPU, 1 thread, fp32", Capacity(1e9, "measured"), 1)
    assert account.devices == {"CPU, 1 thread, fp32": DeviceTime(3.0, 1e9, "measured")}
    assert "counted over 2 steps" in account.summary()
