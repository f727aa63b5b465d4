"""Arguments that several commands have: files, options of decoding, engine and device."""

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from transduce.cli.options import (
    THREADS,
    add_choice,
    add_number,
    add_path,
    add_switch,
    add_text,
    add_toggle,
    option_name,
    setting,
    whole,
)
from transduce.config import DecodeConfig
from transduce.config.ranges import flags_of
from transduce.engines.capabilities import ENGINE_NAMES, QUANTIZATIONS
from transduce.engines.interface import SHORTLIST_CHOICES
from transduce.errors import ConfigError
from transduce.files import require_free


def add_files(parser: argparse.ArgumentParser, what: str) -> None:
    """Declares the model folder, the input file and the output file."""
    add_path(parser, "model", "MODEL", "model folder")
    add_path(parser, "--source", "FILE", f"{what}, .gz or .zst; default: stdin", default=Path("-"))
    add_output(parser)


def add_output(parser: argparse.ArgumentParser) -> None:
    """Declares the output file of a command that else writes to standard output."""
    add_path(parser, "--output", "FILE", "written whole or not at all; default: stdout")
    add_overwrite(parser)


def require_output(args: argparse.Namespace) -> None:
    """Raises an error where the file of `add_output` exists, unless --overwrite is given."""
    if args.output not in (None, Path("-")):
        require_free(args.output, overwrite=args.overwrite)


def add_corpora(group: Any) -> None:
    """Declares the files of a training corpus, instead of a recipe's."""
    about = "two aligned files, or one TSV or TMX file; may be repeated"
    add_text(group, "--train", "FILE", about, nargs="+", action="append")


def add_document(parser: argparse.ArgumentParser) -> None:
    """Declares a document to translate instead of lines."""
    add_path(parser, "document", "DOCUMENT", "a document to translate, instead of lines", nargs="?")
    group = parser.add_argument_group("documents")
    add_text(group, "--format", "NAME", "docx, html, …; default: by the file's extension", default="")
    add_text(
        group, "--columns", "NAME,…", "of a CSV file: columns to translate, by name or number; '*': first line too"
    )
    add_text(group, "--target-language", "CODE", "written where a format names it; default: the model's", default="")


def add_direction(parser: argparse.ArgumentParser, *, target: str = "--target", source: bool = True) -> None:
    """Declares which translation is meant, of a model of several target languages or domains.

    Args:
        parser: of the command.
        target: the option for the target language: another one where --target names a file.
        source: whether to declare the source language too.
    """
    group = parser.add_argument_group("direction (for a model of several languages or domains)")
    add_text(group, target, "CODE", "target language; default: that of the recipe, if it has one", default="")
    add_text(group, "--domain", "NAME", "domain; default: none", default="")
    if source:
        add_text(group, "--source-language", "CODE", "source language; default: the model's, if it has one", default="")


def add_overwrite(parser: Any, what: str = "an existing output") -> None:
    """Declares --overwrite; see `files.require_free`."""
    add_switch(parser, "--overwrite", f"replace {what}")


def add_option(group: Any, key: str, note: str = "") -> None:
    """Declares the option that sets a key of `DecodeConfig`, as the schema describes it."""
    flag = flags_of(DecodeConfig)[key]
    add_number(group, option_name(key), setting(key), flag.metavar, flag.help + note)


def add_options(parser: argparse.ArgumentParser, name: str, paper: DecodeConfig | None = None) -> Any:
    """Declares the options of `DecodeConfig` that are in the group `name`, and returns the group.

    With `paper`, the help says which values the paper uses.
    """
    group = parser.add_argument_group(f"{name} (defaults come from the model folder)")
    for key, flag in flags_of(DecodeConfig).items():
        if flag.group == name:
            value = getattr(paper, key, 0)
            add_option(group, key, f"; the paper uses {value}" if value else "")
    return group


def add_constraints(parser: argparse.ArgumentParser) -> None:
    """Declares what must or must not appear in translations."""
    group = parser.add_argument_group("constraints")
    add_path(group, "--prefix", "FILE", "how the translation of each line begins; empty: anything")
    add_path(group, "--forbid", "FILE", "phrases that no translation may contain, one a line")
    add_path(group, "--forbid-by-line", "FILE", "phrases for each line, tab-separated")
    add_path(group, "--glossary", "TSV", "source term, tab, required translation")
    add_path(group, "--require-by-line", "FILE", "required terms for each line, tab-separated")
    add_switch(group, "--inline-terms", 'input lines mark required terms: <term to="Hund">dog</term>')


def add_split(group: Any) -> None:
    """Declares which lines are split into sentences."""
    about = "split into sentences: lines longer than the model reads (auto, the default), all lines, or none"
    add_choice(group, "--split-sentences", ("auto", "always", "never"), about, default="auto")


def add_repairs(group: Any) -> None:
    """Declares what makes unusual text ordinary before it is translated."""
    add_toggle(group, "--capitals", "translate text in capitals as ordinary text, and put its translation in capitals")
    about = "write signs that the model does not know, such as curly quotes and soft hyphens, as it knows them"
    add_toggle(group, "--signs", about)


def add_text_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `TextOptions`."""
    lines = parser.add_argument_group(
        "lines", "--guard, --capitals and --signs are on for a document, unless --no-… turns one off."
    )
    add_split(lines)
    markup = (
        "what is kept as it is: URLs, addresses, placeholders, emoji, code and tags of plain text (placeholders, the "
        "default), the same and the notation of HTML (html), or nothing"
    )
    add_choice(lines, "--markup", ("none", "html", "placeholders"), markup, default="placeholders")
    add_toggle(lines, "--guard", "search again if an output loops or copies the source")
    add_repairs(lines)
    add_switch(lines, "--confidence", "add a column with how sure the model is, 0 to 1")
    add_switch(lines, "--alignment", "add what each word was translated from; needs JSON lines (--field)")
    add_text(lines, "--source-language", "CODE", "for that; default: the model's", default="")


def add_ensemble(parser: argparse.ArgumentParser) -> None:
    """Declares the other models of an ensemble."""
    add_path(parser, "--ensemble", "MODEL", "more models: the mean of all predictions is used", nargs="+", default=[])


def add_shortlist(parser: argparse.ArgumentParser) -> None:
    """Declares whether to use the model's shortlist."""
    about = (
        "use only output pieces that can translate the source, as 'transduce shortlist' has learned; auto: if the "
        "model has a shortlist and the engine is torch; default: %(default)s"
    )
    add_choice(parser, "--shortlist", SHORTLIST_CHOICES, about, default="off")


def add_draft(parser: argparse.ArgumentParser) -> None:
    """Declares what proposes tokens to greedy search."""
    about = (
        "greedy search (--beam-size 1) that verifies several tokens at once, with the same output, where that is "
        "faster: they come from earlier outputs and the source (self), from the model's heads for later tokens "
        "(blockwise), or from a smaller MODEL"
    )
    add_text(parser, "--draft", "self|blockwise|MODEL", about, default="")


def add_window(group: Any) -> None:
    """Declares how many lines are translated together."""
    about = (
        "lines read, sorted by length and written together: fewer for slow input (1: each line is answered at once), "
        "more for speed; default: 32 batches"
    )
    add_number(group, "--window", whole(1, 10_000_000), "LINES", about)


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Declares workers on many machines."""
    cluster = parser.add_argument_group("many machines (needs the extra 'ray')")
    add_text(cluster, "--ray", "ADDRESS", "local, auto, HOST:6379 or ray://HOST:10001")
    add_number(cluster, "--workers", whole(1, 100_000), "N", "default: one a GPU, else one a processor or --threads")


def require_cluster(args: argparse.Namespace) -> None:
    """Raises an error where the arguments of `add_cluster` need something that is missing."""
    if args.workers is not None and args.ray is None:
        raise ConfigError("--workers is for many workers in a Ray cluster: give --ray ADDRESS as well, such as local.")
    if args.ray is not None:
        from transduce.translation.streams.cluster import imported_ray

        imported_ray()


def require_both(args: argparse.Namespace, first: str, second: str) -> None:
    """Raises ConfigError where only one of two options is given that belong together."""
    if (getattr(args, first) is None) != (getattr(args, second) is None):
        raise ConfigError(f"{option_name(first)} and {option_name(second)} belong together: give both.")


def decode_changes(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the value of each key of `DecodeConfig` in `args`; None where no option was given."""
    return {field.name: getattr(args, field.name, None) for field in dataclasses.fields(DecodeConfig)}


def add_machine(parser: argparse.ArgumentParser, *, batches: bool = True) -> None:
    """Declares engine, device, threads and batch size."""
    machine = parser.add_argument_group("machine")
    if batches:
        add_option(machine, "batch_size")
    engine = "auto: torch on a GPU; on a CPU ctranslate2, or torch where ctranslate2 lacks a feature"
    add_choice(machine, "--engine", ENGINE_NAMES, engine, default="auto")
    quantization = (
        "number type, if the processor supports it: float32 (default), int8, bfloat16; ctranslate2 also float16, "
        "int16, int8_bfloat16, int8_float16"
    )
    add_choice(machine, "--quantization", QUANTIZATIONS, quantization, metavar="TYPE")
    add_device(machine)
    add_switch(parser, "--quiet", "print warnings and errors only")


def add_device(group: Any) -> None:
    """Declares device and threads."""
    group.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1; default: %(default)s")
    add_number(group, "--threads", THREADS, "N", "CPU threads")
