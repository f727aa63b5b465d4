"""What a state dict of `torch.nn.Transformer` does not contain: a small TOML file.

num_heads = 8
norm_first = false
source_embedding = "source.weight"     # names in the state dict
target_embedding = "target.weight"     # may be the same, as may output
output = "generator.weight"
output_bias = "generator.bias"         # where there is one
activation = "relu"                    # or "gelu"
embedding_scale = "sqrt"               # multiplied by √d_model where they are read; or "none"
positions = "interleaved"              # sinusoids as in §3.5; "concatenated": sines, then cosines; or "learned"
prefix = "transformer."                # before encoder.layers.0.… and decoder.layers.0.…
"""

import tomllib
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Literal, get_type_hints

from transduce.config.loading import convert
from transduce.errors import ConfigError, suggestion


@dataclass(frozen=True, kw_only=True)
class TorchDescription:
    """How a state dict is to be read."""

    num_heads: int
    source_embedding: str
    target_embedding: str
    output: str
    norm_first: bool = False
    activation: Literal["relu", "gelu"] = "relu"
    layer_norm_eps: float = 1e-5
    prefix: str = ""
    output_bias: str = ""  # name of a bias of the logits, (vocabulary,)
    embedding_scale: Literal["sqrt", "none"] = "sqrt"
    positions: Literal["interleaved", "concatenated", "learned"] = "interleaved"
    source_positions: str = ""  # names of learned tables, (positions, d_model)
    target_positions: str = ""
    decoder_start: str = ""  # token that targets begin with; empty: bos_token
    pad_token: str = "<pad>"
    bos_token: str = "<s>"
    eos_token: str = "</s>"
    unk_token: str = "<unk>"

    def __post_init__(self) -> None:
        for key, kind in get_type_hints(TorchDescription).items():
            convert(getattr(self, key), kind, key)
        if self.num_heads < 1:
            raise ConfigError(f"num_heads = {self.num_heads}: must be greater than 0.")
        if unnamed := [key for key in ("source_embedding", "target_embedding", "output") if not getattr(self, key)]:
            raise ConfigError(f"{', '.join(unnamed)} = '': name each table; all three may be the same.")
        if self.positions == "learned" and not (self.source_positions and self.target_positions):
            raise ConfigError("positions = 'learned': name the tables, source_positions and target_positions.")

    @property
    def layout(self) -> Literal["interleaved", "concatenated"]:
        """The layout of sinusoids; for learned tables it is not used."""
        return "concatenated" if self.positions == "concatenated" else "interleaved"

    @property
    def tables(self) -> dict[str, str]:
        """The names of what is not in a layer in the state dict, by roles; "" for none."""
        keys = ("source_embedding", "target_embedding", "output", "output_bias", "source_positions", "target_positions")
        return {key.removesuffix("_embedding"): getattr(self, key) for key in keys}

    @property
    def roles(self) -> dict[str, str]:
        """The special tokens by their roles."""
        return {role: getattr(self, role) for role in ("pad_token", "bos_token", "eos_token", "unk_token")}


def read_description(path: Path) -> TorchDescription:
    """Reads the TOML file.

    Raises:
        ConfigError: it is missing or no TOML, or a key is unknown, missing or of another type.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not TOML: {error}.") from None
    defaults = {field.name: field.default for field in fields(TorchDescription)}
    for key in values:
        if key not in defaults:
            raise ConfigError(f"{path}: unknown key '{key}'.{suggestion(key, defaults)}")
    if missing := [key for key, default in defaults.items() if default is MISSING and key not in values]:
        raise ConfigError(f"{path}: {', '.join(missing)} missing.")
    try:
        return TorchDescription(**values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
