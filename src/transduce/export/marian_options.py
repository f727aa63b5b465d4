"""The settings of a Marian model: `decoder.yml`, and the options that its npz holds as `special:model.yml`.

The options that CTranslate2's converter accepts are accepted. Any other that changes what a model computes is refused,
all of them in one message. One is refused though CTranslate2 takes it: with trained positions Marian does not scale
embeddings, and CTranslate2's conversion does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml

from transduce.errors import BundleError, ExportError
from transduce.export.checkpoint_files import read_bytes

DECODER = "decoder.yml"
OPTIONS = "special:model.yml"  # an array of the npz: text, and a zero byte
_MOST_BYTES = 64 << 10  # of either
_MOST_BRACKETS = 100  # the reader's time grows with the square of their depth
_SIZES = ("enc-depth", "dec-depth", "transformer-heads", "dim-emb", "transformer-dim-ffn")
_LARGEST_SIZE = 1_000_000
_ACTIVATION, _AUTOREG = "transformer-ffn-activation", "transformer-decoder-autoreg"
_ACTIVATIONS = {"relu": "relu", "swish": "swish", "gelu": "gelu_sigmoid"}  # Marian's gelu is x σ(1.702 x)
# Where the norms are: what comes before and after each sub-layer, and after each stack ("d": dropout, "a": addition).
_NORM_OPTIONS = ("transformer-preprocess", "transformer-postprocess", "transformer-postprocess-top")
_PRE_NORM: dict[tuple[Any, ...], bool] = {("", "dan", ""): False, ("n", "da", "n"): True}
# The values of other options that our model computes. One that is missing has the first: older versions lack some.
_REQUIRED = ("type", _AUTOREG, _ACTIVATION)  # these no version lacks
_VALUES: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    _AUTOREG: ("self-attention",),
    _ACTIVATION: tuple(_ACTIVATIONS),
    "transformer-postprocess-emb": ("d", ""),
    "transformer-no-projection": (False,),
    "transformer-train-position-embeddings": (False,),
    "transformer-tied-layers": ([],),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-pool": (False,),
    "transformer-no-bias": (False,),
    "transformer-no-affine": (False,),
    "input-types": ([], ["sequence"], ["sequence", "sequence"]),
    "right-left": (False,),
    "ulr": (False,),
    "lemma-dim-emb": (0,),
    "lemma-dependency": ("",),
    "factors-dim-emb": (0,),
}
# What does not change a Transformer's outputs, or shows in its weights: prefixes of names.
_UNUSED = (
    "bert-", "dec-cell", "dim-rnn", "dim-vocabs", "enc-cell", "enc-type", "factors-combine", "layer-normalization",
    "original-type", "output-omit-bias", "skip", "special-vocab", "tied-embeddings", "transformer-aan-",
    "transformer-decoder-dim-ffn", "transformer-depth-scaling", "transformer-dim-aan",
    "transformer-guided-alignment-layer", "transformer-rnn-projection", "ulr-", "version",
)  # fmt: skip
_READ = {*_SIZES, *_NORM_OPTIONS, *_VALUES}


@dataclass(frozen=True)
class Decoder:
    """What `decoder.yml` names.

    Attributes:
        model: the npz.
        vocabularies: of source and target; both may be one file.
        beam_size: None where it is not there.
        normalize: scores are divided by the length to this power; None where it is not there.
    """

    model: Path
    vocabularies: tuple[Path, Path]
    beam_size: int | None
    normalize: float | None


@dataclass(frozen=True)
class Shape:
    """What the options say of a model, in our terms."""

    num_encoder_layers: int
    num_decoder_layers: int
    num_heads: int
    d_model: int
    d_ff: int
    activation: Literal["relu", "swish", "gelu_sigmoid"]
    pre_norm: bool


def read_decoder(folder: Path) -> Decoder:
    """Reads the `decoder.yml` of a folder.

    Raises:
        BundleError: it is missing or damaged, or names what is not in the folder.
        ExportError: it names a model in another form, or several models.
    """
    path = folder / DECODER
    values = _mapping(read_bytes(path, _MOST_BYTES), str(path))
    models, vocabularies = _names(values, "models", path), _names(values, "vocabs", path)
    if len(models) > 1:
        raise ExportError(f"{path}: 'models' names {len(models)} models, an ensemble: keep one of them.")
    if not models[0].endswith(".npz"):
        raise ExportError(
            f"{folder / models[0]}: a binary of Marian, which may be quantised: not supported. Get the .npz of this "
            f"model, and name it in {DECODER}."
        )
    if len(vocabularies) > 2:
        raise ExportError(f"{path}: 'vocabs' names {len(vocabularies)} files: a model of several sources.")
    for name in (*models, *vocabularies):
        if not (folder / name).is_file():
            raise BundleError(f"{folder / name}: no such file, and {DECODER} names it. Download the folder again.")
    beam, normalize = values.get("beam-size"), values.get("normalize")
    if beam is not None and not _is_size(beam):
        raise BundleError(f"{path}: beam-size = {_shown(beam)}: must be a whole number, 1 or greater.")
    if normalize is not None and not (isinstance(normalize, int | float) and 0 <= normalize < 100):
        raise BundleError(f"{path}: normalize = {_shown(normalize)}: must be a number, 0 or greater.")
    both = (folder / vocabularies[0], folder / vocabularies[-1])
    return Decoder(folder / models[0], both, beam, None if normalize is None else float(normalize))


def read_shape(path: Path, stored: np.ndarray | None) -> Shape:
    """Returns the shape of a model from the options that its npz holds.

    Raises:
        BundleError: they are missing or damaged.
        ExportError: our model cannot compute what this one does; all reasons are named.
    """
    where = f"{path}: {OPTIONS}"
    if stored is None or stored.itemsize != 1 or stored.ndim != 1 or stored.nbytes > _MOST_BYTES:
        raise BundleError(
            f"{where}: missing or damaged: the file is not a model of Marian, or of a version before 1.0."
        )
    options = _mapping(stored.tobytes().rstrip(b"\0"), where)
    if reasons := _obstacles(options):
        raise ExportError(f"{path}: cannot be imported:\n  " + "\n  ".join(reasons))
    wrong = [f"{name} = {_shown(options.get(name))}" for name in _SIZES if not _is_size(options.get(name))]
    if wrong:
        raise BundleError(f"{where}: {', '.join(wrong)}: must be whole numbers, 1 or greater.")
    layers, of_decoder, heads, d_model, d_ff = (int(options[name]) for name in _SIZES)
    if d_model % heads or d_model % 2:
        raise BundleError(f"{where}: dim-emb = {d_model}: must be even, and a multiple of transformer-heads = {heads}.")
    activation: Any = _ACTIVATIONS[options[_ACTIVATION]]
    return Shape(layers, of_decoder, heads, d_model, d_ff, activation, _PRE_NORM[_norms(options)])


def _obstacles(options: Mapping[str, Any]) -> list[str]:
    """Returns the options that our model does not compute."""
    reasons = []
    for name, accepted in _VALUES.items():
        value = options.get(name, None if name in _REQUIRED else accepted[0])
        if not any(type(value) is type(each) and value == each for each in accepted):
            known = ", ".join(map(_shown, accepted))
            reasons.append(f"{name} = {_shown(value)}: supported is {known}")
    widths = options.get("transformer-decoder-dim-ffn", 0), options.get("transformer-dim-ffn")
    if widths[0] not in (0, widths[1]):
        reasons.append(f"transformer-decoder-dim-ffn = {_shown(widths[0])}: supported is that of the encoder")
    if _norms(options) not in _PRE_NORM:
        found = ", ".join(f"{name} = {_shown(options.get(name, ''))}" for name in _NORM_OPTIONS)
        known = " or ".join(", ".join(map(repr, each)) for each in _PRE_NORM)
        reasons.append(f"{found}: supported are {known}, in this order")
    for name, value in options.items():
        if name not in _READ and not name.startswith(_UNUSED) and value not in (None, False, 0, "", []):
            reasons.append(f"{name[:80]} = {_shown(value)}: not an option that Transduce knows")
    return reasons


def _norms(options: Mapping[str, Any]) -> tuple[Any, ...]:
    found = (options.get(name, "") for name in _NORM_OPTIONS)
    return tuple(value if isinstance(value, str) else None for value in found)


def _mapping(text: bytes, where: str) -> dict[str, Any]:
    """Reads YAML options; anchors are refused, because a few of them can expand to gigabytes."""
    try:
        if b"&" in text or text.count(b"[") + text.count(b"{") > _MOST_BRACKETS:
            raise ValueError("it has an anchor, or is deeply nested")
        values = yaml.safe_load(text.decode())
        if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
            raise ValueError("it is no table of options")
    except (
        yaml.YAMLError,
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        reason = " ".join(str(error).split())[:200]
        raise BundleError(f"{where}: damaged: {reason}. Download it again.") from None
    return values


def _names(values: Mapping[str, Any], key: str, path: Path) -> list[str]:
    """Returns the names of files in a list; what they lay in where the model was trained is left out."""
    found = values.get(key)
    if not isinstance(found, list) or not found or not all(isinstance(name, str) for name in found):
        raise BundleError(f"{path}: '{key}' is no list of files. Download it again.")
    names = [name.replace("\\", "/").rpartition("/")[2] for name in found]
    if any(name in ("", ".", "..") or "\0" in name or len(name) > 255 for name in names):
        raise BundleError(f"{path}: '{key}' names what is no file.")
    return names


def _is_size(value: Any) -> bool:
    return type(value) is int and 1 <= value <= _LARGEST_SIZE


def _shown(value: Any) -> str:
    return repr(value)[:60]
