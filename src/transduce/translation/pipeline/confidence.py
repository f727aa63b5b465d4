"""How sure a model is: of each token, each word, and of a line as a whole.

The model's own probabilities of what it wrote say how sure it is, not how often it is right. A calibration, fitted to
translations whose quality is known (`calibration`), makes the second of the first.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from transduce.text import word_of_each
from transduce.translation.pipeline.calibration import Calibration

if TYPE_CHECKING:
    from transduce.engines.interface import Engine
    from transduce.text import SubwordTokenizer
    from transduce.translation.result import Translation


def with_probabilities(
    engine: "Engine", tokenizer: "SubwordTokenizer", texts: Sequence[str], results: "Sequence[list[Translation]]"
) -> "list[list[Translation]]":
    """Returns the translations with the log-probability of each token and the probability of each word.

    The engine scores what was written, given the source, as if it had been given: the numbers are the model's, whatever
    search found the words. Words are what stands between white space.
    """
    flat = [(text, best) for text, found in zip(texts, results, strict=True) for best in found]
    sources = tokenizer.encode_batch([text if text.strip() else "" for text, _ in flat])
    asked = [place for place, (text, _) in enumerate(flat) if text.strip()]
    scores = engine.score([sources[place] for place in asked], [list(flat[place][1].ids) for place in asked])
    values = dict(zip(asked, scores, strict=True))
    scored = [_with_words(best, values.get(place, []), tokenizer) for place, (_, best) in enumerate(flat)]
    rest = iter(scored)
    return [[next(rest) for _ in found] for found in results]


def with_confidence(best: "Translation", calibration: Calibration | None) -> "Translation":
    """Returns the translation with its confidence, which without a calibration is the mean probability of its tokens.

    That mean is geometric. An empty line has nothing to be confident of.
    """
    values = best.token_log_probabilities
    if not values:
        return best
    if calibration is not None:
        return replace(best, confidence=calibration.probability(values), calibrated=True)
    return replace(best, confidence=math.exp(sum(values) / len(values)))


def _with_words(best: "Translation", values: Sequence[float], tokenizer: "SubwordTokenizer") -> "Translation":
    pieces = tokenizer.piece_bytes(best.ids)
    words: dict[int, tuple[bytes, float]] = {}
    for word, piece, value in zip(word_of_each(pieces), pieces, values, strict=False):  # the last value is of EOS
        if word is not None:
            text, total = words.get(word, (b"", 0.0))
            words[word] = (text + piece, total + value)
    probabilities = ((text.decode(errors="replace").strip(), math.exp(total)) for text, total in words.values())
    return replace(best, token_log_probabilities=tuple(values), words=tuple(probabilities))
