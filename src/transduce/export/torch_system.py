"""A `torch.nn.Transformer` made from its state dict, to compare our model with."""

import math
import warnings
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from transduce.config.special_ids import BOS, EOS
from transduce.errors import BundleError
from transduce.export.system import System
from transduce.export.torch_reading import TorchModel
from transduce.model.positions import sinusoids
from transduce.text import Tokenizer

_POSITIONS = 2048


class TorchSystem(System):
    """PyTorch's own layers with the weights of a state dict; it has no search."""

    name = f"torch {torch.__version__}, torch.nn.Transformer"

    def __init__(self, model: TorchModel, rows: np.ndarray, tokenizer: Tokenizer) -> None:
        """Builds the layers; `rows` is their id of each of our ids, and `tokenizer` ours."""
        self.description, self.d_model, self.tokenizer = model.description, model.d_model, tokenizer
        self.layers = _layers(model)
        self.source, self.target, self.output = (
            torch.from_numpy(model.tables[role])[torch.from_numpy(rows)] for role in ("source", "target", "output")
        )
        bias = model.tables.get("output_bias")
        self.output_bias = None if bias is None else torch.from_numpy(bias)[torch.from_numpy(rows)]
        self.positions = self._positions(model.tables)

    def _positions(self, tables: dict[str, np.ndarray]) -> tuple[Tensor, Tensor]:
        if self.description.positions == "learned":
            return torch.from_numpy(tables["source_positions"]), torch.from_numpy(tables["target_positions"])
        table = sinusoids(_POSITIONS, self.d_model, self.description.layout)
        return table, table

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns our token ids: a state dict has no tokeniser of its own."""
        return self.tokenizer.encode_batch(lines)

    def translate(self, lines: Sequence[str]) -> None:
        """Returns nothing: there is no search."""

    def logits(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Iterator[np.ndarray]:
        """Runs the layers over whole targets, a pair at a time, so that nothing is padded; see `System.logits`."""
        for source, target in zip(sources, targets, strict=True):
            with torch.inference_mode():
                memory = self.layers.encoder(self._embed(self.source, [*source, EOS], self.positions[0]))
                inputs = self._embed(self.target, [BOS, *target], self.positions[1])
                mask = nn.Transformer.generate_square_subsequent_mask(inputs.size(1))
                states = self.layers.decoder(inputs, memory, tgt_mask=mask)
                logits = nn.functional.linear(states, self.output, self.output_bias)[0].numpy()
            yield logits

    def _embed(self, table: Tensor, ids: Sequence[int], positions: Tensor) -> Tensor:
        scale = math.sqrt(self.d_model) if self.description.embedding_scale == "sqrt" else 1.0
        return (table[list(ids)] * scale + positions[: len(ids)])[None]


def _layers(model: TorchModel) -> nn.Transformer:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="enable_nested_tensor is True")  # not for pre-norm layers
        layers = nn.Transformer(
            model.d_model,
            model.description.num_heads,
            model.layers["encoder"],
            model.layers["decoder"],
            int(model.arrays["encoder.layers.0.linear1.weight"].shape[0]),
            activation=model.description.activation,
            layer_norm_eps=model.description.layer_norm_eps,
            batch_first=True,
            norm_first=model.description.norm_first,
        )
    for stack, has_norm in model.final_norms.items():
        if not has_norm:
            getattr(layers, stack).norm = None
    zeros = {name: torch.zeros_like(parameter) for name, parameter in layers.named_parameters()}  # of absent biases
    state = zeros | {name: torch.from_numpy(array) for name, array in model.arrays.items()}
    if unknown := layers.load_state_dict(state, strict=False).unexpected_keys:
        raise BundleError(f"torch.nn.Transformer has no {', '.join(sorted(unknown)[:8])}.")
    return layers.eval()
