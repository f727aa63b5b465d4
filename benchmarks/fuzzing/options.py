"""Hostile values for every key of a configuration and every option of the command line."""

import argparse
import itertools
import math
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

from fuzzing.runner import Case, Outcome, Runner, accept
from transduce.bundle import Bundle
from transduce.cli.main import build_parser
from transduce.cli.options import Number
from transduce.config.ranges import ranges_of
from transduce.config.schema import SECTIONS
from transduce.errors import TransduceError

_FIXTURES = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "0.1.0"
# No number of ours is one of these, but for "1e-300" and "4.5", which are numbers where no whole one is wanted.
_NO_NUMBERS = (
    "nan",
    "inf",
    "-inf",
    "-1",
    "1e308",
    "-1e308",
    "1" + "0" * 23,
    "9" * 5000,
    "1e400",
    "0x10",
    "",
    " ",
    "five",
)
_NO_NUMBERS_IN_TOML = (
    "nan",
    "inf",
    "-inf",
    "-1",
    "1e308",
    "1" + "0" * 23,
    "9" * 5000,
    "true",
    '"4"',
    "[4]",
    "{a = 4}",
    "1979-05-27",
)
_NO_TEXTS_IN_TOML = ("4", "nan", '"\\u0000"', "[[[]]]", "{}", "true", "[" * 3000)
_ODD_TEXTS = (
    "",
    " ",
    "x" * 5000,
    "\udcff",
    "../../..",
    "/dev/null",
    "a\nb",
    "\x1b[31m",
    "😀",
    "--",
    "cuda:²",
    "cuda:" + "9" * 30,
    "-",
)
_LINES = "A dog runs.\n\nTwo dogs run over the green grass.\nein Mann\n"


def option_cases(runner: Runner, count: int, seed: int) -> Iterator[Case]:
    """Yields `count` of all cases, chosen by the seed; all where there are fewer."""
    cases = _all_cases(runner.folder)
    yield from random.Random(seed).sample(cases, min(count, len(cases)))


def _all_cases(folder: Path) -> list[Case]:
    """Returns all cases; the files that they name are written into `folder`."""
    model, parser = folder / "model", folder / "parser"
    for path in (model, parser):
        shutil.copytree(_FIXTURES / path.name, path)
    source = folder / "in.txt"
    source.write_text(_LINES, encoding="utf-8")
    for side in ("en", "de"):
        (folder / f"train.{side}").write_text("a dog runs .\ntwo dogs run .\n" * 40, encoding="utf-8")
        (folder / f"dev.{side}").write_text("a man runs .\n", encoding="utf-8")
    return [
        *_keys_in_recipes(folder),
        *_keys_in_settings(folder),
        *_numeric_options(),
        *_ends_of_searches(folder, model, source),
        *_ends_of_trainings(folder),
        *_odd_texts(folder, model, parser, source),
    ]


def _keys_in_recipes(folder: Path) -> Iterator[Case]:
    """Every key of the schema, in a recipe of its own."""
    numbers = itertools.count()
    for section, key, kind in _keys():
        for value in (
            _NO_NUMBERS_IN_TOML
            if kind in (int, float)
            else _NO_TEXTS_IN_TOML
            if kind is str
            else ("4", "nan", "{a = 1}")
        ):
            path = folder / f"recipe-{next(numbers)}.toml"
            text = f"[{section}]\n{key} = {value}\n"
            is_dict = kind not in (int, float, str, bool) and value.startswith("{")
            yield Case(
                ["info", str(path)],
                damage="key in a recipe",
                must_fail=not is_dict,
                named=(f"{section}.{key}", "not a TOML file", "nested too deeply"),
                prepare=_writes(path, text),
            )
    for content in (
        b"\xff\xfe",
        b"\x00",
        b"a = " + b"[" * 100_000,
        b"[a" * 50_000,
        b"preset = 4",
        b"preset = 'x\\u0000'",
    ):
        path = folder / f"recipe-{next(numbers)}.toml"
        yield Case(["info", str(path)], damage="recipe", must_fail=True, prepare=_writes(path, content))


def _keys_in_settings(folder: Path) -> Iterator[Case]:
    """Every key of the schema, by --set, on two commands."""
    recipe = folder / "absent.toml"
    recipe.write_text('preset = "tiny"\n[data]\ntrain = [["no.en", "no.de"]]\n', encoding="utf-8")
    for section, key, kind in _keys():
        for value in (
            (*_NO_NUMBERS_IN_TOML, "a\0b", "\udcff") if kind in (int, float) else ("\udcff", "x" * 4000, "a\x07", "")
        ):
            for command in (
                ["prepare", str(recipe), "--check-only"],
                ["train", str(recipe), "--output", str(folder / "no")],
            ):
                yield Case(
                    [*command, "--set", f"{section}.{key}={value}"],
                    damage="key by --set",
                    must_fail=True,  # where the value is right, the corpus is not there
                    named=(f"{section}.{key}",) if kind in (int, float) else (),
                )


def _numeric_options() -> Iterator[Case]:
    """Every option of every command that is a number."""
    for path, action in _options(build_parser(), []):
        if isinstance(action.type, Number) or action.type is float:
            option = action.option_strings[-1]
            values = (*_NO_NUMBERS, "4.5") if action.type is not float and action.type.kind is int else _NO_NUMBERS
            for value in values:
                if action.type is not float:  # others are checked by their commands
                    yield Case([*path, f"{option}={value}"], damage="number", must_fail=True, named=(option,))


def _ends_of_searches(folder: Path, model: Path, source: Path) -> Iterator[Case]:
    """The smallest and largest values of the options of a search, which must work or be refused."""
    output = folder / "out.txt"
    base = ["translate", str(model), "--source", str(source), "--output", str(output), "--overwrite", "--device", "cpu"]

    def check(outcome: Outcome) -> str:
        if outcome.exit_code:
            return ""
        found = output.read_bytes().count(b"\n")
        return "" if found == _LINES.count("\n") else f"{found} lines of output"

    for _, action in _options(build_parser(), ["translate"]):
        if not isinstance(action.type, Number):
            continue
        bounds, whole = action.type.bounds, action.type.kind is int
        ends: list[float] = [bounds.least, bounds.most, (bounds.least + bounds.most) / 2]
        values = [int(end) for end in ends] if whole else [*ends, 1e-300, math.nextafter(bounds.most, 0)]
        for value in values:
            for more in ([], ["--engine", "torch"], ["--engine", "ctranslate2"], ["--beam-size", "2"]):
                is_n_best = action.option_strings[-1] in ("--n-best", "--column")
                arguments = [*base, f"{action.option_strings[-1]}={value}", *more]
                yield Case(arguments, damage="end of a search option", check=accept if is_n_best else check)


def _ends_of_trainings(folder: Path) -> Iterator[Case]:
    """The ends of what a training takes: one update, and then a model that loads."""
    recipe = folder / "train.toml"
    recipe.write_text(
        'preset = "tiny"\n[data]\ntrain = [["train.en", "train.de"]]\nvalidation = ["dev.en", "dev.de"]\n'
        "allow_misaligned = true\n[text]\nvocab_size = 280\n"
        "[model]\nd_model = 8\nd_ff = 8\nnum_heads = 2\nd_k = 4\nd_v = 4\n"
        "num_encoder_layers = 1\nnum_decoder_layers = 1\n"
        "[train]\nmax_steps = 1\nsource_batch_tokens = 100\ntarget_batch_tokens = 100\naverage_last = 1\n",
        encoding="utf-8",
    )
    numbers = itertools.count()
    for section in ("train", "text", "data", "decode"):
        for key, (kind, bounds) in ranges_of(SECTIONS[section]).items():  # type: ignore[arg-type]
            if key in ("max_steps", "cooldown_steps"):
                continue
            for value in (bounds.least, bounds.most, (bounds.least + bounds.most) / 3):
                run = folder / f"run-{next(numbers)}"
                shown = int(value) if kind is int else repr(float(value))
                yield Case(
                    ["train", str(recipe), "--output", str(run), "--quiet", "--set", f"{section}.{key}={shown}"],
                    damage="end of a training setting",
                    check=_makes_model(run / "model"),
                )


def _makes_model(path: Path) -> Callable[[Outcome], str]:
    """Returns a check that a training that succeeds writes a model that loads."""

    def check(outcome: Outcome) -> str:
        try:
            if outcome.exit_code == 0:
                Bundle.load(path).verify()
        except TransduceError as error:
            return f"the model does not load: {error}"
        return ""

    return check


def _odd_texts(folder: Path, model: Path, parser: Path, source: Path) -> Iterator[Case]:
    """Odd texts for what is no number: names of files, devices, languages."""
    lines, out = str(source), str(folder / "odd.txt")
    commands = {
        "translate": [str(model), "--source", lines, "--output", out, "--overwrite"],
        "score": [str(model), "--source", lines, "--target", lines, "--output", out, "--overwrite"],
        "calibrate": [str(model), "--source", lines, "--reference", lines],
        "evaluate": ["--hypothesis", lines, "--reference", lines],
        "parse run": [str(parser), "--source", lines, "--output", out, "--overwrite"],
        "info": [],
        "prepare": ["--check-only"],
    }
    for command, base in commands.items():
        for path, action in _options(build_parser(), command.split()):
            if action.type not in (None, Path) or action.nargs == 0 or action.choices is not None:
                continue
            option = action.option_strings[-1]
            if option in ("--ray", "--mirror"):
                continue
            for text in _ODD_TEXTS:
                given = [f"{option}={text}"] if text.startswith("-") else [option, text]
                yield Case([*path, *base, *given], damage="odd text")
        for text in _ODD_TEXTS:
            if not text.startswith("-"):
                yield Case([*command.split(), text], damage="odd text")


def _keys() -> Iterator[tuple[str, str, Any]]:
    for section, made in SECTIONS.items():
        hints = get_type_hints(made)
        for each in fields(made):  # type: ignore[arg-type]
            yield section, each.name, hints[each.name]


def _options(parser: argparse.ArgumentParser, path: list[str]) -> Iterator[tuple[list[str], argparse.Action]]:
    """Yields the options of the command at `path`, with the path; of an empty one, those of every command."""
    wanted = list(path)
    for name in wanted:
        parser = _subcommands(parser)[name]
    yield from _all_options(parser, wanted)


def _all_options(parser: argparse.ArgumentParser, path: list[str]) -> Iterator[tuple[list[str], argparse.Action]]:
    for action in parser._actions:
        if action.option_strings and not isinstance(action, argparse._HelpAction | argparse._VersionAction):
            yield path, action
    for name, command in _subcommands(parser).items():
        yield from _all_options(command, [*path, name])


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= action.choices
    return found


def _writes(path: Path, content: str | bytes) -> Callable[[], str]:
    raw = content if isinstance(content, bytes) else content.encode()

    def write() -> str:
        path.write_bytes(raw)
        return f"{path.name}: {raw[:80]!r}"

    return write
