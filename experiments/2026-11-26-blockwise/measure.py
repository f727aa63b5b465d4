"""How often the heads of a model predict what its own greedy search writes, and the tokens a pass that follow.

    python measure.py MODEL SOURCES RESULT.json

The search is that of the torch engine. A head is right at a position where its best token is the one that the search
writes so many tokens later. What RESULT.json has already is not measured again.
"""

import json
import sys
from pathlib import Path

import torch

from transduce import files
from transduce.bundle import Bundle
from transduce.config import DecodeConfig
from transduce.engines.torch import TorchEngine
from transduce.model import Transformer
from transduce.training.batch import Batch, pad
from transduce.training.block_heads import pass_counts, scores_of_counts
from transduce.training.device import Compute

_AT_ONCE = 64  # sentences


def main() -> None:
    """Measures one model, and adds it to the results."""
    folder, sources, results = map(Path, sys.argv[1:4])
    found = json.loads(results.read_text()) if results.exists() else {}
    bundle = Bundle.load(folder)
    key = f"{folder.name} {bundle.checksum('model.safetensors')[:12]} on {sources.name}"
    if key in found:
        return
    torch.set_num_threads(1)
    model = Transformer.from_weights(bundle.config.model, bundle.weights()).eval()
    lines = sources.read_text(encoding="utf-8").splitlines()
    inputs = [list(ids) for ids in bundle.tokenizer.encode_batch(lines)]
    options = DecodeConfig(beam_size=1, batch_size=_AT_ONCE)
    outputs = [best.ids for best, *_ in TorchEngine(model, record_steps=False).translate(inputs, options, 1)]
    order = sorted(range(len(lines)), key=lambda index: len(outputs[index]))
    counts = torch.zeros(2 * bundle.config.model.block_size, dtype=torch.float64)
    same = 0
    for first in range(0, len(order), _AT_ONCE):
        rows = order[first : first + _AT_ONCE]
        batch = Batch(*pad([inputs[row] for row in rows]), *pad([list(outputs[row]) for row in rows]))
        counts += pass_counts(model, batch, Compute.of("cpu", "fp32"))
        with torch.inference_mode():
            same += int((model.logits(model(*batch.inputs)).argmax(-1) == batch.targets_N).sum())
    tokens, passes = counts[-2:].tolist()
    scores = {name: round(value, 4) for name, value in scores_of_counts(counts.tolist()).items()}
    found[key] = {
        "sentences": len(lines),
        "tokens": tokens,
        "passes": passes,
        "head_1": round(same / tokens, 4),
        **scores,
    }
    files.write_json(results, found)
    print(key, found[key])


if __name__ == "__main__":
    main()
