"""Subtitles, SRT and WebVTT: cues are joined to sentences, translated, and cut again where the cues were.

    1                                     "A man walks <x1/>his dog."
    00:00:01,000 --> 00:00:02,000     →
    A man walks
                                          The end of a cue is a point, which the pipeline puts between the words of
    2                                     the translation that are aligned. Lines within a cue are balanced.
    00:00:02,000 --> 00:00:03,000
    his dog.

Times, numbers and settings of cues, notes and styles are copied.
"""

import html
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise

from transduce.translation.documents.inline_tags import INLINE_TAG, add_tagged_text, without_empty
from transduce.translation.documents.plain_text import lines_of, rewrapped
from transduce.translation.documents.segments import Item, Piece, SegmentBuilder, Tag, Tags, has_words, written_with
from transduce.translation.pipeline.sentences import NO_SPACES

# Outside a cue, only lines with times have an arrow. Where one is damaged, what follows it is a cue all the same.
_ARROW_LINE = re.compile(r"[^\n]*-->")
_TIME = re.compile(r"[ \t]*\d[\d \t:.,]*-->|[^\n]*-->[ \t]*\d+[:.,]\d")  # also in a cue's text
_SENTENCE_END = re.compile(r"[.!?…。！？:♪][\"'”’»)\]]*(?:<[^<>]*>)*\s*\Z")
_CHINESE_SIGN = re.compile(r"[，。、！？；：…][”’」』）】》〉]*+(?=[^，。、！？；：…\s])")
_ARROW = re.compile(r"--+>")
_SPEAKER = re.compile(r"\s*+(?:<[^<>]*>|\{\\[^{}]*\})*+\s*+[-–—](?!-)\s*")
_NOTE = re.compile(r"NOTE(?:\s|\Z)")
_MAX_CUES = 8  # in one segment
_MAX_CHARACTERS = 600
_MAX_LINES = 1000  # of a cue, and between two cues: more are read in parts


@dataclass(slots=True)
class _Speech:
    """Lines of one cue that one person speaks."""

    lines: list[str] = field(default_factory=list)
    before: str = ""  # all between the speech before it and this one


def read_srt(text: str) -> Iterator[Piece]:
    """Yields the pieces of an SRT file, whose cues may have empty lines: each ends where the next one begins."""
    return _read(_speeches(text, may_be_empty=True), str, str)


def read_vtt(text: str) -> Iterator[Piece]:
    """Yields the pieces of a WebVTT file, in which an empty line ends a cue."""
    speeches = _speeches(text, may_be_empty=False)
    return _read(speeches, html.unescape, lambda plain: html.escape(plain, quote=False).replace("\u00a0", "&nbsp;"))


def _read(speeches: Iterable[_Speech], decode: Callable[[str], str], encode: Callable[[str], str]) -> Iterator[Piece]:
    sentence: list[_Speech] = []
    for speech in speeches:
        if sentence and (_begins(speech) or _is_full(sentence) or _SENTENCE_END.search(sentence[-1].lines[-1])):
            yield from _sentence(sentence, decode, encode)
            sentence = []
        if speech.lines:
            sentence.append(speech)
        else:
            yield speech.before
    yield from _sentence(sentence, decode, encode)


def _begins(speech: _Speech) -> bool:
    """Returns whether someone else speaks; also at the end of the file."""
    return not speech.lines or _SPEAKER.search(speech.before.rpartition("\n")[2]) is not None


def _is_full(sentence: Sequence[_Speech]) -> bool:
    return len(sentence) >= _MAX_CUES or sum(len(line) for each in sentence for line in each.lines) > _MAX_CHARACTERS


def _speeches(text: str, *, may_be_empty: bool) -> Iterator[_Speech]:
    """Yields what is spoken, in order; last, one without lines, with what is at the end of the file.

    Args:
        text: the file.
        may_be_empty: whether lines of a cue may be empty. If not, text after one is copied, and ends the sentence.
    """
    before: list[str] = []
    speech: _Speech | None = None
    in_cue, end_of_line = False, ""
    has_cue = is_note = False  # whether a cue came before; whether the lines are a comment
    for (line, end), (following, _) in pairwise(chain(lines_of(text), [("", "")])):
        is_time = (_TIME if in_cue else _ARROW_LINE).match(line) is not None
        is_note = bool(line.strip()) and not may_be_empty and (is_note or _NOTE.match(line) is not None)
        is_name = not has_words(line) if may_be_empty else _ARROW_LINE.match(following) is not None  # of the next cue
        if has_cue and not in_cue and line.strip() and not (is_time or is_note or is_name):
            in_cue = may_be_empty
            if not in_cue:
                yield _Speech([], "".join(before))
                before = []
        if in_cue and line.strip() and not is_time:
            mark = _SPEAKER.match(line)
            if speech is not None and mark is None and len(speech.lines) < 2 * _MAX_LINES:
                speech.lines += [end_of_line, line]
            else:
                if speech is not None:
                    yield speech
                    before = [end_of_line]
                start = mark.end() if mark is not None else 0
                speech = _Speech([line[start:]], "".join(before) + line[:start])
            end_of_line = end
            continue
        if speech is not None:
            number = _number_at_end(speech) if is_time else ""  # of a cue with no empty line before it
            if speech.lines:
                yield speech
                before = [number + end_of_line]
            else:
                before = [speech.before + number + end_of_line]
            speech = None
        before.append(line + end)
        # In WebVTT, a line of white space ends no cue: YouTube begins cues with one.
        in_cue = is_time or (in_cue and line != "" and not may_be_empty)
        has_cue = has_cue or is_time
        if len(before) >= _MAX_LINES and not in_cue:
            yield _Speech([], "".join(before))
            before = []
    if speech is not None:
        yield speech
        before = [end_of_line]
    yield _Speech([], "".join(before))


def _number_at_end(speech: _Speech) -> str:
    """Returns the last line of a speech if it is a number, with the line end before it, and takes it away."""
    if not speech.lines[-1].strip().isdecimal():
        return ""
    line = "".join(speech.lines[-2:])
    del speech.lines[-2:]
    return line


def _sentence(
    sentence: Sequence[_Speech], decode: Callable[[str], str], encode: Callable[[str], str]
) -> Iterator[Piece]:
    """Yields the pieces of speeches that are one text."""
    if not sentence:
        return
    yield sentence[0].before
    builder = SegmentBuilder()
    ends: list[Tag] = []
    for i, speech in enumerate(sentence):
        if i:
            builder.text(_space_between(sentence[i - 1].lines[-1], speech.lines[0]), "")
            ends.append(Tag("point", builder.point(speech.before)))
        builder.leave_open()
        for number, line in enumerate(speech.lines):
            if number % 2:
                builder.text(_space_between(*speech.lines[number - 1 : number + 2 : 2]), line)
            else:
                add_tagged_text(builder, line, decode)
    newline = next((end for speech in sentence for end in speech.lines[1::2]), "\n")
    arrows = any("-->" in line for speech in sentence for line in speech.lines)

    def render(tags: Tags, _: Sequence[int], items: Sequence[Item]) -> Iterator[Piece]:
        inside = [i for i, end in enumerate(ends) if end in tags]  # the others are before or after the text
        first = inside[0] if inside else 0
        speeches = sentence[first : first + len(inside) + 1] if inside else [max(sentence, key=lambda s: len(s.lines))]
        cues = _closed(_cut(items, set(ends), ["".join(speech.lines) for speech in speeches]))
        for i, (cue, speech) in enumerate(zip(cues, speeches, strict=True)):
            yield speech.before if i else ""
            text = written_with(encode, tags, cue).strip()
            if speech.before.endswith("-"):
                text = text.lstrip("-")  # no arrow may arise
            lines = _balanced(text, len(speech.lines) // 2 + 1)
            # A line may have an arrow only where the source has one too, and never that of times.
            yield newline.join(line if arrows and not _TIME.match(line) else _ARROW.sub("->", line) for line in lines)

    yield from builder.pieces(render)


def _space_between(before: str, after: str) -> str:
    """Returns what is between two lines of one text."""
    before, after = (INLINE_TAG.sub("", line).strip() for line in (before, after))
    return "" if NO_SPACES.match(before[-1:]) and NO_SPACES.match(after) else " "


def _cut(items: Sequence[Item], ends: Collection[Item], sources: Sequence[str]) -> list[list[Item]]:
    """Returns the items of each cue: cut at the ends, or if that leaves one without words, in proportion to `sources`.

    A cue whose source is a number or sign needs no words.
    """
    cues: list[list[Item]] = [[]]
    for item in items:
        if item in ends:
            cues.append([])
        else:
            cues[-1].append(item)
    texts = ("".join(item for item in cue if isinstance(item, str)) for cue in cues)
    needs_words = (has_words(INLINE_TAG.sub("", source)) for source in sources)
    if all(has_words(text) if needs else text.strip() for text, needs in zip(texts, needs_words, strict=True)):
        return cues
    sizes = [len(source) for source in sources]
    words = [part for item in items if item not in ends for part in _words(item)]
    total = sum(len(word) for word in words if isinstance(word, str)) or 1
    shares = [sum(sizes[: i + 1]) / max(sum(sizes), 1) for i in range(len(sizes))]
    cues = [[] for _ in sizes]
    position = 0
    for word in words:
        length = len(word) if isinstance(word, str) else 0
        cue = next((i for i, share in enumerate(shares) if (position + length / 2) / total < share), len(sizes) - 1)
        cues[cue].append(word)
        position += length
    return cues


def _closed(cues: Sequence[Sequence[Item]]) -> list[list[Item]]:
    """Returns cues in which each element ends where the cue does, and begins again in the next one."""
    closing = {item.number for cue in cues for item in cue if isinstance(item, Tag) and item.kind == "close"}
    result: list[list[Item]] = []
    path: list[Tag] = []  # the elements that are open
    cut: set[int] = set()  # the numbers of those that do not begin and end in the same cue
    for cue in cues:
        found: list[Item] = [*path]
        for item in cue:
            if isinstance(item, Tag) and item.kind == "open" and item.number in closing:
                path.append(item)
            elif isinstance(item, Tag) and item.kind == "close":
                path = [tag for tag in path if tag.number != item.number]
            found.append(item)
        cut.update(tag.number for tag in path)
        result.append([*found, *(Tag("close", tag.number) for tag in reversed(path))])
    return [without_empty(cue, cut) for cue in result]


def _words(item: Item) -> list[Item]:
    return [*re.findall(r"\s*+\S+\s*+|\s++", item)] if isinstance(item, str) else [item]


def _balanced(text: str, num_lines: int) -> list[str]:
    """Returns a text in at most that many lines, of similar length; a line of Chinese or Japanese ends after a sign."""
    if num_lines == 1 or not text:
        return [text]
    whole = _CHINESE_SIGN.sub("\\g<0>\x01 ", INLINE_TAG.sub(lambda match: match[0].replace(" ", "\x00"), text))
    low, high = -(-len(whole) // num_lines), len(whole)
    while low < high:  # the least width at which the lines are not too many
        width = (low + high) // 2
        low, high = (low, width) if len(rewrapped(whole, width)) <= num_lines else (width + 1, high)
    return [line.replace("\x01 ", "").rstrip("\x01").replace("\x00", " ") for line in rewrapped(whole, low)]
