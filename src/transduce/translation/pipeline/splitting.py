"""The stage "split": texts are cut into parts that are searched one by one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import shorten

from transduce.text.tokenizer import require_encodable
from transduce.translation.constraints.line_constraints import Constraints
from transduce.translation.pipeline.checkpoints import Checkpoint, checked
from transduce.translation.pipeline.missing_items import plain_prefix
from transduce.translation.pipeline.protecting import SegmentInput, spans_around_items
from transduce.translation.pipeline.sentences import Span, fitting_spans, sentence_spans
from transduce.translation.pipeline.text_options import TextOptions
from transduce.translation.text_model import TextModel
from transduce.translation.windows import Window


@dataclass(frozen=True, slots=True)
class Part:
    """A text that the model reads in one search: a sentence, or a whole line."""

    text: str
    index: int  # of the text that it is part of
    span: Span  # of that text
    constraints: Constraints
    line_name: str = ""  # if it is a whole line

    @property
    def name(self) -> str:
        """Returns its name for messages."""
        return self.line_name or repr(shorten(self.text, 60, placeholder=" …"))


def split(
    inputs: Sequence[SegmentInput], window: Window, text_options: TextOptions, model: TextModel, checkpoint: Checkpoint
) -> list[Part]:
    """Returns the parts of all texts, in order.

    Texts that are longer than the model reads are cut into sentences; with `split="always"`, all texts; with
    `split="never"` none. A line with a prefix or required terms is never cut: they hold for the whole line.
    """
    limit, wanted = model.engine.max_source_tokens, text_options.split
    texts = [given.marked.plain for given in inputs]
    spans = [[(0, len(text))] for text in texts]
    bound = [window.constraints_of(given.segment.line).bind_whole_line for given in inputs]
    cuttable = [] if wanted == "never" else [index for index, is_bound in enumerate(bound) if not is_bound]
    # A token holds at least one byte, and a character has at most four: shorter texts fit and need not be counted.
    counted = [index for index in cuttable if 4 * len(texts[index]) >= limit]
    encoded = model.tokenizer.encode_batch([texts[index] for index in counted])
    long = {index for index, ids in zip(counted, encoded, strict=True) if len(ids) > limit}
    for index in checked(cuttable, checkpoint):
        whole, is_long = texts[index], index in long
        if whole.strip() and (is_long or wanted == "always"):
            require_encodable(whole)
            cut = spans_around_items if inputs[index].kept else sentence_spans
            sentences = cut(whole, text_options.language)
            fitting = (
                part
                for span in checked(sentences, checkpoint)
                for part in fitting_spans(whole, span, limit, model.tokenizer)
            )
            spans[index] = list(fitting) if is_long else sentences
    return [_part(index, span, inputs[index], window) for index, each in enumerate(spans) for span in each]


def _part(index: int, span: Span, given: SegmentInput, window: Window) -> Part:
    line, text = given.segment.line, given.marked.plain[slice(*span)]
    line_name = window.name(line) if len(text) == len(window.lines[line]) else ""
    constraints = window.constraints_of(line)
    if given.segment.prefix is not None and not given.kept:
        constraints = replace(constraints, prefix=plain_prefix(given.segment.prefix, given.marked))
    return Part(text, index, span, constraints, line_name)
