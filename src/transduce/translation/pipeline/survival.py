"""Whether markup survives: a translation must have the marks of its source."""

import re
from collections import Counter
from collections.abc import Collection

from transduce.translation.pipeline.markup import Notation, scan
from transduce.translation.pipeline.tags import is_closing, is_void, partners, tag_name
from transduce.translation.pipeline.text_options import Markup

_COMMAND = re.compile(r"\s*(<[A-Za-z][\w-]*>)")


def mark_counts(line: str, markup: Markup) -> Counter[str]:
    """Returns how often each mark occurs in `line`."""
    return Counter(found.text for found in scan(line, markup) if found.kind != "text")


def has_marks_of(text: str, source: str, markup: Markup) -> bool:
    """Returns whether `text` has the marks of `source`, each as often, nested as there, and no others.

    Other items than placeholders, URLs and addresses may be new. A plain text without marks may become any text.
    """
    expected = [found for found in scan(source, markup) if found.kind != "text"]
    if not expected and markup == "placeholders":
        return True
    found = [found for found in scan(text, markup) if found.kind != "text"]
    literals = {each.text for each in expected if each.kind == "literal"}
    counted = Counter(each.text for each in found if each.kind != "literal" or each.text in literals)
    if counted != Counter(each.text for each in expected):
        return False
    return not is_nested(source, markup) or is_nested(text, markup)


def copied(text: str, source: str, kept: Collection[str], markup: Markup) -> frozenset[str]:
    """Returns which of the items `kept` are in `text` as often as in `source`."""
    of_text, of_source = (mark_counts(each, markup) for each in (text, source))
    return frozenset(each for each in kept if of_text[each] == of_source[each])


def lost_items(text: str, source: str) -> list[str]:
    """Returns what the plain text `source` has and its translation has not: items, and a first word like "<formal>"."""
    lost = mark_counts(source, "placeholders") - mark_counts(text, "placeholders")
    command = _COMMAND.match(source)
    return [*lost, *([command[1]] if command and command[1] not in text and command[1] not in lost else ())]


def item_spans(text: str, markup: Markup, items: Collection[str]) -> list[tuple[int, int]]:
    """Returns where these items of `text` begin and end."""
    return [(found.start, found.end) for found in scan(text, _in_text(markup)) if found.text in items]


def without_items(text: str, markup: Markup, also: Collection[str] = (), source: str = "") -> str:
    """Returns `text` without `also`, and without placeholders, URLs, addresses and tags: a model may invent some.

    What the plain text of the source looks like too is kept: "50 %cats", where a tag was between the two, has a "%c".
    """
    own = {found.text for found in scan(source, _in_text(markup))} if source else set()
    kept, start = [], 0
    for found in scan(text, _in_text(markup)):
        if found.text in also or (found.kind != "literal" and found.text not in own):
            kept.append(text[start : found.start])
            start = found.end
    return "".join([*kept, text[start:]])


def _in_text(markup: Markup) -> Notation:
    """Returns the notation of what a model writes."""
    return "items" if markup == "html" else markup


def is_nested(line: str, markup: Markup) -> bool:
    """Returns whether each closing tag closes the element that was opened last, and all are closed."""
    texts = [found.text for found in scan(line, markup) if tag_name(found.text) and not is_void(found.text)]
    return len(partners(("close" if is_closing(text) else "open", text) for text in texts)) == len(texts)
