"""The pipeline from lines to translations.

    lines → signs → capitals → protect → split → search → guard → join → restore → capitals → signs → translations

signs    those that the vocabulary lacks become those that it has; spans are those of the given text again
capitals text in capitals becomes ordinary text; its translation is put in capitals
protect  tags, and items that are no prose, are set aside
split    long texts are cut into sentences
search   the model translates, within the constraints of the line
guard    outputs that loop or copy their source are searched for again
join     the sentences of a text are put together
restore  tags and items are put back
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from transduce.config import DecodeConfig
from transduce.data.progress import progress_bar
from transduce.translation.constraints.constrained_search import constrained_search, refusal, with_prefix
from transduce.translation.constraints.forced_terms import warnings_of_forced
from transduce.translation.constraints.glossary import Glossary
from transduce.translation.constraints.line_constraints import with_terms
from transduce.translation.constraints.required_terms import outcome, warnings_of
from transduce.translation.constraints.terms_in_sources import encode_with_terms
from transduce.translation.directions import directed
from transduce.translation.pipeline.capitals import Capitals
from transduce.translation.pipeline.checkpoints import Checkpoint, checked, never
from transduce.translation.pipeline.confidence import with_confidence, with_probabilities
from transduce.translation.pipeline.guard import Search, guard
from transduce.translation.pipeline.joining import join
from transduce.translation.pipeline.protecting import Segment, attempts, protect
from transduce.translation.pipeline.restoring import LEFT_AS_IT_WAS, assemble, restore
from transduce.translation.pipeline.signs import Signs
from transduce.translation.pipeline.splitting import Part, split
from transduce.translation.pipeline.text_options import TextOptions
from transduce.translation.result import Results, Translation
from transduce.translation.text_model import TextModel, translation_of
from transduce.translation.windows import Window

if TYPE_CHECKING:
    from transduce.translation.pipeline.word_alignment import WordAligner


_BATCHES_AT_ONCE = 32  # between two updates of the progress: enough for batches of similar length


@dataclass(frozen=True, slots=True)
class Request:
    """How lines are to be translated."""

    options: DecodeConfig
    n_best: int = 1
    text_options: TextOptions = field(default_factory=TextOptions)
    glossary: Glossary | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.options, DecodeConfig):
            raise TypeError("Give options as a DecodeConfig: translator.with_options(beam_size=2), for example.")
        self.options.require_n_best(self.n_best)


def run_pipeline(
    model: TextModel, window: Window, request: Request, checkpoint: Checkpoint = never, *, progress: bool = False
) -> list[list[Translation]]:
    """Returns the translations of each line, best first: at least one, at most `request.n_best`.

    Args:
        model: the model.
        window: the lines.
        request: how they are to be translated.
        checkpoint: is called between pieces of work; what it raises ends the work.
        progress: whether to show how many sentences are translated, where they are many more than one batch.
    """
    if any(each.bind_whole_line for each in window.constraints or ()):
        request.text_options.require_whole_lines()
    given = request.text_options
    in_direction = directed(model, given.language, given.target, given.domain)
    model, direction = in_direction, in_direction.direction
    text_options = replace(given, language=direction.source)
    markup, same_language = text_options.markup, bool(direction.source) and direction.source == direction.target
    options, n_best, drawn = request.options, request.n_best, request.options.temperature > 0
    search_some = partial(search_parts, model, request.glossary, checkpoint)
    shown = progress and model.engine.independent_lines  # others are translated as without progress, all at once
    search = partial(_search_with_progress, search_some) if shown else search_some

    lines_given = window.lines
    signs = Signs(window, model.tokenizer, text_options.notation) if text_options.signs else None
    window = signs.removed() if signs else window
    capitals = Capitals(window, model.tokenizer, text_options, direction.target) if text_options.capitals else None
    window = capitals.removed() if capitals else window
    lines = protect(window, text_options, checkpoint)
    has_marks = any(isinstance(part, Segment) and part.marked.runs for line in lines for part in line)
    aligner = _aligner(model) if text_options.alignment or has_marks else None
    # With placeholders left in the texts, if there are any; then without.
    for inputs in attempts(lines, markup, checkpoint):
        parts = split(inputs, window, text_options, model, checkpoint)
        results = search(parts, options, n_best)
        if text_options.guard:
            results = guard(
                results, parts, options, n_best, search, checkpoint, same_language=same_language, markup=markup
            )
        if text_options.confidence:
            results = with_probabilities(model, parts, results, request.glossary)
        if aligner is not None and text_options.alignment:
            results = [
                [replace(best, alignment=aligner.links(part.text, best.text)) for best in found]
                for part, found in aligner.prepared(zip(checked(parts, checkpoint), results, strict=True), _pairs)
            ]
        joined = join(inputs, parts, results, n_best, drawn)
        restore(model, aligner, inputs, checked(joined, checkpoint), markup)
    results = [assemble(line, n_best, markup, drawn) for line in checked(lines, checkpoint)]
    results = with_confidence(model, results) if text_options.confidence else results
    results = capitals.restored(results) if capitals else results
    results = signs.restored(results) if signs else results
    return results if window.lines is lines_given else _left_as_given(results, window.lines, lines_given)


def _left_as_given(results: Results, read: Sequence[str], given: Sequence[str]) -> Results:
    """Returns the results; a line that is left in the source language has the signs and capitals that were given."""
    return [
        [replace(best, text=line) if best.text == text and LEFT_AS_IT_WAS in best.warnings else best for best in found]
        for found, text, line in zip(results, read, given, strict=True)
    ]


def _pairs(translated: tuple[Part, list[Translation]]) -> list[tuple[str, str]]:
    """Returns the text of a part with each of its translations."""
    part, found = translated
    return [(part.text, best.text) for best in found]


def _aligner(model: TextModel) -> "WordAligner":
    from transduce.translation.pipeline.word_alignment import WordAligner  # imported here, as NumPy is slow to import

    return WordAligner(model)


def _search_with_progress(search: Search, parts: Sequence[Part], options: DecodeConfig, n_best: int) -> Results:
    """Returns what `search` does; many parts are searched some at a time, the longest first, and counted."""
    size = options.batch_size * _BATCHES_AT_ONCE
    if len(parts) <= size:
        return search(parts, options, n_best)
    results: dict[int, list[Translation]] = {}
    order = sorted(range(len(parts)), key=lambda index: -len(parts[index].text))
    with progress_bar("sentences", len(parts), unit=" sentences", shown=True) as bar:
        for start in range(0, len(parts), size):
            chosen = order[start : start + size]
            results |= zip(chosen, search([parts[index] for index in chosen], options, n_best), strict=True)
            bar.update(len(chosen))
    return [results[index] for index in range(len(parts))]


def search_parts(
    model: TextModel,
    glossary: Glossary | None,
    checkpoint: Checkpoint,
    parts: Sequence[Part],
    options: DecodeConfig,
    n_best: int,
) -> Results:
    """Returns the translations that the engine finds for each part, within its constraints and the glossary."""
    texts = [part.text for part in parts]
    sources = encode_with_terms(model, glossary, texts)
    constraints = with_terms([part.constraints for part in parts], glossary, texts)
    if any(constraints):
        names = [part.name for part in parts]
        hypotheses, forced, without_terms = constrained_search(model, sources, options, n_best, constraints, names)
        if glossary is not None and any(forced_of_best and forced_of_best[0] for forced_of_best in forced):
            # Imported here, as NumPy is slow to import.
            from transduce.translation.pipeline.terms_in_place import SearchedLine, put_in_place

            lines = [
                SearchedLine(text, source, free[0], found, of_each[0], constraint)
                for text, source, free, found, of_each, constraint in zip(
                    texts, sources, without_terms, hypotheses, forced, constraints, strict=True
                )
            ]
            hypotheses = put_in_place(model, glossary, lines, options.length_penalty)
    else:
        hypotheses = model.engine.translate(sources, options, n_best)
        forced = [[()] * len(found) for found in hypotheses]
    outputs = iter(model.tokenizer.target.decode_batch([each.ids for found in hypotheses for each in found]))
    results = []
    for part, source, found, forced_terms, constraint in zip(
        checked(parts, checkpoint), sources, hypotheses, forced, constraints, strict=True
    ):
        translations = []
        for each, forced_of_each in zip(found, forced_terms, strict=True):
            text = with_prefix(next(outputs), constraint.prefix, model.tokenizer.target)
            best = translation_of(model, part.text, source, each, text)
            missing = warnings_of(best.text, constraint.required)
            required = outcome(best.text, constraint.required)
            # A term may be there as the beginning of a longer word only.
            forced_here = tuple(term for term in forced_of_each if (term, True) in required)
            warnings = (*missing, *warnings_of_forced(forced_here), *refusal(each, constraint))
            translations.append(replace(best, warnings=warnings, required=required, forced=forced_here))
        results.append(translations)
    return results
