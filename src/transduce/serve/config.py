"""The configuration of the service: `serve.toml`, and the options of the command line that win over it.

Each section of the file is a dataclass here; docs/guides/serving.md has an example with all keys. Paths in the file are
relative to its folder.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from transduce.config.home import expanded
from transduce.config.loading import apply_section, read_toml
from transduce.config.quantities import Beam, Count, CountOrNone
from transduce.config.ranges import Range, check_ranges, shown
from transduce.engines.interface import SHORTLIST_CHOICES, THREADS, require_known
from transduce.engines.loading import DRAFT_WAYS, require_engine
from transduce.errors import ConfigError, suggestion
from transduce.serve.state.store import IN_MEMORY
from transduce.translation.pipeline import TextOptions

Port = Annotated[int, Range(0, 65_535)]
Seconds = Annotated[float, Range(0, 86_400, above=True)]
SecondsOrNone = Annotated[float, Range(0, 31_536_000)]
Threads = Annotated[int, Range(0, THREADS.most)]
Bytes = Annotated[int, Range(1, 2**40)]

AUTO = "auto"
_URL = re.compile(r"https?://[^\s/?#]+(/[^\s?#]*)?")
_ORIGIN = re.compile(r"\*|null|[a-z][a-z\d+.-]*://[^\s/?#A-Z]+")  # as browsers send them: any other never matches
_MODELS = "models"  # the section that occurs in the file once for each model


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """Where the service listens."""

    host: str = "127.0.0.1"
    port: Port = 5000  # 0: any free one
    certificate: str = ""  # file, PEM; with one the service speaks TLS
    private_key: str = ""  # file, PEM; "": in the certificate's file
    public_url: str = ""  # how clients reach the service; "": a trusted proxy's Host, or the address they connected to
    trusted_proxies: tuple[str, ...] = ()  # addresses or networks whose forwarded headers are believed
    cors_origins: tuple[str, ...] = ()  # web pages of other origins that may call the service; "*": all
    max_connections: Count = 4096  # further ones are refused
    access_log: bool = True  # whether each request has a line, as JSON, on standard error
    metrics_port: Port = 0  # a port of its own for /metrics; 0: that of the service
    shutdown_seconds: SecondsOrNone = 0.0  # time for accepted work after a signal to stop; 0: no limit

    def __post_init__(self) -> None:
        check_ranges("server", self)
        if self.private_key and not self.certificate:
            raise ConfigError("server.private_key is given without server.certificate. Give both.")
        if self.public_url and not _URL.fullmatch(self.public_url):
            raise ConfigError(
                f"server.public_url = {shown(self.public_url)}: must be an address such as https://translate.example.org."
            )
        for origin in self.cors_origins:
            if not _ORIGIN.fullmatch(origin):
                raise ConfigError(
                    f"server.cors_origins: {shown(origin)}: must be as browsers send it, such as https://example.org "
                    'or http://localhost:8080, in lower case and without a path; or "*".'
                )


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """How models are run, as in `Translator.load`."""

    engine: str = "auto"
    quantization: str = ""  # "": float32
    threads: Threads = 0  # 0: the engine's default
    shortlist: str = "off"
    draft: str = ""  # what proposes tokens to greedy search: "self", "blockwise" or a smaller model; "": nothing

    def __post_init__(self) -> None:
        require_engine(self.engine, self.quantization or None)
        require_known("shortlist", self.shortlist, SHORTLIST_CHOICES)


@dataclass(frozen=True, kw_only=True)
class ModelEntry(EngineConfig):
    """One model folder, and how it is run."""

    path: str
    source: str = ""  # language code; "": the one in the model folder, or all of a model of several
    target: str = ""  # likewise
    zero_shot: bool = False  # whether a model of several languages serves pairs that it was not trained on
    unload_after_seconds: SecondsOrNone = 0.0  # without a request; 0: never

    def __post_init__(self) -> None:
        check_ranges(_MODELS, self)
        super().__post_init__()
        if not self.path:
            raise ConfigError(f"{_MODELS}.path is missing: name the model folder.")

    @property
    def name(self) -> str:
        """The name of its folder, by which metrics and the log call the model; of `runs/demo/model` "demo"."""
        folder = Path(self.path).resolve()
        return folder.parent.name if folder.name == "model" and folder.parent.name else folder.name


@dataclass(frozen=True, kw_only=True)
class FolderConfig(EngineConfig):
    """A folder whose models and packages are all served; they are loaded when first requested."""

    path: str = ""  # "": none
    max_loaded: CountOrNone = 8  # of its models in memory; the one unused for longest makes room; 0: no limit

    def __post_init__(self) -> None:
        check_ranges("folder", self)
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class PivotConfig:
    """Translation over a third language, where no model translates directly."""

    language: str = AUTO  # its code; "" disables; "auto": English where a folder is served, else none


@dataclass(frozen=True, kw_only=True)
class BatchingConfig:
    """How much work is accepted, and how much goes into a batch."""

    max_batch_tokens: CountOrNone = 0  # source tokens that are searched together; 0: what suits the engine
    max_wait_seconds: Seconds = 5.0  # a request that would wait longer for its first batch is refused
    max_waiting_sentences: Count = 20_000  # one that would make the queue longer is refused
    max_requests: Annotated[int, Range(1, 4096)] = 256  # that are worked on at once; further ones are refused
    deadline_seconds: Seconds = 30.0  # a request that is not answered by then is cancelled
    max_batch_seconds: Seconds = 600.0  # a batch that takes longer hangs: /health asks for a restart

    def __post_init__(self) -> None:
        check_ranges("batching", self)


@dataclass(frozen=True, kw_only=True)
class LimitsConfig:
    """The largest request."""

    body_bytes: Bytes = 2_000_000
    text_characters: Count = 100_000  # of all texts and prefixes of a request
    list_length: Count = 1000  # texts of a request
    term_characters: Count = 500  # of a required or forbidden term, or one of a glossary
    alternatives: CountOrNone = 10  # further translations of a text, after the best
    beam_size: Beam = 16
    document_bytes: Bytes = 20_000_000
    document_characters: Count = 2_000_000  # of a document that are translated

    def __post_init__(self) -> None:
        check_ranges("limits", self)
        if self.alternatives >= self.beam_size:
            raise ConfigError(
                f"limits.alternatives = {self.alternatives}: needs a beam of {self.alternatives + 1}, and "
                f"limits.beam_size is {self.beam_size}. Lower the one or raise the other."
            )


@dataclass(frozen=True, kw_only=True)
class DocumentsConfig:
    """How many documents are kept, and how many are translated."""

    running: Annotated[int, Range(1, 64)] = 2  # that are translated at a time; others wait
    waiting: Count = 100  # further ones are refused
    waiting_per_key: Count = 10  # of a key; further ones are refused
    stored_bytes: Bytes = 2_000_000_000  # of all documents and results
    keep_seconds: Annotated[float, Range(0, 31_536_000, above=True)] = 86_400.0  # a result that is done

    def __post_init__(self) -> None:
        check_ranges("documents", self)


@dataclass(frozen=True, kw_only=True)
class KeysConfig:
    """Who may use the service."""

    file: str = ""  # of keys; "": everybody may
    required: bool = True  # whether requests without a key are refused, where there is a file


@dataclass(frozen=True, kw_only=True)
class StateConfig:
    """Where glossaries, usage and documents are kept."""

    url: str = ""  # postgresql://…, the file of an SQLite database, or "memory"; "": a file of this user's


@dataclass(frozen=True, kw_only=True)
class LibretranslateConfig:
    """What clients of that protocol see."""

    title: str = "Transduce"  # of the description; some clients look for "LibreTranslate"


@dataclass(frozen=True, kw_only=True)
class ServeConfig:
    """The configuration of the service."""

    server: ServerConfig = field(default_factory=ServerConfig)
    models: tuple[ModelEntry, ...] = ()
    folder: FolderConfig = field(default_factory=FolderConfig)
    pivot: PivotConfig = field(default_factory=PivotConfig)
    batching: BatchingConfig = field(default_factory=BatchingConfig)
    text: TextOptions = field(
        default_factory=lambda: TextOptions(
            split="always", markup="placeholders", guard=True, capitals=True, signs=True
        )
    )
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    documents: DocumentsConfig = field(default_factory=DocumentsConfig)
    keys: KeysConfig = field(default_factory=KeysConfig)
    state: StateConfig = field(default_factory=StateConfig)
    libretranslate: LibretranslateConfig = field(default_factory=LibretranslateConfig)


# Keys that name a file.
_PATHS = {
    "server": ("certificate", "private_key"),
    "keys": ("file",),
    "state": ("url",),
    "folder": ("path", "draft"),
    _MODELS: ("path", "draft"),
}
_NO_FILES = {"url": (IN_MEMORY,), "draft": DRAFT_WAYS}  # what such a key may hold besides


def read_config(
    path: Path | None,
    models: Sequence[str] = (),
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    of_models: Mapping[str, Any] | None = None,
    *,
    needs_models: bool = True,
) -> ServeConfig:
    """Returns the configuration of a file, or the defaults, with what the command line says laid over it.

    Args:
        path: of the file; None for none.
        models: model folders to serve in place of those in the file. One that the file has too is served as it says.
        changes: sections with the keys that are set otherwise, such as `{"server": {"port": 80}}`.
        of_models: keys that are set otherwise for each model, also those of the folder, such as `{"engine": "torch"}`.
        needs_models: whether it is an error if there is no model and no folder.

    Raises:
        ConfigError: the file is missing or no TOML, a key is unknown, a value has the wrong type or range, or there is
            no model and no folder.
    """
    config = ServeConfig() if path is None else _from_file(path)
    for section, values in (changes or {}).items():
        changed = apply_section(getattr(config, section), dict(values), section)
        config = dataclasses.replace(config, **{section: changed})
    entries: Sequence[ModelEntry] = config.models
    if models:
        known: dict[Path, list[ModelEntry]] = {}
        for entry in entries:
            known.setdefault(Path(entry.path).resolve(), []).append(entry)  # several: each for other languages
        entries = [each for name in models for each in known.get(Path(name).resolve(), [ModelEntry(path=name)])]
    if needs_models and not entries and not config.folder.path:
        where = f"{path}: no [[models]]" if path is not None else "No model"
        raise ConfigError(f"{where}: name at least one model folder to serve, or a folder of them with --models.")
    of_each = dict(of_models or {})
    entries = [apply_section(entry, of_each, _MODELS) for entry in entries]
    folder = apply_section(config.folder, of_each, "folder")
    return dataclasses.replace(config, models=tuple(entries), folder=folder)


def _from_file(path: Path) -> ServeConfig:
    values = read_toml(path, "configuration of the service", "See docs/guides/serving.md for an example.")
    sections = get_type_hints(ServeConfig)
    config = ServeConfig()
    try:
        changes: dict[str, Any] = {}
        for key, value in values.items():
            if key not in sections:
                raise ConfigError(f"unknown section '{key}'.{suggestion(key, sections)}")
            if key == _MODELS:
                changes[key] = _model_entries(value, path.parent)
            else:
                changes[key] = _with_paths(apply_section(getattr(config, key), value, key), key, path.parent)
        return dataclasses.replace(config, **changes)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _model_entries(values: Any, folder: Path) -> tuple[ModelEntry, ...]:
    if not isinstance(values, list) or not all(isinstance(entry, dict) for entry in values):
        raise ConfigError(f"{_MODELS} = {shown(values)}: write [[{_MODELS}]] and its keys below, once for each model.")
    entries = []
    for given in values:
        # `apply_section` changes an entry, and there is none without a path.
        entry = apply_section(ModelEntry(path="."), {"path": ""} | given, _MODELS)
        entries.append(_with_paths(entry, _MODELS, folder))
    return tuple(entries)


def _with_paths(section: Any, name: str, folder: Path) -> Any:
    given = {key: getattr(section, key) for key in _PATHS.get(name, ())}
    names = {key: value for key, value in given.items() if value and value not in _NO_FILES.get(key, ())}
    return dataclasses.replace(section, **{key: _resolved(folder, path) for key, path in names.items()})


def _resolved(folder: Path, path: str) -> str:
    if "://" in path:  # the address of a store that is no file
        return path
    return str(folder / expanded(path))
