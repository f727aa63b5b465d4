"""The definition of a tokenizer, `tokenizer.json`: special tokens, the byte-level alphabet, and validity checks."""

import json
from typing import Any, Literal

from tokenizers import Tokenizer

from transduce.errors import TokenizerError
from transduce.text.tags import is_tag

Algorithm = Literal["bpe", "wordpiece"]

PAD_TOKEN, BOS_TOKEN, EOS_TOKEN, UNK_TOKEN = "<pad>", "<s>", "</s>", "<unk>"
SPECIAL_TOKENS = (PAD_TOKEN, BOS_TOKEN, EOS_TOKEN, UNK_TOKEN)
NUM_SPECIAL = len(SPECIAL_TOKENS)

# A tokenizer is accepted if it restores these texts exactly, without special ids. The last is the longest possible
# word: 100 letters of four bytes and the space. WordPiece turns it into <unk> if `max_input_chars_per_word` is small.
_PROBES = ("", " ", "A dog, 12.", "  <s>\t<unk> Ä\n", "\x00\u2028😀 ▁Ġ##<0x41> ", "\U00010400" * 100)

_ALGORITHM_OF_MODEL: dict[str, Algorithm] = {"BPE": "bpe", "WordPiece": "wordpiece"}


def _byte_alphabet() -> dict[str, int]:
    """Returns the byte of each character of the byte-level alphabet.

    A byte that is a visible character in Latin-1 is that character; the others are U+0100 and following, in order.
    """
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(0x100 + n): byte for n, byte in enumerate(hidden)}


BYTE_OF_CHARACTER = _byte_alphabet()


def parse_definition(text: str, origin: str) -> tuple[Tokenizer, str, Algorithm, dict[str, int]]:
    """Returns the tokenizer that a `tokenizer.json` defines, the text itself, the algorithm, and the ids of tags.

    Raises:
        TokenizerError: The text is damaged, or not one of our tokenizers; `origin` names it.
    """
    try:
        definition = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"{origin}: damaged: {error}. Copy the file again, or train a new tokenizer.") from error
    algorithm = _require_ours(definition, origin)
    try:
        tokenizer = Tokenizer.from_str(text)
        tags = {token: index for token, index in definition["model"]["vocab"].items() if is_tag(token)}
        restores_text = _restores_text(tokenizer, tags)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library raises plain Exception, and panics with other classes
        raise TokenizerError(f"{origin}: damaged: {error}.") from error
    if not restores_text:
        raise _foreign(origin, "it does not restore text exactly")
    return tokenizer, text, algorithm, dict(sorted(tags.items(), key=lambda tag: tag[1]))


def _require_ours(definition: Any, origin: str) -> Algorithm:
    """Checks what `SubwordTokenizer` relies on, and returns the algorithm."""
    model = definition.get("model") if isinstance(definition, dict) else None
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    kind = model.get("type") if isinstance(model, dict) else None
    if not isinstance(vocabulary, dict) or not isinstance(kind, str) or kind not in _ALGORITHM_OF_MODEL:
        raise _foreign(origin, "it holds no BPE or WordPiece vocabulary")
    for index, token in enumerate(SPECIAL_TOKENS):
        if vocabulary.get(token) != index:
            raise _foreign(origin, f"{token} is not id {index}")
    if definition.get("added_tokens"):
        raise _foreign(origin, "it encodes text as special tokens ('added_tokens' is not empty)")
    if missing := BYTE_OF_CHARACTER.keys() - vocabulary.keys():
        raise _foreign(origin, f"{len(missing)} of the 256 bytes are not in the vocabulary")
    if set(map(str, vocabulary.values())) != set(map(str, range(len(vocabulary)))):
        raise _foreign(origin, "its ids are not 0, 1, 2, … without gaps")
    if not BYTE_OF_CHARACTER.keys() >= set("".join(vocabulary)):
        raise _foreign(origin, "its pieces are not made of bytes")
    return _ALGORITHM_OF_MODEL[kind]


def _foreign(origin: str, reason: str) -> TokenizerError:
    return TokenizerError(f"{origin}: not a tokenizer of Transduce: {reason}.")


def _restores_text(tokenizer: Tokenizer, tags: dict[str, int]) -> bool:
    probes = (*_PROBES, "".join(tags), " ".join(tags))
    encodings = tokenizer.encode_batch(list(probes), add_special_tokens=False)
    never = {*range(NUM_SPECIAL), *tags.values()}
    return all(
        never.isdisjoint(encoding.ids) and tokenizer.decode(encoding.ids) == probe
        for probe, encoding in zip(probes, encodings, strict=True)
    )
