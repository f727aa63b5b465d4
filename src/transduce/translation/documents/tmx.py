"""TMX, translation memories: units without a text in the target language get one."""

import re
from collections.abc import Iterator, Mapping
from functools import partial

from transduce.errors import ConfigError
from transduce.translation.documents.inline_xml import InlineNames, InlineReader
from transduce.translation.documents.languages import Languages, first_of_others, is_same_language
from transduce.translation.documents.parts import Content
from transduce.translation.documents.segments import Piece
from transduce.translation.documents.xml_tree import Node, XmlDocument, attributes_of, escape_text

_PREFIXES = {"http://www.lisa.org/tmx14": ""}
_NAMES = InlineNames(elements=frozenset(("hi",)), pairs={"bpt": "ept"})
_HEADER = re.compile(r"<(?:[\w.-]+:)?header\b(?:[^\"'<>]++|\"[^\"<]*\"|'[^'<]*')*+>")
_VARIANT = re.compile(_HEADER.pattern.replace("header", "tuv"))


def read_tmx(data: bytes, name: str, languages: Languages) -> Content:
    """Reads a TMX file.

    Raises:
        ConfigError: the target language is not known.
        DataError: the file is damaged.
    """
    if not languages.target:
        raise ConfigError(f"{name}: TMX names the language of each text: name the target (--target-language CODE).")
    document = XmlDocument(data, name, _PREFIXES, declares_prefixes=True)
    document.require_root("tmx", "TMX")
    header = _HEADER.search(document.text)
    declared = attributes_of(header[0]).get("srclang", "") if header is not None else ""
    known = Languages(languages.source or declared.replace("*all*", ""), languages.target)
    read = partial(_read_unit, InlineReader(document, _NAMES), known)
    codes = [_code(attributes_of(match[0])) for match in _VARIANT.finditer(document.text)]
    is_ours = any(is_same_language(code, known.source) for code in codes)
    remark = "" if is_ours else first_of_others(map(Languages, codes), known)
    return Content(document.decoded.encode, document.pieces({"tu"}, read), remark)


def _code(attributes: Mapping[str, str]) -> str:
    return attributes.get("xml:lang", attributes.get("lang", ""))


def _read_unit(inline: InlineReader, languages: Languages, unit: Node) -> Iterator[Piece]:
    document = inline.document
    variants = [child for child in unit.children if child.name == "tuv"]
    codes = [_code(document.attributes(each)) for each in variants]
    sources = [each for each, code in zip(variants, codes, strict=True) if is_same_language(code, languages.source)]
    if not languages.source:
        sources = variants[:1]
    texts = [child for source in sources[:1] for child in source.children if child.name == "seg"]
    given = [each for each, code in zip(variants, codes, strict=True) if is_same_language(code, languages.target)]
    slots = [child for each in given for child in each.children if child.name == "seg"]
    if not texts or (given and not slots) or any(document.inner(slot).strip() for slot in slots):
        yield document.source(unit)
        return
    if slots:
        tag = document.start_tag(slots[0]).removesuffix(">").removesuffix("/").rstrip()
        before = f"{document.text[unit.start : slots[0].start]}{tag}>"
        after = f"</{document.written_name(slots[0])}>{document.text[slots[0].end : unit.end]}"
    else:
        indent = document.indent(unit, variants[0])
        end = variants[-1].end
        prefix = document.start_tag(variants[0]).removeprefix("<").partition("tuv")[0]
        language = escape_text(languages.target).replace('"', "&quot;")
        before = f'{document.text[unit.start : end]}{indent}<{prefix}tuv xml:lang="{language}"><{prefix}seg>'
        after = f"</{prefix}seg></{prefix}tuv>{document.text[end : unit.end]}"
    yield from inline.filled(texts[0], before, after, document.source(unit))
