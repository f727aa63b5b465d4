"""Which weights the parts of `init.freeze` are."""

import pytest

from transduce.config import ModelConfig
from transduce.config.parts import weights_of_parts
from transduce.config.weights import weight_shapes
from transduce.errors import ConfigError

SMALL = {"num_encoder_layers": 2, "num_decoder_layers": 1, "norm": "pre"}


def model(**changes: object) -> ModelConfig:
    return ModelConfig(**(SMALL | changes))  # type: ignore[arg-type]


def test_encoder_and_decoder_include_their_last_norm() -> None:
    weights = weights_of_parts(model(), ["encoder"])
    assert {name.split(".")[0] for name in weights} == {"encoder", "encoder_norm"}
    assert {name.split(".")[0] for name in weights_of_parts(model(), ["decoder"])} == {"decoder", "decoder_norm"}


def test_layers_and_sublayers_are_parts() -> None:
    layer = weights_of_parts(model(), ["encoder.1"])
    assert layer
    assert all(name.startswith("encoder.1.") for name in layer)
    sublayer = weights_of_parts(model(), ["decoder.0.feed_forward"])
    assert sublayer == [
        f"decoder.0.feed_forward.{name}" for name in ("inner.weight", "inner.bias", "outer.weight", "outer.bias")
    ]
    assert weights_of_parts(model(num_encoder_layers=12), ["encoder.1"]) == layer  # and not encoder.10


@pytest.mark.parametrize(
    ("tied", "tables"),
    [
        ("all", ["source_embedding"]),
        ("target", ["source_embedding", "target_embedding"]),
        ("none", ["source_embedding", "target_embedding", "output_embedding"]),
    ],
)
def test_embeddings_are_all_tables(tied: str, tables: list[str]) -> None:
    assert weights_of_parts(model(tie_embeddings=tied), ["embeddings"]) == tables


def test_a_table_that_is_another_one_too_is_explained() -> None:
    with pytest.raises(
        ConfigError, match=r"'output_embedding' is no weight of its own: .*'all'.* table as source_embedding"
    ):
        weights_of_parts(model(), ["output_embedding"])
    with pytest.raises(ConfigError, match=r"'target'.* table as target_embedding"):
        weights_of_parts(model(tie_embeddings="target"), ["output_embedding"])


def test_learned_positions_are_a_part_and_sinusoids_are_not() -> None:
    found = weights_of_parts(model(positions="learned"), ["positions"])
    assert found == ["source_positions.table", "target_positions.table"]
    with pytest.raises(ConfigError, match="Leave it out"):
        weights_of_parts(model(), ["positions"])


def test_the_model_is_all_but_the_heads_for_later_tokens() -> None:
    plain, with_heads = (list(weight_shapes(model(block_size=block_size))) for block_size in (1, 3))
    assert weights_of_parts(model(block_size=3), ["model"]) == plain
    assert weights_of_parts(model(block_size=3), ["block_heads"]) == with_heads[len(plain) :]
    with pytest.raises(ConfigError, match="leaves nothing to train"):
        weights_of_parts(model(), ["model"])


@pytest.mark.parametrize(
    ("part", "advice"),
    [
        ("encodr", "Did you mean 'encoder'"),
        ("encoder.2", "Did you mean 'encoder.[01]'"),
        ("embedding", "Did you mean 'embeddings'"),
        ("zzz", r"encoder.0 to encoder.1, decoder.0 to decoder.0"),
        ("", "unknown part"),
        ("encoder.", "unknown part"),
    ],
)
def test_an_unknown_part_is_refused(part: str, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        weights_of_parts(model(), [part])


def test_something_must_be_left_to_train() -> None:
    with pytest.raises(ConfigError, match="leaves nothing to train"):
        weights_of_parts(model(), ["encoder", "decoder", "embeddings"])


def test_no_parts_are_no_weights_and_the_order_is_the_models() -> None:
    assert weights_of_parts(model(), []) == []
    names = list(weight_shapes(model()))
    found = weights_of_parts(model(), ["decoder", "embeddings"])
    assert found == [name for name in names if name in found]
