"""A view has the right weights under the right labels, by pieces and by words."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from transduce import Attention
from transduce.errors import ConfigError
from transduce.inspection import KINDS, view, views

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
