"""Makes a model folder of another system's model, and checks it against what that system computes."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from transduce import files
from transduce.bundle import save_bundle
from transduce.config import Config, TextConfig
from transduce.config.tensors import read_weights
from transduce.errors import BundleError, ConfigError, TokenizerError
from transduce.export.certificate import EXACT, Certificate, why_not_replaceable, write_certificate
from transduce.export.exports import certify, with_bounds
from transduce.export.forcing import System
from transduce.export.huggingface_reading import read_checkpoint
from transduce.export.huggingface_tokenizer import ForeignTokenizer, read_tokenizer
from transduce.export.sentences import Sentences, choose_sentences
from transduce.export.torch_description import TorchDescription, read_description
from transduce.export.torch_reading import take_apart, to_model
from transduce.text import BOS_TOKEN, SubwordTokenizer

FORMATS = ("huggingface", "torch")


def find_format(path: Path) -> str:
    """Returns the format of what stands at `path`: "huggingface" for a folder, "torch" for a file of weights.

    Raises:
        BundleError: neither fits; the message says what was looked for, and what was found.
    """
    if path.is_file() and path.suffix == ".safetensors":
        return "torch"
    if path.is_dir() and "model_type" in (settings := _settings(path / "config.json")):
        return "huggingface"
    if not path.exists():
        raise BundleError(f"{path}: no such file or folder.")
    found = _contents(path) if path.is_dir() else f"it is a file that ends in '{path.suffix}'"
    if path.suffix in (".pt", ".pth", ".bin", ".ckpt"):
        found += ", and nothing is unpickled: save the state dict with safetensors.torch.save_file"
    if path.is_dir() and "transduce" in settings:
        found = "its config.json is of Transduce: this is a model folder already"
    raise BundleError(
        f"{path}: no format fits. Looked for a folder whose config.json names a model_type (huggingface) and for a "
        f".safetensors file (torch); {found}."
    )


def _settings(path: Path) -> dict[str, Any]:
    """Returns the settings in a JSON file; nothing where it cannot be read, which who imports it then says."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _contents(folder: Path) -> str:
    names = sorted(each.name for each in folder.iterdir())
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"it holds {', '.join(names[:5])}{more}" if names else "it is empty"


def import_huggingface(
    checkpoint: str | Path,
    output: str | Path,
    *,
    sentences: Path | None = None,
    references: Path | None = None,
    sample: int = 200,
    threshold: float | None = None,
    max_difference: float | None = None,
    force: bool = False,
    overwrite: bool = False,
) -> Certificate | None:
    """Makes the model folder `output` of a Marian or Pegasus checkpoint of `transformers`.

    Where `transformers` is installed, both are run on `sample` sentences, and where they differ by more than the
    thresholds nothing is left at `output`; elsewhere the folder gets no certificate. For the arguments see
    `export_model`.

    Raises:
        BundleError: the checkpoint is incomplete or damaged, or its tokeniser cannot become ours.
        ExportError: our model cannot compute what this one does, or the certificate failed.
    """
    folder, output = Path(checkpoint), Path(output)
    require_new(output, overwrite=overwrite)
    if not folder.is_dir():
        raise BundleError(f"{folder}: no such folder.")
    read = read_checkpoint(folder)

    def system() -> System:
        from transduce.export.huggingface_system import HuggingFaceSystem

        return HuggingFaceSystem(folder, _with_rest(read.tokenizer.order, folder))

    chosen = choose_sentences(read.config, sentences, references, limit=sample)
    bounds = (threshold, max_difference)
    runnable = system if find_spec("transformers") is not None and find_spec("torch") is not None else None
    return _write(
        output, read.config, read.weights, read.tokenizer.tokenizer, str(folder), runnable, chosen, bounds, force
    )


def import_torch(
    state: str | Path,
    description: str | Path | TorchDescription,
    tokenizer: str | Path,
    output: str | Path,
    *,
    sentences: Path | None = None,
    references: Path | None = None,
    sample: int = 200,
    threshold: float | None = None,
    max_difference: float | None = None,
    force: bool = False,
    overwrite: bool = False,
) -> Certificate | None:
    """Makes the model folder `output` of the state dict of a `torch.nn.Transformer`.

    Args:
        state: a safetensors file.
        description: what the state dict does not say, or the TOML file that says it (`TorchDescription`).
        tokenizer: a `tokenizer.json`, or a folder with one: of Transduce, or of `tokenizers` if it can become ours.
        output: the model folder to write.
        sentences: a file of source lines; None takes built-in sentences. For the rest see `export_model`.
        references: see `export_model`; unused, since a state dict has no search.
        sample: see `export_model`.
        threshold: see `export_model`.
        max_difference: see `export_model`.
        force: see `export_model`.
        overwrite: whether to replace an earlier import that stands at `output`.

    Raises:
        BundleError: the state dict lacks something or has more than is described, or the tokeniser cannot become ours.
        ConfigError: the description is wrong, or the tokeniser has no token of that name.
        ExportError: our model cannot compute what this one does, or the certificate failed.
    """
    output = Path(output)
    require_new(output, overwrite=overwrite)
    if not isinstance(description, TorchDescription):
        description = read_description(Path(description))
    arrays = read_weights(Path(state))
    parts = take_apart(arrays, description)
    num_rows = len(arrays[description.source_embedding])
    taken = _take_tokenizer(Path(tokenizer), description, num_rows)
    model, weights = to_model(parts, arrays, taken.order)
    text = TextConfig(algorithm=taken.tokenizer.algorithm, vocab_size=max(260, num_rows))
    config = Config(name=output.resolve().name, model=model, text=text)

    def system() -> System:
        from transduce.export.torch_system import TorchSystem

        return TorchSystem(parts, arrays, taken.order, taken.tokenizer)

    chosen = choose_sentences(config, sentences, references, limit=sample)
    runnable = system if find_spec("torch") is not None else None
    bounds = (threshold, max_difference)
    return _write(output, config, weights, taken.tokenizer, str(state), runnable, chosen, bounds, force)


def _write(
    output: Path,
    config: Config,
    weights: Mapping[str, np.ndarray],
    tokenizer: SubwordTokenizer,
    origin: str,
    system: Callable[[], System] | None,
    sentences: Sentences,
    bounds: tuple[float | None, float | None],
    force: bool,
) -> Certificate | None:
    metrics: dict[str, Any] = {"imported_from": origin}
    with files.atomic_folder(output) as folder:
        bundle = save_bundle(folder, config, weights, tokenizer, metrics)
        if system is None:
            return None
        certificate = certify(bundle, system(), sentences, with_bounds(EXACT, *bounds), imported=True)
        certificate = replace(certificate, forced=force, original_sha256=_checksums(Path(origin)))
        certificate.require(str(output))
        metrics |= {
            "import_verdict": certificate.verdict,
            "import_token_agreement": certificate.measured.token_agreement,
        }
        save_bundle(folder, config, weights, tokenizer, metrics)
        card = folder / "README.md"
        text = card.read_text(encoding="utf-8").replace("trained with Transduce", "imported by Transduce")
        files.write_text(card, f"{text}\n## Certificate\n\n{certificate.to_markdown()}")
        write_certificate(folder, certificate)
    return certificate


def _checksums(origin: Path) -> dict[str, str]:
    """Returns those of the file that was read, or of all weights and the tokeniser in a folder."""
    if origin.is_file():
        return {origin.name: files.sha256(origin)}
    read = [*sorted(origin.glob("*.safetensors")), origin / "tokenizer.json"]
    return {path.name: files.sha256(path) for path in read}


def require_new(output: Path, *, overwrite: bool) -> None:
    """Refuses to replace what no import wrote as it stands, with a certificate, and any for lack of `overwrite`."""
    foreign = why_not_replaceable(output, is_export=False)
    files.require_free(output, overwrite=overwrite, foreign=foreign, error=BundleError)


def _with_rest(order: np.ndarray, folder: Path) -> np.ndarray:
    """Adds the rows of a checkpoint that are no tokens of ours: the one that a decoder starts from."""
    size = int(json.loads((folder / "config.json").read_text(encoding="utf-8"))["vocab_size"])
    return np.concatenate([order, np.setdiff1d(np.arange(size), order)])


def _take_tokenizer(path: Path, description: TorchDescription, num_rows: int) -> ForeignTokenizer:
    """Loads one of ours, or makes one of another's."""
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
