"""What `model.bin` and `config.json` of CTranslate2 say about a model; what Transduce does not compute is named."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from transduce.engines.ctranslate2_model import ACTIVATIONS
from transduce.errors import BundleError, ExportError
from transduce.export.ctranslate2_binary import Variables
from transduce.export.foreign_files import ForeignFiles

SETTINGS = "config.json"
STACKS = ("encoder", "decoder")
_HEADS = {"TransformerSpec": 8, "TransformerBase": 8, "TransformerBig": 16}  # of files that do not store their number
_OLDEST_REVISION = 2  # in the first one all names differ
_EPSILON = 1e-5  # of layer norms, where config.json has none
_NAMED_BY_OLD = 6  # versions before this one have their tokens among the variables

_LINEAR = r"(weight|weight_scale|bias)"
_NORM = r"layer_norm/(gamma|beta)"
_KNOWN = re.compile(
    r"(unk_token|bos_token|eos_token|with_source_bos|with_source_eos|with_target_bos|user_decoder_start_tokens)"
    r"|((encoder|decoder)/)?(num_heads|pre_norm|activation|embeddings_merge|alignment_layer|alignment_heads)"
    r"|(encoder|decoder)/(scale_embeddings|multi_query_attention|alibi|alibi_use_positive_positions|scale_alibi"
    r"|start_from_zero_embedding|embeddings(_0)?/(weight|weight_scale|multiply_by_sqrt_depth)"
    rf"|position_encodings/encodings|{_NORM}|projection/{_LINEAR}"
    rf"|layer_\d+/((self_)?attention/(linear_[012]/{_LINEAR}|{_NORM}|queries_scale|head_dim)"
    rf"|ffn/(linear_[01]/{_LINEAR}|{_NORM})))"
)
# What the parts of other names mean.
_MEANINGS = {
    "layernorm_embedding": "a norm of the embeddings",
    "linear_0_noact": "gated feed-forward networks",
    "relative_": "relative positions",
    "rotary_": "rotary positions",
    "num_heads_kv": "heads that share keys and values",
    "sliding_window": "a window of attention",
    "q_norm": "norms of queries and keys",
    "k_norm": "norms of queries and keys",
    "v_norm": "norms of values",
    "_layer_norm": "other norms in its layers",
    "layer_scalar": "scaled layers",
    "embeddings_1": "several features a token",
    "project_in": "embeddings of another width",
    "project_out": "embeddings of another width",
    "scale_outputs": "scaled outputs",
    "final_logit_softcapping": "bounded logits",
    "memory_kv": "merged attention",
    "merged_encoder_attention": "merged attention",
    "weight_zero": "weights in AWQ's 4 bits",
}


@dataclass(frozen=True)
class Settings:
    """The settings of a model that Transduce computes.

    Attributes:
        num_heads: of each attention.
        is_pre_norm: whether norms precede sub-layers.
        activation: as `model.activation` has it.
        starts_from_zero: whether the decoder's first input is a zero vector.
        layers: the number of layers, by stack.
        scales: by what embeddings are multiplied, by stack; None: by √d_model.
        embeddings: the names of the tables, by stack.
        layer_norm_epsilon: of all norms.
        unknown, end, start: names of tokens; a decoder begins with `start`.
        has_source_end: whether EOS follows each source.
        adds_source_end: whether CTranslate2 appends EOS to a source; else its caller does, if sources have one.
        aligning: the layer and the number of heads that a converter chose to align words; None: it chose none.
    """

    num_heads: int
    is_pre_norm: bool
    activation: str
    starts_from_zero: bool
    layers: Mapping[str, int]
    scales: Mapping[str, float | None]
    embeddings: Mapping[str, str]
    layer_norm_epsilon: float
    unknown: str
    end: str
    start: str
    has_source_end: bool
    adds_source_end: bool
    aligning: tuple[int, int] | None


def read_settings(variables: Variables, files: ForeignFiles, *, appends_end: bool = True) -> Settings:
    """Returns the settings of the model with these variables in the folder `files`.

    `appends_end`: whether callers append EOS to the sources of some models.

    Raises:
        BundleError: `config.json` or a variable is missing or damaged.
        ExportError: our model cannot compute what this one does; all reasons are named.
    """
    if variables.specification not in _HEADS or variables.revision < _OLDEST_REVISION:
        raise ExportError(
            f"{variables.where}: cannot be imported: it is {variables.specification[:80] or 'of no specification'}, "
            f"revision {variables.revision}. Only encoder-decoder Transformers (TransformerSpec, revision "
            f"{_OLDEST_REVISION} and later) are."
        )
    layers = {stack: _num_layers(variables, stack) for stack in STACKS}
    values = _config(variables, files)
    reasons: list[str] = []

    def of_both(name: str, default: float) -> float:
        """Returns a setting that must be the same for both stacks."""
        shared = variables.setting(name, default)
        found = [variables.setting(f"{stack}/{name}", shared) for stack in STACKS]
        if found[0] != found[1]:
            reasons.append(f"{name} is {found[0]:g} in the encoder and {found[1]:g} in the decoder")
        return found[1]

    num_heads = int(of_both("num_heads", _HEADS[variables.specification]))
    is_pre_norm, activation = bool(of_both("pre_norm", 1)), int(of_both("activation", 0))
    names = {number: name for name, number in ACTIVATIONS.items()}
    if activation not in names:
        reasons.append(f"activation {activation}: Transduce has {', '.join(names.values())}")
    reasons += _obstacles(variables, is_pre_norm=is_pre_norm) + _token_obstacles(values)
    if reasons:
        raise ExportError(f"{variables.where}: cannot be imported:\n  " + "\n  ".join(dict.fromkeys(reasons)))
    if num_heads < 1:
        raise variables.damaged(f"num_heads is {num_heads}")
    aligning = (
        int(variables.setting("decoder/alignment_layer", -1)),
        int(variables.setting("decoder/alignment_heads", 0)),
    )
    start = values["decoder_start_token"]
    # Converters of OpenNMT leave sources as they were in training, without EOS. All others rely on the tokenizer to
    # append it where CTranslate2 does not, and their decoders do not begin with <s>.
    return Settings(
        num_heads=num_heads,
        is_pre_norm=is_pre_norm,
        activation=names[activation],
        starts_from_zero=bool(variables.setting("decoder/start_from_zero_embedding", 0)),
        layers=layers,
        scales={stack: _scale(variables, stack) for stack in STACKS},
        embeddings={stack: _embeddings(variables, stack) for stack in STACKS},
        layer_norm_epsilon=float(values["layer_norm_epsilon"]),
        unknown=values["unk_token"],
        end=values["eos_token"],
        start=start,
        has_source_end=values["add_source_eos"] or (appends_end and start != "<s>"),
        adds_source_end=values["add_source_eos"],
        aligning=aligning if 0 <= aligning[0] < layers["decoder"] and 0 < aligning[1] <= num_heads else None,
    )


def _num_layers(variables: Variables, stack: str) -> int:
    found = {int(match[1]) for name in variables.names() if (match := re.match(rf"{stack}/layer_(\d{{1,5}})/", name))}
    if not found or found != set(range(len(found))):
        raise variables.damaged(f"the layers of its {stack} are numbered {sorted(found)[:8]}")
    return len(found)


def _config(variables: Variables, files: ForeignFiles) -> dict[str, Any]:
    """Returns `config.json`; for old files, what it would say.

    Raises:
        BundleError: it is missing or damaged, or has a value of a wrong type.
    """
    if variables.version < _NAMED_BY_OLD:
        start = "eos" if not variables.setting("with_target_bos", 1) else "bos"
        values: dict[str, Any] = {
            "unk_token": variables.text("unk_token", "<unk>"),
            "bos_token": variables.text("bos_token", "<s>"),
            "eos_token": variables.text("eos_token", "</s>"),
            "add_source_bos": bool(variables.setting("with_source_bos", 0)),
            "add_source_eos": bool(variables.setting("with_source_eos", 0)),
        }
        by_user = bool(variables.setting("user_decoder_start_tokens", 0))
        return values | {
            "decoder_start_token": None if by_user else values[f"{start}_token"],
            "layer_norm_epsilon": _EPSILON,
        }
    values = files.json_object(SETTINGS)
    defaults = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    values = {"add_source_bos": False, "add_source_eos": False, "decoder_start_token": "<s>"} | defaults | values
    if values.get("layer_norm_epsilon") is None:
        values["layer_norm_epsilon"] = _EPSILON
    kinds: dict[str, Callable[[Any], bool]] = {
        **dict.fromkeys(defaults, lambda value: isinstance(value, str)),
        **dict.fromkeys(("add_source_bos", "add_source_eos"), lambda value: isinstance(value, bool)),
        "decoder_start_token": lambda value: value is None or isinstance(value, str),
        "layer_norm_epsilon": lambda value: type(value) in (int, float) and 0 < value <= 1,
    }
    if wrong := [key for key, is_valid in kinds.items() if not is_valid(values[key])]:
        shown = ", ".join(f"{key} = {str(values[key])[:80]}" for key in wrong)
        raise BundleError(f"{files.where(SETTINGS)}: damaged: {shown}. Download it again.")
    return values


def _token_obstacles(values: Mapping[str, Any]) -> list[str]:
    reasons = []
    if values["add_source_bos"]:
        reasons.append("add_source_bos: sources begin with a token, which those of Transduce do not")
    if values["decoder_start_token"] is None:
        reasons.append("decoder_start_token = null: its callers choose what an output begins with")
    if values.get("quantization_type") not in (None, 0):
        reasons.append(f"quantization_type = {str(values['quantization_type'])[:20]}: weights in AWQ's 4 bits")
    return reasons


def _obstacles(variables: Variables, *, is_pre_norm: bool) -> list[str]:
    """Returns what the model has that ours does not."""
    reasons = []
    for name in variables.names():
        if not _KNOWN.fullmatch(name):
            meaning = next((words for part, words in _MEANINGS.items() if part in name), "")
            reasons.append(f"it has {meaning} ({name[:80]})" if meaning else f"it has a variable '{name[:80]}'")
    # One example of each reason is enough.
    reasons = list({reason.partition(" (")[0]: reason for reason in reversed(reasons)}.values())[::-1][:12]
    for stack in STACKS:
        for flag in ("multi_query_attention", "alibi"):
            if variables.setting(f"{stack}/{flag}", 0):
                reasons.append(f"{stack}/{flag}: ours has none")
        if f"{stack}/embeddings_0/weight" not in variables and f"{stack}/embeddings/weight" not in variables:
            reasons.append(f"its {stack} has no embeddings")
        if is_pre_norm != (f"{stack}/layer_norm/gamma" in variables):
            has = "no norm after its last layer" if is_pre_norm else "one more norm after its last layer"
            reasons.append(f"its {stack} is {'pre' if is_pre_norm else 'post'}-norm with {has}")
    gammas = [name.removesuffix("gamma") for name in variables.names() if name.endswith("/gamma")]
    if without := [name for name in gammas if f"{name}beta" not in variables]:
        reasons.append(f"its norms are of the root mean square ({without[0]}gamma has no beta)")
    return reasons


def _embeddings(variables: Variables, stack: str) -> str:
    first = f"{stack}/embeddings_0/weight"
    return first if first in variables else f"{stack}/embeddings/weight"


def _scale(variables: Variables, stack: str) -> float | None:
    """Returns by what embeddings are multiplied: a stored flag, or a stored number; None is √d_model."""
    name = f"{stack}/scale_embeddings"
    if name not in variables:
        name = f"{stack}/embeddings/multiply_by_sqrt_depth"
    value = variables.setting(name, 1)
    if name not in variables or (variables.type_of(name) == "int8" and value):
        return None
    if variables.type_of(name) == "int8":
        return 1.0
    depth = variables.shape(_embeddings(variables, stack))[-1]
    return None if math.isclose(value, math.sqrt(depth), rel_tol=1e-6) else value
