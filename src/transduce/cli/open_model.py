"""Opens a model folder for a command, and chooses the engine that runs it."""

import argparse
import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.cli.arguments import decode_changes
from transduce.cli.options import option_name
from transduce.cli.output import say, warn
from transduce.config import DecodeConfig
from transduce.data.tmx import is_tmx
from transduce.engines.interface import Engine
from transduce.errors import ConfigError

if TYPE_CHECKING:
    from transduce.bundle import Bundle
    from transduce.engines.loading import EngineChoice
    from transduce.translation.streams.cluster import RayWorkers
    from transduce.translation.translator import Translator


@dataclasses.dataclass(frozen=True)
class Opened:
    """A model folder, its decoding options and the engine chosen for it; no weights are loaded yet."""

    bundle: "Bundle"
    options: DecodeConfig
    choice: "EngineChoice"


def open_model(
    args: argparse.Namespace, *, search: bool = True, required: bool = False, well_formed: bool = False
) -> Opened:
    """Opens the model folder, and refuses what the engine cannot do before anything is loaded.

    Args:
        args: the command's arguments.
        search: whether the command searches; False: it only scores.
        required: whether translations must contain terms.
        well_formed: whether outputs are trees, and the engine that writes trees only is the better one.

    Raises:
        BundleError: the folder is incomplete or damaged.
        ConfigError: an option is out of range, or --engine names an engine without it.
        MissingDependencyError: an option needs PyTorch, which is not installed.
    """
    from transduce.bundle import Bundle
    from transduce.config.loading import with_decode_options
    from transduce.engines.capabilities import require_plain_beam, tried_first
    from transduce.engines.loading import choose_engine, require_engine

    require_engine(args.engine, args.quantization)
    bundle = Bundle.load(args.model)
    options = with_decode_options(bundle.config.decode, decode_changes(args))
    if required:
        require_plain_beam(options)
    engine = tried_first(args.engine)
    lack = engine.lack(options, (), bundle.config.model) if search else None
    if lack is not None and (given := getattr(args, lack.option, None)) is not None:
        lack = dataclasses.replace(lack, shown=f"{option_name(lack.option)} {given}")
    if well_formed and lack is None:
        from transduce.parser import lack_of_trees

        lack = lack_of_trees(bundle)
    draft = getattr(args, "draft", "")
    choice = choose_engine(
        args.engine,
        args.quantization,
        device=args.device,
        model=bundle.config.model,
        num_models=1 + len(getattr(args, "ensemble", ())),
        shortlist=getattr(args, "shortlist", "off"),
        draft=draft,
        lack=lack,
    )
    if draft and (options.beam_size > 1 or options.temperature):
        raise ConfigError("--draft: drafts make greedy search faster. Add --beam-size 1, or leave --draft out.")
    return Opened(bundle, options, choice)


def open_translator(args: argparse.Namespace, *, required: bool = False, directed: bool = True) -> Opened:
    """Opens the model folder of a translator, and says where its direction is zero-shot, or not that of --source.

    For arguments and errors see `open_model`. `directed`: whether the arguments name the direction, if any do.
    """
    from transduce.translation.directions import Directions

    opened = open_model(args, required=required)
    if opened.bundle.config.data.format == "trees":
        path = opened.bundle.path
        raise ConfigError(f"{path}: this model is a parser. 'transduce parse run {path}' makes trees of sentences.")
    if getattr(args, "diversity_penalty", None) is not None and opened.options.diversity_groups == 1:
        raise ConfigError("--diversity-penalty acts between groups of beams: add --diversity-groups 2, or more.")
    if not directed:
        return opened
    source, target, domain = (getattr(args, name, "") for name in ("source_language", "target", "domain"))
    direction = Directions.of(opened.bundle.tokenizer, opened.bundle).choose(source, target, domain)
    if direction.notice:
        say(f"note: {direction.notice}", quiet=args.quiet)
    if wrong := direction.wrong_source(Path(getattr(args, "source", ""))):
        warn(wrong)
    return opened


def require_named_target(bundle: "Bundle", named: str, reference: Path, option: str = "--target") -> None:
    """Refuses a reference that is, by its name, in another target language than the model would write.

    Args:
        bundle: the model.
        named: the language that the user named, which is never refused; "" for none.
        reference: a file, such as test.fr.
        option: that names a language.

    Raises:
        ConfigError: no language was named, and the model writes that of the reference only where it is named.
    """
    from transduce.text.languages import language_of
    from transduce.translation.directions import Directions

    directions = Directions.of(bundle.tokenizer, bundle)
    language, written = language_of(reference), directions.example().target
    if not named and directions.pairs[0][1] and language != written and language in directions.targets:
        raise ConfigError(
            f"{reference}: is '{language}' by its name, and the model writes '{written}' where no language is named: "
            f"add {option} {language}, or {option} {written} if that is meant."
        )


def languages_of_memory(model: Path | None, source: str = "", target: str = "") -> tuple[str, str]:
    """Returns which languages of a translation memory to read: those given, or else the model's; "" if unknown."""
    if model is None or (source and target):
        return source, target
    from transduce.bundle import Bundle

    known = Bundle.load(model).config.data.held_out_languages
    return source or known[0], target or known[1]


def read_sides(source: Path, target: Path, model: Path, target_language: str) -> Iterator[tuple[str, str]]:
    """Yields the pairs of two aligned files, or of one translation memory that is named for both.

    Raises:
        DataError: a file is missing, or what `read_pairs` raises.
    """
    from transduce.data.readers import read_pairs

    if source == target and is_tmx(source):
        return read_pairs([source], languages=languages_of_memory(model, target=target_language))
    return read_pairs([source, target])


def loading_arguments(args: argparse.Namespace, choice: "EngineChoice") -> dict[str, Any]:
    """Returns the options of loading that the command declares, as keywords of `Translator.load`."""
    names = ("device", "threads", "quantization", "ensemble", "shortlist", "draft")
    engine = args.engine if choice.fallback else choice.name
    return {"engine": engine, **{name: getattr(args, name) for name in names if hasattr(args, name)}}


def load_translator(args: argparse.Namespace, opened: Opened) -> "Translator":
    """Loads the model into the engine that was chosen, and says which."""
    from transduce.translation.translator import Translator

    translator = Translator.load(args.model, **loading_arguments(args, opened.choice))
    say_engine(args, opened, translator.engine)
    return translator


@contextlib.contextmanager
def loaded_workers(args: argparse.Namespace, opened: Opened) -> "Iterator[Translator | RayWorkers]":
    """Yields the model, or workers in a cluster that have it (`arguments.add_cluster`)."""
    if args.ray is None:
        yield load_translator(args, opened)
        return
    from transduce.translation.streams.cluster import ray_workers

    loading = loading_arguments(args, opened.choice)
    with ray_workers(args.model, address=args.ray, num_workers=args.workers, **loading) as workers:
        say(f"workers: {workers.num_workers}", quiet=args.quiet)
        yield workers


def say_engine(args: argparse.Namespace, opened: Opened, engine: Engine) -> None:
    """Prints on standard error which engine was chosen and why, unless --engine named it."""
    if args.engine == "auto":
        say(f"engine: {engine.name} ({opened.choice.reason})", quiet=args.quiet)
