"""How the size of a corpus decides on its first recipe, and which of its pairs become the validation set."""

from pathlib import Path

import numpy as np
import pytest

from transduce.data.first_recipe import Corpus, measure_corpus, write_recipe
from transduce.errors import ConfigError, DataError


def written(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("num_pairs", "tokens", "vocabulary", "batch", "steps", "dropout"),
    [
        (6_000, 100, 1_000, 2048, 15_000, 0.25),  # 5^¼ = 1.495 times the tokens: 34 · 897 210 / 2048 = 14 895
        (60_000, 10, 10_000, 4096, 5_000, 0.25),  # 34 · 600 000 / 4096 = 4 980
        (30_000, 20, 5_000, 2048, 10_000, 0.25),  # 34 · 600 000 / 2048 = 9 961
        (100_000, 12, 10_000, 4096, 10_000, 0.1),  # 34 · 1 200 000 / 4096 = 9 961
    ],
)
def test_sizes(
    tmp_path: Path, num_pairs: int, tokens: int, vocabulary: int, batch: int, steps: int, dropout: float
) -> None:
    lengths = np.full((2, num_pairs), tokens, dtype=np.float32)
    lengths[0] /= 2  # the longer side counts
    corpus = Corpus(tmp_path / "a.en", tmp_path / "a.de", lengths)
    validation = written(tmp_path / "v.en", ["a"]), written(tmp_path / "v.de", ["b"])
    config = write_recipe(corpus, ("en", "de"), tmp_path / "recipe.toml", validation)
    train = config.train
    assert (config.text.vocab_size, config.model.dropout) == (vocabulary, dropout)
    assert (train.source_batch_tokens, train.target_batch_tokens, train.max_steps) == (batch, batch, steps)
    assert (train.warmup_steps, train.validate_steps, train.checkpoint_steps) == (
        steps // 7,
        steps // 10,
        steps // 50,
    )


def test_a_corpus_is_measured_and_every_twentieth_pair_held_out(tmp_path: Path) -> None:
    source = [f"word {number}" for number in range(45)]
    target = ["\u8a9e" * 20 for _ in range(45)]  # no spaces: a piece for four letters
    source[3] = target[7] = " "
    corpus = measure_corpus(written(tmp_path / "a.en", source), written(tmp_path / "a.ja", target))
    assert corpus.lengths.tolist() == [pytest.approx([2.6] * 43), [5.0] * 43]
    assert corpus.num_tokens == 215
    write_recipe(corpus, ("en", "ja"), tmp_path / "recipe.toml")
    held_out = tmp_path / "recipe.validation.en"
    assert held_out.read_text() == "word 0\nword 22\nword 42\n"  # 3 and 7 have no text
    (tmp_path / "recipe.toml").unlink()
    with pytest.raises(ConfigError, match=r"recipe\.validation\.en: exists and is not overwritten"):
        write_recipe(corpus, ("en", "ja"), tmp_path / "recipe.toml")
    empty = written(tmp_path / "v.en", [" "]), written(tmp_path / "v.ja", ["x"])
    with pytest.raises(DataError, match="have no pair of lines with text"):
        write_recipe(corpus, ("en", "ja"), tmp_path / "recipe.toml", empty)
    assert held_out.read_text().startswith("word 0")
