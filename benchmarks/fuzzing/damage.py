"""Ways to damage files, each drawn from a generator of random numbers.

Each function damages one of the files that it is given, or some part of a model folder at `root / "model"`, and returns
what it did.
"""

import contextlib
import hashlib
import json
import os
import random
import shutil
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 3, 10**4, 10**9, 10**10, 2**31, 2**63, 2**64, 10**30, -(10**18)),
    *(0.0, 0.5, -1.5, 1e-300, 1e308, float("nan"), float("inf"), -float("inf")),
    *("", "x", "x" * 100_000, "\ud800", "../../x", "\x00", "0" * 64, [], [[]], [1, 2], {}, {"a": 1}),
)
SIZES = ("d_ff", "vocab_size", "num_encoder_layers", "num_decoder_layers", "d_model", "num_heads", "d_k", "d_v")


ODD_CONTENTS = (
    *(b"", b"{}", b"[]", b"null", b"NaN", b'"x"', b"\xff\xfe", b"{", b"[" * 100_000, b'{"format": 1}'),
    *(bytes(64), b"1" * 5000, b"a\tb c\n"),
)

Make = Callable[[random.Random, Path, Sequence[Path]], str]


@dataclass(frozen=True)
class Damage:
    """One way."""

    name: str
    make: Make  # given the generator, the root, and the files that may be damaged
    makes_another: bool = False  # what comes out may be a sound folder with another content
    must_fail: bool = False  # no result can be right


# --- of any file ----------------------------------------------------------------------------------------------


def flip_bits(generator: random.Random, root: Path, files: Sequence[Path]) -> str:
    path = generator.choice(files)
    data = bytearray(path.read_bytes())
    for _ in range(generator.choice((1, 1, 3)) if data else 0):
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    path.write_bytes(data)
    if generator.random() < 0.5:
        os.utime(path, (0, 0))  # as an archive or `cp -p` restores it
    return f"bits flipped in {path.relative_to(root)}"


def cut(generator: random.Random, root: Path, files: Sequence[Path]) -> str:
    path = generator.choice(files)
    size = path.stat().st_size
    left = min(size, generator.choice((0, 1, 7, 8, 9, generator.randrange(size + 1), generator.randrange(size + 1))))
    os.truncate(path, left)
    return f"{path.relative_to(root)} cut to {left} bytes"


def overwrite(generator: random.Random, root: Path, files: Sequence[Path]) -> str:
    path = generator.choice(files)
    data = bytearray(path.read_bytes())
    start, length = generator.randrange(len(data) + 1), generator.choice((1, 8, 100, 10_000))
    data[start : start + length] = generator.choice((bytes(length), generator.randbytes(length)))
    path.write_bytes(data)
    return f"{length} bytes over {path.relative_to(root)} at {start}"


def append(generator: random.Random, root: Path, files: Sequence[Path]) -> str:
    path, more = generator.choice(files), generator.choice(ODD_CONTENTS[1:])
    path.write_bytes(path.read_bytes() + more)
    return f"{path.relative_to(root)} with {more[:20]!r} behind"


def odd_content(generator: random.Random, root: Path, files: Sequence[Path]) -> str:
    path, content = generator.choice(files), generator.choice(ODD_CONTENTS)
    path.write_bytes(content)
    return f"{path.relative_to(root)} holds {content[:20]!r}"


def remove(generator: random.Random, root: Path, files: Sequence[Path]) -> str:
    path = generator.choice(files)
    path.unlink()
    return f"{path.relative_to(root)} missing"


def replace_by_another_kind(generator: random.Random, root: Path, files: Sequence[Path]) -> str:
    path = generator.choice(files)
    path.unlink()
    kind = generator.choice(("folder", "pipe", "link to nothing", "link to itself", "link to zeros"))
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to({"link to nothing": "absent", "link to itself": path.name, "link to zeros": "/dev/zero"}[kind])
    return f"{path.relative_to(root)} is a {kind}"


def swap(generator: random.Random, root: Path, files: Sequence[Path]) -> str:
    """Puts another file in a file's place, and half the time that file in the other's."""
    path = generator.choice(files)
    others = [other for other in sorted(root.rglob("*")) if other.is_file() and other != path]
    alike = [other for other in others if other.name == path.name]
    other = generator.choice(alike if alike and generator.random() < 0.7 else others)
    old = path.read_bytes()
    shutil.copy2(other, path)
    if other in files and generator.random() < 0.5:
        other.write_bytes(old)
    return f"{path.relative_to(root)} is {other.relative_to(root)}"


def add(generator: random.Random, root: Path, files: Sequence[Path]) -> str:
    names = ("vmap.txt", "model.bin", "confidence.json", "x\udcff", ".lock", "shared_vocabulary.txt", "step-abc")
    path = generator.choice(sorted({path.parent for path in files})) / generator.choice(names)
    path.write_bytes(generator.choice((*ODD_CONTENTS, generator.randbytes(50))))
    return f"{str(path.relative_to(root))!a} added or replaced"


# --- of JSON --------------------------------------------------------------------------------------------------


def odd_json(generator: random.Random, root: Path, files: Sequence[Path]) -> str:
    path, values = _json_file(generator, files)
    place, value = _place(generator, values), generator.choice(ODD_VALUES)
    if generator.random() < 0.15:
        text = path.read_text(encoding="utf-8")
        path.write_text(generator.choice(("[" * 100_000, text * 2, text.replace(":", ":[", 1), "9" * 6000)))
        return f"{path.relative_to(root)}: no JSON"
    what = _change(values, place, value)
    path.write_text(json.dumps(values), encoding="utf-8")
    return f"{path.relative_to(root)}: {what}"


def odd_configuration(generator: random.Random, root: Path, files: Sequence[Path]) -> str:
    """A configuration that vouches for itself, as whoever writes a folder on purpose makes it."""
    path = root / "model" / "config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    what = _change(values["config"], _place(generator, values["config"]), generator.choice(ODD_VALUES))
    _write_signed(path, values)
    return f"config.json: {what}"


def odd_tokenizer(generator: random.Random, root: Path, files: Sequence[Path]) -> str:
    """A tokenizer with a right checksum, as whoever writes a folder on purpose makes it."""
    path = root / "model" / "tokenizer.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    if generator.random() < 0.3:
        vocabulary = values["model"]["vocab"]
        piece = generator.choice(list(vocabulary))
        vocabulary[generator.choice(("<pad>", "<s>", "zz", "", "x" * 10_000))] = vocabulary.pop(piece)
        what = f"{piece!a} renamed"
    else:
        what = _change(values, _place(generator, values), generator.choice(ODD_VALUES))
    path.write_text(json.dumps(values), encoding="utf-8")
    _sign(root)
    return f"tokenizer.json: {what}"


def forge_sizes(generator: random.Random, root: Path, files: Sequence[Path]) -> str:
    path, key = root / "model" / "config.json", generator.choice(SIZES)
    values = json.loads(path.read_text(encoding="utf-8"))
    values["config"]["model"][key] = generator.choice((10**5, 10**8, 10**9, 10**10, 10**18))
    _write_signed(path, values)
    return f"model.{key} = {values['config']['model'][key]}"


def _json_file(generator: random.Random, files: Sequence[Path]) -> tuple[Path, Any]:
    """Returns a file and its value; a `config.json` as often as all others together, for most depends on it."""
    found = [path for path in files if path.suffix == ".json"]
    configurations = [path for path in found if path.name == "config.json"]
    path = generator.choice(configurations if generator.random() < 0.5 else found)
    return path, json.loads(path.read_text(encoding="utf-8"))


def _place(generator: random.Random, values: Any) -> list[Any]:
    """Returns the keys that lead to some value inside, deeper ones as likely as others."""
    keys: list[Any] = []
    while isinstance(values, dict | list) and values and (not keys or generator.random() < 0.8):
        key = generator.choice(list(values) if isinstance(values, dict) else range(len(values)))
        keys.append(key)
        values = values[key]
    return keys


def _change(values: Any, place: Sequence[Any], value: Any) -> str:
    for key in place[:-1]:
        values = values[key]
    if value is None and len(place) % 2:
        del values[place[-1]]
        return f"{'.'.join(map(str, place))[:100]} missing"
    values[place[-1]] = value
    return f"{'.'.join(map(str, place))[:100]} = {value!a:.60}"


# --- of weights -----------------------------------------------------------------------------------------------


def lying_header(generator: random.Random, root: Path, files: Sequence[Path]) -> str:
    """A header that lies, in a file whose checksum is right."""
    name = generator.choice(("model.safetensors", "model.safetensors", "shortlist.safetensors"))
    path = root / "model" / name
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    tensor = generator.choice([key for key in header if key != "__metadata__"])
    kind = generator.choice(("dtype", "shape", "data_offsets", "length", "name", "twice", "value"))
    text = None
    if kind == "dtype":
        header[tensor]["dtype"] = generator.choice(("F8_E4M3", "I8", "U8", "BOOL", "F16", "F64", "C64", "F4", 3))
    elif kind == "shape":
        header[tensor]["shape"] = generator.choice(([10**10, 10**10], [-1], [2**63], [], [0], None, [1.5], [True], "x"))
    elif kind == "data_offsets":
        header[tensor]["data_offsets"] = generator.choice(([0, 2**62], [5, 4], [-8, 8], [0], None, [0, 0], [2**70]))
    elif kind == "name":
        header["x" * generator.choice((1, 1000, 100_000))] = header.pop(tensor)
    elif kind == "twice":
        text = json.dumps(header)[:-1] + f", {json.dumps(tensor)}: {json.dumps(header[tensor])}}}"
    elif kind == "value":
        header[tensor] = generator.choice(ODD_VALUES)
    encoded = (json.dumps(header) if text is None else text).encode()
    said = generator.choice((0, 1, 10**7, 2**40, 2**63, 2**64 - 1)) if kind == "length" else len(encoded)
    path.write_bytes(struct.pack("<Q", said) + encoded + body)
    _sign(root)
    return f"{name}: {kind} of {tensor}"


def no_numbers(generator: random.Random, root: Path, files: Sequence[Path]) -> str:
    """Weights that are not finite, in a file whose checksum is right."""
    path = root / "model" / "model.safetensors"
    data = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(data[:8], "little")
    place = start + 4 * generator.randrange((len(data) - start) // 4)
    value = generator.choice((float("nan"), float("inf"), -float("inf")))
    data[place : place + 4] = struct.pack("<f", value)
    path.write_bytes(data)
    _sign(root)
    return f"{value} among the weights"


def _sign(root: Path) -> None:
    """Makes the checksums of `config.json` those of the files."""
    path = root / "model" / "config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    for name in values["sha256"]:
        values["sha256"][name] = hashlib.sha256((root / "model" / name).read_bytes()).hexdigest()
    path.write_text(json.dumps(values), encoding="utf-8")


def _write_signed(path: Path, values: Any) -> None:
    with contextlib.suppress(KeyError):
        del values["config_sha256"]
    path.write_text(json.dumps(values), encoding="utf-8")


# --- of conversions -------------------------------------------------------------------------------------------


def foreign_conversions(generator: random.Random, root: Path, files: Sequence[Path]) -> str:
    """Conversions that came along with the folder: of other weights, and this user never made any."""
    kinds = {path.name.rpartition("-")[0]: path for path in (root / "other" / "ctranslate2").glob("*")}
    for path in sorted((root / "model" / "ctranslate2").iterdir()):
        kind = path.name.rpartition("-")[0]
        for file in sorted(path.iterdir()):
            data = bytearray(file.read_bytes())
            data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
            file.write_bytes(data)
        if kind in kinds:
            shutil.copytree(kinds[kind], path, dirs_exist_ok=True)
    if generator.random() < 0.5:
        shutil.rmtree(root / "cache", ignore_errors=True)
    return "conversions made elsewhere"


def damaged_conversion(generator: random.Random, root: Path, files: Sequence[Path]) -> str:
    found = sorted(path for path in (root / "model" / "ctranslate2").rglob("*") if path.is_file())
    path = generator.choice(found)
    data = bytearray(path.read_bytes())
    data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    path.write_bytes(data[: generator.choice((len(data), len(data), len(data) // 2))])
    return f"{path.relative_to(root)} damaged"


ANY_DAMAGES = (
    Damage("flipped bits", flip_bits),
    Damage("odd JSON", odd_json, makes_another=True),
    Damage("cut", cut),
    Damage("swapped", swap),
    Damage("overwritten", overwrite),
    Damage("odd content", odd_content),
    Damage("missing", remove),
    Damage("another kind of file", replace_by_another_kind),
    Damage("more behind", append),
    Damage("more files", add),
)
MODEL_DAMAGES = (
    *ANY_DAMAGES,
    Damage("damaged conversion", damaged_conversion),
    Damage("odd configuration", odd_configuration, makes_another=True),
    Damage("lying header", lying_header, makes_another=True),
    Damage("forged sizes", forge_sizes, must_fail=True),
    Damage("foreign conversions", foreign_conversions),
    Damage("no numbers", no_numbers, must_fail=True),
    Damage("odd tokenizer", odd_tokenizer, makes_another=True),
)
