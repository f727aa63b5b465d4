"""Parameter counts: those printed in Table 3, and those of real models of odd shapes."""

import math
from dataclasses import replace

import pytest
import torch

from transduce.config import ModelConfig, preset
from transduce.config.weights import count_parameters, require_memory, weight_shapes
from transduce.errors import ConfigError
from transduce.model import Transformer


@pytest.mark.parametrize(
    ("row", "millions"),
    [
        ("base", 65.13),
        ("b1", 58.03),
        ("b2", 60.40),
        ("c1", 35.70),
        ("c2", 50.41),
        ("c3", 79.84),
        ("c4", 27.86),
        ("c5", 167.98),
        ("c6", 52.53),
        ("c7", 90.32),
    ],
)
def test_the_counts_of_table_3(row: str, millions: float) -> None:
    assert round(count_parameters(preset(f"t2t-2017-{row}").model) / 1e6, 2) == millions


def test_big_is_larger_than_printed() -> None:
    assert round(count_parameters(preset("t2t-2017-big").model) / 1e6, 1) == 218.3


def test_the_released_codes_english_french_by_hand() -> None:
    """Three tables (source, target, softmax), feed-forward networks of 8192, biases on the projections."""
    attention, norm = 4 * (1024 * 1024 + 1024), 2 * 1024
    feed_forward = 2 * 1024 * 8192 + 8192 + 1024
    tables, target_space = 3 * 32768 * 1024, 32 * 1024
    layers = 6 * (attention + feed_forward + 2 * norm) + 6 * (2 * attention + feed_forward + 3 * norm)
    model = preset("t2t-2017-big-en-fr").model
    assert count_parameters(model) == tables + target_space + layers == 377_765_888


def test_paper_base_by_hand() -> None:
    """37 000 rows and no biases on the projections, as the text has it; with them it would be 63.1 M."""
    attention, feed_forward, norm = 4 * 512 * 512, 2 * 512 * 2048 + 2048 + 512, 2 * 512
    expected = 37000 * 512 + 6 * (attention + feed_forward + 2 * norm) + 6 * (2 * attention + feed_forward + 3 * norm)
    model = preset("paper-base").model
    assert count_parameters(model) == expected == 63_045_632
    assert round(count_parameters(replace(model, attention_bias=True)) / 1e6, 1) == 63.1


SMALL = {"vocab_size": 50, "num_encoder_layers": 2, "num_decoder_layers": 3, "d_model": 12, "d_ff": 20, "num_heads": 2}


@pytest.mark.parametrize(
    "config",
    [
        ModelConfig(**SMALL, d_k=6, d_v=6),
        ModelConfig(**SMALL, d_k=3, d_v=7),
        ModelConfig(**SMALL, d_k=7, d_v=3, attention_bias=True),
        ModelConfig(**SMALL, d_k=6, d_v=6, norm="pre"),
        ModelConfig(**SMALL, d_k=6, d_v=6, norm="pre", block_size=4),
        ModelConfig(**SMALL, d_k=6, d_v=6, tie_embeddings="target"),
        ModelConfig(**SMALL, d_k=6, d_v=6, tie_embeddings="none", decoder_start="zero"),
        ModelConfig(**SMALL, d_k=6, d_v=6, positions="learned", max_positions=17),
        ModelConfig(**SMALL, d_k=6, d_v=6, target_space_embedding=True, sinusoid_layout="concatenated"),
        ModelConfig(
            **SMALL,
            d_k=1,
            d_v=11,
            attention_bias=True,
            norm="pre",
            tie_embeddings="target",
            positions="learned",
            max_positions=9,
            target_space_embedding=True,
        ),
        preset("tiny").model,
        preset("t2t-2017-a1").model,
        preset("t2t-2017-c4").model,
        preset("paper-big").model,
        preset("paper-e").model,
    ],
)
def test_the_count_is_that_of_the_model(config: ModelConfig) -> None:
    with torch.device("meta"):
        model = Transformer(config)
    shapes = {name: tuple(weight.shape) for name, weight in model.weights().items()}
    assert weight_shapes(config) == shapes
    assert count_parameters(config) == model.num_parameters == sum(map(math.prod, shapes.values()))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"d_ff": 1_000_000}, ["model.d_ff = 1000000"]),
        ({"d_model": 100_000}, ["model.d_model = 100000"]),
        ({"block_size": 64}, ["model.block_size = 64"]),
        ({"num_encoder_layers": 1000}, ["model.num_encoder_layers = 1000"]),
        ({"vocab_size": 10_000_000}, ["model.vocab_size = 10000000"]),
    ],
)
def test_a_model_that_no_memory_holds_is_refused_by_the_keys_that_make_it_large(
    changes: dict[str, int], named: list[str]
) -> None:
    config = ModelConfig(**changes)
    needed = 4 * count_parameters(config)
    require_memory(config, needed)
    with pytest.raises(ConfigError) as refused:
        require_memory(config, needed - 1)
    assert str(refused.value).split(": ")[0] == ", ".join(named)


def test_a_model_is_weighed_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ModelConfig(vocab_size=300)
    monkeypatch.setattr("transduce.config.weights._memory_bytes", lambda: 4 * count_parameters(config) - 1)
    with pytest.raises(ConfigError, match="the weights alone would take"):
        Transformer(config)
