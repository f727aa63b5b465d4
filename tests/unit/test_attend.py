"""What is attended to in a pair of texts: cut where the model ends to read, on each side by itself."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from text_engine import TextEngine, text_translator
from transduce.config import DecodeConfig
from transduce.decoding.scores import Hypothesis
from transduce.engines.interface import AttentionWeights
from transduce.errors import ConfigError, DataError
from transduce.translation.attention import attend

TOKENIZER = text_translator().tokenizer
OPTIONS = DecodeConfig(beam_size=3, max_tokens=9)


class Attending(TextEngine):
    """Attends to everything alike, and notes what it is asked for."""

    num_workers = batch_tokens = 1

    def __init__(self, limit: int) -> None:
        super().__init__(TOKENIZER, str.upper, limit)
        self.asked: list[Any] = []

    def next_scores(self, source: Sequence[int], prefix: Sequence[int]) -> np.ndarray:
        raise NotImplementedError

    def undivided(self) -> "Attending":
        return self

    def translate(
        self, sources: Sequence[Sequence[int]], options: DecodeConfig, n_best: int = 1, constraints: Any = None
    ) -> list[list[Hypothesis]]:
        self.asked.append((options, n_best))
        return [[Hypothesis(TOKENIZER.encode("a\nman"), 0.0, 0.0, finished=True)]]

    def attend(self, source: Sequence[int], target: Sequence[int]) -> AttentionWeights:
        self.asked.append((list(source), list(target)))
        s, t = len(source) + 1, len(target) + 1
        return AttentionWeights(np.ones((1, 2, s, s)), np.full((1, 2, t, t), 2.0), np.full((1, 2, t, s), 3.0))


@pytest.mark.parametrize(
    ("source", "target", "truncated"),
    [
        ("A dog", "Two dogs", (False, False)),  # two tokens each
        ("Two dogs run", "A dog", (True, False)),
        ("A dog", "Two dogs run", (False, True)),
        ("Two dogs run", "A dog runs", (True, True)),
    ],
)
def test_each_side_is_cut_where_the_model_ends_to_read(source: str, target: str, truncated: tuple[bool, bool]) -> None:
    engine = Attending(2)
    found = attend(cast(Any, SimpleNamespace(engine=engine, tokenizer=TOKENIZER)), OPTIONS, source, target)
    assert engine.asked == [(TOKENIZER.encode(source)[:2], TOKENIZER.encode(target)[:2])]
    assert (found.source, found.target) == (source, target)
    assert (found.source_truncated, found.target_truncated) == truncated
    first, second = ("▁" + "▁".join(text.split()[:2]) for text in (source, target))
    assert ("".join(found.source_pieces), "".join(found.target_pieces)) == (f"{first}</s>", f"{second}</s>")
    assert found.source_words == found.target_words == (0, 1, None)
    assert found.input_pieces == ("<s>", *found.target_pieces[:-1])
    assert (found.encoder.max(), found.decoder.max(), found.cross.max()) == (1.0, 2.0, 3.0)
    assert found.cross.shape == (1, 2, 3, 3)


def test_a_source_alone_is_translated_first() -> None:
    engine = Attending(100)
    model = cast(Any, SimpleNamespace(engine=engine, tokenizer=TOKENIZER))
    found = attend(model, OPTIONS, "A dog", None)
    assert found.target == "a man"  # on one line
    assert engine.asked == [(OPTIONS, 1), (TOKENIZER.encode("A dog"), TOKENIZER.encode("a\nman"))]
    assert repr(found).startswith("Attention('A dog' → 'a man', 3 → ")
    assert repr(found).endswith(" pieces, 1 layer of 2 heads)")
    for source in ("", " \t"):
        with pytest.raises(DataError, match="source is empty"):
            attend(model, OPTIONS, source, "a")
    plain = cast(Any, SimpleNamespace(engine=text_translator().engine, tokenizer=TOKENIZER))
    with pytest.raises(ConfigError, match=r"text: cannot tell its attention weights. Load with engine='torch'"):
        attend(plain, OPTIONS, "A dog", "a")
