"""A small training that tests stop, kill and resume."""

import json
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from transduce.cli.main import main as command_line

RECIPE = """
name = "small"

[model]
num_encoder_layers = 1
num_decoder_layers = 1
d_model = 16
d_ff = 32
num_heads = 2
d_k = 8
d_v = 8

[text]
vocab_size = 300

[data]
folder = "."
train = [["train.en", "train.de"]]
validation = ["dev.en", "dev.de"]

[train]
source_batch_tokens = 300
target_batch_tokens = 300
warmup_steps = 20
max_steps = 23
device = "cpu"
precision = "fp32"
checkpoint_minutes = 0.0
checkpoint_steps = 5
keep_checkpoints = 3
average_last = 3
validate_steps = 10
validate_bleu = false
log_steps = 1
"""


TIMES = ("training_seconds", "training_flops_estimate", "training_flops_estimate_of")


def train(recipe: Path, run: Path, *settings: str, arguments: Iterable[str] = ()) -> int:
    words = [word for setting in settings for word in ("--set", setting)]
    return command_line(["train", str(recipe), "--output", str(run), "--quiet", *arguments, *words])


def resume(recipe: Path, run: Path, *settings: str) -> int:
    return train(recipe, run, *settings, arguments=["--resume"])


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it, and nothing is written any more."""


def interrupt(
    recipe: Path, run: Path, interrupted: Callable[..., None], step: int, how: signal.Signals, *settings: str
) -> None:
    interrupted(step, how)
    if how == signal.SIGKILL:
        with pytest.raises(Killed):
            resume(recipe, run, *settings)
    else:
        assert resume(recipe, run, *settings) == 128 + how


def assert_same_model(ours: Path, theirs: Path) -> None:
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name
    first, second = (json.loads((folder / "metrics.json").read_text()) for folder in (ours, theirs))
    assert {k: v for k, v in first.items() if k not in TIMES} == {k: v for k, v in second.items() if k not in TIMES}
