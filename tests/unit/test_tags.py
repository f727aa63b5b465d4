"""Where tags end: as a plain pattern says, and in time that is linear in the length of the text."""

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.translation.pipeline.markup import MarkedText, read_markup
from transduce.translation.pipeline.tags import Tags, is_void, partners, tag_name

_ATTRIBUTES = r"""(?:"[^"]*"|'[^']*'|[^<>"'])*"""
# The obvious way, which takes quadratic time: at each "<" it looks for each kind of end in the rest of the text.
REFERENCE = re.compile(
    r"(?P<comment><!--.*?-->|<!\[CDATA\[.*?\]\]>|<[!?][^>]*>)"
    rf"|(?P<raw><(?P<n>script|style)\b{_ATTRIBUTES}>.*?</(?P=n)\s*>)"
    rf"|(?P<kept><(?P<m>[A-Za-z][\w:.-]*)\stranslate=\"no\"{_ATTRIBUTES}(?<!/)>.*?</(?P=m)\s*>)"
    rf"|(?P<tag></?[A-Za-z][\w:.-]*{_ATTRIBUTES}>)",
    re.DOTALL,
)
_PIECES = (
    *("<", ">", "/>", '"', "'", "<!--", "-->", "<![CDATA[", "]]>", "<!", "<?", " ", "\n", "a", "=", "/", "script", "-"),
    *("<script", "</script>", "</script ", "<style ", "</style>", "<b", "</b>", "<i ", "</i>", '<b translate="no"'),
)


def nested_end(text: str, match: re.Match[str]) -> int:
    """Returns the end of an element that may hold others of its name; if not all of them end, the first end."""
    depth = 0
    for tag in re.finditer(rf"<(?P<slash>/?)(?P<name>[A-Za-z][\w:.-]*){_ATTRIBUTES}>", text[match.start() :]):
        if tag["name"].lower() == match["m"].lower() and (tag["slash"] or not tag[0].endswith("/>")):
            depth += -1 if tag["slash"] else 1
            if not depth:
                return match.start() + tag.end()
    return match.end()


def found_by(text: str, *, reference: bool) -> list[tuple[str, int, int]]:
    """Returns all tags of a text, with where they begin and end."""
    tags, position, found = Tags(text), 0, []
    while (start := text.find("<", position)) != -1:
        if reference:
            match = REFERENCE.match(text, start)
            kind = next(kind for kind in ("comment", "raw", "kept", "tag") if match[kind]) if match else ""
            at = (kind, nested_end(text, match) if kind == "kept" else match.end()) if match else None
        else:
            at = tags.at(start)
        position = at[1] if at else start + 1
        if at:
            found.append((at[0], start, at[1]))
    return found


@given(st.lists(st.sampled_from(_PIECES), max_size=12).map("".join))
def test_tags_end_where_the_plain_pattern_says(text: str) -> None:
    assert found_by(text, reference=False) == found_by(text, reference=True)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('<a title="a > b" translate="no">x</a>', "kept"),
        ("<A TRANSLATE=NO>x</a >", "kept"),
        ('<a/translate="no">x</a>', "kept"),  # browsers read a slash between attributes as a space
        ('<a title="translate=no" b="">x</a>', "tag"),
        ('<a translate="no">x<A>y</A><a/>z</a>', "kept"),
        ('<a translate="no">x<a>y</a>', "kept"),  # of two, one has no end
        ('<a translate="nothing">x</a>', "tag"),
        ("<a translate=no>x", "tag"),
        ('<a translate="no"/>x<a>y</a>', "tag"),
        ("<STYLE>a > b</style>", "raw"),
        ("<!-->", "comment"),
        ("<![CDATA[ a > b ]]>", "comment"),
    ],
)
def test_kinds(text: str, kind: str) -> None:
    at = Tags(text).at(0)
    assert at is not None
    assert at[0] == kind
    assert at[1] == (len(text) if kind != "tag" else text.index(">") + 1)


@pytest.mark.parametrize("text", ["<İ>", "<ſ x>", "< a>", "<a", "<a '>", "<1>", "</>", "<b <i>"])
def test_what_is_no_tag(text: str) -> None:
    """The first letters are no ASCII, though patterns that ignore the case take them for i and s."""
    assert Tags(text).at(0) is None


def test_names() -> None:
    assert (tag_name("</My:Tag.x-1 \n>"), tag_name("a"), tag_name("<!-- a -->")) == ("my:tag.x-1", "", "")
    assert [is_void(tag) for tag in ("<br>", "<x/>", "<IMG src='a'>", "<b>")] == [True, True, True, False]


_HOSTILE = """
import resource, time
resource.setrlimit(resource.RLIMIT_CPU, (100, 100))  # processor seconds: the machine may be busy
from transduce.translation.pipeline.markup import read_markup
from transduce.translation.pipeline.survival import is_nested
repeated = (
    "<a ", '<a "', "<a '>\\"", "<!-- ", "<!-- >", "<![CDATA[>", "<? ", "<script>", "<style a>", "<b translate=no>",
    "</script ", "<b>x</b>", "x&nbsp;", "&nbsp;.", "{", "{}", "<b> . ", "www.,", "%0", "<p>x",
    "a<b>1</b>", "a<b>b ", "<b>1", "a<b><i>b ", "<b>1</b>.", "a<b>@a.de ", "a</b>1<b>",
)
def texts(size):
    yield from (part * (size // len(part)) + ">" for part in repeated)
    yield "<" + "a" * size + "<b>"
    yield "".join(f"<b{i} translate=no>" for i in range(size // 20))
    yield "<a " + '"translate=no x"' * (size // 16) + ">"
def seconds(text):
    before = time.process_time()
    read_markup(text, "html")
    is_nested(text, "html")
    return time.process_time() - before
for short, long in zip(texts(6_000), texts(24_000), strict=True):
    assert seconds(long) < 8 * seconds(short) + 0.05, short[:40]
"""


def test_hostile_text_is_read_in_linear_time() -> None:
    """Four times the text takes four times as long; with quadratic time, sixteen times."""
    subprocess.run([sys.executable, "-c", _HOSTILE], check=True)


def test_white_space_around_a_text_is_kept_beside_it() -> None:
    _, text, _ = read_markup("<p> \t a dog  </p>", "html")
    assert isinstance(text, MarkedText)
    assert (text.before, text.plain, text.after) == (" \t ", "a dog", "  ")
    assert text.source_span(2, 5) == (5, 8)  # "dog"


def test_tags_that_nothing_opened_or_closes_have_no_partner() -> None:
    tags = [("open", "<b>"), ("close", "</b>"), ("close", "</b>"), ("open", "<i>"), ("open", "<B>"), ("close", "</i>")]
    assert partners([*tags, ("point", "<b/>"), ("close", "</b>")]) == {0: 1, 1: 0, 3: 5, 5: 3}
