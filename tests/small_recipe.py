"""The recipe and the corpus of a training that takes seconds."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

RECIPE = """
name = "small"

[model]
num_encoder_layers = 1
num_decoder_layers = 2
d_model = 16
d_ff = 32
num_heads = 2
d_k = 8
d_v = 8
dropout = 0.1
attention_dropout = 0.1
ffn_dropout = 0.1

[text]
vocab_size = 300

[data]
folder = "."
train = [["train.en", "train.de"]]
validation = ["dev.en", "dev.de"]
max_tokens = 1000

[train]
source_batch_tokens = 300
target_batch_tokens = 300
warmup_steps = 20
max_steps = 12
device = "cpu"
precision = "fp32"
checkpoint_minutes = 0.0
validate_steps = 0
validate_bleu = false
log_steps = 1
"""


# Both sides of this pair are longer than a batch's budget: it is a batch of its own, and one of two ranks gets nothing.
LONG = "a b c d e " * 40


def lines(count: int, seed: int) -> list[str]:
    generator = np.random.default_rng(seed)
    words = ["red", "blue", "dog", "man", "runs", "sits", "on", "a", "the", "hill"]
    return [" ".join(generator.choice(words, int(generator.integers(1, 12)))) + f" {seed}{n}" for n in range(count)]


def write_pairs(folder: Path, name: str, sources: Sequence[str]) -> None:
    """Writes the lines as NAME.en, and in capitals as NAME.de."""
    (folder / f"{name}.en").write_text("\n".join(sources) + "\n")
    (folder / f"{name}.de").write_text("\n".join(line.upper() for line in sources) + "\n")
