"""A CTranslate2 folder, run by our CTranslate2 engine."""

from collections.abc import Sequence
from pathlib import Path

import ctranslate2

from transduce.bundle import Bundle
from transduce.config.special_ids import EOS
from transduce.engines.ctranslate2 import CTranslate2Engine
from transduce.export.system import Forced, in_batches
from transduce.translation.directions import default_tags, default_target
from transduce.translation.translator import Translator

_BATCH = 64


class CTranslate2System:
    """The exported folder, on the CPU."""

    num_positions: int | None = None

    def __init__(self, folder: Path, bundle: Bundle, quantization: str) -> None:
        self.tokens = bundle.tokenizer.tokens()
        self.model = ctranslate2.Translator(str(folder), device="cpu")
        self.tags, self.target = default_tags(bundle.tokenizer, bundle), default_target(bundle.tokenizer, bundle)
        never = bundle.tokenizer.tags.values()
        engine = CTranslate2Engine(self.model, self.tokens, bundle.config.model, "ctranslate2 on cpu", tags=never)
        self.translator = Translator(engine, bundle.tokenizer, bundle.config.decode)
        version, computes_in = ctranslate2.__version__, self.model.compute_type
        self.name = f"ctranslate2 {version}, {quantization} (computes in {computes_in})"

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns the token ids of each line, after the tags of the default direction."""
        return [[*self.tags, *ids] for ids in self.translator.tokenizer.encode_batch(lines)]

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Translates as the model's configuration says, in the default direction."""
        return self.translator.translate(lines, target=self.target)

    def force(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Forced]:
        """Scores the targets, and finds the most probable next token after each prefix of them."""
        scores = self.translator.engine.score(sources, targets)
        choices = self._choices(sources, targets)
        return [Forced(*each) for each in zip(scores, choices, strict=True)]

    def _choices(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[int]]:
        """CTranslate2 returns no logits: each position is a search of one step, in batches of equal length."""
        ids = {token: index for index, token in enumerate(self.tokens)}
        choices = [[EOS] * (len(target) + 1) for target in targets]
        for length in range(max(map(len, targets)) + 1):
            rows = [row for row, target in enumerate(targets) if len(target) >= length]
            for chosen in in_batches(rows, _BATCH):
                found = self.model.translate_batch(
                    [[self.tokens[token] for token in sources[row]] for row in chosen],
                    [[self.tokens[token] for token in targets[row][:length]] for row in chosen] if length else None,
                    beam_size=1,
                    max_decoding_length=length + 1,
                    min_decoding_length=0,  # its default is 1: EOS could not be chosen at once
                    max_input_length=0,
                    return_end_token=True,
                )
                for row, result in zip(chosen, found, strict=True):
                    choices[row][length] = ids[result.hypotheses[0][length]]
        return choices
