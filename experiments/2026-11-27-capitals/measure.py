"""Scores ordinary models on test sets in capitals, and with rare signs, with and without `--capitals` and `--signs`.

python measure.py capitals|signs RESULT NAME=SOURCE,REFERENCE … --models MODEL …
"""

import argparse
import json
from itertools import islice
from pathlib import Path

from sacrebleu import corpus_bleu

from transduce import Translator
from transduce.data.modifiers.perturbations import versions
from transduce.data.readers import read_lines
from transduce.translation.pipeline import TextOptions

VERSIONS = {"capitals": ("clean", "upper case", "title case"), "signs": ("clean", "other signs")}
LINES = 1000


def main() -> None:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("option", choices=VERSIONS)
    parser.add_argument("result", type=Path)
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--models", nargs="+", required=True)
    args = parser.parse_args()
    rows = []
    for model in args.models:
        translator = Translator.load(model, engine="ctranslate2")
        greedy = translator.with_options(beam_size=1)
        for each in args.sets:
            name, _, paths = each.partition("=")
            sources, references = (list(islice(read_lines(Path(path)), LINES)) for path in paths.split(","))
            for version in versions(sources, [references]):
                if version.name not in VERSIONS[args.option]:
                    continue
                expected = [line.references[0] for line in version.lines]
                row = {"model": Path(model).name, "set": name, "version": version.name, "lines": len(expected)}
                plain = []
                for given in (False, True):
                    options = TextOptions(**{args.option: given}, language="en", split="never")
                    lines = [line.source for line in version.lines]
                    found = translator.stream(lines, options=greedy, text_options=options)
                    written = [best.text for best, *_ in found]
                    score = corpus_bleu(written, [expected]).score
                    row["with" if given else "without"] = round(score, 2)
                    plain = plain or written
                row["lines_changed"] = sum(a != b for a, b in zip(plain, written, strict=True))
                rows.append(row)
                print(row, flush=True)
    args.result.write_text(json.dumps({"beam_size": 1, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
