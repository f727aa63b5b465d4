"""Drafts for greedy search with the torch engine: what proposes tokens, and what passes cost here."""

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from transduce.config import DecodeConfig
from transduce.config.choices import Precision, longest_sequence
from transduce.config.special_ids import BOS, EOS
from transduce.decoding.banned_tokens import banned_tokens
from transduce.decoding.candidates import log_probabilities_, top
from transduce.decoding.drafting import DraftCounts, DraftSearch, DraftTask
from transduce.decoding.online_drafts import OnlineDrafter, OutputMemory
from transduce.decoding.proposals import MOST_PROPOSED, Chances, Drafter, FasterWay, Output, PassCosts, Proposal
from transduce.decoding.scores import Hypothesis
from transduce.decoding.search import Search
from transduce.engines.batching import output_limit
from transduce.engines.interface import TokenConstraints
from transduce.engines.torch_search import Batch, last_position, padded
from transduce.errors import ConfigError
from transduce.model import Transformer, prepack
from transduce.model.cache import Memory
from transduce.model.inference_weights import has_int8
from transduce.model.spans import SpanState, step_span

# How close two log-probabilities may be for a step to be computed again. In float32 a hundred times the greatest
# difference that sums in another order made. In 8 bits a sentence alone is exact (`model/spans.py`); in a batch an
# activation may round to another level. That is rare, and too large to be covered: a few outputs may differ. In 16 bits
# the tolerance covers one step of a logit between 8 and 16, also for a sentence alone: on processors without such
# products, sums depend on the number of rows.
_TOLERANCES: dict[Precision, float] = {"float32": 1e-3, "int8": 0.02, "bfloat16": 0.07}

DRAFT = "--draft"  # in messages
_LEARNED_FROM = 4  # sentences of an ordinary search at most: learning from more costs time, and drafts are seldom used
# Steps by which proposals are grouped: how far a head's best token is from its second.
_MARGIN_STEPS, _MOST_STEPS = 1.5, 6
# Sentences and their tokens in the passes that are measured, how often, and how long the sources are.
_MEASURED_PASSES = ((1, 1), (1, 2), (1, 3), (1, 5), (1, 9), (8, 2), (8, 4), (16, 4), (32, 4))
_MEASURED_TIMES = 8
_MEASURED_LENGTH = 16


@dataclass
class Drafts:
    """What the torch engine needs to search with drafts, and what it has learned of them.

    Attributes:
        begin: makes what proposes tokens, for one search.
        precision: of the model.
        costs: of the model's passes.
        most: proposals for a sentence in one pass.
        chances: of proposals, by their kind.
        faster: which search is, the ordinary one or that with drafts.
        counts: what the drafts were worth so far.
    """

    begin: Callable[[], Drafter]
    precision: Precision
    costs: PassCosts
    most: int = MOST_PROPOSED
    chances: Chances = field(default_factory=Chances)
    faster: FasterWay = field(default_factory=FasterWay)
    counts: DraftCounts = field(default_factory=DraftCounts)

    def run(
        self,
        model: Transformer,
        batch: Batch,
        memory: Memory,
        options: DecodeConfig,
        ordinary: Callable[[], Search[Any]],
    ) -> list[list[Hypothesis]]:
        """Returns the hypotheses of each sentence of a batch: with drafts, where they can find them and are faster.

        They find only what greedy search finds; required phrases need a beam. Searches are compared with those of
        about as many sentences, and with prefixes, which drafts read in one pass, or without. Where passes over more
        tokens cost too much for any gain, as with many sentences on a CPU, drafts are not tried.
        """
        if options.beam_size > 1 or options.temperature:
            return ordinary().run()
        num_sentences, begin = len(batch.sources), time.perf_counter()
        kind = num_sentences.bit_length(), any(each.prefix for each in batch.constraints)
        promising = kind[1] or self.costs.worthwhile(num_sentences, self.chances.gains(self.most)) > 0
        if with_drafts := promising and self.faster(kind):
            found = self.search(model, batch, memory, options).run()
        else:
            found = ordinary().run()
            self.chances.forget()
            if num_sentences <= _LEARNED_FROM:
                drafter = self.begin()
                for number, (source, [best]) in enumerate(zip(batch.sources, found, strict=True)):
                    drafter.learn(Output(number, source, 0, best.ids, 0))
        num_tokens = sum(len(best.ids) + 1 for [best] in found)
        self.faster.note(with_drafts, kind, num_tokens, time.perf_counter() - begin)
        return found

    def search(self, model: Transformer, batch: Batch, memory: Memory, options: DecodeConfig) -> DraftSearch:
        """Returns the search over a batch that drafts serve.

        Raises:
            ConfigError: a least length or a prefix is longer than the positions that the model has learned.
        """
        constraints, device = batch.constraints or [TokenConstraints()] * len(batch.sources), batch.source_BS.device
        num_first = 1 + len(constraints[0].start)
        last = None if (longest := last_position([model])) is None else longest - num_first
        outputs = []
        for number, (source, each) in enumerate(zip(batch.sources, constraints, strict=True)):
            limit = output_limit(len(source), options, each, last)
            banned = banned_tokens(options, [each], [limit], device)
            ban_ = None if banned is None else banned.apply_
            outputs.append(Output(number, source, limit, [BOS, *each.start], num_first, each.prefix, ban_))

        def alone(sentence: int) -> Callable[[Sequence[int]], Tensor]:
            return _ordinary_steps(model, batch.sources[sentence], num_first + outputs[sentence].limit + 1, device)

        exact = self.precision == "int8" and len(outputs) == 1 and device.type == "cpu"
        task = DraftTask(
            step=lambda tokens_BK, state: step_span(model, tokens_BK, state),
            state=SpanState.start(model, memory),
            alone=alone,
            outputs=outputs,
            never=batch.never,
            most=self.most,
            tolerance=0.0 if exact else _TOLERANCES[self.precision],
            length_penalty=options.length_penalty,
            device=device,
        )
        return DraftSearch(task, self.begin(), self.costs, self.chances, self.counts)


def drafts_of(
    draft: Transformer | Literal["self", "blockwise"],
    model: Transformer,
    plain: Transformer,
    precision: Precision,
    never: Sequence[int],
) -> Drafts:
    """Returns what searches with drafts: of the model itself, of its heads for later tokens, or of a smaller model.

    What proposes computes in 8 bits where it can, whatever the precision: a proposal need not be exact.

    Args:
        draft: "self", "blockwise", or the smaller model.
        model: which decodes, prepacked.
        plain: the same, not prepacked.
        precision: of the model that decodes.
        never: tokens that no output holds.

    Raises:
        ConfigError: the model has no heads for later tokens, or restricted attention.
    """
    if model.config.attention_window:
        raise ConfigError(f"{DRAFT}: there are no drafts for models with model.attention_window.")
    costs = measured_costs(model)
    if draft == "self":
        memory = OutputMemory()
        return Drafts(lambda: OnlineDrafter(memory), precision, costs)
    if draft == "blockwise":
        if model.block_heads is None:
            raise ConfigError(
                f"{DRAFT}: this model has no heads for later tokens. 'transduce train --blockwise' trains them."
            )
        drafter = HeadDrafter(model if precision == "int8" else _fast(plain), never)
        return Drafts(lambda: drafter, precision, costs, model.config.block_size - 1)
    smaller = _fast(draft)
    seconds = measured_costs(smaller)(1)
    return Drafts(lambda: ModelDrafter(smaller, never, seconds), precision, costs)


def _fast(model: Transformer) -> Transformer:
    """Returns a model prepacked in 8 bits, where it can be, or else in float32."""
    return prepack(model, "int8" if model.output_embedding.device.type == "cpu" and has_int8() else "float32")


def measured_costs(model: Transformer) -> PassCosts:
    """Returns what passes cost on this machine: the fastest of some, for several numbers of sentences and tokens."""
    found, device = [], model.output_embedding.device
    length = min(_MEASURED_LENGTH, model.source_positions.limit or _MEASURED_LENGTH)
    limit = model.target_positions.limit
    passes = [each for each in _MEASURED_PASSES if limit is None or each[1] <= limit]
    with torch.inference_mode():
        for num_sentences, num_tokens in passes:
            source_BS, lengths_B = padded([[EOS] * length] * num_sentences, device)
            state = SpanState.start(model, model.encode(source_BS, lengths_B))
            tokens_BK = torch.full((num_sentences, num_tokens), EOS, device=device)
            seconds = []
            for _ in range(_MEASURED_TIMES):
                begin = time.perf_counter()
                logits_BKV, state = step_span(model, tokens_BK, state)
                top(log_probabilities_(logits_BKV.flatten(0, 1), ()), 2)[1].tolist()
                seconds.append(time.perf_counter() - begin)
            found.append((num_sentences * num_tokens, min(seconds)))
    return PassCosts(found)


def _ordinary_steps(
    model: Transformer, source: Sequence[int], max_steps: int, device: torch.device
) -> Callable[[Sequence[int]], Tensor]:
    """Returns a function from all that was read to the logits of the next token, over one sentence alone."""
    source_BS, lengths_B = padded([[*source, EOS]], device)
    state, num_read, logits_1V = model.start(model.encode(source_BS, lengths_B), max_steps=max_steps), 0, torch.empty(0)

    def logits_after(read: Sequence[int]) -> Tensor:
        nonlocal state, num_read, logits_1V
        for token in read[num_read:]:
            logits_1V, state = model.step(torch.tensor([token], device=device), state)
        num_read = len(read)
        return logits_1V

    return logits_after


class HeadDrafter:
    """The heads for later tokens of the model itself: each says what comes one token after what the last one says."""

    def __init__(self, model: Transformer, never: Sequence[int]) -> None:
        """Takes a model with heads, prepacked, of which nothing else is used, and tokens that they may not propose."""
        self._model, self._never, self._num_heads = model, never, model.config.block_size - 1
        seconds = []
        with torch.inference_mode():
            newest_1D = model.output_embedding.new_zeros(1, model.config.d_model)
            for _ in range(_MEASURED_TIMES):
                begin = time.perf_counter()
                self._found(newest_1D, self._num_heads)
                seconds.append(time.perf_counter() - begin)
        self._seconds = min(seconds) / self._num_heads

    def seconds(self, num_sentences: int) -> float:
        """Returns the seconds that one more head takes; for more sentences hardly more."""
        return self._seconds

    def propose(
        self, outputs: Sequence[Output], most: int, newest: Callable[[], Tensor | None]
    ) -> list[list[Proposal]]:
        """Returns at most so many proposals for each output: none before the first pass."""
        newest_BD = newest()
        if newest_BD is None:
            return [[] for _ in outputs]
        found, proposals = iter(self._found(newest_BD, most)), []
        for _ in outputs:
            until_end = itertools.takewhile(lambda each: each[0] != EOS, list(itertools.islice(found, most)))
            numbered = enumerate(until_end, start=2)
            proposals.append([Proposal(token, f"head {number}, {step}") for number, (token, step) in numbered])
        return proposals

    def learn(self, output: Output) -> None:
        """Learns nothing."""

    def _found(self, newest_BD: Tensor, count: int) -> list[tuple[int, int]]:
        """Returns the likeliest token of each of the first heads for each sentence, and how sure it is, in steps."""
        heads = self._model.block_heads
        assert heads is not None
        logits_RV = self._model.logits(heads(newest_BD, count).flatten(0, 1))
        for token in self._never:
            logits_RV[:, token] = -torch.inf
        logits_RC, tokens_RC = top(logits_RV, 2)
        margins_R = logits_RC[:, 0] - logits_RC[:, 1]
        steps_R = (_MARGIN_STEPS * margins_R).clamp_(max=_MOST_STEPS).int()
        return list(zip(tokens_RC[:, 0].tolist(), steps_R.tolist(), strict=True))


class ModelDrafter:
    """A smaller model of the same vocabulary, which proposes what it would write; for one search."""

    def __init__(self, model: Transformer, never: Sequence[int], seconds: float) -> None:
        """Takes the model, prepacked, tokens that it may not propose, and the seconds of one of its passes."""
        self._model, self._never, self._seconds = model, never, seconds
        self._longest = longest_sequence(model.config) or math.inf
        self._states: dict[int, SpanState] = {}  # by sentence
        self._read: dict[int, list[int]] = {}  # what each state has read

    def seconds(self, num_sentences: int) -> float:
        """Returns the seconds that one more proposal for each sentence takes: sentences are read one by one."""
        return num_sentences * self._seconds

    def propose(
        self, outputs: Sequence[Output], most: int, newest: Callable[[], Tensor | None]
    ) -> list[list[Proposal]]:
        """Returns so many proposals for each output; fewer where the model would end, or its positions do."""
        return [self._propose(output, most) for output in outputs]

    def learn(self, output: Output) -> None:
        """Forgets an output that has ended."""
        self._states.pop(output.sentence, None)
        self._read.pop(output.sentence, None)

    def _propose(self, output: Output, most: int) -> list[Proposal]:
        device = self._model.output_embedding.device
        if max(len(output.source) + 1, len(output.read) + most) > self._longest:
            return []
        if output.sentence not in self._states:
            source_BS, lengths_B = padded([[*output.source, EOS]], device)
            self._states[output.sentence] = SpanState.start(self._model, self._model.encode(source_BS, lengths_B))
            self._read[output.sentence] = []
        state, known = self._states[output.sentence], self._read[output.sentence]
        agreed = next((i for i, (a, b) in enumerate(zip(known, output.read, strict=False)) if a != b), len(known))
        agreed = min(agreed, len(output.read) - 1)  # at least the last token is read again
        state, new = state.accept([agreed - len(known)]), list(output.read[agreed:])
        known = list(output.read)
        found: list[Proposal] = []
        for _ in range(most):
            logits_BKV, state = step_span(self._model, torch.tensor([new], device=device), state)
            state = state.accept([len(new)])
            token = int(top(log_probabilities_(logits_BKV[0, -1:], self._never), 1)[1])
            if token == EOS:
                break
            found.append(Proposal(token, "model"))
            new = [token]
            known.append(token)
        # The last proposal was not read.
        self._states[output.sentence] = state
        self._read[output.sentence] = known[: state.lengths[0]]
        return found
