"""Sentences: where a text is cut, so that each part is a sentence that the model can read as a whole.

Parts are spans (start, end) of the text, in order. They neither begin nor end with white space, and only white space is
between them.
"""

import math
import re
from collections.abc import Iterator, Sequence

from transduce.text import Tokenizer
from transduce.text.languages import without_region

Span = tuple[int, int]

SENTENCES_METRIC = "sentences_per_line"  # in a model folder's metrics.json: see `usual_sentences`

_USUAL = 0.95  # share of training lines; longer ones are too rare to be learned
_MAY_END_WITHIN = re.compile(r"[^\w\s,;'\"()-]|\n")  # a sign that may end a sentence; many lines have none
# Only the beginning of a very long text is encoded to find one cut. Its length, in characters for each token of the
# limit: first for usual text, then for text with many characters in a token.
_CHARACTERS_PER_TOKEN = (8, 32)
_PARTS_AHEAD = 4  # the beginning is long enough if it has more tokens than this many parts
# Where a sentence that is too long may be cut, best first.
_CUTS = (
    re.compile(r"[.!?…。！？؟۔।॥։។][\"'”’»)\]]*(?=\s)|[。！？။]"),
    re.compile(r"[;:؛](?=\s)|[；：]"),
    re.compile(r"[,،—–](?=\s)|[，、၊]|(?<=\s)[-–—](?=\s)"),
    re.compile(r"\S(?=\s)"),
)
_ANY_CUT = re.compile("|".join(cuts.pattern for cuts in _CUTS))

# Scripts without spaces between words: Thai, Lao, Khmer and the like, Chinese and Japanese.
_CHINESE = r"\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef"
CHINESE = re.compile(f"[{_CHINESE}]")  # and Japanese, with their signs: nor between sentences
NO_SPACES = re.compile(rf"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff{_CHINESE}]")


def sentence_spans(text: str, language: str = "") -> list[Span]:
    """Returns the sentences of `text`; a line break always ends one.

    Args:
        text: any text.
        language: its code ("de", "de-AT"); "" is English, whose rules serve most languages of Latin script.
    """
    first, last = _trimmed(text, 0, len(text))
    if not _MAY_END_WITHIN.search(text, first, last - 1):
        return [(first, last)] if first < last else []
    from sentencex import segment  # imported only if a text may be cut

    code = without_region(language) or "en"
    spans: list[Span] = []
    for line in re.finditer(r"[^\n]+", text):
        start = line.start()
        for sentence in segment(code, line[0]):
            end = start + len(sentence)
            # The library's sentences together are the text. If they ever are not, the rest of the line is one sentence.
            if text[start:end] != sentence:
                break
            spans.append((start, end))
            start = end
        if start < line.end():
            spans.append((start, line.end()))
    return [span for span in (_trimmed(text, *span) for span in spans) if span[0] < span[1]]


def usual_sentences(lines: Sequence[str], language: str = "") -> int:
    """Returns the number of sentences that 95 % of the lines do not exceed; 0 if all lines are white space."""
    counts = sorted(count for line in lines if (count := len(sentence_spans(line, language))))
    return counts[math.ceil(_USUAL * len(counts)) - 1] if counts else 0


def fitting_spans(text: str, span: Span, limit: int, tokenizer: Tokenizer) -> Iterator[Span]:
    """Yields the parts of one sentence, of at most `limit` tokens each: cut at punctuation, else between words.

    Parts have similar lengths. A word of more than `limit` tokens stays whole: the model reads its beginning, and its
    translation has a warning. Scripts without spaces do not show words: they are cut anywhere, unless a stretch is far
    longer than real text.
    """
    start, end = _trimmed(text, *span)
    while start < end:
        cut = _first_cut(text, start, end, limit, tokenizer)
        part = _trimmed(text, start, cut)
        if part[0] < part[1]:
            yield part
        start, _ = _trimmed(text, cut, end)


def _first_cut(text: str, start: int, end: int, limit: int, tokenizer: Tokenizer) -> int:
    """Returns the end of the part that begins at `start`: at most `end`."""
    head, ids = _head(text, start, end, limit, tokenizer)
    if len(ids) <= limit:
        return end if start + len(head) == end else start + (_best_cut(head, 1, len(head)) or len(head))
    # Two parts of 600 tokens are better than one of 1000 and one of 200.
    num_parts = -(-len(ids) // limit)
    share = -(-len(ids) // num_parts)
    ends = _token_ends(head, ids[:limit], tokenizer)
    low, high = ends[share // 2], max(1, ends[min(limit, share + share // 4) - 1])
    cut = _best_cut(head, low, high) or _best_cut(head, 1, low)
    if cut is None:
        later = _ANY_CUT.search(text, start + high, min(end + 1, len(text)))
        stretch_end = min(later.end(), end) if later else end
        if stretch_end > start + len(head) or not NO_SPACES.match(head[high - 1]):
            return stretch_end
    cut = cut or high
    while cut > 1 and len(tokenizer.encode(head[:cut].strip())) > limit:  # half a word may have other pieces
        cut -= max(1, cut // 10)
    return start + cut


def _head(text: str, start: int, end: int, limit: int, tokenizer: Tokenizer) -> tuple[str, list[int]]:
    """Returns the beginning of a text and its tokens: enough to find one cut."""
    for characters_per_token in _CHARACTERS_PER_TOKEN:
        head = text[start : min(end, start + limit * characters_per_token)]
        ids = tokenizer.encode(head)
        if len(ids) > _PARTS_AHEAD * limit or start + len(head) == end:
            break
    return head, ids


def _token_ends(text: str, ids: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    """Returns for each of the first tokens of `text` where it ends: the number of whole characters up to there."""
    ends = []
    num_bytes, characters = -1, 0  # the first token's bytes begin with a space that is not in `text`
    for piece in tokenizer.covered(text, ids):
        num_bytes += len(piece)
        while characters < len(text) and num_bytes >= (width := len(text[characters].encode())):
            num_bytes -= width
            characters += 1
        ends.append(characters)
    return ends


def _best_cut(text: str, low: int, high: int) -> int | None:
    """Returns the last of the best cuts of `text` between `low` and `high` characters, if there is one."""
    low, high = max(1, low), max(1, high)
    for pattern in _CUTS:
        ends = [match.end() for match in pattern.finditer(text, 0, min(high + 1, len(text)))]
        if cuts := [end for end in ends if low <= end <= high]:
            return cuts[-1]
    return None


def _trimmed(text: str, start: int, end: int) -> Span:
    """Returns the span without the white space at its ends."""
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), max(start, end - (len(part) - len(part.rstrip())))
