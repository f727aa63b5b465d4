"""A lexical shortlist: the subwords that can translate those of a source, so that logits of others are not computed.

`table` is used by engines, `lexicon` learns word translations, `learning` makes the table for `transduce shortlist`.
"""

from transduce.bundle import Bundle

FILE = "shortlist.safetensors"


def has_shortlist(bundle: Bundle) -> bool:
    """Returns whether the model folder has a shortlist."""
    return (bundle.path / FILE).is_file()
