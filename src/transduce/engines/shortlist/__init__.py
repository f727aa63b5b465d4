"""A lexical shortlist: the subwords that can translate those of a source, so that logits of others are not computed.

`table` is used by engines, `lexicon` learns word translations, `learning` makes the table for `transduce shortlist`.
"""

from transduce.bundle import Bundle
from transduce.errors import BundleError

FILE = "shortlist.safetensors"


def has_shortlist(bundle: Bundle) -> bool:
    """Returns whether the model folder has a shortlist."""
    return (bundle.path / FILE).is_file()


def require_shortlist(bundle: Bundle) -> None:
    """Raises BundleError where the model folder has no shortlist."""
    if not has_shortlist(bundle):
        raise BundleError(
            f"{bundle.path}: has no shortlist. Learn one from the training corpus: "
            f"'transduce shortlist {bundle.path} --source train.en --target train.de'."
        )
