"""Damaged run folders: the cases that are fuzzed. Each is a copy of the run of 0.1.0 with one file changed."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuzzing import Case, run_cases
from transduce.files import sha256

_FIXTURES = Path(__file__).resolve().parent / "fixtures" / "0.1.0"
_STEPS = ("--set", "train.max_steps=284", "--set", "train.validate_bleu=false")
_ODD = (
    b"",
    b"{}",
    b"[]",
    b"null",
    b"NaN",
    b'"x"',
    b"\xff\xfe",
    b"{",
    b"[" * 100_000,
    b'{"format": 1}',
    b"\x00" * 64,
    b"1" * 5000,
)
_LEAVES: tuple[Any, ...] = (
    None,
    -1,
    10**30,
    1e308,
    float("nan"),
    float("inf"),
    "x",
    "",
    [],
    {},
    True,
    [[[]]],
    "\udcff",
)


def run_cases_of_damage(folder: Path, count: int, seed: int) -> list[Case]:
    """Returns `count` cases that work in `folder`; the undamaged run is resumed and averaged there for comparison."""
    for name in ("corpus", "recipe.toml"):
        copy = shutil.copytree if (_FIXTURES / name).is_dir() else shutil.copy
        copy(_FIXTURES / name, folder / name)
    run, model = folder / "run", folder / "model"
    commands = {
        "resume": ["train", str(folder / "recipe.toml"), "--output", str(run), "--resume", "--quiet", *_STEPS],
        "average": ["average", str(run), "--last", "2", "--output", str(model), "--overwrite"],
        "info": ["info", str(run)],
    }
    weights = {"resume": run / "model" / "model.safetensors", "average": model / "model.safetensors"}
    expected = {}
    for name, path in weights.items():
        [outcome] = run_cases([Case(commands[name], prepare=lambda: _fresh(run, model))])
        assert outcome.code == 0, outcome.said
        expected[name] = sha256(path)

    def check(name: str) -> Callable[[str], str] | None:
        if name not in weights:
            return None

        def same(said: str) -> str:
            if "has 1 checkpoint; taking that" in said or sha256(weights[name]) == expected[name]:
                return ""
            return "another model than that of the undamaged run"

        return same

    files = sorted(path.relative_to(_FIXTURES / "run") for path in (_FIXTURES / "run").rglob("*") if path.is_file())
    generator = random.Random(seed)
    cases = []
    for number in range(count):
        name = ("resume", "average", "info")[number % 3]
        damage = _damage(run, files, random.Random(generator.random()))
        cases.append(Case(commands[name], prepare=_in_turn(lambda: _fresh(run, model), damage), check=check(name)))
    return cases


def _fresh(run: Path, model: Path) -> None:
    for path in (run, model):
        shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(_FIXTURES / "run", run)


def _in_turn(*steps: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        for step in steps:
            step()

    return run


def _damage(run: Path, files: list[Path], generator: random.Random) -> Callable[[], None]:
    """Returns what changes one file of the run."""
    chosen = generator.choice(files)
    path = run / chosen
    kinds = ["flip", "truncate", "odd", "swap", "delete", "folder", "append"] + ["leaf"] * 3 * (path.suffix == ".json")
    kind = generator.choice(kinds)

    def change() -> None:
        raw = path.read_bytes()
        if kind == "flip":
            place = generator.randrange(len(raw))
            raw = raw[:place] + bytes([raw[place] ^ (1 << generator.randrange(8))]) + raw[place + 1 :]
        elif kind == "truncate":
            raw = raw[: generator.randrange(len(raw))]
        elif kind == "odd":
            raw = generator.choice(_ODD)
        elif kind == "append":
            raw += generator.choice(_ODD)
        elif kind == "leaf":
            raw = json.dumps(_with_odd_leaf(json.loads(raw), generator)).encode()
        elif kind == "swap":
            other = run / generator.choice([each for each in files if each != chosen])
            raw, swapped = other.read_bytes(), raw
            other.write_bytes(swapped)
        path.unlink()
        if kind == "folder":
            path.mkdir()
        elif kind != "delete":
            path.write_bytes(raw)

    return change


def _with_odd_leaf(value: Any, generator: random.Random) -> Any:
    """Returns the value with one part of it replaced, or left out."""
    if isinstance(value, dict) and value and generator.random() < 0.9:
        key = generator.choice(sorted(value))
        if generator.random() < 0.1:
            return {other: each for other, each in value.items() if other != key}
        return {**value, key: _with_odd_leaf(value[key], generator)}
    if isinstance(value, list) and value and generator.random() < 0.9:
        place = generator.randrange(len(value))
        return [*value[:place], _with_odd_leaf(value[place], generator), *value[place + 1 :]]
    return generator.choice(_LEAVES)
