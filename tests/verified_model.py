"""A small model folder that is sound, for tests that break it."""

from pathlib import Path
from typing import Any

import torch

from transduce.bundle import Bundle, save_bundle
from transduce.config import Config, DataConfig, DecodeConfig, ModelConfig
from transduce.model import Transformer
from transduce.text import SubwordTokenizer

LINES = [
    "A dog runs.",
    "Two dogs run over the green grass to a man with a ball.",
    "a man with a ball",
    "The green dog and the man run.",
    "grass",
    "A ball, a dog, two men: and the grass is green over there.",
    "A man runs to the dog with the ball over the grass, and the dog runs.",
    "Two men.",
]


def save_model(
    folder: Path, *, data: DataConfig | None = None, decode: DecodeConfig | None = None, **shape: Any
) -> Bundle:
    """Saves a model of random weights, strong enough that its inputs show in what it says."""
    tokenizer = SubwordTokenizer.train(LINES * 3, algorithm="bpe", vocab_size=300)
    wanted: dict[str, Any] = {
        "num_encoder_layers": 2,
        "num_decoder_layers": 2,
        "d_model": 32,
        "d_ff": 48,
        "num_heads": 2,
        "d_k": 16,
        "d_v": 16,
        "tie_embeddings": "none",  # tied, it would repeat itself
    }
    model_config = ModelConfig(vocab_size=tokenizer.vocab_size, **(wanted | shape))
    torch.manual_seed(3)
    model = Transformer(model_config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # biases and norms too: as initialised they would hide much
            if parameter.dim() == 1:
                parameter += torch.randn_like(parameter) * 0.1
            elif name.endswith(("weight", "embedding")):
                parameter *= 1.5
    weights = {name: weight.numpy() for name, weight in model.weights().items()}
    config = Config(
        name="made",
        model=model_config,
        data=data or DataConfig(),
        decode=decode or DecodeConfig(max_extra_tokens=6, batch_size=4),
    )
    return save_bundle(folder, config, weights, tokenizer, {"made": "for a test"})
