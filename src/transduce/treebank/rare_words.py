"""Words too rare to be learned, read by their shape, so that each word of a parser's sentence is one token.

The target says for each word what it is and nothing of how it is spelled: a parser must count to know which word it has
come to. With words cut into pieces, as many as their rarity makes them, that is learned many times more slowly
(docs/lab-log.md). As chart parsers do with unknown words, those that the vocabulary does not hold whole are replaced by
what can be seen of them: a capital, a digit, a hyphen, the ending.

    The snarkiest Boojum-4711   →   The UNK-est UNK-C-N-H
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from transduce.errors import ConfigError

WHOLE = r"[^\s<]{1,100}"
"""Matches a word, which is then one piece of a vocabulary if it is frequent; as `<` stands alone, no special token."""

ANY = "UNK"
"""The signature that all words share."""

_SEEN = 3  # times; a word less frequent is learned by its signature
_COMMON = 10  # rare words that an ending must be of to have a signature of its own
_ENDINGS = (3, 2)  # letters


def signatures(word: str) -> Iterator[str]:
    """Yields what can stand for a word, the most telling first; the last is the same for all words."""
    flags = "".join(
        flag
        for flag, present in (
            ("-C", word[:1].isupper()),
            ("-N", any(letter.isnumeric() for letter in word)),
            ("-H", "-" in word[1:-1]),
        )
        if present
    )
    endings = [word[-count:].lower() for count in _ENDINGS if len(word) > count + 1 and word[-count:].isalpha()]
    for shape in dict.fromkeys((f"{ANY}{flags}", ANY)):
        yield from (f"{shape}-{ending}" for ending in endings)
        yield shape


class Spelling:
    """How words are written for a model: as they are where they are known, by their signature elsewhere."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = frozenset(known)

    @classmethod
    def of_pieces(cls, pieces: Iterable[bytes]) -> "Spelling":
        """Returns the spelling in which each word is one of a vocabulary's pieces.

        Args:
            pieces: what each of them stands for; that of a whole word begins with a space.

        Raises:
            ConfigError: not even what stands for any word is one piece: the vocabulary was not learned with signatures.
        """
        words = frozenset(word for piece in pieces if piece.startswith(b" ") and (word := _decoded(piece[1:])))
        if ANY not in words:
            raise ConfigError(
                f"data.rare_words = 'signatures': '{ANY}', which stands for any word, is no piece of this vocabulary. "
                "Learn the tokenizer with this setting, with a greater text.vocab_size, or set it to 'pieces'."
            )
        return cls(words)

    @classmethod
    def learned(cls, words: Counter[str]) -> "Spelling":
        """Returns the spelling for words as frequent as `words` says: what a vocabulary should be learned from."""
        frequent = {word for word, count in words.items() if count >= _SEEN}
        shapes = Counter(shape for word in words if word not in frequent for shape in signatures(word))
        return cls({*frequent, ANY, *(shape for shape, count in shapes.items() if count >= _COMMON)})

    def __call__(self, words: Sequence[str]) -> str:
        """Returns the words as a model reads them, with a space between them."""
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
