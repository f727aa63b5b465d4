"""What `make skipped` prints of a run, and that reasons say what to install."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

_TESTS = Path(__file__).resolve().parents[1]

_FILES = {
    "test_one.py": """
import pytest

def test_passes():
    pass

@pytest.mark.parametrize("number", [1, 2])
def test_browser(number):
    pytest.skip("no Chromium is installed (apt install chromium)")

@pytest.mark.skipif(True, reason="no GPU")
def test_gpu():
    pass
""",
    "test_two.py": """
import pytest

pytest.importorskip("no_such_package", reason="it's not installed: pip install it")
""",
    "test_three.py": """
import pytest

def test_package():
    pytest.importorskip("no_such_package")
""",
}


def test_reasons_are_counted(tmp_path: Path) -> None:
    for name, content in _FILES.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    report = tmp_path / "tests.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--junitxml", str(report), str(tmp_path)]
    no_plugins = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # loading them takes longer than the tests
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, env=no_plugins)
    assert _printed(report).splitlines() == [
        "5 tests or files of tests were skipped:",
        "     2 no Chromium is installed (apt install chromium)",
        "     1 could not import 'no_such_package': No module named 'no_such_package': a package that `make` installs",
        "     1 it's not installed: pip install it",
        "     1 no GPU",
    ]


def test_before_the_first_run_it_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as raised:
        _printed(tmp_path / "tests.xml")
    assert raised.value.output == f"{tmp_path / 'tests.xml'} does not exist: run `make test` first\n"


def test_reasons_say_how_to_install_what_is_absent() -> None:
    found = [
        text
        for path in _TESTS.rglob("*.py")
        if path != Path(__file__).resolve() and "installed" in (content := path.read_text(encoding="utf-8"))
        for text in _reasons(ast.parse(content))
        if re.search(r"\b(is|are) (not )?installed", text)
    ]
    assert len(found) > 10
    assert [text for text in found if not re.search(r"\b(apt|pip) install ", text)] == []


def _reasons(tree: ast.Module) -> list[str]:
    """Returns the arguments of calls of `skip`, and of `reason=`, that are strings; what an f-string fills in is {}."""
    nodes: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            nodes += [keyword.value for keyword in node.keywords if keyword.arg == "reason"]
            nodes += node.args[:1] if isinstance(node.func, ast.Attribute) and node.func.attr == "skip" else []
    return [
        "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in _parts(node)) for node in nodes
    ]


def _parts(node: ast.AST) -> list[ast.AST]:
    return list(node.values) if isinstance(node, ast.JoinedStr) else [node]


def _printed(report: Path) -> str:
    command = [sys.executable, str(_TESTS / "skipped.py"), str(report)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
