"""The vocabulary and the tokenizer of a Marian model.

source.spm, target.spm, vocab.yml     OPUS-MT: a SentencePiece model for each side, and the id of each piece
vocab.spm                             a SentencePiece model that is the vocabulary, too

Marian has no padding and no start token: its decoder starts from a zero vector. Ours have a row after all others.
"""

import re
from pathlib import Path

import numpy as np

from transduce.errors import BundleError, ExportError
from transduce.export.checkpoint_files import read_bytes
from transduce.export.foreign_vocabulary import (
    ForeignTokenizer,
    SpecialTokens,
    in_our_order,
    sentencepiece_pieces,
    sentencepiece_tokenizer,
)

_END, _UNKNOWN = "</s>", "<unk>"
_SIDES = ("source.spm", "target.spm")
_SIMPLE_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "a": "\a", "f": "\f", "v": "\v", "e": "\x1b", "0": "\0"}
_SIMPLE_ESCAPES |= {"N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"}
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)


def read_tokenizer(folder: Path, files: tuple[Path, Path], num_rows: tuple[int, int]) -> ForeignTokenizer:
    """Returns the tokenizer of a model, and its id of each of our ids: padding and start have `num_rows`, the next one.

    Args:
        folder: of the model.
        files: the vocabularies of source and target; one file where they share it.
        num_rows: of each side's table of embeddings.

    Raises:
        BundleError: a file is missing or damaged, or does not fit the model.
        ExportError: the vocabulary or the tokenizer has a form that is not supported.
    """
    both = [_read(path, rows) for path, rows in zip(files, num_rows, strict=True)]
    models = _models(folder, files)
    shared = both[0] == both[1]
    sides = [_ordered(each, path) for each, path in zip(both[: 1 if shared else 2], files, strict=False)]
    tokenizer = sentencepiece_tokenizer(folder, sides[0][0], *models, None if shared else sides[1][0])
    return ForeignTokenizer(tokenizer, sides[0][1], None if shared else sides[1][1])


def spm_files(folder: Path, vocabularies: tuple[Path, Path]) -> tuple[Path, Path]:
    """Returns the SentencePiece models of source and target.

    Raises:
        BundleError: there are none, or it is not clear which ones.
        ExportError: the folder has subwords of another kind.
    """
    if all(path.suffix == ".spm" for path in vocabularies):
        return vocabularies
    if all((folder / name).is_file() for name in _SIDES):
        return folder / _SIDES[0], folder / _SIDES[1]
    found = sorted(folder.glob("*.spm"))
    if len(found) == 1:
        return found[0], found[0]
    if others := sorted(path.name for path in folder.glob("*.bpe")):
        raise ExportError(f"{folder / others[0]}: subwords of subword-nmt: only SentencePiece (*.spm) is supported.")
    raise BundleError(f"{folder}: {' and '.join(_SIDES)} missing, and no single *.spm is there. Download it again.")


def _models(folder: Path, vocabularies: tuple[Path, Path]) -> tuple[bytes, bytes | None]:
    """Returns the SentencePiece models of source and target; None where the target's is the same."""
    source, target = map(read_bytes, spm_files(folder, vocabularies))
    return source, None if source == target else target


def _ordered(vocabulary: dict[str, int], path: Path) -> tuple[list[str], np.ndarray]:
    start = "<pad>"
    while start in vocabulary:  # of its own, which Marian uses as any other piece
        start += "#"
    return in_our_order(vocabulary | {start: len(vocabulary)}, SpecialTokens(start, start, _END, _UNKNOWN), str(path))


def _read(path: Path, num_rows: int) -> dict[str, int]:
    """Returns the id of each piece: from 0 on, without gaps, as many as the table has rows."""
    if path.suffix == ".spm":
        vocabulary = read_pieces(path)
    elif path.suffix in (".yml", ".yaml"):
        vocabulary = read_vocabulary(path)
    else:
        raise ExportError(
            f"{path}: a vocabulary that is neither .yml nor .spm (such as one of factors): not supported."
        )
    if sorted(vocabulary.values()) != [*range(num_rows)]:
        raise BundleError(
            f"{path}: has {len(vocabulary):,} pieces, and the model {num_rows:,} rows; ids must be those of the rows, "
            "without gaps. It belongs to another model, or is damaged."
        )
    return vocabulary


def read_pieces(path: Path) -> dict[str, int]:
    """Returns the id of each piece of a SentencePiece model; raises BundleError where it is damaged."""
    return {piece: index for index, piece in enumerate(sentencepiece_pieces(read_bytes(path), str(path)))}


def read_vocabulary(path: Path) -> dict[str, int]:
    """Returns the id of each piece of a `vocab.yml`.

    Lines are read as they come, because PyYAML takes some pieces for numbers or truth values, and refuses others:

        ▁the: 5
        "\\"": 7
        ? a key too long for one line
        : 8

    Raises:
        BundleError: the file cannot be read, or a line is not such; names the line.
    """
    vocabulary: dict[str, int] = {}
    try:
        text = read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise BundleError(f"{path}: damaged: not UTF-8 at byte {error.start}. Download it again.") from None
    key: str | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.rstrip("\r")
        if not line or (number == 1 and line == "---"):
            continue
        if key is None and line.startswith("? "):
            key = line[2:]
            continue
        name, colon, index = (key, line[:1], line[1:]) if key is not None else line.rpartition(":")
        key = None
        index = index.strip()
        if colon != ":" or not (index.isascii() and index.isdecimal() and len(index) < 10):
            raise BundleError(
                f"{path}: line {number}: {line[:60]!r} does not give the id of a piece. Download it again."
            )
        piece = _unquoted(name)
        if piece in vocabulary:
            raise BundleError(f"{path}: line {number}: {piece[:40]!r} is there twice. Download it again.")
        vocabulary[piece] = int(index)
    return vocabulary


def _unquoted(name: str) -> str:
    if len(name) >= 2 and name[0] == name[-1] == "'":
        return name[1:-1].replace("''", "'")
    if len(name) >= 2 and name[0] == name[-1] == '"':
        return _ESCAPE.sub(_escaped, name[1:-1])
    return name


def _escaped(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code is None:
        return _SIMPLE_ESCAPES.get(match[4], match[4])
    number = int(code, 16)
    return chr(number) if number < 0xD800 or 0xE000 <= number < 0x110000 else match[0]
