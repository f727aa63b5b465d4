"""The baseline of parsing: a treebank PCFG with exact CKY, trained and tested on the trees that a neural parser gets.

    python benchmarks/pcfg.py --train DIR/gum/train --test gum DIR/gum/test --parses parses
    python benchmarks/pcfg.py --train DIR/gum/train DIR/wsj-sample/train --name gum+wsj --test gum DIR/gum/test \
        --test wsj DIR/wsj-sample/test --output result.json
    transduce parse score --reference parses/gum.gold --hypothesis parses/gum.parsed --gold-punctuation --analysis

Treebanks are files of bracketed trees in any layout, folders of them or patterns; what is training data and what is
test is what the paths say. A training tree over the words of a test sentence is left out, as are sentences of more than
--max-words words on both sides. Trees are normalised as the package does it: no traces, function tags or mark of the
top. Input is words alone: the parser finds its own tags. A sentence that the grammar has no tree for becomes a flat
one, so that there is a tree for each.

Rules have their relative frequencies in the training trees, unsmoothed; --horizontal and --vertical say what they
remember (pcfg_grammar.py). Nothing is random, nothing is pruned. On standard output: scores in EVALB's layout, where
the gold tags say what is punctuation, so that no sentence is left out.
"""

import argparse
import datetime
import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pcfg_cky import Parser
from pcfg_grammar import Grammar, Lexicon, estimate_grammar, unbinarise
from transduce import __version__
from transduce.data.progress import elapsed_time, progress_bar
from transduce.data.treebank_reader import read_treebank
from transduce.errors import DataError, TransduceError
from transduce.files import write_json, write_text
from transduce.treebank import Leaf, Tree, normalise, score_brackets
from transduce.treebank.bracket_report import summary_text


def main() -> None:
    """Reads the command line, trains, parses and scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", nargs="+", type=Path, required=True, metavar="PATH", help="treebanks")
    parser.add_argument(
        "--test",
        nargs="+",
        action="append",
        required=True,
        metavar=("NAME", "PATH"),
        help="a name and treebanks to parse; may be repeated",
    )
    parser.add_argument("--max-words", type=at_least(1), default=25, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--max-train-words", type=at_least(1), metavar="N", help="another bound for training; default: as --max-words"
    )
    parser.add_argument(
        "--horizontal",
        type=lambda text: None if text == "all" else at_least(0)(text),
        default=2,
        metavar="H",
        help="siblings remembered, or 'all'; default: %(default)s",
    )
    parser.add_argument(
        "--vertical",
        type=at_least(1),
        default=2,
        metavar="V",
        help="labels remembered, the own one included; default: %(default)s",
    )
    parser.add_argument(
        "--rare",
        type=at_least(0),
        default=2,
        metavar="N",
        help="words seen so often at most stand for unknown ones; default: 2",
    )
    parser.add_argument(
        "--parses",
        type=Path,
        metavar="FOLDER",
        help="write each test set's parses here as NAME.parsed, and the gold trees as NAME.gold, a tree a line",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the result here, as JSON")
    parser.add_argument("--name", default="treebank", help="what the result calls the training data")
    args = parser.parse_args()
    try:
        run(args)
    except TransduceError as error:
        print(f"pcfg: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def at_least(least: int) -> Callable[[str], int]:
    """Returns what reads a whole number that is no smaller."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} on")
        return int(text)

    return read


def run(args: argparse.Namespace) -> None:
    """Does what the command line says."""
    max_train_words = args.max_words if args.max_train_words is None else args.max_train_words
    with elapsed_time("reading", shown=True):
        tests = {name: list(short_trees(map(Path, paths), args.max_words)) for name, *paths in args.test}
        tested = {tuple(words_of(tree)) for gold in tests.values() for tree in gold}
        train = [tree for tree in short_trees(args.train, max_train_words) if tuple(words_of(tree)) not in tested]
    for name, trees in {"--train": train, **tests}.items():
        if not trees:
            raise DataError(f"{name}: no sentence of so few words. A test set is a name, and then its treebanks.")
    start = time.perf_counter()
    with elapsed_time("training", shown=True):
        grammar = estimate_grammar(train, args.horizontal, args.vertical)
        tags = [symbol.name for symbol in grammar.symbols[grammar.num_labels :][: grammar.num_tags]]
        lexicon = Lexicon(train, tags, args.rare)
        parser = Parser(grammar, lexicon)
    settings = {name: getattr(args, name) for name in ("max_words", "horizontal", "vertical", "rare")}
    result: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "what": "treebank PCFG, exact CKY; input is words alone; brackets scored as EVALB does with COLLINS.prm, "
        "punctuation by gold tags",
        "settings": settings | {"max_train_words": max_train_words},
        "train": {"name": args.name} | size(train) | {"seconds": round(time.perf_counter() - start, 1)},
        "grammar": grammar_size(grammar),
        "tests": {},
    }
    root = Counter(tree.label for tree in train).most_common(1)[0][0]
    for name, gold in tests.items():
        result["tests"][name] = measure(name, gold, parser, lexicon, root, args.parses)
    result["machine"] = machine()
    if args.output:
        write_json(args.output, result)


def measure(
    name: str, gold: Sequence[Tree], parser: Parser, lexicon: Lexicon, root: str, folder: Path | None
) -> dict[str, Any]:
    """Parses and scores a test set, prints the scores, and returns them; writes the trees if there is a folder."""
    start = time.perf_counter()
    parsed, num_flat = parse_all(name, parser, lexicon, [words_of(tree) for tree in gold], root)
    seconds = time.perf_counter() - start
    lines = {"gold": [str(tree) for tree in gold], "parsed": [str(tree) for tree in parsed]}
    if folder:
        for side, trees in lines.items():
            write_text(folder / f"{name}.{side}", "\n".join(trees) + "\n")
    evaluation = score_brackets(lines["gold"], lines["parsed"], gold_punctuation=True)
    print(f"{name}\n{summary_text(evaluation)}\n")
    return {"scores": evaluation.summary().to_dict(), **size(gold), "flat": num_flat, "seconds": round(seconds, 1)}


def short_trees(paths: Iterable[Path], max_words: int) -> Iterator[Tree]:
    """Yields the normalised trees of at most `max_words` words."""
    for tree in map(normalise, read_treebank(paths)):
        if tree is not None and len(tree.leaves()) <= max_words:
            yield tree


def words_of(tree: Tree) -> list[str]:
    """Returns the words of a tree."""
    return [leaf.word for leaf in tree.leaves()]


def parse_all(
    name: str, parser: Parser, lexicon: Lexicon, sentences: Sequence[Sequence[str]], root: str
) -> tuple[list[Tree], int]:
    """Returns a tree for each sentence, and how many are flat for want of a better one: `root` over all words."""
    trees: list[Tree] = []
    num_flat = 0
    with progress_bar(f"parsing {name}", sum(map(len, sentences)), unit=" words", shown=True) as bar:
        for words in sentences:
            found = parser.parse(words)
            tree = unbinarise(found[0]) if found else None
            if not isinstance(tree, Tree):
                num_flat += 1
                tree = Tree(root, tuple(map(Leaf, lexicon.best_tags(words), words)))
            trees.append(tree)
            bar.update(len(words))
    return trees, num_flat


def size(trees: Sequence[Tree]) -> dict[str, int]:
    """Returns how many sentences and words there are."""
    return {"sentences": len(trees), "words": sum(len(tree.leaves()) for tree in trees)}


def grammar_size(grammar: Grammar) -> dict[str, int]:
    """Returns how many symbols and rules there are."""
    return {
        "labels": grammar.num_labels,
        "tags": grammar.num_tags,
        "partial_symbols": len(grammar.symbols) - grammar.num_labels - grammar.num_tags,
        "unary_rules": len(grammar.unary),
        "binary_rules": len(grammar.binary),
    }


def machine() -> dict[str, Any]:
    """Returns what it was measured on."""
    return {
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "transduce": __version__,
    }


if __name__ == "__main__":
    main()
