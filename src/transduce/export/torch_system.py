"""A `torch.nn.Transformer` made from its state dict, to compare our model with."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from transduce.config.special_ids import BOS, EOS
from transduce.errors import BundleError
from transduce.export.system import Forced, forced
from transduce.export.torch_description import LAYOUTS
from transduce.export.torch_reading import TorchModel
from transduce.model.positions import sinusoids
from transduce.text import SubwordTokenizer

_POSITIONS = 2048


class TorchSystem:
    """PyTorch's own layers with the weights of a state dict; it has no search."""

    num_positions: int | None = None

    def __init__(self, model: TorchModel, rows: np.ndarray, tokenizer: SubwordTokenizer) -> None:
        """Builds the layers; `rows` is their id of each of our ids, and `tokenizer` ours."""
        self.description, self.d_model, self.tokenizer = model.description, model.d_model, tokenizer
        self.encoder = self._stack(model, "encoder")
        self.decoder = self._stack(model, "decoder")
        self.source, self.target, self.output = (
            torch.from_numpy(model.tables[role])[torch.from_numpy(rows)] for role in ("source", "target", "output")
        )
        self.positions = self._positions(model.tables)

    def _stack(self, model: TorchModel, side: str) -> nn.Module:
        layer_type, stack_type = {
            "encoder": (nn.TransformerEncoderLayer, nn.TransformerEncoder),
            "decoder": (nn.TransformerDecoderLayer, nn.TransformerDecoder),
        }[side]
        epsilon = self.description.layer_norm_eps
        layer = layer_type(
            self.d_model,
            self.description.num_heads,
            int(model.arrays["encoder.layers.0.linear1.weight"].shape[0]),
            layer_norm_eps=epsilon,
            batch_first=True,
            norm_first=self.description.norm_first,
        )
        norm = nn.LayerNorm(self.d_model, eps=epsilon) if model.final_norms[side] else None
        options = {"enable_nested_tensor": False} if side == "encoder" else {}
        stack = stack_type(layer, model.layers[side], norm, **options)
        own = {
            name.removeprefix(f"{side}."): array for name, array in model.arrays.items() if name.startswith(f"{side}.")
        }
        with torch.no_grad():
            for name, parameter in stack.named_parameters():
                if name in own:
                    parameter.copy_(torch.from_numpy(own.pop(name)))
                else:  # a model without biases
                    parameter.zero_()
        if own:
            raise BundleError(f"torch.nn.Transformer has no {', '.join(f'{side}.{name}' for name in sorted(own)[:8])}.")
        evaluated: nn.Module = stack.eval()
        return evaluated

    def _positions(self, tables: dict[str, np.ndarray]) -> tuple[Tensor, Tensor]:
        if self.description.positions == "learned":
            return torch.from_numpy(tables["source_positions"]), torch.from_numpy(tables["target_positions"])
        table = sinusoids(_POSITIONS, self.d_model, LAYOUTS[self.description.positions])
        return table, table

    @property
    def name(self) -> str:
        """What runs."""
        return f"torch {torch.__version__}, torch.nn.Transformer"

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns our token ids: a state dict has no tokeniser of its own."""
        return self.tokenizer.encode_batch(lines)

    def translate(self, lines: Sequence[str]) -> None:
        """Returns nothing: there is no search."""

    def force(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Forced]:
        """Runs the layers over whole targets, a pair at a time, so that nothing is padded."""
        results = []
        with torch.inference_mode():
            for source, target in zip(sources, targets, strict=True):
                memory = self.encoder(self._embed(self.source, [*source, EOS], self.positions[0]))
                inputs = self._embed(self.target, [BOS, *target], self.positions[1])
                mask = nn.Transformer.generate_square_subsequent_mask(inputs.size(1))
                states = self.decoder(inputs, memory, tgt_mask=mask)
                logits = (states @ self.output.T)[0].numpy()
                results.append(forced(logits, [*target, EOS]))
        return results

    def _embed(self, table: Tensor, ids: Sequence[int], positions: Tensor) -> Tensor:
        scale = math.sqrt(self.d_model) if self.description.embedding_scale == "sqrt" else 1.0
        return (table[list(ids)] * scale + positions[: len(ids)])[None]
