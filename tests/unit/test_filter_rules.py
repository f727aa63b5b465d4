"""The rules of the corpus filter, one by one."""

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest

import made_parallel
from transduce.alignment import slips
from transduce.alignment.line_pairs import AlignmentModel
from transduce.alignment.slips import AFTER, ALIGNED, NONE, state_probabilities, transitions
from transduce.alignment.vocabulary import Vocabulary
from transduce.alignment.windows import WindowSampler
from transduce.alignment.words import NUMBER, SIGN, WORD, tokens_of
from transduce.augmentation.filtering.cross_entropy import dual_cross_entropy, usual_limit
from transduce.augmentation.filtering.profile import CorpusProfile, _learn
from transduce.augmentation.filtering.text_rules import PairBlock, check_text
from transduce.augmentation.filtering.unfamiliar_words import UnfamiliarWords
from transduce.config.filter_options import FilterOptions
from transduce.errors import ConfigError
from transduce.translation.forced_scores import TargetScore

# --- words ----------------------------------------------------------------------------------------------------


def texts(lines: Sequence[str], expected: Sequence[Sequence[str]]) -> None:
    """Checks that lines are split as expected: equal words have equal hashes, others have not."""
    tokens = tokens_of(lines)
    assert tokens.counts.tolist() == [len(each) for each in expected]
    words = [word for each in expected for word in each]
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    hashes = dict.fromkeys(tokens.hashes.tolist())
    assert [list(hashes).index(value) for value in tokens.hashes.tolist()] == [numbers[word] for word in words]


def test_lines_are_split_into_words_numbers_and_signs() -> None:
    texts(
        ["The dog, the Dog’s 11.05 dog!", "", " x\ty  x ", "dog's"],
        [
            ["the", "dog", ",", "the", "dog", "'", "s", "11", ".", "05", "dog", "!"],
            [],
            ["x", "y", "x"],
            ["dog", "'", "s"],
        ],
    )
    assert tokens_of(["a 1b - é"]).kinds.tolist() == [WORD, NUMBER, SIGN, WORD]


def test_scripts_without_spaces_are_split_into_pairs_of_characters() -> None:
    texts(["日本語 dog 本"], [["日本", "本語", "語", "dog", "本"]])


def test_equal_words_are_equal_in_all_blocks_and_characters_of_all_planes_are_read() -> None:
    lines = ["dog", "\U0001f600 \U000e0100", ""] * 700
    tokens = tokens_of(lines)
    assert len(set(tokens.hashes[tokens.starts[:-1][::3]].tolist())) == 1
    assert tokens.counts[:3].tolist() == [1, 1, 0]


def test_long_lines_are_read_to_a_limit() -> None:
    assert tokens_of(["ab " * 10_000]).counts.tolist() == [334]


# --- rules for one pair ---------------------------------------------------------------------------------------

PLAIN = CorpusProfile(("", ""), 1.0, None, None, None, ())


def broken(source: str, target: str, **options: object) -> str:
    """Returns the rule that a pair breaks, or ""."""
    found = check_text(PairBlock([(source, target)], PLAIN), FilterOptions(**options))  # type: ignore[arg-type]
    return found.get(0, ("", ""))[0]


@pytest.mark.parametrize(
    ("source", "target", "rule"),
    [
        ("a dog runs", "ein Hund rennt", ""),
        ("a dog runs", " \t ", "empty"),
        ("", "ein Hund", "empty"),
        ("a dog\x0bruns", "ein Hund rennt", "encoding"),
        ("a dog runs", "ein \ufffd Hund rennt", "encoding"),
        ("the café is shut", "le cafÃ© est fermÃ©", "encoding"),
        ("the dog’s house", "the dogâ€™s house", "encoding"),
        ("cats &amp; dogs", "Katzen & Hunde", "markup"),
        ("a French word", "un mot fran?ais", "encoding"),
        ("he is here", "il doit ?tre ici", "encoding"),
        ("he was there", "?? ????? ???", "encoding"),
        ("Why? adidas knows", "为什么?adidas知道", ""),
        ("see x.org/a.php?id=1", "voir x.org/a.php?id=1 et la suite", ""),
        ("Why? Because I say so", "Pourquoi? Parce que je le dis", ""),
        ("the dog runs", "le <b>chien</b> court", "markup"),
        ("the dog runs", "le chien<br/> court", "markup"),
        ("if a < b and c > d", "si a < b et c > d", ""),
        ("the dog runs", "***---***", "junk"),
        ("...", "!!!", ""),
        ("the dog", "\u200b\u00a0\ufeff\u3164", "empty"),
        ("\u3164\u115f \u2800", "der Hund", "empty"),
        ("the dog runs home now", "le chien va va va va", "repetition"),
        ("the dog runs home now", "le chien va le chien va", "repetition"),
        ("no, no, no, no, no", "non, non, non, non, non", ""),
        ("the big dog runs", "le grand grand chien court", ""),
        ("The dog runs to the house of its friend.", "Der Hund rennt zum", "truncated"),
        ("The dog runs to the house of its friend.", "Der Hund rennt zum Haus von seinem Freund", ""),
        ("The dog runs to the house", "Der Hund rennt zum", ""),
        ("It was on 3 May 1995 here", "Es war hier am 3. Mai 1959", "numbers"),
        ("It costs 12,500.75 now", "Es kostet jetzt 12 500,75 nur", ""),
        ("1.5 million in 2004", "1 500 000 im Jahr 2004", ""),
        ("the 90s, at 8 p.m.", "die 1990er, um 20.00 Uhr", ""),
        ("it costs 90 here", "es kostet hier 190", "numbers"),
        ("at 13 with them", "um 25 bei ihnen", "numbers"),
        ("the 5 dogs", "die fünf Hunde", ""),
        ("Ångström, Âme, Château", "Ångström, âme, château vieux", ""),
        ("word " * 201, "Wort " * 201, "length"),
        ("word " * 199, "Wort " * 199, ""),
        ("word " * 5000, "Wort " * 5000, "length"),
        # Two characters of Chinese count as a word, five of Thai: 200 and 201 words, and 101 + 100.
        ("word " * 60, "的一是在不" * 80, ""),
        ("word " * 60, "的一是在不" * 80 + "了", "length"),
        ("word " * 150, "ภาษาไ" * 200, ""),
        ("word " * 150, "ภาษาไ" * 200 + "ท", "length"),
        ("word " * 120, "Wort " * 101 + "的一是在不了有和" * 25, "length"),
        ("a dog runs over the green grass today", "ja", "ratio"),
        ("yes", "ja", ""),
        ("the dog runs", "the dog runs", "copy"),
        ("the big dog runs fast today", "the big dog runs fast", "copy"),
        ("12.5 (3)", "12.5 (3)", ""),
        ("Paris and London are big", "Paris und London sind groß", ""),
    ],
)
def test_a_pair_breaks_the_rule(source: str, target: str, rule: str) -> None:
    assert broken(source, target) == rule
    if rule:
        assert broken(source, target, off=(rule,)) != rule


def profile_of(pairs: Sequence[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> CorpusProfile:
    """Returns what is learned from pairs, but for the words that translate each other."""
    monkeypatch.setattr(AlignmentModel, "learn", lambda *_: None)
    sampler = WindowSampler(64)
    sampler.add(pairs)
    return _learn(sampler, None, ("", ""))


def test_random_letters_are_junk_and_names_and_other_words_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = profile_of(made_parallel.pairs(3000), monkeypatch)
    source = "Kififi kabi gagife digala."
    chance = random.Random(1)
    letters = ["".join(chance.choices("mnrstvou", k=8)) for _ in range(50)]  # those of the target language
    lines = [" ".join(letters[i : i + 4]) for i in range(46)]
    found = check_text(PairBlock([(source, line) for line in lines], profile), FilterOptions())
    assert sum(found.get(i, ("",))[0] == "junk" for i in range(46)) >= 44
    names = ["Somosunu vomorora", "Tonosovo", *(target for _, target in made_parallel.pairs(46, seed=8))]
    assert not check_text(
        PairBlock([(source, line) for line in names], profile), FilterOptions(off=("ratio", "truncated"))
    )


def test_a_corpus_without_full_stops_on_one_side_has_no_truncated_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pairs = [(source, target[:-1]) for source, target in made_parallel.pairs(3000)]
    for end, expected in (("", {}), (".", {0: "truncated"})):
        profile = profile_of([(source, target + end) for source, target in pairs], monkeypatch)
        block = PairBlock([(pairs[0][0], pairs[0][1][: len(pairs[0][1]) // 2])], profile)
        found = check_text(block, FilterOptions())
        assert {i: rule for i, (rule, _) in found.items()} == expected


def test_the_usual_ratio_is_the_median(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten characters are added to both sides."""
    for lengths, expected in (((10, 10, 90), 1.0), ((20, 20, 90), 1.5), ((10, 20), 1.25)):
        profile = profile_of([("s" * 10, "t" * length) for length in lengths], monkeypatch)
        assert profile.usual_ratio == pytest.approx(expected)


def test_limits_can_be_set() -> None:
    assert broken("a b c", "d e f", max_words=2) == "length"
    assert broken("a dog runs over the green grass today", "ja", max_ratio=9) == ""
    assert broken("the big dog runs fast", "the big dog runs quick") == "copy"
    assert broken("the big dog runs fast", "the big dog runs quick", max_copied=0.9) == ""


def test_a_rule_that_does_not_exist_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"no rule 'aligment'\. Did you mean 'alignment'"):
        FilterOptions(off=("aligment",))
    with pytest.raises(ConfigError, match="max_ratio"):
        FilterOptions(max_ratio=0.5)


def test_a_vocabulary_has_the_words_that_occur_twice_the_most_frequent_first() -> None:
    tokens = tokens_of(["b a a", "a b c"])
    hashes = dict(zip("baac", tokens.hashes[[0, 1, 2, 5]].tolist(), strict=True))
    found = Vocabulary.of(tokens, 10)
    assert found.words.tolist() == [hashes["a"], hashes["b"]]
    assert found.shares.tolist() == pytest.approx([3 / 6, 2 / 6])
    assert found.ids(tokens.hashes).tolist() == [1, 0, 0, 0, 1, -1]
    assert Vocabulary.of(tokens, 1).ids(tokens.hashes).tolist() == [-1, 0, 0, 0, -1, -1]


@pytest.mark.parametrize(
    ("evidence", "num_words", "foreign", "fits"),
    [
        (-2.5, 3, False, False),  # of fewer than four words nothing is said
        (-2.0, 4, True, False),
        (-0.75, 8, False, False),  # in all -6, which is not less
        (-0.75, 9, True, False),
        (-0.65, 12, False, False),  # less than -6 in all, but each word says little
        (2.5, 3, False, False),
        (0.75, 4, False, False),
        (0.76, 4, False, True),
    ],
)
def test_a_line_is_in_another_language_by_all_of_its_words(
    evidence: float, num_words: int, foreign: bool, fits: bool
) -> None:
    """No word is known: each has the evidence of the first class. A line of one word stands before it."""
    classes = np.array([evidence, 0, 0, 0, 0, 0, 0])
    words = UnfamiliarWords(Vocabulary.of(tokens_of([]), 10), classes)
    tokens = tokens_of(["x", " ".join(["y"] * num_words)])
    assert words.find(tokens).tolist() == [False, foreign]
    assert words.fits(tokens).tolist() == [False, fits]


# --- slips ----------------------------------------------------------------------------------------------------


def reference_states(log_odds: np.ndarray, noise: float) -> np.ndarray:
    """Returns the probabilities by a plain forward-backward pass over all lines."""
    evidence = np.exp(np.stack([log_odds[1], log_odds[0], log_odds[2], np.zeros(log_odds.shape[1])], axis=1))
    moves = transitions(noise)
    forward = [np.linalg.matrix_power(moves, 9999)[0] * evidence[0]]
    for each in evidence[1:]:
        forward.append(forward[-1] @ moves * each)
        forward[-1] /= forward[-1].sum()
    backward = [np.ones(4)]
    for each in evidence[:0:-1]:
        backward.append(moves @ (backward[-1] * each))
        backward[-1] /= backward[-1].sum()
    states = np.array(forward) * np.array(backward[::-1])
    return np.asarray(states / states.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("num_lines", [1, 5, 1023, 1025, 2500])
def test_states_are_those_of_a_plain_forward_backward_pass(num_lines: int) -> None:
    log_odds = np.random.default_rng(num_lines).normal([[-4], [3], [-4]], 3, (3, num_lines))
    # Segments overlap by 64 lines, beyond which the past has no influence; states are kept as float32.
    np.testing.assert_allclose(state_probabilities(log_odds, 0.2), reference_states(log_odds, 0.2), atol=1e-4)


def test_states_of_lines_that_do_not_fit_into_memory_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slips, "_SEGMENT", 2)  # groups of 512 lines
    log_odds = np.random.default_rng(9).normal([[-4], [3], [-4]], 3, (3, 1300))
    np.testing.assert_allclose(state_probabilities(log_odds, 0.2), reference_states(log_odds, 0.2), atol=1e-4)


@pytest.mark.parametrize(("noise", "limit"), [(0.0, -2.60), (0.1, -2.60), (0.2, -2.08), (0.3, -2.08), (0.6, -2.08)])
def test_with_more_noise_a_good_line_needs_little_more_evidence(noise: float, limit: float) -> None:
    """Between sure lines, odds of 1 to a² / (b c) decide, a, b, c: aligned to aligned, to none, and none to aligned.

    Without noise 0.899² / (0.1 × 0.599), log 2.60; with much of it 0.849² / (0.15 × 0.599), log 2.08.
    """
    for odds, is_kept in ((limit - 0.05, False), (limit + 0.05, True)):
        log_odds = np.full((3, 9), -8.0)
        log_odds[1] = [8, 8, 8, 8, odds, 8, 8, 8, 8]
        assert (state_probabilities(log_odds, noise)[4, ALIGNED] > 0.5) == is_kept


def test_a_run_that_slipped_is_found_whole_and_a_doubtful_line_is_kept() -> None:
    log_odds = np.tile([[-5.0], [5.0], [-5.0]], (1, 300))
    log_odds[:, 100:120] = [[-5.0], [-5.0], [5.0]]
    log_odds[:, 110] = 0.0  # says nothing by itself
    log_odds[1, 50] = -2.0
    log_odds[1, 200] = -8.0
    states = state_probabilities(log_odds, 0.01).argmax(axis=1)
    assert states[100:120].tolist() == [AFTER] * 20
    assert states[200] == NONE
    assert (np.delete(states, [*range(100, 120), 200]) == ALIGNED).all()


# --- cross-entropy --------------------------------------------------------------------------------------------


class Fixed:
    """Scores by a table: the mean log-probability of a piece."""

    def __init__(self, table: dict[tuple[str, str], float]) -> None:
        self._table = table

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[TargetScore]:
        values = [self._table[pair] for pair in zip(sources, targets, strict=True)]
        return [TargetScore(("a", "b"), (value, value), 0.0, False) for value in values]


def test_dual_cross_entropy_is_the_mean_and_the_difference_of_both_directions() -> None:
    forward, backward = Fixed({("a", "x"): -1.0, ("b", "y"): -2.0}), Fixed({("x", "a"): -1.0, ("y", "b"): -5.0})
    scores = dual_cross_entropy(forward, backward, [("a", "x"), ("b", "y")])
    assert scores.tolist() == [1.0, 3.0 + 3.5]


def test_the_usual_limit_is_four_deviations_from_the_median() -> None:
    scores = np.array([1, 2, 3, 4, 5, 100, math.nan], dtype=np.float32)
    assert usual_limit(scores) == pytest.approx(3.5 + 4 * 1.4826 * 1.5)
    assert usual_limit(np.full(3, np.nan, dtype=np.float32)) == 0
