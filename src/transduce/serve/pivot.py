"""Translation over a third language: the output of the first model is the input of the second."""

from collections.abc import Sequence
from dataclasses import replace

from transduce.errors import ConfigError
from transduce.serve.requests import TranslatedText, TranslationRequest
from transduce.translation.result import Translation


def request_into_pivot(request: TranslationRequest, pivot: str) -> TranslationRequest:
    """Returns the request to the first model, without constraints and options, which are for the second.

    Raises:
        ConfigError: there is a glossary, which has no terms of the pivot language.
    """
    if request.glossary is not None:
        raise ConfigError(
            f"A glossary cannot be used from '{request.source}' to '{request.target}': the text goes over '{pivot}', "
            "and a glossary has no terms of that language."
        )
    return replace(request, target=pivot, n_best=1, options={}, prefixes=None, forbidden=None, required=None)


def request_from_pivot(request: TranslationRequest, between: Sequence[TranslatedText]) -> TranslationRequest:
    """Returns the request to the second model, with the output of the first as its texts."""
    options = request.text_options and replace(request.text_options, language="")
    texts = [each.best[0].text for each in between]
    return replace(request, source=between[0].target, texts=texts, text_options=options) if between else request


def over_pivot(between: Sequence[TranslatedText], found: Sequence[TranslatedText]) -> list[TranslatedText]:
    """Returns the second translations, with the warnings and the confidence of both."""
    return [
        TranslatedText([_joined(first, each) for each in second.best], first.source, second.target, first.target)
        for first, second in zip(between, found, strict=True)
    ]


def _joined(first: TranslatedText, found: Translation) -> Translation:
    before, pivot = first.best[0], first.target
    warnings = (*(f"into '{pivot}': {warning}" for warning in before.warnings), *found.warnings)
    sure = None if before.confidence is None or found.confidence is None else before.confidence * found.confidence
    return replace(
        found,
        sentences=(),  # they would be of the text between, which the user does not see
        alignment=(),
        finished=before.finished and found.finished,
        source_truncated=before.source_truncated or found.source_truncated,
        warnings=(*warnings, f"translated over '{pivot}', which can lose meaning"),
        confidence=sure,
        calibrated=False,
    )
