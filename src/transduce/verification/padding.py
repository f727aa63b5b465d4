"""Padding: the results of a sentence do not depend on the batch that it is in."""

import torch
from torch import Tensor

from transduce.model import Memory
from transduce.reporting.tables import counted
from transduce.verification.differences import Differences
from transduce.verification.findings import Finding
from transduce.verification.model_under_test import ModelUnderTest, forced, padded

_EXTRA = (0, 1, 33)  # padding beyond that of the longest


def padding(tested: ModelUnderTest) -> Finding:
    """Compares each sentence alone with all in one batch, with more and more padding, and with other ids as padding."""
    model, pairs, seen = tested.engine.model, tested.pairs, Differences()
    alone = [model.encode(*padded([source], tested.device)) for source in pairs.sources]
    alone_TV = [forced(model, pairs.select([row]))[0] for row in range(len(pairs))]
    longest_source, longest = max(map(len, pairs.sources)), max(map(len, (*pairs.sources, *pairs.targets)))
    limit = tested.position_limit
    for extra in _EXTRA:
        width = min(longest_source + extra, limit)
        for fill, kind in ((None, "padding"), (tested.random_ids(len(pairs), width), "padding of other ids")):
            memory = model.encode(*padded(pairs.sources, tested.device, width, fill))
            _compare_states(tested, memory, alone, seen, f"in {width} positions with {kind}")
            _compare_first_step(tested, memory, alone, seen, f"in {width} positions with {kind}")
        width = min(longest + extra, limit)
        for row, (together_TV, single_TV) in enumerate(zip(forced(model, pairs, width), alone_TV, strict=True)):
            name = f"{pairs.names[row]} padded to {width}"
            seen.compare(together_TV, single_TV, f"{name}: log-probabilities, position {{}}")
    compared = f"{counted(len(pairs), 'sentence')} alone and together, padding to {width} positions"
    return seen.finding(compared, tested.settings.log_probability)


def _compare_states(tested: ModelUnderTest, memory: Memory, alone: list[Memory], seen: Differences, how: str) -> None:
    """Compares the encoder's output; its numbers are those of a layer norm, about 1."""
    for row, (name, single) in enumerate(zip(tested.pairs.names, alone, strict=True)):
        states_SD = memory.states_BSD[row, : single.states_BSD.size(1)]
        seen.compare(states_SD, single.states_BSD[0], f"{name} {how}: encoder state, position {{}}")


def _compare_first_step(
    tested: ModelUnderTest, memory: Memory, alone: list[Memory], seen: Differences, how: str
) -> None:
    """Compares the first step of decoding, which reads the encoder's output through its mask."""
    model = tested.engine.model

    def first_step(memory: Memory) -> Tensor:
        bos_B = torch.ones(memory.states_BSD.size(0), dtype=torch.long, device=tested.device)
        logits_BV, _ = model.step(bos_B, model.start(memory, max_steps=1))
        return logits_BV.log_softmax(dim=-1)

    together_BV = first_step(memory)
    for row, (name, single) in enumerate(zip(tested.pairs.names, alone, strict=True)):
        seen.compare(together_BV[row], first_step(single)[0], f"{name} {how}: first step, token {{}}")
