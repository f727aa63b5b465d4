"""A parser's scores against counts made by hand; a comma taken for a word leaves nothing out."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from transduce import runs
from transduce.config import Config, DataConfig, TrainConfig
from transduce.decoding.scores import Hypothesis
from transduce.errors import EvaluationError
from transduce.text import SubwordTokenizer
from transduce.treebank import Tree, parse_scores, parse_trees, score_brackets, summarise_parses
from transduce.treebank.pairs import to_pair

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


class _Validation:
    """Six sentences in place of a store: of two treebanks, one behind the other."""

    def __init__(self) -> None:
        words = ("a", "b", "c", "x", "y", "z")
        self.texts = [to_pair(tree) for tree in trees(*(f"(S (NP (NN {word})))" for word in words))]
        lines = [" ".join(pair) for pair in self.texts]
        self.tokenizer = SubwordTokenizer.train(lines, algorithm="bpe", vocab_size=300)

    def __len__(self) -> int:
        return len(self.texts)

    def source(self, row: int) -> np.ndarray:
        return np.array(self.tokenizer.encode(self.texts[row][0]))

    def target(self, row: int) -> np.ndarray:
        return np.array(self.tokenizer.encode(self.texts[row][1]))


def test_some_of_the_sentences_lie_evenly_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    validation, read = _Validation(), []

    class Engine:
        def __init__(self, model: object, *, tags: Collection[int], record_steps: bool) -> None:
            pass

        def translate(self, sources: Sequence[Sequence[int]], *_: object) -> list[list[Hypothesis]]:
            read.extend(validation.tokenizer.decode(source) for source in sources)
            tree = validation.tokenizer.encode(validation.texts[0][1])
            return [[Hypothesis(tree, -1.0, -1.0, True)] for _ in sources]

    monkeypatch.setattr(runs, "TorchEngine", Engine)
    config = Config(data=DataConfig(format="trees"))
    config = replace(config, train=replace(TrainConfig(), validate_bleu_sentences=3))
    given: Any = validation
    score = runs.scorer_of(config, validation.tokenizer, given)
    assert score(None)["f1"] == 100  # type: ignore[arg-type]
    assert read == ["a", "c", "y"]
