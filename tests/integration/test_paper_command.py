"""`transduce paper`: every experiment at smoke scale, from nothing to a picture, stopped and resumed."""

import json
from pathlib import Path
from typing import Any

import pytest

from transduce.cli.main import main
from transduce.errors import ConfigError
from transduce.experiments.paper import experiment as experiment_module
from transduce.experiments.paper.catalogue import EXPERIMENTS

PRINTED = {
    "table1": ["O(n²·d)", "O(log_k n)", "n^2.00 · d^1.00", "k^1.00 · n^1.00 · d^2.00", "r^1.00 · n^1.00 · d^1.00"],
    "positions": ["PPL 4.92 and BLEU 25.7", "| 4 |", "| 6 (longer than any seen) |"],
    "scaling": ["n < d", "variance / d_k: ", "d = 32: the tanh recurrence needs fewer FLOPs from n = 32"],
}


def measured(folder: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))["cells"]
    return values


# What is trained at smoke scale: more options, number of measurements, texts of the table, pictures.
TRAINED: dict[str, tuple[list[str], int, list[str], list[str]]] = {
    "table2": ([], 4, ["| Transformer (big) | 28.4 | 41.8 |", "**measured: demo-en-de, test**"], ["table2"]),
    "table3": (["--rows", "base"], 1, ["| base | 65 | 65.13 | 63.05 |", "rows A1, A2"], ["table3"]),
    "table4": ([], 3, ["| WSJ 23 | 91.3 |", "**measured: toy-treebank** | semi-supervised | toy"], ["table4"]),
    "figures": ([], 4, ["demo-en-de (the paper: layer 5 of 6)", "were chosen"], ["figure3", "figure4", "figure5"]),
}


@pytest.mark.parametrize("name", TRAINED)
def test_what_is_trained_is_not_trained_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options, count, texts, pictures = TRAINED[name]
    command = ["paper", name, "--scale", "smoke", "--output", str(tmp_path), "--quiet", *options]
    keep = experiment_module._Results.add

    def stop_after_one(self: Any, *arguments: Any) -> None:
        keep(self, *arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(experiment_module._Results, "add", stop_after_one)
        assert main(command) == 130
    before = measured(tmp_path)
    assert len(before) == 1
    capsys.readouterr()
    assert main(command) == 0
    output, _ = capsys.readouterr()
    after = measured(tmp_path)
    assert len(after) == count
    assert {name: after[name] for name in before} == before
    for text in (*texts, "What differs from the paper", "Smoke scale", "PyTorch"):
        assert text in output
    assert "nan" not in output
    for picture in pictures:
        assert (tmp_path / f"{picture}.png").read_bytes().startswith(b"\x89PNG")
    if name == "table4":
        require_parses(tmp_path, capsys)


def require_parses(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Scores the parses that were kept: table 4 has the same F1."""
    values = measured(folder)["semi-supervised/seed=1"]["values"]
    assert 0 < values["short_scores"]["toy"]["sentences"] <= values["scores"]["toy"]["sentences"]
    parses = folder / "runs" / "semi-supervised-seed1" / "parses"
    gold, parsed = (str(parses / f"toy.{side}") for side in ("gold", "parsed"))
    arguments = ["parse", "score", "--reference", gold, "--hypothesis", parsed, "--gold-punctuation", "--json"]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["all"]["f1"] == pytest.approx(values["scores"]["toy"]["f1"])


@pytest.mark.parametrize("name", PRINTED)
def test_a_stopped_experiment_resumes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["paper", name, "--scale", "smoke", "--output", str(tmp_path / name), "--quiet"]
    keep = experiment_module._Results.add

    def stop_after_three(self: Any, *arguments: Any) -> None:
        keep(self, *arguments)
        if len(self.cells) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(experiment_module._Results, "add", stop_after_three)
        assert main(command) == 130
    assert "interrupted" in capsys.readouterr().err
    before = measured(tmp_path / name)
    assert len(before) == 3
    assert main(command) == 0
    output, messages = capsys.readouterr()
    after = measured(tmp_path / name)
    assert {name: after[name] for name in before} == before  # times and all: not measured again
    assert len(after) > 3
    assert output == (tmp_path / name / "table.md").read_text(encoding="utf-8")
    for text in (*PRINTED[name], "What differs from the paper", "PyTorch"):
        assert text in output
    assert "nan" not in output
    assert (tmp_path / name / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert f"{name}.png" in messages


def test_every_experiment_is_tested() -> None:
    assert {*PRINTED, *TRAINED} == set(EXPERIMENTS)


def test_a_folder_of_another_experiment_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "results.json").write_text(
        json.dumps({"experiment": "table1", "settings": {}, "machines": [], "cells": {}})
    )
    assert main(["paper", "scaling", "--scale", "smoke", "--output", str(tmp_path)]) == ConfigError.exit_code
    assert "experiment was 'table1', now 'scaling'" in capsys.readouterr().err
