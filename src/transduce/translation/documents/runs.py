"""Paragraphs made of runs, as Word and PowerPoint write them: stretches of text with properties of their own.

    <w:p><w:r><w:t>The </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>dog</w:t></w:r><w:r><w:t> runs.</w:t></w:r></w:p>
    →  "The <x1>dog</x1> runs."

Neighbouring runs of equal properties are one. The text of most runs has no tags: that of the properties which most
characters of a paragraph or link have. Anything else in a paragraph (a tab, a picture, a reference to a footnote) is a
point between words. Fields and what was deleted are copied with their text.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from transduce.translation.documents.segments import Item, Piece, Render, SegmentBuilder, Tag
from transduce.translation.documents.xml_tree import Node, XmlDocument, escape_text, pieces_within

_NAME = re.compile(r"<([^\s/>]+)")


@dataclass(frozen=True, slots=True)
class RunNames:
    """What the elements of a format are called."""

    paragraph: str
    run: str
    run_properties: str
    text: str
    containers: frozenset[str]  # of runs, within a paragraph, such as links
    container_properties: frozenset[str] = frozenset()  # stand at the beginning of a container
    breaks: frozenset[str] = frozenset()  # line breaks and tabs, between runs or in them
    dropped: frozenset[str] = frozenset()  # say something about words of the source, such as their spelling
    field: str = ""  # stands at the beginning and the end of a field
    text_attributes: str = ""  # of new text
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
    """The envelopes of texts: those of the elements that are open, with that of text without a tag below them."""

    base: _Envelope | None
    of_tags: dict[int, _Envelope | None]


class ParagraphReader:
    """Reads the paragraphs of a document, in order: fields may reach over several."""

    def __init__(self, document: XmlDocument, names: RunNames) -> None:
        """Takes the document, and what its elements are called."""
        self._document = document
        self._names = names
        self._field_depth = 0

    def read(self, paragraph: Node) -> Iterator[Piece]:
        """Yields the pieces of a paragraph."""
        yield self._document.start_tag(paragraph)
        builder = SegmentBuilder()
        group = _Group(self._base(paragraph), {})
        self._add_children(paragraph.children, builder, group, group.base)

        def rendering(tags: dict[Tag, tuple[Piece, ...]], around: list[int]) -> Render:
            return lambda items: _rendered(items, tags, around, group)

        yield from builder.pieces(rendering)
        yield self._document.end_tag(paragraph)

    def _base(self, container: Node) -> _Envelope | None:
        """Returns the envelope of most characters in a paragraph or container; None if it has no text."""
        counts: Counter[str] = Counter()
        envelopes: dict[str, _Envelope] = {}
        for run in container.children:
            for text in run.children if run.name == self._names.run else ():
                if text.name == self._names.text:
                    envelope = self._envelope(run, text)
                    counts[envelope.key] += len(self._characters(text).strip())
                    envelopes.setdefault(envelope.key, envelope)
        return envelopes[max(counts, key=lambda key: counts[key])] if counts else None

    def _envelope(self, run: Node, text: Node) -> _Envelope:
        document, names = self._document, self._names
        start_tag = document.start_tag(run)
        properties = "".join(document.source(each) for each in run.children if each.name == names.run_properties)
        match = _NAME.match(document.start_tag(text))
        assert match is not None  # a start tag has a name
        before = f"{start_tag}{properties}<{match[1]}{names.text_attributes}>"
        return _Envelope(before, f"</{match[1]}>{document.end_tag(run)}", names.irrelevant.sub("", properties))

    def _characters(self, text: Node) -> str:
        return "".join(self._document.characters(each) for each in text.children if each.name == "#text")

    def _add_children(
        self, children: Sequence[Node], builder: SegmentBuilder, group: _Group, base: _Envelope | None
    ) -> None:
        """Adds what is in a paragraph or container."""
        document, names = self._document, self._names
        key, number = base.key if base is not None else "", 0  # of the runs so far: 0 without a tag
        field: list[str] = []  # sources of what is between the ends of a field
        for child in children:
            was_in_field, is_run = self._field_depth > 0, child.name == names.run
            if is_run and names.field:
                self._count_field(child)
            if was_in_field or self._field_depth > 0:
                field.append(document.source(child))
                if self._field_depth == 0:
                    builder.point("".join(field))
                    field = []
                continue
            contents = [each for each in child.children if each.name != names.run_properties] if is_run else []
            texts = [each for each in contents if each.name == names.text]
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
                self._add_container(child, builder, group)
            elif child.name in names.dropped:
                builder.text("", document.source(child))
            else:
                is_break = any(each.name in names.breaks for each in (child, *contents))
                builder.point(*pieces_within(document, child, {names.paragraph}, self.read), is_break=is_break)
        if number:
            builder.close(number)
        if field:
            builder.point("".join(field))

    def _count_field(self, run: Node) -> None:
        for each in run.children:
            if each.name == self._names.field:
                kind = next((v for k, v in self._document.attributes(each).items() if k.endswith("fldCharType")), "")
                step = {"begin": 1, "end": -1}.get(kind, 0)
                self._field_depth = max(0, self._field_depth + step)

    def _add_container(self, container: Node, builder: SegmentBuilder, group: _Group) -> None:
        document = self._document
        children = container.children
        first = next(i for i, each in enumerate([*children, None]) if not each or not self._is_property(each))
        properties = "".join(document.source(each) for each in children[:first])
        base = self._base(container)
        number = builder.open(document.start_tag(container) + properties)
        group.of_tags[number] = base
        self._add_children(children[first:], builder, group, base)
        builder.close(number, document.end_tag(container))

    def _has_text(self, node: Node) -> bool:
        names = self._names
        inner = (each for each in node.children if each.name in names.containers)
        return self._base(node) is not None or any(map(self._has_text, inner))

    def _is_property(self, node: Node) -> bool:
        return node.name in self._names.container_properties

    def _add_run(self, run: Node, contents: Sequence[Node], envelope: _Envelope, builder: SegmentBuilder) -> None:
        """Adds the texts of a run, and points for what is between them."""
        document, names = self._document, self._names
        position = run.start
        for i, each in enumerate(contents):
            is_last = i == len(contents) - 1
            end = run.end if is_last else each.end
            original = document.text[position:end]
            if each.name == names.text:
                builder.text(self._characters(each), original, joined=not is_last)
            elif each.name in names.dropped or each.name.startswith("#"):
                builder.text("", original, joined=not is_last)
            else:
                inner = list(pieces_within(document, each, {names.paragraph}, self.read))
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


def _rendered(
    items: Sequence[Item], tags: dict[Tag, tuple[Piece, ...]], around: Sequence[int], group: _Group
) -> Iterator[Piece]:
    """Yields the runs of a translation."""
    path = [group.base, *(group.of_tags[number] for number in around if number in group.of_tags)]
    for item in items:
        if isinstance(item, Tag):
            yield from tags[item]
            if item.kind == "open":
                path.append(group.of_tags[item.number])
            elif item.kind == "close":
                path.pop()
        else:
            envelope = next(each for each in reversed(path) if each is not None)
            yield envelope.before + escape_text(item) + envelope.after
