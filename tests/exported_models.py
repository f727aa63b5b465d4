"""Models with random weights on every axis, as folders: what export and import are tested on."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transduce.bundle import Bundle, save_bundle
from transduce.config import Config, DataConfig, DecodeConfig, ModelConfig, TextConfig
from transduce.config.special_ids import EOS
from transduce.export.system import System
from transduce.text import SubwordTokenizer

LINES = (
    "A dog runs across the wet grass.",
    "Two men talk, and a third one listens.",
    "Where is the <s> station </s>?",
    "Ein Zug fährt um 12:30 Uhr ab!",
    "  spaces  and\ttabs ",
    "😀 日本語",
)
BASE = ModelConfig(
    vocab_size=300, num_encoder_layers=2, num_decoder_layers=2, d_model=24, d_ff=40, num_heads=3, d_k=8, d_v=8
)


def make_tokenizer(algorithm: str = "bpe") -> SubwordTokenizer:
    """Returns a small tokeniser of exactly 300 pieces."""
    lines = [*LINES * 4, "The dogs and the men run and talk and listen where the trains are running."] * 2
    tokenizer = SubwordTokenizer.train(lines, algorithm=algorithm, vocab_size=300)  # type: ignore[arg-type]
    assert tokenizer.vocab_size == 300
    return tokenizer


def make_model(
    folder: Path,
    seed: int = 0,
    algorithm: str = "bpe",
    decode: DecodeConfig | None = None,
    sure: float = 1.0,
    **changes: Any,
) -> Bundle:
    """Writes a model folder whose weights, biases and norms are all random; its logits are multiplied by `sure`."""
    import torch

    from transduce.model import Transformer

    config = replace(BASE, **changes)
    torch.manual_seed(seed)
    model = Transformer(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.2)
            elif name.endswith("norm.weight"):
                parameter.normal_(1, 0.2)
            elif name.endswith(("embedding", "table", "target_space")):
                parameter.mul_(1.5)
        # Outputs that end, now and then: the last norm leans towards EOS.
        last = model.decoder_norm if config.norm == "pre" else model.decoder[-1].feed_forward_residual.norm
        towards = model.output_embedding[EOS]
        last.bias += 3.5 * towards / towards.dot(towards)
        last.weight *= sure
        last.bias *= sure
    weights = {name: weight.numpy() for name, weight in model.weights().items()}
    whole = Config(
        name="random",
        model=config,
        text=TextConfig(algorithm=algorithm, vocab_size=300),  # type: ignore[arg-type]
        data=DataConfig(source_language="en", target_language="de", max_tokens=16),
        decode=decode or DecodeConfig(beam_size=3, length_penalty=0.0, max_extra_tokens=8),
    )
    return save_bundle(folder, whole, weights, make_tokenizer(algorithm), {})


def random_pairs(count: int, longest: int) -> tuple[list[list[int]], list[list[int]]]:
    """Returns the token ids of sources and of targets of all lengths up to `longest`, special tokens left out."""
    random = np.random.default_rng(0)
    lengths = random.integers(1, longest + 1, (count, 2))
    pairs = [[random.integers(4, 300, length).tolist() for length in both] for both in lengths]
    return [source for source, _ in pairs], [target for _, target in pairs]


def assert_same_logits(bundle: Bundle, export: System) -> None:
    """Checks that an export computes what its original does."""
    from transduce.export.native_system import NativeSystem  # here, because it needs PyTorch

    sources, targets = random_pairs(12, 20)
    targets[0] = []  # what a model may write
    ours, theirs = NativeSystem(bundle).force(sources, targets), export.force(sources, targets)
    for a, b in zip(ours, theirs, strict=True):
        assert b.choices == a.choices
        assert b.log_probabilities == pytest.approx(a.log_probabilities, abs=1e-4)
