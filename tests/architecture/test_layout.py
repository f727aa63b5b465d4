"""The layout of docs/decisions/0007: few rooms, in layers, without cycles; what is added touches few files."""

import ast
import gc
import sys
import tomllib
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from made_models import made_bundle
from transduce.cli.main import main
from transduce.config import DecodeConfig
from transduce.config.choices import choices
from transduce.data.named_corpora import NAMED_CORPORA
from transduce.engines.capabilities import ENGINES
from transduce.model import attention

_REPOSITORY = Path(__file__).resolve().parents[2]
_SOURCE = _REPOSITORY / "src" / "transduce"
_FOLDERS = {
    "alignment",
    "augmentation",
    "cli",
    "config",
    "data",
    "decoding",
    "engines",
    "evaluation",
    "experiments",
    "export",
    "inspection",
    "model",
    "reporting",
    "text",
    "training",
    "translation",
    "treebank",
    "serve",
    "verification",
}
_MODULES = {"bundle", "errors", "files", "parser", "runs"}
_MAX_LAYERS = 12
_MAX_PARAMETERS = 8
_MAX_FILES_OF_A_DECODING_OPTION = 3
_MAX_FILES_OF_A_CORPUS = 2
_MAX_FRAMES_OF_A_LINE, _MAX_FILES_OF_A_LINE = 12, 8
_MAX_FRAMES_OF_A_BATCH, _MAX_FILES_OF_A_BATCH = 10, 7

# Where the values of a model's options are told apart: the schema, one function each, and the encodings themselves.
_KNOW_ALL_VALUES = {"config/schema.py", "config/choices.py", "model/positions.py"}
# Descriptions of other people's models: they have an option `positions` too, with values of its own.
_OTHER_DESCRIPTIONS = {"export/torch_description.py", "export/torch_reading.py", "export/torch_system.py"}


@cache
def trees() -> dict[Path, ast.Module]:
    """Returns the syntax tree of each module."""
    gc.disable()  # collections would go through all trees again and again, which takes longer than to read them
    try:
        return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(_SOURCE.rglob("*.py"))}
    finally:
        gc.enable()


@cache
def nodes_of(tree: ast.AST) -> list[ast.AST]:
    """Returns all nodes of a tree: several tests go through the same ones."""
    return [*ast.walk(tree)]


def name_of(path: Path) -> str:
    """Returns a module's path from the package's folder."""
    return str(path.relative_to(_SOURCE))


# --- rooms and layers -----------------------------------------------------------------------------------------


def test_the_package_has_the_rooms_of_the_design_and_no_others() -> None:
    folders = {path.name for path in _SOURCE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    modules = {path.stem for path in _SOURCE.glob("*.py") if not path.stem.startswith("__")}
    assert folders == _FOLDERS
    assert modules == _MODULES


def test_there_are_few_layers() -> None:
    settings = tomllib.loads((_REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    [layers] = [contract["layers"] for contract in settings["contracts"] if contract["type"] == "layers"]
    rooms = {room for layer in layers for room in layer.replace(":", "|").replace(" ", "").split("|")}
    assert rooms == _FOLDERS | _MODULES
    assert len(layers) <= _MAX_LAYERS


# --- cycles ---------------------------------------------------------------------------------------------------


def imports() -> dict[str, set[str]]:
    """Returns for each module the modules of ours that it imports anywhere, also where only types are checked."""
    modules = {}
    for path, tree in trees().items():
        parts = path.relative_to(_SOURCE).with_suffix("").parts
        modules[".".join(["transduce", *parts]).removesuffix(".__init__")] = tree
    found: dict[str, set[str]] = {name: set() for name in modules}
    for name, tree in modules.items():
        for node in nodes_of(tree):
            if isinstance(node, ast.Import):
                found[name] |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                found[name] |= {each if each in modules else node.module for each in inner}
        found[name] = (found[name] & modules.keys()) - {name}
    return found


def groups_of(graph: dict[str, set[str]]) -> Iterator[set[str]]:
    """Yields the groups of modules that reach each other."""
    reached = {name: reachable(graph, name) for name in graph}
    left = set(graph)
    while left:
        name = min(left)
        group = {other for other in reached[name] if name in reached[other]}
        if group:
            yield group
        left -= group | {name}


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = set(graph[start])
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= graph[name] - found
    return found


def test_a_cycle_is_found() -> None:
    assert list(groups_of({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}})) == [{"b", "c"}]


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = imports()
    assert graph["transduce.cli.main"] >= {"transduce.errors", "transduce.cli.failures"}
    assert list(groups_of(graph)) == []


# --- parameters -----------------------------------------------------------------------------------------------


@cache
def keys_of(typed_dict: str) -> set[str]:
    """Returns the keys of a typed dictionary of the package, those of its bases included."""
    for node in (node for tree in trees().values() for node in tree.body):
        if isinstance(node, ast.ClassDef) and node.name == typed_dict:
            own = {ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign)}
            bases = [base.id for base in node.bases if isinstance(base, ast.Name) and base.id != "TypedDict"]
            return own.union(*map(keys_of, bases))
    raise LookupError(typed_dict)


def num_keywords(given: ast.arg) -> int:
    """Returns as how many parameters `**name` counts: as the keys of its type, but for those that say how to search."""
    annotation = given.annotation
    if not isinstance(annotation, ast.Subscript) or ast.unparse(annotation.value) != "Unpack":
        return 1
    return max(1, len(keys_of(ast.unparse(annotation.slice)) - DecodeConfig.__dataclass_fields__.keys()))


def functions(node: ast.AST, prefix: str = "", *, of_class: bool = False) -> Iterator[tuple[str, int]]:
    """Yields name and number of parameters of each function in a module; `self` and `cls` do not count."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            given = child.args
            names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
            bound = of_class and names[:1] in (["self"], ["cls"])
            further = (given.vararg is not None) + (num_keywords(given.kwarg) if given.kwarg is not None else 0)
            yield prefix + child.name, len(names) + further - bound
            yield from functions(child, f"{prefix}{child.name}.")
        else:
            is_class = isinstance(child, ast.ClassDef)
            yield from functions(child, f"{prefix}{child.name}." if is_class else prefix, of_class=is_class)


# Version 0.1 promised their keywords, and one object in place of them would be no simpler for users.
_OF_0_1 = {
    "evaluation/evaluation.py: evaluate",  # 9
    "export/exports.py: export_model",  # 12: 7 are the fields of `Comparison`, which checks them
    "export/imports.py: import_huggingface",  # 9
    "export/imports.py: import_model",  # 10: those of `import_huggingface`, and the format
    "export/imports.py: import_torch",  # 11
    "translation/streams/cluster.py: ray_workers",  # 9: 6 are those of `Translator.load`
    "verification/run.py: verify",  # 9
}


def test_no_function_has_many_parameters() -> None:
    counts = {f"{name_of(path)}: {name}": count for path, tree in trees().items() for name, count in functions(tree)}
    many = {name for name, count in counts.items() if count > _MAX_PARAMETERS}
    assert many == _OF_0_1, "look for what belongs together, and give it a name"


# --- what has to change for something new ---------------------------------------------------------------------


def compared(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yields attribute and text for each comparison of the one with the other, `in` and `match` included."""
    for node in nodes_of(tree):
        sides: list[ast.AST]
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.Match):
            sides = [node.subject, *(case.pattern for case in node.cases)]
        else:
            continue
        texts = [each.value for side in sides for each in ast.walk(side) if isinstance(each, ast.Constant)]
        for side in sides:
            if isinstance(side, ast.Attribute):
                yield from ((side.attr, text) for text in texts if isinstance(text, str))


def test_the_values_of_a_models_options_are_told_apart_in_one_place() -> None:
    """So that a new value, such as a third position encoding, is treated as another nowhere."""
    wrong = {
        (name_of(path), key, text)
        for path, tree in trees().items()
        for key, text in compared(tree)
        if text in choices().get(key, ()) and name_of(path) not in _KNOW_ALL_VALUES | _OTHER_DESCRIPTIONS
    }
    assert not wrong, "call a function of config/choices.py"


@pytest.mark.parametrize(
    "code", ['c.norm == "pre"', 'm.norm in ("pre", "post")', 'match m.norm:\n    case "pre":\n        pass']
)
def test_a_comparison_with_a_value_is_noticed(code: str) -> None:
    assert ("norm", "pre") in set(compared(ast.parse(code)))


class Words(NamedTuple):
    """What a module says."""

    identifiers: set[str]  # names, attributes and parameters
    texts: set[str]


@cache
def words() -> dict[str, Words]:
    """Returns what each module says."""
    found = {name_of(path): Words(set(), set()) for path in trees()}
    for path, tree in trees().items():
        of_module = found[name_of(path)]
        for node in nodes_of(tree):
            if isinstance(node, ast.Constant):
                if isinstance(node.value, str):
                    of_module.texts.add(node.value)
            else:
                names = (getattr(node, kind, None) for kind in ("attr", "arg", "id"))
                of_module.identifiers.update(name for name in names if name is not None)
    return found


@pytest.mark.parametrize("option", ["coverage_penalty", "top_k", "top_p"])
def test_a_decoding_option_touches_few_files(option: str) -> None:
    """The schema, what the engines can do, and the search that has it: no more."""
    files = {
        name
        for name, (identifiers, texts) in words().items()
        if option in identifiers or any(option in text.split() for text in texts)
    }
    assert "config/schema.py" in files
    assert len(files) <= _MAX_FILES_OF_A_DECODING_OPTION, sorted(files)


def test_an_optimiser_touches_two_files() -> None:
    """The schema, which has its numbers, and the file that makes it and knows what it keeps."""
    names = {"exp_avg", "adam_epsilon"}
    files = {name for name, (identifiers, texts) in words().items() if names & (identifiers | texts)}
    assert files == {"config/schema.py", "training/optimizer.py"}


def engines_asked_for(tree: ast.AST) -> set[str]:
    """Returns the names of engines that something is compared with."""
    compared = [node for node in nodes_of(tree) if isinstance(node, ast.Compare)]
    constants = [side for node in compared for side in (node.left, *node.comparators) if isinstance(side, ast.Constant)]
    return {constant.value for constant in constants if constant.value in ENGINES}


def test_only_engines_know_the_name_of_an_engine() -> None:
    """So that a new one touches three files: its own, what engines can do, and how they are loaded."""
    assert engines_asked_for(ast.parse('choice.name == "torch"')) == {"torch"}
    rooms = {path.relative_to(_SOURCE).parts[0] for path, tree in trees().items() if engines_asked_for(tree)}
    assert rooms <= {"engines", "export"}, "ask its capabilities; an export's format may have an engine's name"


@pytest.mark.parametrize("name", NAMED_CORPORA)
def test_a_named_corpus_touches_few_files(name: str) -> None:
    """Its entry, and an experiment that uses it."""
    found = {module for module, (_, texts) in words().items() if name in texts}
    assert "data/named_corpora.py" in found
    assert len(found) <= _MAX_FILES_OF_A_CORPUS, sorted(found)


# --- the ways of a line and of a batch ------------------------------------------------------------------------


def ways_to_attention(monkeypatch: pytest.MonkeyPatch) -> list[list[tuple[str, str]]]:
    """Returns a list that gets, for each call of `attend`, file and function of each frame of the package up to it."""
    ways: list[list[tuple[str, str]]] = []
    attend = attention.attend

    def recorded(*args: Any, **named: Any) -> Any:
        frames = [frame for frame, _ in traceback.walk_stack(sys._getframe(1))]
        files = [(Path(frame.f_code.co_filename), frame.f_code.co_qualname) for frame in reversed(frames)]
        way = [(name_of(file), function) for file, function in files if file.is_relative_to(_SOURCE)]
        ways.append([*way, ("model/attention.py", "attend")])
        return attend(*args, **named)

    monkeypatch.setattr(attention, "attend", recorded)
    return ways


def test_a_line_reaches_attention_in_few_frames_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the command line to the first call of attention, with the torch engine, without CUDA graphs."""
    ways = ways_to_attention(monkeypatch)
    made_bundle(tmp_path / "model")
    (tmp_path / "source").write_text("A dog runs.\n", encoding="utf-8")
    paths = [str(tmp_path / name) for name in ("model", "source", "output")]
    arguments = ["--source", paths[1], "--output", paths[2], "--engine", "torch", "--device", "cpu"]
    assert main(["translate", paths[0], *arguments]) == 0
    way = ways[0]
    assert way[:2] == [("cli/main.py", "main"), ("cli/translate.py", "run")]
    assert len(way) <= _MAX_FRAMES_OF_A_LINE, way
    assert len({file for file, _ in way}) <= _MAX_FILES_OF_A_LINE, way


@pytest.mark.computes
def test_a_training_batch_reaches_attention_in_few_frames_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for language in ("en", "de"):
        lines = "".join(f"{word} {word}s on a hill\n" for word in ("dog", "man", "ball", "cat"))
        (tmp_path / f"train.{language}").write_text(lines, encoding="utf-8")
    data = '[data]\nfolder = "."\ntrain = [["train.en", "train.de"]]\nvalidation = []\n'
    (tmp_path / "recipe.toml").write_text(f'preset = "tiny"\n{data}', encoding="utf-8")
    ways = ways_to_attention(monkeypatch)
    settings = ["train.max_steps=1", "text.vocab_size=280", "train.device=cpu"]
    given = [word for setting in settings for word in ("--set", setting)]
    arguments = [str(tmp_path / "recipe.toml"), "--output", str(tmp_path / "run"), "--quiet"]
    assert main(["train", *arguments, *given]) == 0
    assert {tuple(function for _, function in way[-3:-1]) for way in ways} == {
        ("EncoderLayer.forward", "SelfAttention.forward"),
        ("DecoderLayer.forward", "SelfAttention.forward"),
        ("DecoderLayer.forward", "CrossAttention.forward"),
    }
    trials, searches = (
        [way for way in ways if any(file == name for file, _ in way)]
        for name in ("training/memory_trial.py", "engines/head_search.py")  # before the updates, and after them
    )
    assert trials
    assert searches
    updates = [way for way in ways if way not in trials and way not in searches]
    assert updates
    for way in updates:
        assert way[:2] == [("cli/main.py", "main"), ("cli/train.py", "run")]
        assert len(way) <= _MAX_FRAMES_OF_A_BATCH, way
        assert len({file for file, _ in way}) <= _MAX_FILES_OF_A_BATCH, way
