"""What a pass over several tokens costs beside a pass over one, by the size of the model: what drafts have to gain.

    python benchmarks/draft_passes.py [--rounds 5] [--threads 1] [--output result.json]

The models have random weights: the cost of a pass does not depend on them. Sizes and precisions alternate, and the
least time of all rounds counts. `speed` is that of greedy search with proposals over greedy search without, at the
tokens a pass that were measured with a trained model (docs/guides/drafts.md). It leaves out the encoder, which both
searches run once, and the time that it takes to propose.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch

from transduce.config import preset
from transduce.engines.torch_drafts import measured_costs
from transduce.model import Transformer, prepack
from transduce.reporting.machine import describe_machine

_SIZES = {  # layers of each side, d_model, d_ff, heads
    "3 + 3, 256": (3, 256, 1024, 4),
    "6 + 6, 512: paper-base": (6, 512, 2048, 8),
    "6 + 6, 1024: paper-big": (6, 1024, 4096, 16),
}
_TOKENS_A_PASS = {"self": {2: 1.20, 3: 1.26, 5: 1.28}, "heads alone": {2: 1.34, 3: 1.41, 5: 1.43}}
_TOKENS_A_PASS["heads with the model"] = {2: 1.49, 3: 1.70, 5: 1.78}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--vocabulary", type=int, default=12_000, help="pieces; default: 12000")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    seconds: dict[tuple[str, str], dict[int, float]] = {}
    models = {}
    for size, (layers, width, hidden, heads) in _SIZES.items():
        shape = {"num_encoder_layers": layers, "num_decoder_layers": layers, "d_model": width, "d_ff": hidden}
        shape |= {"num_heads": heads, "d_k": width // heads, "d_v": width // heads, "vocab_size": args.vocabulary}
        model = Transformer(replace(preset("paper-base").model, **shape)).eval()
        for precision in ("float32", "int8"):
            models[size, precision] = prepack(model, precision)
    for _ in range(args.rounds):
        for case, model in models.items():
            costs, least = measured_costs(model), seconds.setdefault(case, {})
            for tokens in (1, 2, 3, 5):
                least[tokens] = min(least.get(tokens, 1e9), costs(tokens))

    rows = []
    for (size, precision), least in seconds.items():
        row = {"model": size, "precision": precision, "milliseconds": {n: s * 1e3 for n, s in least.items()}}
        row["cost"] = {n: s / least[1] for n, s in least.items()}
        row["speed"] = {
            way: {n: given / row["cost"][n] for n, given in each.items()} for way, each in _TOKENS_A_PASS.items()
        }
        rows.append(row)
        print(json.dumps(row))
    if args.output:
        result = {"machine": describe_machine(), "threads": args.threads, "vocabulary": args.vocabulary, "rows": rows}
        args.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
