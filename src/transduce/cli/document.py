"""`transduce translate MODEL DOCUMENT`: a whole document into another of the same format."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.cli.arguments import require_output
from transduce.cli.open_model import Opened, load_translator
from transduce.cli.options import option_name
from transduce.cli.output import say, warn
from transduce.errors import ConfigError
from transduce.reporting.tables import counted

if TYPE_CHECKING:
    from transduce.translation.pipeline import TextOptions

# Options that are for lines, not for documents.
_FOR_LINES = (
    *("source", "resume", "window", "field", "into", "column", "replace", "n_best", "scores", "confidence"),
    *("alignment", "prefix", "forbid", "forbid_by_line", "require_by_line", "inline_terms", "ray", "workers"),
)


def require_document_options(args: argparse.Namespace) -> None:
    """Refuses wrong options, before a model is loaded.

    Raises:
        ConfigError: the output is missing or compressed, the format unknown or not that of the content, or an option
            is for lines or has a wrong value.
        DataError: the document is missing, or there is a file at the output already.
    """
    from transduce.data.readers import require_file
    from transduce.translation.documents import columns_of, require_format
    from transduce.translation.documents.languages import require_code

    for name in _FOR_LINES:
        if getattr(args, name) != args.parser.get_default(name):
            raise ConfigError(f"{option_name(name)} is for lines (--source), not for documents: leave it out.")
    is_there = args.document.is_file()
    require_format(args.format, args.document, args.document if is_there else None)
    if args.output is None or args.output == Path("-"):
        raise ConfigError("A document is written to a file: name it with --output.")
    if args.output.suffix in (".gz", ".zst"):
        raise ConfigError(f"--output {args.output}: a document is not compressed: leave out {args.output.suffix}.")
    if args.columns is not None and not columns_of(args.columns):
        raise ConfigError("--columns names no column: give names or numbers with commas between them, or '*' for all.")
    require_code(args.target_language, "--target-language")
    require_file(args.document)
    require_output(args)


def translate_to_output(args: argparse.Namespace, opened: Opened, text_options: "TextOptions") -> int:
    """Translates the document, and returns the exit code."""
    from transduce.data.progress import progress_bar
    from transduce.translation.constraints.glossary import read_glossary
    from transduce.translation.documents import DocumentJob, Languages, columns_of, translate_document

    glossary = read_glossary(args.glossary) if args.glossary is not None else None
    translator = load_translator(args, opened)
    direction = translator.directions.choose(args.source_language, args.target, args.domain)
    languages = Languages(direction.source, args.target_language or direction.target)
    with progress_bar("translating", None, unit="B", shown=not args.quiet and sys.stderr.isatty()) as bar:

        def on_progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        summary = translate_document(
            translator,
            args.document,
            args.output,
            DocumentJob(
                options=opened.options,
                text_options=text_options,
                glossary=glossary,
                document_format=args.format,
                languages=languages,
                columns=columns_of(args.columns or ""),
                overwrite=args.overwrite,
                on_progress=on_progress,
                warn=warn,
            ),
        )
    say(f"{args.output}: {counted(summary.num_segments, 'text')} translated.", quiet=args.quiet)
    return 0
