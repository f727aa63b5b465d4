"""Counts the items that a model copies to the letter, by kind: "item added" of `transduce evaluate --robustness`.

    python copied_items.py MODEL SOURCE REFERENCE OUTPUT.json [LINES]

A kind that repeats characters is hard: "10:00" becomes "10:0". The stages that protect items are off.
"""

import json
import re
import sys
from collections import Counter
from datetime import date
from pathlib import Path

from transduce import Translator
from transduce.data.modifiers.perturbations import versions
from transduce.data.readers import read_lines

_KINDS = {
    "bank account": r"[A-Z]{2}\d{12,}",
    "hexadecimal": r"#[0-9a-f]+",
    "phone number": r"\+.+",
    "FTP address": r"ftp:.+",
    "e-mail address": r".+@.+",
    "date and time": r"\d{4}-.+",
    "amount": r"1\d\d\.\d{3},\d\d",
    "emoji": r"\W+",
}


def main() -> None:
    """Translates the lines and writes the shares."""
    model, source, reference, output = sys.argv[1:5]
    count = int(sys.argv[5]) if len(sys.argv) > 5 else 800
    sources, references = (list(read_lines(Path(path)))[:count] for path in (source, reference))
    [version] = [each for each in versions(sources, [references]) if each.name == "item added"]
    translator = Translator.load(model, device="cpu", threads=1)
    seen, copied = Counter[str](), Counter[str]()
    for line, translation in zip(
        version.lines, translator.translate([each.source for each in version.lines]), strict=True
    ):
        kind = next(name for name, pattern in _KINDS.items() if re.fullmatch(pattern, line.kept))
        seen[kind] += 1
        copied[kind] += line.kept in translation
    shares = {kind: {"items": seen[kind], "copied": round(copied[kind] / seen[kind], 4)} for kind in _KINDS}
    total = {"items": seen.total(), "copied": round(copied.total() / seen.total(), 4)}
    result = {"date": str(date.today()), "engine": translator.engine.name, "kinds": shares, "all": total}
    Path(output).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
