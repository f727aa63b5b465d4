"""How commands open a model, and what they write nowhere: over an input, or into a model folder."""

import errno
import os
import sys
from argparse import Namespace
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from made_models import made_bundle
from noted_calls import Noting
from transduce import files
from transduce.cli import open_model as opening
from transduce.cli.failures import lack_of_memory
from transduce.cli.main import main
from transduce.cli.open_model import Opened, load_translator, loaded_workers, loading_arguments, open_model, say_engine
from transduce.cli.output import print_report, require_no_input
from transduce.config import DecodeConfig
from transduce.engines.capabilities import Lack
from transduce.engines.loading import EngineChoice
from transduce.errors import (
    BundleError,
    ConfigError,
    DataError,
    DownloadError,
    EngineError,
    EvaluationError,
    ExportError,
    LostPeerError,
    MissingDependencyError,
    TokenizerError,
    TrainingError,
    TransduceError,
    require_resources,
)

MACHINE = {"model": Path("m"), "engine": "auto", "quantization": None, "device": "auto", "threads": None}


def args_of(**given: Any) -> Namespace:
    return Namespace(**MACHINE | {"quiet": False} | given)


@pytest.fixture
def bundle(noting: Noting) -> Any:
    config = SimpleNamespace(decode=DecodeConfig(beam_size=3), model="shape", data=SimpleNamespace(format="text"))
    bundle = SimpleNamespace(config=config, path=Path("m"), tokenizer=None)
    noting("transduce.bundle.Bundle.load", bundle)
    return bundle


def test_the_engine_is_chosen_for_what_is_asked_of_it(bundle: Any, noting: Noting) -> None:
    chosen = noting("transduce.engines.loading.choose_engine", EngineChoice("torch"))
    lacks: list[Any] = []
    lack = Lack("fast", "coverage", "coverage_penalty", "decode.coverage_penalty = 0.5")

    def lacking(*given: Any) -> Lack | None:
        lacks.append(given)
        return lack if given[0].coverage_penalty else None

    noting("transduce.engines.capabilities.tried_first", SimpleNamespace(lack=lacking))
    given = {"engine": "torch", "quantization": "int8", "device": "cpu", "ensemble": [Path("a"), Path("b")]}
    opened = open_model(args_of(**given, shortlist="on", beam_size=7, coverage_penalty=0.5))
    assert opened == Opened(bundle, DecodeConfig(beam_size=7, coverage_penalty=0.5), EngineChoice("torch"))
    assert lacks == [(opened.options, (), "shape")]
    [(names, further)] = chosen
    assert names == ("torch", "int8")
    assert further.pop("lack").shown == "--coverage-penalty 0.5"  # as it was typed
    assert further == {"device": "cpu", "model": "shape", "num_models": 3, "shortlist": "on", "draft": ""}
    bundle.config.decode = DecodeConfig(beam_size=3, coverage_penalty=0.5)
    open_model(args_of())
    assert chosen[1][0] == ("auto", None)
    rest = {"device": "auto", "model": "shape", "num_models": 1, "shortlist": "off", "draft": ""}
    assert chosen[1][1] == rest | {"lack": lack}  # as the model's configuration has it
    open_model(args_of(), search=False)
    assert chosen[2][1] == rest | {"lack": None}
    with pytest.raises(ConfigError, match="beam"):
        open_model(args_of(beam_size=1, coverage_penalty=0.0), required=True)


def test_a_translator_is_asked_for_a_direction_that_it_has(
    bundle: Any, noting: Noting, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Any] = []

    def choose(*given: str) -> Any:
        asked.append(given)
        return SimpleNamespace(notice="fr → it is zero-shot", wrong_source=lambda _: "")

    noting("transduce.translation.directions.Directions.of", SimpleNamespace(choose=choose))
    noting("transduce.engines.capabilities.tried_first", SimpleNamespace(lack=lambda *_: None))
    noting("transduce.engines.loading.choose_engine", EngineChoice("torch"))
    args = args_of(source_language="fr", target="it", domain="law")
    assert opening.open_translator(args).options == DecodeConfig(beam_size=3)
    assert capsys.readouterr().err == "transduce: note: fr → it is zero-shot\n"
    opening.open_translator(args_of(quiet=True))
    assert (asked, capsys.readouterr().err) == ([("fr", "it", "law"), ("", "", "")], "")
    with pytest.raises(ConfigError, match="--diversity-penalty acts between groups"):
        opening.open_translator(args_of(diversity_penalty=0.5))
    opening.open_translator(args_of(diversity_penalty=0.5, diversity_groups=3))
    bundle.config.data.format = "trees"
    with pytest.raises(ConfigError, match="m: this model is a parser"):
        opening.open_translator(args_of())


def test_a_model_is_loaded_into_the_engine_that_was_chosen(noting: Noting, capsys: pytest.CaptureFixture[str]) -> None:
    engine = SimpleNamespace(name="ctranslate2")
    loaded = noting("transduce.translation.translator.Translator.load", SimpleNamespace(engine=engine))
    fast = EngineChoice("ctranslate2", "a CPU")
    args = args_of(threads=3, quantization="int8", ensemble=[Path("a")], shortlist="auto", device="cpu")
    load_translator(args, Opened(None, DecodeConfig(), fast))  # type: ignore[arg-type]
    options = {"device": "cpu", "threads": 3, "quantization": "int8", "ensemble": [Path("a")], "shortlist": "auto"}
    assert loaded == [((Path("m"),), {"engine": "ctranslate2", **options})]
    assert capsys.readouterr().err == "transduce: engine: ctranslate2 (a CPU)\n"
    both = EngineChoice("ctranslate2", "a CPU", fallback="torch")
    assert loading_arguments(args_of(), both)["engine"] == "auto"  # what has both
    named = args_of(engine="torch")
    assert loading_arguments(named, EngineChoice("torch")) == {
        "engine": "torch",
        "device": "auto",
        "threads": None,
        "quantization": None,
    }
    say_engine(named, Opened(None, DecodeConfig(), fast), engine)  # type: ignore[arg-type]
    say_engine(args_of(quiet=True), Opened(None, DecodeConfig(), fast), engine)  # type: ignore[arg-type]
    assert capsys.readouterr().err == ""


def test_workers_of_a_cluster_load_the_same(noting: Noting, capsys: pytest.CaptureFixture[str]) -> None:
    workers = SimpleNamespace(num_workers=4)
    asked = noting("transduce.translation.streams.cluster.ray_workers", nullcontext(workers))
    opened: Any = Opened(None, DecodeConfig(), EngineChoice("torch"))  # type: ignore[arg-type]
    for quiet in (False, True):
        with loaded_workers(args_of(ray="auto", workers=4, threads=2, quiet=quiet), opened) as found:
            assert found is workers
    options = {"engine": "torch", "device": "auto", "threads": 2, "quantization": None}
    assert asked == [((Path("m"),), {"address": "auto", "num_workers": 4, **options})] * 2
    assert capsys.readouterr().err == "transduce: workers: 4\n"
    noting((opening, "load_translator"), "one")
    with loaded_workers(args_of(ray=None), opened) as found:
        assert found == "one"
    assert main(["translate", "m", "--workers", "2"]) == 2


@pytest.mark.parametrize(
    ("reference", "named", "refused"),
    [("test.fr", "", True), ("test.fr", "de", False), ("test.de", "", False), ("test.it", "", False), ("x", "", False)],
)
def test_a_reference_in_another_language_is_refused_unless_one_is_named(
    reference: str, named: str, refused: bool, noting: Noting
) -> None:
    directions = SimpleNamespace(
        targets=("de", "fr"), pairs=[("en", "de"), ("en", "fr")], example=lambda: SimpleNamespace(target="de")
    )
    noting("transduce.translation.directions.Directions.of", directions)
    bundle: Any = SimpleNamespace(tokenizer=None)
    said = r"test\.fr: is 'fr' by its name.*'de'.*add --to fr, or --to de if that"
    with pytest.raises(ConfigError, match=said) if refused else nullcontext():
        opening.require_named_target(bundle, named, Path(reference), "--to")


# --- outputs ----------------------------------------------------------------------------------------------------------


OWN = "config.json model.safetensors tokenizer.json metrics.json README.md confidence.json shortlist.safetensors"


def test_no_file_of_a_model_is_written_over(tmp_path: Path) -> None:
    model = made_bundle(tmp_path / "m").path
    (model / "ctranslate2" / "int8").mkdir(parents=True)
    for name in (*OWN.split(), "ctranslate2/int8/model.bin", "ctranslate2"):
        with pytest.raises(DataError, match="is an input of this command"):
            require_no_input(Namespace(model=model, output=model / name))
    require_no_input(Namespace(model=model, output=model / "notes.txt"))
    require_no_input(Namespace(model=model, output=tmp_path / "config.json"))
    for given in ({"output": model}, {"report": model / "config.json"}, {"pharaoh": model / "README.md"}):
        with pytest.raises(DataError):
            require_no_input(Namespace(ensemble=[model], **given))
    plain = tmp_path / "folder"
    plain.mkdir()
    (plain / "a").touch()
    with pytest.raises(DataError):
        require_no_input(Namespace(corpus=plain, output=plain / "a"))
    require_no_input(Namespace(corpus=plain, output=plain / "b"))
    (tmp_path / "link").symlink_to(plain / "a")
    for inputs in ({"source": str(plain / "a")}, {"train": [[str(plain / "a")]]}, {"glossary": plain / "a"}):
        with pytest.raises(DataError):
            require_no_input(Namespace(output=tmp_path / "link", **inputs))
    require_no_input(Namespace(output=Path("-"), glossary=plain / "a"))
    require_no_input(Namespace(output=plain / "a", domain=str(plain / "a")))  # a text that is no path


def test_tables_are_aligned_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("transduce.cli.output.aligned", str.upper)
    print_report("| a |")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_report("| a |")
    assert capsys.readouterr().out == "| a |\n| A |\n"


# --- errors -----------------------------------------------------------------------------------------------------------


def test_exit_codes() -> None:
    codes = {
        TransduceError: 1,
        EngineError: 1,
        ConfigError: 2,
        DataError: 3,
        DownloadError: 3,
        TokenizerError: 3,
        EvaluationError: 3,
        BundleError: 4,
        TrainingError: 5,
        LostPeerError: 5,
        MissingDependencyError: 6,
        ExportError: 7,
    }
    assert {each: each.exit_code for each in codes} == codes


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), MemoryError),
        (OSError(errno.ENOMEM, "x"), MemoryError),
        (OSError(errno.EAGAIN, "x"), MemoryError),
        (ValueError(f"arrow: {os.strerror(errno.ENOMEM)}"), MemoryError),
        (OSError(errno.EMFILE, "x"), OSError),
        (OSError(errno.ENFILE, "x"), OSError),
        (OSError(errno.ENOENT, "x"), None),
        (ValueError("damaged"), None),
    ],
)
def test_a_shortage_is_no_damage(error: Exception, expected: type[Exception] | None) -> None:
    if expected is None:
        require_resources(error, "a.bin")
        return
    with pytest.raises(expected, match=r"a\.bin") as caught:
        require_resources(error, "a.bin")
    if isinstance(caught.value, OSError):
        assert (caught.value.errno, caught.value.filename) == (error.errno, "a.bin")  # type: ignore[attr-defined]


def test_a_lack_of_memory_is_found_behind_other_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.cli.failures._address_space", lambda: (0, None))
    assert lack_of_memory(ValueError("x")) is None
    outer, middle = ImportError("partly imported\nmore"), ValueError("y")
    outer.__cause__, middle.__context__ = middle, MemoryError()
    assert str(lack_of_memory(outer)) == "ImportError: partly imported"
    assert str(lack_of_memory(RuntimeError("can't start new thread"))) == "RuntimeError: can't start new thread"
    assert str(lack_of_memory(MemoryError())) == "MemoryError"
    for left, found in (((128 << 20) - 1, True), (128 << 20, False)):
        monkeypatch.setattr("transduce.cli.failures._address_space", lambda left=left: (1 << 30, left))
        assert (lack_of_memory(ValueError("x")) is not None) == found
    monkeypatch.setattr("transduce.cli.failures._address_space", lambda: (1 << 30, 5 << 20))
    said = "5 MiB are left of the limit of 1024 MiB (ulimit -v) (ValueError: x)"
    assert str(lack_of_memory(ValueError("x"))) == said


def test_a_digest_is_kept_for_a_state_of_a_file_that_did_not_change_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_known_digests", {})
    hashed: list[Path] = []
    monkeypatch.setattr(files, "sha256", lambda path: hashed.append(path) or f"digest {len(hashed)}")
    states: list[Any] = [(1,), (1,), (1,), (2,), (3,), (3,), (3,), None]
    monkeypatch.setattr(files, "file_state", lambda _: states.pop(0))
    found = [files.cached_sha256(tmp_path) for _ in range(5)]
    # Hashed and kept; known; hashed while it changed from 2 to 3, so not kept; 3 is hashed; it changed a moment ago.
    assert found == ["digest 1", "digest 1", "digest 2", "digest 3", "digest 4"]
    assert [*files._known_digests] == [(1,), (3,)]
