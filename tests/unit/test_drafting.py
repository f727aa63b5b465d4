"""Greedy search with drafts: its output is that of greedy search, whatever is proposed."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from transduce.config.special_ids import BOS, EOS, PAD
from transduce.decoding.candidates import log_probabilities_, top
from transduce.decoding.drafting import DraftCounts, DraftSearch, DraftTask
from transduce.decoding.online_drafts import OnlineDrafter, OutputMemory
from transduce.decoding.proposals import MOST_PROPOSED, Chances, FasterWay, Output, PassCosts, Proposal

VOCABULARY = 12


class TableModel:
    """A model that is a function of the sentence's number and of the last two tokens it has read."""

    def __init__(self, seed: int, vocabulary: int = VOCABULARY) -> None:
        shape = (5, vocabulary, vocabulary, vocabulary)
        self.table = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 3

    def logits(self, sentence: int, read: Sequence[int]) -> Tensor:
        before = read[-2] if len(read) > 1 else PAD
        return self.table[sentence, before, read[-1]].clone()


class TableState:
    """What sentences have read, and what the last step added that does not count yet."""

    def __init__(self, model: TableModel, sentences: Sequence[int], read: Sequence[list[int]]) -> None:
        self.model, self.sentences, self.read = model, list(sentences), [list(each) for each in read]
        self.new: list[list[int]] = []

    def accept(self, counts: Sequence[int]) -> "TableState":
        read = [old + new[:count] for old, new, count in zip(self.read, self.new, counts, strict=True)]
        return TableState(self.model, self.sentences, read)

    def newest(self, rows: Sequence[int]) -> None:
        return None

    def keep(self, rows: Sequence[int]) -> "TableState":
        return TableState(self.model, [self.sentences[row] for row in rows], [self.read[row] for row in rows])


def table_step(tokens_BK: Tensor, state: TableState) -> tuple[Tensor, TableState]:
    state.new = tokens_BK.tolist()
    logits = [
        [state.model.logits(sentence, read + new[: i + 1]) for i in range(len(new))]
        for sentence, read, new in zip(state.sentences, state.read, state.new, strict=True)
    ]
    return torch.stack([torch.stack(row) for row in logits]), state


def greedy(model: TableModel, sentence: int, limit: int, never: Sequence[int]) -> tuple[list[int], float, bool]:
    """The obvious greedy search: ids, log-probability, and whether it reached EOS."""
    read, total = [BOS], 0.0
    while True:
        gains = torch.log_softmax(model.logits(sentence, read), dim=-1)
        gains[list(never)] = -math.inf
        token = int(gains.argmax())
        if token == EOS:
            return read[1:], total + float(gains[token]), True
        if len(read) - 1 == limit:
            return read[1:], total, False
        read.append(token)
        total += float(gains[token])


class Scripted:
    """Proposes what a function of the output says, and remembers what it was asked and told."""

    def __init__(self, propose: Callable[[Output], Sequence[int]]) -> None:
        self._propose = propose
        self.learned: list[list[int]] = []

    def seconds(self, num_sentences: int) -> float:
        return 0.0

    def propose(self, outputs: Sequence[Output], most: int, newest: Any) -> list[list[Proposal]]:
        return [[Proposal(token, "scripted") for token in self._propose(output)[:most]] for output in outputs]

    def learn(self, output: Output) -> None:
        self.learned.append(output.ids)


# Passes cost the same, however many tokens they have: so everything that is proposed is tried.
FREE_TOKENS = PassCosts([(1, 1.0), (1000, 1.0)])


def never_alone(sentence: int) -> Any:
    raise AssertionError("no two tokens are as near")


def search_of(
    model: TableModel,
    limits: Sequence[int],
    drafter: Any,
    *,
    tolerance: float = 0.0,
    alone: Callable[[int], Any] = never_alone,
    costs: PassCosts | None = None,
    never: Sequence[int] = (PAD, BOS),
    most: int = MOST_PROPOSED,
    of: Callable[[int], tuple[Any, ...]] = lambda sentence: (),
) -> tuple[list[Any], DraftCounts]:
    outputs = [
        Output(sentence, [4 + sentence, 5, 6], limit, [BOS], 1, *of(sentence)) for sentence, limit in enumerate(limits)
    ]
    state = TableState(model, range(len(limits)), [[] for _ in limits])
    device = torch.device("cpu")
    task = DraftTask(table_step, state, alone, outputs, never, most, tolerance, 0.6, device)
    counts = DraftCounts()
    found = DraftSearch(task, drafter, costs or FREE_TOKENS, Chances(), counts).run()
    return [hypotheses[0] for hypotheses in found], counts


# --- the output -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", ["right", "wrong", "half right", "none", "online", "garbage"])
def test_whatever_is_proposed_the_output_is_that_of_greedy_search(seed: int, kind: str) -> None:
    model, limits, never = TableModel(seed), [7, 0, 12, 3, 20], (PAD, BOS)
    expected = [greedy(model, sentence, limit, never) for sentence, limit in enumerate(limits)]
    numbers = itertools.count(seed)

    def propose(output: Output) -> list[int]:
        rest = [*expected[output.sentence][0][len(output.ids) :], 3, 4]
        wrong = [(token + 1) % VOCABULARY for token in rest]
        mixed = [rest[i] if next(numbers) % 3 else wrong[i] for i in range(len(rest))]
        garbage = [PAD, EOS, BOS, PAD]
        return {"right": rest, "wrong": wrong, "half right": mixed, "none": [], "garbage": garbage}[kind]

    memory = OutputMemory()
    for _ in range(2):  # the second time, the outputs are known
        drafter = OnlineDrafter(memory) if kind == "online" else Scripted(propose)
        found, counts = search_of(model, limits, drafter)
        for hypothesis, (ids, total, finished) in zip(found, expected, strict=True):
            assert (hypothesis.ids, hypothesis.finished) == (ids, finished)
            assert hypothesis.log_probability == pytest.approx(total, abs=1e-4)
            length = len(ids) + finished
            assert hypothesis.score == pytest.approx(total / ((5 + length) / 6) ** 0.6, abs=1e-4)
        assert counts.tokens == sum(len(ids) + 1 for ids, _, _ in expected), "the step that meets the limit counts"
    if kind == "none":
        assert counts.tokens_a_pass == 1
        assert counts.proposed == 0


def test_right_proposals_save_passes_and_the_drafter_is_told_of_each_output() -> None:
    """An output of 20 tokens: with eight right proposals a pass gives nine tokens."""
    model = TableModel(3)
    model.table[..., EOS] = -50.0  # it never ends by itself
    ids, _, finished = greedy(model, 0, 20, (PAD, BOS))
    assert (len(ids), finished) == (20, False)
    drafter = Scripted(lambda output: [*ids[len(output.ids) :]])
    _, counts = search_of(model, [20], drafter)
    assert counts.passes == 3  # 9 tokens, 9 more, and the last 2 with the step that meets the limit
    assert counts.proposed == 8 + 8 + 2
    assert drafter.learned == [ids]


def test_where_two_tokens_are_near_the_sentence_decides_alone() -> None:
    """A pass says 7 by a hair; ordinary steps say 8."""
    model = TableModel(1)
    model.table[..., EOS] = -50.0
    model.table[:, :, 9] = -10.0
    model.table[:, :, 9, 7], model.table[:, :, 9, 8] = 1.0001, 1.0
    model.table[:, :, BOS] = -10.0
    model.table[:, :, BOS, 9] = 1.0
    asked: list[tuple[int, list[int]]] = []

    def alone(sentence: int) -> Callable[[Sequence[int]], Tensor]:
        def logits(read: Sequence[int]) -> Tensor:
            asked.append((sentence, list(read)))
            found = model.logits(sentence, read)[None]
            found[:, 8] += 0.0002
            return found

        return logits

    found, counts = search_of(model, [2], Scripted(lambda _: []), tolerance=1e-3, alone=alone)
    assert found[0].ids == [9, 8]
    assert asked[0] == (0, [BOS, 9])
    assert counts.repeated == len(asked)


@pytest.mark.parametrize("seed", range(4))
def test_of_equal_tokens_it_takes_the_one_that_greedy_search_takes(seed: int) -> None:
    """In 16 bits many logits are equal: of the two best ones and of the best one alone, another may come first."""
    model = TableModel(seed, vocabulary=64)
    model.table.round_()
    model.table[..., EOS] = -50.0

    def alone(sentence: int) -> Callable[[Sequence[int]], Tensor]:
        return lambda read: model.logits(sentence, read)[None]

    expected = [BOS]
    while len(expected) <= 20:  # as `GreedySearch.pick`
        gains = log_probabilities_(alone(0)(expected), (PAD, BOS))
        expected.append(int(top(gains, 1)[1]))
    found, counts = search_of(model, [20], Scripted(lambda output: expected[1 + len(output.ids) :]), alone=alone)
    assert found[0].ids == expected[1:]
    assert counts.repeated > 0


def test_an_output_that_nothing_may_continue_ends_unfinished() -> None:
    model = TableModel(1)
    found, _ = search_of(
        model,
        [5],
        Scripted(lambda _: [4]),
        never=range(VOCABULARY),
        alone=lambda s: lambda read: model.logits(s, read)[None],
    )
    assert (found[0].ids, found[0].finished) == ([], False)


# --- how much is proposed -------------------------------------------------------------------------------------


def test_chances_are_the_shares_that_were_right_of_late() -> None:
    chances = Chances()
    assert chances["new"] == 0.5
    assert chances.gains(2) == [1.0, 0.5, 0.25]
    for right in (True, True, False):
        chances.note("a", right)
    # (0.995² + 0.995 + 1) / (… + 2), of which two were right
    assert chances["a"] == pytest.approx((0.995**2 + 0.995 + 1) / (0.995**2 + 0.995 + 1 + 2))


def test_chances_that_are_not_tried_are_forgotten() -> None:
    chances = Chances()
    chances.note("a", right=False)
    assert chances["a"] == pytest.approx(1 / 3)
    for _ in range(100):
        chances.forget()
    assert chances["a"] == pytest.approx(1 / (2 + 0.98**100))
    assert chances["new"] == 0.5


def test_costs_lie_on_lines_between_what_was_measured() -> None:
    costs = PassCosts([(1, 1.0), (5, 1.4), (9, 2.4)])
    assert [costs(tokens) for tokens in (1, 3, 5, 7, 9)] == pytest.approx([1.0, 1.2, 1.4, 1.9, 2.4])
    assert costs(18) == pytest.approx(4.8)  # beyond, in proportion


@pytest.mark.parametrize(
    ("gains", "seconds_each", "expected"),
    [
        ([1.0, 0.9, 0.8, 0.1], 0.0, 2),  # 1, 1.9 / 1.1, 2.7 / 1.2, 2.8 / 1.3
        ([1.0, 0.05, 0.05, 0.05], 0.0, 0),
        ([1.0, 0.9, 0.8, 0.1], 1.0, 0),  # 1, 1.9 / 2.1, …
    ],
)
def test_as_much_is_proposed_as_gives_the_most_tokens_in_a_second(
    gains: list[float], seconds_each: float, expected: int
) -> None:
    costs = PassCosts([(1, 1.0), (101, 11.0)])
    assert costs.worthwhile(1, gains, seconds_each) == expected


@pytest.mark.parametrize(("slope", "proposed"), [(0.0, True), (1.0, False)])
def test_proposals_are_made_where_they_are_worth_their_time(slope: float, proposed: bool) -> None:
    costs = PassCosts([(1, 1.0 + slope), (1001, 1.0 + 1001 * slope)])
    _, counts = search_of(TableModel(5), [20] * 3, Scripted(lambda _: [5] * MOST_PROPOSED), costs=costs)
    assert (counts.proposed > 0) == proposed


def test_no_more_is_proposed_than_allowed() -> None:
    model = TableModel(3)
    model.table[..., EOS] = -50.0
    ids, _, _ = greedy(model, 0, 20, (PAD, BOS))
    _, counts = search_of(model, [20], Scripted(lambda output: [*ids[len(output.ids) :]]), most=2)
    assert counts.passes == 7  # three tokens each


def test_the_faster_way_is_that_with_less_seconds_a_token_for_as_many_sentences() -> None:
    faster = FasterWay()
    assert faster(1)  # 1: neither is known
    faster.note(True, 1, 10, 1.0)
    assert not faster(1)  # 2: the other one
    faster.note(False, 1, 100, 9.0)
    assert [faster(1) for _ in range(3)] == [False] * 3  # 3 … 5: 0.09 seconds a token against 0.1
    assert faster(8)  # 6: of so many, neither is known
    faster.note(True, 1, 1000, 10.0)  # 0.011 now
    assert [faster(1) for _ in range(9)] == [True] * 9  # 7 … 15
    assert not faster(1)  # 16: the slower way again
    assert faster(1)


class Interrupted(dict[Any, float]):
    """Calls a function before the first read, as if another thread came between."""

    def __init__(self, values: dict[Any, float], interrupt: Callable[[], object]) -> None:
        super().__init__(values)
        self._waiting = [interrupt]

    def __getitem__(self, key: Any) -> float:
        self._interrupt()
        return super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        self._interrupt()
        return super().get(key, default)

    def _interrupt(self) -> None:
        while self._waiting:
            self._waiting.pop()()


def test_another_thread_may_note_a_new_kind_while_chances_are_forgotten() -> None:
    chances = Chances()
    chances.note("a", right=False)
    chances._right = Interrupted(chances._right, lambda: chances.note("b", right=True))
    chances.forget()
    assert chances._tried == {"a": 0.98, "b": 1.0}


def test_another_thread_may_choose_while_a_search_is_noted() -> None:
    faster, chosen = FasterWay(), list[bool]()
    faster.note(True, 1, 10, 1.0)
    faster._tokens = Interrupted(faster._tokens, lambda: chosen.append(faster(1)))
    faster.note(False, 1, 10, 0.5)
    assert chosen == [False]  # the way that is not known yet


# --- bans and prefixes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_a_ban_acts_on_each_of_the_tokens_of_a_pass(seed: int) -> None:
    """Sentence 1 may not write 7 after 5, nor end before its sixth token."""
    model, limits, never = TableModel(seed), [12, 12, 12], (PAD, BOS)

    def ban_(gains_1V: Tensor, past_1T: Tensor) -> None:
        past = past_1T[0].tolist()
        if past[-1:] == [5]:
            gains_1V[:, 7] = -math.inf
        if len(past) < 6:
            gains_1V[:, EOS] = -math.inf

    def banned_greedy() -> list[int]:
        ids: list[int] = []
        while len(ids) < 12:
            gains = model.logits(1, [BOS, *ids])
            gains[list(never)] = -math.inf
            ban_(gains[None], torch.tensor([ids]))
            token = int(gains.argmax())
            if token == EOS:
                break
            ids.append(token)
        return ids

    expected = [greedy(model, 0, 12, never)[0], banned_greedy(), greedy(model, 2, 12, never)[0]]
    right = Scripted(lambda output: expected[output.sentence][len(output.ids) :])
    unbanned = [greedy(model, sentence, 12, never)[0] for sentence in range(3)]
    wrong = Scripted(lambda output: unbanned[output.sentence][len(output.ids) :])
    for drafter in (right, wrong):
        found, _ = search_of(model, limits, drafter, of=lambda s: ((), ban_ if s == 1 else None))
        assert [each.ids for each in found] == expected


def test_a_prefix_is_read_in_one_pass() -> None:
    model = TableModel(3)
    prefix = [4, 9, 8, 6, 7, 5, 5, 4, 10, 11]

    def ban_(gains_1V: Tensor, past_1T: Tensor) -> None:
        if (position := past_1T.size(1)) < len(prefix):
            kept = float(gains_1V[0, prefix[position]])
            gains_1V.fill_(-math.inf)
            gains_1V[0, prefix[position]] = kept

    found, counts = search_of(model, [len(prefix)], Scripted(lambda _: []), of=lambda _: (prefix, ban_))
    assert found[0].ids == prefix
    assert counts.passes == 1
    assert counts.repeated == 0
    gains = [torch.log_softmax(model.logits(0, [BOS, *prefix[:i]]), -1)[token] for i, token in enumerate(prefix)]
    end = torch.log_softmax(model.logits(0, [BOS, *prefix]), -1)
    end[[PAD, BOS]] = -math.inf
    expected = sum(map(float, gains)) + (float(end[EOS]) if found[0].finished else 0.0)
    assert found[0].log_probability == pytest.approx(expected, abs=1e-4)


# --- drafts without training ----------------------------------------------------------------------------------


def output(read: list[int], source: Sequence[int] = (20,), guesses: Sequence[int] = ()) -> Output:
    return Output(0, source, 50, [BOS, *read], 1, guesses=list(guesses))


def proposed(memory: OutputMemory, of: Output, most: int = 8) -> list[int]:
    [found] = OnlineDrafter(memory).propose([of], most, lambda: None)
    return [each.token for each in found]


def test_what_followed_before_is_proposed_the_longest_match_first() -> None:
    memory = OutputMemory()
    assert proposed(memory, output([7])) == [20], "a new token of the source is a translation of itself"
    for _ in range(3):
        memory.learn([30, 31, 32, 33], [5, 6, 7, 8])
    memory.learn([40, 31, 32, 41], [9, 6, 7, 10])
    assert proposed(memory, output([5, 6], [30, 31, 32, 33])) == [7, 8]  # and then EOS
    assert proposed(memory, output([5, 6], [30, 31, 32, 33]), most=1) == [7]
    assert proposed(memory, output([9, 6], [40, 31, 32, 41])) == [7, 10]


def test_the_source_decides_among_what_followed() -> None:
    """5 was followed by 6 for the source 30, and as often by 7 for the source 31."""
    memory = OutputMemory()
    for _ in range(4):
        memory.learn([29, 30], [5, 6])
        memory.learn([29, 31], [5, 7])
    assert proposed(memory, output([5], [29, 30]), most=1) == [6]
    assert proposed(memory, output([5], [29, 31]), most=1) == [7]


def test_word_translations_are_counted_by_position_and_by_what_else_explains_a_token() -> None:
    """The first token of a pair is 30 → 5 and 31 → 6, in 30 alone, and in both."""
    memory = OutputMemory()
    memory.learn([30], [5])
    assert memory.translations(30) == {5: 1.0}
    memory.learn([30, 31], [5, 6])
    # For 5: (1 + 0.02) / 2 at 30, and 0.02 / 1 × exp(-1/4) at 31. For 6: 0.02 / 2 × exp(-1/4) at 30, 0.02 at 31.
    near = math.exp(-1 / 4)
    five = 0.51 / (0.51 + 0.02 * near)
    six = 0.01 * near / (0.01 * near + 0.02 + 1e-30)
    third = (1 - five + 0.02) / 1  # 31 has a part of 5 already when it meets 6, though that is another token
    assert third > 0.02
    assert memory.translations(30) == pytest.approx({5: (1 + five) / 2, 6: six / 2}, rel=1e-6)
    assert memory.translations(31) == pytest.approx({6: 1 - six}, rel=1e-6)  # 5 is below the least share


def test_what_the_last_pass_said_is_proposed_where_nothing_else_is_known() -> None:
    memory = OutputMemory()
    memory.learn([30], [9])
    assert proposed(memory, output([7], [30], [8, 6]))[0] in (8, 9)
    assert proposed(memory, output([9, 7], [30], [8, 6]), most=2) == [8, 6]


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.decoding.online_drafts._MOST_KEPT", 10)
    memory = OutputMemory()
    for first in range(5, 500, 5):
        memory.learn([first], [first, first + 1, first + 2])
    assert len(memory._following) <= 10
    assert len(memory._words) <= 10
    assert proposed(memory, output([495, 496], [495]), most=1) == [497]
    assert memory.translations(5) == {5: 1.0}, "forgotten"


def test_what_is_known_of_one_token_is_bounded_and_its_commonest_stay() -> None:
    """The word 30 always becomes 5, and then 9 every other time; else something new."""
    memory = OutputMemory()
    for new in range(100, 500):
        memory.learn([30], [5, 9 if new % 2 else new])
    assert len(memory._words[30].became) <= 128
    assert all(len(after.counts) <= 128 for after in memory._following.values())
    assert memory.translations(30) == pytest.approx({5: 1.0, 9: 0.5})
    assert proposed(memory, output([5], [30]), most=1) == [9]
