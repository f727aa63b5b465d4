"""The confidence of a model in its translations: of each token, each word, and a line as a whole.

A model's probabilities say how sure it is, not how often it is right. A calibration, fitted to translations of known
quality (`calibration`), turns the one into the other.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from transduce.text import Tokenizer, word_of_each
from transduce.translation.constraints.glossary import Glossary
from transduce.translation.constraints.terms_in_sources import encode_with_terms
from transduce.translation.pipeline.splitting import Part
from transduce.translation.result import Results, Translation
from transduce.translation.text_model import TextModel

if TYPE_CHECKING:
    from transduce.translation.pipeline.calibration import Calibration


def with_probabilities(model: TextModel, parts: Sequence[Part], results: Results, glossary: Glossary | None) -> Results:
    """Returns the translations with the log-probability of each token and the probability of each word.

    The engine scores the outputs as if they had been given. So the numbers are the model's, for any kind of search; it
    reads the glossary's terms in the sources where the search did. Words are separated by white space.
    """
    flat = [(part.text, best) for part, found in zip(parts, results, strict=True) for best in found]
    sources = encode_with_terms(model, glossary, [text for text, _ in flat])
    scored = [index for index, source in enumerate(sources) if source]
    scores = model.engine.score([sources[index] for index in scored], [list(flat[index][1].ids) for index in scored])
    values = dict(zip(scored, scores, strict=True))
    rest = (with_words(best, values.get(index, []), model.tokenizer.target) for index, (_, best) in enumerate(flat))
    return [[next(rest) for _ in found] for found in results]


def with_confidence(model: TextModel, results: Results) -> Results:
    """Returns the translations with their confidence; an empty line has none.

    Without a calibration it is the geometric mean of the tokens' probabilities.
    """
    from transduce.translation.pipeline.calibration import load_calibration  # which imports NumPy

    calibration = load_calibration(model.bundle)
    return [[_with_confidence(best, calibration) for best in found] for found in results]


def _with_confidence(best: Translation, calibration: "Calibration | None") -> Translation:
    values = best.token_log_probabilities
    if not values:
        return best
    if calibration is not None:
        return replace(best, confidence=calibration.probability(values), calibrated=True)
    return replace(best, confidence=math.exp(sum(values) / len(values)))


def with_words(best: Translation, values: Sequence[float], tokenizer: Tokenizer) -> Translation:
    """Returns a translation with the log-probability of each token, as given, and the probability of each word."""
    pieces = tokenizer.piece_bytes(best.ids)
    words: dict[int, tuple[bytes, float]] = {}
    for word, piece, value in zip(word_of_each(pieces), pieces, values, strict=False):  # the last value is of EOS
        if word is not None:
            text, total = words.get(word, (b"", 0.0))
            words[word] = (text + piece, total + value)
    probabilities = ((text.decode(errors="replace").strip(), math.exp(total)) for text, total in words.values())
    return replace(best, token_log_probabilities=tuple(values), words=tuple(probabilities))
