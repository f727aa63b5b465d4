"""What required terms cost: which share of them comes out, what they do to BLEU, and how much slower they are.

Terms are pairs of words that are each other's likeliest translation, by IBM's model 1 (Brown et al. 1993) in both
directions, which is learned from the training corpus; words of four letters or more, but for the most frequent. Two
glossaries, each line with one to three terms of its own:

- oracle: the target word stands in the line's reference, as a good glossary's would;
- forced: another translation of the same source word, which does not stand there: what a model must be made to say.

With `--unseen`, a third set: words of the reference that no training line has, one a line, each with the source word
that the model's alignment links with it. They are given as a glossary: a model that was trained with the modifier
`terms` reads them in the source. Measured are plain search, the search that must write the terms, free search with the
terms in the source, and this with the search that must write what is missing, which is what `--glossary` does.

With --in-place, something else is measured: one of the terms of each line is given twice: as a required term, which is
searched for, and as the entry of a glossary, which may also put it in the place of the model's own word. The
references have the term in place of the word that the lexicon links to the source word: they favour a literal
replacement, whose neighbours do not agree with it. A term is doubled if another translation of its source word, by the
lexicon, is as often beside it as in the plain translation.

Throughput is that of the whole call, text to text, over that of plain beam search; rounds alternate, the median counts.
Terms of --unseen are timed in processor seconds, and the pieces that are written are counted: rare terms have many.

    python benchmarks/glossary.py MODEL --source test.en --reference test.de --train-source train.en \\
        --train-target train.de [--lines 300] [--unseen 500] [--output result.json]
"""

import argparse
import json
import random
import re
import statistics
import time
from collections import Counter, defaultdict
from datetime import date
from pathlib import Path
from typing import Any

from transduce import Translation, Translator
from transduce.data.readers import read_lines
from transduce.evaluation import bleu
from transduce.translation.constraints.glossary import Glossary
from transduce.translation.constraints.required_terms import missing
from transduce.translation.constraints.terms_in_sources import encode_with_terms
from transduce.translation.pipeline.word_alignment import WordAligner

WORD = re.compile(r"[^\W\d_]+")
ITERATIONS = 3
FREQUENT = 100  # words that are no terms
LEAST_LETTERS = 4
LEAST_PROBABILITY = 0.05  # of a forced translation, given the source word
MOST_TERMS = 3

Table = dict[str, dict[str, float]]


def words(line: str) -> list[str]:
    """Returns the words of a line, as they stand."""
    return WORD.findall(line)


def model_1(pairs: list[tuple[list[str], list[str]]]) -> Table:
    """Returns the probability of each target word, given a source word that it occurs with."""
    table: Table = defaultdict(lambda: defaultdict(lambda: 1e-3))
    for _ in range(ITERATIONS):
        counts: Table = defaultdict(lambda: defaultdict(float))
        for source, target in pairs:
            for word in target:
                given = [(other, table[other][word]) for other in ("", *source)]
                total = sum(p for _, p in given)
                for other, p in given:
                    counts[other][word] += p / total
        table = {
            other: defaultdict(float, {word: n / sum(of.values()) for word, n in of.items()})
            for other, of in counts.items()
        }
    return table


class Lexicon:
    """What translates what, learned from a corpus."""

    def __init__(self, source: list[str], target: list[str]) -> None:
        sides = [[words(line) for line in side] for side in (source, target)]
        pairs = list(zip(*sides, strict=True))
        self.forward = model_1(pairs)
        self.backward = model_1([(target, source) for source, target in pairs])
        counts = [Counter(word for line in side for word in line) for side in sides]
        self.frequent = {word for count in counts for word, _ in count.most_common(FREQUENT)}
        self.counts = counts[1]

    def links(self, source: str, target: str) -> list[tuple[str, str]]:
        """Returns the content words of a pair that are each other's best."""
        here, there = words(source), words(target)
        found = []
        for word in dict.fromkeys(here):
            best = max(there, key=lambda other, w=word: self._of(self.forward, w, other), default="")
            if not self._of(self.forward, word, best) or not self._content(word) or not self._content(best):
                continue
            if max(here, key=lambda other, b=best: self._of(self.backward, b, other)) == word:
                found.append((word, best))
        return found

    def others(self, word: str, target: str, reference: str) -> list[str]:
        """Returns other translations of `word` than `target`, likeliest first, that the reference has not."""
        absent = set(words(reference.casefold()))
        rows = sorted(self.forward.get(word, {}).items(), key=lambda item: -item[1])
        return [
            other
            for other, p in rows
            if p >= LEAST_PROBABILITY
            and other.casefold() not in absent
            and other[0].isupper() == target[0].isupper()
            and self._content(other)
        ]

    def _content(self, word: str) -> bool:
        return len(word) >= LEAST_LETTERS and word not in self.frequent

    @staticmethod
    def _of(table: Table, word: str, other: str) -> float:
        return table.get(word, {}).get(other, 0.0)


def measure(
    translator: Translator, sources: list[str], references: list[str], required: list[list[str]], rounds: int
) -> dict[str, Any]:
    """Measures one glossary beside plain search of the same lines."""
    plain: list[str] = []
    found: list[Translation] = []
    ratios = []
    for _ in range(rounds):
        start = time.perf_counter()
        plain = translator.translate(sources)
        middle = time.perf_counter()
        found = [best for [best] in translator.translate_n_best(sources, 1, required=required)]
        ratios.append((middle - start) / (time.perf_counter() - middle))
    came = [came for best in found for _, came in best.required]
    return {
        "lines": len(sources),
        "terms": len(came),
        "honoured_by_plain_search": round(
            sum(
                re.search(rf"(?<!\w){re.escape(term)}(?!\w)", text) is not None
                for text, terms in zip(plain, required, strict=True)
                for term in terms
            )
            / len(came),
            4,
        ),
        "honoured": round(sum(came) / len(came), 4),
        "unfinished": sum(not best.finished for best in found),
        "bleu_plain": round(bleu(plain, [references]).value, 2),
        "bleu": round(bleu([best.text for best in found], [references]).value, 2),
        "length_plain": sum(len(words(text)) for text in plain),
        "length": sum(len(words(best.text)) for best in found),
        "throughput_over_plain": round(statistics.median(ratios), 3),
        "rounds": [round(ratio, 3) for ratio in ratios],
        "changed": [
            {"source": s, "required": terms, "plain": text, "with_terms": best.text}
            for s, terms, text, best in zip(sources, required, plain, found, strict=True)
            if text != best.text
        ][:12],
    }


def unseen_terms(
    translator: Translator, pairs: list[tuple[str, str]], training: list[str], count: int
) -> list[tuple[str, str, dict[str, str]]]:
    """Returns source, reference and glossary of lines: a word of the reference that no training line has."""
    known = {word.casefold() for line in training for word in words(line)}
    aligner, chance, rows = WordAligner(translator), random.Random(1), []
    for source, reference in aligner.prepared(pairs, lambda pair: [pair]):
        links = [(source[a:b], reference[c:d]) for (a, b), (c, d) in aligner.links(source, reference)]
        found = [
            (word, target)
            for word, target in links
            if min(len(word), len(target)) >= LEAST_LETTERS
            and (word + target).isalpha()
            and target.casefold() not in known
            and word.casefold() != target.casefold()
            and words(source).count(word) == 1
        ]
        if found:
            rows.append((source, reference, dict([chance.choice(found)])))
    return rows[:count]


def grouped(rows: list[tuple[str, str, dict[str, str]]]) -> list[tuple[list[int], Glossary]]:
    """Returns groups of lines whose terms can be in one glossary: each line has its own source word only."""
    groups: list[tuple[list[int], dict[str, str]]] = []
    for index, (source, _, term) in enumerate(rows):
        for lines, entries in groups:
            own = {word.casefold() for word in words(source)}
            taken = {word.casefold() for line in lines for word in words(rows[line][0])}
            if not own & {word.casefold() for word in entries} and not {w.casefold() for w in term} & taken:
                lines.append(index)
                entries.update(term)
                break
        else:
            groups.append(([index], dict(term)))
    return [(lines, Glossary(entries)) for lines, entries in groups]


def measure_unseen(translator: Translator, rows: list[tuple[str, str, dict[str, str]]], rounds: int) -> dict[str, Any]:
    """Measures terms in the source beside plain search and the search that must write them."""
    groups = grouped(rows)
    terms = [[*term.values()] for _, _, term in rows]

    def free(sources: list[str], glossary: Glossary) -> list[str]:
        encoded = encode_with_terms(translator, glossary, sources)
        found = translator.engine.translate(encoded, translator.options)
        return translator.tokenizer.target.decode_batch([best.ids for best, *_ in found])

    def by_line(lines: list[int]) -> list[list[str]]:
        return [terms[line] for line in lines]

    ways: dict[str, Any] = {
        "plain": lambda lines, sources, _: translator.translate(sources),
        "constrained": lambda lines, sources, _: translator.translate(sources, required=by_line(lines)),
        "in_the_source": lambda _, sources, glossary: free(sources, glossary),
        "in_the_source_then_constrained": lambda _, sources, glossary: translator.translate(sources, glossary=glossary),
    }
    texts: dict[str, list[str]] = {name: [""] * len(rows) for name in ways}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.process_time()
            for lines, glossary in groups:
                for line, text in zip(lines, way(lines, [rows[i][0] for i in lines], glossary), strict=True):
                    texts[name][line] = text
            seconds[name].append(time.process_time() - start)
    references = [reference for _, reference, _ in rows]
    result: dict[str, Any] = {"lines": len(rows), "groups": len(groups)}
    pieces = {
        name: sum(map(len, translator.tokenizer.target.encode_batch(found))) for name, found in texts.items()
    }  # that the decoder writes, a step each
    for name, found in texts.items():
        ratios = [own / plain for own, plain in zip(seconds[name], seconds["plain"], strict=True)]
        result[name] = {
            "came_out": round(
                sum(not missing(text, [tuple(of)]) for text, of in zip(found, terms, strict=True)) / len(rows), 4
            ),
            "bleu": round(bleu(found, [references]).value, 2),
            "time_over_plain": round(statistics.median(ratios), 3),
            "rounds": [round(ratio, 3) for ratio in ratios],
            "pieces_over_plain": round(pieces[name] / pieces["plain"], 3),
        }
    result["examples"] = [
        {"source": row[0], "term": row[2], **{name: found[i] for name, found in texts.items()}}
        for i, row in enumerate(rows[:12])
    ]
    return result


def measure_in_place(translator: Translator, lexicon: Lexicon, rows: list[tuple[str, str, str, str]]) -> dict[str, Any]:
    """Measures terms that are searched for beside those that may be put in place; rows have one source word each."""
    sources, references, source_words, terms = (list(column) for column in zip(*rows, strict=True))
    plain = translator.translate(sources)
    start = time.perf_counter()
    searched = [translator.translate_n_best([s], 1, required=[[t]])[0][0] for s, t in zip(sources, terms, strict=True)]
    middle = time.perf_counter()
    placed = [
        translator.translate_n_best([s], 1, glossary={w: t})[0][0]
        for s, w, t in zip(sources, source_words, terms, strict=True)
    ]
    seconds = middle - start, time.perf_counter() - middle

    def is_doubled(index: int, found: Translation) -> bool:
        rest, free = words(found.text.replace(terms[index], " ")), words(plain[index])
        own = {w for w, p in lexicon.forward[source_words[index]].items() if p >= LEAST_PROBABILITY} & set(free)
        return found.text != plain[index] and any(rest.count(w) >= free.count(w) for w in own - {terms[index]})

    def measures(found: list[Translation], seconds: float) -> dict[str, Any]:
        changed = [i for i, best in enumerate(found) if best.text != plain[i]]
        return {
            "honoured": round(sum(came for best in found for _, came in best.required) / len(found), 4),
            "changed": len(changed),
            "forced": sum(bool(best.forced) for best in found),
            "doubled": sum(is_doubled(i, best) for i, best in enumerate(found)),
            "bleu": round(bleu([best.text for best in found], [references]).value, 2),
            "seconds": round(seconds, 1),
        }

    others = [i for i in range(len(rows)) if searched[i].text != placed[i].text]
    both = (searched, placed)
    return {
        "lines": len(rows),
        "bleu_plain": round(bleu(plain, [references]).value, 2),
        "searched": measures(searched, seconds[0]),
        "in_place": measures(placed, seconds[1]),
        "put_in_place": len(others),
        "bleu_of_these": [
            round(bleu([f[i].text for i in others], [[references[i] for i in others]]).value, 2) for f in both
        ]
        if others
        else [],
        "examples": [
            {"source": sources[i], "term": terms[i], "searched": searched[i].text, "in_place": placed[i].text}
            for i in others[:20]
        ],
    }


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    for name in ("source", "reference", "train-source", "train-target"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=300)
    parser.add_argument("--train-lines", type=int, default=8000)
    parser.add_argument("--unseen", type=int, default=0, help="lines with a term that training has not seen")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--in-place", action="store_true")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    translator = Translator.load(args.model, engine=args.engine, device="cpu", threads=args.threads)
    test = list(zip(read_lines(args.source), read_lines(args.reference), strict=True))
    lexicon = Lexicon(*(list(read_lines(path))[: args.train_lines] for path in (args.train_source, args.train_target)))
    chance = random.Random(1)
    oracle, forced = [], []
    for source, reference in test if args.lines else ():
        links = lexicon.links(source, reference)
        wrong = [(word, others[0]) for word, best in links if (others := lexicon.others(word, best, reference))]
        for kept, pairs in ((oracle, links), (forced, wrong)):
            if pairs and len(kept) < args.lines:
                terms = chance.sample(pairs, min(len(pairs), chance.randint(1, MOST_TERMS)))
                kept.append((source, reference, [target for _, target in terms]))
    single: dict[str, list[tuple[str, str, str, str]]] = {"oracle": [], "forced": []}
    if args.in_place:
        for source, reference in zip(read_lines(args.source), read_lines(args.reference), strict=True):
            links = [(word, best) for word, best in lexicon.links(source, reference) if words(source).count(word) == 1]
            if not links:
                continue
            word, best = chance.choice(links)
            single["oracle"].append((source, reference, word, best))
            if others := lexicon.others(word, best, reference):
                replaced = re.sub(rf"(?<!\w){re.escape(best)}(?!\w)", others[0], reference)
                single["forced"].append((source, replaced, word, others[0]))
    translator = Translator.load(args.model, engine=args.engine, device="cpu", threads=args.threads)
    result: dict[str, Any] = {
        "date": date.today().isoformat(),
        "engine": translator.engine.name,
        "threads": args.threads,
        "beam_size": translator.options.beam_size,
        "batch_size": translator.options.batch_size,
    }
    for name, rows in (("oracle", oracle), ("forced", forced)) if args.lines else ():
        if args.in_place:
            result[name] = measure_in_place(translator, lexicon, single[name][: args.lines])
        else:
            sources, references, required = (list(column) for column in zip(*rows, strict=True))
            result[name] = measure(translator, sources, references, required, args.rounds)
    if args.unseen:
        rows = unseen_terms(translator, test, list(read_lines(args.train_target)), args.unseen)
        result["unseen"] = measure_unseen(translator, rows, args.rounds)
    text = json.dumps(result, indent=2, ensure_ascii=False)
    print(text)
    if args.output is not None:
        args.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
