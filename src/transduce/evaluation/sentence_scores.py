"""Scores of single sentences, to rank translations of one source: too coarse to report."""

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

_BLEU = BLEU(effective_order=True, force=True)  # a sentence of three words has no 4-grams
_CHRF = CHRF()


def sentence_bleu(hypothesis: str, reference: str) -> float:
    """Returns smoothed BLEU of one sentence, from 0 to 100: sacreBLEU's, with exponential smoothing."""
    return float(_BLEU.sentence_score(hypothesis, [reference]).score)


def sentence_chrf(hypothesis: str, reference: str) -> float:
    """Returns chrF2 of one sentence, from 0 to 100."""
    return float(_CHRF.sentence_score(hypothesis, [reference]).score)
