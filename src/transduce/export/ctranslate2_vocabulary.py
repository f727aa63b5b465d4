"""The vocabularies of a CTranslate2 folder, and the tokenizer that was put next to them.

CTranslate2 reads tokens by name, and leaves text to its callers. So the names are those of its vocabularies, and what
cuts text is looked for:

    tokenizer.json of Transduce         an export of ours
    source.spm and target.spm           OPUS-MT
    sentencepiece.model and others      one SentencePiece model for both sides
    tokenizer.json of `tokenizers`      words begin with "▁", as SentencePiece has it; or bytes, which becomes ours
"""

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from transduce.errors import BundleError, ExportError, TokenizerError
from transduce.export.ctranslate2_settings import Settings
from transduce.export.foreign_files import ForeignFiles
from transduce.export.foreign_vocabulary import (
    ForeignTokenizer,
    SpecialTokens,
    in_our_order,
    sentencepiece_tokenizer,
    target_tag,
)
from transduce.export.huggingface_tokenizer import read_tokenizer
from transduce.export.huggingface_vocabulary import is_metaspace
from transduce.text import Tokenizer, load_tokenizer

_SIDES = ("source.spm", "target.spm")
_MODELS = ("sentencepiece.model", "sentencepiece.bpe.model", "spiece.model")
_JSON = "tokenizer.json"
_PADDING = ("<pad>", "<blank>")
_CODE = re.compile(r"__([a-z]{2,3}(?:_[a-z]+)?)__|([a-z]{3}_[A-Z][a-z]{3})|>>(.+)<<")  # M2M100, NLLB, OPUS-MT
_MOST_PIECES = 10_000_000


@dataclass(frozen=True)
class Vocabulary:
    """The vocabularies of a folder, in its order, and its tokenizer as one of ours."""

    source: list[str]
    target: list[str]
    tokenizer: ForeignTokenizer


def read_vocabulary(
    files: ForeignFiles,
    texts: ForeignFiles,
    settings: Settings,
    num_rows: tuple[int, int],
    names_language: Callable[[str], bool] = bool,
) -> Vocabulary:
    """Returns the vocabularies of a folder and its tokenizer.

    Args:
        files: of the folder.
        texts: where the tokenizer is.
        settings: name the special tokens.
        num_rows: of the tables of source and target.
        names_language: whether a code of a language, such as "__de__", is used as one, and becomes a tag.

    Raises:
        BundleError: a file is missing or damaged, or does not fit the model.
        ExportError: sources have several features a token.
    """
    source, target = _read_tokens(files, num_rows)
    where = files.where("its vocabulary")
    padding = next((name for name in _PADDING if name in target and name in source), settings.end)
    special = SpecialTokens(padding, settings.start, settings.end, settings.unknown)
    own = _own_tokenizer(texts)
    if own is not None:
        if [own.tokens(), own.target.tokens()] != [source, target]:
            raise BundleError(f"{texts.where(_JSON)}: has other pieces than the vocabulary of the model next to it.")
        target_order = np.arange(len(target)) if own.target_vocab_size else None
        return Vocabulary(source, target, ForeignTokenizer(own, np.arange(len(source)), target_order))
    if texts.has(_JSON) and not _has_sentencepiece(texts) and not is_metaspace(texts.json_object(_JSON)):
        return Vocabulary(source, target, _of_bytes(texts, special, source, target))
    models = _models(texts)
    names, order = _in_our_order(source, special, where, names_language)
    if source == target:
        return Vocabulary(source, target, ForeignTokenizer(sentencepiece_tokenizer(texts.path, names, *models), order))
    target_names, target_order = _in_our_order(target, special, where, names_language)
    made = sentencepiece_tokenizer(texts.path, names, models[0], models[-1], target_names)
    return Vocabulary(source, target, ForeignTokenizer(made, order, target_order))


def _read_tokens(files: ForeignFiles, num_rows: tuple[int, int]) -> tuple[list[str], list[str]]:
    """Returns the vocabularies of source and target, filled up to the rows of the model.

    Raises:
        BundleError: one is missing or damaged, or has more pieces than the model has rows.
        ExportError: sources have several features a token.
    """
    shared, source, target = (_tokens(files, name) for name in ("shared", "source", "target"))
    if shared is not None:
        source = target = shared
    elif any(files.has(f"source_1_vocabulary.{kind}") for kind in ("json", "txt")):
        raise ExportError(
            f"{files.path}: cannot be imported: source_1_vocabulary: its sources have several features a token, and "
            "those of Transduce have one."
        )
    if source is None or target is None:
        raise BundleError(
            f"{files.path}: shared_vocabulary.json (or .txt) missing, or source_vocabulary and target_vocabulary. "
            "Download it again."
        )
    made = []
    for tokens, rows in zip((source, target), num_rows, strict=True):
        if len(tokens) > rows:
            raise BundleError(
                f"{files.where('its vocabulary')}: has {len(tokens):,} pieces, and the model {rows:,} rows: it belongs "
                "to another model."
            )
        made.append([*tokens, *(f"<row {row}>" for row in range(len(tokens), rows))])
    return made[0], made[1]


def _tokens(files: ForeignFiles, side: str) -> list[str] | None:
    name = f"{side}_vocabulary.json"
    if files.has(name):
        tokens: list[str] = files.json(name)
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise BundleError(f"{files.where(name)}: damaged: not a list of pieces. Download it again.")
    else:
        name = f"{side}_vocabulary.txt"
        if not files.has(name):
            return None
        tokens = files.text(name).removesuffix("\n").split("\n")  # a piece may be any other line separator
        if all(token.endswith("\r") for token in tokens):
            tokens = [token.removesuffix("\r") for token in tokens]
    if not 0 < len(tokens) <= _MOST_PIECES or any("\ud800" <= char <= "\udfff" for token in tokens for char in token):
        raise BundleError(f"{files.where(name)}: damaged: it has no pieces, or one that is no text. Download it again.")
    return tokens


def _in_our_order(
    tokens: Sequence[str], special: SpecialTokens, where: str, names_language: Callable[[str], bool]
) -> tuple[list[str], np.ndarray]:
    ids: dict[str, int] = {}
    repeats: Counter[str] = Counter()
    for index, token in enumerate(tokens):
        name = token
        while name in ids:  # CTranslate2 reads the first; the others can be written
            repeats[token] += 1
            name = f"{token}#{repeats[token]}"
        ids[name] = index
    tags = {name: tag for name in ids if (tag := language_tag(name)) and names_language(name)}
    return in_our_order(ids, special, where, tags)


def is_of_fairseq(tokens: Sequence[str]) -> bool:
    """Returns whether a vocabulary has codes of languages as M2M100's and NLLB's have: of both sides, as tokens."""
    return any(_CODE.fullmatch(token) and not token.startswith(">>") for token in tokens)


def language_tag(name: str) -> str:
    """Returns our tag of a target language, such as "__de__" → "<2de>"; "" for any other piece."""
    match = _CODE.fullmatch(name)
    return target_tag(match[match.lastindex or 0]) if match else ""


def _own_tokenizer(files: ForeignFiles) -> Tokenizer | None:
    """Returns the tokenizer of an export of ours; None for any other."""
    if not files.has(_JSON):
        return None
    try:
        tokenizer: Tokenizer = _on_disk(files, load_tokenizer)
    except TokenizerError:
        return None
    return tokenizer


def _on_disk(files: ForeignFiles, read: Any) -> Any:
    """Calls `read` with a path of `tokenizer.json`: of itself, or of a temporary copy where it is in an archive."""
    path = Path(files.where(_JSON))
    if path.is_file():
        return read(path)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, _JSON)
        copy.write_bytes(files.read(_JSON))
        return read(copy)


def _has_sentencepiece(files: ForeignFiles) -> bool:
    return any(files.has(name) for name in (_SIDES[0], *_MODELS))


def _models(files: ForeignFiles) -> list[bytes | Mapping[str, Any]]:
    """Returns what cuts text: one for each side, or one for both.

    Raises:
        BundleError: there is none, there are several, or it is of another kind.
    """
    if files.has(_SIDES[0]) or files.has(_SIDES[1]):
        return [files.read(name) for name in _SIDES]
    for name in _MODELS:
        if files.has(name):
            return [files.read(name)]
    if files.has(_JSON):
        definition = files.json_object(_JSON)
        return [{**definition, "added_tokens": [], "post_processor": None, "truncation": None, "padding": None}]
    others = [name for name in files.names() if "/" not in name and name.endswith((".model", ".codes"))]
    if wrong := [name for name in others if name == "bpe.model" or name.endswith(".codes")]:
        raise BundleError(
            f"{files.where(wrong[0])}: subword-nmt's codes, which need the tokenizer of Moses: not supported. Take a "
            "model with SentencePiece, such as a later version of this one."
        )
    if len(others) != 1:
        found = f"several: {', '.join(others[:4])}" if others else "none"
        raise BundleError(
            f"{files.path}: what cuts text into pieces is not there ({found} found). Put sentencepiece.model, or "
            "source.spm and target.spm, or tokenizer.json of the original model next to model.bin."
        )
    return [files.read(others[0])]


def _of_bytes(
    files: ForeignFiles, special: SpecialTokens, source: Sequence[str], target: Sequence[str]
) -> ForeignTokenizer:
    """Returns a tokenizer of bytes as one of ours, if its pieces are those of the vocabulary."""
    if source != target:
        raise BundleError(f"{files.where(_JSON)}: one tokenizer of bytes, for two vocabularies: not supported.")
    vocabulary = {token: index for index, token in enumerate(source)}
    names = (special.pad, special.start, special.end, special.unknown)
    if missing := [name for name in names if name not in vocabulary]:
        raise BundleError(f"{files.where(_JSON)}: the vocabulary has no {', '.join(dict.fromkeys(missing))}.")
    roles = dict(zip(("pad_token", "bos_token", "eos_token", "unk_token"), names, strict=True))
    definition = files.json_object(_JSON)
    model = definition.get("model")
    pieces = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(pieces, dict) or any(vocabulary.get(piece) != index for piece, index in pieces.items()):
        raise BundleError(f"{files.where(_JSON)}: has other pieces than the vocabulary of the model next to it.")
    made: ForeignTokenizer = _on_disk(
        files, lambda path: read_tokenizer(path, roles, vocabulary[special.start], len(source))
    )
    return made
