"""Markdown: paragraphs, headings, items of lists and cells of tables are translated.

Front matter and definitions of links but for their titles, code, formulas and the marks of all blocks are copied.
Blocks of HTML are read as HTML. A paragraph that was wrapped is wrapped again, at the length of its longest line.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise

from transduce.translation.documents.html_pages import read_html
from transduce.translation.documents.markdown_inline import escape_markdown, inline_pieces, with_title
from transduce.translation.documents.plain_text import lines_of, rewrapped
from transduce.translation.documents.segments import AlignedByHand, Encode, Piece, SegmentError, has_words, text_pieces
from transduce.translation.documents.yaml_catalogues import read_yaml
from transduce.translation.pipeline.tags import is_block_tag

_PREFIX = re.compile(
    r"(?:[ \t]*>[ \t]?)*(?P<item>[ \t]*(?:[-+*:]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+|(?:[ \t]*>[ \t]?)+)?)*"
    r"(?P<note>\[\^[^\]\s]+\]:[ \t]*)?(?P<callout>\[![\w-]+\][-+]?)?[ \t]*"
)
_MARKED = re.compile(r"[-+*:>\d\[]")  # in a prefix: a new block begins, unless it is that of a quotation
_FENCE = re.compile(r"(?P<fence>`{3,}|~{3,}|:{3,}|\$\$\$?(?!\$)|\\\[(?=\s*\Z)|\\begin\{[\w*]+\})(?P<rest>.*)")
_CLOSING = re.compile(r"(?=(\\end\{[\w*]+\}|\\\]|\$\$\$|\$\$))")  # of formulas; "$$$" holds both marks
_LABEL = re.compile(r"\{[^{}]*\}|\([\w:.-]+\)\s*\Z")  # of a formula, in Pandoc and MyST
_MODULE = re.compile(  # of MDX
    r"import\s+(?:[\w$]+\s*,\s*)?(?:[{*]|[\w$]+\s+from\s+[\"'])|import\s*[\"']"
    r"|export\s+(?:(?:default|const|let|var|function|async|class|type)\b.*[({=]|[{*])"
)
_ADMONITION = re.compile(
    r"(?P<marks>[ \t]*(?:!!!|\?\?\?\+?|===[+!]?)[ \t]+[^\"]*\"?)(?P<title>[^\"]*)(?P<end>\"?\s*)\Z"
)
_HEADING = re.compile(r"(?P<marks>#{1,6}[ \t]+)(?P<text>.*)\Z")
_HEADING_END = re.compile(r"(?:(?<![ \t])[ \t]++#++)?(?:(?<![ \t])[ \t]++)?(?:\{[^{}]*\}[ \t]*+)?\Z")
_RULE = re.compile(r"[ \t>]*(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,}|=+[ \t]*|-+[ \t]*)\Z")
_DEFINITION = re.compile(r" {0,3}\[(?P<label>[^\]\^][^\]]*)\]:\s*(?:<[^<>]*>|\S++)\s*(?:(?<=\s)(?:[\"'({]|\w+=)|\Z)")
_HTML_BLOCK = re.compile(r"<(?:[!?]|/?(?P<name>[A-Za-z][\w-]*)(?=[\s/>]|\Z))")
_END_TAGS = {name: f"</{name}" for name in ("pre", "script", "style")}  # of HTML that empty lines do not end
_DELIMITERS = re.compile(r"[ \t>]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+\Z")
_GRID = re.compile(r"\+(?:[-=:]+\+)+\s*\Z")  # tables of Pandoc, whose columns are aligned by hand
_COLUMNS = re.compile(r"[ \t]*-{2,}(?:[ \t]+-{2,})+[ \t]*\Z")
_DASHES = re.compile(r"[ \t]*-{3,}[ \t]*\Z")
_CELL_END = re.compile(r"(?<!\\)\|")
_TITLES = ("title", "subtitle", "description", "summary")  # of front matter
_TITLE_OF_TOML = re.compile(rf'^(?:{"|".join(_TITLES)})[ \t]*=[ \t]*"(?P<text>[^"\\\n]+)"[ \t]*\r?$', re.MULTILINE)
_FORMULA = re.compile(r"\$\$?[^$]+\$\$?|\\begin\{(?P<name>[\w*]+)\}.*?\\end\{(?P=name)\}")
_CODE_INDENT = 4
_MAX_LINES = 500_000
# At the beginning of a line these would begin another block.
_LINE_START = re.compile(r"(?P<number>\d{1,9})(?=[.)](?:\s|\Z))|(?=(?:[-+*:]|#{1,6}|>|=+|-+)(?:\s|\Z)|>)")


class _Reader:
    """Reads a document line by line."""

    def __init__(self, text: str) -> None:
        if text.count("\n") + text.count("\r") > _MAX_LINES:
            raise SegmentError(f"has more than {_MAX_LINES:,} lines. Split it.")
        self.lines = list(lines_of(text))
        self.labels = {
            match["label"].strip().lower() for line, _ in self.lines if (match := _DEFINITION.match(line)) is not None
        }
        self.last_lines = {mark: i for i, (line, _) in enumerate(self.lines) for mark in _CLOSING.findall(line)}
        self.unended: set[str] = set()  # ends of HTML that no line has from a block of it on
        self.position = 0
        self.paragraph: list[tuple[str, str, str]] = []  # prefix, text and end of each of its lines
        self.content_indent = 0  # of the last item of a list: what is four spaces further in is code

    def read(self) -> Iterator[Piece]:
        yield from self._front_matter()
        while self.position < len(self.lines):
            line, end = self.lines[self.position]
            prefix = _PREFIX.match(line)
            assert prefix is not None  # the pattern matches any text
            rest = line[prefix.end() :]
            is_rule = _RULE.match(line) is not None
            if _COLUMNS.match(line):
                yield from self._aligned_table()
            elif not rest.strip() or is_rule or _DEFINITION.match(line):
                yield from self._end_paragraph()
                self.content_indent = 0 if is_rule else self.content_indent
                copied = self._copied(self.position + 1)
                yield from with_title(copied) if rest.strip() and not is_rule else [copied]
            elif not self.paragraph and _indent(line) >= self.content_indent + _CODE_INDENT:
                yield self._copied(self.position + 1)
            elif (title := _ADMONITION.match(line)) is not None:  # the first line of a note of MkDocs
                yield from self._end_paragraph()
                yield from self._inline(title["marks"], title["title"], title["end"] + end)
                self.content_indent = int(_indent(line)) + _CODE_INDENT
                self.position += 1
            elif (block := self._block(prefix[0], rest)) is not None:
                yield from self._end_paragraph()
                yield from block
            else:
                yield from self._text(prefix, rest, end)
        yield from self._end_paragraph()

    def _text(self, prefix: re.Match[str], rest: str, end: str) -> Iterator[Piece]:
        """Adds a line of text to the paragraph, or to a new one."""
        depth = self.paragraph[0][0].count(">") if self.paragraph else 0  # fewer marks may continue a quotation
        if prefix[0].count(">") > depth or _MARKED.search(prefix[0].replace(">", "")):
            if ":" in (prefix["item"] or ""):  # a definition: each line before it is a term
                yield from self._terms()
            yield from self._end_paragraph()
        if prefix["item"]:
            self.content_indent = len(prefix[0].expandtabs(4))
        elif prefix["note"]:
            self.content_indent = _CODE_INDENT
        elif not self.paragraph and not prefix[0]:
            self.content_indent = 0
        self.paragraph.append((prefix[0], rest, end))
        self.position += 1
        if prefix["callout"]:
            yield from self._end_paragraph()

    def _aligned_table(self) -> Iterator[Piece]:
        """Yields a table whose columns are aligned by hand, from its heading in the paragraph on: it is copied."""
        lines, self.paragraph = self.paragraph, []
        start = self.position - len(lines)
        heading = "".join("".join(line) for line in lines)
        end = self._block_end(self.position)
        if start and lines and _DASHES.match(self.lines[start - 1][0]):  # rows of several lines, up to the next dashes
            rows = range(self.position + 1, len(self.lines))
            end = next((i + 1 for i in rows if _DASHES.match(self.lines[i][0])), end)
        yield AlignedByHand(heading + self._copied(end))

    def _terms(self) -> Iterator[Piece]:
        """Yields the pieces of the paragraph that was being read, whose lines are texts of their own."""
        for line in self.paragraph:
            self.paragraph = [line]
            yield from self._end_paragraph()

    def _inline(self, before: str, text: str, after: str, escape: Encode = escape_markdown) -> Iterator[Piece]:
        """Yields the pieces of a text within a line, and what is before and after it."""
        yield before
        yield from inline_pieces(text, self.labels, escape=escape)
        yield after

    def _front_matter(self) -> Iterator[Piece]:
        mark = self.lines[0][0].rstrip() if self.lines else ""
        if mark in ("---", "+++"):
            ends = (i for i, (line, _) in enumerate(self.lines[1:], 2) if line.rstrip() in (mark, "..."))
            text = self._copied(next(ends, 0))
            yield from _titles_of_yaml(text) if mark == "---" else _titles_of_toml(text)

    def _copied(self, end: int) -> str:
        """Returns the lines up to one as they are; reading continues there."""
        copied = "".join(line + line_end for line, line_end in self.lines[self.position : end])
        self.position = end
        return copied

    def _block(self, prefix: str, rest: str) -> Iterable[Piece] | None:
        """Returns the pieces of a block that is no paragraph; None if none begins here."""
        if (fence := _FENCE.match(rest)) is not None and "`" not in fence["rest"]:
            if fence["fence"][0] not in "$\\":
                return [self._copied(self._fence_end(prefix, fence["fence"]))]
            if (formula := self._formula(fence)) is not None:
                return [formula]
        kind = AlignedByHand if _GRID.match(rest) else str if _MODULE.match(rest) else None
        if kind is not None and not self.paragraph:
            return [kind(self._copied(self._block_end(self.position)))]
        if (heading := _HEADING.match(rest)) is not None:
            return self._heading(prefix, heading)
        if not self.paragraph and (tag := _HTML_BLOCK.match(rest)) is not None and _begins_html(tag["name"]):
            last = "-->" if rest.startswith("<!--") else _END_TAGS.get((tag["name"] or "").lower(), "")
            if ">" not in prefix:
                return self._html(prefix, last)
            if last:
                return [self._copied(self._end_in_quotation(last))]
        following = self.lines[self.position + 1][0] if self.position + 1 < len(self.lines) else ""
        if "|" in rest and "|" in following and _DELIMITERS.match(following):
            return self._table(prefix)
        return None

    def _fence_end(self, prefix: str, mark: str) -> int:
        """Returns the number of lines up to the end of a block of code, which ends with its item of a list."""
        if mark[0] == ":":  # within colons is Markdown
            return self.position + 1
        indent = self._item_indent(prefix)
        for i in range(self.position + 1, len(self.lines)):
            line = self.lines[i][0].strip(" \t>")
            if _indent(self.lines[i][0]) < indent:
                return i
            if line.startswith(mark) and not line.strip(mark[0]):
                return i + 1
        return len(self.lines)

    def _item_indent(self, prefix: str) -> int:
        """Returns how far the lines of the item of a list that a block is in are indented; 0 if it is in none."""
        width = len(prefix.partition("[")[0].expandtabs(4))
        indent = width if _MARKED.search(prefix) else self.content_indent
        return indent if ">" not in prefix and width >= indent else 0

    def _formula(self, fence: re.Match[str]) -> str | None:
        """Returns a formula that is displayed, up to its closing mark; reading continues after it.

        None if nothing closes it, or if text follows it on its only line: it is then within a paragraph. It has empty
        lines only if its first line is nothing but the mark, or begins an environment.
        """
        mark, rest = fence["fence"], fence["rest"]
        last = {"\\[": "\\]"}.get(mark, mark.replace("begin", "end"))
        if last in rest:
            return None if _has_text(rest.partition(last)[2]) else self._copied(self.position + 1)
        if self.last_lines.get(last, 0) <= self.position:
            return None
        for i in range(self.position + 1, len(self.lines)):
            line, end = self.lines[i]
            if not line.strip() and rest.strip() and mark[0] == "$":
                return None
            head, found, after = line.partition(last)
            if found and _has_text(after):
                copied = self._copied(i) + head + found
                self.lines[i] = (after, end)
                return copied
            if found:
                return self._copied(i + 1)
        return None

    def _block_end(self, start: int, indent: int = 0) -> int:
        """Returns the number of lines up to the next empty one, or one that is indented less."""
        ends = (i for i in range(start, len(self.lines)) if not indent <= _indent(self.lines[i][0]) < math.inf)
        return next((i for i in ends if i > start or not self.lines[i][0].strip()), len(self.lines))

    def _end_in_quotation(self, last: str) -> int:
        """Returns the number of lines up to the one with `last`, or to the end of the quotation."""
        lines = ((i, self.lines[i][0].lower()) for i in range(self.position, len(self.lines)))
        ends = (i + (last in line) for i, line in lines if last in line or not line.lstrip().startswith(">"))
        return next(ends, len(self.lines))

    def _html(self, prefix: str, last: str) -> Iterator[Piece]:
        """Yields the pieces of a block of HTML, which `last` ends, or else an empty line, or its item of a list."""
        lines = range(self.position, len(self.lines)) if last and last not in self.unended else ()
        end = next((i for i in lines if last in self.lines[i][0].lower()), None)
        if end is None:
            self.unended.add(last)
        if end is not None and last == "-->":  # a comment ends with its line: code may follow
            end += 1
        else:
            end = self._block_end(self.position if end is None else end, self._item_indent(prefix))
        yield from read_html(self._copied(end))

    def _heading(self, prefix: str, heading: re.Match[str]) -> Iterator[Piece]:
        self.content_indent = self.content_indent if prefix else 0
        text = heading["text"]
        end = _HEADING_END.search(text)
        assert end is not None  # the pattern matches the end of any text
        after = text[end.start() :] + self.lines[self.position][1]
        yield from self._inline(prefix + heading["marks"], text[: end.start()], after)
        self.position += 1

    def _table(self, prefix: str) -> Iterator[Piece]:
        first = self.position
        yield prefix
        while self.position < len(self.lines) and "|" in (line := self.lines[self.position][0]):
            end = self.lines[self.position][1]
            if self.position == first + 1:  # the line below the heading
                yield line + end
            else:
                for i, cell in enumerate(_CELL_END.split(line[len(prefix) :] if self.position == first else line)):
                    yield "|" if i else ""
                    text = cell.strip()
                    start = cell.index(text)
                    yield from self._inline(cell[:start], text, cell[start + len(text) :], _escaped_cell)
                yield end
            self.position += 1

    def _end_paragraph(self) -> Iterator[Piece]:
        """Yields the pieces of the paragraph that was being read."""
        lines, self.paragraph = self.paragraph, []
        if not lines:
            return
        yield lines[0][0]
        between = [end + prefix for (_, _, end), (prefix, _, _) in pairwise(lines)]
        texts = [text for _, text, _ in lines]
        wrap = partial(_wrapped, max(map(len, texts)), between) if between else _escaped_start
        yield from inline_pieces("\n".join(texts), self.labels, between, wrap)
        yield lines[-1][2]


def _titles_of_yaml(text: str) -> Iterable[Piece]:
    """Returns the pieces of front matter in YAML; what cannot be read is copied."""
    first, end, rest = text.partition("\n")
    last = re.search(r"(?:---|\.\.\.)\s*\Z", rest)
    body = rest[: last.start()] if last else ""
    try:
        return [first + end, *read_yaml(body, _TITLES), rest[len(body) :]]
    except SegmentError:
        return [text]


def _titles_of_toml(text: str) -> Iterator[Piece]:
    position = 0
    for match in _TITLE_OF_TOML.finditer(text):
        yield text[position : match.start("text")]
        yield from text_pieces(match["text"], match["text"], lambda title: json.dumps(title, ensure_ascii=False)[1:-1])
        position = match.end("text")
    yield text[position:]


def _begins_html(name: str | None) -> bool:
    """Returns whether a line that begins with a tag of this name, or a comment, begins a block of HTML."""
    return name is None or (is_block_tag(name) and name.lower() != "br") or name.lower() in ("script", "style", "svg")


def _has_text(after: str) -> bool:
    """Returns whether there is more than a label after a formula."""
    return has_words(_LABEL.sub("", after))


def _indent(line: str) -> float:
    """Returns how far a line is indented; an empty one as far as any."""
    line = line.expandtabs(4)
    return len(line) - len(line.lstrip()) if line.strip() else math.inf


def read_markdown(text: str) -> Iterator[Piece]:
    """Yields the pieces of a Markdown document.

    Raises:
        SegmentError: it has too many lines.
    """
    yield from _Reader(text).read()


def _wrapped(width: int, between: Sequence[str], text: str) -> str:
    """Returns a translation in lines of at most `width` characters, with what is between those of the source."""
    ends = "|".join(map(re.escape, sorted(set(between), key=len, reverse=True)))
    parts = re.split(rf"((?:(?<! ) {{2,}}+|\\)(?:{ends}))", text)  # each second one ends a line
    for i, part in enumerate(parts[::2]):
        unbroken = re.sub(ends, " ", part)  # code may have been wrapped too
        whole = _FORMULA.sub(lambda match: match[0].replace(" ", "\0"), unbroken)  # a "=" at its start is no heading
        parts[2 * i] = between[0].join(_escaped_start(line.replace("\0", " ")) for line in rewrapped(whole, width))
    return "".join(parts) + text[len(text.rstrip()) :]  # code or a picture may follow


def _escaped_cell(text: str) -> str:
    return _CELL_END.sub(r"\\|", escape_markdown(text))


def _escaped_start(line: str) -> str:
    """Returns a line of a paragraph that no program reads as the beginning of another block."""
    match = _LINE_START.match(line)
    if match is None:
        return line
    return (match["number"] or "") + "\\" + line[match.end() :]
