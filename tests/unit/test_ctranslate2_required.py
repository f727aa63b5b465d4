"""Required phrases in CTranslate2: all outputs hold them, whatever the model, within the limits."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from made_models import untied_folder
from transduce.bundle import Bundle
from transduce.config import DecodeConfig
from transduce.config.special_ids import EOS
from transduce.engines.ctranslate2 import CTranslate2Engine
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
    [[plain]] = engine.translate(SOURCES[:1], OPTIONS)
    forbidden = (plain.ids[0],)
    constraints = TokenConstraints(prefix=(30, 31), required=(((40, 41),), ((45,),)), forbidden=(forbidden,))
    for each in engine.translate(SOURCES[:1], OPTIONS, 4, [constraints])[0]:
        assert each.ids[:2] == [30, 31]
        assert all(met(each.ids, constraints))
        assert forbidden[0] not in each.ids


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
    shortlist = Shortlist(ends, np.arange(20, 40, dtype=np.int32), {})
    save_shortlist(bundle, shortlist)
    engine = CTranslate2Engine.load(bundle, device="cpu", shortlist=shortlist)
    constraints = TokenConstraints(required=(((50, 51),),))
    [[found]] = engine.translate(SOURCES[:1], OPTIONS, 1, [constraints])
    assert met(found.ids, constraints) == [True]
