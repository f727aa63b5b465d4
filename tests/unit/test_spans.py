"""Decoding steps of several tokens: the logits are those of the whole target, and of ordinary steps."""

import dataclasses
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from made_models import KINDS, made_bundle
from transduce.bundle import Bundle
from transduce.config import DecodeConfig
from transduce.config.choices import Precision
from transduce.config.special_ids import BOS, EOS
from transduce.decoding.online_drafts import OnlineDrafter
from transduce.decoding.proposals import PassCosts, numbered
from transduce.decoding.scores import Hypothesis
from transduce.engines import torch_drafts
from transduce.engines.interface import TokenConstraints
from transduce.engines.torch import TorchEngine, load_model
from transduce.errors import ConfigError
from transduce.model import Transformer, prepack
from transduce.model.spans import SpanState, step_span
from transduce.verification.drafts import propose_always

SOURCES = [[30, 31, 32, 33, 34], [40, 41], [50, 51, 52, 53, 54, 55, 56]]


def encoded(model: Transformer, sources: list[list[int]]) -> Any:
    longest = max(map(len, sources)) + 1
    rows = [[*source, EOS] + [0] * (longest - len(source) - 1) for source in sources]
    return model.encode(torch.tensor(rows), torch.tensor([len(source) + 1 for source in sources]))


def in_spans(model: Transformer, sources: list[list[int]], targets: list[list[int]], seed: int) -> list[Tensor]:
    """Returns the logits after BOS and each token, from spans of random length of which a part counts."""
    chance = random.Random(seed)
    state, found = SpanState.start(model, encoded(model, sources)), [[] for _ in sources]  # type: ignore[var-annotated]
    inputs = [[BOS, *target] for target in targets]
    while any(len(rows) < len(target) for rows, target in zip(found, inputs, strict=True)):
        width = chance.randint(1, 5)
        counts, tokens = [], []
        for rows, target in zip(found, inputs, strict=True):
            counts.append(min(chance.randint(1, width), len(target) - len(rows)))
            right = target[len(rows) : len(rows) + counts[-1]]
            tokens.append(right + [chance.randint(20, 60) for _ in range(width - len(right))])
        logits_BKV, state = step_span(model, torch.tensor(tokens), state)
        state = state.accept(counts)
        for rows, logits_KV, count in zip(found, logits_BKV, counts, strict=True):
            rows += [*logits_KV[:count]]
    return [torch.stack(rows) for rows in found]


@pytest.mark.parametrize("kind", KINDS)
def test_the_logits_are_those_of_the_whole_target(tmp_path: Path, kind: str) -> None:
    model = load_model(made_bundle(tmp_path / "model", **KINDS[kind])).eval()
    chance = random.Random(5)
    targets = [[chance.randint(20, 60) for _ in range(length)] for length in (17, 3, 9)]
    with torch.inference_mode():
        for sources, given in ((SOURCES, targets), (SOURCES[:1], targets[:1])):
            found = in_spans(model, sources, given, seed=7)
            for source, target, logits_TV in zip(sources, given, found, strict=True):
                expected_TV = model.decode(encoded(model, [source]), torch.tensor([[*target, EOS]]))[0]
                torch.testing.assert_close(logits_TV, expected_TV, rtol=1e-4, atol=1e-4)


def test_a_cache_grows_and_sentences_can_be_dropped(tmp_path: Path) -> None:
    model = load_model(made_bundle(tmp_path / "model")).eval()
    chance = random.Random(5)
    targets = [[chance.randint(20, 60) for _ in range(150)] for _ in SOURCES]
    with torch.inference_mode():
        state = SpanState.start(model, encoded(model, SOURCES))
        inputs = torch.tensor([[BOS, *target] for target in targets])
        for start in range(0, 120, 40):
            _, state = step_span(model, inputs[:, start : start + 40], state)
            state = state.accept([40] * 3)
        state = state.keep([2, 0])
        logits_BKV, state = step_span(model, inputs[[2, 0], 120:], state)
        assert state.lengths == (120, 120)
        for row, sentence in enumerate((2, 0)):
            expected_TV = model.decode(encoded(model, [SOURCES[sentence]]), torch.tensor([[*targets[sentence], EOS]]))[
                0
            ]
            torch.testing.assert_close(logits_BKV[row], expected_TV[120:], rtol=1e-4, atol=1e-4)


def test_padding_behind_the_last_learned_position_changes_no_other_token(tmp_path: Path) -> None:
    """The first sentence has two of 8 positions left, and a third token of the span is padding."""
    model = load_model(made_bundle(tmp_path / "model", positions="learned", max_positions=8)).eval()
    targets = [[21, 22, 23, 24, 25, 26, 27], [31, 32, 33]]
    with torch.inference_mode():
        state = SpanState.start(model, encoded(model, SOURCES[:2]))
        inputs = torch.tensor([[BOS, *targets[0]], [BOS, *targets[1], *[40] * 4]])
        _, state = step_span(model, inputs[:, :6], state)
        state = state.accept([6, 2])
        spans = torch.stack([torch.tensor([26, 27, 50]), inputs[1, 2:5]])
        logits_BKV, _ = step_span(model, spans, state)
        for row, (past, count) in enumerate(((6, 2), (2, 2))):
            ids = torch.tensor([[*targets[row], EOS]])[:, : past + count]
            expected_TV = model.decode(encoded(model, [SOURCES[row]]), ids)[0]
            torch.testing.assert_close(logits_BKV[row, :count], expected_TV[past:], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("precision", ["int8", "bfloat16"])
def test_of_one_sentence_in_few_bits_each_bit_is_that_of_an_ordinary_step(tmp_path: Path, precision: Precision) -> None:
    bundle = made_bundle(tmp_path / "model", d_model=64, d_ff=128)
    try:
        model = prepack(load_model(bundle), precision)
    except ConfigError as error:
        pytest.skip(str(error))
    chance = random.Random(3)
    with torch.inference_mode():
        for source in SOURCES:
            target = [chance.randint(20, 60) for _ in range(40)]
            state = model.start(encoded(model, [source]), max_steps=50)
            ordinary = []
            for token in [BOS, *target]:
                logits_1V, state = model.step(torch.tensor([token]), state)
                ordinary.append(logits_1V[0].clone())
            [found_TV] = in_spans(model, [source], [target], seed=len(source))
            assert torch.equal(found_TV, torch.stack(ordinary))


# --- the engine -----------------------------------------------------------------------------------------------


def sources(number: int) -> list[list[int]]:
    chance = random.Random(11)
    return [[chance.randint(20, 290) for _ in range(chance.randint(1, 12))] for _ in range(number)]


def ending_bundle(folder: Path, kind: str = "post-norm", **changes: Any) -> Bundle:
    """A model some of whose outputs end by themselves, others at the limit: untied, or it would repeat one word."""
    ending = {"as M2M100": 5.5, "learned positions": 12.0}.get(kind, 2.0)
    return made_bundle(folder, ending=ending, block_size=4, **{**KINDS[kind], "tie_embeddings": "none", **changes})


# Each kind and each draft with both batch sizes, and each kind with each draft.
EVERY_TWO = [
    (kind, draft, (1, 5)[(row + column) % 2])
    for row, kind in enumerate(("post-norm", "learned positions", "start from zero", "as M2M100"))
    for column, draft in enumerate(("self", "blockwise", "model"))
]

Outputs = list[list[Hypothesis]]


class Ordinary:
    """A model, and what it writes of each sentence alone and without drafts: computed once for all drafts."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self._engine = TorchEngine.load(bundle, "cpu")
        self._written: dict[str, Outputs] = {}

    def translate(self, options: DecodeConfig, *given: Any) -> Outputs:
        """Returns the outputs of a batch of any size; what is `given` are the sources, and constraints."""
        alone = dataclasses.replace(options, batch_size=1)
        key = repr((alone, given))
        if key not in self._written:
            self._written[key] = self._engine.translate(given[0], alone, 1, *given[1:])
        return self._written[key]


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ordinary]:
    """Returns a function that gives the model of a kind."""
    folder = tmp_path_factory.mktemp("ordinary")
    return cache(lambda kind: Ordinary(ending_bundle(folder / kind.replace(" ", "-"), kind)))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A model that drafts for others."""
    return ending_bundle(tmp_path_factory.mktemp("small") / "model", num_decoder_layers=1)


@pytest.fixture
def given_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out measuring what a pass costs: it takes longer than the searches, and `drafting` forgets it."""
    monkeypatch.setattr(torch_drafts, "measured_costs", lambda *given: PassCosts([(1, 1e-9)]))  # a draft is free, too


def drafting(bundle: Bundle, draft: Any) -> TorchEngine:
    """An engine to which more tokens in a pass seem to cost nothing, so that it drafts wherever it can."""
    engine = TorchEngine.load(bundle, "cpu", draft=draft)
    assert engine.drafts is not None
    propose_always(engine.drafts)
    return engine


def assert_same(engine: TorchEngine, ordinary: Ordinary, options: DecodeConfig, *given: Any) -> None:
    """The outputs of a batch with drafts are those of each sentence alone without."""
    assert engine.drafts is not None
    expected = ordinary.translate(options, *given)
    learns = isinstance(engine.drafts.begin(), OnlineDrafter)
    for _ in range(2 if learns else 1):  # the second time, n-grams know the outputs
        found = engine.translate(given[0], options, 1, *given[1:])
        for [a], [b] in zip(found, expected, strict=True):
            assert (a.ids, a.finished) == (b.ids, b.finished)
            assert a.score == pytest.approx(b.score, abs=1e-4)
    assert engine.drafts.counts.proposed > 0


@pytest.mark.usefixtures("given_costs")
@pytest.mark.parametrize(("kind", "draft", "batch_size"), EVERY_TWO)
def test_the_engine_writes_what_it_writes_for_each_sentence_alone(
    ordinary: Callable[[str], Ordinary], small: Bundle, kind: str, draft: str, batch_size: int
) -> None:
    model = ordinary(kind)
    options = DecodeConfig(beam_size=1, batch_size=batch_size, max_extra_tokens=9)
    assert_same(drafting(model.bundle, small if draft == "model" else draft), model, options, sources(9))
    assert {found.finished for [found] in model.translate(options, sources(9))} == {False, True}


@pytest.mark.usefixtures("given_costs")
def test_in_bfloat16_a_sentence_alone_is_that_of_ordinary_steps_where_passes_round_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processors without products in bfloat16 add in an order that depends on the number of rows."""

    def rounding_otherwise(*given: Any) -> tuple[Tensor, SpanState]:
        logits_BKV, state = step_span(*given)
        chance = torch.Generator().manual_seed(int(given[1].sum()))
        return logits_BKV + 0.03 * (2 * torch.rand(logits_BKV.shape, generator=chance) - 1), state

    bundle, options = ending_bundle(tmp_path / "model"), DecodeConfig(beam_size=1, batch_size=1, max_extra_tokens=9)
    try:
        ordinary = TorchEngine.load(bundle, "cpu", precision="bfloat16").translate(sources(12), options)
        engine = TorchEngine.load(bundle, "cpu", precision="bfloat16", draft="self")
    except ConfigError as error:
        pytest.skip(str(error))
    assert engine.drafts is not None
    propose_always(engine.drafts)
    monkeypatch.setattr(torch_drafts, "step_span", rounding_otherwise)
    found = engine.translate(sources(12), options)
    assert [each.ids for [each] in found] == [each.ids for [each] in ordinary]
    assert engine.drafts.counts.repeated > 0


@pytest.mark.usefixtures("given_costs")
@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("draft", ["self", "blockwise", "model"])
def test_prefixes_forbidden_words_and_limits_act_as_without_drafts(
    ordinary: Callable[[str], Ordinary], small: Bundle, draft: str, batch_size: int
) -> None:
    model, other, given = ordinary("post-norm"), small if draft == "model" else draft, sources(4)
    common = DecodeConfig(beam_size=1, batch_size=batch_size, max_extra_tokens=9)
    written = [found[0].ids for found in model.translate(common, given)]
    constraints = [
        [
            TokenConstraints(forbidden=((ids[0],), tuple(ids[1:3]) or (5,))),
            TokenConstraints(prefix=(30, 31, 32, 33, 34), completions=((), (), (50, 51, 52), ())),
            TokenConstraints(prefix=tuple(range(20, 110)), forbidden=((25, 26),)),
            TokenConstraints(),
        ][number]
        for number, ids in enumerate(written)
    ]
    assert_same(drafting(model.bundle, other), model, common, given, constraints)
    limits = ({"min_tokens": 9}, {"no_repeat_ngram": 2}, {"max_tokens": 4}, {"max_extra_tokens": 0})
    for changes in limits[(draft == "model") == (batch_size == 1) :: 2]:  # each with both batch sizes
        assert_same(drafting(model.bundle, other), model, dataclasses.replace(common, **changes), given)


@pytest.mark.usefixtures("given_costs")
def test_a_draft_may_have_learned_fewer_positions(ordinary: Callable[[str], Ordinary], tmp_path: Path) -> None:
    """Of one line it cannot read the source, of the next the end of the output."""
    model, options = ordinary("post-norm"), DecodeConfig(beam_size=1, max_extra_tokens=20)
    short = made_bundle(tmp_path / "draft", positions="learned", max_positions=12)
    assert_same(drafting(model.bundle, short), model, options, [[*range(30, 45)], [30, 31, 32], [40]])


def test_a_long_prefix_takes_few_passes(tmp_path: Path) -> None:
    bundle = made_bundle(tmp_path / "model", ending=0.4)
    engine = TorchEngine.load(bundle, "cpu", draft="self")
    options = DecodeConfig(beam_size=1, max_tokens=60)
    engine.translate([[30, 40, 50]], options, 1, [TokenConstraints(prefix=tuple(range(20, 80)))])
    assert engine.drafts is not None
    assert engine.drafts.counts.passes == 1


@pytest.mark.parametrize("changes", [{"beam_size": 2}, {"temperature": 1.0}])
def test_other_searches_are_as_without_a_draft(tmp_path: Path, changes: dict[str, Any]) -> None:
    bundle = made_bundle(tmp_path / "model", ending=0.4)
    engine, ordinary = drafting(bundle, "self"), TorchEngine.load(bundle, "cpu")
    options = DecodeConfig(**{"beam_size": 1, **changes})
    assert engine.translate(sources(6), options) == ordinary.translate(sources(6), options)
    required = [TokenConstraints(required=(((77,),),))] * 6
    options = DecodeConfig(beam_size=2)
    assert engine.translate(sources(6), options, 1, required) == ordinary.translate(sources(6), options, 1, required)
    assert engine.drafts is not None
    assert engine.drafts.counts.passes == 0


def test_the_engine_searches_in_the_faster_way_and_drafts_learn_from_both(tmp_path: Path) -> None:
    engine = TorchEngine.load(made_bundle(tmp_path / "model", ending=0.4), "cpu", draft="self")
    drafts = engine.drafts
    assert drafts is not None
    drafts.faster.note(True, (1, False), 100, 9.0)
    drafts.faster.note(False, (1, False), 100, 1.0)
    options = DecodeConfig(beam_size=1, batch_size=1)
    engine.translate(sources(15), options)
    assert drafts.counts.passes == 0
    drafter = drafts.begin()
    assert isinstance(drafter, OnlineDrafter)
    assert len(drafter._memory._following) > 0, "from ordinary searches"
    engine.translate(sources(1), options)
    assert drafts.counts.passes > 0, "the sixteenth search tries the slower way"


def test_wrong_proposals_at_the_beginning_do_not_end_drafts(tmp_path: Path) -> None:
    """A pass over two tokens takes 1.3 times as long as one over one: it pays where a proposal in three is right."""
    bundle = made_bundle(tmp_path / "model", ending=0.4, num_encoder_layers=1, num_decoder_layers=1)
    engine = TorchEngine.load(bundle, "cpu", draft="self")
    drafts, options = engine.drafts, DecodeConfig(beam_size=1, batch_size=1, max_extra_tokens=3)
    assert drafts is not None
    drafts.costs = PassCosts([(1, 1.0), (2, 1.3), (1000, 1000.0)])
    drafts.faster.note(True, (1, False), 100, 1.0)
    drafts.faster.note(False, (1, False), 100, 9.0)
    for _ in range(6):
        drafts.chances.note(numbered(0), right=False)
    engine.translate(sources(8), options)
    assert drafts.counts.passes == 0, "one in eight, it seems"
    engine.translate(sources(100), options)
    assert drafts.counts.passes > 0


def test_costs_are_measured_and_grow(tmp_path: Path) -> None:
    engine = TorchEngine.load(made_bundle(tmp_path / "model", d_model=64, d_ff=128), "cpu", draft="self")
    assert engine.drafts is not None
    assert 0 < engine.drafts.costs(1) < engine.drafts.costs(128) < 1


def test_no_pass_is_measured_that_a_model_with_few_learned_positions_cannot_make(tmp_path: Path) -> None:
    bundle = made_bundle(tmp_path / "model", positions="learned", max_positions=8)  # one pass would have 9 tokens
    costs = torch_drafts.measured_costs(load_model(bundle).eval())
    assert [num_tokens for num_tokens, _ in costs.measured] == [1, 2, 3, 5, 16, 32, 64, 128]


def test_models_with_restricted_attention_and_ensembles_are_refused(tmp_path: Path) -> None:
    bundle = made_bundle(tmp_path / "model", attention_window=4)
    with pytest.raises(ConfigError, match="attention_window"):
        TorchEngine.load(bundle, "cpu", draft="self")
    plain = made_bundle(tmp_path / "plain")
    with pytest.raises(ConfigError, match="one model"):
        TorchEngine.load(plain, "cpu", others=[plain], draft="self")
