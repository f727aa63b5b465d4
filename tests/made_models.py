"""Model folders with random weights, of any shape: what such a model says is noise, how it says it is not."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from transduce.bundle import Bundle, save_bundle
from transduce.config import Config, DataConfig, DecodeConfig, ModelConfig
from transduce.config.aligning_heads import AligningHeads
from transduce.config.special_ids import EOS
from transduce.data.corpus_tags import CorpusTags
from transduce.model import Transformer
from transduce.text import SubwordTokenizer
from transduce.text.new_words import with_new_words

TEXT = ("A dog runs.", "Two dogs run over the green grass.", "a man with a ball")

# Every option of a model that changes what its layers compute, by the changes to `ModelConfig`.
KINDS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"norm": "pre"},
    "learned positions": {"positions": "learned", "max_positions": 20},
    "the released code's sinusoids": {"sinusoid_layout": "concatenated"},
    "output tied to target": {"tie_embeddings": "target"},
    "nothing tied": {"tie_embeddings": "none"},
    "more encoder layers": {"num_encoder_layers": 3, "num_decoder_layers": 1},
    "more decoder layers": {"num_encoder_layers": 1, "num_decoder_layers": 3},
    "start from zero": {"decoder_start": "zero"},
    "target space": {"target_space_embedding": True},
    "target space, learned positions": {"target_space_embedding": True, "positions": "learned", "max_positions": 20},
    "sources without an end": {"source_end": "none"},
    "heads for later tokens": {"block_size": 3},
    "attention biases": {"attention_bias": True},
    "narrow keys": {"d_k": 4},
    "narrow values, biases": {"d_k": 24, "d_v": 6, "attention_bias": True},
    "wide heads": {"num_heads": 4, "d_k": 16, "d_v": 16},
    "one narrow head": {"num_heads": 1, "d_k": 8, "d_v": 8},
    "another epsilon": {"layer_norm_epsilon": 0.1},
    "gelu": {"activation": "gelu"},
    "gelu by tanh": {"activation": "gelu_tanh"},
    "gelu by a sigmoid": {"activation": "gelu_sigmoid"},
    "as OPUS-MT": {"activation": "swish", "output_bias": True, "attention_bias": True, "max_length": 40},
    "as M2M100": {
        "norm": "pre",
        "sinusoid_layout": "concatenated",
        "first_position": 2,
        "attention_bias": True,
        "output_bias": True,
    },
    "the released code": {
        "sinusoid_layout": "concatenated",
        "target_space_embedding": True,
        "decoder_start": "zero",
        "norm": "pre",
    },
}


@cache
def made_tokenizer() -> SubwordTokenizer:
    """Returns a tokeniser of a few more pieces than there are bytes."""
    return SubwordTokenizer.train(TEXT * 3, algorithm="bpe", vocab_size=300)


def _shape(tokenizer: SubwordTokenizer, **changes: Any) -> ModelConfig:
    shape = ModelConfig(
        vocab_size=tokenizer.vocab_size,
        num_encoder_layers=2,
        num_decoder_layers=2,
        d_model=32,
        d_ff=64,
        num_heads=2,
        d_k=16,
        d_v=16,
    )
    return replace(shape, **changes)


def made_bundle(
    folder: Path,
    *,
    seed: int = 3,
    ending: float = 0.0,
    words: Sequence[str] = (),
    heads: AligningHeads | None = None,
    **changes: Any,
) -> Bundle:
    """Writes a small model folder, whose shape is `changes` over two layers of two heads each way.

    `words` are pieces of its vocabulary besides those of `made_tokenizer`.

    Norms and biases are random too, so that nothing is left out unnoticed. `ending` moves the row of EOS towards that
    of other tokens: without it such a model never ends, and with it only if embeddings are not tied, or by chance.
    """
    tokenizer = with_new_words(made_tokenizer(), words)
    shape = _shape(tokenizer, **changes)
    torch.manual_seed(seed)
    model = Transformer(shape)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += 0.1 * torch.randn_like(parameter)
        model.output_embedding *= 2  # fewer near ties
        model.output_embedding[EOS] += ending * model.output_embedding[40:50].mean(0)
    weights = {name: weight.numpy() for name, weight in model.weights().items()}
    config = Config(model=shape, decode=DecodeConfig(max_extra_tokens=5))
    return save_bundle(folder, config, weights, tokenizer, {}, heads)


def made_tagged_bundle(folder: Path, data: DataConfig, *, ending: float = 0.4) -> Bundle:
    """Writes a small model folder of the languages and domains of `data`; what it writes depends on the tags."""
    tokenizer = made_tokenizer().with_tags(CorpusTags.of(data).all)
    made = made_bundle(folder.with_name(f"{folder.name}-plain"), ending=ending, vocab_size=tokenizer.vocab_size)
    config = Config(
        name="many", model=made.config.model, data=data, decode=DecodeConfig(beam_size=2, max_extra_tokens=5)
    )
    return save_bundle(folder, config, made.weights(), tokenizer, {})


def untied_folder(
    folder: Path, *, seed: int = 3, text: Sequence[str] = TEXT * 3, max_extra_tokens: int = 5, **changes: Any
) -> Path:
    """Writes a small model folder that says something else with each token: tied, it would repeat itself."""
    tokenizer = SubwordTokenizer.train(text, algorithm="bpe", vocab_size=300)
    shape = _shape(tokenizer, **{"tie_embeddings": "none"} | changes)
    torch.manual_seed(seed)
    weights = {name: weight.numpy() for name, weight in Transformer(shape).weights().items()}
    weights["output_embedding"] *= 2  # fewer near ties
    config = Config(model=shape, decode=DecodeConfig(max_extra_tokens=max_extra_tokens, batch_size=4))
    save_bundle(folder, config, weights, tokenizer, {})
    return folder
