"""The search of `translate_onnx.py` against all outputs that there are, over a model that is a table."""

import io
import itertools
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="the script needs transduce[onnx]")

from made_marian import SOURCE_TEXT, learned, pieces_of
from transduce.export import translate_onnx
from transduce.export.sentencepiece_files import write_pieces
from transduce.export.translate_onnx import OnnxTranslator, Pieces, log_softmax, penalty
from transduce.text import SPECIAL_TOKENS, SentencePieceTokenizer

PAD, BOS, EOS, UNK, A, B, TAG = range(7)


class Table(OnnxTranslator):
    """Each token depends on the two before it, of which the cache holds one: a wrong row of it is a wrong output."""

    def __init__(self, logits: np.ndarray, **settings: Any) -> None:
        self.logits = logits
        self.settings = {
            "pad": PAD,
            "bos": BOS,
            "eos": EOS,
            "unk": UNK,
            "max_target_tokens": 99,
            "max_extra_tokens": 3,
            **settings,
        }

    def encode(self, ids: list[int]) -> dict[str, np.ndarray]:
        return {"source_mask": np.zeros((1, 1, 1, len(ids))), "cross_key_0": np.array([[7.0]])}

    def no_past(self, rows: int) -> dict[str, np.ndarray]:
        return {"past_key_0": np.full((rows, 1), PAD)}

    def step(self, tokens: np.ndarray, memory: Any, past: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        before = past["past_key_0"][:, 0]
        assert len(memory["cross_key_0"]) == len(memory["source_mask"]) == len(tokens) == len(before)
        return self.logits[before, tokens[:, 0]][:, None], {"past_key_0": tokens}


def made(seed: int, **settings: Any) -> Table:
    return Table(np.random.default_rng(seed).normal(0, 1.5, (7, 7, 7)), **settings)


def gains(table: Table, ids: tuple[int, ...]) -> Iterator[float]:
    """Yields the log-probability of each token, worked out from the table."""
    for before, token, following in zip((PAD, BOS, *ids), (BOS, *ids), ids, strict=False):
        row = table.logits[before, token]
        yield float(row[following] - np.log(np.exp(row).sum()))


def best_of_all(table: Table, words: tuple[int, ...], limit: int, alpha: float) -> list[int]:
    outputs = [ids for length in range(limit + 1) for ids in itertools.product(words, repeat=length)]

    def score(ids: tuple[int, ...]) -> float:
        return sum(gains(table, (*ids, EOS))) / ((5 + len(ids) + 1) / 6) ** alpha

    return list(max(outputs, key=score))


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0, 5.0])
@pytest.mark.parametrize("seed", range(6))
def test_a_beam_that_holds_everything_finds_the_best_of_all(seed: int, alpha: float) -> None:
    """With a beam of 128 nothing is dropped: five tokens of three words are 243 outputs, half of them open."""
    table = made(seed)
    assert table.search([8, 9], 300, alpha) == best_of_all(table, (A, B, TAG), 5, alpha)
    tagged = made(seed, tags={"<2de>": TAG})
    assert tagged.search([8, 9], 300, alpha) == best_of_all(tagged, (A, B), 5, alpha)


def test_the_longest_output_is_that_of_the_source_or_of_the_positions() -> None:
    """A model that never ends."""
    logits = np.zeros((7, 7, 7))
    logits[:, :, EOS] = -np.inf
    for settings, limit in (({}, 5), ({"max_extra_tokens": 1}, 3), ({"max_target_tokens": 4}, 4)):
        for beam_size in (1, 3):
            assert len(Table(logits, **settings).search([8, 9], beam_size, 0.6)) == limit


@pytest.mark.parametrize("seed", range(6))
def test_a_beam_of_one_takes_the_best_token_until_it_is_the_end(seed: int) -> None:
    table, ids = made(seed), [BOS]
    for _ in range(5):
        row = table.logits[ids[-2] if len(ids) > 1 else PAD, ids[-1]].copy()
        row[[PAD, BOS, UNK]] = -np.inf
        if row.argmax() == EOS:
            break
        ids.append(int(row.argmax()))
    assert table.search([8, 9], 1, 0.6) == ids[1:]


def test_an_output_that_ends_comes_before_all_that_do_not() -> None:
    """The end is improbable, and possible behind the first token only."""
    logits = np.full((7, 7, 7), -50.0)
    logits[:, :, A] = 0
    logits[BOS, A, EOS] = -9
    assert Table(logits).search([8, 9], 2, 0.6) == [A]


def test_lines_have_the_tags_that_are_asked_for() -> None:
    searched: list[Any] = []

    class Noting(Table):
        def search(self, ids: list[int], beam_size: int, alpha: float) -> list[int]:
            searched.append((ids, beam_size, alpha))
            return [A]

    table = Noting(np.zeros((7, 7, 7)), beam_size=4, length_penalty=0.6, default_tags=[TAG])
    table.tokenizer = SimpleNamespace(
        encode=lambda line: [len(line), 0],
        decode=lambda ids: f"{ids}\nend",
    )
    assert table.translate("abc") == "[4] end"
    assert table.translate("abc", 1, 0.0, []) == "[4] end"
    assert table.translate("abc", tags=[5, 6]) == "[4] end"
    assert table.translate(" \t") == ""
    assert searched == [([TAG, 3, 0], 4, 0.6), ([3, 0], 1, 0.0), ([5, 6, 3, 0], 4, 0.6)]


def test_the_names_of_tags() -> None:
    table = made(0, tags={"<2de>": 7, "<domain:law>": 8})
    assert [table.tags_of(*each) for each in (("de",), ("de", "law"), ("", "law"), ("",))] == [[7], [7, 8], [8], []]
    with pytest.raises(SystemExit, match=r"<domain:it>: the model does not know it\. It knows: <2de>, <domain:law>"):
        table.tags_of("de", "it")


def test_probabilities_and_the_length_penalty_by_hand() -> None:
    np.testing.assert_allclose(
        np.exp(log_softmax(np.log(np.array([[1.0, 3.0], [600.0, 200.0]])))), [[0.25, 0.75], [0.75, 0.25]]
    )
    assert penalty(7, 1.0) == 2
    assert penalty(1, 9.0) == 1
    assert penalty(19, 0.5) == 2


def test_the_command_translates_each_line_with_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[Any] = []
    calls: list[Any] = []

    class Fake:
        def __init__(self, *given: Any) -> None:
            made.append(given)

        def tags_of(self, *given: str) -> list[str]:
            return [*given]

        def translate(self, *given: Any) -> str:
            calls.append(given)
            return given[0].upper()

    monkeypatch.setattr(translate_onnx, "OnnxTranslator", Fake)
    (tmp_path / "in").write_bytes(b"a\r\n\nb\rc")
    options = f"--folder there --input {tmp_path / 'in'} --beam-size 3 --length-penalty 0.5 --threads 2"
    monkeypatch.setattr("sys.argv", ["translate_onnx.py", *options.split(), "--target", "fr", "--domain", "law"])
    translate_onnx.main()
    assert (made, calls) == ([(Path("there"), 2)], [(line, 3, 0.5, ["fr", "law"]) for line in ("a", "", "b\rc")])
    assert capsys.readouterr().out == "A\n\nB\rC\n"
    monkeypatch.setattr("sys.argv", ["translate_onnx.py"])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("d\ré\n".encode()), encoding="latin-1"))
    translate_onnx.main()
    assert (made[1], calls[3]) == ((Path(translate_onnx.__file__).parent, 0), ("d\ré", None, None, None))


def test_the_pieces_of_a_folder_with_sentencepiece(tmp_path: Path) -> None:
    model = learned(SOURCE_TEXT)
    names = [*SPECIAL_TOKENS, *pieces_of(model), "<2de>", "<0xC3>", "<0xA9>"]
    tokenizer = SentencePieceTokenizer.of(names, model)
    write_pieces(tokenizer, tmp_path)
    pieces = Pieces(tmp_path)
    for line in (*SOURCE_TEXT, "ﬁne 日本", " two  dogs ", "<2de> </s>"):
        assert pieces.encode(line) == tokenizer.encode(line)
    assert pieces.decode(pieces.encode(SOURCE_TEXT[0])) == SOURCE_TEXT[0]
    assert pieces.decode([names.index("<0xC3>"), names.index("<0xA9>")]) == "é"
