"""BLEU and chrF, computed by sacreBLEU, each with the signature that says exactly what was computed.

Several different scores are called BLEU. They differ by points on the same output and cannot be compared:

- `bleu`: sacreBLEU's own. Detokenised text in, tokenised by the metric: by "13a", as at WMT, by "zh" if the references
  are Chinese, and into characters ("char") if they are Japanese, Thai or the like, which have no words between spaces.
- `tokenized_bleu`: on text that is tokenised already, as `multi-bleu.perl` computes it.
- `paper_bleu`: as the paper's authors did (`transduce.evaluation.paper_tokens`).
- any of them lowercased.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from transduce.errors import EvaluationError
from transduce.evaluation.paper_tokens import normalize_quotes, paper_tokens, split_compounds
from transduce.text.languages import without_region
from transduce.text.phrases import HAN, UNSPACED

_NUM_RESAMPLES = 1000
_UNSPACED, _CHINESE = re.compile(f"[{UNSPACED}]"), re.compile(f"[{HAN}]")
_CHINESE_SHARE = 0.9  # of the letters; Japanese has kana among them


@dataclass(frozen=True, kw_only=True)
class Score:
    """One metric's value over a whole test set, from 0 to 100."""

    name: str
    value: float
    signature: str
    detail: str = ""  # BLEU: the four precisions, brevity penalty, length ratio and lengths
    length_ratio: float | None = None  # BLEU: tokens of the hypotheses over those of the references
    confidence: float | None = None  # half the width of the 95 % interval
    resampled_mean: float | None = None  # the middle of that interval

    def to_dict(self) -> dict[str, Any]:
        """Returns the score for JSON, without values that were not computed."""
        return {key: value for key, value in asdict(self).items() if value not in (None, "")}


class _Chrf(CHRF):
    """sacreBLEU's chrF with scores that are plain floats: its bootstrap fails where only some samples score 0."""

    def _compute_score_from_stats(self, statistics: list[int]) -> Any:
        result = super()._compute_score_from_stats(statistics)
        result.score = float(result.score)
        return result


Metric = Callable[[Sequence[str], Sequence[Sequence[str]]], Score]  # of hypotheses, and a list of references


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    tokenizer: str = "",
    lowercase: bool = False,
    confidence: bool = False,
) -> Score:
    """Returns sacreBLEU's BLEU of detokenised text.

    Args:
        hypotheses: One line for each source line.
        references: One sequence of lines for each reference translation.
        tokenizer: A tokenizer of sacreBLEU, such as "13a"; "": as the script of the references needs it.
        lowercase: Whether case is ignored.
        confidence: Whether to add a 95 % confidence interval by bootstrap resampling.

    Raises:
        EvaluationError: Line counts differ, there are no lines, or the tokenizer is unknown or not installed.
    """
    _require_lists(hypotheses, references)
    tokenizer = tokenizer or _tokenizer_for(references)
    if tokenizer not in BLEU.TOKENIZERS:
        raise EvaluationError(f"unknown tokenizer {tokenizer!r}: use one of {', '.join(sorted(BLEU.TOKENIZERS))}.")
    try:
        metric = BLEU(tokenize=tokenizer, lowercase=lowercase, force=True)  # our own checks warn of tokenised text
    except (ImportError, RuntimeError) as error:
        raise EvaluationError(
            f"sacreBLEU cannot load its tokenizer {tokenizer!r}: {' '.join(str(error).split())}"
        ) from None
    return _score(metric, hypotheses, references, confidence)


def _tokenizer_for(references: Sequence[Sequence[str]]) -> str:
    """Returns the tokenizer for the script that most letters of the references have."""
    text = "".join(line for lines in references for line in lines)
    num_unspaced = len(_UNSPACED.findall(text))
    if 2 * num_unspaced <= sum(map(str.isalpha, text)):
        return "13a"
    return "zh" if len(_CHINESE.findall(text)) >= _CHINESE_SHARE * num_unspaced else "char"


def tokenized_bleu(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, lowercase: bool = False, confidence: bool = False
) -> Score:
    """Returns BLEU of text that is already tokenised: tokens are separated by spaces."""
    score = bleu(hypotheses, references, tokenizer="none", lowercase=lowercase, confidence=confidence)
    return replace(score, name="BLEU, tokens as given")


def paper_bleu(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    language: str = "",
    tokenized: bool = False,
    lowercase: bool = False,
    confidence: bool = False,
) -> Score:
    """Returns BLEU the paper's way (§6.1): quotes normalised, tokenised as by Moses, compounds split.

    Args:
        hypotheses: One line for each source line.
        references: One sequence of lines for each reference translation.
        language: Code of the target language, region and script do not matter; it determines how apostrophes are split.
        tokenized: Whether the text is tokenised already; then it is not tokenised again.
        lowercase: Whether case is ignored; the paper's scores are cased.
        confidence: Whether to add a 95 % confidence interval by bootstrap resampling.
    """

    language = without_region(language)

    def prepared(lines: Sequence[str]) -> list[str]:
        if tokenized:
            return [split_compounds(normalize_quotes(line)) for line in lines]
        return [paper_tokens(line, language) for line in lines]

    _require_lists(hypotheses, references)
    metric = BLEU(tokenize="none", lowercase=lowercase, force=True)
    score = _score(metric, prepared(hypotheses), [prepared(lines) for lines in references], confidence)
    tokens = "none" if tokenized else f"moses-like{'-' if language else ''}{language}"
    signature = score.signature.replace("tok:none", f"tok:{tokens}+quotes+atat")
    return replace(score, name="BLEU, the paper's way", signature=signature)


def chrf(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    word_order: int = 0,
    lowercase: bool = False,
    confidence: bool = False,
) -> Score:
    """Returns chrF2, or with `word_order=2` chrF2++. Spaces do not count, so tokenisation matters little."""
    metric = _Chrf(word_order=word_order, lowercase=lowercase)
    return _score(metric, hypotheses, references, confidence)


def _require_lists(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Raises TypeError where a string is given for lines: each of its characters would be one."""
    if any(isinstance(lines, str) for lines in (hypotheses, references, *references)):
        raise TypeError("Give a list of hypotheses, and a list of lists of references: [lines] for a single reference.")


def _score(
    metric: BLEU | CHRF, hypotheses: Sequence[str], references: Sequence[Sequence[str]], confidence: bool
) -> Score:
    _require_lists(hypotheses, references)
    counts = [len(lines) for lines in references]
    if not counts or any(count != len(hypotheses) for count in counts):
        raise EvaluationError(f"{len(hypotheses)} hypotheses cannot be compared with references of {counts} lines.")
    if not hypotheses:
        raise EvaluationError("there are no lines to score.")
    result = metric.corpus_score(hypotheses, references, n_bootstrap=_NUM_RESAMPLES if confidence else 1)
    tokens = f", {metric.tokenizer_signature}" if isinstance(metric, BLEU) else ""
    verbose = getattr(result, "_verbose", "") if isinstance(metric, BLEU) else ""
    return Score(
        name=f"{result.name}{tokens}",
        value=float(result.score),
        signature=str(metric.get_signature()),
        detail=verbose,
        length_ratio=float(result.ratio) if isinstance(metric, BLEU) else None,
        confidence=float(result._ci) if confidence else None,
        resampled_mean=float(result._mean) if confidence else None,
    )
