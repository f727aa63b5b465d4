"""What CTranslate2 computes for given targets, or given beginnings of them; sources and targets are names of tokens."""

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import ctranslate2

from transduce.engines.batching import SCORE_BATCH, length_batches

if TYPE_CHECKING:
    import numpy as np  # at run time it would slow down the start of a model

# Rows of logits when pairs are scored: 300 MB at the paper's vocabulary.
_MAX_LOGIT_ROWS = 2048

Names = Sequence[list[str]]


def scores(model: ctranslate2.Translator, sources: Names, targets: Names) -> list[list[float]]:
    """Returns for each pair the log-probability of each target token, and of EOS."""
    batches = list(length_batches([len(target) + 1 for target in targets], SCORE_BATCH, _MAX_LOGIT_ROWS))
    begun: list[Any] = []
    for batch in batches:
        begun += model.score_batch(
            [sources[index] for index in batch],
            [targets[index] for index in batch],
            max_input_length=0,
            asynchronous=True,
        )
    results: list[list[float]] = [[] for _ in sources]
    for index, found in zip(chain(*batches), begun, strict=True):
        results[index] = list(found.result().log_probs)
    return results


def attention(model: ctranslate2.Translator, sources: Names, targets: Names) -> list[list[list[float]]]:
    """Returns for each pair the weights of each target token over the source tokens; nothing where a side is empty.

    The target is forced as a prefix. A shorter one of a batch is continued, which is left out.
    """
    lengths = [len(target) if source else 0 for source, target in zip(sources, targets, strict=True)]
    batches = list(length_batches(lengths, SCORE_BATCH))
    begun: list[Any] = []
    for batch in batches:
        begun += model.translate_batch(
            [sources[index] for index in batch],
            [targets[index] for index in batch],
            beam_size=1,
            max_input_length=0,
            max_decoding_length=max(lengths[index] for index in batch),
            return_attention=True,
            asynchronous=True,
        )
    results: list[list[list[float]]] = [[] for _ in sources]
    for index, found in zip(chain(*batches), begun, strict=True):
        results[index] = found.result().attention[0][: lengths[index]]
    return results


def next_scores(model: ctranslate2.Translator, source: list[str], prefix: list[str]) -> "np.ndarray":
    """Returns the log-probability of each token after each beginning of `prefix`, (T + 1, V)."""
    import numpy as np

    [found] = model.translate_batch(
        [source],
        [prefix] if prefix else None,
        beam_size=1,
        max_input_length=0,
        max_decoding_length=len(prefix) + 1,
        min_decoding_length=0,  # else the end would be impossible
        return_logits_vocab=True,
    )
    [steps] = found.logits
    logits_TV = np.array([step.to(ctranslate2.DataType.float32) for step in steps])
    logits_TV -= logits_TV.max(axis=-1, keepdims=True)
    scores_TV: np.ndarray = logits_TV - np.log(np.exp(logits_TV).sum(axis=-1, keepdims=True))
    return scores_TV
