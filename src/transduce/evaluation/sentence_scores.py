"""Scores of single sentences, to rank translations of one source: too coarse to report."""

from functools import cache

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF


@cache
def _bleu() -> BLEU:
    return BLEU(effective_order=True, force=True)  # a sentence of three words has no 4-grams


@cache
def _chrf() -> CHRF:
    return CHRF()


def sentence_bleu(hypothesis: str, reference: str) -> float:
    """Returns smoothed BLEU of one sentence, from 0 to 100: sacreBLEU's, with exponential smoothing."""
    return float(_bleu().sentence_score(hypothesis, [reference]).score)


def sentence_chrf(hypothesis: str, reference: str) -> float:
    """Returns chrF2 of one sentence, from 0 to 100."""
    return float(_chrf().sentence_score(hypothesis, [reference]).score)
