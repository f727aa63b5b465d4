"""Our own model, as one of the systems to compare."""

from collections.abc import Sequence

import torch

from transduce.bundle import Bundle
from transduce.config.special_ids import EOS
from transduce.engines.torch import TorchEngine, load_model
from transduce.engines.torch_search import padded
from transduce.export.system import Forced, forced, in_batches
from transduce.translation.directions import default_tags, default_target
from transduce.translation.translator import Translator

_BATCH = 16


class NativeSystem:
    """The model of a folder, run by the PyTorch engine on the CPU: the reference."""

    name = "transduce, torch engine, float32"
    num_positions: int | None = None

    def __init__(self, bundle: Bundle) -> None:
        self.model = load_model(bundle).eval()
        self.tags, self.target = default_tags(bundle.tokenizer, bundle), default_target(bundle.tokenizer, bundle)
        self.engine = TorchEngine(self.model, tags=bundle.tokenizer.tags.values())
        self.translator = Translator(self.engine, bundle.tokenizer, bundle.config.decode)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the token ids of each line, after the tags of the default direction."""
        return [[*self.tags, *ids] for ids in self.translator.tokenizer.encode_batch(lines)]

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Translates as the model's configuration says, in the default direction."""
        return self.translator.translate(lines, target=self.target)

    def translate_ids(self, sources: Sequence[Sequence[int]]) -> list[list[int]]:
        """Returns the ids of each source's best translation."""
        return [found[0].ids for found in self.engine.translate(sources, self.translator.options)]

    def force(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Forced]:
        """Runs the model over whole targets."""
        results: list[Forced] = []
        for rows in in_batches(range(len(sources)), _BATCH):
            given = [[*targets[row], EOS] for row in rows]
            source_BS, lengths_B = padded([[*sources[row], EOS] for row in rows], self.engine.device)
            target_BT, _ = padded(given, self.engine.device)
            with torch.inference_mode():
                logits_BTV = self.model.decode(self.model.encode(source_BS, lengths_B), target_BT).numpy()
            results += [forced(logits, target) for logits, target in zip(logits_BTV, given, strict=True)]
        return results
