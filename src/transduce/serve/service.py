"""The core of the service: what every protocol calls."""

import asyncio
import contextlib
import logging
import math
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeVar

from transduce.errors import ConfigError
from transduce.serve.calls import CancelledRequestError, Ticket
from transduce.serve.config import ServeConfig
from transduce.serve.cut_text import CutText, StreamedPart
from transduce.serve.event_loop_calls import EventLoopCalls
from transduce.serve.long_requests import LongRequests
from transduce.serve.model_slot import ModelSlot, num_tokens, schedulers_of
from transduce.serve.models import Models, ServedPair
from transduce.serve.operations.metrics import Metrics
from transduce.serve.pivot import over_pivot, request_from_pivot, request_into_pivot
from transduce.serve.request_threads import RequestThreads
from transduce.serve.requests import (
    DeadlineError,
    OverloadedError,
    Priority,
    StoppingError,
    TranslatedText,
    TranslationRequest,
)
from transduce.serve.served_model import ServedModel
from transduce.serve.whole_texts import estimated_tokens
from transduce.translation.pipeline import TextOptions
from transduce.translation.result import Alternative, Attention, Translation

# The part of what is accepted that requests of a priority may take: bulk never shuts out those who wait for an answer.
_SHARE = {Priority.INTERACTIVE: 1.0, Priority.BULK: 0.5}
_WATCH_SECONDS = 1.0  # between two checks of the model folders
_STOP_POLL_SECONDS = 0.01
_CLOSE_SECONDS = 30.0  # at the end, for threads to end, when nobody waits for them any more
# Sentences of a stream that are translated in one request: few at first, so that the first ones come soon.
_STREAM_GROUPS = (1, 2, 4, 8)
_STREAM_AHEAD = 2  # requests of a stream that are worked on at a time
_log = logging.getLogger(__name__)
T = TypeVar("T")


class Service:
    """Translates for many callers at once, with several models."""

    def __init__(self, config: ServeConfig, metrics: Metrics | None = None) -> None:
        """Opens the model folders; `start` loads them.

        Raises:
            BundleError: one is no model folder.
            ConfigError: the models do not go together.
        """
        self.config = config
        self._models = Models(config, metrics or Metrics())
        self._threads = RequestThreads(config.batching.max_requests)
        self._maintenance = ThreadPoolExecutor(1, "maintenance")
        self._watching: asyncio.Task[None] | None = None
        self._ready = False
        self.stopping = False  # whether the service takes no more requests
        self._end = math.inf  # when those that it has accepted have to end, too
        self._num_accepted = dict.fromkeys(Priority, 0)
        self._tickets: set[Ticket] = set()  # of what is worked on
        self._long = LongRequests()
        self._calls: EventLoopCalls

    @property
    def ready(self) -> bool:
        """Whether the models are loaded, but for those loaded on demand, and the service takes requests."""
        return self._ready and not self.stopping

    async def start(self) -> None:
        """Loads all models but those on demand; each translates once.

        Raises:
            TransduceError: one cannot be loaded.
        """
        loop = asyncio.get_running_loop()
        self._calls = EventLoopCalls(loop)
        for slot in self._models.slots:
            if not slot.on_demand:
                await loop.run_in_executor(self._maintenance, slot.load)
        self._watching = loop.create_task(self._watch())
        self._ready = True

    def refuse(self) -> None:
        """Takes no new requests from now on; those that were accepted go on."""
        self.stopping = True

    async def stop(self) -> None:
        """Takes no new requests, waits until all accepted ones are answered, and closes the models.

        After `server.shutdown_seconds`, if that is set, requests that are still open end with StoppingError. A native
        call that hangs is abandoned.
        """
        self.refuse()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        limit = self.config.server.shutdown_seconds
        self._end = time.monotonic() + limit if limit else math.inf
        while any(self._num_accepted.values()) and time.monotonic() < self._end:
            await asyncio.sleep(_STOP_POLL_SECONDS)
        for ticket in list(self._tickets):
            ticket.cancel()
        closing = threading.Thread(target=self._close, name="closing", daemon=True)
        closing.start()
        end = time.monotonic() + min(_CLOSE_SECONDS, max(1.0, self._end - time.monotonic()))
        while closing.is_alive() and time.monotonic() < end:
            await asyncio.sleep(_STOP_POLL_SECONDS)
        if closing.is_alive():
            _log.error("an engine does not end its work: it is not waited for")

    def _close(self) -> None:
        self._threads.close()
        self._maintenance.shutdown()
        self._models.close()

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            try:
                await loop.run_in_executor(self._maintenance, self._models.maintain)
            except asyncio.CancelledError:
                raise
            except BaseException:  # the next time may succeed, and requests do not depend on it
                _log.exception("the models could not be looked after")

    async def reload(self) -> list[str]:
        """Loads all models anew and exchanges them; returns what happened, for the log."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._maintenance, lambda: self._models.reload(always=True))

    @property
    def language_pairs(self) -> Sequence[tuple[str, str]]:
        """The codes of `pairs`, at no cost; a reload may change them."""
        return self._models.language_pairs

    def pairs(self) -> list[ServedPair]:
        """Returns the languages between which the service translates, directly or over a pivot, sorted."""
        return self._models.pairs()

    def hung_models(self) -> list[str]:
        """Returns the names of models that have been computing a batch for longer than `batching.max_batch_seconds`."""
        limit = self.config.batching.max_batch_seconds
        return [slot.name for slot in self.slots if any(each.batch_seconds() > limit for each in slot.schedulers)]

    @property
    def slots(self) -> list[ModelSlot]:
        """The slots of all models."""
        return self._models.slots

    async def translate(self, request: TranslationRequest) -> list[TranslatedText]:
        """Returns the translations of each text. If the caller is cancelled, the request leaves the queue.

        Raises:
            UnknownPairError: no model translates between these languages.
            TooLongError: the texts cannot be translated before the deadline, even alone.
            UnavailableError: not now: too much work waits, the deadline came, the service stops, or a model failed.
            ConfigError: an option of the request is wrong.
            DataError: a constraint of the request is wrong.
        """
        route = self._models.route(request.source, request.target)
        with self._accepted(request, route), self._ticket(request) as ticket:
            async with self._long.admitted(ticket, num_tokens(request.texts, route), schedulers_of(route)):
                return await self._run(request, route, ticket)

    async def stream(self, request: TranslationRequest) -> AsyncGenerator[StreamedPart, None]:
        """Yields the translation of one long text sentence by sentence, in order; see `translate`.

        Without a pivot, the texts together are what `translate` returns, a few sentences ahead of what is read. Text
        with HTML, and text without `split="always"`, is one part. Each group of sentences has a deadline of its own.
        """
        route = self._models.route(request.source, request.target)
        with self._accepted(request, route):
            options = self.config.text if request.text_options is None else request.text_options
            with self._ticket(request) as ticket:
                cut = await self._threads.run(partial(CutText, request, options, request.source), ticket)
            groups = cut.groups(_STREAM_GROUPS)
            running: deque[asyncio.Task[list[TranslatedText]]] = deque()
            try:
                while True:
                    while len(running) < _STREAM_AHEAD and (group := next(groups, None)) is not None:
                        running.append(asyncio.create_task(self._run_group(group, route)))
                    if not running:
                        return
                    for translated in await running.popleft():
                        yield cut.join(translated)
            finally:
                for task in running:
                    task.cancel()
                await asyncio.gather(*running, return_exceptions=True)

    async def alternatives(self, request: TranslationRequest, n: int) -> list[Alternative]:
        """Returns at most `n` words that may follow the prefix of the only text; see `Translator.alternatives`.

        Raises:
            ConfigError: `n` is out of range, or two models translate one after the other.
            DataError: the prefix is too long.
            ServiceError: see `translate`.
        """
        return await self._of_one_model(
            request,
            "alternatives at a word",
            lambda model, ticket, given, signs: model.alternatives(given, ticket, n, signs),
        )

    async def attention(self, request: TranslationRequest, translation: str | None) -> Attention:
        """Returns what every head attends to in the only text and a translation; None for the model's own.

        Raises:
            ConfigError: the engine does not return attention, or two models translate one after the other.
            DataError: a side is empty, or too long.
            ServiceError: see `translate`.
        """
        return await self._of_one_model(
            request,
            "attention",
            lambda model, ticket, given, signs: model.attention(given, ticket, translation, signs),
        )

    async def _of_one_model(
        self,
        request: TranslationRequest,
        what: str,
        compute: Callable[[ServedModel, Ticket, TranslationRequest, bool], T],
    ) -> T:
        """Returns what is computed for a request, with its option `signs`, by the model between its languages.

        Raises:
            ConfigError: two models translate one after the other.
        """
        route = self._models.route(request.source, request.target)
        if len(route) > 1:
            raise ConfigError(f"This pair has no {what}: two models translate one after the other.")
        with self._accepted(request, route), self._ticket(request) as ticket:
            async with self._model(route[0], ticket) as model:
                options = self._text_options(request, route[0])
                given = replace(request, text_options=options)
                return await self._threads.run(partial(compute, model, ticket, given, options.signs), ticket)

    def expected_seconds(self, source: str, target: str, texts: Sequence[str]) -> float:
        """Returns about how long texts would take if nothing else waited, by the measured speed.

        Raises:
            UnknownPairError: no model translates between these languages.
        """
        route = self._models.route(source, target)
        tokens = num_tokens(texts, route)
        return sum(scheduler.seconds_of(tokens) for scheduler in schedulers_of(route))

    @contextlib.contextmanager
    def _accepted(self, request: TranslationRequest, route: Sequence[ModelSlot]) -> Iterator[None]:
        """Counts the request as accepted for the time of the context.

        Raises:
            StoppingError: the service takes no more requests.
            OverloadedError: too much work waits.
        """
        priority, batching = request.priority, self.config.batching
        if not self.ready:
            raise StoppingError("The service is stopping." if self.stopping else "The service is starting.")
        share, longest_wait = _SHARE[priority], min(batching.max_wait_seconds, self._timeout(request))
        schedulers = schedulers_of(route)
        num_waiting = sum(scheduler.num_waiting for scheduler in schedulers)
        is_full = (
            sum(self._num_accepted.values()) >= batching.max_requests
            or self._num_accepted[priority] >= share * batching.max_requests
            or (num_waiting and num_waiting + len(request.texts) > share * batching.max_waiting_sentences)
        )
        if is_full or sum(scheduler.backlog_seconds for scheduler in schedulers) > longest_wait:
            wait = sum(scheduler.expected_wait_seconds(priority) for scheduler in schedulers)
            if is_full or wait > longest_wait:
                raise OverloadedError("Too much work waits already. Try again later.", max(1, math.ceil(wait)))
        self._num_accepted[priority] += 1
        try:
            yield
        finally:
            self._num_accepted[priority] -= 1

    async def _run_group(self, request: TranslationRequest, route: Sequence[ModelSlot]) -> list[TranslatedText]:
        with self._ticket(request) as ticket:
            return await self._run(request, route, ticket)

    async def _run(
        self, request: TranslationRequest, route: Sequence[ModelSlot], ticket: Ticket
    ) -> list[TranslatedText]:
        """Translates by one model, or by two; what is queued leaves the queue if the caller is cancelled."""
        if len(route) == 1:
            return await self._translated(route[0], request, ticket)
        first, second = route
        between = await self._translated(first, request_into_pivot(request, self._models.pivot), ticket)
        found = await self._translated(second, request_from_pivot(request, between), ticket)
        return over_pivot(between, found)

    async def _translated(self, slot: ModelSlot, request: TranslationRequest, ticket: Ticket) -> list[TranslatedText]:
        async with self._model(slot, ticket) as model:
            options = self._text_options(request, slot)
            found: list[list[Translation]]
            if (work := model.whole_texts(request, options)) is None:
                found = await self._threads.run(partial(model.translate, request, ticket, options), ticket)
            else:
                tokens = estimated_tokens(request.texts)
                found = await self._calls.run(model.scheduler, ticket, work, request.texts, tokens)
        return [TranslatedText(best, *request.pair, zero_shot=slot.pairs[request.pair]) for best in found]

    @contextlib.asynccontextmanager
    async def _model(self, slot: ModelSlot, ticket: Ticket) -> AsyncIterator[ServedModel]:
        """Lends a model for the time of the context; loads it if it is not loaded."""
        while (model := slot.acquire_loaded()) is None:
            await self._threads.run_shared(slot, partial(self._models.ensure_loaded, slot), ticket)
        try:
            yield model
        except DeadlineError:
            wait = model.scheduler.expected_wait_seconds(ticket.priority)
            raise DeadlineError(max(1, math.ceil(wait))) from None
        finally:
            slot.release(model)

    @contextlib.contextmanager
    def _ticket(self, request: TranslationRequest) -> Iterator[Ticket]:
        """Returns a ticket for the time of the context, in which `stop` may cancel it; then raises StoppingError."""
        if time.monotonic() >= self._end:  # as for the next sentences of a stream
            raise StoppingError("The service is stopping.")
        ticket = Ticket(request.priority, time.monotonic() + self._timeout(request))
        self._tickets.add(ticket)
        try:
            yield ticket
        except CancelledRequestError:  # not by its caller, who does not wait any more
            raise StoppingError("The service is stopping.") from None
        finally:
            self._tickets.discard(ticket)
            request.waiting.seconds = max(request.waiting.seconds, ticket.waited_seconds)

    def _timeout(self, request: TranslationRequest) -> float:
        given = request.timeout_seconds
        return self.config.batching.deadline_seconds if given is None else given

    def _text_options(self, request: TranslationRequest, slot: ModelSlot) -> TextOptions:
        return request.text_options_for(slot.domains, self.config.text)
