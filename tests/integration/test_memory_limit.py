"""Training under a limit of the address space, as `ulimit -v` sets it: it works, or says in one line that it cannot."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems do not enforce the limit"),
]
MESSAGES = (
    "transduce: error: not enough memory",
    "memory are available for updates",
    "memory ran out",
    "out of memory",
)


@pytest.mark.parametrize("megabytes", [600, 800, 900, 1000, 1100])
def test_too_little_memory_is_one_line(recipe: Path, data: Path, tmp_path: Path, megabytes: int) -> None:
    """PyTorch takes 600 MB before it does anything; libraries that it loads later may find no room either."""
    limit = megabytes * 1_000_000
    done = subprocess.run(
        [
            *(sys.executable, "-m", "transduce", "train", str(recipe), "--data", str(data), "--quiet"),
            *("--output", str(tmp_path / "run"), "--set", "train.max_steps=3"),
        ],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert "damaged" not in done.stderr
    if done.returncode == 0:
        assert megabytes > 600
        assert (tmp_path / "run" / "model" / "config.json").is_file()
    else:
        assert done.returncode in (1, 5)
        last = done.stderr.splitlines()[-1]
        assert any(message in last for message in MESSAGES), done.stderr
