"""The SentencePiece models of an imported tokenizer, in the files that other systems read.

source.spm, target.spm              the models, as they were imported
vocab.json, target_vocab.json       the id of each piece, for transformers' MarianTokenizer
vocabulary.json, target_vocabulary.json    the piece of each id, for the ONNX script
"""

import json
from pathlib import Path
from typing import Any

from transduce import files
from transduce.config import DataConfig
from transduce.errors import ExportError
from transduce.export.huggingface_shape import START_TOKEN
from transduce.text import EOS_TOKEN, PAD_TOKEN, UNK_TOKEN, SentencePieceTokenizer, Tokenizer
from transduce.text.tags import LANGUAGE, names_among

SOURCE, TARGET = "source.spm", "target.spm"


def write_models(tokenizer: SentencePieceTokenizer, folder: Path) -> None:
    """Writes the models of both sides.

    Raises:
        ExportError: a model is one of the package tokenizers.
    """
    for name, model in zip((SOURCE, TARGET), tokenizer.models, strict=True):
        if not isinstance(model, bytes):
            raise ExportError(
                "Its tokenizer is one of the package tokenizers, with pieces that begin with ▁: no format takes it. "
                "Use the folder that it was imported from."
            )
        (folder / name).write_bytes(model)


def opus_tag(tag: str) -> str:
    """Returns a tag as models of OPUS-MT have it: "<2deu>" → ">>deu<<"; any other stays."""
    names = names_among([tag], LANGUAGE)
    return f">>{names[0]}<<" if names else tag


def save_marian_tokenizer(
    tokenizer: SentencePieceTokenizer, folder: Path, data: DataConfig, *, max_tokens: int, extra_start: bool
) -> None:
    """Writes what `MarianTokenizer` loads; arguments as in `huggingface_tokenizer.save_tokenizer`.

    Raises:
        ExportError: see `write_models`.
    """
    write_models(tokenizer, folder)
    sides: list[tuple[str, Tokenizer]] = [("vocab.json", tokenizer)]
    if tokenizer.target_vocab_size:
        sides.append(("target_vocab.json", tokenizer.target))
    for name, side in sides:
        pieces = [*map(opus_tag, side.tokens()), *([START_TOKEN] if extra_start else [])]
        files.write_text(folder / name, _json({piece: index for index, piece in enumerate(pieces)}))
    settings: dict[str, Any] = {
        "tokenizer_class": "MarianTokenizer",
        "pad_token": PAD_TOKEN,
        "eos_token": EOS_TOKEN,
        "unk_token": UNK_TOKEN,
        "source_lang": data.source_language,
        "target_lang": data.target_language,
        "separate_vocabs": bool(tokenizer.target_vocab_size),
        "model_max_length": max_tokens,
    }
    files.write_json(folder / "tokenizer_config.json", settings)


def write_pieces(tokenizer: SentencePieceTokenizer, folder: Path) -> None:
    """Writes the models, and the piece of each id of both sides.

    Raises:
        ExportError: see `write_models`.
    """
    write_models(tokenizer, folder)
    for name, side in (("vocabulary.json", tokenizer), ("target_vocabulary.json", tokenizer.target)):
        files.write_text(folder / name, _json(side.tokens()))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=0) + "\n"
