"""The tokenizers of imported models against the package sentencepiece, and what our code relies on."""

import base64
import io
import json
import pickle
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from transduce.errors import TokenizerError
from transduce.text import EOS, SPECIAL_TOKENS, UNK, SentencePieceTokenizer, load_tokenizer
from transduce.text.new_words import added_pieces, frequent_words, with_new_words

TEXT = [
    *("The café was naïve about prices.", "A dog runs on the grass.", "Two dogs run over the green field."),
    *("Der Übersetzer läuft über die Straße.", "Ein Hund rennt.", "Zwei Hunde laufen über das grüne Feld."),
]
LINES = [
    *(
        *TEXT,
        "",
        " ",
        "  two  spaces ",
        "tab\tand\u00a0space",
        "ﬁne ① ㎏",
        "e\u0301 U\u0308ber",
        "日本語 한국어",
        "\u200bx\ufeff",
    ),
    *("<unk> </s> <pad> <s> <2de>", ">>deu<< Hund", "😀 dog", "a\u0327\u0301", "\u1100\u1161\u11a8", "▁low line_"),
]
SETTINGS: dict[str, dict[str, Any]] = {
    "unigram": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc"},
    "unigram, case folded": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc_cf"},
    "unigram, bytes": {"model_type": "unigram", "byte_fallback": True, "normalization_rule_name": "nfkc"},
    "bpe": {"model_type": "bpe", "normalization_rule_name": "nmt_nfkc"},
    "bpe, bytes, as it is": {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity"},
    "user symbols": {"model_type": "unigram", "user_defined_symbols": ["▁dog", "<x>"]},
    "spaces kept": {"model_type": "unigram", "remove_extra_whitespaces": False},
}


@cache
def model(kind: str = "unigram", side: int = 0) -> bytes:
    """Returns a model that was learned from the text, or from one half of it."""
    lines = {0: TEXT, 1: TEXT[:3], 2: TEXT[3:]}[side]
    written, size = io.BytesIO(), 400 if "bytes" in kind else 120 if not side else 80
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 20),
        model_writer=written,
        vocab_size=size,
        hard_vocab_limit=False,
        bos_id=-1,
        eos_id=0,
        unk_id=1,
        pad_id=-1,
        minloglevel=2,
        **SETTINGS[kind],
    )
    return written.getvalue()


@cache
def processor(kind: str = "unigram", side: int = 0) -> Any:
    return sentencepiece.SentencePieceProcessor(model_proto=model(kind, side))


def pieces_of(kind: str = "unigram", side: int = 0) -> list[str]:
    own = processor(kind, side)
    return [own.id_to_piece(index) for index in range(own.get_piece_size()) if index > 1]  # after </s> and <unk>


def made(kind: str = "unigram") -> SentencePieceTokenizer:
    return SentencePieceTokenizer.of([*SPECIAL_TOKENS, *pieces_of(kind)], model(kind))


@pytest.mark.parametrize("kind", SETTINGS)
def test_ids_and_texts_are_those_of_sentencepiece(kind: str) -> None:
    tokenizer, own = made(kind), processor(kind)
    lines = [unicodedata.normalize(form, line) for line in LINES for form in ("NFC", "NFD")]
    for line, ids in zip(lines, tokenizer.encode_batch(lines), strict=True):
        expected = own.encode(line)
        # Our ids are two greater from the first ordinary piece on; unknown pieces are one id.
        assert ids == [UNK if index == 1 else index + 2 for index in expected], line
        assert tokenizer.encode(line) == ids
        if UNK not in ids and not line.startswith((" ", "▁")):  # of these, other spaces come back
            assert tokenizer.decode(ids) == own.decode(expected), line


@pytest.mark.parametrize("kind", SETTINGS)
def test_tokens_cover_the_text_as_it_was(kind: str) -> None:
    tokenizer = made(kind)
    for line in LINES:
        ids = tokenizer.encode(line)
        parts = tokenizer.covered(line, ids)
        assert len(parts) == len(ids)
        assert b"".join(parts).decode() == (f" {line}" if ids else "")
        assert tokenizer.covered(line, ids[:2]) == parts[:2]
    assert tokenizer.covered("ﬁne dog", tokenizer.encode("ﬁne dog"))[-1].endswith(b"g")


def test_text_that_looks_like_a_token_is_text() -> None:
    tokenizer = made().with_tags(["<2de>", "<domain:law>"])
    assert tokenizer.tags == {"<2de>": tokenizer.vocab_size - 2, "<domain:law>": tokenizer.vocab_size - 1}
    ids = tokenizer.encode("</s> <pad> <s> <2de> <domain:law>")
    assert not {0, 1, EOS, *tokenizer.tags.values()} & {*ids}
    assert tokenizer.decode([*tokenizer.tags.values(), *tokenizer.encode("Ein Hund"), EOS]) == "Ein Hund"
    assert tokenizer.with_tags(["<2de>"]) is tokenizer
    assert added_pieces(made(), tokenizer) == ["<2de>", "<domain:law>"]


def test_two_models_and_one_vocabulary() -> None:
    """As in OPUS-MT: the id of a piece is that of the vocabulary, whichever side it comes from."""
    first, second = (pieces_of(side=side) for side in (1, 2))
    vocabulary = [*SPECIAL_TOKENS, *dict.fromkeys([*second, *first])]
    tokenizer = SentencePieceTokenizer.of(vocabulary, model(side=1), model(side=2))
    target = tokenizer.target
    for each, side, line in ((tokenizer, 1, TEXT[1]), (target, 2, TEXT[4])):
        pieces = processor(side=side).encode(line, return_type=str)
        assert each.encode(line) == [vocabulary.index(piece) for piece in pieces]
        assert each.decode(each.encode(line)) == line
    assert tokenizer.target_vocab_size == 0
    assert tokenizer.vocab_size == target.vocab_size == len(vocabulary)
    assert target.target is target
    # "ß" is no piece of the first model, but one of the vocabulary: the text of an unknown piece is looked up.
    assert "ß" in vocabulary
    assert "ß" not in first
    assert vocabulary.index("ß") in tokenizer.encode("ß")
    only_first = next(name for name in first if name not in second and name.startswith("▁") and len(name) > 1)
    assert target.decode([vocabulary.index(only_first)]) == only_first[1:]


def test_two_vocabularies() -> None:
    first, second = ([*SPECIAL_TOKENS, *pieces_of(side=side)] for side in (1, 2))
    tokenizer = SentencePieceTokenizer.of(first, model(side=1), model(side=2), second)
    assert (tokenizer.vocab_size, tokenizer.target_vocab_size) == (len(first), len(second))
    assert tokenizer.target.encode(TEXT[3]) == [i + 2 for i in processor(side=2).encode(TEXT[3])]
    assert tokenizer.with_tags(["<2de>"]).target_vocab_size == len(second)  # tags are read, never written


def test_files_copies_and_processes(tmp_path: Path) -> None:
    tokenizer = SentencePieceTokenizer.of([*SPECIAL_TOKENS, *pieces_of()], model(), model("bpe"))
    tokenizer.save(tmp_path / "tokenizer.json")
    read = load_tokenizer(tmp_path / "tokenizer.json")
    assert isinstance(read, SentencePieceTokenizer)
    assert read.models == (model(), model("bpe"))
    for each in (read, pickle.loads(pickle.dumps(tokenizer))):
        assert each.fingerprint == tokenizer.fingerprint
        assert each.to_json() == tokenizer.to_json()
    target = pickle.loads(pickle.dumps(tokenizer.target))
    assert target.encode(TEXT[0]) == tokenizer.target.encode(TEXT[0]) != tokenizer.encode(TEXT[0])
    assert not tokenizer.exact


def test_bytes_and_names() -> None:
    tokenizer = made("unigram, bytes")
    ids = tokenizer.encode("dog 語")
    assert b"".join(tokenizer.piece_bytes(ids)) == b" dog " + "語".encode()
    assert tokenizer.pieces(ids)[-3:] == ["\\xe8", "\\xaa", "\\x9e"]
    assert tokenizer.pieces([EOS]) == ["</s>"]
    assert {tokenizer.tokens()[index] for index in tokenizer.ids_beginning_with(b" d")} == {
        name for name in tokenizer.tokens() if name.startswith("▁d")
    }


def test_a_definition_of_the_package_tokenizers() -> None:
    names = pieces_of()
    scores = [(name, -float(index)) for index, name in enumerate(["<unk>", *names])]
    other = Tokenizer(models.Unigram(scores, unk_id=0))
    other.normalizer = normalizers.NFKC()
    other.pre_tokenizer = pre_tokenizers.Metaspace()
    other.decoder = decoders.Metaspace()
    tokenizer = SentencePieceTokenizer.of([*SPECIAL_TOKENS, *names], json.loads(other.to_str()))
    for line in TEXT:
        assert tokenizer.encode(line) == [index + 3 for index in other.encode(line).ids]
        assert tokenizer.decode(tokenizer.encode(line)) == other.decode(other.encode(line).ids)
        assert b"".join(tokenizer.covered(line, tokenizer.encode(line))).decode() == f" {line}"


def test_a_special_token_of_the_package_tokenizers_is_text() -> None:
    names = pieces_of()
    scores = [(name, -float(index)) for index, name in enumerate(["<unk>", *names])]
    other = Tokenizer(models.Unigram(scores, unk_id=0))
    other.pre_tokenizer = pre_tokenizers.Metaspace()
    text = "A dog</s> runs."
    expected = other.encode(text).ids
    other.add_special_tokens(["</s>"])
    tokenizer = SentencePieceTokenizer.of([*SPECIAL_TOKENS, *names], json.loads(other.to_str()))
    assert "</s>" in other.encode(text).tokens
    assert tokenizer.encode(text) == [index + 3 for index in expected]


def test_a_tokenizer_without_an_unknown_piece_is_refused() -> None:
    other = Tokenizer(models.Unigram([("▁", -1.0)], unk_id=None))
    with pytest.raises(TokenizerError, match="cannot cut a text into pieces"):
        SentencePieceTokenizer.of(SPECIAL_TOKENS, json.loads(other.to_str()))


def test_only_the_space_that_a_first_piece_begins_with_is_left_out() -> None:
    tokenizer = made("spaces kept")
    ids = [tokenizer.tokens().index(piece) for piece in ("▁", "▁dog", "▁")]
    assert tokenizer.decode(ids) == " dog "  # of "  dog "


def test_new_words_are_refused_and_none_are_not() -> None:
    tokenizer = made()
    assert with_new_words(tokenizer, []) is tokenizer
    for call in (lambda: with_new_words(tokenizer, ["Zebra"]), lambda: frequent_words(["a b"], tokenizer, 3)):
        with pytest.raises(TokenizerError, match="an imported model keeps its vocabulary"):
            call()


def damaged(**changes: Any) -> str:
    values = {"format": "sentencepiece", "vocabulary": [*SPECIAL_TOKENS, *pieces_of()]}
    values["source_model"] = base64.b64encode(model()).decode()
    return json.dumps({key: value for key, value in (values | changes).items() if value is not None})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "damaged"),
        ('{"format": "sentencepiece"}', "damaged: 'vocabulary'"),
        (damaged(source_model=None), "damaged: 'source_model'"),
        (damaged(vocabulary=[1, 2, 3, 4]), "'vocabulary' is not a list of pieces"),
        (damaged(vocabulary=None), "'vocabulary'"),
        (damaged(vocabulary=["<s>", "<pad>", "</s>", "<unk>"]), "'vocabulary' does not begin with <pad>, <s>"),
        (damaged(vocabulary=[*SPECIAL_TOKENS, "a", "b", "a"]), "'vocabulary' has the piece 'a' twice"),
        (damaged(target_vocabulary=["a"]), "'target_vocabulary' does not begin with"),
        (damaged(source_model="????"), "damaged"),
        (damaged(source_model=base64.b64encode(model()[:500]).decode()), "its SentencePiece model is damaged"),
        (damaged(source_model=""), "its SentencePiece model is damaged"),
        (damaged(source_model=7), "neither SentencePiece's nor"),
        (damaged(source_model={"model": {"type": "Unigram"}}), "its tokenizer is damaged"),
        (damaged(target_model="AAAA"), "its SentencePiece model is damaged"),
    ],
)
def test_damaged_files_are_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(text)
    with pytest.raises(TokenizerError) as caught:
        SentencePieceTokenizer.load(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_words_must_be_marked_at_their_beginning() -> None:
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT * 20),
        model_writer=written,
        vocab_size=100,
        hard_vocab_limit=False,
        treat_whitespace_as_suffix=True,
        minloglevel=2,
    )
    own = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    names = [own.id_to_piece(index) for index in range(3, own.get_piece_size())]
    with pytest.raises(TokenizerError, match="its pieces end with ▁"):
        SentencePieceTokenizer.of([*SPECIAL_TOKENS, *names], written.getvalue())
    with pytest.raises(TokenizerError, match="its pieces end with ▁"):
        SentencePieceTokenizer.of(
            [*SPECIAL_TOKENS, *pieces_of()], model(), written.getvalue(), [*SPECIAL_TOKENS, *names]
        )


def test_a_lone_surrogate_is_named() -> None:
    with pytest.raises(TokenizerError, match=r"text 1: lone surrogate U\+D800"):
        made().encode_batch(["a", "\ud800"])
