"""Files as Trados, memoQ, Phrase, OmegaT and Poedit write them, made by hand after their formats."""

TRADOS = """<?xml version="1.0" encoding="utf-8"?><xliff xmlns:sdl="http://sdl.com/FileTypes/SdlXliff/1.0" \
xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2" sdl:version="1.0"><file original="C:\\keep\\a.docx" \
datatype="x-sdlfilterframework2" source-language="en-US" target-language="de-DE"><header><file-info \
xmlns="http://sdl.com/FileTypes/SdlXliff/1.0"><value key="SDL:FileId">keep</value></file-info><tag-defs \
xmlns="http://sdl.com/FileTypes/SdlXliff/1.0"><tag id="1"><bpt name="cf" word-end="false">&lt;cf bold="True"&gt;</bpt>\
<bpt-props><value key="keep">keep</value></bpt-props><ept name="cf">&lt;/cf&gt;</ept></tag><tag id="2"><ph \
name="br">&lt;br/&gt;</ph></tag></tag-defs></header><body>
<trans-unit translate="no" id="keep-0"><source><x id="9"/></source></trans-unit>
<group><sdl:cxts><sdl:cxt id="1"/></sdl:cxts><trans-unit id="keep-1"><source>The dog runs. <g id="1">The cat</g> \
sleeps.</source><seg-source><mrk mtype="seg" mid="1">The dog runs.</mrk> <mrk mtype="seg" mid="2"><g id="1">The cat\
</g> sleeps.</mrk></seg-source><target><mrk mtype="seg" mid="1"/> <mrk mtype="seg" mid="2"/></target><sdl:seg-defs>\
<sdl:seg id="1" conf="Draft"><sdl:value key="keep">keep</sdl:value></sdl:seg><sdl:seg id="2"/></sdl:seg-defs>\
</trans-unit></group>
<trans-unit id="keep-2"><source>A line<x id="2"/>and another</source><seg-source><mrk mtype="seg" mid="3">A line\
<x id="2"/>and another</mrk></seg-source><sdl:seg-defs><sdl:seg id="3"/></sdl:seg-defs></trans-unit>
<trans-unit id="keep-3"><source>The boat is <mrk mtype="x-sdl-location" mid="keep"/>old.</source><seg-source><mrk \
mtype="seg" mid="4">The boat is <mrk mtype="x-sdl-location" mid="keep"/>old.</mrk></seg-source><target><mrk \
mtype="seg" mid="4"/></target><sdl:seg-defs><sdl:seg id="4" conf="Translated"/></sdl:seg-defs></trans-unit>
<trans-unit id="keep-4"><source>Done already.</source><seg-source><mrk mtype="seg" mid="5">Done already.</mrk>\
</seg-source><target><mrk mtype="seg" mid="5">Keep.</mrk></target><sdl:seg-defs><sdl:seg id="5" locked="true"/>\
</sdl:seg-defs></trans-unit></body></file></xliff>
"""

MEMOQ = """<?xml version="1.0" encoding="utf-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:mq="MQXliff">
  <file original="keep.docx" source-language="en" target-language="de" datatype="x-memoq">
    <header><skl><external-file href="keep.skl" /></skl></header>
    <body>
      <trans-unit id="1" mq:status="NotStarted" mq:segmentguid="keep-1">
        <source xml:space="preserve">The dog runs <bpt id="1" rid="1">{}</bpt>over the grass<ept id="2" \
rid="1">{}</ept>.</source>
        <target xml:space="preserve"></target>
        <mq:minorversions><mq:historical-unit><source xml:space="preserve">Keep old</source></mq:historical-unit>\
</mq:minorversions>
      </trans-unit>
      <trans-unit id="2" mq:status="NotStarted">
        <source xml:space="preserve">A line<ph id="3">&lt;mq:ch val="&#x9;" /&gt;</ph>and <ph id="4">&lt;mq:rxt \
displaytext="%s" val="%s" /&gt;</ph> things</source>
        <target xml:space="preserve"></target>
        <context-group><context context-type="x-mmq-context">Keep</context></context-group>
      </trans-unit>
      <trans-unit id="3" mq:status="ManuallyConfirmed" mq:locked="locked">
        <source xml:space="preserve">Keep</source>
        <target xml:space="preserve">Keep</target>
      </trans-unit>
    </body>
  </file>
</xliff>
"""

PHRASE = """<?xml version="1.0" encoding="UTF-8"?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:m="http://www.memsource.com/mxlf/2.0" version="1.2" \
m:version="2.4"><file original="keep.html" source-language="en" target-language="de" datatype="x-unknown"><body>
<group id="0" m:para-id="0"><context-group><context context-type="x-key">keep.key</context></context-group>
<trans-unit id="keep:0" m:score="0.0" m:confirmed="0"><source>The dog has {1&gt;two balls&lt;1} and {2}.</source>\
<target></target><alt-trans origin="machine-trans"><target>Keep</target></alt-trans><m:tunit-metadata><m:mark id="1">\
<m:type>code</m:type><m:content>&lt;b&gt;</m:content></m:mark></m:tunit-metadata></trans-unit></group>
<group id="1"><trans-unit id="keep:1" m:confirmed="1"><source>Keep</source><target>Keep</target></trans-unit></group>
</body></file></xliff>
"""

# As OmegaT's filter reads and writes XLIFF of Okapi: targets that copy their sources.
OKAPI = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:okp="okapi-framework:xliff-extensions">
<file original="keep.html" source-language="en" target-language="de" datatype="html" okp:inputEncoding="UTF-8">
<body>
<trans-unit id="keep1" restype="x-paragraph">
<source xml:lang="en">The dog <bpt id="1" ctype="bold">&lt;b&gt;</bpt>runs<ept id="1">&lt;/b&gt;</ept>. It is <ph \
id="2">&lt;img src="keep.png"/&gt;</ph> green.</source>
<seg-source><mrk mid="0" mtype="seg">The dog <bpt id="1" ctype="bold">&lt;b&gt;</bpt>runs<ept id="1">&lt;/b&gt;</ept>.\
</mrk> <mrk mid="1" mtype="seg">It is <ph id="2">&lt;img src="keep.png"/&gt;</ph> green.</mrk></seg-source>
<target xml:lang="de" state="needs-translation"><mrk mid="0" mtype="seg">The dog <bpt id="1" ctype="bold">&lt;b&gt;\
</bpt>runs<ept id="1">&lt;/b&gt;</ept>.</mrk> <mrk mid="1" mtype="seg">It is <ph id="2">&lt;img src="keep.png"/&gt;\
</ph> green.</mrk></target>
</trans-unit>
<trans-unit id="keep2"><source xml:lang="en">A boat</source><target xml:lang="de"></target></trans-unit>
</body></file></xliff>
"""

POEDIT = r"""# Keep, 2026.
msgid ""
msgstr ""
"Project-Id-Version: keep\n"
"PO-Revision-Date: 2026-01-01 12:00+0100\n"
"Language: de\n"
"MIME-Version: 1.0\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Content-Transfer-Encoding: 8bit\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"
"X-Generator: Poedit 3.2.2\n"
"X-Poedit-Basepath: ..\n"
"X-Poedit-KeywordsList: _;ngettext:1,2\n"
"X-Poedit-SearchPath-0: keep\n"

#. Keep this
#: keep/a.c:12 keep/b.c:3
#, c-format
msgid "The dog has %d balls"
msgstr ""

#: keep/a.c:20
#, fuzzy
#| msgid "The old cat"
msgid "The old dog"
msgstr "Die alte Katze"

#: keep/a.c:30
msgctxt "keep"
msgid ""
"A text of two lines\n"
"and the second"
msgstr ""

#: keep/a.c:40
#, php-format
msgid "%s boat"
msgid_plural "%s boats"
msgstr[0] ""
msgstr[1] ""

#: keep/a.c:50
msgid "Done"
msgstr "Keep"

#~ msgid "Keep obsolete"
#~ msgstr ""
"""
