"""Seconds a step of trainings in several processes, each in a network namespace of its own, over a slow link.

    python benchmarks/slow_link.py --before HEAD~3 --ranks 2 4 --output benchmarks/results/DATE-slow-link.json

Needs root. Each process has an end of a bridge that sends at `--rate` (tc's token bucket). Two versions of the source
train by turns: the working tree, and the commit `--before`. The model is `paper-base` with a vocabulary of 2,000
pieces, on made-up sentences. Ends with exit code 1 where losses differ: at two processes at all, as the sum of two
numbers has one order, and at more by more than one part in a million.
"""

import argparse
import datetime
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transduce.reporting.machine import describe_machine

_REPOSITORY = Path(__file__).resolve().parents[1]
_BRIDGE, _PORT = "tr-bridge", "29500"
_RECIPE = """preset = "paper-base"
[data]
folder = "."
train = [["train.en", "train.de"]]
validation = []
[text]
vocab_size = 2000
[train]
source_batch_tokens = 512
target_batch_tokens = 512
max_steps = {steps}
log_steps = 1
checkpoint_minutes = 60.0
device = "cpu"
precision = "fp32"
"""


def ip(arguments: str) -> None:
    """Runs `ip` with these arguments."""
    subprocess.run(["ip", *arguments.split()], check=True)


@contextmanager
def namespaces(count: int, rate: str) -> Iterator[list[str]]:
    """Makes connected network namespaces, and yields their names; process n has the address 10.77.0.(n + 1)."""
    names = [f"tr-rank-{number}" for number in range(count)]
    ip(f"link add {_BRIDGE} type bridge")
    try:
        ip(f"link set {_BRIDGE} up")
        for number, name in enumerate(names):
            ip(f"netns add {name}")
            ip(f"link add tr-out-{number} type veth peer name tr-in-{number} netns {name}")
            ip(f"link set tr-out-{number} master {_BRIDGE} up")
            ip(f"-n {name} addr add 10.77.0.{number + 1}/24 dev tr-in-{number}")
            ip(f"-n {name} link set tr-in-{number} up")
            ip(f"-n {name} link set lo up")
            shaping = f"qdisc add dev tr-in-{number} root tbf rate {rate} burst 256kb latency 100ms"
            subprocess.run(["tc", "-n", name, *shaping.split()], check=True)
        yield names
    finally:
        for number, name in enumerate(names):
            # A namespace takes its links with it, but only some time later, when their names may be wanted again.
            subprocess.run(["ip", "link", "del", f"tr-out-{number}"], stderr=subprocess.DEVNULL)
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "link", "del", _BRIDGE], stderr=subprocess.DEVNULL)


def train(source: Path, folder: Path, output: Path, names: Sequence[str]) -> list[dict[str, Any]]:
    """Trains with the package in `source`, a process in each namespace; returns what was logged of each step."""
    world = {"WORLD_SIZE": str(len(names)), "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": _PORT, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "transduce", "train", "recipe.toml", "--output", str(output), "--quiet"]
    processes = []
    for rank, name in enumerate(names):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "GLOO_SOCKET_IFNAME": f"tr-in-{rank}"}
        environment = os.environ | world | own | {"PYTHONPATH": str(source / "src")}
        processes.append(subprocess.Popen(["ip", "netns", "exec", name, *command], cwd=folder, env=environment))
    if codes := [code for process in processes if (code := process.wait())]:
        raise SystemExit(f"{source}: {len(names)} processes: exit codes {codes}")
    records = map(json.loads, (output / "metrics.jsonl").read_text().splitlines())
    return [record for record in records if record["kind"] == "train"]


def compare(sources: dict[str, Path], folder: Path, names: Sequence[str], rounds: int) -> dict[str, Any]:
    """Returns seconds a step of each version, the median without the first step, and how far the losses differ."""
    seconds: dict[str, list[float]] = {name: [] for name in sources}
    losses: dict[str, list[float]] = {}
    for turn in range(rounds):
        for name, source in list(sources.items())[:: 1 if turn % 2 == 0 else -1]:
            steps = train(source, folder, folder / f"run-{len(names)}-{name}-{turn}", names)
            seconds[name].append((steps[-1]["seconds"] - steps[0]["seconds"]) / (len(steps) - 1))
            losses[name] = [step["loss"] for step in steps]
            print(len(names), name, round(seconds[name][-1], 2), file=sys.stderr, flush=True)
    apart = max(abs(a / b - 1) for a, b in zip(*losses.values(), strict=True))
    medians = {name: round(statistics.median(values), 3) for name, values in seconds.items()}
    return {"processes": len(names), "seconds_a_step": medians, "rounds": seconds, "losses_differ_by": apart}


def main() -> int:
    """Measures, prints the result, and returns 1 where losses differ too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", required=True, help="a commit")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="also write the result here, as JSON")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        folder, before = Path(scratch), Path(scratch, "before")
        before.mkdir()
        command = ["git", "archive", args.before, "src"]
        archive = subprocess.run(command, cwd=_REPOSITORY, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x"], cwd=before, input=archive, check=True)
        chance = random.Random(1)
        words = ["".join(chance.choices("abdeghiklmnoprstu", k=chance.randint(2, 7))) for _ in range(3000)]
        lines = [chance.choices(words, k=chance.randint(8, 30)) for _ in range(2000)]
        for language, step in (("en", 1), ("de", -1)):  # words backwards
            (folder / f"train.{language}").write_text(
                "".join(" ".join(word[::step] for word in line) + "\n" for line in lines)
            )
        (folder / "recipe.toml").write_text(_RECIPE.format(steps=args.steps))
        for count in args.ranks:
            with namespaces(count, args.rate) as names:
                rows.append(compare({"before": before, "now": _REPOSITORY}, folder, names, args.rounds))
    commit = subprocess.run(
        ["git", "rev-parse", "--short", args.before], cwd=_REPOSITORY, capture_output=True, text=True
    )
    result = {
        "date": datetime.date.today().isoformat(),
        "what": f"paper-base, float32, processes in namespaces of one machine, {args.rate}",
        "machine": describe_machine(),
        "load_average": os.getloadavg()[0],
        "before": commit.stdout.strip(),
        "results": rows,
    }
    print(json.dumps(result, indent=1))
    if args.output:
        args.output.write_text(json.dumps(result, indent=1) + "\n")
    return int(any(row["losses_differ_by"] > (0 if row["processes"] == 2 else 1e-6) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
