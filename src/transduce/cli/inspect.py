"""Shows what each head of each layer attends to: as a page, a picture, arrays or word alignments.

The page, the picture and the arrays show one pair of sentences: --sentence with --translation, or with the model's own
translation; or line --line of --source and --target. The page has every layer and head in one file that needs no
network. --pharaoh aligns the words of every line.

examples:
  transduce inspect models/m30k --sentence "A dog runs." --output dog.html
  transduce inspect models/m30k --sentence "A dog runs." --translation "Ein Hund rennt." --words
  transduce inspect models/m30k --sentence "A dog runs." --figure dog.svg --attention cross --layer 3 --heads 1,4
  transduce inspect models/m30k --sentence "A dog runs." --figure dog.png --word dog
  transduce inspect models/m30k --source test.en --target test.de --pharaoh test.align
  transduce inspect models/m30k --source test.en --line 7 --arrays pair.npz
  transduce inspect models/many --sentence "A dog runs." --target-language fr --domain law

Layers and heads count from 1. An alignment links each target word to the source word that the chosen heads attend to
most; "0-0 2-1" links source word 0 to target word 0, and 2 to 1. Words are separated by white space. By default the
three heads with the best alignment score on the first 200 pairs are used; --align-heads chooses others:
  best:5       the five best
  mean         all heads of all layers
  3            all heads of layer 3
  3.1,4.2      head 1 of layer 3 and head 2 of layer 4
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.cli.arguments import add_device, add_direction, add_overwrite
from transduce.cli.open_model import read_sides, require_named_target
from transduce.cli.options import add_choice, add_number, add_path, add_switch, add_text, whole
from transduce.cli.output import open_output, require_no_input, warn, warn_truncated
from transduce.data.tmx import is_tmx
from transduce.errors import ConfigError
from transduce.files import require_free, write_text
from transduce.reporting.tables import counted

if TYPE_CHECKING:
    import numpy as np

    from transduce.translation.result import Attention
    from transduce.translation.translator import Translator

SUMMARY = "show what a model attends to: as a page, pictures, arrays, word alignments"

_DEFAULT_PAGE = Path("attention.html")
_STDOUT = Path("-")
_PICTURES = (".png", ".svg", ".pdf", ".jpg", ".jpeg")
_LARGE_PAGE = 10_000_000  # characters; browsers become slow


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_path(parser, "model", "MODEL", "model folder")
    pair = parser.add_argument_group("sentences")
    add_text(pair, "--sentence", "TEXT", "a source sentence")
    add_text(pair, "--translation", "TEXT", "its translation; default: the model's own")
    add_path(pair, "--source", "FILE", "source lines, or a TMX, for --target too; default without --sentence: stdin")
    add_path(pair, "--target", "FILE", "their translations; default: the model's own")
    add_number(pair, "--line", whole(1), "N", "the line of --source to show", 1)
    output = parser.add_argument_group(f"output (default: the page, as {_DEFAULT_PAGE})")
    add_path(output, "--output", "FILE", "the page, .html")
    add_path(output, "--figure", "FILE", "a picture of one layer, .png or .svg")
    add_path(output, "--arrays", "FILE", "all weights and pieces, .npz or .json")
    add_path(output, "--pharaoh", "FILE", "word alignments, one line per pair; - is stdout")
    add_overwrite(output, "existing outputs")
    add_switch(output, "--words", "show words instead of subword pieces")
    figure = parser.add_argument_group("picture")
    # As in `inspection.view`; importing that would load numpy for `--help`.
    kinds = ("encoder", "decoder", "cross")
    add_choice(figure, "--attention", kinds, "default: %(default)s", default="encoder")
    add_number(figure, "--layer", whole(1, 1000), "N", "default: the last but one, as in the paper")
    add_text(figure, "--heads", "N,N", "default: all")
    add_text(figure, "--word", "TEXT", "draw the lines of this word only")
    add_text(parser.add_argument_group("alignment"), "--align-heads", "HEADS", "see above; default: best")
    add_direction(parser, target="--target-language")
    add_device(parser.add_argument_group("machine"))


def run(args: argparse.Namespace) -> int:
    """Writes the outputs, and returns the exit code."""
    from transduce.cli.requirements import require

    require("train", ["torch"])
    _check(args)
    # Imported here, so that `transduce --help` need not load what they need.
    from transduce.translation.translator import Translator

    pairs = _pairs(args)
    shows_a_pair = any((args.output, args.figure, args.arrays)) or args.pharaoh is None
    if shows_a_pair and not 1 <= args.line <= len(pairs):
        raise ConfigError(f"--line {args.line}: the input has {counted(len(pairs), 'line')}.")
    translator = Translator.load(args.model, engine="torch", device=args.device, threads=args.threads)
    if args.target is not None and translator.bundle is not None:
        require_named_target(translator.bundle, args.target_language, args.target, "--target-language")
    direction = {key: getattr(args, key) for key in ("source_language", "target_language", "domain")}
    if shows_a_pair:
        _show(args, _attend(translator, pairs[args.line - 1], args.line, direction))
    if args.pharaoh is not None:
        _align(args, translator, pairs, direction)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Checks the options before a model is loaded."""
    if args.sentence is not None and (args.source is not None or args.target is not None):
        raise ConfigError("Give one pair (--sentence, --translation) or files (--source, --target), not both.")
    if args.translation is not None and args.sentence is None:
        raise ConfigError("--translation needs --sentence. For files use --source and --target.")
    if args.source is not None and args.target is None and is_tmx(args.source):
        raise ConfigError(f"--source {args.source}: a translation memory has both sides: add --target {args.source}.")
    of_figure = any(option is not None for option in (args.layer, args.heads, args.word))
    if args.figure is None and (of_figure or args.attention != args.parser.get_default("attention")):
        raise ConfigError(
            "--attention, --layer, --heads and --word are for a picture: add --figure FILE. The page shows all of them."
        )
    if (
        args.line != args.parser.get_default("line")
        and args.pharaoh
        and not any((args.output, args.figure, args.arrays))
    ):
        raise ConfigError("--line chooses the pair of a page, a picture or arrays; --pharaoh aligns all. Leave it out.")
    if args.words and (args.arrays or args.pharaoh) and not (args.output or args.figure):
        raise ConfigError("--words is for the page and the picture: add --output FILE or --figure FILE.")
    if args.pharaoh is None and args.align_heads is not None:
        raise ConfigError("--align-heads is for word alignments: add --pharaoh FILE.")
    if args.figure is not None:
        from transduce.cli.requirements import require
        from transduce.inspection import figure

        figure.require_ending(args.figure)
        require("figures", ["matplotlib"])
    if args.arrays is not None:
        from transduce.inspection import arrays

        arrays.require_ending(args.arrays)
    _require_outputs(args)


def _require_outputs(args: argparse.Namespace) -> None:
    """Checks that no output replaces an existing file without --overwrite; without any, names the page."""
    names = ("output", "figure", "arrays", "pharaoh")
    if args.output is not None and args.output.suffix.lower() in _PICTURES:
        picture = args.output if args.output.suffix.lower() in (".png", ".svg") else args.output.with_suffix(".svg")
        raise ConfigError(f"--output {args.output}: the page is HTML. For a picture: --figure {picture}")
    if not any(getattr(args, name) for name in names):
        args.output = _DEFAULT_PAGE
        require_no_input(args)
    for name in names:
        output = getattr(args, name)
        if output is not None and not (name == "pharaoh" and output == _STDOUT):
            require_free(output, overwrite=args.overwrite, option=f"--{name}")


def _pairs(args: argparse.Namespace) -> list[tuple[str, str | None]]:
    """Returns the sources with their targets; None where the model translates."""
    if args.sentence is not None:
        return [(args.sentence, args.translation)]
    from transduce.data.readers import STDIN, read_lines

    source = args.source or STDIN
    if args.target is None:
        return [(line, None) for line in read_lines(source)]
    return list(read_sides(source, args.target, args.model, args.target_language))


def _attend(
    translator: "Translator", pair: tuple[str, str | None], line: int, direction: dict[str, str]
) -> "Attention":
    from transduce.data.treebank_reader import sentence_reader

    source, target = pair
    if translator.bundle is not None:
        source = sentence_reader(translator.bundle.config.data, translator.tokenizer)(source)
    attention = translator.attend(source, target, **direction)
    if attention.source_truncated or attention.target_truncated:
        warn_truncated(f"line {line}", translator.engine.max_source_tokens, "read")
    return attention


def _show(args: argparse.Namespace, attention: "Attention") -> None:
    """Writes the page, the picture and the data of one pair."""
    from transduce.bundle import Bundle
    from transduce.inspection import draw, explorer_page, view, write_arrays

    written = []
    if args.figure is not None:
        shown = view(attention, args.attention, words=args.words)
        draw(shown, args.figure, layer=args.layer, heads=_head_numbers(args.heads), word=args.word)
        written.append(args.figure)
    if args.arrays is not None:
        write_arrays(attention, args.arrays)
        written.append(args.arrays)
    if args.output is not None:
        page = args.output
        name = Bundle.load(args.model).config.name
        text = explorer_page(attention, model=name, words=args.words)
        write_text(page, text)
        written.append(page)
        if len(text) > _LARGE_PAGE and not args.words:
            size = f"{len(text) / 1e6:.0f} MB"
            warn(f"{page} has {size}, for the pair is long; --words makes it smaller.")
    print(*(f"{path}: {attention.source} → {attention.target}" for path in written), sep="\n", file=sys.stderr)


def _head_numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(name.isdecimal() for name in names):
        raise ConfigError(f"--heads '{text}': write numbers separated by commas, such as 1,3.")
    return [int(name) for name in names]


def _align(
    args: argparse.Namespace, translator: "Translator", pairs: list[tuple[str, str | None]], direction: dict[str, str]
) -> None:
    """Writes the word alignment of every pair; an empty line where a side is blank."""
    from transduce.inspection.alignment import align_all, pharaoh

    heads, alignments = align_all(_word_weights(translator, pairs, direction), args.align_heads or "best")
    with open_output(args.pharaoh) as file:
        file.writelines(f"{pharaoh(links)}\n" for links in alignments)
    names = ", ".join(map(str, heads)) or "none, for there are no words"
    print(f"{args.pharaoh}: {counted(len(pairs), 'pair')} aligned by heads {names} (LAYER.HEAD)", file=sys.stderr)


def _word_weights(
    translator: "Translator", pairs: list[tuple[str, str | None]], direction: dict[str, str]
) -> Iterator["np.ndarray"]:
    """Yields `word_weights` of each pair, and an empty array for one with a blank side."""
    import numpy as np

    from transduce.data.progress import progress_bar
    from transduce.inspection import word_weights

    with progress_bar("aligning", len(pairs), unit=" pairs", shown=sys.stderr.isatty()) as bar:
        for line, (source, target) in enumerate(pairs, start=1):
            if source.strip() and (target is None or target.strip()):
                yield word_weights(_attend(translator, (source, target), line, direction))
            else:
                yield np.zeros((0, 0, 0, 0))
            bar.update()
