"""Means over seeds of what `transduce evaluate --robustness --json` measured, as JSON; a table goes to standard error.

python collect.py OUTPUT > results.json

`won_back` is a share of the BLEU that an ordinary model loses on a version, against its clean score: what the modified
model does not lose against its own.
"""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from transduce.reporting.tables import table

KINDS = ("ordinary", "modified")


def read(folder: Path, kind: str) -> list[dict[tuple[str, str], dict[str, Any]]]:
    """Returns for each seed what was measured, by test set and version."""
    found = []
    for path in sorted(folder.glob(f"{kind}-*.json")):
        versions = json.loads(path.read_text(encoding="utf-8"))["versions"]
        found.append({(each["name"], each["version"]): each for each in versions})
    return found


def main() -> None:
    """Reads the command line and prints the means."""
    runs = {kind: read(Path(sys.argv[1]), kind) for kind in KINDS}
    seeds = {kind: len(each) for kind, each in runs.items()}
    if not all(seeds.values()):
        raise SystemExit(f"{sys.argv[1]}: results of {seeds}; run run.sh first.")
    rows: list[dict[str, Any]] = []
    for key in runs["ordinary"][0]:
        row: dict[str, Any] = {"test_set": key[0], "version": key[1]}
        for kind in KINDS:
            row[f"{kind}_bleu"] = [run[key]["scores"]["bleu"]["value"] for run in runs[kind]]
            row[f"{kind}_chrf"] = [run[key]["scores"]["chrf"]["value"] for run in runs[kind]]
            row[f"{kind}_kept"] = [run[key]["kept_share"] for run in runs[kind]]
            row[f"{kind}_loops"] = [run[key]["loop_share"] for run in runs[kind]]
        clean = next((each for each in rows if each["test_set"] == key[0]), row)
        lost = [statistics.mean(clean[f"{kind}_bleu"]) - statistics.mean(row[f"{kind}_bleu"]) for kind in KINDS]
        row["won_back"] = round(1 - lost[1] / lost[0], 3) if lost[0] > 1 else None
        rows.append(row)
    print(json.dumps({"seeds": seeds, "versions": rows}, indent=2))
    cells = [
        [row["test_set"], row["version"], *(f"{statistics.mean(row[f'{kind}_bleu']):.1f}" for kind in KINDS)]
        + ["" if row["won_back"] is None else f"{row['won_back']:.0%}"]
        + ["" if None in row[f"{kind}_kept"] else f"{statistics.mean(row[f'{kind}_kept']):.1%}" for kind in KINDS]
        + [f"{statistics.mean(row[f'{kind}_loops']):.1%}" for kind in KINDS]
        for row in rows
    ]
    header = ["test set", "version", "BLEU, ordinary", "modified", "won back", "copied, ordinary", "modified"]
    print(table([*header, "loops, ordinary", "modified"], cells, text_columns=2), file=sys.stderr)


if __name__ == "__main__":
    main()
