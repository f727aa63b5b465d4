"""The files of a made corpus, how a recipe names them, and when the folder is whole."""

import json
from pathlib import Path
from typing import Any

import pytest

from transduce import files
from transduce.augmentation.made_corpus import MadeCorpus, complete, prepare_folder, write_corpus
from transduce.data.compression import zstd
from transduce.errors import DataError

RECORDS = [
    {"text": "Ein Hund.", "translation": "A dog.", "score": -0.5},
    {"text": "", "translation": "", "score": 0.0, "left_out": "empty line"},
    {"text": "Zwei\tKatzen.", "translation": "Two\tcats.", "score": -0.5, "left_out": "line cut"},
    {"text": "Drei.", "translation": "Three.", "score": -0.5},
    {"text": " ", "translation": "", "score": 0.0, "left_out": "empty line"},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = "".join(json.dumps(record) + "\n" for record in RECORDS)
    (tmp_path / "translations.jsonl.zst").write_bytes(zstd.compress(rows.encode()))
    return tmp_path


@pytest.mark.parametrize("text_is_target", [True, False])
def test_the_sides_what_was_left_out_and_the_counts(folder: Path, text_is_target: bool) -> None:
    made = write_corpus(folder, {"command": "x"}, text_is_target=text_is_target)
    german, english = ("target.txt", "source.txt") if text_is_target else ("source.txt", "target.txt")
    assert (folder / german).read_text() == "Ein Hund.\nDrei.\n"
    assert (folder / english).read_text() == "A dog.\nThree.\n"
    assert (folder / "left-out.tsv").read_text() == (
        "line\treason\ttext\ttranslation\n2\tempty line\t\t\n3\tline cut\tZwei Katzen.\tTwo cats.\n5\tempty line\t \t\n"
    )
    assert made["counts"] == {"lines": 5, "pairs": 2, "left_out": {"empty line": 2, "line cut": 1}}
    assert made["command"] == "x"


@pytest.mark.parametrize("changed", ["source.txt", "target.txt", "left-out.tsv"])
def test_a_folder_whose_files_changed_is_not_complete(folder: Path, changed: str) -> None:
    made = write_corpus(folder, {}, text_is_target=True)
    assert complete(folder) == made
    before = (folder / changed).read_text()
    (folder / changed).write_text(f"{before}\n")
    assert complete(folder) is None
    (folder / changed).write_text(before)
    files.write_json(folder / "manifest.json", made | {"format": 2})
    assert complete(folder) is None


@pytest.mark.parametrize(
    ("command", "job", "tag", "lines"),
    [
        ("distill", {}, "", []),
        ("back-translate", {"target": "en"}, "bt", ['tag = "bt"', 'source_language = "en"']),
        ("forward-translate", {"target": "fr"}, "ft", ['tag = "ft"', 'target_language = "fr"']),
        ("distill", {"target": "fr", "domain": "law"}, "", ['target_language = "fr"', 'domain = "law"']),
    ],
)
def test_a_recipe_names_the_languages_and_domain_of_the_job(
    tmp_path: Path, command: str, job: dict[str, Any], tag: str, lines: list[str]
) -> None:
    folder = tmp_path / "my, corpus"
    made = MadeCorpus(folder, 1, 1, {}, {"command": command, "job": job})
    names = f'files = ["{folder}/source.txt", "{folder}/target.txt"]'
    assert made.recipe_lines(tag).split("\n") == ["[[data.corpora]]", 'name = "my-corpus"', names, *lines]


def test_a_folder_of_ours_is_continued_or_begun_again_and_another_one_is_left_alone(tmp_path: Path) -> None:
    new = tmp_path / "deep" / "new"
    prepare_folder(new, overwrite=False)
    assert new.is_dir()
    for name in ("translations.jsonl.zst", "translations.jsonl.zst.partial", "manifest.json"):
        folder = tmp_path / f"with {name}"
        folder.mkdir()
        (folder / name).write_text("{}")
        (folder / "other").touch()
        prepare_folder(folder, overwrite=False)
        assert (folder / name).exists()
        (folder / "manifest.json").write_text("{}")
        prepare_folder(folder, overwrite=True)
        assert not (folder / "manifest.json").exists()
        assert (folder / "other").exists()
    for overwrite in (False, True):
        with pytest.raises(DataError, match="is a file; name a folder"):
            prepare_folder(folder / "other", overwrite=overwrite)
        foreign = tmp_path / "foreign"
        foreign.mkdir(exist_ok=True)
        (foreign / "mine").touch()
        with pytest.raises(DataError, match="it is not a folder of this command"):
            prepare_folder(foreign, overwrite=overwrite)
