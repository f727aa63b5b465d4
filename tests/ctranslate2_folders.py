"""Folders of CTranslate2 with random weights, made by its own converters, and the tokenizer of each."""

import io
import struct
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import sentencepiece
import torch
import transformers
from ctranslate2.converters import TransformersConverter, opennmt_py
from ctranslate2.specs import transformer_spec

from small_corpus import sentences

LINES = [source for source, _ in sentences(80, seed=5)]
_SHAPE = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "max_position_embeddings": 128}
_SHAPE |= {
    f"{side}_{key}": value
    for side in ("encoder", "decoder")
    for key, value in (("attention_heads", 4), ("ffn_dim", 48))
}
_SEED = 8  # whose outputs have no two candidates that are equal within 1e-5
_TYPES = {
    np.dtype("float32"): 0,
    np.dtype("int8"): 1,
    np.dtype("int16"): 2,
    np.dtype("int32"): 3,
    np.dtype("float16"): 4,
}


@cache
def sentencepiece_model() -> tuple[bytes, tuple[str, ...]]:
    """Returns a SentencePiece model, and its pieces without its special tokens."""
    written = io.BytesIO()
    lines = [side for pair in sentences(400, seed=2) for side in pair]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=written, vocab_size=120, bos_id=-1, pad_id=-1, eos_id=0, unk_id=1,
        minloglevel=2,
    )  # fmt: skip
    processor = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    return written.getvalue(), tuple(processor.id_to_piece(index) for index in range(2, processor.get_piece_size()))


class _Converter(TransformersConverter):
    """Converts a model in memory: its tokenizer is a list of names."""

    def __init__(self, model: Any, names: list[str], **special: str) -> None:
        super().__init__("")
        self._made, self._names, self._special = model, names, special

    def _load(self) -> Any:
        from ctranslate2.converters import transformers as loaders

        tokenizer = SimpleNamespace(
            get_vocab=lambda: {name: index for index, name in enumerate(self._names)},
            convert_ids_to_tokens=lambda index: self._names[index],
            unk_token_id=self._names.index("<unk>"),
            special_tokens_map={},
            num_madeup_words=0,
            unk_token="<unk>",
            **self._special,
        )
        with torch.no_grad():
            return loaders._MODEL_LOADERS[type(self._made.config).__name__](self._made, tokenizer)


def _random(model: torch.nn.Module, end: int, *, ending: float) -> None:
    """Draws all weights; outputs differ from token to token, and end now and then."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter += 0.15 * torch.randn_like(parameter)
        model.final_logits_bias[0, end] = ending  # type: ignore[union-attr, index]


def marian_folder(folder: Path, quantization: str | None = None, *, ending: float = 1.5, **changes: Any) -> Path:
    """Makes a folder as OPUS-MT's converted models are: `</s>` first, `<pad>` removed, a zero vector first."""
    model, pieces = sentencepiece_model()
    names = ["</s>", "<unk>", *pieces, "<pad>"]
    config = transformers.MarianConfig(
        vocab_size=len(names), activation_function="swish", scale_embedding=True, pad_token_id=len(names) - 1,
        eos_token_id=0, decoder_start_token_id=len(names) - 1, static_position_embeddings=True, **_SHAPE | changes,
    )  # fmt: skip
    torch.manual_seed(_SEED)
    made = transformers.MarianMTModel(config).eval()
    made.final_logits_bias.normal_(0, 0.3, generator=torch.Generator().manual_seed(3))
    _random(made, 0, ending=ending)
    with torch.no_grad():
        made.model.shared.weight[-1] = 0
    _Converter(made, names, eos_token="</s>").convert(str(folder), quantization=quantization)
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(model)
    return folder


def m2m100_folder(folder: Path, quantization: str | None = None) -> Path:
    """Makes a folder as M2M100's converted models are: pre-norm, positions from 2, codes of languages at the end."""
    model, pieces = sentencepiece_model()
    names = ["<s>", "<pad>", "</s>", "<unk>", *pieces, "__de__", "__en__"]
    config = transformers.M2M100Config(
        vocab_size=len(names),
        activation_function="relu",
        scale_embedding=True,
        decoder_start_token_id=2,
        tie_word_embeddings=False,
        **_SHAPE,
    )
    torch.manual_seed(_SEED)
    made = transformers.M2M100ForConditionalGeneration(config).eval()
    made.final_logits_bias = torch.zeros(1, len(names))  # which the class does not have
    _random(made, 2, ending=1.5)
    special = {"bos_token": "<s>", "eos_token": "</s>"}
    _Converter(made, names, **special).convert(str(folder), quantization=quantization)
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    return folder


def opennmt_folder(
    folder: Path, quantization: str | None = None, *, ending: float = 1.5, codes: tuple[str, ...] = (), **changes: Any
) -> Path:
    """Makes a folder as OpenNMT-py's converted models, and so Argos' packages, are: no EOS ends a source."""
    model, pieces = sentencepiece_model()
    names = ["<unk>", "<blank>", "<s>", "</s>", *pieces, *codes]
    shape = {"pre_norm": True, "num_layers": (2, 3), "num_heads": 4} | changes
    specification = transformer_spec.TransformerSpec.from_config(**shape)
    opennmt_py.set_transformer_spec(specification, _opennmt_weights(len(names), ending))
    specification.register_source_vocabulary(names)
    specification.register_target_vocabulary(names)
    specification.validate()
    specification.optimize(quantization=quantization)
    folder.mkdir(parents=True)
    specification.save(str(folder))
    (folder / "sentencepiece.model").write_bytes(model)
    return folder


def _opennmt_weights(vocab_size: int, ending: float) -> dict[str, torch.Tensor]:
    """Returns the state dict of an OpenNMT-py Transformer of 2 and 3 layers, with its table of sinusoids."""
    generator, width, inner = torch.Generator().manual_seed(11), 32, 48
    made: dict[str, torch.Tensor] = {}

    def linear(name: str, rows: int, columns: int) -> None:
        made[f"{name}.weight"] = torch.randn(rows, columns, generator=generator) * columns**-0.5 * 1.5
        made[f"{name}.bias"] = torch.randn(rows, generator=generator) * 0.1

    def norm(name: str) -> None:
        made[f"{name}.weight"] = 1 + 0.1 * torch.randn(width, generator=generator)
        made[f"{name}.bias"] = 0.1 * torch.randn(width, generator=generator)

    position = torch.arange(0, 200).unsqueeze(1)
    rates = torch.exp(torch.arange(0, width, 2, dtype=torch.float) * -(torch.log(torch.tensor(10000.0)) / width))
    table = torch.zeros(200, width)
    table[:, 0::2], table[:, 1::2] = torch.sin(position.float() * rates), torch.cos(position.float() * rates)
    for side, layers, count in (("encoder", "transformer", 2), ("decoder", "transformer_layers", 3)):
        embeddings = f"{side}.embeddings.make_embedding"
        made[f"{embeddings}.pe.pe"] = table.unsqueeze(1)
        made[f"{embeddings}.emb_luts.0.weight"] = torch.randn(vocab_size, width, generator=generator) * width**-0.5
        norm(f"{side}.layer_norm")
        for layer in range(count):
            name = f"{side}.{layers}.{layer}"
            for attention in ("self_attn", "context_attn") if side == "decoder" else ("self_attn",):
                for part in ("linear_query", "linear_keys", "linear_values", "final_linear"):
                    linear(f"{name}.{attention}.{part}", width, width)
            for each in ("layer_norm_1", "layer_norm_2") if side == "decoder" else ("layer_norm",):
                norm(f"{name}.{each}")
            norm(f"{name}.feed_forward.layer_norm")
            linear(f"{name}.feed_forward.w_1", inner, width)
            linear(f"{name}.feed_forward.w_2", width, inner)
    linear("generator", vocab_size, width)
    made["generator.bias"][3] += ending
    return made


def rewrite(
    path: Path,
    version: int,
    *,
    arrays: dict[str, np.ndarray] | None = None,
    names: dict[str, str] | None = None,
    without: str = "",
    revision: int = 4,
) -> None:
    """Writes a `model.bin` again as another version of the format, without some variables and with others.

    Args:
        path: of the file.
        version: of the format.
        arrays: further variables.
        names: new names of variables.
        without: variables that have this in their name are left out.
        revision: of the specification.
    """
    stored, aliases = read_file(path)
    for name, array in (arrays or {}).items():
        stored[name] = (array.shape, _TYPES[array.dtype], array.tobytes())
    new = names or {}
    kept = {name for name in (*stored, *aliases) if not without or without not in name}
    stored = {new.get(name, name): value for name, value in stored.items() if name in kept}
    aliases = {new.get(name, name): new.get(other, other) for name, other in aliases.items() if name in kept}

    def text(value: str) -> bytes:
        return struct.pack("<H", len(value.encode()) + 1) + value.encode() + b"\0"

    with path.open("wb") as file:
        file.write(struct.pack("<I", version) + text("TransformerSpec") + struct.pack("<II", revision, len(stored)))
        for name, (shape, kind, data) in stored.items():
            file.write(text(name) + struct.pack(f"<B{len(shape)}IBI", len(shape), *shape, kind, len(data)) + data)
        file.write(struct.pack("<I", len(aliases)))
        for alias, name in aliases.items():
            file.write(text(alias) + text(name))


def read_file(path: Path) -> tuple[dict[str, tuple[tuple[int, ...], int, bytes]], dict[str, str]]:
    """Returns what a `model.bin` holds: shape, type and bytes of each variable, and the aliases."""
    data, place = path.read_bytes(), 0

    def number(code: str) -> int:
        nonlocal place
        [value] = struct.unpack_from(f"<{code}", data, place)
        place += struct.calcsize(f"<{code}")
        return int(value)

    def text() -> str:
        nonlocal place
        length = number("H")
        place += length
        return data[place - length : place - 1].decode()

    assert (number("I") in (4, 5, 6), text()) == (True, "TransformerSpec")
    number("I")  # its revision
    arrays = {}
    for _ in range(number("I")):
        name, shape = text(), tuple(number("I") for _ in range(number("B")))
        kind, size = number("B"), number("I")
        arrays[name] = (shape, kind, data[place : place + size])
        place += size
    aliases = {text(): text() for _ in range(number("I"))}
    assert place == len(data)
    return arrays, aliases
