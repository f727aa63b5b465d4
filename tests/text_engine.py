"""An engine that is a function on text: what surrounds the search can be tested without a model."""

from collections.abc import Callable, Sequence

import numpy as np

from transduce.config import DecodeConfig
from transduce.decoding.scores import Hypothesis, hypothesis
from transduce.engines.interface import TokenConstraints
from transduce.text import SubwordTokenizer
from transduce.translation.translator import Translator

CORPUS = ["A dog runs.", "Two dogs run over the green grass.", "a man with a ball"] * 3


def same(text: str) -> str:
    """Returns the text."""
    return text


class TextEngine:
    """Translates by a function from text to text; its n-best list has the same with "!" behind, each worse by 1."""

    name = "text"
    independent_lines = True

    def __init__(self, tokenizer: SubwordTokenizer, function: Callable[[str], str], max_source_tokens: int) -> None:
        self.tokenizer = tokenizer
        self.function = function
        self.max_source_tokens = max_source_tokens
        self.seen: list[str] = []  # all sources, in the order in which they came

    def translate(
        self, sources: Sequence[Sequence[int]], options: DecodeConfig, n_best: int = 1
    ) -> list[list[Hypothesis]]:
        """Returns the function's value of each source."""
        results = []
        for source in sources:
            text = self.tokenizer.decode(source[: self.max_source_tokens])
            self.seen.append(text)
            outputs = [self.function(text) + "!" * i for i in range(n_best)] if source else [""]
            ids = [self.tokenizer.encode(output) if output else [] for output in outputs]
            results.append([hypothesis(found, -1.0 * i, True, 0.0) for i, found in enumerate(ids)])
        return results

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """Returns -0.1 for each token."""
        return [[-0.1] * (len(target) + 1) for target in targets]

    def align(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Returns zeros: it tells nothing, so the order of the words decides."""
        return [np.zeros((len(target), len(source))) for source, target in zip(sources, targets, strict=True)]


def text_translator(function: Callable[[str], str] = same, max_source_tokens: int = 1024) -> Translator:
    """Returns a translator that applies `function`."""
    tokenizer = SubwordTokenizer.train(CORPUS, algorithm="bpe", vocab_size=300)
    return Translator(TextEngine(tokenizer, function, max_source_tokens), tokenizer, DecodeConfig(batch_size=4))


class ConstrainedEngine:
    """Base of engines whose outputs depend on each source and its constraints alone."""

    name = "constrained"
    max_source_tokens = 100
    independent_lines = True

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        options: DecodeConfig,
        n_best: int = 1,
        conditions: Sequence[TokenConstraints] | None = None,
    ) -> list[list[Hypothesis]]:
        """Returns the outputs of each source."""
        given = conditions or [TokenConstraints()] * len(sources)
        return [self.hypotheses(*each, options, n_best) for each in zip(sources, given, strict=True)]

    def hypotheses(
        self, source: Sequence[int], constraints: TokenConstraints, options: DecodeConfig, n_best: int
    ) -> list[Hypothesis]:
        """Returns `n_best` times what `output_under` returns."""
        return [hypothesis(self.output_under(constraints), -1.0, True, 0.0)] * n_best

    def output_under(self, constraints: TokenConstraints) -> list[int]:
        """Returns the token ids that are written."""
        raise NotImplementedError


class ReversingEngine(TextEngine):
    """Writes the words in reverse order, and aligns accordingly."""

    def align(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Returns weights that tie the n-th word to the n-th from the end, by the words' first pieces."""
        found = []
        for source, target in zip(sources, targets, strict=True):
            weights = np.full((len(target), len(source)), 1e-3)
            both = np.arange(min(len(target), len(source)))
            weights[both, len(source) - 1 - both] = 1.0
            found.append(weights / weights.sum(-1, keepdims=True))
        return found


def reversing() -> Translator:
    """Returns a translator that writes the words in reverse order."""
    tokenizer = SubwordTokenizer.train(["one two three four five"] * 5, algorithm="bpe", vocab_size=330)
    engine = ReversingEngine(tokenizer, lambda text: " ".join(reversed(text.split())), 100)
    return Translator(engine, tokenizer, DecodeConfig())
