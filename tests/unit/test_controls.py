"""The recurrent and the convolutional control: a step at a time = all at once, counts, gradients, searches."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from transduce.config import DecodeConfig, ModelConfig
from transduce.config.special_ids import BOS, EOS
from transduce.errors import BundleError, ConfigError
from transduce.experiments.paper.controls.control import Control
from transduce.experiments.paper.controls.convolutional import (
    Convolution,
    ConvolutionalTransducer,
    NormedLinear,
)
from transduce.experiments.paper.controls.recurrent import RecurrentTransducer, reversed_positions
from transduce.experiments.paper.controls.search import search
from transduce.training.batch import Batch
from transduce.training.device import Compute
from transduce.training.loss import Smoothing
from transduce.training.step import batch_loss
from unit.test_flops import addmm_in_place

pytestmark = pytest.mark.computes

SMALL = ModelConfig(
    vocab_size=30,
    num_encoder_layers=2,
    num_decoder_layers=3,
    d_model=12,
    d_ff=7,
    num_heads=2,
    d_k=5,
    d_v=3,
    dropout=0.0,
)
KINDS: dict[str, tuple[type[Control], ModelConfig]] = {
    "recurrent": (RecurrentTransducer, SMALL),
    "recurrent, pre-norm, additive": (RecurrentTransducer, replace(SMALL, norm="pre", attention_score="additive")),
    "convolutional": (ConvolutionalTransducer, SMALL),
    "convolutional, learned positions": (
        ConvolutionalTransducer,
        replace(SMALL, positions="learned", max_positions=20),
    ),
}
SOURCE = torch.tensor([[9, 8, 7, 6, EOS], [5, EOS, 0, 0, 0], [6, 5, 9, EOS, 0]])
SOURCE_LENGTHS = torch.tensor([5, 2, 4])
TARGET = torch.tensor([[11, 12, 13, 14, 15, EOS], [21, EOS, 0, 0, 0, 0], [26, 27, 28, EOS, 0, 0]])
TARGET_LENGTHS = torch.tensor([6, 2, 4])
BATCH = Batch(SOURCE, SOURCE_LENGTHS, TARGET, TARGET_LENGTHS)
CPU = Compute.of("cpu", "fp32")


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest) -> Control:
    return made(request.param)


def made(kind: str, **changes: Any) -> Control:
    torch.manual_seed(1)
    make, config = KINDS[kind]
    return make(replace(config, **changes)).eval()


def all_at_once(model: Control) -> list[Tensor]:
    with torch.no_grad():
        logits = model.logits(model(*BATCH.inputs))
    return list(logits.split(TARGET_LENGTHS.tolist()))


def test_a_step_at_a_time_is_teacher_forcing(model: Control) -> None:
    """With two rows a sentence, of which the second is fed other tokens until it continues the first."""
    expected = all_at_once(model)
    inputs_BT = torch.cat([torch.full((3, 1), BOS), TARGET[:, :-1]], dim=1)
    with torch.no_grad():
        state = model.start(model.encode(SOURCE, SOURCE_LENGTHS), max_steps=6)
        state = state.expand(2)
        for position in range(6):
            tokens_BK = torch.stack([inputs_BT[:, position], (inputs_BT[:, position] + 3) % 30], dim=1)
            if position == 3:  # from here on both rows are the first one, which is now the second as well
                state = state.reorder(torch.tensor([0, 0, 2, 2, 4, 4]))
            if position >= 3:
                tokens_BK = tokens_BK[:, :1].expand(-1, 2)
            logits_RV, state = model.step(tokens_BK.flatten(), state)
            for row, logits_KV in enumerate(logits_RV.unflatten(0, (3, 2))):
                if position < TARGET_LENGTHS[row]:
                    same = logits_KV if position >= 3 else logits_KV[:1]
                    torch.testing.assert_close(same, expected[row][position].expand_as(same), atol=1e-5, rtol=1e-4)
                if 0 < position < 3:
                    assert not torch.allclose(logits_KV[0], logits_KV[1], atol=1e-4)


def test_sentences_that_are_kept_continue(model: Control) -> None:
    expected = all_at_once(model)
    with torch.no_grad():
        state = model.start(model.encode(SOURCE, SOURCE_LENGTHS), max_steps=6).expand(2)
        _, state = model.step(torch.full((6,), BOS), state)
        state = state.keep(torch.tensor([2, 0]))
        logits_RV, _ = model.step(TARGET[[2, 2, 0, 0], 0], state)
    for row, sentence in enumerate((2, 2, 0, 0)):
        torch.testing.assert_close(logits_RV[row], expected[sentence][1], atol=1e-5, rtol=1e-4)


def test_neighbours_and_later_tokens_change_nothing(model: Control) -> None:
    expected = all_at_once(model)
    with torch.no_grad():
        for row, (source, target) in enumerate(zip(SOURCE_LENGTHS.tolist(), TARGET_LENGTHS.tolist(), strict=True)):
            lengths = torch.tensor([source]), torch.tensor([target])
            own = SOURCE[row : row + 1, :source], lengths[0], TARGET[row : row + 1, :target].clone(), lengths[1]
            torch.testing.assert_close(model.logits(model(*own)), expected[row], atol=1e-5, rtol=1e-4)
            own[2][0, target - 1] = 29  # the last token is predicted, and read by none
            torch.testing.assert_close(model.logits(model(*own)), expected[row], atol=1e-5, rtol=1e-4)


def test_every_weight_learns(model: Control) -> None:
    model.train()
    loss, _ = batch_loss(model, BATCH, Smoothing.of(0.1, 30, "uniform"), CPU)
    loss.backward()
    assert [name for name, each in model.named_parameters() if each.grad is None or not each.grad.any()] == []


def without_onednn(forward: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        torch._C._set_mkldnn_enabled(False)
        try:
            return forward(*args)
        finally:
            torch._C._set_mkldnn_enabled(True)

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_the_count_is_that_of_torch(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without oneDNN an LSTM is products that PyTorch counts; its first step has no gradient of a state before it."""
    model = made(kind, d_model=32, num_encoder_layers=3).train()
    sizes = BATCH.sizes
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: addmm_in_place})
    monkeypatch.setattr(torch.nn.LSTM, "forward", without_onednn(torch.nn.LSTM.forward))
    with counter:
        batch_loss(model, BATCH, Smoothing.of(0.1, 30, "uniform"), CPU)[0].backward()
    states = 0
    if isinstance(model, RecurrentTransducer):  # 2 · 4 · m · m for each sentence, of six LSTMs of half the width
        states = 3 * (6 * 2 * 4 * 16 * 16 + 3 * 2 * 4 * 32 * 32)
    assert counter.get_total_flops() == model.training_flops(sizes) - states


def test_the_count_of_a_recurrent_layer_by_hand() -> None:
    """One layer each, width 4, one head of d_k = 2 and d_v = 3; a sentence of 3 source and 2 target tokens."""
    model = RecurrentTransducer(
        replace(SMALL, num_encoder_layers=1, num_decoder_layers=1, d_model=4, num_heads=1, d_k=2, d_v=3)
    )
    batch = Batch(torch.zeros(1, 3), torch.tensor([3]), torch.zeros(1, 2), torch.tensor([2]))
    encoder = 3 * 2 * (4 * 2 * 4 + 4 * 2 * 2)  # two LSTMs of width 2: four gates, of 4 inputs and 2 of the state
    memory = 3 * (4 * 2 + 4 * 3)
    decoder = 2 * (4 * 4 * 4 + 4 * 4 * 4)
    attention = 2 * (4 * 2 + 3 * 4) + 2 * 3 * (2 + 3)
    output = 2 * 8 * 4 + 2 * 4 * 30
    assert model.training_flops(batch.sizes) == 6 * (encoder + memory + decoder + attention + output)


def test_reversed_positions() -> None:
    assert reversed_positions(torch.tensor([3, 2, 0]), 3).tolist() == [[2, 1, 0], [1, 0, 2], [0, 1, 2]]


def test_a_gated_convolution_by_hand() -> None:
    """Two channels whose kernel adds up three positions; the gate is closed half: σ(0) = ½."""
    convolution = Convolution(replace(SMALL, d_model=2))
    with torch.no_grad():
        convolution.direction.zero_()
        convolution.direction[0, :3] = 2.0  # of channel 0, all three positions
        convolution.direction[1, 5] = 2.0  # of channel 1, the last position
        convolution.direction[2:] = 1e-12
        convolution.gain.copy_(torch.tensor([3**0.5, 1.0, 0.0, 0.0]))
    x = torch.tensor([[[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]]])
    torch.testing.assert_close(convolution.over(x, 1), torch.tensor([[[3.0, 20.0], [7.0, 40.0], [6.0, 0.0]]]) / 2)
    torch.testing.assert_close(convolution.over(x, 2), torch.tensor([[[1.0, 10.0], [3.0, 20.0], [7.0, 40.0]]]) / 2)
    torch.testing.assert_close(convolution.newest(x), torch.tensor([[7.0, 40.0]]) / 2)


def test_a_gain_is_the_length_of_a_row() -> None:
    """The same as PyTorch's own weight normalisation."""
    ours, theirs = NormedLinear(4, 3, 1.0), torch.nn.Linear(4, 3)
    with torch.no_grad():
        theirs.weight.copy_(ours.direction)
        ours.bias.copy_(theirs.bias)
        ours.gain.mul_(2.5)
    theirs = torch.nn.utils.parametrizations.weight_norm(theirs)
    with torch.no_grad():
        theirs.parametrizations.weight.original0.mul_(2.5)  # type: ignore[union-attr]
    x = torch.randn(2, 4)
    torch.testing.assert_close(ours(x), theirs(x))


def test_a_wide_beam_finds_the_best_of_all(model: Control) -> None:
    """A vocabulary of five tokens, and outputs of at most three: every one is scored."""
    model = type(model)(replace(model.config, vocab_size=6)).eval()
    options = DecodeConfig(beam_size=40, length_penalty=0.0, max_extra_tokens=0)
    sources = [[4, 5, 4], [5, 4]]
    found = search(model, sources, options)
    for source, best in zip(sources, found, strict=True):
        outputs = [[*ids] for n in range(len(source) + 1) for ids in itertools.product((4, 5), repeat=n)]
        assert list(best) == max(outputs, key=lambda ids: log_probability(model, source, ids))
    greedy = search(model, sources, replace(options, beam_size=1))
    assert [len(each) <= len(source) for each, source in zip(greedy, sources, strict=True)] == [True, True]


def test_a_source_beyond_learned_positions_is_cut() -> None:
    """As by the engine: a line of a test set may be longer than all of training."""
    model = made("convolutional, learned positions")
    options = DecodeConfig(beam_size=2, max_extra_tokens=0)
    assert search(model, [[5, 4] * 15], options) == search(model, [([5, 4] * 15)[:19]], options)  # and its end


def log_probability(model: Control, source: list[int], target: list[int]) -> float:
    """Log of the probability of a target and its end."""
    ids, ends = torch.tensor([[*source, EOS]]), torch.tensor([[*target, EOS]])
    lengths = torch.tensor([ids.size(1)]), torch.tensor([ends.size(1)])
    with torch.no_grad():
        logits = model.logits(model(ids, lengths[0], ends, lengths[1]))
    return float(logits.log_softmax(-1).gather(1, ends.t()).sum())


def test_weights_of_another_model_are_refused(model: Control) -> None:
    weights = model.weights()
    model.load_weights({name: each + 1 for name, each in weights.items()})
    name = next(iter(weights))
    with pytest.raises(BundleError, match=rf"here: weight {name} is \(1,\), and this model has"):
        model.load_weights(weights | {name: torch.zeros(1)}, "here")


def test_separate_tables_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"model.tie_embeddings = 'none'.*a control needs 'all'"):
        RecurrentTransducer(replace(SMALL, tie_embeddings="none"))
