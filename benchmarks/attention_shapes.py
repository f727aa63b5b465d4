"""How many shapes of attention the batches of each epoch have, and how many of them no earlier batch had.

    python benchmarks/attention_shapes.py RECIPE PREPARED [--epochs 2] [--set KEY=VALUE]

A shape is the numbers of sentences, queries and keys. An encoder layer has one a batch, a decoder layer two. A kernel
that is planned or tuned by shape starts anew with each (docs/decisions/0035). Prints JSON. Needs no GPU.
"""

import argparse
import json
from pathlib import Path

from transduce.config import apply_settings, load_recipe
from transduce.data.prepared import TRAIN
from transduce.data.store import ParallelStore
from transduce.training.batch_order import BatchOrder
from transduce.training.progress import Progress


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("prepared", type=Path)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    args = parser.parse_args()

    config = apply_settings(load_recipe(args.recipe), args.settings)
    order, progress, seen = BatchOrder(ParallelStore.open(args.prepared / TRAIN), config), Progress(), set()
    rows = []
    for epoch in range(args.epochs):
        plan, pairs = order.plan(progress.step, epoch), order.pairs(progress)
        found = set()
        for index in range(len(plan)):
            lengths = pairs.lengths(plan.batch(index))
            count, (source, target) = len(lengths[0]), (int(side.max()) for side in lengths)
            found |= {(count, source, source), (count, target, target), (count, target, source)}
        rows.append({"epoch": epoch + 1, "batches": len(plan), "shapes": len(found), "new_shapes": len(found - seen)})
        seen |= found
        progress.step, progress.epoch = progress.step + len(plan), epoch + 1
    order.close()
    print(json.dumps({"settings": args.settings, "epochs": rows}, indent=1))


if __name__ == "__main__":
    main()
