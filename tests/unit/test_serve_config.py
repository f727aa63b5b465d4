"""The configuration of the service: its file, the command line over it, and errors that name file and key."""

from pathlib import Path

import pytest

from transduce.engines.interface import THREADS
from transduce.errors import ConfigError
from transduce.serve.config import FolderConfig, LimitsConfig, ModelEntry, ServeConfig, ServerConfig, read_config
from transduce.translation.pipeline import TextOptions

WHOLE = """
[server]
host = "0.0.0.0"
port = 8080
certificate = "tls/certificate.pem"
trusted_proxies = ["10.0.0.0/8"]

[[models]]
path = "models/en-de"
quantization = "int8"
unload_after_seconds = 600

[[models]]
path = "models/de-fr"
source = "de"
target = "fr"

[pivot]
language = "de"

[batching]
deadline_seconds = 5

[text]
guard = false
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "serve.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_read_with_paths_from_its_folder(tmp_path: Path) -> None:
    config = read_config(written(tmp_path, WHOLE))
    assert config.server.host == "0.0.0.0"
    assert config.server.certificate == str(tmp_path / "tls" / "certificate.pem")
    assert config.server.private_key == ""
    assert config.server.trusted_proxies == ("10.0.0.0/8",)
    assert config.models == (
        ModelEntry(path=str(tmp_path / "models/en-de"), quantization="int8", unload_after_seconds=600.0),
        ModelEntry(path=str(tmp_path / "models/de-fr"), source="de", target="fr"),
    )
    assert [entry.name for entry in config.models] == ["en-de", "de-fr"]
    assert config.batching.deadline_seconds == 5.0
    assert config.text == TextOptions(split="always", markup="placeholders", guard=False, capitals=True, signs=True)
    assert config.limits == ServeConfig().limits


def test_the_command_line_wins(tmp_path: Path) -> None:
    path = written(tmp_path, WHOLE)
    models = [str(tmp_path / "models/en-de"), "elsewhere/de-en"]
    config = read_config(path, models, {"server": {"port": 80}}, {"engine": "ctranslate2"})
    assert config.server.port == 80
    assert config.server.host == "0.0.0.0"
    assert [entry.path for entry in config.models] == models
    assert [entry.quantization for entry in config.models] == ["int8", ""], "a model that the file has keeps its keys"
    assert {entry.engine for entry in config.models} == {"ctranslate2"}


def test_a_model_of_the_file_is_known_by_any_path_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, WHOLE)
    for name in ("models/en-de", "models/../models/en-de/"):
        [entry] = read_config(path, [name]).models
        assert (entry.quantization, entry.unload_after_seconds) == ("int8", 600.0)


def test_all_entries_of_a_model_that_the_command_line_names_are_served(tmp_path: Path) -> None:
    entries = "".join(f'[[models]]\npath = "m"\nsource = "en"\ntarget = "{code}"\n' for code in ("de", "fr"))
    config = read_config(written(tmp_path, entries), [str(tmp_path / "m")])
    assert [entry.target for entry in config.models] == ["de", "fr"]


def test_what_the_command_line_leaves_open_stays(tmp_path: Path) -> None:
    path = written(tmp_path, WHOLE)
    changed = read_config(path, changes={"keys": {"file": "k"}, "state": {"url": "memory"}})
    assert (changed.keys.file, changed.keys.required, changed.state.url) == ("k", True, "memory")
    assert changed.models == read_config(path).models


@pytest.mark.parametrize(("draft", "expected"), [("small", "/srv/small"), ("self", "self"), ("", "")])
def test_a_model_that_drafts_is_next_to_the_file(tmp_path: Path, draft: str, expected: str) -> None:
    text = f'[[models]]\npath = "large"\ndraft = "{draft}"\n[folder]\npath = "all"\ndraft = "{draft}"\n'
    config = read_config(written(tmp_path, text))
    found = [each.draft.replace(str(tmp_path), "/srv") for each in (config.models[0], config.folder)]
    assert found == [expected] * 2


def test_a_folder_of_models_is_enough(tmp_path: Path) -> None:
    path = written(tmp_path, '[folder]\npath = "packages"\nengine = "torch"\n')
    assert read_config(path).folder == FolderConfig(path=str(tmp_path / "packages"), engine="torch")
    changed = read_config(path, ["m"], {"folder": {"path": "p", "max_loaded": 3}}, {"engine": "ctranslate2"})
    assert changed.folder == FolderConfig(path="p", max_loaded=3, engine="ctranslate2")
    assert changed.models == (ModelEntry(path="m", engine="ctranslate2"),)


@pytest.mark.parametrize(
    ("section", "key", "least", "most", "below", "above"),
    [
        ("server", "port", 0, 65_535, -1, 65_536),
        ("server", "metrics_port", 0, 65_535, -1, 65_536),
        ("server", "shutdown_seconds", 0, 31_536_000, -0.1, 31_536_001),
        ("batching", "max_wait_seconds", 0.001, 86_400, 0, 86_401),
        ("batching", "deadline_seconds", 0.001, 86_400, 0, 86_401),
        ("batching", "max_batch_seconds", 0.001, 86_400, 0, 86_401),
        ("batching", "max_requests", 1, 4096, 0, 4097),
        ("folder", "max_loaded", 0, 1_000_000_000, -1, 1_000_000_001),
        ("folder", "threads", 0, THREADS.most, -1, THREADS.most + 1),
        ("limits", "body_bytes", 1, 2**40, 0, 2**40 + 1),
        ("limits", "document_bytes", 1, 2**40, 0, 2**40 + 1),
        ("documents", "running", 1, 64, 0, 65),
        ("documents", "stored_bytes", 1, 2**40, 0, 2**40 + 1),
        ("documents", "keep_seconds", 0.001, 31_536_000, 0, 31_536_001),
    ],
)
def test_values_at_their_bounds(section: str, key: str, least: float, most: float, below: float, above: float) -> None:
    for value in (least, most):
        config = read_config(None, ["m"], {section: {key: value}})
        assert getattr(getattr(config, section), key) == value
    for value in (below, above):
        with pytest.raises(ConfigError, match=f"{section}.{key} = "):
            read_config(None, ["m"], {section: {key: value}})


def test_without_a_file_models_are_named_on_the_command_line() -> None:
    assert read_config(None, ["models/a"]).models == (ModelEntry(path="models/a"),)
    with pytest.raises(ConfigError, match="at least one"):
        read_config(None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[serverr]\n", "unknown section 'serverr'. Did you mean 'server'?"),
        ("[server]\nprt = 1\n", "unknown key 'server.prt'. Did you mean 'port'?"),
        ("[server]\nport = 70000\n", "server.port = 70000: must be from 0 to 65,535."),
        ('[server]\nport = "80"\n', "server.port = '80': must be a whole number."),
        ('[server]\nprivate_key = "key.pem"\n', "server.certificate"),
        *(
            (f'[server]\ncors_origins = ["*", "{origin}"]\n', f"server.cors_origins: '{origin}': must be as browsers")
            for origin in ("example.org", "https://example.org/", "https://example.org/a", "https://Example.org", "")
        ),
        (
            '[server]\npublic_url = "translate.example.org"\n',
            "server.public_url = 'translate.example.org': must be an ad",
        ),
        ("[limits]\nbeam_size = 4\n", "limits.alternatives = 10: needs a beam of 11, and limits.beam_size is 4."),
        ("server = 1\n", "'server' is a section"),
        ('[models]\npath = "a"\n', "models = "),
        ('[[models]]\nsource = "en"\n', "models.path is missing"),
        ('[[models]]\npath = "a"\npth = "b"\n', "unknown key 'models.pth'. Did you mean 'path'?"),
        ('[[models]]\npath = "a"\nengine = "torh"\n', "Did you mean 'torch'?"),
        ('[[models]]\npath = "a"\nshortlist = "yes"\n', "shortlist"),
        ('[folder]\nengine = "torh"\n', "Did you mean 'torch'?"),
        ('[text]\nsplit = "alwys"\n', "Did you mean 'always'?"),
        ("[batching]\ndeadline_seconds = 0\n", "batching.deadline_seconds = 0.0"),
        ("[batching\n", "not a TOML file"),
    ],
)
def test_an_error_names_the_file_and_the_key(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as found:
        read_config(path)
    assert str(found.value).startswith(f"{path}: ")
    assert message in str(found.value)


def test_origins_as_browsers_send_them_are_accepted() -> None:
    origins = ("*", "null", "https://example.org", "http://localhost:8080", "http://[::1]:5000", "moz-extension://4f-2")
    assert ServerConfig(cors_origins=origins).cors_origins == origins


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such configuration of the service"):
        read_config(tmp_path / "none.toml")


def test_bounds_of_models(tmp_path: Path) -> None:
    for key, most in (("unload_after_seconds", 31_536_000), ("threads", THREADS.most)):
        assert getattr(ModelEntry(path="m", **{key: most}), key) == most  # type: ignore[arg-type]
        for wrong in (-1, most + 1):
            with pytest.raises(ConfigError, match=f"models.{key} = "):
                ModelEntry(path="m", **{key: wrong})  # type: ignore[arg-type]
    for key in ("engine", "quantization", "shortlist"):
        with pytest.raises(ConfigError, match=key):
            ModelEntry(path="m", **{key: "wrong"})  # type: ignore[arg-type]


@pytest.mark.parametrize("url", ["memory", "postgresql://transduce@db/transduce", ""])
def test_the_address_of_a_store_that_is_no_file_stays(tmp_path: Path, url: str) -> None:
    path = written(tmp_path, f'[[models]]\npath = "m"\n[state]\nurl = "{url}"\n')
    assert read_config(path).state.url == url
    path = written(tmp_path, '[[models]]\npath = "m"\n[state]\nurl = "serve.db"\n')
    assert read_config(path).state.url == str(tmp_path / "serve.db")


def test_files_of_keys_and_certificates_are_beside_the_file_or_in_the_user_s_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/srv/one")
    text = '[[models]]\npath = "~/m"\n[server]\ncertificate = "/c.pem"\nprivate_key = "p.pem"\n[keys]\nfile = "k"\n'
    config = read_config(written(tmp_path, text))
    server = config.server
    assert (server.certificate, server.private_key) == ("/c.pem", str(tmp_path / "p.pem"))
    assert (config.keys.file, config.models[0].path) == (str(tmp_path / "k"), "/srv/one/m")
    assert read_config(written(tmp_path, '[[models]]\npath = "m"\n')).keys.file == ""


def test_a_model_is_called_by_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = {path: ModelEntry(path=path).name for path in ("runs/demo/model", "models/en-de/", "/model", "model")}
    assert names == {
        "runs/demo/model": "demo",
        "models/en-de/": "en-de",
        "/model": "model",
        "model": tmp_path.name,
    }


def test_a_beam_of_one_more_than_the_alternatives_is_enough() -> None:
    assert LimitsConfig(alternatives=10, beam_size=11).beam_size == 11
    with pytest.raises(ConfigError, match="beam of 12"):
        LimitsConfig(alternatives=11, beam_size=11)
