"""Where the time of a decoding step goes, part by part, in the torch engine on a CPU.

    python benchmarks/decode_profile.py --threads 1
    python benchmarks/decode_profile.py --dtype int8 --cases 4x32,1x1 --output result.json

The model and the cases are those of `decode.py`: `paper-base` with random weights, 25 source positions, 30 steps. Each
part's functions are timed, less what other parts take inside them; the clock costs about a microsecond a call, which
is left in. What is in no part is "rest": embeddings, sums, relu, the lists of outputs, and Python. With `--threads 1`
times are the processor's.
"""

import argparse
import contextlib
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from decode import CASES, SOURCE_POSITIONS, STEPS, VOCAB_SIZE, describe_machine, ours
from transduce.decoding import beam, greedy
from transduce.files import write_json
from transduce.model import attention, cache, inference_weights, layers, transformer
from transduce.reporting.tables import table

PARTS: dict[str, list[tuple[Any, str]]] = {
    "encoder, and the start": [(transformer.Transformer, "encode"), (transformer.Transformer, "start")],
    "products of weights": [
        (inference_weights.PrepackedLinear, "forward"),
        (inference_weights.QuantizedLinear, "forward"),
    ],
    "attention": [(layers, "attend_step"), (attention, "attend_step")],
    "norms": [(torch.nn.LayerNorm, "forward")],
    "caches and masks": [
        (cache.LayerCache, "append"),
        (cache.DecoderState, "step"),
        (cache.DecoderState, "reorder"),
        (cache.DecoderState, "expand"),
        (cache.DecoderState, "keep"),
        (cache.DecoderState, "ancestor_mask"),
        (transformer, "mask_bias"),
    ],
    "choice of tokens": [(beam, "best_candidates"), (greedy, "best_token")],
}


class Clock:
    """Seconds spent in each part, less those of parts inside."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._now = now
        self._inside = 0.0  # of the part that is running: what parts inside it took

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns `function`, which adds its time to `part`."""

        def call(*arguments: Any, **options: Any) -> Any:
            outside, self._inside, start = self._inside, 0.0, self._now()
            try:
                return function(*arguments, **options)
            finally:
                taken = self._now() - start
                self.seconds[part] += taken - self._inside
                self._inside = outside + taken

        return call


@contextlib.contextmanager
def watched(clock: Clock) -> Iterator[None]:
    """Puts a clock into the functions of every part."""
    with contextlib.ExitStack() as stack:
        for part, functions in PARTS.items():
            for owner, name in functions:
                stack.enter_context(mock.patch.object(owner, name, clock.timed(part, getattr(owner, name))))
        yield


def profile(case: str, dtype: str, repeats: int) -> dict[str, float]:
    """Returns the milliseconds a step of each part: those of the quickest of `repeats` searches."""
    beam_size, batch_size = map(int, case.split("x"))
    now = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    torch.manual_seed(0)
    run = ours(beam_size, torch.device("cpu"), dtype)
    sources = torch.randint(5, VOCAB_SIZE, (batch_size, SOURCE_POSITIONS))
    run(sources)
    found = []
    for _ in range(repeats):
        clock = Clock(now)
        with watched(clock):
            start = now()
            steps = run(sources)
            whole = now() - start
        parts = {part: clock.seconds[part] for part in PARTS}
        found.append({part: 1000 * s / steps for part, s in {**parts, "rest": whole - sum(parts.values())}.items()})
    return min(found, key=lambda parts: sum(parts.values()))


def main() -> None:
    """Reads the command line, profiles, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", choices=["fp32", "bf16", "int8"], default="fp32")
    parser.add_argument("--threads", type=int, default=0, help="0: PyTorch's default")
    parser.add_argument("--repeats", type=int, default=3, help="the quickest counts; default: %(default)s")
    parser.add_argument("--cases", type=lambda text: text.split(","), default=CASES, help="default: %(default)s")
    parser.add_argument("--output", type=Path, help="also write the result here, as JSON")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    cases = {}
    for case in args.cases:
        print(f"{case} …", file=sys.stderr)
        cases[case] = profile(case, args.dtype, args.repeats)
    rows = []
    for part in [*PARTS, "rest"]:
        rows.append([part, *(f"{each[part]:.2f} ({each[part] / sum(each.values()):.0%})" for each in cases.values())])
    rows.append(["**a step**", *(f"**{sum(each.values()):.2f}**" for each in cases.values())])
    print(table(["milliseconds of a step", *cases], rows, text_columns=1))
    if args.output:
        machine = describe_machine(torch.device("cpu"))
        result = {"script": "benchmarks/decode_profile.py", "steps": STEPS, "dtype": args.dtype, **machine}
        write_json(args.output, result | {"milliseconds_per_step": cases})
        print(json.dumps(machine))


if __name__ == "__main__":
    main()
