"""What `make gpu` runs works where there is no GPU, no set-up and little installed: all of its paths, in small."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transduce.bundle import Bundle
from transduce.data.store import ParallelStore
from warm_start import warm_interpreter

_ROOT = Path(__file__).parents[2]
_GPU = _ROOT / "benchmarks" / "gpu"
# What the machine with the GPU may lack.
_ABSENT = (
    "backports",
    "ctranslate2",
    "sentencepiece",
    "tensorboard",
    "hypothesis",
    "pytest_timeout",
    "xdist",
    "matplotlib",
)
_IMPORTED_BY_SEVERAL = ("torch.testing", "transformers.models.marian.modeling_marian", "sacrebleu")
_HIDING = """
from importlib.machinery import PathFinder
found = PathFinder.find_spec
def find_spec(cls, name, path=None, target=None):
    return None if name.partition(".")[0] in {absent} else found(name, path, target)
PathFinder.find_spec = classmethod(find_spec)

import os, sys
sys.executable = os.environ.get("KIT_PYTHON", sys.executable)  # what the kit starts its commands with
"""
_RECIPE = """
[text]
vocab_size = 320

[data]
folder = "."
train = [["train.en", "train.fr"]]
validation = ["dev.en", "dev.fr"]
"""
_BLOCK = 2_000  # pairs of the first of two parts


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Returns the environment of a machine where only the needed is installed, and no .venv."""
    folder = tmp_path_factory.mktemp("absent")
    (folder / "sitecustomize.py").write_text(_HIDING.format(absent=_ABSENT))
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return kept | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def warm(bare: dict[str, str]) -> Iterator[dict[str, str]]:
    """Returns the same environment, in which the kit's commands start with what most of them import: see `warm_start`.

    The absent is absent there, too.
    """
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[train]'")
    with warm_interpreter([bare["PYTHONPATH"], str(_ROOT / "src")], _IMPORTED_BY_SEVERAL) as command:
        yield bare | {"KIT_PYTHON": str(command)}


def _run(script: str, *arguments: object, environment: dict[str, str], code: int = 0) -> str:
    command = [sys.executable, str(_GPU / script), *map(str, arguments)]
    environment = environment | {"PYTHONPATH": f"{_ROOT / 'src'}{os.pathsep}{environment['PYTHONPATH']}"}
    done = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == code, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory, bare: dict[str, str]) -> Path:
    """A packed corpus in two parts, and what was packed beside it."""
    folder = tmp_path_factory.mktemp("corpus")
    random = np.random.default_rng(1)
    words = ["red", "blue", "dog", "man", "runs", "sits", "on", "a", "the", "hill", "green", "house"]
    for name, count in (("train", 2_200), ("dev", 20), ("newstest2014", 6)):
        lengths = random.integers(1, 4 if name == "train" else 9, count)
        drawn = random.integers(len(words), size=(count, 8)).tolist()
        lines = [" ".join(words[each] for each in row[:length]) for row, length in zip(drawn, lengths, strict=True)]
        (folder / f"{name}.en").write_text("".join(f"{line} {n % 10}\n" for n, line in enumerate(lines)))
        (folder / f"{name}.fr").write_text("".join(f"{line.upper()} {n % 10}\n" for n, line in enumerate(lines)))
    (folder / "recipe.toml").write_text(_RECIPE)
    environment = {**os.environ, "PYTHONPATH": str(_ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "transduce", "prepare", str(folder / "recipe.toml"), "--output"]
    subprocess.run([*command, str(folder / "prepared")], check=True, capture_output=True, env=environment)
    test = (folder / "newstest2014.en", folder / "newstest2014.fr")
    sizes = ("--part-bytes", 1, "--block-pairs", _BLOCK)
    _run("pack.py", "make", folder / "prepared", folder / "pack", "--test", *test, *sizes, environment=bare)
    return folder / "pack"


def test_what_is_unpacked_is_what_was_packed(pack: Path, tmp_path: Path, bare: dict[str, str]) -> None:
    """Also the first part alone, which has the first pairs; a damaged part is refused."""
    first, second = sorted(pack.glob("train-*.bin"))
    said = json.loads(_run("pack.py", "unpack", pack, tmp_path / "all", environment=bare))
    before, after = (
        ParallelStore.open(folder / "train.arrow") for folder in (pack.parent / "prepared", tmp_path / "all")
    )
    assert said["pairs"] == said["of"] == len(before)
    assert said["same_file"]
    for row in (0, 1, _BLOCK - 1, _BLOCK, len(before) - 1):
        assert before.source(row).tolist() == after.source(row).tolist()
        assert before.target(row).tolist() == after.target(row).tolist()
    content = second.read_bytes()
    second.write_bytes(content[:-1])
    try:
        assert "train-01.bin: damaged" in _run("pack.py", "unpack", pack, tmp_path / "no", environment=bare, code=1)
        second.unlink()
        said = json.loads(_run("pack.py", "unpack", pack, tmp_path / "first", environment=bare))
    finally:
        second.write_bytes(content)
    assert (said["pairs"], said["parts"], said["same_file"]) == (_BLOCK, 1, False)
    assert first.stat().st_size < 15_000


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_pieces_run_in_small(pack: Path, tmp_path: Path, warm: dict[str, str]) -> None:
    """First with next to no time, which leaves more to do; then to the end; then there is nothing left."""
    common = ["--toy", "--device", "cpu", "--out", tmp_path / "out", "--pack", pack, "--results", tmp_path / "results"]
    assert "run again to go on" in _run("kit.py", *common, "--minutes", "0.1", environment=warm, code=75)
    said = _run("kit.py", *common, "--minutes", "20", environment=warm)
    pieces = ("machine", "tests", "train-speed", "train-options", "decode-speed", "train", "weights")
    assert "; ".join(f"{piece}: done" for piece in pieces) in said
    assert "fp32-ctranslate2: left out: ctranslate2 not installed" in said
    again = _run("kit.py", *common, environment=warm)
    assert "benchmarks/" not in again  # no command was run
    results = {
        path.name.split("gpu-")[1]: json.loads(path.read_text()) for path in (tmp_path / "results").glob("*.json")
    }
    assert set(results) == {f"{piece}.json" for piece in pieces[:-1]}
    _check(results, tmp_path)


def _check(results: dict[str, Any], folder: Path) -> None:
    assert all(result["date"] and result["command"] and result["machine"]["torch"] for result in results.values())
    assert results["decode-speed.json"]["summary"]["fp32-recorded"]["1x1"] > 0
    assert set(results["train-speed.json"]["summary"]) == {f"toy-fp32-{n}" for n in ("ours", "torch", "huggingface")}
    assert results["train-speed.json"]["parts"][0]["rows"][-1]["share_of_peak"] > 0
    options = results["train-options.json"]["summary"]
    assert set(options) == {"cudnn-attention", "prefetch", "pinned", "blocked-loss", "rounded-shapes"}
    assert all(ratio > 0 for ratio in options.values())
    scored = next(part for part in results["train.json"]["parts"] if part["part"] == "score")["rows"][-1]
    assert scored["sentences"] == 6
    assert "sacre" in scored["bleu"]["signature"] or "version" in scored["bleu"]["signature"]
    assert scored["metrics"]["training_flops"] > 0
    pieces = list((folder / "out" / "weights").glob("model.tar.*"))
    assert len(pieces) == 8
    assert {path.name for path in pieces} < {path.name for path in (folder / "results").iterdir()}
    environment = {**os.environ, "PYTHONPATH": ""}
    _run("outcome.py", "join", folder / "out" / "weights", folder / "model", environment=environment)
    whole, joined = Bundle.load(folder / "out" / "run" / "model"), Bundle.load(folder / "model")
    for name, weight in whole.weights().items():
        np.testing.assert_allclose(joined.weights()[name], weight, rtol=2**-8)
