"""New words for a vocabulary. Each becomes one more piece; the pieces before it keep their ids.

    "Kubernetes"   " K" "u" "ber" "net" "es"   →   " Kubernetes"

With BPE no merge is added. A word that is a piece is no longer built by merges (`ignore_merges`), so that all other
text is cut as before. WordPiece takes the longest piece that matches, so it also finds a new word at the beginning of a
longer one. A new word is found after white space or at the start of a text, where words begin with a space.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from transduce.errors import TokenizerError
from transduce.text.definition import BYTE_OF_CHARACTER
from transduce.text.subword import SubwordTokenizer
from transduce.text.tokenizer import Tokenizer

_BEFORE = "a"  # any word: what comes after it is preceded by a space
_SPACE = "Ġ"  # a space in the byte-level alphabet
_MAX_SHOWN = 5


def _own(tokenizer: Tokenizer) -> SubwordTokenizer:
    """Returns a tokeniser of ours as such; raises TokenizerError for one of an imported model."""
    if not isinstance(tokenizer, SubwordTokenizer):
        raise TokenizerError("an imported model keeps its vocabulary: no words can be added to it.")
    return tokenizer


def with_new_words(tokenizer: Tokenizer, words: Iterable[str]) -> Tokenizer:
    """Returns the tokeniser with one more piece for each word that is not a piece yet.

    Raises:
        TokenizerError: a word is more than one word for the tokeniser; or its vocabulary has pieces that it never uses;
            or it is that of an imported model.
    """
    words = list(words)
    if not words:
        return tokenizer
    tokenizer = _own(tokenizer)
    definition = json.loads(tokenizer.to_json())
    vocabulary: dict[str, int] = definition["model"]["vocab"]
    for word in words:
        vocabulary.setdefault(_piece(tokenizer, word), len(vocabulary))
    if len(vocabulary) == tokenizer.vocab_size:
        return tokenizer
    if tokenizer.algorithm == "bpe":
        _require_all_used(tokenizer)
        definition["model"]["ignore_merges"] = True
    return SubwordTokenizer.from_json(json.dumps(definition, ensure_ascii=False, indent=1) + "\n")


def _piece(tokenizer: SubwordTokenizer, word: str) -> str:
    """Returns the piece for a word, as the vocabulary names it."""
    if not word or word != word.strip():
        raise TokenizerError(f"{word!r}: not a word to add: it is empty, or has white space around it.")
    found = tokenizer.words(f"{_BEFORE} {word}")[1:]
    if len(found) != 1:
        raise TokenizerError(
            f"{word[:80]!r}: cannot become one piece of the vocabulary: this tokenizer cuts text at white space, "
            f"digits and signs, and this into {len(found)}. Add its parts."
        )
    return found[0]


def _require_all_used(tokenizer: SubwordTokenizer) -> None:
    """Checks that each word that is a piece already is built by merges, so that `ignore_merges` changes no text."""
    unused = [name for name in tokenizer.tokens() if _is_word(tokenizer, name) and len(tokenizer.ids_of_word(name)) > 1]
    if unused:
        raise TokenizerError(
            f"This tokenizer has {len(unused)} pieces that its merges never make, for example "
            f"{', '.join(map(repr, unused[:_MAX_SHOWN]))}. New words would bring them into use, and the model has not "
            "learned them. Leave out init.words, init.words_file and init.new_words."
        )


def added_pieces(old: Tokenizer, new: Tokenizer) -> list[str]:
    """Returns the words and tags that `new` has more than `old`, in the order of their ids.

    Raises:
        TokenizerError: `new` is not `old` with new words and tags.
    """
    if isinstance(old, SubwordTokenizer) and isinstance(new, SubwordTokenizer):
        ours, theirs = (_without_words(each, old.vocab_size) for each in (old, new))
        is_same, in_bytes = ours == theirs, True
    else:
        is_same, in_bytes = new.fingerprint == old.with_tags(new.tags).fingerprint, False
    if not is_same:
        raise TokenizerError("The tokenizer is another one, and not only by new words and tags.")
    return [_text(piece) if in_bytes else piece for piece in new.tokens()[old.vocab_size :]]


def added_words(old: Tokenizer, new: Tokenizer) -> list[str]:
    """Returns what `added_pieces` does, without tags."""
    return [piece for piece in added_pieces(old, new) if piece not in new.tags]


def _without_words(tokenizer: SubwordTokenizer, vocab_size: int) -> dict[str, Any]:
    """Returns a definition with the first `vocab_size` pieces, without what new words need."""
    definition: dict[str, Any] = json.loads(tokenizer.to_json())
    model = definition["model"]
    model["vocab"] = {name: index for name, index in model["vocab"].items() if index < vocab_size}
    model.pop("ignore_merges", None)
    return definition


def former_pieces(old: Tokenizer, words: Iterable[str], read: Callable[[str], str] = str) -> list[tuple[int, ...]]:
    """Returns the ids that each word had before it became a piece; `read` writes it as the model read it."""
    before = len(old.encode(_BEFORE))
    return [tuple(old.encode(f"{_BEFORE} {read(word)}")[before:]) for word in words]


def frequent_words(texts: Iterable[str], tokenizer: Tokenizer, count: int, *, min_frequency: int = 1) -> list[str]:
    """Returns the most frequent words of `texts` that are several pieces, and could be one.

    Words of signs only are left out. Where two are equally frequent, the first in the order of Unicode comes first.

    Args:
        texts: sentences.
        tokenizer: cuts them.
        count: how many words to return at most.
        min_frequency: how often a word must occur.

    Raises:
        TokenizerError: it is the tokeniser of an imported model.
    """
    tokenizer = _own(tokenizer)
    chunks: Counter[str] = Counter()
    for text in texts:
        chunks.update(text.split())
    words: Counter[str] = Counter()
    for chunk, frequency in chunks.items():
        for first in tokenizer.words(f"{_BEFORE} {chunk}")[1:2]:
            if len(tokenizer.ids_of_word(first)) > 1:
                words[first] += frequency
    named = ((_text(word), frequency) for word, frequency in words.items() if frequency >= min_frequency)
    wanted = [(word, frequency) for word, frequency in named if any(map(str.isalpha, word))]
    return [word for word, _ in sorted(wanted, key=lambda item: (-item[1], item[0]))[:count]]


def _text(word: str) -> str:
    """Returns a word of the byte-level alphabet as text, without the space before it."""
    return bytes(map(BYTE_OF_CHARACTER.__getitem__, word)).decode().removeprefix(" ")


def _is_word(tokenizer: SubwordTokenizer, piece: str) -> bool:
    """Returns whether a piece can be a whole word of a text; special tokens and halves of characters cannot."""
    try:
        words = tokenizer.words(_text(piece))
    except UnicodeDecodeError:
        return False
    return [word.removeprefix(_SPACE) for word in words] == [piece.removeprefix(_SPACE)]
