"""A translation request as the core of the service sees it, and the errors with which it can end."""

import enum
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from transduce.errors import TransduceError
from transduce.translation.call_options import SearchOptions
from transduce.translation.constraints.glossary import GlossaryLike
from transduce.translation.pipeline import TextOptions
from transduce.translation.result import Translation

_OF_PARTS = ("split", "guard", "capitals", "markup")  # options that work on parts of texts


class Priority(enum.IntEnum):
    """The order of waiting requests: lower values go first."""

    INTERACTIVE = 0  # someone waits for the answer
    BULK = 1  # documents and other long work


@dataclass(slots=True)
class Waiting:
    """How long a request waited in queues; the core fills it in."""

    seconds: float = 0.0  # of the sentence that waited longest


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationRequest:
    """Texts to translate from one language into another, and how."""

    texts: Sequence[str]
    source: str  # a language code; the language of the text is detected before this is made
    target: str
    n_best: int = 1
    options: SearchOptions = field(default_factory=SearchOptions)
    text_options: TextOptions | None = None  # None: those of the service's configuration
    prefixes: Sequence[str] | None = None  # these three as in `Translator.translate`
    forbidden: Sequence[str] | Sequence[Sequence[str]] | None = None
    required: Sequence[Sequence[str | Sequence[str]]] | None = None
    glossary: GlossaryLike = None
    priority: Priority = Priority.INTERACTIVE
    timeout_seconds: float | None = None  # None: the deadline of the service's configuration
    waiting: Waiting = field(default_factory=Waiting)  # several requests may share one

    @property
    def pair(self) -> tuple[str, str]:
        """The codes of source and target."""
        return self.source, self.target

    @property
    def binds_whole_texts(self) -> bool:
        """Whether it has prefixes or required terms: they hold for a text as a whole, which is then one search."""
        return any(self.prefixes or ()) or any(self.required or ())

    def text_options_for(self, domains: Collection[str], configured: TextOptions) -> TextOptions:
        """Returns its text options for a model that was trained on these domains.

        What is configured for all texts does not hold for texts bound as a whole, nor its domain for a model without
        any.
        """
        options = configured if self.text_options is None else self.text_options
        changes: dict[str, Any] = {}
        if self.binds_whole_texts:
            plain = TextOptions(markup="placeholders" if options.markup == "placeholders" else "none")
            same = [name for name in _OF_PARTS if getattr(options, name) == getattr(configured, name)]
            changes = {name: getattr(plain, name) for name in same}
        if not domains and options.domain == configured.domain:
            changes["domain"] = ""
        return replace(options, **changes)


@dataclass(frozen=True, slots=True)
class TranslatedText:
    """The translations of one text."""

    best: list[Translation]  # best first
    source: str
    target: str
    via: str = ""  # code of the pivot language; "": none
    zero_shot: bool = False  # whether the model was not trained on this pair of languages


def unchanged_text(text: str) -> Translation:
    """Returns a text as its own translation."""
    return Translation(text, 0.0, 0.0, (), finished=True, source_truncated=False)


class ServiceError(TransduceError):
    """A request cannot be answered."""


class UnknownPairError(ServiceError):
    """No model translates between these languages."""

    def __init__(self, source: str, target: str) -> None:
        """Takes the codes of the two languages."""
        super().__init__(f"No model translates from '{source}' to '{target}' here.")


class TooLongError(ServiceError):
    """The request would take longer than its time limit, even on an idle service."""

    def __init__(self, expected_seconds: float, seconds: float) -> None:
        """Takes how long it would take, and how long it may."""
        super().__init__(
            f"The request would take about {expected_seconds:.0f} s here, and is cancelled after {seconds:.0f} s. "
            "Send fewer texts at once."
        )


class UnavailableError(ServiceError):
    """The service cannot answer now; the same request may succeed later."""

    def __init__(self, message: str, retry_after_seconds: int = 1) -> None:
        """Takes the message, and when to try again."""
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class OverloadedError(UnavailableError):
    """Too much work waits already."""


class DeadlineError(UnavailableError):
    """The request could not be answered in time."""

    def __init__(self, retry_after_seconds: int = 1) -> None:
        """Takes when to try again."""
        super().__init__("The request could not be answered in time.", retry_after_seconds)


class StoppingError(UnavailableError):
    """The service is about to end and takes no new work."""


class ModelUnavailableError(UnavailableError):
    """The model could not be loaded, or its engine failed; the log has the details."""
