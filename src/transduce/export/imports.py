"""Makes a model folder from another system's model, and compares it with that system."""

from collections.abc import Callable
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
from transduce.errors import BundleError, ConfigError, TokenizerError
from transduce.export.certificate import EXACT, Certificate, require_replaceable, write_certificate
from transduce.export.exports import certify
from transduce.export.huggingface_reading import Checkpoint, read_checkpoint
from transduce.export.huggingface_tokenizer import ForeignTokenizer, read_tokenizer
from transduce.export.options import Comparison, ComparisonOptions
from transduce.export.system import System
from transduce.export.torch_description import TorchDescription, read_description
from transduce.export.torch_reading import read_state, to_model
from transduce.text import BOS_TOKEN, SubwordTokenizer


def find_format(path: Path) -> str:
    """Returns the format of `path`: "huggingface" for a folder, "torch" for a file of weights.

    Raises:
        BundleError: neither fits; the message says what was looked for, and what was found.
    """
    if path.is_file() and path.suffix == ".safetensors":
        return "torch"
    if path.is_dir() and "model_type" in (settings := read_or_empty(path / "config.json")):
        return "huggingface"
    if not path.exists():
        raise BundleError(f"{path}: no such file or folder.")
    found = _contents(path) if path.is_dir() else f"it is a file that ends in '{path.suffix}'"
    if path.suffix in (".pt", ".pth", ".bin", ".ckpt"):
        found += ", and nothing is unpickled: save the state dict with safetensors.torch.save_file"
    if path.is_dir() and "transduce" in settings:
        found = "its config.json was written by Transduce: this is already a model folder"
    raise BundleError(
        f"{path}: no format fits. Looked for a folder whose config.json names a model_type (huggingface) and for a "
        f".safetensors file (torch); {found}."
    )


def _contents(folder: Path) -> str:
    names = sorted(each.name for each in folder.iterdir())
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"it holds {', '.join(names[:5])}{more}" if names else "it is empty"


def import_huggingface(
    checkpoint: str | Path, output: str | Path, **options: Unpack[ComparisonOptions]
) -> Certificate | None:
    """Makes the model folder `output` from a Marian or Pegasus checkpoint of `transformers`.

    Where `transformers` is installed, both models are run on a sample of sentences. If they differ by more than the
    thresholds, nothing is left at `output`. Where it is not installed, the folder gets no certificate.

    Args:
        checkpoint: a folder that `save_pretrained` wrote.
        output: the model folder to write.
        options: `sentences`, `references`, `sample`, `threshold`, `max_difference`, `force` and `overwrite`: see
            `Comparison`.

    Raises:
        BundleError: the checkpoint is incomplete or damaged, or its tokeniser cannot become ours.
        ExportError: our model cannot compute what this one does, or the certificate failed.
    """
    folder, output, comparison = Path(checkpoint), Path(output), Comparison(**options)
    require_replaceable(output, is_export=False, overwrite=comparison.overwrite)
    if not folder.is_dir():
        raise BundleError(f"{folder}: no such folder.")
    read = read_checkpoint(folder)

    def system() -> System:
        from transduce.export.huggingface_system import HuggingFaceSystem

        return HuggingFaceSystem(folder, read.tokenizer.order)

    runnable = system if find_spec("transformers") is not None and find_spec("torch") is not None else None
    return _write(output, folder, read, runnable, comparison)


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
    return _write(output, Path(state), Checkpoint(config, weights, read), runnable, comparison)


def _write(
    output: Path, origin: Path, model: Checkpoint, system: Callable[[], System] | None, comparison: Comparison
) -> Certificate | None:
    """Writes the model folder and compares it with the original; `system` runs that, None where it is not installed."""
    sentences = comparison.choose_sentences(model.config)
    metrics: dict[str, Any] = {"imported_from": str(origin)}
    certificate = None
    with files.atomic_folder(output) as folder:
        tokenizer, heads = model.tokenizer.tokenizer, None
        if find_spec("torch") is not None:
            from transduce.engines.head_search import find_aligning_heads

            heads = find_aligning_heads(model.config.model, model.weights, tokenizer)
        bundle = save_bundle(folder, model.config, model.weights, tokenizer, metrics, heads)
        if system is not None:
            certificate = certify(bundle, system(), sentences, comparison.thresholds(EXACT), imported=True)
            certificate = replace(certificate, forced=comparison.force, original_sha256=_checksums(origin))
            certificate.require(str(output))
            metrics |= {
                "import_verdict": certificate.verdict,
                "import_token_agreement": certificate.measured.token_agreement,
            }
            save_metrics(bundle, metrics)
            card = folder / "README.md"
            text = card.read_text(encoding="utf-8").replace("trained with Transduce", "imported by Transduce")
            files.write_text(card, f"{text}\n## Certificate\n\n{certificate.to_markdown()}")
            write_certificate(folder, certificate)
        require_replaceable(output, is_export=False, overwrite=comparison.overwrite)  # a folder may have come there
    return certificate


def _checksums(origin: Path) -> dict[str, str]:
    """Returns the SHA-256 of the file that was read, or of all weights and the tokeniser in a folder."""
    if origin.is_file():
        return {origin.name: files.sha256(origin)}
    read = [*sorted(origin.glob("*.safetensors")), origin / "tokenizer.json"]
    return {path.name: files.sha256(path) for path in read}


def _read_tokenizer(path: Path, description: TorchDescription, num_rows: int) -> ForeignTokenizer:
    """Loads a tokeniser of ours, or converts another one."""
    file = path / "tokenizer.json" if path.is_dir() else path
    try:
        own = SubwordTokenizer.load(file)
    except TokenizerError:
        return read_tokenizer(file, description.roles, description.decoder_start, num_rows)
    if description.decoder_start not in ("", BOS_TOKEN):
        raise ConfigError(
            f"decoder_start = '{description.decoder_start}': with a tokenizer of Transduce it is {BOS_TOKEN}."
        )
    if own.vocab_size != num_rows:
        raise BundleError(f"{file}: has {own.vocab_size} pieces, but the tables have {num_rows} rows.")
    return ForeignTokenizer(own, np.arange(num_rows))
