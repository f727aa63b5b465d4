"""An evaluation: several metrics of one test set, and warnings about what was compared."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypedDict, Unpack

from transduce.errors import EvaluationError, suggestion
from transduce.evaluation.bleu import Score, bleu, chrf, paper_bleu, tokenized_bleu
from transduce.evaluation.leakage import leakage_warnings
from transduce.evaluation.text_warnings import copied_share, copy_warnings, text_warnings
from transduce.evaluation.texts import Text, require_aligned
from transduce.reporting.tables import counted

Lines = Sequence[str]


class MetricOptions(TypedDict, total=False):
    """Options of every metric, all False by default.

    Attributes:
        lowercase: Whether case is ignored.
        confidence: Whether to add 95 % confidence intervals.
    """

    lowercase: bool
    confidence: bool


class ScoreOptions(MetricOptions, total=False):
    """Options of `evaluate`.

    Attributes:
        language: Code of the target language, for the paper's BLEU. Default: "", unknown.
        tokenized: Whether the text is tokenised already: BLEU then takes its tokens as they are. Default: False.
    """

    language: str
    tokenized: bool


def _score(
    metric: str,
    hypotheses: Lines,
    references: Sequence[Lines],
    *,
    language: str = "",
    tokenized: bool = False,
    **options: Unpack[MetricOptions],
) -> Score:
    require_metrics([metric], tokenized=tokenized)
    match metric:
        case "chrf" | "chrf++":
            return chrf(hypotheses, references, word_order=2 if metric == "chrf++" else 0, **options)
        case "bleu-paper":
            return paper_bleu(hypotheses, references, language=language, tokenized=tokenized, **options)
        case "bleu" if tokenized:
            return tokenized_bleu(hypotheses, references, **options)
        case _:
            return bleu(hypotheses, references, tokenizer=_TOKENIZERS.get(metric, ""), **options)


_TOKENIZERS = {f"bleu-{name}": name for name in ("13a", "intl", "zh", "char", "ja-mecab", "ko-mecab")}
METRICS: dict[str, Callable[..., Score]] = {
    name: partial(_score, name) for name in ("bleu", *_TOKENIZERS, "bleu-paper", "chrf", "chrf++")
}
"""Each takes the hypotheses, the references, and `ScoreOptions` as keywords."""


def require_metrics(names: Sequence[str], *, tokenized: bool = False) -> None:
    """Raises EvaluationError if a metric is unknown, or tokenises text that is tokenised already: before long work."""
    for name in names:
        if name not in METRICS:
            raise EvaluationError(f"unknown metric {name!r}: use {', '.join(METRICS)}.{suggestion(name, METRICS)}")
    if tokenized and (name := next((name for name in names if name in _TOKENIZERS), "")):
        raise EvaluationError(f"{name} tokenises by itself: leave out --tokenized, or use the metric 'bleu'.")


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The scores of one hypothesis file, and warnings about what was compared."""

    num_lines: int
    num_references: int
    scores: dict[str, Score]  # by name of the metric, in the order requested
    warnings: tuple[str, ...] = ()
    copied_share: float | None = None  # share of lines copied from the source; None without a source

    def to_dict(self) -> dict[str, Any]:
        """Returns the evaluation for JSON."""
        return {
            "num_lines": self.num_lines,
            "num_references": self.num_references,
            "scores": {name: score.to_dict() for name, score in self.scores.items()},
            "copied_share": self.copied_share,
            "warnings": list(self.warnings),
        }

    def to_text(self) -> str:
        """Returns the scores as a few lines of text, without the warnings."""
        width = max(len(score.name) for score in self.scores.values())
        lines = []
        for score in self.scores.values():
            interval = ""
            if score.confidence is not None:
                interval = f"  (95 % interval: {score.resampled_mean:.2f} ± {score.confidence:.2f})"
            lines.append(f"{score.name:<{width}}  {score.value:6.2f}{interval}")
            lines += [f"    {extra}" for extra in (score.detail, score.signature) if extra]
        lines.append(f"{counted(self.num_lines, 'line')}, {counted(self.num_references, 'reference')}")
        return "\n".join(lines)


def evaluate(
    hypothesis: Text,
    references: Sequence[Text],
    *,
    source: Text | None = None,
    metrics: Sequence[str] = ("bleu", "chrf"),
    training: Mapping[str, Iterable[str]] | None = None,
    **options: Unpack[ScoreOptions],
) -> Evaluation:
    """Scores `hypothesis` against one or more references, and warns of problems with the texts.

    Args:
        hypothesis: The translations.
        references: One or more reference translations.
        source: What was translated, to count lines that were copied unchanged.
        metrics: Names in `METRICS`.
        training: The training data, lines by file name, to warn of test lines that are in it.
        **options: `language`, `tokenized`, `lowercase` and `confidence`: see `ScoreOptions`.

    Raises:
        EvaluationError: Line counts differ, there is nothing to score, or a metric is unknown.
    """
    tokenized, lowercase = options.get("tokenized", False), options.get("lowercase", False)
    require_metrics(metrics, tokenized=tokenized)
    if not metrics or not references:
        raise EvaluationError("nothing to compute: name at least one metric and one reference.")
    sources = [source] if source else []
    require_aligned(hypothesis, [*references, *sources])
    warnings = text_warnings(hypothesis, references, tokenized=tokenized, lowercase=lowercase)
    share = copied_share(hypothesis, source) if source else None
    if source and share is not None:
        warnings += copy_warnings(hypothesis, source, share)
    if training:
        warnings += leakage_warnings([*sources, *references], training)
    reference_lines = [reference.lines for reference in references]
    return Evaluation(
        num_lines=len(hypothesis.lines),
        num_references=len(references),
        scores={name: METRICS[name](hypothesis.lines, reference_lines, **options) for name in metrics},
        warnings=tuple(warnings),
        copied_share=share,
    )
