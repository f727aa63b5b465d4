"""Which files a recipe names, when its corpus is fetched, and what they must be."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from transduce.config import DataConfig
from transduce.config.corpora import HeldOutSetConfig
from transduce.data import named_corpora
from transduce.data.corpus import Part, locate, named_files
from transduce.errors import DataError

NAMES = ("a.en", "a.de", "b.tsv", "v.tsv", "w.tsv", "t.tsv")


@pytest.fixture
def data(tmp_path: Path) -> DataConfig:
    for name in NAMES:
        (tmp_path / name).write_text("x\ty\n")
    return DataConfig(
        folder=str(tmp_path),
        download="toy",
        train=(("a.en", "a.de"), ("b.tsv",)),
        validation_sets=(HeldOutSetConfig(files=("v.tsv",), name="v"), HeldOutSetConfig(files=("w.tsv",), name="w")),
        test={"news": ("t.tsv",)},
        source_language="en",
        target_language="de",
    )


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was asked of the download, which makes all files."""
    asked: list[Any] = []

    def fetch(name: str, folder: Path, **options: Any) -> None:
        asked.append((name, folder, options))
        for each in NAMES:
            (folder / each).write_text("x\ty\n")

    monkeypatch.setattr(named_corpora, "fetch", fetch)
    return asked


def test_the_files_of_each_part(data: DataConfig, tmp_path: Path, fetched: list[Any]) -> None:
    files = locate(data)
    languages = ("en", "de")
    assert files.train == (
        Part((tmp_path / "a.en", tmp_path / "a.de"), languages=languages),
        Part((tmp_path / "b.tsv",), languages=languages),
    )
    assert {name: part.paths for name, part in files.held_out().items()} == {
        "validation.v": (tmp_path / "v.tsv",),
        "validation.w": (tmp_path / "w.tsv",),
        "test.news": (tmp_path / "t.tsv",),
    }
    assert {part.languages for part in files.held_out().values()} == {languages}
    assert files.all() == named_files(data) == [tmp_path / name for name in NAMES]
    assert fetched == []


@pytest.mark.parametrize("missing", NAMES)
def test_a_corpus_is_fetched_where_one_file_is_missing(
    data: DataConfig, tmp_path: Path, fetched: list[Any], missing: str
) -> None:
    (tmp_path / missing).unlink()
    locate(data, mirror=tmp_path / "mirror", progress=False)
    assert fetched == [("toy", tmp_path, {"mirror": tmp_path / "mirror", "progress": False})]


@pytest.mark.parametrize("name", ["a.de", "w.tsv", "t.tsv"])
def test_each_file_must_be_a_regular_one(data: DataConfig, tmp_path: Path, name: str) -> None:
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match=rf"{name}: not a regular file"):
        locate(data)


def test_a_recipe_without_training_files() -> None:
    with pytest.raises(DataError, match=r"data\.train names no files"):
        locate(DataConfig())


def test_a_file_may_begin_with_a_tilde(data: DataConfig, tmp_path: Path) -> None:
    """Editors name copies so; "~$a.en" is no user's folder."""
    assert named_files(dataclasses.replace(data, train=(("~$a.en", "a.de"),)))[0] == tmp_path / "~$a.en"
