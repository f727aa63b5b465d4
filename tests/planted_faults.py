"""Faults of models, engines and searches, each planted by patching one function, and the check that must find it."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from transduce.bundle import Bundle, save_bundle
from transduce.decoding import beam, finished, greedy
from transduce.decoding.scores import Hypothesis
from transduce.engines import torch as torch_engine
from transduce.engines.torch import TorchEngine
from transduce.model import Transformer, attention, inference_weights, layers, transformer, windowed
from transduce.model.cache import DecoderState, LayerCache
from transduce.model.positions import Positions
from transduce.model.spans import SpanState
from transduce.text import SubwordTokenizer
from transduce.verification import folder

Fault = Callable[[pytest.MonkeyPatch], None]


def sees_the_next_token(patch: pytest.MonkeyPatch) -> None:
    def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, **options: Any) -> Tensor:
        assert options.pop("score_HE") is None  # that of a model with another attention score
        if options.pop("causal", False):
            sees = torch.ones(query.size(-2), key.size(-2), dtype=torch.bool).tril(1)
            mask = sees if mask is None else mask & sees
        return attention.attend_reference(query, key, value, mask, **options)

    patch.setattr(attention, "attend", attend)


def no_causal_mask(patch: pytest.MonkeyPatch) -> None:
    original = attention.SelfAttention.forward

    def forward(self: Any, x: Tensor, attend_mask: Tensor | None, *, causal: bool, packing: Any = None) -> Tensor:
        return original(self, x, attend_mask, causal=False, packing=packing)

    patch.setattr(attention.SelfAttention, "forward", forward)


def deaf_decoder(patch: pytest.MonkeyPatch) -> None:
    original = transformer.Transformer._embed_target
    patch.setattr(
        transformer.Transformer, "_embed_target", lambda self, target: original(self, torch.full_like(target, 9))
    )


def reads_the_token_that_it_predicts(patch: pytest.MonkeyPatch) -> None:
    original = transformer.Transformer._embed_target

    def embed(self: Any, target: Tensor) -> Tensor:
        own: Tensor = original(self, target)
        return own + 0.1 * torch.nn.functional.embedding(target, self.target_embedding)

    patch.setattr(transformer.Transformer, "_embed_target", embed)


def cache_off_by_one(patch: pytest.MonkeyPatch) -> None:
    original = Positions.forward

    def forward(self: Positions, start: int, end: int) -> Tensor:
        late = int(end - start == 1 and start > 0)
        return original(self, start - late, end - late)

    patch.setattr(Positions, "forward", forward)


def cache_forgets_when_it_grows(patch: pytest.MonkeyPatch) -> None:
    original = LayerCache.resize

    def resize(self: LayerCache, filled: int, **options: Any) -> LayerCache:
        return original(self, filled - 1 if options.get("capacity") else filled, **options)

    patch.setattr(LayerCache, "resize", resize)


def beams_do_not_move(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DecoderState, "reorder", lambda self, rows: self)


def wrong_sentences_are_kept(patch: pytest.MonkeyPatch) -> None:
    original = DecoderState.keep
    patch.setattr(DecoderState, "keep", lambda self, kept: original(self, kept.sort().values))


def padding_is_seen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transformer, "padding_mask", lambda *_: None)


def padding_is_seen_by_steps_only(patch: pytest.MonkeyPatch) -> None:
    original = transformer.Transformer.start

    def start(self: Any, memory: Any, **options: Any) -> DecoderState:
        return dataclasses.replace(original(self, memory, **options), memory_mask=None)

    patch.setattr(transformer.Transformer, "start", start)


def padding_is_told_by_its_id(patch: pytest.MonkeyPatch) -> None:
    original = transformer.Transformer.encode
    patch.setattr(
        transformer.Transformer,
        "encode",
        lambda self, source, lengths: original(self, source, source.ne(0).sum(dim=1)),
    )


def norm_over_the_batch(patch: pytest.MonkeyPatch) -> None:
    original = layers.Residual.leave

    def leave(self: Any, x: Tensor, output: Tensor) -> Tensor:
        left: Tensor = original(self, x, output)
        return left - 0.01 * left.flatten(0, -2).mean(dim=0)

    patch.setattr(layers.Residual, "leave", leave)


def dropout_left_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(layers, "dropout", lambda x, rate, training: torch.nn.functional.dropout(x, 0.1))


def training_scales(patch: pytest.MonkeyPatch) -> None:
    original = layers.Residual.leave
    patch.setattr(layers.Residual, "leave", lambda self, x, y: original(self, x, y) * (1.01 if self.training else 1.0))


def dropout_never_acts(patch: pytest.MonkeyPatch) -> None:
    for module in (layers, transformer):
        patch.setattr(module, "dropout", lambda x, rate, training: x)


def attention_without_scale(patch: pytest.MonkeyPatch) -> None:
    original = attention.attend
    patch.setattr(
        attention, "attend", lambda q, k, v, mask=None, **rest: original(q * q.size(-1) ** 0.5, k, v, mask, **rest)
    )


def long_attention_is_blind(patch: pytest.MonkeyPatch) -> None:
    original = attention.F.scaled_dot_product_attention
    patch.setattr(
        attention.F, "scaled_dot_product_attention", lambda q, k, v, **rest: original(q, k.roll(1, -2), v, **rest)
    )


def window_is_too_wide(patch: pytest.MonkeyPatch) -> None:
    def wider(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, window: int, **rest: Any) -> Tensor:
        return windowed.windowed_attend_reference(query, key, value, mask, window=window + 2, **rest)

    patch.setattr(windowed, "windowed_attend", wider)


def prepacked_without_bias(patch: pytest.MonkeyPatch) -> None:
    original = inference_weights.PrepackedLinear.__init__
    patch.setattr(inference_weights, "_LEAST_WEIGHT", 0)  # as in a model of a size to be used
    patch.setattr(
        inference_weights.PrepackedLinear,
        "__init__",
        lambda self, weight, bias, *rest, **more: original(self, weight, None, *rest, **more),
    )


def engine_in_half_precision(patch: pytest.MonkeyPatch) -> None:
    original = TorchEngine.__init__

    def changed(self: TorchEngine, model: Transformer, *rest: Any, **further: Any) -> None:
        original(self, model.bfloat16(), *rest, **further)

    patch.setattr(TorchEngine, "__init__", changed)


def change_each_batch(
    patch: pytest.MonkeyPatch, change: Callable[[list[list[Hypothesis]]], list[list[Hypothesis]]]
) -> None:
    begin = torch_engine.search

    def changed(*given: Any) -> Any:
        search = begin(*given)
        run = search.run
        search.run = lambda: change(run())
        return search

    patch.setattr(torch_engine, "search", changed)


def shortened(hypothesis: Hypothesis) -> Hypothesis:
    return dataclasses.replace(hypothesis, ids=hypothesis.ids[:-1])


def neighbours_shorten(patch: pytest.MonkeyPatch) -> None:
    change_each_batch(patch, lambda found: [[shortened(h) for h in hs] for hs in found] if len(found) > 3 else found)


def results_are_not_put_back_in_order(patch: pytest.MonkeyPatch) -> None:
    original = TorchEngine.translate

    def translate(self: TorchEngine, sources: Any, *given: Any, **named: Any) -> Any:
        return original(self, sorted(sources, key=len), *given, **named)

    patch.setattr(TorchEngine, "translate", translate)


def greedy_takes_the_second(patch: pytest.MonkeyPatch) -> None:
    def second(_: object, gains: Tensor) -> tuple[Tensor, Tensor]:
        best = gains.topk(2, dim=-1)
        return best.indices[:, 1], best.values[:, 1]

    patch.setattr(greedy.GreedySearch, "pick", second)


def one_beam_takes_the_second(patch: pytest.MonkeyPatch) -> None:
    original = beam.best_candidates

    def second(gains: Tensor, scores: Tensor, count: int) -> tuple[Tensor, ...]:
        found = original(gains, scores, max(count, 2))
        return tuple(x[:, 1:2] for x in found) if count == 1 else found

    patch.setattr(beam, "best_candidates", second)


def refused_drafts_stay(patch: pytest.MonkeyPatch) -> None:
    original = SpanState.accept

    def accept(state: SpanState, counts: Sequence[int]) -> SpanState:
        assert state.states_BKD is not None
        fed = state.states_BKD.size(1)
        return original(state, [min(fed, count + 1) if count else 0 for count in counts])

    patch.setattr(SpanState, "accept", accept)


def n_best_is_reversed(patch: pytest.MonkeyPatch) -> None:
    change_each_batch(patch, lambda found: [hs[::-1] for hs in found])


def n_best_repeats_itself(patch: pytest.MonkeyPatch) -> None:
    change_each_batch(patch, lambda found: [hs[:1] * len(hs) for hs in found])


def n_best_lacks_the_best(patch: pytest.MonkeyPatch) -> None:
    change_each_batch(patch, lambda found: [hs[1:] if len(hs) > 2 else hs for hs in found])


def output_has_a_special_token(patch: pytest.MonkeyPatch) -> None:
    change_each_batch(patch, lambda found: [[dataclasses.replace(h, ids=[*h.ids, 1]) for h in hs] for hs in found])


def wrong_length_penalty(patch: pytest.MonkeyPatch) -> None:
    original = finished.hypothesis
    patch.setattr(finished, "hypothesis", lambda ids, *rest: original([*ids, 0], *rest))
    # The ids must stay what they are, so that only the score is wrong.
    change_each_batch(patch, lambda found: [[shortened(h) for h in hs] for hs in found])


def search_forgets_a_token(patch: pytest.MonkeyPatch) -> None:
    change_each_batch(patch, lambda found: [[shortened(h) for h in hs] for hs in found])


def forced_scores_are_shifted(patch: pytest.MonkeyPatch) -> None:
    original = TorchEngine._score
    patch.setattr(TorchEngine, "_score", lambda self, *given: [x + 0.01 for x in original(self, *given)])


def saving_rounds(patch: pytest.MonkeyPatch) -> None:
    def save(path: Path, config: Any, weights: dict[str, np.ndarray], *rest: Any) -> Bundle:
        return save_bundle(path, config, {n: w.astype(np.float16) for n, w in weights.items()}, *rest)

    patch.setattr(folder, "save_bundle", save)


def saving_forgets_the_metrics(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(folder, "save_bundle", lambda *given: save_bundle(*given[:4], {}))


def saving_changes_the_configuration(patch: pytest.MonkeyPatch) -> None:
    def save(path: Path, config: Any, *rest: Any) -> Bundle:
        return save_bundle(path, dataclasses.replace(config, name="another"), *rest)

    patch.setattr(folder, "save_bundle", save)


def tokenizer_differs_in_a_batch(patch: pytest.MonkeyPatch) -> None:
    original = SubwordTokenizer.encode_batch

    def encode(self: SubwordTokenizer, texts: Any) -> list[list[int]]:
        if len(texts) == 1:
            return original(self, texts)
        return [list(itertools.chain(*original(self, list(text)))) for text in texts]

    patch.setattr(SubwordTokenizer, "encode_batch", encode)


def tokenizer_lowercases(patch: pytest.MonkeyPatch) -> None:
    original = SubwordTokenizer.encode_batch
    patch.setattr(SubwordTokenizer, "encode_batch", lambda self, texts: original(self, [t.lower() for t in texts]))


def tokenizer_drops_controls(patch: pytest.MonkeyPatch) -> None:
    original = SubwordTokenizer.decode_batch
    patch.setattr(
        SubwordTokenizer,
        "decode_batch",
        lambda self, batch: ["".join(c for c in text if c == " " or c.isprintable()) for text in original(self, batch)],
    )


def tokenizer_reads_special_tokens(patch: pytest.MonkeyPatch) -> None:
    original = SubwordTokenizer.encode_batch

    def encode(self: SubwordTokenizer, texts: Any) -> list[list[int]]:
        return [[1, *ids] if "<s>" in text else ids for text, ids in zip(texts, original(self, texts), strict=True)]

    patch.setattr(SubwordTokenizer, "encode_batch", encode)


FAULTS: list[tuple[str, Fault]] = [
    ("causality", no_causal_mask),
    ("causality", sees_the_next_token),
    ("causality", reads_the_token_that_it_predicts),
    ("causality", deaf_decoder),
    ("cache = no cache", cache_off_by_one),
    ("cache = no cache", cache_forgets_when_it_grows),
    ("cache, beams moved", beams_do_not_move),
    ("cache, beams moved", wrong_sentences_are_kept),
    ("padding", padding_is_seen),
    ("padding", padding_is_seen_by_steps_only),
    ("padding", padding_is_told_by_its_id),
    ("padding", norm_over_the_batch),
    ("evaluation repeats", dropout_left_on),
    ("train = evaluate", training_scales),
    ("train = evaluate", dropout_never_acts),
    ("attention = eq. 1", attention_without_scale),
    ("attention = eq. 1", long_attention_is_blind),
    ("precision", engine_in_half_precision),
    ("batch size and order", neighbours_shorten),
    ("batch size and order", results_are_not_put_back_in_order),
    ("batch size and order", padding_is_seen),
    ("beam 1 = greedy", greedy_takes_the_second),
    ("beam 1 = greedy", one_beam_takes_the_second),
    ("drafts = greedy", refused_drafts_stay),
    ("n-best", n_best_is_reversed),
    ("n-best", n_best_repeats_itself),
    ("n-best", n_best_lacks_the_best),
    ("n-best", output_has_a_special_token),
    ("scores = forced", wrong_length_penalty),
    ("scores = forced", search_forgets_a_token),
    ("scores = forced", forced_scores_are_shifted),
    ("scores = forced", beams_do_not_move),
    ("saved = loaded", saving_rounds),
    ("saved = loaded", saving_forgets_the_metrics),
    ("saved = loaded", saving_changes_the_configuration),
    ("tokenizer", tokenizer_lowercases),
    ("tokenizer", tokenizer_differs_in_a_batch),
    ("tokenizer", tokenizer_drops_controls),
    ("tokenizer", tokenizer_reads_special_tokens),
]
