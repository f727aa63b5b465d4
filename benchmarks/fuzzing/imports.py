"""Damaged models of other systems, which `transduce import` opens or refuses."""

import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from fuzzing.damage import ANY_DAMAGES, Damage
from fuzzing.runner import Case, Outcome, Runner

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "tests")]


def import_cases(runner: Runner, count: int, seed: int) -> Iterator[Case]:
    """Yields cases: each damages a copy of a sound model, and imports it.

    Some damage leaves a sound model with other contents. If the import succeeds, the model has to translate.
    """
    sound, root, output = (runner.folder / name for name in ("sound", "case", "output"))
    makers = _makers()
    for name, make in makers.items():
        make(sound / name)
    names = list(makers)
    for number in range(count):
        generator = random.Random(f"{seed}:{number}")
        damage, name = ANY_DAMAGES[number % len(ANY_DAMAGES)], names[number // len(ANY_DAMAGES) % len(names)]
        yield Case(
            ["import", str(_model(root / name)), "--output", str(output), "--no-compare"],
            damage=damage.name,
            named=(str(root), str(output)),
            prepare=_damaged(sound, root, output, name, damage, generator),
            check=_checked(runner, output),
        )


def _makers() -> dict[str, Callable[[Path], object]]:
    """Returns what writes a sound model of each kind into a folder."""
    import argos_packages
    import ctranslate2_folders
    import made_m2m100
    import made_marian
    import made_marian_npz

    def archive(folder: Path) -> None:
        argos_packages.argos_folder(folder / "unpacked")
        argos_packages.argos_archive(folder / "package.argosmodel", folder / "unpacked")
        shutil.rmtree(folder / "unpacked")
        (folder / "notes.txt").write_text("to be put in its place")

    return {
        "opus": lambda folder: made_marian.make_marian(folder, targets=("deu", "fra")),
        "opus-pickle": lambda folder: made_marian.make_marian(folder, separate=True, pickled=True),
        "marian": made_marian_npz.make_marian,
        "ctranslate2": lambda folder: ctranslate2_folders.marian_folder(folder, "int8"),
        "argos": argos_packages.argos_folder,
        "argos-archive": archive,
        "m2m100": lambda folder: made_m2m100.m2m100_folder(folder, shards="20KB"),
        "nllb": lambda folder: made_m2m100.nllb_folder(folder, tokenizer_json=True, bin=True),
    }


def _model(folder: Path) -> Path:
    return folder / "package.argosmodel" if folder.name == "argos-archive" else folder


def _damaged(
    sound: Path, root: Path, output: Path, name: str, damage: Damage, generator: random.Random
) -> Callable[[], str]:
    def make() -> str:
        for folder in (root, output):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(sound / name, root / name)
        files = sorted(path for path in (root / name).rglob("*") if path.is_file())
        has_json = any(path.suffix == ".json" for path in files)
        chosen = damage if has_json or damage.name != "odd JSON" else ANY_DAMAGES[0]
        return chosen.make(generator, root, files)

    return make


def _checked(runner: Runner, output: Path) -> Callable[[Outcome], str]:
    """Returns a check that nothing is left of a refused import, and that an accepted one is a model."""
    before = {path.name for path in runner.folder.iterdir()}

    def check(outcome: Outcome) -> str:
        after = {path.name for path in runner.folder.iterdir()} - before - {"cache"}
        if outcome.exit_code:
            return f"left behind: {sorted(after - {'case'})}" if after - {"case"} else ""
        if more := after - {"case", output.name}:
            return f"written outside the output: {sorted(more)}"
        tried = runner.run(Case(["info", str(output)]))
        return "" if tried.exit_code == 0 else f"the import cannot be read: {tried.stderr[-500:]}"

    return check
