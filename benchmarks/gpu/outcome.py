"""What came of a training: its score on a test set, and its weights in pieces that are small enough to travel.

    python benchmarks/gpu/outcome.py score build/gpu/run newstest2014.en newstest2014.fr --output newstest2014.out
    python benchmarks/gpu/outcome.py split build/gpu/run/model build/gpu/weights
    python benchmarks/gpu/outcome.py join weights models/europarl-en-fr

`split` rounds the weights to bfloat16 and cuts the model folder into at most 8 files of at most 16 MiB, 128 MiB in all:
enough for the paper's base model with 32 000 pieces (121 MB). `join` makes a model folder of them again, in float32.
"""

import argparse
import io
import json
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from transduce.bundle import Bundle, save_bundle
from transduce.errors import TransduceError
from transduce.files import sha256

_MAX_PIECES, _PIECE_BYTES = 8, 16 << 20


def score(run: Path, source: Path, reference: Path, device: str, output: Path, limit: int) -> dict[str, Any]:
    """Translates a test set with the run's model, writes the translations, and returns BLEU and the run's metrics."""
    from transduce import Translator
    from transduce.evaluation.bleu import bleu, chrf

    lines, references = (path.read_text(encoding="utf-8").split("\n")[:-1] for path in (source, reference))
    lines, references = lines[:limit], references[:limit]
    translator = Translator.load(run / "model", engine="torch", device=device)
    started = time.perf_counter()
    found = translator.translate(lines, batch_size=64)
    seconds = time.perf_counter() - started
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("".join(f"{line}\n" for line in found), encoding="utf-8")
    options = translator.options
    return {
        "test_set": source.stem,
        "sentences": len(lines),
        "beam_size": options.beam_size,
        "length_penalty": options.length_penalty,
        "bleu": bleu(found, [references]).to_dict(),
        "chrf": chrf(found, [references]).to_dict(),
        "seconds": round(seconds, 2),
        "sentences_per_second": round(len(lines) / seconds, 1),
        "metrics": Bundle.load(run / "model").metrics,
    }


def split(model: Path, output: Path) -> dict[str, Any]:
    """Writes the pieces of a model folder; returns how many, and the checksum of all of them together."""
    bundle = Bundle.load(model)
    weights = {name: _bfloat16(value) for name, value in sorted(bundle.weights().items())}
    index = {name: list(value.shape) for name, value in weights.items()}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("config.json", "metrics.json", "tokenizer.json"):
            archive.add(model / name, name)
        _add(archive, "index.json", json.dumps(index).encode())
        _add(archive, "weights.bf16", b"".join(value.tobytes() for value in weights.values()))
    packed = buffer.getvalue()
    size = -(-len(packed) // _MAX_PIECES)
    if size > _PIECE_BYTES:
        raise SystemExit(f"{model}: {len(packed)} bytes do not fit into {_MAX_PIECES} pieces of {_PIECE_BYTES}.")
    output.mkdir(parents=True, exist_ok=True)
    for old in output.glob("model.tar.*"):
        old.unlink()
    pieces = [packed[first : first + size] for first in range(0, len(packed), size)]
    for number, piece in enumerate(pieces):
        (output / f"model.tar.{number}").write_bytes(piece)
    return {"pieces": len(pieces), "bytes": len(packed), "model_sha256": sha256(model / "model.safetensors")}


def join(pieces: Path, output: Path) -> dict[str, Any]:
    """Makes a model folder of its pieces."""
    paths = sorted(pieces.glob("model.tar.*"))
    with tarfile.open(fileobj=io.BytesIO(b"".join(path.read_bytes() for path in paths))) as archive:
        parts = {each.name: archive.extractfile(each).read() for each in archive}  # type: ignore[union-attr]
    flat = np.frombuffer(parts["weights.bf16"], "<u2")
    weights, start = {}, 0
    for name, shape in json.loads(parts["index.json"]).items():
        count = int(np.prod(shape))
        weights[name] = (flat[start : start + count].astype(np.uint32) << 16).view(np.float32).reshape(shape)
        start += count
    if start != len(flat):
        raise SystemExit(f"{pieces}: {len(flat)} weights, and the index has {start}: pieces are missing or mixed up.")
    from transduce.config import from_dict
    from transduce.text import SubwordTokenizer

    config = from_dict(json.loads(parts["config.json"])["config"], str(pieces))
    tokenizer = SubwordTokenizer.from_json(parts["tokenizer.json"].decode())
    metrics = json.loads(parts["metrics.json"]) | {"rounded_to": "bfloat16"}
    save_bundle(output, config, weights, tokenizer, metrics)
    return {"model": str(output), "parameters": start}


def _bfloat16(values: np.ndarray) -> np.ndarray:
    """Returns the upper halves of float32, rounded to the nearest, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def main() -> None:
    """Does one of the three, and prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    scoring = commands.add_parser("score")
    scoring.add_argument("run", type=Path)
    scoring.add_argument("source", type=Path)
    scoring.add_argument("reference", type=Path)
    scoring.add_argument("--device", default="cuda")
    scoring.add_argument("--output", type=Path, required=True, help="file for the translations")
    scoring.add_argument("--limit", type=int, default=None, help="only so many sentences")
    for name in ("split", "join"):
        command = commands.add_parser(name)
        command.add_argument("source", type=Path)
        command.add_argument("output", type=Path)
    args = parser.parse_args()
    try:
        if args.command == "score":
            result = score(args.run, args.source, args.reference, args.device, args.output, args.limit)
        else:
            result = (split if args.command == "split" else join)(args.source, args.output)
    except (TransduceError, OSError) as error:
        sys.exit(str(error))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
