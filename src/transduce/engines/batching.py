"""What every engine does with a list of sources: batches of similar length, limits and results that need no search.

Needs no torch.
"""

from collections.abc import Iterator, Sequence

from transduce.config import DecodeConfig
from transduce.decoding.scores import Hypothesis
from transduce.engines.interface import TokenConstraints
from transduce.errors import ConfigError, DataError
from transduce.reporting.tables import counted

# Padded source tokens of a batch: keeps the caches of a batch of very long sentences within memory.
MAX_BATCH_TOKENS = 8192
# Pairs that are scored together: enough to be fast, and few enough for long ones.
SCORE_BATCH = 32
# What a source without tokens gives, and one for which a search finds nothing.
EMPTY_OUTPUT = Hypothesis(ids=[], score=0.0, log_probability=0.0, finished=True)
NOTHING_FOUND = Hypothesis(ids=[], score=-float("inf"), log_probability=-float("inf"), finished=False)


def length_batches(
    lengths: Sequence[int], batch_size: int, max_tokens: int | None = MAX_BATCH_TOKENS
) -> Iterator[list[int]]:
    """Yields the indices of each batch: of similar length, longest first, so that the largest batch fails at once.

    A batch has at most `batch_size` entries and, padded, at most `max_tokens` tokens; a longer entry is a batch of its
    own. Entries of length 0 are left out.
    """
    order = sorted((index for index, length in enumerate(lengths) if length), key=lambda index: -lengths[index])
    start = 0
    while start < len(order):
        fitting = batch_size if max_tokens is None else max_tokens // lengths[order[start]]
        count = max(1, min(batch_size, fitting))
        yield order[start : start + count]
        start += count


def output_limit(
    num_source: int, options: DecodeConfig, constraints: TokenConstraints, last_position: int | None
) -> int:
    """Returns the greatest number of tokens of an output, which is never less than the options or a prefix demand.

    Args:
        num_source: the tokens of its source.
        options: of the search.
        constraints: on the output.
        last_position: of a model that has learned its positions; None for others.

    Raises:
        ConfigError: the learned positions end before the least number of tokens.
    """
    limit = num_source + options.max_extra_tokens
    if options.max_tokens:
        limit = min(limit, options.max_tokens)
    num_prefix = len(constraints.prefix)
    least = max(options.min_tokens, num_prefix)
    if last_position is None:
        return max(limit, least)
    if least > last_position:
        what = f"a prefix of {least} tokens" if num_prefix == least else f"decode.min_tokens = {options.min_tokens}"
        raise ConfigError(f"{what}: this model's positions end at {last_position}.")
    return min(max(limit, least), last_position)


def require_pairs(
    sources: Sequence[object], targets: Sequence[Sequence[int]], max_positions: int | None, positions_end: str
) -> None:
    """Raises DataError where there is not one target for each source, or a target is longer than the positions.

    Args:
        sources: to be scored.
        targets: likewise, without EOS.
        max_positions: of a target with EOS; None for any number.
        positions_end: the message about them, such as "this model's positions end at".
    """
    if len(sources) != len(targets):
        raise DataError(f"{counted(len(sources), 'source')} and {counted(len(targets), 'target')}: give one for each.")
    for number, target in enumerate(targets, start=1):
        if max_positions is not None and len(target) + 1 > max_positions:
            raise DataError(f"target {number} has {len(target)} tokens, but {positions_end} {max_positions - 1}.")
