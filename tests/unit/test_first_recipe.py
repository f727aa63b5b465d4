"""How the size of a corpus decides on its first recipe, and which of its pairs become the validation set."""

import gzip
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
    corpus = Corpus((tmp_path / "a.en", tmp_path / "a.de"), lengths)
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


@pytest.mark.parametrize(
    ("num_pairs", "tokens", "batch", "steps", "dropout"),
    [
        (49_999, 6, 2048, 5_000, 0.25),  # 34 · 299 994 / 2048 = 4 980, with 8 500 pieces
        (50_000, 12, 4096, 5_000, 0.25),  # 34 · 600 000 / 4096 = 4 980
        (99_999, 6, 4096, 5_000, 0.25),
        (40_000, 60, 2048, 30_000, 0.25),  # 34 · 2 400 000 / 2048 = 39 844: no more than 30 000
        (20, 30, 2048, 1_000, 0.25),
    ],
)
def test_limits_of_sizes(tmp_path: Path, num_pairs: int, tokens: int, batch: int, steps: int, dropout: float) -> None:
    lengths = np.full((2, num_pairs), tokens, dtype=np.float32)
    validation = written(tmp_path / "v.en", ["a"]), written(tmp_path / "v.de", ["b"])
    corpus = Corpus((tmp_path / "a.en", tmp_path / "a.de"), lengths)
    config = write_recipe(corpus, ("en", "de"), tmp_path / "recipe.toml", validation)
    train = config.train
    assert (train.source_batch_tokens, train.target_batch_tokens, train.max_steps) == (batch, batch, steps)
    assert config.model.dropout == dropout


@pytest.mark.parametrize("num_pairs", [999_999, 1_000_000])
def test_a_million_pairs_are_enough_for_the_base_model(tmp_path: Path, num_pairs: int) -> None:
    validation = written(tmp_path / "v.en", ["a"]), written(tmp_path / "v.de", ["b"])
    corpus = Corpus((tmp_path / "a.en", tmp_path / "a.de"), np.ones((2, num_pairs), dtype=np.float32))
    config = write_recipe(corpus, ("en", "de"), tmp_path / "recipe.toml", validation)
    large = num_pairs == 1_000_000
    assert (config.model.d_model, config.text.vocab_size) == ((512, 32_000) if large else (128, 10_000))
    assert (config.train.max_steps, config.train.source_batch_tokens) == ((100_000, 25_000) if large else (8_500, 4096))


@pytest.mark.parametrize(("num_pairs", "step"), [(20_000, 20), (20_001, 21), (20_999, 21), (21_001, 22)])
def test_of_many_pairs_at_most_a_thousand_are_held_out(tmp_path: Path, num_pairs: int, step: int) -> None:
    lines = [str(number) for number in range(num_pairs)]
    corpus = measure_corpus([written(tmp_path / "a.en", lines), written(tmp_path / "a.de", lines)])
    write_recipe(corpus, ("en", "de"), tmp_path / "recipe.toml")
    held_out = (tmp_path / "recipe.validation.de").read_text().split()
    assert held_out == lines[::step]
    assert len(held_out) <= 1000
    assert f"# {len(held_out):,} pairs, taken from the corpus" in (tmp_path / "recipe.toml").read_text()


def test_the_files_of_a_recipe_are_named_from_its_folder(tmp_path: Path) -> None:
    """Those below the folder by a relative path, others by an absolute one; sides of one language by their side."""
    for folder in ("here/below", "there"):
        (tmp_path / folder).mkdir(parents=True)
    paths = [written(tmp_path / name, ["x"] * 20) for name in ("here/below/a.en", "there/b.en")]
    write_recipe(measure_corpus(paths), ("en", "en"), tmp_path / "here" / "recipe.toml")
    text = (tmp_path / "here/recipe.toml").read_text()
    assert f'train = [["below/a.en", "{tmp_path}/there/b.en"]]' in text
    assert 'validation = ["recipe.validation.source", "recipe.validation.target"]' in text


def test_the_recipe_names_a_link_and_not_what_it_leads_to(tmp_path: Path) -> None:
    """Its name says how the file is read: as gzip, a table, or a translation memory."""
    (tmp_path / "stored").write_bytes(gzip.compress(b"a dog\tein Hund\n" * 20))
    (tmp_path / "here").mkdir()
    (tmp_path / "here/a.tsv.gz").symlink_to(tmp_path / "stored")
    write_recipe(measure_corpus([tmp_path / "here/a.tsv.gz"]), ("en", "de"), tmp_path / "here/recipe.toml")
    assert 'train = [["a.tsv.gz"]]' in (tmp_path / "here/recipe.toml").read_text()


@pytest.mark.parametrize(
    ("code", "given", "known"),
    [("de-AT", ("", ""), ("en", "de")), ("de-AT", ("en-GB", ""), ("en-GB", "de")), ('d"&#10;x', ("", ""), ("en", ""))],
)
def test_languages_of_a_memory(tmp_path: Path, code: str, given: tuple[str, str], known: tuple[str, str]) -> None:
    """One that is no code would end the string of the recipe."""
    variants = f"<tuv lang='en-GB'><seg>a</seg></tuv><tuv lang='{code}'><seg>b</seg></tuv>"
    memory = written(tmp_path / "a.tmx", [f"<tmx><header srclang='en'/>{f'<tu>{variants}</tu>' * 20}</tmx>"])
    corpus = measure_corpus([memory], given)
    assert (corpus.languages, corpus.num_pairs, corpus.num_skipped) == (known, 20, 0)
    data = write_recipe(corpus, corpus.languages, tmp_path / "recipe.toml").data
    assert (data.source_language, data.target_language, data.train) == (*known, (("a.tmx",),))


def test_a_table_is_measured_too(tmp_path: Path) -> None:
    corpus = measure_corpus([written(tmp_path / "a.tsv", ["a b\tc"] * 20)])
    assert (corpus.num_pairs, corpus.languages) == (20, ("", ""))
    assert corpus.lengths[:, 0].tolist() == pytest.approx([2.6, 1.3])


def test_what_is_no_corpus(tmp_path: Path) -> None:
    path = written(tmp_path / "a.en", ["x"] * 19 + [" "])
    other = written(tmp_path / "a.de", ["x"] * 20)
    with pytest.raises(DataError, match="19 pairs of lines with text; a recipe needs at least 20"):
        measure_corpus([path, other])
    with pytest.raises(DataError, match="are the same file"):
        measure_corpus([path, tmp_path / "." / "a.en"])


def test_a_corpus_is_measured_and_every_twentieth_pair_held_out(tmp_path: Path) -> None:
    source = [f"word {number}" for number in range(45)]
    target = ["\u8a9e" * 20 for _ in range(45)]  # three pieces for five characters
    source[3] = target[7] = " "
    corpus = measure_corpus([written(tmp_path / "a.en", source), written(tmp_path / "a.ja", target)])
    assert corpus.lengths.tolist() == [pytest.approx([2.6] * 43), pytest.approx([12.0] * 43)]
    assert corpus.num_tokens == 516
    write_recipe(corpus, ("en", "ja"), tmp_path / "recipe.toml")
    held_out = tmp_path / "recipe.validation.en"
    assert held_out.read_text() == "word 0\nword 22\nword 42\n"  # 3 and 7 have no text
    (tmp_path / "recipe.toml").unlink()
    with pytest.raises(ConfigError, match=r"recipe\.validation\.en: exists and is not overwritten"):
        write_recipe(corpus, ("en", "ja"), tmp_path / "recipe.toml")
    empty = written(tmp_path / "v.en", [" "]), written(tmp_path / "v.ja", ["x"])
    with pytest.raises(DataError, match=r"v\.en and .*v\.ja: no pair of lines with text"):
        write_recipe(corpus, ("en", "ja"), tmp_path / "recipe.toml", empty)
    assert held_out.read_text().startswith("word 0")
    again = tmp_path / "." / "a.en", tmp_path / "a.ja"
    with pytest.raises(DataError, match=r"a\.en: is given for training and for validation"):
        write_recipe(corpus, ("en", "ja"), tmp_path / "recipe.toml", again)
    assert not (tmp_path / "recipe.toml").exists()
