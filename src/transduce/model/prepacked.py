"""Weights laid out for the CPU's matrix kernels once, instead of at each product.

A decoding step multiplies few rows (sentences × beams) by all weights of the decoder. PyTorch's product for
`nn.Linear` is tuned for many rows: on two cores, the base model's weights take it 1.4 times as long at 128 rows as
oneDNN takes with weights in its own layout, twice as long at 32, three times at 4 (docs/lab-log.md). At the thousand
rows of training the two are equal.
"""

import copy

import torch
from torch import Tensor, nn

from transduce.model.transformer import Transformer

# Rows that the layout is chosen for. It works for any number; this one was nearly the best of 1 … 300 for all of them.
_ROWS = 128


class PrepackedLinear(nn.Module):
    """x Wᵀ + b like `nn.Linear`, for inference on a CPU in float32."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), _ROWS)  # opaque: no parameter
        self._bias = None if bias is None else bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        """Maps (…, in) to (…, out)."""
        projected: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")
        return projected


def prepack(model: Transformer) -> Transformer:
    """Returns a copy of `model` for inference: in evaluation mode, and prepacked where this device gains by it.

    The copy shares what it does not prepack, and does not follow when the model's weights change afterwards; it is not
    for saving. The model itself stays as it is. A prepacked model is returned unchanged.
    """
    if model.output_projection is not None:
        return model
    shared = {id(parameter): parameter for parameter in model.parameters()}
    packed = copy.deepcopy(model, shared).eval()
    if not _gains(model):
        return packed
    for module in list(packed.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, PrepackedLinear(child.weight, child.bias))
    packed.output_projection = PrepackedLinear(packed.output_embedding, None)
    return packed


def _gains(model: Transformer) -> bool:
    weight = model.output_embedding
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and torch.backends.mkldnn.is_available()
