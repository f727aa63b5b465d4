"""How commands report errors that are not theirs: a closed pipe, a full disk, a wrong encoding."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from transduce.cli import failures, info
from transduce.cli.main import COMMANDS, main
from transduce.cli.parse import SUBCOMMANDS
from transduce.errors import MissingDependencyError
from transduce.files import write_json

_FULL = "No space left on device. Make room, and run the command again."


def test_a_closed_pipe_is_no_error() -> None:
    """`transduce info --presets | true`."""
    command = [sys.executable, "-m", "transduce", "info", "--presets"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        errors = process.stderr.read()
    assert (process.returncode, errors) == (141, "")


def in_shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `transduce` and the rest of a line of shell."""
    line = f"{shlex.quote(sys.executable)} -m transduce {command}"
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, env=os.environ | environment, check=False)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("info --presets >&-", "standard output is closed: nothing can be written to it."),
        ("--help >&-", "standard output is closed: nothing can be written to it."),
        ("info --presets > /dev/full", f"standard output: {_FULL}"),
        ("--help > /dev/full", f"standard output: {_FULL}"),
        ("evaluate --hypothesis - --reference /dev/null <&-", "standard input is closed: nothing can be read from it."),
    ],
)
def test_an_unusable_standard_stream_is_one_line(command: str, message: str) -> None:
    if "/dev/full" in command and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full: a full disk on standard output is NOT tested")
    done = in_shell(command, PYTHONUNBUFFERED="1")  # then a print fails at once, as one of much text does
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert message.removeprefix("standard output: ") in done.stderr
    done = in_shell(command, PYTHONUNBUFFERED="")
    assert done.returncode == 1
    advice = "" if "full" in command else " 'transduce --debug COMMAND …' shows where."
    assert done.stderr == f"transduce: error: {message}{advice}\n"
    assert done.stdout == ""


def test_closed_standard_output_is_named_where_a_translation_goes_there(tmp_path: Path) -> None:
    model = shutil.copytree(Path(__file__).resolve().parents[1] / "fixtures" / "0.1.0" / "model", tmp_path / "model")
    (tmp_path / "source").write_text("A dog runs.\n")
    done = in_shell(f"translate {model} --source {tmp_path / 'source'} --quiet >&-")
    assert done.returncode == 1
    assert done.stderr.startswith("transduce: error: standard output is closed: nothing can be written to it.")


def test_a_closed_standard_output_is_no_error_where_nothing_is_written_to_it(tmp_path: Path) -> None:
    (tmp_path / "trees").write_text("(S (NP dogs) (VP run))\n")
    done = in_shell(f"parse draw {tmp_path / 'trees'} --output {tmp_path / 'tree.txt'} >&- 2>&-")
    assert (done.returncode, done.stdout) == (0, "")
    assert "dogs" in (tmp_path / "tree.txt").read_text(encoding="utf-8")


def test_messages_do_not_go_to_standard_output_where_standard_error_is_closed() -> None:
    done = in_shell("info no-such-thing 2>&-")
    assert (done.returncode, done.stdout) == (2, "")


def test_an_output_of_another_encoding_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "trees").write_text("(S (NP dogs) (VP run))\n", encoding="utf-8")
    recipe = tmp_path / "mine.toml"
    recipe.write_text('name = "Köter"\n', encoding="utf-8")
    done = in_shell(f"info {recipe} --json", PYTHONIOENCODING="ascii")
    assert done.returncode == 3
    assert done.stderr.startswith("transduce: error: the output's encoding, ascii, has no '\\xf6'; set PYTHONUTF8=1.")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (RecursionError("maximum recursion depth exceeded"), 3, "an input is nested too deeply"),
        (MemoryError(), 1, "not enough memory. Smaller batches"),
        (UnicodeDecodeError("utf-8", b"a\xff", 1, 2, "invalid start byte"), 3, "not utf-8 text (byte 2: invalid start"),
        (
            UnicodeEncodeError("utf-8", "a\udcff", 1, 2, "surrogates not allowed"),
            3,
            "'a\\udcff': a name or text is not",
        ),
        (
            UnicodeEncodeError("utf-8", "b" * 200 + "a\udcff" + "c" * 200, 201, 202, "surrogates not allowed"),
            3,
            f"error: '{'b' * 99}a\\udcff{'c' * 99}': a name or text",
        ),
    ],
)
def test_what_python_itself_raises_is_one_line(
    error: Exception, code: int, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(args: object) -> int:
        raise error

    monkeypatch.setattr(info, "run", fail)
    assert main(["info", "tiny"]) == code
    errors = capsys.readouterr().err
    assert errors.startswith("transduce: error: ")
    assert message in errors
    assert errors.count("\n") == 1
    with pytest.raises(type(error)):
        main(["--debug", "info", "tiny"])


def shown(error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Returns what a command prints that ends with this error."""

    def fail(args: object) -> int:
        raise error

    monkeypatch.setattr(info, "run", fail)
    assert main(["info", "tiny"]) == 1
    return capsys.readouterr().err


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 16 bytes"),
        ImportError("libx.so: failed to map segment from shared object"),
        RuntimeError("can't start new thread"),
        OSError("could not get source code"),
    ],
)
def test_what_libraries_say_of_too_little_memory_is_one_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = shown(error, monkeypatch, capsys)
    assert said.startswith(f"transduce: error: not enough memory: {type(error).__name__}: {error}. Smaller batches")
    with pytest.raises(type(error)):
        main(["--debug", "info", "tiny"])


def test_an_error_that_comes_from_another_one_of_memory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = KeyError("b")
    error.__context__ = ValueError("a")
    error.__context__.__cause__ = MemoryError()
    assert "not enough memory: KeyError: 'b'." in shown(error, monkeypatch, capsys)


def test_any_error_with_little_address_space_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An import that failed half-way says nothing of memory."""
    error = ImportError("cannot import name 'x'")
    monkeypatch.setattr(failures, "_address_space", lambda: (900 << 20, 20 << 20))
    said = shown(error, monkeypatch, capsys)
    assert "not enough memory: 20 MiB are left of the limit of 900 MiB (ulimit -v) (ImportError: cannot import" in said
    monkeypatch.setattr(failures, "_address_space", lambda: (9000 << 20, 2000 << 20))
    with pytest.raises(ImportError):  # a bug, which shows its traceback
        shown(error, monkeypatch, capsys)


@pytest.mark.parametrize("command", [[], ["parse"], ["paper"]])
def test_without_a_command_there_is_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: {' '.join(['transduce', *command])} ")
    assert "COMMAND" in shown or "SUBCOMMAND" in shown or "EXPERIMENT" in shown


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (["trian", "mine.toml"], "'trian' is not one of demo, "),
        (["trian", "mine.toml"], "Did you mean 'train'?"),
        (["parse", "darw"], "Did you mean 'draw'?"),
        (["paper", "tabel1"], "Did you mean 'table1'?"),
        (["export", "model", "--format", "hugingface"], "Did you mean 'huggingface'?"),
    ],
)
def test_a_misspelt_command_or_choice_is_corrected(
    command: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 2
    assert hint in capsys.readouterr().err


def test_an_error_of_the_file_system_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
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
    assert errors.startswith(f"transduce: error: {tmp_path / 'notes'}: this is a file, but a folder is needed")


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
        (
            ["parse", "score", "--reference", "g", "--hypothesis", "p", "--analyse"],
            "usage: transduce parse score",
            "--analysis",
        ),
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


def test_windows_is_refused_in_one_line() -> None:
    """Where the modules of POSIX are absent, the entry point says so before it imports a command."""
    code = """
import os, sys
for name in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules[name] = None
from transduce.cli.main import main
os.name = "nt"
sys.exit(main(["--help"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == MissingDependencyError.exit_code
    assert done.stdout == ""
    assert done.stderr.startswith("transduce: error: Windows is not supported")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "names"), [([], COMMANDS), (["parse"], SUBCOMMANDS), (["paper"], ("table1", "positions"))]
)
def test_help_has_each_summary_beside_its_name(
    command: list[str], names: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in names:
        assert any(line.startswith(f"    {name} ") and line.split(maxsplit=1)[1] for line in lines), name
