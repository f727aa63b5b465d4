"""A parser's scores against counts made by hand; a comma taken for a word leaves nothing out."""

import pytest

from transduce.errors import EvaluationError
from transduce.evaluation import parse_scores, score_brackets, summarise_parses
from transduce.parsing import Tree, parse_trees

_GOLD = "(S (NP (NN rain)) (, ,) (NP (NN snow)) (. .))"
_PARSED = "(S (NP (NN rain)) (NP (NN ,) (NNS snow)) (. .))"  # the comma has a wrong tag, and is in the second NP


def trees(*texts: str) -> list[Tree]:
    return list(parse_trees(texts, "text"))


def test_punctuation_by_the_gold_tags() -> None:
    own = score_brackets([_GOLD], [_PARSED])
    assert own.sentences[0].status == "error"  # EVALB: 2 words that count against 3
    (sentence,) = score_brackets([_GOLD], [_PARSED], gold_punctuation=True).sentences
    # Over the words rain and snow: S 0-2, NP 0-1, NP 1-2 on both sides. One of the two tags is right.
    assert (sentence.status, sentence.matched, sentence.gold, sentence.parsed) == ("valid", 3, 3, 3)
    assert (sentence.words, sentence.correct_tags) == (2, 1)
    (sentence,) = score_brackets([_PARSED], [_GOLD], gold_punctuation=True).sentences
    assert (sentence.status, sentence.words, sentence.length) == ("valid", 3, 4)


def test_punctuation_by_the_gold_tags_needs_the_same_words() -> None:
    (sentence,) = score_brackets([_GOLD], ["(S (NN rain) (NN snow))"], gold_punctuation=True).sentences
    assert (sentence.status, sentence.parsed) == ("valid", 1)  # compared as ever: the words that count are the same
    (sentence,) = score_brackets([_GOLD], ["(S (NN rain))"], gold_punctuation=True).sentences
    assert sentence.status == "error"


def test_scores_by_hand() -> None:
    gold = trees(_GOLD, "(S (NP (NN fog)) (VP (VBZ falls)))")
    parsed = trees(_PARSED, "(S (NP (NN fog) (NN falls)))")
    scores = parse_scores(gold, [(parsed[0], False), (parsed[1], True)])
    # Of 6 gold brackets 4 are found, of 5 parsed ones 4 are right; of 4 words 2 have the right tag.
    assert scores == {
        "f1": pytest.approx(100 * 8 / 11),
        "precision": 80,
        "recall": pytest.approx(100 * 4 / 6),
        "complete_match": 50,
        "tagging_accuracy": 50,
        "repaired": 50,
    }
    assert next(iter(scores)) == "f1"  # what the best checkpoint is chosen by
    assert summarise_parses(gold, parsed).num_valid == 2


def test_more_than_ten_sentences_of_wrong_punctuation_are_no_error() -> None:
    assert parse_scores(trees(_GOLD) * 30, [(tree, False) for tree in trees(_PARSED) * 30])["f1"] == 100


def test_unequal_numbers_of_trees() -> None:
    with pytest.raises(EvaluationError, match="the gold trees has 2 lines and the parses has 1"):
        parse_scores(trees(_GOLD, _GOLD), [(trees(_GOLD)[0], False)])
