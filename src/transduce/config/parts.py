"""Parts of a model by name, as `init.freeze` lists them."""

from collections.abc import Sequence

from transduce.config.choices import EMBEDDINGS
from transduce.config.schema import ModelConfig
from transduce.config.weights import BLOCK_HEADS, weight_shapes
from transduce.errors import ConfigError, suggestion

_STACKS = ("encoder", "decoder")


def weights_of_parts(model: ModelConfig, parts: Sequence[str], *, new_rows: bool = False) -> list[str]:
    """Returns the names of the weights of `parts`, in the model's order.

    A part is "encoder", "decoder" (with the norm after it), "embeddings" (all tables of pieces), "positions" (learned
    ones), "model" (all but the heads for later tokens), a weight, or the beginning of names of weights, such as
    "encoder.0" or "decoder.1.feed_forward".

    Args:
        model: the model.
        parts: names of parts.
        new_rows: whether the tables of pieces have new rows, which are trained even if all weights are in `parts`.

    Raises:
        ConfigError: a part is unknown, or nothing is left to train.
    """
    weights = list(weight_shapes(model))
    found: set[str] = set()
    for part in parts:
        matches = [name for name in weights if _belongs(name, part, model)]
        if not matches:
            raise ConfigError(f"init.freeze: {_unknown(part, model, weights)}")
        found.update(matches)
    if len(found) == len(weights) and not new_rows:
        raise ConfigError(f"init.freeze = {[*parts]}: leaves nothing to train.")
    return [name for name in weights if name in found]


def _belongs(weight: str, part: str, model: ModelConfig) -> bool:
    if part == "model":
        return not weight.startswith(BLOCK_HEADS)
    if part == "embeddings":
        return weight in EMBEDDINGS[model.tie_embeddings]
    if part == "positions":
        return weight.endswith("_positions.table")
    if part in _STACKS and weight.startswith(f"{part}_norm."):
        return True
    return f"{weight}.".startswith(f"{part}.")


def _unknown(part: str, model: ModelConfig, weights: Sequence[str]) -> str:
    tables = EMBEDDINGS[model.tie_embeddings]
    if part in EMBEDDINGS["none"]:
        return (
            f"'{part}' is no weight of its own: with model.tie_embeddings = '{model.tie_embeddings}' it is the same "
            f"table as {tables[-1]}. Freeze that one, or 'embeddings'."
        )
    if part == "positions":
        return "'positions' are no weights with model.positions = 'sinusoidal': nothing changes them. Leave it out."
    known = {"embeddings", "model", *_STACKS}
    for name in weights:
        words = name.split(".")
        known |= {".".join(words[:count]) for count in range(1, len(words) + 1)}
    layers = f"encoder.0 to encoder.{model.num_encoder_layers - 1}, decoder.0 to decoder.{model.num_decoder_layers - 1}"
    advice = suggestion(part, sorted(known)) or f" Parts are model, encoder, decoder, embeddings, {layers} and weights."
    return f"unknown part '{part}'.{advice}"
