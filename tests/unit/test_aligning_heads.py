"""The heads that align words: sources to try them on, their new order in the weights, and their file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fake_tokenizer import FakeTokenizer
from made_models import made_bundle, made_tokenizer
from transduce import files
from transduce.bundle import Bundle
from transduce.config import ModelConfig
from transduce.config.aligning_heads import AligningHeads
from transduce.engines.aligning_heads import with_heads_first
from transduce.engines.head_search import sample_sources
from transduce.errors import BundleError

_SHAPE: dict[str, Any] = {"vocab_size": 40, "d_model": 6, "num_heads": 3, "d_k": 2, "d_v": 4}


@pytest.mark.parametrize(
    ("changes", "length"),
    [({}, 12), ({"positions": "learned", "max_positions": 9}, 8), ({"positions": "learned", "max_positions": 50}, 12)],
)
def test_sources_are_ordinary_pieces(changes: dict[str, Any], length: int) -> None:
    tokenizer = made_tokenizer()
    found = np.array(sample_sources(ModelConfig(**_SHAPE | {"vocab_size": tokenizer.vocab_size} | changes), tokenizer))
    assert found.shape == (16, length)
    words = [i for i, piece in enumerate(tokenizer.tokens()) if piece[0] == "Ġ" and piece[1:].isalpha()]
    # Source i takes its words in steps of 7919, modulo their number.
    assert found[0, :3].tolist() == [words[step * 7919 % len(words)] for step in range(3)]
    assert set(found.ravel()) <= set(words)


def test_sources_of_a_vocabulary_without_words_are_of_any_pieces_but_the_special_ones() -> None:
    # Of the first 40 pieces, none is a word.
    tokenizer: Any = FakeTokenizer(vocab_size=40, piece_bytes=made_tokenizer().piece_bytes)
    found = np.array(sample_sources(ModelConfig(**_SHAPE), tokenizer))
    # Without special ids there are 36 pieces, and 7919 = 219 × 36 + 35: each is the one before the last.
    assert found[0, :4].tolist() == [4, 39, 38, 37]


def test_a_folder_keeps_its_heads_under_a_checksum(tmp_path: Path) -> None:
    heads = AligningHeads(1, (1, 0))
    bundle = made_bundle(tmp_path / "model", heads=heads)
    assert bundle.aligning_heads == heads
    file = bundle.path / "alignment.json"
    assert json.loads(file.read_text()) == {"layer": 2, "heads": [2, 1]}
    bundle.verify()
    file.write_text(file.read_text().replace("2", "1", 1))
    for check in (lambda: Bundle.load(bundle.path).aligning_heads, Bundle.load(bundle.path).verify):
        with pytest.raises(BundleError, match=r"alignment\.json: changed or damaged"):
            check()
    file.unlink()
    with pytest.raises(BundleError, match=r"alignment\.json: missing, though config\.json has its checksum"):
        _ = Bundle.load(bundle.path).aligning_heads
    assert made_bundle(tmp_path / "other").aligning_heads is None


@pytest.mark.parametrize(
    "values",
    [{"layer": 3, "heads": [1]}, {"layer": 0, "heads": [1]}, {"layer": 1, "heads": [3]}, {"layer": 1, "heads": []},
     {"layer": 1}, {"layer": "x", "heads": [1]}, {"layer": 1, "heads": [0]}],
)  # fmt: skip
def test_heads_of_another_model_are_refused(values: dict[str, Any], tmp_path: Path) -> None:
    bundle = made_bundle(tmp_path / "model", heads=AligningHeads(0, (0,)))
    file = bundle.path / "alignment.json"
    file.write_text(json.dumps(values))
    config = json.loads((bundle.path / "config.json").read_text())
    config["sha256"]["alignment.json"] = files.sha256(file)
    (bundle.path / "config.json").write_text(json.dumps(config))
    with pytest.raises(BundleError, match=r"alignment\.json: "):
        _ = Bundle.load(bundle.path).aligning_heads


@pytest.mark.parametrize("bias", [False, True])
def test_heads_move_with_all_their_numbers(bias: bool) -> None:
    """Each number says whose it is: 100 × the head + 10 × the kind + the row within the head."""
    config = ModelConfig(**_SHAPE, attention_bias=bias)

    def rows(kind: int, width: int, order: tuple[int, ...] = (0, 1, 2)) -> np.ndarray:
        return np.array([100.0 * head + 10 * kind + row for head in order for row in range(width)])

    def made(order: tuple[int, ...]) -> dict[str, np.ndarray]:
        key_value = np.concatenate([rows(2, 2, order), rows(3, 4, order)])
        parts = {"query": rows(1, 2, order), "key_value": key_value}
        found = {f"{name}.weight": np.outer(each, np.arange(1, 7)) for name, each in parts.items()}
        found["output.weight"] = np.outer(np.arange(1, 7), rows(4, 4, order))
        found |= {f"{name}.bias": each for name, each in parts.items()} if bias else {}
        return {f"decoder.1.cross_attention.{name}": each for name, each in found.items()}

    other = {"decoder.0.cross_attention.query.weight": rows(5, 2)}
    found = with_heads_first(config, made((0, 1, 2)) | other, AligningHeads(1, (2,)))
    expected = made((2, 0, 1)) | other
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
