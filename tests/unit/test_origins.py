"""Where the rows of a prepared folder come from."""

from pathlib import Path

import numpy as np
import pytest

from small_corpus import made_corpus, sentences, with_data, write
from transduce.config.checked_json import read_checked, write_checked
from transduce.data.origins import FileRows, Origins, origins
from transduce.data.prepare import prepare
from transduce.data.readers import Location


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A prepared folder of three corpora: two files, a TSV of which every pair is left out, and a TSV."""
    corpus = tmp_path / "corpus"
    config = made_corpus(corpus)
    rows = [f"{source}\t{target}\n" for source, target in sentences(40, 7)]
    rows[0] = rows[5] = rows[6] = "\tno source\n"
    (corpus / "mixed.tsv").write_text("".join(rows), encoding="utf-8")
    (corpus / "nothing.tsv").write_text("\tno source\n" * 3, encoding="utf-8")
    pairs = sentences(20, 8)
    pairs[19] = ("no target", " ")
    write(corpus, "two", pairs)
    prepare(
        with_data(config, train=(("two.en", "two.de"), ("nothing.tsv",), ("mixed.tsv",))),
        tmp_path / "data",
        progress=False,
    )
    return tmp_path / "data"


def test_each_row_has_its_line(folder: Path) -> None:
    """The first corpus has rows 0 to 18; the last begins at row 19 with its line 2, and lacks lines 6 and 7."""
    corpus = folder.parent / "corpus"
    expected = {
        0: (f"{corpus}/two.en:1", f"{corpus}/two.de:1"),
        18: (f"{corpus}/two.en:19", f"{corpus}/two.de:19"),
        19: (f"{corpus}/mixed.tsv:2",) * 2,
        22: (f"{corpus}/mixed.tsv:5",) * 2,
        23: (f"{corpus}/mixed.tsv:8",) * 2,
        55: (f"{corpus}/mixed.tsv:40",) * 2,
    }
    rows = np.array([23, 0, 55, 19, 18, 22, 23])  # in any order, and more than once
    assert [*origins(folder, rows)] == [expected[row] for row in rows.tolist()]


def test_pairs_of_treebanks_are_counted_by_trees() -> None:
    first, second = Path("a.mrg"), Path("b.mrg")
    collected = Origins()
    collected.add([Location((first, first), 1, "tree"), Location((first, first), 4, "tree")])
    collected.add([Location((first, first), 5, "tree"), Location((second, second), 1, "tree")])
    collected.add([Location((first, second), 7)])
    assert collected.files == [
        FileRows("a.mrg", "a.mrg", "tree", 0),
        FileRows("b.mrg", "b.mrg", "tree", 3),
        FileRows("a.mrg", "b.mrg", "line", 4),
    ]
    assert [Location((first, second), 3, unit).shown(1) for unit in ("tree", "line")] == ["b.mrg: tree 3", "b.mrg:3"]


def test_folders_that_do_not_say(folder: Path, tmp_path: Path) -> None:
    nothing = [(None, None)] * 2
    rows = np.array([3, 4])
    assert origins(tmp_path / "no folder", rows) == nothing
    manifest = read_checked(folder / "manifest.json")
    del manifest["training_files"], manifest["files"]["lines.bin"]
    write_checked(folder / "manifest.json", manifest)  # as earlier versions wrote it
    assert origins(folder, rows) == nothing
