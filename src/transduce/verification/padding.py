"""Padding: the results of a sentence do not depend on the batch that it is in."""

import torch
from torch import Tensor

from transduce.config.special_ids import BOS
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
    alone_V = [_first_step(tested, single)[0] for single in alone]
    alone_TV = [forced(model, pairs.select([row]))[0] for row in range(len(pairs))]
    longest_source, longest = max(map(len, pairs.sources)), max(map(len, (*pairs.sources, *pairs.targets)))
    limit = tested.position_limit
    for extra in _EXTRA:
        width = min(longest_source + extra, limit)
        for fill, kind in ((None, "padding"), (tested.random_ids(len(pairs), width), "padding of other ids")):
            memory = model.encode(*padded(pairs.sources, tested.device, width, fill))
            together_BV = _first_step(tested, memory)
            for row, single in enumerate(alone):
                where = f"{pairs.names[row]} in {width} positions with {kind}"
                states_SD = memory.states_BSD[row, : single.states_BSD.size(1)]  # of a layer norm: about 1
                seen.compare(states_SD, single.states_BSD[0], f"{where}: encoder state, position {{}}")
                seen.compare(together_BV[row], alone_V[row], f"{where}: first step, token {{}}")
        width = min(longest + extra, limit)
        names = [f"{name} padded to {width}: log-probabilities" for name in pairs.names]
        seen.compare_sentences(names, forced(model, pairs, width), alone_TV)
    compared = f"{counted(len(pairs), 'sentence')} alone and together, padding to {width} positions"
    return seen.finding(compared, tested.settings.log_probability)


def _first_step(tested: ModelUnderTest, memory: Memory) -> Tensor:
    """Returns the log-probabilities of the first step of decoding, which reads the encoder through its mask."""
    model = tested.engine.model
    bos_B = torch.full((memory.states_BSD.size(0),), BOS, device=tested.device)
    logits_BV, _ = model.step(bos_B, model.start(memory, max_steps=1))
    return logits_BV.log_softmax(dim=-1)
