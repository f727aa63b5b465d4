"""Damaged run folders: training is resumed, checkpoints are averaged, `info` is asked for."""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from fuzzing.damage import ANY_DAMAGES, Damage
from fuzzing.runner import Case, Outcome, Runner, accept
from transduce.files import sha256

_FIXTURES = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "0.1.0"
_STEPS = ("--set", "train.max_steps=284", "--set", "train.validate_bleu=false")
_NAMES = ("resume", "average", "info")


def run_cases(runner: Runner, count: int, seed: int) -> Iterator[Case]:
    """Yields cases: each damages a copy of the run of 0.1.0. Exit code 0 must come with the undamaged run's model."""
    root = runner.folder / "case"
    commands = {
        "resume": ["train", str(root / "recipe.toml"), "--output", str(root / "run"), "--resume", "--quiet", *_STEPS],
        "average": ["average", str(root / "run"), "--last", "2", "--output", str(root / "model")],
        "info": ["info", str(root / "run")],
    }
    weights = {"resume": root / "run/model/model.safetensors", "average": root / "model/model.safetensors"}
    expected = {}
    for name, path in weights.items():
        _fresh(root)
        outcome = runner.run(Case(commands[name]))
        assert outcome.exit_code == 0, outcome.stderr
        expected[name] = sha256(path)
    for number in range(count):
        generator = random.Random(f"{seed}:{number}")
        damage, name = ANY_DAMAGES[number % len(ANY_DAMAGES)], generator.choice(_NAMES)
        yield Case(
            commands[name],
            damage=damage.name,
            named=(str(root),),
            prepare=_damaged(root, damage, generator),
            check=_makes(weights[name], expected[name]) if name in weights else accept,
        )


def _fresh(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    shutil.copy(_FIXTURES / "recipe.toml", root)
    for name in ("corpus", "run"):
        shutil.copytree(_FIXTURES / name, root / name)


def _damaged(root: Path, damage: Damage, generator: random.Random) -> Callable[[], str]:
    def make() -> str:
        _fresh(root)
        files = sorted(path for path in (root / "run").rglob("*") if path.is_file())
        return damage.make(generator, root, files)

    return make


def _makes(path: Path, expected: str) -> Callable[[Outcome], str]:
    """Returns a check that the model is the undamaged run's, or that something else was announced."""
    return lambda found: (
        "another model than that of the undamaged run"
        if found.exit_code == 0 and "1 checkpoint to average, not 2" not in found.stderr and sha256(path) != expected
        else ""
    )
