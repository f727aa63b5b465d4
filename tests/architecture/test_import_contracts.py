"""The import contracts of pyproject.toml hold, and would not if someone broke one."""

import os
import re
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


_LAYERS = "Each layer imports lower ones only"
_TORCH = "Torch is reached over the listed bridges only"
_BASE = "What the base install uses needs no extra"
_BREAKS = [
    ("model/layers.py", "import transduce.decoding.beam", _LAYERS),
    ("decoding/beam.py", "import transduce.model", _LAYERS),
    ("data/store.py", "import transduce.model", _LAYERS),
    ("treebank/trees.py", "import transduce.data", _LAYERS),
    ("text/subword.py", "import torch", _TORCH),
    ("evaluation/bleu.py", "def f():\n    import torch", _TORCH),
    ("decoding/beam.py", "import transduce.treebank", "A sequence is a sequence"),
    ("evaluation/evaluation.py", "import pyarrow", _BASE),
    ("inspection/view.py", "import matplotlib", _BASE),
]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Returns what is said of each broken contract, where all the lines of `_BREAKS` are added at once."""
    folder = tmp_path_factory.mktemp("broken")
    shutil.copytree(_REPOSITORY / "src" / "transduce", folder / "src" / "transduce")
    shutil.copy(_REPOSITORY / "pyproject.toml", folder)
    for module, line, _ in _BREAKS:
        with (folder / "src" / "transduce" / module).open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")
    done = lint_imports(folder)
    assert done.returncode != 0
    headings = re.compile(r"^(.+)\n-+\n", re.MULTILINE)  # a title, underlined
    _, *parts = headings.split(done.stdout.partition("Broken contracts")[2])
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize(("module", "line", "broken"), _BREAKS)
def test_a_broken_contract_is_noticed(module: str, line: str, broken: str, reports: dict[str, str]) -> None:
    [report] = [text for contract, text in reports.items() if contract.startswith(broken)]
    importer = f"transduce.{module.removesuffix('.py').replace('/', '.')}"
    assert f"{importer} -> {line.split()[-1]} (l." in report
