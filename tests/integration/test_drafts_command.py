"""`transduce translate --draft`: the output of greedy search, and what is refused."""

from pathlib import Path

import pytest

from made_models import made_bundle
from transduce import Translator
from transduce.cli.main import main
from transduce.errors import BundleError, ConfigError
from transduce.serve.config import BatchingConfig, ModelEntry
from transduce.serve.operations.metrics import Metrics
from transduce.serve.served_model import ServedModel

pytestmark = pytest.mark.computes

_LINES = ["a dog runs", "two dogs run", "", "the green grass", "a man with a ball", "the dog", "grass and a ball"]


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(made_bundle(tmp_path / "model", ending=1.5, block_size=3).path)


def translate(model: str, tmp_path: Path, *more: str) -> str:
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in _LINES))
    output = tmp_path / "out"
    given = ["translate", model, "--source", str(tmp_path / "in"), "--output", str(output), "--overwrite"]
    assert main([*given, "--engine", "torch", "--beam-size", "1", *more]) == 0
    return output.read_text()


def test_every_draft_gives_the_output_of_greedy_search(model: str, tmp_path: Path) -> None:
    smaller = made_bundle(tmp_path / "smaller", ending=1.0, num_decoder_layers=1).path
    (tmp_path / "never").write_text("dog\n")
    for more in ((), ("--forbid", str(tmp_path / "never")), ("--min-tokens", "4"), ("--batch-size", "1")):
        expected = translate(model, tmp_path, *more)
        assert expected.count("\n") == len(_LINES)
        for draft in ("self", "blockwise", str(smaller)):
            assert translate(model, tmp_path, *more, "--draft", draft) == expected


def test_drafts_are_verified_by_torch(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["translate", model, "--source", str(tmp_path / "in"), "--beam-size", "1", "--draft", "self"]
    (tmp_path / "in").write_text("a dog\n")
    assert main(given) == 0
    assert "engine: torch on cpu (ctranslate2 has no drafts: --draft self)" in capsys.readouterr().err
    assert main([*given, "--engine", "ctranslate2"]) == ConfigError.exit_code
    assert "--draft self: the ctranslate2 engine has no drafts. Use the torch engine" in capsys.readouterr().err


def test_what_drafts_cannot_serve_is_refused(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").write_text("a dog\n")
    given = ["translate", model, "--source", str(tmp_path / "in"), "--draft", "self"]
    for more in (["--beam-size", "4"], ["--beam-size", "1", "--temperature", "1"]):
        assert main([*given, *more]) == ConfigError.exit_code
        assert "--draft: drafts make greedy search faster. Add --beam-size 1" in capsys.readouterr().err
    assert main([*given, "--beam-size", "1", "--ensemble", model]) == ConfigError.exit_code
    assert "--draft: drafts need one model" in capsys.readouterr().err


def test_a_draft_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    plain = made_bundle(tmp_path / "plain").path
    with pytest.raises(ConfigError, match=r"no heads for later tokens\. 'transduce train --blockwise'"):
        Translator.load(plain, draft="blockwise")
    other = made_bundle(tmp_path / "other", words=["unheard"]).path
    with pytest.raises(BundleError, match=r"other: its tokenizer is not that of .*plain"):
        Translator.load(plain, draft=other)
    with pytest.raises(BundleError, match="nowhere"):
        Translator.load(plain, draft=tmp_path / "nowhere")


def test_the_service_takes_the_draft_of_its_configuration(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []
    original = Translator.load

    def load(path: str, **options: object) -> Translator:
        loaded.append(options["draft"])
        return original(path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Translator, "load", load)
    ServedModel.load(ModelEntry(path=model, draft="blockwise"), BatchingConfig(), Metrics())
    assert loaded == ["blockwise"]
