"""The command line over files of lines."""

from collections.abc import Iterable
from pathlib import Path

from transduce.cli import main as command_line


def write(path: Path, lines: Iterable[str]) -> str:
    """Writes a text file, and returns its name."""
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return str(path)


def command(*arguments: str | Path) -> int:
    """Runs a command, and returns its exit code."""
    return command_line.main([str(argument) for argument in arguments])


def translated(model: Path, folder: Path, lines: Iterable[str], *options: str | Path) -> list[str]:
    """Returns the lines that `transduce translate` writes."""
    source, output = write(folder / "in.txt", lines), folder / "out.txt"
    files = ("--source", source, "--output", output, "--overwrite")
    assert command("translate", model, *files, "--device", "cpu", *options) == 0
    text = output.read_bytes().decode("utf-8")
    assert text.endswith("\n")
    return text.split("\n")[:-1]
