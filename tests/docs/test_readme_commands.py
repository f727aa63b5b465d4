"""Every command that a page or `--help` shows parses, and names what exists."""

import argparse
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from transduce.cli.augment import SUBCOMMANDS as AUGMENT
from transduce.cli.main import COMMANDS, build_parser
from transduce.cli.parse import SUBCOMMANDS
from transduce.config import Config, apply_settings, load_recipe, preset_names
from transduce.config.loading import apply
from transduce.config.presets import preset
from transduce.serve.config import read_config

_REPOSITORY = Path(__file__).resolve().parents[2]
_README = _REPOSITORY / "README.md"
_FOLDERS = ("docs", "experiments", "benchmarks")
_PAGES = [
    *sorted(_REPOSITORY.glob("*.md")),
    *sorted(page for name in _FOLDERS for page in (_REPOSITORY / name).rglob("*.md")),
]
_REFERENCE = _REPOSITORY / "docs/reference/command-line.md"  # made from the helps, whose examples are tested as such
_PARSER = build_parser()
_BLOCK = re.compile(r"^```([^\n`]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_TORCHRUN = re.compile(r"^torchrun .*? -m transduce(?:\.cli\.main)? ")
_RECIPE = re.compile(r"\brecipes/[\w./-]+\.toml\b")


def blocks(page: Path, language: str) -> list[str]:
    """Returns the fenced blocks of one language."""
    return [body for kind, body in _BLOCK.findall(page.read_text(encoding="utf-8")) if kind == language]


def commands_in(shell: str) -> Iterator[list[str]]:
    """Yields the arguments of each `transduce` in lines of shell, pipelines taken apart."""
    for line in shell.replace("\\\n", " ").splitlines():
        tokens = shlex.shlex(_TORCHRUN.sub("transduce ", line.strip()), posix=True, punctuation_chars="|<>;&")
        tokens.whitespace_split = True
        command: list[str] = []
        for token in [*tokens, "|"]:
            if not set(token) <= set("|<>;&"):
                command.append(token)
                continue
            if command[:1] == ["transduce"]:
                yield command[1:]
            command = []


def shown_commands() -> list[tuple[str, list[str]]]:
    """Returns (where, arguments) of every command shown anywhere."""
    shown = [
        (page.name, args)
        for page in _PAGES
        if page != _REFERENCE
        for body in blocks(page, "sh")
        for args in commands_in(body)
    ]
    of_augment = (f"augment_{name.replace('-', '_')}" for name in AUGMENT)
    for command in [*COMMANDS, *(f"parse_{name}" for name in SUBCOMMANDS), *of_augment]:
        module = __import__(f"transduce.cli.{command}", fromlist=["__doc__"])
        examples = (module.__doc__ or "").partition("examples:\n")[2].partition("\n\n")[0]
        shown += [(f"{command.replace('_', ' ')} --help", args) for args in commands_in(examples)]
    examples = (_PARSER.epilog or "").partition("\n\n")[0]
    # On the page of all commands, a note stands right of some examples, after a gap.
    shown += [("--help", args) for args in commands_in(re.sub(r"(\S)   +.*", r"\1", examples))]
    return shown


SHOWN = shown_commands()


def test_there_are_commands_to_test() -> None:
    assert sum(where == "README.md" for where, _ in SHOWN) >= 6
    assert {args[0] for where, args in SHOWN if where.endswith("--help") and args} >= set(COMMANDS) - {"demo"}


@pytest.mark.parametrize(("where", "arguments"), SHOWN, ids=lambda v: v if isinstance(v, str) else " ".join(v))
def test_command_parses_and_names_what_exists(
    where: str, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        args = _PARSER.parse_args(arguments)
    except SystemExit as end:
        if end.code:
            pytest.fail(f"{where}: transduce {' '.join(arguments)}\n{capsys.readouterr().err}")
        return
    assert capsys.readouterr().err == ""
    for recipe in _RECIPE.findall(" ".join(arguments)):
        assert (_REPOSITORY / recipe).is_file(), f"{where}: there is no {recipe}"
    recipe = getattr(args, "recipe", None)
    start = load_recipe(_REPOSITORY / recipe) if recipe and recipe.parts[0] == "recipes" else Config()
    if getattr(args, "ancestor", None) or getattr(args, "from_teacher", False):
        start = apply_settings(start, ["init.model=ancestor"])
    apply_settings(start, getattr(args, "set", []))
    if arguments[0] == "info" and args.subject and "/" not in args.subject:
        assert args.subject in preset_names()


@pytest.mark.parametrize("page", [page for page in _PAGES if blocks(page, "toml")], ids=lambda page: page.name)
def test_toml_blocks_are_configurations(page: Path, tmp_path: Path) -> None:
    for body in blocks(page, "toml"):
        values = tomllib.loads(body)
        if values.keys() & {"server", "folder", "models"}:
            (tmp_path / "serve.toml").write_text(body, encoding="utf-8")
            read_config(tmp_path / "serve.toml")
            continue
        base = preset(values.pop("preset")) if "preset" in values else Config()
        apply(base, values)


@pytest.mark.parametrize("page", [page for page in _PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_python_blocks_compile(page: Path) -> None:
    for body in blocks(page, "python"):
        compile(body, str(page), "exec")


def test_readme_lists_all_commands() -> None:
    table = _README.read_text("utf-8").partition("## Commands\n")[2].partition("\n## ")[0]
    first_column = "".join(re.findall(r"^\|([^|]+)\|", table, re.MULTILINE))
    assert sorted(re.findall(r"`(\w+)`", first_column)) == sorted(COMMANDS)


def test_readme_names_make_targets_that_exist() -> None:
    makefile = (_REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^(\w+):", makefile, re.MULTILINE))
    for page in _PAGES:
        for body in blocks(page, "sh"):
            for target in re.findall(r"^make (\w+)", body, re.MULTILINE):
                assert target in targets, f"{page.name}: there is no make target {target}"


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


def test_every_decision_is_numbered_and_titled() -> None:
    notes = sorted((_REPOSITORY / "docs" / "decisions").glob("[0-9]*.md"))
    assert [int(note.name[:4]) for note in notes] == list(range(1, len(notes) + 1))
    for note in notes:
        assert note.read_text(encoding="utf-8").startswith(f"# {int(note.name[:4])}. "), note.name


def test_decision_7_shows_the_layers_of_the_contract() -> None:
    contracts = tomllib.loads((_REPOSITORY / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract["id"] == "layers"]
    [shown] = blocks(_REPOSITORY / "docs/decisions/0007-who-may-import-whom.md", "")
    assert [line.replace(" : ", ", ") for line in layers] == shown.splitlines()


def options_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yields the options of a command and of its subcommands."""
    for action in parser._actions:
        yield from action.option_strings
        for subparser in action.choices.values() if isinstance(action, argparse._SubParsersAction) else ():
            yield from options_of(subparser)


def test_options_that_the_text_names_exist() -> None:
    scripts = [
        path for name in ("benchmarks", "docs", "experiments", "tests") for path in (_REPOSITORY / name).rglob("*.py")
    ]
    scripts.append(_REPOSITORY / "src/transduce/export/translate_onnx.py")
    known = {*options_of(_PARSER), "--extra-index-url", "--idle", "--max-restarts"}  # of pip, chrt and torchrun
    known |= {"--gold", "--parsed", "--training", "--test-target"}  # of version 0.1, in the change log
    known |= {option for script in scripts for option in re.findall(r'"(--[a-z][\w-]*)"', script.read_text("utf-8"))}
    named = [
        (page.name, option)
        for page in _PAGES
        for code in re.findall(r"`([^`\n]+)`", _BLOCK.sub("", page.read_text(encoding="utf-8")))
        for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", code)
    ]
    assert len(named) > 300
    assert not [(page, option) for page, option in named if option not in known]
