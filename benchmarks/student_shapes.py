"""How much faster than a teacher the shapes of students decode, before any is trained.

    python benchmarks/student_shapes.py TEACHER --source dev.en --target dev.de --output result.json
    python benchmarks/student_shapes.py TEACHER --source dev.en --target dev.de --shapes student-6-1:d_model=256

Students have random weights and the teacher's vocabulary. What a step costs does not depend on the weights, so every
output gets the same number of steps: the mean length of the target lines. All run in CTranslate2 with int8 weights on
one thread, the teacher with a beam of 4 and with greedy search, students with greedy search and a shortlist, which is
learned from the pairs. Times are processor seconds, the least of several rounds by turns, so that other work on the
machine disturbs little.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

BATCH_SIZE, LINES, ROUNDS = 32, 256, 3
SHAPES = ["student-6-2", "student-6-1", "student-tiny"]


def make_student(teacher: Any, shape: str, folder: Path) -> Any:
    """Writes a model folder of random weights; `shape` is a preset, perhaps with changes: "NAME:key=value,…"."""
    import torch

    from transduce.bundle import save_bundle
    from transduce.config import apply_settings, preset
    from transduce.model import Transformer

    name, _, changes = shape.partition(":")
    config = apply_settings(preset(name), [f"model.{change}" for change in changes.split(",") if change])
    config = replace(config, model=replace(config.model, vocab_size=teacher.tokenizer.vocab_size))
    torch.manual_seed(0)
    weights = {name: weight.numpy() for name, weight in Transformer(config.model).weights().items()}
    return save_bundle(folder, config, weights, teacher.tokenizer, {})


def systems(args: argparse.Namespace, folder: Path) -> dict[str, tuple[Any, int]]:
    """Returns for each name a translator and its beam size."""
    from transduce import Translator
    from transduce.bundle import Bundle
    from transduce.engines.shortlist import learning
    from transduce.engines.shortlist.table import save_shortlist

    common = {"engine": "ctranslate2", "device": "cpu", "threads": 1, "quantization": "int8"}
    teacher = Bundle.load(args.teacher)
    pairs = learning.read_files((args.source, args.target), teacher.tokenizer, 50_000)
    learned = learning.learn(pairs, teacher.tokenizer.vocab_size, iterations=3)
    loaded = Translator.load(args.teacher, **common)
    found = {"teacher, beam 4": (loaded, 4), "teacher, greedy": (loaded, 1)}
    for number, shape in enumerate(args.shapes):
        bundle = make_student(teacher, shape, folder / str(number))
        save_shortlist(bundle, learned.shortlist(args.candidates, args.frequent))
        found[shape] = (Translator.load(bundle.path, shortlist="on", **common), 1)
    return found


def main() -> None:
    """Measures, prints a table and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("teacher", type=Path, help="model folder")
    parser.add_argument("--source", type=Path, required=True, help="lines of the usual kind; the first are translated")
    parser.add_argument("--target", type=Path, required=True, help="their translations")
    parser.add_argument("--shapes", nargs="+", default=SHAPES, help="presets, perhaps with changes: NAME:key=value,…")
    parser.add_argument("--candidates", type=int, default=50, help="of the shortlist")
    parser.add_argument("--frequent", type=int, default=100, help="of the shortlist")
    parser.add_argument("--output", type=Path, help="also write the result here, as JSON")
    args = parser.parse_args()
    from transduce.data.readers import read_lines
    from transduce.reporting.machine import describe_machine
    from transduce.reporting.tables import table

    lines = [*islice(read_lines(args.source), LINES)]
    with tempfile.TemporaryDirectory() as folder:
        runs = systems(args, Path(folder))
        tokenizer = next(iter(runs.values()))[0].tokenizer
        targets = tokenizer.encode_batch([*islice(read_lines(args.target), LINES)])
        steps = round(statistics.fmean(map(len, targets)))
        seconds: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(1 + ROUNDS):  # the first one warms up
            for name, (translator, beam_size) in runs.items():
                started = time.process_time()
                options = {"beam_size": beam_size, "min_tokens": steps, "max_tokens": steps}
                translator.translate(lines, batch_size=BATCH_SIZE, **options)
                seconds[name].append(time.process_time() - started)
    least = {name: min(each[1:]) for name, each in seconds.items()}
    beam, greedy, *_ = least.values()
    rows = [[name, f"{beam / each:.2f}", f"{greedy / each:.2f}"] for name, each in least.items()]
    print(table(["", "times the teacher, beam 4", "times the teacher, greedy"], rows))
    if args.output:
        result = {"machine": describe_machine(), "steps": steps, "lines": len(lines), "seconds": seconds}
        result |= {"candidates": args.candidates, "frequent": args.frequent, "command": sys.argv[1:]}
        args.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
