"""Greedy and beam search with a control, or with a `Transformer`: the searches of `transduce.decoding`."""

from collections.abc import Sequence
from typing import Any

import torch

from transduce.config import DecodeConfig
from transduce.config.special_ids import EOS
from transduce.decoding.beam import BeamSearch
from transduce.decoding.constraints import TokenConstraints
from transduce.decoding.greedy import GreedySearch
from transduce.decoding.search import SearchTask
from transduce.engines.batching import length_batches, output_limit
from transduce.engines.torch_search import padded


def search(model: Any, sources: Sequence[Sequence[int]], options: DecodeConfig) -> list[list[int]]:
    """Returns the best output for each source; neither side has EOS here, and a source has at least one token.

    Args:
        model: in evaluation mode; what `encode`, `start` and `step` of `transduce.model.Transformer` are.
        sources: ids; one beyond learned positions is cut, as by the torch engine.
        options: the width of the beam, the length penalty and the limits.
    """
    model.eval()
    found: list[list[int]] = [[] for _ in sources]
    last = None if model.max_positions is None else model.max_positions - 1
    device = model.output_embedding.device
    with torch.inference_mode():
        for indices in length_batches([len(source) for source in sources], options.batch_size):
            ids_BS, lengths_B = padded([[*sources[index][:last], EOS] for index in indices], device)
            limits = [output_limit(len(sources[index]), options, TokenConstraints(), last) for index in indices]
            state = model.start(model.encode(ids_BS, lengths_B), max_steps=max(limits) + 1)
            task: SearchTask[Any] = SearchTask(model.step, state, limits, device=device)
            made = GreedySearch(task, options) if options.beam_size == 1 else BeamSearch(task, options)
            for index, [best, *_] in zip(indices, made.run(), strict=True):
                found[index] = list(best.ids)
    return found
