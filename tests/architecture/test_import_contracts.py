"""The import contracts of pyproject.toml hold, and would not if someone broke one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).resolve().parents[2]


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs import-linter on the package in `folder`/src with the contracts of `folder`."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder / "src"), "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_contracts_are_kept() -> None:
    done = lint_imports(_REPOSITORY)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("model/layers.py", "import transduce.decoding.beam", "Each layer imports lower ones only"),
        ("decoding/beam.py", "import transduce.model", "Each layer imports lower ones only"),
        ("text/subword.py", "import torch", "Torch is reached over the listed bridges only"),
        ("evaluation/bleu.py", "def f():\n    import torch", "Torch is reached over the listed bridges only"),
        ("data/store.py", "import transduce.model", "Each layer imports lower ones only"),
        ("treebank/trees.py", "import transduce.data", "Each layer imports lower ones only"),
        ("decoding/beam.py", "import transduce.treebank", "A sequence is a sequence"),
        ("evaluation/evaluation.py", "import pyarrow", "What the base install uses needs no extra"),
        ("inspection/view.py", "import matplotlib", "What the base install uses needs no extra"),
    ],
)
def test_a_broken_contract_is_noticed(tmp_path: Path, module: str, line: str, broken: str) -> None:
    shutil.copytree(_REPOSITORY / "src" / "transduce", tmp_path / "src" / "transduce")
    shutil.copy(_REPOSITORY / "pyproject.toml", tmp_path)
    with (tmp_path / "src" / "transduce" / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    done = lint_imports(tmp_path)
    assert done.returncode != 0
    verdicts = [text for text in done.stdout.splitlines() if text.startswith(broken)]
    assert any("BROKEN" in verdict for verdict in verdicts), done.stdout + done.stderr
