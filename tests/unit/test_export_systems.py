"""The systems that an export is compared in: what each hands to its library, in which batches, and what comes back."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from transduce.config.special_ids import BOS, EOS
from transduce.errors import ExportError
from transduce.export.system import in_batches


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, []), (1, [[0]]), (3, [[0, 1, 2]]), (4, [[0, 1, 2], [3]]), (6, [[0, 1, 2], [3, 4, 5]])],
)
def test_batches_hold_everything_in_order(count: int, expected: list[list[int]]) -> None:
    assert in_batches(list(range(count)), 3) == expected


# --- transformers -----------------------------------------------------------------------------------------------


class Tokenizer:
    """A line of letters is their numbers, with `ending` behind it."""

    model_max_length = 30

    def __init__(self, ending: tuple[int, ...] = (4,)) -> None:
        self.ending, self.calls = ending, []  # type: ignore[var-annotated]

    def __call__(self, lines: list[str], **options: Any) -> dict[str, Any]:
        self.calls.append((lines, options))
        return {"input_ids": [[*map(int, line), *self.ending] for line in lines]}

    def batch_decode(self, rows: list[list[int]], *, skip_special_tokens: bool) -> list[str]:
        assert skip_special_tokens
        return ["\n".join(map(str, row)) for row in rows]


# Their ids of ours: PAD, BOS, EOS, UNK and two pieces. Their row 1, where a decoder starts, is none of ours.
ORDER, TARGET_ORDER = [5, 6, 4, 0, 3, 2], [5, 6, 4, 0, 2, 3]


def hugging_face(**settings: Any) -> Any:
    module = pytest.importorskip("transduce.export.huggingface_system", exc_type=ImportError)
    system = object.__new__(module.HuggingFaceSystem)
    system.name, system.tokenizer, system.num_positions = "transformers", Tokenizer(), 20
    generation = SimpleNamespace(max_length=None, max_new_tokens=None)
    system.model = SimpleNamespace(config=SimpleNamespace(decoder_start_token_id=1), generation_config=generation)
    system._source_ids, system._target_ids = np.array([*ORDER, 1]), np.array([*TARGET_ORDER, 1])
    system._ours = {theirs: ours for ours, theirs in enumerate(system._source_ids.tolist())}
    system._repeats_start, system._before, system._first = False, "", ()
    for name, value in settings.items():
        setattr(system, name, value)
    return system


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((None, None), (None, None)),
        ((20, 19), (20, 19)),
        ((21, 20), (20, 19)),
        ((500, None), (20, None)),
        ((None, 500), (None, 19)),
        ((7, 7), (7, 7)),
    ],
)
def test_an_output_ends_where_the_positions_do(
    given: tuple[int | None, int | None], expected: tuple[int | None, int | None]
) -> None:
    system = hugging_face()
    settings = system.model.generation_config
    settings.max_length, settings.max_new_tokens = given
    system._bound_outputs(20)
    assert (settings.max_length, settings.max_new_tokens) == expected


def test_their_ids_become_ours_and_their_end_is_taken_off() -> None:
    system = hugging_face()
    assert system.encode(["32", "", "1"]) == [[4, 5], [], [6]]
    for ending in ((), (4, 3), (2,)):
        with pytest.raises(ExportError, match="transformers: its tokenizer appends no end-of-sentence token"):
            hugging_face(tokenizer=Tokenizer(ending)).encode(["32", "0"])


@pytest.mark.parametrize(("longest", "positions", "cut"), [(30, 20, 20), (30, 40, 30)])
def test_lines_are_generated_from_in_batches_cut_at_what_is_read(longest: int, positions: int, cut: int) -> None:
    system = hugging_face(num_positions=positions)
    system.tokenizer.model_max_length = longest
    system.model.generate = lambda input_ids: [[1, *row] for row in input_ids]  # the decoder starts with 1
    lines = [f"{index % 10}3" for index in range(35)]
    assert system.translate(lines) == [f"{line[0]} 3 4" for line in lines], "with no line ends of their own"
    options = {"return_tensors": "pt", "padding": True, "truncation": True, "max_length": cut}
    assert system.tokenizer.calls == [(lines[:16], options), (lines[16:32], options), (lines[32:], options)]


def test_whole_targets_are_scored_in_their_ids() -> None:
    system = hugging_face()
    calls: list[dict[str, torch.Tensor]] = []

    def model(**given: torch.Tensor) -> Any:
        calls.append(given)
        rows, length = given["decoder_input_ids"].shape
        logits = torch.zeros(rows, length, 7)
        logits[:, :, 3] = math.log(5)  # our last: 5 of 11
        return SimpleNamespace(logits=logits)

    model.config = system.model.config  # type: ignore[attr-defined]
    system.model = model
    sources, targets = [[4, 5, 4], *([[5]] * 16)], [[5], [4, 5], *([[]] * 15)]
    found = system.force(sources, targets)
    assert [each.choices for each in found] == [[5, 5], [5, 5, 5], *([[5]] * 15)]
    probabilities = [[math.exp(value) for value in each.log_probabilities] for each in found[:3]]
    assert probabilities == [
        pytest.approx([5 / 11, 1 / 11]),
        pytest.approx([1 / 11, 5 / 11, 1 / 11]),
        pytest.approx([1 / 11]),
    ]
    first, second = calls
    assert first["input_ids"][:2].tolist() == [[3, 2, 3, 4], [2, 4, 0, 0]]
    assert first["attention_mask"][:2].tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    assert first["decoder_input_ids"][:3].tolist() == [[1, 3, 0], [1, 2, 3], [1, 0, 0]]
    assert (len(first["input_ids"]), second["input_ids"].tolist()) == (16, [[2, 4]])
    assert second["decoder_input_ids"].tolist() == [[1]]
    assert [row[:, BOS].tolist() for row in system.logits([[4]], [[5]])] == [[0.0, 0.0]]
    system._repeats_start = True  # of padding, say: it is never written, whatever its row gives
    assert [row[:, BOS].tolist() for row in system.logits([[4]], [[5]])] == [[-100.0, -100.0]]


# --- onnxruntime ------------------------------------------------------------------------------------------------


class Script:
    """A translator of the exported script, whose logits say what it was fed and what it had seen before."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self.steps: list[tuple[list[list[int]], Any, int]] = []
        self.tokenizer = SimpleNamespace(encode=lambda line: [*map(int, line)])

    def translate(self, line: str) -> str:
        return line[::-1]

    def encode(self, ids: list[int]) -> Any:
        return ("memory", ids)

    def no_past(self, rows: int) -> int:
        assert rows == 1
        return 0

    def step(self, ids: np.ndarray, memory: Any, past: int) -> tuple[np.ndarray, int]:
        self.steps.append((ids.tolist(), memory, past))
        logits = np.zeros((1, ids.shape[1], 8))
        for place in range(ids.shape[1]):
            logits[0, place, past + place] = 9
        return logits, past + ids.shape[1]


def onnx(**settings: Any) -> Any:
    module = pytest.importorskip("transduce.export.onnx_system", exc_type=ImportError)
    system = object.__new__(module.OnnxSystem)
    system.translator = Script(**settings)
    return system


def test_lines_for_onnx_have_the_tags_of_the_default_direction() -> None:
    assert onnx(default_tags=[7, 8]).encode(["12", ""]) == [[7, 8, 1, 2], [7, 8]]
    assert onnx().encode(["12"]) == [[1, 2]]
    assert onnx().translate(["12", "34"]) == ["21", "43"]


@pytest.mark.parametrize(
    ("target", "fed"),
    [
        ([], [([[BOS]], 0)]),
        ([5], [([[BOS]], 0), ([[5]], 1)]),
        ([5, 6], [([[BOS, 5]], 0), ([[6]], 2)]),
        ([5, 6, 7], [([[BOS, 5]], 0), ([[6, 7]], 2)]),
    ],
)
def test_a_target_is_fed_in_halves_so_that_the_cache_is_tested(
    target: list[int], fed: list[tuple[list[list[int]], int]]
) -> None:
    system = onnx()
    [found] = system.force([[3, 4]], [target])
    assert [(ids, past) for ids, _, past in system.translator.steps] == fed
    assert {str(memory) for _, memory, _ in system.translator.steps} == {str(("memory", [3, 4]))}
    assert found.choices == [*range(len(target) + 1)]
    assert len(found.log_probabilities) == len(target) + 1


# --- CTranslate2 ------------------------------------------------------------------------------------------------


def test_the_scores_are_the_engines_and_the_next_token_that_after_each_prefix() -> None:
    module = pytest.importorskip("transduce.export.ctranslate2_system", exc_type=ImportError)
    system = object.__new__(module.CTranslate2System)

    def next_scores(source: list[int], prefix: list[int]) -> np.ndarray:
        """The next token is the source's at that place, and then the end."""
        wanted = [*source, *[EOS] * len(prefix)][: len(prefix) + 1]
        return np.eye(7, dtype=np.float32)[wanted]

    scores = [[-1.0, -2.0, -3.0], *([[-0.5, -0.25]] * 65)]
    system.engine = SimpleNamespace(score=lambda sources, targets: scores, next_scores=next_scores)
    found = system.force([[4, 5], *([[6]] * 65)], [[6, 4], *([[5]] * 65)])
    assert [each.log_probabilities for each in found] == scores
    assert [each.choices for each in found] == [[4, 5, EOS], *([[6, EOS]] * 65)]
