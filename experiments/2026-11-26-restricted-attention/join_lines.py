"""Joins consecutive lines of two aligned files into documents; writes OUTPUT.en and OUTPUT.fr.

    python join_lines.py TOKENIZER TEXT OUTPUT LIMIT [LIMIT …]

TEXT.en and TEXT.fr are read. A document has as many lines as fit into LIMIT subwords, the end mark included, on both
sides; LIMIT 1 leaves each line alone. With several limits, each document has the limit that has had the fewest source
subwords so far: all limits get equal shares of the text. A line longer than its limit is a document. A pair with an
empty side is left out.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from transduce.data.readers import read_pairs
from transduce.files import atomic_path
from transduce.text import load_tokenizer

LANGUAGES = ("en", "fr")
Pair = tuple[str, str]


def documents(pairs: Sequence[Pair], lengths: Sequence[tuple[int, int]], limits: Sequence[int]) -> Iterator[list[Pair]]:
    """Yields the lines of each document; `lengths` are those of the pairs in subwords, without end marks."""
    shares = dict.fromkeys(limits, 0)
    limit, lines, totals = limits[0], [], [0, 0]
    for pair, added in zip(pairs, lengths, strict=True):
        if lines and any(total + more + 1 > limit for total, more in zip(totals, added, strict=True)):
            yield lines
            shares[limit] += totals[0]
            limit, lines, totals = min(shares, key=shares.__getitem__), [], [0, 0]
        lines.append(pair)
        totals = [total + more for total, more in zip(totals, added, strict=True)]
    if lines:
        yield lines


def main() -> None:
    """Reads the command line and joins."""
    tokenizer, text, output = load_tokenizer(Path(sys.argv[1])), sys.argv[2], sys.argv[3]
    limits = [int(limit) for limit in sys.argv[4:]]
    paths = [Path(f"{text}.{language}") for language in LANGUAGES]
    pairs = [pair for pair in read_pairs(paths) if all(side.strip() for side in pair)]
    sides = [[len(ids) for ids in tokenizer.encode_batch(side)] for side in zip(*pairs, strict=True)]
    joined = list(documents(pairs, list(zip(*sides, strict=True)), limits))
    for index, language in enumerate(LANGUAGES):
        with atomic_path(Path(f"{output}.{language}")) as temporary:
            lines = (" ".join(pair[index].strip() for pair in document) for document in joined)
            temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{output}: {len(pairs):,} pairs of lines in {len(joined):,} documents, {sum(sides[0]):,} source subwords")


if __name__ == "__main__":
    main()
