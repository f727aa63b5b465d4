"""What one sentence costs from a cold start: a process that loads a model, translates one line and ends.

    python benchmarks/startup.py --output result.json

Random weights, 25 source positions, 30 steps, beam 4 (`ending_models.py`); the model is converted beforehand, and its
files are in the page cache, as is Python's bytecode. Measured from outside: wall time and peak memory of the whole
process, Python's start and the tokeniser included. `command` is `transduce translate`, `api` a script that calls
`Translator`, `bare` the least that does the same with CTranslate2 and tokenizers alone; they take turns.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import ending_models
from ending_models import SHAPES, made_lines

_SCRIPT = """
import sys
from transduce import Translator
print(*Translator.load(sys.argv[1], engine=sys.argv[2], quantization=sys.argv[3] or None).translate([sys.argv[4]]))
"""
_BARE = """
import sys
import ctranslate2
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_file(sys.argv[1])
model = ctranslate2.Translator(sys.argv[2], compute_type=sys.argv[3], intra_threads=int(sys.argv[4]))
pieces = tokenizer.encode(sys.argv[5], add_special_tokens=False).tokens
[result] = model.translate_batch([[*pieces, "</s>"]], beam_size=4)
print(tokenizer.decode([tokenizer.token_to_id(piece) for piece in result.hypotheses[0]]))
"""


def commands(model: Path, line: str, engine: str, quantization: str) -> dict[str, list[str]]:
    """Returns the ways in, by name; each reads the line from its arguments or from standard input."""
    options = ["--engine", engine, *(["--quantization", quantization] if quantization else [])]
    found = {
        "command": [sys.executable, "-m", "transduce", "translate", str(model), *options],
        "api": [sys.executable, "-c", _SCRIPT, str(model), engine, quantization, line],
    }
    if engine == "ctranslate2":
        kind = quantization or "float32"
        converted = next((model / "ctranslate2").glob(f"{kind}-*"), Path())  # there once the command has run
        arguments = [str(model / "tokenizer.json"), str(converted), kind, str(os.cpu_count() or 1), line]
        found["bare"] = [sys.executable, "-c", _BARE, *arguments]
    return found


def environment(folder: Path) -> dict[str, str]:
    """Returns an environment in which Python keeps its bytecode, as it does where a package is installed."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "GOMP_SPINCOUNT": "5000"}


def run(command: list[str], line: str, kept: dict[str, str]) -> tuple[float, float, float]:
    """Returns wall seconds, CPU seconds and peak memory in MB (10^6 bytes) of one process."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=kept)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line.encode() + b"\n")
    process.stdin.close()
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    if process.returncode or not output.strip():
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6


def measure(folder: Path, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Runs each case several times and returns the medians."""
    rows, kept = [], environment(folder)
    for shape in args.shapes:
        model = folder / shape
        # In a process of its own: what this one holds when it starts another counts into the other's peak.
        subprocess.run([sys.executable, ending_models.__file__, str(model), shape], check=True)
        [line] = made_lines(model, 1)
        for system in args.systems:
            engine, _, quantization = system.partition(":")
            run(commands(model, line, engine, quantization)["command"], line, kept)  # converts
            ways = commands(model, line, engine, quantization)
            measured: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ways}
            for turn in range(args.repeats + 1):
                for name, command in ways.items():
                    figures = run(command, line, kept)
                    if turn:  # the first one warms the page cache
                        measured[name].append(figures)
            for name in ways:
                walls, cpus, peaks = zip(*measured[name], strict=True)
                row = {"shape": shape, "system": system, "way": name, "seconds": round(statistics.median(walls), 3)}
                row |= {"seconds_min": round(min(walls), 3), "seconds_max": round(max(walls), 3)}
                row |= {"cpu_seconds": round(statistics.median(cpus), 3), "peak_mb": round(max(peaks))}
                rows.append(row | {"load_average": round(os.getloadavg()[0], 2)})
                print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    """Reads the command line and runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=SHAPES)
    parser.add_argument(
        "--systems",
        nargs="+",
        default=["ctranslate2:int8", "ctranslate2:float32", "torch"],
        help="ENGINE or ENGINE:QUANTIZATION",
    )
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--output", type=Path, help="also write the result here, as JSON")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder), args)
    if args.output:
        result = {
            "date": datetime.date.today().isoformat(),
            "what": "one sentence, whole process, tokeniser included; random weights, 25 source positions, 30 steps, "
            "beam 4; seconds are medians of wall time, peak_mb the greatest peak memory",
            "machine": {"python": sys.version.split()[0], "cores": os.cpu_count()},
            "rows": rows,
        }
        args.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
