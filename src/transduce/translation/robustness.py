"""How well a model translates text that is not clean: scores of several versions of each test set.

translator = Translator.load("runs/many/model")
measured = score_robustness(translator, read_test_sets(translator.bundle.config.data))
print(robustness_table(measured))
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from transduce.config import DecodeConfig
from transduce.data.modifiers.perturbations import Version, versions
from transduce.evaluation import Score, Text, evaluate
from transduce.evaluation.evaluation import ScoreOptions, require_metrics
from transduce.reporting.tables import table
from transduce.translation.pipeline import TextOptions
from transduce.translation.pipeline.guard import repeats
from transduce.translation.set_scores import (
    EvaluationSet,
    metric_names,
    require_directions,
    score_options,
    translate_set,
)
from transduce.translation.translator import Translator

__all__ = ["VersionScores", "robustness_table", "score_robustness"]


@dataclass(frozen=True, kw_only=True)
class VersionScores:
    """What was measured of one version of a test set.

    Attributes:
        name: of the test set.
        version: "clean", "typos", …: see docs/guides/robustness.md.
        num_lines: lines translated.
        scores: by the names of metrics.
        kept_share: of the lines with something to copy, those whose translation has it to the letter; None: no line
            has.
        loop_share: of all lines, those whose translation repeats itself.
        warnings: about the texts of the clean version, such as that they are tokenized.
    """

    name: str
    version: str
    num_lines: int
    scores: dict[str, Score]
    kept_share: float | None
    loop_share: float
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Returns the scores for JSON."""
        return asdict(self)


def score_robustness(
    translator: Translator,
    sets: Sequence[EvaluationSet],
    *,
    search: DecodeConfig | None = None,
    metrics: Sequence[str] = ("bleu", "chrf"),
    progress: bool = False,
    text_options: TextOptions | None = None,
    options: ScoreOptions | None = None,
) -> list[VersionScores]:
    """Translates each set in all its versions, without the stages that protect items and catch loops.

    For the arguments and errors see `transduce.translation.set_scores.score_sets`.
    """
    require_metrics(metrics, tokenized=(options or {}).get("tokenized", False))
    found = []
    for each, direction in zip(sets, require_directions(translator, sets), strict=True):
        chosen = score_options(each, direction, options)
        for version in versions(each.source.lines, [reference.lines for reference in each.references]):
            lines = [line.source for line in version.lines]
            perturbed = replace(each, name=f"{each.name}, {version.name}", source=Text(each.source.name, lines))
            written = translate_set(translator, perturbed, search, progress, text_options)
            columns = zip(*(line.references for line in version.lines), strict=True)
            references = [Text("reference", column) for column in columns]
            evaluation = evaluate(Text("translation", written), references, metrics=metrics, **chosen)
            looped = sum(repeats(text, source) for text, source in zip(written, lines, strict=True))
            found.append(
                VersionScores(
                    name=each.name,
                    version=version.name,
                    num_lines=len(lines),
                    scores=evaluation.scores,
                    kept_share=_kept_share(version, written),
                    loop_share=looped / len(lines),
                    warnings=evaluation.warnings if version.name == "clean" else (),
                )
            )
    return found


def _kept_share(version: Version, written: Sequence[str]) -> float | None:
    """Returns in how many translations is what they must hold; None if no line has anything to keep."""
    pairs = [(line.kept, text) for line, text in zip(version.lines, written, strict=True) if line.kept]
    if not pairs:
        return None
    return sum(kept == text if version.whole else kept in text for kept, text in pairs) / len(pairs)


def robustness_table(measured: Sequence[VersionScores]) -> str:
    """Returns a Markdown table with a row for each version of each set, and below it the signature of each metric."""
    names = metric_names(each.scores for each in measured)
    rows = [
        [
            each.name,
            each.version,
            f"{each.num_lines:,}",
            *(f"{score.value:.2f}" for score in each.scores.values()),
            "–" if each.kept_share is None else f"{each.kept_share:.1%}",
            f"{each.loop_share:.1%}",
        ]
        for each in measured
    ]
    drawn = table(["test set", "version", "lines", *names, "copied", "loops"], rows, text_columns=2)
    signatures = dict.fromkeys(f"{s.name}: {s.signature}" for each in measured for s in each.scores.values())
    return "\n".join([drawn, "", *signatures])
