"""What each step of a preparation is given, and what the report and the manifest say afterwards."""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_models import made_bundle, made_tokenizer
from small_corpus import sentences
from transduce.config import Config, DataConfig, InitConfig, TextConfig, TrainConfig
from transduce.config.checked_json import read_checked, write_checked
from transduce.config.corpora import CorpusConfig, HeldOutSetConfig
from transduce.data import learned_tokenizer
from transduce.data import prepare as module
from transduce.data.corpus import CorpusFiles, Part, locate
from transduce.data.given_tokenizer import given_tokenizer
from transduce.data.learned_tokenizer import spread
from transduce.data.prepare import prepare
from transduce.data.prepared import difference_from, load_prepared
from transduce.data.store import ParallelStore
from transduce.errors import ConfigError, DataError, TokenizerError
from transduce.text import SubwordTokenizer
from transduce.text.new_words import added_words
from transduce.treebank import pairs as treebank_pairs
from transduce.treebank import rare_words


def write(path: Path, pairs: Iterable[tuple[str, str]]) -> Part:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return Part((path,))


@pytest.fixture
def learned(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What tokenisers are learned from."""
    asked: list[Any] = []
    monkeypatch.setattr(SubwordTokenizer, "train", lambda lines, **options: asked.append(([*lines], options)))
    return asked


TEXT = TextConfig(algorithm="wordpiece", vocab_size=777, min_frequency=5, sample_pairs=3)
OPTIONS = {"algorithm": "wordpiece", "vocab_size": 777, "min_frequency": 5}


def test_the_tokeniser_is_learned_from_a_sample_of_the_pairs_that_are_kept(tmp_path: Path, learned: list[Any]) -> None:
    first = write(tmp_path / "a.tsv", [(f"S{i}", f"T{i}") for i in range(4)])
    second = write(tmp_path / "b.tsv", [(f"S{i}", f"T{i}") for i in range(4, 9)])
    kept = np.array([False, True, True, False, True, True, True, False, True])
    files = CorpusFiles((first, second), {}, {})
    learned_tokenizer.learn_tokenizer(files, kept, Config(text=TEXT), progress=False)
    # Of 1 2 4 5 6 8, the sample has numbers 0, 2 and 4.
    assert learned == [(["S1", "T1", "S4", "T4", "S6", "T6"], OPTIONS | {"whole": ""})]


def test_a_parsers_tokeniser_has_brackets_as_pieces_or_words(tmp_path: Path, learned: list[Any]) -> None:
    tree = "(S (NN {}) (NN the) (NN the))"
    (tmp_path / "a.mrg").write_text("\n".join(tree.format(word) for word in ("Rex", "oxen")), encoding="utf-8")
    data = DataConfig(folder=str(tmp_path), train=(("a.mrg",),), format="trees")
    brackets = "(S NN NN NN )S"
    for settings in (data, replace(data, rare_words="signatures")):
        learned_tokenizer.learn_tokenizer(
            locate(settings), np.ones(2, bool), Config(text=TEXT, data=settings), progress=False
        )
    pieces, words = learned
    assert pieces == (
        ["Rex the the", brackets, "oxen the the", brackets],
        OPTIONS | {"whole": treebank_pairs.WHOLE},
    )
    # "the" comes four times; no signature is shared by ten words. UNK itself must be a piece.
    assert words == (
        [" ".join(["UNK"] * 1000), "UNK the the", brackets, "UNK the the", brackets],
        OPTIONS | {"whole": rare_words.WHOLE},
    )


@pytest.mark.parametrize(("min_frequency", "expected"), [(1, ["zeta", "gamma"]), (2, ["zeta", "gamma"]), (3, ["zeta"])])
def test_frequent_words_are_those_of_the_pairs_that_are_kept(
    tmp_path: Path, min_frequency: int, expected: list[str]
) -> None:
    pairs = [("zeta zeta", "zeta"), ("gamma", "gamma"), ("omega omega omega", "omega omega")]
    files = CorpusFiles((write(tmp_path / "a.tsv", pairs),), {}, {})
    config = Config(text=TextConfig(min_frequency=min_frequency), init=InitConfig(model="m", new_words=2))
    old = made_tokenizer()
    new = learned_tokenizer.with_frequent_words(old, files, np.array([True, True, False]), config, progress=False)
    assert added_words(old, new) == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, []),
        (1, [1]),
        (2, [1, 5]),
        (3, [1, 4, 6]),
        (5, [1, 2, 4, 5, 6]),
        (6, [1, 2, 4, 5, 6, 8]),
        (99, [1, 2, 4, 5, 6, 8]),
    ],
)
def test_a_sample_is_evenly_spread(count: int, expected: list[int]) -> None:
    kept = np.array([False, True, True, False, True, True, True, False, True])
    assert np.flatnonzero(spread(kept, count)).tolist() == expected
    assert not spread(np.zeros(3, dtype=bool), 2).any()


def test_the_tokeniser_that_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = made_bundle(tmp_path / "model")
    old = SubwordTokenizer.load(bundle.path / "tokenizer.json")
    (tmp_path / "words.txt").write_text(" zeta \n\ngamma\n", encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    plain = Config()
    assert given_tokenizer(plain) is None
    for path in (bundle.path, bundle.path / "tokenizer.json"):
        found = given_tokenizer(plain, path)
        assert found is not None
        assert found.fingerprint == old.fingerprint
    init = InitConfig(model=str(bundle.path), words=("omega",), words_file=str(tmp_path / "words.txt"))
    for settings, words in (
        (init, ["omega", "zeta", "gamma"]),
        (replace(init, words_file=""), ["omega"]),
        (replace(init, words=()), ["zeta", "gamma"]),
        (replace(init, words=(), words_file="~/words.txt"), ["zeta", "gamma"]),
        (InitConfig(model=str(bundle.path)), []),
    ):
        found = given_tokenizer(Config(init=settings))
        assert found is not None
        assert added_words(old, found) == words
    with pytest.raises(ConfigError, match=r"init\.model has its own tokenizer"):
        given_tokenizer(Config(init=init), bundle.path)
    with pytest.raises(TokenizerError, match=r"New words of \[init\]: 'New York': cannot become one piece"):
        given_tokenizer(Config(init=replace(init, words=("New York",))))


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Two corpora, the second three times as often, and two validation sets; an empty line in each but the last."""
    for name, count in (("a", 30), ("b", 20), ("v", 10), ("w", 5), ("t", 4)):
        pairs = sentences(count, ord(name))
        write(tmp_path / f"{name}.tsv", pairs if name in "wt" else [("", "leer"), *pairs])
    return Config(
        text=TextConfig(vocab_size=290),
        train=TrainConfig(max_steps=50, source_batch_tokens=300, target_batch_tokens=250, seed=4),
        data=DataConfig(
            folder=str(tmp_path),
            corpora=(CorpusConfig(files=("a.tsv",), name="a"), CorpusConfig(files=("b.tsv",), name="b", weight=3.0)),
            validation_sets=tuple(HeldOutSetConfig(files=(f"{name}.tsv",), name=name) for name in "vw"),
            test_sets=(HeldOutSetConfig(files=("t.tsv",), name="t"),),
        ),
    )


def test_the_report_and_the_manifest_of_a_preparation(config: Config, tmp_path: Path) -> None:
    output = tmp_path / "out"
    report = prepare(config, output, progress=False)
    manifest = read_checked(output / "manifest.json")
    store, held_out = (ParallelStore.open(output / f"{name}.arrow") for name in ("train", "validation"))
    rows = [range(30), range(30, 50)]
    sizes = [
        {
            "name": name,
            "num_pairs": len(chosen),
            "source_tokens": int(lengths.source_lengths[chosen].sum()),
            "target_tokens": int(lengths.target_lengths[chosen].sum()),
        }
        for name, chosen, lengths in (
            *zip("ab", rows, (store, store), strict=True),
            *zip("vw", (range(10), range(10, 15)), (held_out, held_out), strict=True),
        )
    ]
    assert (len(store), len(held_out)) == (50, 15)
    assert (manifest["corpora"], manifest["validation_sets"]) == (sizes[:2], sizes[2:])
    assert manifest["num_pairs"] == {"train": 50, "validation": 15}
    assert sorted(manifest["files"]) == [
        "dropped.jsonl",
        "lines.bin",
        "report.json",
        "tokenizer.json",
        "train.arrow",
        "validation.arrow",
    ]
    assert [(Path(each["source"]).name, each["first_row"]) for each in manifest["training_files"]] == [
        ("a.tsv", 0),
        ("b.tsv", 30),
    ]
    assert [Path(each["path"]).name for each in manifest["identity"]["inputs"]] == [f"{name}.tsv" for name in "abvwt"]

    epoch = np.concatenate([rows[0], *[rows[1]] * 3])  # all of it three times
    plan = store.plan_epoch(config.train, 0, rows=epoch)
    assert (report.epoch.source_budget, report.epoch.target_budget) == (300, 250)
    assert report.epoch.num_batches == len(plan)
    assert (report.epoch.source_tokens, report.epoch.target_tokens) == plan.real_tokens
    assert (report.epoch.source_padding_share, report.epoch.target_padding_share, report.epoch.padding_share) == (
        *plan.padding_shares,
        plan.padding_share,
    )
    assert report.held_out_pairs == {"validation.v": 11, "validation.w": 5, "test.t": 4}
    assert report.validation is not None
    assert (report.train.num_read, report.validation.num_read) == (52, 16)
    assert (report.tokenizer["vocab_size"], report.tokenizer["vocab_size_asked"]) == (290, 290)
    assert [*report.seconds] == ["check", "tokenizer", "encode", "plan"]
    assert [share.times_an_epoch for share in report.shares] == [1, 3]
    steps_an_epoch = len(plan)
    assert [share.times_in_all for share in report.shares] == pytest.approx([50 / steps_an_epoch, 150 / steps_an_epoch])


def test_a_folder_is_used_again_with_other_weights_and_not_if_it_is_damaged(config: Config, tmp_path: Path) -> None:
    output = tmp_path / "out"
    first = prepare(config, output, progress=False)
    corpora = (config.data.corpora[0], replace(config.data.corpora[1], weight=2.0))
    again = prepare(replace(config, data=replace(config.data, corpora=corpora)), output, progress=False)
    assert again.reused
    assert [share.times_an_epoch for share in again.shares] == [1, 2]
    assert again.train == first.train
    store = output / "train.arrow"
    content = bytearray(store.read_bytes())
    content[500] ^= 1
    store.write_bytes(content)
    with pytest.raises(DataError, match=r"train\.arrow: has changed: its checksum differs"):
        prepare(config, output, progress=False)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (
            {"max_tokens": 1},
            r"3 are longer than data.max_tokens = 1 subwords, 0 .*, for example .*a.tsv:1 .*\. Raise the",
        ),
        ({"max_ratio": 1.001}, r"3 have a length ratio above data.max_ratio = 1.001, for example .*a.tsv:1 .*\. Check"),
    ],
)
def test_the_limit_that_leaves_no_pairs_is_named(
    config: Config, tmp_path: Path, limits: dict[str, Any], said: str
) -> None:
    write(tmp_path / "a.tsv", [(f"S {n}", f"Many more letters {n}. " * 20) for n in range(3)])
    data = replace(config.data, train=((str(tmp_path / "a.tsv"),),), corpora=(), validation=(), test={}, **limits)
    with pytest.raises(DataError, match=said):
        prepare(replace(config, data=data), tmp_path / "out", progress=False)


def test_what_is_left_of_no_pairs(config: Config, tmp_path: Path) -> None:
    write(tmp_path / "a.tsv", [("", "x"), ("Thanks a lot for all of it.", "Danke."), ("", "")])
    write(tmp_path / "t.tsv", [("Thanks a lot for all of it.", "Danke schön.")])
    data = replace(config.data, corpora=config.data.corpora[:1])
    message = "no training pairs are left of 3: 2 have an empty side, 1 are also in validation or test"
    with pytest.raises(DataError, match=message):
        prepare(replace(config, data=data), tmp_path / "out", progress=False)
    with pytest.raises(DataError, match=message):
        module.check(replace(config, data=data), progress=False)
    write(tmp_path / "a.tsv", [])
    with pytest.raises(DataError, match=r"the training files are empty\. Check data\.train"):
        module.check(replace(config, data=data), progress=False)
    write(tmp_path / "a.tsv", sentences(30, 1))
    write(tmp_path / "w.tsv", [(" ", "x")])
    with pytest.raises(DataError, match=r"w\.tsv: no validation pairs with text on both sides"):
        prepare(replace(config, data=data), tmp_path / "out", progress=False)


def test_a_given_tokeniser_with_languages_has_tags_even_of_one(config: Config, tmp_path: Path) -> None:
    """What was asked for is what was given. Of one target language there are tags where the vocabulary has some."""
    tagged = made_tokenizer().with_tags(["<2fr>"])
    tagged.save(tmp_path / "tokenizer.json")
    data = replace(config.data, source_language="en", target_language="de")
    report = prepare(replace(config, data=data), tmp_path / "out", progress=False, tokenizer=tmp_path)
    tokenizer = SubwordTokenizer.load(tmp_path / "out/tokenizer.json")
    assert [*tokenizer.tags] == ["<2fr>", "<2de>"]
    assert report.tokenizer["vocab_size"] == report.tokenizer["vocab_size_asked"] == tagged.vocab_size + 1
    for name in ("train", "validation"):
        store = ParallelStore.open(tmp_path / f"out/{name}.arrow")
        assert {int(store.source(row)[0]) for row in range(len(store))} == {tokenizer.tags["<2de>"]}
    french = replace(config, data=replace(data, target_language="fr"))
    # Two corpora and two validation sets.
    differs = f"the target languages of corpora and sets were {['de'] * 4}, now {['fr'] * 4}"
    assert difference_from(french, load_prepared(tmp_path / "out")) == differs
    with pytest.raises(DataError, match=re.escape(differs)):
        prepare(french, tmp_path / "out", progress=False, tokenizer=tmp_path)
    other = replace(config, data=replace(data, source_language="fr"))
    assert prepare(other, tmp_path / "out", progress=False, tokenizer=tmp_path).reused


def test_a_folder_of_an_earlier_version_does_not_say_which_tags_a_single_language_has(
    config: Config, tmp_path: Path
) -> None:
    made_tokenizer().with_tags(["<2fr>"]).save(tmp_path / "tokenizer.json")
    german = replace(config, data=replace(config.data, target_language="de"))
    prepare(german, tmp_path / "out", progress=False, tokenizer=tmp_path)
    manifest = read_checked(tmp_path / "out/manifest.json")
    del manifest["identity"]["text"]["target_languages"]
    write_checked(tmp_path / "out/manifest.json", manifest)
    assert difference_from(german, load_prepared(tmp_path / "out")) == ""
    assert prepare(german, tmp_path / "out", progress=False, tokenizer=tmp_path).reused
