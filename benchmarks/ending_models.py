"""Model folders for benchmarks from text to text: random weights, and outputs that end of themselves after 30 steps.

A search that is told when to stop does not do what it does in use. So the model itself must end: from the last position
on, its learned position vectors are long and point into a direction of their own, which the row of EOS, and nothing
else, answers to. So the best outputs end after 30 steps, and the beams that are left end one step later, as those of a
trained model soon do. What a step costs does not depend on the weights, and so is that of any model of the shape.

    python benchmarks/ending_models.py FOLDER SHAPE [TEXT]        writes one

The tokeniser is learned from made-up words, or from the lines of TEXT.
"""

import random
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from transduce.config import ModelConfig
    from transduce.text import Tokenizer

STEPS, SOURCE_POSITIONS = 30, 25  # EOS counts in both, as in decode.py
SHAPES = {"paper-base": 37_000, "tiny": 10_000, "toy": 500}  # presets, and the sizes of their vocabularies; toy: tiny's


def make_model(folder: Path, shape: str, lines: Iterable[str] | None = None) -> None:
    """Writes a model folder of the preset `shape`, whose tokeniser is learned from `lines`; None: made-up words."""
    from transduce.config import preset
    from transduce.text import SubwordTokenizer

    words = made_words(2 * SHAPES[shape])
    tokenizer = SubwordTokenizer.train(
        lines or (" ".join(words[i : i + 10]) for i in range(0, len(words), 10)),
        algorithm="bpe",
        vocab_size=SHAPES[shape],
        min_frequency=1,
    )
    write_model(folder, preset("tiny" if shape == "toy" else shape).model, tokenizer)


def write_model(folder: Path, model: "ModelConfig", tokenizer: "Tokenizer") -> None:
    """Writes a model folder of this shape, for this tokeniser."""
    import torch

    from transduce.bundle import save_bundle
    from transduce.config import Config, DataConfig, DecodeConfig
    from transduce.config.special_ids import BOS, EOS, PAD, UNK
    from transduce.model import Transformer

    config = replace(model, vocab_size=tokenizer.vocab_size, positions="learned", max_positions=128)
    torch.manual_seed(0)
    transformer = Transformer(config)
    weights = {name: weight.numpy() for name, weight in transformer.weights().items()}
    generator = np.random.default_rng(0)
    ending, constant = np.linalg.qr(generator.standard_normal((config.d_model, 2)))[0].T.astype(np.float32)
    root = np.sqrt(config.d_model).astype(np.float32)
    for name, weight in weights.items():
        if name.endswith(("output.weight", "outer.weight")):
            weight *= 0.1  # the long vector must survive to the last layer
    last = f"decoder.{config.num_decoder_layers - 1}.feed_forward_residual.norm.bias"
    weights["decoder_norm.bias" if config.norm == "pre" else last] += root * constant
    weights["target_positions.table"][STEPS - 1 :] = 20 * root * ending
    rows = weights["source_embedding"]  # all embeddings are this one
    rows[[PAD, BOS, UNK]] = -30 / root * constant
    rows[EOS] = 90 / root * ending - 30 / root * constant
    languages = DataConfig(source_language="en", target_language="de")
    save_bundle(folder, Config(model=config, data=languages, decode=DecodeConfig()), weights, tokenizer, {})


def made_words(count: int) -> list[str]:
    """Returns different words of two to four syllables."""
    generator = random.Random(0)
    syllables = [first + vowel for first in "bcdfghjklmnprstvwz" for vowel in ("a", "e", "i", "o", "u", "an", "er")]
    words: dict[str, None] = {}
    while len(words) < count:
        words["".join(generator.choices(syllables, k=generator.randrange(2, 5)))] = None
    return list(words)


def made_lines(folder: Path, count: int) -> list[str]:
    """Returns lines that the model's tokeniser makes exactly `SOURCE_POSITIONS` tokens of, EOS counted."""
    from transduce.bundle import Bundle

    tokenizer = Bundle.load(folder).tokenizer
    words, generator = made_words(20_000), random.Random(1)
    lines: list[str] = []
    while len(lines) < count:
        line, length, misfits = "", 0, 0
        while length < SOURCE_POSITIONS - 1 and misfits < 100:  # with few pieces, no word may be as short as the rest
            longer = f"{line} {generator.choice(words)}".strip()
            if (longer_length := len(tokenizer.encode(longer))) <= SOURCE_POSITIONS - 1:
                line, length = longer, longer_length
            else:
                misfits += 1
        if length == SOURCE_POSITIONS - 1:
            lines.append(line)
    return lines


if __name__ == "__main__":
    from transduce.data.readers import read_lines

    text = list(read_lines(Path(sys.argv[3]))) if len(sys.argv) > 3 else None
    make_model(Path(sys.argv[1]), sys.argv[2], text)
