"""Damaged run folders: training is resumed, checkpoints are averaged, `info` is asked for."""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from fuzzing.damage import ANY_DAMAGES, Damage
from fuzzing.runner import Case, Outcome, Runner, accept
from transduce.files import sha256

_FIXTURES = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "0.1.0"
_ANNOUNCED = ("to average, not 2", "The model is the mean of the undamaged ones")


def run_cases(runner: Runner, count: int, seed: int) -> Iterator[Case]:
    """Yields cases: each damages a copy of the run of 0.1.0. Exit code 0 must come with the undamaged run's model."""
    steps = ("--set", "train.max_steps=284", "--set", "train.validate_bleu=false")
    return _cases(runner, count, seed, _FIXTURES, steps)


def new_run_cases(runner: Runner, count: int, seed: int) -> Iterator[Case]:
    """Yields the same cases of a run that this version began, in which every file that is resumed from has a checksum.

    It ended after 10 steps, between two regular checkpoints: damage of what a checkpoint is for changes the average.
    """
    start = runner.folder / "start"
    shutil.copytree(_FIXTURES / "corpus", start / "corpus")
    steps = "train.max_steps=10 train.checkpoint_steps=4 train.checkpoint_minutes=0 train.average_last=2 "
    steps += "train.validate_steps=5 train.validate_bleu=false train.keep_checkpoints=4"
    text = (_FIXTURES / "recipe.toml").read_text(encoding="utf-8")
    (start / "recipe.toml").write_text(text, encoding="utf-8")
    settings = [word for setting in steps.split() for word in ("--set", setting)]
    arguments = ["train", str(start / "recipe.toml"), "--output", str(start / "run"), "--quiet", *settings]
    outcome = runner.run(Case(arguments))
    assert outcome.exit_code == 0, outcome.stderr
    moved = ["--set", f"data.folder={runner.folder / 'case'}"]
    return _cases(runner, count, seed, start, (*settings, *moved, "--set", "train.max_steps=14"))


def _cases(runner: Runner, count: int, seed: int, start: Path, settings: tuple[str, ...]) -> Iterator[Case]:
    root = runner.folder / "case"
    commands = {
        "resume": ["train", str(root / "recipe.toml"), "--output", str(root / "run"), "--resume", "--quiet", *settings],
        "average": ["average", str(root / "run"), "--last", "2", "--output", str(root / "model")],
        "info": ["info", str(root / "run")],
    }
    weights = {"resume": root / "run/model/model.safetensors", "average": root / "model/model.safetensors"}
    expected = {}
    for name, path in weights.items():
        _fresh(start, root)
        outcome = runner.run(Case(commands[name]))
        assert outcome.exit_code == 0, outcome.stderr
        expected[name] = sha256(path)
    for number in range(count):
        generator = random.Random(f"{seed}:{number}")
        damage, name = ANY_DAMAGES[number % len(ANY_DAMAGES)], generator.choice([*commands])
        yield Case(
            commands[name],
            damage=damage.name,
            named=(str(root),),
            prepare=_damaged(start, root, damage, generator),
            check=_makes(weights[name], expected[name]) if name in weights else accept,
        )


def _fresh(start: Path, root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    shutil.copy(start / "recipe.toml", root)
    for name in ("corpus", "run"):
        shutil.copytree(start / name, root / name)


def _damaged(start: Path, root: Path, damage: Damage, generator: random.Random) -> Callable[[], str]:
    def make() -> str:
        _fresh(start, root)
        files = sorted(path for path in (root / "run").rglob("*") if path.is_file())
        return damage.make(generator, root, files)

    return make


def _makes(path: Path, expected: str) -> Callable[[Outcome], str]:
    """Returns a check that the model is the undamaged run's, or that something else was announced."""
    return lambda found: (
        "another model than that of the undamaged run"
        if found.exit_code == 0 and not any(each in found.stderr for each in _ANNOUNCED) and sha256(path) != expected
        else ""
    )
