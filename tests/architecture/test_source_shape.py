"""What keeps the source readable: modules named for what they hold, of a size to read, without private paths."""

import ast
import re
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).resolve().parents[2]
_SOURCE = _REPOSITORY / "src" / "transduce"
_MODULES = sorted(_SOURCE.rglob("*.py"))
_NAMELESS = {"util", "utils", "helper", "helpers", "common", "misc", "base", "core", "stuff"}
_MAX_MODULE_LINES = 350
_MAX_FUNCTION_LINES = 60
_TEXT_SUFFIXES = {".py", ".md", ".toml", ".txt", ".json", ".cfg", ".yml", ".yaml", ""}
_ABSOLUTE_PATH = re.compile(r"(?<![\w.~/:-])/(?:home|root|Users|work|mnt)/\w")


def name_of(path: Path) -> str:
    """Returns a short name for a test's parameters."""
    return str(path.relative_to(_SOURCE))


def project_files() -> list[Path]:
    """Returns the text files of the project, without what tools left behind."""
    tops = ["src", "tests", "docs", "recipes", "benchmarks", "experiments", ".ci"]
    files = [path for top in tops for path in (_REPOSITORY / top).rglob("*") if path.is_file()]
    files += [path for path in _REPOSITORY.iterdir() if path.is_file() and not path.name.startswith(".")]
    return [path for path in files if path.suffix in _TEXT_SUFFIXES and "__pycache__" not in path.parts]


def test_modules_are_named_for_what_they_hold() -> None:
    assert not [path for path in _MODULES if path.stem in _NAMELESS or path.parent.name in _NAMELESS]


@pytest.mark.parametrize("path", _MODULES, ids=name_of)
def test_module_is_explained_and_of_a_size_to_read(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert ast.get_docstring(tree), f"{path}: no docstring says what the module holds"
    assert text.count("\n") <= _MAX_MODULE_LINES, f"{path}: look for the second idea in it"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
            length = (node.end_lineno or first.lineno) - first.lineno + 1
            assert length <= _MAX_FUNCTION_LINES, f"{path}:{node.lineno}: {node.name} has {length} lines"


def test_nothing_is_unpickled() -> None:
    """A model file must not run code: the only loader is for weights only, and pickle names its error.

    Worker processes and the training that started them talk in pickles, over pipes that nobody else has an end of.
    """
    pipes = {"data/modifiers/worker.py", "data/modifiers/workers.py"}
    modules = r"pickle|joblib|dill|marshal"
    calls = r"torch\.load\(|np\.load\(|pickle\.(?!UnpicklingError)\w|marshal\.load"
    dangerous = re.compile(rf"(?:\b(?:import|from) (?:{modules})\b|\b(?:{calls})).*")
    found = {name_of(path): dangerous.findall(path.read_text(encoding="utf-8")) for path in _MODULES}
    assert {name: lines for name, lines in found.items() if lines and name not in pipes} == {
        "export/checkpoint_files.py": ["import pickle", 'torch.load(file, map_location="cpu", weights_only=True)']
    }


def test_no_file_names_a_folder_of_somebodys_machine() -> None:
    assert _ABSOLUTE_PATH.search("see /" + "home/me/corpus")
    found = [
        f"{path.relative_to(_REPOSITORY)}: {match[0]}"
        for path in project_files()
        for match in _ABSOLUTE_PATH.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not found
