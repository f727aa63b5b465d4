"""Writes a model for another system, compares the two there, and keeps the export only if both do the same."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Unpack

from safetensors.numpy import save_file

from transduce import files
from transduce.bundle import Bundle
from transduce.config import to_dict
from transduce.config.choices import longest_sequence
from transduce.config.special_ids import BOS, EOS, PAD, UNK
from transduce.config.terms import terms_of, write_terms
from transduce.data.treebank_reader import sentence_reader
from transduce.engines import model_source
from transduce.engines.allocator import give_back_memory
from transduce.engines.ctranslate2_model import convert
from transduce.engines.interface import MAX_SOURCE_TOKENS, require_known
from transduce.engines.shortlist.table import Shortlist, load_shortlist
from transduce.errors import ConfigError, ExportError, MissingDependencyError, install_command
from transduce.export.card import export_card
from transduce.export.certificate import (
    CARD,
    EXACT,
    ROUNDED,
    Answers,
    Certificate,
    Thresholds,
    ask,
    measure,
    require_replaceable,
    write_certificate,
)
from transduce.export.huggingface_settings import ORIGINAL
from transduce.export.huggingface_shape import LAYER_NORM_EPSILON, generation_settings, model_settings, shape_of
from transduce.export.huggingface_tokenizer import save_tokenizer
from transduce.export.huggingface_weights import to_huggingface
from transduce.export.options import Comparison, ComparisonOptions
from transduce.export.sentencepiece_files import save_marian_tokenizer, write_models, write_pieces
from transduce.export.sentences import Sentences
from transduce.export.system import System
from transduce.text import SentencePieceTokenizer, SubwordTokenizer
from transduce.translation.directions import Directions, default_tags

FORMATS = ("huggingface", "onnx", "ctranslate2")
_FLOAT32 = "float32"
# The packages that a format needs; the first one runs an export, all of them are needed to write one.
_NEEDS = {"huggingface": ("transformers",), "onnx": ("onnxruntime", "onnx"), "ctranslate2": ("ctranslate2",)}


def export_model(
    model: str | Path,
    output: str | Path,
    format: str,
    *,
    quantization: str = _FLOAT32,
    shortlist: bool = False,
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
        shortlist: whether to write the model's shortlist as well; with "ctranslate2" only.
        options: `sentences`, `references`, `sample`, `threshold`, `max_difference`, `force` and `overwrite`: see
            `Comparison`.

    Raises:
        ConfigError: there is no such format or quantization.
        BundleError: the model folder is damaged, or has no shortlist.
        ExportError: the format does not support the model, the source of `model/` was changed, or the certificate
            failed.
        MissingDependencyError: what the format needs is not installed.
    """
    output, comparison = Path(output), Comparison(**options)
    _check(format, quantization, comparison.threshold)
    if shortlist and format != "ctranslate2":
        raise ConfigError(f"--shortlist: the format '{format}' has none; ctranslate2 has.")
    require_installed(format, _NEEDS[format])
    if not model_source.is_known():  # the certificate would say so too, but of a sample, and --force overrules it
        raise ExportError(f"{model_source.CHANGED}, and its export to {format} computes what it was before.")
    require_replaceable(output, is_export=True, overwrite=comparison.overwrite)
    bundle = Bundle.load(model)
    bundle.verify()
    if format != "ctranslate2" and bundle.config.data.language_tags != "source":
        raise ExportError(
            f"data.language_tags = '{bundle.config.data.language_tags}': targets begin with the tag of their language, "
            f"which the format '{format}' does not support. Use 'ctranslate2', with its `target_prefix`."
        )
    sentences = comparison.choose_sentences(bundle.config)
    read = sentence_reader(bundle.config.data, bundle.tokenizer)
    sentences = replace(sentences, sources=tuple(map(read, sentences.sources)))
    thresholds = comparison.thresholds(EXACT if quantization == _FLOAT32 else ROUNDED)
    writers: dict[str, Callable[..., tuple[str, ...]]] = {
        "huggingface": _write_huggingface,
        "onnx": _write_onnx,
        "ctranslate2": partial(_write_ctranslate2, quantization, load_shortlist(bundle) if shortlist else None),
    }
    files.remove_leftovers(output.parent, output.name)
    with files.atomic_folder(output) as folder:
        notes = writers[format](bundle, folder)
        heads, exported = bundle.aligning_heads, bundle.config
        if exported.model.block_size > 1:
            notes += (f"the heads for later tokens (model.block_size = {exported.model.block_size}) are left out",)
            exported = replace(exported, model=replace(exported.model, block_size=1))
        files.write_json(
            folder / ORIGINAL,
            {"format": 1, "config": to_dict(exported), "aligning_heads": heads and heads._asdict()},
        )
        load = partial(load_system, format, folder, bundle, quantization)
        certificate = certify(bundle, load, sentences, thresholds, notes=notes)
        certificate = replace(certificate, forced=comparison.force, format=format, quantization=quantization)
        certificate.require(str(output))
        write_terms(terms_of(bundle.path), folder)
        files.write_text(folder / CARD, export_card(bundle, format, certificate))
        write_certificate(folder, certificate)
        require_replaceable(output, is_export=True, overwrite=comparison.overwrite)  # another one may have come there
    return certificate


def certify(
    bundle: Bundle,
    load: Callable[[], System],
    sentences: Sentences,
    thresholds: Thresholds,
    *,
    notes: tuple[str, ...] = (),
    imported: bool = False,
) -> Certificate:
    """Compares the system that `load` returns with the model of `bundle`, on the translations of the latter.

    The original is the model of `bundle`; or, if the bundle was `imported`, that of the system. Sentences are cut to
    the positions that both have. One after the other is loaded, so that the memory of one is enough.
    """
    give_back_memory()  # what an import took
    native, pairs = _ask_native(bundle, sentences.sources, position_limit(bundle))
    give_back_memory()
    system = load()
    longest = max(len(ids) for side in pairs for ids in side)
    if system.num_positions is not None and longest >= system.num_positions:
        native, pairs = _ask_native(bundle, sentences.sources, system.num_positions)
    other = ask(system, sentences.sources, *pairs)
    original, export = (other, native) if imported else (native, other)
    return Certificate(
        original=original.name,
        export=export.name,
        sentences=sentences.origin,
        measured=measure(original, export, sentences.references),
        thresholds=thresholds,
        notes=notes,
        original_sha256={} if imported else bundle.checksums,
    )


def _ask_native(
    bundle: Bundle, lines: Sequence[str], num_positions: int
) -> tuple[Answers, tuple[list[list[int]], list[list[int]]]]:
    """Returns what our model gives, and the sources and targets that were scored: its translations, by token ids."""
    from transduce.export.native_system import NativeSystem

    native, limit = NativeSystem(bundle), num_positions - 1
    sources = [ids[: min(MAX_SOURCE_TOKENS, limit)] for ids in native.encode(lines)]
    targets = [ids[:limit] for ids in native.translate_ids(sources)]
    return ask(native, lines, sources, targets), (sources, targets)


def position_limit(bundle: Bundle) -> int:
    """Returns the number of positions of an export: those that the model has, or all that our engines use."""
    config = bundle.config
    return longest_sequence(config.model) or MAX_SOURCE_TOKENS + config.decode.max_extra_tokens + 1


def require_installed(format: str, packages: Sequence[str] = ()) -> None:
    """Checks that the packages of a format are installed: those given, or else the one that runs an export.

    Raises:
        MissingDependencyError: one is missing; the message names the extra to install.
    """
    missing = [package for package in packages or _NEEDS[format][:1] if find_spec(package) is None]
    if missing:
        command = "pip install ctranslate2" if format == "ctranslate2" else install_command(format)
        raise MissingDependencyError(f"{', '.join(missing)} not installed. The format '{format}' needs: {command}")


def load_system(format: str, folder: Path, bundle: Bundle, quantization: str) -> System:
    """Returns the system that runs an export of `bundle`."""
    if format == "huggingface":
        from transduce.export.huggingface_system import HuggingFaceSystem

        return HuggingFaceSystem(folder, direction=Directions.of(bundle.tokenizer, bundle).example())
    if format == "onnx":
        from transduce.export.onnx_system import OnnxSystem

        return OnnxSystem(folder)
    from transduce.export.ctranslate2_system import CTranslate2System

    return CTranslate2System(folder, bundle, quantization)


def _check(format: str, quantization: str, threshold: float | None) -> None:
    require_known("format", format, FORMATS)
    if format != "ctranslate2" and quantization != _FLOAT32:
        raise ConfigError(f"--quantization {quantization}: the format '{format}' is float32; ctranslate2 has others.")
    if threshold is not None and not 0 <= threshold <= 1:
        raise ConfigError(f"--threshold {threshold}: must be a share from 0 to 1.")


# --- one function a format: each writes the files, and returns known differences ---


def _write_huggingface(bundle: Bundle, folder: Path) -> tuple[str, ...]:
    config = bundle.config
    shape = shape_of(config.model, num_positions=position_limit(bundle))
    weights = to_huggingface(bundle.weights(), config.model, shape)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    files.make_readable(folder / "model.safetensors")  # the library lets only its writer read it
    files.write_json(folder / "config.json", model_settings(config.model, shape))
    never = bundle.tokenizer.target.tags.values()
    files.write_json(folder / "generation_config.json", generation_settings(config, shape, never))
    max_tokens = min(MAX_SOURCE_TOKENS + 1, shape.num_positions)
    tags = bundle.tokenizer.pieces(default_tags(bundle.tokenizer, bundle))
    extra_start = shape.extra_start
    if isinstance(bundle.tokenizer, SentencePieceTokenizer):
        if shape.model_type != "marian":
            raise ExportError(
                f"model.norm = '{config.model.norm}': transformers has no class for this model with SentencePiece on "
                "each side. Try the formats 'onnx' and 'ctranslate2'."
            )
        save_marian_tokenizer(bundle.tokenizer, folder, config.data, max_tokens=max_tokens, extra_start=extra_start)
    else:
        assert isinstance(bundle.tokenizer, SubwordTokenizer)
        save_tokenizer(bundle.tokenizer, folder, tags, max_tokens=max_tokens, extra_start=extra_start)
    notes = [
        "`generate` divides by length^α, the original by ((5 + length) / 6)^α, and its longest output is max_length, "
        "the original's the source's length + decode.max_extra_tokens: searches may differ where the models do not"
    ]
    if not math.isclose(config.model.layer_norm_epsilon, LAYER_NORM_EPSILON):
        notes.append(
            f"layer norms add {LAYER_NORM_EPSILON:g} to a variance, the original's {config.model.layer_norm_epsilon:g}"
        )
    return tuple(notes)


def _write_onnx(bundle: Bundle, folder: Path) -> tuple[str, ...]:
    from transduce.export.onnx_model import write_graphs

    model, decode, limit = bundle.config.model, bundle.config.decode, position_limit(bundle)
    write_graphs(bundle.weights(), model, folder, num_positions=limit)
    if isinstance(bundle.tokenizer, SentencePieceTokenizer):
        write_pieces(bundle.tokenizer, folder)
    else:
        bundle.tokenizer.save(folder / "tokenizer.json")
    settings: dict[str, Any] = {"pad": PAD, "bos": BOS, "eos": EOS, "unk": UNK}
    settings |= {name: getattr(model, name) for name in ("num_decoder_layers", "num_heads", "d_k", "d_v")}
    settings |= {"max_source_tokens": min(MAX_SOURCE_TOKENS, limit - 1), "max_target_tokens": limit - 1}
    settings |= {name: getattr(decode, name) for name in ("beam_size", "length_penalty", "max_extra_tokens")}
    settings |= {"tags": bundle.tokenizer.tags, "target_tags": [*bundle.tokenizer.target.tags.values()]}
    settings["default_tags"] = default_tags(bundle.tokenizer, bundle)
    files.write_json(folder / "settings.json", settings)
    script = Path(__file__).with_name("translate_onnx.py").read_text(encoding="utf-8")
    files.write_text(folder / "translate_onnx.py", script)
    return ()


def _write_ctranslate2(quantization: str, shortlist: Shortlist | None, bundle: Bundle, folder: Path) -> tuple[str, ...]:
    convert(bundle, folder, quantization, shortlist)
    if isinstance(bundle.tokenizer, SentencePieceTokenizer):
        write_models(bundle.tokenizer, folder)
    else:
        bundle.tokenizer.save(folder / "tokenizer.json")
    notes: tuple[str, ...] = (
        "CTranslate2 divides by length^α while it searches and ends by its own rule; its outputs are ranked anew by "
        "((5 + length) / 6)^α in this comparison",
    )
    if quantization != "float32":
        notes += (f"in {quantization}, an output may change with its batch where two candidates are nearly equal",)
    if shortlist is not None:
        notes += (
            "`vmap.txt` is the shortlist: `translate_batch(…, use_vmap=True)` uses it; this comparison did not. A "
            "batch is searched in the union of its lines' shortlists, so an output may depend on the other lines of "
            "its batch",
        )
    return notes
