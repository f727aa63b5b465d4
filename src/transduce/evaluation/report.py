"""An evaluation: several metrics of one test set, and what a reader should know before trusting them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transduce.errors import EvaluationError, suggestion
from transduce.evaluation.bleu import Score, bleu, chrf, paper_bleu, tokenized_bleu
from transduce.evaluation.doubts import (
    copied_share,
    doubts_about_case,
    doubts_about_copies,
    doubts_about_empty,
    doubts_about_tokens,
)
from transduce.evaluation.leaks import doubts_about_leaks
from transduce.reporting.tables import counted


@dataclass(frozen=True)
class Text:
    """Lines, and the name that messages call them by, such as their file's."""

    name: str
    lines: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class _Request:
    hypotheses: Sequence[str]
    references: Sequence[Sequence[str]]
    language: str
    tokenized: bool
    options: dict[str, Any]  # lowercase, confidence


def _bleu(request: _Request) -> Score:
    if request.tokenized:
        return tokenized_bleu(request.hypotheses, request.references, **request.options)
    return bleu(request.hypotheses, request.references, **request.options)


def _bleu_intl(request: _Request) -> Score:
    if request.tokenized:
        raise EvaluationError("bleu-intl tokenises by itself: leave out --tokenized, or use the metric 'bleu'.")
    return bleu(request.hypotheses, request.references, tokenizer="intl", **request.options)


def _bleu_paper(request: _Request) -> Score:
    return paper_bleu(
        request.hypotheses,
        request.references,
        language=request.language,
        tokenized=request.tokenized,
        **request.options,
    )


def _chrf(request: _Request) -> Score:
    return chrf(request.hypotheses, request.references, **request.options)


def _chrf_plus_plus(request: _Request) -> Score:
    return chrf(request.hypotheses, request.references, word_order=2, **request.options)


METRICS: dict[str, Callable[[_Request], Score]] = {
    "bleu": _bleu,
    "bleu-intl": _bleu_intl,
    "bleu-paper": _bleu_paper,
    "chrf": _chrf,
    "chrf++": _chrf_plus_plus,
}


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The scores of one hypothesis file, and warnings about what was compared."""

    num_lines: int
    num_references: int
    scores: dict[str, Score]  # by the metric's name in METRICS, in the order asked for
    warnings: tuple[str, ...] = ()
    copied_share: float | None = None  # share of lines left as they are in the source; None without a source

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
        """Returns the scores as a few lines to read; the warnings are not in it."""
        width = max(len(score.name) for score in self.scores.values())
        lines = []
        for score in self.scores.values():
            interval = ""
            if score.confidence is not None:
                interval = f"  (95 % interval: {score.resampled_mean:.2f} ± {score.confidence:.2f})"
            lines.append(f"{score.name:<{width}}  {score.value:6.2f}{interval}")
            lines += [f"    {extra}" for extra in (score.detail, score.signature) if extra]
        references = "1 reference" if self.num_references == 1 else f"{self.num_references} references"
        lines.append(f"{counted(self.num_lines, 'line')}, {references}")
        return "\n".join(lines)


def evaluate(
    hypothesis: Text,
    references: Sequence[Text],
    *,
    source: Text | None = None,
    metrics: Sequence[str] = ("bleu", "chrf"),
    language: str = "",
    tokenized: bool = False,
    lowercase: bool = False,
    confidence: bool = False,
    training: Mapping[str, Iterable[str]] | None = None,
) -> Evaluation:
    """Scores `hypothesis` against one or more references, and says what is doubtful about either.

    Args:
        hypothesis: The translations.
        references: One or more reference translations.
        source: What was translated, to count lines that were left as they are.
        metrics: Names in `METRICS`.
        language: ISO 639 code of the target language, for the paper's BLEU.
        tokenized: Whether the text is tokenised already: BLEU then takes its tokens as they are.
        lowercase: Whether case is ignored.
        confidence: Whether to add 95 % confidence intervals.
        training: What the model was trained with, lines by file name, to warn of test lines that stand there.

    Raises:
        EvaluationError: Line counts differ, there is nothing to score, or a metric is unknown.
    """
    for name in metrics:
        if name not in METRICS:
            raise EvaluationError(f"unknown metric {name!r}: use {', '.join(METRICS)}.{suggestion(name, METRICS)}")
    if not metrics or not references:
        raise EvaluationError("nothing to compute: name at least one metric and one reference.")
    require_aligned(hypothesis, [*references, source] if source else references)
    request = _Request(
        hypotheses=hypothesis.lines,
        references=[reference.lines for reference in references],
        language=language,
        tokenized=tokenized,
        options={"lowercase": lowercase, "confidence": confidence},
    )
    share = copied_share(hypothesis.lines, source.lines) if source else None
    warnings = _doubts(hypothesis, references, tokenized=tokenized, lowercase=lowercase)
    if source and share is not None:
        warnings += doubts_about_copies(hypothesis.name, source.name, share)
    if training:
        warnings += doubts_about_leaks([*([source] if source else []), *references], training)
    return Evaluation(
        num_lines=len(hypothesis.lines),
        num_references=len(references),
        scores={name: METRICS[name](request) for name in metrics},
        warnings=tuple(warnings),
        copied_share=share,
    )


def require_aligned(hypothesis: Text, others: Sequence[Text]) -> None:
    """Raises EvaluationError where the texts have not as many lines as each other, or none."""
    for other in others:
        if len(other.lines) != len(hypothesis.lines):
            raise EvaluationError(
                f"{hypothesis.name} has {counted(len(hypothesis.lines), 'line')} and {other.name} has "
                f"{len(other.lines):,}"
                ": line n of one must be the same sentence as line n of the other."
            )
    if not hypothesis.lines:
        raise EvaluationError(f"{hypothesis.name} has no lines: there is nothing to score.")


def _doubts(hypothesis: Text, references: Sequence[Text], *, tokenized: bool, lowercase: bool) -> list[str]:
    doubts: list[str] = []
    for text in (hypothesis, *references):
        doubts += doubts_about_empty(text.name, text.lines)
        doubts += doubts_about_tokens(text.name, text.lines, tokenized=tokenized)
    for reference in references:
        if not lowercase:
            doubts += doubts_about_case(hypothesis.name, hypothesis.lines, reference.name, reference.lines)
        if list(hypothesis.lines) == list(reference.lines):
            doubts.append(f"{hypothesis.name} and {reference.name} are the same text: is that what you meant?")
    return doubts
