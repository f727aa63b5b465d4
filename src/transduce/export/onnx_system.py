"""A folder of ONNX graphs, run by the script in it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnxruntime

from transduce.config.special_ids import BOS
from transduce.export.system import System
from transduce.export.translate_onnx import OnnxTranslator


class OnnxSystem(System):
    """The exported graphs on onnxruntime, through `translate_onnx.py`."""

    name = f"onnxruntime {onnxruntime.__version__}"

    def __init__(self, folder: Path) -> None:
        self.translator = OnnxTranslator(folder)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the token ids of each line, after the tags of the default direction."""
        tags = self.translator.settings.get("default_tags", [])
        return [[*tags, *self.translator.tokenizer.encode(line)] for line in lines]

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Translates with the search of the script."""
        return [self.translator.translate(line) for line in lines]

    def logits(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Iterator[np.ndarray]:
        """Feeds each target in two calls, so that the cache is tested, too; see `System.logits`."""
        for source, target in zip(sources, targets, strict=True):
            memory, past = self.translator.encode(list(source)), self.translator.no_past(1)
            inputs = np.array([[BOS, *target]])
            half = (inputs.shape[1] + 1) // 2
            logits, past = self.translator.step(inputs[:, :half], memory, past)
            if half < inputs.shape[1]:  # an empty target is one token, EOS
                rest, _ = self.translator.step(inputs[:, half:], memory, past)
                logits = np.concatenate([logits, rest], axis=1)
            yield logits[0]
