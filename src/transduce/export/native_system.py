"""Our own model, as one of the systems to compare."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from transduce.bundle import Bundle
from transduce.config.special_ids import EOS
from transduce.engines.torch import TorchEngine
from transduce.engines.torch_search import padded
from transduce.export.system import EngineSystem
from transduce.model import Transformer


class NativeSystem(EngineSystem):
    """The model of a folder, run by the PyTorch engine on the CPU: the reference."""

    name = "transduce, torch engine, float32"

    def __init__(self, bundle: Bundle) -> None:
        config, where = bundle.config.model, str(bundle.path)
        self.model = Transformer.from_weights(config, bundle.weights(), where, copy=False).eval()  # memory for one copy
        tags = bundle.tokenizer.target.tags.values()
        super().__init__(TorchEngine(self.model, tags=tags, prepacking=False), bundle)

    def translate_ids(self, sources: Sequence[Sequence[int]]) -> list[list[int]]:
        """Returns the ids of each source's best translation."""
        return [found[0].ids for found in self.engine.translate(sources, self.translator.options)]

    def logits(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Iterable[np.ndarray]:
        """Runs the model over whole targets; see `System.logits`."""
        source_BS, lengths_B = padded([[*source, EOS] for source in sources])
        target_BT, _ = padded([[*self.target_tags, *target, EOS] for target in targets])
        with torch.inference_mode():
            logits_BTV = self.model.decode(self.model.encode(source_BS, lengths_B), target_BT)
        found: np.ndarray = logits_BTV[:, len(self.target_tags) :].numpy()
        return found
