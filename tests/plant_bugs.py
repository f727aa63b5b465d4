"""Plants the bugs of `planted_bugs.toml`, one at a time in a copy of the checkout, and reports which the tests catch.

    python tests/plant_bugs.py                     every bug, with the tests nearest to it by imports
    python tests/plant_bugs.py --only beam,noam    those whose name has one of these words
    python tests/plant_bugs.py --rest              survivors: all tests that are not slow

For `--rest`, all survivors are planted at once and all tests run once. The tests that fail are then run against each
survivor alone.

A bug is one line of one file:

    [[bug]]
    name = "no fsync before the rename"
    file = "src/transduce/files.py"
    old = "os.fsync("                    # stands once in the file, or names the line with enough around it
    new = "len("
    tests = ["tests/unit/test_files.py"] # optional: run first
"""

import argparse
import ast
import concurrent.futures
import functools
import importlib.util
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parents[1]
_LIST = Path(__file__).with_name("planted_bugs.toml")
_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".*_cache", ".hypothesis", "*.egg-info", "build", "dist", "runs", "models"
)
_MAX_SECONDS = 1800  # a bug may make a test wait for ever: that is caught, too
_MAX_SECONDS_OF_ALL = 4 * 3600
_MAX_FILES = 6  # --rest runs the others
_TIERS = ("unit", "parity", "integration", "architecture", "docs", "system")


@dataclass(frozen=True)
class Bug:
    """One line that is wrong."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """What a kept result belongs to."""
        return f"{self.file}: {self.old} -> {self.new}"

    def line(self, text: str) -> int:
        """Returns the number of the line, from 1."""
        return text[: text.index(self.old)].count("\n") + 1


@dataclass(frozen=True)
class Result:
    """What became of a bug: the test that failed first, or "" where none did."""

    bug: Bug
    caught_by: str
    num_files: int
    seconds: float


def read_bugs(path: Path, repository: Path) -> list[Bug]:
    """Reads the list and checks that each bug can be planted.

    Raises:
        ValueError: a bug's `old` does not stand exactly once in its file, changes nothing, or is more than one line.
    """
    bugs = [
        Bug(**{**each, "tests": tuple(each.get("tests", ()))})
        for each in tomllib.loads(path.read_text(encoding="utf-8"))["bug"]
    ]
    faults = []
    for bug in bugs:
        file = repository / bug.file
        count = file.read_text(encoding="utf-8").count(bug.old) if file.is_file() else 0
        if count != 1:
            faults.append(f"{bug.name}: {bug.old!r} stands {count} times in {bug.file}, not once")
        if bug.old == bug.new or "\n" in bug.old.strip("\n"):
            faults.append(f"{bug.name}: 'old' and 'new' are two different lines")
        faults += [f"{bug.name}: there is no {test}" for test in bug.tests if not (repository / test).is_file()]
    if faults:
        raise ValueError("\n".join(faults))
    return bugs


def tests_of(bug: Bug, repository: Path) -> list[str]:
    """Returns the test files to run: those named, that of the same name, and those nearest to the module by imports."""
    imports, module = _imports(repository), _module_of(Path(bug.file))
    distances, reached = {module: 0}, [module]
    for name in reached:  # grows
        for other in sorted(other for other, names in imports.items() if name in names):
            if other not in distances:
                distances[other] = distances[name] + 1
                reached.append(other)
    files = sorted(
        (path.relative_to(repository) for path in (repository / "tests").rglob("test_*.py")),
        key=lambda path: (
            path.stem != f"test_{module.rpartition('.')[2]}",
            distances.get(_module_of(path), len(imports)),
            _TIERS.index(path.parts[1]) if path.parts[1] in _TIERS else len(_TIERS),
            path.name,
        ),
    )
    return list(dict.fromkeys([*bug.tests, *map(str, files[:_MAX_FILES])]))


def _module_of(file: Path) -> str:
    """Returns the name by which a file is imported; helpers of the tests have no package."""
    if file.parts[0] == "src":
        return ".".join(file.with_suffix("").parts[1:]).removesuffix(".__init__")
    return file.stem if len(file.parts) == 2 else str(file)


@functools.cache
def _imports(repository: Path) -> dict[str, set[str]]:
    """Returns what each module of the package and of the tests imports: modules, and names that may be modules."""
    found = {}
    for path in [*(repository / "src").rglob("*.py"), *(repository / "tests").rglob("*.py")]:
        names = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        found[_module_of(path.relative_to(repository))] = names
    return found


def failures(copy: Path, arguments: Sequence[str], max_seconds: float = _MAX_SECONDS) -> list[str]:
    """Runs pytest in the copy and returns the names of the tests that fail; with `-x` in the arguments, the first."""
    shared = os.environ.get("TRANSDUCE_SHARED") or str(_REPOSITORY.parent / "shared")
    environment = os.environ | {"PYTHONPATH": str(copy / "src"), "CI": "true", "TRANSDUCE_SHARED": shared}
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", *arguments]
    with subprocess.Popen(
        command,
        cwd=copy,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=max_seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with whatever the tests have started
            return [f"{arguments[-1]}: not done after {max_seconds} s"]
    if process.returncode in (0, 5):  # 5: all deselected
        return []
    failed = re.findall(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", output, re.MULTILINE)  # an id may have spaces
    return list(dict.fromkeys(failed)) or [f"{arguments[-1]}: exit code {process.returncode}"]


def try_bug(bug: Bug, copy: Path, tests: Sequence[str]) -> Result:
    """Plants a bug in the copy, runs the tests in one process until one fails, and takes the bug out again."""
    file = copy / bug.file
    right = file.read_text(encoding="utf-8")
    began = time.monotonic()
    try:
        _write_source(file, right.replace(bug.old, bug.new))
        failed = failures(copy, ["-x", "-n", "0", *tests]) if tests else []
    finally:
        _write_source(file, right)
    caught_by = failed[0] if failed else ""
    if "::" in caught_by and failures(copy, ["-n", "0", caught_by]):
        print(f"{bug.name}: {caught_by} fails without the bug, too: mend that first", flush=True)
        caught_by = ""
    return Result(bug, caught_by, len(tests), time.monotonic() - began)


def failures_of_all(bugs: Sequence[Bug], copy: Path) -> list[str]:
    """Plants all the bugs at once, runs all tests that are not slow, and returns those that fail."""
    files = {bug.file: (copy / bug.file).read_text(encoding="utf-8") for bug in bugs}
    try:
        for name, right in files.items():
            text = right
            for bug in bugs:
                text = text.replace(bug.old, bug.new) if bug.file == name else text
            _write_source(copy / name, text)
        return failures(copy, ["-m", "not slow", "-n", "auto", "--dist", "loadfile", "tests"], _MAX_SECONDS_OF_ALL)
    finally:
        for name, right in files.items():
            _write_source(copy / name, right)


def _write_source(file: Path, text: str) -> None:
    """Writes a module, and drops what Python compiled of it: a change of the same length and second goes unnoticed."""
    file.write_text(text, encoding="utf-8")
    Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)


def try_all(bugs: Sequence[Bug], num_copies: int, rest: bool, kept: Path | None) -> list[Result]:
    """Tries the bugs in several copies of the checkout at once; writes each result to `kept` as it comes."""
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(num_copies) as pool:
        copies: queue.Queue[Path] = queue.Queue()
        for number in range(num_copies):
            copies.put(Path(shutil.copytree(_REPOSITORY, Path(scratch) / str(number), ignore=_LEFT_OUT)))

        def run(bug: Bug, tests: Sequence[str]) -> Result:
            copy = copies.get()
            try:
                return try_bug(bug, copy, tests)
            finally:
                copies.put(copy)

        def run_all(tests: dict[Bug, list[str]]) -> list[Result]:
            results: list[Result] = []
            for done in concurrent.futures.as_completed([pool.submit(run, *each) for each in tests.items()]):
                results.append(done.result())
                _report(results[-1], f"{len(results)}/{len(tests)}", kept)
            return results

        tried = _kept(kept) if rest else {}
        results = run_all({bug: [] if bug.key in tried else tests_of(bug, _REPOSITORY) for bug in bugs})
        survivors = [result.bug for result in results if not result.caught_by]
        if not rest or not survivors:
            return results
        print(f"all tests, with {len(survivors)} survivors planted at once", flush=True)
        copy = copies.get()
        failed = failures_of_all(survivors, copy)
        copies.put(copy)
        print(f"{len(failed)} tests fail; each survivor alone with these", flush=True)
        return [result for result in results if result.caught_by] + run_all(dict.fromkeys(survivors, failed))


def _report(result: Result, number: str, kept: Path | None) -> None:
    """Prints a result and writes it to the file of results."""
    what = f"caught by {result.caught_by}" if result.caught_by else f"SURVIVED {result.num_files} files or tests"
    print(f"{number} {result.bug.name}: {what} ({result.seconds:.0f} s)", flush=True)
    if kept:
        results = _kept(kept) | {result.bug.key: result.caught_by}
        kept.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _kept(file: Path | None) -> dict[str, str]:
    return json.loads(file.read_text(encoding="utf-8")) if file and file.exists() else {}


def main(arguments: Sequence[str] | None = None) -> int:
    """Tries the bugs, prints the survivors, and returns 1 where fewer were caught than must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", type=Path, default=_LIST, help="the bugs (default: %(default)s)")
    parser.add_argument("--only", metavar="WORD,WORD", default="", help="bugs whose name or file has one of these")
    parser.add_argument("--rest", action="store_true", help="run all other tests against what survives")
    parser.add_argument("--jobs", type=int, default=1, help="bugs at a time")
    parser.add_argument("--least", type=float, default=90.0, help="percentage that must be caught")
    parser.add_argument("--kept", type=Path, help="JSON file of results; what it says was caught is not tried again")
    given = parser.parse_args(arguments)
    try:
        bugs = read_bugs(given.list, _REPOSITORY)
    except ValueError as error:
        parser.error(str(error))
    words = given.only.split(",")
    bugs = [bug for bug in bugs if any(word in bug.name or word in bug.file for word in words)]
    known = _kept(given.kept)
    before = [bug for bug in bugs if known.get(bug.key)]
    results = try_all([bug for bug in bugs if bug not in before], given.jobs, given.rest, given.kept)

    survivors = [result.bug for result in results if not result.caught_by]
    caught = len(bugs) - len(survivors)
    for bug in survivors:
        text = (_REPOSITORY / bug.file).read_text(encoding="utf-8")
        print(f"survived: {bug.file}:{bug.line(text)}: {bug.name}: {bug.old!r} -> {bug.new!r}")
    print(f"{caught} of {len(bugs)} caught" + (f", {len(before)} of them before" if before else ""))
    return int(caught < len(bugs) * given.least / 100)


if __name__ == "__main__":
    sys.exit(main())
