"""Plain text and Markdown: text changes, marks, code and line ends do not."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from made_documents import translated
from text_engine import same

WRAPPED = (
    "A dog runs over the green grass to a man with a ball, and\n"
    "then two dogs run after it, until all of them are so tired\n"
    "that they sleep.\n"
)
MARKDOWN = {
    "heading": ("# A dog\n\n## Two #\n\nthree\n=====\n", "# A DOG\n\n## TWO #\n\nTHREE\n=====\n"),
    "attributes of a heading": ("# A dog {#dog .x}\n", "# A DOG {#dog .x}\n"),
    "emphasis": ("A **dog** runs *far* ~~out~~.\n", "A **DOG** RUNS *FAR* ~~OUT~~.\n"),
    "emphasis in words": ("a **d**og *un*do [H](x)ound\n", "A **DOG** *UNDO* [HOUND](x)\n"),
    "emphasis that no word is left for": ("a **d**~~og~~ b\n", "A ~~DOG~~ B\n"),
    "underscores": ("A _dog_ has a snake_case_name.\n", "A _DOG_ HAS A snake_case_name.\n"),
    "code over two lines": ("> a `dog\r\n> runs` far\r\n> away\r\n", "> A `dog\r\n> runs` FAR\r\n> AWAY\r\n"),
    "both": ("A ***big* dog** runs\n", "A ***BIG* DOG** RUNS\n"),
    "all of both": ("***a dog*** and **a *dog***\n", "***A DOG*** AND **A *DOG***\n"),
    "stars": ("2 * 3 dogs * 4\n", "2 * 3 DOGS * 4\n"),
    "code": ("Use `a dog` or ``b ` c`` now.\n", "USE `a dog` OR ``b ` c`` NOW.\n"),
    "fence": ("a\n\n```sh\na dog\n\n~~~\n```\n\nb\n", "A\n\n```sh\na dog\n\n~~~\n```\n\nB\n"),
    "fence in a list": ("- a\n  ```\n  dog\n  ```\n- b\n", "- A\n  ```\n  dog\n  ```\n- B\n"),
    "open fence": ("a\n~~~\ndog\n", "A\n~~~\ndog\n"),
    "directive": (":::{note}\na dog\n:::\n", ":::{note}\nA DOG\n:::\n"),
    "indented code": ("a\n\n    a dog\n\nb\n", "A\n\n    a dog\n\nB\n"),
    "text of an item": ("- one\n\n  two\n\n      code\n", "- ONE\n\n  TWO\n\n      code\n"),
    "link": ('See [the dog](a_b.md "title") now.\n', 'SEE [THE DOG](a_b.md "TITLE") NOW.\n'),
    "link with brackets": ("[a [b] c](x(y)z) dog\n", "[A [B] C](x(y)z) DOG\n"),
    "picture": ("![a dog](dog.png)\n", "![A DOG](dog.png)\n"),
    "linked picture": ("[![a dog](d.png)](x.md)\n", "[![A DOG](d.png)](x.md)\n"),
    "reference": ("[a dog][Ref] and [ref]\n\n[ref]: x.md 'a'\n", "[A DOG][Ref] AND [REF][ref]\n\n[ref]: x.md 'A'\n"),
    "brackets": ("a [dog] runs\n", "A [DOG] RUNS\n"),
    "task": ("- [ ] a dog\n- [x] two\n", "- [ ] A DOG\n- [x] TWO\n"),
    "address": ("<https://a.de/dog> or https://b.de/dog\n", "<https://a.de/dog> OR https://b.de/dog\n"),
    "lists": ("1. one\n   * two\n2) three\n", "1. ONE\n   * TWO\n2) THREE\n"),
    "callout": ("> [!NOTE]\n> a dog\n> [!tip]- Two\n> three\n", "> [!NOTE]\n> A DOG\n> [!tip]- TWO\n> THREE\n"),
    "wiki": (
        "a [[Dog page]] ![[dog.png]] [[dog_page|two dogs]]\n",
        "A [[Dog page]] ![[dog.png]] [[dog_page|TWO DOGS]]\n",
    ),
    "maths": (
        "a \\(x_1 = dog\\) b \\[\\pi\\] \\(a dog\\)\n\n\\[\nx dog\n\\]\n\\begin{align*}\nx &= dog\n\\end{align*}\nc\n",
        "A \\(x_1 = dog\\) B \\[\\pi\\] \\(A DOG\\)\n\n\\[\nx dog\n\\]\n\\begin{align*}\nx &= dog\n\\end{align*}\nC\n",
    ),
    "templates": (
        "a {% if dog %} b {{ 1*2*3 }} {# a dog #} c <%= dog_[1] %> d\n",
        "A {% if dog %} B {{ 1*2*3 }} {# a dog #} C <%= dog_[1] %> D\n",
    ),
    "attributes": ("a [dog]{.x #y} b{#dog .z}\n", "A [DOG]{.x #y} B{#dog .z}\n"),
    "marks of pandoc": (
        "a dog^[two *cats*] [@dog99; @cat] and [see @dog, p. 3] x^dog^\n",
        "A DOG^[TWO *CATS*] [@dog99; @cat] AND [see @dog, p. 3] X^dog^\n",
    ),
    "elements that are copied": (
        "a <code>dog **b**</code> b <kbd>dog</kbd> c <script>dog</script> <b translate='no'>dog</b> d <code>e\n",
        "A <code>dog **b**</code> B <kbd>dog</kbd> C <script>dog</script> <b translate='no'>dog</b> D <code>E\n",
    ),
    "script with an empty line": (
        "<script>\na dog\n\ntwo dogs\n</script>\n\na\n",
        "<script>\na dog\n\ntwo dogs\n</script>\n\nA\n",
    ),
    "modules": (
        "import Dog from './dog'\nimport {\n  a\n} from 'dog'\n\nexport const dog = 'dog'\n\nimport dogs now\n",
        "import Dog from './dog'\nimport {\n  a\n} from 'dog'\n\nexport const dog = 'dog'\n\nIMPORT DOGS NOW\n",
    ),
    "definitions": (
        "dog\ncat\n:   a dog\n    runs\n\n    on\n: b\n",
        "DOG\nCAT\n:   A DOG\n    RUNS\n\n    ON\n: B\n",
    ),
    "admonition": (
        '!!! note "A dog"\n\n    a dog\n    ??? tip\n        b\n\n            code\n\n'
        '=== "Two"\n    three\n\nc\n\n    d\n',
        '!!! note "A DOG"\n\n    A DOG\n    ??? tip\n        B\n\n            code\n\n'
        '=== "TWO"\n    THREE\n\nC\n\n    d\n',
    ),
    "tables that are aligned by hand": (
        "a\n\n+---+-----+\n| a | dog |\n+===+=====+\n| b | cat |\n+---+-----+\n\n a   dog\n--- ---\n b   cat\n\nb\n",
        "A\n\n+---+-----+\n| a | dog |\n+===+=====+\n| b | cat |\n+---+-----+\n\n a   dog\n--- ---\n b   cat\n\nB\n",
    ),
    "table of rows of several lines": (
        "-------\n a  dog\n--- ---\n b  cat\n\n c  dog\n-------\n\nb\n",
        "-------\n a  dog\n--- ---\n b  cat\n\n c  dog\n-------\n\nB\n",
    ),
    "note of two paragraphs": ("[^1]: a dog\n\n    two\n", "[^1]: A DOG\n\n    TWO\n"),
    "quotation": ("> a dog\n> runs\n>\n> > far\n", "> A DOG\n> RUNS\n>\n> > FAR\n"),
    "table": (
        "| a | dog `x|y` |\n|---|:-:|\n| b\\|c | **d** |\n|  | 12 |\n\ne\n",
        "| A | DOG `X|Y` |\n|---|:-:|\n| B\\|C | **D** |\n|  | 12 |\n\nE\n",
    ),
    "front matter": ("---\ntitle: a dog\nx: a\n---\na dog\n", "---\ntitle: A DOG\nx: a\n---\nA DOG\n"),
    "rules": ("a\n\n---\n* * *\n___\n", "A\n\n---\n* * *\n___\n"),
    "front matter in TOML": (
        '+++\ntitle = "a dog"\nx = "a"\n+++\na dog\n',
        '+++\ntitle = "A DOG"\nx = "a"\n+++\nA DOG\n',
    ),
    "front matter that is none": ("---\ntitle: [a\n---\na dog\n", "---\ntitle: [a\n---\nA DOG\n"),
    "title of a picture": ('![a dog](x.png "a title")\n', '![A DOG](x.png "A TITLE")\n'),
    "front matter that dots end": ("---\ntitle: a dog\n...\na dog\n", "---\ntitle: A DOG\n...\nA DOG\n"),
    "formula of one line": ("$$ a dog $$\nb\n", "$$ a dog $$\nB\n"),
    "formula with a label": (
        "$$x = dog$$ {#eq:dog}\nb\n\n$$\nx\n$$ (dog)\nb\n",
        "$$x = dog$$ {#eq:dog}\nB\n\n$$\nx\n$$ (dog)\nB\n",
    ),
    "formula before a full stop": (
        "$$dog$$.\n\n\\begin{align} dog \\end{align}.\n\nb\n",
        "$$dog$$.\n\n\\begin{align} dog \\end{align}.\n\nB\n",
    ),
    "formula before text": (
        "$$dog$$, where a dog\n\n- $$dog$$ is a dog\n\n\\begin{x} dog \\end{x} a\n\nb\n",
        "$$dog$$, WHERE A DOG\n\n- $$dog$$ IS A DOG\n\n\\begin{x} dog \\end{x} A\n\nB\n",
    ),
    "formula of two lines before text": (
        "$$x\n= dog$$ a\n\n$$\ndog\n$$ b\nc\n",
        "$$x\n= dog$$ A\n\n$$\ndog\n$$ B\nC\n",
    ),
    "formula with an empty line": ("$$\ndog\n\ndog\n$$\nb\n", "$$\ndog\n\ndog\n$$\nB\n"),
    "formulas that nothing closes": (
        "$$$ is a dog\n\n$$ a dog\n\nb $$c$$\n\n\\[\n\na dog\n\n$$\n\nb\n",
        "$$$ IS A DOG\n\n$$ A DOG\n\nB $$c$$\n\n\\[\n\nA DOG\n\n$$\n\nB\n",
    ),
    "open fence in a list": (
        "- a\n  ```\n  dog\n\nb\n\n1. ~~~\n   dog\n2. c\n\n# d\n\n  ```\ndog\n  ```\n",
        "- A\n  ```\n  dog\n\nB\n\n1. ~~~\n   dog\n2. C\n\n# D\n\n  ```\ndog\n  ```\n",
    ),
    "comment with an empty line": ("<!-- a\n\ndog -->\n\nb\n", "<!-- a\n\ndog -->\n\nB\n"),
    "code behind a rule": ("- a\n\n---\n\n    a dog\n", "- A\n\n---\n\n    a dog\n"),
    "reference in capitals": ("[REF] a\n\n[ref]: x.md\n", "[REF][REF] A\n\n[ref]: x.md\n"),
    "html": (
        "<div title='dog'>\na <b>dog</b>\n</div>\n\nb <kbd>c</kbd>\n",
        "<div title='DOG'>\nA <b>DOG</b>\n</div>\n\nB <kbd>c</kbd>\n",
    ),
    "definitions of links, and none": (
        "[a]: x.md\n[b]: <x y> 'dog'\n[c]: x (dog)\n[d]: x.md {.dog}\n\n[Ann]: a dog runs\n",
        "[a]: x.md\n[b]: <x y> 'DOG'\n[c]: x (dog)\n[d]: x.md {.dog}\n\n[ANN]: A DOG RUNS\n",
    ),
    "quotation right after text": (
        "a big dog runs:\n> two dogs\n> > b\n",
        "A BIG DOG RUNS:\n> TWO DOGS\n> > B\n",
    ),
    "quotation in a list": (
        "- > a dog\n  > runs\n- [ ] x\n1. > - > b\n\n   > c\n",
        "- > A DOG\n  > RUNS\n- [ ] X\n1. > - > B\n\n   > C\n",
    ),
    "html in a list": (
        "- <div>a</div>\n  <div>b\n  dog</div>\n- two\n- three\n\n- <pre>dog\n\n  dog</pre>\n- c\n",
        "- <div>A</div>\n  <div>B DOG</div>\n- TWO\n- THREE\n\n- <pre>dog\n\n  dog</pre>\n- C\n",
    ),
    "html in a quotation": (
        "> <div>\n> a <b>dog</b>\n> </div>\n>\n> <pre>\n> dog\n>\n> dog\n> </pre>\n> b\n>\n> <!--\n> dog\n\nc\n",
        "> <div>\n> A <b>DOG</b>\n> </div>\n>\n> <pre>\n> dog\n>\n> dog\n> </pre>\n> B\n>\n> <!--\n> dog\n\nC\n",
    ),
    "comment": ("<!-- a dog -->\n\na <!-- b --> c\n", "<!-- a dog -->\n\nA <!-- b --> C\n"),
    "hard break": ("one  \ntwo\\\nthree\n", "ONE  \nTWO\\\nTHREE\n"),
    "formulas": ("if $x_1$ costs $5 or $6\n\n$$\na dog\n$$\n", "IF $x_1$ COSTS $5 OR $6\n\n$$\na dog\n$$\n"),
    "footnote": ("a dog[^1]\n\n[^1]: a note\n", "A DOG[^1]\n\n[^1]: A NOTE\n"),
    "escapes": ("a \\*dog\\* &amp; 1\\. x\n", "A \\*DOG\\* &amp; 1\\. X\n"),
    "role": ("see {ref}`a dog` now\n", "SEE {ref}`a dog` NOW\n"),
    "line ends": ("a dog\r\nruns\r\n\r\nfar", "A DOG\r\nRUNS\r\n\r\nFAR"),
    "wrapped": ("a dog runs\nfar\n", "A DOG RUNS\nFAR\n"),
    "wrapped before code": ("> a dog runs far and\n> with `code`\n", "> A DOG RUNS FAR AND\n> WITH `code`\n"),
    "empty": ("", ""),
}
TEXTS = {
    "lines": ("a dog\ntwo\n\nthree", "A DOG\nTWO\n\nTHREE"),
    "wrapped": (WRAPPED, WRAPPED.upper()),
    "items": ("- a dog\n  1. two\n", "- A DOG\n  1. TWO\n"),
    "indented": ("  a dog\n\tb  \n", "  A DOG\n\tB  \n"),
    "line ends": ("a dog\r\n\r\nb\r\n", "A DOG\r\n\r\nB\r\n"),
    "columns": ("name\ta dog\n1    a dog   x\n", "NAME\tA DOG\n1    A DOG   X\n"),
    "returns": ("a dog\rb\r\rc\r\r\nd", "A DOG\rB\r\rC\r\r\nD"),
    "empty": ("\n\n", "\n\n"),
}


@pytest.mark.parametrize("name", MARKDOWN)
def test_markdown(name: str) -> None:
    source, expected = MARKDOWN[name]
    assert translated(source.encode(), "a.md").decode() == expected
    assert translated(source.encode(), "a.md", same).decode() == source


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (r"a 2 \< b, 3\! and [see] or x*", r"A 2 \< B, 3\! AND [SEE] OR X*"),
        ("# a dog [keep-1]", "# A DOG [KEEP-1]"),  # an identifier of MultiMarkdown
        (r"a \[dog\] and [b c]", r"A \[DOG\] AND [B C]"),
        ("a &lt; b, &copy; c & d", "A &lt; B, &copy; C & D"),
        (r"a \* dog * cat", "A * DOG * CAT"),  # written in two ways: as it is written elsewhere
    ],
)
def test_signs_that_mean_nothing_are_written_as_in_the_source(source: str, expected: str) -> None:
    assert translated(source.encode(), "a.md").decode() == expected
    assert translated(source.encode(), "a.md", same).decode() == source


def test_a_sign_that_the_source_has_elsewhere_or_less_often_is_escaped() -> None:
    assert translated(b"a [dog] runs", "a.md", lambda _: "[a] [dog] *b* <c>") == rb"\[a\] [dog] \*b\* \<c>"
    assert translated(b"a [dog runs", "a.md", lambda _: "x [dog [dog") == rb"x \[dog \[dog"
    assert translated(b"a <b c", "a.md", lambda _: "c > a <b") == rb"c > a \<b"


def test_the_text_of_a_picture_is_a_text_of_its_own() -> None:
    """Right before a word it would be one word with it, and come out of the picture."""
    given = b"> two ![a *dog* runs](x.png)cats [![one](y.png) b](z)\n"
    assert translated(given, "a.md") == b"> TWO ![A *DOG* RUNS](x.png)CATS [![ONE](y.png) B](z)\n"
    assert translated(given, "a.md", same) == given


@pytest.mark.parametrize(
    "given",
    [
        '> ![a](x\n>"t") `b\n>  c` d\n',
        "> ![a\n>  dog](x) `b\n> c` d\n",
        '> [a](x\n>"t") `b\n>  c` d\n',
        '> ![a\n>dog](x\n>  "t") ^[`one\n> two`] <b\n>  c>\n',
    ],
)
def test_lines_within_links_and_code_keep_what_stands_before_them(given: str) -> None:
    assert translated(given.encode(), "a.md", same).decode() == given


def test_tables_that_are_aligned_by_hand_are_named() -> None:
    source, _ = MARKDOWN["tables that are aligned by hand"]
    warnings: list[str] = []
    translated(source.encode(), "a.md", warn=warnings.append)
    assert [each.split("': ")[0] for each in warnings] == [
        "a.md: '+---+-----+ | a | dog | +===+=====+ | b | cat | +---+-----+",
        "a.md: 'a dog --- --- b cat",
    ]
    assert all("left as it was" in each for each in warnings)


def test_each_term_of_a_definition_is_a_text_of_its_own() -> None:
    found: list[str] = []

    def noted(text: str) -> str:
        found.append(text)
        return text

    translated(b"a dog\ntwo cats\n: three\n", "a.md", noted)
    assert found == ["a dog", "two cats", "three"]


def test_a_pipe_in_the_translation_of_a_cell_begins_no_column() -> None:
    found = translated(b"| a dog | b |\n|---|---|\n| cat | d |\n", "a.md", lambda text: f"{text} | *x*")
    assert (
        found
        == rb"""| a dog \| \*x\* | b \| \*x\* |
|---|---|
| cat \| \*x\* | d \| \*x\* |
"""
    )


@pytest.mark.parametrize("name", TEXTS)
def test_plain_text(name: str) -> None:
    source, expected = TEXTS[name]
    assert translated(source.encode(), "a.txt").decode() == expected
    assert translated(source.encode(), "a.txt", same).decode() == source


def test_a_formula_is_not_wrapped() -> None:
    """A line that begins with "=" would be a heading, and is written with a backslash."""
    given = b"A dog runs to the energy of $E = mc^2$ here,\nand a man runs after it.\n"
    found = translated(given, "a.md", lambda text: text.replace("A dog", "A black dog on"))
    assert b"$E = mc^2$" in found


def test_a_line_break_of_html_separates_texts() -> None:
    reverse = lambda text: " ".join(reversed(text.split()))  # noqa: E731
    assert translated(b"A dog<br>runs fast\n", "a.md", reverse) == b"dog A<br>fast runs\n"


def test_a_character_that_no_text_may_hold_stays_where_nothing_changes() -> None:
    assert translated(b"a dog\x16runs\nfar\n", "a.txt", same) == b"a dog\x16runs\nfar\n"
    assert translated(b"a dog\x16runs\nfar\n", "a.txt") == b"A DOGRUNS\nFAR\n"


def test_a_wrapped_paragraph_is_one_text_and_is_wrapped_again() -> None:
    longer = translated(WRAPPED.encode(), "a.txt", lambda text: f"{text} {text}").decode()
    assert longer.split() == f"{WRAPPED} {WRAPPED}".split()
    assert max(map(len, longer.splitlines())) <= max(map(len, WRAPPED.splitlines()))


@pytest.mark.parametrize("text", ["- x", "1. x", "# x", "> x", "+ x", "=== x"])
def test_a_translation_begins_no_block(text: str) -> None:
    found = translated(b"a dog\n", "a.md", lambda _: text).decode()
    assert found == text.replace(".", "\\.", 1) + "\n" if text[0] == "1" else "\\" + text + "\n"


_TOKENS = [
    "*",
    "**",
    "_",
    "`",
    "``",
    "[",
    "]",
    "(x)",
    "![",
    "a ",
    "dog",
    " ",
    "\n",
    "\n\n",
    "# ",
    "- ",
    "> ",
    "|",
    "---",
    "\\",
    "~~~",
]
_TOKENS += [
    "<b>",
    "</b>",
    "$",
    "  \n",
    "1. ",
    "[^1]",
    "]: ",
    "{",
    "}",
    "&amp;",
    "    ",
    "\r\n",
    ".",
    "===",
    "|-|",
    "<!--",
    "$$",
    "```",
    "\\begin{a}",
    "\\end{a}",
    "\\[\n",
    "\\]",
]


@given(st.lists(st.sampled_from(_TOKENS), max_size=25).map("".join))
@example("*<!--```*`a {")
@example("{<!--``(x)    ``**")
def test_any_text_stays_as_it_is_if_the_model_changes_nothing(text: str) -> None:
    assert translated(text.encode(), "a.md", same).decode() == text
    assert translated(text.encode(), "a.txt", same).decode() == text


@pytest.mark.parametrize(
    "token",
    [
        "*a ",
        "[",
        "`",
        "![",
        "<b>",
        "$",
        "[a](",
        "> ",
        "- ",
        "|",
        "**a_",
        "\\",
        "](",
        "$$$ a\n",
        "\\[\n",
        "\\begin{a}\n",
        "\\begin{a} ",
        "- ~~~\na\n",
        "- <div>\na\n",
    ],
)
def test_many_marks_end_soon(token: str) -> None:
    text = f"a dog {token * 1000} cat\n".encode()
    assert translated(text, "a.md", same) == text


def seen(text: str, name: str = "a.txt") -> list[str]:
    """Returns the texts that a document is read as."""
    found: list[str] = []

    def noted(text: str) -> str:
        found.append(text)
        return text

    translated(text.encode(), name, noted)
    return found


@pytest.mark.parametrize(("width", "is_wrapped"), [(49, False), (50, True), (120, True), (121, False)])
def test_lines_of_fifty_to_120_characters_may_be_wrapped(width: int, is_wrapped: bool) -> None:
    line = "a" * (width - 4) + " dog"
    assert len(line) == width
    assert seen(f"{line}\nruns\n") == ([f"{line} runs"] if is_wrapped else [line, "runs"])


def test_a_line_is_wrapped_where_the_next_word_would_not_have_fitted() -> None:
    """The longest line has 60 characters. Before a word of four letters, one of 55 is short, and one of 56 is not."""
    longest = "a" * 56 + " dog"
    assert seen(f"{longest}\n{'b' * 56}\nruns far away\n") == [f"{longest} {'b' * 56} runs far away"]
    assert seen(f"{longest}\n{'b' * 55}\nruns far away\n") == [f"{longest} {'b' * 55}", "runs far away"]
    assert seen(f"{longest}\n- runs\n") == [longest, "runs"]  # an item of a list


def test_lines_that_are_sentences_are_not_joined() -> None:
    """The second line has 57 characters, the longest: it may be wrapped, or not."""
    lines = ["A dog runs.", "Two dogs run over the green grass to the man with a ball.", "He sleeps!", "The end."]
    assert len(lines[1]) == 57
    doubled = translated("\n".join(lines).encode(), "a.txt", lambda text: f"{text} {text}").decode()
    assert doubled.splitlines() == [f"{line} {line}" for line in lines]
    wrapped = [lines[1].removesuffix("."), "that all of them want. The man sleeps, and so do they now.", "The end."]
    assert seen("\n".join(wrapped)) == [f"{wrapped[0]} that all of them want.", wrapped[1][23:], "The end."]
    doubled = translated("\n".join(wrapped).encode(), "a.txt", lambda text: f"{text} {text}").decode()
    assert max(map(len, doubled.splitlines())) <= max(map(len, wrapped))


def test_lines_without_spaces_are_wrapped_only_where_they_are_full() -> None:
    title, paragraph, full = "狗的故事", "狗" * 58, "狗" * 60
    lines = [title, paragraph, "狗", full]
    assert seen("\n".join(lines)) == lines
    assert seen(f"{full}\n{title}\n") == [full + title]  # where a line ends, nothing is between two signs
    assert seen(f"{full}\nof {title}\n") == [f"{full} of {title}"]


@pytest.mark.parametrize(
    ("name", "given", "read"),
    [
        ("a.html", "<p>我们今天\n  去公园。 x\ny</p>", ["我们今天去公园。", "x y"]),
        ("a.html", "<img alt='我们今天\n去'>", ["我们今天去"]),
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\n<i>我们今天</i>\n去公园，\n", ["我们今天去公园，"]),
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\nA dog\nruns.\n", ["A dog runs."]),
    ],
)
def test_lines_of_chinese_are_joined_without_a_space(name: str, given: str, read: list[str]) -> None:
    assert seen(given, name) == read


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        # In CommonMark, "**" after a sign and before a letter ends no emphasis, nor does "_" before a letter.
        ("**A:** b c", "**甲**：乙丙"),
        ("b **(A)** c", "乙（**甲**）丙"),
        ("b *(A)* c", "乙（*甲*）丙"),
        ("b **A** c", "乙**甲**丙"),
        ("b _A_ c", "乙*甲*丙"),
        ("b __A__ c", "乙**甲**丙"),
        ("_A_ (c)", "_甲_（丙）"),
    ],
)
def test_emphasis_next_to_words_without_spaces(source: str, expected: str) -> None:
    words = str.maketrans({"A": "甲", "b": "乙", "c": "丙", ":": "：", "(": "（", ")": "）", " ": ""})
    assert translated(source.encode(), "a.md", lambda text: text.translate(words)).decode() == expected


def test_lines_of_chinese_in_markdown_are_joined_without_a_space() -> None:
    given = "- 狗在跑，\n  猫也在跑。\n\n狗 runs\n*far*\n狗\n\n狗\n**猫**\n\n**狗**\n*_猫_\n"
    assert seen(given, "a.md") == ["狗在跑，猫也在跑。", "狗 runs far 狗", "狗猫", "狗*猫"]


def test_a_marker_may_have_a_line_of_its_own() -> None:
    """As before an address that fills a line. The paragraph is wrapped anew, so that the marker is before it."""
    assert translated(f"- \n{'a' * 60}\n".encode(), "a.txt").decode() == f"- {'A' * 60}\n"


def test_a_wrapped_item_keeps_its_indents() -> None:
    first, second = "a" * 50 + " dog", "b" * 50 + " cat"
    found = translated(f"1. {first}\n   {second}\n   runs\n".encode(), "a.txt", str.upper).decode()
    assert found == f"1. {first.upper()}\n   {second.upper()}\n   RUNS\n"


def test_code_right_after_a_comment_is_code() -> None:
    """In CommonMark a comment ends with its line, not with the next empty one."""
    source = "<!-- prettier-ignore -->\n```sh\nkeep x\n```\n\n<!-- a\n\nb --> dog\n- a *dog*\n"
    found = translated(source.encode(), "a.md").decode()
    assert found == source.replace("> dog", "> DOG").replace("a *dog*", "A *DOG*")
