"""A job that dies at any moment is resumed to the same file, byte for byte; another job is refused by name."""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from transduce.errors import ConfigError, DataError
from transduce.files import zstd
from transduce.streams.output import ResumableOutput, open_stream

LINES = [f"line {number}" for number in range(10)]
WINDOW = 3

# Writes lines in windows, in a child process for each moment at which it may die: before and after each call that
# reaches the disk, without a trace of a handler. Then resumes. In a process of its own, which has no threads.
_DYING = """
import os, sys
from itertools import islice
from pathlib import Path
from transduce.streams.output import ResumableOutput

folder, lines = Path(sys.argv[1]), [f"line {n}" for n in range(10)]
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
    assert [file.name for file in folder.iterdir()] == [path.name], moment
    path.unlink()
print(moments)
"""


def run_job(path: Path, *, stop_after: int | None = None, resume: bool = True, lines: list[str] = LINES) -> int:
    """Runs the job, or its first windows and then an error; returns how many lines were done before."""
    with ResumableOutput(path, {"beam_size": 4}, resume=resume) as output:
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
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([whole.name, resumed.name])
    data = whole.read_bytes()
    unpack = {"": bytes, ".gz": gzip.decompress, ".zst": _unzstd}[suffix]
    assert unpack(data).decode() == "".join(line.upper() + "\n" for line in LINES)


def _unzstd(data: bytes) -> bytes:
    return zstd.decompress(data)


def test_death_at_any_moment(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _DYING, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20  # it died at many moments, and in the end did not


def test_what_the_journal_does_not_know_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "out"
    stop(path)
    with (tmp_path / "out.partial").open("ab") as file:
        file.write(b"LINE 3\nLIN")
    run_job(path)
    assert path.read_text().split() == "".join(line.upper() + "\n" for line in LINES).split()


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
    with pytest.raises(DataError, match=r"another input: its first 3 lines are done, and this input has others"):
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
        (lambda partial, journal: partial.write_bytes(b"x" * 21), "was changed since it was written"),
        (lambda partial, journal: journal.write_text("{"), "has a journal that cannot be read"),
        (lambda partial, journal: journal.write_text('{"format": 99}'), "format 99"),
    ],
)
def test_damage_is_noticed(tmp_path: Path, damage: object, message: str) -> None:
    path = tmp_path / "out"
    stop(path)
    assert callable(damage)
    damage(tmp_path / "out.partial", tmp_path / "out.partial.json")
    with pytest.raises(DataError, match=message):
        run_job(path)


def test_two_processes_do_not_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with ResumableOutput(path, {}, resume=False) as first:
        first.write(["a"], ["A"])
        with pytest.raises(DataError, match="another process is writing it"):
            ResumableOutput(path, {}, resume=True)
        first.write(["b"], ["B"])
    assert path.read_text() == "A\nB\n"


def test_nothing_is_left_where_nothing_was_done(tmp_path: Path) -> None:
    stop(tmp_path / "out", after=0)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError, match="--output"), open_stream(None, {}, resume=True):
        pass


def test_devices_are_written_to_and_stay(tmp_path: Path) -> None:
    with open_stream(Path("/dev/null"), {}, resume=False) as output:
        output.write(["a"], ["A"])
    assert Path("/dev/null").is_char_device()
    command = "import sys; from transduce.streams.output import *; from pathlib import Path\n"
    command += "with open_stream(Path('/dev/stdout'), {}, resume=False) as output: output.write(['a'], ['A'])"
    with (tmp_path / "redirected").open("wb") as file:
        subprocess.run([sys.executable, "-c", command], stdout=file, check=True)
    assert (tmp_path / "redirected").read_text() == "A\n"
    assert Path("/dev/stdout").is_symlink()


def test_empty_input_gives_an_empty_file(tmp_path: Path) -> None:
    for suffix in ("", ".gz", ".zst"):
        run_job(tmp_path / f"out{suffix}", lines=[])
        assert (tmp_path / f"out{suffix}").is_file()


def test_the_journal_names_the_job(tmp_path: Path) -> None:
    stop(tmp_path / "out", after=2)
    journal = json.loads((tmp_path / "out.partial.json").read_text())
    assert journal["job"] == {"beam_size": 4}
    assert journal["lines"] == 6
