"""Makes a model folder from another system's model, and compares it with that system."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from transduce import files
from transduce.bundle import save_bundle, save_metrics
from transduce.config import Config, TextConfig
from transduce.config.checked_json import read_or_empty
from transduce.config.tensors import read_weights
from transduce.config.terms import licence_in, terms_of
from transduce.engines.interface import require_known
from transduce.engines.shortlist.table import save_shortlist
from transduce.errors import BundleError, ConfigError, TokenizerError, naming
from transduce.export.argos import METADATA, SUFFIX, read_argos
from transduce.export.certificate import CARD, EXACT, Certificate, require_replaceable, write_certificate
from transduce.export.ctranslate2_reading import MODEL, read_ctranslate2
from transduce.export.exports import certify
from transduce.export.foreign_files import FolderFiles
from transduce.export.foreign_model import ForeignModel
from transduce.export.foreign_vocabulary import ForeignTokenizer
from transduce.export.hub import Origin, find_origin
from transduce.export.huggingface_reading import read_checkpoint
from transduce.export.huggingface_tokenizer import read_tokenizer
from transduce.export.marian_options import DECODER
from transduce.export.marian_reading import read_marian
from transduce.export.options import Comparison, ComparisonOptions
from transduce.export.system import System
from transduce.export.torch_description import TorchDescription, read_description
from transduce.export.torch_reading import read_state, to_model
from transduce.text import BOS_TOKEN, load_tokenizer
from transduce.translation.directions import Directions

DESCRIBED = "torch"  # the format that needs a description


def find_format(path: Path) -> str:
    """Returns the format of `path`: "huggingface", "marian", "ctranslate2", "argos" or "torch".

    Raises:
        BundleError: none fits; the message says what was looked for, and what was found.
    """
    if path.is_file() and path.suffix == ".safetensors":
        return "torch"
    if path.is_dir() and "model_type" in (settings := read_or_empty(path / "config.json")):
        return "huggingface"
    if (path / DECODER).is_file():
        return "marian"
    if path.is_dir() and (path / MODEL).is_file():
        return "ctranslate2"
    if path.suffix == SUFFIX if path.is_file() else (path / METADATA).is_file():
        return "argos"
    if not path.exists():
        raise BundleError(f"{path}: no such file or folder.")
    found = _contents(path) if path.is_dir() else f"it is a file that ends in '{path.suffix}'"
    if path.suffix in (".pt", ".pth", ".bin", ".ckpt"):
        found += ", and nothing is unpickled: save the state dict with safetensors.torch.save_file"
    if path.is_dir() and any(path.glob("*.alphas.bin")):
        found += ": an optimised binary of Marian is not supported: get the folder with the .npz"
    if path.is_dir() and "transduce" in settings:
        found = "its config.json was written by Transduce: this is already a model folder"
    if path.is_dir() and (path / "config.json").is_file():
        try:
            files.read_json_object(path / "config.json")
        except ValueError as error:
            found = f"its config.json is damaged: {error}"
    raise BundleError(f"{path}: no format fits: {found}.").with_advice(
        "Looked for a folder whose config.json names a model_type (huggingface), for one with "
        f"{DECODER} (marian), {MODEL} (ctranslate2) or {METADATA} (argos), for a file {SUFFIX} (argos) and for a "
        ".safetensors file (torch)."
    )


def _contents(folder: Path) -> str:
    names = sorted(each.name for each in folder.iterdir())
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"it holds {', '.join(names[:5])}{more}" if names else "it is empty"


def import_model(
    origin: str | Path | Origin, output: str | Path, format: str = "", **options: Unpack[ComparisonOptions]
) -> Certificate | None:
    """Makes the model folder `output` from a model of another system.

    Where that system is installed, both models are run on a sample of sentences. If they differ by more than the
    thresholds, nothing is left at `output`. Where it is not installed, the folder gets no certificate.

    Args:
        origin: what was downloaded, a folder or a file; or a model of the Hugging Face Hub, `owner/name` or
            `owner/name@revision` (`find_origin`).
        output: the model folder to write.
        format: "huggingface", "marian", "ctranslate2" or "argos"; "": recognised. For "torch" call `import_torch`.
        options: `sentences`, `references`, `sample`, `threshold`, `max_difference`, `force`, `overwrite` and
            `compare`: see `Comparison`.

    Raises:
        BundleError: a file is missing or damaged, or a tokeniser cannot become ours.
        ConfigError: there is no such format.
        DownloadError: the hub refuses or cannot be reached.
        ExportError: our model cannot compute what this one does, or the certificate failed.
    """
    output, comparison = Path(output), Comparison(**options)
    require_replaceable(output, is_export=False, overwrite=comparison.overwrite)
    origin = find_origin(origin)
    form = format or find_format(origin.path)
    require_known("format", form, [*_READERS])
    with naming(origin.path):
        if form != "argos" and not origin.path.is_dir():  # a package of Argos may be an archive
            raise BundleError(f"{origin.path}: no such folder.")
        model = _READERS[form](origin.path)
    if model.config.name == origin.path.resolve().name:  # in the hub's cache, that is a commit
        model = replace(model, config=replace(model.config, name=origin.name))
    return _write(output, origin, model, comparison)


def import_huggingface(
    checkpoint: str | Path | Origin, output: str | Path, **options: Unpack[ComparisonOptions]
) -> Certificate | None:
    """Makes the model folder `output` from a checkpoint of `transformers`; see `import_model`."""
    return import_model(checkpoint, output, "huggingface", **options)


def _huggingface(folder: Path) -> ForeignModel:
    read = read_checkpoint(folder)

    def system() -> System:
        from transduce.export.huggingface_system import HuggingFaceSystem

        direction = Directions.of_data(read.tokenizer.tokenizer, read.config.data).example()
        return HuggingFaceSystem(folder, read.tokenizer, direction)

    is_installed = find_spec("transformers") is not None and find_spec("torch") is not None
    return replace(read, system=system if is_installed else None)


def _marian(folder: Path) -> ForeignModel:
    read = read_marian(folder)

    def system() -> System:
        from transduce.export.marian_system import MarianSystem

        return MarianSystem(folder, read.config, read.tokenizer)

    return replace(read, system=system if find_spec("torch") is not None else None)  # ours is run with torch


def _ctranslate2(folder: Path) -> ForeignModel:
    files = FolderFiles(folder)
    return read_ctranslate2(files, files)


# Reads each format that needs nothing but what was downloaded.
_READERS: dict[str, Callable[[Path], ForeignModel]] = {
    "huggingface": _huggingface,
    "marian": _marian,
    "ctranslate2": _ctranslate2,
    "argos": read_argos,
}


def import_torch(
    state: str | Path,
    description: str | Path | TorchDescription,
    tokenizer: str | Path,
    output: str | Path,
    **options: Unpack[ComparisonOptions],
) -> Certificate | None:
    """Makes the model folder `output` from the state dict of a `torch.nn.Transformer`.

    Args:
        state: a safetensors file.
        description: what the state dict does not say, or the TOML file that says it (`TorchDescription`).
        tokenizer: a `tokenizer.json`, or a folder with one: of Transduce, or of `tokenizers` if it can become ours.
        output: the model folder to write.
        options: as in `import_huggingface`. Without `sentences`, built-in ones are used. `references` are not used: a
            state dict has no search.

    Raises:
        BundleError: the state dict lacks something or has more than is described, or the tokeniser cannot become ours.
        ConfigError: the description is wrong, or the tokeniser has no token of that name.
        ExportError: our model cannot compute what this one does, or the certificate failed.
    """
    output, comparison = Path(output), Comparison(**options)
    require_replaceable(output, is_export=False, overwrite=comparison.overwrite)
    if not isinstance(description, TorchDescription):
        description = read_description(Path(description))
    parts = read_state(read_weights(Path(state)), description)
    read = _read_tokenizer(Path(tokenizer), description, len(parts.tables["source"]))
    shape, weights = to_model(parts, read.order)
    text = TextConfig(algorithm=read.tokenizer.algorithm, vocab_size=max(260, len(read.order)))
    config = Config(name=output.resolve().name, model=shape, text=text)

    def system() -> System:
        from transduce.export.torch_system import TorchSystem

        return TorchSystem(parts, read.order, read.tokenizer)

    runnable = system if find_spec("torch") is not None else None
    return _write(output, Origin(Path(state)), ForeignModel(config, weights, read, runnable), comparison)


def _write(output: Path, origin: Origin, model: ForeignModel, comparison: Comparison) -> Certificate | None:
    """Writes the model folder and compares it with the original, where that runs here."""
    sentences = comparison.choose_sentences(model.config)
    terms = terms_of(origin.path, card=CARD) if model.terms is None else model.terms
    metrics: dict[str, Any] = {"imported_from": origin.recorded}
    if licence := licence_in(terms):
        metrics["licence"] = licence
    certificate = None
    files.remove_leftovers(output.parent, output.name)
    with files.atomic_folder(output) as folder:
        tokenizer, heads = model.tokenizer.tokenizer, model.heads
        if heads is None and find_spec("torch") is not None:
            from transduce.engines.head_search import find_aligning_heads

            heads = find_aligning_heads(model.config.model, model.weights, tokenizer)
        bundle = save_bundle(folder, model.config, model.weights, tokenizer, metrics, heads, terms)
        model.weights.clear()  # the folder has them, and the comparison needs the memory
        if model.shortlist is not None:
            save_shortlist(bundle, model.shortlist)
        if model.system is not None and comparison.compare:
            certificate = certify(bundle, model.system, sentences, comparison.thresholds(EXACT), imported=True)
            certificate = replace(certificate, forced=comparison.force, original_sha256=_checksums(origin))
            certificate.require(str(output))
            metrics |= {
                "import_verdict": certificate.verdict,
                "import_token_agreement": certificate.measured.token_agreement,
            }
            save_metrics(bundle, metrics)
            card = folder / CARD
            text = card.read_text(encoding="utf-8").replace("trained with Transduce", "imported by Transduce")
            files.write_text(card, f"{text}\n## Certificate\n\n{certificate.to_markdown()}")
            write_certificate(folder, certificate)
        require_replaceable(output, is_export=False, overwrite=comparison.overwrite)  # a folder may have come there
    return certificate


def _checksums(origin: Origin) -> Mapping[str, str]:
    """Returns the SHA-256 of the file that was read, or of all files in a folder."""
    if origin.sha256:
        return origin.sha256
    path = origin.path
    if path.is_file():
        return {path.name: files.sha256(path)}
    return {str(each.relative_to(path)): files.sha256(each) for each in sorted(path.rglob("*")) if each.is_file()}


def _read_tokenizer(path: Path, description: TorchDescription, num_rows: int) -> ForeignTokenizer:
    """Loads a tokeniser of ours, or converts another one."""
    file = path / "tokenizer.json" if path.is_dir() else path
    try:
        own = load_tokenizer(file)
    except TokenizerError:
        return read_tokenizer(file, description.roles, description.decoder_start, num_rows)
    if description.decoder_start not in ("", BOS_TOKEN):
        raise ConfigError(
            f"decoder_start = '{description.decoder_start}': with a tokenizer of Transduce it is {BOS_TOKEN}."
        )
    if own.vocab_size != num_rows:
        raise BundleError(f"{file}: has {own.vocab_size} pieces, but the tables have {num_rows} rows.")
    return ForeignTokenizer(own, np.arange(num_rows))
