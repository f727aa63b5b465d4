"""Measures the import of a model of another system: its time, and its peak of memory.

    python benchmarks/imports.py [--format ctranslate2] [--rounds 3] [--output result.json]

The models have random weights. Those of CTranslate2 have the size of OPUS-MT's (6 + 6 layers, d_model 512, 58,101
pieces, about 77 million parameters); that of transformers has the size of M2M100's smaller model (12 + 12 layers,
d_model 1024, 128,112 rows, about 484 million).

Each import runs in a process of its own. `memory` is the greatest resident memory of that process, `baseline` what it
has before the import, with PyTorch and CTranslate2 loaded. Both are also given as a multiple of the weights in float32.
With a certificate, the original runs, too, and both are compared on 12 sentences. Outputs end at once: with longer
ones, the time is that of the searches.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from transduce.bundle import save_bundle
from transduce.config import Config, ModelConfig
from transduce.config.special_ids import EOS
from transduce.config.weights import count_parameters, weight_shapes
from transduce.engines.ctranslate2_model import convert
from transduce.reporting.machine import describe_machine
from transduce.text import SPECIAL_TOKENS, SentencePieceTokenizer

PIECES, M2M100_ROWS = 58_101, 128_112
WIDTHS = {
    "vocab_size": PIECES,
    "activation": "swish",
    "attention_bias": True,
    "output_bias": True,
    "decoder_start": "zero",
}


def tokenizer() -> tuple[bytes, list[str]]:
    """Returns a SentencePiece model of few pieces, and a vocabulary of as many as OPUS-MT's models have."""
    import io

    import sentencepiece

    written = io.BytesIO()
    lines = [f"a model of {number} pieces reads the line number {number * 7}." for number in range(2000)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=written, vocab_size=100, bos_id=-1, minloglevel=2
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    known = [processor.id_to_piece(index) for index in range(processor.get_piece_size())]
    names = [*SPECIAL_TOKENS, *(name for name in known if name not in SPECIAL_TOKENS)]
    return written.getvalue(), [*names, *(f"piece{index}" for index in range(PIECES - len(names)))]


def ctranslate2_folder(folder: Path, quantization: str) -> Path:
    """Writes a folder of CTranslate2 with random weights and a SentencePiece model."""
    model, names = tokenizer()
    config = Config(model=ModelConfig(**WIDTHS))  # type: ignore[arg-type]
    generator = np.random.default_rng(1)
    weights = {
        name: generator.normal(0, 0.05, shape).astype(np.float32) for name, shape in weight_shapes(config.model).items()
    }
    weights["output_bias"][EOS] = 2.5  # so that outputs end at once
    bundle = save_bundle(folder / "bundle", config, weights, SentencePieceTokenizer.of(names, model), {})
    convert(bundle, folder / quantization, quantization)
    (folder / quantization / "sentencepiece.model").write_bytes(model)
    return folder / quantization


def m2m100_folder(folder: Path) -> Path:
    """Writes a folder of transformers: M2M100 of 418 M, with random weights and a SentencePiece model of few pieces."""
    import torch
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    model, names = tokenizer()
    origin = folder / "m2m100"
    origin.mkdir()
    words = ["<s>", "<pad>", "</s>", "<unk>", *names[len(SPECIAL_TOKENS) :]]
    words += [f"word{index}" for index in range(M2M100_ROWS - 108 - len(words))]  # 100 languages, 8 without a meaning
    (origin / "vocab.json").write_text(json.dumps({word: index for index, word in enumerate(words)}))
    (origin / "sentencepiece.bpe.model").write_bytes(model)
    specials = {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "sep_token": "</s>",
        "pad_token": "<pad>",
    }
    settings = {"tokenizer_class": "M2M100Tokenizer", "language_codes": "m2m100", "num_madeup_words": 8, **specials}
    (origin / "tokenizer_config.json").write_text(json.dumps(settings))
    torch.manual_seed(1)
    made = M2M100ForConditionalGeneration(M2M100Config(vocab_size=M2M100_ROWS))
    with torch.no_grad():  # so that outputs end at once
        end = made.model.shared.weight[2]
        made.model.decoder.layer_norm.bias.copy_(10 * end / end.norm())
    made.save_pretrained(origin)
    return origin


OPUS_SIZE = count_parameters(ModelConfig(**WIDTHS))  # type: ignore[arg-type]
M2M100_SIZE = 483_905_536  # what transformers counts
SIZES = {"ctranslate2": OPUS_SIZE, "huggingface": M2M100_SIZE}
MAKERS: dict[str, dict[str, Callable[[Path], Path]]] = {
    "ctranslate2": {
        kind: lambda folder, kind=kind: ctranslate2_folder(folder, kind)  # type: ignore[misc]
        for kind in ("float32", "int8")
    },
    "huggingface": {"M2M100": m2m100_folder},
}

_MEASURED = """
import json, resource, sys, time
from pathlib import Path
import ctranslate2, sentencepiece, torch
from transduce.export.imports import import_model
torch.set_num_threads(1)
def peak():
    return [int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM")][0]
origin, output, certificate = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "certificate"
baseline, began = peak(), time.perf_counter()
import_model(origin, output, force=True, compare=certificate)
print(json.dumps({"seconds": time.perf_counter() - began, "memory": peak(), "baseline": baseline}))
"""


def measure(origin: Path, output: Path, certificate: str) -> dict[str, float]:
    """Imports once, in a process of its own."""
    command = [sys.executable, "-c", _MEASURED, str(origin), str(output), certificate]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--format", choices=MAKERS, action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    rows = []
    for name in args.format or MAKERS:
        size = 4 * SIZES[name]
        print(f"{name}: {size / 4:,.0f} parameters, {size / 1e6:,.0f} MB in float32")
        for kind, make in MAKERS[name].items():
            with tempfile.TemporaryDirectory() as folder:
                origin = make(Path(folder))
                for certificate in ("no certificate", "certificate"):
                    found = [
                        measure(origin, Path(folder, f"{certificate}{each}"), certificate)
                        for each in range(args.rounds)
                    ]
                    row = {key: sorted(each[key] for each in found)[len(found) // 2] for key in found[0]}
                    times = {
                        "weights_bytes": size,
                        "of_weights": row["memory"] / size,
                        "added": (row["memory"] - row["baseline"]) / size,
                    }
                    rows.append(
                        {"format": name, "kind": kind, "certificate": certificate == "certificate", **row, **times}
                    )
                    print(
                        f"{name} {kind}, {certificate}: {row['seconds']:.1f} s, {row['memory'] / 1e6:,.0f} MB "
                        f"({times['of_weights']:.2f} × the weights; {times['added']:.2f} × above the baseline)"
                    )
    if args.output:
        result = {"date": time.strftime("%Y-%m-%d"), "machine": describe_machine(), "rows": rows}
        args.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
