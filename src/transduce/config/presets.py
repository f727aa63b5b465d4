"""The named configurations: the paper's models, the released code's, and a small one.

A preset is a plain function that returns a whole `Config`, or replaces a few values of another preset. There are two
families:

- `paper-*` follows the published text;
- `t2t-2017-*` follows the code that its authors released in June 2017: attention projections with biases, a table of
  40 960 rows, a target-space embedding, sines before cosines, a zero vector to start the decoder, label smoothing over
  the other classes. Its parameter counts are those that Table 3 prints. That code has a big model of its own for
  English-French, `t2t-2017-big-en-fr`.

Both have a preset for each row of Table 3: `paper-a1`, …, `t2t-2017-e`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from transduce.config.schema import Config, DecodeConfig, ModelConfig, TextConfig, TrainConfig
from transduce.errors import ConfigError, suggestion


def paper_base() -> Config:
    """The base model of §3 and §5 (Table 2, Table 3 'base')."""
    return Config(
        name="paper-base",
        model=ModelConfig(
            vocab_size=37000,
            num_encoder_layers=6,
            num_decoder_layers=6,
            d_model=512,
            d_ff=2048,
            num_heads=8,
            d_k=64,
            d_v=64,
            dropout=0.1,
        ),
        text=TextConfig(algorithm="bpe", vocab_size=37000),
        train=TrainConfig(
            max_steps=100_000,
            source_batch_tokens=25_000,
            target_batch_tokens=25_000,
            label_smoothing=0.1,
            warmup_steps=4000,
            checkpoint_minutes=10.0,
            keep_checkpoints=5,
            average_last=5,
        ),
        decode=DecodeConfig(beam_size=4, length_penalty=0.6, max_extra_tokens=50),
    )


def paper_big() -> Config:
    """The big model (Table 3 'big'): 300 000 steps, dropout 0.3, the last 20 checkpoints averaged."""
    return _big(paper_base(), "paper-big")


def t2t_2017_base() -> Config:
    """The base model as the released code built it: 65.13 M parameters."""
    return Config(
        name="t2t-2017-base",
        model=ModelConfig(
            vocab_size=40960,
            num_encoder_layers=6,
            num_decoder_layers=6,
            d_model=512,
            d_ff=2048,
            num_heads=8,
            d_k=64,
            d_v=64,
            dropout=0.1,
            attention_bias=True,
            target_space_embedding=True,
            sinusoid_layout="concatenated",
            decoder_start="zero",
        ),
        text=TextConfig(algorithm="bpe", vocab_size=40960),
        train=TrainConfig(
            max_steps=100_000,
            source_batch_tokens=32768,
            target_batch_tokens=32768,
            label_smoothing=0.1,
            smoothing="others",
            warmup_steps=4000,
            checkpoint_minutes=10.0,
            keep_checkpoints=5,
            average_last=5,
        ),
        decode=DecodeConfig(beam_size=4, length_penalty=0.6, max_extra_tokens=50),
    )


def t2t_2017_big() -> Config:
    """The big model as the released code built it: 218.3 M parameters (213 are printed: see docs/paper-map.md)."""
    return _big(t2t_2017_base(), "t2t-2017-big")


def t2t_2017_big_en_fr() -> Config:
    """The big model for English-French as the released code built it: 377.8 M parameters, three embedding tables."""
    base = t2t_2017_base()
    return replace(
        base,
        name="t2t-2017-big-en-fr",
        model=replace(
            base.model, vocab_size=32768, d_model=1024, d_ff=8192, num_heads=16, dropout=0.1, tie_embeddings="none"
        ),
        text=TextConfig(algorithm="wordpiece", vocab_size=32768),
        train=replace(base.train, max_steps=300_000, keep_checkpoints=20, average_last=20),
    )


def _big(base: Config, name: str) -> Config:
    return replace(
        base,
        name=name,
        model=replace(base.model, d_model=1024, d_ff=4096, num_heads=16, dropout=0.3),
        train=replace(base.train, max_steps=300_000, keep_checkpoints=20, average_last=20),
    )


def tiny() -> Config:
    """A small model for small corpora and laptops: 4 layers, width 128, 4 heads."""
    return Config(
        name="tiny",
        model=ModelConfig(
            vocab_size=10000,
            num_encoder_layers=4,
            num_decoder_layers=4,
            d_model=128,
            d_ff=256,
            num_heads=4,
            d_k=32,
            d_v=32,
            dropout=0.1,
        ),
        text=TextConfig(algorithm="bpe", vocab_size=10000),
        train=TrainConfig(source_batch_tokens=4096, target_batch_tokens=4096, warmup_steps=2000, max_steps=20_000),
        decode=DecodeConfig(beam_size=4, length_penalty=0.6, max_extra_tokens=50),
    )


def student_6_2() -> Config:
    """A student (`transduce student`): a deep encoder, a shallow decoder; docs/guides/students.md has its speed."""
    return Config(
        name="student-6-2",
        model=ModelConfig(
            vocab_size=10000,
            num_encoder_layers=6,
            num_decoder_layers=2,
            d_model=192,
            d_ff=768,
            num_heads=3,  # few wide heads: faster than many narrow ones
            d_k=64,
            d_v=64,
            dropout=0.1,
            norm="pre",  # six layers learn without a long warmup
        ),
        text=TextConfig(algorithm="bpe", vocab_size=10000),
        train=TrainConfig(source_batch_tokens=4096, target_batch_tokens=4096, warmup_steps=2000, max_steps=20_000),
        decode=DecodeConfig(beam_size=1, length_penalty=0.6, max_extra_tokens=50),
    )


def student_6_1() -> Config:
    """A student with a single decoder layer."""
    base = student_6_2()
    return replace(base, name="student-6-1", model=replace(base.model, num_decoder_layers=1))


def student_tiny() -> Config:
    """A student of width 128."""
    base = student_6_2()
    return replace(base, name="student-tiny", model=replace(base.model, d_model=128, d_ff=512, num_heads=2))


def demo() -> Config:
    """The model of `transduce demo`: small, for a small language; trains in two to three minutes on two cores."""
    return Config(
        name="demo",
        model=ModelConfig(
            vocab_size=1000,
            num_encoder_layers=2,
            num_decoder_layers=2,
            d_model=128,
            d_ff=256,
            num_heads=8,
            d_k=16,
            d_v=16,
            dropout=0.0,  # no line is seen more than twice: the model cannot overfit
            norm="pre",  # learns in a fraction of post-norm's steps, and tolerates a high learning rate
        ),
        text=TextConfig(algorithm="bpe", vocab_size=1000),
        train=TrainConfig(
            source_batch_tokens=512,  # many small updates: time is short, text is plentiful
            target_batch_tokens=512,
            label_smoothing=0.05,
            learning_rate_factor=0.8,
            warmup_steps=500,
            max_steps=4200,
            cooldown_steps=2000,
            checkpoint_minutes=0.0,
            checkpoint_steps=1050,
            keep_checkpoints=10,
            average_last=1,  # after a cooldown, the last checkpoint is as good as a mean of several
            validate_steps=1050,
            validate_bleu_sentences=200,
            log_steps=50,
        ),
        decode=DecodeConfig(beam_size=4, length_penalty=0.6, max_extra_tokens=50),
    )


# Table 3, rows (A) to (E): how each differs from its base. Table 3 averages no checkpoints.
TABLE3: dict[str, dict[str, dict[str, Any]]] = {
    "a1": {"model": {"num_heads": 1, "d_k": 512, "d_v": 512}},
    "a2": {"model": {"num_heads": 4, "d_k": 128, "d_v": 128}},
    "a3": {"model": {"num_heads": 16, "d_k": 32, "d_v": 32}},
    "a4": {"model": {"num_heads": 32, "d_k": 16, "d_v": 16}},
    "b1": {"model": {"d_k": 16}},
    "b2": {"model": {"d_k": 32}},
    "c1": {"model": {"num_encoder_layers": 2, "num_decoder_layers": 2}},
    "c2": {"model": {"num_encoder_layers": 4, "num_decoder_layers": 4}},
    "c3": {"model": {"num_encoder_layers": 8, "num_decoder_layers": 8}},
    "c4": {"model": {"d_model": 256, "d_k": 32, "d_v": 32}},
    "c5": {"model": {"d_model": 1024, "d_k": 128, "d_v": 128}},
    "c6": {"model": {"d_ff": 1024}},
    "c7": {"model": {"d_ff": 4096}},
    "d1": {"model": {"dropout": 0.0}},
    "d2": {"model": {"dropout": 0.2}},
    "d3": {"train": {"label_smoothing": 0.0}},
    "d4": {"train": {"label_smoothing": 0.2}},
    "e": {"model": {"positions": "learned"}},
}


def table3(row: str, base: Config) -> Config:
    """Returns a row of Table 3, (A) to (E), based on `base`; it averages no checkpoints."""
    change = TABLE3[row]
    return replace(
        base,
        name=f"{base.name.removesuffix('-base')}-{row}",
        model=replace(base.model, **change.get("model", {})),
        train=replace(base.train, average_last=1, **change.get("train", {})),
    )


_NAMED: dict[str, Callable[[], Config]] = {
    "paper-base": paper_base,
    "paper-big": paper_big,
    "t2t-2017-base": t2t_2017_base,
    "t2t-2017-big": t2t_2017_big,
    "t2t-2017-big-en-fr": t2t_2017_big_en_fr,
    "tiny": tiny,
    "demo": demo,
    "student-6-1": student_6_1,
    "student-6-2": student_6_2,
    "student-tiny": student_tiny,
}


def preset_names() -> list[str]:
    """Returns the name of every preset."""
    return [*_NAMED, *(f"{family}-{row}" for family in ("paper", "t2t-2017") for row in TABLE3)]


def preset(name: str) -> Config:
    """Returns the preset called `name`.

    Raises:
        ConfigError: no preset has that name.
    """
    if name in _NAMED:
        return _NAMED[name]()
    family, _, row = name.rpartition("-")
    if row in TABLE3 and family in ("paper", "t2t-2017"):
        return table3(row, _NAMED[f"{family}-base"]())
    raise ConfigError(
        f"No preset is called '{name}'.{suggestion(name, preset_names())} See 'transduce info --presets'."
    )
