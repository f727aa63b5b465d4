"""Signatures of rare words: their shape replaces them, so that each word of a parser's sentence is one token.

A parser's output has one tag for each word and no spelling, so the parser has to count words to know where it is. If
rare words are cut into several pieces, it learns this many times more slowly (docs/lab-log.md). Chart parsers replace
unknown words by what can be seen of them: a capital, a digit, a hyphen, the ending. Here, words that are not one piece
of the vocabulary are replaced in the same way.

    The snarkiest Boojum-4711   →   The UNK-est UNK-C-N-H
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from transduce.errors import ConfigError

# Matches a word, so that frequent words become one piece of a vocabulary. No special token matches.
WHOLE = r"[^\s<]{1,100}"

# The signature that all words share.
ANY = "UNK"

_MIN_COUNT = 3  # of a word in the sample; rarer words are replaced by their signatures
_MIN_WORDS = 10  # rare words that share a signature, for it to be in the vocabulary
_ENDINGS = (3, 2)  # letters


def signatures(word: str) -> Iterator[str]:
    """Yields the signatures of a word, the most specific first; the last is the same for all words."""
    flags = "-C" if word[:1].isupper() else ""
    flags += "-N" if any(letter.isnumeric() for letter in word) else ""
    flags += "-H" if "-" in word[1:-1] else ""
    endings = [word[-count:].lower() for count in _ENDINGS if len(word) > count + 1 and word[-count:].isalpha()]
    for shape in dict.fromkeys((f"{ANY}{flags}", ANY)):
        yield from (f"{shape}-{ending}" for ending in endings)
        yield shape


class Spelling:
    """Writes words for a model: known words unchanged, other words as their signatures."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = frozenset(known)

    @classmethod
    def of_pieces(cls, pieces: Iterable[bytes]) -> "Spelling":
        """Returns the spelling in which each word is one of a vocabulary's pieces.

        Args:
            pieces: the bytes of each piece; those of a whole word begin with a space.

        Raises:
            ConfigError: the vocabulary was not learned with signatures.
        """
        words = frozenset(word for piece in pieces if piece.startswith(b" ") and (word := _decoded(piece[1:])))
        if ANY not in words:
            raise ConfigError(
                f"data.rare_words = 'signatures': '{ANY}', which can replace any word, is not in this vocabulary. "
                "Learn the tokenizer with this setting and a larger text.vocab_size, or set it to 'pieces'."
            )
        return cls(words)

    @classmethod
    def learned(cls, words: Counter[str]) -> "Spelling":
        """Returns the spelling of the text that a vocabulary is learned from, given the count of each word."""
        frequent = {word for word, count in words.items() if count >= _MIN_COUNT}
        shapes = Counter(shape for word in words if word not in frequent for shape in signatures(word))
        return cls({*frequent, ANY, *(shape for shape, count in shapes.items() if count >= _MIN_WORDS)})

    def __call__(self, words: Sequence[str]) -> str:
        """Returns the words as the model reads them, separated by spaces."""
        return " ".join(map(self._write, words))

    def _write(self, word: str) -> str:
        if word in self._known:
            return word
        return next((shape for shape in signatures(word) if shape in self._known), ANY)


def _decoded(piece: bytes) -> str:
    try:
        return piece.decode()
    except UnicodeDecodeError:  # a piece may end in the middle of a character
        return ""
