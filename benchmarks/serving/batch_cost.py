"""What a sentence costs in batches of several sizes: processor time, which other work on the machine changes little.

    python benchmarks/serving/batch_cost.py MODEL QUANTIZATION LINES CONFIG ROUNDS

Reads one sentence a line, and takes them in random order, as they come to a service. Prints JSON: for each size the
milliseconds of a sentence in the fastest round; "offline" is `Translator.translate`, which sorts its lines by length.
"""

import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from transduce import Translator
from transduce.serve.config import read_config
from transduce.translation.pipeline import Request, run_pipeline
from transduce.translation.windows import Window

_SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64)
_SENTENCES = 192  # of each size in a round


def main() -> None:
    """Measures all sizes in turn, several times."""
    model, quantization, source, config, rounds = sys.argv[1:]
    translator = Translator.load(model, engine="ctranslate2", quantization=quantization, threads=1)
    translator.engine = translator.engine.undivided()
    lines, text_options = Path(source).read_text(encoding="utf-8").splitlines(), read_config(Path(config), [model]).text
    request = Request(replace(translator.options, batch_size=max(_SIZES)), text_options=text_options)
    generator = random.Random(0)

    def in_batches(size: int) -> Callable[[], None]:
        batches = [generator.choices(lines, k=size) for _ in range(_SENTENCES // size)]

        def run() -> None:
            for batch in batches:
                run_pipeline(translator, Window(1, batch), request)

        return run

    def offline() -> None:
        translator.translate(generator.choices(lines, k=_SENTENCES), text_options=text_options)

    offline()
    fastest: dict[str, float] = {}
    for _ in range(int(rounds)):
        for name, run in [("offline", offline), *((str(size), in_batches(size)) for size in _SIZES)]:
            begin = time.process_time()
            run()
            milliseconds = 1000 * (time.process_time() - begin) / _SENTENCES
            fastest[name] = round(min(milliseconds, fastest.get(name, milliseconds)), 2)
    print(json.dumps(fastest))


if __name__ == "__main__":
    main()
