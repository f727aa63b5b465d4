"""Translation over a third language: what the first model writes is the second one's input."""

from collections.abc import Sequence
from dataclasses import replace

from transduce.errors import ConfigError
from transduce.serve.model_slot import ModelSlot
from transduce.serve.requests import TranslatedText, TranslationRequest
from transduce.serve.sentence_queue import Ticket
from transduce.translation.pipeline import TextOptions
from transduce.translation.result import Translation


def translate_over(
    route: Sequence[ModelSlot], request: TranslationRequest, ticket: Ticket, options: TextOptions
) -> list[TranslatedText]:
    """Returns the translations of each text of a request by two models; constraints hold for the second.

    Raises:
        ConfigError: there is a glossary: its terms are not those of the language between.
    """
    first, second = route
    pivot = first.target
    if request.glossary is not None:
        raise ConfigError(
            f"A glossary cannot be used here: from '{request.source}' to '{request.target}' the text goes over "
            f"'{pivot}', and a glossary has no terms of that language."
        )
    plain = replace(request, n_best=1, options={}, prefixes=None, forbidden=None, required=None)
    with first.in_use() as model:
        between = [best for best, *_ in model.translate(plain, ticket, options)]
    with second.in_use() as model:
        rest = replace(request, texts=[each.text for each in between])
        found = model.translate(rest, ticket, replace(options, language=""))
    return [
        TranslatedText([_over(pivot, before, each) for each in best], request.source, request.target, pivot)
        for before, best in zip(between, found, strict=True)
    ]


def _over(pivot: str, before: Translation, found: Translation) -> Translation:
    """Returns the second translation with what is to be said about both."""
    warnings = (*(f"into '{pivot}': {warning}" for warning in before.warnings), *found.warnings)
    sure = None if before.confidence is None or found.confidence is None else before.confidence * found.confidence
    return replace(
        found,
        sentences=(),  # those of the text between, which nobody sees
        alignment=(),
        finished=before.finished and found.finished,
        source_truncated=before.source_truncated or found.source_truncated,
        warnings=(*warnings, f"translated over '{pivot}', which can lose meaning"),
        confidence=sure,
        calibrated=False,
    )
