"""The words that may follow in a translation that has begun, each with the translation that continues it."""

import math
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice

import numpy as np

from transduce.config import DecodeConfig
from transduce.config.ranges import Range, require_within
from transduce.config.special_ids import EOS
from transduce.decoding.scores import NEVER_GENERATED, Hypothesis, hypothesis
from transduce.engines.interface import TokenConstraints
from transduce.errors import DataError
from transduce.text import Tokenizer
from transduce.translation.constraints.constrained_search import prefix_constraints, with_prefix
from transduce.translation.pipeline.atoms import atoms
from transduce.translation.pipeline.confidence import with_words
from transduce.translation.result import Alternative, Translation
from transduce.translation.text_model import TextModel, encode_lines, translation_of

_JOINED = re.compile(r"(?<=\w)[-\u2010\u2011'\u2019]\w+")  # what a hyphen or an apostrophe adds to a word
_SIGNS = ".!?…。！？।؟"  # that end a sentence
_NOTICEABLE = 0.01  # the least probability with which the end of the translation is among the alternatives
_SPARE = 4  # beginnings that are tried beyond twice the number of words: several may lead to the same word


def alternatives(model: TextModel, options: DecodeConfig, source: str, target_prefix: str, n: int) -> list[Alternative]:
    """Returns at most `n` words that may follow; see `Translator.alternatives`.

    The pieces that may follow the prefix are ranked by their probability, and a greedy search continues the best of
    them. If the prefix ends within a word, pieces that may replace those of the word are ranked with them. The end of
    the translation is scored as it is and, where a new word is wanted, after each sign that ends a sentence.

    Args:
        model: translates.
        options: give limits and length penalty.
        source: a line.
        target_prefix: the beginning of its translation.
        n: words.
    """
    require_within(n, "n", int, Range(1, 100))
    if not isinstance(source, str) or not isinstance(target_prefix, str):
        raise TypeError("Give one line and the beginning of its translation, each a str.")
    if "\n" in target_prefix:
        raise DataError(f"The prefix {target_prefix!r} holds a line break.")
    engine, tokenizer = model.engine, model.tokenizer.target
    [source_ids] = encode_lines(model.tokenizer, [source])
    if not source_ids:
        return []
    # The space before a word is part of its first piece. So a prefix that ends in one is spelled without it.
    prefix = target_prefix.rstrip()
    begins_word = bool(prefix) and prefix != target_prefix
    given = prefix_constraints(prefix, tokenizer)
    first = len(given.prefix)  # of the pieces that are ranked
    if not begins_word:
        first = next((i for i, each in enumerate(given.completions) if each), first)
    signs = _sign_ids(tokenizer) if begins_word else ()  # else they are among the words
    pieces = tokenizer.ids_beginning_with(b" ") if begins_word else range(tokenizer.vocab_size)
    following = sorted({*pieces} - {*NEVER_GENERATED, *tokenizer.tags.values()})
    scores_TV = engine.next_scores(source_ids, given.prefix)
    total, begun = _beginnings(scores_TV, given, first, (*following, *signs, EOS))
    tried = list(islice((ids for ids in begun if ids[-1] not in signs), 2 * n + _SPARE))
    constraints = [TokenConstraints(prefix=ids) for ids in tried]
    found = [best for [best] in engine.translate([source_ids] * len(tried), _greedy(options), 1, constraints)]
    scores = engine.score([source_ids] * len(tried), [each.ids for each in found])
    beginning = prefix + " " * begins_word
    read = tokenizer.decode(given.prefix)  # the prefix, as the model reads it
    best: dict[str, Alternative] = {}
    for each, values in zip(found, scores, strict=True):
        translation = _translation(model, source, source_ids, each, values, prefix)
        text = translation.text
        end = word_end(text, len(beginning))
        if end and text.startswith(beginning):
            ends = accumulate(len(piece) for piece in tokenizer.piece_bytes(each.ids))
            written = read + text[len(prefix) : end]
            num_tokens = sum(at < len(f" {written}".encode()) for at in ends) + 1  # the last reaches the word's end
            probability = math.exp(math.fsum(values[first:num_tokens]) - total)
            if text[:end] not in best or best[text[:end]].probability < probability:
                best[text[:end]] = Alternative(text[len(beginning) : end].strip(), probability, translation)
    likely = [token for token in (EOS, *signs) if prefix and scores_TV[-1, token] - total > math.log(_NOTICEABLE)]
    ended = [given.prefix + (token,) * (token != EOS) for token in likely]
    for ids, values in zip(ended, engine.score([source_ids] * len(ended), ended), strict=True):
        whole = hypothesis(list(ids), math.fsum(values), finished=True, alpha=options.length_penalty)
        probability = math.exp(math.fsum(values[first:]) - total)
        if probability > (best[""].probability if "" in best else _NOTICEABLE):
            best[""] = Alternative("", probability, _translation(model, source, source_ids, whole, values, prefix))
    return sorted(best.values(), key=lambda alternative: -alternative.probability)[:n]


def _sign_ids(tokenizer: Tokenizer) -> list[int]:
    """Returns the ids of the pieces that are one sign at the end of a sentence, without white space."""
    return [
        token
        for sign in map(str.encode, _SIGNS)
        for token in tokenizer.ids_beginning_with(sign)
        if tokenizer.piece_bytes([token]) == [sign]
    ]


def word_end(text: str, start: int) -> int:
    """Returns where the first word that goes beyond `start` ends, 0 if there is none: "T-Shirt" and "dog's" are one."""
    joined = _JOINED.match(text, start)
    end = joined.end() if joined else next((end for _, end in atoms(text) if end > start), 0)
    while joined := _JOINED.match(text, end):
        end = joined.end()
    return end


def _beginnings(
    scores_TV: np.ndarray, given: TokenConstraints, first: int, following: Sequence[int]
) -> tuple[float, Iterator[tuple[int, ...]]]:
    """Returns the log-probability of all outputs with the prefix, and their beginnings, the most probable first.

    A beginning goes one token beyond the prefix.

    Args:
        scores_TV: the log-probability of each token after each beginning of the prefix.
        given: the prefix, and the pieces that may replace its end.
        first: the position of the first piece that may be replaced: probabilities are of what comes from here.
        following: the tokens that may follow the whole prefix.
    """
    prefix = given.prefix
    allowed_TV = np.zeros(scores_TV.shape, dtype=bool)
    for position in range(first, len(prefix)):
        allowed_TV[position, list(given.completions[position])] = True
        allowed_TV[position, prefix[position]] = False  # what follows it comes at the next position
    allowed_TV[len(prefix), list(following)] = True
    position_N, token_N = np.nonzero(allowed_TV)
    replaced = np.arange(first, len(prefix))
    before_T = np.zeros(len(scores_TV))  # the log-probability of the pieces from `first` up to each position
    before_T[first + 1 :] = np.cumsum(scores_TV[replaced, prefix[first:]], dtype=np.float64)
    value_N = before_T[position_N] + scores_TV[position_N, token_N]
    order = (i for i in np.argsort(-value_N, kind="stable") if token_N[i] != EOS)  # the end is no word
    total = float(np.logaddexp.reduce(value_N))
    return total, ((*prefix[: position_N[i]], int(token_N[i])) for i in order)


def _greedy(options: DecodeConfig) -> DecodeConfig:
    return DecodeConfig(
        beam_size=1,
        length_penalty=options.length_penalty,
        max_extra_tokens=options.max_extra_tokens,
        max_tokens=options.max_tokens,
    )


def _translation(
    model: TextModel, source: str, source_ids: Sequence[int], found: Hypothesis, values: Sequence[float], prefix: str
) -> Translation:
    """Returns what was found, with the log-probabilities of its tokens and the probabilities of its words."""
    tokenizer = model.tokenizer.target
    text = with_prefix(tokenizer.decode(found.ids), prefix, tokenizer)
    return with_words(translation_of(model, source, source_ids, found, text), values, tokenizer)
