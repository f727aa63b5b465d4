"""Readers: what a line is, in what files, and what each bad input is told."""

import bz2
import gzip
import io
import lzma
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.data import readers
from transduce.data.readers import LineReader, PairReader, read_lines, read_pairs
from transduce.errors import DataError
from transduce.translation.streams.output import ResumableOutput

HIDDEN = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\x1dh\x1ei"


def pack(path: Path, data: bytes) -> Path:
    if path.suffix == ".gz":
        data = gzip.compress(data)
    elif path.suffix == ".zst":
        data = readers.zstd.compress(data)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst"])
@pytest.mark.parametrize("block_bytes", [1, 2, 3, 7, 1 << 20])
def test_lines_of_each_kind_of_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, block_bytes: int
) -> None:
    monkeypatch.setattr(readers, "_BLOCK_BYTES", block_bytes)
    text = f"\ufeffGrüße\r\n{HIDDEN}\n\n\r\nx\ry\r\r\n日本\ufeff\n\ufeffa"
    path = pack(tmp_path / name, text.encode())
    assert list(read_lines(path)) == ["Grüße", HIDDEN, "", "", "x\ry\r", "日本\ufeff", "\ufeffa"]


@pytest.mark.parametrize("text", ["", "\n", "a", "a\n", "a\n\n", "\ufeff", "\ufeffa"])
def test_files_with_and_without_a_final_line_end(tmp_path: Path, text: str) -> None:
    path = pack(tmp_path / "a.txt", text.encode())
    bare = text.removeprefix("\ufeff")
    assert list(read_lines(path)) == (bare.removesuffix("\n").split("\n") if bare else [])


@given(st.lists(st.text(st.characters(exclude_characters="\n\r\ufeff", exclude_categories=["Cs"]))))
def test_any_text_is_read_unchanged(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes("".join(line + "\n" for line in lines).encode())
    assert list(read_lines(path)) == lines


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"a\nb"))))
    assert list(read_lines(Path("-"))) == ["a", "b"]


def test_lines_of_a_pipe_are_read_as_they_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with open(reading) as stdin, open(writing, "wb", buffering=0) as pipe:  # noqa: PTH123 (descriptors)
        monkeypatch.setattr(sys, "stdin", stdin)
        lines = iter(read_lines(Path("-")))
        pipe.write(b"1\n")  # shorter than a byte order mark
        assert next(lines) == "1"
        pipe.write(b"two\nthr")
        assert next(lines) == "two"
        pipe.write(b"ee")
        pipe.close()
        assert list(lines) == ["three"]


def test_a_named_pipe_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"a\nb\n",))
    writer.start()
    assert list(read_lines(tmp_path / "pipe")) == ["a", "b"]
    writer.join()


def test_standard_input_that_lacks_lines_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\n")))
    (tmp_path / "b").write_text("a\nb\nc\n")
    with pytest.raises(DataError, match=r"^standard input has 2 lines, .*/b has 3: they must be aligned"):
        list(read_pairs([readers.STDIN, tmp_path / "b"]))


def test_a_pipe_that_lacks_lines_is_not_opened_again(tmp_path: Path) -> None:
    """A second reader of a named pipe would wait for a writer for ever."""
    (tmp_path / "b").write_text("line.\n" * 30)
    reading, writing = os.pipe()
    os.write(writing, b"line.\n" * 20)
    os.close(writing)
    with pytest.raises(DataError) as error:
        list(read_pairs([Path(f"/dev/fd/{reading}"), tmp_path / "b"]))
    os.close(reading)
    counts = f"/dev/fd/{reading} has 20 lines, {tmp_path / 'b'} has 30: they must be aligned line by line."
    assert str(error.value) == f"{counts} Restore the missing lines, or remove the extra ones."


@pytest.mark.parametrize(
    ("name", "lost_bytes", "where"),
    [("a.gz", 4, " The error is after line 2."), ("a.gz", 10**6, ""), ("a.zst", 4, "")],  # a frame is read as a whole
)
def test_a_named_pipe_with_damaged_data_is_named(tmp_path: Path, name: str, lost_bytes: int, where: str) -> None:
    """A pipe has no position."""
    data = pack(tmp_path / name, b"a\nb\n").read_bytes()[:-lost_bytes]
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    writer = threading.Thread(target=(tmp_path / name).write_bytes, args=(data,))
    writer.start()
    with pytest.raises(DataError) as error:
        list(read_lines(tmp_path / name))
    writer.join()
    assert str(error.value).startswith(f"{tmp_path / name}: damaged or cut short: ")
    assert str(error.value).endswith(f".{where} Fetch or compress the file again.")


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that opens and cannot be read")
def test_a_file_that_a_disk_does_not_give_is_named() -> None:
    """Nothing is at the first address of a process."""
    with pytest.raises(DataError, match=r"^/proc/self/mem: cannot be read: Input/output error\.$"):
        list(read_lines(Path("/proc/self/mem")))


def test_several_frames_and_members(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"a\nb") + gzip.compress(b"c\n"))
    frame = readers.zstd.compress
    (tmp_path / "a.zst").write_bytes(frame(b"a\nb") + frame(b"c\n"))
    assert list(read_lines(tmp_path / "a.gz")) == list(read_lines(tmp_path / "a.zst")) == ["a", "bc"]


def test_position_reaches_the_size_of_the_file(tmp_path: Path) -> None:
    for name in ("a.txt", "a.gz", "a.zst"):
        path = pack(tmp_path / name, b"one\ntwo\n" * 1000)
        reader = LineReader(path)
        assert len(list(reader)) == 2000
        assert reader.position_bytes == path.stat().st_size
    pairs = PairReader([tmp_path / "a.txt", tmp_path / "a.gz"])
    assert len(list(pairs)) == 2000
    assert pairs.position_bytes == 8000 + (tmp_path / "a.gz").stat().st_size


def test_not_utf8_names_file_line_and_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pack(tmp_path / "a.txt", b"one\ntwo\n\ngr\xfcn\nx\n")
    for block_bytes in (1, 5, 1000):
        monkeypatch.setattr(readers, "_BLOCK_BYTES", block_bytes)
        with pytest.raises(DataError, match=r"a\.txt, line 4: not UTF-8 \(byte 0xfc at byte offset 2") as error:
            list(read_lines(path))
        assert "iconv -f LATIN1 -t UTF-8" in str(error.value)


def test_the_lines_before_one_that_is_not_utf8_come_first(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("eins\r\nzwei ä\n".encode() + b"dr\xffei\nvier\n")
    lines = iter(read_lines(tmp_path / "a.txt"))
    assert [next(lines), next(lines)] == ["eins", "zwei ä"]
    with pytest.raises(DataError, match="line 3: not UTF-8") as error:
        next(lines)
    assert "iconv" not in str(error.value)  # which would write "zwei Ã¤"
    assert "Lines before it are UTF-8: correct this one." in str(error.value)


@pytest.mark.parametrize(
    ("name", "packed"),
    [("xz", lzma.compress), ("bzip2", bz2.compress), ("gzip", gzip.compress), ("zstd", readers.zstd.compress)],
)
@pytest.mark.parametrize("lenient", [False, True])
def test_a_compressed_file_under_another_name_is_refused_as_such(
    name: str, packed: Callable[[bytes], bytes], lenient: bool, tmp_path: Path
) -> None:
    """Not with advice on encodings, by which it would become text; nor line by line, where such lines are dropped."""
    (tmp_path / "a.txt").write_bytes(packed("Ein Hund läuft.\n".encode() * 100))
    with pytest.raises(DataError, match=rf"a\.txt: compressed by {name}\. Unpack it"):
        list(LineReader(tmp_path / "a.txt", replace_invalid=lenient))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_utf16_file_is_recognised(tmp_path: Path, encoding: str) -> None:
    path = pack(tmp_path / "a.txt", "\ufeffeins\tzwei\n".encode(encoding))
    with pytest.raises(DataError, match=r"a\.txt, line 1: not UTF-8 .*iconv -f UTF-16 -t UTF-8"):
        list(read_lines(path))


def test_missing_file_suggests_a_near_name(tmp_path: Path) -> None:
    (tmp_path / "train.en").touch()
    with pytest.raises(DataError, match=r"trian\.en: no such file\. Did you mean 'train\.en'\?"):
        read_lines(tmp_path / "trian.en")
    with pytest.raises(DataError, match=r"the folder .*nowhere does not exist"):
        read_lines(tmp_path / "nowhere" / "a.en")
    with pytest.raises(DataError, match="is a folder"):
        read_lines(tmp_path)


@pytest.mark.parametrize("name", ["a.gz", "a.zst"])
def test_truncated_files_are_errors(tmp_path: Path, name: str) -> None:
    text = "".join(f"line {random.Random(i).random()}\n" for i in range(500))
    path = pack(tmp_path / name, text.encode())
    whole = path.read_bytes()
    for size in (len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError, match="damaged or cut short"):
            list(read_lines(path))
    path.write_bytes(b"this is not compressed")
    with pytest.raises(DataError, match="damaged or cut short"):
        list(read_lines(path))


@pytest.mark.parametrize("name", ["a.gz", "a.zst"])
def test_an_empty_compressed_file_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(DataError, match=rf"{name}: damaged or cut short: the file is empty"):
        list(read_lines(tmp_path / name))
    assert list(read_lines(pack(tmp_path / name, b""))) == []


@pytest.mark.parametrize("name", ["a.gz", "a.zst"])
def test_garbage_after_the_end_is_located(tmp_path: Path, name: str) -> None:
    path = pack(tmp_path / name, b"one\ntwo\n")
    size = path.stat().st_size + len(b"garbage after the end")
    path.write_bytes(path.read_bytes() + b"garbage after the end")
    with pytest.raises(DataError, match=rf"{name}: damaged .* within the first {size} bytes"):
        list(read_lines(path))


@pytest.mark.parametrize("name", ["a.gz", "a.zst"])
def test_every_flipped_bit_is_found(tmp_path: Path, name: str) -> None:
    """In any of several frames, which all have checksums."""
    lines = [f"line {random.Random(i).random()}" for i in range(60)]
    with ResumableOutput(tmp_path / name, {}, resume=False) as output:
        for start in range(0, 60, 20):
            output.write(lines[start : start + 20], lines[start : start + 20])
    whole = (tmp_path / name).read_bytes()
    assert list(read_lines(tmp_path / name)) == lines
    chance = random.Random(name)
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        (tmp_path / name).write_bytes(damaged)
        try:
            read = list(read_lines(tmp_path / name))
        except DataError:
            continue
        assert read == lines  # a bit of the header that says nothing, as gzip's date


def test_endless_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "_MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(readers, "_BLOCK_BYTES", 100)
    with pytest.raises(DataError, match="Is this a text file"):
        list(read_lines(pack(tmp_path / "a.txt", b"x" * 5000)))


def test_a_long_line_that_comes_in_small_blocks_is_read_in_linear_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe gives 4 KB at a time. In quadratic time, this took a minute."""
    monkeypatch.setattr(readers, "_BLOCK_BYTES", 200)
    path = tmp_path / "long"
    path.write_bytes(b"first\n" + b"a" * 6_000_000 + b"\nlast")
    before = time.process_time()
    assert [len(line) for line in read_lines(path)] == [5, 6_000_000, 4]
    assert time.process_time() - before < 15, "processor seconds: the machine may be busy"


def test_pairs_of_two_files_and_of_columns(tmp_path: Path) -> None:
    source = pack(tmp_path / "a.en.gz", "a\nb\u2028c\n".encode())
    target = pack(tmp_path / "a.de.zst", b"A\nB")
    assert list(read_pairs([source, target])) == [("a", "A"), ("b\u2028c", "B")]
    table = pack(tmp_path / "a.tsv", b"a\tA\nb\tB\tmore\n\t\n")
    assert list(read_pairs([table])) == [("a", "A"), ("b", "B"), ("", "")]


@pytest.mark.parametrize("name", ["a.tmx", "A.TMX.gz"])
def test_a_translation_memory_is_not_read_as_lines(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"<tmx/>")
    with pytest.raises(DataError, match=rf"{name}: a translation memory has pairs"):
        read_lines(tmp_path / name)


def test_row_without_a_tab(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.tsv, line 2: no tab"):
        list(read_pairs([pack(tmp_path / "a.tsv", b"a\tA\nb B\n")]))


def test_wrong_number_of_files() -> None:
    with pytest.raises(DataError, match="3 files given"):
        read_pairs([Path("a"), Path("b"), Path("c")])
    with pytest.raises(DataError, match="Both sides are standard input"):
        read_pairs([Path("-"), Path("-")])


def test_where_names_file_and_line(tmp_path: Path) -> None:
    for name in ("a", "b", "c.tsv"):
        (tmp_path / name).touch()
    assert PairReader([tmp_path / "a", tmp_path / "b"]).location(3).shown(1) == f"{tmp_path / 'b'}:3"
    assert PairReader([tmp_path / "c.tsv"]).location(3).shown(1) == f"{tmp_path / 'c.tsv'}:3"


def corpus(count: int) -> tuple[list[str], list[str]]:
    """Lines whose translations share numbers, endings and, roughly, length."""
    generator = random.Random(5)
    source, target = [], []
    for _ in range(count):
        words = generator.randint(2, 25)
        number = f" {generator.randint(1, 999)}" if generator.random() < 0.3 else ""
        ending = generator.choice(".....?!:")
        source.append("word " * words + number + ending)
        target.append("Worte " * max(1, words + generator.randint(-2, 2)) + number + ending)
    return source, target


def unequal(folder: Path, source: list[str], target: list[str]) -> str:
    paths = [folder / "a.en", folder / "a.de"]
    for path, lines in zip(paths, (source, target), strict=True):
        path.write_text("".join(line + "\n" for line in lines))
    with pytest.raises(DataError) as error:
        list(read_pairs(paths))
    return str(error.value)


@pytest.mark.parametrize(("place", "surplus"), [(1200, 1), (1200, 40), (0, 3), (60, 1)])
@pytest.mark.parametrize("side", [0, 1])
def test_unequal_counts_name_files_counts_and_place(tmp_path: Path, place: int, surplus: int, side: int) -> None:
    sides = list(corpus(2000))
    del sides[side][place : place + surplus]
    message = unequal(tmp_path, *sides)
    counts = [len(lines) for lines in sides]
    assert f"a.en has {counts[0]:,} lines" in message
    assert f"a.de has {counts[1]:,}" in message
    longer = ("a.de", "a.en")[side]
    found = int(message.split("from near line ")[1].split(" ")[0])
    assert abs(found - (place + 1)) <= 3
    assert f"{longer} has {surplus} extra line" in message


def test_a_file_that_ends_early(tmp_path: Path) -> None:
    source, target = corpus(1000)
    message = unequal(tmp_path, source, target[:-30])
    assert "They seem to be aligned up to line 970" in message
    assert "a.en then has 30 extra lines" in message


def test_no_line_is_named_if_nothing_is_aligned(tmp_path: Path) -> None:
    source, target = corpus(1000)
    random.Random(1).shuffle(target)
    message = unequal(tmp_path, source, target[:-30])
    assert "a.de has 970" in message
    assert "near line" not in message
    assert "seem to be aligned" not in message


def test_no_line_is_named_if_lines_are_missing_in_several_places(tmp_path: Path) -> None:
    source, target = corpus(2000)
    del target[500], target[1500:1503]
    message = unequal(tmp_path, source, target)
    assert "near line" not in message


def test_messages_name_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n\xff\n")))
    with pytest.raises(DataError, match=r"^standard input, line 2: not UTF-8"):
        list(read_lines(Path("-")))
