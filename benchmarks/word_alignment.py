"""Word alignments of both engines: how often they agree with a statistical aligner's links, and with each other's.

Takes a model and aligned files. IBM model 1 is learned from the training files and the test files in both directions.
A link is confident if each of the two words is the best for the other. Measures, on the test pairs,

- links: which share of the confident links an engine's alignment has;
- tags: a pair of tags is put around a random word with a confident link, and placed in the reference: how often is it
  around the linked word there, and around nothing else;
- points: a mark without content is put between two words with confident links, of which the second comes later in the
  reference too: how often is it between them there;
- the agreement of each engine's links with the torch engine's;
- the time to choose the heads of a conversion, and to align a pair.

    python benchmarks/word_alignment.py MODEL --train train.en train.de --test test.en test.de --output result.json

Without a model, the alignments are those of the order of words, and of IBM model 1 over subwords in one direction,
where half of each word's weights are those of the word after it: as decoders do, articles attend to their noun.
"""

import argparse
import json
import random
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from transduce import Translator
from transduce.alignment.lexicon import learn_lexicon
from transduce.bundle import Bundle
from transduce.data.readers import read_lines
from transduce.engines.aligning_heads import heads_or_layer
from transduce.reporting.machine import describe_machine
from transduce.text import SubwordTokenizer
from transduce.translation.pipeline.atoms import atoms
from transduce.translation.pipeline.markup import Mark
from transduce.translation.pipeline.placement import place_marks
from transduce.translation.pipeline.word_alignment import WordAligner

Pairs = Sequence[tuple[str, str]]
Links = list[tuple[int, int]]  # (source atom, target atom)
_VOCAB_SIZE = 5000  # of the subwords that are aligned without a model


class OrderEngine:
    """Aligns nothing, so that the order of the words and equal words decide."""

    max_source_tokens = 1024

    def align(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Returns zeros."""
        return [np.zeros((len(target), len(source))) for source, target in zip(sources, targets, strict=True)]


class LexiconEngine(OrderEngine):
    """Aligns by IBM model 1, and half by the next word."""

    def __init__(self, tokenizer: SubwordTokenizer, training: Pairs) -> None:
        sources, targets = (
            [np.array(ids, np.int64) for ids in tokenizer.encode_batch(list(side))]
            for side in zip(*training, strict=True)
        )
        lexicon = learn_lexicon(sources, targets, tokenizer.vocab_size)
        rows = zip(lexicon.targets, lexicon.probabilities, strict=True)
        self._table = [dict(zip(ids.tolist(), values.tolist(), strict=True)) for ids, values in rows]

    def align(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Returns the probability that a target token is from each source token, with half of the next token's."""
        found = []
        for source, target in zip(sources, targets, strict=True):
            weights = np.array([[self._table[i].get(j, 0) + 1e-4 for i in source] for j in target])
            weights /= weights.sum(-1, keepdims=True)
            found.append((weights + np.concatenate([weights[1:], weights[-1:]])) / 2)
        return found


class AlignedBy:
    """What a `WordAligner` needs of a model."""

    def __init__(self, engine: OrderEngine, tokenizer: SubwordTokenizer) -> None:
        self.engine, self.tokenizer, self.bundle = engine, tokenizer, None


def confident_links(training: Pairs, test: Pairs) -> list[Links]:
    """Returns the links of each test pair on which IBM model 1 agrees in both directions."""
    words: dict[str, int] = {}

    def ids(text: str) -> np.ndarray:
        return np.array([words.setdefault(text[a:b].casefold(), len(words) + 4) for a, b in atoms(text)], np.int64)

    sources, targets = ([ids(text) for text in side] for side in zip(*training, *test, strict=True))
    tables = []
    for given, made in ((sources, targets), (targets, sources)):
        lexicon = learn_lexicon(given, made, len(words) + 4)
        rows = zip(lexicon.targets, lexicon.probabilities, strict=True)
        tables.append([dict(zip(ids.tolist(), values.tolist(), strict=True)) for ids, values in rows])
    found = []
    for source, target in zip(sources[-len(test) :], targets[-len(test) :], strict=True):
        forward = np.array([[tables[0][i].get(j, 0) for i in source] for j in target.tolist()])
        backward = np.array([[tables[1][j].get(i, 0) for j in target] for i in source.tolist()])
        best, back = forward.argmax(axis=1), backward.argmax(axis=1)
        found.append(
            [(int(best[j]), j) for j in range(len(target)) if back[best[j]] == j and forward[j, best[j]] > 0.1]
        )
    return found


def engine_links(aligner: WordAligner, pairs: Pairs) -> list[Links]:
    """Returns the links of an engine."""
    found = []
    for source, target in aligner.prepared(pairs, lambda pair: [pair]):
        of_source = {span: i for i, span in enumerate(atoms(source))}
        of_target = {span: i for i, span in enumerate(atoms(target))}
        found.append([(of_source[s], of_target[t]) for s, t in aligner.links(source, target)])
    return found


def share(found: Sequence[Links], expected: Sequence[Links]) -> float:
    """Returns which share of the expected links was found."""
    common = sum(len(set(ours) & set(theirs)) for ours, theirs in zip(found, expected, strict=True))
    return round(common / sum(map(len, expected)), 4)


def tags(aligner: WordAligner, pairs: Pairs, links: Sequence[Links]) -> dict[str, float]:
    """Returns how often tags around a linked word are around its partner, and around that alone."""
    chance, around, exact, count = random.Random(1), 0, 0, 0
    for (source, target), linked in zip(pairs, links, strict=True):
        if not linked:
            continue
        i, j = chance.choice(linked)
        start, end = atoms(source)[i]
        marks = [Mark("open", "<b>", start, (True, False)), Mark("close", "</b>", end, (False, True))]
        with aligner.table(source, target, [((0, len(source)), (0, len(target)))]) as table:
            text, spans = place_marks(source, target, marks, table)
        low, high = text.index("<b>"), text.index("</b>")
        inside = [index for index, (first, last) in enumerate(spans) if low <= first and last <= high]
        around, exact, count = around + (j in inside), exact + (inside == [j]), count + 1
    return {"elements": count, "around_the_word": round(around / count, 4), "exactly_the_word": round(exact / count, 4)}


def points(aligner: WordAligner, pairs: Pairs, links: Sequence[Links]) -> dict[str, float]:
    """Returns how often a mark between two linked words is between their partners."""
    chance, between, count = random.Random(1), 0, 0
    for (source, target), linked in zip(pairs, links, strict=True):
        partner = dict(linked)
        choices = [i for i in partner if i + 1 in partner and partner[i] < partner[i + 1]]
        if not choices:
            continue
        i = chance.choice(choices)
        mark = Mark("point", "<x/>", atoms(source)[i + 1][0], (True, True))
        with aligner.table(source, target, [((0, len(source)), (0, len(target)))]) as table:
            text, spans = place_marks(source, target, [mark], table)
        at = text.index("<x/>")
        between += spans[partner[i]][1] <= at < spans[partner[i + 1]][0]
        count += 1
    return {"points": count, "between_the_words": round(between / count, 4)}


def of_model(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns what there is to say of a model, and what aligns by it."""
    bundle = Bundle.load(path)
    heads = heads_or_layer(bundle.config.model, bundle.aligning_heads)
    about = {
        "model": bundle.summary,
        "heads": {"layer": heads.layer + 1, "heads": [head + 1 for head in heads.heads]},
    }
    options: dict[str, dict[str, Any]] = {
        "torch": {"engine": "torch"},
        "ctranslate2": {"engine": "ctranslate2"},
        "ctranslate2 int8": {"engine": "ctranslate2", "quantization": "int8"},
    }
    models: dict[str, Any] = {
        name: Translator.load(path, device="cpu", threads=1, **each) for name, each in options.items()
    }
    return about, models | {"order": AlignedBy(OrderEngine(), bundle.tokenizer)}


def without_model(training: Pairs) -> dict[str, Any]:
    """Returns what aligns without a model."""
    tokenizer = SubwordTokenizer.train(
        [line for pair in training for line in pair], algorithm="bpe", vocab_size=_VOCAB_SIZE
    )
    return {
        "order": AlignedBy(OrderEngine(), tokenizer),
        "IBM model 1": AlignedBy(LexiconEngine(tokenizer, training), tokenizer),
    }


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--train", type=Path, nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--test", type=Path, nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    training, test = ([*zip(*map(read_lines, paths), strict=True)] for paths in (args.train, args.test))
    test = test[: args.lines]
    confident = confident_links(training, test)
    about, models = of_model(args.model) if args.model else ({}, without_model(training))
    result: dict[str, Any] = {
        "date": date.today().isoformat(),
        "machine": describe_machine(),
        **about,
        "pairs": len(test),
        "confident_links": sum(map(len, confident)),
        "words": sum(len(atoms(target)) for _, target in test),
        "engines": {},
    }
    of_first: list[Links] = []
    for name, model in models.items():
        aligner = WordAligner(model)
        start = time.perf_counter()
        links = engine_links(aligner, test)
        seconds = time.perf_counter() - start
        of_first = of_first or links
        result["engines"][name] = {
            "links": share(links, confident),
            **({"as_torch": share(links, of_first)} if "torch" in models else {}),
            **tags(aligner, test, confident),
            **points(aligner, test, confident),
            "milliseconds_a_pair": round(1000 * seconds / len(test), 2),
        }
    text = json.dumps(result, indent=2)
    print(text)
    if args.output is not None:
        args.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
