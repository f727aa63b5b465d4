"""Configuration: preset → recipe file → `--set section.key=value`."""

from transduce.config.data import DataConfig
from transduce.config.loading import apply_settings, from_dict, load_recipe, to_dict
from transduce.config.presets import preset, preset_names
from transduce.config.schema import Config, DecodeConfig, ModelConfig, TextConfig, TrainConfig
from transduce.config.start import InitConfig

__all__ = [
    "Config",
    "DataConfig",
    "DecodeConfig",
    "InitConfig",
    "ModelConfig",
    "TextConfig",
    "TrainConfig",
    "apply_settings",
    "from_dict",
    "load_recipe",
    "preset",
    "preset_names",
    "to_dict",
]
