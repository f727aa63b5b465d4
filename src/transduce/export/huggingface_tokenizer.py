"""Our tokeniser in the form that `AutoTokenizer` loads, and theirs as ours where that is possible.

The file is the same `tokenizer.json` with two additions: special tokens are named, and EOS is appended. With
`split_special_tokens`, text that looks like one of them ("</s>") stays text, as it does here.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from transduce import files
from transduce.config.special_ids import EOS
from transduce.errors import BundleError, ConfigError, TokenizerError, panics_as
from transduce.export.checkpoint_files import read_json
from transduce.export.foreign_vocabulary import ForeignTokenizer
from transduce.export.huggingface_shape import START_TOKEN
from transduce.text import BOS_TOKEN, EOS_TOKEN, PAD_TOKEN, SPECIAL_TOKENS, UNK_TOKEN, SubwordTokenizer

ROLES = {"pad_token": PAD_TOKEN, "bos_token": BOS_TOKEN, "eos_token": EOS_TOKEN, "unk_token": UNK_TOKEN}
_PROBES = ("A dog, 12.", "Zwei Männer: <s>?", "  x\ty ", "😀 日本語", "don't — e-mail@x.org")


def save_tokenizer(
    tokenizer: SubwordTokenizer, folder: Path, tags: Sequence[str] = (), *, max_tokens: int, extra_start: bool
) -> None:
    """Writes `tokenizer.json` and `tokenizer_config.json` of a tokenizer of ours.

    Args:
        tokenizer: ours.
        folder: where to write.
        tags: what each source begins with.
        max_tokens: of a source.
        extra_start: whether to name the token after the last.
    """
    definition = json.loads(tokenizer.to_json())
    named = dict(enumerate(SPECIAL_TOKENS)) | {index: tag for tag, index in tokenizer.tags.items()}
    added = [_added_token(index, token) for index, token in named.items()]
    if extra_start:
        added.append(_added_token(tokenizer.vocab_size, START_TOKEN))
    definition["added_tokens"] = added
    *before, piece = ({"SpecialToken": {"id": token, "type_id": 0}} for token in (*tags, EOS_TOKEN))
    first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    ids = {tag: tokenizer.tags[tag] for tag in tags} | {EOS_TOKEN: EOS}
    definition["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [*before, first, piece],
        "pair": [*before, first, piece, second, piece],
        "special_tokens": {token: {"id": token, "ids": [index], "tokens": [token]} for token, index in ids.items()},
    }
    files.write_text(folder / "tokenizer.json", json.dumps(definition, ensure_ascii=False, indent=1) + "\n")
    settings: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **ROLES,
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_tokens,
        "model_input_names": ["input_ids", "attention_mask"],
        "padding_side": "right",
        "truncation_side": "right",
    }
    files.write_json(folder / "tokenizer_config.json", settings)


def _added_token(index: int, token: str) -> dict[str, Any]:
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": index, "content": token, **plain, "special": True}


def read_tokenizer(path: Path, roles: dict[str, str], start: int | str | None, vocab_size: int) -> ForeignTokenizer:
    """Converts a fast tokeniser of `tokenizers` into one of ours: the same pieces, special tokens first.

    Args:
        path: a `tokenizer.json`.
        roles: the token that is "pad_token", "bos_token", "eos_token" and "unk_token"; some may be missing.
        start: the id that a decoder starts from, or the token as a description names it; it becomes BOS. None or "":
            "bos_token".
        vocab_size: rows of the model's tables; tokens beyond them are left out.

    Raises:
        BundleError: no tokeniser of ours does exactly the same; the message says why.
        ConfigError: it does not have a token that the description names.
    """
    definition = read_json(path)
    model = definition.get("model")
    if not isinstance(model, dict) or model.get("type") not in ("BPE", "WordPiece"):
        kind = model.get("type") if isinstance(model, dict) else None
        raise _impossible(path, f"it is of type {kind or 'unknown'}; Transduce has byte-level BPE and WordPiece")
    if not isinstance(model.get("vocab"), dict):
        raise BundleError(f"{path}: damaged: its model has no vocabulary.")
    vocabulary = dict(model["vocab"])
    try:
        for token in definition.get("added_tokens") or []:
            vocabulary.setdefault(token["content"], token["id"])
        vocabulary = {token: index for token, index in vocabulary.items() if index < vocab_size}
    except (TypeError, KeyError) as error:
        raise BundleError(f"{path}: damaged: a token has no text or no number ({error}).") from None
    if sorted(vocabulary.values()) != list(range(vocab_size)):
        raise _impossible(
            path, f"it has {len(vocabulary)} pieces, and the model {vocab_size} rows: one row for each piece is needed"
        )
    if isinstance(start, str):
        _require_described(path, vocabulary, roles, start)
    start_id = vocabulary[start or roles["bos_token"]] if isinstance(start, str) else start
    specials = _special_tokens(path, vocabulary, roles, start_id)
    order = [vocabulary[token] for token in specials]
    order += [index for index in sorted(vocabulary.values()) if index not in order]
    token_of = {index: token for token, index in vocabulary.items()}
    ours = [*SPECIAL_TOKENS, *(token_of[index] for index in order[len(specials) :])]
    definition["model"] = model | {"vocab": {token: index for index, token in enumerate(ours)}}
    if model.get("unk_token") is not None:
        definition["model"]["unk_token"] = UNK_TOKEN
    definition |= {"added_tokens": [], "post_processor": None, "truncation": None, "padding": None}
    try:
        tokenizer = SubwordTokenizer.from_json(json.dumps(definition, ensure_ascii=False, indent=1) + "\n")
    except TokenizerError as error:
        raise _impossible(path, str(error).partition(": ")[2]) from None
    _compare(path, tokenizer, np.asarray(order))
    return ForeignTokenizer(tokenizer, np.asarray(order))


def _require_described(path: Path, vocabulary: dict[str, int], roles: dict[str, str], start: str) -> None:
    """Refuses a start, or a "bos_token" where one is needed, that the tokeniser does not have.

    It is needed where a decoder starts from it, and where one starts from padding: then it becomes our PAD.

    Raises:
        ConfigError: names the key of the description and the file.
    """
    named = {"decoder_start": start} if start else {}
    if start in ("", roles.get("bos_token"), roles.get("pad_token")):
        named["bos_token"] = roles.get("bos_token", "")
    for key, token in named.items():
        if token not in vocabulary:
            raise ConfigError(
                f"{key} = '{token}': {path} has no such token among the model's. Name in the description the one that "
                "targets begin with."
            )


def _special_tokens(path: Path, vocabulary: dict[str, int], roles: dict[str, str], start_id: int | None) -> list[str]:
    """Returns their tokens for our PAD, BOS, EOS and UNK, in that order.

    A decoder that starts from its padding token, as Marian's does: that is our BOS, and their BOS is our PAD. Padding
    is never read, so only the index of its logit matters.
    """
    found = {role: roles.get(role) for role in ROLES}
    token_of = {index: token for token, index in vocabulary.items()}
    start = token_of[start_id] if start_id is not None else found["bos_token"]
    if start is not None and start != found["bos_token"]:
        if start == found["pad_token"]:
            found["pad_token"] = found["bos_token"]
        found["bos_token"] = start
    missing = [role for role, token in found.items() if token is None or token not in vocabulary]
    if missing:
        raise _impossible(
            path, f"it has no {', '.join(missing)}, and a model of Transduce needs all four special tokens"
        )
    specials = [token for token in found.values() if token is not None]
    if len(set(specials)) < len(specials):
        raise _impossible(path, f"one token has two roles: {found}")
    return specials


def _compare(path: Path, tokenizer: SubwordTokenizer, order: np.ndarray) -> None:
    """Checks that both give the same tokens for some lines; their special tokens count as text."""
    with panics_as(BundleError, f"{path}: damaged: {{error}}."):
        theirs = Tokenizer.from_file(str(path))
    theirs.encode_special_tokens = True
    for probe in _PROBES:
        expected = theirs.encode(probe, add_special_tokens=False).ids
        if [int(order[index]) for index in tokenizer.encode(probe)] != expected:
            raise _impossible(path, f"with our special tokens it gives other tokens for {probe!r}")


def _impossible(path: Path, reason: str) -> BundleError:
    return BundleError(f"{path}: cannot be imported: {reason}.")
