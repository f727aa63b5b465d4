"""Opens a model folder for a command, and chooses the engine that runs it."""

import argparse
import dataclasses
import sys
from typing import TYPE_CHECKING, Any

from transduce.cli.arguments import decode_changes
from transduce.config import DecodeConfig
from transduce.engines.interface import Engine
from transduce.errors import ConfigError

if TYPE_CHECKING:
    from transduce.bundle import Bundle
    from transduce.engines.loading import EngineChoice


@dataclasses.dataclass(frozen=True)
class Opened:
    """A model folder, its decoding options and the engine chosen for it; no weights are loaded yet."""

    bundle: "Bundle"
    options: DecodeConfig
    choice: "EngineChoice"
    helped_for: str = ""  # options for which the torch engine helps the chosen one


def open_model(args: argparse.Namespace, *, search: bool = True, required: str = "", attention: str = "") -> Opened:
    """Opens the model folder, and refuses what the engine cannot do before anything is loaded.

    Args:
        args: the command's arguments.
        search: whether the command searches; False: it only scores.
        required: the option, as the user wrote it, that names required terms.
        attention: the option, as the user wrote it, that uses attention weights if an engine has them.

    Raises:
        BundleError: the folder is incomplete or damaged.
        ConfigError: an option is out of range, or --engine names an engine without it.
        MissingDependencyError: an option needs PyTorch, which is not installed.
    """
    from transduce.bundle import Bundle
    from transduce.config.loading import with_decode_options
    from transduce.engines.capabilities import lack_of_ctranslate2, refusal, require_plain_beam
    from transduce.engines.interface import TokenConstraints
    from transduce.engines.loading import choose_engine, require_engine

    require_engine(args.engine, args.quantization)
    bundle = Bundle.load(args.model)
    options = with_decode_options(bundle.config.decode, decode_changes(args))
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
        choose_engine(lack=terms)  # its error says what to install
        raise ConfigError(refusal(terms))
    return Opened(bundle, options, choice, " and ".join(filter(None, (required, attention))) if choice.helped else "")


def loading_arguments(args: argparse.Namespace, choice: "EngineChoice") -> dict[str, Any]:
    """Returns the options that `add_machine` declares, as keywords of `Translator.load`."""
    engine = choice.name if choice.name == "torch" else args.engine
    return {"engine": engine, **{name: getattr(args, name) for name in ("device", "threads", "quantization")}}


def say_engine(args: argparse.Namespace, opened: Opened, engine: Engine) -> None:
    """Prints on standard error which engine was chosen and why, unless --engine named it."""
    if args.engine == "auto" and not args.quiet:
        helped = f"; torch for {opened.helped_for}, where needed" if opened.helped_for else ""
        print(f"transduce: engine: {engine.name} ({opened.choice.reason}{helped})", file=sys.stderr)
