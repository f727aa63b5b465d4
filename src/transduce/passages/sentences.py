"""Where a text is cut, so that each part is a sentence, and none is longer than a model reads.

Parts are spans (start, end) of the text, in order, that neither begin nor end with white space. What lies between them
is white space, or nothing.
"""

import math
import re
from collections.abc import Iterator, Sequence

from transduce.text import SubwordTokenizer

Span = tuple[int, int]

SENTENCES_METRIC = "sentences_per_line"  # in a model folder's metrics.json: see `usual_sentences`

_FALLBACK_LANGUAGE = "en"
_USUAL = 0.95  # share of training lines: what is rarer, a model has hardly learned
_MAY_END_WITHIN = re.compile(r"[^\w\s,;'\"()-]|\n")  # a sign that may end a sentence; many lines have none
_CHARACTERS_PER_TOKEN = 32  # far more than there are: how much of an endless text is encoded to find one cut
# The places where a sentence that is too long may be cut: the best first.
_PLACES = (
    re.compile(r"[.!?…。！？][\"'”’»)\]]*(?=\s)|[。！？]"),
    re.compile(r"[;:](?=\s)|[；：]"),
    re.compile(r"[,—–](?=\s)|[，、]|(?<=\s)[-–—](?=\s)"),
    re.compile(r"\S(?=\s)"),
)


def sentence_spans(text: str, language: str = "") -> list[Span]:
    """Returns the sentences of `text`; a line break always ends one.

    Args:
        text: any text.
        language: its code ("de", "de-AT"); "" is English, whose rules serve most languages of Latin script.
    """
    from sentencex import segment  # only where a text is cut

    code = language.partition("-")[0].partition("_")[0].lower() or _FALLBACK_LANGUAGE
    spans: list[Span] = []
    for line in re.finditer(r"[^\n]+", text):
        start = line.start()
        for sentence in segment(code, line[0]):
            end = start + len(sentence)
            # The library's pieces are the text: were they ever not, the rest of the line would be one sentence.
            if text[start:end] != sentence:
                break
            spans.append((start, end))
            start = end
        if start < line.end():
            spans.append((start, line.end()))
    return [span for span in (_trimmed(text, *span) for span in spans) if span[0] < span[1]]


def num_sentences(text: str, language: str = "") -> int:
    """Returns how many sentences `text` has; 0 where it is white space. For the language see `sentence_spans`."""
    if not _MAY_END_WITHIN.search(text):
        return 1 if text.strip() else 0
    return len(sentence_spans(text, language))


def usual_sentences(lines: Sequence[str], language: str = "") -> int:
    """Returns how many sentences 95 of 100 lines have at most; lines of white space do not count. 0: there are none."""
    counts = sorted(count for line in lines if (count := num_sentences(line, language)))
    return counts[math.ceil(_USUAL * len(counts)) - 1] if counts else 0


def fitting_spans(text: str, span: Span, limit: int, tokenizer: SubwordTokenizer) -> Iterator[Span]:
    """Yields the parts of one sentence, none of more than `limit` tokens: cut at punctuation, else between words.

    A word of more than `limit` tokens is cut anywhere. Parts come out of similar length.
    """
    start, end = _trimmed(text, *span)
    while start < end:
        cut = _first_cut(text[start:end], limit, tokenizer)
        part = _trimmed(text, start, start + cut)
        if part[0] < part[1]:
            yield part
        start, _ = _trimmed(text, start + cut, end)


def _first_cut(text: str, limit: int, tokenizer: SubwordTokenizer) -> int:
    """Returns the length of the first part of `text`: of at most `limit` tokens, unless one character has more."""
    head = text[: limit * _CHARACTERS_PER_TOKEN]
    ends = _token_ends(head, tokenizer)
    if len(ends) <= limit:
        return len(head) if len(head) == len(text) else _best_place(head, 1, len(head))
    # Two parts of 600 tokens are better than one of 1000 and one of 200.
    num_parts = -(-len(ends) // limit)
    share = -(-len(ends) // num_parts)
    cut = _best_place(head, ends[share // 2], ends[min(limit, share + share // 4) - 1])
    while cut > 1 and len(tokenizer.encode(head[:cut].strip())) > limit:  # cut inside a word, it has other pieces
        cut -= max(1, cut // 10)
    return cut


def _token_ends(text: str, tokenizer: SubwordTokenizer) -> list[int]:
    """Returns for each token how many whole characters of `text` it and those before it hold."""
    whole = [0]  # by bytes: how many characters end there or before
    for character in text:
        whole += [whole[-1]] * (len(character.encode()) - 1) + [whole[-1] + 1]
    ends, size = [], -1  # the first token's bytes begin with a space that `text` has not
    for piece in tokenizer.piece_bytes(tokenizer.encode(text)):
        size += len(piece)
        ends.append(whole[max(0, size)])
    return ends


def _best_place(text: str, low: int, high: int) -> int:
    """Returns the last of the best places to cut `text` between `low` and `high` characters."""
    low, high = max(1, low), max(1, high)
    for places in _PLACES:
        cuts = [
            match.end() for match in places.finditer(text, 0, min(high + 1, len(text))) if low <= match.end() <= high
        ]
        if cuts:
            return cuts[-1]
    return high


def _trimmed(text: str, start: int, end: int) -> Span:
    """Returns the span without the white space at its ends."""
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), max(start, end - (len(part) - len(part.rstrip())))
