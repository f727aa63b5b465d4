"""Chooses the engine that runs a model, and loads it; see docs/guides/engines.md."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast

from transduce import files
from transduce.bundle import Bundle
from transduce.config import ModelConfig
from transduce.engines import model_source
from transduce.engines.automatic import AutomaticEngine
from transduce.engines.capabilities import ENGINE_NAMES, ENGINES, ENSEMBLES, FAST, QUANTIZATIONS, REFERENCE, Lack
from transduce.engines.interface import SHORTLIST_CHOICES, Engine, require_known
from transduce.engines.shortlist import FILE as SHORTLIST
from transduce.engines.shortlist import has_shortlist
from transduce.errors import BundleError, ConfigError, MissingDependencyError, install_command

if TYPE_CHECKING:
    from transduce.config.choices import Precision
    from transduce.engines.torch import TorchEngine

DEFAULT_QUANTIZATION = "float32"
DRAFT_WAYS: Final = ("self", "blockwise")  # what proposes tokens besides a smaller model
_NO_CTRANSLATE2 = "The ctranslate2 engine needs CTranslate2, which is not installed here: pip install ctranslate2"
_LACK_OF_CHANGED = Lack(FAST.name, "conversion of a changed model", "source", model_source.CHANGED)


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """Which engine runs a model, and why."""

    name: str
    reason: str = ""  # none where the engine was named
    fallback: str = ""  # the engine that is loaded as well, by the first call that the chosen one does not support


def require_engine(name: str, quantization: str | None) -> None:
    """Raises ConfigError where there is no such engine, or it does not have the quantization."""
    require_known("engine", name, ENGINE_NAMES)
    if quantization is not None:
        require_known("quantization", quantization, QUANTIZATIONS)
    if name in ENGINES and not _has(name, quantization):
        known = ", ".join(ENGINES[name].quantizations)
        other = next(each for each in ENGINES if _has(each, quantization))
        raise ConfigError(f"quantization '{quantization}': the {name} engine has {known}. Use the {other} engine.")


def choose_engine(
    name: str = "auto",
    quantization: str | None = None,
    *,
    device: str = "auto",
    model: ModelConfig | None = None,
    num_models: int = 1,
    shortlist: str = "off",
    draft: str | Path = "",
    lack: Lack | None = None,
) -> EngineChoice:
    """Returns the engine that is named, or for "auto" the one that the rule below gives.

    "auto" is ctranslate2 on a CPU where it can do what is needed, the faster one there, and torch for the rest and on
    a GPU. Where PyTorch is not installed it is ctranslate2. The rule depends on what is needed and what is installed,
    not on the processor or the input.

    Args:
        name: "auto" or an engine.
        quantization: the numbers to compute with; None is float32.
        device: "auto", "cpu", "cuda", …
        model: the shape of the model; None: one that both engines can run.
        num_models: more than one are an ensemble.
        shortlist: "on" is torch's for "auto": its shortlists are those of single lines.
        draft: what proposes tokens, which only torch verifies.
        lack: what every call will need that the engine (for "auto" the fast one) does not have, where that is known.

    Raises:
        ConfigError: there is no such engine, it has no such quantization, or it lacks what is needed.
        MissingDependencyError: "auto" would be torch, which is not installed, and ctranslate2 cannot do it.
    """
    require_engine(name, quantization)
    if draft and (lack is None or lack.optional):
        lack = Lack(FAST.name, "drafts", "draft", f"--draft {draft}")
    if name != "auto":
        return _named(name, num_models, lack)
    lack = _lack_of_fast(model, num_models) or lack
    if lack is not None and (chosen := _without_fast(lack, quantization)) is not None:
        return chosen
    return _either(quantization, device, shortlist)


def _named(name: str, num_models: int, lack: Lack | None) -> EngineChoice:
    if name == FAST.name and not model_source.is_known():
        lack = _LACK_OF_CHANGED
    if lack is not None and lack.engine == name and not lack.optional:
        raise ConfigError(lack.refusal)
    if num_models > 1 and not ENGINES[name].has(ENSEMBLES):
        raise ConfigError(f"--ensemble: the {name} engine runs one model at a time. Use --engine {REFERENCE.name}.")
    return EngineChoice(name)


def _lack_of_fast(model: ModelConfig | None, num_models: int) -> Lack | None:
    """Returns what the models need that the fast engine does not have."""
    if model is not None and model.attention_window and not FAST.attention_windows:
        shown = f"model.attention_window = {model.attention_window}"
        return Lack(FAST.name, "restricted self-attention", "attention_window", shown)
    if model is not None and model.attention_score not in FAST.attention_scores:
        shown = f"model.attention_score = {model.attention_score!r}"
        return Lack(FAST.name, "such attention", "attention_score", shown)
    if not model_source.is_known():
        return _LACK_OF_CHANGED
    if num_models > 1 and not FAST.has(ENSEMBLES):
        return Lack(FAST.name, "ensembles", "ensemble", f"{num_models} models")
    return None


def _without_fast(lack: Lack, quantization: str | None) -> EngineChoice | None:
    """Returns the reference engine; None where it cannot be had, and the fast one can do without what it lacks."""
    is_installed, has_numbers = _is_installed(REFERENCE.name), _has(REFERENCE.name, quantization)
    if is_installed and has_numbers:
        return EngineChoice(REFERENCE.name, lack.reason)
    if lack.optional:
        return None
    if not is_installed:
        raise _needs_torch(lack)
    numbers = ", ".join(REFERENCE.quantizations)
    raise ConfigError(f"quantization '{quantization}': {lack.reason}, and {REFERENCE.name} has {numbers} only.")


def _either(quantization: str | None, device: str, shortlist: str) -> EngineChoice:
    """Returns the faster engine of those that are installed, where each can do what is needed."""
    fast, reference = FAST.name, REFERENCE.name
    if not _has(reference, quantization):
        return EngineChoice(fast, f"{reference} has no {quantization}")
    if not _is_installed(reference):
        return EngineChoice(fast, "PyTorch is not installed")
    if not _is_installed(fast):
        return EngineChoice(reference, "CTranslate2 is not installed")
    if quantization == "bfloat16":
        return EngineChoice(reference, "ctranslate2 does not compute in bfloat16 on every processor")
    if shortlist == "on" and not FAST.shortlist_per_line:
        return EngineChoice(reference, "its shortlists are those of single lines")
    if not _is_cpu(device):
        return EngineChoice(reference, "this is not a CPU")
    return EngineChoice(fast, "the faster one on a CPU", fallback=reference)


def _has(engine: str, quantization: str | None) -> bool:
    return quantization is None or quantization in ENGINES[engine].quantizations


def _is_installed(engine: str) -> bool:
    return find_spec(engine) is not None  # engines have the names of their packages


def _no_torch() -> str:
    return f"this needs PyTorch, which is not installed here: {install_command('train')}"


def _needs_torch(lack: Lack) -> MissingDependencyError:
    return MissingDependencyError(f"{lack.shown}: the {lack.engine} engine has no {lack.what}, and {_no_torch()}")


def _is_cpu(device: str) -> bool:
    if device != "auto":
        return device == "cpu"
    import ctranslate2  # which sees the GPUs without importing PyTorch

    return bool(ctranslate2.get_cuda_device_count() == 0)


def uses_shortlist(bundle: Bundle, engine: str, wish: str) -> bool:
    """Returns whether the model folder's shortlist is to be used.

    "on" is with it, "off" without, and "auto" with it where there is one and the engine searches each line in a
    shortlist of its own.

    Raises:
        ConfigError: `wish` is none of these.
    """
    if wish not in SHORTLIST_CHOICES:
        raise ConfigError(f"shortlist = '{wish}': use one of {', '.join(SHORTLIST_CHOICES)}.")
    return wish == "on" or (wish == "auto" and ENGINES[engine].shortlist_per_line and has_shortlist(bundle))


def reads_shortlist(bundle: Bundle, choice: EngineChoice, wish: str) -> bool:
    """Returns whether the engine that was chosen uses the shortlist, or the one that it falls back on does."""
    return any(uses_shortlist(bundle, name, wish) for name in (choice.name, choice.fallback) if name)


def checksums_of(bundle: Bundle, others: Sequence[Bundle] = (), *, with_shortlist: bool = False) -> dict[str, str]:
    """Returns the SHA-256 of each file that translations depend on, by readable names."""
    found = {f"the model's {name}": digest for name, digest in bundle.checksums.items()}
    for number, other in enumerate(others, start=2):
        found |= {f"the {name} of model {number}": digest for name, digest in other.checksums.items()}
    if with_shortlist:
        found["the model's shortlist"] = files.sha256(bundle.path / SHORTLIST)
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
    draft: str | Path = "",
) -> Engine:
    """Loads the model of `bundle` into the engine that was chosen; for the arguments see `Translator.load`.

    Raises:
        ConfigError: there is no such device or quantization here, or the engine cannot run this model.
        BundleError: the model folder has no shortlist where one must be, or a damaged one.
        MissingDependencyError: the engine is not installed.
    """
    device = "cpu" if choice.fallback else device
    numbers = quantization or DEFAULT_QUANTIZATION

    def load_torch() -> "TorchEngine":
        _require("torch", f"The ctranslate2 engine does without PyTorch; for the torch engine, {_no_torch()}")
        from transduce.engines.shortlist.table import load_shortlist
        from transduce.engines.torch import TorchEngine

        precision = cast("Precision", numbers)  # one of its quantizations
        found = load_shortlist(bundle) if uses_shortlist(bundle, REFERENCE.name, shortlist) else None
        return TorchEngine.load(bundle, device, threads, precision, others, found, _draft_of(bundle, draft))

    def load_ctranslate2() -> Engine:
        _require("ctranslate2", _NO_CTRANSLATE2)
        from transduce.engines.ctranslate2 import CTranslate2Engine

        shortlisted = uses_shortlist(bundle, FAST.name, shortlist)
        return CTranslate2Engine.load(bundle, device, threads, numbers, shortlisted=shortlisted)

    loaders: dict[str, Callable[[], Engine]] = {"torch": load_torch, "ctranslate2": load_ctranslate2}
    engine = loaders[choice.name]()
    return AutomaticEngine(engine, load_torch, bundle.config.model) if choice.fallback else engine


def _draft_of(bundle: Bundle, draft: str | Path) -> Bundle | Literal["self", "blockwise"] | None:
    """Returns what proposes tokens: a folder that is not named like one of the other ways is that of a smaller model.

    Raises:
        BundleError: its folder is incomplete or damaged, or it has another vocabulary.
    """
    if not draft:
        return None
    for way in DRAFT_WAYS:
        if draft == way:
            return way
    smaller = Bundle.load(Path(draft))
    if smaller.tokenizer.fingerprint != bundle.tokenizer.fingerprint:
        raise BundleError(
            f"{draft}: its tokenizer is not that of {bundle.path}. A model that drafts for another shares its "
            "vocabulary: 'transduce student' trains one."
        )
    return smaller


def _require(engine: str, message: str) -> None:
    """Raises MissingDependencyError with this message where an engine is not installed."""
    if not _is_installed(engine):
        raise MissingDependencyError(message)
