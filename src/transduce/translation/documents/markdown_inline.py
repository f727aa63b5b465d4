"""What is within a paragraph of Markdown: emphasis, links, code, tags.

    A *dog* of [mine](x.md) runs `fast`.   →   "A <x1>dog</x1> of <x2>mine</x2> runs <x3/>."

Code, formulas, addresses and references to footnotes are points. Emphasis and links are elements.
"""

import html
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from transduce.translation.documents.html_pages import end_of, is_copied
from transduce.translation.documents.inline_tags import without_empty
from transduce.translation.documents.segments import (
    Encode,
    Item,
    Piece,
    SegmentBuilder,
    Tag,
    Tags,
    text_pieces,
    written_with,
)
from transduce.translation.pipeline.sentences import NO_SPACES
from transduce.translation.pipeline.tags import is_block_tag

# Without one of these signs, "\\(a dog\\)" is text in parentheses.
_MATHS = re.compile(r"[_^={}<>+*/|\d]|\\\w|\A\\+[(\[]\s*\w\s*\\")
_TOKEN = re.compile(
    r"(?P<maths>\\{1,2}\((?:[^\\]|\\(?!\))){1,1000}\\\)|\\{1,2}\[(?:[^\\]|\\(?!\])){1,1000}\\\]"
    r"|\\begin\{(?P<environment>[\w*]+)\}.{1,1000}?\\end\{(?P=environment)\})"
    r"|(?P<escape>\\[!-/:-@\[-`{-~])"
    r"|(?P<code>(?:\{[\w:.+-]{1,40}\})?(?P<ticks>`+)(?!`).{1,5000}?(?<!`)(?P=ticks)(?!`))"
    r"|(?P<ticks_alone>`+)"
    r"|(?P<address><[A-Za-z][A-Za-z0-9+.-]{1,31}:[^<>\s]*>|<[\w.+-]+@[\w.-]+>)"
    r"|(?P<comment><!--(?:[^<-]|-(?!->)|<(?!!--))*+-->)"
    r"|(?P<tag></?(?P<name>[A-Za-z][\w-]*)[^<>]*>)"
    r"|(?P<inline_note>\^\[(?:[^\[\]]|\[[^\[\]]{0,500}\](?:\([^()]{0,500}\))?){1,5000}\])"
    r"|(?P<note>\[\^[^\]\s]+\])"
    r"|(?P<citation>\[(?:[^\[\]\n@]{0,80}[ (])?-?@\w[^\[\]\n]{0,200}\](?![(\[]))"
    r"|(?P<wiki>!\[\[[^\[\]\n]{1,300}\]\]|\[\[(?P<page>[^\[\]|\n]{1,300}\|)?[^\[\]\n]{1,300}\]\](?![(\[:]))"
    r"|(?P<open>!?\[)"
    r"|(?P<close>\])"
    r"|(?P<formula>\$[^\s$](?:[^$\n]{0,500}[^\s$\\])?\$(?!\d)|\$\$[^$]{1,5000}\$\$)"
    r"|(?P<template>\{%(?:[^%{]|%(?!\})|\{(?!%))*+%\}|\{#(?:[^#{]|#(?!\})){0,500}#\}|<%(?:[^%<]|%(?!>)){0,500}%>"
    r"|\{:?[ \t]*[.#=][\w-][^{}\n]*\})"
    r"|(?P<braces>\{\{[^{}\n]{0,500}\}\}|\{[^{}\n]{1,100}\})"
    r"|(?P<raised>(?<=\w)(?:\^[^\s^]{1,30}\^|~[^\s~]{1,30}~))"
    r"|(?P<entity>&(?:\#\d{1,7}|\#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]\w{1,31});)"
    r"|(?P<hard>(?:(?<! ) {2,}+|\\)\n)"
    r"|(?P<line>\n)"
    r"|(?P<emphasis>\*{1,3}|_{1,3}|~~)",
    re.DOTALL,
)
_TARGET = re.compile(
    r"\]\(\s*+(?:<[^<>\n]*>|(?:[^()\s\\]|\\.|\((?:[^()\s\\]|\\.)*+\))*+)"
    r"(?:\s++(?:\"[^\"]*\"|'[^']*'|\([^()]*\)))?+\s*+\)(?:\{[^{}\n]*\})?"
    r"|\]\[[^\[\]]*\]|\]\{[^{}\n]+\}"
)
_TITLE = re.compile(r"\s(?P<quote>[\"'])(?P<text>[^\"'\\\n]+)(?P=quote)(?=\s*(?:\)|\Z))")
_MAX_LABEL = 999  # characters, as in CommonMark
_POINTS = ("code", "address", "comment", "note", "formula", "template", "maths", "citation", "wiki", "raised", "copied")
_EMPTY = frozenset(("br", "hr", "img", "input", "wbr"))
_SPECIAL = re.compile(
    r"(?P<kept>\{\{[^{}]*\}\}|\{[^{}]*\})"
    r"|\\(?=[!-/:-@\[-`{-~])|(?<!\s)\*|\*(?!\s)|(?<!\w)_|_(?!\w)|`|\[|\]|<(?=[A-Za-z/!?])|&(?=\#?\w+;)|~(?=~)"
)

_SIGN = re.compile(r"[!-/:-@\[-`{-~\xa0-\uffff]")


@dataclass(slots=True)
class _Token:
    kind: str  # a group of the pattern, or "text"; for emphasis and brackets without a partner, "text"
    source: str
    name: str = ""  # of a tag
    partner: int = -1  # index of the token at the other end
    alone: str | None = None  # how it is written in a translation, if not as in the source

    @property
    def characters(self) -> str:
        """The characters that a token of text means."""
        if self.kind == "escape":
            return self.source[1:]
        return html.unescape(self.source) if self.kind == "entity" else self.source


def _spelled_as(tokens: Sequence[_Token | None], escape: Encode) -> Encode:
    r"""Returns how text is written: signs as between the same neighbours in the source, else as `escape` does.

    "3 \< 5" and "2 < 3" stay as they are.

    Args:
        tokens: those of the source that are text; None is anything between texts.
        escape: writes the characters of text.
    """
    texts = [token.characters if token is not None else "\0" for token in tokens]
    escaped: dict[int, str] = {}  # what is not written as it is, by its index in the text
    for index, text, token in zip(accumulate(map(len, texts), initial=0), texts, tokens, strict=False):
        if token is not None and len(text) == 1 and text != token.source:
            escaped[index] = token.source
    source = "".join(texts)
    known: dict[tuple[str, str, str], list[str]] = {}
    for match in _SIGN.finditer(source):
        written = escaped.get(match.start(), match[0])
        if written != "<":  # a ">" may follow it in a translation
            known.setdefault(_between(source, match.start()), []).append(written)
    written_as = {key: (written[0], len(written)) for key, written in known.items() if len(set(written)) == 1}
    if not written_as:
        return escape

    def write(text: str) -> str:
        signs = [(match.start(), _between(text, match.start())) for match in _SIGN.finditer(text)]
        counts = Counter(key for _, key in signs)
        parts, position = [], 0
        for index, key in signs:
            written, most = written_as.get(key, ("", 0))
            if counts[key] <= most:
                parts += [escape(text[position:index]), written]
                position = index + 1
        return "".join([*parts, escape(text[position:])])

    return write


def _between(text: str, index: int) -> tuple[str, str, str]:
    """Returns a sign with its neighbours in lower case, which are "" at the ends of a text."""
    before, after = text[max(0, index - 1) : index], text[index + 1 : index + 2]
    return before.strip("\0").lower(), text[index], after.strip("\0").lower()


def escape_markdown(text: str) -> str:
    """Returns `text` with a backslash before signs that would mean something."""
    return _SPECIAL.sub(lambda match: match["kept"] or "\\" + match[0], text.replace("\n", " "))


def inline_pieces(
    text: str,
    labels: Collection[str],
    between: Iterable[str] = (),
    wrap: Callable[[str], str] = str,
    escape: Encode = escape_markdown,
) -> Iterator[Piece]:
    r"""Yields the pieces of a paragraph.

    Args:
        text: its lines, with "\n" between them.
        labels: those of the document's definitions of links, in lower case.
        between: what the document has between each line and the next.
        wrap: returns a translation in lines of a certain width.
        escape: writes the characters of text.
    """
    ends = iter(between)
    tokens = _tokens(text, labels)
    _pair_emphasis(tokens)
    builder = SegmentBuilder()
    texts: list[_Token | None] = []
    opened: dict[int, int] = {}
    end_of_picture = 0
    for i, token in enumerate(tokens):
        if i < end_of_picture:
            continue
        is_text = token.partner < 0 and token.kind not in (*_POINTS, "tag", "hard", "inline_note", "line")
        texts.append(token if is_text else None)
        if token.source == "![" and _is_whole(tokens, i):  # its text is one of its own: it may be in a word
            end_of_picture = token.partner + 1
            label = "".join(each.source for each in tokens[i + 1 : token.partner])
            inner = [*inline_pieces(label, labels, ends, escape=escape)]
            builder.point("![", *inner, *with_title(_with_ends(tokens[token.partner].source, ends)))
            continue
        if token.kind == "inline_note":
            inner = [*inline_pieces(token.source[len("^[") : -len("]")], labels, ends, escape=escape)]
            builder.point("^[", *inner, "]")
            continue
        source = _with_ends(token.source, ends)
        if token.partner > i:
            opened[i] = builder.open(source)
        elif token.partner >= 0:
            builder.close(opened[token.partner], *with_title(source), alone=token.alone)
        elif token.kind == "hard" or (token.kind == "tag" and is_block_tag(token.name)):
            builder.point(source, is_break=True)
        elif token.kind == "line":
            builder.text("" if _is_unspaced(tokens, i) else " ", source)
        elif token.kind in (*_POINTS, "tag"):
            builder.point(source)
        else:
            builder.text(token.characters, source)
    encode = _spelled_as(texts, escape)
    emphasis = {number for i, number in opened.items() if tokens[i].kind == "emphasis"}  # without text, it is signs
    yield from builder.pieces(lambda tags, _, items: [wrap(written_with(encode, *_flanked(tags, items, emphasis)))])


def _is_unspaced(tokens: Sequence[_Token], line: int) -> bool:
    """Returns whether a line ends between two characters of a script without spaces, emphasis left out of account."""
    before, after = (
        next(tokens[i].source for i in indices if tokens[i].kind != "emphasis")
        for indices in (range(line - 1, -len(tokens), -1), range(line + 1, len(tokens)))
    )
    return bool(NO_SPACES.match(before[-1:]) and NO_SPACES.match(after))


def with_title(target: str) -> Iterator[Piece]:
    """Yields the pieces of the target of a link, of which the title is translated."""
    if (title := _TITLE.search(target)) is None:
        yield target
        return
    quote = title["quote"]
    yield target[: title.start("text")]
    yield from text_pieces(html.unescape(title["text"]), title["text"], lambda text: text.replace(quote, f"\\{quote}"))
    yield target[title.end("text") :]


def _is_whole(tokens: Sequence[_Token], start: int) -> bool:
    """Returns whether an element ends, is written alike in translations, and cuts no other."""
    end = tokens[start].partner
    inner = range(start + 1, end)
    return (
        end > start
        and tokens[end].alone is None
        and all((tokens[i].partner < 0 or tokens[i].partner in inner) for i in inner)
    )


def _with_ends(text: str, ends: Iterator[str]) -> str:
    """Returns a token with what is between its lines in the document, of which `ends` gives the next."""
    first, *others = text.split("\n")
    return first + "".join(next(ends) + line for line in others)


def _tokens(text: str, labels: Collection[str]) -> list[_Token]:
    """Returns the tokens of a paragraph; the ends of links and tags know each other."""
    tokens: list[_Token] = []
    brackets: list[tuple[int, int]] = []  # the token of each, and where its label begins
    names: defaultdict[str, list[int]] = defaultdict(list)
    unclosed: set[str] = set()  # elements that are copied with their content, but nothing ends them
    position = 0
    while match := _TOKEN.search(text, position):
        if match.start() > position:
            tokens.append(_Token("text", text[position : match.start()]))
        kind, position, here = match.lastgroup or "", match.end(), len(tokens)
        name = (match["name"] or "").lower()
        if name and name not in unclosed and is_copied(match[0], name):
            if (end := end_of(text, position, name)) is not None:
                tokens.append(_Token("copied", text[match.start() : end]))
                position = end
                continue
            unclosed.add(name)
        if kind == "maths" and not _MATHS.search(match[0]):
            tokens.append(_Token("escape", match[0][:2]))
            position = match.start() + 2
            continue
        if match["page"]:  # [[page|a dog]]
            label = match[0][len("[[" + match["page"]) : -len("]]")]
            ends = _Token("wiki", "[[" + match["page"], partner=here + 2), _Token("wiki", "]]", partner=here)
            tokens.extend((ends[0], _Token("text", label), ends[1]))
            continue
        parts = [match[0]]
        if kind == "emphasis" and len(match[0]) == 3:  # ***a* b** and **a *b***
            size = 2 if text[position : position + 1].strip() else 1
            parts = [match[0][:size], match[0][size:]]
        tokens.extend(_Token(kind, part, match["name"] or "") for part in parts)
        if kind == "open":
            brackets.append((here, position))
        elif kind == "close" and brackets:
            start, label_start = brackets.pop()
            target = _TARGET.match(text, match.start())
            label = text[label_start : match.start()] if match.start() - label_start <= _MAX_LABEL else ""
            is_label = label.strip().lower() in labels
            if target is not None and (target[0] != "][]" or is_label):
                tokens[here].source, position = target[0], target.end()
            elif not is_label:
                continue
            if target is None or target[0] == "][]":
                tokens[here].alone = "][" + label.replace("\n", " ") + "]"
            tokens[start].partner, tokens[here].partner = here, start
        elif kind == "tag" and not match[0].startswith("</"):
            if tokens[here].name.lower() not in _EMPTY and not match[0].endswith("/>"):
                names[tokens[here].name].append(here)
        elif kind == "tag" and names[tokens[here].name]:
            start = names[tokens[here].name].pop()
            tokens[start].partner, tokens[here].partner = here, start
    tokens.append(_Token("text", text[position:]))
    return tokens


def _pair_emphasis(tokens: list[_Token]) -> None:
    """Finds the ends of emphasis; a sign without a partner is text."""
    path: list[int] = []  # tokens that may open
    indices: defaultdict[str, list[int]] = defaultdict(list)  # of each sign in the path
    for i, token in enumerate(tokens):
        if token.kind != "emphasis":
            continue
        before = tokens[i - 1].source[-1:] if i else ""
        after = tokens[i + 1].source[:1]
        opens, closes = _flanks(before, after), _flanks(after, before)
        if token.source.startswith("_"):
            opens, closes = opens and not before.isalnum(), closes and not after.isalnum()
        if closes and indices[token.source]:
            index = indices[token.source][-1]
            start = path[index]
            for other in path[index:]:
                indices[tokens[other].source].pop()
            del path[index:]
            token.partner, tokens[start].partner = start, i
        elif opens:
            indices[token.source].append(len(path))
            path.append(i)


def _flanked(tags: Tags, items: Sequence[Item], emphasis: Collection[int]) -> tuple[Tags, list[Item]]:
    """Returns how tags are written, and a text, whose emphasis is seen as such where words touch it without a space.

    "**甲：**乙" would be asterisks and "甲_乙_" underscores: they become "**甲**：乙" and "甲*乙*".
    """
    written, found = dict(tags), list(items)
    for i, item in enumerate(items[1:-1], start=1):
        if isinstance(item, str) or item.number not in emphasis:
            continue
        before, after = (each if isinstance(each, str) else "" for each in (found[i - 1], found[i + 1]))
        is_start = item.kind == "open"
        outside, inside = (before[-1:], after[:1]) if is_start else (after[:1], before[-1:])
        if outside and inside.strip() and not _flanks(outside, inside):
            moved = (before + inside, after[1:]) if is_start else (before[:-1], inside + after)
            found[i - 1], found[i + 1] = moved
        elif outside.isalnum():
            for tag in (Tag("open", item.number), Tag("close", item.number)):
                written[tag] = tuple(each.replace("_", "*") if isinstance(each, str) else each for each in tags[tag])
    return written, without_empty(found, emphasis)


def _flanks(outside: str, inside: str) -> bool:
    """Returns whether a sign between these characters may be at the beginning of what is inside."""
    if not inside or inside.isspace():
        return False
    return not _is_sign(inside) or not outside or outside.isspace() or _is_sign(outside)


def _is_sign(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"
