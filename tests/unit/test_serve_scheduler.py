"""Worker threads over a queue: what they compute, what fails, what ends early, and that nothing is left behind."""

import asyncio
import logging
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from transduce.config import DecodeConfig
from transduce.errors import DataError
from transduce.serve.calls import CancelledRequestError, Ticket
from transduce.serve.event_loop_calls import EventLoopCalls
from transduce.serve.operations.log import service_logs
from transduce.serve.queued_engine import QueuedEngine
from transduce.serve.requests import DeadlineError, ModelUnavailableError, Priority, StoppingError
from transduce.serve.scheduler import Scheduler
from waiting import wait_until

LONG = 30.0  # seconds within which anything happens on a busy machine


class Recorder:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.fills: list[float] = []
        self.waits: list[Priority] = []
        self.events: list[str] = []
        self.breaks = False

    def batch_done(self, model: str, num_sentences: int, num_tokens: int, fill: float, seconds: float) -> None:
        if self.breaks:
            raise OSError("the metrics are broken")
        self.batches.append(num_sentences)
        self.fills.append(fill)

    def waited(self, model: str, priority: Priority, seconds: float) -> None:
        self.waits.append(priority)

    def model_event(self, model: str, event: str) -> None:
        if self.breaks:
            raise OSError("the metrics are broken")
        self.events.append(event)


class Engine:
    """Doubles numbers; work is what is added. It can be held, and fails on numbers that it is given errors for."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.errors: dict[int, BaseException] = {}
        self.gate = threading.Event()
        self.gate.set()

    def compute(self, work: int, inputs: list[int]) -> Sequence[int]:
        self.batches.append(list(inputs))
        assert self.gate.wait(LONG)
        for value in inputs:
            if value in self.errors:
                raise self.errors[value]
        return [2 * value + work for value in inputs]


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


Started = Callable[..., Scheduler]


@pytest.fixture
def started(engine: Engine, recorder: Recorder) -> Iterator[Started]:
    """Returns a function that starts a scheduler; checks at the end that its threads have ended."""
    before = set(threading.enumerate())
    schedulers: list[Scheduler] = []

    def start(num_workers: int = 1, max_tokens: int = 100) -> Scheduler:
        schedulers.append(Scheduler("model", engine.compute, num_workers, max_tokens, recorder))
        return schedulers[-1]

    yield start
    engine.gate.set()
    for scheduler in schedulers:
        scheduler.close()
    assert set(threading.enumerate()) <= before


def run(scheduler: Scheduler, values: Sequence[int], work: int = 0, ticket: Ticket | None = None) -> list[Any]:
    return scheduler.run(ticket or Ticket(), work, values, [1] * len(values))


@contextmanager
def held(scheduler: Scheduler, engine: Engine) -> Iterator[tuple[ThreadPoolExecutor, "Future[list[Any]]"]]:
    """Yields threads, and a request for [1] that the engine computes until its gate is opened."""
    engine.gate.clear()
    with ThreadPoolExecutor(9) as threads:
        first = threads.submit(run, scheduler, [1])
        wait_until(lambda: engine.batches == [[1]])
        yield threads, first


def compute_slowly(scheduler: Scheduler, engine: Engine, seconds: float) -> None:
    """Computes two batches of one token, the first of which takes so long."""
    engine.gate.clear()
    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(run, scheduler, [1, 2])
        wait_until(lambda: scheduler.num_waiting == 1)
        time.sleep(seconds)
        engine.gate.set()
        found.result(LONG)


def test_requests_that_wait_are_computed_together(started: Started, engine: Engine, recorder: Recorder) -> None:
    scheduler = started()
    with held(scheduler, engine) as (threads, first):
        others = [threads.submit(run, scheduler, [10 * i, 10 * i + 1]) for i in range(1, 8)]
        wait_until(lambda: scheduler.num_waiting == 14)
        other_work = threads.submit(run, scheduler, [5], 1)
        wait_until(lambda: scheduler.num_waiting == 15)
        assert scheduler.oldest_seconds() > 0
        engine.gate.set()
        assert first.result(LONG) == [2]
        assert [each.result(LONG) for each in others] == [[20 * i, 20 * i + 2] for i in range(1, 8)]
        assert other_work.result(LONG) == [11]
    assert sorted(map(len, engine.batches)) == [1, 1, 14]
    wait_until(lambda: sorted(recorder.batches) == [1, 1, 14])
    assert sorted(recorder.fills) == [0.01, 0.01, 0.14]
    assert scheduler.num_waiting == 0
    assert scheduler.oldest_seconds() == 0
    wait_until(lambda: scheduler.num_computing == 0)
    assert run(scheduler, []) == []


def test_an_input_that_fails_fails_alone(started: Started, engine: Engine, recorder: Recorder) -> None:
    scheduler = started()
    engine.errors = {21: DataError("21 is wrong")}
    with held(scheduler, engine) as (threads, first):
        others = [threads.submit(run, scheduler, [10 * i, 10 * i + 1]) for i in range(1, 4)]
        wait_until(lambda: scheduler.num_waiting == 6)
        engine.gate.set()
        assert first.result(LONG) == [2]
        assert others[0].result(LONG) == [20, 22]
        with pytest.raises(DataError, match="21 is wrong"):
            others[1].result(LONG)
        assert others[2].result(LONG) == [60, 62]
    assert recorder.events == [], "the input is wrong, not the model"


def test_an_input_on_which_the_engine_panics_fails_alone(started: Started, engine: Engine) -> None:
    """Native extensions raise what is no `Exception`."""
    scheduler = started()
    engine.errors = {21: SystemExit("panic")}
    with held(scheduler, engine) as (threads, first):
        others = [threads.submit(run, scheduler, [value]) for value in (20, 21)]
        wait_until(lambda: scheduler.num_waiting == 2)
        engine.gate.set()
        assert [first.result(LONG), others[0].result(LONG)] == [[2], [40]]
        with pytest.raises(ModelUnavailableError):
            others[1].result(LONG)


@pytest.mark.parametrize("error", [RuntimeError("broken"), MemoryError(), SystemExit(1)])
def test_a_failing_engine_is_reported_and_its_worker_goes_on(
    started: Started, engine: Engine, recorder: Recorder, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = started()
    engine.errors = {3: error}
    with caplog.at_level(logging.ERROR), pytest.raises(ModelUnavailableError) as found:
        run(scheduler, [3])
    assert "broken" not in str(found.value), "details are for the log"
    wait_until(lambda: recorder.events == ["failed"])
    assert any(record.exc_info and record.exc_info[1] is error for record in caplog.records)
    engine.errors = {}
    assert run(scheduler, [3]) == [6]


@pytest.mark.parametrize("error", [KeyError("Geheim"), ValueError("Geheim"), AssertionError("Geheim")])
def test_no_text_of_a_user_is_logged_where_the_work_fails(
    started: Started, engine: Engine, recorder: Recorder, error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pipeline is part of the work, and errors of Python name the word that they are about."""
    engine.errors = {3: error}
    with service_logs(access_log=False, quiet=True):
        with pytest.raises(ModelUnavailableError):
            run(started(), [3])
        wait_until(lambda: recorder.events == ["failed"])  # after the line
    logged = capsys.readouterr().err
    assert "Geheim" not in logged
    assert re.search(rf"the engine failed: {type(error).__name__} at .*test_serve_scheduler\.py:\d+ ", logged)


def test_broken_metrics_break_nothing(
    started: Started, engine: Engine, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = started()
    recorder.breaks = True
    engine.errors = {3: RuntimeError("broken")}
    with pytest.raises(ModelUnavailableError):
        run(scheduler, [3])
    assert [run(scheduler, [number]) for number in range(3)] == [[0], [2], [4]]
    wait_until(lambda: caplog.text.count("the metrics are broken") > 3)
    assert caplog.text.count("the engine failed") == 1


def test_an_engine_that_loses_results_is_an_error(recorder: Recorder, caplog: pytest.LogCaptureFixture) -> None:
    scheduler = Scheduler("model", lambda work, inputs: [], 1, 100, recorder)
    with pytest.raises(ModelUnavailableError):
        run(scheduler, [1])
    scheduler.close()
    assert "1 inputs gave 0 results" in caplog.text


def test_at_its_deadline_a_request_leaves_the_queue(started: Started, engine: Engine) -> None:
    scheduler = started()
    with held(scheduler, engine) as (_, first):
        with pytest.raises(DeadlineError) as found:
            run(scheduler, [2], ticket=Ticket(deadline=time.monotonic() + 0.05))
        assert found.value.retry_after_seconds >= 1
        assert scheduler.num_waiting == 0
        with pytest.raises(DeadlineError):
            run(scheduler, [2], ticket=Ticket(deadline=time.monotonic() - 1))
        engine.gate.set()
        assert first.result(LONG) == [2]
    assert engine.batches == [[1]], "nobody waits for the second"


def test_a_cancelled_request_leaves_the_queue(started: Started, engine: Engine) -> None:
    scheduler = started()
    engine.gate.clear()
    tickets = [Ticket(), Ticket()]
    with ThreadPoolExecutor(2) as threads:
        computed = threads.submit(run, scheduler, [1], 0, tickets[0])
        wait_until(lambda: engine.batches == [[1]])
        waiting = threads.submit(run, scheduler, [2, 3], 0, tickets[1])
        wait_until(lambda: scheduler.num_waiting == 2)
        for ticket in tickets:
            ticket.cancel()
        for each in (computed, waiting):
            with pytest.raises(CancelledRequestError):
                each.result(LONG)
        assert scheduler.num_waiting == 0
        with pytest.raises(CancelledRequestError):
            run(scheduler, [4], ticket=tickets[0])
        engine.gate.set()
    assert run(scheduler, [5]) == [10]
    assert engine.batches == [[1], [5]]


def test_closing_computes_what_waits_and_refuses_the_rest(started: Started, engine: Engine) -> None:
    scheduler = started(num_workers=2)
    engine.gate.clear()
    with ThreadPoolExecutor(10) as threads:
        accepted = [threads.submit(run, scheduler, [number] * 5) for number in range(8)]
        wait_until(lambda: scheduler.num_waiting + scheduler.num_computing == 40)
        closing = threads.submit(scheduler.close)
        time.sleep(0.02)
        with pytest.raises(StoppingError):
            run(scheduler, [1])
        engine.gate.set()
        closing.result(LONG)
        assert [each.result(LONG) for each in accepted] == [[2 * number] * 5 for number in range(8)]


def test_idle_workers_share_one_request(started: Started, engine: Engine) -> None:
    scheduler = started(num_workers=2)
    wait_until(lambda: scheduler._num_idle == 2)
    engine.gate.clear()
    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(run, scheduler, list(range(10)))
        wait_until(lambda: len(engine.batches) == 2)
        engine.gate.set()
        assert found.result(LONG) == list(range(0, 20, 2))
    assert sorted(map(len, engine.batches)) == [5, 5]


def test_several_workers_share_what_waits(started: Started, engine: Engine) -> None:
    scheduler = started(num_workers=4, max_tokens=1)
    scheduler._seconds_per_token = 0.01
    engine.gate.clear()
    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(run, scheduler, list(range(24)))
        wait_until(lambda: scheduler.num_computing == 4)
        assert scheduler.num_waiting == 20
        assert scheduler.expected_wait_seconds() == pytest.approx(20 * 0.01 / 4)
        assert scheduler.backlog_seconds == pytest.approx(20 * 0.01 / 4)
        engine.gate.set()
        found.result(LONG)


def test_of_two_batches_the_one_that_takes_longer_is_reported(started: Started, engine: Engine) -> None:
    """Else a worker that hangs would go unseen while another one works."""
    scheduler = started(num_workers=2)
    assert scheduler.batch_seconds() == 0
    with held(scheduler, engine) as (threads, first):
        began = time.monotonic()  # or earlier
        time.sleep(0.05)
        second = threads.submit(run, scheduler, [2])
        wait_until(lambda: engine.batches == [[1], [2]])
        now = time.monotonic()
        assert scheduler.batch_seconds() >= now - began
        engine.gate.set()
        assert (first.result(LONG), second.result(LONG)) == ([2], [4])


def test_the_expected_wait_follows_the_measured_speed(started: Started, engine: Engine) -> None:
    scheduler = started(max_tokens=1)
    assert scheduler.expected_wait_seconds() == 0
    engine.gate.clear()
    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(run, scheduler, list(range(20)))
        wait_until(lambda: scheduler.num_computing == 1)
        time.sleep(0.05)
        engine.gate.set()
        found.result(LONG)
        engine.gate.clear()
        found = threads.submit(run, scheduler, list(range(21)))
        wait_until(lambda: scheduler.num_waiting == 20)
        assert scheduler.backlog_seconds > 0
        assert scheduler.expected_wait_seconds() == pytest.approx(scheduler.backlog_seconds)
        engine.gate.set()
        found.result(LONG)
    assert scheduler.backlog_seconds == 0


def test_a_fast_batch_corrects_a_speed_that_was_measured_too_low(started: Started, engine: Engine) -> None:
    scheduler = started(max_tokens=1)
    compute_slowly(scheduler, engine, 0.1)
    before = scheduler.seconds_of(1000)
    assert before > 0
    scheduler.run(Ticket(), 0, [1], [4096])  # nothing waits behind it
    wait_until(lambda: scheduler.num_computing == 0)
    assert scheduler.seconds_of(1000) < 0.6 * before


def test_a_request_has_waited_as_long_as_the_sentence_that_waited_longest(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two calls of one request: the first waits 3 seconds for its batch, the second 1. Each call is told of once."""
    seconds = [10.0]
    monkeypatch.setattr("transduce.serve.calls.time", SimpleNamespace(monotonic=lambda: seconds[0]))
    monkeypatch.setattr("transduce.serve.scheduler.time", SimpleNamespace(monotonic=lambda: seconds[0]))
    scheduler = Scheduler("model", lambda work, inputs: inputs, 0, 100, recorder)
    waits: list[float] = []
    monkeypatch.setattr(recorder, "waited", lambda model, priority, seconds: waits.append(seconds))
    scheduler._workers = [threading.Thread()]  # that do not run: batches are computed here
    ticket = Ticket()
    for seconds[0], longer in ((20.0, 3.0), (30.0, 1.0)):
        scheduler.submit(ticket, 0, [1, 2], [1, 1], lambda: None)
        seconds[0] += longer
        batch = scheduler._next_batch()
        assert batch is not None
        scheduler._compute_batch(batch)
    assert (ticket.waited_seconds, waits) == (3.0, [3.0, 1.0])


@pytest.mark.parametrize(("measured", "memory"), [(0, 256), (1000, 1000), (10**6, 4096)])
def test_the_speed_is_a_mean_over_as_many_tokens_as_were_measured(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, measured: int, memory: int
) -> None:
    """A batch of 64 tokens takes 32 seconds, and others wait: half a second a token, of which it changes a part."""
    seconds, told = [10.0], []

    def compute(work: Any, inputs: list[Any]) -> list[Any]:
        seconds[0] += 32.0
        return inputs

    monkeypatch.setattr("transduce.serve.scheduler.time", SimpleNamespace(monotonic=lambda: seconds[0]))
    monkeypatch.setattr(recorder, "batch_done", lambda *arguments: told.append(arguments))
    scheduler = Scheduler("model", compute, 0, 80, recorder)
    scheduler._workers, scheduler._num_measured_tokens = [threading.Thread()] * 2, measured
    scheduler.submit(Ticket(), 0, [1, 2, 3], [40, 24, 60], lambda: None)
    batch = scheduler._next_batch()
    assert batch is not None
    assert (batch.others_wait, scheduler.num_computing, scheduler.backlog_seconds) == (True, 2, 0)
    scheduler._compute_batch(batch)
    assert told == [("model", 2, 64, 0.8, 32.0)]
    assert scheduler.seconds_of(1) == pytest.approx(0.5 * 64 / (64 + memory) / 2), "of two workers"
    assert scheduler._num_measured_tokens == measured + 64
    last = scheduler._next_batch()
    assert last is not None
    before = scheduler.seconds_of(1)
    scheduler._compute_batch(last)  # nothing waits behind it, and it is slower than the mean
    assert scheduler.seconds_of(1) == before


def test_a_caller_that_goes_on_knows_the_speed_of_its_own_batch(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of 64 tokens takes 32 seconds, and counts for 64 of the 320 tokens that the first mean is over."""
    seconds, known = [10.0], list[float]()

    def compute(work: Any, inputs: list[Any]) -> list[Any]:
        seconds[0] += 32.0
        return inputs

    monkeypatch.setattr("transduce.serve.scheduler.time", SimpleNamespace(monotonic=lambda: seconds[0]))
    scheduler = Scheduler("model", compute, 0, 80, recorder)
    scheduler._workers = [threading.Thread()]
    scheduler.submit(Ticket(), 0, [1], [64], lambda: known.append(scheduler.seconds_of(1)))
    scheduler.submit(Ticket(), 0, [2], [64], lambda: None)  # others wait: the first batch counts
    batch = scheduler._next_batch()
    assert batch is not None
    scheduler._compute_batch(batch)
    assert known == [pytest.approx(0.5 * 64 / 320)]


def test_an_input_that_nobody_waits_for_any_more_is_not_computed_again(recorder: Recorder, engine: Engine) -> None:
    scheduler = Scheduler("model", engine.compute, 0, 100, recorder)
    scheduler._workers = [threading.Thread()]
    first, second = Ticket(), Ticket()
    for ticket, value in ((first, 1), (second, 2)):
        scheduler.submit(ticket, 0, [value], [1], lambda: None)
    engine.errors = {2: DataError("2 is wrong")}
    batch = scheduler._next_batch()
    assert batch is not None
    first.cancel()
    scheduler._compute_batch(batch)
    assert engine.batches == [[1, 2], [2]]


def test_many_threads_and_coroutines_at_once(started: Started, engine: Engine) -> None:
    """Whatever is cancelled, late or wrong, the others get their own results, and nothing waits for ever."""
    scheduler = started(num_workers=3, max_tokens=20)
    engine.errors = {1000 + i: DataError("wrong") for i in range(50)}
    outcomes: list[str] = []

    def values_of(dice: random.Random) -> list[int]:
        return [dice.randrange(1100 if dice.random() < 0.1 else 1000) for _ in range(dice.randint(1, 30))]

    def check(found: list[int], values: list[int], work: int) -> None:
        assert found == [2 * value + work for value in values]
        outcomes.append("result")

    def ticket_of(dice: random.Random) -> Ticket:
        deadline = time.monotonic() + 0.001 * dice.random() if dice.random() < 0.1 else None
        return Ticket(dice.choice(list(Priority)), deadline)

    def ask(seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(60):
            values, work, ticket = values_of(dice), dice.randrange(3), ticket_of(dice)
            timer = threading.Timer(0.001 * dice.random(), ticket.cancel) if dice.random() < 0.1 else None
            if timer is not None:
                timer.start()
            try:
                check(run(scheduler, values, work, ticket), values, work)
            except (DataError, DeadlineError, CancelledRequestError) as error:
                outcomes.append(type(error).__name__)
            if timer is not None:
                timer.join()

    async def ask_in_loop(calls: EventLoopCalls, seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(60):
            values, work = values_of(dice), dice.randrange(3)
            answer = calls.run(scheduler, ticket_of(dice), work, values, [1] * len(values))
            limit = 0.001 * dice.random() if dice.random() < 0.1 else LONG
            try:
                check(await asyncio.wait_for(answer, limit), values, work)
            except (DataError, DeadlineError, TimeoutError) as error:
                outcomes.append(type(error).__name__)

    async def ask_all_in_loop() -> None:
        calls = EventLoopCalls(asyncio.get_running_loop())
        await asyncio.gather(*(ask_in_loop(calls, 100 + seed) for seed in range(8)))

    with ThreadPoolExecutor(9) as threads:
        asked = [threads.submit(ask, seed) for seed in range(8)]
        asked.append(threads.submit(asyncio.run, ask_all_in_loop()))
        for each in asked:
            each.result(4 * LONG)
    assert len(outcomes) == 16 * 60
    assert outcomes.count("result") > 300
    assert scheduler.num_waiting == 0
    wait_until(lambda: scheduler.num_computing == 0)


def test_a_coroutine_that_is_cancelled_leaves_the_queue(started: Started, engine: Engine) -> None:
    scheduler = started()
    engine.gate.clear()

    async def test() -> None:
        calls = EventLoopCalls(asyncio.get_running_loop())
        first = asyncio.create_task(calls.run(scheduler, Ticket(), 0, [1], [1]))
        await asyncio.sleep(0)
        wait_until(lambda: engine.batches == [[1]])
        second = asyncio.create_task(calls.run(scheduler, Ticket(), 0, [2, 3], [1, 1]))
        late = Ticket(deadline=time.monotonic() + 0.02)
        with pytest.raises(DeadlineError):
            await calls.run(scheduler, late, 0, [4], [1])
        second.cancel()
        await asyncio.wait([second])
        assert scheduler.num_waiting == 0
        engine.gate.set()
        assert await first == [2]
        late.cancel()
        with pytest.raises(CancelledRequestError):
            await calls.run(scheduler, late, 0, [4], [1])

    asyncio.run(test())
    assert engine.batches == [[1]]


def test_one_slow_batch_at_the_start_is_not_taken_for_the_speed(started: Started, engine: Engine) -> None:
    scheduler = started(max_tokens=1)
    compute_slowly(scheduler, engine, 0.2)
    assert 0 < scheduler.seconds_of(100) < 100 * 0.2 / 20, "a batch of one token has a small weight"


def test_sentences_of_a_request_are_computed_beside_others_of_their_length(recorder: Recorder) -> None:
    """Each result is that of its own sentence."""
    batches: list[list[int]] = []

    def compute(work: Any, inputs: list[Any]) -> list[list[str]]:
        batches.append([len(source) for source, _ in inputs])
        return [[f"{len(source)} tokens"] for source, _ in inputs]

    engine: Any = SimpleNamespace(name="made", independent_lines=True, max_source_tokens=100, batch_tokens=20)
    scheduler = Scheduler("model", compute, 1, 20, recorder)
    sources = [[7] * length for length in (2, 9, 0, 3, 8, 2, 9)]
    found = QueuedEngine(engine, scheduler, Ticket()).translate(sources, DecodeConfig(beam_size=1))
    scheduler.close()
    assert batches == [[9, 9], [8, 3, 2, 2, 0]]
    assert found == [[f"{length} tokens"] for length in (2, 9, 0, 3, 8, 2, 9)]
