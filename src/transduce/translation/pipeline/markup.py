"""What of a text is no text: tags, comments, entities that are not seen, placeholders, URLs and addresses.

A line is read once, from left to right, into pieces. What separates sentences (block tags, `<br>`) stands between
pieces; a piece is plain text with marks at places in it.

    <p>The <b>dog</b> of {name} &amp; me.</p>
    →  "<p>", piece, "</p>"
       plain   "The dog of & me."
       marks   <b> at 4, </b> at 7, {name} at 11
"""

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from transduce.translation.pipeline.text_options import Markup

# open and close: a tag of an inline element; point: a tag or comment without content; space: an entity that is not
# seen; unit: what stands for a word; block: what separates sentences; text: an entity of a visible character.
Kind = Literal["open", "close", "point", "space", "unit", "block", "text"]

_BLOCKS = re.compile(
    "address|article|aside|blockquote|body|br|caption|center|col|colgroup|dd|details|dialog|div|dl|dt|fieldset"
    "|figcaption|figure|footer|form|h[1-6]|head|header|hr|html|legend|li|main|menu|meta|nav|ol|optgroup|option|p|pre"
    "|section|select|summary|table|tbody|td|tfoot|th|thead|title|tr|ul",
    re.IGNORECASE,
)
_VOID = re.compile("area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr", re.IGNORECASE)
_BEHIND_WORDS = tuple(".,;:!?…)")  # signs that have no space before them
_MAX_BRACED = 4000  # characters within braces: beyond, they are no placeholder

_ATTRIBUTES = r"""(?:"[^"]*"|'[^']*'|[^<>"'])*"""
_TAG = re.compile(rf"<(?P<slash>/?)(?P<name>[A-Za-z][\w:.-]*){_ATTRIBUTES}>")
_HTML = (
    r"(?P<comment><!--.*?-->|<!\[CDATA\[.*?\]\]>|<[!?][^>]*>)"
    rf"|(?P<raw><(?P<raw_name>script|style)\b{_ATTRIBUTES}>.*?</(?P=raw_name)\s*>)"
    rf"|(?P<kept><(?P<kept_name>[A-Za-z][\w:.-]*)(?=\s{_ATTRIBUTES}>)[^>]*?\btranslate\s*=\s*[\"']?no\b[\"']?{_ATTRIBUTES}>"
    r".*?</(?P=kept_name)\s*>)"
    rf"|(?P<tag></?[A-Za-z][\w:.-]*{_ATTRIBUTES}>)"
    r"|(?P<entity>&(?:[A-Za-z][A-Za-z0-9]{1,31}|\#[0-9]{1,7}|\#[xX][0-9A-Fa-f]{1,6});)|"
)
_UNITS = (
    r"(?P<url>(?:https?://|ftp://|www\.)[^\s<>\"'`]*[^\s<>\"'`.,;:!?…)\]}»”’])"
    r"|(?P<address>\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
    r"|(?P<printf>%%|%\(\w+\)[-+\#0]*\d*(?:\.\d+)?[a-zA-Z]"
    r"|(?<![\d%])%(?:\d+\$)?[-+\#0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|L|z|j|t|q)?[diouxXeEfFgGaAcspn@])"
    r"|(?P<brace>[$\#]?\{)"
)
_PATTERNS: dict[Markup, re.Pattern[str]] = {
    "html": re.compile(_HTML + _UNITS, re.DOTALL | re.IGNORECASE),
    "placeholders": re.compile(_UNITS),
}


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that is kept as it is, at a place of a plain text."""

    kind: Kind
    text: str  # as it stood in the source
    place: int  # in the plain text: before the character of this number
    spaced: tuple[bool, bool]  # whether white space, or an end of the piece, stood before it and after it


@dataclass(frozen=True, slots=True)
class Piece:
    """Text between block tags."""

    source: str  # as it stood
    before: str  # white space at the beginning
    plain: str  # what is to be translated
    marks: tuple[Mark, ...]
    after: str  # white space at the end


@dataclass(frozen=True, slots=True)
class _Found:
    kind: Kind
    start: int
    end: int
    text: str  # for "text", the character


def pieces(line: str, markup: Markup, *, units_as_text: bool = False) -> list[str | Piece]:
    """Returns what is kept between pieces, as strings, and the pieces, in order; joined, their sources are the line.

    Args:
        line: any text.
        markup: what to look for.
        units_as_text: whether placeholders, URLs and addresses stay in the plain text.
    """
    result: list[str | Piece] = []
    start = 0
    inside: list[_Found] = []
    for found in (*_scan(line, markup), _Found("block", len(line), len(line), "")):
        if found.kind != "block":
            if not (units_as_text and found.kind == "unit"):
                inside.append(found)
            continue
        if found.start > start:
            piece = _piece(line, start, found.start, inside)
            result.append(piece if piece.plain else piece.source)
        if found.text:
            result.append(found.text)
        start, inside = found.end, []
    return result


def mark_counts(line: str, markup: Markup) -> Counter[str]:
    """Returns how often each mark stands in `line`: what must not change."""
    return Counter(found.text for found in _scan(line, markup) if found.kind != "text")


def units(line: str, markup: Markup) -> Counter[str]:
    """Returns how often each placeholder, URL and address stands in `line`."""
    return Counter(found.text for found in _scan(line, markup) if found.kind == "unit")


def unit_spans(text: str, markup: Markup) -> list[tuple[int, int]]:
    """Returns where the placeholders, URLs and addresses of `text` begin and end."""
    return [(found.start, found.end) for found in _scan(text, _in_text(markup))]


def without_units(text: str, markup: Markup) -> str:
    """Returns `text` without what looks like a placeholder, URL or address: a model may have made it up."""
    kept, start = [], 0
    for found in _scan(text, _in_text(markup)):
        kept.append(text[start : found.start])
        start = found.end
    return "".join([*kept, text[start:]])


def _in_text(markup: Markup) -> Markup:
    """Returns what can stand in a plain text, where tags and entities mean nothing."""
    return "none" if markup == "none" else "placeholders"


def encoded(text: str, markup: Markup) -> str:
    """Returns `text` as it is written in this markup: `&`, `<` and `>` as entities in HTML."""
    return html.escape(text, quote=False) if markup == "html" else text


def is_nested(line: str, markup: Markup) -> bool:
    """Returns whether each closing tag closes the element that was opened last, and all are closed."""
    open_names: list[str] = []
    for match in (_TAG.fullmatch(found.text) for found in _scan(line, markup)):
        if match is None or _is_void(match):
            continue
        if not match["slash"]:
            open_names.append(match["name"].lower())
        elif not open_names or open_names.pop() != match["name"].lower():
            return False
    return not open_names


def tag_name(text: str) -> str:
    """Returns the name of a tag, in lower case; of anything else, nothing."""
    match = _TAG.fullmatch(text)
    return match["name"].lower() if match else ""


def _is_void(match: re.Match[str]) -> bool:
    return bool(_VOID.fullmatch(match["name"])) or match[0].endswith("/>")


def _scan(line: str, markup: Markup) -> Iterator[_Found]:
    """Yields what is no text, in order and without overlaps."""
    if markup == "none":
        return
    pattern, position = _PATTERNS[markup], 0
    while match := pattern.search(line, position):
        group = match.lastgroup or ""
        end = match.end()
        if group == "brace":
            end = _closing_brace(line, match.end() - 1)
        if end == -1:  # a brace that nothing closes is text
            position = match.end()
            continue
        text = line[match.start() : end]
        kind = _kind(group, text)
        yield _Found(kind, match.start(), end, html.unescape(text) if kind == "text" else text)
        position = end


def _closing_brace(line: str, start: int) -> int:
    """Returns where the braces end that open at `start`, or -1."""
    depth = 0
    for match in re.finditer(r"[{}]", line[start : start + _MAX_BRACED]):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return start + match.end()
    return -1


def _kind(group: str, text: str) -> Kind:
    if group == "tag":
        match = _TAG.fullmatch(text)
        assert match is not None  # the patterns are the same
        if _BLOCKS.fullmatch(match["name"]):
            return "block"
        return "close" if match["slash"] else "point" if _is_void(match) else "open"
    if group == "entity":
        character = html.unescape(text)
        if character == text:  # of no character that HTML knows
            return "unit"
        unseen = any(unicodedata.category(c)[0] in "ZC" for c in character)
        return "space" if unseen else "text"
    if group in ("comment", "raw", "raw_name"):
        return "point"
    return "unit"


def _piece(line: str, start: int, end: int, found: Sequence[_Found]) -> Piece:
    source = line[start:end]
    before = source[: len(source) - len(source.lstrip())]
    after = source[len(source.rstrip()) :] if before != source else ""
    position, stop = start + len(before), end - len(after)
    plain = ""
    marks: list[Mark] = []

    def add(text: str) -> None:
        """Appends text, without the white space too many that marks leave before it."""
        nonlocal plain, marks
        if marks and (not plain or plain[-1].isspace()):
            text = text.lstrip()
            if text[:1] in _BEHIND_WORDS:
                plain = plain.rstrip()
                marks = [replace(mark, place=min(mark.place, len(plain))) for mark in marks]
        plain += text

    for item in found:
        add(line[position : item.start])
        position = item.end
        if item.kind == "text":
            add(item.text)
            continue
        glued = (line[item.start - 1 : item.start] if item.start > start else "", line[item.end : item.end + 1])
        spaced = (not glued[0] or glued[0].isspace(), item.end >= stop or glued[1].isspace())
        if item.kind in ("unit", "space") and plain and not any(spaced) and item.end < stop:
            add(" ")  # 10&nbsp;km must not become 10km
        marks.append(Mark(item.kind, item.text, len(plain), spaced))
    add(line[position:stop])
    plain = plain.rstrip()
    clipped = tuple(replace(mark, place=min(mark.place, len(plain))) for mark in marks)
    return Piece(source, before, plain, clipped, after)
