"""A view has the right weights under the right labels, by pieces and by words."""

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from transduce import Attention
from transduce.errors import ConfigError
from transduce.inspection import KINDS, Panel, view, views
from transduce.inspection.arrays import write_arrays

MakeAttention = Callable[..., Attention]


def labels(units: tuple) -> list[str]:  # type: ignore[type-arg]
    return [unit.label for unit in units]


@pytest.fixture
def attention(random_attention: MakeAttention) -> Attention:
    return random_attention("making it difficult", "es schwierig machen")


def test_queries_and_keys_of_each_attention(attention: Attention) -> None:
    encoder, decoder, cross = views(attention)
    source = ["maki", "·ng", "it", "diff", "·icult", "</s>"]
    target = ["es", "schw", "·ierig", "mach", "·en", "</s>"]
    assert labels(encoder.queries) == labels(encoder.keys) == labels(cross.keys) == source
    assert labels(cross.queries) == labels(decoder.queries) == target
    assert labels(decoder.keys) == ["<s>", *target[:-1]]  # what is read when each piece is written
    assert (encoder.num_layers, encoder.num_heads) == (2, 3)
    for kind, shown in zip(KINDS, (encoder, decoder, cross), strict=True):
        assert shown.kind == kind
        np.testing.assert_array_equal(shown.weights, getattr(attention, kind))


def test_words_sum_columns_and_average_rows(attention: Attention) -> None:
    cross = view(attention, "cross", words=True)
    assert labels(cross.queries) == ["es", "schwierig", "machen", "</s>"]
    assert labels(cross.keys) == ["making", "it", "difficult", "</s>"]
    by_pieces = attention.cross[1, 2]
    # "schwierig" is rows 1 and 2, "difficult" columns 3 and 4.
    assert cross.weights[1, 2, 1, 2] == pytest.approx(by_pieces[1:3, 3:5].sum() / 2)
    assert cross.weights[1, 2, 0, 1] == pytest.approx(by_pieces[0, 2])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_words_sum_to_one(attention: Attention, kind: str) -> None:
    weights = view(attention, kind, words=True).weights  # type: ignore[arg-type]
    np.testing.assert_allclose(weights.sum(-1), 1.0, rtol=1e-5)


def test_the_decoders_columns_of_words_begin_with_the_start(attention: Attention) -> None:
    decoder = view(attention, "decoder", words=True)
    assert labels(decoder.keys) == ["<s>", "es", "schwierig", "machen"]
    assert not np.triu(decoder.weights, 2).any()  # a word may look into itself, and no further


@pytest.mark.parametrize(("pieces", "shown"), [(("▁", "12"), ["(space)", "12"]), (("▁a", "."), ["a", "."])])
def test_only_letters_and_digits_continue_a_word(
    pieces: tuple[str, str], shown: list[str], random_attention: MakeAttention
) -> None:
    made = random_attention("a b", "c")
    attention = replace(made, source_pieces=(*pieces, "</s>"))
    assert labels(view(attention, "encoder").queries) == [*shown, "</s>"]


def test_a_space_alone_is_part_of_the_word_after_it(random_attention: MakeAttention) -> None:
    """Digits stand alone, so " 12" is three pieces; at the end of a text, a space has no word to belong to."""
    made = random_attention("weigh a bc def x", "c")
    pieces = ("▁weigh", "▁", "1", "2", "▁", "▁", "</s>")
    attention = replace(made, source_pieces=pieces, source_words=(0, None, 1, 1, None, None, None))
    assert len(made.source_pieces) == len(pieces)
    assert labels(view(attention, "encoder").queries) == ["weigh", "(space)", "1", "·2", "(space)", "(space)", "</s>"]
    by_word = view(attention, "encoder", words=True)
    assert labels(by_word.queries) == labels(by_word.keys) == ["weigh", "12", "(space)", "</s>"]
    assert [unit.word for unit in by_word.queries] == [0, 1, None, None]
    assert by_word.weights[0, 0, 0, 1] == pytest.approx(attention.encoder[0, 0, 0, 1:4].sum())


def test_letters_whose_bytes_are_in_several_pieces_are_whole_in_words(random_attention: MakeAttention) -> None:
    """Č is the bytes C4 8C; of ż, C5 BC, the second is missing; a line separator, E2 80 A8, stays an escape."""
    made = random_attention("one two three", "x")
    pieces = ("▁", r"\xc4", r"\x8cap", "ek", r"▁\xc5", r"▁a\xe2", r"\x80\xa8", "</s>")
    attention = replace(made, source_pieces=pieces, source_words=(None, 0, 0, 0, 1, 2, 2, None))
    attention = replace(attention, encoder=np.full((1, 1, 8, 8), 1 / 8, np.float32))
    assert labels(view(attention, "encoder", words=True).queries) == ["Čapek", r"\xc5", r"a\u2028", "</s>"]
    assert labels(view(attention, "encoder").queries)[1:3] == [r"\xc4", r"\x8cap"]
    assert Panel(view(attention, "encoder"), word="Čapek").rows() == [1, 2, 3]


def test_an_unknown_attention_is_named(attention: Attention) -> None:
    with pytest.raises(ConfigError, match=r"attention 'corss'.*Did you mean 'cross'\?"):
        view(attention, "corss")  # type: ignore[arg-type]
    shown = view(attention, "cross")
    for layer in (0, 3):
        with pytest.raises(ConfigError, match=f"layer {layer}: the cross attention has layers 1 to 2"):
            shown.require_layer(layer)
    with pytest.raises(ConfigError, match="head 4: each layer has heads 1 to 3"):
        shown.require_heads([1, 4])
    with pytest.raises(ConfigError, match="no heads chosen: each layer has heads 1 to 3"):
        shown.require_heads([])
    shown.require_layer(2)
    shown.require_heads([1, 3])


@pytest.mark.parametrize(("layers", "usual"), [(1, 1), (2, 1), (3, 2), (6, 5)])
def test_the_usual_layer_is_the_last_but_one(random_attention: MakeAttention, layers: int, usual: int) -> None:
    assert view(random_attention("a", "b", layers=layers), "cross").usual_layer == usual


def test_a_unit_of_no_word_is_its_own(random_attention: MakeAttention) -> None:
    """A quotation mark between letters neither continues a word nor lets the next piece continue one."""
    made = random_attention("ab cd ef", "c")
    attention = replace(made, source_pieces=("▁ab", "'", "c", "</s>"), source_words=(0, 0, 0, None))
    assert labels(view(attention, "encoder").queries) == ["ab", "'", "c", "</s>"]
    assert [unit.word for unit in view(attention, "cross").keys] == [0, 0, 0, None]


def test_both_formats_of_data_have_every_field(attention: Attention, tmp_path: Path) -> None:
    names = {field.name for field in fields(Attention)} | {"input_pieces"}
    words = {"source_words": [0, 0, 1, 2, 2, None], "target_words": [0, 1, 1, 2, 2, None]}
    write_arrays(attention, tmp_path / "a.NPZ")
    with np.load(tmp_path / "a.NPZ", allow_pickle=False) as arrays:
        assert set(arrays) == names
        for kind in KINDS:
            np.testing.assert_array_equal(arrays[kind], getattr(attention, kind))
        for name, expected in words.items():
            assert arrays[name].tolist() == [-1 if word is None else word for word in expected]
        assert (str(arrays["source"]), bool(arrays["source_truncated"])) == (attention.source, False)
        assert tuple(arrays["input_pieces"]) == ("<s>", *attention.target_pieces[:-1])
    write_arrays(attention, tmp_path / "a.Json")
    values = json.loads((tmp_path / "a.Json").read_text(encoding="utf-8"))
    assert set(values) == names
    for kind in KINDS:
        np.testing.assert_allclose(values[kind], getattr(attention, kind), atol=6e-7)
    assert {name: values[name] for name in words} == words
    assert values["input_pieces"] == ["<s>", *attention.target_pieces[:-1]]
    with pytest.raises(ConfigError, match=r"\.npz or \.json"):
        write_arrays(attention, tmp_path / "a.txt")


def test_numpy_before_2_2_writes_no_further_array(
    attention: Attention, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There, `savez_compressed` has no options: each keyword is an array."""
    written: list[str] = []
    monkeypatch.setattr(np, "savez_compressed", lambda file, **arrays: written.extend(arrays))
    write_arrays(attention, tmp_path / "a.npz")
    assert set(written) == {field.name for field in fields(Attention)} | {"input_pieces"}
