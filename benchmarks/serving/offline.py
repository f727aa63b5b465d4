"""What the same sentences take without a service: `Translator.translate`, in a process of its own.

    python benchmarks/serving/offline.py MODEL QUANTIZATION LINES OUTPUT CONFIG

Reads one sentence a line. Writes the translations, one a line, and prints the seconds of the second of two runs, and
its processor time.
"""

import sys
import time
from pathlib import Path

from transduce import Translator
from transduce.serve.config import read_config


def main() -> None:
    """Translates the lines twice."""
    model, quantization, source, output, config = sys.argv[1:]
    translator = Translator.load(model, engine="ctranslate2", quantization=quantization, threads=1)
    lines, text_options = Path(source).read_text(encoding="utf-8").splitlines(), read_config(Path(config), [model]).text
    translator.translate(lines[:64], text_options=text_options)
    begin, processor = time.perf_counter(), time.process_time()
    translations = translator.translate(lines, text_options=text_options)
    print(time.perf_counter() - begin, time.process_time() - processor)
    Path(output).write_text("".join(f"{each}\n" for each in translations), encoding="utf-8")


if __name__ == "__main__":
    main()
