"""Checkpoints in the form of OPUS-MT on the hub, with random weights: two SentencePiece models and a MarianMTModel."""

import io
import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import sentencepiece
import torch

SOURCE_TEXT = ("The café was naïve about prices.", "A dog runs on the grass.", "Two dogs run over the green field.")
TARGET_TEXT = ("Der Übersetzer läuft über die Straße.", "Ein Hund rennt.", "Zwei Hunde laufen über das grüne Feld.")


@cache
def learned(text: Sequence[str], **settings: Any) -> bytes:
    """Returns a SentencePiece model; `</s>` has id 0 and `<unk>` 1, as in OPUS-MT."""
    written = io.BytesIO()
    sizes = {"vocab_size": 80, "hard_vocab_limit": False, "minloglevel": 2}
    ids = {"bos_id": -1, "eos_id": 0, "unk_id": 1, "pad_id": -1}
    rule = {"normalization_rule_name": "nmt_nfkc"}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*text] * 20), model_writer=written, **sizes | ids | rule | settings
    )
    return written.getvalue()


def pieces_of(model: bytes) -> list[str]:
    """Returns the pieces of a model, without its special ones."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(index) for index in range(2, processor.get_piece_size())]


def make_marian(
    folder: Path,
    *,
    targets: Sequence[str] = (),
    separate: bool = False,
    pickled: bool = False,
    zero_padding: bool = True,
    seed: int = 1,
    **changes: Any,
) -> Any:
    """Writes a checkpoint and returns the model of transformers.

    Args:
        folder: where to write.
        targets: codes of target languages that a source begins with, as `>>deu<<`.
        separate: whether each side has a vocabulary of its own.
        pickled: whether the weights are in pytorch_model.bin.
        zero_padding: whether the embedding of padding, from which the decoder starts, is zero, as in OPUS-MT.
        seed: of the weights.
        changes: to the configuration.
    """
    from transformers import MarianConfig, MarianMTModel

    folder.mkdir(parents=True)
    models = [learned(SOURCE_TEXT), learned(TARGET_TEXT)]
    special, tags = ["</s>", "<unk>"], [f">>{target}<<" for target in targets]
    sides = [_distinct([*special, *tags, *pieces_of(model)]) for model in models]
    if separate:  # padding has one id on both sides
        longest = max(map(len, sides))
        sides = [[*side, *(f"▁more{index}" for index in range(longest - len(side)))] for side in sides]
    else:
        sides = [_distinct([*special, *tags, *(piece for model in models for piece in pieces_of(model))])]
    sides = [[*side, "<pad>"] for side in sides]
    names = ("vocab.json", "target_vocab.json")
    for name, side in zip(names, sides, strict=False):
        ids = {piece: index for index, piece in enumerate(side)}
        (folder / name).write_text(json.dumps(ids, ensure_ascii=False), encoding="utf-8")
    for name, model in zip(("source.spm", "target.spm"), models, strict=True):
        (folder / name).write_bytes(model)
    settings = {"source_lang": "en", "target_lang": "mul" if targets else "de", "separate_vocabs": separate}
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MarianTokenizer"} | settings))
    pad = len(sides[-1]) - 1
    config = MarianConfig(
        **{
            "vocab_size": len(sides[0]),
            "decoder_vocab_size": len(sides[-1]),
            "share_encoder_decoder_embeddings": not separate,
            "d_model": 16,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 2,
            "encoder_ffn_dim": 24,
            "decoder_ffn_dim": 24,
            "activation_function": "swish",
            "static_position_embeddings": True,
            "scale_embedding": True,
            "max_position_embeddings": 64,
            "pad_token_id": pad,
            "eos_token_id": 0,
            "bos_token_id": 0,
            "decoder_start_token_id": pad,
            "forced_eos_token_id": 0,
        }
        | changes
    )
    torch.manual_seed(seed)
    network = MarianMTModel(config).eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "embed_positions" not in name:
                parameter.add_(torch.randn_like(parameter) * (0.1 if parameter.dim() == 1 else 0.25))
        if zero_padding:
            network.get_decoder().embed_tokens.weight[pad] = 0
        network.final_logits_bias.normal_(0, 0.5)
        network.final_logits_bias[0, 0] += 1.5  # outputs end, now and then
    network.generation_config.update(num_beams=2, max_length=64, bad_words_ids=[[pad]])
    network.save_pretrained(folder)
    if pickled:
        torch.save(network.state_dict(), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    return network


def _distinct(pieces: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(pieces))
