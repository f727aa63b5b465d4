"""Tags: tokens in front of a source that select the language to write, the domain, and more.

    <2fr>           the target language
    <domain:law>    the domain
    <tag:bt>        what the recipe calls a corpus, such as back-translated text

Tags are entries of the vocabulary, like `<s>`, and no text is encoded as one: in text, `<` is a word of its own, so
that no longer piece begins with it (`text/subword.py`). They are never part of an output, and decoding leaves them
out.
"""

import re
from collections.abc import Iterable

from transduce.errors import TokenizerError

_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
_TAG = re.compile(rf"<(2|domain:|tag:)({_NAME})>")
LANGUAGE, DOMAIN, _CORPUS = "2", "domain:", "tag:"


def source_tags(*, target_language: str = "", domain: str = "", corpus: str = "") -> tuple[str, ...]:
    """Returns the tags in front of a source, in order; "" is no tag.

    Raises:
        TokenizerError: a name has characters other than A-Z, a-z, 0-9, "_", "-" and ".", or begins with a sign.
    """
    parts = ((LANGUAGE, target_language), (DOMAIN, domain), (_CORPUS, corpus))
    tags = tuple(f"<{kind}{name}>" for kind, name in parts if name)
    for tag in tags:
        if not is_tag(tag):
            raise TokenizerError(
                f"{tag}: not a tag: its name must consist of A-Z, a-z, 0-9, '_', '-' and '.', and begin with a "
                "letter or a digit."
            )
    return tags


def is_tag(token: str) -> bool:
    """Returns whether an entry of a vocabulary is a tag."""
    return token.startswith("<") and _TAG.fullmatch(token) is not None


def names_among(tags: Iterable[str], kind: str) -> tuple[str, ...]:
    """Returns the names in tags of a kind, `LANGUAGE` or `DOMAIN`, in order."""
    return tuple(match[2] for tag in tags if (match := _TAG.fullmatch(tag)) and match[1] == kind)
