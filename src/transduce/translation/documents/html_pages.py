"""HTML pages, and those of e-books: text between tags, and attributes that people read.

Comments, scripts, styles, code and elements with `translate="no"` are copied. White space between words is one
space for the model; a paragraph that is translated has no line breaks of its source.
"""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator

from transduce.translation.documents.languages import Languages, followed
from transduce.translation.documents.segments import Piece, SegmentBuilder, encoded_with, text_pieces
from transduce.translation.documents.split_elements import rejoined
from transduce.translation.pipeline.sentences import CHINESE
from transduce.translation.pipeline.tags import is_block_tag, is_void_element

_COPIED = frozenset(
    ("code", "kbd", "math", "pre", "samp", "script", "style", "svg", "template", "textarea", "tt", "var")
)
_RAW = frozenset(("script", "style", "textarea"))  # in these, tags mean nothing
# What follows an element of which the end tag may be left out, and what such elements are in.
_CELLS, _TERMS = ("td", "th", "tr", "tbody", "tfoot"), ("dt", "dd")
_FOLLOWING = {
    "li": ("li",),
    "dt": _TERMS,
    "dd": _TERMS,
    "td": _CELLS,
    "th": _CELLS,
    "tr": _CELLS[2:],
    "option": ("option",),
}
_HOLD_ITEMS = ("dl", "menu", "ol", "select", "table", "ul")
_TRANSLATED_ATTRIBUTES = frozenset(("alt", "aria-label", "placeholder", "title"))
_BUTTONS = re.compile(r"\btype\s*=\s*[\"']?(?:button|reset|submit)\b", re.IGNORECASE)
_DESCRIPTION = re.compile(
    r"\b(?:name|property)\s*=\s*[\"']?(?:(?:og|twitter|dc|dcterms)[.:](?:image:)?)?(?:title|description|alt)(?=[\"'\s/>])",
    re.IGNORECASE,
)
_CONTENT_LANGUAGE = re.compile(r"\bhttp-equiv\s*=\s*[\"']?content-language\b", re.IGNORECASE)
_ROOT_LANGUAGE = re.compile(r"<html\b[^<>]*?\slang\s*=\s*[\"']?(?P<code>[\w-]+)", re.IGNORECASE)
_KEPT = re.compile(
    r"(?<![\w?&;:.-])translate\s*=\s*[\"']?no\b|(?<![\w:.-])class\s*=\s*(?:[\"'](?:[^\"']*\s)?)?notranslate\b"
    r"|\s(?:epub:type|role)\s*=\s*[\"'](?:[^\"']*[\s-])?noteref\b",
    re.IGNORECASE,
)

# A tag that nothing closes ends with the page. In that case one search is made, not one for each "<".
_TOKEN = re.compile(
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<[!?][^>]*(?:>|\Z)"
    r"|<(?P<slash>/?)(?P<name>[A-Za-z][^\s/>]*)(?:=\s*\"[^\"]*\"|=\s*'[^']*'|[^>])*+(?:>|\Z)",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(
    r"(?P<name>[^\s=\"'/>]+)(?:\s*=\s*(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'|(?P<bare>[^\s\"'>][^\s>]*)))?"
)
_ESCAPES: dict[str, Callable[[str], str]] = {  # of attributes, by their quotes; without any, a translation gets some
    "bare": lambda text: f'"{_ESCAPES["double"](text)}"',
    "double": lambda text: html.escape(text, quote=False).replace('"', "&quot;"),
    "single": lambda text: html.escape(text, quote=False).replace("'", "&#39;"),
}
_SPACE = re.compile(r"[ \t\n\r\f]+")


def read_html(text: str, languages: Languages | None = None) -> Iterator[Piece]:
    """Yields the pieces of a page, or of a part of one; where it names its language, that follows `languages`."""
    languages = languages or Languages()
    if not languages.source:
        languages = Languages(languages_of_page(text).source, languages.target)
    page = _Page(languages)
    position = 0
    while match := _TOKEN.search(text, position):
        page.text(text[position : match.start()])
        position = match.end()
        name = (match["name"] or "").lower()
        if not name:
            page.builder.point(match[0])
        elif is_copied(match[0], name):
            position = end_of(text, match.end(), name) or len(text)
            copied = text[match.start() : position]
            if is_block_tag(name):
                yield from page.end()
                yield copied
            else:
                page.builder.point(copied)
        elif is_block_tag(name):
            yield from page.end()
            yield from _with_attributes(match[0], name, languages)
        else:
            page.tag(match[0], name, is_end=bool(match["slash"]))
    page.text(text[position:])
    yield from page.end()


def languages_of_page(text: str, _: Languages | None = None) -> Languages:
    """Returns the language that a page names for itself, as the source."""
    root = _ROOT_LANGUAGE.search(text)
    return Languages(root["code"] if root is not None else "")


def is_copied(tag: str, name: str) -> bool:
    """Returns whether a tag begins an element that is copied with its content."""
    is_kept = name in _COPIED or _KEPT.search(tag) is not None
    return is_kept and not is_void_element(name) and not tag.startswith("</") and not tag.endswith("/>")


def end_of(text: str, start: int, name: str) -> int | None:
    """Returns where an element ends that begins before `start`; None if it does not.

    As in browsers, the end of a block around it ends it too, and the next item ends an item without an end tag.
    """
    if name in _RAW:
        close = re.compile(rf"</{name}\b[^>]*(?:>|\Z)", re.IGNORECASE).search(text, start)
        return close.end() if close else None
    num_open: Counter[str] = Counter()
    for match in _TOKEN.finditer(text, start):
        tag = (match["name"] or "").lower()
        if match["slash"] and num_open[tag]:
            num_open[tag] -= 1
        elif match["slash"] and tag == name:
            return match.end()
        elif match["slash"]:
            if is_block_tag(tag) and (tag != "p" or not is_block_tag(name)):  # others are often left over
                return match.start()
        elif _follows(tag, name) and not any(num_open[each] for each in _HOLD_ITEMS):
            return match.start()
        elif tag and not is_void_element(tag) and not match[0].endswith("/>"):
            num_open[tag] += 1
    return None


def _follows(tag: str, name: str) -> bool:
    """Returns whether the beginning of an element is the end of one before it that has no end tag."""
    return (is_block_tag(tag) and tag != "br") if name == "p" else tag in _FOLLOWING.get(name, ())


class _Page:
    """The text since the last block tag."""

    def __init__(self, languages: Languages) -> None:
        self.builder = SegmentBuilder()
        self._languages = languages

    def text(self, raw: str) -> None:
        """Adds text; white space at its ends stays as it is where it is at an end of the segment."""
        before, after = len(raw) - len(raw.lstrip()), len(raw.rstrip())
        for part in (raw[:before], raw[before:after], raw[max(before, after) :]):
            if part:
                self.builder.text(_collapsed(html.unescape(part)), part)

    def tag(self, tag: str, name: str, *, is_end: bool) -> None:
        """Adds an inline tag; one without its partner is a point."""
        pieces = _with_attributes(tag, name, self._languages)
        if name == "wbr":  # where a word of the source may be broken
            self.builder.text("", tag)
        elif is_void_element(name) or tag.endswith("/>"):
            self.builder.point(*pieces)
        else:
            self.builder.tag(name, *pieces, is_end=is_end)

    def end(self) -> Iterator[Piece]:
        """Yields the pieces of the segment."""
        self.builder.entries = rejoined(self.builder.entries)
        return self.builder.pieces(encoded_with(escape_html))


def escape_html(text: str) -> str:
    """Returns `text` as it is written between tags."""
    return html.escape(text, quote=False).replace("\u00a0", "&#160;")


def _with_attributes(tag: str, name: str, languages: Languages) -> Iterator[Piece]:
    """Yields a tag, with the attributes that are translated as segments, and those of the language."""
    if "=" not in tag:  # as most have none, and a page may have many
        yield tag
        return
    position = 0
    translated = set(_TRANSLATED_ATTRIBUTES)
    if name == "input" and _BUTTONS.search(tag):
        translated.add("value")
    if name in ("optgroup", "option", "track"):
        translated.add("label")
    if name == "meta" and _DESCRIPTION.search(tag):
        translated.add("content")
    of_language = {"lang", "xml:lang"}
    if _CONTENT_LANGUAGE.search(tag):
        of_language.add("content")
    for match in _ATTRIBUTE.finditer(tag, 1):
        quotes = next((each for each in ("double", "single", "bare") if match[each]), "")
        attribute, value = match["name"].lower(), match[quotes] if quotes else ""
        if attribute in of_language and value:
            yield tag[position : match.start(quotes)] + followed(value, languages)
            position = match.end(quotes)
        elif attribute in translated and quotes in _ESCAPES:
            yield tag[position : match.start(quotes)]
            yield from text_pieces(_collapsed(html.unescape(value)), value, _ESCAPES[quotes])
            position = match.end(quotes)
    yield tag[position:]


def _collapsed(text: str) -> str:
    """Returns a text with white space as it is shown (CSS Text 3, 4.1): no line ends within Chinese or Japanese."""

    def shown(space: re.Match[str]) -> str:
        is_within = "\n" in space[0] and space.start() and CHINESE.match(text, space.start() - 1)
        return "" if is_within and CHINESE.match(text, space.end()) else " "

    return _SPACE.sub(shown, text)
