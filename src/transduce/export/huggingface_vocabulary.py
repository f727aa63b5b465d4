"""The tokenizer of a checkpoint of `transformers`, in whichever form its folder has it.

Marian           source.spm, target.spm, vocab.json and, where vocabularies are separate, target_vocab.json
M2M100           sentencepiece.bpe.model, vocab.json; codes of languages follow the pieces
NLLB             sentencepiece.bpe.model, whose ids are shifted by one; codes of languages follow the pieces
any of them      tokenizer.json; one of bytes becomes a tokenizer of ours
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transduce.errors import BundleError
from transduce.export.checkpoint_files import read_bytes, read_json
from transduce.export.foreign_vocabulary import (
    ForeignTokenizer,
    SpecialTokens,
    in_our_order,
    read_ids,
    sentencepiece_pieces,
    sentencepiece_tokenizer,
    single_language,
    target_tag,
)
from transduce.export.huggingface_settings import M2M100
from transduce.export.huggingface_tokenizer import ROLES, read_tokenizer

_SOURCE, _TARGET, _BOTH = "source.spm", "target.spm", "sentencepiece.bpe.model"
_FAIRSEQ = ("<s>", "<pad>", "</s>", "<unk>")  # the first ids of NLLB; SentencePiece has three others
# The languages of M2M100, by `language_codes` of its tokenizer_config.json, for folders that do not list them.
_LANGUAGES = {
    "m2m100": (
        "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu "
        "hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt "
        "ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
    ),
    "wmt21": "en ha is ja cs ru zh de",
}


def read_vocabulary(folder: Path, settings: Mapping[str, Any], *, extra_start: bool) -> ForeignTokenizer:
    """Returns the tokenizer of a checkpoint, and its id of each of our ids.

    Args:
        folder: of the checkpoint.
        settings: its `config.json`.
        extra_start: whether the last row is a start token that no tokenizer has.

    Raises:
        BundleError: a file is missing or damaged, or does not fit the model.
    """
    roles = _special_tokens(folder)
    if any(values.get("legacy_behaviour") for values in _token_settings(folder)):
        raise BundleError(
            f"{folder / 'tokenizer_config.json'}: with legacy_behaviour the language's code comes after the text, and "
            'NLLB was trained with the code in front of it. Set "legacy_behaviour": false.'
        )
    if programs := sorted(path.name for path in folder.glob("tokenization_*.py")):  # as in SMaLL-100
        raise BundleError(
            f"{folder / programs[0]}: a tokenizer that is a program of its own: not supported, and not run."
        )
    if (folder / _SOURCE).is_file():
        return _marian(folder, settings, roles)
    if (folder / _BOTH).is_file():
        return _fairseq(folder, settings)
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise BundleError(f"{folder}: has no tokenizer: {_SOURCE}, {_BOTH} or tokenizer.json. Download it again.")
    num_rows = int(settings["vocab_size"]) - extra_start
    definition = read_json(path)
    if is_metaspace(definition):
        return _metaspace(path, definition, settings, roles)
    start = None if extra_start else int(settings["decoder_start_token_id"])
    return read_tokenizer(path, roles, start, num_rows)


def languages_of(folder: Path) -> tuple[str, str]:
    """Returns the languages that the tokenizer's settings name; "" for none, or several."""
    path = folder / "tokenizer_config.json"
    values = read_json(path) if path.is_file() else {}
    keys = (("source_lang", "src_lang"), ("target_lang", "tgt_lang"))
    found = (next((values[key] for key in names if isinstance(values.get(key), str)), "") for names in keys)
    source, target = (single_language(name.strip("_<>")) for name in found)
    return source, target


def _special_tokens(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for values in _token_settings(folder):
        for role in ROLES:
            token = values.get(role)
            if isinstance(token, dict):
                token = token.get("content")
            if isinstance(token, str):
                found[role] = token
    return found


def _token_settings(folder: Path) -> list[dict[str, Any]]:
    paths = (folder / name for name in ("special_tokens_map.json", "tokenizer_config.json"))
    return [read_json(path) for path in paths if path.is_file()]


def _marian(folder: Path, settings: Mapping[str, Any], roles: Mapping[str, str]) -> ForeignTokenizer:
    num_rows = int(settings["vocab_size"])
    path, target_path = folder / "vocab.json", folder / "target_vocab.json"
    vocabulary = read_ids(read_json(path), num_rows, str(path))
    free = {*range(num_rows)} - {*vocabulary.values()}
    added = {name: index for name, index in _all_added(folder).items() if index in free}
    target = vocabulary = _with_all_rows(read_ids(added | vocabulary, num_rows, str(path)), num_rows)
    num_targets = int(settings["decoder_vocab_size"])
    if target_path.is_file() and not settings.get("share_encoder_decoder_embeddings", True):
        target = _with_all_rows(read_ids(read_json(target_path), num_targets, str(target_path)), num_targets)
    elif num_targets != num_rows:
        raise BundleError(
            f"{folder}: its sides have vocabularies of different sizes, and {target_path.name} is missing."
        )
    special = _special(roles, target, settings)
    names, order = in_our_order(vocabulary, special, str(path))
    models = [read_bytes(folder / name) for name in (_SOURCE, _TARGET)]
    if target is vocabulary:
        return ForeignTokenizer(sentencepiece_tokenizer(folder, names, *models), order)
    target_names, target_order = in_our_order(target, special, str(target_path))
    made = sentencepiece_tokenizer(folder, names, *models, target_names)
    return ForeignTokenizer(made, order, target_order)


def _special(roles: Mapping[str, str], vocabulary: Mapping[str, int], settings: Mapping[str, Any]) -> SpecialTokens:
    """Returns the names of the special tokens; the start of a decoder is named by its id."""
    start_id, pad = int(settings["decoder_start_token_id"]), roles.get("pad_token", "<pad>")
    start = next((name for name, index in vocabulary.items() if index == start_id), pad)
    return SpecialTokens(pad, start, roles.get("eos_token", "</s>"), roles.get("unk_token", "<unk>"))


def _fairseq(folder: Path, settings: Mapping[str, Any]) -> ForeignTokenizer:
    model, num_rows = read_bytes(folder / _BOTH), int(settings["vocab_size"])
    path = folder / "vocab.json"
    where = str(path if path.is_file() else folder / _BOTH)
    vocabulary = read_json(path) if path.is_file() else _shifted(model, where)
    codes = _language_codes(folder, len(vocabulary))
    vocabulary = _with_all_rows(read_ids({**codes, **vocabulary}, num_rows, where), num_rows)
    special = _special({}, vocabulary, settings)
    names, order = in_our_order(vocabulary, special, where, {code: tag for code in codes if (tag := _tag(code))})
    return ForeignTokenizer(sentencepiece_tokenizer(folder, names, model), order)


def _with_all_rows(vocabulary: dict[str, int], num_rows: int) -> dict[str, int]:
    """Returns the vocabulary with a name for each row: some systems fill it up, and these rows count in its softmax."""
    named = {*vocabulary.values()}
    return vocabulary | {f"madeupword{row}": row for row in range(num_rows) if row not in named}


def _shifted(model: bytes, where: str) -> dict[str, Any]:
    """Returns the ids of NLLB's pieces: those of SentencePiece plus one, after four special tokens."""
    return {name: index for index, name in enumerate([*_FAIRSEQ, *sentencepiece_pieces(model, where)[3:]])}


def _language_codes(folder: Path, first: int) -> dict[str, int]:
    """Returns the id of each language's token: as a file says, or else those from `first` on.

    Raises:
        BundleError: no file lists them.
    """
    added = _all_added(folder)
    if any(map(_tag, added)):
        return added
    return added | {code: index for index, code in enumerate(_listed_codes(folder), start=first)}


def _listed_codes(folder: Path) -> list[str]:
    for values in _token_settings(folder):
        for key in ("additional_special_tokens", "extra_special_tokens"):
            tokens = values.get(key)
            if isinstance(tokens, list):
                texts = [token.get("content") if isinstance(token, dict) else token for token in tokens]
                codes = [text for text in texts if isinstance(text, str) and _tag(text)]
                if codes:
                    return codes
        if (known := _LANGUAGES.get(str(values.get("language_codes")))) is not None:
            return [f"__{code}__" for code in known.split()]
    raise _without_codes(folder)


def _without_codes(folder: Path) -> BundleError:
    return BundleError(
        f"{folder}: no file lists the codes of its languages ('additional_special_tokens' in special_tokens_map.json). "
        "Download the folder again."
    )


def _tag(code: str) -> str:
    """Returns our tag of a language code: "__de__" → "<2de>", "deu_Latn" → "<2deu_Latn>"; "" where it is none."""
    return target_tag(code.strip("_"))


def is_metaspace(definition: Mapping[str, Any]) -> bool:
    """Returns whether a tokenizer marks words by "▁", as SentencePiece does."""
    parts = json.dumps([definition.get(key) for key in ("normalizer", "pre_tokenizer", "decoder")])
    return '"Metaspace"' in parts or "\\u2581" in parts


def _metaspace(
    path: Path, definition: Mapping[str, Any], settings: Mapping[str, Any], roles: Mapping[str, str]
) -> ForeignTokenizer:
    model = definition.get("model")
    pieces = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(pieces, list):  # of a unigram model: [["▁the", -3.2], …]
        pieces = {
            entry[0]: index
            for index, entry in enumerate(pieces)
            if isinstance(entry, list) and entry and isinstance(entry[0], str)
        }
    if not isinstance(pieces, dict):
        raise BundleError(f"{path}: damaged: its model has no vocabulary.")
    codes, num_rows = _added_tokens(path, definition), int(settings["vocab_size"])
    vocabulary = _with_all_rows(read_ids(pieces | codes, num_rows, str(path)), num_rows)
    special = _special(roles, vocabulary, settings)
    tags = {code: tag for code in codes if code not in ROLES.values() and (tag := _tag(code))}
    if settings["model_type"] == M2M100 and not tags:
        raise _without_codes(path.parent)
    names, order = in_our_order(vocabulary, special, str(path), tags)
    plain = {**definition, "added_tokens": [], "post_processor": None, "truncation": None, "padding": None}
    return ForeignTokenizer(sentencepiece_tokenizer(path.parent, names, plain), order)


def _all_added(folder: Path) -> dict[str, int]:
    """Returns the id of each token that was added to the pieces, from the first file that lists such tokens."""
    path = folder / "tokenizer.json"
    if path.is_file():
        return _added_tokens(path, read_json(path))
    path = folder / "tokenizer_config.json"
    listed = read_json(path).get("added_tokens_decoder") if path.is_file() else None
    if isinstance(listed, dict) and listed:
        tokens = ({"content": token["content"], "id": int(index)} for index, token in listed.items())
        return _added_tokens(path, {"added_tokens": tokens})
    path = folder / "added_tokens.json"
    named = read_json(path).items() if path.is_file() else ()
    return _added_tokens(path, {"added_tokens": ({"content": name, "id": int(index)} for name, index in named)})


def _added_tokens(path: Path, definition: Mapping[str, Any]) -> dict[str, int]:
    try:
        return {str(token["content"]): token["id"] for token in definition.get("added_tokens") or []}
    except (TypeError, KeyError, ValueError) as error:
        raise BundleError(f"{path}: damaged: a token has no text or no number ({error}).") from None
