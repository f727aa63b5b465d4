"""Catalogues, XLIFF files and translation memories, made from a seed (see `document_makers`)."""

from collections.abc import Callable

from document_makers import Texts

Features = list[Callable[[], str]]


def po(seed: int) -> bytes:
    """Returns a catalogue: plural forms, contexts, obsolete, fuzzy and finished entries, several lines, tags."""
    texts = Texts(seed)

    def words() -> str:
        texts.paragraph()
        return texts.words()

    entries: Features = [
        lambda: f'#: {texts.kept()}.c:1\nmsgid "{words()}"\nmsgstr ""\n',
        lambda: f'msgctxt "{texts.kept()}"\nmsgid "{words()}"\nmsgstr ""\n',
        lambda: f'msgid "%d {words()}"\nmsgid_plural "%d {words()}"\nmsgstr[0] ""\nmsgstr[1] ""\n',
        lambda: f'#, fuzzy\n#| msgid "{texts.kept()}"\nmsgid "{words()}"\nmsgstr "{texts.kept()}"\n',
        lambda: f'#~ msgid "{texts.kept()}"\n#~ msgstr ""\n',
        lambda: f'msgid "{texts.kept()}"\nmsgstr "{texts.kept()}"\n',
        lambda: f'msgid ""\n"{words()}\\n"\n"<b>{texts.words()}</b>\\n"\nmsgstr ""\n',
        lambda: f'#. kept\nmsgid "a \\"{words()}\\" {{{texts.kept()}}}"\nmsgstr ""\n',
    ]
    head = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
    head += '"Plural-Forms: nplurals=2; plural=n != 1;\\n"\n'
    made = texts.parts(entries, 7)
    numbered = [
        entry.replace("msgid ", f'msgctxt "{i}"\nmsgid ', 1) if "ctxt" not in entry and "#" not in entry else entry
        for i, entry in enumerate(made)
    ]  # no two entries may be the same
    return "\n".join([head, *numbered]).encode()


def _inline(texts: Texts, version: int) -> str:
    elements: Features = (
        [
            lambda: f'<g id="{texts.kept()}">{texts.words(2)}</g>',
            lambda: f'<x id="{texts.kept()}"/>',
            lambda: f'<ph id="{texts.kept()}">code</ph>',
            lambda: f'<bpt id="{texts.number}">b</bpt>{texts.words(2)}<ept id="{texts.number}">e</ept>',
            lambda: f'<mrk mtype="protected">{texts.kept()}</mrk>',
        ]
        if version == 1
        else [
            lambda: f'<pc id="{texts.kept()}">{texts.words(2)}</pc>',
            lambda: f'<ph id="{texts.kept()}"/>',
            lambda: f'<sc id="s{texts.number}"/>{texts.words(2)}<ec startRef="s{texts.number}"/>',
            lambda: f'<mrk id="{texts.kept()}" translate="no">{texts.kept()}</mrk>',
        ]
    )
    elements += [lambda: texts.words(3), lambda: "&amp; 12"]
    texts.paragraph()
    parts = " ".join(texts.parts(elements, texts.chance.randint(0, 3)))
    texts.number += 1
    return f"{texts.words()} {parts} {texts.words()}."


def xliff(seed: int) -> bytes:
    """Returns XLIFF 1.2 or 2: groups, notes, states, inline elements, texts that are done or must stay."""
    texts = Texts(seed)
    version = 1 + seed % 2
    done = [f"<source>{texts.kept()}</source><target>{texts.kept()}</target>", f"<source>{texts.kept()}</source>"]
    new = f"\n<source>{_inline(texts, version)}</source>\n"
    empty = f"<source>{_inline(texts, version)}</source><target/>"
    if version == 1:
        units = [
            f'<trans-unit id="a" xml:space="preserve">{new}<note>kept</note></trans-unit>',
            f'<trans-unit id="b">{done[0]}</trans-unit>',
            f'<trans-unit id="c" translate="no">{done[1]}</trans-unit>',
            f'<group id="g"><trans-unit id="d">{empty}</trans-unit></group>',
            f'<trans-unit id="e"><source>{_inline(texts, 1)}</source><target state="new">x</target></trans-unit>',
        ]
        texts.chance.shuffle(units)
        return (
            '<?xml version="1.0"?>\n<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">'
            '<file original="kept" source-language="en" target-language="de" datatype="x"><header/><body>\n'
            + "\n".join(units) + "\n</body></file></xliff>\n"
        ).encode()  # fmt: skip
    units = [
        f'<unit id="a"><notes><note>kept</note></notes><segment id="s">{new}</segment></unit>',
        f'<unit id="b"><segment state="final">{done[0]}</segment></unit>',
        f'<unit id="c" translate="no"><segment>{done[1]}</segment></unit>',
        f'<group id="g"><unit id="d"><segment state="initial">{empty}</segment>'
        "<ignorable><source> </source></ignorable>"
        f"<segment><source>{_inline(texts, 2)}</source></segment></unit></group>",
    ]
    texts.chance.shuffle(units)
    return (
        '<?xml version="1.0"?>\n<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" '
        'trgLang="de">\n<file id="f">' + "\n".join(units) + "</file></xliff>"
    ).encode()


def tmx(seed: int) -> bytes:
    """Returns a memory: units with and without the target language, notes, properties, inline elements."""
    texts = Texts(seed)

    def seg() -> str:
        texts.paragraph()
        inline: Features = [
            lambda: f"<hi>{texts.words(2)}</hi>",
            lambda: f'<bpt i="1">kept</bpt>{texts.words(2)}<ept i="1">kept</ept>',
            lambda: '<ph x="1">kept</ph>',
            lambda: texts.words(2),
        ]
        return f"{texts.words()} {texts.chance.choice(inline)()} {texts.words()}."

    units: Features = [
        lambda: f'<tu>\n <note>kept</note>\n <tuv xml:lang="en"><seg>{seg()}</seg></tuv>\n</tu>',
        lambda: (
            f'<tu tuid="{texts.kept()}"><tuv xml:lang="fr"><seg>{texts.kept()}</seg></tuv>'
            f'<tuv xml:lang="en-GB"><prop type="x">kept</prop><seg>{seg()}</seg></tuv></tu>'
        ),
        lambda: f'<tu><tuv xml:lang="en"><seg>{texts.kept()}</seg></tuv><tuv xml:lang="de"><seg>kept</seg></tuv></tu>',
        lambda: f'<tu><tuv xml:lang="fr"><seg>{texts.kept()}</seg></tuv></tu>',
    ]
    body = "\n".join(texts.parts(units, 6))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header '
        f'creationtool="kept" srclang="en"/><body>\n{body}\n</body></tmx>\n'
    ).encode()
