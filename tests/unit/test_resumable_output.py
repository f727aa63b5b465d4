"""A job that dies at any moment is resumed to the same file, byte for byte; another job is refused by name."""

import errno
import gzip
import io
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from transduce.cli import output as cli_output
from transduce.data.compression import zstd
from transduce.errors import ConfigError, DataError
from transduce.translation.streams.output import ResumableOutput, open_stream

LINES = [f"line {number}" for number in range(10)]
WINDOW = 3

# Writes lines in windows, in a child process for each moment at which it may die: before and after each call that
# reaches the disk, without a trace of a handler. Then resumes. In a process of its own, which has no threads.
_DYING = """
import os, sys
from itertools import islice
from pathlib import Path
from transduce.translation.streams.output import ResumableOutput

folder, lines = Path(sys.argv[1]), [f"line {n}" for n in range(7)]
calls, deadline = 0, None

def counted(function):
    def call(*args, **kwargs):
        tick()
        result = function(*args, **kwargs)
        tick()
        return result
    return call

def tick():
    global calls
    calls += 1
    if calls == deadline:
        os._exit(9)

def job(path):
    with ResumableOutput(path, {}, resume=True) as output:
        rest = iter(lines)
        output.skip(rest)
        while chunk := list(islice(rest, 3)):
            output.write(chunk, [line.upper() for line in chunk])

os.fsync, os.replace, os.unlink, os.open = map(counted, (os.fsync, os.replace, os.unlink, os.open))
expected = "".join(line.upper() + chr(10) for line in lines)
moments = 0
for moment in range(1, 1000):
    path = folder / f"out{moment}"
    child = os.fork()
    if child == 0:
        calls, deadline = 0, moment
        job(path)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == 0:
        break
    assert code == 9, code
    moments += 1
    job(path)
    assert path.read_text() == expected, moment
    record = folder / f".{path.name}.journal.json"
    assert sorted(folder.iterdir()) == [record, path], moment
    path.unlink()
    record.unlink()
print(moments)
"""


def run_job(
    path: Path,
    *,
    stop_after: int | None = None,
    resume: bool = True,
    overwrite: bool = False,
    lines: list[str] = LINES,
    beam_size: int = 4,
) -> int:
    """Runs the job, or its first windows and then an error; returns how many lines were done before."""
    with ResumableOutput(path, {"beam_size": beam_size}, resume=resume, overwrite=overwrite) as output:
        done = output.num_lines
        rest: Iterator[str] = iter(lines)
        output.skip(rest)
        remaining = list(rest)
        for start in range(0, len(remaining), WINDOW):
            if stop_after is not None and start // WINDOW == stop_after:
                raise KeyboardInterrupt
            chunk = remaining[start : start + WINDOW]
            output.write(chunk, [line.upper() for line in chunk])
    return done


def record_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.journal.json")


def stop(path: Path, after: int = 1) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_job(path, stop_after=after)


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_resumed_is_the_same_file(tmp_path: Path, suffix: str) -> None:
    whole, resumed = tmp_path / f"whole{suffix}", tmp_path / f"resumed{suffix}"
    run_job(whole)
    for _ in range(3):
        stop(resumed)
        assert not resumed.exists()
    assert run_job(resumed) == 9
    assert resumed.read_bytes() == whole.read_bytes()
    records = [record_of(whole), record_of(resumed)]
    assert sorted(tmp_path.iterdir()) == sorted([*records, whole, resumed])
    data = whole.read_bytes()
    unpack = {"": bytes, ".gz": gzip.decompress, ".zst": _unzstd}[suffix]
    assert unpack(data).decode() == "".join(line.upper() + "\n" for line in LINES)


def _unzstd(data: bytes) -> bytes:
    return zstd.decompress(data)


def test_a_job_killed_at_any_moment_can_be_resumed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _DYING, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20  # it died at many moments, and in the end did not


def test_bytes_after_those_of_the_journal_are_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "out"
    stop(path)
    with (tmp_path / "out.partial").open("ab") as file:
        file.write(b"LINE 3\nLIN")
    run_job(path)
    assert path.read_text().split() == "".join(line.upper() + "\n" for line in LINES).split()


def test_another_engine_is_refused_with_the_option_to_resume(tmp_path: Path) -> None:
    """A version that had "auto" choose otherwise may have begun the job, and nobody ever named an engine."""
    path = tmp_path / "out"
    path.with_name("out.partial").write_text("A\n")
    journal = {"format": 1, "job": {"engine": "torch on cpu"}, "lines": 1, "bytes": 2, "whole": False}
    digests = {"read_sha256": "", "written_sha256": ""}
    path.with_name("out.partial.json").write_text(json.dumps(journal | digests))
    with (
        pytest.raises(ConfigError, match=r"now engine = ctranslate2 on cpu, float32\. Resume with --engine torch, or"),
        open_stream(path, {"engine": "ctranslate2 on cpu, float32"}, resume=True),
    ):
        pass


def test_another_job_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "out"
    stop(path)
    with (
        pytest.raises(ConfigError, match=r"was begun with beam_size = 4, and now beam_size = 1"),
        open_stream(path, {"beam_size": 1}, resume=True),
    ):
        pass
    with (
        pytest.raises(ConfigError, match=r"was begun with field = nothing, and now field = text"),
        open_stream(path, {"beam_size": 4, "field": "text"}, resume=True),
    ):
        pass
    with pytest.raises(DataError, match=r"out\.partial: an earlier run translated 3 lines.*--resume"):
        run_job(path, resume=False)
    assert run_job(path) == 3  # none of which did any harm


def test_another_input_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "out"
    stop(path)
    with pytest.raises(DataError, match=r"another input: 3 lines of it are done, and this input has others"):
        run_job(path, lines=["line 0", "line X", *LINES[2:]])
    with pytest.raises(DataError, match=r"this input has only 2"):
        run_job(path, lines=LINES[:2])
    longer = [*LINES, "line 10"]
    assert run_job(path, lines=longer) == 3  # what comes after was not read yet: it may be mended
    assert len(path.read_text().splitlines()) == 11


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda partial, journal: partial.write_bytes(b"LINE 0\n"), "has 7 bytes, and its journal says 21"),
        (lambda partial, journal: partial.write_bytes(b"x" * 20), "has 20 bytes, and its journal says 21"),
        (lambda partial, journal: partial.write_bytes(b"x" * 21), "was changed since it was written"),
        (lambda partial, journal: journal.write_text("{"), r"out\.partial\.json: is no journal of a translation"),
        (lambda partial, journal: journal.write_text('{"format": 99}'), "format 99"),
        (lambda partial, journal: journal.write_text('{"format": 1}'), r"out\.partial\.json: has no 'job'"),
        (lambda partial, journal: journal.write_text("[1]"), "is no journal"),
        (lambda partial, journal: journal.write_bytes(b"\xff"), "is no journal"),
        (lambda partial, journal: journal.write_text("[" * 100_000), "is no journal"),
        (lambda partial, journal: journal.write_text(" " * 2_000_000), "2,000,000 bytes are too many"),
        (lambda partial, journal: change(journal, lines="3"), "lines = '3'"),
        (lambda partial, journal: change(journal, lines=True), "lines = True"),
        (lambda partial, journal: change(journal, bytes=-1), "bytes = -1"),
        (lambda partial, journal: change(journal, job=[]), r"job = \[\]"),
        (lambda partial, journal: change(journal, whole=0), "whole = 0"),
        (lambda partial, journal: change(journal, lines=10**30), "lines = 1000"),
        (lambda partial, journal: change(journal, lines=10**12), "this input has only 10"),
        (lambda partial, journal: change(journal, read_sha256=""), "this input has others"),
    ],
)
def test_damage_is_noticed(tmp_path: Path, damage: object, message: str) -> None:
    path = tmp_path / "out"
    stop(path)
    assert callable(damage)
    partial = tmp_path / "out.partial"
    damage(partial, tmp_path / "out.partial.json")
    before = partial.read_bytes()
    with pytest.raises(DataError, match=message) as raised:
        run_job(path)
    assert "\n" not in str(raised.value)
    assert "--overwrite" in str(raised.value)
    assert partial.read_bytes() == before  # what was done is not lost
    run_job(path, resume=False, overwrite=True)
    assert path.read_text() == "".join(line.upper() + "\n" for line in LINES)


def change(journal: Path, **values: object) -> None:
    journal.write_text(json.dumps(json.loads(journal.read_text()) | values))


def test_two_processes_do_not_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with ResumableOutput(path, {}, resume=False) as first:
        first.write(["a"], ["A"])
        with pytest.raises(DataError, match="another process is writing it"):
            ResumableOutput(path, {}, resume=True)
        first.write(["b"], ["B"])
    assert path.read_text() == "A\nB\n"


def test_no_file_is_left_if_no_line_was_done(tmp_path: Path) -> None:
    stop(tmp_path / "out", after=0)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError, match="--output"), open_stream(None, {}, resume=True):
        pass


def test_devices_are_written_to_and_stay(tmp_path: Path) -> None:
    with open_stream(Path("/dev/null"), {}, resume=False) as output:
        output.write(["a"], ["A"])
    assert Path("/dev/null").is_char_device()
    command = "import sys; from transduce.translation.streams.output import *; from pathlib import Path\n"
    command += "with open_stream(Path('/dev/stdout'), {}, resume=False) as output: output.write(['a'], ['A'])"
    with (tmp_path / "redirected").open("wb") as file:
        subprocess.run([sys.executable, "-c", command], stdout=file, check=True)
    assert (tmp_path / "redirected").read_text() == "A\n"
    assert Path("/dev/stdout").is_symlink()


class _Full(io.RawIOBase):
    """A disk that is full, until the test is over."""

    is_full = True

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return len(data)


def test_a_full_standard_output_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def write_rows() -> None:
        with open_stream(None, {}, resume=False) as output:
            output.write(["a"], ["b\n"])

    def write_text() -> None:
        with cli_output.open_output(None) as output:
            output.write("b\n")

    for write in (write_rows, write_text):
        full = _Full()
        monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=full))
        with pytest.raises(OSError, match="No space left on device: 'standard output'"):
            write()
        full.is_full = False
    with pytest.raises(OSError, match=r"gone$") as caught, open_stream(None, {}, resume=False):
        raise OSError(errno.EIO, "gone")  # of the input, perhaps
    assert caught.value.filename is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_device_is_named() -> None:
    with (
        pytest.raises(DataError, match=r"/dev/full: cannot be written: No space left"),
        open_stream(Path("/dev/full"), {}, resume=False) as output,
    ):
        output.write(["a"], ["A"])


def test_empty_input_gives_an_empty_file(tmp_path: Path) -> None:
    for suffix in ("", ".gz", ".zst"):
        run_job(tmp_path / f"out{suffix}", lines=[])
        assert (tmp_path / f"out{suffix}").is_file()


def test_the_journal_names_the_job(tmp_path: Path) -> None:
    stop(tmp_path / "out", after=2)
    journal = json.loads((tmp_path / "out.partial.json").read_text())
    assert journal["job"] == {"beam_size": 4}
    assert journal["lines"] == 6


def test_what_is_finished_stays_finished(tmp_path: Path) -> None:
    path = tmp_path / "out.gz"
    run_job(path)
    before = path.read_bytes(), path.stat()
    assert run_job(path) == 10
    with pytest.raises(ConfigError, match=r"out\.gz: was made with beam_size = 4, and now beam_size = 1\."):
        run_job(path, beam_size=1)
    with pytest.raises(DataError, match=r"out\.gz: was made from another input: all of its 10 lines .* has more"):
        run_job(path, lines=[*LINES, "line 10"])
    with pytest.raises(DataError, match=r"all of its 10 lines are done, and this input has only 9"):
        run_job(path, lines=LINES[:9])
    with pytest.raises(DataError, match=r"this input has others"):
        run_job(path, lines=[*LINES[:9], "line X"])
    with pytest.raises(DataError, match=r"out\.gz: exists already\. Add --overwrite"):
        run_job(path, resume=False)
    after = path.read_bytes(), path.stat()
    assert (after[0], after[1].st_mtime_ns, after[1].st_ino) == (before[0], before[1].st_mtime_ns, before[1].st_ino)
    assert sorted(tmp_path.iterdir()) == [record_of(path), path]
    for changed in (b"mine", before[0][:-1] + b"x"):  # of another size, and of the same
        path.write_bytes(changed)
        with pytest.raises(DataError, match=r"out\.gz: was changed after it was finished"):
            run_job(path)
        assert path.read_bytes() == changed


def test_an_existing_file_is_replaced_with_overwrite_only(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("mine")
    for resume in (False, True):
        with pytest.raises(DataError, match=r"out: exists already.*--overwrite"):
            run_job(path, resume=resume)
        assert path.read_text() == "mine"
        assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(KeyboardInterrupt):
        run_job(path, resume=False, overwrite=True, stop_after=1)
    assert path.read_text() == "mine"  # until the new one is whole
    assert run_job(path) == 3  # with --resume, the job that may overwrite goes on
    assert path.read_text() == "".join(line.upper() + "\n" for line in LINES)
    run_job(path, resume=False, overwrite=True, lines=LINES[:2])
    assert path.read_text() == "LINE 0\nLINE 1\n"
    with pytest.raises(ConfigError, match="give one of them"), open_stream(path, {}, resume=True, overwrite=True):
        pass


def test_a_file_created_since_the_start_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out"
    stop(path)
    path.write_text("mine")
    with pytest.raises(DataError, match="was created since"):
        run_job(path)
    assert path.read_text() == "mine"
    path.unlink()
    assert run_job(path) == 3


def test_a_job_killed_at_once_keeps_its_overwrite(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("mine")
    output = ResumableOutput(path, {"beam_size": 4}, resume=False, overwrite=True)
    output._file.close()  # as when the process is killed here
    assert (tmp_path / "out.partial.json").is_file()
    with pytest.raises(DataError, match="exists already"):
        run_job(path, resume=False)
    assert path.read_text() == "mine"
    assert run_job(path) == 0
    assert path.read_text().startswith("LINE 0")


def test_a_job_killed_at_once_keeps_its_overwrite_of_another_jobs_finished_output(tmp_path: Path) -> None:
    path = tmp_path / "out"
    run_job(path, beam_size=1, lines=LINES[:2])
    output = ResumableOutput(path, {"beam_size": 4}, resume=False, overwrite=True)
    output._file.close()  # as when the process is killed here
    assert run_job(path, beam_size=1, lines=LINES[:2]) == 2, "the finished job is still known"
    output = ResumableOutput(path, {"beam_size": 4}, resume=False, overwrite=True)
    output._file.close()
    assert run_job(path) == 0
    assert path.read_text() == "".join(f"{line.upper()}\n" for line in LINES)


@pytest.mark.parametrize("name", ["out", "out[1]", "*"])
def test_what_a_killed_process_left_of_its_journals_is_removed_and_nothing_else(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    mine = [f".{name}.partial.json.abcd1234.part", f"..{name}.journal.json.abcd1235.part"]
    others = [".other.partial.json.abcd1234.part", ".out1.partial.json.abcd1234.part", f".{name}.partial.json.abcd1234"]
    others += [f".{name}.partial.json.x1.part", "notes.part"]
    for each in (*mine, *others):
        (tmp_path / each).write_text("")
    run_job(path)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([*others, name, f".{name}.journal.json"])


def test_killed_between_the_last_two_steps(tmp_path: Path) -> None:
    path = tmp_path / "out"
    run_job(path)
    before = path.stat().st_mtime_ns
    record_of(path).rename(tmp_path / "out.partial.json")
    assert json.loads((tmp_path / "out.partial.json").read_text())["whole"]
    with pytest.raises(DataError, match="exists already"):
        run_job(path, resume=False)
    assert sorted(tmp_path.iterdir()) == [record_of(path), path]
    assert run_job(path) == 10
    assert path.stat().st_mtime_ns == before


def test_overwrite_drops_what_an_earlier_run_began(tmp_path: Path) -> None:
    path = tmp_path / "out"
    stop(path)
    assert run_job(path, resume=False, overwrite=True, beam_size=1) == 0
    assert run_job(path, beam_size=1) == 10


def test_rows_are_on_the_disk_before_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out"
    partial, journal = tmp_path / "out.partial", tmp_path / "out.partial.json"
    calls: list[tuple[str, int]] = []  # (what, bytes of the partial file)
    fsync, replace = os.fsync, os.replace

    def record_sync(descriptor: int) -> None:
        if partial.exists() and os.path.sameopenfile(descriptor, file := os.open(partial, os.O_RDONLY)):
            calls.append(("sync", os.fstat(file).st_size))
        fsync(descriptor)

    def record_replace(source: Any, target: Any, **options: Any) -> None:
        if Path(target) == journal:
            calls.append(("journal", partial.stat().st_size))
        elif Path(target) == path:
            calls.append(("rename", Path(source).stat().st_size))
        replace(source, target, **options)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(os, "replace", record_replace)
    run_job(path, lines=LINES[:4])
    steps = [("sync", 21), ("journal", 21), ("sync", 28), ("journal", 28), ("sync", 28), ("journal", 28)]
    assert calls == [("journal", 0), *steps, ("rename", 28)]


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="this system has no limit on files")
def test_a_disk_that_is_full_loses_nothing(tmp_path: Path) -> None:
    """A limit on a file's size stands for a full disk: a write takes a part of the bytes, the next none."""
    path, lines = tmp_path / "out", [f"a long line number {number:06}" for number in range(400)]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    try:
        with pytest.raises(DataError, match=r"out\.partial: cannot be written: "):
            run_job(path, lines=lines)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    done = json.loads((tmp_path / "out.partial.json").read_text())["lines"]
    assert 0 < done < 400
    assert not path.exists()
    assert run_job(path, lines=lines) == done
    assert path.read_text() == "".join(line.upper() + "\n" for line in lines)


@pytest.mark.parametrize(
    ("name", "unpacked"), [("out.gz", gzip.decompress), ("out.zst", lambda data: zstd.decompress(data))]
)
def test_an_output_is_compressed_by_its_name(name: str, unpacked: Callable[[bytes], bytes], tmp_path: Path) -> None:
    with cli_output.open_output(tmp_path / name) as output:
        output.write("Ä\nb\n")
    assert unpacked((tmp_path / name).read_bytes()) == b"\xc3\x84\nb\n"


def test_only_a_zst_file_needs_the_module_for_it(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['backports'] = sys.modules['compression.zstd'] = None\n"
        "from pathlib import Path; from transduce.translation.streams import ResumableOutput\n"
        "with ResumableOutput(Path(sys.argv[1]), {}, resume=False) as output: output.write(['a'], ['A'])"
    )
    for name, code in (("out", 0), ("out.gz", 0), ("out.zst", 1)):
        done = subprocess.run([sys.executable, "-c", program, tmp_path / name], capture_output=True, text=True)
        assert done.returncode == code, done.stderr
    assert "zstd is not installed. A .zst file needs it" in done.stderr
    assert (tmp_path / "out").read_text() == "A\n"
