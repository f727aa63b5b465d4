"""Sends a running service what its OpenAPI document allows, and much that it does not, one request after another.

    python benchmarks/serve_conformance.py --address http://127.0.0.1:5000 --cases 10000 [--output result.json]

schemathesis makes the requests: examples, edge cases of each field, random ones, and sequences where an answer feeds
the next request. No answer may be a server error but 503, have a status or a content type that is not described, or a
body that is not as described. Each round has another seed, until there were enough cases.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import urllib.request
from collections import Counter
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from transduce.reporting.machine import describe_machine

_CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
_CONFIG = '[checks]\nnot_a_server_error.expected-statuses = ["2xx", "4xx", "503"]\n'


def narrowed(document: dict[str, Any], languages: list[str]) -> dict[str, Any]:
    """Returns the document for these languages only, so that more requests get through to the translation."""
    schemas = document["components"]["schemas"]
    schemas["Language"]["enum"] = [*languages, *(code.upper() for code in languages), "auto"]
    for name in ("DeeplGlossaryRequest", "DeeplDictionaryRequest"):
        schemas[name]["properties"]["entries"]["pattern"] = "^[a-z]{1,9}\t[A-Za-z]{1,9}$"
    of_deepl, own = (
        document["paths"][path]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]
        for path in ("/v2/document", "/api/documents")
    )
    of_deepl["properties"]["filename"]["pattern"] = "^[a-z]{1,9}\\.(txt|md|html|srt|po)$"
    of_deepl["required"].append("filename")
    own["properties"]["format"] = {"enum": ["text", "markdown", "html", "srt", "po"]}
    own["properties"]["glossary"] = {"enum": ['{"dog": "Hund"}', "{}"]}
    own["required"].append("format")
    return document


def run(document: Path, address: str, *, seed: int, max_examples: int) -> dict[str, Any]:
    """Sends one round of requests and returns the report of schemathesis; files are written beside the document."""
    folder = document.parent
    (folder / "schemathesis.toml").write_text(_CONFIG, encoding="utf-8")
    report = folder / f"report-{seed}.json"
    command = [
        *(str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(folder / "schemathesis.toml")),
        *("run", str(document), "--url", address, "--checks", _CHECKS, "--continue-on-failure", "--no-color"),
        *("--seed", str(seed), "--max-examples", str(max_examples), "--workers", "1"),
        *("--generation-database", "none", "--report", "json", "--report-json-path", str(report)),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if not report.is_file():
        raise RuntimeError(f"schemathesis wrote no report:\n{done.stdout}\n{done.stderr}")
    found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return found | {"output": done.stdout}


def conformance(address: str, *, cases: int, max_examples: int) -> dict[str, Any]:
    """Sends rounds of requests until there were `cases`; returns the counts, and the output of rounds that failed."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    seed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "openapi.json")
        languages = [each["code"] for each in fetched(f"{address}/api/languages")["languages"]]
        document = narrowed(fetched(f"{address}/api/openapi.json"), languages)
        path.write_text(json.dumps(document), encoding="utf-8")
        while counts["cases"] < cases:
            seed += 1
            report = run(path, address, seed=seed, max_examples=max_examples)
            tested = report["test_cases"]
            counts.update(cases=tested["generated"], failed=tested["with_failures"], errors=len(report["errors"]))
            if tested["with_failures"] or report["errors"]:
                failures.append(report["output"])
            print(f"round {seed}: {counts['cases']:,} cases, {counts['failed']} failed", file=sys.stderr, flush=True)
    operations = report["operations"]
    phases = {name: each["status"] for name, each in report["phases"].items()}
    return {**counts, "rounds": seed, "operations": operations["tested"], "phases": phases, "failures": failures}


def fetched(address: str) -> dict[str, Any]:
    """Returns the JSON at an address."""
    with urllib.request.urlopen(address, timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def main(arguments: list[str] | None = None) -> int:
    """Prints the counts, and returns 1 if a case failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", required=True, help="of a running service that needs no keys")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--max-examples", type=int, default=100, help="random requests for each operation in a round")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args(arguments)
    found = conformance(args.address, cases=args.cases, max_examples=args.max_examples)
    for text in found.pop("failures"):
        print(text)
    result = {"date": f"{date.today()}", "schemathesis": version("schemathesis"), **found}
    print(json.dumps(result))
    if args.output:
        text = json.dumps(result | {"machine": describe_machine()}, indent=2)
        args.output.write_text(text + "\n", encoding="utf-8")
    return int(bool(found["failed"] or found["errors"]))


if __name__ == "__main__":
    sys.exit(main())
