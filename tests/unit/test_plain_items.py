"""What is no prose in plain text comes back as it is, whatever a model does to it; prose is left alone."""

import random
import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from text_engine import reversing, text_translator
from transduce.serve.cut_text import CutText
from transduce.serve.requests import TranslationRequest
from transduce.translation.constraints.line_constraints import Constraints
from transduce.translation.pipeline import TextOptions, items
from transduce.translation.pipeline import markup as marks
from transduce.translation.pipeline.checkpoints import never
from transduce.translation.pipeline.missing_items import naming_lost_items, plain_prefix, with_missing_items
from transduce.translation.pipeline.protecting import Segment, protect, spans_around_items
from transduce.translation.pipeline.spacing import spaced_as
from transduce.translation.pipeline.survival import copied, has_marks_of, lost_items, without_items
from transduce.translation.pipeline.word_alignment import WordAligner
from transduce.translation.windows import Window

PLAIN = TextOptions(markup="placeholders")
SENTENCES = TextOptions(markup="placeholders", split="always")

ITEMS = [
    *(
        "https://a.org/x?y=1#z",
        "www.a.org",
        "example.com/a/b",
        "me.you+z@a-b.example.org",
        "notes_2.tar.gz",
        "setup.py",
    ),
    *("{name}", "{0}", "{{x}}", "${x}", "$VAR", "%s", "%(x)d", "%1$s", "%PATH%", "{n, plural, one {# dog.} other {#}}"),
    *("<b>", "</i>", "<br/>", '<a href="x y">', "<!-- a b -->", "<name>", "&amp;", "&#39;", "`a = b[c]`"),
    *("/usr/lib/x", "~/a", "./run", "../a/b.c", "src/main.py", r"C:\Users\me", "--dry-run", "--beam=4"),
    *(
        "1.2.3",
        "v2.0",
        "v3",
        "10.0.0.1",
        "1.0.0-rc.1",
        "COVID-19",
        "AB12345",
        "A-4711-B",
        "978-3-16-148410-0",
        "0xFF",
        "3 < 4",
        "x = 0.5",
        "2+2=4",
    ),
    *("123e4567-e89b-12d3-a456-426614174000", "2024-03-12", "max_length", "getName", "os.path()", "__init__"),
    *("@user", "#topic", "😀", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "1️⃣", "❤️", "→", "™", "•"),
]
PROSE = [
    *(
        "A dog runs.",
        "5 - 3, A+ a, 50+ a, 3 <4, a<bc",
        "100% sure, 50 % of it",
        "and/or, he/she, 1/2, km/h, 24/7",
        "$5, US$ 5, 5$",
    ),
    *(
        "1.000.000 and 1,000.50",
        "on 12.03.2024 at 12.30",
        "d.h. z.B. i.e. e.g. p.m.",
        "MP3, 3D, G20, A4, B2B, WW2, 4x4",
    ),
    *("T-shirt, A4-Papier, Covid-19-Impfung, 20-year-old", "No. 5, #1, C#, @ home", "word -- word, word--word"),
    *("iPhone, eBay, kWh, McDonald", "<b and c> <3 <me@>", "_so_ *so*", "AT&T & me", "a_ _b", "[a](b)", "the end.The"),
]


def items_of(text: str) -> list[str]:
    return [each.text for each in marks.scan(text, "placeholders")]


@pytest.mark.parametrize("item", ITEMS)
def test_an_item_is_found_whole(item: str) -> None:
    for line in (f"a {item} b", f"a ({item}), b", f"a {item}."):
        assert items_of(line) == [item]


@pytest.mark.parametrize(
    ("line", "items"),
    [
        ("请访问https://a.com/x查看详情。", ["https://a.com/x"]),
        ("见www.a.com。谢谢，或（ftp://b.org/c），", ["www.a.com", "ftp://b.org/c"]),
        ("詳しくはhttp://a.jp/です。", ["http://a.jp/"]),
        (
            "https://ja.wikipedia.org/wiki/東京 と https://例.jp/a?q=犬&b=1",
            ["https://ja.wikipedia.org/wiki/東京", "https://例.jp/a?q=犬&b=1"],
        ),
        ("联系me@x.com谢谢，me@x.com으로 보내", ["me@x.com", "me@x.com"]),
        ("打开文件setup.exe安装，运行--verbose选项", ["setup.exe", "--verbose"]),
        ("不能混用（--abort）、--all，--no-tags。", ["--abort", "--all", "--no-tags"]),
        ("mit »--template« und «/etc/hosts»", ["--template", "/etc/hosts"]),
        ("变量my_var的值由getName()给出", ["my_var", "getName()"]),
        ("型号AB12345的产品，版本1.2.3以上", ["AB12345", "1.2.3"]),
        ("@user你好 #topic的 #标签#内容 @홍길동 님", ["@user", "#topic", "#标签", "#内容", "@홍길동"]),
        ("ดูที่https://a.th/bได้", ["https://a.th/b"]),
        ("파일C:\\a\\b.txt를 /etc/hosts에서", ["C:\\a\\b.txt", "/etc/hosts"]),
        ("ב-UTF-8, ב-/etc/hosts, מ-a.txt או ה־--all", ["UTF-8", "/etc/hosts", "a.txt", "--all"]),
        ("وUTF-8 و‎--all‎", ["UTF-8", "--all"]),
        ("UTF-8க்கு, a_b-ის, COVID-19-এর, a.dll-ის", ["UTF-8", "a_b", "COVID-19", "a.dll"]),
        ("https://a.org/wiki/C-ים_(א) דוח-2026.pdf", ["https://a.org/wiki/C-ים_(א", "דוח-2026.pdf"]),
        ("https://a.org/ai-الذكاء-x?q=ا+b خ_ط2", ["https://a.org/ai-الذكاء-x?q=ا+b", "خ_ط2"]),
        ("انظر https://a.org/b، أو https://a.org/c؟", ["https://a.org/b", "https://a.org/c"]),
        (
            "https://a.org/b۔ https://a.org/c। https://a.org/d։",
            ["https://a.org/b", "https://a.org/c", "https://a.org/d"],
        ),
        ("\u2066https://a.org/b\u2069 \u200fhttps://a.org/c\u200f.", ["https://a.org/b", "https://a.org/c"]),
        ("#नमस्ते फ़ाइल.pdf #cafe\u0301", ["#नमस्ते", "फ़ाइल.pdf", "#cafe\u0301"]),
    ],
)
def test_words_and_signs_of_other_scripts_are_no_part_of_an_item_that_they_touch(line: str, items: list[str]) -> None:
    assert items_of(line) == items


ENDINGS = (
    "com org net edu gov io eu info htm html xml json yaml yml toml ini cfg conf txt md csv tsv pdf doc docx xls xlsx "
    "ppt pptx odt ods odp zip gz tar png jpg jpeg gif svg mp3 mp4 wav exe dll py js ts css php java rb cpp sh bat log "
    "sql db"
)


def test_names_of_files_and_hosts_are_items_by_their_endings() -> None:
    for ending in ENDINGS.split():
        assert items_of(f"see a-name.{ending}, and") == [f"a-name.{ending}"]
        assert items_of(f"see a.{ending}zz and") == []


def test_conversions_of_printf_are_items() -> None:
    for kind in "diouxXeEfFgGaAcspn@":
        for length in ("", "hh", "h", "ll", "l", "L", "z", "j", "t", "q"):
            assert items_of(f"a %{length}{kind} b") == [f"%{length}{kind}"]
    for item in ("%%", "%5d", "%-5d", "%+d", "%#x", "%05d", "%.2f", "%*d", "%.*f", "%2$s", "%(a)s", "%(a)05.2f"):
        assert items_of(f"a {item} b") == [item]
    assert [items_of(f"a {text} b") for text in ("50%d", "50 % d", "%y", "%", "5%.")] == [[]] * 5


def test_formulas_are_items_by_their_signs() -> None:
    for sign in ("<", ">", "<=", ">=", "=", "==", *"+*×÷±≤≥≠≈"):
        assert items_of(f"if 3 {sign} x, then") == [f"3 {sign} x"]
    for sign in ("=", "==", "<=", ">=", "!=", *"+*×÷±"):
        assert items_of(f"if 3{sign}x, then") == [f"3{sign}x"]
    for sign in ("<", ">", "-", "/", ":"):
        assert items_of(f"if 3{sign}x, then") == []
    for text in ("dog = cat", "3 - 4", "3 < dog"):
        assert items_of(f"if {text}, then") == []


def test_signs_that_are_pictures_are_items() -> None:
    for sign in "©®•‼⁉™ℹ←⏩⏿①⓿─☀✂➿⤴⥿⬅⯿〰〽㊗㊙🀄🫿":
        assert items_of(f"a {sign} b") == [sign]
    for sign in "§°¶…–—†‡‰€№½ªº¬":
        assert items_of(f"a {sign} b") == []
    for item in ("☀️", "☝🏽", "👩‍🚀", "🇩🇪", "#️⃣", "*⃣", "🏳️‍🌈"):
        assert items_of(f"a {item} b") == [item]


@pytest.mark.parametrize("line", PROSE)
def test_prose_has_no_items(line: str) -> None:
    assert items_of(line) == []
    assert text_translator(str.upper).translate([line], text_options=SENTENCES) == [line.upper()]


@given(st.lists(st.sampled_from([*ITEMS, *PROSE, " ", ".", "a"]) | st.text(max_size=3)).map("".join))
def test_every_item_has_a_sign_that_is_looked_for_first(line: str) -> None:
    if not marks._HINT.search(line):
        assert not re.search(f"{items.PLACEHOLDERS}|{items.LITERALS}", line.replace("{", ""))


@pytest.mark.parametrize(
    "line", ["a." * 20_000, "a/" * 20_000, "a_" * 20_000, "A-1" * 20_000, "1." * 20_000, "`" * 30_000]
)
def test_long_lines_take_no_time(line: str) -> None:
    """In quadratic time, each takes minutes. Items do not overlap."""
    assert sum(map(len, items_of(line))) <= len(line)


LOST = text_translator(
    lambda text: re.sub(r"[^A-Za-z .,;:()<]", "", re.sub(r"\S*[^A-Za-z .,;:()<]\S*", "", text)).upper()
)


def test_all_items_come_back_from_a_model_that_writes_none_of_them() -> None:
    chance = random.Random(25)
    words = ["a", "dog", "runs", "over", "the", "green", "grass", "and", "sleeps"]
    for item in ITEMS:
        if item in ("<br/>",):
            continue
        at = chance.randrange(1, len(words))
        line = " ".join([*words[:at], item, *words[at:]])
        [[best]] = LOST.translate_n_best([line], 1, text_options=PLAIN)
        assert best.text == " ".join(
            [*" ".join(words[:at]).upper().split(), item, *" ".join(words[at:]).upper().split()]
        )
        assert best.warnings == ()


def test_items_follow_their_words() -> None:
    """The words come out in reverse order. What was between "one" and "two" is between them still."""
    # The engine's attention ties words only, so it reads none of the items.
    engine = reversing()
    assert engine.translate(["one 😀 two three four five"], text_options=PLAIN) == ["five four three two 😀 one"]
    assert engine.translate(["one two three four 😀🎉 five"], text_options=PLAIN) == ["five 😀🎉 four three two one"]


def test_signs_of_plain_text_are_not_escaped() -> None:
    line = 'if a < b & "c" > 3 < 4: see <b>the dog</b> &amp; {x}'
    assert LOST.translate([line], text_options=PLAIN)[0].count("<b>") == 1
    assert text_translator(str.upper).translate(["a man < the dog & {x} > 2"], text_options=PLAIN) == [
        "A MAN < THE DOG & {x} > 2"
    ]


def test_what_a_model_writes_within_html_is_escaped_even_if_it_looks_like_a_formula() -> None:
    writes = text_translator(lambda text: f"3 < 4 {text}")
    assert writes.translate(["a {x}"], text_options=TextOptions(markup="html")) == ["3 &lt; 4 a {x}"]


def test_a_first_word_that_may_command_the_model_is_left_to_it() -> None:
    formal = text_translator(lambda text: text.upper() if text.startswith("<formal> ") else text)
    obeys = text_translator(lambda text: formal.translate([text])[0].replace("<FORMAL> ", ""))
    [[best]] = obeys.translate_n_best(["<formal> a dog"], 1, text_options=PLAIN)
    assert (best.text, best.warnings) == ("A DOG", ("'<formal>' is not in the translation.",))
    assert LOST.translate(["<b> a dog"], text_options=PLAIN) == ["<b> A DOG"]
    assert LOST.translate(["press <Enter> now"], text_options=PLAIN) == ["PRESS <Enter> NOW"]


def test_a_first_word_like_a_tag_that_moves_is_no_item_of_its_text() -> None:
    """Behind the tag it is an item of the line. In the text by itself it is the first word: the text has none."""
    backwards = text_translator(lambda text: " ".join(reversed(text.split(" "))))
    assert backwards.translate(["<br><formal> a dog"], text_options=PLAIN) == ["<br><formal> dog a"]


def test_white_space_next_to_items() -> None:
    assert spaced_as("%s sees the dog", "%sden Hund", {"%s"}, "placeholders") == "%s den Hund"
    assert spaced_as("the dog of %s", "Hund%s", {"%s"}, "placeholders") == "Hund %s"
    assert spaced_as('a "%s" b', 'A " %s " B', {"%s"}, "placeholders") == 'A "%s" B'
    # The second of two is written as the second in the source, and one that is written too often as the only one.
    assert spaced_as("%s and (%s)", "%s und ( %s )", {"%s"}, "placeholders") == "%s und (%s)"
    assert spaced_as("a %s", "A %s B%s", {"%s"}, "placeholders") == "A %s B %s"
    assert spaced_as("a (%s), b", "A ( %s ), B", {"%s"}, "placeholders") == "A (%s), B"
    assert spaced_as("{n}px of {m} a", "{n} px von{m}", {"{n}", "{m}"}, "placeholders") == "{n}px von {m}"
    assert spaced_as("{a} {b} c", "{a}{b} C", {"{a}", "{b}"}, "placeholders") == "{a} {b} C"
    assert spaced_as("see {a} now", "jetzt{a}.", {"{a}"}, "placeholders") == "jetzt {a}."
    assert spaced_as("Chapter {n} of", "第{n}章", {"{n}"}, "placeholders") == "第{n}章"
    for text in ("%s을(를) 읽을 수 없습니다", "השרת ב%s", "الاتصال بـ%s", "%sஐ ஏற்ற முடியவில்லை", "%sის ზომა"):
        assert spaced_as("cannot read %s here", text, {"%s"}, "placeholders") == text  # prefixes and suffixes


def test_white_space_next_to_tags_between_texts() -> None:
    upper = text_translator(str.upper)
    assert upper.translate(["<br/> A dog.  <p> two </p>\n"], text_options=PLAIN) == ["<br/> A DOG.  <p> TWO </p>\n"]


def test_an_item_that_touched_a_sign_touches_no_word_without_it() -> None:
    drops = text_translator(lambda text: re.sub(r"[()] ?|%s", "", text).upper())
    assert drops.translate(["a dog (%s) runs"], text_options=PLAIN) == ["A DOG %s RUNS"]


def test_items_that_are_copied_stay_in_the_text_when_others_are_lost() -> None:
    half = text_translator(lambda text: text.replace("😀", "").upper().replace("HTTPS://A.ORG", "https://a.org"))
    [[best]] = half.translate_n_best(["a dog https://a.org runs 😀 here"], 1, text_options=PLAIN)
    assert best.text == "A DOG https://a.org RUNS 😀 HERE"
    assert "a dog https://a.org runs here" in half.engine.seen  # type: ignore[attr-defined]


@pytest.mark.parametrize("given", ["a dog %1$s %@ runs", "Hi %1$s %@", "%1$s %d%% of it", "a %1$s, %s"])
def test_a_lost_item_before_one_that_the_model_copied_keeps_its_space(given: str) -> None:
    losing = text_translator(lambda text: text.replace("%1$s", ""))
    assert losing.translate([given], text_options=PLAIN) == [given]


def test_no_sentence_ends_within_an_item_or_an_element() -> None:
    text = "One {n, plural, one {a. B} other {c}}. Two <b>dogs. Three</b> men. Four."
    assert [text[a:b] for a, b in spans_around_items(text, "en")] == [
        "One {n, plural, one {a. B} other {c}}.",
        "Two <b>dogs. Three</b> men.",
        "Four.",
    ]
    long = "a {x} " * 2000
    spans = spans_around_items(long, "en")
    assert max(end - start for start, end in spans) <= 4000
    assert "".join(long[a:b] for a, b in spans).replace(" ", "") == long.replace(" ", "")
    assert sum(Counter(items_of(long[a:b]))["{x}"] for a, b in spans) == 2000


def test_a_long_element_is_cut_between_sentences_and_never_within_a_tag() -> None:
    sentence = '<i class="A b. C">Two dogs</i> run here. '
    text = f"<span>{sentence * 200}</span> " + "<b>犬</b>走" * 1000
    for markup in ("html", "placeholders"):
        parts = [text[a:b] for a, b in spans_around_items(text, "en", markup)]
        assert "".join(parts).replace(" ", "") == text.replace(" ", "")
        assert max(map(len, parts)) <= 4000
        assert all(part.count("<") == part.count(">") for part in parts)
        assert [part.endswith(("run here.", "</span>")) for part in parts[:3]] == [True] * 3


def test_the_sentences_of_a_stream_are_those_of_the_whole() -> None:
    text = "A dog {x}. Two dogs 😀 run.  See https://a.org/b now. Then go."
    request = TranslationRequest(texts=[text], source="en", target="de")
    cut = CutText(request, SENTENCES, "en")
    upper = text_translator(lambda text: re.sub(r"https\S+|😀", "", text).upper())
    [[whole]] = upper.translate_n_best([text], 1, text_options=SENTENCES)
    parts = [each for group in cut.groups([1]) for each in group.texts]
    assert parts == ["A dog {x}.", "Two dogs 😀 run.", "See https://a.org/b now.", "Then go."]
    assert whole.text == "A DOG {x}. TWO DOGS 😀 RUN.  SEE https://a.org/b NOW. THEN GO."
    assert whole.num_parts == 4


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("", "A DOG https://a.org RUNS 😀 HERE"),
        ("A DOG RU", "A DOG RUNS https://a.org 😀 HERE"),
        ("A DOG https://a.", "A DOG https://a.org RUNS 😀 HERE"),
        ("A DOG https://a.org", "A DOG https://a.org RUNS 😀 HERE"),
        ("A DOG https://a.org 😀 ", "A DOG https://a.org 😀 RUNS HERE"),
        ("😀 A ", "😀 A DOG https://a.org RUNS HERE"),
        ("😀", "😀 A DOG https://a.org RUNS HERE"),
    ],
)
def test_a_translation_with_a_prefix_has_all_items(prefix: str, expected: str) -> None:
    """The model goes on with the prefix without its items, and reads the source without them."""
    upper = text_translator(str.upper)
    [marked] = marks.read_markup("a dog https://a.org runs 😀 here", "placeholders")
    assert isinstance(marked, marks.MarkedText)
    [[found]] = upper.translate_n_best([marked.plain], 1)
    assert found.text.startswith(plain_prefix(prefix, marked))
    best = with_missing_items(WordAligner(upper), marked, found, prefix)
    assert (best.text, best.warnings) == (expected, ())


def test_plain_prefixes_end_where_a_word_may_go_on() -> None:
    [source] = marks.read_markup("a {x} dog", "placeholders")
    assert isinstance(source, marks.MarkedText)
    given = ("A DO", "A ", "A {x}", "A {", "{x}", "", "A {x} D")
    assert [plain_prefix(each, source) for each in given] == ["A DO", "A ", "A ", "A ", "", "", "A D"]


@pytest.mark.parametrize(
    ("text", "source", "markup", "expected"),
    [
        ("A {x}", "a {x}", "placeholders", True),
        ("A", "a {x}", "placeholders", False),
        ("A {x} {x}", "a {x}", "placeholders", False),
        ("A {x}", "a {x} {x}", "placeholders", False),
        ("{x} ISO-9001", "{x} a", "placeholders", True),  # a code may be new
        ("AB-1 AB-1", "AB-1", "placeholders", False),  # one of the source may not come twice
        ("A {y}", "a", "placeholders", True),  # nothing had to survive
        ("A {y}", "a", "html", False),
        ("</b>A<b>", "<b>a</b>", "html", False),
        ("</b>A<b>", "</b>a<b>", "html", True),
    ],
)
def test_which_translations_have_the_marks_of_their_source(
    text: str, source: str, markup: marks.Markup, expected: bool
) -> None:
    assert has_marks_of(text, source, markup) is expected


def test_items_that_are_lost_copied_or_left_out() -> None:
    assert lost_items("A {x}", "a {x} {x} %s") == ["{x}", "%s"]
    assert lost_items("A", "<formal> a {x}") == ["{x}", "<formal>"]
    assert lost_items("A <formal>", "<formal> a") == []
    kept = {"{x}", "%s", "AB-1"}
    assert copied("{x} %s %s AB-1", "{x} {x} %s AB-1", kept, "placeholders") == {"AB-1"}
    text = "see {x} at https://a.org, AB-1"
    assert without_items(text, "placeholders") == "see  at , AB-1"
    assert without_items(text, "placeholders", {"AB-1"}) == "see  at , "


def test_an_item_with_a_full_stop_reaches_the_model_whole() -> None:
    model = text_translator()
    model.translate(["One {a dog runs. Two dogs} here. Two."], text_options=SENTENCES)
    assert model.engine.seen == ["One {a dog runs. Two dogs} here.", "Two."]  # type: ignore[attr-defined]


def test_items_of_a_line_whose_translation_has_a_beginning() -> None:
    lines = ["a {x}", "a", "a {x} %s"]
    segments = protect(Window(1, lines, [Constraints(prefix="A")] * 3), PLAIN, never)
    assert [each.prefix for [each] in segments if isinstance(each, Segment)] == ["A", None, "A"]
    [source] = marks.read_markup("a www.a.org dog", "placeholders")
    assert isinstance(source, marks.MarkedText)
    assert [plain_prefix(each, source) for each in ("A window", "A w", "w")] == ["A window", "A ", ""]
    [[found]] = text_translator(str.upper).translate_n_best(["a dog"], 1)
    other = replace(found, text="A CAT", warnings=("w",), alignment=(((0, 1), (0, 1)),))
    aligner = WordAligner(text_translator(str.upper))
    lost = with_missing_items(aligner, source, other, "A DO")  # which does not begin so
    assert (lost.text, lost.warnings) == ("A CAT", ("w", "'www.a.org' is not in the translation."))
    assert naming_lost_items(other, "a cat") is other
    whole = with_missing_items(aligner, source, replace(other, text="A DOG"), "A")
    links = [(source.source[a:b], whole.text[c:d]) for (a, b), (c, d) in whole.alignment]
    assert (whole.text, ("dog", "DOG") in links, ("www", "www") in links) == ("A www.a.org DOG", True, True)


def test_white_space_around_the_sentences_stays_and_a_lone_end_holds_no_sentences() -> None:
    assert text_translator(str.upper).translate(["  A dog {x}. Two men."], text_options=SENTENCES) == [
        "  A DOG {x}. TWO MEN."
    ]
    assert text_translator(str.upper).translate(["A dog {x}. Two men. "], text_options=SENTENCES) == [
        "A DOG {x}. TWO MEN. "
    ]
    text = "</i> One dog. <i>Two dogs. Three</i> men."
    assert [text[a:b] for a, b in spans_around_items(text, "en")] == ["</i> One dog.", "<i>Two dogs. Three</i> men."]
