"""Parses the same sentences with one model, unconstrained and constrained, and compares F1, repairs and time.

python measure.py MODEL TREEBANKS OUTPUT.json [NAME] [SENTENCES] [BEAM]

TREEBANKS is the folder that recipes/treebank-small.toml describes. NAME is one of its three test sets, of which so many
sentences are taken, evenly spread. The torch engine parses blocks of them, one way and then the other; which goes first
alternates. Seconds are processor time of one thread: the machine had other work. The ctranslate2 engine, without
constraint, parses them last.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

from transduce import Parser
from transduce.data.treebank_reader import read_normalised
from transduce.parser import Parse
from transduce.reporting.machine import describe_machine
from transduce.translation.translator import Translator
from transduce.treebank import Tree, paired_bootstrap, score_brackets
from transduce.treebank.brackets import parse_scores
from transduce.treebank.pairs import tree_words

TESTS = {"gum": "gum/test", "wsj": "wsj-sample/test", "craft": "craft/17[4-6]*.tree"}
BLOCK, SHORT_WORDS = 32, 25


def main() -> None:
    """Parses and writes."""
    model, treebanks, output, name = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    num_sentences, beam_size = int(sys.argv[5]), int(sys.argv[6])
    torch.set_num_threads(1)
    every = list(read_normalised([treebanks / TESTS[name]]))
    count = min(num_sentences, len(every))
    gold = [every[index * len(every) // count] for index in range(count)]
    translator = Translator.load(model, engine="torch", device="cpu", threads=1)
    fast = Parser(Translator.load(model, engine="ctranslate2", device="cpu", threads=1))
    parsers = {"unconstrained": Parser(translator), "constrained": Parser(translator, constrained=True)}
    options = translator.with_options(beam_size=beam_size, length_penalty=0.3)
    parses: dict[str, list[Parse]] = {kind: [] for kind in [*parsers, "ctranslate2"]}
    seconds = dict.fromkeys(parses, 0.0)

    def parse(kind: str, parser: Parser, trees: list[Tree]) -> None:
        began = time.process_time()
        parses[kind] += parser.stream((" ".join(tree_words(tree)) for tree in trees), options=options)
        seconds[kind] += time.process_time() - began

    for parser in (*parsers.values(), fast):
        list(parser.stream([" ".join(tree_words(gold[0]))], options=options))
    for number, start in enumerate(range(0, count, BLOCK)):
        for kind in sorted(parsers, reverse=number % 2 == 1):
            parse(kind, parsers[kind], gold[start : start + BLOCK])
        print(f"{name}: {start + BLOCK}", {each: round(value, 1) for each, value in seconds.items()}, file=sys.stderr)
    for start in range(0, count, BLOCK):
        parse("ctranslate2", fast, gold[start : start + BLOCK])
    values: dict[str, Any] = {"treebank": name, "sentences": count, "beam_size": beam_size}
    for kind, found in parses.items():
        values[kind] = scores(gold, found) | {"seconds_a_sentence": round(seconds[kind] / count, 4)}
    texts = {kind: [str(each.tree) for each in found] for kind, found in parses.items()}
    for kind in ("unconstrained", "ctranslate2"):
        evaluations = [
            score_brackets(list(map(str, gold)), texts[each], gold_punctuation=True) for each in ("constrained", kind)
        ]
        values[f"constrained against {kind}"] = paired_bootstrap(*evaluations).to_dict()
    of_repaired = [index for index, each in enumerate(parses["unconstrained"]) if each.repaired]
    if of_repaired:
        values["sentences that were repaired"] = {
            kind: scores([gold[index] for index in of_repaired], [parses[kind][index] for index in of_repaired])
            for kind in parsers
        }
    output.write_text(json.dumps(values | {"machine": describe_machine()}, indent=1) + "\n", encoding="utf-8")


def scores(gold: list[Tree], parses: list[Parse]) -> dict[str, float]:
    """Returns the scores, those of short sentences, and the shares of outputs that were repaired or cut off."""
    pairs = [(tree, (each.tree, each.repaired)) for tree, each in zip(gold, parses, strict=True) if each.tree]
    short = [pair for pair in pairs if len(pair[0].leaves()) <= SHORT_WORDS]
    found = parse_scores([tree for tree, _ in pairs], [parse for _, parse in pairs])
    found["cut_off"] = 100 * sum(not each.finished for each in parses) / len(parses)
    if short:
        found["f1_short"] = parse_scores([tree for tree, _ in short], [parse for _, parse in short])["f1"]
        found["short"] = len(short)
    return {key: round(value, 2) for key, value in found.items()}


if __name__ == "__main__":
    main()
