"""What the filter learns from a corpus: which words translate which, and whether two lines belong together."""

import random

import numpy as np
import pytest

import made_parallel
from transduce.alignment import calibration
from transduce.alignment.calibration import calibrate, odds_of, of_equal_length
from transduce.alignment.dictionary import _BACKWARD_SMOOTHING, _FORWARD_SMOOTHING, WordDictionary, WordLines
from transduce.alignment.line_pairs import AlignmentModel, Side, _rare, _shared
from transduce.alignment.slips import ALIGNED, state_probabilities
from transduce.alignment.vocabulary import Vocabulary
from transduce.alignment.words import LINE_SHIFT, line_keys, tokens_of
from transduce.augmentation.filtering.profile import side_of

WINDOW = 64


def sides(pairs: list[tuple[str, str]]) -> tuple[Side, Side]:
    source, target = (side_of([pair[side] for pair in pairs]) for side in (0, 1))
    return source, target


@pytest.fixture(scope="module")
def model() -> AlignmentModel:
    pairs = made_parallel.pairs(4096)
    windows = [sides(pairs[start : start + WINDOW]) for start in range(0, len(pairs), WINDOW)]
    learned = AlignmentModel.learn(windows, WINDOW)
    assert learned is not None
    return learned


def reference_scores(words: WordDictionary, source: list[int], target: list[int]) -> tuple[float, float]:
    """Returns forward and backward score of two lines, one word at a time."""
    t = {
        (given, int(words.targets[k])): float(words.probabilities[k])
        for given in source
        for k in range(words.starts[given], words.starts[given + 1])
    }
    forward = [
        np.log(_FORWARD_SMOOTHING + sum(t.get((e, f), 0) for e in source) / len(source) / words.shares[f])
        for f in set(target)
    ]
    backward = []
    for e in source:
        covered = sum(t.get((e, f), 0) for f in set(target))
        chance = min(words.at_most[e], words.by_chance[e] * len(target))
        backward.append(np.log((_BACKWARD_SMOOTHING + covered) / (_BACKWARD_SMOOTHING + chance)))
    return float(np.mean(forward)), float(np.mean(backward))


def test_scores_are_those_of_a_plain_loop_over_words(model: AlignmentModel) -> None:
    pairs = made_parallel.pairs(40, seed=5)
    pairs[7] = (pairs[7][0], "???")
    lines = [WordLines.of(side.tokens, known) for side, known in zip(sides(pairs), model.vocabularies, strict=True)]
    words, distances = model.dictionaries[0], (-1, 0, 1)
    scores = words.scores(lines[0], lines[1], (0, 40), distances, words.slots_for(40, distances))
    sources, targets = ([each.tolist() for each in side.split(0)] for side in lines)
    for row, distance in enumerate(distances):
        for i in range(1, 39):
            if sources[i] and targets[i + distance]:
                expected = reference_scores(words, sources[i], targets[i + distance])
                assert scores[row, :, i] == pytest.approx(expected), (i, distance)


def test_forward_scores_of_all_pairs_of_lines_are_those_of_a_plain_loop(model: AlignmentModel) -> None:
    pairs = made_parallel.pairs(9, seed=6)
    pairs[3] = (pairs[3][0] + " " + pairs[3][0], pairs[3][1] + " " + pairs[3][1])  # repeated words
    pairs[5] = ("", "")
    lines = [WordLines.of(side.tokens, known) for side, known in zip(sides(pairs), model.vocabularies, strict=True)]
    words = model.dictionaries[0]
    fewer = WordLines(lines[1].ids[: lines[1].starts[-2]], starts=lines[1].starts[:-1])  # by one line
    found = words.forward_scores(lines[0], fewer)
    assert found.shape == (9, 8)
    sources, targets = ([each.tolist() for each in side.split(0)] for side in lines)
    for i, source in enumerate(sources):
        for j, target in enumerate(targets[:8]):
            if source and target:
                assert found[i, j] == pytest.approx(reference_scores(words, source, target)[0]), (i, j)
    assert (found[:, 5] == 0).all()


def right_probabilities(model: AlignmentModel) -> list[float]:
    """Returns the probability that the first dictionary gives to the translation of each of the most frequent words."""
    words, known = model.dictionaries[0], model.vocabularies
    source, target = (side_of([" ".join(made_parallel.words(i)[:20])]).tokens for i in (0, 1))
    found = []
    for given, wanted in zip(known[0].ids(source.hashes), known[1].ids(target.hashes), strict=True):
        row = slice(words.starts[given], words.starts[given + 1])
        found.append(float(words.probabilities[row][words.targets[row] == wanted].sum()))
    return found


def test_the_dictionary_knows_the_translations(model: AlignmentModel) -> None:
    known = model.vocabularies
    source, target = (side_of([" ".join(made_parallel.words(i)[:20])]).tokens for i in (0, 1))
    right = 0
    for given, wanted in zip(known[0].ids(source.hashes), known[1].ids(target.hashes), strict=True):
        begin, end = model.dictionaries[0].starts[given : given + 2]
        best = begin + int(np.argmax(model.dictionaries[0].probabilities[begin:end]))
        right += int(model.dictionaries[0].targets[best]) == wanted
    assert right >= 19


def test_pairs_have_high_odds_and_neighbours_low_ones(model: AlignmentModel) -> None:
    pairs = made_parallel.pairs(500, seed=9)
    odds = model.log_odds(*sides(pairs), 0)
    assert (odds[1] > 0).mean() > 0.98
    assert (odds[0] < 0).mean() > 0.98
    assert (odds[2] < 0).mean() > 0.98
    assert odds[0, 0] == odds[2, -1] == -8.0  # no line before the first, none after the last


def test_what_is_found_does_not_depend_on_how_lines_are_divided_into_chunks(model: AlignmentModel) -> None:
    pairs = made_parallel.pairs(300, seed=4)
    whole = model.log_odds(*sides(pairs), 0)
    parts = [model.log_odds(*sides(pairs[start : start + 100]), start) for start in (0, 100, 200)]
    np.testing.assert_allclose(np.concatenate(parts, axis=1)[1], whole[1])


def test_nothing_is_learned_from_too_little_or_from_lines_that_do_not_fit() -> None:
    pairs = made_parallel.pairs(2048)
    assert AlignmentModel.learn([sides(pairs[:1000])], 1024) is None
    strangers = [(source, target) for (source, _), (_, target) in zip(pairs, made_parallel.pairs(2048, 2), strict=True)]
    windows = [sides(strangers[start : start + WINDOW]) for start in range(0, 2048, WINDOW)]
    assert AlignmentModel.learn(windows, WINDOW) is None


def judged(pairs: list[tuple[str, str]]) -> tuple[AlignmentModel, np.ndarray]:
    """Returns what is learned from pairs, and which of them are not aligned."""
    model = AlignmentModel.learn([sides(pairs[i : i + WINDOW]) for i in range(0, len(pairs), WINDOW)], WINDOW)
    assert model is not None
    states = state_probabilities(model.log_odds(*sides(pairs), 0), model.noise)
    return model, states[:, ALIGNED] < 0.5


def with_noise(pairs: list[tuple[str, str]], share: float) -> list[int]:
    """Exchanges the targets of some of the pairs, and returns which."""
    noise = random.Random(2).sample(range(len(pairs)), int(share * len(pairs)))
    targets = [pairs[i][1] for i in noise]
    for i, target in zip(noise, [*targets[1:], targets[0]], strict=True):
        pairs[i] = pairs[i][0], target
    return noise


def test_wrong_pairs_are_found_in_much_noise_and_teach_the_dictionary_nothing(
    model: AlignmentModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dictionary of a noisy corpus gives the right translations nearly the probability that a clean one gives."""
    share = 0.3
    pairs = made_parallel.pairs(4096)
    noise = with_noise(pairs, share)
    real, places = AlignmentModel.log_odds, list[int]()

    def log_odds(self: AlignmentModel, source: Side, target: Side, first_line: int) -> np.ndarray:
        places.append(first_line)
        return real(self, source, target, first_line)

    monkeypatch.setattr(AlignmentModel, "log_odds", log_odds)
    learned, dropped = judged(pairs)
    assert learned.noise == pytest.approx(share, abs=0.04)
    assert dropped[noise].mean() >= 0.9
    assert np.delete(dropped, noise).mean() <= 0.002
    assert places == [*range(0, 4096, WINDOW), 0]  # each window by its dictionaries, and then the corpus as a whole
    clean, noisy = (np.mean(right_probabilities(each)) for each in (model, learned))
    assert noisy >= 0.97 * clean


def test_lines_are_scored_by_the_dictionary_that_has_not_seen_them() -> None:
    """In each of windows 4 to 7, a word of its own comes with another one, ten times."""
    pairs = made_parallel.pairs(4096)
    names = {4: ("zzq", "vvk"), 5: ("zzx", "vvh"), 6: ("xxq", "hhk"), 7: ("xxz", "hhv")}
    for window, words in names.items():
        for line in range(window * WINDOW, window * WINDOW + 10):
            pairs[line] = (f"{pairs[line][0]} {words[0]}", f"{pairs[line][1]} {words[1]}")
    model, _ = judged(pairs)
    for window, words in names.items():
        odds = {place: model.log_odds(*sides([words]), place * WINDOW)[1, 0] for place in names}
        assert all(odds[window] < odds[place] for place in names if place != window), odds


def test_a_sorted_corpus_is_aligned() -> None:
    """Neighbours of a sorted corpus are nearly translations of each other: here they differ in one word."""
    chance, pairs = random.Random(4), []
    vocabularies = [made_parallel.words(language) for language in (0, 1)]
    for source, target in made_parallel.pairs(256):
        for word in chance.sample(range(216), 12):
            pairs.append((f"{source[:-1]} {vocabularies[0][word]}.", f"{target[:-1]} {vocabularies[1][word]}."))
    _, dropped = judged(sorted(pairs))
    assert dropped.mean() <= 0.01


def test_the_share_of_noise_is_that_of_a_mixture_of_two_normal_distributions() -> None:
    chance = np.random.default_rng(3)
    is_noise = chance.random(8000) < 0.2
    values = chance.normal(-2, 1, (4, 8000))
    values[1] = chance.normal(np.where(is_noise, -2, 2), 1)
    features = np.stack([np.ones_like(values), values], axis=2)
    weights, noise, _ = calibrate(features, np.full((4, 8000), 10))
    assert noise == pytest.approx(0.2 + 0.8 * 0.0228, abs=0.02)  # 2.3 % of the good ones are below 0 too
    assert weights[2, 1] == pytest.approx(4, rel=0.15)  # the log-ratio of the two densities is 4x


def test_own_pairs_fit_where_they_are_better_than_strangers_whatever_neighbours_are() -> None:
    """In a sorted corpus, neighbours are as good. A good pair is above a stranger in Φ(4 / √2), or 99.8 % of cases."""
    values = np.random.default_rng(5).normal([[2.0], [2.0], [2.0], [-2.0]], 1, (4, 4000))
    features = np.stack([np.ones_like(values), values], axis=2)
    _, _, fit = calibrate(features, np.full((4, 4000), 10))
    assert fit == pytest.approx(0.998, abs=0.004)


def test_a_falling_feature_never_raises_the_odds() -> None:
    """Strangers are as long as own targets: noise seems to say that translations differ more in length."""
    generator = np.random.default_rng(0)
    words, off = generator.normal(size=(2, 2000))
    labels = (words + off + generator.normal(size=2000) > 0).astype(float)
    features = np.stack([np.ones(2000), words, off], axis=1)
    free, bound, without = (
        calibration._regression(each, labels, np.ones(2000), falling)
        for each, falling in ((features, ()), (features, (2,)), (features * [1, 1, 0], ()))
    )
    assert free[2] > 1
    assert bound[2] == 0
    assert bound == pytest.approx(without)
    assert calibration._regression(features * [1, 1, -1], labels, np.ones(2000), (2,))[2] == pytest.approx(-free[2])


def test_rare_words_of_two_lines() -> None:
    """Three lines: those of the source have the words 1 2, 3 and none, those of the target 2, 1 3 5 and 4."""
    sources = line_keys(np.array([1, 2, 3], np.uint64) << np.uint64(40), np.array([0, 0, 1]))
    targets = line_keys(np.array([2, 1, 3, 5, 4], np.uint64) << np.uint64(40), np.array([0, 1, 1, 1, 2]))
    ours, theirs = np.sort(sources), np.sort(targets)
    expected = {
        0: ([2, 2, 0], [1, 2, 1]),  # words that are shared count on both sides
        1: ([2, 0, 0], [3, 2, 0]),
        -1: ([0, 0, 0], [2, 2, 3]),
    }
    for distance, (shared, single) in expected.items():
        found = _shared(ours, theirs, distance, 3)
        assert [each.tolist() for each in found] == [shared, single], distance


def test_numbers_and_unknown_words_are_rare_and_signs_are_not() -> None:
    tokens = tokens_of(["dog 12, Rex!", "Rex dog Rex"])
    vocabulary = Vocabulary(tokens.hashes[[0, 1]], np.array([0.5, 0.1]))  # "dog" and "12"
    found = _rare(tokens, vocabulary)
    assert (found >> LINE_SHIFT).tolist() == [1, 1, 2]  # "12" and "Rex" of the first line, "Rex" once of the second
    assert len({key & ((1 << LINE_SHIFT) - 1) for key in found.tolist()}) == 2


def test_each_range_of_lengths_has_weights_of_its_own() -> None:
    weights = np.arange(5.0)[:, None] + 1
    words = np.array([0, 3, 4, 7, 8, 15, 16, 29, 30, 99])
    assert odds_of(weights, np.ones((10, 1)), words).tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert odds_of(10 * weights, np.ones((2, 1)) * [[1], [-1]], np.array([5, 5])).tolist() == [8, -8]


def test_strangers_have_the_same_length_as_the_own_target() -> None:
    lengths = np.random.default_rng(1).integers(1, 40, 2000)
    partners = of_equal_length(lengths)
    assert sorted(partners.tolist()) == list(range(2000))  # each once
    assert (partners != np.arange(2000)).all()
    assert (lengths[partners] == lengths).mean() > 0.95


def test_what_a_dictionary_says_of_words_by_chance() -> None:
    """Source word 0 comes twice with target word 1, and source word 1 once with target word 0."""
    sources = WordLines(np.array([0, 0, 1]), starts=np.array([0, 1, 2, 3]))
    targets = WordLines(np.array([1, 1, 0]), starts=np.array([0, 1, 2, 3]))
    words = WordDictionary.learn(sources, targets, (2, 3))
    assert words.shares.tolist() == pytest.approx([1.5 / 4.5, 2.5 / 4.5, 0.5 / 4.5])  # the third never comes
    assert words.targets.tolist() == [1, 0]
    # One or two occurrences prove little: two give two thirds at most, one gives a half.
    assert 0.5 < words.probabilities[0] <= 2 / 3
    assert 0.3 < words.probabilities[1] <= 1 / 2
    assert words.at_most.tolist() == pytest.approx(words.probabilities.tolist())
    assert words.by_chance.tolist() == pytest.approx((words.probabilities * words.shares[[1, 0]]).tolist())
