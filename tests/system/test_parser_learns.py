"""A parser trained for seconds on the trees of a small grammar parses what it has not seen as the grammar does."""

import json
from pathlib import Path

import pytest

from made_trees import write_trees
from transduce.cli.main import main

pytestmark = pytest.mark.computes

RECIPE = """
name = "grammar"

[model]
num_encoder_layers = 2
num_decoder_layers = 2
d_model = 64
d_ff = 128
num_heads = 4
d_k = 16
d_v = 16
dropout = 0.0
norm = "pre"

[text]
vocab_size = 320

[data]
format = "trees"
folder = "."
train = [["train.trees"]]
validation = ["dev.trees"]
test = { grammar = ["test.trees"] }
max_ratio = 0.0

[train]
source_batch_tokens = 800
target_batch_tokens = 800
learning_rate_factor = 0.4
warmup_steps = 100
max_steps = 600
cooldown_steps = 200 # a rate that stays high leaves F1 between 91 and 99, by luck
label_smoothing = 0.0
device = "cpu"
precision = "fp32"
checkpoint_minutes = 0.0
checkpoint_steps = 50
validate_steps = 0
average_last = 3

[decode]
beam_size = 2
length_penalty = 0.3
max_extra_tokens = 60
"""


@pytest.mark.slow
def test_a_small_grammar_is_learned(tmp_path: Path) -> None:
    for name, count, seed in (("train", 1500, 1), ("dev", 40, 2), ("test", 100, 3)):
        write_trees(tmp_path / f"{name}.trees", count, seed)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    assert main(["parse", "train", str(tmp_path / "recipe.toml"), "--output", str(tmp_path / "run"), "--quiet"]) == 0
    metrics = json.loads((tmp_path / "run" / "model" / "metrics.json").read_text(encoding="utf-8"))
    # Seeds 1 to 3, each with other instructions (default, avx2, avx512): F1 98.0 to 99.3, complete match 97 to 99,
    # tagging 98.9 to 99.6, repaired 1 to 3. The seed of the recipe, avx512: 94.0, 91, 96.6, 9. What went wrong, where
    # looked at, was the innermost of nested phrases.
    assert metrics["validation_perplexity"] < 1.05
    assert metrics["test_grammar_f1"] > 80
    assert metrics["test_grammar_complete_match"] > 70
    assert metrics["test_grammar_tagging_accuracy"] > 85
    assert metrics["test_grammar_repaired"] < 30
