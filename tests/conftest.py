"""What several tests need: the folder of other people's data, where there is one."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no failure: property tests have no deadline.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# One thread: sums come out in the same order on every machine, and small models train faster. Read when torch loads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

_REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """Returns the folder of corpora and conformance data beside the project, or skips the test."""
    folder = Path(os.environ.get("TRANSDUCE_SHARED") or _REPOSITORY.parent / "shared")
    if not (folder / "conformance").is_dir():
        pytest.skip(f"{folder}/conformance is absent: set TRANSDUCE_SHARED to a folder that has it")
    return folder
