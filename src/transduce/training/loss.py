"""Label-smoothed cross-entropy (§5.4), computed on real tokens only and never holding all logits at once."""

from dataclasses import dataclass
from typing import Any, Literal, assert_never

import torch
from torch import Tensor

_CHUNK_BYTES = {"cpu": 16 << 20, "cuda": 512 << 20}  # logits held at once: small enough for a CPU's cache
# Gradients by logits held at once, in bf16. Each block costs a pass over V × D float32 numbers, the gradient by W.
_GRADIENT_BYTES = {"cpu": 128 << 20, "cuda": 512 << 20}


@dataclass(frozen=True)
class Smoothing:
    """A smoothed target: probability `true + rest` on the right token and `rest` on every other.

    `uniform` spreads ε over all V tokens, the right one among them (Szegedy et al. 2015, the paper's reference);
    `others` spreads it over the V - 1 others (the released code).
    """

    true: float
    rest: float

    @classmethod
    def of(cls, epsilon: float, vocab_size: int, kind: Literal["uniform", "others"]) -> "Smoothing":
        """Returns the smoothing by ε over `vocab_size` tokens."""
        match kind:
            case "uniform":
                return cls(1.0 - epsilon, epsilon / vocab_size)
            case "others":
                rest = epsilon / (vocab_size - 1)
                return cls(1.0 - epsilon - rest, rest)
            case other:
                assert_never(other)


NO_SMOOTHING = Smoothing(1.0, 0.0)


def smoothed_cross_entropy_reference(logits_NV: Tensor, targets_N: Tensor, smoothing: Smoothing) -> Tensor:
    """Returns the summed loss -Σ q log p, as the formula has it; what tests compare `projected_loss` with."""
    log_p = logits_NV.log_softmax(dim=-1)
    picked = log_p.gather(1, targets_N[:, None])
    return -(smoothing.true * picked.sum() + smoothing.rest * log_p.sum())


def projected_loss(
    states_ND: Tensor, embedding_VD: Tensor, targets_N: Tensor, smoothing: Smoothing
) -> tuple[Tensor, Tensor]:
    """Projects decoder outputs to logits and returns (summed smoothed loss, summed -log p of the targets).

    Forward and backward happen together, a block of rows at a time: peak memory is one block of logits, not N × V. In
    bf16, gradients of several blocks are kept for products that are larger.
    Only the first result carries a gradient.
    """
    loss, nll = _ProjectedLoss.apply(states_ND, embedding_VD, targets_N, smoothing)  # type: ignore[no-untyped-call]
    return loss, nll


class _ProjectedLoss(torch.autograd.Function):
    """With p = softmax(x Wᵀ) and q = rest + true·[v = y], the gradient of -Σ q log p by the logits is p - q.

    Its constant part, -rest, need not be written into the N × V block: it adds -rest·ΣW to each row of the gradient by
    x, and -rest·Σx to each row of the gradient by W.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, embedding: Tensor, targets: Tensor, smoothing: Smoothing) -> tuple[Tensor, Tensor]:
        needs_gradient = any(ctx.needs_input_grad[:2])
        weight = embedding.detach().to(x.dtype)
        num_rows, vocab_size = x.size(0), weight.size(0)
        rows = max(1, _CHUNK_BYTES.get(x.device.type, 64 << 20) // (4 * vocab_size))
        chunks = max(1, _GRADIENT_BYTES.get(x.device.type, 64 << 20) // (x.element_size() * vocab_size) // rows)
        exact = torch.promote_types(x.dtype, torch.float32)  # float64 only where the whole model is
        weight_sum = weight.sum(0, dtype=exact)
        total = smoothing.true + smoothing.rest * vocab_size  # Σ q: 1 up to rounding
        gradient_x = torch.empty_like(x) if needs_gradient else None
        gradient_w = torch.zeros(weight.shape, dtype=exact, device=x.device) if ctx.needs_input_grad[1] else None
        held = None  # gradients by logits that wait for the others of their block
        if needs_gradient and x.dtype != exact:
            held = x.new_empty(min(num_rows, chunks * rows), vocab_size)
        nll = x.new_zeros((), dtype=torch.float64)
        loss = x.new_zeros((), dtype=torch.float64)
        for start in range(0, num_rows, rows):
            chunk, wanted = x[start : start + rows], targets[start : start + rows, None]
            logits = (chunk @ weight.t()).to(exact)
            picked = logits.gather(1, wanted)
            highest = logits.amax(dim=1, keepdim=True)
            p = torch.softmax(logits, dim=1)
            log_z = highest - p.amax(dim=1, keepdim=True).log()  # the greatest p is at least 1/V: no underflow
            nll += (log_z - picked).sum(dtype=torch.float64)
            sum_logits = chunk.to(exact) @ weight_sum
            loss += (
                total * log_z.sum(dtype=torch.float64)
                - smoothing.true * picked.sum(dtype=torch.float64)
                - smoothing.rest * sum_logits.sum(dtype=torch.float64)
            )
            if gradient_x is not None:
                if total != 1.0:
                    p *= total
                p.scatter_add_(1, wanted, torch.full_like(picked, -smoothing.true))
                first, end = start, start + chunk.size(0)
                if held is not None:
                    first -= start % (chunks * rows)
                    held[start - first : end - first] = p
                    if end < min(first + chunks * rows, num_rows):
                        continue
                    p = held[: end - first]
                torch.mm(p, weight, out=gradient_x[first:end])
                if gradient_w is None:
                    continue
                if x.dtype == exact:
                    gradient_w.addmm_(p.t(), x[first:end])
                else:
                    gradient_w += p.t() @ x[first:end]  # summed over blocks in float32
        if gradient_x is not None:
            gradient_x.sub_((smoothing.rest * weight_sum).to(x.dtype))
            if gradient_w is not None:
                gradient_w.sub_(smoothing.rest * x.sum(0, dtype=exact))
            ctx.save_for_backward(gradient_x, gradient_w)
            ctx.embedding_dtype = embedding.dtype
        loss, nll = loss.to(exact), nll.to(exact)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        gradient_x, gradient_w = ctx.saved_tensors
        # No one else uses the saved blocks: they are scaled in place, without a second V × D matrix.
        if gradient_w is not None:  # else the embedding is frozen
            gradient_w = gradient_w.mul_(gradient).to(ctx.embedding_dtype)
        return gradient_x.mul_(gradient), gradient_w, None, None
