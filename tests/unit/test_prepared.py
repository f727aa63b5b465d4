"""On which settings a prepared folder depends, and what it says of itself."""

import hashlib
import os
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from transduce.config import Config, DataConfig, apply_settings, preset
from transduce.config.checked_json import write_checked
from transduce.config.corpora import CorpusConfig, HeldOutSetConfig
from transduce.data.corpus import CorpusFiles, Part
from transduce.data.prepared import (
    MANIFEST,
    REPORT,
    TOKENIZER,
    TRAIN,
    difference,
    difference_from,
    identity,
    load_prepared,
    prepared_facts,
    with_checksums,
)
from transduce.errors import DataError
from transduce.files import write_json

# Where the corpus is, and how often its pairs are seen: the files are the same.
SAME = (
    "data.folder=x data.download=y data.source_language=en data.target_language=de data.repeat=[2,3] "
    "data.temperature=2 data.allow_misaligned=true train.seed=2 name=other"
)
OTHER = (
    "data.train=[['a.tsv'],['c.tsv']] data.validation=['w.tsv'] data.test.news=['o.tsv'] data.max_tokens=9 "
    "data.max_ratio=3 data.ratio_slack_tokens=4 data.drop_leaked=false data.drop_near_copies=true "
    "data.drop_wrong_language=true data.drop_duplicates=true data.format=trees text.vocab_size=400 "
    "text.min_frequency=3 text.sample_pairs=9 text.algorithm=wordpiece"
)
ARRAYS = {"corpora", "validation_sets", "test_sets", "rare_words", "language_tags"}  # see below


@pytest.fixture
def config() -> Config:
    named = ["data.train=[['a.tsv'],['b.tsv']]", "data.validation=['v.tsv']", "data.test.news=['n.tsv']"]
    return apply_settings(preset("tiny"), named)


def prepared_with(config: Config, fingerprint: str | None = None) -> Any:
    """Returns as much of a prepared folder as a comparison needs."""
    return SimpleNamespace(manifest={"identity": identity(config, CorpusFiles((), {}, {}), fingerprint)})


def test_what_the_files_depend_on(config: Config) -> None:
    prepared = prepared_with(config)
    for setting in SAME.split():
        assert difference_from(apply_settings(config, [setting]), prepared) == "", setting
    for setting in OTHER.split():
        key = setting.partition("=")[0]
        assert difference_from(apply_settings(config, [setting]), prepared).startswith(f"{key} was "), setting
    trees = apply_settings(config, ["data.format=trees"])
    signatures = apply_settings(trees, ["data.rare_words=signatures"])
    assert difference_from(signatures, prepared_with(trees)) == "data.rare_words was 'pieces', now 'signatures'"
    german = apply_settings(config, ["data.target_language=de"])
    tagged = apply_settings(german, ["data.language_tags=target"])
    assert "data.language_tags was 'source', now 'target'" in difference_from(tagged, prepared_with(german))
    named = {setting.split("=")[0].split(".")[1] for setting in f"{SAME} {OTHER}".split() if setting.startswith("data")}
    assert {each.name for each in fields(DataConfig)} == named | ARRAYS  # whoever adds a key decides


@pytest.mark.parametrize(
    ("changes", "languages", "differs"),
    [
        ({"name": "z", "weight": 2.0}, "de", False),
        ({"files": ("z.tsv",)}, "de", True),
        ({"domain": "law"}, "de", True),  # a tag in front of its sources
        ({"tag": "bt"}, "de", True),
        ({"target_language": "nl"}, "de", True),  # of one target language there are no tags, of two there are
        ({"target_language": "nl"}, "fr", True),
        ({"source_language": "nl"}, "fr", True),  # which pairs leak depends on it
        ({"source_language": "nl"}, "de", False),
    ],
)
def test_what_of_a_corpus_the_files_depend_on(changes: dict[str, Any], languages: str, differs: bool) -> None:
    first = CorpusConfig(files=("a.tsv",), name="a", target_language="de")

    def config(**more: Any) -> Config:
        second = {"files": ("b.tsv",), "name": "b", "source_language": "en", "target_language": languages, **more}
        return Config(data=DataConfig(corpora=(first, CorpusConfig(**second))))

    assert bool(difference_from(config(**changes), prepared_with(config()))) == differs


def test_the_short_form_of_corpora_and_sets_is_the_long_one(config: Config) -> None:
    long = apply_settings(
        preset("tiny"),
        [
            "data.corpora=[{files=['a.tsv'],name='one'},{files=['b.tsv'],weight=3}]",
            "data.test_sets=[{name='news',files=['n.tsv']}]",
            "data.validation=['v.tsv']",
        ],
    )
    assert difference_from(long, prepared_with(config)) == ""


def test_a_given_tokenizer_takes_the_place_of_its_settings_but_not_of_new_words(config: Config) -> None:
    other = apply_settings(config, ["text.vocab_size=400"])
    assert difference_from(other, prepared_with(config, "f")) == ""
    grown = apply_settings(config, ["init.model=m", "init.new_words=5", "text.min_frequency=7", "text.sample_pairs=9"])
    files = CorpusFiles((), {}, {})
    assert identity(config, files, "f")["text"] == {"tokenizer": "f"}
    assert identity(grown, files, "f")["text"] == {
        "tokenizer": "f",
        "new_words": 5,
        "min_frequency": 7,
        "sample_pairs": 9,
    }


def test_files_are_compared_one_by_one(config: Config, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_text(path.name)
    files = CorpusFiles((Part((paths[0],)),), {"v": Part((paths[1],))}, {"t": Part((paths[2],))})
    old = identity(config, files, None)
    assert [Path(item["path"]).name for item in old["inputs"]] == ["a", "b", "c"]
    assert difference(old, identity(config, files, None)) == ""
    fewer = identity(config, CorpusFiles(files.train, files.validation, {}), None)
    assert difference(old, fewer) == "the corpus had 3 files, now 2"
    paths[2].write_text("longer")
    assert difference(old, identity(config, files, None)) == f"{paths[2]} had 1 bytes, now 6"


def test_contents_count_where_a_file_is_another_one_of_the_same_size(config: Config, tmp_path: Path) -> None:
    """Its path or its time is another; where both are the same, it is not read."""
    path, moved = tmp_path / "a", tmp_path / "moved"
    path.write_text("x")

    def of(path: Path) -> dict[str, Any]:
        return identity(config, CorpusFiles((Part((path,)),), {}, {}), None)

    old = of(path)
    old["inputs"] = with_checksums(old["inputs"])
    assert old["inputs"][0]["sha256"] == hashlib.sha256(b"x").hexdigest()
    time = path.stat().st_mtime_ns
    for text, differs in (("x", ""), ("y", f"{path} has different contents")):
        path.write_text(text)
        os.utime(path, ns=(time + 1, time + 1))
        assert difference(old, of(path)) == differs
    for text, differs in (("x", ""), ("y", f"{moved} has different contents")):
        moved.write_text(text)
        os.utime(moved, ns=(time, time))
        assert difference(old, of(moved)) == differs
    changed = of(path)["inputs"]
    os.utime(path, ns=(time, time))
    with pytest.raises(DataError, match="a: changed during preparation"):
        with_checksums(changed)


@pytest.mark.parametrize("key", ["validation_sets", "test_sets"])
def test_the_files_depend_on_the_languages_of_held_out_sets(key: str) -> None:
    """Which training pairs leak depends on them, where there are several pairs of languages."""
    corpora = tuple(
        CorpusConfig(files=(code,), name=code, source_language="en", target_language=code) for code in ("de", "fr")
    )

    def config(target: str) -> Config:
        held_out = HeldOutSetConfig(files=("v",), name="v", source_language="en", target_language=target)
        return Config(data=DataConfig(corpora=corpora, **{key: (held_out,)}))

    assert difference_from(config("de"), prepared_with(config("de"))) == ""
    assert "the languages of corpora and sets were" in difference_from(config("fr"), prepared_with(config("de")))


@pytest.mark.parametrize("key", ["train", "validation", "test.news"])
@pytest.mark.parametrize(("file", "differs"), [("m.tsv", False), ("m.tmx", True), ("m.tmx.gz", True)])
def test_the_languages_of_a_translation_memory_choose_its_pairs(key: str, file: str, differs: bool) -> None:
    value = f"[['{file}']]" if key == "train" else f"['{file}']"
    base = apply_settings(preset("tiny"), ["data.train=[['a.tsv']]", "data.source_language=en"])

    def config(target: str) -> Config:
        return apply_settings(base, [f"data.{key}={value}", f"data.target_language={target}"])

    assert difference_from(config("de"), prepared_with(config("de"))) == ""
    found = difference_from(config("fr"), prepared_with(config("de")))
    assert ("the languages of corpora and sets were" in found) == bool(found) == differs


def test_what_a_folder_says_of_itself(tmp_path: Path) -> None:
    def rows(name: str, size: int) -> dict[str, Any]:
        return {"name": name, "num_pairs": size, "source_tokens": 10 * size, "target_tokens": 20 * size}

    files = {name: {"bytes": len(name), "sha256": "0"} for name in (TOKENIZER, TRAIN)}
    for name in files:
        (tmp_path / name).write_text(name)
    manifest: dict[str, Any] = {
        "format_version": 1,
        "tokenizer_fingerprint": "f",
        "vocab_size": 300,
        "num_pairs": {"train": 5, "validation": 2},
        "corpora": [rows("web", 1), rows("news", 4)],
        "validation_sets": [rows("dev", 2)],
        "identity": {"text": {}, "data": {}, "inputs": []},
        "files": files,
    }
    write_checked(tmp_path / MANIFEST, manifest)
    split = {"source_tokens": 50, "target_tokens": 100, "num_read": 9}
    write_json(tmp_path / REPORT, {"train": split, "epoch": {"num_batches": 7}})
    tokens = {"source_tokens": 50, "target_tokens": 100}
    assert prepared_facts(tmp_path) == {
        "vocab_size": 300,
        "parts": {
            "train": {"pairs": 5, **tokens},
            "validation": {"pairs": 2},
            "train: web": {"pairs": 1, "source_tokens": 10, "target_tokens": 20},
            "train: news": {"pairs": 4, "source_tokens": 40, "target_tokens": 80},
        },
        "batches_in_an_epoch": 7,
    }
    write_json(tmp_path / REPORT, {"train": split, "validation": None})  # as without validation sets
    assert prepared_facts(tmp_path)["parts"]["train"] == {"pairs": 5, **tokens}
    prepared = load_prepared(tmp_path, checksums=False)
    assert (prepared.validation, [each.name for each in prepared.corpora]) == (None, ["web", "news"])
    assert [each.name for each in prepared.validation_sets] == ["dev"]
    (tmp_path / REPORT).write_text("{")  # it is for people
    assert prepared_facts(tmp_path)["batches_in_an_epoch"] is None
