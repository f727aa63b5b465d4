"""How a converted model is opened: on which device, in which numbers, with how many threads."""

from pathlib import Path
from typing import Any

import pytest

from transduce.engines import ctranslate2_loading as loading
from transduce.errors import BundleError, ConfigError


@pytest.mark.parametrize(
    ("count", "name", "expected"),
    [
        (0, "auto", ("cpu", 0)),
        (2, "auto", ("cuda", 0)),
        (2, "cpu", ("cpu", 0)),
        (2, "cuda", ("cuda", 0)),
        (2, "cuda:1", ("cuda", 1)),
        (2, "cuda:2", "CTranslate2 finds 2 GPUs"),
        (0, "cuda", "CTranslate2 finds 0 GPUs"),
        (2, "cuda:x", "cannot be used by CTranslate2"),
        (2, "mps", "cannot be used by CTranslate2"),
    ],
)
def test_the_device(monkeypatch: pytest.MonkeyPatch, count: int, name: str, expected: Any) -> None:
    monkeypatch.setattr("ctranslate2.get_cuda_device_count", lambda: count)
    if isinstance(expected, tuple):
        assert loading.choose_device(name) == expected
    else:
        with pytest.raises(ConfigError, match=expected):
            loading.choose_device(name)


def test_the_numbers_are_those_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def able(kind: str, index: int) -> set[str]:
        return {"float32", "int8_float32", "int8"} | ({"float16"} if (kind, index) == ("cuda", 1) else set())

    monkeypatch.setattr("ctranslate2.get_supported_compute_types", able)
    assert loading.compute_type("int8", "cpu", 0) == "int8_float32", "the rest is float32 on every machine"
    assert loading.compute_type("float32", "cpu", 0) == "float32"
    assert loading.compute_type("float16", "cuda", 1) == "float16"
    with pytest.raises(ConfigError, match="quantization 'float16': this cuda cannot"):
        loading.compute_type("float16", "cuda", 0)


class Computes:
    """A model on a GPU, whose libraries may be missing; the message is CTranslate2's own."""

    def __init__(self, missing: str = "") -> None:
        self.missing, self.tried = missing, 0

    def translate_batch(self, sources: list[list[str]], **options: Any) -> None:
        self.tried += 1
        if self.missing:
            raise RuntimeError(f"Library {self.missing} is not found or cannot be loaded")


def test_missing_libraries_of_a_gpu_are_found_when_a_model_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Computes("libcublas.so.12")
    monkeypatch.setattr("ctranslate2.Translator", lambda path, **options: model)
    with pytest.raises(
        ConfigError, match=r"Library libcublas\.so\.12 is not found .* use --engine torch, or --device cpu"
    ):
        loading.load_model(Path("folder"), "cuda", 0, "float32", 1)
    assert loading.load_model(Path("folder"), "cpu", 0, "float32", 1) is model
    assert model.tried == 1  # on a CPU nothing is tried


@pytest.mark.parametrize(
    ("kind", "cores", "threads", "inter", "queued"),
    [("cpu", 4, None, 4, 4), ("cpu", 64, None, 8, 8), ("cpu", 64, 12, 12, 12), ("cuda", 4, 3, 1, 3)],
)
def test_threads_are_one_a_batch(
    monkeypatch: pytest.MonkeyPatch, kind: str, cores: int, threads: int | None, inter: int, queued: int
) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr("ctranslate2.Translator", lambda path, **options: seen.update(options, path=path) or Computes())
    monkeypatch.setattr(loading, "num_cores", lambda: cores)
    loading.load_model(Path("folder"), kind, 2, "int8_float32", threads)
    assert seen == {
        "path": "folder",
        "files": None,
        "device": kind,
        "device_index": 2,
        "compute_type": "int8_float32",
        "inter_threads": inter,
        "intra_threads": 1,
        "max_queued_batches": queued,
    }
    files: Any = {"model.bin": None}
    loading.load_model(files, kind, 0, "float32", 1)
    assert (seen["path"], seen["files"]) == ("model", files)


def test_what_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"CTranslate2 cannot load it: .*Delete this folder"):
        loading.load_model(tmp_path, "cpu", 0, "float32", 1)
    with pytest.raises(BundleError, match="cannot load the converted model"):
        loading.load_model({}, "cpu", 0, "float32", 1)
