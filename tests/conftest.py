"""What several tests need: the folder of other people's data, where there is one; the attention of a pair."""

import gc
import importlib.util
import logging
import os
import sqlite3
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from noted_calls import Noting, noting_in
from postgres_server import PostgresServer, postgres_server
from transduce.serve.state.sqlite import SqliteDatabase
from warm_start import warm_interpreter

# A busy machine is no failure: property tests have no deadline. Where CI is set, they try the same examples every time;
# elsewhere each run looks further.
settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ
)
settings.load_profile("untimed")

if TYPE_CHECKING:
    import numpy as np

    from transduce import Attention

# One thread: sums come out in the same order on every machine, and small models train faster. Read when torch loads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Matplotlib's list of fonts takes seconds to make: it stays where it is (see `user_cache`).
os.environ.setdefault(
    "MPLCONFIGDIR", str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "matplotlib")
)

_REPOSITORY = Path(__file__).resolve().parents[1]

# Where PyTorch cannot be installed, as in a Python that it has no build for, the tests that need it are skipped.
_HAS_TORCH = importlib.util.find_spec("torch") is not None
_LACKS_TORCH = ("No module named 'torch'", "torch not installed.")  # what Python says, and what our commands say
_NO_TORCH = "PyTorch is not installed: pip install '.[train]'"

_OF_A_SERVICE = ("transduce.serve.server", "transduce.engines.ctranslate2", "ctranslate2", "py3langid")


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Returns one worker more than cores: some tests wait for browsers, services and leases."""
    return (yield) + 1


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skips a file that imports PyTorch where there is none."""
    report = yield
    if not _HAS_TORCH and report.failed and _LACKS_TORCH[0] in str(report.longrepr):
        report.outcome, report.longrepr = "skipped", (str(collector.path), 0, f"Skipped: {_NO_TORCH}")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skips a test that fails because there is no PyTorch, or because another process or a command says so."""
    report = yield
    if not _HAS_TORCH and report.failed and call.excinfo is not None:
        said = report.longreprtext + report.capstderr
        if any(each in said for each in _LACKS_TORCH) or _lacks_torch(call.excinfo.value):
            call.excinfo.value.add_note(_LACKS_TORCH[0])  # a fixture raises it again, without the output
            report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"Skipped: {_NO_TORCH}")
    return report


def _lacks_torch(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "torch":
            return True
        error = error.__cause__ or error.__context__
    return False


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts files with slow tests first where files are shared out: during the last one, other processes are idle."""
    if hasattr(config, "workerinput"):
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keeps the collector of garbage away from the tests' modules: each of its hundreds of rounds would cross them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 10, 10)  # tests that make many objects took up to twice as long
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def clean_fixtures() -> Iterator[None]:
    """Fails where tests wrote beside a fixture, as a model's conversion is: they use copies."""
    folder = _REPOSITORY / "tests" / "fixtures"
    before = sorted(folder.rglob("*"))
    yield
    assert sorted(folder.rglob("*")) == before


@pytest.fixture(scope="session", autouse=True)
def user_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keeps what tests convert out of the user's own cache."""
    with pytest.MonkeyPatch.context() as patch:
        cache = tmp_path_factory.mktemp("cache")
        patch.setenv("XDG_CACHE_HOME", str(cache))
        yield cache


@pytest.fixture(scope="session", autouse=True)
def no_wait_for_the_disk() -> Iterator[None]:
    """Lets files be written without a wait until the disk has them: tests write tens of thousands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # which complains of a wrong descriptor, too
        yield


@pytest.fixture(autouse=True)
def closed_databases(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Closes the connections to SQLite that a test has made: Python 3.13 warns of those that nothing closes."""
    connect, made = SqliteDatabase.connect, list[sqlite3.Connection]()

    def noted(database: SqliteDatabase) -> sqlite3.Connection:
        made.append(connect(database))
        return made[-1]

    monkeypatch.setattr(SqliteDatabase, "connect", noted)
    yield
    for connection in made:
        connection.close()


@pytest.fixture(autouse=True)
def log_level() -> None:
    """Gives the log its level back: the command line sets it for the process, and `--quiet` would last."""
    logging.getLogger("transduce").setLevel(logging.NOTSET)


@pytest.fixture
def noting(monkeypatch: pytest.MonkeyPatch) -> Noting:
    """Returns a function that puts a fake in the place of another, and returns the list of its calls."""
    return noting_in(monkeypatch)


@pytest.fixture(scope="session")
def warm_python() -> Iterator[Path]:
    """Returns a command that is as `python`, with PyTorch and a service's modules loaded: see `warm_start`."""
    if not _HAS_TORCH:
        pytest.skip(_NO_TORCH)
    with warm_interpreter(modules=_OF_A_SERVICE) as command:
        yield command


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server; without one, the test is skipped."""
    yield from postgres_server()


@pytest.fixture(scope="session")
def shared() -> Path:
    """Returns the folder of corpora and conformance data beside the project, or skips the test."""
    folder = Path(os.environ.get("TRANSDUCE_SHARED") or _REPOSITORY.parent / "shared")
    if not (folder / "conformance").is_dir():
        pytest.skip(f"{folder}/conformance is absent: set TRANSDUCE_SHARED to a folder that has it")
    return folder


@pytest.fixture(scope="session")
def random_attention() -> "Callable[..., Attention]":
    """Returns a function that makes the attention of a pair: random weights, long words in two pieces."""
    return _random_attention


def _random_attention(source: str, target: str, *, layers: int = 2, heads: int = 3, seed: int = 0) -> "Attention":
    # Imported here: numpy's threads are counted, as torch's, from what is set above.
    import numpy as np

    from transduce import Attention

    random = np.random.default_rng(seed)
    source_pieces, source_words = _cut(source)
    target_pieces, target_words = _cut(target)

    def weights(num_rows: int, num_columns: int, *, causal: bool = False) -> "np.ndarray":
        scores = np.exp(3 * random.standard_normal((layers, heads, num_rows, num_columns), np.float32))
        scores = np.tril(scores) if causal else scores
        return scores / scores.sum(-1, keepdims=True)

    num_source, num_target = len(source_pieces), len(target_pieces)
    return Attention(
        source=source,
        target=target,
        source_pieces=source_pieces,
        target_pieces=target_pieces,
        source_words=source_words,
        target_words=target_words,
        encoder=weights(num_source, num_source),
        decoder=weights(num_target, num_target, causal=True),
        cross=weights(num_target, num_source),
        source_truncated=False,
        target_truncated=False,
    )


def _cut(text: str) -> tuple[tuple[str, ...], tuple[int | None, ...]]:
    from transduce.text import split_words

    pieces: list[str] = []
    words: list[int | None] = []
    for number, word in enumerate(split_words(text)):
        parts = ["▁" + word[:4], word[4:]] if len(word) > 4 else ["▁" + word]
        pieces += parts
        words += [number] * len(parts)
    return (*pieces, "</s>"), (*words, None)
