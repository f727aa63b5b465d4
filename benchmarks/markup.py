"""What markup costs: which share of marks survives, what it does to BLEU, and how often a tag lands on its word.

Takes a test set and puts marks into its sources: a pair of tags around random words, a placeholder, URL or address
before a random word. Measures

- survival: lines whose marks are all there, as often as in the source, and nested as there;
- BLEU of the output without its marks against the references, beside BLEU of the unmarked sources;
- accuracy: where source and reference share a word (a name, a number), tags are put around it, and counted where the
  output has the word: are the tags around it there?

    python benchmarks/markup.py MODEL --source test.en --reference test.de [--lines 300] [--output result.json]
"""

import argparse
import json
import random
import re
import time
from datetime import date
from pathlib import Path
from typing import Any

from transduce import Translator
from transduce.data.readers import read_lines
from transduce.evaluation import bleu
from transduce.translation.pipeline import TextOptions
from transduce.translation.pipeline import markup as marks
from transduce.translation.pipeline.survival import has_marks_of

HTML = TextOptions(markup="html")
TAG = re.compile(r"</?[bia][^>]*>")


def tagged(line: str, chance: random.Random) -> str:
    """Returns the line with tags around one to three random words."""
    words = line.split(" ")
    start = chance.randrange(len(words))
    end = min(len(words), start + chance.randint(1, 3))
    return " ".join([*words[:start], "<b>" + " ".join(words[start:end]) + "</b>", *words[end:]])


def with_units(line: str, chance: random.Random) -> str:
    """Returns the line with a placeholder between random words."""
    words = line.split(" ")
    place = chance.randrange(1, len(words)) if len(words) > 1 else 0
    unit = chance.choice(["{name}", "%1$s", "%d", "https://example.org/a?b=1", "me@example.org"])
    return " ".join([*words[:place], unit, *words[place:]])


def survival(sources: list[str], outputs: list[str]) -> float:
    """Returns the share of lines with all of their marks, nested as they were."""
    good = [has_marks_of(output, source, "html") for source, output in zip(sources, outputs, strict=True)]
    return sum(good) / len(good)


def stripped(line: str) -> str:
    """Returns the text of a line without tags and placeholders."""
    parts = [p if isinstance(p, marks.MarkedText) else None for p in marks.read_markup(line, "html")]
    return " ".join(part.plain for part in parts if part is not None)


def condition(translator: Translator, sources: list[str], references: list[str]) -> dict[str, Any]:
    """Measures one kind of marked sources."""
    start = time.perf_counter()
    found = [best for [best] in translator.translate_n_best(sources, 1, text_options=HTML)]
    outputs = [best.text for best in found]
    return {
        "seconds": round(time.perf_counter() - start, 2),
        "survival": survival(sources, outputs),
        "left_in_source": sum(bool(best.warnings) for best in found),
        "bleu": round(bleu([stripped(line) for line in outputs], [references]).value, 2),
    }


def accuracy(translator: Translator, sources: list[str], references: list[str]) -> dict[str, Any]:
    """Returns how often tags around a word that both languages share are around it in the output."""
    marked, words = [], []
    for source, reference in zip(sources, references, strict=True):
        theirs = {word.casefold() for word in re.findall(r"\w{4,}", reference)}
        shared = [m for m in re.finditer(r"\w{4,}", source) if m[0].casefold() in theirs]
        if len(shared) == 1:
            [match] = shared
            marked.append(f"{source[: match.start()]}<b>{match[0]}</b>{source[match.end() :]}")
            words.append(match[0].casefold())
    outputs = translator.translate(marked, text_options=HTML)
    held = [(o, w) for o, w in zip(outputs, words, strict=True) if w in TAG.sub("", o).casefold()]
    exact = sum(re.search(rf"<b>{re.escape(word)}</b>", output.casefold()) is not None for output, word in held)
    around = sum(word in output.casefold().split("<b>")[1].split("</b>")[0] for output, word in held)
    return {"lines": len(held), "exactly_the_word": exact / len(held), "around_the_word": around / len(held)}


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    translator = Translator.load(args.model, device="cpu")
    sources, references = (list(read_lines(path))[: args.lines] for path in (args.source, args.reference))
    chance = random.Random(1)
    start = time.perf_counter()
    plain = translator.translate(sources)
    result: dict[str, Any] = {
        "date": date.today().isoformat(),
        "lines": len(sources),
        "plain": {
            "seconds": round(time.perf_counter() - start, 2),
            "bleu": round(bleu(plain, [references]).value, 2),
        },
        "tags": condition(translator, [tagged(line, chance) for line in sources], references),
        "units": condition(translator, [with_units(line, chance) for line in sources], references),
        "tags_and_units": condition(
            translator, [with_units(tagged(line, chance), chance) for line in sources], references
        ),
        "accuracy": accuracy(translator, sources, references),
    }
    text = json.dumps(result, indent=2)
    print(text)
    if args.output is not None:
        args.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
