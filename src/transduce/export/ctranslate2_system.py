"""A CTranslate2 folder, run by our CTranslate2 engine."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import ctranslate2
import numpy as np

from transduce.bundle import Bundle
from transduce.engines.ctranslate2 import CTranslate2Engine
from transduce.export.system import EngineSystem, Forced


class CTranslate2System(EngineSystem):
    """The exported folder, on the CPU."""

    def __init__(self, folder: Path, bundle: Bundle, quantization: str) -> None:
        model, tokenizer = ctranslate2.Translator(str(folder), device="cpu"), bundle.tokenizer
        tokens, config = (tokenizer.tokens(), tokenizer.target.tokens()), bundle.config.model
        super().__init__(
            CTranslate2Engine(model, tokens, config, "ctranslate2 on cpu", tags=tokenizer.target.tags.values()), bundle
        )
        self.name = f"ctranslate2 {ctranslate2.__version__}, {quantization} (computes in {model.compute_type})"

    def force(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Forced]:
        """Scores the targets as the engine does, and finds the most probable next token after each prefix of them."""
        scores = self.engine.score(sources, targets)
        found = zip(super().force(sources, targets), scores, strict=True)
        return [replace(each, log_probabilities=of_target) for each, of_target in found]

    def logits(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Iterable[np.ndarray]:
        """Returns log-probabilities, which are logits, too; a pair at a time, because a vocabulary of them is large."""
        return (self.engine.next_scores(*pair) for pair in zip(sources, targets, strict=True))
