"""A beam of 1 is greedy search: compared with beam search itself, and with an argmax that needs no cache."""

import torch

from transduce.config import DecodeConfig
from transduce.config.special_ids import EOS, PAD
from transduce.decoding.beam import BeamSearch
from transduce.decoding.scores import Hypothesis
from transduce.decoding.search import SearchTask
from transduce.reporting.tables import counted
from transduce.verification.differences import Differences
from transduce.verification.findings import Finding, Tie
from transduce.verification.model_under_test import ModelUnderTest, Pairs, padded


def greedy(tested: ModelUnderTest) -> Finding:
    """Compares the engine's output for a beam of 1 with a beam search of one beam, and with a plain argmax.

    If two tokens are equally probable, up to rounding, either is right: a tie.
    """
    seen, pairs, options = Differences(), tested.pairs, tested.options
    sources = [list(source[:-1]) for source in pairs.sources]
    one_beam = DecodeConfig(
        beam_size=1, length_penalty=options.length_penalty, max_extra_tokens=options.max_extra_tokens
    )
    engine = [best for [best] in tested.engine.translate(sources, one_beam)]
    for row, (one, two) in enumerate(zip(engine, _one_beam(tested, pairs, one_beam), strict=True)):
        if _same(tested, row, one.ids, two.ids, "engine and one beam", seen):
            seen.add(one.log_probability - two.log_probability, f"{pairs.names[row]}: log-probability of one beam")
            if one.finished != two.finished:
                seen.faults.append(f"{pairs.names[row]}: only one of engine and beam search finished")
    longest = min(tested.max_target_tokens, tested.position_limit - 1)  # a whole output has EOS, too
    for row, ids in enumerate(_argmax(tested, pairs, longest)):
        _same(tested, row, engine[row].ids[:longest], ids[:longest], "engine and argmax", seen)
    compared = f"{counted(len(pairs), 'sentence')}: engine, beam search of 1, argmax of {longest} whole prefixes"
    return seen.finding(compared, tested.settings.log_probability)


def _one_beam(tested: ModelUnderTest, pairs: Pairs, options: DecodeConfig) -> list[Hypothesis]:
    """Runs beam search with one beam, for which the engine uses greedy search."""
    model = tested.engine.model
    limits = [len(source) - 1 + options.max_extra_tokens for source in pairs.sources]
    if model.target_positions.limit is not None:
        limits = [min(limit, model.target_positions.limit - 1) for limit in limits]
    state = model.start(model.encode(*padded(pairs.sources, tested.device)), max_steps=max(limits) + 1)
    task = SearchTask(model.step, state, limits, device=tested.device, never=tested.never_generated)
    return [best for [best] in BeamSearch(task, DecodeConfig(beam_size=1, length_penalty=options.length_penalty)).run()]


def _argmax(tested: ModelUnderTest, pairs: Pairs, num_tokens: int) -> list[list[int]]:
    """Returns up to `num_tokens` tokens of each output, each the argmax after its whole prefix; ends before EOS."""
    model, never = tested.engine.model, list(tested.never_generated)
    memory = model.encode(*padded(pairs.sources, tested.device))
    prefix_BT = torch.full((len(pairs), 1), PAD, device=tested.device)  # its last token is predicted, never an input
    for _ in range(num_tokens):
        logits_BV = model.decode(memory, prefix_BT)[:, -1]
        logits_BV[:, never] = -torch.inf
        prefix_BT[:, -1] = logits_BV.argmax(dim=-1)
        prefix_BT = torch.cat([prefix_BT, torch.full_like(prefix_BT[:, :1], PAD)], dim=1)
    rows = prefix_BT[:, :-1].tolist()
    limits = [len(source) - 1 + tested.options.max_extra_tokens for source in pairs.sources]
    return [(row[: row.index(EOS)] if EOS in row else row)[:limit] for row, limit in zip(rows, limits, strict=True)]


def _same(tested: ModelUnderTest, row: int, first: list[int], second: list[int], how: str, seen: Differences) -> bool:
    """Returns whether two outputs agree; if not, adds a tie of the first two tokens that differ, or a fault."""
    seen.count += 1
    if first == second:
        return True
    pairs, name = tested.pairs, f"{tested.pairs.names[row]}, {how}"
    shorter = min(len(first), len(second))  # where they part if one is a prefix of the other
    parted = next((t for t, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), shorter)
    source = list(pairs.sources[row][:-1])
    # Where an output ends there, the token at `parted` is EOS, whose log-probability comes last.
    one, two = (s[parted] for s in tested.engine.score([source] * 2, [first[: parted + 1], second[: parted + 1]]))
    texts = tested.text(first), tested.text(second)
    if abs(one - two) < tested.settings.tie:
        seen.ties.append(Tie(f"{name}, token {parted + 1}", *texts, abs(one - two)))
    else:
        different = f"{texts[0]!r} and {texts[1]!r} differ from token {parted + 1} on"
        seen.faults.append(f"{name}: {different}; the log-probabilities of that token differ by {abs(one - two):.3g}")
    return False
