"""Every way of decoding on a small model: scores are forced scores, neighbours do not matter, what is asked is kept."""

import math
import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from transduce.config import DecodeConfig, ModelConfig
from transduce.config.special_ids import EOS
from transduce.decoding.ensemble import EnsembleState
from transduce.decoding.scores import Hypothesis, gnmt_penalty
from transduce.engines.interface import TokenConstraints
from transduce.engines.shortlist.table import Shortlist
from transduce.engines.torch import TorchEngine
from transduce.engines.torch_search import Batch, SearchRound, _coverage_bonus, batch_size, search_rounds
from transduce.errors import ConfigError
from transduce.model import Transformer

pytestmark = pytest.mark.computes

_CONFIG = ModelConfig(
    vocab_size=20, num_encoder_layers=2, num_decoder_layers=2, d_model=16, d_ff=32, num_heads=2, d_k=8, d_v=8
)
_WORDS = range(4, 20)


def _model(seed: int = 0, **changes: Any) -> Transformer:
    torch.manual_seed(seed)
    model = Transformer(replace(_CONFIG, tie_embeddings="none", **changes))
    model.output_embedding.data *= 2  # a model with opinions
    return model


@pytest.fixture(scope="module")
def engine() -> TorchEngine:
    return TorchEngine(_model())


def _sources(count: int) -> list[list[int]]:
    dice = random.Random(5)
    return [[dice.choice(_WORDS) for _ in range(dice.randint(1, 12))] for _ in range(count)]


def _conditions(count: int) -> list[TokenConstraints]:
    dice = random.Random(6)
    constraints = []
    for _ in range(count):
        prefix = tuple(dice.choice(_WORDS) for _ in range(dice.randint(0, 3)))
        completions = tuple(tuple(dice.sample(_WORDS, dice.randint(0, 2))) for _ in prefix)
        forbidden = tuple(tuple(dice.sample(_WORDS, dice.randint(1, 2))) for _ in range(dice.randint(0, 3)))
        constraints.append(TokenConstraints(prefix=prefix, completions=completions, forbidden=forbidden))
    return constraints


_BASE = DecodeConfig(max_extra_tokens=4)
_MODES = {
    "beam": _BASE,
    "greedy": replace(_BASE, beam_size=1),
    "greedy, rules": replace(_BASE, beam_size=1, min_tokens=3, no_repeat_ngram=2),
    "lengths": replace(_BASE, min_tokens=4, max_tokens=9, no_repeat_ngram=2),
    "coverage": replace(_BASE, coverage_penalty=0.4),
    "diverse": replace(_BASE, beam_size=6, diversity_groups=3, diversity_penalty=0.8),
    "diverse, covered": replace(_BASE, diversity_groups=2, coverage_penalty=0.4, min_tokens=3),
    "sampling": replace(_BASE, temperature=1.0),
    "top-k, top-p": replace(_BASE, temperature=0.7, top_k=8, top_p=0.9, seed=3, no_repeat_ngram=3),
}
_CONSTRAINED = {"free": False, "constrained": True}
# Each way with one model and with two, and free and constrained; and so both numbers of models.
_EVERY_TWO = [
    (mode, num_models, (num_models + row) % 2 == 0) for row, mode in enumerate(_MODES) for num_models in (1, 2)
]


def _n_best(options: DecodeConfig) -> int:
    return 3 if options.temperature else options.beam_size


def _texts(found: list[list[Hypothesis]]) -> list[list[tuple[list[int], bool]]]:
    return [[(h.ids, h.finished) for h in hypotheses] for hypotheses in found]


@pytest.mark.parametrize("constrained", _CONSTRAINED.values(), ids=_CONSTRAINED)
@pytest.mark.parametrize("options", _MODES.values(), ids=_MODES)
def test_batch_size_changes_nothing(engine: TorchEngine, options: DecodeConfig, constrained: bool) -> None:
    sources = _sources(20)
    conditions = _conditions(20) if constrained else None
    whole = engine.translate(sources, replace(options, batch_size=20), _n_best(options), conditions)
    some = list(range(0, 20, 5))
    of_some = [conditions[place] for place in some] if conditions else None
    alone = replace(options, batch_size=1)
    one_by_one = engine.translate([sources[place] for place in some], alone, _n_best(options), of_some)
    assert _texts(one_by_one) == _texts([whole[place] for place in some])
    order = list(reversed(range(20)))
    moved = [conditions[place] for place in order] if conditions else None
    few = replace(options, batch_size=7)
    shuffled = engine.translate([sources[place] for place in order], few, _n_best(options), moved)
    assert _texts(shuffled) == _texts([whole[place] for place in order])


@pytest.mark.parametrize(("mode", "num_models", "constrained"), _EVERY_TWO)
def test_log_probabilities_are_forced_scores(mode: str, num_models: int, constrained: bool) -> None:
    options = _MODES[mode]
    engine = TorchEngine(_model(), others=[_model(seed) for seed in range(1, num_models)])
    sources = _sources(12)
    found = engine.translate(sources, options, _n_best(options), _conditions(12) if constrained else None)
    pairs = [(source, h) for source, hypotheses in zip(sources, found, strict=True) for h in hypotheses]
    assert len(pairs) >= 12
    scores = engine.score([source for source, _ in pairs], [h.ids for _, h in pairs])
    for (_, h), tokens in zip(pairs, scores, strict=True):
        forced = sum(tokens if h.finished else tokens[:-1])
        assert h.log_probability == pytest.approx(forced, abs=1e-4)
        if not options.coverage_penalty:
            length = len(h.ids) + h.finished
            assert h.score == pytest.approx(forced / gnmt_penalty(length, options.length_penalty), abs=1e-4)


@pytest.mark.parametrize("window", [0, 4])
def test_the_coverage_penalty_is_that_of_the_last_layers_attention(window: int) -> None:
    engine = TorchEngine(_model(attention_window=window))
    options, sources = _MODES["coverage"], _sources(9)
    for source, hypotheses in zip(sources, engine.translate(sources, options, 4), strict=True):
        for h in (h for h in hypotheses if h.finished):
            coverage = engine.attend(source, h.ids).cross[-1].mean(axis=0).sum(axis=0)
            penalty = sum(math.log(min(float(each), 1.0)) for each in coverage)
            length_penalty = gnmt_penalty(len(h.ids) + 1, options.length_penalty)
            assert h.score == pytest.approx(h.log_probability / length_penalty + 0.4 * penalty, abs=1e-4)


def test_what_is_asked_is_kept(engine: TorchEngine) -> None:
    sources, conditions = _sources(30), _conditions(30)
    options = replace(_BASE, min_tokens=4, max_tokens=6)
    for each, hypotheses in zip(conditions, engine.translate(sources, options, 4, conditions), strict=True):
        for h in hypotheses:
            assert len(h.ids) <= 6
            assert len(h.ids) >= 4 or not h.finished
            begins = [each.prefix] + [
                (*each.prefix[:place], token) for place, tokens in enumerate(each.completions) for token in tokens
            ]
            start = next(len(begin) for begin in begins if tuple(h.ids[: len(begin)]) == begin)
            for phrase in each.forbidden:
                for place in range(start, len(h.ids) - len(phrase) + 1):
                    assert tuple(h.ids[place : place + len(phrase)]) != phrase


def test_limits_yield_to_what_is_asked(engine: TorchEngine) -> None:
    prefix = tuple(range(4, 16))
    [[best], [longer]] = [
        engine.translate([[5]], replace(_BASE, max_tokens=3), 1, [TokenConstraints(prefix=prefix)])[0],
        engine.translate([[5]], replace(_BASE, max_extra_tokens=0, min_tokens=8), 1)[0],
    ]
    assert tuple(best.ids) == prefix
    assert len(longer.ids) == 8


def test_a_seed_is_a_number_that_a_machine_holds() -> None:
    with pytest.raises(ConfigError, match=r"decode\.seed = .*: must be from 0 to 2\^62 - 1"):
        replace(_BASE, seed=2**62)


def test_many_draws_are_made_in_shares(engine: TorchEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    options, sources = replace(_BASE, temperature=1.0, seed=5), _sources(3)
    whole = engine.translate(sources, options, 7)
    monkeypatch.setattr("transduce.engines.torch_search._MAX_DRAWN", 3)
    assert _texts(engine.translate(sources, options, 7)) == _texts(whole)


@pytest.mark.parametrize(
    ("n_best", "expected"),
    [
        (1, [(1, 1, 0)]),
        (16, [(1, 16, 0)]),
        (17, [(2, 9, 0)]),
        (40, [(3, 14, 0)]),
        (512, [(32, 16, 0)]),
        (530, [(32, 16, 0), (2, 9, 512)]),
    ],
)
def test_no_more_than_sixteen_draws_share_a_past(n_best: int, expected: list[tuple[int, int, int]]) -> None:
    drawn = search_rounds(replace(_BASE, temperature=1.0), n_best)
    assert [(each.copies, each.num_outputs, each.first_draw) for each in drawn] == expected
    assert [*search_rounds(_BASE, n_best)] == [SearchRound(copies=1, num_outputs=n_best)]


def test_a_part_of_the_vocabulary_holds_what_each_line_must_have() -> None:
    """Source 10 may become 15; the first line begins with 6, and must hold 7, or 8 and 9, and 11."""
    table = np.full((20, 1), EOS, np.int32)
    table[10] = 15
    shortlist = Shortlist(table, np.array([5], np.int32), {}, len(table))
    first = TokenConstraints(prefix=(6,), required=(((7,), (8, 9)), ((11,),)))
    batch = Batch.of([[10], [12]], [first, TokenConstraints()], (0, 1, 3), shortlist, torch.device("cpu"))
    part = batch.vocabulary
    assert part is not None
    allowed = [set(part.ids[row].tolist()) for row in part.allowed_BN.numpy()]
    assert allowed == [{EOS, 5, 6, 7, 8, 9, 11, 15}, {EOS, 5}]
    [whole] = batch.constraints[0].required[:1]
    assert [[part.ids[column] for column in phrase] for phrase in whole] == [[7], [8, 9]]


def test_conditions_of_a_part_of_the_vocabulary_are_its_columns() -> None:
    """Completions, joining tokens and forbidden phrases that cannot be written there are left out, and no others.

    The part has the special ids, 5, which all sentences have, and 10: these two are its columns 4 and 5. The second
    sentence has 12 as well, in column 6, which is not in the first one's part.
    """
    table = np.full((20, 1), EOS, np.int32)
    table[10], table[12] = 10, 12
    shortlist = Shortlist(table, np.array([5], np.int32), {}, len(table))
    given = TokenConstraints(
        prefix=(10, 5),
        completions=((5, 12), (13,), (10,)),
        required=(((10, 5),),),
        joining=(5, 12, 10),
        forbidden=((10,), (5, 12), (13,), (5, 10)),
    )
    batch = Batch.of(
        [[10], [12]], [given, TokenConstraints(joining=(12,))], (0, 1, 3, 11, 12), shortlist, torch.device("cpu")
    )
    assert batch.vocabulary is not None
    assert batch.vocabulary.ids.tolist() == [0, 1, 2, 3, 5, 10, 12]
    assert batch.never == (0, 1, 3, 6)
    assert batch.constraints == [
        TokenConstraints(
            prefix=(5, 4),
            completions=((4,), (), (5,)),
            required=(((5, 4),),),
            joining=(4, 5),
            forbidden=((5,), (4, 5)),
        ),
        TokenConstraints(joining=(6,)),
    ]


@pytest.mark.parametrize(
    ("temperature", "n_best", "expected"), [(0.0, 8, 64), (1.0, 1, 64), (1.0, 16, 32), (1.0, 512, 1), (1.0, 999, 1)]
)
def test_a_batch_has_at_most_512_draws(temperature: float, n_best: int, expected: int) -> None:
    assert batch_size(replace(_BASE, temperature=temperature, batch_size=64), n_best) == expected


def test_a_coverage_bonus_leaves_padding_out() -> None:
    """The second sentence has one word, of which 0.5 was attended to; the other position is padding."""
    state = SimpleNamespace(
        coverage_BKS=torch.tensor([[[0.5, 0.25]], [[0.5, 0.0]]]),
        memory_mask=torch.tensor([[True, True], [True, False]])[:, None, None],
    )
    expected = [2 * (math.log(0.5) + math.log(0.25)), 2 * math.log(0.5)]
    assert _coverage_bonus(2.0, state).tolist() == pytest.approx(expected)


def test_no_output_holds_a_tag_with_a_shortlist_either() -> None:
    tags = tuple(range(5, 14))
    shortlist = Shortlist(np.full((20, 1), EOS, np.int32), np.arange(4, 20, dtype=np.int32), {}, 20)
    plain, tagged = (TorchEngine(_model(), shortlist=shortlist, tags=each) for each in ((), tags))
    written = [
        {token for found in engine.translate(_sources(12), _BASE, 4) for each in found for token in each.ids}
        for engine in (plain, tagged)
    ]
    assert written[0] & {*tags}
    assert not written[1] & {*tags}


def test_the_coverage_of_an_ensemble_is_the_mean_of_its_models() -> None:
    """Two source tokens got 0.2 and 1.0 of one model, 0.6 and 3.0 of the other: 0.4 and 2.0, which counts as 1."""
    first, second = (
        SimpleNamespace(coverage_BKS=torch.tensor([[each]]), memory_mask=None) for each in ([0.2, 1.0], [0.6, 3.0])
    )
    found = _coverage_bonus(0.5, EnsembleState((first, second)))
    assert found.tolist() == pytest.approx([0.5 * (math.log(0.4) + math.log(1.0))])


def test_an_empty_source_gives_an_empty_output_whatever_is_asked(engine: TorchEngine) -> None:
    [[h]] = engine.translate([[]], replace(_BASE, min_tokens=3), 1, [TokenConstraints(prefix=(5,))])
    assert (h.ids, h.finished) == ([], True)


def test_an_ensemble_of_a_model_with_itself_is_the_model(engine: TorchEngine) -> None:
    twice, sources = TorchEngine(_model(), others=[_model()]), _sources(8)
    for options in _MODES.values():
        alone = engine.translate(sources, options, _n_best(options))
        assert _texts(alone) == _texts(twice.translate(sources, options, _n_best(options)))
    assert "2 models" in twice.name
    one, two = engine.score(sources[:3], [[5], [], [6, 7]]), twice.score(sources[:3], [[5], [], [6, 7]])
    for a, b in zip(one, two, strict=True):
        assert a == pytest.approx(b, abs=1e-5)
    assert np.array_equal(twice.attend([5, 7], [6]).cross, engine.attend([5, 7], [6]).cross)


def test_an_ensemble_is_bound_by_the_shortest_of_its_models() -> None:
    learned = _model(positions="learned", max_positions=9)
    engine = TorchEngine(_model(), others=[learned])
    assert engine.max_source_tokens == 8
    [[h]] = engine.translate([list(_WORDS)], replace(_BASE, beam_size=1, max_extra_tokens=30, min_tokens=8))
    assert len(h.ids) == 8


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ([TokenConstraints(required=(((),),))], "source 1: a phrase of 'required', or a choice of phrases, is empty"),
        ([TokenConstraints(required=(((2,),),))], "source 1: a phrase of 'required' holds a special token"),
        ([TokenConstraints(prefix=(2,))], "source 1: 'prefix' holds a special token"),
        ([TokenConstraints(forbidden=((),))], "source 1: a phrase of 'forbidden' is empty"),
        ([TokenConstraints(required=(((5,),), ()))], "source 1: a phrase of 'required', or a choice of phrases"),
        ([TokenConstraints(required=(((5,), ()),))], "source 1: a phrase of 'required', or a choice of phrases"),
        ([TokenConstraints(required=(((5,), (6, 0)),))], "source 1: a phrase of 'required' holds a special token"),
        ([TokenConstraints(prefix=(5, 3))], "source 1: 'prefix' holds a special token"),
        ([TokenConstraints(forbidden=((5,), ()))], "source 1: a phrase of 'forbidden' is empty"),
        ([], "1 sources and constraints for 0"),
    ],
)
def test_what_cannot_be_honoured_is_refused(
    engine: TorchEngine, conditions: list[TokenConstraints], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        engine.translate([[5]], _BASE, 1, conditions)


def test_the_second_source_is_named_where_it_is_at_fault(engine: TorchEngine) -> None:
    with pytest.raises(ConfigError, match="source 2: 'prefix' holds a special token"):
        engine.translate([[5], [6]], _BASE, 1, [TokenConstraints(prefix=(5,)), TokenConstraints(prefix=(1,))])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beam_size": 2}, None),
        ({"beam_size": 1}, r"decode\.beam_size = 1: required phrases need 2 or more"),
        ({"diversity_groups": 2}, r"decode\.diversity_groups = 2: required phrases need 1"),
        ({"temperature": 0.5}, r"decode\.temperature = 0\.5: required phrases need 0"),
    ],
)
def test_required_phrases_need_a_plain_beam(engine: TorchEngine, changes: dict[str, Any], message: str | None) -> None:
    options, given = replace(_BASE, **changes), [TokenConstraints(), TokenConstraints(required=(((5,),),))]
    if message is None:
        assert 5 in engine.translate([[5], [6]], options, 1, given)[1][0].ids
    else:
        with pytest.raises(ConfigError, match=message):
            engine.translate([[5], [6]], options, 1, given)


def test_a_prefix_beyond_learned_positions_is_refused() -> None:
    engine = TorchEngine(_model(positions="learned", max_positions=9))
    with pytest.raises(ConfigError, match="a prefix of 9 tokens: this model's positions end at 8"):
        engine.translate([[5]], _BASE, 1, [TokenConstraints(prefix=(5,) * 9)])
    with pytest.raises(ConfigError, match=r"decode.min_tokens = 9"):
        engine.translate([[5]], replace(_BASE, min_tokens=9), 1)


def test_the_first_of_many_draws_are_those_of_few(engine: TorchEngine) -> None:
    options = replace(_MODES["sampling"], batch_size=64)
    sources, conditions = _sources(3), _conditions(3)
    many = _texts(engine.translate(sources, options, 600, conditions))
    assert [len(found) for found in many] == [600] * 3
    assert [found[:2] for found in many] == _texts(engine.translate(sources, options, 2, conditions))
    assert [found[:33] for found in many] == _texts(engine.translate(sources, options, 33, conditions))
