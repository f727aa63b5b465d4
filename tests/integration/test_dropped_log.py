"""`dropped.jsonl` of a prepared folder: which training pairs are left out, and why."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from made_trees import write_trees
from small_corpus import corpus_file, made_corpus, sentences, with_data, write
from transduce.config import Config, DataConfig, TextConfig
from transduce.data.prepare import check, prepare
from transduce.data.prepared import load_prepared
from transduce.errors import DataError


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return made_corpus(tmp_path / "corpus")


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "dropped.jsonl").read_text(encoding="utf-8").splitlines()]


def damaged(config: Config) -> tuple[Config, list[dict[str, Any]]]:
    """Damages some pairs of both parts, and returns the configuration that drops them all, and the rows of the log.

    The rows that follow from the text come first, then those that follow from its tokens and from other pairs.
    """
    one, two, dev = sentences(400, 1), sentences(300, 2), sentences(50, 3)
    dev[6] = ("the big dog sees the cat of the house", "der Hund sieht")
    longest = max(range(50, 400), key=lambda i: len(one[i][0]))
    one[3], one[4], one[8], one[longest] = ("", "leer"), dev[9], one[2], one[longest][::-1]
    two[5], two[7], two[9] = ("empty", " "), (dev[6][0].replace("cat", "dog"), "etwas"), one[2]
    two[11], two[12] = (" ".join(["long"] * 300), " ".join(["lang"] * 300)), ("dog", " ".join(["eins"] * 40))
    for name, pairs in (("one", one), ("two", two), ("dev", dev)):
        write(Path(config.data.folder), name, pairs)

    def row(name: str, i: int, rule: str, reason: str) -> dict[str, Any]:
        source, target = (one if name == "one" else two)[i]
        file = str(corpus_file(config, f"{name}.en"))
        return {"file": file, "line": i + 1, "rule": rule, "reason": reason, "source": source, "target": target}

    first, held_out = corpus_file(config, "one.en"), corpus_file(config, "dev.en")
    by_text = [
        row("one", 3, "empty", "the source is empty"),
        row("one", 4, "leak", f"repeats {held_out}:10"),
        row("one", longest, "language", "the source is in the target's language"),
        row("two", 5, "empty", "the target is empty"),
        row("two", 7, "near-copy", f"resembles {held_out}:7"),
    ]
    by_others = [
        row("one", 8, "duplicate", f"repeats {first}:3"),
        row("two", 9, "duplicate", f"repeats {first}:3"),
        row("two", 11, "length", "300 to 300 subwords"),
        row("two", 12, "ratio", "1 to 40 subwords"),
    ]
    changed = with_data(config, drop_duplicates=True, drop_near_copies=True, drop_wrong_language=True)
    return replace(changed, text=TextConfig(vocab_size=400)), by_text + by_others


@pytest.mark.parametrize(("chunk_pairs", "num_workers"), [(4096, None), (5, 1), (5, 3)])
def test_each_pair_that_is_left_out_has_its_reason(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_pairs: int, num_workers: int | None
) -> None:
    monkeypatch.setattr("transduce.data.corpus.CHUNK_PAIRS", chunk_pairs)
    config, expected = damaged(config)
    report = prepare(config, tmp_path / "out", progress=False, num_workers=num_workers)
    assert rows(tmp_path / "out") == expected
    assert report.train.num_read - report.train.num_kept == len(expected) == 9
    assert f"9, each with its reason in {tmp_path}/out/dropped.jsonl" in str(report)


def test_what_is_kept_is_not_logged_and_an_old_log_is_replaced(config: Config, tmp_path: Path) -> None:
    config, expected = damaged(config)
    prepare(config, tmp_path / "out", progress=False)
    kept = with_data(config, drop_duplicates=False, drop_near_copies=False, drop_wrong_language=False)
    prepare(kept, tmp_path / "out", progress=False, overwrite=True)
    left = ("empty", "leak", "length", "ratio")
    assert rows(tmp_path / "out") == [row for row in expected if row["rule"] in left]


def test_a_check_writes_nothing(config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, _ = damaged(config)
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    check(config, progress=False)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_log_that_was_changed_is_found(config: Config, tmp_path: Path) -> None:
    prepare(config, tmp_path / "out", progress=False)
    (tmp_path / "out" / "dropped.jsonl").write_text("{}\n")
    with pytest.raises(DataError, match=r"dropped\.jsonl: has changed"):
        load_prepared(tmp_path / "out")


def test_a_tree_is_named_by_its_number(tmp_path: Path) -> None:
    write_trees(tmp_path / "train" / "a.mrg", 40, 1)
    (tmp_path / "train" / "b.mrg").write_text("(TOP (NP (NN dog)))\n(TOP (NP (-NONE- *)))\n", encoding="utf-8")
    data = DataConfig(folder=str(tmp_path), format="trees", train=(("train",),))
    prepare(Config(text=TextConfig(vocab_size=300), data=data), tmp_path / "out", progress=False)
    file = str(tmp_path / "train/b.mrg")
    assert rows(tmp_path / "out") == [
        {"file": file, "tree": 2, "rule": "empty", "reason": "the source is empty", "source": "", "target": ""}
    ]
