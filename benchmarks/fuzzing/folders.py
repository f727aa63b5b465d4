"""Damaged model folders, conversions for CTranslate2 and their records in the user's cache."""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from fuzzing.damage import MODEL_DAMAGES, Damage
from fuzzing.runner import Case, Outcome, Runner, accept
from transduce.bundle import Bundle, save_bundle

_FIXTURES = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "0.1.0"
_LINES = "The date is the third of May .\nIt costs 5 euros .\n"
_TRANSLATIONS = {
    "torch": ["--engine", "torch"],
    "torch, shortlist": ["--engine", "torch", "--shortlist", "on"],
    "ctranslate2": ["--engine", "ctranslate2"],
    "ctranslate2, int8": ["--engine", "ctranslate2", "--quantization", "int8"],
    "ctranslate2, shortlist": ["--engine", "ctranslate2", "--shortlist", "on"],
}
_NAMES = (*_TRANSLATIONS, "info")


def folder_cases(runner: Runner, count: int, seed: int) -> Iterator[Case]:
    """Yields cases: each damages a copy of a sound folder, and translates with it, or asks for `info`.

    Exit code 0 must come with the translation of the sound folder, unless the damage may make another sound folder.
    """
    sound, root = runner.folder / "sound", runner.folder / "case"
    expected = _prepare(runner, sound)
    for number in range(count):
        generator = random.Random(f"{seed}:{number}")
        damage, name = MODEL_DAMAGES[number % len(MODEL_DAMAGES)], generator.choice(_NAMES)
        translates = name in _TRANSLATIONS
        yield Case(
            _command(name, root),
            damage=damage.name,
            lines=_LINES,
            cache="case/cache",
            must_fail=damage.must_fail and translates,
            named=(str(root),),
            prepare=_damaged(sound, root, damage, generator),
            check=_translates(sound, root, name, expected[name]) if translates and not damage.makes_another else accept,
        )


def _prepare(runner: Runner, sound: Path) -> dict[str, str]:
    """Writes a sound model beside another whose files can be swapped in; returns what each command prints."""
    corpus = [str(_FIXTURES / "corpus" / f"train.{language}") for language in ("en", "de")]
    for name, source in (("model", "model"), ("other", "model-learned")):
        old = Bundle.load(_FIXTURES / source)
        save_bundle(sound / name, old.config, old.weights(), old.tokenizer, old.metrics)
        _run(runner, ["shortlist", str(sound / name), "--source", corpus[0], "--target", corpus[1]])
    return {name: _run(runner, _command(name, sound)) for name in _NAMES}


def _run(runner: Runner, arguments: list[str]) -> str:
    outcome = runner.run(Case(arguments, lines=_LINES, cache="sound/cache"))
    assert outcome.exit_code == 0, outcome.stderr
    return outcome.stdout


def _command(name: str, root: Path) -> list[str]:
    model = str(root / "model")
    if name == "info":
        return ["info", model]
    return ["translate", model, "--device", "cpu", "--threads", "1", *_TRANSLATIONS[name]]


def _damaged(sound: Path, root: Path, damage: Damage, generator: random.Random) -> Callable[[], str]:
    def make() -> str:
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(sound, root, symlinks=True)
        own = sorted(path for path in (root / "model").iterdir() if path.is_file())
        made = sorted(path for part in ("model/ctranslate2", "cache") for path in (root / part).rglob("*.*"))
        # Conversions have many files: the model's own, on which all depends, come as often as all of theirs.
        files = own if generator.random() < 0.5 else [path for path in made if path.is_file()]
        return damage.make(generator, root, files)

    return make


def _translates(sound: Path, root: Path, name: str, expected: str) -> Callable[[Outcome], str]:
    """Returns a check that the translation is the sound folder's, and that no engine has read a damaged file."""
    read = ("tokenizer.json", "model.safetensors") if name.startswith("torch") else ("tokenizer.json",)

    def check(outcome: Outcome) -> str:
        if outcome.exit_code:
            return ""
        if outcome.stdout != expected:
            return f"exit code 0 with another translation: {outcome.stdout[:200]!r}"
        for each in read:  # a flipped bit may leave the translation as it was
            path = root / "model" / each
            if not path.is_file() or path.read_bytes() != (sound / "model" / each).read_bytes():
                return f"exit code 0 with a damaged {each}"
        return ""

    return check
