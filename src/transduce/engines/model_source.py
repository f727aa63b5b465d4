"""Whether the source of `transduce.model` is the one that the conversions, which reimplement it, were written for.

`ctranslate2_model` writes an activation, a scale and norms that the format names; it never reads `model/`, and neither
do the exports to other formats. If a layer is changed there, a converted model still computes what the layer was
before. So the source has a known digest, and a changed one is neither converted nor exported: see
docs/guides/changing-the-model.md.
"""

import ast
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

# The source that `ctranslate2_model` and the exports were written for. A test says what to write here
# after a change. TEXT, of the files as they are, is compared first, because that is a hundred times as fast.
SYNTAX = "256ddbb165a955700c723373e8d50bd1fa8495cadaafdd1ea96e3d52371f8b8c"
TEXT = "900c6be87a17f9ae9ad55f468502922632eb229ac296b075096a9d8467d30b3b"

CHANGED = "the source of transduce.model was changed (docs/guides/changing-the-model.md)"
_FOLDER = Path(__file__).parents[1] / "model"
# They run, record, count or show what the others define.
_NOT_PART = ("__init__", "attention_maps", "cuda_graphs", "device", "flops", "inference_weights", "spans")


@cache
def is_known() -> bool:
    """Returns whether the source of the model is the known one; comments, docstrings and layout do not matter."""
    sources = read_sources(_FOLDER)  # none in an installation of compiled files only, which nobody has changed
    return not sources or text_digest(sources) == TEXT or syntax_digest(sources) == SYNTAX


def read_sources(folder: Path) -> dict[str, bytes]:
    """Returns the files that define what a model computes, by name; needs no torch."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.py")) if path.stem not in _NOT_PART}


def text_digest(sources: dict[str, bytes]) -> str:
    """Returns a digest of the files as they are."""
    return hashlib.sha256(b"".join(name.encode() + text for name, text in sources.items())).hexdigest()


def syntax_digest(sources: Mapping[str, bytes | ast.Module]) -> str:
    """Returns a digest of programs, as text or parsed: the syntax trees without docstrings."""
    trees = {name: source if isinstance(source, ast.Module) else ast.parse(source) for name, source in sources.items()}
    return hashlib.sha256("".join(name + _shown(tree) for name, tree in trees.items()).encode()).hexdigest()


def _shown(node: object) -> str:
    """Returns a syntax tree as text; unlike `ast.dump`, the same for every version of Python."""
    if isinstance(node, list):
        return f"[{','.join(map(_shown, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = []
    for name in node._fields:
        value = getattr(node, name, None)
        if value is None or value == [] or name == "kind":
            continue
        if (
            name == "body"
            and isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node, clean=False) is not None
        ):
            value = node.body[1:]
        fields.append(f"{name}={_shown(value)}")
    return f"{type(node).__name__}({','.join(fields)})"
