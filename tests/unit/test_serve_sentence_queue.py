"""The order in which sentences of many requests are computed, and that none is lost or computed twice."""

from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from transduce.serve import sentence_queue
from transduce.serve.calls import Call, CancelledRequestError, Sentence, Ticket
from transduce.serve.requests import Priority
from transduce.serve.sentence_queue import FAIR_SHARE, STEP_TOKENS, Batch, SentenceQueue

BUDGET = 100


def call_of(*tokens: int, name: str = "", work: str = "translate", priority: Priority = Priority.INTERACTIVE) -> Call:
    """Returns a call of a new request, whose inputs are its name with their numbers."""
    inputs = [f"{name}{number}" for number in range(len(tokens))]
    return Call(Ticket(priority), work, inputs, tokens, lambda call: None)


def queue_of(*calls: Call) -> SentenceQueue:
    queue = SentenceQueue()
    for call in calls:
        queue.add(call)
    return queue


def taken(queue: SentenceQueue, max_tokens: int = BUDGET, num_workers: int = 1) -> list[str]:
    batch = queue.next_batch(max_tokens, num_workers)
    return [] if batch is None else [sentence.input for sentence in batch.sentences]


def test_the_request_that_came_first_goes_first_up_to_the_budget() -> None:
    queue = queue_of(call_of(40, name="a"), call_of(40, 20, name="b"), call_of(10, name="c"))
    assert taken(queue) == ["a0", "b0", "b1"]
    assert queue.num_sentences == 1
    assert queue.num_tokens == 10
    assert taken(queue) == ["c0"]
    assert taken(queue) == []
    assert queue.num_sentences == queue.num_tokens == 0


def test_a_sentence_over_the_budget_is_a_batch_of_its_own() -> None:
    queue = queue_of(call_of(500, 5, name="a"))
    assert [taken(queue), taken(queue)] == [["a0"], ["a1"]]


def test_a_batch_has_one_kind_of_work() -> None:
    queue = queue_of(call_of(1, name="a", work="x"), call_of(1, name="b", work="y"), call_of(1, name="c", work="x"))
    assert [taken(queue), taken(queue)] == [["a0", "c0"], ["b0"]]


def test_a_short_request_does_not_wait_for_a_long_one() -> None:
    """Nor is its batch filled up with what is long."""
    queue = queue_of(call_of(*[STEP_TOKENS // 4] * 40, name="long"))
    queue.add(call_of(1, 1, name="short"))
    assert taken(queue, STEP_TOKENS) == ["short0", "short1"]
    queue.add(call_of(STEP_TOKENS, name="just short"))
    assert taken(queue, 2 * STEP_TOKENS) == ["just short0"]


def test_batches_of_long_requests_are_smaller_while_short_ones_come(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(sentence_queue, "time", SimpleNamespace(monotonic=lambda: now[0]))
    for priority in Priority:
        queue = queue_of(call_of(*[STEP_TOKENS // 4] * 40, name="long", priority=priority))
        assert len(taken(queue, STEP_TOKENS)) == 4
        queue.add(call_of(1, name="short"))
        assert taken(queue, STEP_TOKENS) == ["short0"]
        now[0] += 1.9
        assert len(taken(queue, STEP_TOKENS)) == 2
        now[0] += 0.2
        queue._num_batches = 0
        assert len(taken(queue, STEP_TOKENS)) == 4


def test_long_requests_take_turns() -> None:
    step = STEP_TOKENS
    queue = queue_of(call_of(*[step] * 3, name="a"), call_of(*[step] * 3, name="b"))
    assert [taken(queue, step) for _ in range(3)] == [["a0"], ["b0"], ["a1"]]


def test_bulk_comes_after_those_who_wait_and_does_not_slow_their_batches() -> None:
    bulk = call_of(10, 10, name="bulk", priority=Priority.BULK)
    queue = queue_of(bulk, call_of(10, name="a"), call_of(10, name="b"))
    assert [taken(queue), taken(queue)] == [["a0", "b0"], ["bulk0", "bulk1"]]


def test_each_fourth_batch_is_for_the_request_that_came_first_of_all() -> None:
    """However many come that go before it, bulk gets its share."""
    queue = queue_of(call_of(*[BUDGET] * 5, name="bulk", priority=Priority.BULK))
    batches = []
    for number in range(4 * FAIR_SHARE):
        queue.add(call_of(BUDGET, name=f"{number}-"))
        batches.append(taken(queue)[0])
    assert [name.startswith("bulk") for name in batches] == [False, False, False, True] * 4


def test_idle_workers_share_what_waits() -> None:
    queue = queue_of(call_of(*[10] * 8, name="a"))
    assert [len(taken(queue, BUDGET, num)) for num in (4, 3, 2, 1)] == [2, 2, 2, 2]


def test_what_is_removed_is_not_counted() -> None:
    call = call_of(10, 20, 30, name="a")
    queue = queue_of(call, call_of(5, name="b"))
    queue.remove(call)
    queue.remove(call)
    assert (queue.num_sentences, queue.num_tokens) == (1, 5)
    assert taken(queue) == ["b0"]


def test_how_much_goes_before_a_new_request() -> None:
    queue = queue_of(call_of(10, 5), call_of(STEP_TOKENS, 10), call_of(7, priority=Priority.BULK))
    assert queue.tokens_before(Priority.INTERACTIVE) == 15 + STEP_TOKENS
    assert queue.tokens_before(Priority.BULK) == 15 + STEP_TOKENS + 7
    assert queue.oldest() is not None
    assert SentenceQueue().oldest() is None


class QueueMachine(RuleBasedStateMachine):
    """Adds, takes and withdraws at random; what must always hold is checked after each step."""

    @initialize()
    def start(self) -> None:
        self.queue = SentenceQueue()
        self.calls: list[Call] = []
        self.ended: list[Call] = []
        self.taken: dict[int, set[int]] = {}
        self.num_batches_waited: dict[Call, int] = {}

    @rule(
        tokens=st.lists(st.integers(1, 60), min_size=1, max_size=30),
        work=st.sampled_from("xyz"),
        priority=st.sampled_from(Priority),
    )
    def add(self, tokens: Sequence[int], work: str, priority: Priority) -> None:
        def end(call: Call) -> None:
            self.queue.remove(call)
            self.ended.append(call)

        call = Call(Ticket(priority), work, tokens, tokens, end)
        self.calls.append(call)
        self.taken[id(call)] = set()
        self.queue.add(call)

    @rule(num_workers=st.integers(1, 4), fails=st.booleans())
    def take(self, num_workers: int, fails: bool) -> None:
        waiting = [call for call in self.calls if call.waiting]
        oldest = min(waiting, key=lambda call: call.ticket.number, default=None)
        batch = self.queue.next_batch(BUDGET, num_workers)
        assert (batch is None) == (oldest is None)
        if batch is None or oldest is None:
            return
        self.check(batch, oldest)
        for sentence in batch.sentences:
            self.end(sentence, fails=fails)

    def check(self, batch: Batch, oldest: Call) -> None:
        assert {sentence.call.work for sentence in batch.sentences} == {batch.work}
        assert batch.tokens == sum(sentence.tokens for sentence in batch.sentences)
        assert batch.tokens <= BUDGET
        for sentence in batch.sentences:
            assert sentence.index not in self.taken[id(sentence.call)], "it was computed before"
            self.taken[id(sentence.call)].add(sentence.index)
        was_served = any(sentence.call is oldest for sentence in batch.sentences)
        self.num_batches_waited[oldest] = 0 if was_served else self.num_batches_waited.get(oldest, 0) + 1
        assert self.num_batches_waited[oldest] < FAIR_SHARE, "the request that came first gets its share"

    def end(self, sentence: Sentence, *, fails: bool) -> None:
        if fails and sentence.index == 0:
            sentence.call.fail(ValueError("no result"))
        else:
            sentence.call.finish(sentence, sentence.input)

    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        if self.calls:
            call = data.draw(st.sampled_from(self.calls))
            was_open = call.is_open
            call.withdraw()
            assert not call.waiting
            if was_open:
                with pytest.raises(CancelledRequestError):
                    call.outcome()

    @invariant()
    def counts_are_right(self) -> None:
        waiting = [sentence for call in self.calls for sentence in call.waiting]
        assert self.queue.num_sentences == len(waiting)
        assert self.queue.num_tokens == sum(sentence.tokens for sentence in waiting)

    @invariant()
    def calls_end_once_with_all_their_results(self) -> None:
        assert len(self.ended) == len(set(map(id, self.ended)))
        assert {id(call) for call in self.ended} == {id(call) for call in self.calls if not call.is_open}
        for call in self.ended:
            try:
                results = call.outcome()
            except (ValueError, CancelledRequestError):
                assert not call.waiting
            else:
                assert self.taken[id(call)] == set(range(len(results)))
                assert None not in results


QueueMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestQueue = QueueMachine.TestCase
