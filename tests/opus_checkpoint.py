"""A checkpoint in the form of OPUS-MT on the Hugging Face Hub, tiny and untrained, made on the spot."""

import json
import warnings
from pathlib import Path

LINES = [
    "A dog runs over the green grass.",
    "Two men are talking in the street.",
    "A woman in a red coat waits for a train.",
    "Ein Hund läuft über das grüne Gras.",
    "Zwei Männer unterhalten sich auf der Straße.",
    "Eine Frau in einem roten Mantel wartet auf einen Zug.",
]


def make_opus(folder: Path, *, is_pickle: bool = False) -> Path:
    """Writes a MarianMTModel with its SentencePiece models; with `is_pickle`, its weights as pytorch_model.bin."""
    import sentencepiece
    import torch
    from transformers import MarianConfig, MarianMTModel, MarianTokenizer

    folder.mkdir(parents=True)
    for side in ("source", "target"):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(LINES),
            model_prefix=str(folder / side),
            vocab_size=60,
            normalization_rule_name="nmt_nfkc",
            bos_id=-1,
            eos_id=0,
            unk_id=1,
            pad_id=-1,
            minloglevel=2,
        )
        (folder / f"{side}.vocab").unlink()
        (folder / f"{side}.model").rename(folder / f"{side}.spm")
    processor = sentencepiece.SentencePieceProcessor(str(folder / "source.spm"))
    pieces = [processor.id_to_piece(index) for index in range(processor.get_piece_size())] + ["<pad>"]
    text = json.dumps({piece: index for index, piece in enumerate(pieces)}, ensure_ascii=False)
    (folder / "vocab.json").write_text(text, encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends a package for another kind of punctuation
        tokenizer = MarianTokenizer(
            *(str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")),
            source_lang="en",
            target_lang="de",
            model_max_length=64,
        )
    pad = len(pieces) - 1
    torch.manual_seed(1)
    model = MarianMTModel(
        MarianConfig(
            vocab_size=len(pieces),
            d_model=16,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=32,
            decoder_ffn_dim=32,
            activation_function="swish",
            scale_embedding=True,
            max_position_embeddings=64,
            pad_token_id=pad,
            eos_token_id=0,
            forced_eos_token_id=0,
            decoder_start_token_id=pad,
        )
    )
    for name, value in {"num_beams": 2, "max_length": 20, "bad_words_ids": [[pad]]}.items():
        setattr(model.generation_config, name, value)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if is_pickle:
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    return folder
