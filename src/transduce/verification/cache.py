"""Cache = no cache: decoding step by step gives the log-probabilities of whole sequences."""

from random import Random

import torch
from torch import Tensor

from transduce.config.special_ids import BOS
from transduce.model import Memory
from transduce.reporting.tables import counted
from transduce.verification.differences import Differences
from transduce.verification.findings import Finding
from transduce.verification.model_under_test import ModelUnderTest, Pairs, padded

_LONG = 70  # steps: more than a new cache has capacity for, so that it must grow
_BEAMS = 3
_BEAM_STEPS = 12
_BEAM_SENTENCES = 4


def steps(tested: ModelUnderTest) -> Finding:
    """Feeds targets token by token, and compares each step with the whole target decoded without a cache."""
    seen, pairs = Differences(), tested.pairs
    whole, long = max(map(len, pairs.targets)), min(_LONG, tested.position_limit)
    _follow(tested, pairs, whole, seen)
    _follow(tested, pairs.select(range(min(2, len(pairs)))), long, seen)
    compared = f"{counted(len(pairs), 'sentence')}, up to {counted(max(whole, long), 'step')}"
    return seen.finding(compared, tested.settings.log_probability)


def _follow(tested: ModelUnderTest, pairs: Pairs, num_steps: int, seen: Differences) -> None:
    """Compares `num_steps` steps; shorter targets are continued with random tokens."""
    model = tested.engine.model
    memory = model.encode(*padded(pairs.sources, tested.device))
    random_BT = tested.random_ids(len(pairs), num_steps)
    target_BT, _ = padded([t[:-1][:num_steps] for t in pairs.targets], tested.device, num_steps, random_BT)
    whole_BTV = model.decode(memory, target_BT)
    state = model.start(memory, max_steps=num_steps)
    tokens_B = torch.full((len(pairs),), BOS, device=tested.device)
    for t in range(num_steps):
        logits_BV, state = model.step(tokens_B, state)
        _compare(seen, logits_BV, whole_BTV[:, t], [f"{name}, position {t + 1}" for name in pairs.names])
        tokens_B = target_BT[:, t]


def beams(tested: ModelUnderTest) -> Finding:
    """Does what a search does: one row a sentence, several beams, reordering, then fewer sentences in another order.

    At each step every beam is compared with the same tokens decoded without a cache.
    """
    model, seen, device = tested.engine.model, Differences(), tested.device
    pairs = tested.pairs.select(range(len(tested.pairs))[-_BEAM_SENTENCES:])
    memory = model.encode(*padded(pairs.sources, device))
    state = model.start(memory, max_steps=_BEAM_STEPS)
    sentences = torch.arange(len(pairs), device=device)
    past_RT = torch.empty(len(pairs), 0, dtype=torch.long, device=device)  # what each row was fed after BOS
    tokens_R = torch.full((len(pairs),), BOS, device=device)
    random = Random(tested.settings.seed)
    for t in range(min(_BEAM_STEPS, tested.position_limit)):
        logits_RV, state = model.step(tokens_R, state)
        rows_R = sentences.repeat_interleave(past_RT.size(0) // sentences.numel())
        whole_RTV = model.decode(_repeated(memory, rows_R), torch.cat([past_RT, tokens_R[:, None]], dim=1))
        where = [f"{pairs.names[index]}, step {t + 1} (row {row})" for row, index in enumerate(rows_R.tolist(), 1)]
        _compare(seen, logits_RV, whole_RTV[:, t], where)
        if t == 1:
            state, past_RT = state.expand(_BEAMS), past_RT.repeat_interleave(_BEAMS, dim=0)
        elif t > 1 and t % 2 == 0:
            parents = [s * _BEAMS + random.randrange(_BEAMS) for s in range(sentences.numel()) for _ in range(_BEAMS)]
            order_R = torch.tensor(parents, device=device)
            state, past_RT = state.reorder(order_R), past_RT[order_R]
        if t == _BEAM_STEPS // 2:
            kept = torch.tensor(list(range(sentences.numel()))[::-1][: max(1, sentences.numel() - 1)], device=device)
            state, sentences = state.keep(kept), sentences[kept]
            past_RT = past_RT.view(-1, _BEAMS, past_RT.size(1))[kept].flatten(0, 1)
        generated = random.choices(range(4, model.config.vocab_size), k=past_RT.size(0))
        tokens_R = torch.tensor(generated, device=device)
        past_RT = torch.cat([past_RT, tokens_R[:, None]], dim=1)
    compared = f"{counted(len(pairs), 'sentence')} × {_BEAMS} beams, expanded, reordered and dropped over {t + 1} steps"
    return seen.finding(compared, tested.settings.log_probability)


def _repeated(memory: Memory, rows_R: Tensor) -> Memory:
    mask = None if memory.attend_mask is None else memory.attend_mask[rows_R]
    return Memory(memory.states_BSD[rows_R], mask)


def _compare(seen: Differences, logits_RV: Tensor, whole_RV: Tensor, where: list[str]) -> None:
    seen.compare(logits_RV.log_softmax(dim=-1), whole_RV.log_softmax(dim=-1), where)
