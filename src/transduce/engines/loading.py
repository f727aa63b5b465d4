"""Which engine a model is run with, and its loading; see docs/guides/engines.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

from transduce import files
from transduce.bundle import Bundle
from transduce.config import ModelConfig
from transduce.engines.automatic import AutomaticEngine
from transduce.engines.capabilities import Lack
from transduce.engines.interface import ENGINES, QUANTIZATIONS, SHORTLIST_CHOICES, TORCH_QUANTIZATIONS, Engine
from transduce.engines.shortlist import FILE as SHORTLIST
from transduce.engines.shortlist import has_shortlist
from transduce.errors import ConfigError, MissingDependencyError, suggestion

if TYPE_CHECKING:
    from transduce.config.choices import Precision
    from transduce.engines.shortlist.table import Shortlist
    from transduce.engines.torch import TorchEngine

DEFAULT_QUANTIZATION = "float32"
NAME_OF_SHORTLIST = "the model's shortlist"  # in checksums
_NO_TORCH = "this needs PyTorch, which is not installed here: pip install 'transduce[train]'."


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """Which engine runs a model, and why."""

    name: str  # "torch" or "ctranslate2"
    reason: str = ""  # none where the engine was named
    helped: bool = False  # whether torch is loaded as well by the first call that ctranslate2 cannot do


def require_engine(name: str = "auto", quantization: str | None = None) -> None:
    """Raises ConfigError where there is no such engine, or it does not have the quantization."""
    if name not in ENGINES:
        raise ConfigError(f"There is no engine '{name}'.{suggestion(name, ENGINES)} Use one of: {', '.join(ENGINES)}.")
    if quantization is not None and quantization not in QUANTIZATIONS:
        known = ", ".join(QUANTIZATIONS)
        near = suggestion(quantization, QUANTIZATIONS)
        raise ConfigError(f"There is no quantization '{quantization}'.{near} Use one of: {known}.")
    if name == "torch" and not _torch_has(quantization):
        known = ", ".join(TORCH_QUANTIZATIONS)
        raise ConfigError(f"quantization '{quantization}': the torch engine has {known}. Use the ctranslate2 engine.")


def choose_engine(
    name: str = "auto",
    quantization: str | None = None,
    *,
    device: str = "auto",
    model: ModelConfig | None = None,
    num_models: int = 1,
    shortlist: str = "off",
    lack: Lack | None = None,
) -> EngineChoice:
    """Returns the engine that is named, or for "auto" the one that the rule below gives.

    "auto" is ctranslate2 on a CPU where it can do what is needed, the faster one there, and torch for the rest and on
    a GPU. Where PyTorch is not installed it is ctranslate2. The rule goes by what is needed and what is installed: the
    processor and the input play no part.

    Args:
        name: "auto" or an engine.
        quantization: the numbers to compute with; None is float32.
        device: "auto", "cpu", "cuda", …
        model: the shape of the model; None: one that both engines can run.
        num_models: more than one are an ensemble.
        shortlist: "on" is torch's for "auto": its shortlists are those of single lines.
        lack: what every call will need that ctranslate2 does not have, where that is known.

    Raises:
        ConfigError: there is no such engine, or it has no such quantization.
        MissingDependencyError: "auto" would be torch, which is not installed, and ctranslate2 cannot do it.
    """
    require_engine(name, quantization)
    if name != "auto":
        return EngineChoice(name)
    has_torch = find_spec("torch") is not None
    if model is not None and model.attention_window:
        shown = f"model.attention_window = {model.attention_window}"
        lack = Lack("restricted self-attention", "attention_window", shown)
    elif num_models > 1:
        lack = Lack("ensembles", "ensemble", f"{num_models} models")
    if lack is not None and (has_torch or not lack.of_long_lines):
        if not has_torch:
            raise MissingDependencyError(f"{lack.shown}: {_NO_TORCH} The ctranslate2 engine has no {lack.what}.")
        return EngineChoice("torch", lack.reason)
    if not _torch_has(quantization):
        return EngineChoice("ctranslate2", f"torch has no {quantization}")
    if not has_torch:
        return EngineChoice("ctranslate2", "PyTorch is not installed")
    if find_spec("ctranslate2") is None:
        return EngineChoice("torch", "CTranslate2 is not installed")
    if quantization == "bfloat16":
        return EngineChoice("torch", "it computes in bfloat16 on every processor")
    if shortlist == "on":
        return EngineChoice("torch", "its shortlists are those of single lines")
    if not _is_cpu(device):
        return EngineChoice("torch", "this is not a CPU")
    return EngineChoice("ctranslate2", "the faster one on a CPU", helped=True)


def _torch_has(quantization: str | None) -> bool:
    return quantization is None or quantization in TORCH_QUANTIZATIONS


def _is_cpu(device: str) -> bool:
    if device != "auto":
        return device == "cpu"
    import ctranslate2  # which sees the GPUs, and PyTorch need not be imported for it

    return bool(ctranslate2.get_cuda_device_count() == 0)


def choose_shortlist(bundle: Bundle, engine: str, wish: str = "off") -> "Shortlist | None":
    """Returns the model folder's shortlist where it is to be used.

    "on" is with it, "off" without, and "auto" with it where there is one and each line's translation remains its own:
    in the torch engine. CTranslate2 searches a whole batch in the union of its lines' shortlists.

    Raises:
        ConfigError: `wish` is none of these.
        BundleError: there is no shortlist though `wish` is "on", or it is damaged or another tokenizer's.
    """
    if wish not in SHORTLIST_CHOICES:
        raise ConfigError(f"shortlist = '{wish}': use one of {', '.join(SHORTLIST_CHOICES)}.")
    if not uses_shortlist(bundle, engine, wish):
        return None
    from transduce.engines.shortlist.table import (
        load_shortlist,  # here, with its NumPy, which a small model starts without
    )

    return load_shortlist(bundle)


def uses_shortlist(bundle: Bundle, engine: str, wish: str) -> bool:
    """Tells whether the model folder's shortlist is to be used; see `choose_shortlist`."""
    return wish == "on" or (wish == "auto" and engine == "torch" and has_shortlist(bundle))


def checksums_of(bundle: Bundle, others: Sequence[Bundle] = (), *, with_shortlist: bool = False) -> dict[str, str]:
    """Returns the SHA-256 of each file that translations depend on, by names for people."""
    found = {f"the model's {name}": digest for name, digest in bundle.checksums.items()}
    for number, other in enumerate(others, start=2):
        found |= {f"the {name} of model {number}": digest for name, digest in other.checksums.items()}
    if with_shortlist:
        found[NAME_OF_SHORTLIST] = files.sha256(bundle.path / SHORTLIST)
    return found


def load_engine(
    bundle: Bundle,
    choice: EngineChoice,
    *,
    device: str = "auto",
    threads: int | None = None,
    quantization: str | None = None,
    others: Sequence[Bundle] = (),
    shortlist: str = "off",
) -> Engine:
    """Loads the model of `bundle` into the engine that was chosen; for the arguments see `Translator.load`.

    Raises:
        ConfigError: there is no such device or quantization here, or the engine cannot run this model.
        BundleError: the model folder has no shortlist where one must be, or a damaged one.
        MissingDependencyError: the engine is not installed.
    """
    candidates = choose_shortlist(bundle, choice.name, shortlist)
    if choice.helped:
        device = "cpu"

    def load_torch() -> "TorchEngine":
        return _load_torch(bundle, device, threads, quantization, others, candidates)

    if choice.name == "torch":
        return load_torch()
    if others:
        raise ConfigError("The ctranslate2 engine runs one model at a time: an ensemble needs the torch engine.")
    try:
        from transduce.engines.ctranslate2 import CTranslate2Engine
    except ModuleNotFoundError as error:
        _require_own(error, "ctranslate2")
        raise MissingDependencyError(
            "The ctranslate2 engine needs CTranslate2, which is not installed here: pip install ctranslate2"
        ) from None
    fast = CTranslate2Engine.load(
        bundle,
        device=device,
        threads=threads,
        quantization=quantization or DEFAULT_QUANTIZATION,
        shortlist=candidates,
    )
    return AutomaticEngine(fast, load_torch, bundle.config.model) if choice.helped else fast


def _load_torch(
    bundle: Bundle,
    device: str,
    threads: int | None,
    quantization: str | None,
    others: Sequence[Bundle],
    shortlist: "Shortlist | None",
) -> "TorchEngine":
    try:
        from transduce.engines.torch import TorchEngine
    except ModuleNotFoundError as error:
        _require_own(error, "torch")
        raise MissingDependencyError(f"The torch engine: {_NO_TORCH} The ctranslate2 engine does without.") from None
    precision = cast("Precision", quantization or DEFAULT_QUANTIZATION)  # one of TORCH_QUANTIZATIONS
    return TorchEngine.load(
        bundle, device=device, threads=threads, precision=precision, others=others, shortlist=shortlist
    )


def _require_own(error: ModuleNotFoundError, package: str) -> None:
    """Raises `error` again where it is not `package` that is missing."""
    if error.name is None or error.name.partition(".")[0] != package:
        raise error
