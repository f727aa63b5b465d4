"""Which engine a model is run with, and its loading; see docs/guides/engines.md."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

from transduce import files
from transduce.bundle import Bundle
from transduce.engines.interface import ENGINES, QUANTIZATIONS, SHORTLIST_CHOICES, TORCH_QUANTIZATIONS, Engine
from transduce.errors import ConfigError, MissingDependencyError, suggestion
from transduce.shortlist import FILE as SHORTLIST
from transduce.shortlist import has_shortlist

if TYPE_CHECKING:
    from transduce.model.prepacked import Precision
    from transduce.shortlist.table import Shortlist

DEFAULT_QUANTIZATION = "float32"
NAME_OF_SHORTLIST = "the model's shortlist"  # in checksums


def choose_engine(name: str = "auto", quantization: str | None = None) -> str:
    """Returns "torch" or "ctranslate2".

    "auto" is torch where PyTorch is installed, and has the quantization that is asked for: the reference, which can do
    everything. Elsewhere it is ctranslate2. Nothing else plays a part: neither the model, the device nor the input.

    Raises:
        ConfigError: there is no such engine, or it has no such quantization.
    """
    if name not in ENGINES:
        raise ConfigError(f"There is no engine '{name}'.{suggestion(name, ENGINES)} Use one of: {', '.join(ENGINES)}.")
    if quantization is not None and quantization not in QUANTIZATIONS:
        known = ", ".join(QUANTIZATIONS)
        near = suggestion(quantization, QUANTIZATIONS)
        raise ConfigError(f"There is no quantization '{quantization}'.{near} Use one of: {known}.")
    torch_can = quantization is None or quantization in TORCH_QUANTIZATIONS
    if name == "torch" and not torch_can:
        known = ", ".join(TORCH_QUANTIZATIONS)
        raise ConfigError(f"quantization '{quantization}': the torch engine has {known}. Use the ctranslate2 engine.")
    if name != "auto":
        return name
    return "torch" if torch_can and find_spec("torch") is not None else "ctranslate2"


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
    from transduce.shortlist.table import load_shortlist  # here, with its NumPy, which a small model starts without

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
    name: str = "auto",
    *,
    device: str = "auto",
    threads: int | None = None,
    quantization: str | None = None,
    others: Sequence[Bundle] = (),
    shortlist: str = "off",
) -> Engine:
    """Loads the model of `bundle` into an engine; for the arguments see `Translator.load`.

    Raises:
        ConfigError: there is no such engine, device or quantization here, or the engine cannot run this model.
        BundleError: the model folder has no shortlist where one must be, or a damaged one.
        MissingDependencyError: the engine is not installed.
    """
    chosen = choose_engine(name, quantization)
    candidates = choose_shortlist(bundle, chosen, shortlist)
    if chosen == "torch":
        try:
            from transduce.engines.torch import TorchEngine
        except ModuleNotFoundError as error:
            _require_own(error, "torch")
            raise MissingDependencyError(
                "The torch engine needs PyTorch, which is not installed here: pip install 'transduce[train]'. "
                "The ctranslate2 engine does without."
            ) from None
        precision = cast("Precision", quantization or DEFAULT_QUANTIZATION)  # one of TORCH_QUANTIZATIONS
        return TorchEngine.load(
            bundle, device=device, threads=threads, precision=precision, others=others, shortlist=candidates
        )
    if others:
        raise ConfigError("The ctranslate2 engine runs one model at a time: an ensemble needs the torch engine.")
    try:
        from transduce.engines.ctranslate2 import CTranslate2Engine
    except ModuleNotFoundError as error:
        _require_own(error, "ctranslate2")
        raise MissingDependencyError(
            "The ctranslate2 engine needs CTranslate2, which is not installed here: pip install ctranslate2"
        ) from None
    return CTranslate2Engine.load(
        bundle,
        device=device,
        threads=threads,
        quantization=quantization or DEFAULT_QUANTIZATION,
        shortlist=candidates,
    )


def _require_own(error: ModuleNotFoundError, package: str) -> None:
    """Raises `error` again where it is not `package` that is missing."""
    if error.name is None or error.name.partition(".")[0] != package:
        raise error
