"""What a tuned step costs: the same batches with tuning and without, alternating in one process; writes JSON.

python cost.py RUN OUTPUT.json [BATCHES]

RUN is the run folder of a student. Steps of a batch differ in nothing but the rounding of weights; which kind goes
first alternates. On a busy machine, processor time says more than the time of the clock.
"""

import json
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from transduce.augmentation.student_measurement import mean_of
from transduce.bundle import Bundle
from transduce.data.store import ParallelStore
from transduce.model import Transformer
from transduce.training.device import Compute
from transduce.training.run_folder import load_run_config, load_run_data
from transduce.training.trainer import Trainer

WARM_UP = 5  # batches, whose times do not count


def main() -> None:
    """Measures and writes."""
    run, output = Path(sys.argv[1]), Path(sys.argv[2])
    num_batches = int(sys.argv[3]) if len(sys.argv) > 3 else 60
    config, bundle = load_run_config(run), Bundle.load(run / "model")
    compute = Compute.of("cpu", config.train.precision)
    model = Transformer.from_weights(bundle.config.model, bundle.weights())
    store = ParallelStore.open(load_run_data(run).train)
    config = replace(config, train=replace(config.train, micro_batch_tokens=0))
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(model, config, Path(folder), store, compute=compute, show_progress=False)
        kinds = {"plain": 0, "tuned": config.train.max_steps}
        seconds: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
        for number in range(num_batches):
            rows = trainer.order.next_rows(trainer.progress)
            for kind in sorted(kinds, reverse=number % 2 == 1):
                trainer.config = replace(config, train=replace(config.train, int8_tuning_steps=kinds[kind]))
                began, processor = time.perf_counter(), time.process_time()
                trainer.train_step(rows)
                seconds[kind].append((time.perf_counter() - began, time.process_time() - processor))
            trainer.order.advance(trainer.progress)
    found = {}
    for index, name in enumerate(("by the clock", "by processor time")):
        plain, tuned = ([each[index] for each in seconds[kind][WARM_UP:]] for kind in kinds)
        ratio = mean_of([ours / theirs for ours, theirs in zip(plain, tuned, strict=True)])
        found[name] = {
            "tokens_a_second_of_plain": round(ratio.value, 3),
            "half_width": round(ratio.half_width, 3),
            "median": round(statistics.median(ours / theirs for ours, theirs in zip(plain, tuned, strict=True)), 3),
        }
    values = {"steps_of_each": num_batches - WARM_UP, "parameters": model.num_parameters, "machine": str(compute)}
    output.write_text(json.dumps(values | found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
