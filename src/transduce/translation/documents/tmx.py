"""TMX, translation memories: units without a text in the target language get one."""

import re
from collections.abc import Iterator, Sequence

from transduce.errors import ConfigError
from transduce.translation.documents.inline_xml import InlineNames, InlineReader
from transduce.translation.documents.languages import Languages, is_same_language
from transduce.translation.documents.parts import Content
from transduce.translation.documents.segments import Item, Piece, Render, Tag, encoded_with
from transduce.translation.documents.xml_tree import Node, XmlDocument, attributes_of, escape_text, pieces_of

_PREFIXES = {"http://www.lisa.org/tmx14": ""}
_NAMES = InlineNames(elements=frozenset(("hi",)), pairs={"bpt": "ept"})
_HEADER = re.compile(r"<(?:[\w.-]+:)?header\b(?:[^\"'>]++|\"[^\"]*\"|'[^']*')*+>")


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
    reader = _Reader(document, languages)
    return Content(document.decoded.encode, pieces_of(document.blocks({"tu"}), reader.read))


class _Reader:
    def __init__(self, document: XmlDocument, languages: Languages) -> None:
        self._document = document
        self._inline = InlineReader(document, _NAMES)
        header = _HEADER.search(document.text)
        declared = attributes_of(header[0]).get("srclang", "") if header is not None else ""
        self._source = languages.source or declared.replace("*all*", "")
        self._target = languages.target

    def _language(self, variant: Node) -> str:
        attributes = self._document.attributes(variant)
        return attributes.get("xml:lang", attributes.get("lang", ""))

    def read(self, unit: Node) -> Iterator[Piece]:
        document = self._document
        variants = [child for child in unit.children if child.name == "tuv"]
        sources = [each for each in variants if is_same_language(self._language(each), self._source)]
        if not self._source:
            sources = variants[:1]
        texts = [child for source in sources[:1] for child in source.children if child.name == "seg"]
        if not texts or any(is_same_language(self._language(each), self._target) for each in variants):
            yield document.source(unit)
            return
        builder = self._inline.builder(texts[0].children)
        gap = document.text[unit.inner_start : variants[0].start]
        indent = gap[len(gap.rstrip()) :]
        end = variants[-1].end
        prefix = document.start_tag(variants[0]).removeprefix("<").partition("tuv")[0]
        language = escape_text(self._target).replace('"', "&quot;")

        def rendering(tags: dict[Tag, tuple[Piece, ...]], around: list[int]) -> Render:
            inner = encoded_with(escape_text)(tags, around)

            def render(items: Sequence[Item]) -> Iterator[Piece]:
                yield f'{document.text[unit.start : end]}{indent}<{prefix}tuv xml:lang="{language}"><{prefix}seg>'
                yield from inner(items)
                yield f"</{prefix}seg></{prefix}tuv>{document.text[end : unit.end]}"

            return render

        yield from builder.filled(rendering, document.source(unit))
