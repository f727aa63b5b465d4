"""What CTranslate2 computes for given targets, or given beginnings of them; sources and targets are names of tokens."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import ctranslate2

from transduce.engines.batching import SCORE_BATCH, length_batches

if TYPE_CHECKING:
    import numpy as np  # at run time it would slow down the start of a model

# Rows of logits when pairs are scored: 300 MB at the paper's vocabulary.
_MAX_LOGIT_ROWS = 2048

# Rows of logits that a batch keeps: 75 MB.
_MAX_KEPT_ROWS = 512

Names = Sequence[list[str]]


def scores(model: ctranslate2.Translator, sources: Names, targets: Names) -> list[list[float]]:
    """Returns for each pair the log-probability of each target token, and of EOS."""
    batches = length_batches([len(target) + 1 for target in targets], SCORE_BATCH, _MAX_LOGIT_ROWS)
    call = partial(model.score_batch, max_input_length=0, asynchronous=True)
    results: list[list[float]] = [[] for _ in sources]
    for index, found in _results(call, batches, sources, targets):
        results[index] = list(found.log_probs)
    return results


def attention(
    model: ctranslate2.Translator, sources: Names, targets: Names, *, after: bool = False
) -> list[list[list[float]]]:
    """Returns for each pair the weights of each target token over the source tokens; nothing where a side is empty.

    The target is forced as a prefix. A shorter one of a batch is continued, which is left out.

    Args:
        model: computes.
        sources: of each pair.
        targets: of each pair.
        after: whether the weights of a token are those of the step after it, which reads it. The step after the last
            one is to write any token, since CTranslate2 returns no weights of a step that writes EOS.
    """
    lengths = [len(target) if source else 0 for source, target in zip(sources, targets, strict=True)]
    call = partial(_continued, model, 0, return_attention=True)
    results: list[list[list[float]]] = [[] for _ in sources]
    given = [[*target, *target[-1:]] for target in targets] if after else targets
    for index, found in _results(call, length_batches(lengths, SCORE_BATCH), sources, given):
        results[index] = found.attention[0][after : lengths[index] + after]
    return results


def next_scores(
    model: ctranslate2.Translator, sources: Names, prefixes: Names, tokens: Sequence[Sequence[int] | slice], width: int
) -> "list[np.ndarray]":
    """Returns for each pair the log-probability of some tokens after each beginning of the prefix, (T + 1, N).

    Args:
        model: computes.
        sources: of each pair.
        prefixes: of each pair; forced.
        tokens: which ones, of each pair.
        width: tokens of the vocabulary. CTranslate2 may fill it up, for products of even size.
    """
    import numpy as np

    lengths = [len(prefix) + 1 for prefix in prefixes]
    batches = list(length_batches(lengths, SCORE_BATCH, _MAX_KEPT_ROWS))
    # Without a least length, the end may be next.
    call = partial(_continued, model, 1, min_decoding_length=0, return_logits_vocab=True)
    results = [np.empty(0)] * len(sources)
    for start in range(0, len(batches), model.num_translators):  # few at a time, because results have all logits
        together = batches[start : start + model.num_translators]
        for index, found in _results(call, together, sources, prefixes):
            [steps] = found.logits
            logits_TV = np.array([_in_memory(step) for step in steps[: lengths[index]]])[:, :width]
            logits_TV -= logits_TV.max(axis=-1, keepdims=True)
            sums_T1 = np.exp(logits_TV).sum(axis=-1, keepdims=True)
            results[index] = logits_TV[:, tokens[index]] - np.log(sums_T1)
    return results


def _continued(
    model: ctranslate2.Translator, num_further: int, sources: Names, prefixes: Names, **options: Any
) -> list[Any]:
    """Begins to force prefixes, and to continue the longest of them by `num_further` tokens."""
    limit = max(map(len, prefixes)) + num_further
    settings = {"beam_size": 1, "max_input_length": 0, "max_decoding_length": limit, "asynchronous": True}
    begun: list[Any] = model.translate_batch(sources, prefixes, **settings, **options)
    return begun


def _results(
    call: Callable[..., list[Any]], batches: Iterable[list[int]], sources: Names, targets: Names
) -> Iterator[tuple[int, Any]]:
    """Yields the index and the result of each pair; all batches have begun before the first result is awaited."""
    order = list(batches)
    begun = [call([sources[index] for index in batch], [targets[index] for index in batch]) for batch in order]
    for index, found in zip(chain(*order), chain(*begun), strict=True):
        yield index, found.result()


def _in_memory(stored: ctranslate2.StorageView) -> "np.ndarray":
    """Returns numbers, which may be on a GPU and in another type, as float32."""
    import numpy as np

    return np.array(stored.to(ctranslate2.DataType.float32).to_device(ctranslate2.Device.cpu))
