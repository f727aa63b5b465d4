"""What is drawn is distributed as it should be, follows from seed and source alone, and costs nobody's place."""

import collections
import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from step_tables import EOS, A, B, C, FakeModel, Table, log_softmax, only, random_table
from transduce.config import DecodeConfig
from transduce.decoding.sampling import Sampling, draw, narrowed, uniforms
from transduce.decoding.scores import Hypothesis

Past = tuple[int, ...]


def run(
    table: Table,
    limits: Sequence[int],
    sources: Sequence[Sequence[int]],
    num_samples: int,
    *,
    seed: int = 1,
    **more: float,
) -> list[list[Hypothesis]]:
    model = FakeModel(table)
    numbers = [torch.from_numpy(uniforms(seed, source, num_samples, max(limits) + 1)) for source in sources]
    options = DecodeConfig(**{"temperature": 1.0, "length_penalty": 0.0} | more)  # type: ignore[arg-type]
    return Sampling(model.task(limits), options, torch.stack(numbers)).run()


def narrowed_reference(logits: list[float], temperature: float, top_k: int, top_p: float) -> dict[int, float]:
    """Token by token, in plain Python: the probabilities to draw from."""
    weights = {t: math.exp(g / temperature) for t, g in enumerate(log_softmax(logits)) if t in (EOS, A, B, C)}
    ranked = sorted(weights, key=lambda t: -weights[t])[: top_k or None]
    total, kept, mass = sum(weights[t] for t in ranked), [], 0.0
    for token in ranked:
        kept.append(token)
        mass += weights[token] / total
        if mass >= top_p:
            break
    whole = sum(weights[t] for t in kept)
    return {token: weights[token] / whole for token in kept}


def chi_square_limit(freedom: int) -> float:
    """The value that a chi-square variable exceeds once in 10 000 times (Wilson and Hilferty's approximation)."""
    return freedom * (1 - 2 / (9 * freedom) + 3.719 * math.sqrt(2 / (9 * freedom))) ** 3


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, 0, 1.0), (0.5, 0, 1.0), (2.0, 0, 1.0), (1.0, 2, 1.0), (1.0, 0, 0.7), (1.3, 3, 0.8)],
)
def test_outputs_come_as_often_as_they_should(temperature: float, top_k: int, top_p: float) -> None:
    table, num_samples, limit = random_table(5, spread=1.0), 4000, 2
    expected: dict[tuple[int, ...], float] = collections.defaultdict(float)
    for ids in itertools.product((EOS, A, B, C), repeat=limit + 1):  # what comes after EOS adds up to 1
        ends = ids.index(EOS) if EOS in ids else limit
        share = 1.0
        for place, token in enumerate(ids):
            share *= narrowed_reference(table(0, ids[:place]), temperature, top_k, top_p).get(token, 0.0)
        expected[(*ids[:ends], EOS) if EOS in ids else ids[:limit]] += share
    [found] = run(table, [limit], [[7]], num_samples, temperature=temperature, top_k=top_k, top_p=top_p)
    counts = collections.Counter((*h.ids, EOS) if h.finished else tuple(h.ids) for h in found)
    possible = {output for output, share in expected.items() if share > 0}
    assert set(counts) <= possible
    assert sum(expected.values()) == pytest.approx(1.0)
    statistic = sum((counts[o] - num_samples * expected[o]) ** 2 / (num_samples * expected[o]) for o in possible)
    assert statistic < chi_square_limit(len(possible) - 1)


def test_the_distribution_test_would_notice_another_temperature() -> None:
    table, num_samples = random_table(5, spread=1.0), 4000
    shares = narrowed_reference(table(0, ()), 1.0, 0, 1.0)
    [found] = run(table, [0], [[7]], num_samples, temperature=1.3)
    ended = sum(h.finished for h in found)
    statistic = (ended - num_samples * shares[EOS]) ** 2 / (num_samples * shares[EOS] * (1 - shares[EOS]))
    assert statistic > chi_square_limit(1)


def test_log_probabilities_are_the_models_own() -> None:
    table = random_table(6)
    for h in run(table, [4], [[1]], 50, temperature=0.6, top_k=2, top_p=0.9)[0]:
        ids = (*h.ids, *[EOS] * h.finished)
        own = sum(log_softmax(table(0, ids[:place]))[token] for place, token in enumerate(ids))
        assert h.log_probability == pytest.approx(own, abs=1e-5)


seeds = st.integers(0, 2**20)


@settings(max_examples=20, deadline=None)
@given(seeds, st.lists(st.integers(0, 9), min_size=2, max_size=10), st.integers(1, 4))
def test_neighbours_and_the_number_of_samples_do_not_matter(seed: int, limits: list[int], num_samples: int) -> None:
    table, sources = random_table(seed), [[seed, place] for place in range(len(limits))]
    together = run(table, limits, sources, num_samples, seed=seed)
    for sentence, limit in enumerate(limits):
        alone = only(table, sentence)
        more = run(alone, [limit], [sources[sentence]], num_samples + 2, seed=seed)[0]
        assert more[:num_samples] == together[sentence]


def test_seed_source_and_sample_make_the_numbers() -> None:
    numbers = uniforms(1, [5, 6], 3, 8)
    assert numbers.shape == (3, 8)
    assert ((numbers >= 0) & (numbers < 1)).all()
    assert np.array_equal(numbers[:2, :4], uniforms(1, [5, 6], 2, 4))
    assert np.array_equal(numbers[1:], uniforms(1, [5, 6], 2, 8, first=1))
    others = [uniforms(2, [5, 6], 1, 8), uniforms(1, [6, 5], 1, 8), uniforms(1, [5], 1, 8), numbers[1:2]]
    assert len({row.tobytes() for row in [numbers[:1], *others]}) == 5


@settings(max_examples=30, deadline=None)
@given(seeds, st.floats(0.2, 3.0), st.integers(0, 8), st.sampled_from([0.05, 0.3, 0.7, 0.95, 1.0]))
def test_narrowed_is_the_reference(seed: int, temperature: float, top_k: int, top_p: float) -> None:
    logits = random_table(seed)(0, ())
    gains_RV = torch.tensor([log_softmax(logits)])
    gains_RV[:, [0, 1, 3]] = -torch.inf
    options = DecodeConfig(temperature=temperature, top_k=top_k, top_p=top_p)
    ours = narrowed(gains_RV.clone(), options)[0].tolist()
    theirs = narrowed_reference(logits, temperature, top_k, top_p)
    assert ours == pytest.approx([theirs.get(token, 0.0) for token in range(7)], abs=1e-5)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_top_p_that_is_reached_exactly_leaves_no_token_more(count: int) -> None:
    gains_RV = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
    reached = gains_RV.softmax(dim=-1).cumsum(dim=-1, dtype=torch.double)[0]
    for top_p, kept in ((reached[count - 1], count), (reached[count - 1] + 1e-9, count + 1)):
        assert narrowed(gains_RV, DecodeConfig(temperature=1.0, top_p=float(top_p))).count_nonzero() == kept


def test_a_draw_falls_into_the_share_of_its_token() -> None:
    probabilities = torch.tensor([[0.0, 0.25, 0.0, 0.75]]).expand(6, 4)
    tokens = draw(probabilities, torch.tensor([0.0, 0.2499, 0.25, 0.5, 1 - 2**-53, 1.0], dtype=torch.double))
    assert tokens.tolist() == [1, 1, 3, 3, 3, 3]


def test_a_table_without_numbers_does_not_end_in_a_crash() -> None:
    [found] = run(lambda s, past: [math.nan] * 7, [2], [[1]], 2)
    assert [(h.ids, h.finished) for h in found] == [([], False)] * 2
