"""A new value of a model's option is refused where it is not supported, and never treated as another value."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from made_models import made_bundle
from transduce.bundle import Bundle
from transduce.config import DecodeConfig, ModelConfig
from transduce.config.choices import IN_EVERY_FORMAT, choices, unsupported
from transduce.config.weights import count_parameters, weight_shapes
from transduce.engines import ctranslate2_model
from transduce.engines.capabilities import CTRANSLATE2
from transduce.engines.ctranslate2_limits import require_convertible
from transduce.errors import TransduceError
from transduce.export.exports import position_limit
from transduce.export.huggingface_shape import shape_of
from transduce.model import Transformer, positions
from transduce.model.positions import Positions, sinusoids
from transduce.training.loss import Smoothing


def with_new_value(bundle: Bundle, key: str) -> Bundle:
    """Gives the model a value that the schema does not have."""
    object.__setattr__(bundle.config.model, key, "brand-new")
    return bundle


def write_onnx(bundle: Bundle, folder: Path) -> None:
    onnx_model = pytest.importorskip("transduce.export.onnx_model", exc_type=ImportError)
    onnx_model.write_graphs(bundle.weights(), bundle.config.model, folder, num_positions=8)


WRITERS: dict[str, Callable[[Bundle, Path], object]] = {
    "ctranslate2": lambda bundle, folder: ctranslate2_model.convert(bundle, folder / "model"),
    "the ctranslate2 engine": lambda bundle, _: require_convertible(bundle.config.model),
    "huggingface": lambda bundle, _: shape_of(bundle.config.model, num_positions=8),
    "onnx": write_onnx,
}


@pytest.mark.parametrize("key", choices())
@pytest.mark.parametrize("writer", WRITERS)
def test_every_exporter_refuses_what_it_does_not_know(tmp_path: Path, writer: str, key: str) -> None:
    bundle = made_bundle(tmp_path / "model")
    weights = bundle.weights()
    new = with_new_value(bundle, key)
    object.__setattr__(new, "weights", lambda: weights)
    with pytest.raises(TransduceError, match=f"model.{key} = 'brand-new'"):
        WRITERS[writer](new, tmp_path)
    assert not (tmp_path / "model.bin").exists()


def test_the_keys_that_are_choices_are_declared_by_all() -> None:
    assert choices().keys() == {
        "activation", "positions", "sinusoid_layout", "tie_embeddings", "norm", "decoder_start", "source_end",
        "attention_score",
    }  # fmt: skip
    assert IN_EVERY_FORMAT.keys() <= choices().keys()
    for key, kinds in IN_EVERY_FORMAT.items():
        assert set(kinds) <= set(choices()[key])


@pytest.mark.parametrize("key", choices())
def test_the_model_itself_refuses_it(tmp_path: Path, key: str) -> None:
    config = with_new_value(made_bundle(tmp_path / "model"), key).config.model
    assert unsupported(config, choices()) == [f"model.{key} = 'brand-new'"]

    def run() -> None:
        model = Transformer(config)
        model.decode(model.encode(torch.tensor([[5]]), torch.tensor([1])), torch.tensor([[6]]))

    with pytest.raises((AssertionError, KeyError)):
        run()
    if key in ("positions", "tie_embeddings", "norm", "attention_score"):  # they have weights
        for count in (count_parameters, weight_shapes):
            with pytest.raises((AssertionError, KeyError)):
                count(config)


def test_a_third_position_encoding_is_not_treated_as_one_of_the_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where `learns_positions` knows it, but nobody has written its vectors yet."""
    bundle = with_new_value(made_bundle(tmp_path / "model"), "positions")
    config = bundle.config.model
    for call in (
        lambda: CTRANSLATE2.lack(DecodeConfig(), model=config),
        lambda: position_limit(bundle),
        lambda: Positions(config),
    ):
        with pytest.raises(AssertionError):
            call()
    for learned in (False, True):
        monkeypatch.setattr(positions, "longest_sequence", lambda config, learned=learned: 9 if learned else None)
        with pytest.raises(AssertionError):
            Positions(config)


def test_formulas_refuse_it() -> None:
    with pytest.raises(AssertionError):
        Smoothing.of(0.1, 10, "brand-new")  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        sinusoids(4, 8, "brand-new")  # type: ignore[arg-type]


def test_a_system_that_does_not_name_a_key_supports_its_default_only() -> None:
    config = ModelConfig(norm="post", decoder_start="zero")
    assert unsupported(config, {}) == ["model.decoder_start = 'zero'"]
    assert unsupported(config, {"norm": ("pre",), "decoder_start": ("zero",)}) == ["model.norm = 'post'"]
