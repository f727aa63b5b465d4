"""Tags, comments and elements that are kept whole: where each of them ends.

All of them are found in time that is linear in the length of any text. Quantifiers are possessive
(`++`), and what is missing from the rest of a text is searched for once.
"""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable

from transduce.translation.pipeline.found import Kind

_NAME = r"[A-Za-z][\w:.-]*+"
_QUOTED = r"""\"[^"]*+\"|'[^']*+'"""
_TAG = re.compile(rf"""<(?P<slash>/?)(?P<name>{_NAME})(?P<attributes>(?:{_QUOTED}|[^<>"']++)*+)>""")
_CLOSING_TAG = re.compile(rf"</(?P<name>{_NAME})\s*+>")
# What begins a comment or the like, and what ends it, in the order in which they are tried.
_COMMENTS = (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<!", ">"), ("<?", ">"))
_OPENED, _CLOSED = re.compile(r"<([A-Za-z][\w:.-]*)"), re.compile(r"</([A-Za-z][\w:.-]*)")
_RAW = re.compile(r"(?:script|style)\b", re.IGNORECASE)
_UNTRANSLATED = re.compile(
    rf"""(?P<found>(?<![\w:.-])translate\s*+=\s*+(?:\"no\"|'no'|no\b))|{_QUOTED}""", re.IGNORECASE
)

_BLOCKS = re.compile(
    "address|article|aside|blockquote|body|br|caption|center|col|colgroup|dd|details|dialog|div|dl|dt|fieldset"
    "|figcaption|figure|footer|form|h[1-6]|head|header|hr|html|legend|li|main|menu|meta|nav|ol|optgroup|option|p|pre"
    "|section|select|summary|table|tbody|td|tfoot|th|thead|title|tr|ul",
    re.IGNORECASE,
)
_INLINE = re.compile(
    "a|abbr|b|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|img|input|ins|kbd|label|mark|q|s|samp|small|span|strike"
    "|strong|sub|sup|time|tt|u|var|wbr",
    re.IGNORECASE,
)
# A tag as it is written, and nothing that only looks like one: "<b and c>", "<me@a.org>".
_WRITTEN_TAG = re.compile(rf"""</?{_NAME}(?:\s++[\w:.-]++\s*+=\s*+(?:{_QUOTED}|[^\s<>"'=]++))*+\s*+/?>""")
_VOID = re.compile("area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr", re.IGNORECASE)


class Tags:
    """The tags of one text, which are read from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._missing: set[str] = set()  # ends of comments that the rest of the text does not have
        self._closing_tags: dict[str, list[tuple[int, int]]] | None = None  # by name, once one is searched for
        self._ends: dict[int, int] | None = None  # of elements, by where their first tag ends, once one is searched for

    def at(self, start: int) -> tuple[str, int] | None:
        """Returns what begins with the "<" at `start`, and where it ends; None if the "<" is text.

        It is a "tag", a "comment", a "raw" element (a script or style sheet), or an element that is "kept", as its
        attribute `translate="no"` says. No `start` may be before an earlier one.
        """
        for opening, closing in _COMMENTS:
            is_begun = self._text[start : start + len(opening)].upper() == opening
            if is_begun and (end := self._end_of(closing, start + len(opening))) is not None:
                return "comment", end
        tag = _TAG.match(self._text, start)
        if tag is None:
            return None
        if not tag["slash"]:
            raw = _RAW.match(tag["name"])
            if raw and (end := self._element_end(raw[0], tag.end())) is not None:
                return "raw", end
            is_kept = _is_untranslated(tag["attributes"]) and not is_void(tag[0])
            if is_kept and (end := self._nested_end(tag)) is not None:
                return "kept", end
        return "tag", tag.end()

    def _end_of(self, closing: str, start: int) -> int | None:
        """Returns the end of the first `closing` from `start` on."""
        if closing in self._missing:
            return None
        found = self._text.find(closing, start)
        if found == -1:
            self._missing.add(closing)
            return None
        return found + len(closing)

    def _nested_end(self, tag: re.Match[str]) -> int | None:
        """Returns the end of an element that may hold others of its name; if not all of them end, the first end."""
        if self._ends is None:
            self._ends = {}
            opened: defaultdict[str, list[int]] = defaultdict(list)
            for match in _TAG.finditer(self._text, tag.start()):
                name = match["name"].lower()
                if match["slash"] and opened[name]:
                    self._ends[opened[name].pop()] = match.end()
                elif not match["slash"] and not is_void(match[0]):
                    opened[name].append(match.end())
        return self._ends.get(tag.end()) or self._element_end(tag["name"], tag.end())

    def _element_end(self, name: str, start: int) -> int | None:
        """Returns the end of the first closing tag of this name from `start` on."""
        if self._closing_tags is None:
            self._closing_tags = {}
            for match in _CLOSING_TAG.finditer(self._text, start):
                self._closing_tags.setdefault(match["name"].lower(), []).append(match.span())
        spans = self._closing_tags.get(name.lower(), [])
        index = bisect_left(spans, (start, start))
        return spans[index][1] if index < len(spans) else None


def _is_untranslated(attributes: str) -> bool:
    return any(match["found"] for match in _UNTRANSLATED.finditer(attributes))


def is_block_tag(name: str) -> bool:
    """Returns whether a tag of this name separates sentences."""
    return _BLOCKS.fullmatch(name) is not None


def tag_name(text: str) -> str:
    """Returns the name of a tag, in lower case; of anything else, nothing."""
    match = _TAG.fullmatch(text)
    return match["name"].lower() if match else ""


def kind_of_tag(text: str) -> Kind:
    """Returns whether a tag is one between sentences, opens or closes an element, or is one by itself."""
    if is_block_tag(tag_name(text)):
        return "block"
    return "close" if is_closing(text) else "point" if is_void(text) else "open"


def group_in_plain_text(group: str, text: str, paired: Collection[str], is_first: bool) -> str:
    """Returns as what a tag counts in plain text, where a sign "less than" may be just that.

    That is "" if it only looks like a tag, "literal" if it has no partner. A first word like "<formal>", without a
    partner and unknown to HTML, may be a command to the model: it is text.
    """
    name = tag_name(text)
    if group != "tag":
        return group
    if _WRITTEN_TAG.fullmatch(text) is None:
        return ""
    if name in paired or is_void(text) or is_block_tag(name):
        return group
    return "" if is_first and not is_closing(text) and not is_html_tag(name) else "literal"


def paired_names(line: str) -> frozenset[str]:
    """Returns the names of tags that are opened and closed."""
    opened, closed = ({name.lower() for name in re.findall(sign, line)} for sign in (_OPENED, _CLOSED))
    return frozenset(opened & closed)


def is_html_tag(name: str) -> bool:
    """Returns whether HTML has an element of this name."""
    return is_block_tag(name) or _INLINE.fullmatch(name) is not None


def is_closing(tag: str) -> bool:
    """Returns whether a tag closes an element."""
    return tag.startswith("</")


def is_void(tag: str) -> bool:
    """Returns whether a tag is an element by itself, without content."""
    return tag.endswith("/>") or is_void_element(tag_name(tag))


def is_void_element(name: str) -> bool:
    """Returns whether elements of this name have no content."""
    return _VOID.fullmatch(name) is not None


def is_cut(text: str, paired: Collection[str]) -> bool:
    """Returns whether a part of a line of HTML has a tag that separates sentences, or one end of an element only.

    Args:
        text: the part.
        paired: names of the elements that both begin and end in the line.
    """
    found = [(kind_of_tag(tag[0]), tag[0]) for tag in _TAG.finditer(text)]
    ends = [(kind, tag) for kind, tag in found if kind in ("open", "close") and tag_name(tag) in paired]
    return any(kind == "block" for kind, _ in found) or len(partners(ends)) < len(ends)


def partners(tags: Iterable[tuple[str, str]]) -> dict[int, int]:
    """Returns for each tag of an element the index of its partner, if they nest.

    Args:
        tags: the kind and the text of each; those whose kind is neither "open" nor "close" have no partner.
    """
    partner: dict[int, int] = {}
    path: list[tuple[str, int]] = []
    num_open = Counter[str]()
    for i, (kind, text) in enumerate(tags):
        if kind == "open":
            path.append((tag_name(text), i))
            num_open[path[-1][0]] += 1
        elif kind == "close" and num_open[name := tag_name(text)]:
            while path[-1][0] != name:  # opened later, and never closed
                num_open[path.pop()[0]] -= 1
            num_open[name] -= 1
            _, partner[i] = path.pop()
            partner[partner[i]] = i
    return partner
