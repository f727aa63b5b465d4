"""Hostile input for the command line, many cases: what tests/integration/test_fuzz.py does with a few.

    python benchmarks/fuzz.py KIND --cases 300 --seed 1 --output benchmarks/results/DATE-fuzz-KIND.json

| kind | cases |
|---|---|
| `folders` | commands on damaged model folders, conversions and caches |
| `runs` | `train --resume`, `average` and `info` on damaged run folders of version 0.1.0 |
| `new-runs` | the same on a run folder that this version made |
| `imports` | `import` of damaged models of other systems: OPUS-MT, Marian, CTranslate2, Argos, M2M100, NLLB |
| `options` | odd values for every option and every key of a configuration |
| `texts` | odd texts, each through both engines |

A fault is a traceback, exit code 0 with a wrong result, an error without one line of ours that names what is at fault,
more than 10 seconds or 2 GB. The exit code is 1 where there is one.
"""

import argparse
import datetime
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fuzzing.folders import folder_cases
from fuzzing.imports import import_cases
from fuzzing.options import option_cases
from fuzzing.runner import Case, Result, Runner
from fuzzing.runs import new_run_cases, run_cases
from fuzzing.texts import text_cases
from transduce.reporting.machine import describe_machine

KINDS: dict[str, Callable[[Runner, int, int], Iterator[Case]]] = {
    "folders": folder_cases,
    "runs": run_cases,
    "new-runs": new_run_cases,
    "imports": import_cases,
    "options": option_cases,
    "texts": text_cases,
}


def summary(results: Sequence[Result]) -> dict[str, Any]:
    """Returns the figures of all cases, the slowest one, and each that is at fault."""
    slowest = max(results, key=lambda result: result.outcome.seconds)
    return {
        "exit_codes": dict(sorted(Counter(str(each.outcome.exit_code) for each in results).items())),
        "damages": dict(sorted(Counter(kind for each in results for kind in each.case.damage.split("+")).items())),
        "most_seconds": round(slowest.outcome.seconds, 2),
        "slowest": _shown(slowest),
        "most_mb": round(max(each.outcome.peak_bytes for each in results) / 1e6),
        "faults": [_shown(each) | {"said": each.outcome.stderr[-1000:]} for each in results if each.faults],
    }


def _shown(result: Result) -> dict[str, Any]:
    arguments = [argument[:200] for argument in result.case.arguments]
    return {"arguments": arguments, "damage": result.case.damage, "what": result.prepared, "faults": result.faults}


def main() -> int:
    """Runs the cases, writes the report, and returns 1 where one is at fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="also write the report here, as JSON")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Runner(Path(folder)) as runner:
        results = list(runner.results(KINDS[args.kind](runner, args.cases, args.seed)))
    report = {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "command": f"python benchmarks/fuzz.py {args.kind} --cases {args.cases} --seed {args.seed}",
        "machine": describe_machine(),
        "commands_run": len(results),
        **summary(results),
    }
    text = json.dumps(report, indent=2, ensure_ascii=True).replace(folder, "FOLDER") + "\n"
    if args.output:
        args.output.write_text(text, encoding="utf-8")
    print(text)
    return int(bool(report["faults"]))


if __name__ == "__main__":
    sys.exit(main())
