"""HTML documents: text changes, everything else does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_documents import translated
from text_engine import same
from transduce.errors import DataError

PAGES = {
    "tags": ("<p>A <b>dog</b> runs.</p>", "<p>A <b>DOG</b> RUNS.</p>"),
    "attributes": (
        "<a href='a?x=1&y' title='A dog\"s'>go</a> <img alt=\"A 'b' &amp; c\" src=x>",
        "<a href='a?x=1&y' title='A DOG\"S'>GO</a> <img alt=\"A 'B' &amp; C\" src=x>",
    ),
    "buttons": (
        "<input type=submit value='Send it'><input type=text value='dog' placeholder='name'>",
        "<input type=submit value='SEND IT'><input type=text value='dog' placeholder='NAME'>",
    ),
    "attributes without quotes": (
        "<img src=dog alt=dog><input type=submit value=go><img alt=dog's><a title=5>a</a>",
        '<img src=dog alt="DOG"><input type=submit value="GO"><img alt="DOG\'S"><a title=5>A</a>',
    ),
    "description": (
        '<meta name="description" content="a dog"><meta name="author" content="a dog">',
        '<meta name="description" content="A DOG"><meta name="author" content="a dog">',
    ),
    "titles for others": (
        "<meta property='og:title' content='a dog'><meta name=twitter:title content='a cat'><meta name=a content=x>"
        "<meta property='og:type' content=x><link rel=alternate title='the news' href=x>",
        "<meta property='og:title' content='A DOG'><meta name=twitter:title content='A CAT'><meta name=a content=x>"
        "<meta property='og:type' content=x><link rel=alternate title='THE NEWS' href=x>",
    ),
    "script": (
        "<script>if (a<b) { s = '</p>'; }</script><p>x</p>",
        "<script>if (a<b) { s = '</p>'; }</script><p>X</p>",
    ),
    "style": ("<STYLE>p > a {color: red}</STYLE>a dog", "<STYLE>p > a {color: red}</STYLE>A DOG"),
    "comment": ("<!-- a > dog -->a dog<!-- end", "<!-- a > dog -->A DOG<!-- end"),
    "conditional comment": (
        "<!--[if IE]><p>old</p><![endif]--><p>new</p>",
        "<!--[if IE]><p>old</p><![endif]--><p>NEW</p>",
    ),
    "code": ("<p>Use <code>rm <b>x</b></code> now.</p>", "<p>USE <code>rm <b>x</b></code> NOW.</p>"),
    "nested code": (
        "<p>a <code>b <code>c</code> d</code> e</p>",
        "<p>A <code>b <code>c</code> d</code> E</p>",
    ),
    "preformatted": ("<pre>a\n  dog</pre><p>a\n dog</p>", "<pre>a\n  dog</pre><p>A DOG</p>"),
    "not translated": (
        "<p>A <span translate=no>Ford Ka</span> drives.</p><div class='notranslate x'><p>dog</p></div>",
        "<p>A <span translate=no>Ford Ka</span> DRIVES.</p><div class='notranslate x'><p>dog</p></div>",
    ),
    "not translated, without quotes": (
        "<p class=notranslate>dog</p><p>A <b class=notranslate>dog</b> runs.</p>",
        "<p class=notranslate>dog</p><p>A <b class=notranslate>dog</b> RUNS.</p>",
    ),
    "an address with the name of an attribute": (
        "<a href='x?translate=no'>a dog</a> <a href='x?a=b&amp;translate=no&translate=no'>runs</a>",
        "<a href='x?translate=no'>A DOG</a> <a href='x?a=b&amp;translate=no&translate=no'>RUNS</a>",
    ),
    "white space around": ("<ul>\n  <li>\n one \n<li>two\n</ul>", "<ul>\n  <li>\n ONE \n<li>TWO\n</ul>"),
    "entities": ("<p>a&nbsp;dog &lt;b&gt; &eacute;</p>", "<p>A&#160;DOG &lt;B&gt; É</p>"),
    "numbers": ("<td>1,234.5</td><td>—</td><td>&#9786;</td>", "<td>1,234.5</td><td>—</td><td>&#9786;</td>"),
    "around everything": ("<p><b><i>all of it</i></b></p>", "<p><b><i>ALL OF IT</i></b></p>"),
    "break": ("one<br>two<br/>three", "ONE<br>TWO<br/>THREE"),
    "unclosed": ("<p>one <b>two<p>three</i> four", "<p>ONE <b>TWO<p>THREE</i> FOUR"),
    "open tag at the end": ("a dog <a href='x", "A DOG <a href='x"),
    "capitals": ("<P CLASS=X>a <B>dog</B></P>", "<P CLASS=X>A <B>DOG</B></P>"),
    "less than": ("a < b and 5 <6", "A &lt; B AND 5 &lt;6"),
    "declarations": ("<!DOCTYPE html>\n<?php echo 'dog' ?>a dog", "<!DOCTYPE html>\n<?php echo 'dog' ?>A DOG"),
    "empty": ("", ""),
}


@pytest.mark.parametrize("name", PAGES)
def test_only_text_is_translated(name: str) -> None:
    source, expected = PAGES[name]
    assert translated(source.encode(), "page.html").decode() == expected


@pytest.mark.parametrize("name", PAGES)
def test_nothing_changes_if_the_model_changes_nothing(name: str) -> None:
    source = PAGES[name][0].encode()
    assert translated(source, "page.html", same) == source


def test_declared_encoding_is_kept_and_what_it_lacks_is_an_entity() -> None:
    page = '<meta charset="iso-8859-1"><p>ein Ma\xdf</p>'.encode("latin-1")
    assert translated(page, "page.htm", lambda text: text + " → €") == page.replace(b"\xdf", b"\xdf &#8594; \x80")


def test_quotes_of_a_translation_do_not_end_its_attribute() -> None:
    page = b"<img alt='dog'> <img alt=\"dog\">"
    found = translated(page, "page.html", lambda text: f'l\'"{text}"').decode()
    assert found == '<img alt=\'l&#39;"dog"\'> <img alt="l\'&quot;dog&quot;">'


def test_encodings_are_those_of_browsers() -> None:
    page = '<meta charset="iso-8859-1"><p>a \u201cdog\u201d</p>'.encode("cp1252")
    assert translated(page, "page.html") == page.replace(b"a \x93dog", b"A \x93DOG")
    page = '<?xml version="1.0" encoding="iso-8859-2"?><p>pies \u0142</p>'.encode("iso-8859-2")
    assert translated(page, "page.xhtml") == page.replace(b"pies \xb3", b"PIES \xa3")
    with pytest.raises(DataError, match=r"page\.html: is not punycode text"):
        translated(b"<meta charset=punycode><p>a dog", "page.html")


@pytest.mark.parametrize(
    "page",
    [
        "<p translate=no>keep<p>dog<p>dog",
        "<ul><li class=notranslate>keep<ul><li>keep</ul>keep<li>dog</ul>dog",
        "<table><tr><td translate=no>keep<td>dog<tr translate=no><td>keep<td>keep<tr><td>dog</table>",
        "<dl><dt translate=no>keep<dd>dog</dl>",
        "<p>dog <span class=notranslate>keep</p><p>dog</p>",
        "<div translate=no><p>keep</span><div>keep</div></p>keep</div>dog",
    ],
)
def test_an_element_without_an_end_tag_ends_as_in_browsers(page: str) -> None:
    assert translated(page.encode(), "page.html").decode() == page.replace("dog", "DOG")


def test_a_byte_order_mark_is_kept() -> None:
    page = "<p>a dog</p>".encode("utf-16")
    assert translated(page, "page.html").decode("utf-16") == "<p>A DOG</p>"
    assert translated(page, "page.html", same) == page


@pytest.mark.parametrize("page", [b"<p>\xff\xfe\xfa dog</p>", b'<meta charset="utf-9">dog'])
def test_other_encodings_are_refused(page: bytes) -> None:
    with pytest.raises(DataError, match=r"page\.html: is not utf-.* text\. Convert it to UTF-8"):
        translated(page, "page.html")


@pytest.mark.parametrize("tag", ["<b>", "<div>", "<code>", "<a title='x'>", "< ", '<a b="', "<!--", "</b>", "&nbsp;"])
def test_many_tags_end_soon(tag: str) -> None:
    assert translated(f"<p>a dog {tag * 10_000}".encode(), "page.html").startswith(b"<p>A DOG")


@pytest.mark.parametrize("tags", ["<b>" * 3000, "<b></b>" * 3000, f"{'<b>' * 200}dog{'</b>' * 200} cat"])
def test_too_many_tags_in_a_text_are_refused(tags: str) -> None:
    with pytest.raises(DataError, match=r"^page\.html: .*tags"):
        translated(f"<p>a {tags} dog".encode(), "page.html")


_HTML_TOKENS = [
    "<b>",
    "</b>",
    "<i x='",
    '"',
    "'",
    ">",
    "<p>",
    "</p>",
    "<br>",
    "a ",
    " dog",
    ".",
    "&amp;",
    "&",
    "<!--",
    "-->",
]
_HTML_TOKENS += [
    "<code>",
    "</code>",
    "<script>",
    "</script>",
    "<x1>",
    "</x2>",
    "<br x3/>",
    "\n",
    " alt='a'",
    "{n}",
    "\u00a0",
]


@given(st.lists(st.sampled_from(_HTML_TOKENS), max_size=25).map("".join))
def test_any_page_stays_as_it_is_if_the_model_changes_nothing(page: str) -> None:
    assert translated(page.encode(), "page.html", same).decode() == page


@given(st.text(max_size=60))
def test_any_text_is_translated(page: str) -> None:
    try:
        translated(page.encode("utf-8", "surrogatepass"), "page.html")
    except DataError:
        assert "\x00" in page or any("\ud800" <= character <= "\udfff" for character in page)


def test_tags_in_a_word_with_a_reference_stay_in_it() -> None:
    """As pandoc writes formulas: each letter of a name in italics, with an index."""
    given = b"<p>a <i>k</i><i>e</i><i>ep</i><sub>1</sub> dog</p>"
    found = translated(given, "a.html", lambda text: text.replace("a ", "A ").replace("dog", "DOG"))
    assert found == b"<p>A <i>k</i><i>e</i><i>ep</i><sub>1</sub> DOG</p>"
