"""The CTranslate2 engine keeps the promises of all engines: each line's own result, in its limits, with true scores."""

import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ctranslate2
import numpy as np
import pytest

from made_models import made_bundle, made_tokenizer
from transduce.bundle import Bundle, save_bundle
from transduce.config import DecodeConfig
from transduce.config.special_ids import BOS, EOS, PAD, UNK
from transduce.decoding.scores import Hypothesis, gnmt_penalty, hypothesis
from transduce.engines.ctranslate2 import CTranslate2Engine
from transduce.engines.ctranslate2_batches import Line, line_batches
from transduce.engines.ctranslate2_forced import next_scores
from transduce.engines.interface import TokenConstraints
from transduce.engines.torch import TorchEngine
from transduce.errors import ConfigError, DataError
from transduce.translation.translator import Translator

pytestmark = pytest.mark.computes

_TIE = 1e-4
FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "0.1.0"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A model some of whose outputs end, and some do not."""
    return made_bundle(tmp_path_factory.mktemp("models") / "ending", ending=12.0, tie_embeddings="none")


@pytest.fixture(scope="module")
def engine(bundle: Bundle) -> CTranslate2Engine:
    return CTranslate2Engine.load(bundle, device="cpu", threads=1)


@pytest.fixture(scope="module")
def reference(bundle: Bundle) -> TorchEngine:
    return TorchEngine.load(bundle, device="cpu")


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of lines of each search that is begun."""
    sizes: list[int] = []
    begin = CTranslate2Engine._begin

    def counting(self: CTranslate2Engine, batch: Any, options: DecodeConfig) -> list[Any]:
        sizes.append(len(batch))
        return begin(self, batch, options)

    monkeypatch.setattr(CTranslate2Engine, "_begin", counting)
    return sizes


def made_sources(count: int, seed: int = 0, longest: int = 20) -> list[list[int]]:
    generator = random.Random(seed)
    vocabulary = range(4, made_tokenizer().vocab_size)
    return [generator.choices(vocabulary, k=generator.randrange(longest)) for _ in range(count)]


@pytest.mark.parametrize("settings", [{}, {"min_tokens": 3}, {"no_repeat_ngram": 2}], ids=str)
def test_some_outputs_of_this_model_end_and_some_do_not(engine: CTranslate2Engine, settings: dict[str, int]) -> None:
    """Without both kinds the tests below would try half of what they say."""
    sources = [source for source in made_sources(60) if source]
    found = engine.translate(sources, DecodeConfig(beam_size=4, max_extra_tokens=6, **settings), 4)
    ended = [h for hypotheses in found for h in hypotheses if h.finished]
    assert len(ended) >= 10
    assert len({len(h.ids) for h in ended}) >= 3
    assert sum(not hypotheses[0].finished for hypotheses in found) >= 10


def assert_true_scores(
    engine: CTranslate2Engine, sources: Sequence[Sequence[int]], found: list[list[Hypothesis]], alpha: float
) -> None:
    """Holds that each hypothesis has the score of its ids, and that the best come first."""
    pairs = [(source, h) for source, hs in zip(sources, found, strict=True) if source for h in hs]
    scores = engine.score([source for source, _ in pairs], [h.ids for _, h in pairs])
    for (_, h), tokens in zip(pairs, scores, strict=True):
        assert h.log_probability == pytest.approx(sum(tokens if h.finished else tokens[:-1]), abs=_TIE)
        assert h.score == pytest.approx(h.log_probability / gnmt_penalty(len(h.ids) + h.finished, alpha))
    for hypotheses in found:
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        assert len({tuple(h.ids) for h in hypotheses}) == len(hypotheses)


def test_batches_go_side_by_side_and_change_nothing(
    bundle: Bundle, engine: CTranslate2Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = made_sources(40, seed=3)
    targets = [source[::-1] for source in sources]
    sizes: list[int] = []

    class Counting(CTranslate2Engine):
        def _begin(self, batch: Any, options: DecodeConfig) -> list[Any]:
            sizes.append(len(batch))
            return super()._begin(batch, options)

    options = DecodeConfig(beam_size=3, max_extra_tokens=6, batch_size=32)
    expected, scores = engine.translate(sources, options, 3), engine.score(sources, targets)
    for threads in (1, 2, 5):
        wide = Counting.load(bundle, device="cpu", threads=threads)
        assert wide._model.num_translators == threads
        sizes.clear()
        found = wide.translate(sources, options, 3)
        assert [[h.ids for h in hs] for hs in found] == [[h.ids for h in hs] for hs in expected]
        assert sizes[0] == min(32, -(-sum(map(bool, sources)) // threads))  # of one batch, each thread has its share
        for ours, theirs in zip(wide.score(sources, targets), scores, strict=True):
            assert ours == pytest.approx(theirs, abs=_TIE)
    monkeypatch.setattr(wide, "_shortlisted", True)
    assert wide._batch_size(40, options) == 32  # where it decides what may be written, a batch stays one


@pytest.mark.parametrize(
    "settings",
    [
        {"beam_size": 4, "max_extra_tokens": 6},
        {"beam_size": 4, "max_extra_tokens": 0, "length_penalty": 0.0},
        {"beam_size": 3, "max_tokens": 4, "length_penalty": 2.0},
        {"beam_size": 4, "min_tokens": 3, "max_extra_tokens": 4},
        {"beam_size": 4, "no_repeat_ngram": 2, "max_extra_tokens": 6},
        {"beam_size": 1, "max_extra_tokens": 3},
        {"beam_size": 1, "min_tokens": 9, "max_extra_tokens": 0},
    ],
    ids=str,
)
def test_a_line_has_its_own_limits_its_own_result_and_true_scores(
    engine: CTranslate2Engine, settings: dict[str, Any]
) -> None:
    sources = made_sources(60)
    options = DecodeConfig(**settings)
    n_best = options.beam_size
    found = engine.translate(sources, options, n_best)
    assert_true_scores(engine, sources, found, options.length_penalty)
    for source, hypotheses in zip(sources, found, strict=True):
        limit = min(len(source) + options.max_extra_tokens, options.max_tokens or 10_000)
        limit = max(limit, options.min_tokens)
        for h in hypotheses:
            assert len(h.ids) <= limit
            assert h.finished or len(h.ids) == limit
            assert not {PAD, BOS, EOS, UNK} & set(h.ids)
            assert not source or not h.finished or len(h.ids) >= options.min_tokens
            pairs = list(zip(h.ids, h.ids[1:], strict=False))
            assert options.no_repeat_ngram != 2 or len(pairs) == len(set(pairs))
    assert len({h.finished for hypotheses in found for h in hypotheses}) == 2 or options.min_tokens == 9
    for batch_size in (1, 7, 64):
        order = random.Random(batch_size).sample(range(len(sources)), len(sources))
        together = DecodeConfig(**settings, batch_size=batch_size)
        again = engine.translate([sources[place] for place in order], together, n_best)
        for place, hypotheses in zip(order, again, strict=True):
            assert [h.ids for h in hypotheses] == [h.ids for h in found[place]]
            assert [h.score for h in hypotheses] == pytest.approx([h.score for h in found[place]], abs=_TIE)


def test_an_output_may_fill_its_limit_and_still_end(engine: CTranslate2Engine) -> None:
    sources = [source for source in made_sources(60) if source]
    free = engine.translate(sources, DecodeConfig(beam_size=1, max_extra_tokens=6))
    ended = [(source, best.ids) for source, [best] in zip(sources, free, strict=True) if best.finished and best.ids]
    assert len(ended) >= 5
    for source, ids in ended:
        [[best]] = engine.translate([source], DecodeConfig(beam_size=1, max_extra_tokens=6, max_tokens=len(ids)))
        assert (best.ids, best.finished) == (ids, True)


def test_greedy_search_is_that_of_the_torch_engine(engine: CTranslate2Engine, reference: TorchEngine) -> None:
    sources = made_sources(60, seed=1)
    options = DecodeConfig(beam_size=1, max_extra_tokens=4)
    for [theirs], [ours] in zip(engine.translate(sources, options), reference.translate(sources, options), strict=True):
        assert (theirs.ids, theirs.finished) == (ours.ids, ours.finished)
        assert theirs.score == pytest.approx(ours.score, abs=_TIE)


def test_a_beam_finds_about_as_good_outputs_as_that_of_the_torch_engine(
    engine: CTranslate2Engine, reference: TorchEngine
) -> None:
    sources = [source for source in made_sources(60, seed=2) if source]
    options = DecodeConfig(beam_size=4, max_extra_tokens=4)
    theirs = [best.score for [best] in engine.translate(sources, options)]
    ours = [best.score for [best] in reference.translate(sources, options)]
    assert sum(theirs) / len(theirs) > sum(ours) / len(ours) - 0.5
    assert sum(abs(a - b) < _TIE for a, b in zip(ours, theirs, strict=True)) > len(ours) / 2


# Of each the good output, of probability 0.8 or more, ends after four poor ones; those scored 2.6 or more below it.
_ENDS_LATE = ["The small cat sees four trees.", "The small tree finds four cars.", "The old tree finds five dogs."]


def test_a_good_output_is_not_lost_to_poor_ones_that_end_early(tmp_path: Path) -> None:
    folder = shutil.copytree(FIXTURES / "model", tmp_path / "model")
    options: dict[str, int] = {"beam_size": 4}
    theirs, ours = (Translator.load(folder, engine=name, device="cpu") for name in ("ctranslate2", "torch"))
    assert theirs.translate(_ENDS_LATE, **options) == ours.translate(_ENDS_LATE, **options)


def test_where_both_searches_finish_that_of_torch_has_found_no_less(tmp_path: Path) -> None:
    """Scores are the reference's, for the outputs of both: so it is the searches that differ, and no engine errs."""
    folder = shutil.copytree(FIXTURES / "model", tmp_path / "model")
    lines = (FIXTURES / "corpus" / "dev.en").read_text(encoding="utf-8").splitlines()
    fast, reference = (Translator.load(folder, engine=name, device="cpu") for name in ("ctranslate2", "torch"))
    for beam_size in (2, 4):
        options, sources = reference.with_options(beam_size), reference.tokenizer.encode_batch(lines)
        ours = [best for [best] in reference.engine.translate(sources, options)]
        theirs = [best for [best] in fast.engine.translate(sources, options)]
        scores = reference.engine.score(sources, [best.ids for best in theirs])
        for mine, other, gains in zip(ours, theirs, scores, strict=True):
            assert mine.finished
            if other.finished:
                assert mine.score >= sum(gains) / gnmt_penalty(len(gains), options.length_penalty) - _TIE


def test_padding_bos_and_unknown_are_never_written(tmp_path: Path) -> None:
    bundle = made_bundle(tmp_path / "model", tie_embeddings="none")
    weights = {name: array.copy() for name, array in bundle.weights().items()}
    rows = weights["output_embedding"]
    [[best]] = CTranslate2Engine.load(bundle, device="cpu").translate([[7, 8, 9]], DecodeConfig())
    rows[[PAD, BOS, UNK]] = rows[best.ids[0]] * 1.5  # more of what this model likes best
    liking = save_bundle(tmp_path / "liking", bundle.config, weights, bundle.tokenizer, {})
    engine = CTranslate2Engine.load(liking, device="cpu")
    sources = [source for source in made_sources(20) if source]
    for options in (DecodeConfig(beam_size=4, max_extra_tokens=2), DecodeConfig(beam_size=1, max_extra_tokens=2)):
        found = engine.translate(sources, options, options.beam_size)
        assert not {PAD, BOS, UNK} & {index for hypotheses in found for h in hypotheses for index in h.ids}
        assert_true_scores(engine, sources, found, options.length_penalty)
    liked = engine.score([[7, 8, 9]] * 2, [[PAD], [best.ids[0]]])
    assert liked[0][0] > liked[1][0]  # they do tempt it


def test_sources_without_tokens_give_one_empty_output(engine: CTranslate2Engine) -> None:
    empty = Hypothesis(ids=[], score=0.0, log_probability=0.0, finished=True)
    assert engine.translate([[], []], DecodeConfig(), 4) == [[empty], [empty]]
    assert engine.translate([], DecodeConfig()) == []
    assert engine.score([], []) == []


def test_a_long_source_is_cut_where_the_torch_engine_cuts_it(tmp_path: Path) -> None:
    bundle = made_bundle(tmp_path / "model", positions="learned", max_positions=12, ending=1.5)
    engine, reference = (kind.load(bundle, device="cpu") for kind in (CTranslate2Engine, TorchEngine))
    assert engine.max_source_tokens == reference.max_source_tokens == 11
    sources = made_sources(20, longest=40)
    options = DecodeConfig(beam_size=1)
    for [theirs], [ours] in zip(engine.translate(sources, options), reference.translate(sources, options), strict=True):
        assert theirs.ids == ours.ids
        assert len(theirs.ids) <= 11
    with pytest.raises(DataError, match="target 2 has 12 tokens"):
        engine.score([[5], [5]], [[6], [6] * 12])
    with pytest.raises(ConfigError, match=r"a prefix of 12 tokens: this model's positions end at 11"):
        engine.translate([[5]], DecodeConfig(), 1, [TokenConstraints(prefix=(6,) * 12)])


def test_sinusoids_reach_as_far_as_any_source_and_are_refused_beyond(engine: CTranslate2Engine) -> None:
    source = made_sources(1, seed=4)[0][:1] * 1500
    [[best]] = engine.translate([source], DecodeConfig(beam_size=1, max_extra_tokens=2))
    assert len(best.ids) <= 1026
    with pytest.raises(ConfigError, match=r"max_extra_tokens.*5003 tokens.*ends at 4095"):
        engine.translate([[5, 6, 7]], DecodeConfig(max_extra_tokens=5000))


def test_each_line_has_its_own_conditions(engine: CTranslate2Engine) -> None:
    sources = [source for source in made_sources(20, seed=5) if source]
    options = DecodeConfig(beam_size=4, max_extra_tokens=5)
    plain = engine.translate(sources, options)
    conditions = []
    for number, [best] in enumerate(plain):
        prefix = tuple(range(20, 20 + number % 4))
        forbidden = (tuple(best.ids[:1]), (best.ids[-1], 30)) if number % 3 == 0 and best.ids else ()
        conditions.append(TokenConstraints(prefix=prefix, forbidden=forbidden))
    found = engine.translate(sources, options, 4, conditions)
    assert_true_scores(engine, sources, found, options.length_penalty)
    for given, hypotheses in zip(conditions, found, strict=True):
        for h in hypotheses:
            assert tuple(h.ids[: len(given.prefix)]) == given.prefix
            written = h.ids[len(given.prefix) :]
            assert not given.forbidden or given.forbidden[0][0] not in written
    for place in (0, 5, 11):
        [alone] = engine.translate([sources[place]], options, 4, [conditions[place]])
        assert [h.ids for h in alone] == [h.ids for h in found[place]]


@pytest.mark.parametrize(
    "settings", [{}, {"length_penalty": 0.0}, {"no_repeat_ngram": 2}, {"min_tokens": 4}, {"max_tokens": 3}], ids=str
)
def test_scores_behind_a_prefix_are_those_of_each_output_alone(
    engine: CTranslate2Engine, settings: dict[str, Any]
) -> None:
    """The obvious way is to force each output; CTranslate2's own score leaves out the prefix."""
    sources = [source for source in made_sources(30, seed=7) if source]
    options = DecodeConfig(beam_size=4, max_extra_tokens=5, **settings)
    alpha = options.length_penalty
    constraints = [TokenConstraints(prefix=tuple(range(20, 20 + i % 5))) for i in range(len(sources))]
    found = engine.translate(sources, options, 4, constraints)
    for source, given, hypotheses in zip(sources, constraints, found, strict=True):
        for each in hypotheses:
            assert tuple(each.ids[: len(given.prefix)]) == given.prefix
            [values] = engine.score([source], [each.ids])
            expected = hypothesis(each.ids, sum(values if each.finished else values[:-1]), each.finished, alpha)
            assert each.score == pytest.approx(expected.score, abs=_TIE)


def test_prefixes_of_any_length_are_searched_in_one_call(engine: CTranslate2Engine, begun: list[int]) -> None:
    sources = [[7, 8, 9]] * 6
    options = DecodeConfig(beam_size=4, max_extra_tokens=5)
    constraints = [TokenConstraints(prefix=tuple(range(20, 20 + i))) for i in range(6)]
    found = engine.translate(sources, options, 2, constraints)
    assert sorted(begun[:2]) == [1, 5]  # the one without a prefix goes alone
    for source, given, hypotheses in zip(sources, constraints, found, strict=True):
        [alone] = engine.translate([source], options, 2, [given])
        assert [each.ids for each in alone] == [each.ids for each in hypotheses]


def test_an_output_may_end_behind_its_prefix(bundle: Bundle, reference: TorchEngine, tmp_path: Path) -> None:
    """Where the end is among the best tokens there, though another one is better."""
    sources, prefixes = made_sources(100, seed=2), made_sources(100, seed=9, longest=8)
    pairs = [(source, tuple(prefix)) for source, prefix in zip(sources, prefixes, strict=True) if source and prefix]
    liked = [int(reference.next_scores(*pair)[-1].argmax()) for pair in pairs]
    weights = {name: array.copy() for name, array in bundle.weights().items()}
    weights["output_embedding"][EOS] = weights["output_embedding"][max(liked, key=liked.count)] * 0.97
    ending = save_bundle(tmp_path / "model", bundle.config, weights, bundle.tokenizer, {})
    engine = CTranslate2Engine.load(ending, device="cpu")
    options, num_cases = DecodeConfig(beam_size=16, max_extra_tokens=6), 0
    for source, prefix in pairs:
        scores_V = engine.next_scores(source, prefix)[-1]
        if -2.7 < scores_V[EOS] < scores_V.max() - 0.01:  # the bound is log 1/16, -2.77
            num_cases += 1
            [values] = engine.score([source], [prefix])
            expected = hypothesis([*prefix], sum(values), True, options.length_penalty)
            [found] = engine.translate([source], options, 16, [TokenConstraints(prefix=prefix)])
            better = [each for each in found if each.finished and each.score > expected.score - _TIE]
            assert list(prefix) in [each.ids for each in better] or len(better) == 16
    assert num_cases >= 3


def test_an_impossible_output_of_any_length_is_none(engine: CTranslate2Engine) -> None:
    options = DecodeConfig(beam_size=2, length_penalty=2.0)
    tokens = [engine._tokens[40]] * 60
    found = SimpleNamespace(hypotheses=[tokens, tokens], scores=[-1e10 / 60**2, -100 / 60**2])  # as CTranslate2 ranks
    [possible] = engine._outputs(found, options, 0)
    assert possible.log_probability == pytest.approx(-100)


def test_a_line_at_the_limit_of_its_call_is_searched_once(engine: CTranslate2Engine, begun: list[int]) -> None:
    engine.translate([[7, 8, 9, 10], [11, 12, 13, 14]], DecodeConfig(beam_size=4, max_tokens=2), 4)
    assert begun == [2]


def test_constraints_are_checked_as_in_the_torch_engine(engine: CTranslate2Engine, reference: TorchEngine) -> None:
    wrong = ([TokenConstraints(prefix=(EOS,))], [TokenConstraints(forbidden=((),))], [TokenConstraints()] * 2)
    for constraints in wrong:
        for each in (engine, reference):
            with pytest.raises(ConfigError, match="source"):
                each.translate([[5, 6]], DecodeConfig(), 1, constraints)


def test_what_fills_up_the_vocabulary_has_no_probability() -> None:
    """On a GPU CTranslate2 may add columns, which repeat the first token."""
    logits = np.log(np.array([[0.5, 0.25, 0.25, 0.5], [0.1, 0.1, 0.8, 0.1]], np.float32))

    def translate_batch(*_: Any, **__: Any) -> list[Any]:
        steps = [ctranslate2.StorageView.from_array(row) for row in logits]
        return [SimpleNamespace(result=lambda: SimpleNamespace(logits=[steps]))]

    model: Any = SimpleNamespace(num_translators=1, translate_batch=translate_batch)
    [found] = next_scores(model, [["a"]], [["b"]], [slice(None)], 3)
    np.testing.assert_allclose(np.exp(found), [[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]], rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"coverage_penalty": 0.2}, r"decode\.coverage_penalty = 0\.2"),
        ({"diversity_groups": 2}, r"decode\.diversity_groups = 2"),
        ({"temperature": 1.0}, r"decode\.temperature = 1\.0"),
    ],
)
def test_what_only_the_torch_engine_has_is_refused_by_name(
    engine: CTranslate2Engine, settings: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigError, match=f"{named}.*--engine torch"):
        engine.translate([[5, 6]], DecodeConfig(**settings), 1)


@pytest.mark.parametrize("device", ["cuda:99", "tpu", "cuda:x"])
def test_a_device_that_is_not_there_is_refused(bundle: Bundle, device: str) -> None:
    with pytest.raises(ConfigError, match=f"device '{device}'"):
        CTranslate2Engine.load(bundle, device=device)


def test_threads_and_pairs_are_checked(bundle: Bundle, engine: CTranslate2Engine) -> None:
    with pytest.raises(ConfigError, match="threads = 0"):
        CTranslate2Engine.load(bundle, threads=0)
    with pytest.raises(DataError, match="2 sources and 1 target"):
        engine.score([[5], [6]], [[7]])
    with pytest.raises(ConfigError, match="n-best = 5"):
        engine.translate([[5]], DecodeConfig(beam_size=4), 5)


def test_numbers_that_the_processor_has_not_are_refused(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctranslate2.get_supported_compute_types", lambda *_: {"float32", "int8_float32"})
    with pytest.raises(ConfigError, match=r"quantization 'float16'.*float32, int8_float32"):
        CTranslate2Engine.load(bundle, device="cpu", quantization="float16")
    assert CTranslate2Engine.load(bundle, device="cpu", quantization="int8").name == "ctranslate2 on cpu, int8"


def test_lines_of_one_call_have_the_same_bans() -> None:
    """CTranslate2 takes one list of forbidden sequences for a whole call."""
    bans = [((7,),), ((8,),), (), ((7,),), ((7,), (8,))]
    lines = [Line(i, (5, 6, 4 + i), 10, TokenConstraints(forbidden=ban)) for i, ban in enumerate(bans)]
    found = sorted(sorted(line.index for line in batch) for batch in line_batches(lines, 32))
    assert found == [[0, 3], [1], [2], [4]]


def test_each_line_of_a_call_has_its_own_bans(engine: CTranslate2Engine) -> None:
    """Each line is forbidden its own first token; what another line may not write, it still may."""
    options, sources = DecodeConfig(beam_size=1, max_tokens=6), [[7, 8, 9], [200, 10, 11], [20, 30, 40, 50]]
    firsts = [found.ids[0] for [found] in engine.translate(sources, options)]
    bans = [TokenConstraints(forbidden=((first,),)) for first in firsts]
    together = engine.translate(sources, options, 1, bans)
    for first, source, ban, [found] in zip(firsts, sources, bans, together, strict=True):
        assert first not in found.ids
        [[alone]] = engine.translate([source], options, 1, [ban])
        assert found.ids == alone.ids
