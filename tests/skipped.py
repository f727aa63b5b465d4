"""Prints what the last `make test` skipped, and what each test needs: `make skipped`.

python tests/skipped.py build/tests.xml     the report of pytest's --junitxml
"""

import argparse
import ast
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree


def reasons(report: Path) -> Counter[str]:
    """Returns why tests were skipped, with how many tests (or whole files) each reason skipped."""
    counts: Counter[str] = Counter()
    for skipped in ElementTree.parse(report).iter("skipped"):
        message = skipped.get("message", "")
        if message == "collection skipped":  # a whole file: the text is the tuple (path, line, reason)
            message = ast.literal_eval(skipped.text or "")[2].removeprefix("Skipped: ")
        if message.startswith("could not import"):
            message += ": a package that `make` installs"
        counts[message] += 1
    return counts


def main() -> int:
    """Prints a line a reason, the most frequent first; returns 1 where there is no report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    report = parser.parse_args().report
    if not report.exists():
        print(f"{report} does not exist: run `make test` first")
        return 1
    counts = reasons(report)
    print(f"{counts.total()} tests or files of tests were skipped{':' if counts else ''}")
    for reason, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        print(f"{count:6} {reason}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
