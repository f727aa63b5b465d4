"""PO, XLIFF and TMX: translations are put beside their sources, everything else stays."""

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_documents import translated
from text_engine import same
from transduce.errors import ConfigError, DataError, TransduceError
from transduce.translation.documents import Languages

HEADER = (
    'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
    '"Plural-Forms: nplurals=2; plural=n != 1;\\n"\n\n'
)
ENTRIES = {
    "empty": ('#: a.c:1\nmsgid "A dog"\nmsgstr ""\n', '#: a.c:1\nmsgid "A dog"\nmsgstr "A DOG"\n'),
    "done": ('msgid "A dog"\nmsgstr "Ein Hund"\n', 'msgid "A dog"\nmsgstr "Ein Hund"\n'),
    "fuzzy": (
        '#, fuzzy, c-format\n#| msgid "Cat"\nmsgid "A dog"\nmsgstr "Katze"\n',
        '#, fuzzy, c-format\n#| msgid "Cat"\nmsgid "A dog"\nmsgstr "A DOG"\n',
    ),
    "empty lines within": (
        'msgid "A"\n\n" dog"\n\nmsgstr ""\n\n\nmsgid "a cat"\nmsgstr "eine "\n\n"Katze"\n',
        'msgid "A"\n\n" dog"\n\nmsgstr "A DOG"\n\n\nmsgid "a cat"\nmsgstr "eine "\n\n"Katze"\n',
    ),
    "context": ('msgctxt "menu"\nmsgid "go"\nmsgstr ""\n', 'msgctxt "menu"\nmsgid "go"\nmsgstr "GO"\n'),
    "plural": (
        'msgid "%d dog"\nmsgid_plural "%d dogs"\nmsgstr[0] ""\nmsgstr[1] ""\n',
        'msgid "%d dog"\nmsgid_plural "%d dogs"\nmsgstr[0] "%d DOG"\nmsgstr[1] "%d DOGS"\n',
    ),
    "one form": (
        'msgid "%d dog"\nmsgid_plural "%d dogs"\nmsgstr[0] ""\n',
        'msgid "%d dog"\nmsgid_plural "%d dogs"\nmsgstr[0] "%d DOGS"\n',
    ),
    "lines": (
        'msgid ""\n"A dog\\n"\n"runs\\n"\nmsgstr ""\n""\n',
        'msgid ""\n"A dog\\n"\n"runs\\n"\nmsgstr ""\n"A DOG\\n"\n"RUNS\\n"\n',
    ),
    "tabs": ('msgid "a dog\\tcat"\nmsgstr ""\n', 'msgid "a dog\\tcat"\nmsgstr "A DOG\\tCAT"\n'),
    "numbers of characters": (
        'msgid "a\\040dog \\x41"\nmsgstr ""\n',
        'msgid "a\\040dog \\x41"\nmsgstr "A DOG A"\n',
    ),
    "bytes of UTF-8": (
        'msgid "caf\\303\\251 \\xe2\\x82\\xac5 \\351t\\351 \\\\303"\nmsgstr ""\n',
        'msgid "caf\\303\\251 \\xe2\\x82\\xac5 \\351t\\351 \\\\303"\nmsgstr "CAFÉ €5 ÉTÉ \\\\303"\n',
    ),
    "escapes": (
        'msgid "a \\"dog\\" \\\\ b\\tc"\nmsgstr ""\n',
        'msgid "a \\"dog\\" \\\\ b\\tc"\nmsgstr "A \\"DOG\\" \\\\ B\\tC"\n',
    ),
    "tags": ('msgid "a <b>dog</b> &amp;"\nmsgstr ""\n', 'msgid "a <b>dog</b> &amp;"\nmsgstr "A <b>DOG</b> &AMP;"\n'),
    "placeholders": (
        'msgid "{name} has %(n)d dogs"\nmsgstr ""\n',
        'msgid "{name} has %(n)d dogs"\nmsgstr "{name} HAS %(n)d DOGS"\n',
    ),
    "sign": ('msgid "—"\nmsgstr ""\n', 'msgid "—"\nmsgstr "—"\n'),
    "obsolete": ('#~ msgid "a dog"\n#~ msgstr ""\n', '#~ msgid "a dog"\n#~ msgstr ""\n'),
    "no blank line": (
        'msgid "a"\nmsgstr ""\n# b\nmsgid "b"\nmsgstr ""\nmsgid "c"\nmsgstr ""',
        'msgid "a"\nmsgstr "A"\n# b\nmsgid "b"\nmsgstr "B"\nmsgid "c"\nmsgstr "C"',
    ),
}


@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_po(name: str, newline: str) -> None:
    source, expected = ((HEADER + text).replace("\n", newline) for text in ENTRIES[name])
    found = translated(source.encode(), "de.po").decode()
    if name == "placeholders":  # the model may copy them in capitals, so they are placed by alignment
        assert sorted(found.split()) == sorted(expected.split())
    else:
        assert found == expected


def test_a_line_of_a_catalogue_may_hold_several_strings() -> None:
    """`msgfmt` joins them, as C does."""
    found = translated(f'{HEADER}msgid "a " "dog\\"" ""\n"runs" " fast"\nmsgstr "" ""\n'.encode(), "de.po").decode()
    assert found == f'{HEADER}msgid "a " "dog\\"" ""\n"runs" " fast"\nmsgstr "A DOG\\"RUNS FAST"\n'


def test_a_template_gets_the_encoding_of_its_translations() -> None:
    """`msgfmt` refuses a catalogue with translations whose charset is that of a template of xgettext."""
    template = HEADER.replace("UTF-8", "CHARSET") + 'msgid "a dog; charset=CHARSET\\n"\nmsgstr ""\n'
    found = translated(template.encode(), "a.pot").decode()
    assert found == HEADER + 'msgid "a dog; charset=CHARSET\\n"\nmsgstr "A DOG; CHARSET=CHARSET\\n"\n'


@pytest.mark.parametrize(
    "line", ['msgid "a dog', "msgstr a", "a dog", 'msgctx "a"', '"a" b', 'msgid "a "dog""', "msgid"]
)
def test_a_line_of_no_catalogue_is_named(line: str) -> None:
    """Its message would not be translated: `msgfmt` refuses it too."""
    with pytest.raises(DataError, match=rf"^a\.po: line 6 is no line of a catalogue: '{re.escape(line)}'\. `msgfmt"):
        translated(f'{HEADER}{line}\nmsgid "b"\nmsgstr ""\n'.encode(), "a.po")
    given = f'{HEADER}domain "a"\n  # b\n \n #~ msgid "c"\n'.encode()
    assert translated(given, "a.po") == given


def test_po_in_another_encoding() -> None:
    catalogue = (HEADER.replace("UTF-8", "iso-8859-1") + 'msgid "Maß"\nmsgstr ""\n').encode("latin-1")
    assert b'msgstr "Ma\xdf!"' in translated(catalogue, "de.po", lambda text: text + "!")
    with pytest.raises(DataError, match=r"de\.po: its encoding, iso-8859-1, has no '€'. Convert it to UTF-8"):
        translated(catalogue, "de.po", lambda text: text + "€")


def test_the_encoding_of_a_catalogue_stands_behind_long_comments() -> None:
    catalogue = "# translators\n" * 500 + HEADER.replace("UTF-8", "iso-8859-1") + 'msgid "Ma\xdf"\nmsgstr ""\n'
    assert translated(catalogue.encode("latin-1"), "de.po").endswith(b'msgstr "MASS"\n')


def test_the_library_reads_a_catalogue() -> None:
    polib = pytest.importorskip("polib", reason="polib is not installed: pip install '.[dev]'")
    source = HEADER + "\n".join(text for text, _ in ENTRIES.values())
    before, after = polib.pofile(source), polib.pofile(translated(source.encode(), "a.po").decode())
    assert [entry.msgid for entry in after] == [entry.msgid for entry in before]
    assert all(entry.msgstr or entry.msgstr_plural for entry in after if not entry.obsolete)
    assert after.metadata == before.metadata


def xliff(body: str, attributes: str = "") -> str:
    """Returns an XLIFF 1.2 file."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">\n'
        f'<file original="a" source-language="en" datatype="x"{attributes}><body>\n{body}\n</body></file></xliff>\n'
    )


STATE = 'state="needs-review-translation" state-qualifier="leveraged-mt"'
INLINE = 'A <g id="1">{}</g> {}<x id="2"/> &amp; <bpt id="3">b</bpt>{}<ept id="3">e</ept>.'
SEGMENTED = (
    "<source>A dog. <g id='7'>Two <x id='5'/> cats.</g></source><seg-source><mrk mtype='seg' mid='1'>A dog.</mrk> "
    "<g id='7'><mrk mtype='seg' mid='2'>Two <x id='5'/> cats.</mrk></g></seg-source>"
)
UNITS = {
    "no target": (
        '<trans-unit id="1">\n  <source>A dog</source>\n  <note>a dog</note>\n</trans-unit>',
        f'<trans-unit id="1">\n  <source>A dog</source>\n  <target {STATE}>A DOG</target>\n'
        "  <note>a dog</note>\n</trans-unit>",
    ),
    "no target, and a source of its own language": (
        '<trans-unit id="1"><source xml:lang="en" xml:space="preserve">A dog</source></trans-unit>',
        '<trans-unit id="1"><source xml:lang="en" xml:space="preserve">A dog</source>'
        f"<target {STATE}>A DOG</target></trans-unit>",
    ),
    "choices, as Angular has them": (
        '<trans-unit id="1"><source>See {N, plural, =1 {<x id="5"/> dog} other {# <g id="6">cats</g>}}</source>'
        "</trans-unit>",
        '<trans-unit id="1"><source>See {N, plural, =1 {<x id="5"/> dog} other {# <g id="6">cats</g>}}</source>'
        f'<target {STATE}>SEE {{N, plural, =1 {{<x id="5"/> DOG}} other {{# <g id="6">CATS</g>}}}}</target>'
        "</trans-unit>",
    ),
    "empty target": (
        '<trans-unit id="1"><source>A dog</source><target xml:lang="de" state="new"/></trans-unit>',
        f'<trans-unit id="1"><source>A dog</source><target xml:lang="de" {STATE}>A DOG</target></trans-unit>',
    ),
    "new target": (
        '<trans-unit id="1"><source>A dog</source><target state="new">A dog</target></trans-unit>',
        f'<trans-unit id="1"><source>A dog</source><target {STATE}>A DOG</target></trans-unit>',
    ),
    "target of another tool": (
        '<trans-unit id="1"><source>A dog</source><target state="needs-translation">A cat</target></trans-unit>',
        f'<trans-unit id="1"><source>A dog</source><target {STATE}>A DOG</target></trans-unit>',
    ),
    "waits for a review": (
        f'<trans-unit id="1"><source>A dog</source><target {STATE}>Hund</target></trans-unit>',
        f'<trans-unit id="1"><source>A dog</source><target {STATE}>Hund</target></trans-unit>',
    ),
    "done": (
        '<trans-unit id="1"><source>A dog</source><target>Hund</target></trans-unit>',
        '<trans-unit id="1"><source>A dog</source><target>Hund</target></trans-unit>',
    ),
    "kept": (
        '<trans-unit id="1" translate="no"><source>A dog</source></trans-unit>',
        '<trans-unit id="1" translate="no"><source>A dog</source></trans-unit>',
    ),
    "kept group": (
        '<group translate="no"><trans-unit id="1"><source>A dog</source></trans-unit></group>',
        '<group translate="no"><trans-unit id="1"><source>A dog</source></trans-unit></group>',
    ),
    "inline": (
        f'<trans-unit id="1"><source>{INLINE.format("dog", "runs", "sleeps")}</source></trans-unit>',
        f'<trans-unit id="1"><source>{INLINE.format("dog", "runs", "sleeps")}</source>'
        f"<target {STATE}>{INLINE.format('DOG', 'RUNS', 'SLEEPS')}</target></trans-unit>",
    ),
    # As Trados writes them: a target of the same segments, some of which a person has translated.
    "segmented": (
        f"<trans-unit id='1'>{SEGMENTED}<target><mrk mtype='seg' mid='1'/> <mrk mtype='seg' mid='2'>Zwei &lt; "
        "drei</mrk></target><sdl:seg-defs xmlns:sdl='urn:s'/></trans-unit>",
        f"<trans-unit id='1'>{SEGMENTED}<target><mrk mtype='seg' mid='1'>A DOG.</mrk> <mrk mtype='seg' mid='2'>Zwei "
        "&lt; drei</mrk></target><sdl:seg-defs xmlns:sdl='urn:s'/></trans-unit>",
    ),
    "segmented, empty": (
        f"<trans-unit id='1'>{SEGMENTED}<target><g id='7'><mrk mtype='seg' mid='2'></mrk></g></target></trans-unit>",
        f"<trans-unit id='1'>{SEGMENTED}<target {STATE}><g id='7'><mrk mtype='seg' mid='2'>TWO <x id='5'/> CATS.</mrk>"
        "</g></target></trans-unit>",
    ),
    "segmented, no target": (
        f"<trans-unit id='1'>{SEGMENTED}</trans-unit>",
        f"<trans-unit id='1'>{SEGMENTED}<target {STATE}><mrk mtype='seg' mid='1'>A DOG.</mrk> <g id='7'>"
        "<mrk mtype='seg' mid='2'>TWO <x id='5'/> CATS.</mrk></g></target></trans-unit>",
    ),
    "segmented, a target of one segment": (
        f"<trans-unit id='1'>{SEGMENTED}<target state='new'>A dog.</target></trans-unit>",
        f"<trans-unit id='1'>{SEGMENTED}<target {STATE}><mrk mtype='seg' mid='1'>A DOG.</mrk> <g id='7'>"
        "<mrk mtype='seg' mid='2'>TWO <x id='5'/> CATS.</mrk></g></target></trans-unit>",
    ),
    "segmented, done": (
        f"<trans-unit id='1'>{SEGMENTED}<target>Ein Hund.</target></trans-unit>",
        f"<trans-unit id='1'>{SEGMENTED}<target>Ein Hund.</target></trans-unit>",
    ),
    "number": (
        '<trans-unit id="1"><source>12</source></trans-unit>',
        f'<trans-unit id="1"><source>12</source><target {STATE}>12</target></trans-unit>',
    ),
    "nothing": ('<trans-unit id="1"><source/></trans-unit>', '<trans-unit id="1"><source/></trans-unit>'),
}


@pytest.mark.parametrize("name", UNITS)
def test_xliff_1(name: str) -> None:
    source, expected = (xliff(body) for body in UNITS[name])
    found = translated(source.encode(), "a.xlf").decode()
    assert found == expected
    ET.fromstring(found.encode())


@pytest.mark.parametrize(
    "sign",
    [
        '<x id="1" ctype="lb"/>',
        '<x id="LINE_BREAK" equiv-text="&lt;br/&gt;"/>',
        '<ph id="1">&lt;br/&gt;</ph>',
        '<ph id="1" type="fmt" subType="xlf:lb"/>',
        '<ph id="1">&lt;mq:ch val="&#x9;" /&gt;</ph>',
        '<ph id="1">&lt;mq:ch val="&amp;#xA;" /&gt;</ph>',
    ],
)
def test_a_line_break_separates_texts(sign: str) -> None:
    source = xliff(f"<trans-unit id='1'><source>A dog{sign}runs fast</source></trans-unit>").encode()
    found = translated(source, "a.sdlxliff", lambda text: " ".join(reversed(text.split()))).decode()
    assert f">dog A{sign}fast runs</target>" in found


def test_xliff_2() -> None:
    source = (
        '<?xml version="1.0"?>\n<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en">\n'
        '<file id="f"><unit id="1"><segment id="s">\n<source>A <pc id="1">dog</pc><ph id="2"/></source>\n</segment>\n'
        "<ignorable><source> </source></ignorable>"
        '<segment state="initial"><source>Two</source><target></target></segment>'
        "<segment><source>Three</source><target>Drei</target></segment></unit>"
        '<unit id="2" translate="no"><segment><source>Four</source></segment></unit></file></xliff>'
    )
    expected = source.replace('srcLang="en">', 'srcLang="en" trgLang="de">').replace(
        '<segment id="s">\n<source>A <pc id="1">dog</pc><ph id="2"/></source>',
        '<segment id="s" state="translated">\n<source>A <pc id="1">dog</pc><ph id="2"/></source>'
        '\n<target>A <pc id="1">DOG</pc><ph id="2"/></target>',
    )
    expected = expected.replace(
        '<segment state="initial"><source>Two</source><target></target>',
        '<segment state="translated"><source>Two</source><target>TWO</target>',
    )
    assert translated(source.encode(), "a.xliff", languages=Languages("en", "de")).decode() == expected


def test_a_target_whose_segment_is_in_its_initial_state_is_translated_again() -> None:
    """As `new` in version 1.2: a program has copied the source. Without a state, a target may be a translation."""
    segments = "<segment{}><source>A dog</source><target>A dog</target></segment>"
    start = '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="de"><file><unit>'
    source = "".join([start, *map(segments.format, (' state="initial"', "")), "</unit></file></xliff>"])
    expected = source.replace("initial", "translated").replace("<target>A dog", "<target>A DOG", 1)
    assert translated(source.encode(), "a.xlf").decode() == expected


def test_xliff_with_a_prefix() -> None:
    source = (
        '<x:xliff xmlns:x="urn:oasis:names:tc:xliff:document:1.2" version="1.2"><x:file><x:body><x:trans-unit>'
        "<x:source>A dog</x:source></x:trans-unit></x:body></x:file></x:xliff>"
    )
    expected = source.replace("</x:source>", f"</x:source><x:target {STATE}>A DOG</x:target>")
    assert translated(source.encode(), "a.xlf").decode() == expected


TMX = (
    '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header srclang="en-US"/><body>\n'
    '<tu>\n  <tuv xml:lang="fr"><seg>chien</seg></tuv>\n  <tuv xml:lang="EN-us"><seg>A <hi>dog</hi> '
    '<bpt i="1">x</bpt>runs<ept i="1">y</ept></seg></tuv>\n</tu>\n<tu><tuv xml:lang="en"><seg>one</seg></tuv>'
    '<tuv xml:lang="de-AT"><seg>eins</seg></tuv></tu>\n<tu></tu></body></tmx>'
)


def test_tmx() -> None:
    expected = TMX.replace(
        "</seg></tuv>\n</tu>",
        '</seg></tuv>\n  <tuv xml:lang="de"><seg>A <hi>DOG</hi> <bpt i="1">x</bpt>RUNS<ept i="1">y</ept></seg></tuv>'
        "\n</tu>",
    )
    assert translated(TMX.encode(), "a.tmx", languages=Languages("en", "de")).decode() == expected
    assert translated(TMX.encode(), "a.tmx", languages=Languages("", "de")).decode() == expected
    assert translated(TMX.encode(), "a.tmx", languages=Languages("en", "fr")).decode().count("<tuv") == 5
    assert translated(TMX.encode(), "a.tmx", languages=Languages("es", "it")).decode() == TMX  # none is Spanish
    of_all = TMX.replace("en-US", "*all*")
    assert ">CHIEN<" in translated(of_all.encode(), "a.tmx", languages=Languages("", "it")).decode()
    with pytest.raises(ConfigError, match="name the target"):
        translated(TMX.encode(), "a.tmx")


@pytest.mark.parametrize("empty", ['<seg x="y"/>', '<seg x="y"></seg>', '<seg x="y"> </seg>'])
def test_an_empty_text_of_a_tmx_unit_is_filled(empty: str) -> None:
    given = f"""<tmx version="1.4"><header srclang="en"/><body><tu>
 <tuv xml:lang="en"><seg>a dog</seg></tuv><tuv xml:lang="de-AT"><note>x</note>{empty}</tuv></tu></body></tmx>"""
    found = translated(given.encode(), "a.tmx", languages=Languages("en", "de")).decode()
    assert found == given.replace(empty, '<seg x="y">A DOG</seg>')


@pytest.mark.parametrize("text", [xliff(UNITS["inline"][0]), TMX, HEADER + ENTRIES["plural"][0]])
@given(data=st.data())
def test_damaged_files(text: str, data: st.DataObject) -> None:
    document = text.encode()
    damaged = bytearray(document)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(damaged) - 1))
        damaged[start : start + data.draw(st.integers(0, 6))] = data.draw(
            st.sampled_from([b"", b"<", b">", b"&", b'"', b"\xff", b"/"])
        )
    name = "a.po" if document.startswith(b"msgid") else "a.tmx" if b"<tmx" in document else "a.xlf"
    try:
        found = translated(bytes(damaged), name, same, languages=Languages("en", "de"))
    except TransduceError:
        return
    if name != "a.po":
        ET.fromstring(bytes(damaged))  # raises where what was read is no XML
        ET.fromstring(found)
