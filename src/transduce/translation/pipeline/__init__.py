"""From lines to translations: everything that happens to a line before and after the search (`run_pipeline`)."""

from transduce.translation.pipeline.pipeline import Request, run_pipeline
from transduce.translation.pipeline.text_options import MARKUP_KINDS, SPLIT_KINDS, TextOptions

__all__ = ["MARKUP_KINDS", "SPLIT_KINDS", "Request", "TextOptions", "run_pipeline"]
