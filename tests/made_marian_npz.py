"""Folders of OPUS-MT as Marian writes them, with random weights: the names are those of CTranslate2's converter."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import yaml

WORDS = [
    "a",
    "the",
    "dog",
    "dogs",
    "cat",
    "man",
    "woman",
    "runs",
    "run",
    "sleeps",
    "over",
    "under",
    "green",
    "red",
    "old",
    "new",
    "grass",
    "house",
    "tree",
    "water",
    "and",
    "with",
]
TARGET_WORDS = [
    "ein",
    "der",
    "Hund",
    "Katze",
    "Mann",
    "Frau",
    "läuft",
    "schläft",
    "über",
    "unter",
    "grün",
    "rot",
    "alt",
    "neu",
    "Gras",
    "Haus",
    "Baum",
    "Wasser",
    "und",
    "mit",
]
D_MODEL, D_FF, HEADS, LAYERS = 32, 64, 4, (2, 3)

# What Marian writes into an npz, but for what a test changes.
OPTIONS: dict[str, Any] = {
    "bert-train-type-embeddings": True,
    "bert-type-vocab-size": 2,
    "dec-cell": "gru",
    "dec-cell-base-depth": 2,
    "dec-cell-high-depth": 1,
    "dec-depth": LAYERS[1],
    "dim-emb": D_MODEL,
    "dim-rnn": 1024,
    "enc-cell": "gru",
    "enc-cell-depth": 1,
    "enc-depth": LAYERS[0],
    "enc-type": "bidirectional",
    "input-types": [],
    "layer-normalization": False,
    "lemma-dim-emb": 0,
    "output-omit-bias": False,
    "right-left": False,
    "skip": False,
    "tied-embeddings": False,
    "tied-embeddings-all": True,
    "tied-embeddings-src": False,
    "transformer-aan-activation": "swish",
    "transformer-aan-depth": 2,
    "transformer-aan-nogate": False,
    "transformer-decoder-autoreg": "self-attention",
    "transformer-depth-scaling": False,
    "transformer-dim-aan": 2048,
    "transformer-dim-ffn": D_FF,
    "transformer-ffn-activation": "swish",
    "transformer-ffn-depth": 2,
    "transformer-guided-alignment-layer": "last",
    "transformer-heads": HEADS,
    "transformer-no-projection": False,
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-postprocess-top": "",
    "transformer-preprocess": "",
    "transformer-tied-layers": [],
    "transformer-train-position-embeddings": False,
    "type": "transformer",
    "ulr": False,
    "ulr-dim-emb": 0,
    "ulr-trainable-transformation": False,
    "version": "v1.9.0 a9b1c2d3 2020-01-01",
}
PRE_NORM = {
    "transformer-preprocess": "n",
    "transformer-postprocess": "da",
    "transformer-postprocess-top": "n",
}


def made_lines(count: int, *, seed: int = 1, words: list[str] = WORDS) -> list[str]:
    """Returns sentences of random words."""
    chosen = random.Random(seed)
    return [" ".join(chosen.choices(words, k=chosen.randint(2, 12))).capitalize() + "." for _ in range(count)]


def made_pieces(folder: Path, name: str, words: list[str], size: int = 90) -> list[str]:
    """Learns a SentencePiece model as OPUS-MT does, `</s>` 0 and `<unk>` 1, and returns its pieces."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(made_lines(400, words=words)),
        model_prefix=str(folder / name),
        vocab_size=size,
        hard_vocab_limit=False,
        normalization_rule_name="nmt_nfkc",
        bos_id=-1,
        eos_id=0,
        unk_id=1,
        pad_id=-1,
        minloglevel=2,
    )
    (folder / f"{name}.model").rename(folder / f"{name}.spm")
    (folder / f"{name}.vocab").unlink()
    processor = sentencepiece.SentencePieceProcessor(str(folder / f"{name}.spm"))
    return [processor.id_to_piece(index) for index in range(processor.get_piece_size())]


def made_weights(num_rows: tuple[int, int], tied: str, *, pre_norm: bool, seed: int = 1) -> dict[str, np.ndarray]:
    """Returns random weights by Marian's names; `tied`: "all", "src" (both embeddings), "target" or "none"."""
    numbers = np.random.default_rng(seed)

    def normal(*shape: int, scale: float = 0.3) -> np.ndarray:
        return (scale * numbers.standard_normal(shape)).astype(np.float32)

    weights: dict[str, np.ndarray] = {}
    for side, layers in (("encoder", LAYERS[0]), ("decoder", LAYERS[1])):
        for layer in (f"{side}_l{number + 1}" for number in range(layers)):
            for attention in ("self", "context")[: 1 if side == "encoder" else 2]:
                for letter in "qkvo":
                    weights[f"{layer}_{attention}_W{letter}"] = normal(D_MODEL, D_MODEL)
                    weights[f"{layer}_{attention}_b{letter}"] = normal(1, D_MODEL)
            weights[f"{layer}_ffn_W1"], weights[f"{layer}_ffn_b1"] = normal(D_MODEL, D_FF), normal(1, D_FF)
            weights[f"{layer}_ffn_W2"], weights[f"{layer}_ffn_b2"] = normal(D_FF, D_MODEL), normal(1, D_MODEL)
            for norm in ("self_Wo", "context_Wo", "ffn_ffn"):
                if norm != "context_Wo" or side == "decoder":
                    end = "_pre" if pre_norm else ""
                    weights[f"{layer}_{norm}_ln_scale{end}"] = 1 + normal(1, D_MODEL)
                    weights[f"{layer}_{norm}_ln_bias{end}"] = normal(1, D_MODEL)
        if pre_norm:
            weights[f"{side}_top_ln_scale"] = 1 + normal(1, D_MODEL)
            weights[f"{side}_top_ln_bias"] = normal(1, D_MODEL)
    source, target = num_rows
    if tied in ("all", "src"):
        weights["Wemb"] = normal(source, D_MODEL)
    else:
        weights["encoder_Wemb"], weights["decoder_Wemb"] = normal(source, D_MODEL), normal(target, D_MODEL)
    if tied in ("src", "none"):
        weights["decoder_ff_logit_out_W"] = normal(D_MODEL, target)
    weights["decoder_ff_logit_out_b"] = normal(1, target)
    return weights


def write_npz(path: Path, weights: dict[str, np.ndarray], options: dict[str, Any]) -> None:
    """Writes an npz as Marian does: the options are one of its arrays, with a zero byte at their end."""
    text = yaml.safe_dump(options).encode() + b"\0"
    np.savez(path, **weights, **{"special:model.yml": np.frombuffer(text, np.int8)})


def quoted(piece: str) -> str:
    """Returns a key of `vocab.yml`, quoted where YAML demands it."""
    return yaml.safe_dump(piece, allow_unicode=True, width=10**6).removesuffix("\n...\n").strip()


def write_vocabulary(path: Path, pieces: list[str]) -> None:
    """Writes a `vocab.yml`."""
    text = "".join(f"{quoted(piece)}: {index}\n" for index, piece in enumerate(pieces))
    path.write_text(text, encoding="utf-8")


def make_marian(
    folder: Path, tied: str = "all", *, tags: tuple[str, ...] = (), joint: bool = False, seed: int = 1, **options: Any
) -> dict[str, np.ndarray]:
    """Writes such a folder, and returns its weights.

    Args:
        folder: is made.
        tied: which embeddings are one table; with "target" and "none", each side has its own vocabulary.
        tags: target languages, as pieces such as `>>deu<<`.
        joint: one SentencePiece model that is the vocabulary, too.
        seed: of the weights.
        options: of the model, with "_" for "-".
    """
    folder.mkdir(parents=True)
    chosen = OPTIONS | {name.replace("_", "-"): value for name, value in options.items()}
    if joint:
        pieces = made_pieces(folder, "vocab", WORDS + TARGET_WORDS)
        sides, names = [pieces, pieces], ["vocab.spm", "vocab.spm"]
    else:
        sides = [made_pieces(folder, "source", WORDS), made_pieces(folder, "target", TARGET_WORDS)]
        marks = [f">>{tag}<<" for tag in tags]
        if tied in ("all", "src"):
            merged = list(dict.fromkeys(["</s>", "<unk>", *marks, *sides[0], *sides[1]]))
            sides, names = [merged, merged], ["opus.vocab.yml", "opus.vocab.yml"]
            write_vocabulary(folder / names[0], merged)
        else:
            sides[0] = list(dict.fromkeys(["</s>", "<unk>", *marks, *sides[0]]))
            names = ["opus.src.vocab.yml", "opus.trg.vocab.yml"]
            for name, pieces in zip(names, sides, strict=True):
                write_vocabulary(folder / name, pieces)
    num_rows = len(sides[0]), len(sides[1])
    weights = made_weights(num_rows, tied, pre_norm=chosen["transformer-preprocess"] == "n", seed=seed)
    write_npz(folder / "opus.npz", weights, chosen)
    decoder = {"relative-paths": True, "models": ["opus.npz"], "vocabs": names, "beam-size": 2, "normalize": 1}
    (folder / "decoder.yml").write_text(
        yaml.safe_dump(decoder | {"word-penalty": 0, "mini-batch": 1}), encoding="utf-8"
    )
    return weights
