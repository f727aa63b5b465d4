"""An engine in a process that was forked after it was loaded: it works, or says at once that it cannot."""

import subprocess
import sys
from pathlib import Path

import pytest

from made_models import made_bundle

# In a process of its own: what pytest's has loaded and begun is not to be forked.
_PROGRAM = """
import os, sys
from transduce import Translator
from transduce.errors import EngineError

translator = Translator.load(sys.argv[1], engine=sys.argv[2], device="cpu", threads=2)
lines = ["A dog runs.", "a man with a ball"] * 20
before = translator.translate(lines)
child = os.fork()
if child == 0:
    try:
        print("same" if translator.translate(lines) == before else "other")
        translator.score(lines[:1], lines[:1])
    except EngineError as error:
        print(error)
    sys.exit(0)  # as a process ends that takes all its objects apart
_, status = os.waitpid(child, 0)
assert translator.translate(lines) == before
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork here")
@pytest.mark.parametrize(
    ("engine", "said"), [("torch", "same"), ("ctranslate2", "loaded before this process was forked")]
)
def test_after_a_fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, said: str) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    model = made_bundle(tmp_path / "model").path
    command = [sys.executable, "-c", _PROGRAM, str(model), engine]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
