"""Damage to documents: to their bytes, the structure of XML, the members of archives, and constructs of Markdown."""

import io
import random
import re
import warnings
import zipfile
from collections.abc import Callable

from document_makers import Texts

ARCHIVES = (".docx", ".epub", ".odt", ".pptx")
SIGNS = (
    b"<", b">", b"&", b'"', b"'", b"/", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3", b"\r", b"\n", b"\t", b"]]>",
    b"<!--", b"<![CDATA[", b"<?x", b"&#0;", b"&#xD800;", b"&lt;", b"</", b"<!DOCTYPE a [", b"PK\x03\x04", b"-->",
    b"```",
    b"| |", b"[", b"](", b"00:00:00,000 --> 00:00:01,000", b"msgid ", b"<x1>", b"</x1>", b"\xed\xa0\x80", b" " * 500,
)  # fmt: skip
_CONSTRUCTS = (
    "> [!NOTE]\n> {0} {1}\n", "> [!{kept}]- {0}\n", "[[{kept}]]", "[[{kept}|{0}]]", "![[{kept}.png]]",
    r"\({kept}_1\)", r"\[{kept} = 1\]", "\\[\n{kept}\n\\]", r"\\({kept}^2\\)", "{{{{ {kept} }}}}",
    "{{% if {kept} %}}{0}{{% endif %}}", "{{# {kept} #}}", "<%= {kept} %>", "<% {kept} do |{kept}| %>",
    "import {kept} from '{kept}'\n", "\nimport {{{kept}}} from \"{kept}\"\n\n",
    "\nexport const {kept} = {{\n  {kept}: 1,\n}}\n\n", "{0}\n: {1}\n", "{0}\n\n:   {1}\n\n    {2}\n",
    "<code>{kept} &lt; {kept}</code>", "<kbd>{kept}</kbd>", "<br>", "<span translate=\"no\">{kept}</span>",
    "[@{kept}, p. 3]", "H~{kept}~O", "^[{0} *{1}*]", "[^{kept}]", "$${kept}$$", ":::{{{kept}}}\n{0}\n:::\n",
    "::: {kept}\n{0}\n:::\n", "!!! {kept} \"{0}\"\n    {1}\n", "`{kept}`{{=html}}", "{{:{kept}}}",
    "<Keep a={{{kept}}} />", "| {0} | {1} |\n|--|--|\n| `{kept}` | {2} |\n", "<!-- {kept} -->", "&{kept};",
    "![{0}]({kept}.png)", "[{0}][{kept}]\n\n[{kept}]: {kept}.html\n", "~~~ {kept}\n{kept}\n~~~\n",
)  # fmt: skip
_ELEMENT = re.compile(rb"<(?P<name>[\w:-]+)\b[^<>]*(?:/>|>[^<>]*</(?P=name)>)")
_TAG = re.compile(rb"<[^<>]+>")
_INSERTED = (
    b"<!-- a dog -->", b"<?a dog?>", b"<![CDATA[a <dog>]]>", b"<x id='1'/>", b"<mrk mtype='seg' mid='9'>a dog</mrk>",
    b"<mrk mtype='seg' mid='1'/>", b"<g id='1'>a dog</g>", b"<target/>", b"<target>a dog</target>", b"<seg-source/>",
    b"<w:r><w:t>a dog</w:t></w:r>", b"<text:s/>", b"<b>a dog</b>", b"&#160;", b"<br/>", b"a dog", b"<w:p/>", b"<a:p/>",
)  # fmt: skip


def of_bytes(data: bytes, chance: random.Random) -> bytes:
    """Loses, doubles, replaces or inserts bytes."""
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(data) + 1)
        end = min(len(data), start + int(chance.paretovariate(0.7)))
        new = chance.choice((b"", data[start:end] * 2, chance.choice(SIGNS), chance.randbytes(end - start)))
        data = data[:start] + new + data[chance.choice((start, end)) :]
    return data if chance.random() > 0.02 else data[: chance.randrange(len(data) + 1)]


def of_structure(data: bytes, chance: random.Random) -> bytes:
    """Loses, doubles, moves, nests or renames elements, or inserts some: most results are well-formed."""
    for _ in range(chance.randint(1, 3)):
        elements = [match.span() for match in _ELEMENT.finditer(data)]
        tags = [match.end() for match in _TAG.finditer(data)]
        if not elements or not tags:
            return of_bytes(data, chance)
        (start, end), place = chance.choice(elements), chance.choice(tags)
        element = data[start:end]
        match chance.randrange(6):
            case 0:
                data = data[:start] + data[end:]
            case 1:
                data = data[:end] + element + data[end:]
            case 2:
                data = data[:place] + element + data[place:]
            case 3:
                data = data[:start] + b"<g id='7'>" + element + b"</g>" + data[end:]
            case 4:
                attributes = re.findall(rb"[\w:-]+=(?:\"[^\"]*\"|'[^']*')", element)
                old = chance.choice(attributes) if attributes else b" "
                data = data[:start] + element.replace(old, b"" if attributes else b"  ", 1) + data[end:]
            case _:
                data = data[:place] + chance.choice(_INSERTED) + data[place:]
    return data


def of_markdown(data: bytes, chance: random.Random) -> bytes:
    """Inserts constructs of Markdown, whole or cut off, between lines or within them."""
    texts = Texts(chance.randrange(1 << 30))
    for _ in range(chance.randint(1, 5)):
        texts.paragraph()
        new = chance.choice(_CONSTRUCTS).format(*(texts.words(2) for _ in range(3)), kept=texts.kept()).encode()
        if chance.random() < 0.3:
            new = new[: chance.randrange(len(new))]
        breaks = [match.end() for match in re.finditer(rb"\n" if chance.random() < 0.6 else rb" ", data)]
        place = chance.choice(breaks) if breaks else 0
        data = data[:place] + new + data[place:]
    return data if chance.random() > 0.3 else of_bytes(data, chance)


def of_archive(data: bytes, chance: random.Random) -> bytes:
    """Damages a member of an archive, or its directory: names, order, kinds of compression."""
    with zipfile.ZipFile(io.BytesIO(data)) as source:
        members = [(each.filename, source.read(each), each.compress_type) for each in source.infolist()]
    i, j = (chance.randrange(len(members)) for _ in range(2))
    name, content, kind = members[i]
    match chance.randrange(12):
        case 0:
            del members[i]
        case 1:
            members.append(members[i])
        case 2:
            members[i] = (members[j][0], content, kind)
        case 3:
            members[i], members[j] = (name, members[j][1], kind), (members[j][0], content, members[j][2])
        case 4:
            members[i] = (
                chance.choice((name.upper(), f"./{name}", name.replace("/", "\\"), f"{name}/")),
                content,
                kind,
            )
        case 5:
            members[i] = (name, b"", kind)
        case 6:
            members[i] = (name, content, chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)))
        case 7 | 8 | 9:
            members[i] = (name, of_structure(content, chance), kind)
        case _:
            members[i] = (name, of_bytes(content, chance), kind)
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w") as target:
        warnings.simplefilter("ignore")  # of names that occur twice
        for each, text, compression in members:
            target.writestr(each, text, compression)
    return file.getvalue()


def damages(extension: str) -> tuple[Callable[[bytes, random.Random], bytes], ...]:
    """Returns what can happen to documents with this extension."""
    if extension in ARCHIVES:
        return (of_bytes, of_archive, of_archive)
    if extension in (".md", ".mdx"):
        return (of_bytes, of_markdown, of_markdown)
    return (of_bytes, of_structure) if extension in (".html", ".tmx", ".xlf", ".sdlxliff") else (of_bytes,)
