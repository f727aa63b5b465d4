"""A search over a part of the vocabulary: each sentence is searched in its own part, also after others have ended."""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from transduce.decoding.narrowing import NarrowState, VocabularyPart, narrow_step
from transduce.decoding.scores import Hypothesis

# Of 10 ids, three sentences may use these, beside the special ids 0 to 3; the union is 0 1 2 3 5 6 8 9.
_PARTS = [[5, 8], [6], [9]]


@dataclass(frozen=True)
class _Calls:
    """A state that remembers what was asked of it."""

    calls: list[tuple[str, object]] = field(default_factory=list)

    def _with(self, name: str, value: object) -> Self:
        return replace(self, calls=[*self.calls, (name, value)])

    def expand(self, num_beams: int) -> Self:
        return self._with("expand", num_beams)

    def reorder(self, rows_R: Tensor) -> Self:
        return self._with("reorder", rows_R.tolist())

    def keep(self, sentences_B: Tensor) -> Self:
        return self._with("keep", sentences_B.tolist())


def _part() -> VocabularyPart:
    allowed_BV = np.zeros((3, 10), bool)
    allowed_BV[:, :4] = True
    for sentence, ids in enumerate(_PARTS):
        allowed_BV[sentence, ids] = True
    return VocabularyPart.of(allowed_BV, torch.device("cpu"))


def test_a_part_is_the_union_with_the_special_ids() -> None:
    part = _part()
    assert part.ids.tolist() == [0, 1, 2, 3, 5, 6, 8, 9]
    assert (part.columns([9, 2, 6]), part.columns([])) == ((7, 2, 5), ())
    assert part.with_ids(Hypothesis([4, 7, 2], -1.0, -1.0, finished=True)).ids == [5, 9, 2]
    none = VocabularyPart.of(np.zeros((1, 10), bool), torch.device("cpu"))
    assert none.ids.tolist() == [0, 1, 2, 3]


def test_each_sentence_keeps_its_own_part_when_others_have_ended() -> None:
    part, fed = _part(), []

    def step(tokens_R: Tensor, state: _Calls) -> tuple[Tensor, _Calls]:
        fed.append(tokens_R.tolist())
        return torch.zeros(len(tokens_R), len(part.ids)), state

    narrow, state = narrow_step(step, part), NarrowState(_Calls(), ~part.allowed_BN)

    def seen(logits_RN: Tensor) -> list[list[int]]:
        """Returns the ids behind the special ones that each row may write."""
        return [part.ids[4:][(row[4:] == 0).numpy()].tolist() for row in logits_RN]

    logits, state = narrow(torch.tensor([4, 5, 7]), state)
    assert fed == [[5, 6, 9]]
    assert seen(logits) == _PARTS
    state = state.expand(2).reorder(torch.tensor([1, 0, 3, 2, 4, 5]))
    logits, state = narrow(torch.tensor([2] * 6), state)
    assert seen(logits) == [part for part in _PARTS for _ in range(2)]
    state = state.keep(torch.tensor([2, 0]))
    logits, state = narrow(torch.tensor([2] * 4), state)
    assert seen(logits) == [[9], [9], [5, 8], [5, 8]]
    assert state.inner.calls == [("expand", 2), ("reorder", [1, 0, 3, 2, 4, 5]), ("keep", [2, 0])]
