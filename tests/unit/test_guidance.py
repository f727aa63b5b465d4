"""The loss that shows attention which words the output comes from."""

import math
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from transduce.config import ModelConfig
from transduce.data.treebank_reader import beginnings
from transduce.model import Transformer
from transduce.model.attention_maps import attention_maps
from transduce.training.batch import Batch, pad
from transduce.training.device import Compute
from transduce.training.guidance import CurrentWord, Guidance, LinkedWords
from transduce.training.loss import Smoothing
from transduce.training.step import batch_loss

PIECES = ["<pad>", "<s>", "</s>", "<unk>", "_dog", "_bar", "ks", "_(S", "_)S", "_(N", "P", "_DT", "_V", "BZ"]
ID = {piece: place for place, piece in enumerate(PIECES)}
BEGINNINGS = beginnings([piece.replace("_", " ").encode() for piece in PIECES])


def batch_of(*pairs: tuple[str, str]) -> Batch:
    sources = [[ID[piece] for piece in source.split()] for source, _ in pairs]
    targets = [[ID[piece] for piece in target.split()] for _, target in pairs]
    return Batch(*pad(sources), *pad(targets))


SMALL = batch_of(("_dog _bar ks", "_(S _DT _V BZ _)S"), ("_dog", "_(N P _DT"))


def test_which_pieces_each_target_piece_is_at() -> None:
    aligned = CurrentWord(*BEGINNINGS).aligned(SMALL)
    first = [row.nonzero().flatten().tolist() for row in aligned[0]]
    #                (S   DT   V       BZ   )S   EOS: after the last word, EOS
    assert first == [[0], [0], [1, 2], [3], [3], [3]]
    second = [row.nonzero().flatten().tolist() for row in aligned[1]][:4]
    assert second == [[0], [0], [0], [1]]


def test_the_loss_is_that_of_the_formula() -> None:
    scores = torch.randn(2, 2, 6, 4, generator=torch.Generator().manual_seed(1))
    scores[:, 1, :, 2:] = -math.inf  # padding
    guidance = Guidance(0.5, CurrentWord(*BEGINNINGS))
    aligned, expected = guidance.alignment.aligned(SMALL), 0.0
    for layer in scores.softmax(-1):
        for sentence, length in enumerate((6, 4)):
            for t in range(length):
                expected -= 0.5 * math.log(layer[sentence, t][aligned[sentence, t]].sum()) / 2
    assert guidance.loss(list(scores), SMALL).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("num_layers", "num_guided"), [(1, 1), (2, 2), (3, 1), (4, 2)])
def test_inner_layers_are_guided_and_the_gradient_is_finite(num_layers: int, num_guided: int) -> None:
    torch.manual_seed(1)
    shape = ModelConfig(
        vocab_size=len(PIECES), num_encoder_layers=1, num_decoder_layers=num_layers, d_model=8, d_ff=16, num_heads=2,
        d_k=4, d_v=4, dropout=0.0,
    )  # fmt: skip
    model, guidance = Transformer(shape), Guidance(0.5, CurrentWord(*BEGINNINGS))
    compute, smoothing = Compute.of("cpu", "fp32"), Smoothing(1.0, 0.0)
    plain, nll = batch_loss(model, SMALL, smoothing, compute)
    guidance.watch(model)
    for _ in range(2):  # of two passes, the last one counts
        model(SMALL.source_BS, SMALL.source_lengths_B, SMALL.target_BT, SMALL.target_lengths_B)
        assert [tuple(each.shape) for each in guidance.scores_LBTS] == [(2, 6, 4)] * num_guided
    loss, same_nll = batch_loss(model, SMALL, smoothing, compute, guidance)
    assert loss > plain
    assert nll == same_nll
    loss.backward()
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("score", ["scaled_dot", "dot", "additive"])
def test_the_scores_are_those_that_the_head_attends_by_and_validation_leaves_them(score: Any) -> None:
    torch.manual_seed(1)
    shape = ModelConfig(
        vocab_size=len(PIECES), num_encoder_layers=1, num_decoder_layers=3, d_model=8, d_ff=16, num_heads=2,
        d_k=4, d_v=4, dropout=0.0, attention_score=score,
    )  # fmt: skip
    model, guidance = Transformer(shape), Guidance(0.5, CurrentWord(*BEGINNINGS))
    guidance.watch(model)
    args = (SMALL.source_BS, SMALL.source_lengths_B, SMALL.target_BT, SMALL.target_lengths_B)
    model(*args)
    kept = list(guidance.scores_LBTS)
    model.eval()(*args)
    assert guidance.scores_LBTS == kept
    [layer] = attention_maps(model, SMALL.source_BS, SMALL.source_lengths_B, SMALL.target_BT).cross[1:-1]
    torch.testing.assert_close(kept[0].softmax(-1)[0], layer[0, 0])
    torch.testing.assert_close(kept[0].softmax(-1)[1, :4], layer[1, 0, :4])


def test_a_head_learns_to_follow_the_words() -> None:
    torch.manual_seed(1)
    shape = ModelConfig(
        vocab_size=len(PIECES), num_encoder_layers=1, num_decoder_layers=1, d_model=16, d_ff=32, num_heads=2,
        d_k=8, d_v=8, dropout=0.0,
    )  # fmt: skip
    model, guidance = Transformer(shape), Guidance(1.0, CurrentWord(*BEGINNINGS))
    guidance.watch(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(150):
        loss, _ = batch_loss(model, SMALL, Smoothing(1.0, 0.0), Compute.of("cpu", "fp32"), guidance)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model(SMALL.source_BS, SMALL.source_lengths_B, SMALL.target_BT, SMALL.target_lengths_B)
    assert guidance.loss(guidance.scores_LBTS, SMALL) / 10 < 0.1  # nats a target piece


LINKED = replace(SMALL, links_N3=torch.tensor([[0, 0, 2], [0, 0, 0], [0, 4, 1], [1, 2, 0]]))


def test_linked_pieces_are_aligned_and_others_add_nothing() -> None:
    scores = torch.randn(1, 2, 6, 4, generator=torch.Generator().manual_seed(1))
    scores[:, 1, :, 2:] = -math.inf  # padding
    guidance = Guidance(0.5, LinkedWords(links=Mock(), layer=0))
    [sentence, other] = scores[0].softmax(-1)
    # In the step after each; the last one writes EOS.
    expected = -0.5 * math.log((sentence[1, 0] + sentence[1, 2]) * sentence[5, 1] * other[3, 0])
    assert guidance.loss(list(scores), LINKED).item() == pytest.approx(expected, rel=1e-5)
    assert guidance.loss(list(scores), SMALL).item() == 0


def test_a_head_of_one_layer_learns_the_links() -> None:
    torch.manual_seed(1)
    shape = ModelConfig(
        vocab_size=len(PIECES), num_encoder_layers=1, num_decoder_layers=3, d_model=16, d_ff=32, num_heads=2,
        d_k=8, d_v=8, dropout=0.0,
    )  # fmt: skip
    model, guidance = Transformer(shape), Guidance(1.0, LinkedWords(links=Mock(), layer=1))
    guidance.watch(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(150):
        loss, _ = batch_loss(model, LINKED, Smoothing(1.0, 0.0), Compute.of("cpu", "fp32"), guidance)
        optimizer.zero_grad()
        loss.backward()
        assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)
        optimizer.step()
    weights = attention_maps(model, SMALL.source_BS, SMALL.source_lengths_B, SMALL.target_BT).cross[1]
    assert weights[0, 0, 1, [0, 2]].sum() > 0.9
    assert weights[0, 0, 5, 1] > 0.9
    assert weights[1, 0, 3, 0] > 0.9
