"""The limits that the guides and messages name: what has just so much is taken, and one more is not."""

import io
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from made_documents import archive
from step_tables import FakeModel, random_table
from transduce.config import DecodeConfig
from transduce.decoding import search
from transduce.decoding.greedy import GreedySearch
from transduce.decoding.search import HostRecord
from transduce.errors import DataError
from transduce.translation.documents import DocumentJob, translate_document
from transduce.translation.documents import archive as archives
from transduce.translation.documents.formats import require_size
from transduce.translation.documents.markdown import read_markdown
from transduce.translation.documents.segments import Entry, SegmentBuilder, SegmentError, Tag, _tags_of
from transduce.translation.documents.xml_tree import Node, XmlDocument, require_well_formed
from transduce.translation.pipeline import Request
from transduce.translation.pipeline.markup import next_to, scan
from transduce.translation.result import Translation
from transduce.translation.streams import PlainLines, cluster
from transduce.translation.streams.journal import read_journal
from transduce.translation.streams.workers import FileRequest
from transduce.translation.translator import Translator
from transduce.translation.windows import Window, cut_windows

MEGABYTE = 1 << 20


def test_tags_of_a_paragraph_of_a_document() -> None:
    points = [Entry(Tag("point", number), ()) for number in range(2001)]
    nested = [Entry(Tag("open", number), ()) for number in range(101)]
    assert len(_tags_of(points[:2000])) == 2000
    assert len(_tags_of(nested[:100])) == 100
    with pytest.raises(SegmentError, match="more than 2,000 tags"):
        _tags_of(points)
    with pytest.raises(SegmentError, match="nested more than 100 deep"):
        _tags_of(nested)
    builder = SegmentBuilder()
    builder.text("a", "a")
    builder.entries *= 399_999
    builder.point("x")
    with pytest.raises(SegmentError, match="more than 400,000 tags and texts"):
        builder.text("a", "a")


def test_elements_of_xml(monkeypatch: pytest.MonkeyPatch) -> None:
    require_well_formed(b"<a>" * 200 + b"</a>" * 200, "a.xml")
    with pytest.raises(DataError, match=r"^a\.xml: elements are nested more than 200 deep"):
        require_well_formed(b"<a>" * 201 + b"</a>" * 201, "a.xml")
    document, inner = XmlDocument(b"<p><a/></p>", "a.xml"), Node("a", 3, 7, 7, 7)

    def blocks(num_elements: int) -> int:
        elements = itertools.repeat((inner, False), num_elements)
        first, last = Node("p", 0, 3), Node("p", 7, 7, 7, 11)
        monkeypatch.setattr(document, "_events", lambda: itertools.chain([(first, False)], elements, [(last, True)]))
        return len(list(document.pieces({"p"}, lambda node: [document.source(node)])))

    assert blocks(199_999) == 3  # and the end of the block
    with pytest.raises(SegmentError, match="more than 200,000 elements"):
        blocks(200_000)


def test_lines_of_markdown() -> None:
    for newline in ("\n", "\r"):
        with pytest.raises(SegmentError, match="more than 500,000 lines"):
            next(read_markdown(newline * 500_001))
    assert next(read_markdown("---\n---\n" + "\n" * 499_998)) == "---\n"


def test_members_of_an_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = archives.Archive(io.BytesIO(archive(dict.fromkeys("abcdef", b"x"))), "a.zip", "ZIP")
    monkeypatch.setattr(opened.zip, "read", lambda member: b"x")
    *whole, larger = opened.members
    for member in whole:
        member.file_size = 64 * MEGABYTE
    larger.file_size = 64 * MEGABYTE + 1
    with pytest.raises(DataError, match=r"^a\.zip, f: unpacked it is larger than 64 MB"):
        opened.read(larger)
    opened._num_bytes = 0
    assert [opened.read(member) for member in whole[:4]] == [b"x"] * 4
    with pytest.raises(DataError, match=r"^a\.zip, e: unpacked it is larger than 256 MB"):
        opened.read(whole[4])
    for count in (20_000, 20_001):
        monkeypatch.setattr(archives.ZipFile, "infolist", lambda self, count=count: whole[:1] * count)
        for member in whole:
            member.compress_size = member.file_size = 0
        if count == 20_000:
            assert len(archives.Archive(io.BytesIO(archive({"a": b"x"})), "a.zip", "ZIP").members) == count
        else:
            with pytest.raises(DataError, match=r"^a\.zip: has more than 20,000 files"):
                archives.Archive(io.BytesIO(archive({"a": b"x"})), "a.zip", "ZIP")


def test_bytes_of_a_document_that_is_one_text() -> None:
    require_size(64 * MEGABYTE, "a.txt")
    with pytest.raises(DataError, match=r"^a\.txt: is larger than 64 MB"):
        require_size(64 * MEGABYTE + 1, "a.txt")


@pytest.mark.parametrize(
    ("page", "sizes"),
    [
        ("".join(f"<p>a{number}</p>" for number in range(257)), [256, 1]),
        ("<p>" + "a" * 65_526 + "</p><p>b</p>", [1, 1]),  # with three tags, 65,536 characters
        ("<p>" + "a" * 65_525 + "</p><p>b</p>", [2]),
    ],
)
def test_texts_of_a_document_that_are_translated_together(page: str, sizes: list[int]) -> None:
    windows: list[int] = []

    def noted(texts: Any) -> list[Translation]:
        if texts:
            windows.append(len(texts))
        return [Translation(text, 0.0, 0.0, (), finished=True, source_truncated=False) for text in texts]

    translate_document(noted, page.encode(), io.BytesIO(), DocumentJob(name="a.html"))
    assert windows == sizes


def test_lines_of_a_stream_that_are_translated_together() -> None:
    def cut(*sizes: int) -> list[int]:
        return [len(window.lines) for window in cut_windows(["a" * size for size in sizes], 100)]

    assert cut((1 << 22) - 1, 1, 1) == [2, 1]
    assert cut(1 << 22, 1) == [1, 1]
    assert cut((1 << 22) - 2, 1) == [2]
    assert Translator.window_lines(DecodeConfig(batch_size=3)) == 96


@pytest.mark.parametrize(("inner", "is_item"), [(3998, True), (3999, False)])
def test_characters_of_a_placeholder_in_braces(inner: int, is_item: bool) -> None:
    text = "{" + "a" * inner + "}"
    assert [each.text for each in scan(f"x {text} y", "placeholders")] == [text] * is_item


def test_characters_of_a_word_that_touches_an_item() -> None:
    line = "a" * 150 + "{x}" + "b" * 150
    [item] = scan(line, "placeholders")
    assert next_to(line, item) == ("a" * 100, "b" * 100)


def test_bytes_of_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "j"
    values = '{"format": 1, "job": {}, "lines": 1, "bytes": 2, "whole": false, "read_sha256": "", "written_sha256": ""}'
    path.write_text(values.ljust(MEGABYTE))
    found = read_journal(path)
    assert found is not None
    assert (found["lines"], found["bytes"], found["overwrite"]) == (1, 2, False)
    path.write_text(values.ljust(MEGABYTE + 1))
    with pytest.raises(DataError, match="1,048,577 bytes are too many"):
        read_journal(path)
    assert read_journal(tmp_path / "none") is None


def test_windows_that_are_read_ahead_of_the_workers_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_dispatcher", lambda actors, request: lambda window: list)
    bundle = cast(Any, SimpleNamespace(config=SimpleNamespace(decode=DecodeConfig())))
    read: list[int] = []
    windows = (read.append(first) or Window(first, []) for first in range(1, 20))  # type: ignore[func-returns-value]
    workers = cluster.RayWorkers(bundle, ["a", "b"])
    window, _ = next(workers.translate(windows, FileRequest(Request(DecodeConfig()), PlainLines())))
    assert (window.first, read) == (1, [1, 2, 3, 4, 5, 6])  # three for each of two


def test_a_search_waits_for_a_gpu_at_every_eighth_step_and_at_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [search.sync_steps(device) for device in ("cpu", "cuda")] == [1, 8]
    for num_steps, taken in ((1, [1] * 20), (8, [1, 8, 8, 3])):
        monkeypatch.setattr(search, "sync_steps", lambda _, number=num_steps: number)
        greedy = GreedySearch(FakeModel(random_table(1, eos_bias=-50.0)).task([19]), DecodeConfig())
        counts, update = list[int](), greedy.finished.update
        monkeypatch.setattr(greedy.finished, "update", lambda s, n=counts, f=update: (n.append(len(s)), f(s)))
        greedy.run()
        assert counts == taken


class Record(HostRecord):
    def update(self, steps: Any) -> None: ...


@pytest.mark.parametrize(
    ("num_sentences", "done", "kept"),
    [
        (8, [3], [0, 1, 2, 4, 5, 6, 7]),  # an eighth of the batch
        (9, [3], None),
        (9, [3, 8], [0, 1, 2, 4, 5, 6, 7]),
        (2, [], None),
        (2, [0, 1], []),
    ],
)
def test_sentences_leave_a_search_where_an_eighth_is_done(
    num_sentences: int, done: list[int], kept: list[int] | None
) -> None:
    record = Record([0] * num_sentences, 2, 0.6)
    record.done[[2 * index for index in range(num_sentences)]] = True  # one of two groups is not enough
    assert record.drop_done() is None
    record.done[[2 * index + 1 for index in done]] = True
    assert record.drop_done() == kept
    if kept is not None:
        assert record.active.tolist() == [group for index in kept for group in (2 * index, 2 * index + 1)]
        assert record.done.all() == (kept == [])
    assert isinstance(record.active, np.ndarray)
