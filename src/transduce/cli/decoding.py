"""What the commands that decode share: their arguments, their output, their progress bar."""

import argparse
import contextlib
import dataclasses
import io
import sys
from collections.abc import Iterable, Iterator, Sized
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from transduce.cli.numbers import THREADS, setting
from transduce.config import DecodeConfig
from transduce.config.ranges import flags_of
from transduce.engines.interface import ENGINES, QUANTIZATIONS, SHORTLIST_CHOICES, Engine
from transduce.errors import ConfigError
from transduce.files import atomic_path, is_special

if TYPE_CHECKING:
    from transduce.bundle import Bundle
    from transduce.engines.loading import EngineChoice


def add_files(parser: argparse.ArgumentParser, what: str) -> None:
    """Declares where input comes from and where output goes."""
    parser.add_argument("model", metavar="MODEL", type=Path, help="model folder")
    parser.add_argument(
        "--source", type=Path, default=Path("-"), metavar="FILE", help=f"{what}, .gz or .zst; default: stdin"
    )
    parser.add_argument(
        "--output", type=Path, default=None, metavar="FILE", help="appears when it is whole; default: stdout"
    )
    add_overwrite(parser)


def add_overwrite(parser: Any, what: str = "an output that exists already") -> None:
    """Declares that an output may be replaced; see `files.require_free`."""
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
    group.add_argument("--prefix", type=Path, metavar="FILE", help="how each line's translation begins; empty: free")
    group.add_argument("--forbid", type=Path, metavar="FILE", help="phrases that no translation may hold, one a line")
    group.add_argument(
        "--forbid-by-line", type=Path, metavar="FILE", help="for each line its own phrases, tab-separated"
    )
    group.add_argument("--glossary", type=Path, metavar="TSV", help="source term, tab, term that must appear for it")
    group.add_argument(
        "--require-by-line", type=Path, metavar="FILE", help="for each line terms that must appear, tab-separated"
    )
    group.add_argument(
        "--inline-terms", action="store_true", help='lines mark terms that must appear: <term to="Hund">dog</term>'
    )


def add_ensemble(parser: argparse.ArgumentParser) -> None:
    """Declares further models."""
    parser.add_argument(
        "--ensemble",
        nargs="+",
        type=Path,
        default=[],
        metavar="MODEL",
        help="more models, that work as one with the first",
    )


def add_shortlist(parser: argparse.ArgumentParser) -> None:
    """Declares whether the model's shortlist is used."""
    parser.add_argument(
        "--shortlist",
        choices=SHORTLIST_CHOICES,
        default="off",
        help="search in the pieces that can translate those of the source only ('transduce shortlist' learns which); "
        "auto: where the model has a shortlist and the engine is torch; default: %(default)s",
    )


def decode_changes(args: argparse.Namespace) -> dict[str, Any]:
    """Returns what `args` says of the fields of `DecodeConfig`; None where it says nothing."""
    return {field.name: getattr(args, field.name, None) for field in dataclasses.fields(DecodeConfig)}


def add_machine(parser: argparse.ArgumentParser, *, batches: bool = True) -> None:
    """Declares on what, and how much at a time."""
    machine = parser.add_argument_group("machine")
    if batches:
        add_option(machine, "batch_size")
    machine.add_argument(
        "--engine",
        choices=ENGINES,
        default="auto",
        help="auto is torch on a GPU; on a CPU ctranslate2, and torch for what that cannot do",
    )
    machine.add_argument(
        "--quantization",
        choices=QUANTIZATIONS,
        metavar="TYPE",
        help="numbers to compute with, if the processor can: float32 (default), int8, bfloat16; ctranslate2 also "
        "float16, int16, int8_bfloat16, int8_float16",
    )
    machine.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1; default: %(default)s")
    machine.add_argument("--threads", type=THREADS, metavar="N", help="CPU threads")
    parser.add_argument("--quiet", action="store_true", help="print warnings and errors only")


@dataclasses.dataclass(frozen=True)
class Opened:
    """A model folder that was opened, how it is to be searched and by what; nothing was loaded or converted yet."""

    bundle: "Bundle"
    options: DecodeConfig
    choice: "EngineChoice"
    helped_for: str = ""  # the options that the torch engine does, beside the chosen one


def open_model(args: argparse.Namespace, *, search: bool = True, required: str = "", attention: str = "") -> Opened:
    """Opens the model folder, and refuses what the engine cannot do before it loads anything.

    Args:
        args: the command's arguments.
        search: whether the command searches; False: it only scores.
        required: the option, as the user wrote it, by which terms must appear.
        attention: the option, as the user wrote it, that uses attention weights where an engine tells them.

    Raises:
        BundleError: the folder is incomplete or damaged.
        ConfigError: an option is out of range, or the engine that was named does not have it.
        MissingDependencyError: an option needs PyTorch, which is not installed.
    """
    from transduce.bundle import Bundle
    from transduce.config.decoding import with_changes
    from transduce.engines.capabilities import lack_of_ctranslate2, refusal, require_plain_beam
    from transduce.engines.interface import TokenConstraints
    from transduce.engines.loading import choose_engine, require_engine

    require_engine(args.engine, args.quantization)
    bundle = Bundle.load(args.model)
    options = with_changes(bundle.config.decode, decode_changes(args))
    if required:
        require_plain_beam(options)
    lack = lack_of_ctranslate2(options, (), bundle.config.model) if search else None
    if lack is not None and (given := getattr(args, lack.option, None)) is not None:
        lack = dataclasses.replace(lack, shown=f"--{lack.option.replace('_', '-')} {given}")
    terms = lack_of_ctranslate2(DecodeConfig(), [TokenConstraints(required=(((0,),),))]) if required else None
    if terms is not None:
        terms = dataclasses.replace(terms, shown=required)
    num_models = 1 + len(getattr(args, "ensemble", ()))
    if args.engine == "ctranslate2":
        for each in (lack, terms):
            if each is not None and not each.of_long_lines:
                raise ConfigError(refusal(each))
        if num_models > 1:
            raise ConfigError("--ensemble: the ctranslate2 engine runs one model at a time. Use --engine torch.")
    choice = choose_engine(
        args.engine,
        args.quantization,
        device=args.device,
        model=bundle.config.model,
        num_models=num_models,
        shortlist=getattr(args, "shortlist", "off"),
        lack=lack,
    )
    if terms is not None and choice.name == "ctranslate2" and not choice.helped:
        choose_engine(lack=terms)  # which says what to install
        raise ConfigError(refusal(terms))
    return Opened(bundle, options, choice, " and ".join(filter(None, (required, attention))) if choice.helped else "")


def loading_arguments(args: argparse.Namespace, choice: "EngineChoice") -> dict[str, Any]:
    """Returns what `add_machine` declared, as keywords of `Translator.load`."""
    engine = choice.name if choice.name == "torch" else args.engine
    return {"engine": engine, **{name: getattr(args, name) for name in ("device", "threads", "quantization")}}


def say_engine(args: argparse.Namespace, opened: Opened, engine: Engine) -> None:
    """Says on standard error which engine was chosen and why, where it was not named."""
    if args.engine == "auto" and not args.quiet:
        helped = f"; torch for {opened.helped_for}, where needed" if opened.helped_for else ""
        print(f"transduce: engine: {engine.name} ({opened.choice.reason}{helped})", file=sys.stderr)


@contextlib.contextmanager
def open_output(path: Path | None) -> Iterator[IO[str]]:
    """Opens a file that is written whole or not at all, or standard output, a pipe or a device."""
    if path is None or path == Path("-"):
        # Always UTF-8 and "\n", whatever the locale. Detached at the end, so that standard output stays open.
        output = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="\n")
        try:
            yield output
            output.flush()
        finally:
            output.detach()
        return
    if is_special(path):
        with path.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        yield file


def with_progress(lines: Iterable[str], args: argparse.Namespace, label: str) -> Iterable[str]:
    """Shows a progress bar where someone watches and output goes elsewhere."""
    if args.output is None or not sys.stderr.isatty():
        return lines
    from tqdm import tqdm

    from transduce.data.readers import read_lines

    total: int | None = None
    if isinstance(lines, Sized):
        total = len(lines)
    elif args.source.is_file():
        total = sum(1 for _ in read_lines(args.source))
    bar: Iterable[str] = tqdm(lines, total=total, unit=" lines", desc=label, smoothing=0.1)
    return bar


def warn_truncated(where: str, limit: int, what: str) -> None:
    """Says that a line was longer than the model reads."""
    print(
        f"transduce: warning: {where}: longer than the {limit} tokens that the model reads; "
        f"only its beginning is {what}.",
        file=sys.stderr,
    )
