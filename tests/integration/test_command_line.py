"""What every command does in trouble that is none of its own: a reader gone away, a disk that refuses."""

import subprocess
import sys
from pathlib import Path

import pytest

from transduce.cli import info
from transduce.cli.main import main
from transduce.files import write_json


def test_a_reader_that_goes_away_is_no_error() -> None:
    """`transduce info --presets | true`."""
    command = [sys.executable, "-m", "transduce", "info", "--presets"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        errors = process.stderr.read()
    assert (process.returncode, errors) == (141, "")


def test_trouble_with_files_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(args: object) -> int:
        raise PermissionError(13, "Permission denied", "/srv/models/x")

    monkeypatch.setattr(info, "run", refuse)
    assert main(["info", "tiny"]) == 1
    errors = capsys.readouterr().err
    assert errors.startswith("transduce: error: /srv/models/x: Permission denied.")
    assert errors.count("\n") == 1
    with pytest.raises(PermissionError):
        main(["--debug", "info", "tiny"])


def test_a_folder_that_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes").touch()
    monkeypatch.setattr(info, "run", lambda args: write_json(tmp_path / "notes" / "out.json", {}))
    assert main(["info", "tiny"]) == 1
    errors = capsys.readouterr().err
    assert errors.startswith(f"transduce: error: {tmp_path / 'notes'}: a file stands where a folder is needed")


def test_an_output_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes").touch()
    (tmp_path / "train.tsv").write_text("a dog runs\tein Hund rennt\n" * 9)
    arguments = ["prepare", "--train", str(tmp_path / "train.tsv"), "--set", "text.vocab_size=270", "--quiet"]
    assert main([*arguments, "--output", str(tmp_path / "notes" / "out")]) == 1
    assert "notes/out: Not a directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "usage", "hint"),
    [
        (["translate", "model", "--beamsize", "4"], "usage: transduce translate", "Did you mean '--beam-size'?"),
        (["parse", "score", "--gold", "g", "--parsed", "p", "--analyse"], "usage: transduce parse score", "--analysis"),
        (["paper", "table1", "--sale=smoke"], "usage: transduce paper table1", "Did you mean '--scale'?"),
    ],
)
def test_an_unknown_option_shows_the_usage_of_its_command(
    command: list[str], usage: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 2
    message = capsys.readouterr().err
    assert message.startswith(usage)
    assert hint in message
