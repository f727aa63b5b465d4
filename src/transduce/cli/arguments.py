"""Arguments that several commands have: files, options of decoding, engine and device."""

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from transduce.cli.numbers import THREADS, setting, whole
from transduce.config import DecodeConfig
from transduce.config.ranges import flags_of
from transduce.engines.capabilities import ENGINE_NAMES, QUANTIZATIONS
from transduce.engines.interface import SHORTLIST_CHOICES
from transduce.errors import ConfigError

_MARKUP = ("none", "html", "placeholders")
_SPLIT = ("auto", "always", "never")


def add_files(parser: argparse.ArgumentParser, what: str) -> None:
    """Declares the model folder, the input file and the output file."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="model folder")
    parser.add_argument(
        "--source", type=Path, default=Path("-"), metavar="FILE", help=f"{what}, .gz or .zst; default: stdin"
    )
    parser.add_argument(
        "--output", type=Path, default=None, metavar="FILE", help="written whole or not at all; default: stdout"
    )
    add_overwrite(parser)


def add_document(parser: argparse.ArgumentParser) -> None:
    """Declares a document to translate instead of lines."""
    parser.add_argument(
        "document", metavar="DOCUMENT", type=Path, nargs="?", help="a document to translate, instead of lines"
    )
    group = parser.add_argument_group("documents")
    group.add_argument("--format", default="", metavar="NAME", help="docx, html, …; default: by the file's extension")
    group.add_argument(
        "--target-language", default="", metavar="CODE", help="written where a format names it; default: the model's"
    )


def add_direction(parser: argparse.ArgumentParser, *, target: str = "--target", source: bool = False) -> None:
    """Declares which translation is meant, of a model of several target languages or domains.

    Args:
        parser: of the command.
        target: the option for the target language: another one where --target names a file.
        source: whether to declare the source language too.
    """
    group = parser.add_argument_group("direction (for a model of several languages or domains)")
    group.add_argument(target, default="", metavar="CODE", help="target language; default: that of the recipe")
    group.add_argument("--domain", default="", metavar="NAME", help="domain; default: none")
    if source:
        group.add_argument(
            "--source-language", default="", metavar="CODE", help="source language; default: the model's"
        )


def add_overwrite(parser: Any, what: str = "an existing output") -> None:
    """Declares --overwrite; see `files.require_free`."""
    parser.add_argument("--overwrite", action="store_true", help=f"replace {what}")


def add_option(group: Any, key: str, note: str = "") -> None:
    """Declares the option that sets a key of `DecodeConfig`, as the schema describes it."""
    flag = flags_of(DecodeConfig)[key]
    group.add_argument(f"--{key.replace('_', '-')}", type=setting(key), metavar=flag.metavar, help=flag.help + note)


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
    for name, metavar, about in (
        ("--prefix", "FILE", "how the translation of each line begins; empty: anything"),
        ("--forbid", "FILE", "phrases that no translation may contain, one a line"),
        ("--forbid-by-line", "FILE", "phrases for each line, tab-separated"),
        ("--glossary", "TSV", "source term, tab, required translation"),
        ("--require-by-line", "FILE", "required terms for each line, tab-separated"),
    ):
        group.add_argument(name, type=Path, metavar=metavar, help=about)
    group.add_argument(
        "--inline-terms", action="store_true", help='input lines mark required terms: <term to="Hund">dog</term>'
    )


def add_split(group: Any) -> None:
    """Declares which lines are split into sentences."""
    group.add_argument(
        "--split-sentences",
        choices=_SPLIT,
        default="auto",
        help="split into sentences: lines longer than the model reads (auto, the default), all lines, or none",
    )


def add_text_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `TextOptions`."""
    lines = parser.add_argument_group("lines")
    add_split(lines)
    lines.add_argument(
        "--markup",
        choices=_MARKUP,
        default="placeholders",
        help="what is kept as it is: URLs, addresses, placeholders, emoji, code and tags of plain text (placeholders, "
        "the default), the same and the notation of HTML (html), or nothing",
    )
    lines.add_argument("--guard", action="store_true", help="search again if an output loops or copies the source")
    lines.add_argument("--confidence", action="store_true", help="add a column with how sure the model is, 0 to 1")
    lines.add_argument(
        "--alignment", action="store_true", help="add what each word was translated from; needs JSON lines (--field)"
    )
    lines.add_argument("--source-language", default="", metavar="CODE", help="for that; default: the model's")


def add_ensemble(parser: argparse.ArgumentParser) -> None:
    """Declares the other models of an ensemble."""
    parser.add_argument(
        "--ensemble",
        nargs="+",
        type=Path,
        default=[],
        metavar="MODEL",
        help="more models: the mean of all predictions is used",
    )


def add_shortlist(parser: argparse.ArgumentParser) -> None:
    """Declares whether to use the model's shortlist."""
    parser.add_argument(
        "--shortlist",
        choices=SHORTLIST_CHOICES,
        default="off",
        help="use only output pieces that can translate the source, as 'transduce shortlist' has learned; "
        "auto: if the model has a shortlist and the engine is torch; default: %(default)s",
    )


def add_window(group: Any) -> None:
    """Declares how many lines are translated together."""
    group.add_argument(
        "--window",
        type=whole(1, 10_000_000),
        metavar="LINES",
        help="lines read, sorted by length and written together: fewer for slow input (1: each line is "
        "answered at once), more for speed; default: 32 batches",
    )


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Declares workers on many machines."""
    cluster = parser.add_argument_group("many machines (needs the extra 'ray')")
    cluster.add_argument("--ray", metavar="ADDRESS", help="local, auto, HOST:6379 or ray://HOST:10001")
    cluster.add_argument(
        "--workers", type=whole(1, 100_000), metavar="N", help="default: one a GPU, else one a processor or --threads"
    )


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
        names = " and ".join(f"--{name.replace('_', '-')}" for name in (first, second))
        raise ConfigError(f"{names} belong together: give both.")


def decode_changes(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the value of each key of `DecodeConfig` in `args`; None where no option was given."""
    return {field.name: getattr(args, field.name, None) for field in dataclasses.fields(DecodeConfig)}


def add_machine(parser: argparse.ArgumentParser, *, batches: bool = True) -> None:
    """Declares engine, device, threads and batch size."""
    machine = parser.add_argument_group("machine")
    if batches:
        add_option(machine, "batch_size")
    machine.add_argument(
        "--engine",
        choices=ENGINE_NAMES,
        default="auto",
        help="auto: torch on a GPU; on a CPU ctranslate2, or torch where ctranslate2 lacks a feature",
    )
    machine.add_argument(
        "--quantization",
        choices=QUANTIZATIONS,
        metavar="TYPE",
        help="number type, if the processor supports it: float32 (default), int8, bfloat16; ctranslate2 also "
        "float16, int16, int8_bfloat16, int8_float16",
    )
    add_device(machine)
    parser.add_argument("--quiet", action="store_true", help="print warnings and errors only")


def add_device(group: Any) -> None:
    """Declares device and threads."""
    group.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1; default: %(default)s")
    group.add_argument("--threads", type=THREADS, metavar="N", help="CPU threads")
