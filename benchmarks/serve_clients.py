"""Runs other people's client tests against our service: DeepL's for Python and Node.js, and LibreTranslate's.

    python benchmarks/serve_clients.py MODEL --deepl-python DIR --python venv/bin/python --deepl-node DIR \
        --libretranslate DIR --output result.json

The folders are checkouts. `--python` has the deepl of the tests' version, pydantic 1 and pytest; in the folder for
Node.js, `npm ci` was run. The tests compare translations with those of `example_text` in the client's tests/conftest.py
and of some further phrases: MODEL was trained on these. The report has each test that failed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from shutil import copytree
from typing import Any
from xml.etree import ElementTree

from serving.processes import free_port, running
from transduce.reporting.machine import describe_machine
from transduce.serve.operations.keys import add_key

# LibreTranslate's tests get Flask's client of their application: this one sends the same requests to the service.
_CLIENT = """
import functools, os, types
import httpx2, pytest

def answer(method, path, **options):
    found = httpx2.request(method, os.environ["SERVICE"] + path, **options)
    content = found.json() if found.headers.get("content-type", "").startswith("application/json") else None
    return types.SimpleNamespace(data=found.content, status_code=found.status_code, json=content)

@pytest.fixture
def client():
    return types.SimpleNamespace(**{name: functools.partial(answer, name.upper()) for name in ("get", "post")})
"""


# In these, the client for Node.js replaces the network, and never quite gives it back: they run by themselves.
_REPLACED = "user-agent tests|request parameter tests"


def states(command: Sequence[str | Path], folder: Path, report: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Runs tests that write a report in JUnit's form, and returns for each "passed", "failed" or "skipped"."""
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if not report.is_file():
        raise RuntimeError(f"the tests wrote no report:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    found = {}
    for each in ElementTree.parse(report).iter("testcase"):
        tags = {child.tag for child in each}
        state = "failed" if tags & {"failure", "error"} else "skipped" if "skipped" in tags else "passed"
        name = f"{each.get('classname')}: {each.get('name')}"
        found[name] = min(state, found.get(name, state))  # of tests of one name, the one that failed
    report.unlink()
    return found


def counted(found: Mapping[str, str]) -> dict[str, Any]:
    """Returns the counts of the states, and the names of the tests that failed."""
    counts = {state: list(found.values()).count(state) for state in ("passed", "failed", "skipped")}
    return {"tests": len(found), **counts, "failed_tests": sorted(name for name in found if found[name] == "failed")}


def main(arguments: list[str] | None = None) -> int:
    """Runs the tests whose folders are given, prints and writes the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--deepl-python", type=Path)
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--deepl-node", type=Path)
    parser.add_argument("--libretranslate", type=Path)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args(arguments)
    found: dict[str, Any] = {"date": f"{date.today()}", "model": args.model.name}
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        keys, report = folder / "keys.toml", folder / "report.xml"
        # A name, for the tests for Node.js forbid themselves to connect to an address of numbers.
        address = f"http://localhost:{port}"
        client = {"DEEPL_SERVER_URL": address, "DEEPL_AUTH_KEY": add_key(keys, "tests")}
        client["PATH"] = f"{args.python.absolute().parent}{os.pathsep}{os.environ['PATH']}"
        serve = [sys.executable, "-m", "transduce.cli.main", "serve", str(args.model), "--port", str(port)]
        (folder / "serve.toml").write_text('[state]\nurl = "memory"\n', encoding="utf-8")
        serve += ["--config", str(folder / "serve.toml")]
        pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report}"]
        with running([*serve, "--keys", str(keys)], port, folder / "log", None):
            if args.deepl_python:
                tests = [args.python.absolute(), *pytest, "tests"]
                found["deepl-python"] = counted(states(tests, args.deepl_python, report, client | {"PYTHONPATH": ""}))
            if args.deepl_node:
                environment = client | {"JEST_JUNIT_OUTPUT_FILE": f"{report}", "JEST_JUNIT_TITLE": "{title}"}
                tests = ["npx", "jest", "-w", "1", "--reporters=jest-junit", "-t"]
                first, second = (
                    states([*tests, pattern], args.deepl_node, report, environment)
                    for pattern in (f"^(?!.*({_REPLACED}))", _REPLACED)
                )
                both = first | {name: state for name, state in second.items() if state != "skipped"}
                found["deepl-node"] = counted(both)
        if args.libretranslate:
            tests_of_api = copytree(args.libretranslate / "libretranslate/tests/test_api", folder / "test_api")
            (tests_of_api / "conftest.py").write_text(_CLIENT, encoding="utf-8")
            with running(serve, port, folder / "log", None):
                tests = [sys.executable, *pytest, "test_api"]
                found["libretranslate"] = counted(states(tests, folder, report, {"SERVICE": address}))
    text = json.dumps(found | {"machine": describe_machine()}, indent=2, ensure_ascii=False)
    print(text)
    if args.output:
        args.output.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
