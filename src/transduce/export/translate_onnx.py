#!/usr/bin/env python3
"""Translates lines with the ONNX model in this folder. Needs numpy, onnxruntime and tokenizers (or sentencepiece).

    echo "A dog runs." | python translate_onnx.py
    python translate_onnx.py --beam-size 1 --input test.en > test.out

A beam search with GNMT's length penalty, a line at a time: 2 x beam candidates a step, and an end that is safe. It is
written to be read and adapted. settings.json says what the model is; encoder.onnx and decoder.onnx share weights.bin.
"""

import argparse
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime


class Pieces:
    """The tokenizer of the folder: `tokenizer.json`, or SentencePiece on each side with a list of pieces."""

    def __init__(self, folder: Path) -> None:
        """Loads it."""
        self.source: Any = None
        if (folder / "source.spm").is_file():
            import sentencepiece

            self.source = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
            names = [json.loads((folder / f"{side}vocabulary.json").read_text("utf-8")) for side in ("", "target_")]
            self.ids = {name: index for index, name in enumerate(names[0]) if index > 3 and not name.startswith("<2")}
            self.names = names[1]
        else:
            from tokenizers import Tokenizer

            self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def encode(self, line: str) -> list[int]:
        """Returns the ids of a line."""
        if self.source is not None:
            return [self.ids.get(piece, 3) for piece in self.source.encode(line, out_type=str)]
        ids: list[int] = self.tokenizer.encode(line, add_special_tokens=False).ids
        return ids

    def decode(self, ids: list[int]) -> str:
        """Returns the text of ids."""
        if self.source is None:
            text: str = self.tokenizer.decode(ids, skip_special_tokens=False)
            return text
        pieces = (self.names[index] for index in ids)
        written = (
            bytes([int(name[3:5], 16)]) if re.fullmatch("<0x[0-9A-F]{2}>", name) else name.replace("▁", " ").encode()
            for name in pieces
        )
        return b"".join(written).removeprefix(b" ").decode("utf-8", "replace")


class OnnxTranslator:
    """The model of one folder."""

    def __init__(self, folder: Path, threads: int = 0) -> None:
        """Loads the folder; `threads` = 0 leaves their number to onnxruntime."""
        self.settings: dict[str, Any] = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
        self.tokenizer = Pieces(folder)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        providers = ["CPUExecutionProvider"]
        self.encoder = onnxruntime.InferenceSession(str(folder / "encoder.onnx"), options, providers=providers)
        self.decoder = onnxruntime.InferenceSession(str(folder / "decoder.onnx"), options, providers=providers)
        layers = range(self.settings["num_decoder_layers"])
        self.past_names = [f"past_{kind}_{layer}" for layer in layers for kind in ("key", "value")]

    def encode(self, ids: list[int]) -> dict[str, np.ndarray]:
        """Reads one source, ids without EOS; returns what each step of the decoder is fed."""
        source = np.array([[*ids[: self.settings["max_source_tokens"]], self.settings["eos"]]], np.int64)
        names = [output.name for output in self.encoder.get_outputs()]
        return dict(zip(names, self.encoder.run(names, {"source_ids": source}), strict=True))

    def no_past(self, rows: int) -> dict[str, np.ndarray]:
        """Returns the cache before the first step."""
        heads, sizes = self.settings["num_heads"], (self.settings["d_k"], self.settings["d_v"])
        return {name: np.zeros((rows, heads, 0, sizes["_value_" in name]), np.float32) for name in self.past_names}

    def step(
        self, tokens: np.ndarray, memory: dict[str, np.ndarray], past: dict[str, np.ndarray]
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Feeds tokens (rows, T) and returns logits (rows, T, vocabulary) and the cache to go on with."""
        outputs = ["logits", *(name.replace("past", "present") for name in self.past_names)]
        logits, *present = self.decoder.run(outputs, {"target_ids": tokens.astype(np.int64)} | memory | past)
        return logits, dict(zip(self.past_names, present, strict=True))

    def search(self, ids: list[int], beam_size: int, alpha: float) -> list[int]:
        """Returns the ids of the best translation of one source; the best open one where none ends in time."""
        settings = self.settings
        tags = settings.get("target_tags", settings.get("tags", {}).values())  # older folders have the source's only
        never = [settings["pad"], settings["bos"], settings["unk"], *tags]
        limit = min(len(ids) + settings["max_extra_tokens"], settings["max_target_tokens"])
        one, past = self.encode(ids), self.no_past(1)
        memory: dict[str, np.ndarray] = {}
        scores, outputs = np.zeros(1), [[settings["bos"]]]
        best_ids: list[int] = []
        best_score = -np.inf
        bound = penalty(limit + 1, alpha)
        for length in range(limit + 1):
            rows = len(outputs)
            if rows != len(memory.get("source_mask", ())):  # one row at first, then as many as the beam
                memory = {name: np.repeat(array, rows, axis=0) for name, array in one.items()}
            logits, past = self.step(np.array([row[-1:] for row in outputs]), memory, past)
            gains = log_softmax(logits[:, -1])
            gains[:, never] = -np.inf
            totals = (scores[:, None] + gains).reshape(-1)
            count = 2 * beam_size if beam_size > 1 else 1
            indices = np.argsort(-totals, kind="stable")[:count]
            parents, tokens = np.divmod(indices, gains.shape[1])
            for index, parent, token in zip(indices, parents, tokens, strict=True):
                score = totals[index] / penalty(length + 1, alpha)
                if token == settings["eos"] and score > best_score:
                    best_ids, best_score = outputs[parent][1:], score
            if length == limit or (beam_size == 1 and tokens[0] == settings["eos"]):
                break
            kept = np.flatnonzero(tokens != settings["eos"])[:beam_size]
            scores, parents = totals[indices[kept]], parents[kept]
            outputs = [[*outputs[parent], int(token)] for parent, token in zip(parents, tokens[kept], strict=True)]
            if best_score >= scores[0] / bound:
                break
            past = {name: array[parents] for name, array in past.items()}
        return best_ids if best_score > -np.inf else outputs[0][1:]

    def tags_of(self, target: str, domain: str = "") -> list[int]:
        """Returns the ids of the tags that ask for a target language and a domain; "" for a model of one."""
        names = ([f"<2{target}>"] if target else []) + ([f"<domain:{domain}>"] if domain else [])
        tags: dict[str, int] = self.settings.get("tags", {})
        for name in names:
            if name not in tags:
                raise SystemExit(f"{name}: the model does not know it. It knows: {', '.join(tags)}")
        return [tags[name] for name in names]

    def translate(
        self, line: str, beam_size: int | None = None, alpha: float | None = None, tags: list[int] | None = None
    ) -> str:
        """Translates one line; white space gives an empty one. Without `tags` it is the default direction."""
        if not line.strip():
            return ""
        before: list[int] = self.settings.get("default_tags", []) if tags is None else tags
        ids = before + self.tokenizer.encode(line)
        beam_size = self.settings["beam_size"] if beam_size is None else beam_size
        alpha = self.settings["length_penalty"] if alpha is None else alpha
        return self.tokenizer.decode(self.search(ids, beam_size, alpha)).replace("\n", " ")


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Returns log-probabilities of the last axis."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    normalised: np.ndarray = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return normalised


def penalty(length: int, alpha: float) -> float:
    """Returns GNMT's length penalty ((5 + length) / 6)^alpha, which divides a log-probability; EOS counts."""
    return float(((5 + length) / 6) ** alpha)


def main() -> None:
    """Translates a file or standard input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent, help="default: that of this script")
    parser.add_argument("--input", type=Path, help="default: standard input")
    parser.add_argument("--beam-size", type=int, help="1 is greedy search; default: settings.json's")
    parser.add_argument("--length-penalty", type=float, help="GNMT's alpha; default: settings.json's")
    parser.add_argument("--threads", type=int, default=0, help="0: as onnxruntime chooses")
    parser.add_argument("--target", default="", help="target language of a model of several; default: settings.json's")
    parser.add_argument("--domain", default="", help="domain; goes with --target where the model has several languages")
    args = parser.parse_args()
    translator = OnnxTranslator(args.folder, args.threads)
    tags = translator.tags_of(args.target, args.domain) if args.target or args.domain else None
    with args.input.open("rb") if args.input else sys.stdin.buffer as file:
        lines = io.TextIOWrapper(file, encoding="utf-8", newline="\n")  # only "\n" ends a line
        for line in lines:
            text = line.removesuffix("\n").removesuffix("\r")  # the "\r" of a file from Windows is none of the text
            print(translator.translate(text, args.beam_size, args.length_penalty, tags), flush=True)


if __name__ == "__main__":
    main()
