"""A conversion is for the model's source that it was written for, and is not used with another one."""

import ast
from pathlib import Path

import pytest

from made_models import made_bundle
from transduce.engines import model_source
from transduce.engines.ctranslate2_cache import converted
from transduce.engines.loading import choose_engine
from transduce.engines.model_source import SYNTAX, TEXT, read_sources, syntax_digest, text_digest
from transduce.errors import ConfigError, ExportError
from transduce.export.exports import FORMATS, export_model

MODEL = Path(model_source.__file__).parents[1] / "model"
SOURCES = read_sources(MODEL)


def test_the_known_source_is_the_models() -> None:
    """What to do where this fails: docs/guides/changing-the-model.md, "What has to follow"."""
    follows = "Do the conversions still compute what the model does? Then write this into engines/model_source.py: "
    assert syntax_digest(SOURCES) == SYNTAX, f'{follows}SYNTAX = "{syntax_digest(SOURCES)}"'
    assert text_digest(SOURCES) == TEXT, f'engines/model_source.py: TEXT = "{text_digest(SOURCES)}"'


def test_every_file_that_the_model_imports_from_its_folder_is_part_of_its_source() -> None:
    """Modules that a part of the model imports when it is loaded: none may be left out."""
    imported = {
        f"{node.module.removeprefix('transduce.model.')}.py"
        for text in SOURCES.values()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("transduce.model.")
    }
    assert imported - set(SOURCES) == {"device.py", "flops.py"}  # which send a tensor to a device, and count
    assert {"attention.py", "layers.py", "positions.py", "transformer.py"} <= set(SOURCES)


@pytest.mark.parametrize(
    ("name", "old", "new", "same"),
    [
        ("layers.py", b"import functional as F", b"import functional as G", False),
        ("attention.py", b"import math", b"import math  # for the square root", True),
        ("layers.py", b'"""Returns the input of the sub-layer."""', b'"""Returns what the sub-layer reads."""', True),
        ("layers.py", b"x = x + dropout(", b"x = (x +\n            dropout)(", False),
        ("layers.py", b"self.norm(x) if self.pre else x", b"(self.norm(x)\n            if self.pre else x)", True),
        ("layers.py", b"if self.pre else x", b"if not self.pre else x", False),
        ("transformer.py", b"import math\n", b"import math\n\n\n", True),
    ],
)
def test_what_changes_the_program_changes_the_digest(name: str, old: bytes, new: bytes, same: bool) -> None:
    changed = SOURCES | {name: SOURCES[name].replace(old, new)}
    assert changed != SOURCES
    assert text_digest(changed) != text_digest(SOURCES)
    assert (syntax_digest(changed) == syntax_digest(SOURCES)) is same


def test_a_changed_model_is_not_converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = made_bundle(tmp_path / "model")
    before = choose_engine(device="cpu", model=bundle.config.model)
    assert (before.name, before.fallback) == ("ctranslate2", "torch")
    made = converted(bundle, "float32")

    source = tmp_path / "source"
    source.mkdir()
    for name, text in SOURCES.items():
        (source / name).write_bytes(text + b"\nADDED = 1\n")
    monkeypatch.setattr(model_source, "_FOLDER", source)
    model_source.is_known.cache_clear()
    monkeypatch.setattr(model_source, "is_known", model_source.is_known.__wrapped__)
    after = choose_engine(device="cpu", model=bundle.config.model)
    assert (after.name, after.fallback) == ("torch", "")
    assert "the source of transduce.model was changed" in after.reason
    for refused in (lambda: choose_engine("ctranslate2", device="cpu"), lambda: converted(bundle, "float32")):
        with pytest.raises(ConfigError, match=r"the source of transduce\.model was changed.*--engine torch"):
            refused()

    # The conversions follow: they are made again.
    monkeypatch.setattr(model_source, "SYNTAX", syntax_digest(read_sources(source)))
    again = converted(bundle, "float32")
    assert None not in (made, again)
    assert made != again
    assert choose_engine(device="cpu", model=bundle.config.model).name == "ctranslate2"


@pytest.mark.parametrize("format", FORMATS)
def test_a_changed_model_is_exported_to_no_format(format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = made_bundle(tmp_path / "model")
    monkeypatch.setattr(model_source, "is_known", lambda: False)
    with pytest.raises(ExportError, match=rf"the source of transduce\.model was changed.* export to {format} computes"):
        export_model(bundle.path, tmp_path / "export", format, force=True)
    assert not (tmp_path / "export").exists()
