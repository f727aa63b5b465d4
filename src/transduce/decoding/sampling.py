"""Sampling: from the model's own distribution, or from a sharper, flatter or truncated one.

Shapes: R rows = B sentences × K samples of each, sentence by sentence; T tokens so far, V vocabulary.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from transduce.config import DecodeConfig
from transduce.decoding.candidates import top
from transduce.decoding.rows import RowSearch
from transduce.decoding.search import SearchTask
from transduce.decoding.step import S


def uniforms(seed: int, source: Sequence[int], num_samples: int, num_steps: int, first: int = 0) -> np.ndarray:
    """Returns the random numbers for `num_samples` outputs of `source`, (samples, steps), in [0, 1).

    They depend only on the seed, the source and the sample's number: not on the source's index in a batch, nor on the
    number of samples or steps. The samples are those from number `first` on.
    """
    rows = []
    for sample in range(first, first + num_samples):
        digest = hashlib.sha256(np.array([seed, sample, *source], dtype="<i8").tobytes()).digest()
        generator = np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))
        rows.append(generator.random(num_steps))
    return np.array(rows).reshape(num_samples, num_steps)


def narrowed(gains_RV: Tensor, options: DecodeConfig) -> Tensor:
    """Returns the probabilities to draw from, (R, V): the model's to the power of 1 / temperature, cut and rescaled.

    Keeps the `top_k` most probable tokens (0: all), then the fewest of those whose probabilities sum to `top_p`
    (Holtzman et al. 2020). Tokens as probable as the last one kept are kept too. Tokens at -inf get probability 0.
    """
    scaled_RV = gains_RV / options.temperature
    if 0 < options.top_k < gains_RV.size(1):
        kth_R1 = top(scaled_RV, options.top_k)[0][:, -1:]
        scaled_RV = scaled_RV.masked_fill(scaled_RV < kth_R1, -torch.inf)
    probabilities_RV = scaled_RV.softmax(dim=-1)
    if options.top_p < 1:
        sorted_RV = probabilities_RV.sort(dim=-1, descending=True).values
        reached_RV = sorted_RV.cumsum(dim=-1, dtype=torch.double) >= options.top_p
        last_R1 = torch.where(reached_RV.any(dim=-1), reached_RV.byte().argmax(dim=-1), reached_RV.size(1) - 1)[:, None]
        probabilities_RV = probabilities_RV.masked_fill(probabilities_RV < sorted_RV.gather(1, last_R1), 0.0)
    return probabilities_RV / probabilities_RV.sum(dim=-1, keepdim=True)


def draw(probabilities_RV: Tensor, uniforms_R: Tensor) -> Tensor:
    """Returns for each row the token whose interval of [0, 1) contains the row's number; intervals are in id order.

    In that order, and in double precision, the different rounding of another batch hardly moves a boundary. If the
    intervals were sorted by size, it could exchange those of equal size.
    """
    cumulated_RV = probabilities_RV.cumsum(dim=-1, dtype=torch.double)
    # Slightly below 1, so that rounding never makes the product the total, which is in no interval.
    wanted_R1 = uniforms_R[:, None].clamp(max=1 - 2**-40) * cumulated_RV[:, -1:]
    return torch.searchsorted(cumulated_RV, wanted_R1, right=True)[:, 0].clamp_(max=probabilities_RV.size(1) - 1)


class Sampling(RowSearch[S]):
    """Draws K outputs of each sentence.

    Their log-probabilities are the model's own, at temperature 1 and of the whole vocabulary, as a forced score's are.
    An output ends where EOS is drawn; one whose limit or bans leave nothing to draw is unfinished.
    """

    def __init__(self, task: SearchTask[S], options: DecodeConfig, uniforms_BKT: Tensor) -> None:
        """Prepares the draws.

        Args:
            task: the sentences and the model.
            options: a temperature greater than 0, what belongs to it, and the length penalty, for the scores.
            uniforms_BKT: a number of [0, 1) for each output and step; T is at least the greatest limit + 1.
        """
        super().__init__(task, options, uniforms_BKT.size(1))
        self._uniforms_BKT = uniforms_BKT.to(task.device, torch.double)

    def pick(self, gains_RV: Tensor) -> tuple[Tensor, Tensor]:
        """Draws a token for each row; returns them and their log-probabilities."""
        uniforms_R = self._uniforms_BKT[:, :, self._num_tokens].flatten()
        tokens_R = draw(narrowed(gains_RV, self._options), uniforms_R)
        return tokens_R, gains_RV.gather(1, tokens_R[:, None])[:, 0]

    def keep(self, kept_B: Tensor) -> None:
        """Drops all sentences but these."""
        self._uniforms_BKT = self._uniforms_BKT[kept_B]
        super().keep(kept_B)
