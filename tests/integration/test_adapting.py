"""A pretrained model is imported, adapted to a translation memory, and its terms travel with what is made from it."""

import random
from pathlib import Path

import pytest

from made_marian import SOURCE_TEXT, TARGET_TEXT, make_marian
from transduce import Translator
from transduce.bundle import Bundle
from transduce.cli.main import main
from transduce.config import load_recipe
from transduce.text import load_tokenizer

pytest.importorskip("transformers")
pytestmark = pytest.mark.computes


def translation_memory(path: Path, num_units: int = 60) -> None:
    """Writes units of words that the vocabularies of `make_marian` have."""
    generator = random.Random(1)
    sources, targets = (sorted({word for line in text for word in line.split()}) for text in (SOURCE_TEXT, TARGET_TEXT))
    units = []
    for _ in range(num_units):
        source, target = (" ".join(generator.choices(words, k=4)) for words in (sources, targets))
        variants = (("en-US", source), ("de-DE", target))
        units.append(
            "<tu>" + "".join(f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in variants) + "</tu>"
        )
    header = '<header srclang="en-US" segtype="sentence" datatype="plaintext" adminlang="en" o-tmf="x"/>'
    path.write_text(f'<tmx version="1.4">{header}<body>{"".join(units)}</body></tmx>', encoding="utf-8")


def test_files_in_the_wrong_order_are_refused_or_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_marian(tmp_path / "downloaded")
    model = str(tmp_path / "model")  # en → de
    assert main(["import", str(tmp_path / "downloaded"), "--output", model, "--no-compare"]) == 0
    for code, text in (("en", "A dog runs"), ("de", "Ein Hund rennt"), ("nl", "Een hond rent")):
        (tmp_path / f"a.{code}").write_text("".join(f"{text} {n}.\n" for n in range(40)), encoding="utf-8")

    def init(first: str, second: str, *more: str) -> tuple[int, str]:
        capsys.readouterr()
        files = [str(tmp_path / f"a.{code}") for code in (first, second)]
        recipe = tmp_path / f"{first}{second}{len(more)}.toml"
        code = main(["init", "--from", model, "--train", *files, *more, "--output", str(recipe)])
        assert recipe.exists() == (code == 0)
        return code, capsys.readouterr().err

    code, said = init("de", "en")
    assert (code, "a.en: by their names de → en, but the languages are en → de. Name the files in" in said) == (3, True)
    code, said = init("de", "en", "--languages", "de", "en")
    assert (code, f"--languages de en: {model} translates en → de. Start from a model of de → en" in said) == (2, True)
    code, said = init("nl", "de")
    assert (code, "a.de: by their names nl → de, but the recipe has the model's languages, en → de." in said) == (
        0,
        True,
    )
    for files, more in (("en", "de"), ()), (("nl", "de"), ("--languages", "nl", "de")):
        code, said = init(*files, *more)
        assert (code, "warning" in said) == (0, False)


def test_two_commands_adapt_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_marian(tmp_path / "downloaded")
    (tmp_path / "downloaded" / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n# OPUS-MT\n")
    (tmp_path / "downloaded" / "LICENSE").write_text("Attribution 4.0 International")
    memory, model, recipe, run = (tmp_path / name for name in ("memory.tmx", "model", "mine.toml", "run"))
    translation_memory(memory)
    assert main(["import", str(tmp_path / "downloaded"), "--output", str(model), "--no-compare"]) == 0
    assert main(["init", "--from", str(model), "--train", str(memory), "--output", str(recipe)]) == 0
    assert "en → de" in capsys.readouterr().err
    settings = ["train.max_steps=30", "init.learning_rate=0.01", "train.precision=fp32"]
    options = [part for setting in settings for part in ("--set", setting)]
    assert main(["train", str(recipe), "--output", str(run), "--quiet", *options]) == 0

    before, after = Bundle.load(model), Bundle.load(run / "model")
    assert after.tokenizer.fingerprint == before.tokenizer.fingerprint
    assert after.config.model == before.config.model
    assert after.metrics["ancestor"]["name"] == before.config.name
    pairs = [("A dog runs", "Ein Hund rennt."), (SOURCE_TEXT[1], TARGET_TEXT[1])]
    adapted, original = (Translator.load(each.path, engine="torch") for each in (after, before))
    losses = [
        sum(score.log_probability for score in each.score([a for a, _ in pairs], [b for _, b in pairs]))
        for each in (original, adapted)
    ]
    assert losses[1] > losses[0] + 5  # the words of the memory are likelier now
    for name in ("LICENSE", "ORIGINAL_README.md"):
        assert (run / "model" / name).read_bytes() == (model / name).read_bytes()
    for folder in (model, run / "model"):
        assert "cc-by-4.0" in (folder / "README.md").read_text(encoding="utf-8")


def test_the_recipe_has_the_languages_of_the_model_and_few_epochs(tmp_path: Path) -> None:
    make_marian(tmp_path / "downloaded")
    translation_memory(tmp_path / "memory.tmx", 400)
    model, recipe = tmp_path / "model", tmp_path / "mine.toml"
    main(["import", str(tmp_path / "downloaded"), "--output", str(model), "--no-compare"])
    main(["init", "--from", str(model), "--train", str(tmp_path / "memory.tmx"), "--output", str(recipe)])
    config = load_recipe(recipe)
    assert (config.data.source_language, config.data.target_language) == ("en", "de")
    assert config.init.model == str(model)
    assert config.text.algorithm == "sentencepiece"
    assert config.model == Bundle.load(model).config.model
    assert 20 <= config.train.max_steps <= 100  # 400 pairs of some 10 tokens, five times
    assert load_tokenizer(model / "tokenizer.json").vocab_size == config.model.vocab_size


def test_new_words_are_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_marian(tmp_path / "downloaded")
    translation_memory(tmp_path / "memory.tmx")
    model, recipe = tmp_path / "model", tmp_path / "mine.toml"
    main(["import", str(tmp_path / "downloaded"), "--output", str(model), "--no-compare"])
    main(["init", "--from", str(model), "--train", str(tmp_path / "memory.tmx"), "--output", str(recipe)])
    capsys.readouterr()
    code = main(["train", str(recipe), "--output", str(tmp_path / "run"), "--set", "init.new_words=5"])
    assert code != 0
    assert "an imported model keeps its vocabulary" in capsys.readouterr().err
