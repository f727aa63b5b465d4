"""Required phrases in CTranslate2: all outputs hold them, whatever the model, within the limits."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_models import untied_folder
from transduce.bundle import Bundle
from transduce.config import DecodeConfig
from transduce.config.special_ids import EOS
from transduce.decoding.scores import NEVER_GENERATED, Hypothesis
from transduce.engines.batching import NOTHING_FOUND
from transduce.engines.ctranslate2 import CTranslate2Engine
from transduce.engines.ctranslate2_required import search_required
from transduce.engines.interface import TokenConstraints
from transduce.engines.shortlist.table import Shortlist, save_shortlist
from transduce.engines.torch import TorchEngine
from transduce.errors import ConfigError

pytestmark = pytest.mark.computes

SOURCES = [[7, 8, 9, 200], [10, 11, 10, 8, 7, 5, 6], [4], [], [12, 13]]
REQUIRED = [(((40, 41),),), (((50,), (51, 52)), ((60, 61, 62),)), (((70,),), ((71,),), ((72,),)), (((5,),),), ()]
OPTIONS = DecodeConfig(beam_size=4, max_extra_tokens=10)
CONSTRAINTS = [TokenConstraints(required=each, joining=(9, 10, 11)) for each in REQUIRED]


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> tuple[CTranslate2Engine, TorchEngine]:
    bundle = Bundle.load(untied_folder(tmp_path_factory.mktemp("models") / "model", max_extra_tokens=10))
    return CTranslate2Engine.load(bundle, device="cpu"), TorchEngine.load(bundle, device="cpu")


def met(ids: Sequence[int], constraints: TokenConstraints) -> list[bool]:
    def holds(phrase: tuple[int, ...]) -> bool:
        starts = range(len(ids) - len(phrase) + 1)
        ends = [i + len(phrase) for i in starts if tuple(ids[i : i + len(phrase)]) == phrase]
        return any(end == len(ids) or ids[end] not in constraints.joining for end in ends)

    return [any(holds(phrase) for phrase in entry) for entry in constraints.required]


def holds_one_of(ids: Sequence[int], phrases: Sequence[tuple[int, ...]]) -> bool:
    return any(tuple(ids[i : i + len(phrase)]) == phrase for phrase in phrases for i in range(len(ids)))


def test_every_output_holds_its_phrases(engines: tuple[CTranslate2Engine, TorchEngine]) -> None:
    engine, torch = engines
    found = engine.translate(SOURCES, OPTIONS, 3, CONSTRAINTS)
    for source, constraints, hypotheses in zip(SOURCES, CONSTRAINTS, found, strict=True):
        assert 1 <= len(hypotheses) <= 3
        if not source:
            assert hypotheses[0].ids == []
            continue
        for each in hypotheses:
            assert all(met(each.ids, constraints))
            assert len(each.ids) <= len(source) + 10
            [values] = torch.score([source], [each.ids])
            total = sum(values) if each.finished else sum(values[:-1])
            assert each.log_probability == pytest.approx(total, abs=1e-3)
        assert len({tuple(each.ids) for each in hypotheses}) == len(hypotheses)


def test_a_line_depends_on_its_own_phrases_only(engines: tuple[CTranslate2Engine, TorchEngine]) -> None:
    engine, _ = engines
    together = engine.translate(SOURCES, OPTIONS, 2, CONSTRAINTS)
    for source, constraints, expected in zip(SOURCES, CONSTRAINTS, together, strict=True):
        [alone] = engine.translate([source], OPTIONS, 2, [constraints])
        assert [each.ids for each in alone] == [each.ids for each in expected]
    [plain] = engine.translate(SOURCES[-1:], OPTIONS, 2)
    assert [each.ids for each in together[-1]] == [each.ids for each in plain]


def test_what_comes_by_itself_changes_nothing(engines: tuple[CTranslate2Engine, TorchEngine]) -> None:
    engine, _ = engines
    [[plain]] = engine.translate(SOURCES[:1], OPTIONS)
    [[found]] = engine.translate(SOURCES[:1], OPTIONS, 1, [TokenConstraints(required=((tuple(plain.ids[1:3]),),))])
    assert found == plain


def test_prefixes_and_forbidden_phrases_are_kept(engines: tuple[CTranslate2Engine, TorchEngine]) -> None:
    engine, _ = engines
    allowed = TokenConstraints(prefix=(30, 31), required=(((40, 41),), ((45,),)))
    [[liked]] = engine.translate(SOURCES[:1], OPTIONS, 1, [allowed])
    others = sorted(set(liked.ids) - {30, 31, 40, 41, 45})
    assert others  # what the model writes of itself
    constraints = replace(allowed, forbidden=tuple((token,) for token in others))
    for each in engine.translate(SOURCES[:1], OPTIONS, 4, [constraints])[0]:
        assert each.ids[:2] == [30, 31]
        assert all(met(each.ids, constraints))
        assert not set(others) & set(each.ids)


def test_a_phrase_that_the_limit_leaves_no_room_for_is_left_out(
    engines: tuple[CTranslate2Engine, TorchEngine],
) -> None:
    engine, _ = engines
    short = DecodeConfig(beam_size=4, max_tokens=3)
    constraints = TokenConstraints(required=(((40, 41),), ((50, 51, 52, 53),)))
    [[best, *_]] = engine.translate(SOURCES[:1], short, 1, [constraints])
    assert len(best.ids) <= 3
    assert met(best.ids, constraints) == [True, False]


@pytest.mark.parametrize(
    ("options", "required", "message"),
    [
        (DecodeConfig(beam_size=1), (((5,),),), "beam_size = 1: required phrases need 2 or more"),
        (OPTIONS, ((),), "is empty"),
        (OPTIONS, (((2,),),), "holds a special token"),
    ],
)
def test_what_no_search_can_do_is_refused(
    engines: tuple[CTranslate2Engine, TorchEngine],
    options: DecodeConfig,
    required: tuple[tuple[tuple[int, ...], ...], ...],
    message: str,
) -> None:
    with pytest.raises(ConfigError, match=message):
        engines[0].translate([[5, 6]], options, 1, [TokenConstraints(required=required)])


def test_a_phrase_need_not_be_in_the_shortlist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    bundle = Bundle.load(untied_folder(tmp_path / "model", max_extra_tokens=10))
    ends = np.full((bundle.config.model.vocab_size, 2), EOS, np.int32)
    save_shortlist(bundle, Shortlist(ends, np.arange(20, 40, dtype=np.int32), {}, len(ends)))
    engine = CTranslate2Engine.load(bundle, device="cpu", shortlisted=True)
    constraints = TokenConstraints(required=(((50, 51),),))
    [[found]] = engine.translate(SOURCES[:1], OPTIONS, 1, [constraints])
    assert met(found.ids, constraints) == [True]


def test_a_phrase_may_be_longer_than_the_learned_positions_leave_room_for(tmp_path: Path) -> None:
    folder = untied_folder(tmp_path / "model", positions="learned", max_positions=10)
    engine = CTranslate2Engine.load(Bundle.load(folder), device="cpu")
    constraints = TokenConstraints(required=(((40, 41),), ((50, 51, 52),)))
    for source in ([7, 8, 9], list(range(20, 40))):
        [[best]] = engine.translate([source], OPTIONS, 1, [constraints])
        assert len(best.ids) <= 9
        assert all(met(best.ids, constraints))


def test_what_is_not_read_of_a_source_does_not_lengthen_its_limit(
    engines: tuple[CTranslate2Engine, TorchEngine],
) -> None:
    engine, _ = engines
    options = DecodeConfig(beam_size=2, max_extra_tokens=0, max_tokens=0)
    [[best]] = engine.translate([[7, 8, 9] * 1400], options, 1, [TokenConstraints(required=(((40, 41),),))])
    assert len(best.ids) <= engine.max_source_tokens


@pytest.mark.parametrize(
    ("forbidden", "ngram"), [(((41,),), 0), (((40, 41),), 0), ((), 1), ((), 2)], ids=["token", "phrase", "1", "2"]
)
def test_a_phrase_is_left_out_rather_than_a_ban_ignored(
    engines: tuple[CTranslate2Engine, TorchEngine], forbidden: tuple[tuple[int, ...], ...], ngram: int
) -> None:
    """The second of three phrases is banned: by `forbidden`, or because it repeats itself."""
    phrases = (((60,),), ((40, 41, 40, 41),), ((61, 60),))
    options = DecodeConfig(beam_size=4, max_extra_tokens=10, no_repeat_ngram=ngram)
    constraints = TokenConstraints(prefix=(30, 31), required=phrases, forbidden=forbidden)
    for engine in engines:
        for source in SOURCES[:3]:
            for each in engine.translate([source], options, 4, [constraints])[0]:
                assert each.ids[:2] == [30, 31]
                assert not met(each.ids, constraints)[1]
                assert met(each.ids, constraints)[0] or engine is not engines[0]
                assert not holds_one_of(each.ids, forbidden)
                grams = [tuple(each.ids[i : i + ngram]) for i in range(len(each.ids) - ngram + 1)]
                assert not ngram or len(grams) == len(set(grams))


def test_the_token_that_closes_a_phrase_is_allowed(engines: tuple[CTranslate2Engine, TorchEngine]) -> None:
    """Where whatever the model likes joins the phrase, another token is put behind it: none that is forbidden."""
    engine, _ = engines
    free = (100, 101)
    joining = tuple(token for token in range(4, engine._config.vocab_size) if token not in free)
    for forbidden in ((), ((free[0],),), ((40, free[0]),), ((free[0],), (free[1],))):
        constraints = TokenConstraints(required=(((40,),),), joining=joining, forbidden=forbidden)
        for each in engine.translate([[7, 8, 9, 200]], OPTIONS, 4, [constraints])[0]:
            assert not holds_one_of(each.ids, forbidden)
            assert not set(each.ids) & set(NEVER_GENERATED)
            assert not each.ids or each.score > -float("inf")


class _FindsNothing:
    """An engine whose searches find no output; it records the prefixes that they were given."""

    never = NEVER_GENERATED

    def __init__(self) -> None:
        self.prefixes: list[tuple[int, ...]] = []

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        options: DecodeConfig,
        n_best: int,
        constraints: Sequence[TokenConstraints],
    ) -> list[list[Hypothesis]]:
        self.prefixes += [each.prefix for each in constraints]
        return [[NOTHING_FOUND] for _ in sources]

    def next_scores(self, source: Sequence[int], prefix: Sequence[int]) -> np.ndarray:
        return np.zeros((len(prefix) + 1, 300))

    def scores_of(
        self, sources: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]], tokens: Sequence[Sequence[int]]
    ) -> list[np.ndarray]:
        return [np.zeros((len(prefix) + 1, len(of_line))) for prefix, of_line in zip(prefixes, tokens, strict=True)]


def test_where_nothing_is_found_the_prefix_stays() -> None:
    engine = _FindsNothing()
    constraints = TokenConstraints(prefix=(30, 31), required=(((40,),),))
    assert search_required(engine, [[7, 8, 9]], OPTIONS, 4, [constraints], [13]) == [[NOTHING_FOUND]]
    assert engine.prefixes == [(30, 31), (30, 31, 40), (30, 31, 40, 4)]


def test_what_one_line_asks_for_is_scored_for_few_places(
    engines: tuple[CTranslate2Engine, TorchEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand phrases, as a service lets one request have, cost no more searches than the places for them."""
    engine, _ = engines
    rows: list[int] = []
    for name in ("score", "_begin"):
        plain = getattr(CTranslate2Engine, name)

        def counting(self: CTranslate2Engine, lines: Any, *rest: Any, plain: Any = plain) -> Any:
            rows.append(len(lines))
            return plain(self, lines, *rest)

        monkeypatch.setattr(CTranslate2Engine, name, counting)
    required = tuple(((first, second),) for first in range(40, 70) for second in range(70, 100))
    constraints = TokenConstraints(required=required)
    [[best]] = engine.translate([[7, 8, 9]], OPTIONS, 1, [constraints])
    assert sum(met(best.ids, constraints)) >= 2
    assert sum(rows) < 200
