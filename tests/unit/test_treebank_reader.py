"""Treebanks as files: which are found, how they are read as pairs, and where something is."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from transduce.config import DataConfig
from transduce.data import corpus as corpus_module
from transduce.data.corpus import Part, locate, read_chunks
from transduce.data.doctor import examine
from transduce.data.treebank_reader import TreeReader, beginnings, read_treebank, sentence_reader, treebank_files
from transduce.errors import ConfigError, DataError

_DOG = "(TOP (S (NP-SBJ (DT The) (NN dog)) (VP (VBZ barks) (NP (-NONE- *T*-1))) (. .)))"
_DOG_PAIR = ("The dog barks .", "(S (NP DT NN )NP (VP VBZ )VP . )S")
_TRACE = "(TOP (NP (-NONE- *)))"
_MRG = "\n( (S\n    (NP (NN 10\u00a0mg) )\n    (VP (VBZ helps) )))\n"
_MRG_PAIR = ("10\u00a0mg helps", "(S (NP NN )NP (VP VBZ )VP )S")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A treebank of three files, beside other things."""
    (tmp_path / "02").mkdir()
    (tmp_path / "03").mkdir()
    (tmp_path / "02" / "b.mrg").write_text(_MRG, encoding="utf-8")
    (tmp_path / "02" / "a.mrg").write_text(f"{_DOG}\n{_TRACE}\n", encoding="utf-8")
    (tmp_path / "02" / "README").write_text("not a tree", encoding="utf-8")
    with gzip.open(tmp_path / "03" / "c.trees.gz", "wt", encoding="utf-8") as file:
        file.write(f"{_DOG}\n\n{_DOG}\n")
    return tmp_path


def test_files_of_a_folder_a_pattern_and_a_file(folder: Path) -> None:
    a, b, c = folder / "02/a.mrg", folder / "02/b.mrg", folder / "03/c.trees.gz"
    assert treebank_files(folder) == [a, b, c]
    assert treebank_files(folder / "0[3-9]") == [c]
    assert treebank_files(folder / "0?" / "*.mrg") == [a, b]
    (folder / "02" / "README").unlink()
    assert treebank_files(folder / "**") == [a, b, c]  # also finds the folders of these files
    (folder / "02" / "README").touch()
    assert treebank_files(folder / "02" / "README") == [folder / "02" / "README"]  # named by itself, it is taken


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("02/c.mrg", "02/c.mrg: no such file. Did you mean 'b.mrg'"),
        ("04*", "04.: no file matches this pattern"),
        ("empty", "empty: no tree files in this folder. Their names must end in .mrg"),
    ],
)
def test_no_files(folder: Path, name: str, message: str) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(DataError, match=message):
        treebank_files(folder / name)


def test_trees_as_they_stand_there(folder: Path) -> None:
    assert [str(tree)[:7] for tree in read_treebank([folder / "02", folder / "03"])] == [
        *("(TOP (S", "(TOP (N", "(TOP (S", "(TOP (S", "(TOP (S")
    ]


def test_pairs_and_their_places(folder: Path) -> None:
    reader = TreeReader(treebank_files(folder))
    assert list(reader) == [_DOG_PAIR, ("", ""), _MRG_PAIR, _DOG_PAIR, _DOG_PAIR]
    places = [reader.location(number).shown(side=0).removeprefix(f"{folder}/") for number in range(1, 6)]
    assert places == [
        "02/a.mrg: tree 1",
        "02/a.mrg: tree 2",
        "02/b.mrg: tree 1",
        "03/c.trees.gz: tree 1",
        "03/c.trees.gz: tree 2",
    ]
    assert reader.position_bytes == sum(path.stat().st_size for path in reader.paths)


def test_what_is_no_tree_is_named_by_file_line_and_column(folder: Path) -> None:
    (folder / "02" / "b.mrg").write_text("(S (NN x))\n  (S (NN y)\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"02/b\.mrg, line 2, column 3: this bracket is never closed"):
        list(TreeReader(treebank_files(folder)))


def config(folder: Path, **changes: object) -> DataConfig:
    values = {"format": "trees", "folder": str(folder), "train": (("02",), ("03",))} | changes
    return DataConfig(**values)  # type: ignore[arg-type]


def test_a_corpus_of_treebanks(folder: Path) -> None:
    files = locate(config(folder, validation=("02/a.mrg", "03"), test={"wsj23": ("0[23]",)}))
    assert files.train[0] == Part((folder / "02/a.mrg", folder / "02/b.mrg"), trees=True)
    assert files.validation == {"validation": Part((folder / "02/a.mrg", folder / "03/c.trees.gz"), trees=True)}
    assert len(files.test["wsj23"].paths) == 3
    assert len(files.all()) == 3 + 2 + 3
    chunks = list(read_chunks(files.train, "", progress=False))
    assert [(chunk.part, chunk.start, chunk.line, len(chunk.pairs)) for chunk in chunks] == [(0, 0, 1, 3), (1, 3, 1, 2)]


@pytest.mark.parametrize("chunk_pairs", [2, 4096])
def test_a_sentence_leaks_and_brackets_do_not(folder: Path, monkeypatch: pytest.MonkeyPatch, chunk_pairs: int) -> None:
    monkeypatch.setattr(corpus_module, "CHUNK_PAIRS", chunk_pairs)
    sentence = "(S (NP (DT A) (NN postman)) (VP (VBZ cries) (ADVP (RB out) (RB loud))) (. .))"
    same_brackets = "(S (NP (DT The) (NN dog)) (VP (VBZ barks) (ADVP (RB all) (RB day))) (. .))"
    other_brackets = "(FRAG (DT A) (NN postman) (VBZ cries) (RB out) (RB loud) (. .))"
    (folder / "dev.trees").write_text(sentence, encoding="utf-8")
    (folder / "train.trees").write_text(f"{same_brackets}\n{_TRACE}\n{other_brackets}\n", encoding="utf-8")
    data = config(folder, train=(("train.trees",),), validation=("dev.trees",))
    examination = examine(locate(data), data, progress=False)
    assert examination.kept.tolist() == [True, False, False]
    findings = examination.findings
    assert (findings.leaked_sources.count, findings.leaked_targets.count, findings.leaked_pairs.count) == (1, 0, 0)
    assert findings.leaks_dropped.examples == [f"{folder}/train.trees: tree 3 is {folder}/dev.trees: tree 1"]
    assert findings.empty.examples == [f"{folder}/train.trees: tree 2"]


def test_parts_have_the_weights_of_repeat(folder: Path) -> None:
    data = config(folder, repeat=(3, 1), drop_duplicates=True)
    examination = examine(locate(data), data, progress=False)
    assert examination.part_sizes == [3, 2]
    assert examination.kept.tolist() == [True, False, True, False, False]
    assert [(corpus.name, corpus.weight) for corpus in data.training_corpora] == [("02", 3), ("03", 1)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": ((),)}, "data.train = .*one or more files of trees"),
        ({"repeat": (2,)}, "data.repeat = .*each of the 2 entries"),
        ({"repeat": (1, 0)}, "data.repeat"),
        ({"format": "text", "train": (("a", "b", "c"),)}, "data.train = .*a pair of files, or one TSV"),
    ],
)
def test_a_wrong_configuration_is_refused(folder: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config(folder, **changes)


def test_which_files_of_a_folder_are_trees(tmp_path: Path) -> None:
    names = ["a.mrg", "b.ptb", "c.tree", "d.trees", "e.parse", "f.mrg.gz", "g.parse.zst", ".h/i.mrg"]
    for name in [*names, "README", "x.txt", "y.gz", "z.mrg.bak"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    expected = sorted(tmp_path / name for name in names)
    assert treebank_files(tmp_path) == expected
    assert treebank_files(tmp_path / "**" / "*.mrg") == [tmp_path / ".h/i.mrg", tmp_path / "a.mrg"]


def test_pieces_that_begin_a_word_or_a_leaf() -> None:
    words, leaves = beginnings([b" NN", b"N", b" (NP", b" )NP", b" ", b"(", b""])
    assert words == [True, False, True, True, True, False, False]
    assert leaves == [True, False, False, False, True, False, False]


def test_a_parser_reads_words_with_one_space_between_them() -> None:
    tokenizer: Any = None
    assert sentence_reader(DataConfig(format="trees"), tokenizer)(" A  (dog)\t.") == "A -LRB-dog-RRB- ."
    assert sentence_reader(DataConfig(), tokenizer)(" A  (dog)") == " A  (dog)"
