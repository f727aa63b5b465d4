"""Workbooks, tables and catalogues that other programs make: translated, and read again by parsers of their own.

    pip install openpyxl pandas ruamel.yaml xlsxwriter    # PyYAML, LibreOffice (soffice) and Node.js besides
    python benchmarks/catalogues_of_programs.py --output benchmarks/results/DATE-catalogues-of-programs.json

Each program writes the same made-up records in several layouts. A model that writes words in capitals translates them.
For each file is noted whether

same    it is byte for byte as it was, if the model changes nothing
values  a parser finds the same values in the same places: texts in capitals, everything else as it was
opened  its program opens it (for XLSX: openpyxl, and LibreOffice computes the same numbers)

The exit code is 1 if one of these fails.
"""

import argparse
import csv
import datetime
import io
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

import openpyxl  # noqa: E402
import pandas  # noqa: E402
import ruamel.yaml  # noqa: E402
import xlsxwriter  # noqa: E402
import yaml  # noqa: E402
from openpyxl.worksheet.table import Table  # noqa: E402

from text_engine import text_translator  # noqa: E402  # of the tests
from transduce.reporting.machine import describe_machine  # noqa: E402
from transduce.translation.documents import DocumentJob, Languages, translate_document  # noqa: E402
from transduce.translation.pipeline import TextOptions  # noqa: E402

NUM_FILES = 30  # of each format
_WORDS = [
    "dog",
    "cat",
    "harbour",
    "old",
    "green",
    "it's",
    "winter,",
    "morning;",
    "letter:",
    "café",
    "'street'",
    '"market"',
]
Made = Iterator[tuple[str, bytes]]  # the program with the layout, and the file


def _phrase(chance: random.Random) -> str:
    return " ".join(chance.choices(_WORDS, k=chance.randint(2, 7))).capitalize()


def _records(seed: int) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        {
            "code": f"A-{chance.randrange(1000)}x",
            "name": _phrase(chance),
            "price": round(chance.random() * 100, 2),
            "made": f"2026-{chance.randint(10, 12)}-{chance.randint(10, 28)}",
            "note": chance.choice(
                [_phrase(chance), f"{_phrase(chance)}\n{_phrase(chance)}", "Hi {name}, %d of it", ""]
            ),
        }
        for _ in range(chance.randint(2, 8))
    ]


def _json(seed: int) -> Made:
    records = {"items": _records(seed), "on": True, "n": None}
    layouts: list[dict[str, Any]] = [{}, {"indent": 2}, {"ensure_ascii": False, "indent": "\t"}]
    yield "Python json", json.dumps(records, **layouts[seed % 3]).encode()
    yield "pandas", pandas.DataFrame(_records(seed)).to_json(orient="records", indent=seed % 3).encode()
    script = "process.stdout.write(JSON.stringify(JSON.parse(require('fs').readFileSync(0)), null, 2))"
    given = json.dumps(records).encode()
    yield "Node.js", subprocess.run(["node", "-e", script], input=given, check=True, capture_output=True).stdout


def _arb(seed: int) -> Made:
    messages: dict[str, Any] = {"@@locale": "en"}
    for i, each in enumerate(_records(seed)):
        messages |= {f"m{i}": each["name"], f"@m{i}": {"description": each["note"]}}
    yield "Python json", json.dumps(messages, indent=2, ensure_ascii=bool(seed % 2)).encode()


def _csv(seed: int) -> Made:
    records = _records(seed)
    file = io.StringIO(newline="")
    options: list[dict[str, Any]] = [{}, {"delimiter": ";"}, {"dialect": "excel-tab"}, {"quoting": csv.QUOTE_ALL}]
    writer = csv.DictWriter(file, list(records[0]), **options[seed % 4])
    writer.writeheader()
    writer.writerows(records)
    yield "Python csv", file.getvalue().encode("utf-8-sig" if seed % 2 else "utf-8")
    yield "pandas", pandas.DataFrame(records).to_csv(index=bool(seed % 2)).encode()


def _yaml(seed: int) -> Made:
    records = {"items": _records(seed), "on": True, "empty": None}
    yield "PyYAML", yaml.safe_dump(records, allow_unicode=bool(seed % 2), width=(40, 1000)[seed % 2]).encode()
    style = (None, "'", '"', "|", ">")[seed % 5]
    yield (
        "PyYAML, in one style",
        yaml.safe_dump(records, default_style=style, default_flow_style=seed % 3 == 0).encode(),
    )
    file = io.BytesIO()
    writer = ruamel.yaml.YAML()
    writer.indent(mapping=4, sequence=6, offset=3)
    writer.dump(records, file)
    yield "ruamel.yaml", file.getvalue()


def _strings(seed: int) -> Made:
    def quoted(text: str) -> str:
        return json.dumps(text, ensure_ascii=False)

    lines = [f"/* {each['code']} */\n{quoted(each['name'])} = {quoted(each['note'])};\n" for each in _records(seed)]
    yield "as genstrings does", "\n".join(lines).encode(("utf-16", "utf-8")[seed % 2])


def _xlsx(seed: int) -> Made:
    records = _records(seed)
    rows = [list(records[0]), *(list(each.values()) for each in records)]
    file = io.BytesIO()
    with xlsxwriter.Workbook(file) as made:
        sheet = made.add_worksheet("the sheet")
        for i, row in enumerate(rows):
            sheet.write_row(i, 0, row)
        sheet.write_rich_string("H1", "A ", made.add_format({"bold": True}), "big dog", " runs")
        sheet.write_formula("H2", '=IF(B2="x","yes","no")', value="no")
        sheet.write_comment("B2", "a note")
        chart = made.add_chart({"type": "column"})
        chart.add_series({"values": "='the sheet'!$C$2:$C$3", "categories": "='the sheet'!$B$2:$B$3"})
        sheet.insert_chart("J1", chart)
    yield "xlsxwriter", file.getvalue()
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.active["G1"] = f"=SUM(C2:C{len(rows)})"
    if seed % 2:
        book.active.add_table(Table(displayName="Made", ref=f"A1:E{len(rows)}"))
    file = io.BytesIO()
    book.save(file)
    yield "openpyxl", file.getvalue()
    if seed % 3 == 0:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "a.xlsx").write_bytes(file.getvalue())
            _office("xlsx:Calc MS Excel 2007 XML", folder)
            yield "LibreOffice", (Path(folder) / "out" / "a.xlsx").read_bytes()


def _office(form: str, folder: str) -> None:
    home = "-env:UserInstallation=file:///tmp/catalogues-of-programs-office"
    command = ["soffice", home, "--headless", "--convert-to", form, "--outdir", f"{folder}/out", f"{folder}/a.xlsx"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)


def _cells(data: bytes) -> list[Any]:
    book = openpyxl.load_workbook(io.BytesIO(data))
    return [[(cell.coordinate, cell.number_format, cell.value) for row in sheet for cell in row] for sheet in book]


def _table(data: bytes) -> list[Any]:
    text = data.decode("utf-8-sig")
    first = text.partition("\n")[0]
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count)))


def _entries(data: bytes) -> list[Any]:
    text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8")
    found = re.findall(r'^("(?:[^"\\]|\\.)*") = ("(?:[^"\\]|\\.)*");$', text, re.MULTILINE)
    return [[json.loads(key).join("<>"), json.loads(value)] for key, value in found]


FORMATS: dict[str, tuple[Callable[[int], Made], Callable[[bytes], Any]]] = {
    "json": (_json, json.loads),
    "csv": (_csv, _table),
    "arb": (_arb, json.loads),
    "strings": (_strings, _entries),
    "xlsx": (_xlsx, _cells),
    "yaml": (_yaml, yaml.safe_load),
}


def _paths(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the values that a parser found, with where they are."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _paths(each, f"{path}/{key}")
    elif isinstance(value, list | tuple):
        for i, each in enumerate(value):
            yield from _paths(each, f"{path}/{i}")
    else:
        yield path, value


def faults(data: bytes, found: bytes, read: Callable[[bytes], Any]) -> tuple[Counter[str], list[str]]:
    """Returns how many values were translated and kept, and what is at fault."""
    counts: Counter[str] = Counter()
    wrong = []
    given, written = dict(_paths(read(data))), dict(_paths(read(found)))
    if given.keys() != written.keys():
        wrong.append("other places")
    for path, value in given.items():
        now = written.get(path)
        if isinstance(value, str) and isinstance(now, str) and value != now:
            counts["translated"] += 1
            is_locale = path == "/@@locale" and now == "de"
            if "".join(now.lower().split()) != "".join(value.lower().split()) and not is_locale:
                wrong.append(f"{path}: {value!r} → {now!r}")
        elif value == now:
            counts["kept"] += 1
        else:
            wrong.append(f"{path}: {value!r} → {now!r}")
    return counts, wrong


def _translated(name: str, data: bytes, target: str, *, changes: bool) -> bytes:
    output = io.BytesIO()
    job = DocumentJob(name=name, languages=Languages("en", target), text_options=TextOptions())
    translate_document(_MODELS[changes], data, output, job)
    return output.getvalue()


_MODELS = {True: text_translator(str.upper), False: text_translator()}


def main() -> int:
    """Makes, translates and compares; returns 1 where something is at fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    rows: dict[tuple[str, str], Counter[str]] = {}
    wrong: list[str] = []
    for kind, (make, read) in FORMATS.items():
        num, seed = 0, 0
        while num < NUM_FILES:
            for program, data in make(seed):
                name = f"a.{'tsv' if program == 'Python csv' and seed % 4 == 2 else kind}"
                found = _translated(name, data, "de", changes=True)
                row = rows.setdefault((kind, program), Counter())
                counts, bad = faults(data, found, read)
                if _translated(name, data, "en", changes=False) != data:
                    bad.append("changed, though the model changes nothing")
                if kind == "xlsx" and program == "LibreOffice" and _computed(found) != _computed(data):
                    bad.append("LibreOffice computes other numbers")
                row += counts + Counter(files=1, faults=bool(bad))
                wrong += [f"{name} of {program}, seed {seed}: {each}" for each in bad]
                num += 1
            seed += 1
    report = {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "command": "python benchmarks/catalogues_of_programs.py",
        "machine": describe_machine(),
        "faults": wrong,
        "rows": [{"format": kind, "program": program, **row} for (kind, program), row in rows.items()],
    }
    text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    if args.output:
        args.output.write_text(text, encoding="utf-8")
    print(text)
    return int(bool(wrong))


def _computed(data: bytes) -> list[Any]:
    """Returns the numbers that LibreOffice has in a workbook."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.xlsx").write_bytes(data)
        _office("csv:Text - txt - csv (StarCalc):44,34,76", folder)
        [made] = (Path(folder) / "out").glob("*.csv")
        return [
            [cell for cell in row if cell[:1].isdigit()] for row in csv.reader(made.open(newline="", encoding="utf-8"))
        ]


if __name__ == "__main__":
    for needed in ("soffice", "node"):
        assert shutil.which(needed), f"{needed} is needed"
    sys.exit(main())
