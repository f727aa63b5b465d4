r"""PO, catalogues of GNU gettext: empty translations are filled, fuzzy ones are translated anew and stay fuzzy.

Of plural forms, the first is the translation of `msgid`, the others are those of `msgid_plural`. A single form is that
of `msgid_plural`. Tags in a message are elements; placeholders such as `%s` are those of the pipeline.

A template that names no encoding ("CHARSET") is named UTF-8: gettext refuses to read translations in it otherwise.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from textwrap import shorten

from transduce.translation.documents.languages import Languages, followed, is_same_language
from transduce.translation.documents.messages import add_message
from transduce.translation.documents.plain_text import lines_of
from transduce.translation.documents.segments import Item, Piece, SegmentBuilder, SegmentError, Tags, written_with

_STRING = r'"((?:[^"\\]|\\.)*+)"\s*+'
_STRINGS = rf"(?P<strings>(?:{_STRING})++)\Z"
_FIELD = re.compile(rf"\s*(?P<name>msgctxt|msgid|msgid_plural|msgstr)(?:\[(?P<form>\d{{1,3}})\])?\s*{_STRINGS}")
_FURTHER = re.compile(rf"\s*{_STRINGS}")
_ESCAPE = re.compile(r"(?P<bytes>(?:\\(?:[0-7]{1,3}|x[0-9a-fA-F]{1,2}))++)|\\(?P<other>.)")
_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_MAX_PARTS = 1000  # of an entry
_OTHER = re.compile(r"\s*(?:#|\Z|domain\s+\")")  # comments, empty lines, and what gettext has besides messages
_LANGUAGE = re.compile(r'("Language: *)(?P<code>[\w-]*)(?=\\n)')
_FUZZY = re.compile(r"#,.*\bfuzzy\b")


@dataclass(slots=True)
class _Field:
    name: str
    form: int | None  # of a plural
    texts: list[str] = field(default_factory=list)  # of each string
    lines: list[str] = field(default_factory=list)  # as they are in the catalogue
    end: str = ""  # of its last line

    def add(self, strings: str, line: str, end: str) -> None:
        """Adds a line, and its strings between quotation marks."""
        self.texts += map(_unescaped, re.findall(_STRING, strings))
        self.lines.append(line + end)
        self.end = end

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def source(self) -> str:
        return "".join(self.lines)


@dataclass(slots=True)
class _Entry:
    parts: list[str | _Field] = field(default_factory=list)  # comments are strings
    is_fuzzy: bool = False
    has_target: bool = False

    def further_field(self) -> _Field | None:
        """Returns the field that a line of nothing but text continues, with the empty lines between."""
        end = len(self.parts)
        while end and isinstance(last := self.parts[end - 1], str) and not last.strip():
            end -= 1
        field = self.parts[end - 1] if end else None
        if not isinstance(field, _Field):
            return None
        field.lines += map(str, self.parts[end:])
        del self.parts[end:]
        return field

    def is_begun_again_by(self, name: str) -> bool:
        """Returns whether a field of this name, or a comment (""), belongs to the next entry.

        Very many comments, or fields without a translation, are no entry of any program: they are read in parts.
        """
        return name != "msgstr" and (self.has_target or (not self.is_fuzzy and len(self.parts) >= _MAX_PARTS))


def read_po(text: str, languages: Languages | None = None) -> Iterator[Piece]:
    """Yields the pieces of a catalogue; its header names the target of `languages`, if it named none or the source.

    Raises:
        SegmentError: a line is none of a catalogue.
    """
    for entry in _entries(text):
        fields = [part for part in entry.parts if isinstance(part, _Field)]
        texts = {each.name: each.text for each in fields}
        num_forms = sum(each.form is not None for each in fields)
        for part in entry.parts:
            if isinstance(part, str):
                yield part
            elif part.name == "msgstr" and texts.get("msgid") == "":  # the header
                source = part.source.replace("; charset=CHARSET\\n", "; charset=UTF-8\\n")
                yield _LANGUAGE.sub(partial(_language, languages or Languages()), source)
            elif part.name != "msgstr" or not texts.get("msgid") or (part.text and not entry.is_fuzzy):
                yield part.source
            else:
                is_singular = not part.form and num_forms != 1
                yield from _filled(part, texts["msgid"] if is_singular else texts.get("msgid_plural", texts["msgid"]))


def languages_of_catalogue(text: str, languages: Languages) -> Languages:
    """Returns the language that a catalogue declares for its translations; "" if it is the source, as in a copy."""
    found = _LANGUAGE.search(text)
    code = found["code"] if found is not None else ""
    return Languages("", "" if is_same_language(code, languages.source) else code)


def _language(languages: Languages, field: re.Match[str]) -> str:
    code, given = field["code"], field["code"] or "und"
    found = followed(given, languages if code else Languages(given, languages.target))
    return field[1] + (code if found == given else found.replace("-", "_"))


def _entries(text: str) -> Iterator[_Entry]:
    entry = _Entry()
    for number, (line, end) in enumerate(lines_of(text), 1):
        found, further = _FIELD.match(line), _FURTHER.match(line)
        if found is None and further is not None and (last := entry.further_field()) is not None:
            last.add(further["strings"], line, end)
            continue
        if found is None and not _OTHER.match(line):  # its message would be left out without a word
            shown = shorten(line, 60, placeholder=" …")
            raise SegmentError(f"line {number} is no line of a catalogue: {shown!r}. `msgfmt -c` shows what is wrong.")
        if line.strip() and entry.is_begun_again_by(found["name"] if found is not None else ""):
            yield entry
            entry = _Entry()
        if found is None:
            entry.parts.append(line + end)
            entry.is_fuzzy |= _FUZZY.match(line) is not None
        else:
            form = int(found["form"]) if found["form"] else None
            entry.parts.append(added := _Field(found["name"], form))
            added.add(found["strings"], line, end)
            entry.has_target |= added.name == "msgstr"
    yield entry


def _filled(target: _Field, text: str) -> Iterator[Piece]:
    """Yields the pieces of a translation that is to be written."""
    builder = SegmentBuilder()
    add_message(builder, text)
    name = "msgstr" if target.form is None else f"msgstr[{target.form}]"

    def render(tags: Tags, _: Sequence[int], items: Sequence[Item]) -> Iterator[Piece]:
        whole = written_with(str, tags, items)
        yield _written(name, whole, "\r\n" if "\r\n" in target.source else "\n") + target.end

    return builder.filled(render, target.source)


def _written(name: str, text: str, newline: str) -> str:
    lines = [line for line in re.split(r"(?<=\n)", text) if line]
    quoted = ['"' + re.sub(r'[\\"\n\t\r]', lambda match: _ESCAPES[match[0]], line) + '"' for line in lines]
    return f"{name} " + newline.join(quoted if len(quoted) == 1 else ['""', *quoted])


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_characters, text)


def _characters(escape: re.Match[str]) -> str:
    """Returns what escapes mean: a character, or bytes of UTF-8, as `msgcat --escape` writes them."""
    if escape["other"] is not None:
        return _CHARACTERS.get(escape["other"], escape["other"])
    numbers = escape["bytes"].split("\\")[1:]
    data = bytes(int(each[1:], 16) if each[0] == "x" else int(each, 8) & 0xFF for each in numbers)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")
