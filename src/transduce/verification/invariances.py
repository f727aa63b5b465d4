"""What a model computes depends on nothing that it should not: later tokens, padding, the cache, or the mode."""

from dataclasses import replace
from random import Random

import torch
from torch import Tensor

from transduce.config import ModelConfig
from transduce.config.special_ids import BOS
from transduce.model import Memory, Transformer
from transduce.reporting.tables import counted
from transduce.verification.differences import Differences
from transduce.verification.findings import Finding
from transduce.verification.model_under_test import NUM_SPECIAL, ModelUnderTest, Pairs, forced, padded

_EXTRA = (0, 1, 33)  # padding beyond that of the longest
_LONG = 70  # steps: more than a new cache has capacity for, so that it must grow
_BEAMS = 3
_BEAM_STEPS = 12
_BEAM_SENTENCES = 4
_TRANSLATED = 8


# --- causality (§3.2.3) -----------------------------------------------------------------------------------------------


def causality(tested: ModelUnderTest) -> Finding:
    """Changes targets from a position on: predictions up to it must stay the same, and a later one must change.

    Row t of the log-probabilities predicts target token t from those before it, so a change from token c on may show in
    rows c + 1 and later only.
    """
    model, pairs = tested.engine.model, tested.pairs
    before = forced(model, pairs)
    seen, after = Differences(), Differences()
    cuts = _cuts(max(map(len, pairs.targets)), tested.settings.num_changes)
    for cut in cuts:
        changed = forced(model, _changed(tested, pairs, cut))
        for row, (old_TV, new_TV) in enumerate(zip(before, changed, strict=True)):
            if len(pairs.targets[row]) < cut + 2:  # no input token was changed: the last one is never an input
                continue
            name = f"{pairs.names[row]}, with its target changed from token {cut + 1} on"
            seen.compare(old_TV[: cut + 1], new_TV[: cut + 1], f"{name}, position {{}}")
            after.compare(old_TV[cut + 1 :], new_TV[cut + 1 :], name)
    if after.count and after.worst == 0:
        seen.faults.append("no later prediction changes: the decoder does not read its own output")
    compared = f"{counted(len(pairs), 'sentence')}, targets changed from {counted(len(cuts), 'position')} on"
    return seen.finding(compared, tested.settings.log_probability, f"after the change up to {after.worst:.3g}")


def _cuts(longest: int, number: int) -> list[int]:
    """Returns at most `number` positions spread over a target, the first among them."""
    last = max(longest - 2, 0)
    return sorted({index * last // max(number - 1, 1) for index in range(number)})


def _changed(tested: ModelUnderTest, pairs: Pairs, cut: int) -> Pairs:
    """Returns the pairs with every target token from `cut` on, but the EOS at the end, replaced by another one."""
    random, ordinary = Random(cut), tested.bundle.config.model.output_vocab_size - NUM_SPECIAL

    def other(token: int) -> int:
        return NUM_SPECIAL + (token - NUM_SPECIAL + random.randrange(1, ordinary)) % ordinary

    targets = tuple((*target[:cut], *map(other, target[cut:-1]), target[-1]) for target in pairs.targets)
    targets = tuple(new if len(old) > cut else old for new, old in zip(targets, pairs.targets, strict=True))
    return Pairs(pairs.names, pairs.sources, targets)


# --- padding ----------------------------------------------------------------------------------------------------------


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


# --- cache = no cache -------------------------------------------------------------------------------------------------


def cached_steps(tested: ModelUnderTest) -> Finding:
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


def cached_beams(tested: ModelUnderTest) -> Finding:
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
        generated = random.choices(range(4, model.config.output_vocab_size), k=past_RT.size(0))
        tokens_R = torch.tensor(generated, device=device)
        past_RT = torch.cat([past_RT, tokens_R[:, None]], dim=1)
    compared = f"{counted(len(pairs), 'sentence')} × {_BEAMS} beams, expanded, reordered and dropped over {t + 1} steps"
    return seen.finding(compared, tested.settings.log_probability)


def _repeated(memory: Memory, rows_R: Tensor) -> Memory:
    mask = None if memory.attend_mask is None else memory.attend_mask[rows_R]
    return Memory(memory.states_BSD[rows_R], mask)


def _compare(seen: Differences, logits_RV: Tensor, whole_RV: Tensor, where: list[str]) -> None:
    seen.compare(logits_RV.log_softmax(dim=-1), whole_RV.log_softmax(dim=-1), where)


# --- the same twice, and in training mode -----------------------------------------------------------------------------


def repeats(tested: ModelUnderTest) -> Finding:
    """Computes everything twice: both must give the same bits."""
    pairs, seen = tested.pairs, Differences()
    for model, what in ((tested.plain, "weights as on disk"), (tested.engine.model, "the engine")):
        names = [f"{what}: {name}" for name in pairs.names]
        seen.compare_sentences(names, forced(model, pairs), forced(model, pairs))
    sources = tested.sources[:_TRANSLATED]
    runs = [tested.engine.translate(sources, tested.options) for _ in range(2)]
    for name, [one], [two] in zip(tested.sample.names, *runs, strict=False):
        seen.add(one.log_probability - two.log_probability, f"{name}, translated twice")
        if one.ids != two.ids:
            seen.faults.append(f"{name}, translated twice: {tested.text(one.ids)!r}, then {tested.text(two.ids)!r}")
    return seen.finding(
        f"{counted(len(pairs), 'sentence')} scored twice, {len(sources)} translated twice, bit for bit", 0.0
    )


def training_mode(tested: ModelUnderTest) -> Finding:
    """Compares training mode with all dropouts at 0 with evaluation mode.

    If the model has dropout, it must also have an effect in training: otherwise the comparison would say little.
    """
    pairs, seen, config = tested.pairs, Differences(), tested.bundle.config.model
    weights = tested.plain.weights()

    def in_training(config: ModelConfig) -> Transformer:
        return Transformer.from_weights(config, weights).to(tested.device).train()

    none = replace(config, dropout=0.0, attention_dropout=0.0, ffn_dropout=0.0)
    evaluated = forced(tested.plain, pairs)
    seen.compare_sentences(pairs.names, forced(in_training(none), pairs), evaluated)
    note = ""
    if config != none:
        dropped = Differences()
        dropped.compare_sentences(pairs.names, forced(in_training(config), pairs), evaluated)
        note = f"with dropout up to {dropped.worst:.3g}"
        if dropped.worst == 0:
            seen.faults.append("dropout is configured, but has no effect in training mode")
    return seen.finding(f"{counted(len(pairs), 'sentence')}, every dropout at 0", tested.settings.log_probability, note)
