"""What `transduce paper` measures with: counts and fits come out as worked out by hand."""

from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch

from transduce.config import Config, ModelConfig, TrainConfig
from transduce.experiments.paper import learning
from transduce.experiments.paper.layer_types import recurrent_flops
from transduce.experiments.paper.measure import count_flops, crossing, exponents, peak_bytes, shortest_seconds
from transduce.experiments.paper.path_length import without_onednn
from transduce.model.attention import attend
from transduce.training.device import Compute

CPU = torch.device("cpu")
MEBIBYTE = 1 << 20


def test_powers_are_found() -> None:
    samples = [{"n": n, "d": d, "k": 3, "cost": 7.0 * n**2 * d} for n in (2, 8, 32) for d in (5, 10)]
    assert exponents(samples, "cost", ["n", "d", "k"]) == pytest.approx({"n": 2.0, "d": 1.0})
    assert exponents(samples[:1], "cost", ["n", "d"]) == {}
    assert exponents(samples[:2], "cost", ["n", "d"]) == pytest.approx({"d": 1.0})


def test_the_crossing_lies_where_the_lines_meet() -> None:
    lengths = [16, 32, 64, 128]
    quadratic, linear = [n**2 for n in lengths], [50 * n for n in lengths]
    assert crossing(lengths, quadratic, linear) == pytest.approx(50)
    assert crossing(lengths, [n**2 for n in lengths], [64 * n for n in lengths]) == pytest.approx(64)
    assert crossing(lengths, linear, quadratic) is None
    assert crossing(lengths, [2 * n for n in lengths], lengths) == 16
    wavering = [1, 3, 1, 3]  # only the last crossing lasts
    assert crossing(lengths, wavering, [2, 2, 2, 2]) == pytest.approx(2 ** (6 + 0.6309), rel=1e-3)


def test_operations_of_products_and_of_the_fused_kernel() -> None:
    left, right = torch.randn(3, 5), torch.randn(5, 7)
    assert count_flops(lambda: left @ right) == 2 * 3 * 5 * 7
    for length in (20, 300):  # two products and a softmax; the fused kernel
        x = torch.randn(2, 3, length, 8)
        assert count_flops(lambda x=x: attend(x, x, x)) == 2 * 2 * 3 * length * length * (8 + 8)  # type: ignore[misc]
        values = torch.randn(2, 3, length, 4)  # narrower than queries and keys
        counted = count_flops(lambda x=x, values=values: attend(x, x, values))  # type: ignore[misc]
        assert counted == 2 * 2 * 3 * length * length * (8 + 4)


@pytest.mark.parametrize("simple", [False, True])
def test_the_count_of_a_recurrent_layer_is_that_of_its_products(simple: bool) -> None:
    """Without oneDNN, the recurrence falls into products that PyTorch's counter sees."""
    recurrence = (torch.nn.RNN if simple else torch.nn.LSTM)(6, 6, batch_first=True)
    with torch.no_grad(), without_onednn():
        counted = count_flops(lambda: recurrence(torch.randn(1, 9, 6)))
    assert counted == recurrent_flops(9, 6, simple=simple)


def block(mebibytes: int) -> torch.Tensor:
    return torch.empty(mebibytes * MEBIBYTE, dtype=torch.uint8)


def test_peak_counts_what_was_held_at_one_time() -> None:
    def run() -> torch.Tensor:
        first = block(3)
        second = block(2)  # five are held
        del first
        third = block(1)
        del second
        return third

    assert peak_bytes(run, CPU) == pytest.approx(5 * MEBIBYTE, abs=4096)
    assert peak_bytes(lambda: block(4), CPU) == pytest.approx(4 * MEBIBYTE, abs=4096)


def test_peak_sees_temporaries_inside_of_kernels() -> None:
    x = torch.randn(1 << 18)  # 1 MiB
    assert peak_bytes(lambda: x.sort().values, CPU) >= 3 * MEBIBYTE  # values and 64-bit indices


def test_the_shortest_run_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    for threads, clock in ((1, "process_time"), (2, "perf_counter")):
        ticks = iter([0.0, 9.0, 0.0, 3.0, 0.0, 2.0, 0.0, 4.0])
        with monkeypatch.context() as patch:
            patch.setattr("transduce.experiments.paper.measure.torch.get_num_threads", lambda threads=threads: threads)
            patch.setattr(f"transduce.experiments.paper.measure.time.{clock}", lambda ticks=ticks: next(ticks))
            assert shortest_seconds(lambda: None, CPU, budget_seconds=5.0) == 2.0


def test_the_loss_of_a_training_is_the_mean_of_its_last_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = count(1)

    def counted(model: torch.nn.Module, batch: Any, *_: Any) -> tuple[torch.Tensor]:
        return (0 * next(model.parameters()).sum() + next(steps) * batch.num_target_tokens,)

    monkeypatch.setattr(learning, "batch_loss", counted)
    model = ModelConfig(
        vocab_size=9, num_encoder_layers=1, num_decoder_layers=1, d_model=4, d_ff=4, num_heads=1, d_k=4, d_v=4
    )
    config = Config(model=model, train=TrainConfig(max_steps=20))
    batch = learning.copying([np.array([5, 6])], CPU)
    clipped: list[float] = []
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda parameters, norm: clipped.append(norm))
    trained, loss = learning.train(config, lambda generator: batch, Compute.of("cpu"), lambda line: None)
    assert loss == pytest.approx((19 + 20) / 2)
    assert (trained.training, clipped) == (False, [])
    clips = replace(config, train=replace(config.train, max_gradient_norm=0.5, max_steps=3))
    learning.train(clips, lambda generator: batch, Compute.of("cpu"), lambda line: None)
    assert clipped == [0.5] * 3
