"""Subtitles: cues are joined to sentences and cut again, times and styles stay."""

import re
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from made_documents import translated
from text_engine import same
from transduce.translation.documents import subtitles
from transduce.translation.documents.segments import Tag

TIMES = ["00:00:01,000 --> 00:00:02,500", "00:00:03,000 --> 00:00:04,000 X1:40", "00:01:03,000 --> 00:01:04,000"]


def srt(*texts: str, newline: str = "\n") -> str:
    """Returns a file with a cue for each text."""
    cues = [f"{i}\n{TIMES[(i - 1) % 3]}\n{text}\n" for i, text in enumerate(texts, 1)]
    return "\n".join(cues).replace("\n", newline)


CUES = {
    "one": (["A dog runs."], ["A DOG RUNS."]),
    "a sentence of two cues": (["A dog runs over", "the green grass."], ["A DOG RUNS OVER", "THE GREEN GRASS."]),
    "of three, with lines": (
        ["A dog\nruns over", "the green\ngrass to", "a man."],
        ["A DOG\nRUNS OVER", "THE GREEN\nGRASS TO", "A MAN."],
    ),
    "two sentences": (["A dog runs.", "Two dogs run."], ["A DOG RUNS.", "TWO DOGS RUN."]),
    "speakers": (["- A dog?\n- Two dogs.", "— and a cat"], ["- A DOG?\n- TWO DOGS.", "— AND A CAT"]),
    "tags": (["<i>A dog</i> runs", "{\\an8}<b>far.</b>"], ["<i>A DOG</i> RUNS", "{\\an8}<b>FAR.</b>"]),
    "colours": (['<font color="#ff0 0">a dog</font> runs'], ['<font color="#ff0 0">A DOG</font> RUNS']),
    "music": (["♪♪", "A dog & <3"], ["♪♪", "A DOG & <3"]),
    "empty": (["", "A dog."], ["", "A DOG."]),
    "numbers": (["a big dog and", "<i>3</i>,", "2, 1"], ["A BIG DOG AND", "<i>3</i>,", "2, 1"]),
    "with empty lines": (
        ["A dog\n\nruns\n \n- 7 dogs\n\n12", "\nA man walks.\n\nThe end."],
        ["A DOG\n\nRUNS\n \n- 7 DOGS\n\n12", "\nA MAN WALKS.\n\nTHE END."],
    ),
}


@pytest.mark.parametrize("name", CUES)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_srt(name: str, newline: str) -> None:
    source, expected = (srt(*texts, newline=newline) for texts in CUES[name])
    assert translated(source.encode(), "a.srt").decode() == expected
    assert translated(source.encode(), "a.srt", same).decode() == source


def test_a_line_of_spaces_ends_no_cue_of_vtt() -> None:
    """YouTube begins cues with one."""
    cues = (
        "00:01.000 --> 00:02.000\n \na dog\n",
        "00:02.000 --> 00:02.010\nruns\n \n",
        "keep\n \nkeep\n",
        "00:03.000 -->\nfar\n \naway\n",
    )
    source = "WEBVTT\n\n" + "\n".join(cues)
    expected = source
    for text in ("a dog", "runs", "far", "away"):
        expected = expected.replace(text, text.upper())
    assert translated(source.encode(), "a.vtt").decode() == expected
    assert translated(source.encode(), "a.vtt", same).decode() == source


def test_vtt() -> None:
    source = (
        "WEBVTT - a dog\n\nSTYLE\n::cue { color: red }\n\nNOTE a dog\n\nfirst\n00:01.000 --> 00:02.000 align:start\n"
        "<v Ann>Tom &amp; <c.x>a dog</c> <00:01.500>run\n\n01:00:02.000 --> 01:00:03.000\nfar&nbsp;away.\n"
    )
    expected = source.replace("Tom &amp;", "TOM &amp;").replace(">a dog<", ">A DOG<").replace(">run", ">RUN")
    expected = expected.replace("far&nbsp;away", "FAR&nbsp;AWAY")
    assert translated(source.encode(), "a.vtt").decode() == expected
    assert translated(source.encode(), "a.vtt", same).decode() == source


def noting(found: list[str]) -> Callable[[str], str]:
    """Returns a translator into capitals that adds what it reads to a list."""

    def noted(text: str) -> str:
        found.append(text)
        return text.upper()

    return noted


def test_the_parts_of_a_cue_with_an_empty_line_are_one_sentence() -> None:
    found: list[str] = []
    translated(srt("A dog\n\nruns here.", "A man walks.").encode(), "a.srt", noting(found))
    assert found == ["A dog runs here.", "A man walks."]


def test_lines_with_an_empty_one_between_each_two() -> None:
    given = srt("A dog", "runs.").replace("\n", "\n\n")
    found: list[str] = []
    assert translated(given.encode(), "a.srt", noting(found)).decode() == srt("A DOG", "RUNS.").replace("\n", "\n\n")
    assert found == ["A dog runs."]


def test_in_vtt_text_after_an_empty_line_is_no_cue() -> None:
    """An empty line ends a cue; what is then no identifier, comment or time is left out by every program."""
    source = (
        "WEBVTT\n\n00:01.000 --> 00:02.000\nA dog\n\nruns here.\n\nsecond\n00:02.000 --> 00:03.000\nA man\n\n"
        "NOTE a cat\nand more\n\n00:03.000 --> 00:04.000\nwalks.\n"
    )
    found: list[str] = []
    expected = source.replace("A dog", "A DOG").replace("A man", "A MAN").replace("walks.", "WALKS.")
    assert translated(source.encode(), "a.vtt", noting(found)).decode() == expected
    assert found == ["A dog", "A man walks."]


def test_a_translation_of_other_length_is_shared_out() -> None:
    source = srt("one two three\nfour five six", "seven eight", "nine.")
    words = "a bb ccc dddd eeeee ffffff ggggg hhhh iii jj k l m n o p q r s t u v w x y z."
    found = translated(source.encode(), "a.srt", lambda _: words).decode()
    assert re.findall(r"\d\d:\d\d.*", found) == re.findall(r"\d\d:\d\d.*", source)
    cues = [cue.split("\n", 2)[2].strip() for cue in found.split("\n\n")]
    assert " ".join(cues).split() == words.split()
    assert all(cues)
    assert len(cues[0].splitlines()) == 2
    assert [len(cue.split()) for cue in cues] == [16, 5, 5]  # by hand: 6, 2 and 2 of 10 words and signs, in 27


def test_elements_within_each_other_end_with_their_cue_from_inside() -> None:
    i, b = Tag("open", 1), Tag("open", 2)
    end_i, end_b = Tag("close", 1), Tag("close", 2)
    cues = [[i, "one ", b, "two "], ["three"], [end_b, "four", end_i]]
    assert subtitles._closed(cues) == [
        [i, "one ", b, "two ", end_b, end_i],
        [i, b, "three", end_b, end_i],
        [i, "four", end_i],
    ]


def test_an_empty_element_is_lost_only_where_it_was_cut() -> None:
    found = translated(srt("a <i>dog <b>big cat</b> market<b></b>.").encode(), "a.srt").decode()
    assert found == srt("A <i>DOG <b>BIG CAT</b> MARKET<b></b>.")  # nothing ends the first, so nothing is cut
    i, b = Tag("open", 1), Tag("open", 2)
    end_i, end_b = Tag("close", 1), Tag("close", 2)
    assert subtitles._closed([["a", b, " ", end_b, i], ["dog", end_i]]) == [["a", b, " ", end_b], [i, "dog", end_i]]


def test_elements_end_with_their_cue() -> None:
    """Where words of an element go to another cue, both cues have the element."""
    source = srt("a <i>big dog", "runs</i> <b>far away</b>").replace("</i>", "").replace("big dog", "big dog</i>")
    found = translated(source.encode(), "a.srt", lambda _: "hund").decode()  # a word for two cues: it is cut anew
    assert found.count("<i>") == found.count("</i>")
    open_i, close_i, end = Tag("open", 1), Tag("close", 1), Tag("point", 2)
    cues = subtitles._cut(["a ", open_i, "big ", end, "dog", close_i, " runs"], {end}, ["x" * 9, "x" * 9])
    assert subtitles._closed(cues) == [["a ", open_i, "big ", close_i], [open_i, "dog", close_i, " runs"]]
    assert subtitles._closed([["a ", open_i, " "], ["dog", close_i]]) == [["a ", " "], [open_i, "dog", close_i]]
    assert subtitles._closed([["a ", open_i], ["dog"]]) == [["a ", open_i], ["dog"]]  # nothing closes it in the source
    cues = subtitles._cut([open_i, "a", close_i, " ", end], {end}, ["x", "x"])
    assert [item for cue in cues for item in cue] == [open_i, "a", close_i, " "]  # the space is not lost


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("现在很晚了，我们必须回家，“不然，”就看不到太阳了。", "现在很晚了，我们必须回家，\n“不然，”就看不到太阳了。"),
        ("等等……你说什么？？我没听见！", "等等……你说什么？？\n我没听见！"),
        ("没有一个可以断开的地方。", "没有一个可以断开的地方。"),
    ],
)
def test_lines_of_chinese_end_after_a_sign(text: str, lines: str) -> None:
    """After the sign that makes the two lines the most alike in length; within a word they would be hard to read."""
    found = translated(srt("It is late,\nand we go.").encode(), "a.srt", lambda _: text).decode()
    assert found == srt(lines)


def test_a_cue_without_words_gets_its_share() -> None:
    end = Tag("point", 1)
    assert subtitles._cut(["one two three four ", end, "…"], {end}, ["x" * 10, "x" * 10]) == [
        ["one ", "two "],
        ["three ", "four ", "…"],
    ]
    assert subtitles._cut(["one two ", end, "three four"], {end}, ["x" * 9, "x"]) == [["one two "], ["three four"]]


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [(list("abcdefghi"), [8, 1]), (["a" * 300, "b" * 300, "c", "d"], [3, 1]), (["a" * 300, "b" * 301, "c"], [2, 1])],
)
def test_a_text_has_at_most_eight_cues_and_about_600_characters(texts: list[str], numbers: list[int]) -> None:
    found: list[str] = []

    def noted(text: str) -> str:
        found.append(text)
        return text

    translated(srt(*texts).encode(), "a.srt", noted)
    assert [len(text.split()) for text in found] == numbers


@pytest.mark.parametrize(("text", "expected"), [("a dog --> a cat", "A DOG --> A CAT"), ("--> 5 dogs", "--> 5 DOGS")])
def test_an_arrow_in_the_text_of_a_cue_is_text(text: str, expected: str) -> None:
    """The line was taken for damaged times, and copied."""
    assert translated(srt(text).encode(), "a.srt", str.upper).decode() == srt(expected)


def test_a_translation_has_no_arrow_of_times() -> None:
    assert translated(srt("a dog").encode(), "a.srt", lambda _: "a --> b").decode() == srt("a -> b")
    found = translated(b"WEBVTT\n\n00:01.000 --> 00:02.000\na dog\n", "a.vtt", lambda _: "a --> b")
    assert found.endswith(b"\na --&gt; b\n")


def test_fewer_words_than_cues() -> None:
    found = translated(srt("one two", "three four", "five.").encode(), "a.srt", lambda _: "Hund").decode()
    assert found.count("Hund") == 1
    assert all(time in found for time in TIMES)


def test_a_cue_without_an_empty_line_before_it_keeps_its_times() -> None:
    given = f"1\n{TIMES[0]}\na dog.\n2\n{TIMES[1]}\n10\n{TIMES[2]}\n{TIMES[0]}\nruns\n\n"
    for name in ("a.srt", "a.vtt"):
        found = translated(given.encode(), name, document_format=name[2:]).decode()
        assert found == given.replace("a dog.", "A DOG.").replace("runs", "RUNS")


def test_a_line_with_damaged_times_stays_as_it_is() -> None:
    """It was a text, whose arrow was taken away, or the texts after it were left in the source language."""
    given = f"1\n00:00:x1,000 --> 00:00:02,500\na dog\n\n2\n{TIMES[1]}\nruns.\n3,000 --> 00:00:04\na cat\n"
    for name in ("srt", "vtt"):
        found = translated(given.encode(), "a", document_format=name).decode()
        assert found == given.replace("a dog", "A DOG").replace("runs", "RUNS").replace("a cat", "A CAT")


_TOKENS = [
    "1\n",
    f"{TIMES[0]}\n",
    f"{TIMES[1]}\r\n",
    "a dog",
    "\n",
    "\n\n",
    "- ",
    "<i>",
    "</i>",
    ".",
    "{\\an8}",
    " ",
    "b",
    "♪",
    "<",
]
_TOKENS += ["WEBVTT\n", "NOTE x\n", "&amp;", "&lt;", "<v x>", "\r\n", "\ufeff"]


@given(st.lists(st.sampled_from(_TOKENS), max_size=25).map("".join))
def test_any_text_stays_as_it_is_if_the_model_changes_nothing(text: str) -> None:
    assert translated(text.encode(), "a", same, document_format="srt").decode() == text
    assert translated(text.encode(), "a", same, document_format="vtt").decode() == text


@given(
    st.lists(st.text("ab .?-\n<i>", min_size=1, max_size=30), max_size=6),
    st.text("ab <>{}\\.-", min_size=1, max_size=40),
)
@example(["a dog"], "<>--->")
@example(["a", "b"], "00:00:01,000 --> 00:00:02,000")
def test_times_survive_any_translation(texts: list[str], output: str) -> None:
    source = srt(*(text.replace("\n\n", "\n") for text in texts))
    found = translated(source.encode(), "a.srt", lambda _: output).decode()
    before, after = ([line for line in text.split("\n") if "-->" in line] for text in (source, found))
    assert [line for line in after if line in TIMES] == [line for line in before if line in TIMES]
    assert not after or before  # a text of the source may have an arrow
    assert {line for line in after if line[0].isdigit()} == {line for line in before if line[0].isdigit()}


def test_the_library_reads_what_was_translated() -> None:
    srt_library = pytest.importorskip("srt", reason="srt is not installed: pip install '.[dev]'")
    found = translated(srt("A dog", "runs."[:-1], "Two.").encode(), "a.srt").decode()
    assert [cue.content for cue in srt_library.parse(found)] == ["A DOG", "RUNS", "TWO."]
