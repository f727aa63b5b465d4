"""The words that may follow in a translation: the same in both engines, distinct, of the probability that is told."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_models import KINDS, TEXT, made_bundle, untied_folder
from transduce.config.special_ids import EOS
from transduce.decoding.scores import NEVER_GENERATED
from transduce.engines.ctranslate2 import CTranslate2Engine
from transduce.engines.torch import TorchEngine
from transduce.errors import ConfigError, DataError
from transduce.translation.pipeline.atoms import atoms
from transduce.translation.translator import Translator

SOURCE = "Two dogs run."
PREFIXES = ["", "A", "A ", "a man wi", "Two dogs ", "Two dogs run over the green gr", "a man with a ball."]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(params=["torch", "ctranslate2"])
def translator(request: pytest.FixtureRequest, tmp_path: Path) -> Translator:
    return Translator.load(untied_folder(tmp_path / "model"), engine=request.param, device="cpu")


@pytest.mark.computes
@pytest.mark.parametrize("kind", KINDS)
def test_scores_of_the_next_token_are_those_of_given_targets(tmp_path: Path, kind: str) -> None:
    bundle = made_bundle(tmp_path / "model", **KINDS[kind])
    torch, ctranslate2 = (engine.load(bundle, device="cpu") for engine in (TorchEngine, CTranslate2Engine))
    source, prefix = [7, 8, 9, 200], [5, 6, 7]
    for given in (prefix, []):
        expected = torch.next_scores(source, given)
        assert expected.shape == (len(given) + 1, bundle.config.model.vocab_size)
        np.testing.assert_allclose(ctranslate2.next_scores(source, given), expected, atol=1e-4)
        every_token = [[*given, token] for token in range(4, 50)]
        scores = torch.score([source] * len(every_token), every_token)
        np.testing.assert_allclose(expected[-1, 4:50], [each[len(given)] for each in scores], atol=1e-4)


def test_an_ensemble_has_the_mean_probability(tmp_path: Path) -> None:
    bundles = [made_bundle(tmp_path / f"model{seed}", seed=seed) for seed in (1, 2)]
    both = TorchEngine.load(bundles[0], device="cpu", others=bundles[1:]).next_scores([7, 8], [5])
    single = [TorchEngine.load(bundle, device="cpu").next_scores([7, 8], [5]) for bundle in bundles]
    np.testing.assert_allclose(np.exp(both), np.mean(np.exp(single), axis=0), atol=1e-6)


@pytest.mark.computes
@pytest.mark.parametrize("prefix", PREFIXES)
def test_both_engines_find_the_same(tmp_path: Path, prefix: str) -> None:
    folder = untied_folder(tmp_path / "model")
    torch, ctranslate2, auto = (
        Translator.load(folder, engine=name, device="cpu").alternatives(SOURCE, prefix, 6)
        for name in ("torch", "ctranslate2", "auto")
    )
    assert auto == ctranslate2
    assert [each.translation.ids for each in ctranslate2] == [each.translation.ids for each in torch]
    for ours, theirs in zip(torch, ctranslate2, strict=True):
        assert theirs.word == ours.word
        assert theirs.probability == pytest.approx(ours.probability, rel=1e-3)
        assert theirs.translation.score == pytest.approx(ours.translation.score, abs=1e-3)
        assert theirs.translation.sentences == (((0, len(SOURCE)), (0, len(ours.translation.text))),)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_they_are_distinct_words_after_the_prefix_to_the_letter(translator: Translator, prefix: str) -> None:
    found = translator.alternatives(SOURCE, prefix, 5)
    assert 0 < len(found) <= 5
    words = []
    for each in found:
        text = each.translation.text
        if not each.word:
            assert text.rstrip(".!?") == prefix.rstrip().rstrip(".!?")
            continue
        assert text.startswith(prefix)
        rest = text[len(prefix) :]
        words.append(rest[: rest.index(each.word) + len(each.word)])
        assert words[-1].strip() == each.word
        assert any(start < len(prefix) + len(words[-1]) == end for start, end in atoms(text))
        assert each.translation.words
        assert len(each.translation.token_log_probabilities) == len(each.translation.ids) + 1
    assert len(set(words)) == len(words)
    values = [each.probability for each in found]
    assert values == sorted(values, reverse=True)
    assert sum(values) <= 1 + 1e-6
    # Fewer words are the first of more, unless more beginnings were tried and led to a better one.
    assert translator.alternatives(SOURCE, prefix, 1)[0].probability <= values[0] + 1e-9


@pytest.mark.computes
def test_a_probability_is_that_of_the_words_pieces_given_the_prefix(translator: Translator) -> None:
    """For a prefix that a space ends, all is known: pieces that begin with a space may follow, or signs, or the end."""
    tokenizer, prefix = translator.tokenizer, "Two dogs"
    ids = tokenizer.encode(prefix)
    source_ids = tokenizer.encode(SOURCE)
    next_V = translator.engine.next_scores(source_ids, ids)[-1]
    signs = [token for token in range(tokenizer.vocab_size) if tokenizer.decode([token]) in set(".!?…。！？।؟")]
    total = sum(math.exp(next_V[token]) for token in [*tokenizer.ids_beginning_with(b" "), *signs, EOS])
    for each in translator.alternatives(SOURCE, prefix + " ", 4):
        if not each.word:
            continue
        word_ids = list(each.translation.ids[: len(ids)])
        while not tokenizer.decode(word_ids).startswith(f"{prefix} {each.word}"):
            word_ids.append(each.translation.ids[len(word_ids)])
        [values] = translator.engine.score([source_ids], [word_ids])
        assert each.probability == pytest.approx(math.exp(sum(values[len(ids) : -1])) / total, rel=1e-3)


class _Ending:
    """An engine that is sure of the end after a full stop. Else the end, a full stop and " A" have these shares."""

    def __init__(self, translator: Translator, end: float, stop: float) -> None:
        pieces = translator.tokenizer.piece_bytes(range(translator.tokenizer.vocab_size))
        self._engine, self._stop = translator.engine, pieces.index(b".")
        self._shares = {EOS: end, self._stop: stop, pieces.index(b" A"): 1.0 - end - stop}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def next_scores(self, source: Sequence[int], prefix: Sequence[int]) -> np.ndarray:
        scores_TV = np.full_like(self._engine.next_scores(source, prefix), -50.0)
        for row_V, last in zip(scores_TV, [None, *prefix], strict=True):
            for token, share in ({EOS: 1.0} if last == self._stop else self._shares).items():
                row_V[token] = math.log(share)
        return scores_TV

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        pairs = [(self.next_scores(source, ids), [*ids, EOS]) for source, ids in zip(sources, targets, strict=True)]
        return [[float(row_V[token]) for row_V, token in zip(*pair, strict=True)] for pair in pairs]


@pytest.mark.parametrize(
    ("prefix", "end", "stop", "expected"),
    [
        ("Two dogs ", 0.5, 0.1, [("Two dogs", 0.5)]),  # as it stands
        ("Two dogs ", 0.1, 0.5, [("Two dogs.", 0.5)]),
        ("Two dogs. ", 0.1, 0.5, [("Two dogs.", 1.0)]),
        ("Two dogs ", 0.001, 0.001, []),
        ("", 0.5, 0.1, []),  # no translation is empty
    ],
)
def test_the_end_is_an_alternative_where_it_is_likely(
    tmp_path: Path, prefix: str, end: float, stop: float, expected: list[tuple[str, float]]
) -> None:
    translator = Translator.load(untied_folder(tmp_path / "model"), engine="ctranslate2", device="cpu")
    translator.engine = _Ending(translator, end, stop)
    ends = [each for each in translator.alternatives(SOURCE, prefix, 5) if not each.word]
    assert [(each.translation.text, pytest.approx(each.probability)) for each in ends] == expected
    assert all(each.translation.finished for each in ends)


def test_the_most_probable_beginning_is_tried_and_continued_greedily(translator: Translator) -> None:
    tokenizer, ids = translator.tokenizer, translator.tokenizer.encode("Two dogs")
    next_V = translator.engine.next_scores(tokenizer.encode(SOURCE), ids)[-1].copy()
    next_V[[*NEVER_GENERATED, EOS]] = -np.inf
    begun = [*ids, int(next_V.argmax())]
    found = {each.translation.ids[: len(begun)]: each for each in translator.alternatives(SOURCE, "Two dogs", 100)}
    if tuple(begun) in found:  # it may have led to no word, or to one that another beginning spells better
        [greedy] = translator.translate([SOURCE], prefixes=[tokenizer.decode(begun)], beam_size=1)
        assert greedy.startswith(tokenizer.decode(begun))
    assert len(found) > 10


def test_a_word_that_the_prefix_cuts_is_found_in_its_usual_pieces(translator: Translator) -> None:
    tokenizer = translator.tokenizer
    [dogs] = tokenizer.encode("dogs")
    found = translator.alternatives(SOURCE, "Two do", 100)
    assert any(dogs in each.translation.ids for each in found)
    assert {each.word for each in found if dogs in each.translation.ids[:2]} == {"gs"}


def test_what_cannot_be_answered(translator: Translator, tmp_path: Path) -> None:
    assert translator.alternatives("  ", "Two", 3) == []
    for n in (0, 101):
        with pytest.raises(ConfigError, match=rf"n = {n}: must be"):
            translator.alternatives(SOURCE, "Two", n)
    made_bundle(tmp_path / "short", positions="learned", max_positions=6)
    for engine in ("torch", "ctranslate2"):
        short = Translator.load(tmp_path / "short", engine=engine, device="cpu")
        with pytest.raises(DataError, match="positions end at 5"):
            short.alternatives("A dog", " ".join(TEXT), 3)
