"""How long a text with HTML may be between two block tags; plain text is cut where it is longer.

Where a tag belongs is read from a table of source words by target words, once for each tag: that takes time.
"""

from transduce.errors import DataError
from transduce.translation.pipeline.atoms import atoms
from transduce.translation.pipeline.markup import MarkedText, read_markup
from transduce.translation.pipeline.text_options import Markup

_MAX_WORDS = 4000
_MAX_WORDS_TIMES_MARKS = 400_000
_ALWAYS_SHORT = 1000  # characters


def require_few_marks(text: str, markup: Markup) -> None:
    """Raises DataError where a text has too many words, or tags and placeholders, between two block tags."""
    if markup != "html" or len(text) <= _ALWAYS_SHORT:
        return
    for part in read_markup(text, markup):
        if isinstance(part, MarkedText) and part.marks:
            num_words, num_marks = len(atoms(part.plain)), len(part.marks)
            if num_words > _MAX_WORDS or num_words * num_marks > _MAX_WORDS_TIMES_MARKS:
                raise DataError(
                    f"A text has {num_words:,} words with {num_marks:,} tags or placeholders in one paragraph: at most "
                    f"{_MAX_WORDS:,} words, and {_MAX_WORDS_TIMES_MARKS:,} words times tags. Put <p> around its "
                    "paragraphs, or send them one by one."
                )
