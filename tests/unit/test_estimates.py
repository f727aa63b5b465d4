"""Estimated costs agree with those counted in training; tables are aligned on a terminal."""

import dataclasses

import numpy as np
import pytest
import torch

from transduce.config import ModelConfig, preset
from transduce.config.estimates import SENTENCE_TOKENS, estimate
from transduce.config.weights import count_parameters
from transduce.model import Transformer
from transduce.model.flops import training_flops
from transduce.reporting.tables import aligned, table
from transduce.training.batch import Batch, pad


@pytest.mark.parametrize("name", ["tiny", "paper-big", "t2t-2017-base", "paper-b1"])
def test_operations_of_a_step_are_those_that_training_counts(name: str) -> None:
    config = preset(name)
    train = dataclasses.replace(config.train, source_batch_tokens=64 * SENTENCE_TOKENS, target_batch_tokens=2048)
    side = (torch.zeros(64, SENTENCE_TOKENS), torch.full((64,), SENTENCE_TOKENS))
    batch = Batch(*side, *side)
    assert estimate(dataclasses.replace(config, train=train)).step_flops == training_flops(config.model, batch.sizes)


def test_memory() -> None:
    config = preset("tiny")
    whole = estimate(config)
    assert whole.weights_bytes == 4 * count_parameters(config.model)
    assert whole.training_bytes == 4 * whole.weights_bytes
    assert whole.memory_bytes == whole.training_bytes + whole.activation_bytes
    tuned = estimate(dataclasses.replace(config, train=dataclasses.replace(config.train, int8_tuning_steps=9)))
    assert tuned.training_bytes == 5 * whole.weights_bytes
    train = dataclasses.replace(config.train, micro_batch_tokens=config.train.target_batch_tokens // 4)
    assert estimate(dataclasses.replace(config, train=train)).activation_bytes == whole.activation_bytes / 4


def test_source_and_target_have_budgets_of_their_own() -> None:
    base = preset("tiny")
    shape = ModelConfig(vocab_size=10, num_encoder_layers=1, num_decoder_layers=1, d_model=8, d_ff=16, num_heads=2)
    config = dataclasses.replace(base, model=dataclasses.replace(shape, d_k=4, d_v=4))
    train = dataclasses.replace(
        base.train, source_batch_tokens=100, target_batch_tokens=50, micro_batch_tokens=25
    )  # half of a batch at once
    found = estimate(dataclasses.replace(config, train=train))
    # Of a token: 256 for attention's weights, 256 for the inner layer, 512 for the attention to 32 positions.
    encoder, decoder = 100 * 1024, 50 * 1024 + 50 * (64 + 64 + 512) + 100 * 128
    assert found.step_flops == 6 * (encoder + decoder + 50 * 8 * 10)
    assert found.activation_bytes == 4 * (100 * (32 + 16 + 48) + 50 * (64 + 16 + 72)) / 2


def test_activations_are_about_what_the_model_keeps_for_its_backward_pass() -> None:
    """Which kernel attends, and what it keeps, differs between processors: hence the factor of two."""
    base = preset("tiny")
    small = ModelConfig(vocab_size=300, num_encoder_layers=2, num_decoder_layers=2, d_model=64, d_ff=256, num_heads=4)
    small = dataclasses.replace(small, d_k=16, d_v=16)
    train = dataclasses.replace(base.train, source_batch_tokens=512, target_batch_tokens=512)
    model = Transformer(small).train()
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, torch.Tensor] = {}  # by address, and alive, so that no address is used again

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if (address := tensor.untyped_storage().data_ptr()) not in weights:
            kept[address] = tensor
        return tensor

    ids, lengths = pad([np.full(31, 7)] * 16)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(ids, lengths, ids, lengths)
    counted = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    reckoned = estimate(dataclasses.replace(base, model=small, train=train)).activation_bytes
    assert reckoned / 2 < counted < reckoned * 2


def test_tables_are_aligned_and_mean_the_same() -> None:
    text = "# Sizes\n\n" + table(("name", "n"), [("a|b", "1"), ("Größe", "10,000")]) + "\n\nend\n| no table\n"
    assert aligned(text) == (
        "# Sizes\n\n"
        "| name  |      n |\n| ----- | -----: |\n| a\\|b  |      1 |\n| Größe | 10,000 |\n\nend\n| no table\n"
    )
    assert aligned(aligned(text)) == aligned(text)
