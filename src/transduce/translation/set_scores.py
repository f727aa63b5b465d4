"""How well a model translates several sets of pairs, each in its own direction: scores set by set.

translator = Translator.load("runs/many/model")
scores = score_sets(translator, read_test_sets(translator.bundle.config.data))
print(scores_table(scores))
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transduce.config import DataConfig, DecodeConfig
from transduce.data.corpus import Part, locate_tests
from transduce.data.progress import progress_bar
from transduce.data.swapped_sides import side_names
from transduce.errors import ConfigError, DataError, suggestion
from transduce.evaluation import Evaluation, Score, Text, evaluate
from transduce.evaluation.evaluation import ScoreOptions, require_metrics
from transduce.evaluation.texts import require_aligned
from transduce.reporting.tables import short, table
from transduce.text.languages import language_of
from transduce.translation.directions import Direction
from transduce.translation.forced_scores import ScoreSummary
from transduce.translation.pipeline import TextOptions
from transduce.translation.translator import Translator

__all__ = ["EvaluationSet", "SetScores", "read_test_sets", "score_sets", "scores_table"]


@dataclass(frozen=True, kw_only=True)
class EvaluationSet:
    """Sources and references, and the direction that leads from one to the other.

    Attributes:
        name: in reports.
        source: what is translated.
        references: one or more; the perplexity is that of the first.
        source_language: its code; "" where it is not known.
        target_language: likewise; "" is the model's default.
        domain: "" for none.
    """

    name: str
    source: Text
    references: Sequence[Text]
    source_language: str = ""
    target_language: str = ""
    domain: str = ""

    @property
    def texts(self) -> list[Text]:
        """Source and references."""
        return [self.source, *self.references]


@dataclass(frozen=True, kw_only=True)
class SetScores:
    """What was measured of one set."""

    name: str
    direction: Direction
    perplexity: float  # of a subword of the first reference, the end mark included
    subwords: int
    evaluation: Evaluation

    @property
    def pair(self) -> str:
        """The languages in words, zero-shot pairs marked."""
        languages = f"{self.direction.source or '?'} → {self.direction.target or '?'}"
        return f"{languages} (zero-shot)" if self.direction.zero_shot else languages

    def to_dict(self) -> dict[str, Any]:
        """Returns the scores for JSON."""
        direction = self.direction
        return {
            "name": self.name,
            "source_language": direction.source,
            "target_language": direction.target,
            "domain": direction.domain,
            "zero_shot": direction.zero_shot,
            "perplexity": self.perplexity,
            "subwords": self.subwords,
            **self.evaluation.to_dict(),
        }


def read_test_sets(data: DataConfig, names: Sequence[str] = ()) -> list[EvaluationSet]:
    """Reads the test sets of a recipe.

    Args:
        data: names them, and the folder where they are.
        names: of those to read; empty: all.

    Raises:
        ConfigError: the recipe is a parser's, has no test sets, has none of such a name, or has several target
            languages and does not say which a set is in.
        DataError: a file is missing or damaged, or two files differ in their number of lines.
    """
    if data.format == "trees":
        raise ConfigError("data.format = 'trees': 'transduce parse score' scores a parser.")
    known = {each.name: each for each in data.test_corpora}
    if not known:
        raise ConfigError(
            "The recipe names no test sets (data.test, data.test_sets). Give --source and --reference, or a recipe "
            "that names some: --recipe FILE."
        )
    for name in names:
        if name not in known:
            raise ConfigError(f"There is no test set '{name}'; there are: {', '.join(known)}.{suggestion(name, known)}")
    parts = locate_tests(data)
    sets = []
    for each in (known[name] for name in dict.fromkeys(names or known)):
        if data.tagged_languages and not each.target_language:
            raise ConfigError(
                f"test set '{each.name}': does not say which of the target languages it is in "
                f"({', '.join(data.tagged_languages)}). Write it as [[data.test_sets]] with target_language."
            )
        paths = parts[each.name].paths
        if missing := next((path for path in paths if not path.is_file()), None):
            raise DataError(f"test set '{each.name}': {missing}: no such file. Name its folder: --corpus DIR.")
        source, reference = _read_sides(parts[each.name])
        sets.append(
            EvaluationSet(
                name=each.name,
                source=source,
                references=[reference],
                source_language=each.source_language,
                target_language=each.target_language,
                domain=each.domain,
            )
        )
    return sets


def _read_sides(part: Part) -> tuple[Text, Text]:
    names = side_names(part)
    pairs = list(part.open())
    return Text(names[0], [source for source, _ in pairs]), Text(names[1], [target for _, target in pairs])


def score_sets(
    translator: Translator,
    sets: Sequence[EvaluationSet],
    *,
    search: DecodeConfig | None = None,
    metrics: Sequence[str] = ("bleu", "chrf"),
    progress: bool = False,
    text_options: TextOptions | None = None,
    options: ScoreOptions | None = None,
) -> list[SetScores]:
    """Translates the sources of each set in its direction and scores them against its references.

    Args:
        translator: the model.
        sets: what to translate. A pair of languages that the model was not trained on is translated all the same.
        search: how to search; None: as the model's configuration says.
        metrics: names in `transduce.evaluation.METRICS`.
        progress: whether to show progress on standard error.
        text_options: what is done around the search, in the direction of each set; None: nothing.
        options: see `transduce.evaluation.evaluate`; `language` is that of each set unless it is given; where it is
            not known, the ending of the reference's name says it, as of test.fr.

    Raises:
        ConfigError: the model does not know a language or domain; nothing was translated.
        DataError: a first reference is longer than the model's positions reach; nothing was translated.
        EvaluationError: the sides of a set differ in their number of lines, a metric is unknown, or tokenises text
            that is tokenised already; nothing was translated.
    """
    require_metrics(metrics, tokenized=(options or {}).get("tokenized", False))
    directions = require_directions(translator, sets)
    summaries = [reference_scores(translator, each) for each in sets]
    found = []
    for each, direction, measured in zip(sets, directions, summaries, strict=True):
        written = translate_set(translator, each, search, progress, text_options)
        hypothesis = Text(f"the translation of {each.source.name}", written)
        chosen = score_options(each, direction, options)
        evaluation = evaluate(hypothesis, each.references, source=each.source, metrics=metrics, **chosen)
        found.append(
            SetScores(
                name=each.name,
                direction=direction,
                perplexity=measured.perplexity,
                subwords=measured.pieces,
                evaluation=evaluation,
            )
        )
    return found


def reference_scores(translator: Translator, each: EvaluationSet) -> ScoreSummary:
    """Returns the scores that the model gives to the first reference of a set.

    Raises:
        DataError: a line is longer than the model's positions reach.
    """
    summary, reference = ScoreSummary(), each.references[0]
    try:
        scores = translator.score(
            each.source.lines,
            reference.lines,
            source_language=each.source_language,
            target_language=each.target_language,
            domain=each.domain,
        )
    except DataError as error:
        raise DataError(f"{reference.name}: {error}") from None
    summary.add(scores)
    return summary


def require_directions(translator: Translator, sets: Sequence[EvaluationSet]) -> list[Direction]:
    """Returns the direction of each set; for the errors see `score_sets`."""
    directions = []
    for each in sets:
        try:
            directions.append(translator.directions.choose(each.source_language, each.target_language, each.domain))
        except ConfigError as error:
            raise ConfigError(f"test set '{each.name}': {error}") from None
    for each in sets:
        require_aligned(each.source, each.references)
    return directions


def score_options(each: EvaluationSet, direction: Direction, given: ScoreOptions | None) -> ScoreOptions:
    """Returns options for `evaluate`; the language is that of the direction, or the ending of the reference's name."""
    language = direction.target or language_of(Path(each.references[0].name))
    return {"language": language, **(given or {})}


def translate_set(
    translator: Translator,
    each: EvaluationSet,
    search: DecodeConfig | None,
    progress: bool,
    text_options: TextOptions | None = None,
) -> list[str]:
    """Returns the best translation of each source of a set."""
    texts = replace(
        text_options or TextOptions(),
        language=each.source_language,
        target=each.target_language,
        domain=each.domain,
    )
    lines = []
    with progress_bar(f"translating {each.name}", len(each.source.lines), unit=" lines", shown=progress) as bar:
        for best, *_ in translator.stream(each.source.lines, options=search, text_options=texts):
            lines.append(best.text)
            bar.update()
    return lines


def scores_table(scores: Sequence[SetScores]) -> str:
    """Returns a Markdown table with a row for each set, and below it the signature of each metric."""
    with_domains = any(each.direction.domain for each in scores)
    names = metric_names(each.evaluation.scores for each in scores)
    header = ["test set", "languages", *["domain"] * with_domains, "lines", "perplexity", *names]
    rows = [
        [
            each.name,
            each.pair,
            *[each.direction.domain] * with_domains,
            f"{each.evaluation.num_lines:,}",
            short(each.perplexity),
            *map(_shown, each.evaluation.scores.values()),
        ]
        for each in scores
    ]
    drawn = table(header, rows, text_columns=2 + with_domains)
    signatures = dict.fromkeys(
        f"{score.name}: {score.signature}" for each in scores for score in each.evaluation.scores.values()
    )
    return "\n".join([drawn, "", *signatures])


def metric_names(scores: Iterable[Mapping[str, Score]]) -> list[str]:
    """Returns the names above the columns of scores: of a metric all that the sets have, "BLEU, 13a; BLEU, zh"."""
    columns = zip(*(each.values() for each in scores), strict=True)
    return ["; ".join(dict.fromkeys(score.name for score in column)) for column in columns]


def _shown(score: Score) -> str:
    interval = f" ± {score.confidence:.2f}" if score.confidence is not None else ""
    return f"{score.value:.2f}{interval}"
