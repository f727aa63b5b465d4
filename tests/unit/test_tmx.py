"""Translation memories as tools write them, what is taken of them, and what hostile and damaged files lead to."""

import gzip
import random
from html import escape
from pathlib import Path

import pytest

from transduce.data import readers, tmx
from transduce.data.readers import PairReader, read_pairs
from transduce.data.tmx import is_tmx
from transduce.errors import DataError

OMEGAT = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx11.dtd">
<tmx version="1.1">
  <header creationtool="OmegaT" o-tmf="OmegaT TMX" adminlang="EN-US" datatype="plaintext"
          creationtoolversion="4.3.2" segtype="sentence" srclang="EN-US"/>
  <body>
<!-- Default translations -->
    <tu>
      <tuv lang="EN-US">
        <seg>Close the &lt;f0&gt;door&lt;/f0&gt;.</seg>
      </tuv>
      <tuv lang="DE" changeid="ana" changedate="20240102T030405Z">
        <seg>Schließen Sie die &lt;f0&gt;Tür&lt;/f0&gt;.</seg>
      </tuv>
    </tu>
<!-- Alternative translations -->
    <tu>
      <prop type="file">a.txt</prop>
      <prop type="next">kept out</prop>
      <note>kept out</note>
      <tuv lang="EN-US"><seg>Open</seg></tuv>
      <tuv lang="DE"><seg>Offen &amp; frei</seg></tuv>
    </tu>
  </body>
</tmx>
"""

OMEGAT_LEVEL_2 = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header creationtool="OmegaT" o-tmf="OmegaT TMX" adminlang="EN-US" datatype="plaintext"
 creationtoolversion="5.7" segtype="sentence" srclang="EN-US"/><body>
<tu><tuv xml:lang="EN-US"><seg>Close the <bpt i="0" x="0">&lt;f0&gt;</bpt>door<ept i="0">&lt;/f0&gt;</ept>.</seg></tuv>
<tuv xml:lang="DE"><seg>Schließen Sie die <bpt i="0" x="0">&lt;f0&gt;</bpt>Tür<ept i="0">&lt;/f0&gt;</ept>.</seg></tuv>
</tu>
</body></tmx>
"""

TRADOS = """<?xml version="1.0" ?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="version 1.4">
<header
  creationtool="TRADOS Translator's Workbench for Windows"
  creationtoolversion="Edition 7 Build 719"
  segtype="sentence"
  o-tmf="TW4Win 2.0 Format"
  adminlang="EN-US"
  srclang="EN-US"
  datatype="rtf"
>
<prop type="RTFFontTable">
{\\fonttbl
{\\f1 \\fmodern\\fprq1 \\fcharset0 Courier New;}}</prop>
</header>

<body>
<tu creationdate="20051203T102030Z" creationid="ANA">
<prop type="Txt::Client">kept out</prop>
<tuv xml:lang="EN-US">
<seg>Press <ut>{\\b </ut>Enter<ut>}</ut>, then wait.</seg>
</tuv>
<tuv xml:lang="DE-DE">
<seg>Drücken Sie <ut>{\\b </ut>Enter<ut>}</ut>, und warten Sie.</seg>
</tuv>
</tu>
</body>
</tmx>
"""

STUDIO = """<?xml version="1.0" encoding="utf-8"?>
<tmx version="1.4"><header creationtool="SDL Language Platform" creationtoolversion="8.1" o-tmf="SDL TM8 Format"
 datatype="xml" segtype="sentence" adminlang="en-GB" srclang="en-GB" creationdate="20200101T000000Z" creationid="x">
<prop type="x-Recognizers">RecognizeAll</prop></header><body><tu creationdate="20200101T000000Z"
 creationid="x" usagecount="2"><prop type="x-LastUsedBy">x</prop><tuv xml:lang="en-GB"><seg><bpt i="1" type="13"
 x="1" />Warning<ept i="1" />:<ph x="2" type="lb" />hot <ph x="3" type="12" />surface</seg></tuv><tuv
 xml:lang="de-DE"><seg><bpt i="1" type="13" x="1" />Achtung<ept i="1" />:<ph x="2" type="lb" />heiße
 <ph x="3" type="12" />Fläche</seg></tuv></tu></body></tmx>
"""

MEMOQ = """<?xml version="1.0" encoding="utf-8"?><tmx version="1.4">
  <header creationtool="MemoQ" creationtoolversion="9.4.10" segtype="sentence" adminlang="en-us" creationid="ana"
   srclang="en" o-tmf="MemoQTM" datatype="unknown">
    <prop type="defclient">x</prop><prop type="name">My memory</prop>
  </header>
  <body>
    <tu changedate="20200101T000000Z" creationdate="20200101T000000Z" creationid="ana" changeid="ana">
      <prop type="client">x</prop><prop type="corrected">no</prop>
      <tuv xml:lang="en">
        <prop type="x-context-pre">&lt;seg&gt;kept out&lt;/seg&gt;</prop>
        <seg>See <bpt i='1' type='bold'>{}</bpt>page<ept i='1'>{}</ept>
 <ph>&lt;mq:ch val=&quot; &quot; /&gt;</ph>7.</seg>
      </tuv>
      <tuv xml:lang="de">
        <prop type="x-context-post">&lt;seg /&gt;</prop>
        <seg>Siehe <bpt i='1' type='bold'>{}</bpt>Seite<ept i='1'>{}</ept>
 <ph>&lt;mq:ch val=&quot; &quot; /&gt;</ph>7.</seg>
      </tuv>
    </tu>
  </body>
</tmx>
"""

WEBLATE = """<?xml version='1.0' encoding='UTF-8'?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4">
  <header creationtool="Translate Toolkit" creationtoolversion="3.8.6" segtype="sentence" o-tmf="UTF-8" adminlang="en"
   srclang="en" datatype="PlainText"/>
  <body>
    <tu>
      <tuv xml:lang="en">
        <seg>Delete &quot;%s&quot;?
This cannot be undone.</seg>
      </tuv>
      <tuv xml:lang="pt_BR">
        <seg>Excluir &quot;%s&quot;?
Isso não pode ser desfeito.</seg>
      </tuv>
    </tu>
    <tu>
      <tuv xml:lang="en"><seg>Not translated</seg></tuv>
    </tu>
    <tu>
      <tuv xml:lang="en"><seg>Empty</seg></tuv><tuv xml:lang="pt_BR"><seg/></tuv>
    </tu>
  </body>
</tmx>
"""

TOOLKIT = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx PUBLIC "-//LISA OSCAR:1998//DTD for Translation Memory eXchange//EN" "tmx14.dtd">
<tmx version="1.4">
<header segtype="sentence" o-tmf="UTF-8" adminlang="en" srclang="en" datatype="PlainText"
 creationtool="Google Translator Toolkit" creationtoolversion="1"></header>
<body>
<tu srclang="en"><tuv xml:lang="en"><seg>Good <hi>morning</hi>, <it pos="begin">&lt;i&gt;</it>Ana</seg></tuv>
<tuv xml:lang="de"><seg>Guten <hi>Morgen</hi>, <it pos="begin">&lt;i&gt;</it>Ana</seg></tuv></tu>
</body></tmx>
"""

OKAPI = """<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4">
<header creationtool="oku_alignment" creationtoolversion="1" segtype="paragraph" o-tmf="okp" adminlang="en"
 srclang="*all*" datatype="text"></header>
<body>
<tu tuid="tu1">
<prop type="Att::Txt::FileName">a.html</prop>
<tuv xml:lang="en-US"><seg>A <bpt i="1" type="bold">&lt;b></bpt>red<ept i="1">&lt;/b></ept> car<ph x="2">&lt;img
 alt="<sub>kept out</sub>"/></ph>.</seg></tuv>
<tuv xml:lang="de-DE"><seg>Ein <bpt i="1" type="bold">&lt;b></bpt>rotes<ept i="1">&lt;/b></ept> Auto.</seg></tuv>
</tu>
</body>
</tmx>
"""

OPUS = """<?xml version="1.0" encoding="UTF-8" ?>
<tmx version="1.4">
<header creationdate="Mon Jan  1 00:00:00 2018" srclang="de" adminlang="de" o-tmf="unknown" segtype="sentence"
 creationtool="Uplug" creationtoolversion="unknown" datatype="PlainText" />
  <body>
    <tu>
      <tuv xml:lang="de"><seg>Das Haus ist alt.</seg></tuv>
      <tuv xml:lang="en"><seg>The house is old.</seg></tuv>
    </tu>
  </body>
</tmx>
"""

TOOLS = {
    "OmegaT": (
        OMEGAT,
        [
            ("Close the <f0>door</f0>.", "Schließen Sie die <f0>Tür</f0>."),
            ("Open", "Offen & frei"),
        ],
    ),
    "OmegaT, level 2": (OMEGAT_LEVEL_2, [("Close the door.", "Schließen Sie die Tür.")]),
    "Trados": (TRADOS, [("Press Enter, then wait.", "Drücken Sie Enter, und warten Sie.")]),
    "Trados Studio": (STUDIO, [("Warning: hot surface", "Achtung: heiße Fläche")]),
    "memoQ": (MEMOQ, [("See page 7.", "Siehe Seite 7.")]),
    "Google Translator Toolkit": (TOOLKIT, [("Good morning, Ana", "Guten Morgen, Ana")]),
    "Okapi": (OKAPI, [("A red car.", "Ein rotes Auto.")]),
    "OPUS": (OPUS, [("The house is old.", "Das Haus ist alt.")]),
}


def memory(*units: str, srclang: str = "en", version: str = "1.4") -> str:
    """A file of units, each on a line of its own, the first on line 4."""
    header = f'<?xml version="1.0"?>\n<tmx version="{version}"><header srclang="{srclang}"/>\n<body>\n'
    return header + "".join(f"{unit}\n" for unit in units) + "</body></tmx>"


def unit(**segments: str) -> str:
    """A unit with a variant for each keyword, whose "_" is the file's "-"."""
    variants = (f'<tuv xml:lang="{code.replace("_", "-")}"><seg>{seg}</seg></tuv>' for code, seg in segments.items())
    return f"<tu>{''.join(variants)}</tu>"


def written(folder: Path, text: str | bytes, name: str = "a.tmx") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def read(path: Path, source: str = "", target: str = "") -> list[tuple[str, str]]:
    return list(read_pairs([path], languages=(source, target)))


def problem(path: Path, source: str = "en", target: str = "de") -> str:
    with pytest.raises(DataError) as error:
        read(path, source, target)
    return str(error.value)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("block_bytes", [1, 7, 1 << 20])
def test_files_of_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, encoding: str, block_bytes: int
) -> None:
    monkeypatch.setattr(readers, "_BLOCK_BYTES", block_bytes)
    text, pairs = TOOLS[tool]
    if encoding.startswith("utf-16"):
        mark = "\ufeff" if encoding == "utf-16-be" else ""
        text = mark + text.replace('encoding="UTF-8"', 'encoding="utf-16"').replace('encoding="utf-8"', "")
    assert read(written(tmp_path, text.encode(encoding)), "en", "de") == pairs


@pytest.mark.parametrize("name", ["a.TMX", "a.tmx.gz", "a.tmx.zst"])
def test_packed_files_and_names(tmp_path: Path, name: str) -> None:
    data = {"gz": gzip.compress, "zst": readers.zstd.compress}.get(name.rsplit(".", 1)[-1], bytes)(OMEGAT.encode())
    path = written(tmp_path, data, name)
    reader = PairReader([path], languages=("en", "de"))
    assert list(reader) == TOOLS["OmegaT"][1]
    assert reader.position_bytes == len(data)


def test_what_is_a_memory_by_name() -> None:
    yes, no = ["a.tmx", "A.TMX", "b.tmx.gz", "c.tmx.zst"], ["tmx", "a.tmx.txt", "a.tmx.xz", "a.tsv", "-"]
    assert [is_tmx(Path(name)) for name in yes + no] == [True] * 4 + [False] * 5


def test_line_ends_and_units_without_a_translation(tmp_path: Path) -> None:
    reader = PairReader([written(tmp_path, WEBLATE)])
    assert list(reader) == [
        ('Delete "%s"? This cannot be undone.', 'Excluir "%s"? Isso não pode ser desfeito.'),
        ("Empty", ""),  # a pair with an empty side, which the checks of a corpus count
    ]
    path = tmp_path / "a.tmx"
    assert [reader.location(number).shown(1) for number in (1, 2)] == [f"{path}: unit 1", f"{path}: unit 3"]
    assert reader.skipped == (1, [f"{path}: unit 2"])
    assert reader.languages == ("en", "pt_BR")


@pytest.mark.parametrize(
    ("segment", "line"),
    [
        ("a\tb", "a b"),
        ("\n    a\n    b  \n", "a b"),
        ("a&#13;&#10;b&#9;&#9;c", "a b c"),
        ("a \u2028 b\u2029c\u0085d", "a b c d"),
        ("a  b\u00a0! ", "a  b\u00a0!"),  # only a run with a line end or a tab is one space
        ("<![CDATA[a < b & c]]>", "a < b & c"),
        ("a<ph type='lb'/>b<ph type='pb'/>c<ph/>d", "a b cd"),
        ("re<bpt i='1'>x</bpt>al<ept i='1'/>", "real"),
        ("<hi>a <ph>x<sub>y <hi>z</hi></sub>x</ph>b</hi><ut>u</ut><it pos='end'>i</it>.", "a b."),
        ("a <g id='1'>b</g>", "a b"),  # not TMX: the text of other elements stays
        ("&#x1F600; &lt;&gt;&apos;", "\U0001f600 <>'"),
        ("", ""),
    ],
)
def test_segments(tmp_path: Path, segment: str, line: str) -> None:
    assert read(written(tmp_path, memory(unit(en=segment, de="x")))) == [(line, "x")]


def test_a_second_segment_of_a_variant_is_not_read(tmp_path: Path) -> None:
    text = memory(unit(en="a</seg><seg>x", de="b</seg><note>y</note><seg>z"))
    assert read(written(tmp_path, text), "en", "de") == [("a", "b")]


def test_codes_are_not_read_into_the_next_segment(tmp_path: Path) -> None:
    path = written(tmp_path, memory(unit(en="a<ph>1</ph>", fr="<hi>no</hi>", de="<ph>2<sub>3</sub></ph>b")))
    assert read(path, "en", "de") == [("a", "b")]


@pytest.mark.parametrize(
    ("source", "target", "pairs"),
    [
        ("en", "de", [("us", "de"), ("gb", "at")]),  # the first variant of a language, whatever its region
        ("en-GB", "de", [("gb", "de"), ("gb", "at")]),  # the same code, although it comes later
        ("EN_us", "DE-at", [("us", "at"), ("gb", "at")]),
        ("de", "en", [("de", "us"), ("at", "gb")]),
        ("en-US", "en-GB", [("us", "gb")]),  # of one language, only the same codes
        ("pt", "de", [("pt", "de"), ("br", "at")]),
    ],
)
def test_variants_of_languages(tmp_path: Path, source: str, target: str, pairs: list[tuple[str, str]]) -> None:
    text = memory(
        unit(pt="pt", en_US="us", de_CH="de", en_GB="gb", de_AT="at" if target == "DE-at" else "at?"),
        unit(en_GB="gb", en_AU="au", pt_BR="br", de_AT="at"),
        unit(en_US="us", en_AU="au"),
    )
    assert read(written(tmp_path, text), source, target) == pairs


def test_where_no_language_is_given_the_header_says_the_source(tmp_path: Path) -> None:
    path = written(tmp_path, memory(unit(de="a", en_GB="b"), unit(en_US="c", de_AT="d"), srclang="EN"))
    reader = PairReader([path])
    assert reader.languages == ("", "")
    assert list(reader) == [("b", "a"), ("c", "d")]
    assert reader.languages == ("EN", "de")
    assert read(path, "de") == read(path, "", "en") == read(path, "de", "en") == [("a", "b"), ("d", "c")]


@pytest.mark.parametrize("srclang", ["*all*", "", "fr"])
def test_languages_that_are_not_clear_are_listed(tmp_path: Path, srclang: str) -> None:
    """After what can be read; a source that no unit has leaves two languages that could be the target."""
    path = written(tmp_path, memory(unit(de="a", en="b"), unit(de="c", en="d"), srclang=srclang))
    said = problem(path, "", "")
    assert said.startswith(f"{path}: it is not clear which languages are meant. The languages in it: de, en. ")
    assert "source_language and target_language" in said
    assert read(path, "en") == [("b", "a"), ("d", "c")]  # one is enough


def test_a_third_language_needs_both_named(tmp_path: Path) -> None:
    path = written(tmp_path, memory(unit(en="a", de="b"), unit(en="c", fr="d"), unit(en="e", de="f")))
    pairs = iter(read_pairs([path]))
    assert next(pairs) == ("a", "b")
    with pytest.raises(DataError, match=r"not clear .* The languages in it: de, en, fr\."):
        next(pairs)
    assert read(path, "en", "fr") == [("c", "d")]
    assert read(path, "", "fr") == [("c", "d")]  # the source is the header's


def test_languages_are_listed_in_one_line_of_bounded_length(tmp_path: Path) -> None:
    codes = ["a&#10;b", "x" * 10_000, *(f"c{number:03}" for number in range(100))]
    variants = "".join(f'<tuv xml:lang="{code}"><seg>a</seg></tuv>' for code in codes)
    said = problem(written(tmp_path, memory(f"<tu>{variants}</tu>")), "en", "de")
    listed = ", ".join(["a b", *(f"c{number:03}" for number in range(29)), "…"])
    assert f"The languages in it: {listed}. Name" in said
    assert "\n" not in said


def test_text_that_is_not_read_may_have_any_length(tmp_path: Path) -> None:
    long = "a long note\n" * 1_000_000
    path = written(tmp_path, memory(f"<tu><note>{long}</note><note><![CDATA[{long}]]></note></tu>", GOOD))
    assert read(path, "en", "de") == [("a", "b")]


def test_no_unit_in_the_languages(tmp_path: Path) -> None:
    path = written(tmp_path, memory(unit(en="a", de="b"), unit(en="c")))
    assert problem(path, "en", "ja").startswith(
        f"{path}: none of its 2 units has a text in both 'en' and 'ja'. The languages in it: de, en. Name two"
    )
    assert read(written(tmp_path, memory(), "empty.tmx"), "en", "de") == []


def test_many_skipped_units_keep_the_numbers(tmp_path: Path) -> None:
    """Units 3, 6, 7, … have no German; the numbers follow by counting."""
    has_pair = [number % 3 != 0 and number % 7 != 0 for number in range(1, 200)]
    path = written(tmp_path, memory(*(unit(en="a", de="b") if both else unit(en="a") for both in has_pair)))
    reader = PairReader([path])
    expected = [number for number, both in enumerate(has_pair, start=1) if both]
    for _ in range(2):
        assert len(list(reader)) == len(expected)
        assert [reader.location(pair).number for pair in range(1, len(expected) + 1)] == expected
        assert reader.skipped == (199 - len(expected), [f"{path}: unit {number}" for number in (3, 6, 7)])


def test_elements_with_a_prefix_and_another_default(tmp_path: Path) -> None:
    text = memory(unit(en="a", de="b")).replace("<tmx", '<t:tmx xmlns:t="http://www.lisa.org/tmx14"', 1)
    for name in ("tuv", "tu", "seg", "body"):
        text = text.replace(f"<{name}", f"<t:{name}").replace(f"</{name}>", f"</t:{name}>")
    text = text.replace("<t:tu v", "<t:tuv").replace("</tmx>", "</t:tmx>").replace("<t:t:", "<t:")
    assert read(written(tmp_path, text)) == [("a", "b")]
    text = memory(unit(en="a", de="b")).replace("<tmx", '<tmx xmlns="http://www.lisa.org/tmx14"')
    assert read(written(tmp_path, text)) == [("a", "b")]


def test_a_memory_with_another_file(tmp_path: Path) -> None:
    path, other = written(tmp_path, OPUS), written(tmp_path, "x\n", "a.de")
    for paths in ([other, path], [path, path]):
        with pytest.raises(DataError, match=r"a\.tmx: has both sides of each pair, so it is not one of two"):
            read_pairs(paths)


GOOD = unit(en="a", de="b")
BOMB = "<!DOCTYPE tmx [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;'>]>"
DAMAGED = {
    "an entity that grows": (memory(GOOD).replace("<tmx", f"{BOMB}<tmx", 1), "line 2.*declares entities"),
    "an external entity": (
        memory(GOOD).replace("<tmx", '<!DOCTYPE tmx [<!ENTITY a SYSTEM "file:///etc/passwd">]><tmx', 1),
        "declares entities",
    ),
    "an external parameter entity": (
        memory(GOOD).replace("<tmx", '<!DOCTYPE tmx [<!ENTITY % a SYSTEM "http://127.0.0.1:9/a">%a;]><tmx', 1),
        "declares entities",
    ),
    "an undefined entity": (memory(GOOD, unit(en="&nbsp;", de="x")), "line 5, column 29: undefined entity"),
    "an undefined entity with a DTD": (
        memory(GOOD, unit(en="&nbsp;", de="x")).replace("<tmx", '<!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx', 1),
        "line 5, column 29: undefined entity &nbsp;",
    ),
    "another root": (memory(GOOD).replace("tmx", "xliff"), "is not TMX: its first element is <xliff>"),
    "no XML": ("en\tde\n", "line 1, column 1: syntax error"),
    "nothing": ("", "line 1, column 1: no element found"),
    "cut short": (memory(GOOD, GOOD)[:-40], "line 5, column 42: unclosed token"),
    "a tag that is not closed": (memory(GOOD, "<tu><tuv>"), r"line 6, column 3: mismatched tag"),
    "a bare sign": (memory(GOOD, unit(en="a & b", de="x")), r"line 5.*not well-formed.*bare '<' or '&'"),
    "a control character": (memory(GOOD, unit(en="a\x08", de="x")), r"line 5.*control character"),
    "the number of a control character": (memory(GOOD, unit(en="&#8;", de="x")), "line 5.*invalid character number"),
    "bytes that are not UTF-8": (memory(GOOD, unit(en="aß", de="x")).encode("latin-1"), "line 5.*another encoding"),
    "a half character": (memory(GOOD).encode("utf-16")[:-1], "line 4|line 5"),
    "an unknown encoding": (memory(GOOD).replace("?>", ' encoding="klingon"?>', 1), "unknown encoding|not supported"),
    "an encoding of several bytes": (memory(GOOD).replace("?>", ' encoding="shift_jis"?>', 1), "not supported"),
    "a wrong encoding": (memory(GOOD).replace("?>", ' encoding="utf-16"?>', 1), "encoding .*incorrect"),
    "too deep": (memory(GOOD, f"<tu>{'<hi>' * 100}"), "line 5, column [0-9]+: elements are nested more than 100"),
    "an endless segment": (memory(GOOD, unit(en="x" * 4_000_000, de="x")), "more than 1,048,576 characters"),
    "an endless line of codes": (memory(GOOD, unit(en="<ph type='lb'/>" * 1_250_000, de="x")), "1,048,576 char"),
    "an endless tag": (memory(GOOD, f'<tu tuid="{"x" * 6_000_000}"/>'), "a tag or a comment has more than 2 MiB"),
    "an endless comment": (memory(GOOD, f"<!--{'x' * 6_000_000}-->"), "a tag or a comment has more than 2 MiB"),
    "endless languages": (
        memory(GOOD, *(f'<tu><tuv lang="x{number}"/></tu>' for number in range(1001))),
        "line [0-9]+, column [0-9]+: the file has more than 1,000 languages",
    ),
    "twice the same attribute": (memory(GOOD, '<tu><tuv lang="en" lang="en"/></tu>'), "line 5.*duplicate attribute"),
    "text after the end": (memory(GOOD) + "<tmx/>", "junk after document element"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_and_hostile_files(tmp_path: Path, kind: str) -> None:
    data, said = DAMAGED[kind]
    path = written(tmp_path, data)
    found: list[tuple[str, str]] = []
    with pytest.raises(DataError, match=f"^{path}[,:].*({said})"):
        found.extend(read_pairs([path], languages=("en", "de")))
    assert "\n" not in problem(path)


@pytest.mark.parametrize("kind", [kind for kind, (_, said) in DAMAGED.items() if said.startswith("line 5")])
@pytest.mark.parametrize("block_bytes", [3, 1 << 20])
def test_good_units_come_before_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, block_bytes: int
) -> None:
    monkeypatch.setattr(readers, "_BLOCK_BYTES", block_bytes)
    pairs = read_pairs([written(tmp_path, DAMAGED[kind][0])], languages=("en", "de"))
    assert next(pairs) == ("a", "b")
    with pytest.raises(DataError, match="line 5"):
        next(pairs)


def made_segment(chance: random.Random, depth: int = 0) -> tuple[str, str]:
    """Returns a segment with codes at random, and the text that is to be read from it."""
    made, text = "", ""
    for _ in range(chance.randint(0, 4)):
        kind = chance.randrange(6)
        word = chance.choice(["Hund", "\U0001f600", "a&b", "<", "日本", " "])
        if kind <= 2 or depth > 3:
            made, text = made + escape(word), text + word
        elif kind == 3:
            inner, inner_text = made_segment(chance, depth + 1)
            made, text = f"{made}<hi type='x'>{inner}</hi>", text + inner_text
        elif kind == 4:
            code = chance.choice(["bpt", "ept", "ph", "it", "ut"])
            inner, _ = made_segment(chance, depth + 1)
            made += f"<{code}>code<sub>{inner}</sub>code</{code}>"
        else:
            made += "<!-- a comment --><?an instruction?>"
    return made, text


@pytest.mark.parametrize("seed", range(20))
def test_made_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Units of two to four variants in any order; the text is noted while they are made."""
    chance = random.Random(seed)
    monkeypatch.setattr(readers, "_BLOCK_BYTES", chance.choice([1, 5, 64, 1 << 20]))
    units, expected, numbers = [], [], []
    for number in range(1, 60):
        codes = chance.sample(["en", "de", "fr", "cs"], chance.randint(2, 4))
        made = {code: made_segment(chance) for code in codes}
        units.append(unit(**{code: segment for code, (segment, _) in made.items()}))
        if {"en", "de"} <= made.keys():
            expected.append((made["en"][1].strip(" "), made["de"][1].strip(" ")))
            numbers.append(number)
    path = written(tmp_path, memory(*units))
    reader = PairReader([path], languages=("en", "de"))
    assert list(reader) == expected
    assert [reader.location(number).number for number in range(1, len(numbers) + 1)] == numbers


def test_any_damage_is_one_line_or_the_pairs_before_it(tmp_path: Path) -> None:
    """A file with bytes changed, removed and doubled at random is read or refused, and what comes first is right."""
    chance = random.Random(1)
    number_of_units = 40
    whole = memory(*(unit(en=f"source {number}", de=f"target {number}") for number in range(number_of_units))).encode()
    refusals = []
    for _ in range(400):
        start = chance.randrange(len(whole))
        end = min(len(whole), start + chance.randint(0, 40))
        junk = chance.choice([b"", chance.randbytes(chance.randint(1, 9)), whole[start:end] * 2, b"<", b"&", b"]]>"])
        path = written(tmp_path, whole[:start] + junk + whole[end:])
        pairs: list[tuple[str, str]] = []
        try:
            for pair in read_pairs([path], languages=("en", "de")):
                pairs.append(pair)
        except DataError as error:
            refusals.append(str(error))
        intact = whole[:start].count(b"</tu>")
        assert pairs[:intact] == [(f"source {number}", f"target {number}") for number in range(intact)]
    assert 200 < len(refusals) < 400
    assert all(said.startswith(str(path)) and "\n" not in said for said in refusals)


def test_a_packed_file_that_is_cut_short(tmp_path: Path) -> None:
    data = gzip.compress(memory(*[GOOD] * 1000).encode())
    path = written(tmp_path, data[: len(data) // 2], "a.tmx.gz")
    said = problem(path)
    assert said.startswith(f"{path}: damaged or cut short")
    assert f"The error is within the first {len(data) // 2} bytes" in said


def test_a_long_tag_is_refused_before_its_end_is_read(tmp_path: Path) -> None:
    """A tag that comes in small blocks is scanned again with each of them, which must not add up."""
    blocks = 0

    def endless() -> object:
        nonlocal blocks
        yield b'<tmx><body><tu tuid="'
        while True:
            blocks += 1
            yield b"x" * 65536

    with pytest.raises(DataError, match="a tag or a comment has more than 2 MiB"):
        list(tmx.TranslationMemory("a.tmx").pairs(endless()))  # type: ignore[arg-type]
    assert blocks == 32  # 2 MiB / 64 KiB, after the tag's first bytes
