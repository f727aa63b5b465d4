"""`Parser` over an engine that says what it is told to: what becomes of words and of outputs."""

import dataclasses
import itertools
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from transduce import Parser
from transduce.config import DecodeConfig
from transduce.data.progress import progress_bar
from transduce.decoding.constraints import TokenConstraints
from transduce.decoding.scores import Hypothesis
from transduce.parser import bracket_pieces
from transduce.text import SubwordTokenizer
from transduce.translation.translator import Translator
from transduce.treebank import Tree, parse_trees
from transduce.treebank.pairs import WHOLE

_ANSWERS = {
    "The dog barks .": "(S (NP DT NN )NP (VP VBZ )VP . )S",
    "f-LRB-x-RRB- 10\u00a0mg": "(NP NN NN )NP",
    "Rain falls": "(S (NP NN )NP (VP VBZ",
    "one two three": "",
}
_TOKENIZER = SubwordTokenizer.train(
    [text for pair in _ANSWERS.items() for text in pair], algorithm="bpe", vocab_size=300, whole=WHOLE
)

_FIXTURE = Path(__file__).resolve().parents[1] / "fixtures" / "0.1.0" / "parser"


class ToldEngine:
    """Answers each known sentence as `_ANSWERS` says."""

    name = "told"
    max_source_tokens = 40
    independent_lines = True

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def translate(
        self, sources: Sequence[Sequence[int]], options: DecodeConfig, n_best: int = 1
    ) -> list[list[Hypothesis]]:
        return [[self._answer(source, options)] for source in sources]

    def _answer(self, source: Sequence[int], options: DecodeConfig) -> Hypothesis:
        sentence = _TOKENIZER.decode(source)
        self.sentences.append(sentence)
        ids = _TOKENIZER.encode(_ANSWERS.get(sentence, "")) if sentence else []
        return Hypothesis(ids, score=-float(options.beam_size), log_probability=-1.0, finished=sentence != "Rain falls")


@pytest.fixture
def parser() -> Parser:
    return Parser(Translator(ToldEngine(), _TOKENIZER, DecodeConfig(batch_size=2)))


def test_parse(parser: Parser) -> None:
    trees = parser.parse(["The dog  barks\t.", "", "f(x) 10\u00a0mg", " ", "Rain falls", "one two three"])
    assert [tree and str(tree) for tree in trees] == [
        "(S (NP (DT The) (NN dog)) (VP (VBZ barks)) (. .))",
        None,
        "(NP (NN f-LRB-x-RRB-) (NN 10\u00a0mg))",
        None,
        "(S (NP (NN Rain)) (VP (VBZ falls)))",
        "(TOP (XX one) (XX two) (XX three))",
    ]


def test_a_sentence_alone_is_no_list_of_sentences(parser: Parser) -> None:
    with pytest.raises(TypeError, match=r"for a single one, \[sentence\]\.$"):
        parser.parse("The dog barks .")


def test_stream_reports_repaired_and_cut_parses(parser: Parser) -> None:
    sentences = ["The dog barks .", "", "Rain falls", "one two three", "x " * 60]
    parses = list(parser.stream(sentences))
    assert [parse.repaired for parse in parses] == [False, False, True, True, True]
    assert [parse.finished for parse in parses] == [True, True, False, True, True]
    assert [parse.source_truncated for parse in parses] == [False, False, False, False, True]
    assert parses[2].words == ("Rain", "falls")
    assert parses[4].tree is not None
    assert len(parses[4].tree.leaves()) == 60
    assert parses[0].score == -4.0
    options = dataclasses.replace(parser.translator.options, beam_size=7)
    assert next(parser.stream(sentences, options=options)).score == -7.0


def test_stream_reads_no_further_than_it_must(parser: Parser) -> None:
    num_read = 0

    def endless() -> Iterator[str]:
        nonlocal num_read
        while True:
            num_read += 1
            yield "Rain falls"

    next(parser.stream(endless()))
    assert 0 < num_read <= 100


def test_without_constraints_a_stream_keeps_no_sentence(parser: Parser, monkeypatch: pytest.MonkeyPatch) -> None:
    class Words(list[str]):
        """Words of which it can be known whether they are still in memory."""

    made: list[weakref.ref[Words]] = []

    def sentence_words(sentence: str) -> Words:
        words = Words(sentence.split())
        made.append(weakref.ref(words))
        return words

    monkeypatch.setattr("transduce.parser.sentence_words", sentence_words)
    parses = parser.stream(itertools.repeat("Rain falls"))
    for _ in range(1000):
        next(parses)
    assert len(made) >= 1000
    assert sum(words() is not None for words in made) <= 200  # those of one window


def test_search_options_reach_the_engine(parser: Parser, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[DecodeConfig] = []
    original = parser.translator.stream

    def watched(*arguments: object, options: DecodeConfig, **rest: object) -> object:
        seen.append(options)
        return original(*arguments, options=options, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(parser.translator, "stream", watched)
    parser.parse(["Rain falls"], beam_size=21, length_penalty=0.3, max_extra_tokens=300, batch_size=5)
    assert seen == [DecodeConfig(beam_size=21, length_penalty=0.3, max_extra_tokens=300, batch_size=5)]


def test_score(parser: Parser) -> None:
    gold: list[Tree] = list(
        parse_trees(["(S (NP (DT The) (NN dog)) (VP (VBZ barks)) (. .))(S (NP (NN Rain)) (NN falls))"], "gold")
    )
    scores = parser.score(gold)
    # Of 5 gold brackets 5 are found, of 6 parsed ones 5 are right; of 5 words that count 4 have the right tag.
    assert (scores["recall"], scores["precision"]) == (100, pytest.approx(100 * 5 / 6))
    assert (scores["tagging_accuracy"], scores["repaired"]) == (80, 50)


def test_a_score_shows_its_progress_and_searches_as_it_is_told(parser: Parser, monkeypatch: pytest.MonkeyPatch) -> None:
    gold: list[Tree] = list(parse_trees(["(S (NP (DT The) (NN dog)) (VP (VBZ barks)) (. .))"], "gold"))
    bars: list[object] = []
    searches: list[object] = []
    stream = parser.stream

    def shown(*given: object, **options: object) -> object:
        bars.append((given, options))
        return progress_bar(*given, **options | {"shown": False})  # type: ignore[arg-type]

    def searched(sentences: object, *, options: DecodeConfig | None = None) -> object:
        searches.append(options)
        return stream(sentences, options=options)  # type: ignore[arg-type]

    monkeypatch.setattr("transduce.parser.progress_bar", shown)
    monkeypatch.setattr(parser, "stream", searched)
    wide = DecodeConfig(beam_size=21)
    parser.score(gold, options=wide, label="parsing wsj")
    parser.score(gold)
    assert bars == [
        (("parsing wsj", 1), {"unit": " sentences", "shown": True}),
        (("", 1), {"unit": " sentences", "shown": False}),
    ]
    assert searches == [wide, None]


def test_the_model_reads_a_sentence_as_it_was_trained_to(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ToldEngine()
    monkeypatch.setattr("transduce.parser.sentence_reader", lambda data, tokenizer: str.upper)
    [tree] = Parser(Translator(engine, _TOKENIZER, DecodeConfig())).parse(["one two"])
    assert engine.sentences == ["ONE TWO"]
    assert tree is not None
    assert [leaf.word for leaf in tree.leaves()] == ["one", "two"]


def test_a_parser_is_loaded_as_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[object] = []

    def load(_: type[Translator], *given: object, **options: object) -> Translator:
        received.append((given, options))
        return Translator(ToldEngine(), _TOKENIZER, DecodeConfig())

    monkeypatch.setattr(Translator, "load", classmethod(load))
    given = {"engine": "torch", "device": "cpu", "threads": 3, "quantization": "int8"}
    Parser.load(_FIXTURE, **given)  # type: ignore[arg-type]
    assert received == [((_FIXTURE,), given)]


@pytest.mark.parametrize(
    ("engine", "options", "loaded", "constrained"),
    [
        ("torch", {}, "torch", True),
        ("torch", {"constrained": False}, "torch", False),
        ("ctranslate2", {}, "ctranslate2", False),
        ("auto", {}, "torch", True),
        ("auto", {"constrained": False}, "auto", False),
        ("auto", {"quantization": "int16"}, "ctranslate2", False),  # torch has no int16
    ],
)
def test_the_engine_that_can_is_constrained_unless_told_otherwise(
    engine: str, options: dict[str, Any], loaded: str, constrained: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []

    class SeenParser(Parser):
        def __init__(self, translator: Translator, *, constrained: bool) -> None:
            seen.append(constrained)

    monkeypatch.setattr(Translator, "load", lambda _, *, engine, **__: seen.append(engine))
    SeenParser.load(_FIXTURE, engine=engine, device="cpu", **options)
    assert seen == [loaded, constrained]


def test_without_labels_of_one_piece_the_faster_engine_parses(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing that the slower one could search."""
    engines: list[str] = []

    def load(_: Path, *, engine: str, **options: object) -> Translator:
        engines.append(engine)
        return Translator(ToldEngine(), _TOKENIZER, DecodeConfig())

    monkeypatch.setattr(Translator, "load", load)
    monkeypatch.setattr("transduce.parser.bracket_pieces", lambda tokenizer: None)
    Parser.load(_FIXTURE, device="cpu")
    assert engines == ["auto"]


def test_the_pieces_of_brackets() -> None:
    """Only NP is a piece with both brackets; a leaf begins with a space; white space or a bracket is no part of one."""
    spelled = _TOKENIZER.piece_bytes(range(_TOKENIZER.vocab_size))
    pieces = bracket_pieces(_TOKENIZER)
    assert pieces is not None
    assert [(spelled[one], spelled[other]) for one, other in pieces.closing.items()] == [(b" (NP", b" )NP")]
    leaves, continuing = ({spelled[index] for index in ids} for ids in (pieces.leaves, pieces.continuing))
    assert b" NN" in leaves
    assert {b"N", b".", b"\xc3"} <= continuing
    assert not leaves & continuing
    assert all(piece.startswith(b" ") and piece != b" " for piece in leaves)
    assert not {b"", b" ", b"(", b")", b"\n", b"\t", b" (", b" )"} & (leaves | continuing)
    without = SubwordTokenizer.train(["A dog runs."] * 3, algorithm="bpe", vocab_size=270)
    assert bracket_pieces(without) is None


def test_a_constrained_parser_asks_for_a_leaf_each_word() -> None:
    received: list[TokenConstraints] = []

    class BoundEngine(ToldEngine):
        def translate(  # type: ignore[override]
            self,
            sources: Sequence[Sequence[int]],
            options: DecodeConfig,
            n_best: int,
            constraints: Sequence[TokenConstraints],
        ) -> list[list[Hypothesis]]:
            received.extend(constraints)
            return super().translate(sources, options, n_best)

    parser = Parser(Translator(BoundEngine(), _TOKENIZER, DecodeConfig()), constrained=True)
    sentences = ["The dog  barks\t.", "", "f(x) 10\u00a0mg", "( )"]
    assert [tree and len(tree.leaves()) for tree in parser.parse(sentences)] == [4, None, 2, 2]
    assert [each.brackets and each.brackets.num_leaves for each in received] == [4, None, 2, 2]
    assert {each.brackets.pieces.max_depth for each in received if each.brackets} == {200}
