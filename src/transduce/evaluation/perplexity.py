"""Perplexity from summed log-likelihoods."""

import math

from transduce.errors import EvaluationError


def perplexity(total_negative_log_likelihood: float, num_tokens: int) -> float:
    """Returns exp(mean negative log-likelihood per token), or infinity where that is too large to write.

    Args:
        total_negative_log_likelihood: Summed over the target tokens, in nats, without label smoothing.
        num_tokens: How many target tokens the sum is over, EOS included.

    Raises:
        EvaluationError: There are no tokens.
    """
    if num_tokens <= 0:
        raise EvaluationError(f"perplexity of {num_tokens} tokens: there is nothing to score.")
    try:
        return math.exp(total_negative_log_likelihood / num_tokens)
    except OverflowError:
        return math.inf
