"""M2M100 and NLLB as their users have them: the classes and files of transformers, with random weights."""

import io
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

_TEXT = (
    "the a dog dogs run runs over green grass man woman talks café naïve 12 3.5 % der Hund läuft über die Wiese Straße "
    "und ein Mann spricht mit einer Frau le chien court sur l'herbe verte собака бежит по траве 狗 跑 草地 "
    "人 犬が走る كلب يركض कुत्ता don't — e-mail ½ ﬁn Ａ １ … « »"
)
CODES = ("en", "de", "fr", "ru", "zh", "ar")  # those of `WORDS`, in both systems' forms
NLLB_CODES = ("eng_Latn", "deu_Latn", "fra_Latn", "rus_Cyrl", "zho_Hans", "arb_Arab")


def made_lines(count: int, seed: int = 1) -> list[str]:
    """Returns lines of words of many scripts, with odd white space and unknown characters now and then."""
    draw = random.Random(seed)
    words_of_text, lines = _TEXT.split(), []
    for _ in range(count):
        words = [draw.choice(words_of_text) for _ in range(draw.randint(1, 12))]
        if draw.random() < 0.2:
            words.insert(draw.randrange(len(words) + 1), draw.choice(("☃", "x\u0301y", "ÀÉ", "\u00a0", "Ω", "qq")))
        lines.append(draw.choice((" ", " ", " ", "  ", ", ")).join(words) + draw.choice((".", "!", "", " ")))
    return lines


@cache
def sentencepiece_model(kind: str = "bpe") -> bytes:
    """Returns a small SentencePiece model of the words in `made_lines`, with the ids of special tokens as fairseq's."""
    import sentencepiece

    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(made_lines(1500, seed=2)),
        model_writer=written,
        vocab_size=320,
        model_type=kind,
        minloglevel=2,
        character_coverage=0.999,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=-1,
    )
    return written.getvalue()


def _vocabulary() -> dict[str, int]:
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor()
    processor.load_from_serialized_proto(sentencepiece_model())
    pieces = [processor.id_to_piece(index) for index in range(3, processor.get_piece_size())]
    return {name: index for index, name in enumerate(("<s>", "<pad>", "</s>", "<unk>", *pieces))}


def save_weights(folder: Path, vocab_size: int, *, seed: int = 0, bin: bool = False, shards: str = "50GB") -> Any:
    """Writes a model of transformers with random weights, whose outputs are neither empty nor all alike."""
    import torch
    import transformers

    torch.manual_seed(seed)
    config = transformers.M2M100Config(
        vocab_size=vocab_size,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        max_position_embeddings=64,
    )
    model = transformers.M2M100ForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.2)
            elif "layer_norm.weight" in name:
                parameter.normal_(1, 0.2)
            else:
                parameter.mul_(8)
        model.model.decoder.layer_norm.weight.normal_(0, 4)  # of either sign, or each token would be followed by itself
        model.model.shared.weight[2] *= -2.5  # so that outputs end, now and then
    model.generation_config.update(max_length=48, num_beams=3, length_penalty=1.0, early_stopping=False)
    model.save_pretrained(folder, max_shard_size=shards)
    if bin:
        _as_pickles(folder)
    return model


def _as_pickles(folder: Path) -> None:
    """Replaces the safetensors of a folder by pickles, as PyTorch writes them."""
    import torch
    from safetensors.torch import load_file

    for path in sorted(folder.glob("model*.safetensors")):
        name = path.name.replace("model", "pytorch_model").replace(".safetensors", ".bin")
        torch.save(load_file(path), folder / name)
        path.unlink()
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        text = index.read_text().replace("model-", "pytorch_model-").replace(".safetensors", ".bin")
        (folder / "pytorch_model.bin.index.json").write_text(text)
        index.unlink()


def m2m100_folder(folder: Path, *, listed: bool = True, **weights: Any) -> Path:
    """Writes an M2M100 of all its 100 languages: `vocab.json`, a SentencePiece model, and eight words of no meaning.

    `listed`: whether its files list the codes of its languages, as the first ones did.
    """
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = _vocabulary()
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "sentencepiece.bpe.model").write_bytes(sentencepiece_model())
    codes = transformers.models.m2m_100.tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES["m2m100"]
    tokens: dict[str, Any] = {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "sep_token": "</s>",
        "pad_token": "<pad>",
    }
    settings = {"tokenizer_class": "M2M100Tokenizer", "language_codes": "m2m100", "num_madeup_words": 8, **tokens}
    if listed:
        tokens["additional_special_tokens"] = settings["additional_special_tokens"] = [f"__{code}__" for code in codes]
        (folder / "special_tokens_map.json").write_text(json.dumps(tokens))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    save_weights(folder, len(vocabulary) + 100 + 8, **weights)
    return folder


def nllb_folder(folder: Path, *, tokenizer_json: bool = False, **weights: Any) -> Path:
    """Writes an NLLB of all its languages: a SentencePiece model and a `tokenizer.json`, or the latter only."""
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sentencepiece.bpe.model").write_bytes(sentencepiece_model())
    codes = transformers.models.nllb.tokenization_nllb.FAIRSEQ_LANGUAGE_CODES
    tokenizer = transformers.NllbTokenizer.from_pretrained(folder, extra_special_tokens=codes)
    tokenizer.save_pretrained(folder)
    if tokenizer_json:
        (folder / "sentencepiece.bpe.model").unlink()
    save_weights(folder, len(tokenizer) + 2, **weights)
    return folder
