"""`transduce init`: two files in, a recipe out that trains as it is; nothing that was there is touched."""

import gzip
import re
from pathlib import Path

import numpy as np
import pytest

from transduce import Translator
from transduce.cli.main import main
from transduce.config import load_recipe
from transduce.data.first_recipe import Corpus, write_recipe
from transduce.text.languages import language_of

CORPUS = Path(__file__).resolve().parents[1] / "fixtures" / "0.1.0" / "corpus"


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name in ("train.en", "train.de"):
        (tmp_path / name).write_bytes((CORPUS / name).read_bytes())
    return ["--train", str(tmp_path / "train.en"), str(tmp_path / "train.de")]


def test_what_it_writes_trains_as_it_is(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe, run = tmp_path / "mine.toml", tmp_path / "run"
    assert main(["init", *files, "--output", str(recipe)]) == 0
    said = capsys.readouterr().err
    assert "887 pairs, en → de" in said
    assert "validation set: mine.validation.en mine.validation.de" in said
    for name in ("train.en", "train.de"):
        assert (tmp_path / name).read_bytes() == (CORPUS / name).read_bytes()
    held_out = (tmp_path / "mine.validation.en").read_text(encoding="utf-8").splitlines()
    corpus = (CORPUS / "train.en").read_text(encoding="utf-8").splitlines()
    assert held_out == corpus[::20]

    assert main(["prepare", str(recipe), "--check-only"]) == 0
    said = capsys.readouterr().out
    assert f"left out           {len(held_out)} pairs that are also in validation or test\n" in said
    assert "problems           none found" in said  # the tool's own split is not a problem

    config = load_recipe(recipe)
    assert (config.data.source_language, config.data.target_language) == ("en", "de")
    changes = ("max_steps=2", "device=cpu", "average_last=1", "validate_bleu_sentences=2")
    settings = [word for change in changes for word in ("--set", f"train.{change}")]
    assert main(["train", str(recipe), "--output", str(run), "--quiet", *settings]) == 0
    report = (run / "data" / "report.json").read_text(encoding="utf-8")
    assert f'"num_kept": {len(corpus) - len(held_out)}' in report  # what is held out is not trained on
    assert len(Translator.load(run / "model").translate(["A dog."])) == 1


def test_given_validation_files_and_languages_are_taken(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "sub" / "mine.toml"
    recipe.parent.mkdir()
    dev = [str(CORPUS / "dev.en"), str(CORPUS / "dev.de")]
    arguments = ["init", *files, "--validation", *dev, "--languages", "en", "pt-BR", "--output", str(recipe)]
    assert main(arguments) == 0
    config = load_recipe(recipe)
    assert config.data.validation == tuple(dev)
    assert config.data.target_language == "pt-BR"
    assert [path.name for path in recipe.parent.iterdir()] == ["mine.toml"]


def test_a_packed_corpus_and_names_that_need_quotes(tmp_path: Path) -> None:
    for name in ("train.en", "train.de"):
        (tmp_path / f'the "{name}.gz').write_bytes(gzip.compress((CORPUS / name).read_bytes()))
    files = ["--train", str(tmp_path / 'the "train.en.gz'), str(tmp_path / 'the "train.de.gz')]
    assert main(["init", *files, "--output", str(tmp_path / 'my "own".toml')]) == 0
    config = load_recipe(tmp_path / 'my "own".toml')
    assert config.data.train == (('the "train.en.gz', 'the "train.de.gz'),)
    assert config.data.validation == ('my "own".validation.en', 'my "own".validation.de')
    assert config.name == 'my "own"'


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"exists": "mine.toml"}, 2, "mine.toml: exists already"),
        ({"exists": "mine.validation.de"}, 2, "mine.validation.de: exists and is not overwritten"),
        ({"output": "mine.json"}, 2, "a recipe's name ends in .toml"),
        ({"languages": ["en", 'd"']}, 2, "is not a language code"),
        ({"lines": 3}, 3, "3 pairs of lines with text; a recipe needs at least 20"),
        ({"target": "none.de"}, 3, "none.de: no such file"),
        ({"target": "short.de"}, 3, "they must be aligned line by line"),
        ({"target": "a.en"}, 3, "are the same file"),
        ({"languages": ["de", "en"]}, 3, "a.de: by their names en → de, but the languages are de → en. Name the files"),
    ],
)
def test_nothing_is_written_where_something_is_wrong(
    change: dict[str, object], code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = int(str(change.get("lines", 30)))
    (tmp_path / "a.en").write_text("A dog runs.\n" * lines, encoding="utf-8")
    (tmp_path / "a.de").write_text("Ein Hund läuft.\n" * lines, encoding="utf-8")
    (tmp_path / "short.de").write_text("Ein Hund läuft.\n", encoding="utf-8")
    if "exists" in change:
        (tmp_path / str(change["exists"])).write_text("mine", encoding="utf-8")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    arguments = ["--train", str(tmp_path / "a.en"), str(tmp_path / str(change.get("target", "a.de")))]
    arguments += ["--output", str(tmp_path / str(change.get("output", "mine.toml")))]
    if "languages" in change:
        arguments += ["--languages", *map(str, change["languages"])]  # type: ignore[call-overload]
    assert main(["init", *arguments]) == code
    assert message in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_corpus_must_be_named(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, source, target = files
    for wrong in ([], ["--source", source, "--target", target]):
        with pytest.raises(SystemExit, match="2"):
            main(["init", *wrong, "--output", str(tmp_path / "mine.toml")])
        assert "the following arguments are required: --train" in capsys.readouterr().err
    assert not (tmp_path / "mine.toml").exists()


@pytest.mark.parametrize("num_pairs", [20, 500, 29_000, 75_000, 400_000, 5_000_000])
def test_every_size_gives_a_recipe_that_loads(num_pairs: int, tmp_path: Path) -> None:
    for name in ("dev.en", "dev.de"):
        (tmp_path / name).write_text("text\n", encoding="utf-8")
    corpus = Corpus((tmp_path / "a", tmp_path / "b"), np.full((2, num_pairs), 20, np.float32))
    dev = (tmp_path / "dev.en", tmp_path / "dev.de")
    config = write_recipe(corpus, ("", ""), tmp_path / "mine.toml", dev)
    assert config.model.d_model == (512 if num_pairs >= 1_000_000 else 128)
    assert 1000 <= config.train.max_steps <= 100_000
    assert 1000 <= config.text.vocab_size <= 32_000
    assert config.data.drop_leaked
    assert all(line == line.rstrip() for line in (tmp_path / "mine.toml").read_text(encoding="utf-8").split("\n"))


def test_a_small_vocabulary_needs_more_steps_for_as_many_epochs(tmp_path: Path) -> None:
    text = tmp_path / "dev.en"
    text.write_text("text\n", encoding="utf-8")
    steps, epochs = {}, {}
    for num_pairs in (6000, 30_000):  # vocabularies of 1000 and 5000; sentences of 100 and of 20 tokens
        corpus = Corpus((tmp_path / "a", tmp_path / "b"), np.full((2, num_pairs), 600_000 / num_pairs, np.float32))
        recipe = tmp_path / f"{num_pairs}.toml"
        steps[num_pairs] = write_recipe(corpus, ("", ""), recipe, (text, text)).train.max_steps
        epochs[num_pairs] = re.findall(r"about (\d+) epochs", recipe.read_text(encoding="utf-8"))
    assert steps == {6000: 15_000, 30_000: 10_000}  # 34 epochs of 897 000 and of 600 000 tokens, in batches of 2048
    # 13 sentences of 151 tokens (with EOS) fill a batch of 2048, and 97 of 21 tokens: 462 and 310 batches an epoch.
    assert epochs == {6000: ["32"], 30_000: ["32"]}


def test_languages_by_names() -> None:
    names = ["a.en", "a.de.gz", "train.lc.norm.tok.fr", "a.txt", "a", "a.EN", "x.en.txt"]
    assert [language_of(Path(name)) for name in names] == ["en", "de", "fr", "", "", "", ""]
