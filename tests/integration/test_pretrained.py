"""The script that imports real models runs, here on a tiny one, and writes a complete result."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from opus_checkpoint import make_opus

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "pretrained.py"


@pytest.mark.slow
def test_the_script_scores_both_systems(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    folders = [make_opus(tmp_path / "models" / name, is_pickle=is_pickle) for name, is_pickle in (("a", 0), ("b", 1))]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--check", str(tmp_path / "models"), "--output", str(tmp_path / "result.json")],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert result["test_set"] == {"name": "four lines", "langpair": "en-de", "lines": 4}
    rows = result["models"]
    assert [row["origin"] for row in rows] == [str(folder) for folder in folders]
    for row in rows:
        assert row["certificate"] == "passed"
        assert set(row["seconds"]) == {"import", "transduce", "transformers"}
        assert [score["name"] for score in row["scores"]["transformers"]] == ["BLEU, 13a", "chrF2"]
    assert rows[0]["scores"] == rows[1]["scores"]  # the same weights
    assert len([line for line in done.stdout.splitlines() if line.startswith(f"| {tmp_path}")]) == 2
