r"""Translates a document, or lines of a file or of standard input: one output line for each input line, always.

examples:
  transduce translate models/m30k letter.docx --output brief.docx
  transduce translate models/m30k page.html --output seite.html --glossary terms.tsv
  echo "A dog runs." | transduce translate models/m30k
  transduce translate models/m30k --source test.en --output test.out
  transduce translate models/m30k --source big.en.gz --output big.de.gz --beam-size 1 --batch-size 128 --resume
  transduce translate models/m30k --source reviews.jsonl --field text --into german --output reviews.de.jsonl
  transduce translate models/m30k --source table.tsv --column 2 --output table.de.tsv
  transduce translate models/m30k --source pages.txt --split-sentences always --markup html
  transduce translate models/m30k --source test.en --guard --confidence
  transduce translate models/m30k --source reviews.jsonl --field text --alignment
  transduce translate models/m30k --source test.en --n-best 4 --scores
  transduce translate models/m30k --source test.en --engine ctranslate2 --quantization int8
  transduce translate models/m30k --source test.en --quantization int8 --shortlist on
  transduce translate models/m30k --source test.en --beam-size 1 --draft self
  transduce translate models/m30k --source test.en --beam-size 8 --diversity-groups 4 --n-best 4
  transduce translate models/m30k --source test.en --temperature 1 --top-p 0.9 --n-best 10 --seed 7
  transduce translate models/a --ensemble models/b models/c --source test.en --output test.out
  transduce translate models/m30k --source test.en --prefix begun.de --forbid never.txt
  transduce translate models/m30k --source test.en --glossary terms.tsv
  transduce translate models/m30k --source big.en.zst --output big.de.zst --ray auto --resume
  transduce translate models/many --source test.en --target fr --domain law

A DOCUMENT keeps everything but its text: layout, pictures, links, code, numbers of cues. Its format follows from its
extension, or from --format. docs/guides/documents-and-files.md lists the formats and what is translated in each.
--source reads lines instead.

Typed lines are translated one by one; those of a file or a pipe, many at a time.

A model of several target languages writes --target, or else the language that its recipe names. A pair of languages
that it was not trained on is zero-shot: a note says so.

An empty line, or one of white space, gives an empty line. A line longer than the model reads is split into sentences,
each translated separately (--split-sentences never cuts off its end instead, with a warning). Lines end at "\n" only.
Input and output files may end in .gz or .zst.

--output FILE appears when it is complete. Until then FILE.partial and its journal FILE.partial.json are next to it. If
the command was stopped, the same command with --resume continues; the file is the same as without the stop. Other
options or another input are refused. A complete file is not translated again: --resume then says so and does nothing.
For that its journal is kept as .FILE.journal.json. An existing FILE is replaced with --overwrite only.

--ray lets many workers translate: on this machine (--ray local), or in the Ray cluster that it is part of (--ray auto;
see "ray start --help"). Files are read and written here; the model folder must be on every machine, under one path.
The output is the same as from one machine, and each can resume a job of the other.

The ctranslate2 engine needs no PyTorch, starts quickly, and with int8 is small and fast on a CPU. On first use of a
model it converts it, into a folder next to the model's files.

A file of prefixes has a line for each input line: the beginning of its translation, to the letter, or nothing. The last
word may be continued ("do" as "dog"), unless a space ends the line. Forbidden phrases are whole words, case-sensitive:
"dog" does not forbid "Dog" or "dogs". docs/guides/decoding.md explains each option and its cost.

Each line of a glossary has a source term, a tab and its translation. After more tabs there may be other translations,
of which one is enough. If a line holds the source term, its translation must hold that of the glossary. Terms are found
as whole words, the longest first:
  dog<TAB>Köter
  soccer ball<TAB>Fußball<TAB>Lederball
A source term without capitals is found in any case; one with capitals is case-sensitive. --require-by-line has for each
input line the terms of its translation, separated by tabs; "Hund|Köter" is a choice. Terms need a beam. A
warning for each line names terms that did not come out, or were forced where the model did not expect them.

Layouts of a line, besides plain text:
  --field NAME         a JSON object; the translation becomes the field --into, the others stay as they are
  --column N           tab-separated columns; the translation is added as the last one, or replaces N with --replace

With --n-best, --scores or --confidence the output of plain lines is tab-separated:
  --n-best 4           line number (from 1), translation; several rows for each line, best first
  --scores             translation, score
  --n-best 4 --scores  line number, translation, score
  --confidence         translation, confidence
In JSON they are fields (translation_n_best, translation_score, translation_confidence, translation_words), in
columns further columns. The score is the log-probability divided by the length penalty ((5 + length) / 6)^alpha.
In rows a tab or line break within a translation is written as a space. A line has fewer than N translations if the
search finished fewer. Random draws stay in the order in which they were drawn, so that each is a fair sample.

--alignment adds two fields to JSON. translation_alignment has for each word of the translation what it came from:
[[start, end] in the source, [start, end] in the translation]. translation_sentences has the same for each sentence that
was translated separately. They count characters (Unicode code points) from 0; the end is excluded.
"""

import argparse
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.cli import arguments
from transduce.cli.constraint_files import ConstraintFiles
from transduce.cli.open_model import Opened, loaded_workers, open_translator
from transduce.cli.options import add_number, add_switch, add_text, option_name, whole
from transduce.cli.output import say, warn
from transduce.config import DecodeConfig
from transduce.errors import ConfigError
from transduce.reporting.tables import counted

if TYPE_CHECKING:
    from transduce.translation.pipeline import TextOptions
    from transduce.translation.streams import Layout, Summary

SUMMARY = "translate a file or standard input with a trained model"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    arguments.add_files(parser, "text")
    arguments.add_document(parser)
    files = parser.add_argument_group("files")
    add_switch(files, "--resume", "continue what an earlier run of this command left")
    arguments.add_window(files)
    add_text(files, "--field", "NAME", "lines are JSON objects; translate this field")
    add_text(files, "--into", "NAME", "the new field for the translation; default: translation")
    add_number(files, "--column", whole(1, 1_000_000), "N", "lines are tab-separated; translate column N (from 1)")
    add_switch(files, "--replace", "the translation replaces the column")
    search = arguments.add_options(parser, "search", paper=DecodeConfig())
    add_number(search, "--n-best", whole(1, 1_000_000), "N", "translations for each line, as rows")
    search.set_defaults(n_best=1)
    add_switch(search, "--scores", "add a column with the score")
    for group in ("limits", "diversity", "sampling"):
        arguments.add_options(parser, group)
    arguments.add_direction(parser, source=False)
    arguments.add_constraints(parser)
    arguments.add_text_options(parser)
    arguments.add_ensemble(parser)
    arguments.add_machine(parser)
    arguments.add_shortlist(parser)
    arguments.add_draft(parser)
    arguments.add_cluster(parser)


def run(args: argparse.Namespace) -> int:
    """Translates, and returns the exit code."""
    if args.document is not None:
        from transduce.cli.document import require_document_options, translate_to_output

        require_document_options(args)
        return translate_to_output(args, _opened(args), _text_options(args))
    for name in ("format", "columns", "target_language"):
        if getattr(args, name):
            raise ConfigError(
                f"{option_name(name)} is for documents: transduce translate MODEL DOCUMENT --output FILE."
            )
    layout = _layout(args)
    # Imported here, so that `transduce --help` need not load what they need.
    from transduce.data.readers import STDIN, require_file
    from transduce.translation.pipeline import Request
    from transduce.translation.streams import FileJob, translate_file

    if args.source != STDIN:
        require_file(args.source)
    if not args.resume:
        arguments.require_output(args)
    arguments.require_cluster(args)
    files = ConstraintFiles(args)
    text_options = _text_options(args)
    typed = args.source == STDIN and sys.stdin.isatty()
    opened = _opened(args)
    Request(opened.options, args.n_best, text_options)  # refuses a wrong --n-best before the model is loaded
    with loaded_workers(args, opened) as translator:
        if typed:
            print("Type a line to translate; Ctrl-D ends.", file=sys.stderr)
        summary = translate_file(
            translator,
            args.source,
            args.output,
            FileJob(
                layout=layout,
                options=opened.options,
                n_best=args.n_best,
                text_options=text_options,
                constraints=files.constraints(),
                glossary=files.glossary,
                constraints_name=files.name,
                inline_terms=args.inline_terms,
                check_end=files.check_end,
                window=args.window or (1 if typed else None),
                resume=args.resume,
                overwrite=args.overwrite,
                progress=not args.quiet and _is_file(args.output) and sys.stderr.isatty(),
                warn=warn,
            ),
        )
    _print_summary(args, summary)
    return 0


def _print_summary(args: argparse.Namespace, summary: "Summary") -> None:
    """Says what was resumed, and which required terms came out."""
    if summary.was_finished:
        say(f"{args.output}: finished already, by the same command; {counted(summary.num_lines, 'line')}.")
    elif summary.num_resumed:
        resumed = counted(summary.num_resumed, "line")
        say(f"resumed after {resumed} done before; {summary.num_lines:,} in all.", quiet=args.quiet)
    if summary.num_terms:
        of_all = f"{summary.num_honoured:,} of {counted(summary.num_terms, 'required term')}"
        forced = f"; {summary.num_forced:,} more forced" if summary.num_forced else ""
        say(f"{of_all} came out{forced}.", quiet=args.quiet)


def _text_options(args: argparse.Namespace) -> "TextOptions":
    from transduce.translation.pipeline import TextOptions

    of_documents = args.document is not None
    guard, capitals, signs = (
        of_documents if each is None else each for each in (args.guard, args.capitals, args.signs)
    )
    options = TextOptions(
        split=args.split_sentences,
        markup=args.markup,
        guard=guard,
        capitals=capitals,
        signs=signs,
        confidence=args.confidence,
        alignment=args.alignment,
        language=args.source_language,
        target=args.target,
        domain=args.domain,
    )
    if args.prefix or args.require_by_line or args.inline_terms:
        options.require_whole_lines()
    return options


def _is_file(output: Path | None) -> bool:
    """Returns whether translations go into a file, and not to the terminal or into a pipe."""
    if output is not None:
        return True
    try:
        return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except OSError:  # standard output has no file descriptor, as in tests
        return False


def _opened(args: argparse.Namespace) -> Opened:
    """Opens the model folder, and refuses wrong options before the model is loaded."""
    opened = open_translator(args, required=bool(args.glossary or args.require_by_line or args.inline_terms))
    if args.confidence:
        from transduce.translation.pipeline.calibration import load_calibration

        if load_calibration(opened.bundle) is None:
            say(
                "note: this model is not calibrated: the confidence is the geometric mean of the tokens' "
                "probabilities. 'transduce calibrate' makes it that of a good translation.",
                quiet=args.quiet,
            )
    return opened


def _layout(args: argparse.Namespace) -> "Layout":
    from transduce.translation.streams.layouts import Columns, JsonLines, PlainLines

    many, scores, confidence = args.n_best > 1, args.scores, args.confidence
    if args.field is not None and args.column is not None:
        raise ConfigError("--field is for JSON lines, --column for tab-separated ones: give one of them.")
    if args.into is not None and args.field is None:
        raise ConfigError("--into names a field of JSON objects: give --field NAME, the field to translate, as well.")
    if args.replace and args.column is None:
        raise ConfigError("--replace puts the translation into a column: give --column N as well.")
    if args.field is not None:
        return JsonLines(args.field, args.into or "translation", many, scores, confidence, args.alignment)
    if args.alignment:
        raise ConfigError(
            "--alignment: word alignments are fields of JSON lines: give --field NAME. For plain lines, 'transduce "
            "inspect --pharaoh FILE' writes them in Pharaoh format."
        )
    if args.column is None:
        return PlainLines(many, scores, confidence)
    if many:
        raise ConfigError("--n-best: a row of columns holds one translation only. Use JSON lines (--field).")
    return Columns(args.column, args.replace, scores, confidence)
