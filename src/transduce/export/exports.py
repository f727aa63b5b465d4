"""Writes a model for another system, compares the two there, and keeps the export only if both do the same."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Unpack

from transduce import files
from transduce.bundle import Bundle
from transduce.config import ModelConfig, to_dict
from transduce.config.choices import learns_positions
from transduce.config.special_ids import BOS, EOS, PAD, UNK
from transduce.data.treebank_reader import sentence_reader
from transduce.engines.interface import MAX_SOURCE_TOKENS
from transduce.errors import ConfigError, ExportError, MissingDependencyError, suggestion
from transduce.export.card import export_card
from transduce.export.certificate import (
    CARD,
    EXACT,
    ROUNDED,
    Certificate,
    Thresholds,
    measure,
    why_not_replaceable,
    write_certificate,
)
from transduce.export.options import Comparison, ComparisonOptions
from transduce.export.sentences import Sentences
from transduce.export.system import System

FORMATS = ("huggingface", "onnx", "ctranslate2")
ORIGINAL = "transduce.json"  # in an exported folder: the configuration that it was made from, for an import
_FLOAT32 = "float32"


@dataclass(frozen=True)
class _Written:
    """What was written to a folder: how to run it, and known differences."""

    run: Callable[[], System]
    notes: tuple[str, ...] = ()


def export_model(
    model: str | Path,
    output: str | Path,
    format: str,
    *,
    quantization: str = _FLOAT32,
    **options: Unpack[ComparisonOptions],
) -> Certificate:
    """Writes the model folder `model` to the folder `output` in another system's format.

    That system then loads what was written, and is run against the original on a sample of sentences. Where the two
    differ by more than the thresholds, nothing is left at `output`.

    Args:
        model: a model folder.
        output: a folder.
        format: one of `FORMATS`.
        quantization: how numbers are stored; other than "float32" with "ctranslate2" only.
        options: `sentences`, `references`, `sample`, `threshold`, `max_difference`, `force` and `overwrite`: see
            `Comparison`.

    Raises:
        ConfigError: there is no such format or quantization.
        ExportError: the format does not support the model, or the certificate failed.
        MissingDependencyError: what the format needs is not installed.
    """
    output, comparison = Path(output), Comparison(**options)
    _check(format, quantization, comparison.threshold)
    require_writable(output, overwrite=comparison.overwrite)
    bundle = Bundle.load(model)
    bundle.verify()
    sentences = comparison.choose_sentences(bundle.config)
    read = sentence_reader(bundle.config.data, bundle.tokenizer)
    sentences = replace(sentences, sources=tuple(map(read, sentences.sources)))
    thresholds = comparison.thresholds(EXACT if quantization == _FLOAT32 else ROUNDED)
    write = {"huggingface": _write_huggingface, "onnx": _write_onnx, "ctranslate2": _write_ctranslate2}[format]
    with files.atomic_folder(output) as folder:
        written = write(bundle, folder, quantization)
        files.write_json(folder / ORIGINAL, {"format": 1, "config": to_dict(bundle.config)})
        certificate = certify(bundle, written.run(), sentences, thresholds, notes=written.notes)
        certificate = replace(certificate, forced=comparison.force, format=format, quantization=quantization)
        certificate.require(str(output))
        files.write_text(folder / CARD, export_card(bundle, format, certificate))
        write_certificate(folder, certificate)
        require_writable(output, overwrite=comparison.overwrite)  # another export may have come there meanwhile
    return certificate


def certify(
    bundle: Bundle,
    system: System,
    sentences: Sentences,
    thresholds: Thresholds,
    *,
    notes: tuple[str, ...] = (),
    imported: bool = False,
) -> Certificate:
    """Compares `system` with the model of `bundle`, on the translations of the latter.

    The original is the model of `bundle`; or, if the bundle was `imported`, that of `system`. Sentences are cut to the
    positions that both have.
    """
    from transduce.export.native_system import NativeSystem

    native = NativeSystem(bundle)
    limit = position_limit(bundle) - 1
    if system.num_positions is not None:
        limit = min(limit, system.num_positions - 1)
    sources = [ids[: min(MAX_SOURCE_TOKENS, limit)] for ids in native.encode(sentences.sources)]
    targets = [ids[:limit] for ids in native.translate_ids(sources)]
    original, export = (system, native) if imported else (native, system)
    return Certificate(
        original=original.name,
        export=export.name,
        sentences=sentences.origin,
        measured=measure(original, export, sentences, sources, targets),
        thresholds=thresholds,
        notes=notes,
        original_sha256={} if imported else bundle.checksums,
    )


def position_limit(bundle: Bundle) -> int:
    """Returns the number of positions of an export: those of a learned table, or all that our engines use."""
    config = bundle.config
    if learns_positions(config.model):
        return config.model.max_positions
    return MAX_SOURCE_TOKENS + config.decode.max_extra_tokens + 1


def require_writable(output: Path, *, overwrite: bool) -> None:
    """Refuses to replace what is not an unchanged export, and any export without `overwrite`."""
    foreign = why_not_replaceable(output, is_export=True)
    files.require_free(output, overwrite=overwrite, foreign=foreign, error=ExportError)


def _check(format: str, quantization: str, threshold: float | None) -> None:
    if format not in FORMATS:
        known = ", ".join(FORMATS)
        raise ConfigError(f"There is no format '{format}'.{suggestion(format, FORMATS)} Use one of: {known}.")
    if format != "ctranslate2" and quantization != _FLOAT32:
        raise ConfigError(f"--quantization {quantization}: the format '{format}' is float32; ctranslate2 has others.")
    if threshold is not None and not 0 <= threshold <= 1:
        raise ConfigError(f"--threshold {threshold}: must be a share from 0 to 1.")


def _write_huggingface(bundle: Bundle, folder: Path, quantization: str) -> _Written:
    from safetensors.numpy import save_file

    from transduce.export.huggingface_shape import (
        LAYER_NORM_EPSILON,
        generation_settings,
        model_settings,
        shape_of,
    )
    from transduce.export.huggingface_tokenizer import save_tokenizer
    from transduce.export.huggingface_weights import to_huggingface

    config = bundle.config
    shape = shape_of(config.model, num_positions=position_limit(bundle))
    system = module_of("transformers", "huggingface", "transduce.export.huggingface_system").HuggingFaceSystem
    weights = to_huggingface(bundle.weights(), config.model, shape)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)  # the library lets only its writer read it
    files.write_json(folder / "config.json", model_settings(config.model, shape))
    files.write_json(folder / "generation_config.json", generation_settings(config, shape))
    max_tokens = min(MAX_SOURCE_TOKENS + 1, shape.num_positions)
    save_tokenizer(bundle.tokenizer, folder, max_tokens=max_tokens, extra_start=shape.extra_start)
    notes = [
        "`generate` divides by length^α, the original by ((5 + length) / 6)^α, and its longest output is max_length, "
        "the original's the source's length + decode.max_extra_tokens: searches may differ where the models do not"
    ]
    if not math.isclose(config.model.layer_norm_epsilon, LAYER_NORM_EPSILON):
        notes.append(
            f"layer norms add {LAYER_NORM_EPSILON:g} to a variance, the original's {config.model.layer_norm_epsilon:g}"
        )
    return _Written(lambda: system(folder), tuple(notes))


def _write_onnx(bundle: Bundle, folder: Path, quantization: str) -> _Written:
    model = module_of("onnx", "onnx", "transduce.export.onnx_model")
    system = module_of("onnxruntime", "onnx", "transduce.export.onnx_system").OnnxSystem
    config, limit = bundle.config, position_limit(bundle)
    model.write_graphs(bundle.weights(), config.model, folder, num_positions=limit)
    bundle.tokenizer.save(folder / "tokenizer.json")
    files.write_json(folder / "settings.json", _onnx_settings(config.model, limit) | _search_settings(bundle))
    script = Path(__file__).with_name("translate_onnx.py").read_text(encoding="utf-8")
    files.write_text(folder / "translate_onnx.py", script)
    return _Written(lambda: system(folder))


def _onnx_settings(config: ModelConfig, limit: int) -> dict[str, int]:
    return {
        "pad": PAD,
        "bos": BOS,
        "eos": EOS,
        "unk": UNK,
        "num_decoder_layers": config.num_decoder_layers,
        "num_heads": config.num_heads,
        "d_k": config.d_k,
        "d_v": config.d_v,
        "max_source_tokens": min(MAX_SOURCE_TOKENS, limit - 1),
        "max_target_tokens": limit - 1,
    }


def _search_settings(bundle: Bundle) -> dict[str, float]:
    decode = bundle.config.decode
    return {
        "beam_size": decode.beam_size,
        "length_penalty": decode.length_penalty,
        "max_extra_tokens": decode.max_extra_tokens,
    }


def _write_ctranslate2(bundle: Bundle, folder: Path, quantization: str) -> _Written:
    from transduce.engines.ctranslate2_model import convert
    from transduce.export.ctranslate2_system import CTranslate2System

    convert(bundle, folder, quantization)
    bundle.tokenizer.save(folder / "tokenizer.json")
    notes = (
        "CTranslate2 divides by length^α while it searches and ends by its own rule; its outputs are ranked anew by "
        "((5 + length) / 6)^α in this comparison",
    )
    return _Written(lambda: CTranslate2System(folder, bundle, quantization), notes)


def module_of(package: str, extra: str, name: str) -> Any:
    """Imports a module of ours that needs `package`, or says which extra installs it."""
    try:
        import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise MissingDependencyError(
            f"{package} is not installed, and this format needs it: pip install "
            + (f"'transduce[{extra}]'" if extra else package)
        ) from None
    return import_module(name)
