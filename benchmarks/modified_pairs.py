"""What `train.modifiers` cost the process that trains: its CPU seconds, and how long a GPU would wait for pairs.

    python benchmarks/modified_pairs.py RECIPE --data PREPARED --epochs 2 --num-workers 2
    python benchmarks/modified_pairs.py RECIPE --data PREPARED --epochs 2 --updates 300 --update-seconds 0.05

Goes through the batches of epochs as training does, reads their pairs, and prints a line of JSON for each epoch. With
--update-seconds, the process sleeps that long for each batch, as if it waited for a GPU: `waited_seconds` is what pairs
take beyond that, that of the plan included. Without, it is all time. CPU seconds are those of this
process, and not of its workers.
"""

import argparse
import dataclasses
import json
import time
from pathlib import Path

import torch  # noqa: F401  # as a training has: its objects make Python's garbage collection take longer

from transduce.config import load_recipe
from transduce.data.modifiers import modified
from transduce.data.prepared import load_prepared
from transduce.data.store import ParallelStore
from transduce.training.batch_order import BatchOrder
from transduce.training.progress import Progress


def main() -> None:
    """Parses the command line, measures, and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="the prepared folder")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--updates", type=int, help="of each epoch at most; default: all")
    parser.add_argument("--update-seconds", type=float, default=0.0, help="that a GPU takes for a batch")
    parser.add_argument("--batch-tokens", type=int, default=8192, help="of each side")
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--without", action="store_true", help="no modifiers")
    parser.add_argument("--long-epoch", action="store_true", help="plan as in a long epoch: by estimates")
    args = parser.parse_args()
    modified._EXACT_LINES = 0 if args.long_epoch else modified._EXACT_LINES
    config, prepared = load_recipe(args.recipe), load_prepared(args.data)
    changes = {"source_batch_tokens": args.batch_tokens, "target_batch_tokens": args.batch_tokens}
    changes |= {"num_workers": args.num_workers} if args.num_workers else {}
    changes |= {"modifiers": ()} if args.without else {}
    config = dataclasses.replace(config, train=dataclasses.replace(config.train, **changes))
    order = BatchOrder(ParallelStore.open(prepared.train, prepared.corpora), config)
    progress, clocks = Progress(), (time.process_time, time.perf_counter)
    for epoch in range(args.epochs):
        begun = [clock() for clock in clocks]
        plan = order.plan(progress.step, epoch)
        planned = [clock() for clock in clocks]
        count = min(len(plan), args.updates or len(plan))
        for _ in range(count):
            order.pairs(progress).pairs(order.next_rows(progress))
            order.advance(progress)
            time.sleep(args.update_seconds)
        ended = [clock() for clock in clocks]
        progress.epoch, progress.batch = epoch + 1, 0
        found = {
            "epoch": epoch,
            "updates": count,
            "pairs": len(plan.rows) * count // len(plan),
            "plan_cpu_seconds": planned[0] - begun[0],
            "plan_seconds": planned[1] - begun[1],
            "pairs_cpu_seconds": ended[0] - planned[0],
            "waited_seconds": ended[1] - begun[1] - count * args.update_seconds,
        }
        print(json.dumps({key: round(value, 3) for key, value in found.items()}), flush=True)
    if hasattr(order, "close"):  # a version before 0.3 has no workers
        order.close()


if __name__ == "__main__":
    main()
