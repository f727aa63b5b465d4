"""Compares constrained parses of whole test sets with those that are repaired, and with PCFGs, seed by seed.

python three_seeds.py RUNS PCFG OUTPUT.json

RUNS is the folder `runs` of `transduce paper table4 --constrained`: weights, gold trees and constrained parses of each
seed. PCFG has a folder for each treebank, with the parses of its own grammar (`benchmarks/pcfg.py --parses`), of
sentences of up to 25 words. CTranslate2 parses all sentences again with the same weights, beam 21 and alpha 0.3, and
repairs.
"""

import datetime
import json
import sys
from pathlib import Path
from typing import Any

from transduce import Parser
from transduce.reporting.machine import describe_machine
from transduce.translation.translator import Translator
from transduce.treebank import paired_bootstrap, score_brackets
from transduce.treebank.pairs import tree_words
from transduce.treebank.trees import parse_trees

SHORT_WORDS = 25


def main() -> None:
    """Compares and writes."""
    runs, grammars, output = (Path(each) for each in sys.argv[1:])
    found: list[dict[str, Any]] = []
    for run in sorted(runs.glob("supervised-seed*")):
        translator = Translator.load(run / "model", engine="ctranslate2", device="cpu", threads=1)
        options = translator.with_options(beam_size=21, length_penalty=0.3)
        for name in ("gum", "wsj", "craft"):
            gold, constrained = (lines(run / "parses" / f"{name}.{kind}") for kind in ("gold", "parsed"))
            sentences = [" ".join(tree_words(tree)) for tree in parse_trees(gold, name)]
            parses = list(Parser(translator).stream(sentences, options=options))
            repaired = [str(parse.tree) for parse in parses]
            row = {"run": run.name, "treebank": name, "sentences": len(gold)}
            row["repaired_share"] = sum(parse.repaired for parse in parses) / len(parses)
            row["constrained against repaired"] = compared(gold, constrained, repaired)
            short = [index for index, sentence in enumerate(sentences) if len(sentence.split()) <= SHORT_WORDS]
            parsed_by_grammar = dict(
                zip(lines(grammars / name / f"{name}.gold"), lines(grammars / name / f"{name}.parsed"), strict=True)
            )
            row["constrained against the PCFG"] = compared(
                [gold[index] for index in short],
                [constrained[index] for index in short],
                [parsed_by_grammar[gold[index]] for index in short],
            )
            found.append(row)
            print(row, file=sys.stderr, flush=True)
    result = {
        "date": datetime.date.today().isoformat(),
        "beam_size": 21,
        "length_penalty": 0.3,
        "rows": found,
        "machine": describe_machine(),
    }
    output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def lines(path: Path) -> list[str]:
    """Returns the trees of a file, one a line."""
    return path.read_text("utf-8").splitlines()


def compared(gold: list[str], trees: list[str], others: list[str]) -> dict[str, Any]:
    """Returns the F1 of both, and the interval of their difference."""
    evaluations = [score_brackets(gold, each, gold_punctuation=True) for each in (trees, others)]
    return {key: round(value, 2) for key, value in paired_bootstrap(*evaluations).to_dict().items()}


if __name__ == "__main__":
    main()
