"""A folder of OPUS-MT as Marian has it, as one of our models: `decoder.yml`, an npz, the vocabularies.

The model computes what CTranslate2's conversion of the folder does, and the two are compared. As there and in
transformers, 1e-5 is added to the variance in layer norms, and sinusoids have the exponent 2i/d. Marian itself adds
1e-6, and divides i by d/2 - 1: its own translations may differ.

Marian searches by the log-probability over length^normalize, our models by GNMT's formula: of `normalize`, only 0, no
penalty, has a meaning here.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from transduce.config import Config, DataConfig, DecodeConfig, ModelConfig, TextConfig
from transduce.config.tensors import require_finite
from transduce.errors import BundleError, ExportError
from transduce.export.checkpoint_files import read_bytes
from transduce.export.foreign_model import ForeignModel
from transduce.export.foreign_vocabulary import ForeignTokenizer, single_language
from transduce.export.huggingface_reading import tie_of
from transduce.export.huggingface_shape import LAYER_NORM_EPSILON, HuggingFaceShape
from transduce.export.huggingface_weights import NEVER_WRITTEN, Arrays, from_huggingface
from transduce.export.marian_options import OPTIONS, Decoder, Shape, read_decoder, read_shape
from transduce.export.marian_vocabulary import read_tokenizer
from transduce.export.npz import read_npz

_LONGEST = 512  # tokens, as transformers has it: OPUS-MT was trained on at most 500
_MOST_CARD_BYTES = 4 << 20
_OUTPUT, _OUTPUT_ROWS, _OUTPUT_BIAS = (f"decoder_ff_logit_out_{end}" for end in ("W", "Wt", "b"))
# Each attention: its name there, in transformers, and whether only the decoder has it.
_ATTENTIONS = (("self", "self_attn"), ("context", "encoder_attn"))


def read_marian(folder: Path) -> ForeignModel:
    """Reads a folder of OPUS-MT.

    Raises:
        BundleError: a file is missing or damaged, or two of them do not fit each other.
        ExportError: our model cannot compute what this one does; all reasons are named.
    """
    decoder = read_decoder(folder)
    path = decoder.model
    stored = read_npz(path, lambda name: name == OPTIONS or not name.startswith("special:"))
    shape = read_shape(path, stored.pop(OPTIONS, None))
    arrays = _renamed(path, stored, shape)
    del stored  # tables without the row that is added
    tables = {name: len(arrays[name]) - 1 for name in ("source", "target")}  # the last row is of padding and start
    tokenizer = read_tokenizer(folder, decoder.vocabularies, (tables["source"], tables["target"]))
    model = _model_config(arrays, shape, tokenizer)
    own = tokenizer.tokenizer
    config = Config(
        name=folder.resolve().name,
        model=model,
        text=TextConfig(algorithm=own.algorithm, vocab_size=max(260, own.vocab_size)),
        data=languages_of_card(folder, has_tags=bool(own.tags)),
        decode=_decode_config(decoder),
    )
    layout = HuggingFaceShape("marian", model.num_heads, model.d_k, _LONGEST, True, False, False, False)
    return ForeignModel(config, from_huggingface(arrays, model, layout, tokenizer), tokenizer)


# --- weights --------------------------------------------------------------------------------------------------


def _renamed(path: Path, stored: Arrays, shape: Shape) -> Arrays:
    """Returns the weights by the names of transformers, and the tables as "source", "target" and "output", float32.

    The tables and the bias of the logits get one more row, for padding and start: zeros, and never written.

    Raises:
        BundleError: weights are missing or have another shape than the options say; all of them are named.
        ExportError: there are weights that our model does not have.
    """
    if shape.num_encoder_layers + shape.num_decoder_layers > len(stored):
        raise BundleError(f"{path}: has {len(stored):,} weights, too few for the layers that its options say.")
    taken, wrong = set(), []

    def take(name: str, *lengths: int) -> np.ndarray:
        """Returns a weight of some shape; its vectors have one row there."""
        taken.add(name)
        array = stored.get(name)
        wanted = lengths if len(lengths) == 2 else (1, *lengths)
        if array is None or array.shape != wanted:
            wrong.append(f"{name}: {'missing' if array is None else array.shape}, the options say {wanted}")
            return np.zeros([0] * len(lengths), np.float32)
        with np.errstate(over="ignore"):
            return array.reshape(lengths).astype(np.float32, copy=False)

    arrays: Arrays = {}
    for theirs, name, rows, columns in _matrices(shape):
        arrays[f"{name}.weight"] = take(theirs, columns, rows).T
        bias = re.sub("W(.)$", r"b\1", theirs)
        arrays[f"{name}.bias"] = take(bias, rows)
    for theirs, name in _norms(shape):
        before = "_pre" if f"{theirs}_ln_scale_pre" in stored else ""
        arrays[f"{name}.weight"] = take(f"{theirs}_ln_scale{before}", shape.d_model)
        arrays[f"{name}.bias"] = take(f"{theirs}_ln_bias{before}", shape.d_model)
    arrays |= _tables(path, stored, take, shape.d_model)
    if wrong:
        more = f"\n  and {len(wrong) - 20} more" if len(wrong) > 20 else ""
        raise BundleError(f"{path}: the weights do not fit its options:\n  " + "\n  ".join(wrong[:20]) + more)
    if unknown := sorted(stored.keys() - taken):
        more = ", …" if len(unknown) > 8 else ""
        shown = ", ".join(name[:80] for name in unknown[:8])
        raise ExportError(f"{path}: has weights that a model of Transduce does not have: {shown}{more}.")
    require_finite(arrays, str(path))
    return arrays


def _tables(path: Path, stored: Arrays, take: Callable[..., np.ndarray], d_model: int) -> Arrays:
    """Returns the embeddings of each side, and the weights and the bias of the logits; the last row is ours.

    Raises:
        BundleError: there are none; weights of a wrong shape are noted by `take`.
    """
    names = {
        side: next((name for name in (f"{of}_Wemb", "Wemb") if name in stored), "Wemb")
        for side, of in (("source", "encoder"), ("target", "decoder"))
    }
    rows = {name: (stored[name].shape or (0,))[0] if name in stored else 0 for name in names.values()}
    if not all(rows.values()):
        raise BundleError(f"{path}: has no embeddings: {', '.join(name for name in rows if not rows[name])} missing.")
    found = {name: np.pad(take(name, count, d_model), ((0, 1), (0, 0))) for name, count in rows.items()}
    tables = {side: found[name] for side, name in names.items()}
    size = rows[names["target"]]
    if _OUTPUT in stored:
        tables["output"] = np.pad(take(_OUTPUT, d_model, size).T, ((0, 1), (0, 0)))
    elif _OUTPUT_ROWS in stored:
        tables["output"] = np.pad(take(_OUTPUT_ROWS, size, d_model), ((0, 1), (0, 0)))
    else:
        tables["output"] = tables["target"]
    bias = take(_OUTPUT_BIAS, size) if _OUTPUT_BIAS in stored else np.zeros(size, np.float32)
    return tables | {"final_logits_bias": np.append(bias, np.float32(NEVER_WRITTEN))[None]}


def _matrices(shape: Shape) -> Iterator[tuple[str, str, int, int]]:
    """Yields the name of a matrix in Marian and of its module in transformers, and its outputs and inputs."""
    for theirs, ours, attentions in _layers(shape):
        for attention, module in attentions:
            for letter, name in (("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("o", "out_proj")):
                yield f"{theirs}_{attention}_W{letter}", f"{ours}.{module}.{name}", shape.d_model, shape.d_model
        yield f"{theirs}_ffn_W1", f"{ours}.fc1", shape.d_ff, shape.d_model
        yield f"{theirs}_ffn_W2", f"{ours}.fc2", shape.d_model, shape.d_ff


def _norms(shape: Shape) -> Iterator[tuple[str, str]]:
    """Yields the name of a layer norm in Marian and in transformers."""
    for theirs, ours, attentions in _layers(shape):
        for attention, module in attentions:
            yield f"{theirs}_{attention}_Wo", f"{ours}.{module}_layer_norm"
        yield f"{theirs}_ffn_ffn", f"{ours}.final_layer_norm"
    if shape.pre_norm:
        for side in ("encoder", "decoder"):
            yield f"{side}_top", f"model.{side}.layer_norm"


def _layers(shape: Shape) -> Iterator[tuple[str, str, tuple[tuple[str, str], ...]]]:
    """Yields the name of a layer in Marian and in transformers, and its attentions."""
    for side, count in (("encoder", shape.num_encoder_layers), ("decoder", shape.num_decoder_layers)):
        attentions = _ATTENTIONS[: 1 if side == "encoder" else 2]
        for layer in range(count):
            yield f"{side}_l{layer + 1}", f"model.{side}.layers.{layer}", attentions


# --- configuration --------------------------------------------------------------------------------------------


def _model_config(arrays: Arrays, shape: Shape, tokenizer: ForeignTokenizer) -> ModelConfig:
    own = tokenizer.tokenizer
    tie = tie_of(arrays)
    return ModelConfig(
        vocab_size=own.vocab_size,
        target_vocab_size=own.target_vocab_size,
        num_encoder_layers=shape.num_encoder_layers,
        num_decoder_layers=shape.num_decoder_layers,
        d_model=shape.d_model,
        d_ff=shape.d_ff,
        num_heads=shape.num_heads,
        d_k=shape.d_model // shape.num_heads,
        d_v=shape.d_model // shape.num_heads,
        activation=shape.activation,
        max_length=_LONGEST,
        tie_embeddings="target" if tie == "all" and own.target_vocab_size else tie,
        norm="pre" if shape.pre_norm else "post",
        layer_norm_epsilon=LAYER_NORM_EPSILON,
        attention_bias=True,
        output_bias=True,
        decoder_start="zero",
    )


def _decode_config(decoder: Decoder) -> DecodeConfig:
    default = DecodeConfig()
    return DecodeConfig(
        beam_size=decoder.beam_size or default.beam_size,
        length_penalty=0.0 if decoder.normalize == 0 else default.length_penalty,
    )


def languages_of_card(folder: Path, *, has_tags: bool) -> DataConfig:
    """Returns the languages that the README names, "" for those that it does not, or where there are several.

    It has "source language(s): eng" and "target language(s): deu fra"; older ones, only ".../en-de/opus-2020.zip".
    """
    path = folder / "README.md"
    text = read_bytes(path, _MOST_CARD_BYTES).decode(errors="replace") if path.is_file() else ""
    archive = re.search(r"/([\w+]{1,200})-([\w+]{1,200})/[\w.+-]{1,200}\.zip", text)
    found = []
    for number, side in enumerate(("source", "target"), start=1):
        line = re.search(rf"^[^\w\n]*{side} language\(s\):(.*)$", text, re.MULTILINE)
        name = line[1].strip() if line else archive[number] if archive else ""
        found.append(single_language(name))
    return DataConfig(source_language=found[0], target_language="" if has_tags else found[1])
