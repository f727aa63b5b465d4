"""What engines hand on, argument by argument, to what computes for them, and which result comes back for which line."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fake_tokenizer import FakeTokenizer
from transduce.config import DecodeConfig, ModelConfig
from transduce.engines import ctranslate2, ctranslate2_forced
from transduce.engines.automatic import AutomaticEngine
from transduce.engines.batching import length_batches, require_pairs
from transduce.engines.ctranslate2 import CTranslate2Engine
from transduce.engines.ctranslate2_batches import Line
from transduce.engines.interface import TokenConstraints
from transduce.engines.loading import EngineChoice, checksums_of, load_engine
from transduce.engines.tagged import TaggedAttendingEngine, with_tags
from transduce.engines.torch import TorchEngine
from transduce.errors import ConfigError, DataError

NAMES = [f"t{index}" for index in range(10)]
OPTIONS = DecodeConfig(beam_size=4)


class Noting:
    """An engine whose attributes are all different; it notes its calls, and each method returns its own name."""

    def __init__(self, name: str = "noting") -> None:
        self.name, self.independent_lines = name, False
        self.max_source_tokens, self.num_workers, self.batch_tokens = 9, 3, 77
        self.calls: list[tuple[Any, ...]] = []

    def _note(self, *call: Any) -> Any:
        self.calls.append(call)
        return f"{self.name}: {call[0]}"

    def undivided(self) -> Any:
        return Noting("undivided")

    def translate(self, sources: Any, options: Any, n_best: int = 1, constraints: Any = None) -> Any:
        return self._note("translate", sources, options, n_best, constraints)

    def score(self, sources: Any, targets: Any) -> Any:
        self._note("score", sources, targets)
        return [[-float(token) for token in (*target, 2)] for target in targets]

    def align(self, sources: Any, targets: Any) -> Any:
        self._note("align", sources, targets)
        pairs = zip(sources, targets, strict=True)
        return [np.arange(len(source)) + np.zeros((len(target), 1)) for source, target in pairs]

    def next_scores(self, source: Any, prefix: Any) -> Any:
        return self._note("next_scores", source, prefix)

    def attend(self, source: Any, target: Any) -> Any:
        return self._note("attend", source, target)


def attributes(engine: Any) -> tuple[Any, ...]:
    return (engine.name, engine.independent_lines, engine.max_source_tokens, engine.num_workers, engine.batch_tokens)


# --- engines around others --------------------------------------------------------------------------------------


def test_tags_stand_in_front_and_all_else_is_handed_on() -> None:
    inner = Noting()
    engine: Any = with_tags(inner, [5, 6])
    assert isinstance(engine, TaggedAttendingEngine)
    assert attributes(engine) == ("noting", False, 7, 3, 77)
    long = [10, 11, 12, 13, 14, 15, 16, 17]  # of which seven are read
    given = [TokenConstraints(prefix=(8,)), TokenConstraints()]
    assert engine.translate([long, []], OPTIONS, 3, given) == "noting: translate"
    assert engine.score([long, []], [[4], []]) == [[-4.0, -2.0], [-2.0]]
    assert engine.next_scores(long, [4]) == "noting: next_scores"
    assert engine.attend(long, [4]) == "noting: attend"
    tagged = [5, 6, *long[:7]]
    assert inner.calls == [
        ("translate", [tagged, []], OPTIONS, 3, given),
        ("score", [tagged, []], [[4], []]),
        ("next_scores", tagged, [4]),
        ("attend", tagged, [4]),
    ]
    first, second = engine.align([[10, 11, 12], []], [[4, 4], [4]])
    assert first.tolist() == [[2, 3, 4]] * 2
    assert second.shape == (1, 0)
    undivided = engine.undivided()
    assert (undivided.name, undivided.tags, type(undivided)) == ("undivided", (5, 6), type(engine))


def test_auto_hands_on_a_call_to_the_engine_that_can_do_it() -> None:
    fast, reference, loads = Noting("fast"), Noting("reference"), list[str]()

    def load() -> Noting:
        loads.append("reference")
        return reference

    engine: Any = AutomaticEngine(fast, load, ModelConfig())
    assert attributes(engine) == ("fast", False, 9, 3, 77)
    given, sampled = [TokenConstraints(prefix=(8,))], DecodeConfig(temperature=1.0)
    assert engine.translate([[4]], OPTIONS, 3, given) == "fast: translate"
    assert engine.translate([[4]], sampled, 2, given) == "reference: translate"
    assert engine.translate([[4]], DecodeConfig(max_extra_tokens=3072)) == "reference: translate"
    assert engine.translate([[4]], DecodeConfig(max_extra_tokens=3071)) == "fast: translate"
    assert fast.calls[0] == ("translate", [[4]], OPTIONS, 3, given)
    assert reference.calls[0] == ("translate", [[4]], sampled, 2, given)
    assert engine.attend([4], [5]) == "reference: attend"
    other = engine.undivided()
    assert (other.name, other.config, other.reference) == ("undivided", engine.config, reference)
    assert loads == ["reference"]


# --- loading ----------------------------------------------------------------------------------------------------


def made_bundle(**checksums: str) -> Any:
    return SimpleNamespace(
        path=Path("model"), checksums=checksums, config=SimpleNamespace(model=ModelConfig()), tokenizer=None
    )


@pytest.mark.parametrize(
    ("choice", "options", "expected"),
    [
        (
            EngineChoice("torch"),
            {"device": "cuda:1", "threads": 3, "quantization": "int8", "others": ["second"], "shortlist": "on"},
            ("torch", "cuda:1", 3, "int8", ["second"], "the shortlist", None),
        ),
        (EngineChoice("torch"), {"draft": "self"}, ("torch", "auto", None, "float32", (), None, "self")),
        (
            EngineChoice("ctranslate2"),
            {"device": "cuda", "threads": 2, "quantization": "int16", "shortlist": "on"},
            ("ctranslate2", "cuda", 2, "int16", {"shortlisted": True}),
        ),
        (EngineChoice("ctranslate2"), {}, ("ctranslate2", "auto", None, "float32", {"shortlisted": False})),
        # An engine with another to fall back on is that of a CPU, and so is the other.
        (
            EngineChoice("ctranslate2", fallback="torch"),
            {"device": "auto", "threads": 2},
            ("ctranslate2", "cpu", 2, "float32", {"shortlisted": False}),
        ),
    ],
)
def test_an_engine_is_loaded_with_what_was_chosen(
    monkeypatch: pytest.MonkeyPatch, choice: EngineChoice, options: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    loaded: list[tuple[Any, ...]] = []
    bundle = made_bundle()

    def load_torch(given: Any, *arguments: Any) -> Any:
        assert given is bundle
        loaded.append(("torch", *arguments))
        return Noting("reference")

    def load_ctranslate2(given: Any, *arguments: Any, **named: Any) -> Any:
        assert given is bundle
        loaded.append(("ctranslate2", *arguments, named))
        return Noting("fast")

    monkeypatch.setattr(TorchEngine, "load", load_torch)
    monkeypatch.setattr(CTranslate2Engine, "load", load_ctranslate2)
    monkeypatch.setattr("transduce.engines.shortlist.table.load_shortlist", lambda given: "the shortlist")
    engine: Any = load_engine(bundle, choice, **options)
    assert loaded == [expected]
    assert isinstance(engine, AutomaticEngine) == bool(choice.fallback)
    if choice.fallback:
        assert engine.reference.name == "reference"
        assert loaded[1:] == [("torch", "cpu", 2, "float32", (), None, None)]


def test_checksums_name_the_model_that_they_are_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.engines.loading.files.sha256", lambda path: f"of {path}")
    first, second, third = (made_bundle(a=f"{number}a", b=f"{number}b") for number in (1, 2, 3))
    expected = {"the model's a": "1a", "the model's b": "1b"}
    assert checksums_of(first) == expected
    expected |= {f"the {name} of model {number}": f"{number}{name}" for number in (2, 3) for name in "ab"}
    expected["the model's shortlist"] = "of model/shortlist.safetensors"
    assert checksums_of(first, [second, third], with_shortlist=True) == expected


@pytest.mark.parametrize("shortlisted", [False, True])
@pytest.mark.parametrize(("index", "device", "batch_tokens"), [(0, "cpu", 512), (1, "cuda", 1536)])
def test_a_conversion_is_opened_as_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, shortlisted: bool, index: int, device: str, batch_tokens: int
) -> None:
    calls: list[Any] = []

    def noting(name: str, result: Any) -> None:
        def fake(*args: Any, **options: Any) -> Any:
            calls.append((name, args, options))
            return result

        monkeypatch.setattr(ctranslate2, name, fake)

    noting("choose_device", (device, index))
    noting("compute_type", "numbers")
    noting("converted", Path("conversion"))
    noting("load_model", SimpleNamespace(num_translators=5, device=device))
    written = FakeTokenizer(tokens=lambda: NAMES, tags={"<2de>": 9, "<2fr>": 8})
    read = [f"source {name}" for name in NAMES]
    tokenizer = FakeTokenizer(tokens=lambda: read, tags={"<2de>": 7}, target_side=written)
    config = ModelConfig(positions="learned", max_positions=30)
    bundle: Any = SimpleNamespace(tokenizer=tokenizer, config=SimpleNamespace(model=config), aligning_heads=None)
    engine = CTranslate2Engine.load(bundle, "wished", 4, "int8", shortlisted=shortlisted)
    assert calls == [
        ("choose_device", ("wished",), {}),
        ("compute_type", ("int8", device, index), {}),
        ("converted", (bundle, "int8"), {"shortlisted": shortlisted}),
        ("load_model", (Path("conversion"), device, index, "numbers", 4), {}),
    ]
    shown = f"ctranslate2 on {'cpu' if device == 'cpu' else 'cuda:1'}, int8"
    name = f"{shown}, with a shortlist" if shortlisted else shown
    assert attributes(engine) == (name, not shortlisted, 29, 5, batch_tokens)
    assert engine.never == (0, 1, 3, 9, 8)
    assert (engine._source_tokens, engine._tokens) == (read, NAMES)
    undivided = engine.undivided()
    assert (attributes(undivided), undivided._divides, engine._divides) == (attributes(engine), False, True)


# --- CTranslate2's own calls ------------------------------------------------------------------------------------


class Library:
    """Notes what a model of CTranslate2 is called with; `results` gives the answer for a pair of names."""

    def __init__(
        self, results: Any = lambda source, target: None, num_translators: int = 1, device: str = "cpu"
    ) -> None:
        self.results, self.num_translators, self.device = results, num_translators, device
        self.calls: list[tuple[list[Any], Any, dict[str, Any]]] = []

    def translate_batch(self, sources: list[Any], targets: Any = None, **options: Any) -> list[Any]:
        self.calls.append((sources, targets, options))
        pairs = zip(sources, targets or [None] * len(sources), strict=True)
        results = [self.results(*pair) for pair in pairs]
        return [SimpleNamespace(result=lambda found=found: found) for found in results]

    score_batch = translate_batch


def made_engine(**options: Any) -> tuple[Any, Library]:
    library = Library()
    return CTranslate2Engine(library, (NAMES, NAMES), ModelConfig(), "made", tags=[9], **options), library


def made_line(index: int, source: tuple[int, ...], limit: int, **options: Any) -> Line:
    given = TokenConstraints(**{key: options.pop(key) for key in ("prefix", "forbidden") if key in options})
    return Line(index, source, limit, given, **options)


@pytest.mark.parametrize(
    ("settings", "of_lines", "expected"),
    [
        (
            {"beam_size": 4, "length_penalty": 0.5, "no_repeat_ngram": 2, "min_tokens": 3},
            {"prefix": (6,), "forbidden": ((7,), (8, 4))},
            {
                "beam_size": 4,
                "patience": 2,
                "num_hypotheses": 8,
                "length_penalty": 0.5,
                "no_repeat_ngram_size": 2,
                "min_decoding_length": 3,
                "suppress_sequences": [["t7"], ["t8", "t4"]],
            },
        ),
        (
            {"beam_size": 1, "length_penalty": 0.0},
            {},
            {
                "beam_size": 1,
                "patience": 1,
                "num_hypotheses": 1,
                "length_penalty": 1e-6,
                "no_repeat_ngram_size": 0,
                "min_decoding_length": 0,
                "suppress_sequences": None,
            },
        ),
        (
            {"beam_size": 2, "length_penalty": 1.0},
            {"forbidden": ((7,),), "suppress": True},
            {
                "beam_size": 2,
                "patience": 2,
                "num_hypotheses": 4,
                "length_penalty": 1.0,
                "no_repeat_ngram_size": 0,
                "min_decoding_length": 0,
                "suppress_sequences": [["t7"], ["t0"], ["t1"], ["t3"], ["t9"]],
            },
        ),
    ],
)
@pytest.mark.parametrize("shortlisted", [False, True])
def test_a_search_is_begun_with_the_options_of_the_call(
    settings: dict[str, Any], of_lines: dict[str, Any], expected: dict[str, Any], shortlisted: bool
) -> None:
    engine, library = made_engine(shortlisted=shortlisted)
    lines = [made_line(0, (4, 5), 9, **of_lines), made_line(1, (4,), 11, **of_lines)]
    engine._begin(lines, DecodeConfig(**settings))
    [(sources, prefixes, options)] = library.calls
    assert (sources, prefixes) == ([["t4", "t5"], ["t4"]], [["t6"], ["t6"]] if "prefix" in of_lines else None)
    assert options == expected | {
        "max_decoding_length": 12,  # the greatest limit, and EOS
        "max_input_length": 0,
        "use_vmap": shortlisted,
        "return_end_token": True,
        "return_scores": True,
        "asynchronous": True,
    }


@pytest.mark.parametrize(
    ("outputs", "of_line", "expected"),
    [
        ([["t4", "t5", "t2"]], {}, None),
        ([["t4", "t5", "t6", "t2"]], {}, {"exact_limit": True}),  # as long as its own limit
        ([["t4", "t5", "t6", "t7"]], {}, {"exact_limit": True}),
        ([["t4", "t5", "t6", "t2"]], {"exact_limit": True}, None),
        ([["t4", "t2"], ["t4", "t9", "t2"]], {}, {"suppress": True}),  # a tag, in the second output
        ([["t4", "t1", "t2"]], {}, {"suppress": True}),
        ([["t4", "t1", "t2"]], {"suppress": True}, None),
        ([["t4", "t1", "t5", "t6"]], {}, {"exact_limit": True}),  # one thing at a time
    ],
)
def test_a_line_is_searched_again_at_its_own_limit_or_without_what_is_never_written(
    outputs: list[list[str]], of_line: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    engine, _ = made_engine()
    line = made_line(0, (4, 5), 3, **of_line)
    given = SimpleNamespace(hypotheses=outputs, scores=[-1.0] * len(outputs))
    found = engine._retry(line, engine._outputs(given, DecodeConfig(), 0))
    assert found == (None if expected is None else made_line(0, (4, 5), 3, **of_line | expected))


@pytest.mark.parametrize(
    ("config", "num_source", "settings", "expected"),
    [
        (ModelConfig(), 5, {"max_extra_tokens": 7}, 12),
        (ModelConfig(), 1024, {"max_extra_tokens": 3071}, 4095),
        (ModelConfig(), 1024, {"max_extra_tokens": 3072}, "could have 4096 tokens, .* it ends at 4095"),
        (ModelConfig(positions="learned", max_positions=10), 5, {"max_extra_tokens": 7}, 9),
    ],
)
def test_the_limit_of_a_conversion(
    config: ModelConfig, num_source: int, settings: dict[str, int], expected: int | str
) -> None:
    engine = CTranslate2Engine(Library(), (NAMES, NAMES), config, "made")
    options = DecodeConfig(**settings)
    if isinstance(expected, str):
        with pytest.raises(ConfigError, match=expected):
            engine._limit(num_source, options, TokenConstraints())
    else:
        assert engine._limit(num_source, options, TokenConstraints()) == expected


PAIRS = ([["a"], ["b", "c"], [], ["d"]], [["x"], ["x", "y", "z"], ["x"], []])


def test_scores_come_back_for_the_pair_that_they_are_of() -> None:
    model: Any = Library(lambda source, target: SimpleNamespace(log_probs=[f"{source}{target}"]))
    assert ctranslate2_forced.scores(model, *PAIRS) == [
        [f"{source}{target}"] for source, target in zip(*PAIRS, strict=True)
    ]
    [(sources, targets, options)] = model.calls
    assert targets == [["x", "y", "z"], ["x"], ["x"], []]  # the longest first
    assert sources == [["b", "c"], ["a"], [], ["d"]]
    assert options == {"max_input_length": 0, "asynchronous": True}


def test_attention_is_that_of_the_forced_tokens_and_no_more() -> None:
    """The shorter target of a batch is continued: what is written behind it does not count."""
    model: Any = Library(lambda source, target: SimpleNamespace(attention=[[[f"{source}{n}"] for n in range(3)]]))
    found = ctranslate2_forced.attention(model, *PAIRS)
    assert found == [[["['a']0"]], [[f"['b', 'c']{n}"] for n in range(3)], [], []]
    [(sources, targets, options)] = model.calls
    assert (sources, targets) == ([["b", "c"], ["a"]], [["x", "y", "z"], ["x"]])
    settings = {"beam_size": 1, "max_input_length": 0, "return_attention": True, "asynchronous": True}
    assert options == settings | {"max_decoding_length": 3}


def test_attention_after_each_token_needs_one_step_more() -> None:
    model: Any = Library(lambda source, target: SimpleNamespace(attention=[[[f"{source}{n}"] for n in range(4)]]))
    found = ctranslate2_forced.attention(model, *PAIRS, after=True)
    assert found == [[["['a']1"]], [[f"['b', 'c']{n}"] for n in (1, 2, 3)], [], []]
    [(_, targets, options)] = model.calls
    assert (targets, options["max_decoding_length"]) == ([["x", "y", "z", "z"], ["x", "x"]], 4)


def test_the_next_tokens_are_scored_behind_each_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand, of logits whose exponentials are 1, 2 and 5, or 2, 2 and 4; a shorter prefix has fewer steps."""
    rows = [np.log([[1.0, 2.0, 5.0]] * 4), np.log([[2.0, 2.0, 4.0]] * 4)]
    model: Any = Library(lambda source, target: SimpleNamespace(logits=[rows[source == ["b"]]]), num_translators=2)
    monkeypatch.setattr(ctranslate2_forced, "_in_memory", lambda step: step)
    monkeypatch.setattr(ctranslate2_forced, "_MAX_KEPT_ROWS", 4)
    prefixes = [["x"], ["x", "y", "z"], []]
    first, second, third = ctranslate2_forced.next_scores(model, [["a"], ["b"], ["c"]], prefixes, [[0, 2], [1], [2]], 3)
    np.testing.assert_allclose(np.exp(first), [[1 / 8, 5 / 8]] * 2)
    np.testing.assert_allclose(np.exp(second), [[1 / 4]] * 4)
    np.testing.assert_allclose(np.exp(third), [[5 / 8]])
    assert [(sources, options["max_decoding_length"]) for sources, _, options in model.calls] == [
        ([["b"]], 4),
        ([["a"], ["c"]], 2),
    ]
    settings = {"beam_size": 1, "max_input_length": 0, "min_decoding_length": 0, "return_logits_vocab": True}
    assert model.calls[0][2] == settings | {"asynchronous": True, "max_decoding_length": 4}


# --- batches and pairs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lengths", "batch_size", "max_tokens", "expected"),
    [
        ([3, 9, 0, 9, 5], 2, 100, [[1, 3], [4, 0]]),  # nothing of no length; of equals, the first first
        ([4, 4, 4], 9, 8, [[0, 1], [2]]),
        ([4, 4, 4], 9, 7, [[0], [1], [2]]),
        ([9, 2, 2, 2], 9, 4, [[0], [1, 2], [3]]),  # what is too long goes alone
        ([9, 9, 9], 2, None, [[0, 1], [2]]),
        ([8192, 1, 1], 9, 8192, [[0], [1, 2]]),
        ([], 2, 10, []),
    ],
)
def test_batches_are_of_similar_length(
    lengths: list[int], batch_size: int, max_tokens: int | None, expected: list[list[int]]
) -> None:
    assert list(length_batches(lengths, batch_size, max_tokens)) == expected


def test_a_batch_has_at_most_8192_tokens() -> None:
    assert [len(batch) for batch in length_batches([1024] * 20, 64)] == [8, 8, 4]


@pytest.mark.parametrize(
    ("targets", "max_positions", "message"),
    [
        ([[4] * 8, [4] * 9], 10, None),
        ([[4] * 8, [4] * 10], 10, "target 2 has 10 tokens, but they end at 9"),
        ([[4] * 999, []], None, None),
        ([[4]], None, "2 sources and 1 target: give one for each"),
    ],
)
def test_each_source_has_a_target_within_the_positions(
    targets: Sequence[Sequence[int]], max_positions: int | None, message: str | None
) -> None:
    if message is None:
        require_pairs([1, 2], targets, max_positions, "they end at")
    else:
        with pytest.raises(DataError, match=message):
            require_pairs([1, 2], targets, max_positions, "they end at")
