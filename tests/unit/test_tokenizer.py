"""The subword tokeniser: lossless on any text, special tokens never read out of it, errors that explain."""

import json
import pickle
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordPiece

from transduce.config.special_ids import BOS, EOS, PAD, UNK
from transduce.errors import TokenizerError
from transduce.text import SPECIAL_TOKENS, SubwordTokenizer

ALGORITHMS = ("bpe", "wordpiece")

_CORPUS = [
    "The quick brown fox jumps over the lazy dog.",
    "Der schnelle braune Fuchs springt über den faulen Hund.",
    "She said: <s> and </s> and <unk> and <pad> are not words <s> <s> <s> </s> <unk> <pad>",
    "In 1999 and 2024, prices rose by 12.5 % ... then fell -- twice.",
    "the the the dog dogs dogged dog's über übel Übung",
] * 3

_NASTY = [
    "",
    " ",
    "   ",
    "".join(map(chr, range(256))),
    "  leading and trailing  ",
    "a  b   c\t\td\n\ne\r\n",
    "\u2028\u2029\u0085\u000b\u000c\x1c\u00a0\u3000",
    "\x00a\x00",
    "👩‍👩‍👧‍👦 🇩🇪 ñ n\u0303",
    "<s>",
    "</s><pad> <unk>",
    " <s> ",
    "<0x41><0x0A>",
    "##ing ## #",
    "▁the ▁ ▁▁",
    "Ġthe Ġ ÃĊ",
    "\ufeffBOM \ufffd \U0010ffff",
    "ไม่มีช่องว่าง 没有空格 العربية",
    "x" * 5000,
    "." * 1000 + " " * 1000,
    # Words of 100 letters, the longest that there are: 201 and 401 bytes with the space.
    "я" * 100,
    "\U00010400" * 100,
    "e\u0301" * 5000,
]


@pytest.fixture(scope="module", params=ALGORITHMS)
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SubwordTokenizer:
    """A tokenizer that was trained, saved and loaded again: what users have."""
    path = tmp_path_factory.mktemp(request.param) / "tokenizer.json"
    SubwordTokenizer.train(_CORPUS, algorithm=request.param, vocab_size=400).save(path)
    return SubwordTokenizer.load(path)


def assert_round_trip(tokenizer: SubwordTokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert not set(ids) & {PAD, BOS, EOS, UNK}


@pytest.mark.parametrize("text", _NASTY)
def test_round_trip_on_nasty_text(tokenizer: SubwordTokenizer, text: str) -> None:
    assert_round_trip(tokenizer, text)


@given(st.text())
def test_round_trip_on_any_text(tokenizer: SubwordTokenizer, text: str) -> None:
    assert_round_trip(tokenizer, text)


@given(st.text(alphabet=" <s>/unkpad#▁Ġ0x41.\n"))
def test_round_trip_on_what_looks_like_our_own_marks(tokenizer: SubwordTokenizer, text: str) -> None:
    assert_round_trip(tokenizer, text)


@given(st.data())
def test_decode_takes_any_ids(tokenizer: SubwordTokenizer, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1)))
    text = tokenizer.decode(ids)
    text.encode()
    assert tokenizer.decode([i for i in ids if i > UNK]) == text
    assert len(tokenizer.pieces(ids)) == len(ids)


@given(st.lists(st.text(), max_size=5))
def test_a_batch_is_its_texts_one_by_one(tokenizer: SubwordTokenizer, texts: list[str]) -> None:
    batch = tokenizer.encode_batch(texts)
    assert batch == [tokenizer.encode(text) for text in texts]
    assert tokenizer.decode_batch(batch) == texts


def test_special_tokens_have_the_first_ids(tokenizer: SubwordTokenizer) -> None:
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    assert tokenizer.pieces([PAD, BOS, EOS, UNK]) == list(SPECIAL_TOKENS)
    ids = tokenizer.encode("the dog")
    assert tokenizer.decode([BOS, *ids, EOS, PAD, PAD]) == "the dog"
    assert tokenizer.decode([UNK + 1]) == "!"  # the first piece of text


def test_no_piece_but_the_special_tokens_spells_one(tokenizer: SubwordTokenizer) -> None:
    vocabulary = json.loads(tokenizer.to_json())["model"]["vocab"]
    assert [token for token in vocabulary if "<" in token and len(token.lstrip("Ġ")) > 1] == list(SPECIAL_TOKENS)


def test_stock_library_reads_the_file(tokenizer: SubwordTokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    stock = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in [*_NASTY, *_CORPUS]:
        assert stock.encode(text).ids == tokenizer.encode(text)
        assert stock.decode(tokenizer.encode(text)) == text


def test_words_keep_letters_digits_and_signs_apart(tokenizer: SubwordTokenizer) -> None:
    assert tokenizer.pieces(tokenizer.encode("the dog.")) == ["▁the", "▁dog", "."]
    assert tokenizer.pieces(tokenizer.encode("the 12")) == ["▁the", "▁1", "2"]
    assert tokenizer.pieces(tokenizer.encode("\x00ß")) == ["▁", "\\x00", "\\xc3", "\\x9f"]


def test_letters_keep_their_combining_marks() -> None:
    """The vowel signs of the Hindi word are marks and no letters; NFD splits "é" into a letter and a mark."""
    for word in ("हिन्दी", unicodedata.normalize("NFD", "élève")):
        tokenizer = SubwordTokenizer.train([word] * 9, algorithm="bpe", vocab_size=400)
        assert len(tokenizer.encode(word)) == 1


def test_first_word_is_a_word_like_any_other(tokenizer: SubwordTokenizer) -> None:
    assert tokenizer.encode("dog dog") == tokenizer.encode("dog") * 2


def test_wordpiece_takes_the_longest_piece_where_bpe_follows_its_merges() -> None:
    # BPE learns a+b first (6 times), then ab+c (2 times) and, from other words, c+d (5 times).
    lines = ["ab"] * 4 + ["abc"] * 2 + ["xcd"] * 5
    wordpiece = SubwordTokenizer.train(lines, algorithm="wordpiece", vocab_size=300)
    bpe = SubwordTokenizer.train(lines, algorithm="bpe", vocab_size=300)
    assert wordpiece.pieces(wordpiece.encode("abcd")) == ["▁abc", "d"]
    assert bpe.pieces(bpe.encode("abcd")) == ["▁ab", "cd"]


@pytest.mark.parametrize("limit", [100, 400])
def test_a_limit_on_words_that_would_make_letters_unknown_is_refused(limit: int) -> None:
    """The library's own limit is 100 characters of a word, here bytes: what is longer would become <unk> whole."""
    definition = json.loads(SubwordTokenizer.train(_CORPUS, algorithm="wordpiece", vocab_size=400).to_json())
    definition["model"]["max_input_chars_per_word"] = limit
    with pytest.raises(TokenizerError, match="does not restore text exactly"):
        SubwordTokenizer.from_json(json.dumps(definition))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_vocabulary_has_the_size_asked_for(algorithm: str) -> None:
    for size in (260, 261, 300, 350):
        tokenizer = SubwordTokenizer.train(_CORPUS, algorithm=algorithm, vocab_size=size)  # type: ignore[arg-type]
        assert tokenizer.vocab_size == size
        assert tokenizer.algorithm == algorithm


def test_vocabulary_is_smaller_where_the_text_is() -> None:
    tokenizer = SubwordTokenizer.train(["ab ab"], algorithm="bpe", vocab_size=1000)
    assert tokenizer.vocab_size == 260 + len([" a", " ab"])
    assert SubwordTokenizer.train([], algorithm="bpe", vocab_size=1000).vocab_size == 260


def test_min_frequency_is_honoured() -> None:
    tokenizer = SubwordTokenizer.train(["ab ab"], algorithm="bpe", vocab_size=1000, min_frequency=3)
    assert tokenizer.vocab_size == 260


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_training_gives_the_same_tokenizer_again(algorithm: str) -> None:
    first = SubwordTokenizer.train(_CORPUS, algorithm=algorithm, vocab_size=350)  # type: ignore[arg-type]
    second = SubwordTokenizer.train(iter(_CORPUS), algorithm=algorithm, vocab_size=350)  # type: ignore[arg-type]
    assert first.to_json() == second.to_json()


def test_fingerprint_is_of_the_content(tokenizer: SubwordTokenizer) -> None:
    compact = json.dumps(json.loads(tokenizer.to_json()))
    assert compact != tokenizer.to_json()
    assert SubwordTokenizer.from_json(compact).fingerprint == tokenizer.fingerprint
    other = SubwordTokenizer.train(_CORPUS, algorithm=tokenizer.algorithm, vocab_size=350)
    assert other.fingerprint != tokenizer.fingerprint


def test_pickles(tokenizer: SubwordTokenizer) -> None:
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.encode("the dog") == tokenizer.encode("the dog")
    assert copy.fingerprint == tokenizer.fingerprint


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda t: t.encode("ab\udc80c"), r"^lone surrogate U\+DC80 at position 2"),
        (lambda t: t.encode_batch(["fine", "\ud800"]), r"^text 1: lone surrogate U\+D800 at position 0"),
        (lambda t: t.decode([5, t.vocab_size]), r"id \d+ is not in the vocabulary"),
        (lambda t: t.pieces([-1]), "id -1 is not in the vocabulary"),
    ],
)
def test_what_cannot_be_done_says_why(
    tokenizer: SubwordTokenizer, act: Callable[[SubwordTokenizer], object], message: str
) -> None:
    with pytest.raises(TokenizerError, match=message):
        act(tokenizer)


def test_training_says_what_is_wrong() -> None:
    with pytest.raises(TokenizerError, match="at least 260"):
        SubwordTokenizer.train([], algorithm="bpe", vocab_size=259)
    with pytest.raises(TokenizerError, match="'wordpiece'"):
        SubwordTokenizer.train([], algorithm="wordpieces", vocab_size=300)  # type: ignore[arg-type]
    with pytest.raises(TokenizerError, match="line 2: lone surrogate"):
        SubwordTokenizer.train(["fine", "\udfff"], algorithm="bpe", vocab_size=300)


def test_an_error_of_the_reader_comes_through_training() -> None:
    def broken() -> Iterator[str]:
        yield "fine"
        raise KeyError("from the reader")

    with pytest.raises(KeyError, match="from the reader"):
        SubwordTokenizer.train(broken(), algorithm="bpe", vocab_size=300)


def _changed(change: Callable[[dict[str, object]], object]) -> str:
    definition = json.loads(SubwordTokenizer.train([], algorithm="bpe", vocab_size=260).to_json())
    change(definition)
    return json.dumps(definition)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "damaged"),
        ('{"model": {', "damaged"),
        ('{"model": ' + "9" * 5000 + "}", "damaged"),
        ("[" * 100_000, "damaged"),
        ("[]", "no BPE or WordPiece"),
        ('{"model": {"type": [], "vocab": {}}}', "no BPE or WordPiece"),
        (Tokenizer(WordPiece({"[UNK]": 0}, unk_token="[UNK]")).to_str(), "<pad> is not id 0"),
        (_changed(lambda d: d.pop("normalizer")), "damaged|restore text"),
        (_changed(lambda d: d.update(decoder=None)), "restore text"),
        (_changed(lambda d: d.update(pre_tokenizer=7)), "damaged"),
        (_changed(lambda d: d["model"]["vocab"].pop("Z")), "1 of the 256 bytes"),
        (_changed(lambda d: d["model"]["vocab"].update({"ZZ": 999})), "without gaps"),
        (_changed(lambda d: d["model"]["vocab"].update({"Z": None})), "without gaps"),
        (_changed(lambda d: d["model"]["vocab"].update({"Z": "90"})), "damaged|without gaps"),
        (_changed(lambda d: d["model"]["vocab"].update({"Z Z": 260})), "not made of bytes"),
        (_changed(lambda d: d.update(added_tokens=[{"id": 1, "content": "<s>"}])), "added_tokens"),
    ],
)
def test_a_damaged_or_foreign_file_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(content)
    with pytest.raises(TokenizerError, match=message) as caught:
        SubwordTokenizer.load(path)
    assert str(path) in str(caught.value)


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"missing\.json"):
        SubwordTokenizer.load(tmp_path / "missing.json")
    (tmp_path / "binary.json").write_bytes(b'{"a\xff')
    with pytest.raises(TokenizerError, match=r"binary.json: damaged: not UTF-8 at byte 3"):
        SubwordTokenizer.load(tmp_path / "binary.json")


def test_bpe_learns_what_subword_nmt_learns(shared: Path) -> None:
    """Compares our pieces and segmentations with subword-nmt's on its own corpus.

    subword-nmt marks the end of a word, we mark its beginning: with every word reversed, the two are the same
    algorithm, but for the mark being a symbol of its own with us ("␣", "e" against "e</w>") and for ties.
    """
    folder = shared / "conformance/subword-nmt"
    lines = [line.split() for line in (folder / "corpus.en").read_text().splitlines()]
    merges = [line.split() for line in (folder / "bpe.ref").read_text().splitlines()[1:]]
    reversed_lines = (" ".join(word[::-1] for word in line) for line in lines)
    tokenizer = SubwordTokenizer.train(reversed_lines, algorithm="bpe", vocab_size=4 + 256 + 1050)

    theirs = {piece for a, b in merges if (piece := a + b).removesuffix("</w>").isalpha()}
    ours = {
        piece.replace("▁", ">w/<")[::-1]
        for piece in tokenizer.pieces(range(260, tokenizer.vocab_size))
        if piece.removeprefix("▁").isalpha() and len(piece.removeprefix("▁")) > 1
    }
    assert len(theirs) == 972
    assert len(ours & theirs) >= 0.85 * len(theirs)

    num_words = num_same = 0
    for words, segmented in zip(lines, (folder / "corpus.bpe.ref.en").read_text().splitlines(), strict=True):
        for word, expected in zip(words, segmented.replace("@@ ", "@@").split(), strict=True):
            if word.isalpha():
                pieces = tokenizer.pieces(tokenizer.encode(word[::-1]))
                found = [piece.removeprefix("▁")[::-1] for piece in reversed(pieces)]
                num_words += 1
                num_same += [piece for piece in found if piece] == expected.split("@@")
    assert num_words == 21557
    assert num_same >= 0.9 * num_words


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_is_whole_can_be_one_piece_and_stays_lossless(algorithm: str) -> None:
    corpus = ["(S (NP DT NN )NP )S"] * 5
    pattern = r"[()][^\s()<]{1,100}"
    plain = SubwordTokenizer.train(corpus, algorithm=algorithm, vocab_size=300)  # type: ignore[arg-type]
    whole = SubwordTokenizer.train(corpus, algorithm=algorithm, vocab_size=300, whole=pattern)  # type: ignore[arg-type]
    assert whole.pieces(whole.encode(corpus[0])) == ["▁(S", "▁(NP", "▁DT", "▁NN", "▁)NP", "▁)S"]
    assert len(plain.encode(corpus[0])) == 10
    for text in [*_NASTY, "(<s>", " ((NP)NP", "(" * 300, "(" + "x" * 300]:
        assert whole.decode(whole.encode(text)) == text
        assert min(whole.encode(text), default=len(SPECIAL_TOKENS)) >= len(SPECIAL_TOKENS)
    assert SubwordTokenizer.from_json(whole.to_json()).encode(corpus[0]) == whole.encode(corpus[0])


def test_a_file_that_makes_the_library_panic_is_damaged(tmp_path: Path) -> None:
    """A panic is no Exception: whoever catches those alone ends in a traceback."""
    definition = json.loads(SubwordTokenizer.train(["a dog, a dog"], algorithm="bpe", vocab_size=265).to_json())
    definition["model"]["continuing_subword_prefix"] = "0" * 64
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition))
    with pytest.raises(TokenizerError, match=r"tokenizer\.json: damaged"):
        SubwordTokenizer.load(tmp_path / "tokenizer.json")
