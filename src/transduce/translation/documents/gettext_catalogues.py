r"""PO, catalogues of GNU gettext: empty translations are filled, fuzzy ones are translated anew and stay fuzzy.

Of plural forms, the first is the translation of `msgid`, the others are those of `msgid_plural`. A single form is that
of `msgid_plural`. Tags in a message are elements; placeholders such as `%s` are those of the pipeline.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from transduce.translation.documents.inline_tags import add_tagged_text
from transduce.translation.documents.plain_text import lines_of
from transduce.translation.documents.segments import Item, Piece, Render, SegmentBuilder, Tag, written

_FIELD = re.compile(r'\s*(?P<name>msgctxt|msgid|msgid_plural|msgstr)(?:\[(?P<form>\d{1,3})\])?\s*"(?P<text>.*)"\s*\Z')
_FURTHER = re.compile(r'\s*"(?P<text>.*)"\s*\Z')
_ESCAPE = re.compile(r"\\(.)")
_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_FUZZY = re.compile(r"#,.*\bfuzzy\b")


@dataclass(slots=True)
class _Field:
    name: str
    form: int | None  # of a plural
    text: str
    source: str  # its lines
    end: str = "\n"  # of its last line


@dataclass(slots=True)
class _Entry:
    parts: list[str | _Field] = field(default_factory=list)  # comments are strings
    is_fuzzy: bool = False

    @property
    def fields(self) -> list[_Field]:
        return [part for part in self.parts if isinstance(part, _Field)]

    def is_begun_again_by(self, name: str) -> bool:
        """Returns whether a field of this name, or a comment (""), belongs to the next entry."""
        return name != "msgstr" and any(each.name == "msgstr" for each in self.fields)


def read_po(text: str) -> Iterator[Piece]:
    """Yields the pieces of a catalogue."""
    for entry in _entries(text):
        texts = {each.name: each.text for each in entry.fields}
        num_forms = sum(each.form is not None for each in entry.fields)
        for part in entry.parts:
            if isinstance(part, str):
                yield part
            elif part.name != "msgstr" or not texts.get("msgid") or (part.text and not entry.is_fuzzy):
                yield part.source
            else:
                is_singular = not part.form and num_forms != 1
                yield from _filled(part, texts["msgid"] if is_singular else texts.get("msgid_plural", texts["msgid"]))


def _entries(text: str) -> Iterator[_Entry]:
    entry = _Entry()
    for line, end in lines_of(text):
        found, further = _FIELD.match(line), _FURTHER.match(line)
        if found is None and further is not None and entry.parts and isinstance(last := entry.parts[-1], _Field):
            last.text += _unescaped(further["text"])
            last.source, last.end = last.source + line + end, end
            continue
        if entry.is_begun_again_by(found["name"] if found is not None else ""):
            yield entry
            entry = _Entry()
        if found is None:
            entry.parts.append(line + end)
            entry.is_fuzzy |= _FUZZY.match(line) is not None
        else:
            form = int(found["form"]) if found["form"] else None
            entry.parts.append(_Field(found["name"], form, _unescaped(found["text"]), line + end, end))
    yield entry


def _filled(target: _Field, text: str) -> Iterator[Piece]:
    """Yields the pieces of a translation that is to be written."""
    builder = SegmentBuilder()
    add_tagged_text(builder, text, str, {})
    name = "msgstr" if target.form is None else f"msgstr[{target.form}]"

    def rendering(tags: dict[Tag, tuple[Piece, ...]], _: list[int]) -> Render:
        def render(items: Sequence[Item]) -> Iterator[Piece]:
            whole = "".join("".join(written(tags[item])) if isinstance(item, Tag) else item for item in items)
            yield _written(name, whole, "\r\n" if "\r\n" in target.source else "\n") + target.end

        return render

    yield from builder.filled(rendering, target.source)


def _written(name: str, text: str, newline: str) -> str:
    lines = [line for line in re.split(r"(?<=\n)", text) if line]
    quoted = ['"' + re.sub(r'[\\"\n\t\r]', lambda match: _ESCAPES[match[0]], line) + '"' for line in lines]
    return f"{name} " + newline.join(quoted if len(quoted) == 1 else ['""', *quoted])


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: _CHARACTERS.get(match[1], match[1]), text)
