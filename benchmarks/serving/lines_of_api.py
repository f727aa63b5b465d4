"""Translates a file by `Translator`, one call a line and then one call in all.

    python benchmarks/serving/lines_of_api.py MODEL SOURCE OUTPUT

Prints the processor seconds of both.
"""

import sys
import time
from pathlib import Path

from transduce import Translator


def main() -> None:
    """Translates the lines twice."""
    model, source, output = sys.argv[1:]
    translator = Translator.load(model, engine="ctranslate2", quantization="int8", threads=1)
    lines = Path(source).read_text(encoding="utf-8").splitlines()
    translator.translate(lines[:1])
    begin = time.process_time()
    alone = [translator.translate([line])[0] for line in lines]
    one_by_one = time.process_time() - begin
    begin = time.process_time()
    together = translator.translate(lines)
    print(one_by_one, time.process_time() - begin)
    Path(output).write_text("".join(f"{each}\n" for each in together), encoding="utf-8")
    if alone != together:
        sys.exit("Translator gives other translations for the lines together than for each alone")


if __name__ == "__main__":
    main()
