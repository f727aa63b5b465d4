"""A loaded model that answers requests: a translator, and the schedulers of its engines."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Self

from transduce.bundle import Bundle
from transduce.config import DecodeConfig
from transduce.engines.automatic import AutomaticEngine
from transduce.engines.interface import Engine
from transduce.serve.config import BatchingConfig, ModelEntry
from transduce.serve.queued_engine import QueuedEngine, Work
from transduce.serve.requests import Recorder, TranslationRequest
from transduce.serve.scheduler import Scheduler
from transduce.serve.sentence_queue import Ticket
from transduce.text import SubwordTokenizer
from transduce.translation.constraints.glossary import glossary_of
from transduce.translation.constraints.line_constraints import constraints_of
from transduce.translation.pipeline import Request, TextOptions, run_pipeline
from transduce.translation.pipeline.many_sentences import MANY_SENTENCES, lines_of_many_sentences
from transduce.translation.result import Alternative, Translation
from transduce.translation.translator import Translator
from transduce.translation.windows import Window

_WARM_UP = ["1"]  # a text that every tokenizer can write
_KEPT_OPTIONS = 256  # sets of options whose check is not repeated


@dataclass(slots=True)
class _TextModel:
    """What the pipeline needs of a model, for one request."""

    engine: Engine
    tokenizer: SubwordTokenizer
    bundle: Bundle | None


class ServedModel:
    """A loaded model. It stays until everybody who uses it has released it."""

    def __init__(
        self, name: str, translator: Translator, batching: BatchingConfig, recorder: Recorder, language: str = ""
    ) -> None:
        """Starts the scheduler of the translator's engine.

        Args:
            name: for the log and the recorder.
            translator: the model.
            batching: how much goes into a batch.
            recorder: is told what happens.
            language: code of the source, for the sentence splitter; "": that of the model folder.
        """
        self.name, self.translator = name, translator
        self._batching, self._recorder, self._language = batching, recorder, language
        self._engine = translator.engine.undivided()
        self._main_engine = self._engine.fast if isinstance(self._engine, AutomaticEngine) else self._engine
        self._lock = threading.Lock()
        self._num_uses = 0
        self._retired = False
        self.closed = False  # whether its threads have ended
        self.scheduler = self._scheduler_of(self._main_engine)
        self._reference_scheduler: Scheduler | None = None
        self._options_of = lru_cache(_KEPT_OPTIONS)(partial(_options_of, translator))

    @classmethod
    def load(cls, entry: ModelEntry, batching: BatchingConfig, recorder: Recorder) -> Self:
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
        )
        translator.translate(_WARM_UP)
        return cls(entry.name, translator, batching, recorder, entry.source)

    def translate(
        self, request: TranslationRequest, ticket: Ticket, text_options: TextOptions
    ) -> list[list[Translation]]:
        """Returns the translations of each text of a request; waits for them.

        The beam is as wide as `n_best` where the request does not say how wide it is.

        Raises:
            ServiceError: see `Scheduler.run`.
            ConfigError: the request's options are wrong.
            DataError: its constraints are.
        """
        constraints = constraints_of(len(request.texts), request.prefixes, request.forbidden, request.required)
        options = self._options_of(tuple(sorted(request.options.items())))
        if request.n_best > options.beam_size and "beam_size" not in request.options:
            options = replace(options, beam_size=request.n_best)
        if not text_options.language and self._language:
            text_options = replace(text_options, language=self._language)
        pipeline_request = Request(options, request.n_best, text_options, glossary_of(request.glossary))
        model = _TextModel(self._queued(ticket), self.translator.tokenizer, self.translator.bundle)
        found = run_pipeline(model, Window(1, request.texts, constraints), pipeline_request)
        for index in lines_of_many_sentences(model, request.texts, found, text_options):
            found[index] = [replace(each, warnings=(*each.warnings, MANY_SENTENCES)) for each in found[index]]
        return found

    def alternatives(self, request: TranslationRequest, ticket: Ticket, n: int) -> list[Alternative]:
        """Returns at most `n` words that may follow the prefix of a request's only text; see `translate`."""
        from transduce.translation.alternatives import alternatives  # imported here, as NumPy is slow to import

        [text], [prefix] = request.texts, request.prefixes or [""]
        model = _TextModel(self._queued(ticket), self.translator.tokenizer, self.translator.bundle)
        return alternatives(model, self._options_of(()), text, prefix, n)

    def _queued(self, ticket: Ticket) -> Engine:
        main, engine = QueuedEngine(self._main_engine, self.scheduler, ticket), self._engine
        if not isinstance(engine, AutomaticEngine):
            return main
        return AutomaticEngine(main, lambda: self._queued_reference(engine, ticket), engine.config)

    def _queued_reference(self, engine: AutomaticEngine, ticket: Ticket) -> QueuedEngine:
        reference = engine.reference
        with self._lock:
            if self._reference_scheduler is None:
                self._reference_scheduler = self._scheduler_of(reference)
        return QueuedEngine(reference, self._reference_scheduler, ticket)

    def _scheduler_of(self, engine: Engine) -> Scheduler:
        def compute(work: Work, inputs: list[Any]) -> Sequence[Any]:
            return work.compute(engine, inputs)

        return Scheduler(self.name, compute, engine.num_workers, self._batching.max_batch_tokens, self._recorder)

    @property
    def schedulers(self) -> list[Scheduler]:
        """The schedulers that were started."""
        return [each for each in (self.scheduler, self._reference_scheduler) if each is not None]

    def acquire(self) -> bool:
        """Counts a use; returns False if the model was retired."""
        with self._lock:
            if self._retired:
                return False
            self._num_uses += 1
            return True

    def release(self) -> None:
        """Ends a use; the last one of a retired model closes it."""
        with self._lock:
            self._num_uses -= 1
            last = self._retired and self._num_uses == 0
        if last:
            self._close()

    def retire(self) -> None:
        """Takes no new uses; closes the model when the present ones have ended."""
        with self._lock:
            unused = not self._retired and self._num_uses == 0
            self._retired = True
        if unused:
            self._close()

    @property
    def num_uses(self) -> int:
        """Requests that use the model now."""
        return self._num_uses

    def _close(self) -> None:
        for scheduler in self.schedulers:
            scheduler.close()
        self.closed = True


def _options_of(model: Translator, options: tuple[tuple[str, Any], ...]) -> DecodeConfig:
    """Returns the model's options with a request's laid over them; the size of batches is the model's own."""
    return replace(model.with_options(**dict(options)), batch_size=model.options.batch_size)
