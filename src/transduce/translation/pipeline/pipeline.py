"""The stages around the search, in their order; what a stage alone needs is imported where it begins, to start fast."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from transduce.config import DecodeConfig
from transduce.translation.pipeline.handling import Handling
from transduce.translation.pipeline.joining import in_parts

if TYPE_CHECKING:
    from transduce.translation.pipeline.repetition import OptionSearch
    from transduce.translation.result import Translation
    from transduce.translation.translator import Translator


def treat(
    translator: "Translator",
    search_plain: "OptionSearch",
    lines: Sequence[str],
    options: DecodeConfig,
    n_best: int,
    handling: Handling,
) -> "list[list[Translation]]":
    """Returns each line's translations, best first, at least one and at most `n_best`; see `Handling`.

    `search_plain` is the translator's own search, which handles nothing.
    """
    source_language, target_language = _languages(translator)
    handling = replace(handling, language=handling.language or source_language)
    same_language = bool(handling.language) and handling.language == target_language

    def search(texts: Sequence[str], count: int) -> "list[list[Translation]]":
        if handling.guard:
            from transduce.translation.pipeline.repetition import guarded

            results = guarded(search_plain, texts, options, count, same_language=same_language)
        else:
            results = search_plain(texts, options, count)
        if handling.confidence:
            from transduce.translation.pipeline.confidence import with_probabilities

            results = with_probabilities(translator.engine, translator.tokenizer, texts, results)
        return results

    joined = partial(
        in_parts,
        search,
        handling=handling,
        limit=translator.engine.max_source_tokens,
        tokenizer=translator.tokenizer,
        drawn=options.temperature > 0,
    )
    if handling.markup == "none":
        results = [[best.translation for best in found] for found in joined(lines, n_best)]
    else:
        from transduce.translation.pipeline.restoring import with_markup

        results = with_markup(joined, translator, lines, n_best, handling.markup, options.temperature > 0)
    if handling.confidence:
        from transduce.translation.pipeline.calibration import load_calibration
        from transduce.translation.pipeline.confidence import with_confidence

        calibration = load_calibration(translator.bundle)
        results = [[with_confidence(best, calibration) for best in found] for found in results]
    return results


def _languages(translator: "Translator") -> tuple[str, str]:
    if translator.bundle is None:
        return "", ""
    data = translator.bundle.config.data
    return data.source_language, data.target_language
