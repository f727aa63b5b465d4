"""Damaged model folders and conversions: the right result, or one line that says what is wrong; never a traceback."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz_folders import Outcome, fault_of

_BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
# Each way of damage a few times. The longer run is benchmarks/fuzz_folders.py itself; its results lie beside it.
_CASES = os.environ.get("TRANSDUCE_FUZZ_CASES", "45")


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="cases are forked, and their memory read from /proc")
def test_damaged_models_give_the_right_result_or_one_line(tmp_path: Path) -> None:
    script, output = _BENCHMARKS / "fuzz_folders.py", tmp_path / "result.json"
    seed = str(random.SystemRandom().randrange(10**6)) if "TRANSDUCE_FUZZ_CASES" in os.environ else "7"
    command = [sys.executable, str(script), "--cases", _CASES, "--seed", seed, "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"seed {seed}: {done.stdout[-5000:]}{done.stderr[-2000:]}"
    result = json.loads(output.read_text())
    assert result["summary"]["cases"] == int(_CASES)
    assert {case["exit_code"] for case in result["cases"]} >= {0, 4}  # some are mended, some are refused


def made(**changes: object) -> Outcome:
    sound = {"exit_code": 0, "stdout": "ja\n", "stderr": "", "seconds": 1.0, "peak_bytes": 10**8}
    return Outcome(**sound | changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (made(), None),
        (made(stdout="\n"), "another result"),
        (made(exit_code=4, stderr="transduce: error: a/config.json: damaged\n"), None),
        (made(exit_code=4, stderr="damaged\n"), "no line of ours"),
        (made(exit_code=4, stderr="transduce: error: damaged\n"), "names no file or key"),
        (made(exit_code=70, stderr="Traceback (most recent call last):\n"), "exit code 70"),
        (made(exit_code=-9), "exit code -9"),
        (made(stderr="Traceback (most recent call last):\n"), "a traceback"),
        (made(seconds=11.0), "11.0 seconds"),
        (made(peak_bytes=3 * 10**9), "3000 MB"),
    ],
    ids=str,
)
def test_what_counts_as_a_fault(outcome: Outcome, said: str | None) -> None:
    found = fault_of(outcome, "ja\n", must_fail=False)
    assert found is None if said is None else found is not None and said in found


def test_what_must_fail_may_not_succeed() -> None:
    assert fault_of(made(), None, must_fail=True) == "exit code 0 though the folder cannot be right"
