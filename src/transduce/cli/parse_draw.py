"""Draws trees as text or as an SVG picture, or writes them in brackets, one per line.

The input is bracketed trees in any layout, such as the Penn Treebank's .mrg files: a file (also .gz or .zst), a folder
of such files, or standard input. A tree that is too wide for the terminal is drawn as an outline. An SVG picture has
all trees, one below the other.

The ending of --output decides the format: .svg is a picture, .txt is text; .brackets, .trees and .mrg are brackets. For
any other ending add --format.

examples:
  echo "(S (NP (DT The) (NN dog)) (VP (VBZ barks)))" | transduce parse draw
  transduce parse draw wsj_0165.mrg --number 3 --normalise
  transduce parse draw wsj_0165.mrg --number 3 --output tree.svg
  transduce parse draw wsj_0165.mrg --normalise --format brackets > wsj_0165.trees
  transduce parse draw wsj/23 --normalise --format brackets --output wsj23.gold
"""

import argparse
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.cli.arguments import add_output, require_output
from transduce.cli.options import add_choice, add_number, add_path, add_switch, whole
from transduce.cli.output import open_output
from transduce.errors import ConfigError, DataError

if TYPE_CHECKING:
    from transduce.treebank import Tree

SUMMARY = "show trees as text, SVG or brackets"

_FORMAT_OF = {".svg": "svg", ".txt": "text", ".brackets": "brackets", ".trees": "brackets", ".mrg": "brackets"}
_NEVER_WRITTEN = (".png", ".pdf", ".jpg", ".jpeg", ".html", ".gz", ".zst")  # refused with any --format


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_path(parser, "trees", "TREES", "default: stdin", nargs="?", default=Path("-"))
    add_choice(parser, "--format", ("text", "svg", "brackets"), "default: by the ending of --output, else text")
    add_output(parser)
    add_number(parser, "--number", whole(1), "N", "only the N-th tree, from 1")
    add_switch(parser, "--normalise", "remove traces, function tags and the TOP label")
    add_number(parser, "--width", whole(1, 100_000), "N", "columns of text; default: the terminal's width")


def run(args: argparse.Namespace) -> int:
    """Draws the trees, and returns the exit code."""
    require_output(args)
    form = _format(args.format, args.output)
    if args.width is not None and form != "text":
        raise ConfigError(f"--width is for trees as text: leave it out, or leave out what makes {form}.")
    with open_output(args.output) as output:
        output.writelines(_pieces(args, form))
    return 0


def _format(named: str | None, output: Path | None) -> str:
    """Returns the format that --format or the ending of the output names; both must agree."""
    suffix = "" if output is None else output.suffix.lower()
    implied = _FORMAT_OF.get(suffix)
    if suffix in _NEVER_WRITTEN or (suffix and implied is None and named is None):
        known = ", ".join(f"{ending} ({name})" for ending, name in _FORMAT_OF.items())
        other = "" if suffix in _NEVER_WRITTEN else "; or add --format"
        raise ConfigError(f"{output}: no format has the ending '{suffix}'. Use one of {known}{other}.")
    if named is not None and implied is not None and named != implied:
        raise ConfigError(
            f"--format {named}: {output} has the ending of {implied}. Leave out --format, or rename the file."
        )
    return named or implied or "text"


def _pieces(args: argparse.Namespace, form: str) -> Iterator[str]:
    from transduce.treebank import draw_svg, draw_text

    trees = _trees(args)
    if form == "svg":
        yield draw_svg(list(trees))
        return
    width = args.width if args.width is not None else shutil.get_terminal_size((100, 0)).columns
    for position, tree in enumerate(trees):
        if form == "brackets":
            yield f"{tree}\n"
        else:
            yield ("\n" if position else "") + draw_text(tree, width) + "\n"


def _trees(args: argparse.Namespace) -> Iterator["Tree"]:
    from transduce.data.readers import shown_name
    from transduce.data.treebank_reader import read_treebank
    from transduce.treebank import normalise

    trees = read_treebank([args.trees])
    if args.number is not None:
        chosen = list(islice(trees, args.number - 1, args.number))
        if not chosen:
            raise DataError(f"{shown_name(args.trees)}: there is no tree number {args.number}; the first is 1.")
        trees = iter(chosen)
    for tree in trees:
        shown = normalise(tree) if args.normalise else tree
        if shown is not None:
            yield shown
