"""Paragraphs made of runs, as Word and PowerPoint write them: stretches of text with properties of their own.

    <w:p><w:r><w:t>The </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>dog</w:t></w:r><w:r><w:t> runs.</w:t></w:r></w:p>
    →  "The <x1>dog</x1> runs."

Neighbouring runs of equal properties are one. The text of most runs has no tags: that of the properties which most
characters of a paragraph or link have. Anything else in a paragraph (a tab, a picture, a reference to a footnote) is a
point between words. Fields, but for links, and what was deleted are copied with their text.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import partial
from itertools import takewhile

from transduce.translation.documents.segments import Encode, Item, Piece, SegmentBuilder, Tag, Tags
from transduce.translation.documents.xml_tree import Node, XmlDocument, escape_text

_LINK = re.compile(r"<\w+:instrText\b[^<>]*>\s*HYPERLINK\b")


@dataclass(frozen=True, slots=True)
class RunNames:
    """What the elements of a format are called."""

    paragraph: str
    run: str
    run_properties: str
    paragraph_properties: str
    text: str
    containers: frozenset[str]  # of runs, within a paragraph, such as links
    container_properties: frozenset[str] = frozenset()  # are at the beginning of a container
    breaks: frozenset[str] = frozenset()  # line breaks and tabs, between runs or in them
    dropped: frozenset[str] = frozenset()  # say something about words of the source, such as their spelling
    characters: Mapping[str, str] = dataclass_field(default_factory=dict)  # elements that mean text
    field: str = ""  # is at the beginning and the end of a field
    text_attributes: str = ""  # of new text
    escape: Encode = escape_text  # writes the characters of text
    code: re.Pattern[str] = re.compile(r"(?!)")  # in properties of paragraphs and runs that are code, and copied
    # What two runs of equal properties may differ in: the language, for example.
    irrelevant: re.Pattern[str] = re.compile(r"(?!)")


@dataclass(frozen=True, slots=True)
class _Envelope:
    """What is written around the text of a run."""

    before: str
    after: str
    key: str  # its properties, without those that are irrelevant


@dataclass(slots=True)
class _Group:
    """A segment with the envelopes of its texts: those of its elements, and that of text without a tag."""

    builder: SegmentBuilder
    base: _Envelope | None
    of_tags: dict[int, _Envelope | None]


class ParagraphReader:
    """Reads the paragraphs of a document, in order: fields may reach over several."""

    def __init__(self, document: XmlDocument, names: RunNames) -> None:
        """Takes the document, and what its elements are called."""
        self._document = document
        self._names = names
        self._field_depth = 0
        # Found for containers of this paragraph, which every container around them looks at again.
        self._known_ends: dict[Node, list[str]] = {}
        self._known_text: dict[Node, bool] = {}

    def read(self, paragraph: Node) -> Iterator[Piece]:
        """Yields the pieces of a paragraph."""
        self._known_ends, self._known_text = {}, {}
        if self._is_code(paragraph, self._names.paragraph_properties):
            yield self._document.source(paragraph)
            return
        yield self._document.start_tag(paragraph)
        group = _Group(SegmentBuilder(), self._base(paragraph.children), {})
        self._add_children(paragraph.children, group, group.base)
        yield from group.builder.pieces(partial(_rendered, group, self._names.escape))
        yield self._document.end_tag(paragraph)

    def _base(self, children: Sequence[Node]) -> _Envelope | None:
        """Returns the envelope of most characters in a paragraph or container; None if it has no runs with text.

        The text of fields does not count.
        """
        counts: Counter[str] = Counter()
        envelopes: dict[str, _Envelope] = {}
        depth = 0
        for run in children:
            ends = self._field_ends(run)
            is_text = self._is_run(run) and not ends and not depth
            depth = max(0, depth + ends.count("begin") - ends.count("end"))
            for text in run.children if is_text else ():
                if self._is_text(text):
                    envelope = self._envelope(run, text)
                    counts[envelope.key] += len(self._characters(text).strip())
                    envelopes.setdefault(envelope.key, envelope)
        return envelopes[max(counts, key=lambda key: counts[key])] if counts else None

    def _envelope(self, run: Node, text: Node) -> _Envelope:
        document, names = self._document, self._names
        start_tag = document.start_tag(run)
        properties = "".join(document.source(each) for each in run.children if each.name == names.run_properties)
        name = document.written_name(text)
        before = f"{start_tag}{properties}<{name}{names.text_attributes}>"
        return _Envelope(before, f"</{name}>{document.end_tag(run)}", names.irrelevant.sub("", properties))

    def _is_code(self, node: Node, properties: str) -> bool:
        found = (self._document.source(each) for each in node.children if each.name == properties)
        return any(map(self._names.code.search, found))

    def _is_run(self, node: Node) -> bool:
        """Returns whether a node is a run that may be translated."""
        return node.name == self._names.run and not self._is_code(node, self._names.run_properties)

    def _is_text(self, node: Node) -> bool:
        return node.name == self._names.text and all(each.name in ("#text", "#other") for each in node.children)

    def _is_blank(self, node: Node) -> bool:
        """Returns whether a node is white space between elements, or a comment or instruction."""
        return node.name == "#other" or (node.name == "#text" and not self._document.characters(node).strip())

    def _characters(self, text: Node) -> str:
        return "".join(map(self._document.characters, text.children))

    def _add_children(self, children: Sequence[Node], group: _Group, base: _Envelope | None) -> None:
        """Adds what is in a paragraph or container."""
        document, names, builder = self._document, self._names, group.builder
        key, number = base.key if base is not None else "", 0  # of the runs so far: 0 without a tag
        for child in self._with_fields(children):
            if isinstance(child, list):
                if number:
                    builder.close(number)
                    number = 0
                self._add_field(child, group)
                continue
            is_run = self._is_run(child)
            contents = [each for each in child.children if each.name != names.run_properties] if is_run else []
            texts = [each for each in contents if self._is_text(each)]
            envelope = self._envelope(child, texts[0]) if texts else None
            if number and (child.name in names.containers or (envelope is not None and envelope.key != key)):
                builder.close(number)
                number = 0
            if envelope is not None:
                if base is not None and envelope.key != base.key and not number:
                    number = builder.open()
                    group.of_tags[number] = envelope
                key = envelope.key
                self._add_run(child, contents, envelope, builder)
            elif child.name in names.containers and self._has_text(child):
                self._add_container(child, group)
            elif child.name in names.dropped:
                builder.text("", document.source(child))
            elif contents and all(each.name in names.characters or each.name in names.dropped for each in contents):
                text = "".join(names.characters.get(each.name, "") for each in contents)
                builder.text(text, document.source(child))
            else:
                is_break = any(each.name in names.breaks for each in (child, *contents))
                builder.point(*document.pieces_within(child, {names.paragraph}, self.read), is_break=is_break)
        if number:
            builder.close(number)

    def _with_fields(self, children: Sequence[Node]) -> Iterator[Node | list[Node]]:
        """Yields what is in a paragraph or container; the elements of a field together."""
        field: list[Node] = []
        for child in children:
            ends = self._field_ends(child)
            if not ends and not self._field_depth:
                yield child
                continue
            field.append(child)
            for end in ends:
                self._field_depth = max(0, self._field_depth + {"begin": 1, "end": -1}.get(end, 0))
            if not self._field_depth:
                yield field
                field = []
        if field:
            yield field

    def _field_ends(self, node: Node) -> list[str]:
        """Returns which ends of fields are in a run: "begin", "separate" (before the text of the field) and "end".

        Of a container that holds whole fields, it returns none: they are read with what is in it.
        """
        names = self._names
        if node.name in names.containers:
            if node not in self._known_ends:
                inner = [end for each in node.children for end in self._field_ends(each)]
                self._known_ends[node] = inner if inner.count("begin") != inner.count("end") else []
            return self._known_ends[node]
        if node.name != names.run:
            return []
        tags = [self._document.attributes(each) for each in node.children if each.name == names.field]
        return [value for tag in tags for key, value in tag.items() if key.endswith("fldCharType")]

    def _add_field(self, field: Sequence[Node], group: _Group) -> None:
        """Adds a link as an element; any other field as a point, since a program computes its text."""
        document = self._document
        ends = [self._field_ends(each) for each in field]
        separate = next((i for i, each in enumerate(ends) if each == ["separate"]), len(field))
        head, text = field[: separate + 1], field[separate + 1 : -1]
        source = "".join(map(document.source, head))
        is_whole = [end for each in ends for end in each] == ["begin", "separate", "end"] and ends[-1] == ["end"]
        if is_whole and _LINK.search(source) and self._base(text) is not None:
            self._add_element(source, text, document.source(field[-1]), group)
        else:
            group.builder.point("".join(map(document.source, field)))

    def _add_container(self, container: Node, group: _Group) -> None:
        document = self._document
        properties = list(takewhile(lambda each: each.name in self._names.container_properties, container.children))
        start = document.start_tag(container) + "".join(map(document.source, properties))
        self._add_element(start, container.children[len(properties) :], document.end_tag(container), group)

    def _add_element(self, start: str, children: Sequence[Node], end: str, group: _Group) -> None:
        base = self._base(children)
        number = group.builder.open(start)
        group.of_tags[number] = base
        self._add_children(children, group, base)
        group.builder.close(number, end)

    def _has_text(self, node: Node) -> bool:
        if node not in self._known_text:
            inner = (each for each in node.children if each.name in self._names.containers)
            self._known_text[node] = self._base(node.children) is not None or any(map(self._has_text, inner))
        return self._known_text[node]

    def _add_run(self, run: Node, contents: Sequence[Node], envelope: _Envelope, builder: SegmentBuilder) -> None:
        """Adds the texts of a run, and points for what is between them."""
        document, names = self._document, self._names
        position = run.start
        for i, each in enumerate(contents):
            is_last = i == len(contents) - 1
            end = run.end if is_last else each.end
            original = document.text[position:end]
            if self._is_text(each):
                self._add_text(self._characters(each), original, envelope, builder, joined=not is_last)
            elif each.name in names.dropped or each.name in names.characters or self._is_blank(each):
                builder.text(names.characters.get(each.name, ""), original, joined=not is_last)
            else:
                inner = list(document.pieces_within(each, {names.paragraph}, self.read))
                outer = envelope.before[: envelope.before.rindex("<")], document.end_tag(run)
                builder.point(
                    document.text[position : each.start],
                    *inner,
                    document.text[each.end : end],
                    alone=(outer[0], *inner, outer[1]),
                    joined=not is_last,
                    is_break=each.name in names.breaks,
                )
            position = end

    def _add_text(
        self, text: str, original: str, envelope: _Envelope, builder: SegmentBuilder, *, joined: bool
    ) -> None:
        """Adds text; tabs within it separate texts."""
        parts = re.split(r"(\t+)", text)
        for i, part in enumerate(parts):
            source, is_joined = ("", True) if i < len(parts) - 1 else (original, joined)
            if i % 2:
                builder.point(source, alone=(envelope.before + part + envelope.after,), joined=is_joined, is_break=True)
            else:
                builder.text(part, source, joined=is_joined)


def _rendered(
    group: _Group, escape: Encode, tags: Tags, around: Sequence[int], items: Sequence[Item]
) -> Iterator[Piece]:
    """Yields the runs of a translation."""
    # In a paragraph of links alone, text between them gets the properties of the first.
    base = group.base or next((each for each in group.of_tags.values() if each is not None), None)
    path = [base, *(group.of_tags[number] for number in around if number in group.of_tags)]
    for item in items:
        if isinstance(item, Tag):
            yield from tags[item]
            if item.kind == "open":
                path.append(group.of_tags[item.number])
            elif item.kind == "close":
                path.pop()
        else:
            envelope = next(each for each in reversed(path) if each is not None)
            yield envelope.before + escape(item) + envelope.after
