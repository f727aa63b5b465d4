"""`prepare`: what it writes, what it uses again, and that a crash leaves nothing that looks complete."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from small_corpus import corpus_file, made_corpus, sentences, with_data, write
from transduce.cli.main import main
from transduce.config import Config, TextConfig
from transduce.config.checked_json import read_checked, write_checked
from transduce.data import prepare as prepare_module
from transduce.data.learned_tokenizer import spread
from transduce.data.prepare import prepare
from transduce.data.prepared import difference_from, load_prepared
from transduce.data.store import ParallelStore
from transduce.errors import DataError
from transduce.text import SubwordTokenizer


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return made_corpus(tmp_path / "corpus")


@pytest.fixture
def small(config: Config) -> Config:
    """Fewer lines, for what does not depend on their number."""
    return with_data(config, train=(("dev.en", "dev.de"),), validation=("test.en", "test.de"), test={})


def test_the_prepared_files(config: Config, tmp_path: Path) -> None:
    output = tmp_path / "out"
    report = prepare(config, output, progress=False)
    assert sorted(path.name for path in output.iterdir()) == [
        ".lock",
        "dropped.jsonl",
        "lines.bin",
        "manifest.json",
        "report.json",
        "tokenizer.json",
        "train.arrow",
        "validation.arrow",
    ]
    prepared = load_prepared(output)
    tokenizer = SubwordTokenizer.load(prepared.tokenizer)
    assert prepared.tokenizer_fingerprint == tokenizer.fingerprint
    assert prepared.vocab_size == tokenizer.vocab_size == 300
    assert prepared.validation is not None
    for path, expected in (
        (prepared.train, sentences(400, 1) + sentences(300, 2)),
        (prepared.validation, sentences(50, 3)),
    ):
        store = ParallelStore.open(path)
        assert store.tokenizer_fingerprint == tokenizer.fingerprint
        texts = [
            (tokenizer.decode(store.source(i).tolist()), tokenizer.decode(store.target(i).tolist()))
            for i in range(len(store))
        ]
        assert texts == expected
    assert report.train.num_kept == report.train.num_read == 700
    assert report.train.source_tokens == int(ParallelStore.open(prepared.train).source_lengths.sum())
    assert report.epoch.num_batches >= 1
    assert not report.reused
    text = str(report)
    assert "700 kept of 700" in text
    assert "none found" in text


@pytest.mark.parametrize("num_workers", [1, 3])
def test_the_number_of_workers_does_not_change_the_result(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_workers: int
) -> None:
    monkeypatch.setattr("transduce.data.corpus.CHUNK_PAIRS", 32)
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    prepare(config, tmp_path / "a", progress=False)
    prepare(config, tmp_path / "b", progress=False, num_workers=num_workers)
    for name in ("tokenizer.json", "train.arrow", "validation.arrow", "dropped.jsonl"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert "TOKENIZERS_PARALLELISM" not in os.environ


def test_pairs_are_dropped_from_the_right_part(config: Config, tmp_path: Path) -> None:
    one, two = sentences(400, 1), sentences(300, 2)
    one[3], two[5] = ("", "leer"), ("empty", " ")
    write(Path(config.data.folder), "one", one)
    write(Path(config.data.folder), "two", two)
    assert prepare(config, tmp_path / "out", progress=False).train.num_kept == 698
    tokenizer, store = (
        SubwordTokenizer.load(tmp_path / "out" / "tokenizer.json"),
        ParallelStore.open(tmp_path / "out" / "train.arrow"),
    )
    texts = tokenizer.decode_batch([store.source(i).tolist() for i in range(len(store))])
    assert texts == [
        source for part, left_out in ((one, 3), (two, 5)) for source, _ in part[:left_out] + part[left_out + 1 :]
    ]


def test_no_limits_apply_to_validation(config: Config, tmp_path: Path) -> None:
    pairs = [*sentences(50, 3), ("long " * 300, "lang " * 300), ("one", "eins " * 40)]
    write(Path(config.data.folder), "dev", pairs)
    report = prepare(config, tmp_path / "out", progress=False)
    assert report.validation is not None
    assert report.validation.num_kept == report.validation.num_read == 52


def test_validation_pairs_without_text_on_both_sides_are_dropped(config: Config, tmp_path: Path) -> None:
    write(Path(config.data.folder), "dev", [*sentences(50, 3), ("", "leer"), ("empty", " "), ("", "")])
    report = prepare(config, tmp_path / "out", progress=False)
    assert report.validation is not None
    assert (report.validation.num_read, report.validation.num_kept) == (53, 50)


def test_pairs_beyond_the_limits_are_dropped_counted_and_located(config: Config, tmp_path: Path) -> None:
    pairs = [*sentences(100, 5), ("long " * 300, "lang " * 300), ("one", "eins " * 40)]
    write(Path(config.data.folder), "one", pairs)
    report = prepare(with_data(config, train=(("one.en", "one.de"),)), tmp_path / "out", progress=False)
    assert report.train.num_kept == 100
    assert report.train.over_long.count == report.train.odd_ratio.count == 1
    assert report.train.over_long.examples[0].startswith(f"{corpus_file(config, 'one.en')}:101 (")
    assert report.train.odd_ratio.examples[0].startswith(f"{corpus_file(config, 'one.en')}:102 (")
    assert "1 training pair longer than data.max_tokens (dropped)" in str(report)


def test_lines_in_the_wrong_language_are_reported_and_dropped_if_asked_for(config: Config, tmp_path: Path) -> None:
    pairs = sentences(400, 1)
    longest = max(range(400), key=lambda i: len(pairs[i][0]))
    pairs[longest] = pairs[longest][::-1]
    write(Path(config.data.folder), "one", pairs)
    report = prepare(config, tmp_path / "out", progress=False)
    assert report.train.num_kept == 700
    place = f"{corpus_file(config, 'one.de')}:{longest + 1}"
    assert f"1 training pair with a target in the source's language\n        {place}" in str(report)
    report = prepare(with_data(config, drop_wrong_language=True), tmp_path / "dropped", progress=False)
    assert report.train.num_kept == 699
    assert "1 training pair dropped because one side is in the wrong language" in str(report)
    assert prepare(with_data(config, drop_wrong_language=True), tmp_path / "dropped", progress=False).reused


def test_tokenizer_learns_from_a_spread_sample_of_kept_pairs(config: Config, tmp_path: Path) -> None:
    kept = np.array([True, False, True, True, True, True, False])
    assert spread(kept, 2).tolist() == [True, False, False, True, False, False, False]
    assert spread(kept, 99).tolist() == kept.tolist()
    small = replace(config, text=TextConfig(vocab_size=9999, sample_pairs=10))
    report = prepare(small, tmp_path / "out", progress=False)
    assert report.tokenizer["vocab_size"] < report.tokenizer["vocab_size_asked"]
    assert "were requested; the text yields no more" in str(report)


def test_given_tokenizer_is_used(small: Config, tmp_path: Path) -> None:
    prepare(small, tmp_path / "a", progress=False)
    other = replace(small, text=TextConfig(vocab_size=9999))
    given = tmp_path / "a" / "tokenizer.json"
    prepare(other, tmp_path / "b", progress=False, tokenizer=given)
    assert load_prepared(tmp_path / "b").tokenizer_fingerprint == load_prepared(tmp_path / "a").tokenizer_fingerprint
    assert prepare(small, tmp_path / "b", progress=False, tokenizer=given).reused
    assert difference_from(small, load_prepared(tmp_path / "b")) == ""
    assert difference_from(other, load_prepared(tmp_path / "a")) == "text.vocab_size was 300, now 9999"
    with pytest.raises(
        DataError, match=r"prepared differently: text\.tokenizer was '[0-9a-f]+', now not set; text\.algorithm"
    ):
        prepare(small, tmp_path / "b", progress=False)


def test_without_validation(small: Config, tmp_path: Path) -> None:
    prepare(small, tmp_path / "out", progress=False)
    bare = with_data(small, validation=())
    assert prepare(bare, tmp_path / "out", progress=False, overwrite=True).validation is None
    assert load_prepared(tmp_path / "out").validation is None
    assert not (tmp_path / "out" / "validation.arrow").exists()
    assert prepare(bare, tmp_path / "out", progress=False).validation is None


# Reuse.


def test_a_folder_prepared_in_the_same_way_is_reused(small: Config, tmp_path: Path) -> None:
    output = tmp_path / "out"
    first = prepare(small, output, progress=False)
    times = {path: path.stat().st_mtime_ns for path in output.iterdir()}
    second = prepare(replace(small, name="other"), output, progress=False)
    assert second.reused
    assert "already prepared" in str(second)
    assert {path: path.stat().st_mtime_ns for path in output.iterdir()} == times
    assert asdict(second) | {"reused": False} == asdict(first)


def test_touched_and_moved_files_are_reused_by_checksum(config: Config, tmp_path: Path) -> None:
    prepare(config, tmp_path / "out", progress=False)
    os.utime(corpus_file(config, "one.en"), (1, 1))
    assert prepare(config, tmp_path / "out", progress=False).reused
    moved = Path(config.data.folder).rename(tmp_path / "moved")
    assert prepare(with_data(config, folder=str(moved)), tmp_path / "out", progress=False).reused


def test_a_folder_from_before_a_key_existed_is_reused(small: Config, tmp_path: Path) -> None:
    output = tmp_path / "out"
    prepare(small, output, progress=False)
    manifest = read_checked(output / "manifest.json")
    del manifest["identity"]["data"]["drop_wrong_language"]
    write_checked(output / "manifest.json", manifest)
    assert prepare(small, output, progress=False).reused
    with pytest.raises(DataError, match=r"data\.drop_wrong_language was False, now True"):
        prepare(with_data(small, drop_wrong_language=True), output, progress=False)


def test_other_configuration_or_contents_are_refused(config: Config, tmp_path: Path) -> None:
    output = tmp_path / "out"
    prepare(config, output, progress=False)
    with pytest.raises(DataError, match=r"text\.vocab_size was 300, now 280.*--overwrite"):
        prepare(replace(config, text=TextConfig(vocab_size=280)), output, progress=False)
    for key, value in {
        "max_tokens": 100,
        "max_ratio": 0.0,
        "ratio_slack_tokens": 9,
        "drop_leaked": False,
        "drop_near_copies": True,
        "drop_duplicates": True,
        "drop_wrong_language": True,
    }.items():
        before = getattr(config.data, key)
        with pytest.raises(DataError, match=rf"data\.{key} was {before}, now {value}"):
            prepare(with_data(config, **{key: value}), output, progress=False)
    source = corpus_file(config, "one.en")
    text = source.read_text()
    source.write_text(text.replace("dog", "cow", 1))
    with pytest.raises(DataError, match=r"one\.en has different contents"):
        prepare(config, output, progress=False)
    source.write_text(text + "\n")
    with pytest.raises(DataError, match=r"one\.en had \d+ bytes, now \d+"):
        prepare(config, output, progress=False)
    source.write_text(text)
    assert not prepare(with_data(config, max_tokens=100), output, progress=False, overwrite=True).reused
    assert load_prepared(output).manifest["identity"]["data"]["max_tokens"] == 100


# A crash, and damage.


@pytest.mark.parametrize("stage", ["examine", "learn_tokenizer", "encode_split", "_epoch_report", "_write_manifest"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_crash_leaves_nothing_that_looks_prepared(
    small: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str, overwrite: bool
) -> None:
    output = tmp_path / "out"
    if overwrite:
        prepare(with_data(small, max_tokens=99), output, progress=False)
    real: Callable[..., Any] = getattr(prepare_module, stage)

    def crash(*args: Any, **kwargs: Any) -> Any:
        if stage not in ("_write_manifest",):
            real(*args, **kwargs)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(prepare_module, stage, crash)
        with pytest.raises(KeyboardInterrupt):
            prepare(small, output, progress=False, overwrite=overwrite)
    with pytest.raises(DataError, match="not a prepared folder"):
        load_prepared(output)
    assert not prepare(small, output, progress=False).reused
    load_prepared(output)


def test_two_processes_do_not_prepare_the_same_folder(
    small: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the manifest of one could describe the files of the other."""
    write, second = prepare_module.write_json, [with_data(small, max_tokens=99)]

    def write_json(path: Path, value: Any) -> None:
        while second:
            other = second.pop()
            with pytest.raises(DataError, match="another process is preparing it"):
                prepare(other, path.parent, progress=False, overwrite=True)
        write(path, value)

    monkeypatch.setattr(prepare_module, "write_json", write_json)
    prepare(small, tmp_path / "out", progress=False)
    assert not second
    assert difference_from(small, load_prepared(tmp_path / "out")) == ""


def test_killed_while_encoding(config: Config, tmp_path: Path, warm_python: Path) -> None:
    output = tmp_path / "out"
    script = (
        "import os, sys, pathlib\n"
        "from transduce.cli.main import main\n"
        "from transduce.data.store import StoreWriter\n"
        "StoreWriter._flush = lambda self, *, whole: os._exit(9)\n"
        "main(sys.argv[1:])\n"
    )
    folder = Path(config.data.folder)
    arguments = ["prepare", "--train", f"{folder}/dev.en", f"{folder}/dev.de", "--output", str(output)]
    arguments += ["--set", "text.vocab_size=300"]
    assert subprocess.run([warm_python, "-c", script, *arguments], check=False).returncode == 9
    assert not (output / "train.arrow").exists()
    with pytest.raises(DataError, match="not a prepared folder"):
        load_prepared(output)
    assert main([*arguments, "--quiet"]) == 0
    load_prepared(output)


def test_damaged_files_are_found(config: Config, tmp_path: Path) -> None:
    output = tmp_path / "out"
    prepare(config, output, progress=False)
    store = output / "train.arrow"
    whole = store.read_bytes()
    store.write_bytes(whole[:500] + bytes([whole[500] ^ 1]) + whole[501:])
    with pytest.raises(DataError, match=r"train\.arrow: has changed: its checksum differs"):
        load_prepared(output)
    load_prepared(output, checksums=False)
    store.write_bytes(whole[:-1])
    with pytest.raises(DataError, match="its size differs"):
        load_prepared(output, checksums=False)
    store.unlink()
    with pytest.raises(DataError, match=r"train\.arrow: missing.*--overwrite"):
        prepare(config, output, progress=False)
    (output / "manifest.json").write_text("{")
    with pytest.raises(DataError, match=r"manifest\.json: damaged"):
        load_prepared(output)
    (output / "manifest.json").write_text('{"format_version": 99}')
    with pytest.raises(DataError, match="format_version 99, but this version reads format_version 1"):
        load_prepared(output)
