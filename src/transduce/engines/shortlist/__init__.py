"""A lexical shortlist: the few words that can translate those of a source, so that the others need not be computed.

`table` is what engines use, `lexicon` how word translations are learned, `learning` all of `transduce shortlist`.
"""

from transduce.bundle import Bundle

FILE = "shortlist.safetensors"


def has_shortlist(bundle: Bundle) -> bool:
    """Tells whether the model folder has a shortlist."""
    return (bundle.path / FILE).is_file()
