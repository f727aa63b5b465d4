"""All that is to be measured on a GPU, in pieces that resume: what `make gpu` runs. See docs/guides/gpu.md.

    python3 benchmarks/gpu/kit.py                          all pieces, for at most nine minutes; run it again to go on
    python3 benchmarks/gpu/kit.py --piece train-speed      one of them
    python3 benchmarks/gpu/kit.py --piece tests --part test_training    one part of it
    python3 benchmarks/gpu/kit.py --toy --device cpu       the same paths in seconds, without a GPU

A piece is a list of parts, and a part a command that prints JSON. What a part has printed is kept in OUT/parts; a part
that is done is not run again. A part is begun only where there is time for it, and OUT/results has a dated file for
each piece. Nothing needs a set-up or a network: the package is taken from src/, and what is missing is named with what
it is for. `--wheels` names a folder of wheels that were brought: they are unpacked into OUT/site.

Exit code: 0 when all that was asked for is done, 75 when there is more to do (run the same again), 1 when a part
failed.
"""

import argparse
import datetime
import importlib.util
import json
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MORE_TO_DO = 75
_GRACE_SECONDS = 45  # that a training is given to write its checkpoint
_REQUIRED = {
    "torch": "torch",
    "numpy": "numpy",
    "safetensors": "safetensors",
    "tokenizers": "tokenizers",
    "tqdm": "tqdm",
}
_FOR_STORES = {"pyarrow": "pyarrow"}
_FOR_TRAINING = {"pyarrow": "pyarrow", "sacrebleu": "sacrebleu", "sentencex": "sentencex"}
_FOR_TESTS = {"pytest": "pytest with iniconfig, pluggy and packaging", "pyarrow": "pyarrow"}


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    out: Path
    device: str
    toy: bool
    pack: Path
    train_minutes: float
    parts: frozenset[str] = frozenset()  # which to run; none means all


@dataclass(frozen=True)
class Part:
    """A command that prints JSON as its last lines."""

    name: str
    command: list[str]
    seconds: float = 60.0  # at most, on an H200 or slower; begun only where as many are left
    environment: Mapping[str, str] = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict)  # modules, and the wheels that bring them
    stops: bool = False  # it can be stopped by SIGTERM and goes on when it is run again


def machine_parts(options: Options) -> list[Part]:
    """Names, versions, and the measured peak of matrix products."""
    size = "64" if options.toy else "8192"
    command = ["benchmarks/gpu/machine.py", "--device", options.device, "--size", size]
    return [Part("machine", command, 120)]


def test_parts(options: Options) -> list[Part]:
    """The tests that need a GPU, each file a part."""
    environment = {"TRANSDUCE_TEST_DEVICE": options.device, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    # The models are small: with 16 threads the CPU's part took minutes. Two threads wait for each other on busy cores.
    environment["OMP_NUM_THREADS"] = "1" if options.toy else "2"
    common = ["-m", "pytest", "-c", "benchmarks/gpu/pytest.ini", "--rootdir", ".", "--noconftest", "-m", "gpu", "-q"]
    paths = ["tests/gpu/test_training.py", "tests/gpu/test_decoding.py", "tests/parity/test_cuda_graphs.py"]
    paths += ["tests/parity/test_attend.py"]
    if options.toy:
        chosen = "post-norm or resumed or verify or cuda"
        return [Part("all", [*common, *paths, "-k", chosen], 400, environment, _FOR_TESTS)]
    return [Part(Path(path).stem, [*common, path], 400, environment, _FOR_TESTS) for path in paths]


def train_speed_parts(options: Options) -> list[Part]:
    """A step of training: ours, `torch.nn.Transformer` and Hugging Face's Marian, alternately."""
    peaks = _rows(options.out, "machine", "machine")[-1:] or [{}]
    runs = [("paper-base", "bf16"), ("paper-base", "fp32"), ("paper-base", "tf32"), ("paper-big", "bf16")]
    if options.toy:
        runs = [("toy", "fp32")]
    parts = []
    for turn in range(1 if options.toy else 2):
        for config, precision in runs:
            for system in ("ours", "torch", "huggingface"):
                command = ["benchmarks/train.py", "--system", system, "--config", config, "--precision", precision]
                command += ["--device", options.device, "--passes", "1" if options.toy else "4", "--fused"]
                if peak := peaks[0].get("peak_tflops", {}).get(precision):
                    command += ["--peak", str(peak)]
                needs = {"transformers": "transformers"} if system == "huggingface" else {}
                parts.append(Part(f"{config}-{precision}-{system}-{turn + 1}", command, 120, needs=needs))
    return parts


def train_option_parts(options: Options) -> list[Part]:
    """Updates with each training option for a GPU off and on, alternating."""
    command = ["benchmarks/train_options.py", "--device", options.device]
    command += (
        ["--toy", "--updates", "3", "--rounds", "1", "--pairs", "1000"] if options.toy else ["--precision", "bf16"]
    )
    names = ("cudnn-attention", "prefetch", "pinned", "blocked-loss", "rounded-shapes", "compile")
    # Compiling for a CPU takes minutes, and says nothing of a GPU.
    names = tuple(name for name in names if name != "compile" or options.device != "cpu")
    return [Part(name, [*command, "--option", name], 180, needs=_FOR_STORES) for name in names]


def decode_speed_parts(options: Options) -> list[Part]:
    """Decoding in all four cases: ours with recorded steps and without, Hugging Face, CTranslate2."""
    common = ["benchmarks/decode.py", "--device", options.device]
    common += ["--toy", "--cases", "4x2,1x1", "--repeats", "1"] if options.toy else ["--repeats", "5"]
    parts = []
    for dtype in ("fp32",) if options.toy else ("bf16", "fp32"):
        for name, system, graphs in (
            ("recorded", "ours", "1"),
            ("unrecorded", "ours", "0"),
            ("huggingface", "huggingface", "1"),
            ("ctranslate2", "ctranslate2", "1"),
        ):
            needs = {} if system == "ours" else {system.replace("huggingface", "transformers"): f"{system}"}
            command = [*common, "--system", system, "--dtype", dtype]
            parts.append(Part(f"{dtype}-{name}", command, 240, {"TRANSDUCE_CUDA_GRAPHS": graphs}, needs))
    return parts


def train_parts(options: Options) -> list[Part]:
    """A real training, in slices: corpus, training, score."""
    corpus, run = str(options.out / "corpus"), str(options.out / "run")
    recipe = "benchmarks/gpu/europarl-en-fr.toml"
    train = ["-m", "transduce", "train", recipe, "--output", run, "--data", corpus, "--resume"]
    settings = [f"train.device={options.device}", f"train.max_minutes={options.train_minutes}"]
    if options.toy:
        settings += _toy_settings()
    for setting in settings:
        train += ["--set", setting]
    sides = sorted(path.name for path in (options.out / "corpus").glob("*.??"))
    test = [str(options.out / "corpus" / name) for name in sides] or ["none", "none"]
    score = ["benchmarks/gpu/outcome.py", "score", run, *test, "--device", options.device]
    score += ["--output", str(options.out / "results" / "translations.txt")]
    return [
        Part("corpus", ["benchmarks/gpu/pack.py", "unpack", str(options.pack), corpus], 180, needs=_FOR_TRAINING),
        Part("training", train, 120, needs=_FOR_TRAINING, stops=True),
        Part("score", score, 180, needs=_FOR_TRAINING),
    ]


def weights_parts(options: Options) -> list[Part]:
    """The weights of that training, in pieces that are small enough to travel."""
    model = str(options.out / "run" / "model")
    return [Part("weights", ["benchmarks/gpu/outcome.py", "split", model, str(options.out / "weights")], 60)]


def _toy_settings() -> list[str]:
    model = {"d_model": 16, "d_ff": 32, "num_heads": 2, "d_k": 8, "d_v": 8}
    model |= {"num_encoder_layers": 1, "num_decoder_layers": 1}
    train = {"source_batch_tokens": 400, "target_batch_tokens": 400, "warmup_steps": 10, "max_steps": 12}
    train |= {"validate_steps": 0, "checkpoint_minutes": 0.0, "checkpoint_steps": 4, "validate_bleu_sentences": 4}
    return [f"model.{key}={value}" for key, value in model.items()] + [f"train.{k}={v}" for k, v in train.items()]


PIECES: dict[str, Callable[[Options], list[Part]]] = {
    "machine": machine_parts,
    "tests": test_parts,
    "train-speed": train_speed_parts,
    "train-options": train_option_parts,
    "decode-speed": decode_speed_parts,
    "train": train_parts,
    "weights": weights_parts,
}


def missing(modules: Mapping[str, str], site: Path) -> list[str]:
    """Returns what brings the modules that are not here, in the wheels' folder included."""
    return [
        brings
        for module, brings in modules.items()
        if importlib.util.find_spec(module) is None and not (site / module).exists()
    ]


def unpack_wheels(wheels: Path, site: Path) -> None:
    """Unpacks wheels that were brought: without pip, which a bare machine may not have."""
    for wheel in sorted(wheels.glob("*.whl")):
        if not (site / f".{wheel.name}").exists():
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(site)
            (site / f".{wheel.name}").touch()


def cuda_libraries() -> list[str]:
    """Returns the folders of the CUDA libraries that PyTorch's wheels brought: CTranslate2 looks for them by name."""
    found = importlib.util.find_spec("nvidia")
    places = [] if found is None else [Path(place) for place in found.submodule_search_locations or ()]
    return sorted(str(path) for place in places for path in place.glob("*/lib"))


def run_piece(piece: str, options: Options, deadline: float) -> str:
    """Runs a piece's parts that are not done; returns "done", "more" or "failed"."""
    failed, done = False, set()
    while part := next((p for p in PIECES[piece](options) if p.name not in done), None):  # made anew: paths may come
        done.add(part.name)
        if _rows(options.out, piece, part.name) or (options.parts and part.name not in options.parts):
            continue
        if absent := missing(part.needs, options.out / "site"):
            say(f"{piece}/{part.name}: left out: {', '.join(absent)} not installed (bring it, and name --wheels)")
            continue
        left = deadline - time.monotonic()
        if left < part.seconds:
            say(f"{piece}/{part.name}: {max(0, left):.0f} s left, it may need {part.seconds:.0f}: run again to go on")
            gather(piece, options)
            return "failed" if failed else "more"
        outcome = run_part(piece, part, options, left)
        if outcome == "more":
            gather(piece, options)
            return "more"
        failed = failed or outcome == "failed"
        if failed and part.stops:
            break  # what comes after needs it
    gather(piece, options)
    return "failed" if failed else "done"


def run_part(piece: str, part: Part, options: Options, left: float) -> str:
    """Runs one command and keeps what it printed; returns "done", "more" or "failed"."""
    command = [sys.executable, *part.command]
    path = os.pathsep.join([str(ROOT / "src"), str(options.out / "site"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, **part.environment, "PYTHONPATH": path.rstrip(os.pathsep)}
    environment["LD_LIBRARY_PATH"] = os.pathsep.join([os.environ.get("LD_LIBRARY_PATH", ""), *cuda_libraries()])
    say(f"{piece}/{part.name}: {shlex.join(part.command)}")
    log = options.out / "logs" / f"{piece}-{part.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with log.open("ab") as errors:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors)
        try:
            printed = process.communicate(timeout=max(1.0, left - _GRACE_SECONDS) if part.stops else left)[0]
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            try:
                printed = process.communicate(timeout=_GRACE_SECONDS)[0]
            except subprocess.TimeoutExpired:
                process.kill()
                printed = process.communicate()[0]
    seconds = round(time.monotonic() - started, 1)
    if part.stops and process.returncode == 128 + signal.SIGTERM:
        say(f"{piece}/{part.name}: stopped after {seconds} s: run again to go on")
        return "more"
    text = printed.decode(errors="replace")
    if process.returncode:
        say(f"{piece}/{part.name}: FAILED, exit code {process.returncode}; the end of {log}:")
        say("\n".join([*text.splitlines()[-20:], *log.read_text(errors="replace").splitlines()[-20:]]))
        return "failed"
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    rows = rows or [{"printed": text.splitlines()[-1:]}]
    kept = {"part": part.name, "command": shlex.join(["python3", *part.command]), "seconds": seconds}
    kept |= {"date": datetime.date.today().isoformat(), "environment": dict(part.environment), "rows": rows}
    write_json(options.out / "parts" / piece / f"{part.name}.json", kept)
    return "done"


def _rows(out: Path, piece: str, part: str) -> list[dict[str, Any]]:
    path = out / "parts" / piece / f"{part}.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"] if path.is_file() else []
    return rows


def gather(piece: str, options: Options) -> None:
    """Writes the dated result of a piece: all of its parts, with the machine, and ratios where systems are compared."""
    paths = sorted((options.out / "parts" / piece).glob("*.json"), key=lambda path: path.stat().st_mtime)
    if not paths:
        return
    parts = [json.loads(path.read_text()) for path in paths]
    skipped = {p.name: m for p in PIECES[piece](options) if (m := missing(p.needs, options.out / "site"))}
    result = {
        "benchmark": f"gpu: {piece}",
        "date": parts[-1]["date"],
        "command": f"make gpu PIECE={piece}",
        "toy": options.toy,
        "machine": (_rows(options.out, "machine", "machine") or [None])[-1],
        "left_out": skipped,
        "summary": _summary(piece, parts),
        "parts": parts,
    }
    write_json(options.out / "results" / f"{result['date']}-gpu-{piece}.json", result)


def to_take_home(piece: str, out: Path) -> list[Path]:
    """Returns the files of a piece that are worth copying."""
    if piece == "weights":
        return sorted((out / "weights").glob("model.tar.*"))
    texts = [out / "results" / "translations.txt"] if piece == "train" else []
    return [*(out / "results").glob(f"*-gpu-{piece}.json"), *(path for path in texts if path.is_file())]


def _summary(piece: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the median of each case's speed, by part name without its turn."""
    if piece == "train-speed":
        speeds: dict[str, list[float]] = {}
        for part in parts:
            key = part["part"].rpartition("-")[0]
            speeds.setdefault(key, []).append(part["rows"][-1]["target_tokens_per_second"])
        return {key: statistics.median(values) for key, values in speeds.items()}
    if piece == "train-options":
        return {part["part"]: part["rows"][-1]["on_over_off"] for part in parts}
    if piece == "decode-speed":
        return {part["part"]: {row["case"]: row["tokens_per_second"] for row in part["rows"]} for part in parts}
    return {}


def write_json(path: Path, value: Any) -> None:
    """Writes a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    temporary.replace(path)


def say(text: str) -> None:
    """Tells the user."""
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Runs the requested pieces, and returns the exit code."""
    begun = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--piece", choices=PIECES, action="append", help="may be repeated; default: all, in this order")
    parser.add_argument("--part", action="append", default=[], help="only this part of the pieces; may be repeated")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "gpu", help="default: build/gpu")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--toy", action="store_true", help="small models: to try the kit")
    parser.add_argument(
        "--pack", type=Path, default=ROOT / "build" / "gpu-pack", help="corpus; default: build/gpu-pack"
    )
    parser.add_argument("--wheels", type=Path, help="folder of wheels that this machine lacks")
    parser.add_argument("--results", type=Path, help="copy there what came of the pieces")
    parser.add_argument("--minutes", type=float, default=9.0, help="of this call; default: %(default)s")
    parser.add_argument("--train-minutes", type=float, default=18.0, help="of the training; default: %(default)s")
    args = parser.parse_args()
    out = args.out.resolve()
    options = Options(out, args.device, args.toy, args.pack.resolve(), args.train_minutes, frozenset(args.part))
    (out / "site").mkdir(parents=True, exist_ok=True)
    if args.wheels:
        unpack_wheels(args.wheels, out / "site")
    if absent := missing(_REQUIRED, out / "site"):
        say(f"not installed: {', '.join(absent)}. Bring their wheels, and name the folder with --wheels.")
        return 1
    outcomes = {}
    for piece in args.piece or PIECES:
        outcomes[piece] = run_piece(piece, options, begun + 60 * args.minutes)
        if outcomes[piece] == "more":
            break
    say("; ".join(f"{piece}: {outcome}" for piece, outcome in outcomes.items()))
    if args.results:
        args.results.mkdir(parents=True, exist_ok=True)
        for path in [path for piece in outcomes for path in to_take_home(piece, out)]:
            shutil.copy(path, args.results)
    if "failed" in outcomes.values():
        return 1
    return MORE_TO_DO if "more" in outcomes.values() else 0


if __name__ == "__main__":
    sys.exit(main())
