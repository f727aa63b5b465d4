"""Tags of documents on the right words: how often both engines' alignments put a tag on the same words.

Makes documents of a file's lines: in each line, one to three stretches of one to three words are in bold, in italics,
or a link. The same translations get their tags by the alignment of the torch engine, and by that of another. Measures

- kept: the share of tags of the source that the translation has;
- around: whether all that is not text is as it was;
- same words: the share of elements that hold the same words of the translation with both alignments;
- mean overlap: of the words of both, as a share of those that either holds.

    python benchmarks/document_tags.py MODEL --source test.en [--lines 1000] [--output result.json]
"""

import argparse
import html
import io
import json
import random
import re
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from transduce import Translator
from transduce.bundle import Bundle
from transduce.data.readers import read_lines
from transduce.reporting.machine import describe_machine
from transduce.translation.documents import DocumentJob, translate_document

_TAG = re.compile(r"<(/?)(\w+)[^>]*>")
_NAMES = ("b", "i", "a")


class AlignedBy:
    """An engine that searches as one engine and aligns as another."""

    def __init__(self, searching: Any, aligning: Any) -> None:
        self._searching, self._aligning = searching, aligning

    def __getattr__(self, name: str) -> Any:
        return getattr(self._searching, name)

    def align(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Returns the alignment of the other engine."""
        found: list[np.ndarray] = self._aligning.align(sources, targets)
        return found


def page(lines: Sequence[str], num_tags: int) -> str:
    """Returns an HTML page with a paragraph for each line, and up to `num_tags` elements in each."""
    chance = random.Random(1)
    return "".join(f"<p>{tagged(line.split(), num_tags, chance)}</p>\n" for line in lines)


def tagged(words: list[str], num_tags: int, chance: random.Random) -> str:
    """Returns words with elements around some of them, which do not overlap."""
    written = [html.escape(word, quote=False) for word in words]
    free = list(range(len(words)))
    for name in _NAMES[: chance.randint(1, num_tags)]:
        length = chance.randint(1, 3)
        starts = [i for i in free if all(i + k in free for k in range(length))]
        if not starts:
            continue
        start = chance.choice(starts)
        end = start + length - 1
        written[start] = f"<{name}>{written[start]}"
        written[end] = f"{written[end]}</{name}>"
        free = [i for i in free if not start - 1 <= i <= end + 1]
    return " ".join(written)


def elements(text: str) -> dict[str, list[int]]:
    """Returns the numbers of the words in each element of a paragraph."""
    found: dict[str, list[int]] = {}
    opened: list[str] = []
    number = position = 0
    for match in [*_TAG.finditer(text), None]:
        for _ in text[position : match.start() if match else len(text)].split():
            for name in opened:
                found[name].append(number)
            number += 1
        if match is None:
            break
        position = match.end()
        if match[1]:
            opened.remove(match[2])
        else:
            opened.append(match[2])
            found[match[2]] = []
    return found


def paragraphs(text: str) -> Iterator[str]:
    """Yields the content of each paragraph."""
    return (match[1] for match in re.finditer(r"<p>(.*?)</p>", text, re.DOTALL))


def compared(source: str, torch: str, other: str) -> dict[str, Any]:
    """Returns the measures of a page that was translated with two alignments."""
    count = same = kept = tags = 0
    overlaps: list[float] = []
    for given, first, second in zip(*map(paragraphs, (source, torch, other)), strict=True):
        assert re.sub(_TAG, "", first).split() == re.sub(_TAG, "", second).split() or _TAG.search(given)
        tags += len(_TAG.findall(given))
        kept += sum(min(_TAG.findall(second).count(tag), _TAG.findall(given).count(tag)) for tag in _TAG.findall(given))
        reference, found = elements(first), elements(second)
        for name, words in reference.items():
            count += 1
            same += words == found.get(name)
            either = set(words) | set(found.get(name, []))
            overlaps.append(len(set(words) & set(found.get(name, []))) / max(len(either), 1))
    return {
        "elements": count,
        "kept": round(kept / tags, 4),
        "around": float(re.sub(r"(?<=<p>).*?(?=</p>)", "", source) == re.sub(r"(?<=<p>).*?(?=</p>)", "", other)),
        "same_words": round(same / count, 4),
        "mean_overlap": round(float(np.mean(overlaps)), 4),
    }


def translated(translator: Translator, source: str) -> str:
    """Returns a page in the other language."""
    output = io.BytesIO()
    translate_document(translator, source.encode(), output, DocumentJob(name="page.html"))
    return output.getvalue().decode()


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    lines = [line for line in read_lines(args.source) if line.strip()][: args.lines]
    torch = Translator.load(args.model, engine="torch", device="cpu", threads=1)
    result: dict[str, Any] = {
        "date": date.today().isoformat(),
        "machine": describe_machine(),
        "model": Bundle.load(args.model).summary,
        "paragraphs": len(lines),
        "engines": {},
    }
    for name, quantization in (("ctranslate2", None), ("ctranslate2 int8", "int8")):
        other = Translator.load(args.model, engine="ctranslate2", quantization=quantization, device="cpu", threads=1)
        result["engines"][name] = {}
        for num_tags in (1, 3):
            source = page(lines, num_tags)
            found = translated(other, source)
            own, other.engine = other.engine, AlignedBy(other.engine, torch.engine)  # type: ignore[assignment]
            reference = translated(other, source)
            other.engine = own
            result["engines"][name][f"up_to_{num_tags}"] = compared(source, reference, found)
    text = json.dumps(result, indent=2)
    print(text)
    if args.output is not None:
        args.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
