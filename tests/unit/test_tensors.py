"""safetensors files: read as the library reads them, and refused in one line where a header lies."""

import contextlib
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from transduce.config.tensors import read_header, read_tensors, read_weights, write_tensors
from transduce.errors import BundleError
from transduce.files import sha256

HEADER = {
    "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "b": {"dtype": "I32", "shape": [], "data_offsets": [24, 28]},
}


def write(path: Path, header: Any, num_bytes: int = 28, length: int | None = None) -> Path:
    """Writes a file with this header (a value, or its text), and `length` as its header's length."""
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + bytes(num_bytes))
    return path


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64])
def test_reads_what_the_library_writes(tmp_path: Path, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    tensors = {
        name: (torch.randn(shape, generator=generator) * 50).to(dtype)
        for name, shape in {"a": (3, 4), "b": (), "c": (0, 5), "d": (7,)}.items()
    }
    save_file(tensors, tmp_path / "x", {"format": "pt"})
    found, metadata = read_tensors(tmp_path / "x")
    weights = read_weights(tmp_path / "x")
    assert metadata == {"format": "pt"}
    assert found.keys() == weights.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].shape == tuple(tensor.shape)
        np.testing.assert_array_equal(found[name], tensor.float() if dtype == torch.bfloat16 else tensor)
        assert weights[name].dtype == np.float32
        np.testing.assert_array_equal(weights[name], tensor.float())


def test_writes_the_bytes_that_the_library_writes(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    tensors = {
        "ü.b": torch.randn(3, 4, generator=generator),
        "a": torch.randn(5, generator=generator, dtype=torch.float64),
        "step": torch.tensor(7.0),
        "none": torch.zeros(0, 5),
        "large": torch.randn(1100, 1200, generator=generator),  # more than a piece
    }
    save_file(tensors, tmp_path / "theirs")
    pieces: list[None] = []
    digest = write_tensors(
        tmp_path / "ours", {name: tensor.numpy() for name, tensor in tensors.items()}, lambda: pieces.append(None)
    )
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert digest == sha256(tmp_path / "ours")
    assert len(pieces) == 5


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_not_written(tmp_path: Path, wrong: float) -> None:
    tensors = {"a": np.ones(4, np.float32), "b": np.array([1.0, wrong], np.float32)}
    with pytest.raises(BundleError, match=r"^b is not finite"):
        write_tensors(tmp_path / "x", tensors, lambda: None)


def test_what_only_float64_holds_is_not_finite_here(tmp_path: Path) -> None:
    save_file({"big": torch.tensor([1.0, 1e300], dtype=torch.float64)}, tmp_path / "x")
    with pytest.raises(BundleError, match="x: big: 1 of 2 numbers are infinite or NaN"):
        read_weights(tmp_path / "x")


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.int8, torch.uint8, torch.bool, torch.int16])
def test_other_types_are_named(tmp_path: Path, dtype: torch.dtype) -> None:
    save_file({"odd": torch.zeros(4).to(dtype)}, tmp_path / "x")
    with pytest.raises(BundleError, match=r"x: tensor 'odd' has type \w+; supported are F64.* Save it as F32\."):
        read_header(tmp_path / "x")


def changed(name: str, **changes: Any) -> dict[str, Any]:
    return HEADER | {name: HEADER[name] | changes}


def test_a_name_that_comes_twice_among_many_is_found_soon(tmp_path: Path) -> None:
    """A header may have a million names. In quadratic time, these 50,000 took more than a minute."""
    header = "{" + "".join(f'"{number}":0,' for number in range(50_000)) + '"49999":0}'
    before = time.process_time()
    with pytest.raises(BundleError, match="'49999' twice"):
        read_header(write(tmp_path / "x", header))
    assert time.process_time() - before < 15, "processor seconds: the machine may be busy"


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("", "Expecting value"),
        ("[" * 100_000, "recursion"),
        ("[]", "no table"),
        ('{"a": ' + "9" * 5000 + "}", "digits"),
        ('{"a": 1, "a": 2}', "'a' twice"),
        ({"__metadata__": {"a": 1}}, "metadata"),
        ({"a": 3}, "does not say what tensor 'a' is"),
        ({"a": {"dtype": "F32"}}, "does not say what tensor 'a' is"),
        (changed("a", shape=[2, -3]), "impossible"),
        (changed("a", shape=[2, 3.0]), "impossible"),
        (changed("a", shape=[True, 6]), "impossible"),
        (changed("a", shape=[2**70, 0]), "impossible"),
        (changed("a", shape=[1] * 9), "impossible"),
        (changed("a", data_offsets=[0, 24, 28]), "impossible"),
        (changed("a", shape=[2**40, 2**40]), "not its size"),
        (changed("a", data_offsets=[0, 20]), "not its size"),
        (changed("a", data_offsets=[4, 28]), "begins at byte"),
        (changed("b", data_offsets=[20, 24]), "begins at byte"),
        (changed("b", data_offsets=[2**61, 2**61 + 4]), "begins at byte"),
        ({"a": HEADER["a"]}, "its tensors end at byte"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_headers_that_lie(tmp_path: Path, header: Any, said: str) -> None:
    with pytest.raises(BundleError, match=rf"x: cannot be read: .*{said}.* The file is damaged or cut short\."):
        read_tensors(write(tmp_path / "x", header))


@pytest.mark.parametrize("length", [0, 5, 10**6, 2**40, 2**64 - 1])
def test_the_length_of_a_header_is_no_promise(tmp_path: Path, length: int) -> None:
    with pytest.raises(BundleError, match="x: cannot be read"):
        read_header(write(tmp_path / "x", HEADER, length=length))


def test_a_file_of_another_format(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent", write(tmp_path / "short", "", 0)):
        with pytest.raises(BundleError, match="cannot be read"):
            read_header(path)


@given(st.data())
def test_bytes_changed_at_random_are_read_whole_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = write(tmp_path_factory.mktemp("random") / "x", HEADER)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    with contextlib.suppress(BundleError):  # and nothing else
        arrays, _ = read_tensors(path)
        assert sum(array.nbytes for array in arrays.values()) <= len(content)
        assert all(math.prod(array.shape) == array.size for array in arrays.values())
