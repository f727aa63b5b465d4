"""From a batch of sources and what is asked of it to a search over one PyTorch model, or over several as one."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from transduce.config import DecodeConfig
from transduce.decoding.banned_tokens import BannedTokens, banned_tokens
from transduce.decoding.beam import beam_search
from transduce.decoding.coverage import coverage_penalty
from transduce.decoding.ensemble import EnsembleState, ensemble_step
from transduce.decoding.greedy import greedy_search
from transduce.decoding.narrowing import NarrowState, Vocabulary, narrow_step
from transduce.decoding.required import RequiredPhrases, required_phrases
from transduce.decoding.sampling import sample, uniforms
from transduce.decoding.scores import Hypothesis, SpecialIds
from transduce.decoding.step import Step
from transduce.engines.capabilities import require_plain_beam
from transduce.engines.interface import TokenConstraints
from transduce.engines.shortlist.table import Shortlist
from transduce.errors import ConfigError
from transduce.model import Transformer
from transduce.model.cache import DecoderState
from transduce.model.cuda_graphs import GraphDecoder
from transduce.model.prepacked import narrow_projection

_SPECIALS = SpecialIds()
_MAX_DRAWN_TOGETHER = 16  # outputs of one source that share its past


def check(options: DecodeConfig, n_best: int, conditions: Sequence[TokenConstraints] | None, num_sources: int) -> None:
    """Raises ConfigError for what cannot be searched for."""
    if options.temperature == 0 and n_best > options.beam_size:
        raise ConfigError(f"n-best = {n_best}: must be at most the beam size, {options.beam_size}.")
    if conditions is None:
        return
    if any(each.required for each in conditions):
        require_plain_beam(options)
    if len(conditions) != num_sources:
        raise ConfigError(f"{num_sources} sources and conditions for {len(conditions)}: give one for each source.")
    for number, each in enumerate(conditions, start=1):
        if not all(entry and all(entry) for entry in each.required):
            raise ConfigError(f"source {number}: a phrase of 'required', or a choice of phrases, is empty.")
        banned = (*_SPECIALS.never_generated, _SPECIALS.eos)
        if any(token in banned for entry in each.required for phrase in entry for token in phrase):
            raise ConfigError(f"source {number}: a phrase of 'required' holds a special token.")
        if any(token in (*_SPECIALS.never_generated, _SPECIALS.eos) for token in each.prefix):
            raise ConfigError(f"source {number}: 'prefix' holds a special token.")
        if not all(each.forbidden):
            raise ConfigError(f"source {number}: a phrase of 'forbidden' is empty.")


@dataclass(frozen=True)
class Batch:
    """Sources that are searched together, padded."""

    sources: list[list[int]]  # as they were given, for what is drawn
    source_BS: Tensor
    lengths_B: Tensor
    conditions: Sequence[TokenConstraints] | None
    vocabulary: Vocabulary | None = None  # the part that is searched in; conditions and outputs are columns of it


def narrowed(batch: Batch, shortlist: Shortlist) -> Batch:
    """Returns the batch with the part of the vocabulary that it is to be searched in: each sentence's shortlist.

    A prefix is in its sentence's part, and so is what is required. Completions that are not are left out, and so are
    forbidden phrases that cannot come.
    """
    allowed_BV = shortlist.allowed(batch.sources)
    conditions = batch.conditions or []
    for row, each in enumerate(conditions):
        required = [token for entry in each.required for phrase in entry for token in phrase]
        allowed_BV[row, [*each.prefix, *required]] = True
    vocabulary = Vocabulary.of(allowed_BV, batch.source_BS.device)
    asked = [_narrowed(each, allowed_BV[row], vocabulary) for row, each in enumerate(conditions)]
    return replace(batch, conditions=asked or None, vocabulary=vocabulary)


def _narrowed(asked: TokenConstraints, allowed_V: np.ndarray, vocabulary: Vocabulary) -> TokenConstraints:
    completions = [[index for index in choice if allowed_V[index]] for choice in asked.completions]
    return TokenConstraints(
        prefix=vocabulary.narrowed(asked.prefix),
        completions=tuple(vocabulary.narrowed(choice) for choice in completions),
        required=tuple(tuple(vocabulary.narrowed(phrase) for phrase in entry) for entry in asked.required),
        joining=vocabulary.narrowed([index for index in asked.joining if allowed_V[index]]),
        forbidden=tuple(vocabulary.narrowed(phrase) for phrase in asked.forbidden if allowed_V[list(phrase)].all()),
    )


def search(
    models: Sequence[Transformer],
    batch: Batch,
    options: DecodeConfig,
    n_best: int,
    graph_decoders: Sequence[GraphDecoder] | None = None,
    *,
    first_draw: int = 0,
) -> list[list[Hypothesis]]:
    """Returns what the search of `options` finds for each source; several models search as one.

    `graph_decoders`, one for each model, take the steps of the models, except where coverage is kept. Draws are those
    from number `first_draw` on.

    Raises:
        ConfigError: a least length or a prefix goes beyond the positions that a model has learned.
    """
    if options.temperature > 0:
        found = _draw(models, batch, options, n_best, graph_decoders, first_draw)
    else:
        found = _search(models, batch, options, n_best, graph_decoders)
    if batch.vocabulary is None:
        return found
    return [[batch.vocabulary.widened(each) for each in of_source] for of_source in found]


def _search(
    models: Sequence[Transformer],
    batch: Batch,
    options: DecodeConfig,
    n_best: int,
    graph_decoders: Sequence[GraphDecoder] | None,
) -> list[list[Hypothesis]]:
    """Returns the best outputs that a beam finds."""
    device = batch.source_BS.device
    limits = _limits(models, batch, options)
    coverage = options.coverage_penalty > 0
    decoders = None if coverage else graph_decoders
    num_steps, num_beams = max(limits) + 1, options.beam_size
    step, state = _start(models, decoders, batch, num_steps, num_beams, coverage=coverage)
    asked = _restrictions(batch, options)
    if options.beam_size == 1:
        best = greedy_search(step, state, limits, length_penalty=options.length_penalty, banned=asked, device=device)
        return [[hypothesis] for hypothesis in best]
    return beam_search(
        step,
        state,
        limits,
        beam_size=options.beam_size,
        length_penalty=options.length_penalty,
        n_best=n_best,
        banned=asked,
        required=_requirements(models, batch),
        bonus=functools.partial(_coverage_bonus, options.coverage_penalty) if options.coverage_penalty else None,
        num_groups=options.diversity_groups,
        diversity_penalty=options.diversity_penalty,
        device=device,
    )


def _draw(
    models: Sequence[Transformer],
    batch: Batch,
    options: DecodeConfig,
    num_draws: int,
    graph_decoders: Sequence[GraphDecoder] | None,
    first: int,
) -> list[list[Hypothesis]]:
    """Returns what is drawn for each source.

    Attention to the shared past grows with the square of the rows of a source (docs/decisions/0010): one with many
    draws goes in several times.
    """
    parts = -(-num_draws // _MAX_DRAWN_TOGETHER)
    together = -(-num_draws // parts)
    wide = Batch(
        [source for source in batch.sources for _ in range(parts)],
        batch.source_BS.repeat_interleave(parts, dim=0),
        batch.lengths_B.repeat_interleave(parts),
        None if batch.conditions is None else [each for each in batch.conditions for _ in range(parts)],
        None if batch.vocabulary is None else batch.vocabulary.repeated(parts),
    )
    limits = _limits(models, wide, options)
    num_steps = max(limits) + 1
    drawn = [uniforms(options.seed, source, parts * together, num_steps, first) for source in batch.sources]
    step, state = _start(models, graph_decoders, wide, num_steps, together)
    found = sample(
        step,
        state,
        limits,
        torch.stack([torch.from_numpy(each) for each in drawn]).view(len(limits), together, num_steps),
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        length_penalty=options.length_penalty,
        banned=_restrictions(wide, options),
        device=batch.source_BS.device,
    )
    of_sources = (found[first : first + parts] for first in range(0, len(found), parts))
    return [[each for part in of_source for each in part][:num_draws] for of_source in of_sources]


def _start(
    models: Sequence[Transformer],
    graph_decoders: Sequence[GraphDecoder] | None,
    batch: Batch,
    num_steps: int,
    num_beams: int,
    *,
    coverage: bool = False,
) -> tuple[Step[Any], Any]:
    """Returns the step function and the state before the first step."""
    memories = [model.encode(batch.source_BS, batch.lengths_B) for model in models]
    steps: list[Callable[..., Any]]
    states: list[Any]
    if graph_decoders is None:
        steps = [model.step for model in models]
        pairs = zip(models, memories, strict=True)
        states = [model.start(memory, max_steps=num_steps, coverage=coverage) for model, memory in pairs]
    else:
        steps = [decoder.step for decoder in graph_decoders]
        started = zip(graph_decoders, memories, strict=True)
        states = [decoder.start(memory, max_steps=num_steps, num_beams=num_beams) for decoder, memory in started]
    part = batch.vocabulary
    if part is None:
        return _together(steps, states)
    projections = [narrow_projection(model, part.ids_N) for model in models]
    narrow = [functools.partial(step, projection=each) for step, each in zip(steps, projections, strict=True)]
    return _together([narrow_step(step, part) for step in narrow], [part.start(state) for state in states])


def _together(steps: Sequence[Step[Any]], states: Sequence[Any]) -> tuple[Step[Any], Any]:
    """Returns the step of several models as one, and their state."""
    if len(steps) == 1:
        return steps[0], states[0]
    return ensemble_step(steps), EnsembleState(tuple(states))


def _limits(models: Sequence[Transformer], batch: Batch, options: DecodeConfig) -> list[int]:
    """Returns the greatest number of tokens of each output: never less than its prefix has, or than is asked for."""
    positions = [limit - 1 for model in models if (limit := model.target_positions.limit) is not None]
    limits = []
    for place, source in enumerate(batch.sources):
        limit = len(source) + options.max_extra_tokens
        if options.max_tokens:
            limit = min(limit, options.max_tokens)
        given = len(batch.conditions[place].prefix) if batch.conditions is not None else 0
        least = max(options.min_tokens, given)
        if positions and least > min(positions):
            what = f"a prefix of {given} tokens" if given == least else f"decode.min_tokens = {options.min_tokens}"
            raise ConfigError(f"{what}: this model's learned positions end at {min(positions)}.")
        limits.append(min([max(limit, least), *positions]))
    return limits


def _restrictions(batch: Batch, options: DecodeConfig) -> BannedTokens | None:
    conditions = batch.conditions or []
    return banned_tokens(
        len(batch.sources),
        eos=_SPECIALS.eos,
        min_tokens=options.min_tokens,
        no_repeat_ngram=options.no_repeat_ngram,
        prefixes=[each.prefix for each in conditions],
        completions=[each.completions for each in conditions],
        forbidden=[each.forbidden for each in conditions],
        device=batch.source_BS.device,
    )


def _requirements(models: Sequence[Transformer], batch: Batch) -> RequiredPhrases | None:
    conditions = batch.conditions or []
    return required_phrases(
        [each.required for each in conditions],
        vocab_size=models[0].config.vocab_size if batch.vocabulary is None else len(batch.vocabulary.ids),
        joining=[each.joining for each in conditions],
        device=batch.source_BS.device,
    )


def _coverage_bonus(beta: float, state: Any) -> Tensor:
    """Returns β times the coverage penalty of each row; of an ensemble, of what its models attend to on average."""
    states = state.members if isinstance(state, EnsembleState) else (state,)
    members: list[DecoderState] = [each.inner if isinstance(each, NarrowState) else each for each in states]
    kept = [coverage for member in members if (coverage := member.coverage_BKS) is not None]
    mask = members[0].memory_mask
    real_BS = None if mask is None else mask[:, 0, 0]
    return beta * coverage_penalty(torch.stack(kept).mean(dim=0), real_BS).flatten()
