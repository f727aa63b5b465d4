"""A loaded model that answers requests: a translator, and the schedulers of its engines."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

from transduce.bundle import Bundle
from transduce.engines.automatic import AutomaticEngine
from transduce.engines.interface import AttendingEngine, Engine
from transduce.errors import ConfigError, DataError
from transduce.serve.calls import Ticket
from transduce.serve.config import BatchingConfig, ModelEntry
from transduce.serve.marked_text import require_few_marks
from transduce.serve.operations.metrics import Metrics
from transduce.serve.queued_engine import QueuedEngine, Work
from transduce.serve.requests import TranslationRequest
from transduce.serve.scheduler import Scheduler
from transduce.serve.whole_texts import WholeTexts, are_short, translate_window
from transduce.text import Tokenizer
from transduce.translation.attention import attend
from transduce.translation.constraints.glossary import glossary_of
from transduce.translation.constraints.line_constraints import constraints_of
from transduce.translation.directions import directed
from transduce.translation.pipeline import Request, TextOptions
from transduce.translation.pipeline.checkpoints import checked
from transduce.translation.pipeline.signs import with_known_signs
from transduce.translation.result import Alternative, Attention, Translation
from transduce.translation.text_model import TextModel
from transduce.translation.translator import Translator
from transduce.translation.windows import Window

_WARM_UP = ["1"]  # a text that every tokenizer can write
_MAX_ATTENTION_TOKENS = 256  # of each side: the weights grow with its square
_KEPT_OPTIONS = 256  # sets of options whose check is not repeated


@dataclass(slots=True)
class _TextModel:
    """What the pipeline needs of a model."""

    engine: Engine
    tokenizer: Tokenizer
    bundle: Bundle | None


class ServedModel:
    """A loaded model."""

    def __init__(
        self, name: str, translator: Translator, batching: BatchingConfig, metrics: Metrics, language: str = ""
    ) -> None:
        """Starts the workers of the translator's engine.

        Args:
            name: for the log and the metrics.
            translator: the model.
            batching: how much goes into a batch.
            metrics: count what happens.
            language: code of the source, for the sentence splitter; "": that of the model folder.
        """
        self.name, self.translator = name, translator
        self._batching, self._metrics, self._language = batching, metrics, language
        self._has_targets = bool(translator.tokenizer.target_languages)
        self._engine = translator.engine.undivided()
        main_engine = self._engine.fast if isinstance(self._engine, AutomaticEngine) else self._engine
        self._main = _TextModel(main_engine, translator.tokenizer, translator.bundle)
        self._lock = threading.Lock()
        self.num_uses = 0  # by those to whom its slot has lent it
        self.scheduler = self._scheduler_of(self._main)
        self._reference_scheduler: Scheduler | None = None
        self._request_of = lru_cache(_KEPT_OPTIONS)(self._new_request)

    @classmethod
    def load(cls, entry: ModelEntry, batching: BatchingConfig, metrics: Metrics) -> Self:
        """Loads a model folder, and translates with it once.

        Raises:
            TransduceError: the folder is damaged, or cannot be run as the configuration says.
        """
        translator = Translator.load(
            entry.path,
            engine=entry.engine,
            quantization=entry.quantization or None,
            threads=entry.threads or None,
            shortlist=entry.shortlist,
            draft=entry.draft,
        )
        warm_up = TextOptions()
        if translator.tokenizer.target_languages:
            direction = translator.directions.example(entry.source, entry.target)
            source = direction.source if direction.target_tags else ""
            warm_up = TextOptions(language=source, target=direction.target)
        translator.translate(_WARM_UP, text_options=warm_up)
        return cls(entry.name, translator, batching, metrics, entry.source)

    def whole_texts(self, request: TranslationRequest, text_options: TextOptions) -> WholeTexts | None:
        """Returns the work that translates the texts of a request as they are, or None if it needs `translate`.

        Raises:
            ConfigError: the request's options are wrong.
        """
        if not are_short(request):
            return None
        found, engine = self._pipeline_request(request, text_options), self._engine
        if isinstance(engine, AutomaticEngine) and engine.needs_reference(found.options):
            return None
        return WholeTexts(found)

    def _pipeline_request(self, request: TranslationRequest, text_options: TextOptions) -> Request:
        """Returns how texts are to be translated; for a model of several target languages, between which."""
        if self._has_targets:
            text_options = replace(text_options, language=request.source, target=request.target)
        return self._request_of(tuple(sorted(request.options.items())), request.n_best, text_options)

    def _directed(self, request: TranslationRequest, ticket: Ticket) -> TextModel:
        """Returns the model as it translates in the direction of a request, with an engine that queues its calls."""
        queued, domain = self._queued(ticket), request.text_options.domain if request.text_options else ""
        if self._has_targets:
            return directed(queued, request.source, request.target, domain)
        return directed(queued, domain=domain) if domain else queued

    def translate(
        self, request: TranslationRequest, ticket: Ticket, text_options: TextOptions
    ) -> list[list[Translation]]:
        """Returns the translations of each text of a request; waits for them.

        Raises:
            ServiceError: see `Scheduler.run`.
            ConfigError: the request's options are wrong.
            DataError: its constraints are, or a text is too long for its markup.
        """
        for text in checked(request.texts, ticket.check):
            require_few_marks(text, text_options.markup)
        constraints = constraints_of(request.texts, request.prefixes, request.forbidden, request.required)
        plain = self._pipeline_request(request, text_options)
        pipeline_request = replace(plain, glossary=glossary_of(request.glossary))
        window = Window(1, request.texts, constraints)
        return translate_window(self._queued(ticket), window, pipeline_request, ticket.check)

    def alternatives(self, request: TranslationRequest, ticket: Ticket, n: int, signs: bool) -> list[Alternative]:
        """Returns at most `n` words that may follow the prefix of a request's only text; see `translate`.

        With `signs`, the text is read as that option of `TextOptions` says, and spans are those of what is read.
        """
        from transduce.translation.alternatives import alternatives  # imported here, as NumPy is slow to import

        [text], [prefix] = request.texts, request.prefixes or [""]
        text = with_known_signs(text, self._main.tokenizer) if signs else text
        return alternatives(self._directed(request, ticket), self.translator.options, text, prefix, n)

    @property
    def returns_attention(self) -> bool:
        """Whether the engine returns attention weights."""
        return isinstance(self._main.engine, AttendingEngine)

    def attention(self, request: TranslationRequest, ticket: Ticket, translation: str | None, signs: bool) -> Attention:
        """Returns the attention of a request's only text and a translation; see `Service.attention`.

        With `signs`, the text is read as that option of `TextOptions` says, as where it is translated.
        """
        if not self.returns_attention:
            raise ConfigError(
                f"The engine that serves this model ({self._main.engine.name}) does not return attention weights. "
                'For that, serve it with engine = "torch".'
            )
        [text] = request.texts
        text = with_known_signs(text, self._main.tokenizer) if signs else text
        for side in (text, translation or ""):
            num_tokens = len(self._main.tokenizer.encode(side))
            if num_tokens > _MAX_ATTENTION_TOKENS:
                limit = f"at most {_MAX_ATTENTION_TOKENS} are allowed"
                raise DataError(f"{num_tokens} tokens, and {limit}: attention is of single sentences.")
        return attend(self._directed(request, ticket), self.translator.options, text, translation)

    def _new_request(self, options: tuple[tuple[str, Any], ...], n_best: int, text_options: TextOptions) -> Request:
        """Returns how lines are to be translated; the size of batches is the model's own.

        The beam is as wide as `n_best` where the request does not say how wide it is.
        """
        model, given = self.translator, dict(options)
        search = replace(model.with_options(**given), batch_size=model.options.batch_size)
        if n_best > search.beam_size and "beam_size" not in given:
            search = replace(search, beam_size=n_best)
        source = text_options.language if self._has_targets else ""
        self.translator.directions.choose(source, text_options.target, text_options.domain)  # refuses what is not known
        language = text_options.language or self._language
        return Request(search, n_best, replace(text_options, language=language))

    def _queued(self, ticket: Ticket) -> _TextModel:
        """Returns the model with an engine that queues the calls of a request."""
        engine: Engine = QueuedEngine(self._main.engine, self.scheduler, ticket)
        if isinstance(whole := self._engine, AutomaticEngine):
            engine = AutomaticEngine(engine, lambda: self._queued_reference(whole, ticket), whole.config)
        return _TextModel(engine, self._main.tokenizer, self._main.bundle)

    def _queued_reference(self, engine: AutomaticEngine, ticket: Ticket) -> QueuedEngine:
        reference = engine.reference
        with self._lock:
            if self._reference_scheduler is None:
                self._reference_scheduler = self._scheduler_of(replace(self._main, engine=reference))
        return QueuedEngine(reference, self._reference_scheduler, ticket)

    def _scheduler_of(self, model: _TextModel) -> Scheduler:
        def compute(work: Work, inputs: list[Any]) -> Sequence[Any]:
            return work(model, inputs)

        max_tokens = self._batching.max_batch_tokens or model.engine.batch_tokens
        return Scheduler(self.name, compute, model.engine.num_workers, max_tokens, self._metrics)

    @property
    def schedulers(self) -> list[Scheduler]:
        """The schedulers that were started."""
        return [each for each in (self.scheduler, self._reference_scheduler) if each is not None]

    @property
    def is_computing(self) -> bool:
        """Whether a batch is being computed, perhaps one for which nobody waits any more."""
        return any(scheduler.num_computing for scheduler in self.schedulers)

    def close(self) -> None:
        """Ends the workers."""
        for scheduler in self.schedulers:
            scheduler.close()
