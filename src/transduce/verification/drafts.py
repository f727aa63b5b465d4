"""Drafts change nothing: greedy search with them writes what it writes for each sentence alone."""

from dataclasses import replace
from typing import Literal

from transduce.config import DecodeConfig
from transduce.decoding.proposals import FasterWay, PassCosts
from transduce.engines.torch import TorchEngine
from transduce.engines.torch_drafts import Drafts
from transduce.reporting.tables import counted
from transduce.verification.differences import Differences
from transduce.verification.findings import Finding
from transduce.verification.model_under_test import ModelUnderTest

_BATCH_SIZES = (1, 8)
_FREE_TOKENS = PassCosts([(1, 1.0), (1000, 1.0)])  # so that as much as possible is proposed


class _AlwaysDrafts(FasterWay):
    def __call__(self, kind: object) -> bool:
        return True


def propose_always(drafts: Drafts) -> None:
    """Makes every search one with drafts, and every pass propose as much as it may, whatever it costs."""
    drafts.costs, drafts.faster = _FREE_TOKENS, _AlwaysDrafts()


def drafts(tested: ModelUnderTest) -> Finding:
    """Compares the outputs with those of greedy search without drafts, one sentence at a time.

    All sentences are translated twice: the second time, n-grams know the outputs.
    """
    if tested.bundle.config.model.attention_window:
        return Finding("", skipped="there are no drafts with model.attention_window")
    search, seen, options = tested.search, Differences(), tested.options
    one_beam = DecodeConfig(
        beam_size=1, length_penalty=options.length_penalty, max_extra_tokens=options.max_extra_tokens, batch_size=1
    )
    expected = search.engine.translate(search.sources, one_beam)
    ways: list[Literal["self", "blockwise"]] = ["self"]
    if tested.engine.model.block_heads is not None:
        ways.append("blockwise")
    figures = []
    for way in ways:
        tags = tested.bundle.tokenizer.target.tags.values()
        engine = TorchEngine(tested.engine.model, tags=tags, record_steps=False, prepacking=False)
        found = engine.use_drafts(way, tested.plain, "float32")
        propose_always(found)
        for size in _BATCH_SIZES * 2:
            outputs = tested.begun(engine).translate(search.sources, replace(one_beam, batch_size=size))
            for index, ([one], [two]) in enumerate(zip(expected, outputs, strict=True)):
                search.same(index, one, two, f"without drafts and with {way} at batch size {size}", seen)
        figures.append(f"{way}: {found.counts.tokens_a_pass:.2f} tokens a pass, {found.counts.repeated} computed again")
    sizes = " and ".join(map(str, _BATCH_SIZES))
    return seen.finding(
        f"{counted(len(expected), 'sentence')} at batch size {sizes}", search.tolerance, "; ".join(figures)
    )
