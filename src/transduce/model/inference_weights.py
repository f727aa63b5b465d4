"""A model's weights for inference: in the layout of the CPU's matrix kernels, converted once; also in 8 or 16 bits.

A decoding step multiplies few rows (sentences × beams) by all weights of the decoder. PyTorch's `nn.Linear` is tuned
for many rows. Its time, relative to oneDNN with weights in oneDNN's layout (base model, two cores, docs/lab-log.md):

    rows    4    32    128    1000
    time    3    2     1.4    1

Reading the weights is what takes the time of a product of few rows, so smaller weights are faster still.
"""

import copy
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from transduce.config.choices import Precision
from transduce.errors import ConfigError
from transduce.model.transformer import Projection, Transformer

# The least number of inputs of a block of Wᵀ: fewer are not worth a thread.
_LEAST_BLOCK = 32

# Weights with fewer numbers are as fast in PyTorch's own float32 product: calling oneDNN costs 40 microseconds.
_LEAST_WEIGHT = 1 << 17

# The number of rows that the layout is chosen for. It works for any number; this one was nearly the best for 1 … 300.
_ROWS = 128


class PrepackedLinear(nn.Module):
    """x Wᵀ + b like `nn.Linear`, for inference on a CPU, with weights in float32 or bfloat16.

    In bfloat16 the product rounds its input, too, and sums in float32; input and output are float32.

    For a single row, as in greedy search of one sentence, oneDNN's layout does not help: the time is that of reading
    the weights (docs/lab-log.md). With `single_rows` they are stored for that case as well, in `_RowProduct`.
    """

    def __init__(
        self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype = torch.float32, *, single_rows: bool = False
    ) -> None:
        super().__init__()
        self._dtype = dtype
        self._single = _RowProduct.of(weight.detach(), bias) if single_rows and dtype == torch.float32 else None
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach().to(dtype), _ROWS)  # opaque: no parameter
        self._bias = None if bias is None else bias.detach().to(dtype)

    def with_weight(self, weight: Tensor, bias: Tensor | None) -> "PrepackedLinear":
        """Returns the same kind of product with another weight and bias."""
        return PrepackedLinear(weight, bias, self._dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Maps (…, in) to (…, out)."""
        if self._single is not None and x.numel() == x.size(-1):
            return self._single(x)
        x = x.to(self._dtype)
        projected: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")
        return projected.float()


class _RowProduct:
    """x Wᵀ + b of a single row x, for which each thread reads the weights of a part of the inputs, end to end."""

    def __init__(self, blocks_TIO: Tensor, bias: Tensor | None) -> None:
        self._blocks_TIO = blocks_TIO
        self._num_blocks = blocks_TIO.size(0)
        self._weight = blocks_TIO[0].t() if self._num_blocks == 1 else None
        self._bias = None if bias is None else bias.detach()
        if self._bias is not None and self._num_blocks > 1:  # added to the first of the sums
            zeros_TO = torch.zeros(self._num_blocks - 1, self._bias.numel())
            self._bias = torch.cat([self._bias[None], zeros_TO])[:, None]

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor | None) -> "_RowProduct | None":
        """Returns the product with a weight (out, in), or None if the packed one may be as fast."""
        num_outputs, num_inputs = weight.shape
        num_threads = torch.get_num_threads()
        if num_threads == 1 and num_outputs < num_inputs:  # rows of W are the longer ones
            return cls(weight.contiguous().t()[None], bias)
        block, rest = divmod(num_inputs, num_threads)
        if rest or block < _LEAST_BLOCK:
            return None
        return cls(weight.t().contiguous().unflatten(0, (num_threads, -1)), bias)

    def __call__(self, x: Tensor) -> Tensor:
        """Maps (…, in), a single row, to (…, out)."""
        if self._weight is not None:
            return nn.functional.linear(x, self._weight, self._bias)
        rows_T1I = x.view(self._num_blocks, 1, -1)
        if self._bias is None:
            sums_T1O = torch.bmm(rows_T1I, self._blocks_TIO)
        else:
            sums_T1O = torch.baddbmm(self._bias, rows_T1I, self._blocks_TIO)
        return sums_T1O.sum(0).view(*x.shape[:-1], -1)


class QuantizedLinear(nn.Module):
    """x Wᵀ + b in 8-bit integers, for inference on a CPU.

    Each row of W has its own scale, and so has each row of x, computed when it is used. So the product of a row depends
    on that row alone, and a translation does not depend on the rest of its batch, as it would with one scale for all.

    Activations use 7 of the 8 bits: before VNNI, x86 adds two products of bytes in 16 bits, which must not overflow.
    Sums of integers are exact, in any order.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        weight = weight.detach()
        scales_O = weight.abs().amax(dim=1).clamp_min(_TINY) / 127
        zeros_O = torch.zeros(weight.size(0), dtype=torch.long)
        with warnings.catch_warnings():
            # FBGEMM needs weights as a kind of tensor that PyTorch has deprecated. Other 8-bit products have one scale
            # for all rows of x, or no fast kernel for few rows (decision 12).
            warnings.filterwarnings("ignore", message=".*deprecated", category=UserWarning)
            quantized = torch.quantize_per_channel(weight, scales_O.double(), zeros_O, 0, torch.qint8)
        self._weight = torch.ops.quantized.linear_prepack(quantized, None)  # opaque: no parameter
        self._bias = None if bias is None else bias.detach()

    def with_weight(self, weight: Tensor, bias: Tensor | None) -> "QuantizedLinear":
        """Returns the same kind of product with another weight and bias."""
        return QuantizedLinear(weight, bias)

    def forward(self, x: Tensor) -> Tensor:
        """Maps (…, in) to (…, out)."""
        scales = x.abs().amax(dim=-1, keepdim=True).clamp_min_(_TINY)
        product: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            x / scales, 1 / _LEVELS, _LEVELS, self._weight
        )
        return product.mul_(scales) if self._bias is None else torch.addcmul(self._bias, product, scales)


_TINY = 1e-30  # instead of a scale of 0, for a row of zeros
_LEVELS = 63  # steps from 0 to the greatest absolute value of a row


def prepack(model: Transformer, precision: Precision = "float32") -> Transformer:
    """Returns a copy of `model` for inference: in evaluation mode, and prepacked where that is faster on its device.

    The copy shares the parameters that it does not prepack. Later changes of the model's weights do not reach it, and
    it cannot be saved. The model itself does not change. A prepacked model is returned as it is.

    Args:
        model: any, on any device.
        precision: of the weight matrices. Embeddings, norms, softmax and sums between layers stay in float32 on a CPU;
            on a GPU, bfloat16 is that of the whole model.

    Raises:
        ConfigError: this device does not support that precision.
    """
    if model.output_projection is not None:
        return model
    if model.output_embedding.device.type != "cpu":
        if precision == "int8":
            raise ConfigError("int8: PyTorch supports it on the CPU only. On a GPU use 'bfloat16'.")
        return copy.deepcopy(model).eval().to(getattr(torch, precision)) if precision != "float32" else _shared(model)
    packed = _shared(model)
    if precision == "int8":
        if not has_int8():
            raise ConfigError("int8: it needs FBGEMM, which this PyTorch does not have; it is for x86. Use 'float32'.")
        return _prepacked(packed, QuantizedLinear)
    if not torch.backends.mkldnn.is_available() or model.output_embedding.dtype != torch.float32:
        if precision == "bfloat16":
            raise ConfigError("bfloat16: it needs oneDNN, which this PyTorch does not have. Use 'float32'.")
        return packed
    if precision == "bfloat16" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        raise ConfigError("bfloat16: this processor has no instructions for it. Use 'int8' or 'float32'.")
    dtype = getattr(torch, precision)
    least = _LEAST_WEIGHT if dtype == torch.float32 else 0
    _replace_linears(packed.encoder, lambda weight, bias: PrepackedLinear(weight, bias, dtype), least)  # of many rows
    return _prepacked(packed, lambda weight, bias: PrepackedLinear(weight, bias, dtype, single_rows=True), least)


def narrow_projection(model: Transformer, ids_N: Tensor) -> Projection:
    """Returns the output projection of `model` to the given ids only, (…, D) to (…, N), in the model's own precision.

    A logit is that of the whole projection: exactly in int8, where each row of W has its own scale and sums are of
    integers, and otherwise within rounding.
    """
    weight_ND, bias = model.output_embedding.detach().index_select(0, ids_N), model.output_bias
    bias_N = None if bias is None else bias.detach().index_select(0, ids_N)
    whole = model.output_projection
    if isinstance(whole, PrepackedLinear | QuantizedLinear):
        return whole.with_weight(weight_ND, bias_N)
    return lambda states: nn.functional.linear(states, weight_ND, bias_N).float()  # as `Transformer.logits`


def has_int8() -> bool:
    """Returns whether this PyTorch computes in 8 bits on this CPU."""
    return "fbgemm" in torch.backends.quantized.supported_engines and hasattr(torch, "quantize_per_channel")


def _shared(model: Transformer) -> Transformer:
    """Returns a copy in evaluation mode that shares all parameters."""
    shared = {id(parameter): parameter for parameter in model.parameters()}
    return copy.deepcopy(model, shared).eval()


_Make = Callable[[Tensor, Tensor | None], nn.Module]


def _prepacked(model: Transformer, make: _Make, least: int = 0) -> Transformer:
    """Replaces each `nn.Linear`, and the output projection, by what `make` returns for its weight and bias."""
    _replace_linears(model, make, least)
    model.output_projection = make(model.output_embedding, model.output_bias)
    return model


def _replace_linears(module: nn.Module, make: _Make, least: int) -> None:
    """Replaces each `nn.Linear` whose weight has at least `least` numbers."""
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear) and child.weight.numel() >= least:
                setattr(parent, name, make(child.weight, child.bias))
