"""Reads a tokenizer of either kind: our own, or that of an imported model."""

from pathlib import Path

from transduce.text.sentencepiece import FORMAT, SentencePieceTokenizer
from transduce.text.subword import SubwordTokenizer
from transduce.text.tokenizer import Tokenizer, read_definition

_BEGINNING = f'{{"format": "{FORMAT}"'


def load_tokenizer(path: str | Path) -> Tokenizer:
    """Reads a `tokenizer.json` that `Tokenizer.save` wrote.

    Raises:
        TokenizerError: The file is missing, damaged, or not one of ours.
    """
    text = read_definition(path)
    kind = SentencePieceTokenizer if text.startswith(_BEGINNING) else SubwordTokenizer
    return kind.from_json(text, str(path))
