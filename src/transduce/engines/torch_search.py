"""From a batch of sources and their constraints to a search."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from transduce.config import DecodeConfig
from transduce.config.special_ids import EOS, PAD
from transduce.decoding.beam import BeamSearch
from transduce.decoding.coverage import coverage_penalty
from transduce.decoding.ensemble import EnsembleState, ensemble_step
from transduce.decoding.greedy import GreedySearch
from transduce.decoding.narrowing import NarrowState, VocabularyPart, narrow_step
from transduce.decoding.sampling import Sampling, uniforms
from transduce.decoding.search import Search, SearchTask, first_tokens
from transduce.engines.batching import output_limit
from transduce.engines.interface import TokenConstraints
from transduce.engines.shortlist.table import Shortlist
from transduce.errors import ConfigError
from transduce.model import Transformer
from transduce.model.cache import DecoderState, Memory
from transduce.model.cuda_graphs import GraphDecoder
from transduce.model.inference_weights import narrow_projection

# Outputs that are drawn in one batch: their probabilities are as many matrices of the vocabulary's width.
_MAX_DRAWN = 512
_MAX_DRAWN_TOGETHER = 16  # outputs of one source that share its past


# --- what is searched together --------------------------------------------------------------------------------


@dataclass(frozen=True)
class SearchRound:
    """One of the searches by which a batch gets its outputs; only draws may need more than one.

    Attention to the shared past grows with the square of the rows of a source (docs/decisions/0010). So a source with
    many draws is in the batch several times.
    """

    copies: int  # of each source in the batch
    num_outputs: int  # of each copy
    first_draw: int = 0  # the number of a source's first draw


def search_rounds(options: DecodeConfig, n_best: int) -> Iterator[SearchRound]:
    """Yields the searches by which each source gets `n_best` outputs, or a few more where they are drawn."""
    if not options.temperature:
        yield SearchRound(copies=1, num_outputs=n_best)
        return
    for first in range(0, n_best, _MAX_DRAWN):
        count = min(_MAX_DRAWN, n_best - first)
        copies = -(-count // _MAX_DRAWN_TOGETHER)
        yield SearchRound(copies, -(-count // copies), first)


def batch_size(options: DecodeConfig, n_best: int) -> int:
    """Returns how many sources go together."""
    return min(options.batch_size, max(1, _MAX_DRAWN // n_best)) if options.temperature else options.batch_size


@dataclass(frozen=True)
class Batch:
    """Sources that are searched together, padded."""

    sources: list[list[int]]
    source_BS: Tensor
    lengths_B: Tensor  # on the CPU
    constraints: Sequence[TokenConstraints]  # of each source, or none at all
    never: Sequence[int]  # ids that no output holds
    vocabulary: VocabularyPart | None  # the part that is searched in; ids of constraints and outputs are columns of it

    @classmethod
    def of(
        cls,
        sources: list[list[int]],
        constraints: Sequence[TokenConstraints],
        never: Sequence[int],
        shortlist: Shortlist | None,
        device: torch.device,
    ) -> Self:
        """Returns a batch; with a shortlist, each source has its own part of the vocabulary.

        Starts, prefixes and required phrases are in their sentence's part in any case. Other completions are left out,
        and so are forbidden phrases that cannot occur.

        Raises:
            ConfigError: outputs must be brackets, and there is a shortlist, which may not hold what closes them.
        """
        source_BS, lengths_B = padded([[*ids, EOS] for ids in sources], device)
        if shortlist is None:
            return cls(sources, source_BS, lengths_B, constraints, never, None)
        if any(each.brackets for each in constraints):
            raise ConfigError("the constraint 'brackets' needs the whole vocabulary: load the model with no shortlist.")
        allowed_BV = shortlist.allowed(sources)
        for row, each in enumerate(constraints):
            required = [token for entry in each.required for phrase in entry for token in phrase]
            allowed_BV[row, [*each.start, *each.prefix, *required]] = True
        part = VocabularyPart.of(allowed_BV, device)
        constraints = [_in_columns(each, allowed_BV[row], part) for row, each in enumerate(constraints)]
        never = part.columns([token for token in never if token in part.ids])
        return cls(sources, source_BS, lengths_B, constraints, never, part)


def padded(sequences: list[list[int]], device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Returns the sequences, padded, on `device`, and their lengths on the CPU, where the model wants them."""
    lengths = [len(sequence) for sequence in sequences]
    rows = [sequence + [PAD] * (max(lengths) - len(sequence)) for sequence in sequences]
    return torch.tensor(rows, device=device), torch.tensor(lengths)


def _in_columns(constraints: TokenConstraints, allowed_V: np.ndarray, part: VocabularyPart) -> TokenConstraints:
    completions = [[index for index in choice if allowed_V[index]] for choice in constraints.completions]
    return TokenConstraints(
        start=part.columns(constraints.start),
        prefix=part.columns(constraints.prefix),
        completions=tuple(part.columns(choice) for choice in completions),
        required=tuple(tuple(part.columns(phrase) for phrase in entry) for entry in constraints.required),
        joining=part.columns([index for index in constraints.joining if allowed_V[index]]),
        forbidden=tuple(part.columns(phrase) for phrase in constraints.forbidden if allowed_V[list(phrase)].all()),
    )


# --- the search -----------------------------------------------------------------------------------------------


def search(
    batch: Batch,
    models: Sequence[Transformer],
    memories: Sequence[Memory],
    options: DecodeConfig,
    draws: SearchRound,
    graph_decoders: Sequence[GraphDecoder] | None = None,
) -> Search[Any]:
    """Returns the search that the options ask for.

    Args:
        batch: what is searched.
        models: they decode; several search as one.
        memories: of each model, the encoded sources.
        options: of the search.
        draws: how many outputs of each source, and which draws these are.
        graph_decoders: they take the steps of the models, except for coverage.

    Raises:
        ConfigError: a least length or a prefix is longer than the positions that a model has learned.
    """
    constraints = batch.constraints or [TokenConstraints()] * len(batch.sources)
    num_start = len(constraints[0].start)
    last = None if (longest := last_position(models)) is None else longest - 1 - num_start
    limited = zip(batch.sources, constraints, strict=True)
    limits = [output_limit(len(source), options, each, last) for source, each in limited]
    coverage = options.coverage_penalty > 0
    decoders: Sequence[Any] = models
    further: dict[str, Any] = {"coverage": coverage}
    if graph_decoders is not None and not coverage:
        num_beams = draws.num_outputs if options.temperature else options.beam_size
        decoders, further = graph_decoders, {"num_beams": num_beams}
    steps = [each.step for each in decoders]
    started = zip(decoders, memories, strict=True)
    states = [each.start(memory, max_steps=num_start + max(limits) + 1, **further) for each, memory in started]
    if (part := batch.vocabulary) is not None:
        for index, model in enumerate(models):
            projection = narrow_projection(model, part.ids_N)
            steps[index] = narrow_step(functools.partial(steps[index], projection=projection), part)
        states = [NarrowState(state, ~part.allowed_BN) for state in states]
    step, state = (steps[0], states[0]) if len(steps) == 1 else (ensemble_step(steps), EnsembleState(tuple(states)))
    device = batch.source_BS.device
    first_B = first_tokens(len(batch.sources), device)
    for tokens in zip(*(each.start for each in constraints), strict=True):
        _, state = step(first_B, state)
        first_B = torch.tensor(tokens, device=device)
    task: SearchTask[Any] = SearchTask(step, state, limits, batch.constraints, device, batch.never, first_B)
    if options.temperature:
        return Sampling(task, options, _uniforms(batch, options, draws, task.max_tokens + 1))
    if options.beam_size == 1:
        return GreedySearch(task, options)
    bonus = functools.partial(_coverage_bonus, options.coverage_penalty) if coverage else None
    return BeamSearch(task, options, draws.num_outputs, bonus)


def _uniforms(batch: Batch, options: DecodeConfig, draws: SearchRound, num_steps: int) -> Tensor:
    """Returns the random numbers that decide what is drawn for each output of each row of a batch."""
    firsts = (draws.first_draw + row % draws.copies * draws.num_outputs for row in range(len(batch.sources)))
    given = zip(batch.sources, firsts, strict=True)
    numbers = [uniforms(options.seed, source, draws.num_outputs, num_steps, first) for source, first in given]
    return torch.from_numpy(np.stack(numbers))


def last_position(models: Sequence[Transformer]) -> int | None:
    """Returns the number of positions of a target that all models have learned; None where there is no limit."""
    return min((limit for model in models if (limit := model.target_positions.limit) is not None), default=None)


def _coverage_bonus(beta: float, state: Any) -> Tensor:
    """Returns β times the coverage penalty of each row; for an ensemble, that of its models' mean attention."""
    states = state.members if isinstance(state, EnsembleState) else (state,)
    members: list[DecoderState] = [each.inner if isinstance(each, NarrowState) else each for each in states]
    kept = [coverage for member in members if (coverage := member.coverage_BKS) is not None]
    mask = members[0].memory_mask
    real_BS = None if mask is None else mask[:, 0, 0]
    return beta * coverage_penalty(torch.stack(kept).mean(dim=0), real_BS).flatten()
