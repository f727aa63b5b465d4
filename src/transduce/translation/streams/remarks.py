"""What an option could have made better: reported for the first such line of a job, and counted for the others."""

from collections.abc import Sequence
from dataclasses import dataclass

from transduce.translation.directions import directed
from transduce.translation.pipeline import TextOptions
from transduce.translation.pipeline.capitals import Capitals
from transduce.translation.pipeline.guard import repeats
from transduce.translation.pipeline.many_sentences import MANY_SENTENCES, lines_of_many_sentences
from transduce.translation.pipeline.signs import Signs
from transduce.translation.result import Translation
from transduce.translation.text_model import TextModel
from transduce.translation.windows import Window


@dataclass(frozen=True, slots=True)
class Remark:
    """What is reported of some lines of a job."""

    of_first: str  # after "FILE, line 3: "
    of_all: str  # after "12 lines in all "


MANY = Remark(
    f"{MANY_SENTENCES} --split-sentences always translates each by itself.",
    "have more sentences than the model was trained on.",
)
SIGNS = Remark(
    "has signs that the model does not know, such as other quotes or spaces: --signs writes them as it knows them.",
    "have signs that the model does not know.",
)
CAPITALS = Remark(
    "is in capitals, or a title, which few models have learned: --capitals translates it as ordinary text.",
    "are in capitals, or titles.",
)
LOOPS = Remark("the translation repeats itself: --guard searches again.", "have translations that repeat themselves.")


def remarks_on(
    model: TextModel, window: Window, found: Sequence[Sequence[Translation]], text_options: TextOptions
) -> dict[Remark, list[int]]:
    """Returns the numbers of the lines that each remark is about; a remark on none is left out.

    None is about a line with a prefix or required terms, where its option does not go with them.

    Args:
        model: which translated the lines.
        window: the lines, as texts.
        found: their translations.
        text_options: how they were translated.
    """
    direction = directed(model, text_options.language, text_options.target, text_options.domain).direction
    lines = {MANY: lines_of_many_sentences(model, window.lines, found, text_options)}
    if not text_options.signs:
        lines[SIGNS] = Signs(window, model.tokenizer, text_options.notation).lines
    if not text_options.capitals and not _knows_capitals(model):
        lines[CAPITALS] = Capitals(window, model.tokenizer, text_options, direction.target).lines
    if not text_options.guard:
        lines[LOOPS] = [
            index
            for index, (line, (best, *_)) in enumerate(zip(window.lines, found, strict=True))
            if not window.constraints_of(index).bind_whole_line and repeats(best.text, line)
        ]
    return {remark: [window.first + index for index in indices] for remark, indices in lines.items() if indices}


def _knows_capitals(model: TextModel) -> bool:
    """Returns whether the model was trained on text in capitals."""
    modifiers = () if model.bundle is None else model.bundle.config.train.modifiers
    return any(each.name in ("upper_case", "title_case") for each in modifiers)
