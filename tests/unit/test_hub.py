"""What `transduce import` takes for a path or for a name of the Hugging Face Hub, and what it needs of a repository."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from transduce.errors import BundleError, MissingDependencyError, install_command
from transduce.export.hub import find_origin, needed_files

NAME = "owner/opus-mt-en-de"
MARIAN = ["config.json", "source.spm", "target.spm", "vocab.json"]


@pytest.mark.parametrize(
    ("names", "needed"),
    [
        (
            ["tf_model.h5", "pytorch_model.bin", "model.safetensors", "flax_model.msgpack", "rust_model.ot", *MARIAN],
            [*MARIAN, "model.safetensors"],
        ),
        (
            ["pytorch_model.bin", "optimizer.pt", "training_args.bin", "metadata.json", *MARIAN],
            [*MARIAN, "pytorch_model.bin"],
        ),
        (
            [
                *("model-00002-of-00002.safetensors", "model-00001-of-00002.safetensors"),
                *("model.safetensors.index.json", "pytorch_model-00001-of-00001.bin", "pytorch_model.bin.index.json"),
                *("config.json", "sentencepiece.bpe.model", "generation_config.json", "tokenizer.json"),
            ],
            [
                *("config.json", "generation_config.json", "sentencepiece.bpe.model", "tokenizer.json"),
                *("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"),
                "model.safetensors.index.json",
            ],
        ),
        (
            ["pytorch_model.bin.index.json", "pytorch_model-00001-of-00001.bin", "config.json"],
            ["config.json", "pytorch_model-00001-of-00001.bin", "pytorch_model.bin.index.json"],
        ),
        (
            [
                "model.bin",
                "config.json",
                "shared_vocabulary.json",
                "source.spm",
                "vmap.txt",
                "LICENSE.txt",
                ".gitattributes",
            ],
            ["LICENSE.txt", "config.json", "shared_vocabulary.json", "source.spm", "vmap.txt", "model.bin"],
        ),
        (
            ["config.json", "model.safetensors", "../evil.spm", "..\\evil.spm", "/etc/evil.model", "onnx/vocab.json"],
            ["config.json", "model.safetensors"],
        ),
        (
            ["model.safetensors.index.json", "model-00001-of-00001.safetensors", "config.json", "model.safetensors"],
            ["config.json", "model.safetensors"],
        ),
        (
            ["config.json", "model.safetensors", "modeling_x.py", "tokenization_x.py"],
            ["config.json", "tokenization_x.py", "model.safetensors"],
        ),
        (["config.json", "source.spm", "tf_model.h5"], []),
    ],
    ids=[
        "safetensors first",
        "pickle",
        "shards",
        "shards of pickles",
        "CTranslate2",
        "outside",
        "both forms",
        "program",
        "no weights",
    ],
)
def test_only_what_an_import_reads_is_needed(names: list[str], needed: list[str]) -> None:
    assert needed_files(names) == needed


def test_a_path_that_exists_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "owner" / "model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    found = find_origin("owner/model")
    assert (found.path, found.name, found.recorded) == (Path("owner/model"), "model", "owner/model")
    assert find_origin(found) is found


@pytest.mark.parametrize("text", ["model", "a/b/c", "../b", "/no/such", "a--b/c", "a/b..c", "a/b@", "a/b c", "a/b/"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(BundleError) as caught:
        find_origin(text)
    assert str(caught.value) == (
        f"{text}: no such file or folder, and no name of a model on the Hugging Face Hub, which is OWNER/NAME or "
        "OWNER/NAME@REVISION."
    )


def test_without_the_extra_its_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def without(name: str, *rest: Any) -> Any:
        return None if name == "huggingface_hub" else real(name, *rest)

    monkeypatch.setattr("transduce.export.hub.find_spec", without)
    with pytest.raises(MissingDependencyError) as caught:
        find_origin(NAME)
    assert str(caught.value) == (
        f"{NAME}: no such file or folder. To download a model of this name: {install_command('hub')}"
    )
