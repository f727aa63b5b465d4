"""Hostile input, many cases: what tests/integration/test_fuzz.py does with a few.

python benchmarks/fuzz.py options --cases 1000 --seed 1 --output benchmarks/results/DATE-fuzz-options.json
python benchmarks/fuzz.py runs --cases 300 --seed 1 --output benchmarks/results/DATE-fuzz-runs.json
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fuzzed_options import option_cases
from fuzzed_runs import run_cases_of_damage
from fuzzing import Case, chosen, run_cases, write_report


def options(folder: Path, count: int, seed: int) -> list[Case]:
    """Returns `count` of the cases of options and configuration values."""
    return chosen(option_cases(folder), count, seed)


KINDS = {"options": options, "runs": run_cases_of_damage}


def main() -> int:
    """Runs the cases, writes the report, and returns 1 where one is at fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run_cases(KINDS[args.kind](Path(folder), args.cases, args.seed))
    write_report(args.output, args.kind, args.seed, outcomes)
    faults = [each for each in outcomes if each.faults]
    print(f"{len(outcomes)} cases, {len(faults)} at fault: {args.output}")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
