"""Packs a prepared corpus small enough to travel, and unpacks it where it is trained on.

    python benchmarks/gpu/pack.py make build/prepared build/gpu-pack --test newstest2014.en newstest2014.fr
    python benchmarks/gpu/pack.py unpack build/gpu-pack build/gpu/corpus

A pack is a folder: `pack.json`, `rest.xz` (tokenizer, held-out pairs, test set) and parts of the training pairs,
`train-00.bin` and so on, none larger than `--part-bytes`. Parts may arrive one by one: what is unpacked are the first
ones, as far as they are there, and `unpack` says how many of the pairs those are. Every pair is compared by checksum.

A part is a row of blocks, each of `--block-pairs` pairs, by default as many as a record batch of the store has: first
the sources, then the targets, as 16-bit ids in LZMA, with its length in front.
"""

import argparse
import hashlib
import io
import json
import lzma
import struct
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from transduce.config.checked_json import read_checked, write_checked
from transduce.data.prepared import MANIFEST, TRAIN, load_prepared
from transduce.data.store import BATCH_ROWS, ParallelStore, StoreWriter
from transduce.errors import DataError
from transduce.files import sha256, write_json

PACK, REST = "pack.json", "rest.xz"
_END = np.uint16(0xFFFF)  # after each row; no id of a vocabulary of up to 65 000
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 3, "lp": 1, "pb": 1}]  # for numbers of two bytes


def make(
    prepared: Path, output: Path, part_bytes: int, tests: list[Path], block_pairs: int = BATCH_ROWS
) -> dict[str, Any]:
    """Writes the pack of a prepared folder, and returns what `pack.json` says."""
    folder = load_prepared(prepared)
    if folder.vocab_size > 65_000:
        raise DataError(f"{prepared}: a vocabulary of {folder.vocab_size}; packs are for at most 65000.")
    store = ParallelStore.open(folder.train)
    output.mkdir(parents=True, exist_ok=True)
    for old in output.glob("train-*.bin"):
        old.unlink()
    parts: list[dict[str, Any]] = []
    pending: list[bytes] = []
    rows = 0

    def close() -> None:
        name = f"train-{len(parts):02d}.bin"
        (output / name).write_bytes(b"".join(pending))
        parts.append({"file": name, "pairs": rows, "bytes": sum(map(len, pending)), "sha256": sha256(output / name)})
        pending.clear()

    digest = hashlib.sha256()
    digests: list[str] = []  # after each part
    for first in range(0, len(store), block_pairs):
        indices = np.arange(first, min(first + block_pairs, len(store)))
        sides = store.pairs(indices)
        block = b"".join(_compressed(side) for side in sides)
        if pending and sum(map(len, pending)) + len(block) > part_bytes:
            close()
            digests.append(digest.hexdigest())
            rows = 0
        pending.append(block)
        rows += len(indices)
        _update(digest, sides)
    close()
    digests.append(digest.hexdigest())
    for part, said in zip(parts, digests, strict=True):
        part["pairs_sha256"] = said  # of all pairs up to the end of this part
    names = [prepared / name for name in (*folder.manifest["files"], MANIFEST) if name != TRAIN]
    with lzma.open(output / REST, "wb", preset=9) as file, tarfile.open(fileobj=file, mode="w") as archive:
        for path in [*names, *tests]:
            archive.add(path, path.name)
    described = {
        "format": 1,
        "pairs": len(store),
        "vocab_size": folder.vocab_size,
        "tokenizer_fingerprint": folder.tokenizer_fingerprint,
        "rest_sha256": sha256(output / REST),
        "parts": parts,
    }
    write_json(output / PACK, described)
    return described


def unpack(pack: Path, output: Path) -> dict[str, Any]:
    """Makes a prepared folder of the parts that are there; returns how many pairs of how many it has.

    Raises:
        DataError: the pack is damaged, or has no first part.
    """
    described = json.loads((pack / PACK).read_text(encoding="utf-8"))
    if sha256(pack / REST) != described["rest_sha256"]:
        raise DataError(f"{pack / REST}: damaged: its checksum differs from the one in {PACK}.")
    parts = []
    for part in described["parts"]:
        if not (pack / part["file"]).is_file():
            break
        if sha256(pack / part["file"]) != part["sha256"]:
            raise DataError(f"{pack / part['file']}: damaged: its checksum differs from the one in {PACK}.")
        parts.append(part)
    if not parts:
        raise DataError(f"{pack / 'train-00.bin'}: missing: bring the first part at least.")
    output.mkdir(parents=True, exist_ok=True)
    (output / MANIFEST).unlink(missing_ok=True)
    with lzma.open(pack / REST) as file, tarfile.open(fileobj=io.BytesIO(file.read())) as archive:
        archive.extractall(output, filter="data")
    manifest = read_checked(output / MANIFEST)
    (output / MANIFEST).unlink()
    digest = hashlib.sha256()
    of_store = {"tokenizer_fingerprint": described["tokenizer_fingerprint"], "vocab_size": described["vocab_size"]}
    with StoreWriter.open(output / TRAIN, **of_store) as writer:
        for part in parts:
            sides = _sides(pack / part["file"])
            for sources, targets in zip(sides, sides, strict=True):  # the same iterator twice: pairs of neighbours
                _update(digest, (sources, targets))
                writer.write(sources, targets)
            if digest.hexdigest() != part["pairs_sha256"]:
                raise DataError(f"{pack / part['file']}: its pairs are not those that were packed.")
        num_pairs = writer.num_pairs
    whole = len(parts) == len(described["parts"])
    before = manifest["files"][TRAIN]
    now = {"bytes": (output / TRAIN).stat().st_size, "sha256": sha256(output / TRAIN)}
    manifest["files"][TRAIN] = before | now
    write_checked(output / MANIFEST, manifest)  # last: without it the folder is not prepared
    load_prepared(output)
    return {
        "pairs": num_pairs,
        "of": described["pairs"],
        "parts": len(parts),
        "same_pairs": True,
        "same_file": whole and now["sha256"] == before["sha256"],
        "sha256": now["sha256"],
    }


def _compressed(rows: list[np.ndarray]) -> bytes:
    """Returns one side of a block, its length in front."""
    flat = np.concatenate([np.append(row, _END) for row in rows]).astype("<u2")
    packed = lzma.compress(flat.tobytes(), format=lzma.FORMAT_XZ, filters=_FILTERS)
    return struct.pack("<I", len(packed)) + packed


def _sides(path: Path) -> Iterator[list[np.ndarray]]:
    """Yields the rows of each side of each block, sources first."""
    with path.open("rb") as file:
        while header := file.read(4):
            flat = np.frombuffer(lzma.decompress(file.read(struct.unpack("<I", header)[0])), "<u2")
            ends = np.flatnonzero(flat == _END)
            starts = np.concatenate([[0], ends[:-1] + 1])
            yield [flat[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _update(digest: Any, sides: Sequence[list[np.ndarray]]) -> None:
    for side in sides:
        digest.update(np.array([len(row) for row in side], "<u4").tobytes())
        digest.update(np.concatenate(side).astype("<u2").tobytes())


def main() -> None:
    """Packs or unpacks, and prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make")
    making.add_argument("prepared", type=Path, help="folder made by 'transduce prepare'")
    making.add_argument("pack", type=Path)
    making.add_argument("--test", type=Path, nargs=2, default=[], help="source and reference of a test set")
    making.add_argument("--part-bytes", type=int, default=44 << 20, help="default: 44 MiB")
    making.add_argument("--block-pairs", type=int, default=BATCH_ROWS, help="default: %(default)s")
    unpacking = commands.add_parser("unpack")
    unpacking.add_argument("pack", type=Path)
    unpacking.add_argument("output", type=Path)
    args = parser.parse_args()
    try:
        if args.command == "make":
            result = make(args.prepared, args.pack, args.part_bytes, args.test, args.block_pairs)
        else:
            result = unpack(args.pack, args.output)
    except (DataError, OSError, ValueError) as error:
        sys.exit(f"{args.pack}: {error}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
