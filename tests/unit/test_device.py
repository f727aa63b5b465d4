"""The precision that `auto` stands for on a CPU."""

import pytest
import torch

from transduce.training.device import Compute, computes_bf16


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
