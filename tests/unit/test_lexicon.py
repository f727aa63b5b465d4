"""IBM Model 1 against its definition, written out pair by pair."""

import random
from collections import defaultdict

import numpy as np
import pytest

import transduce.alignment.lexicon as lexicon
from transduce.alignment.lexicon import NULL, learn_lexicon, num_ticks

_VOCAB = 20


def made_pairs(count: int, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    generator = random.Random(seed)
    sides = [
        [np.array(generator.choices(range(4, 14), k=generator.randrange(1, 7))) for _ in range(count)] for _ in range(2)
    ]
    return sides[0], sides[1]


def model_1(sources: list[np.ndarray], targets: list[np.ndarray], iterations: int) -> dict[int, dict[int, float]]:
    """Brown et al. 1993, section 4.1, word by word: t[source][target]."""
    t: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(lambda: 1.0))
    for _ in range(iterations):
        counts: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        for source, target in zip(sources, targets, strict=True):
            words = [NULL, *source.tolist()]
            for f in target.tolist():
                total = sum(t[e][f] for e in words)
                for e in words:
                    counts[e][f] += t[e][f] / total
        t = {e: {f: n / sum(row.values()) for f, n in row.items()} for e, row in counts.items()}
    return t


@pytest.mark.parametrize("iterations", [1, 2, 5])
@pytest.mark.parametrize("block_tokens", [1 << 20, 300, 7])  # ids share a block; some do; most need several
def test_the_probabilities_are_those_of_the_definition(
    iterations: int, block_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexicon, "_BLOCK_TOKENS", block_tokens)
    sources, targets = made_pairs(40)
    expected = model_1(sources, targets, iterations)
    found = learn_lexicon(sources, targets, _VOCAB, iterations=iterations)
    for source in range(_VOCAB):
        row = dict(zip(found.targets[source].tolist(), found.probabilities[source].tolist(), strict=True))
        assert row == pytest.approx(dict(expected.get(source, {})), abs=1e-5)
        assert list(row.values()) == sorted(row.values(), reverse=True)


def test_a_lexicon_of_one_word_for_each_is_found() -> None:
    """With 30 words, pairs in other orders, and no word of a sentence ever alone."""
    generator, order = random.Random(1), list(range(4, 34))
    generator.shuffle(order)
    translation = dict(zip(range(4, 34), order, strict=True))
    sources = [np.array(generator.sample(range(4, 34), k=6)) for _ in range(300)]
    targets = [np.array(generator.sample([translation[e] for e in source.tolist()], k=6)) for source in sources]
    found = learn_lexicon(sources, targets, 40)
    for source, target in translation.items():
        assert found.targets[source][0] == target
        assert found.probabilities[source][0] > 0.9


def test_short_rows_keep_their_best_and_sum_to_one() -> None:
    sources, targets = made_pairs(60, seed=2)
    whole = learn_lexicon(sources, targets, _VOCAB, iterations=1)
    short = learn_lexicon(sources, targets, _VOCAB, iterations=1, max_row=3)
    for source in range(4, 14):
        assert short.targets[source].tolist() == whole.targets[source][:3].tolist()
        assert short.probabilities[source].sum() == pytest.approx(1)
    again = learn_lexicon(sources, targets, _VOCAB, iterations=4, max_row=3)  # some targets now come from nowhere
    assert all(np.isfinite(row).all() and len(row) <= 3 for row in again.probabilities)


def test_progress_is_told_whole_and_nothing_gives_nothing() -> None:
    sources, targets = made_pairs(30)
    told: list[int] = []
    learn_lexicon(sources, targets, _VOCAB, iterations=3, tick=told.append)
    assert sum(told) == num_ticks(sources, 3)
    assert not any(len(row) for row in learn_lexicon([], [], _VOCAB).targets)
