r"""Parses sentences with a trained parser: one output line, a tree in brackets, for each input line.

The input has one sentence per line, tokenised as in the training treebank, with a space between words. Round brackets
are written as -LRB- and -RRB-. Each output is a well-formed tree over exactly the words of its sentence. An empty line
gives an empty line. Lines end with "\n" only.

The torch engine, the default where PyTorch is installed, searches among such trees only. The ctranslate2 engine takes
half the time on a CPU, and its outputs are repaired where they are no such trees, as they are with --unconstrained.
Standard error says how many were.

With --trees the input is a treebank: a file, or a folder of files. The words of its trees are parsed, and parses are
compared with the trees. Trees that consist of traces are left out, as in 'transduce parse draw --normalise'.

examples:
  echo "The dog barks ." | transduce parse run models/wsj
  transduce parse run models/wsj --source raw.tok --output raw.trees --beam-size 1 --batch-size 64
  transduce parse run models/wsj --trees --source wsj/23 --output wsj23.parsed --engine torch
  transduce parse run models/wsj --source raw.tok --output silver.trees --only-well-formed
"""

import argparse
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from transduce.cli.arguments import add_files, add_machine, add_options, require_output
from transduce.cli.open_model import loading_arguments, open_model, say_engine
from transduce.cli.options import add_switch
from transduce.cli.output import open_output, warn_truncated
from transduce.config import DecodeConfig
from transduce.reporting.tables import counted

if TYPE_CHECKING:
    from transduce.parser import Parse

SUMMARY = "parse tokenised sentences with a trained parser"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_files(parser, "tokenised text, one sentence per line")
    add_switch(parser, "--trees", "the input is trees: parse their words, and score the parses")
    silver = "write an empty line for a parse that needs repair, and search unconstrained; for silver training data"
    add_switch(parser, "--only-well-formed", silver)
    add_switch(parser, "--unconstrained", "search among all outputs, on a CPU with the faster engine, and repair them")
    add_options(parser, "search", paper=DecodeConfig(beam_size=21, length_penalty=0.3, max_extra_tokens=300))  # §6.3
    add_machine(parser)


@dataclass
class _Counts:
    """Counts of parses; `left_out` says what became of those that were repaired."""

    left_out: bool
    sentences: int = 0
    repaired: int = 0
    cut_off: int = 0

    def add(self, parse: "Parse") -> None:
        if parse.tree is not None:
            self.sentences += 1
            self.repaired += parse.repaired
            self.cut_off += not parse.finished

    def __str__(self) -> str:
        share = self.repaired / self.sentences if self.sentences else 0.0
        fate = "left out" if self.left_out else "repaired"
        return (
            f"{counted(self.sentences, 'sentence')}; {self.repaired:,} outputs ({share:.1%}) were not a tree over "
            f"their words and were {fate}; {self.cut_off:,} reached the length limit"
        )


def run(args: argparse.Namespace) -> int:
    """Parses, and returns the exit code."""
    from transduce.data.progress import progress_bar
    from transduce.data.readers import read_lines, shown_name
    from transduce.data.treebank_reader import read_normalised
    from transduce.parser import Parser
    from transduce.treebank.pairs import tree_words

    require_output(args)
    gold = list(read_normalised([args.source])) if args.trees else []
    sentences = [" ".join(tree_words(tree)) for tree in gold] if args.trees else read_lines(args.source)
    constrained = not (args.unconstrained or args.only_well_formed)
    opened = open_model(args, well_formed=constrained)
    parser = Parser.load(args.model, **loading_arguments(args, opened.choice), constrained=constrained)
    say_engine(args, opened, parser.translator.engine)
    counts, scored = _Counts(args.only_well_formed), []
    shown = not args.quiet and args.output is not None and sys.stderr.isatty()  # not between lines of the output
    total = len(gold) or (sum(1 for _ in read_lines(args.source)) if shown and args.source.is_file() else None)
    with open_output(args.output) as output, progress_bar("parsing", total, unit=" lines", shown=shown) as bar:
        for number, parse in enumerate(parser.stream(sentences, options=opened.options), start=1):
            if parse.source_truncated:
                limit = parser.translator.engine.max_source_tokens
                warn_truncated(f"{shown_name(args.source)}, sentence {number}", limit, "parsed")
            counts.add(parse)
            left_out = parse.tree is None or (args.only_well_formed and parse.repaired)
            output.write("\n" if left_out else f"{parse.tree}\n")
            if args.trees and parse.tree is not None:
                scored.append((parse.tree, parse.repaired))
            bar.update()
    if not args.quiet:
        print(counts, file=sys.stderr)
    if gold:
        from transduce.treebank.brackets import parse_scores

        scores = parse_scores(gold, scored)
        print(", ".join(f"{name.replace('_', ' ')} {value:.2f}" for name, value in scores.items()), file=sys.stderr)
    return 0
