"""One model, several ways to run it: cached or not, padded or packed, alone or in company, training or not."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from random_models import SMALL, random_model
from transduce.model import DecoderState, Memory, Transformer, cache
from transduce.model.packing import Packing
from transduce.model.transformer import _INITIAL_STEPS

pytestmark = pytest.mark.computes

BASE = replace(SMALL, num_encoder_layers=2)
CONFIGS = {
    "post-norm": BASE,
    "pre-norm": replace(BASE, norm="pre"),
    "released code": replace(
        BASE,
        decoder_start="zero",
        attention_bias=True,
        target_space_embedding=True,
        sinusoid_layout="concatenated",
    ),
    "learned positions": replace(BASE, positions="learned", max_positions=200),
    "d_k is not d_v": replace(BASE, d_k=3, d_v=10, num_heads=4, tie_embeddings="none", num_decoder_layers=3),
    # Four positions back in each of two layers: less than the past, and enough to reach all of eight.
    "attention window": replace(BASE, attention_window=8, norm="pre"),
    "dot product": replace(BASE, attention_score="dot", d_k=3),
    "additive": replace(BASE, attention_score="additive", d_k=3, norm="pre"),
    "untied source": replace(BASE, tie_embeddings="target", norm="pre", decoder_start="zero"),
}
BOS = 1
LENGTHS = torch.tensor([7, 2, 4])


@pytest.fixture(params=CONFIGS)
def model(request: pytest.FixtureRequest) -> Transformer:
    return random_model(CONFIGS[request.param])


@pytest.fixture(autouse=True)
def _no_grad() -> object:
    with torch.no_grad():
        yield


def source(lengths: Tensor = LENGTHS) -> Tensor:
    torch.manual_seed(2)
    ids = torch.randint(4, 40, (lengths.numel(), int(lengths.max())))
    return ids * (torch.arange(ids.size(1)) < lengths[:, None])


def encoded(model: Transformer) -> Memory:
    return model.encode(source(), LENGTHS)


def targets(num_rows: int, num_steps: int) -> Tensor:
    torch.manual_seed(3)
    return torch.randint(4, 40, (num_rows, num_steps))


def fed(target_BT: Tensor, t: int) -> Tensor:
    """What step t feeds: BOS, then the target's tokens."""
    return torch.full((target_BT.size(0),), BOS) if t == 0 else target_BT[:, t - 1]


def repeated(memory: Memory, rows: Tensor) -> Memory:
    mask = None if memory.attend_mask is None else memory.attend_mask[rows]
    return Memory(memory.states_BSD[rows], mask)


def assert_same(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


# --- the cache ------------------------------------------------------------------------------------------------


def test_each_cached_step_is_the_uncached_one(model: Transformer) -> None:
    memory, target = encoded(model), targets(3, 9)
    whole = model.decode(memory, target)
    state = model.start(memory, max_steps=9)
    for t in range(9):
        logits, state = model.step(fed(target, t), state)
        assert_same(logits, whole[:, t])
        assert_same(logits, model.decode(memory, target[:, : t + 1])[:, t])
    assert state.position == 9


def test_the_first_prediction_is_that_of_bos_or_of_nothing(model: Transformer) -> None:
    """A zero start must not look at the token fed first; BOS must."""
    memory = encoded(model)
    first, _ = model.step(torch.full((3,), BOS), model.start(memory, max_steps=5))
    other, _ = model.step(torch.full((3,), 9), model.start(memory, max_steps=5))
    assert torch.equal(first, other) == (model.config.decoder_start == "zero")


def test_the_cache_grows_past_its_first_capacity(model: Transformer) -> None:
    num_steps = 2 * _INITIAL_STEPS + 3
    memory, target = encoded(model), targets(3, num_steps)
    whole = model.decode(memory, target)
    state = model.start(memory, max_steps=num_steps)
    capacities = []
    for t in range(num_steps):
        logits, state = model.step(fed(target, t), state)
        capacities.append(state.layers[0].key_BHTKE.size(2))
        assert_same(logits, whole[:, t])
    assert sorted(set(capacities)) == [_INITIAL_STEPS, 2 * _INITIAL_STEPS, num_steps]


@pytest.mark.parametrize("most_masked", [64, 2])
def test_beams_are_expanded_reordered_and_kept(
    model: Transformer, most_masked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search's life: one row a sentence, then three beams, moved about, then only two of the sentences, turned."""
    monkeypatch.setattr(cache, "_MOST_MASKED_BEAMS", most_masked)  # 2: each beam gets a copy of its own past
    memory, beams = encoded(model), 3
    state: DecoderState = model.start(memory, max_steps=8)
    history = torch.empty(3, 0, dtype=torch.int64)  # all that each row was fed after BOS
    sentences = torch.arange(3)
    torch.manual_seed(4)
    tokens = torch.full((3,), BOS)
    for t in range(8):
        logits, state = model.step(tokens, state)
        rows = sentences.repeat_interleave(history.size(0) // sentences.numel())
        padded = torch.cat([history, torch.zeros(history.size(0), 1, dtype=torch.int64)], dim=1)
        assert_same(logits, model.decode(repeated(memory, rows), padded)[:, t])
        if t == 1:
            state, history = state.expand(beams), history.repeat_interleave(beams, dim=0)
        if t in (2, 4, 6):
            within = torch.randint(beams, (sentences.numel(), beams))
            order = (torch.arange(sentences.numel())[:, None] * beams + within).flatten()
            state, history = state.reorder(order), history[order]
        if t == 5:
            kept = torch.tensor([2, 0])
            state, sentences = state.keep(kept), sentences[kept]
            history = history.view(3, beams, -1)[kept].flatten(0, 1)
        tokens = torch.randint(4, 40, (history.size(0),))
        history = torch.cat([history, tokens[:, None]], dim=1)
    assert history.shape == (2 * beams, 8)


def test_reordering_moves_no_keys(model: Transformer) -> None:
    state = model.start(encoded(model), max_steps=4).expand(2)
    assert state.reorder(torch.tensor([1, 1, 2, 3, 5, 4])).layers is state.layers


# --- padding, packing, neighbours -----------------------------------------------------------------------------


def test_a_sentence_does_not_depend_on_its_neighbours(model: Transformer) -> None:
    memory, target = encoded(model), targets(3, 6)
    logits = model.decode(memory, target)
    state = model.start(memory, max_steps=6)
    for sentence, length in enumerate(LENGTHS.tolist()):
        alone = model.encode(source()[sentence : sentence + 1, :length], LENGTHS[sentence : sentence + 1])
        assert alone.attend_mask is None
        assert_same(memory.states_BSD[sentence, :length], alone.states_BSD[0])
        assert_same(logits[sentence], model.decode(alone, target[sentence : sentence + 1])[0])
    with_others, _ = model.step(torch.full((3,), BOS), state)
    turned = torch.tensor([2, 0, 1])
    other_order = model.encode(source()[turned], LENGTHS[turned])
    got, _ = model.step(torch.full((3,), BOS), model.start(other_order, max_steps=6))
    assert_same(got, with_others[turned])


def test_the_contents_of_the_padding_do_not_matter(model: Transformer) -> None:
    noise = torch.where(source() == 0, torch.randint(4, 40, (3, 7)), source())
    assert not torch.equal(noise, source())
    assert_same(model.decode(model.encode(noise, LENGTHS), targets(3, 5)), model.decode(encoded(model), targets(3, 5)))


def test_packed_is_padded(model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    target_lengths = torch.tensor([2, 6, 3])
    arguments = (source(), LENGTHS, targets(3, 6), target_lengths)
    packings = []
    original = Packing.of

    def spy(*given: object, **options: object) -> Packing | None:
        packings.append(original(*given, **options))  # type: ignore[arg-type]
        return packings[-1]

    monkeypatch.setattr(Packing, "of", staticmethod(spy))
    with torch.enable_grad():
        packed = model(*arguments)
        assert all(isinstance(packing, Packing) for packing in packings)
        assert len(packings) == 2
        monkeypatch.setattr(Packing, "of", staticmethod(lambda *_, **__: None))
        padded = model(*arguments)
        assert packed.shape == padded.shape == (11, 16)
        assert_same(packed, padded)
        weights = torch.randn_like(packed)
        names, parameters = zip(*model.named_parameters(), strict=True)
        gradients = [
            torch.autograd.grad((states * weights).sum(), parameters, allow_unused=True) for states in (packed, padded)
        ]
    for name, ours, theirs in zip(names, *gradients, strict=True):
        if "output_embedding" in name:  # the projection is no part of `forward`
            assert ours is theirs is None
        elif name == "target_embedding" or ours is not None:
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


def test_training_and_decoding_see_the_same_model(model: Transformer) -> None:
    target_lengths = torch.tensor([2, 6, 3])
    states = model(source(), LENGTHS, targets(3, 6), target_lengths)
    real = torch.arange(6) < target_lengths[:, None]
    assert_same(model.logits(states), model.decode(encoded(model), targets(3, 6))[real])


def test_without_dropout_training_mode_changes_nothing(model: Transformer) -> None:
    evaluated = model.decode(encoded(model), targets(3, 5))
    model.train()
    assert torch.equal(model.decode(encoded(model), targets(3, 5)), evaluated)


@pytest.mark.parametrize("where", ["dropout", "attention_dropout", "ffn_dropout"])
def test_each_dropout_acts_in_training_and_only_there(where: str) -> None:
    torch.manual_seed(1)
    model = Transformer(replace(BASE, **{where: 0.5}))  # type: ignore[arg-type]

    ids, target = source(), targets(3, 5)

    def run() -> Tensor:
        return model.decode(model.encode(ids, LENGTHS), target)

    assert not torch.equal(run(), run())
    model.eval()
    assert torch.equal(run(), run())


# --- causality ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changed", [0, 3, 7])
def test_a_token_changes_nothing_before_it_and_something_after(model: Transformer, changed: int) -> None:
    """Position t is predicted from the target's tokens before t, and from all of the source."""
    memory, target = encoded(model), targets(3, 8)
    before = model.decode(memory, target)
    other = target.clone()
    other[:, changed] = 4 + (target[:, changed] - 3) % 36
    after = model.decode(memory, other)
    assert torch.equal(after[:, : changed + 1], before[:, : changed + 1])
    if changed < 7:
        assert bool((after[:, changed + 1 :] != before[:, changed + 1 :]).any(dim=-1).all())


def test_every_source_token_is_seen_from_everywhere(model: Transformer) -> None:
    before = model.decode(encoded(model), targets(3, 4))
    for place in range(int(LENGTHS[0])):
        ids = source()
        ids[0, place] = 4 + (ids[0, place] - 3) % 36
        after = model.decode(model.encode(ids, LENGTHS), targets(3, 4))
        assert bool((after[0] != before[0]).any(dim=-1).all())
        assert torch.equal(after[1:], before[1:])
