"""What is measured while serving, for Prometheus. No label has a text, a key or an address."""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from transduce.serve.requests import Priority

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


class Metrics:
    """The metrics of one service, in a registry of their own."""

    def __init__(self) -> None:
        """Declares all metrics."""
        self._of = lru_cache(None)(lambda metric, *labels: metric.labels(*labels))  # the library checks them each time
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)  # memory, processor time, open files
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        seconds, shares = (partial(Histogram, buckets=each, registry=registry) for each in (_SECONDS, _SHARES))
        self._requests = counter("transduce_requests", "Requests answered", ["protocol", "route", "status"])
        self._seconds = seconds(
            "transduce_request_seconds", "From the headers of a request to the end of its answer", ["protocol", "route"]
        )
        self._characters = counter("transduce_characters", "Characters translated", ["protocol"])
        self.in_progress = gauge("transduce_requests_in_progress", "Requests not answered yet")
        self._queue_seconds = seconds(
            "transduce_queue_seconds", "Time that sentences waited for a batch", ["model", "priority"]
        )
        self._fill = shares("transduce_batch_fill", "Share of its token budget that a batch used", ["model"])
        self._batches = counter("transduce_batches", "Batches computed", ["model"])
        self._sentences = counter("transduce_sentences", "Sentences computed", ["model"])
        self._tokens = counter("transduce_source_tokens", "Source tokens computed", ["model"])
        self._engine_seconds = counter("transduce_engine_seconds", "Time that batches took to compute", ["model"])
        self._model_events = counter(
            "transduce_model_events", "Models loaded, reloaded, unloaded, failed", ["model", "event"]
        )
        self._documents = counter("transduce_documents", "Documents ended", ["end"])
        self.store_failures = counter("transduce_store_failures", "Failed attempts to save usage in the store")
        self.connections_refused = counter(
            "transduce_connections_refused", "Connections closed because there were too many"
        )

    # --- from the core; called from several threads ------------------------------------------------------------

    def batch_done(self, model: str, num_sentences: int, num_tokens: int, fill: float, seconds: float) -> None:
        """Counts a batch that was computed; `fill` is the share of the token budget that it used."""
        self._of(self._batches, model).inc()
        self._of(self._sentences, model).inc(num_sentences)
        self._of(self._tokens, model).inc(num_tokens)
        self._of(self._fill, model).observe(fill)
        self._of(self._engine_seconds, model).inc(seconds)

    def waited(self, model: str, priority: Priority, seconds: float) -> None:
        """Counts a sentence that left the queue for a batch after this time."""
        self._of(self._queue_seconds, model, priority.name.lower()).observe(seconds)

    def model_event(self, model: str, event: str) -> None:
        """Counts a model that was "loaded", "reloaded" or "unloaded", or "failed"."""
        self._model_events.labels(model, event).inc()

    # --- from the server --------------------------------------------------------------------------------------

    def answered(self, protocol: str, route: str, status: int, seconds: float, characters: int) -> None:
        """Counts a request.

        Args:
            protocol: the one it came by; "" if by none.
            route: the template of its address, such as "/v2/glossaries/{id}"; "" for an address that does not exist.
            status: of the answer.
            seconds: that it took.
            characters: that were translated for it.
        """
        labels = (protocol or "none", route or "unknown")
        self._of(self._requests, *labels, status).inc()
        self._of(self._seconds, *labels).observe(seconds)
        if characters:
            self.translated(labels[0], characters)

    def translated(self, protocol: str, characters: int) -> None:
        """Counts characters that were charged."""
        self._of(self._characters, protocol).inc(characters)

    def document_ended(self, end: str) -> None:
        """Counts a document that was "done", "failed", "cancelled" or "expired"."""
        self._documents.labels(end).inc()

    def watch(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Adds a value that is read whenever the metrics are."""
        self.watch_by("", name, about, lambda: {"": value()})

    def watch_by(self, label: str, name: str, about: str, values: Callable[[], Mapping[str, float]]) -> None:
        """Adds a value for each value of a label, which is read whenever the metrics are."""
        self._registry.register(_Watched(label, name, about, values))

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """Returns all metrics in the format that a client accepts, and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


class _Watched(Collector):
    """Values that are read when the metrics are collected; those of "" have no label."""

    def __init__(self, label: str, name: str, about: str, values: Callable[[], Mapping[str, float]]) -> None:
        self._label, self._name, self._about, self._values = label, name, about, values

    def collect(self) -> Iterator[Metric]:
        values = self._values()
        family = GaugeMetricFamily(self._name, self._about, labels=[] if "" in values else [self._label])
        for each, value in values.items():
            family.add_metric([each] if each else [], value)
        yield family
