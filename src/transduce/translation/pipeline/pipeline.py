"""The pipeline from lines to translations.

    lines → protect → split → search → guard → join → restore → translations

protect  tags and placeholders are set aside
split    long texts are cut into sentences
search   the model translates, within the constraints of the line
guard    outputs that loop or copy their source are searched for again
join     the sentences of a text are put together
restore  tags and placeholders are put back
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from transduce.config import DecodeConfig
from transduce.decoding.scores import Hypothesis
from transduce.translation.constraints.constrained_search import constrained_search, refusal
from transduce.translation.constraints.forced_terms import warnings_of_forced
from transduce.translation.constraints.glossary import Glossary
from transduce.translation.constraints.line_constraints import Constraints, with_terms
from transduce.translation.constraints.required_terms import Choice, outcome, warnings_of
from transduce.translation.pipeline.confidence import with_confidence, with_probabilities
from transduce.translation.pipeline.guard import guard
from transduce.translation.pipeline.joining import join
from transduce.translation.pipeline.protecting import attempts, protect
from transduce.translation.pipeline.restoring import assemble, restore
from transduce.translation.pipeline.splitting import Part, split
from transduce.translation.pipeline.text_options import TextOptions
from transduce.translation.result import Translation
from transduce.translation.text_model import TextModel, languages_of
from transduce.translation.windows import Window


@dataclass(frozen=True, slots=True)
class Request:
    """How lines are to be translated."""

    options: DecodeConfig
    n_best: int = 1
    text: TextOptions = field(default_factory=TextOptions)
    glossary: Glossary | None = None

    def __post_init__(self) -> None:
        self.options.require_n_best(self.n_best)


def run_pipeline(model: TextModel, window: Window, request: Request) -> list[list[Translation]]:
    """Returns the translations of each line, best first: at least one, at most `request.n_best`."""
    if isinstance(window.lines, str):  # a sequence of characters, which is never meant
        raise TypeError("Give a list of lines: for a single one, [line].")
    if any(each.bind_whole_line for each in window.constraints or ()):
        request.text.require_whole_lines()
    source_language, target_language = languages_of(model)
    text = replace(request.text, language=request.text.language or source_language)
    same_language = bool(text.language) and text.language == target_language
    options, n_best, drawn = request.options, request.n_best, request.options.temperature > 0
    search = partial(search_parts, model, request.glossary)

    lines = protect(window.lines, text.markup)
    for attempt in attempts(lines, text.markup):  # with placeholders left in the texts, if there are any; then without
        parts = split(attempt, window, text, model)
        results = search(parts, options, n_best)
        if text.guard:
            results = guard(results, parts, options, n_best, search, same_language=same_language)
        if text.confidence:
            results = with_probabilities(model, parts, results)
        joined = join(attempt, parts, results, n_best, drawn)
        restore(model, attempt, joined, text.markup)
    results = [assemble(line, n_best, text.markup, drawn) for line in lines]
    return with_confidence(model, results) if text.confidence else results


def search_parts(
    model: TextModel, glossary: Glossary | None, parts: Sequence[Part], options: DecodeConfig, n_best: int
) -> list[list[Translation]]:
    """Returns the translations that the engine finds for each part, within its constraints and the glossary."""
    texts = [part.text if part.text.strip() else "" for part in parts]
    sources = [ids if text else [] for text, ids in zip(texts, model.tokenizer.encode_batch(texts), strict=True)]
    constraints = with_terms([part.constraints for part in parts], glossary, texts)
    if any(constraints):
        names = [part.name for part in parts]
        hypotheses, forced = constrained_search(model, sources, options, n_best, constraints, names)
    else:
        hypotheses = model.engine.translate(sources, options, n_best)
        forced = [[()] * len(found) for found in hypotheses]
    outputs = iter(model.tokenizer.decode_batch([each.ids for found in hypotheses for each in found]))
    limit = model.engine.max_source_tokens
    return [
        [
            _translation(model, each, next(outputs), of_line, terms, source_truncated=len(source) > limit)
            for each, terms in zip(found, of_source, strict=True)
        ]
        for source, found, of_source, of_line in zip(sources, hypotheses, forced, constraints, strict=True)
    ]


def _translation(
    model: TextModel,
    found: Hypothesis,
    text: str,
    constraints: Constraints,
    forced: tuple[Choice, ...],
    *,
    source_truncated: bool,
) -> Translation:
    text = text.replace("\n", " ")
    required = constraints.required
    return Translation(
        text=text,
        required=outcome(text, required),
        forced=forced,
        warnings=(*warnings_of(text, required), *warnings_of_forced(forced), *refusal(found, constraints)),
        score=found.score,
        log_probability=found.log_probability,
        tokens=tuple(model.tokenizer.pieces(found.ids)),
        finished=found.finished,
        source_truncated=source_truncated,
        ids=tuple(found.ids),
    )
