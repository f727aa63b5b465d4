"""What happens to a text around the search: markup is set aside, sentences are cut, translated, joined, and checked.

    line → protect markup → cut into parts → search → guard → join → put markup back

Each stage is a function from texts to translations that calls the one below it (`pipeline.treat`).
"""

from transduce.translation.pipeline.handling import MARKUP_KINDS, SPLIT_KINDS, Handling
from transduce.translation.pipeline.pipeline import treat

__all__ = ["MARKUP_KINDS", "SPLIT_KINDS", "Handling", "treat"]
