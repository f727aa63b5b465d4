"""The script that imports real models runs, here on a tiny one, and writes a complete result."""

import json
from pathlib import Path

import pytest

import pretrained
from opus_checkpoint import make_opus


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_the_script_scores_both_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("transformers")
    folders = [make_opus(tmp_path / "models" / name, is_pickle=is_pickle) for name, is_pickle in (("a", 0), ("b", 1))]
    arguments = ["--check", str(tmp_path / "models"), "--output", str(tmp_path / "result.json")]
    monkeypatch.setattr("sys.argv", ["pretrained.py", *arguments])
    pretrained.main()
    result = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert result["test_set"] == {"name": "four lines", "langpair": "en-de", "lines": 4}
    rows = result["models"]
    assert [row["origin"] for row in rows] == [str(folder) for folder in folders]
    for row in rows:
        assert row["certificate"] == "passed"
        assert set(row["seconds"]) == {"import", "transduce", "transformers"}
        assert [score["name"] for score in row["scores"]["transformers"]] == ["BLEU, 13a", "chrF2"]
    assert rows[0]["scores"] == rows[1]["scores"]  # the same weights
    assert len([line for line in capsys.readouterr().out.splitlines() if line.startswith(f"| {tmp_path}")]) == 2
