"""What can be refused before a model is loaded or converted is refused then, in the words that the user wrote."""

import re
from pathlib import Path

import pytest

from made_models import made_bundle
from transduce.cli.main import main
from transduce.engines import loading
from transduce.errors import install_command
from transduce.translation.translator import Translator


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return made_bundle(tmp_path / "model").path


@pytest.fixture(autouse=True)
def nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **named: object) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(Translator, "load", refuse)


TRANSLATE = (
    ("--engine ctranslate2 --temperature 0.5", 2, "--temperature 0.5: the ctranslate2 engine has no sampling"),
    ("--engine ctranslate2 --coverage-penalty 0.2", 2, "--coverage-penalty 0.2: the ctranslate2 engine has no"),
    ("--engine ctranslate2 --diversity-groups 2", 2, "--diversity-groups 2: the ctranslate2 engine has no diverse"),
    ("--engine ctranslate2 --ensemble MODEL", 2, "--ensemble: the ctranslate2 engine runs one model at a time"),
    ("--engine torch --quantization int16", 2, "quantization 'int16': the torch engine has"),
    ("--n-best 5", 2, "n-best = 5: must be at least 1 and at most the beam size, 4"),
    ("--n-best 0", 2, "--n-best 0: must be a whole number from 1"),
    ("--beam-size 1 --inline-terms", 2, "--beam-size 1: required phrases need 2 or more"),
    ("--inline-terms --guard", 2, "guard does not go with prefixes or required terms"),
    ("--diversity-penalty 1", 2, "--diversity-penalty acts between groups"),
    ("--length-penalty 1e308", 2, "--length-penalty 1e308: must be a number from 0 to 10"),
    ("--top-k 5", 2, "--top-k 5: must be 0 where decode.temperature is 0"),
)


@pytest.mark.parametrize(("options", "code", "message"), TRANSLATE, ids=[row[0] for row in TRANSLATE])
def test_translate_refuses_before_it_loads(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: str, code: int, message: str
) -> None:
    (tmp_path / "in.txt").write_text("A dog runs.\n", encoding="utf-8")
    (tmp_path / "terms.tsv").write_text("dog\tHund\n", encoding="utf-8")
    named = {"TERMS": str(tmp_path / "terms.tsv"), "MODEL": str(model)}
    given = [named.get(word, word) for word in options.split()]
    before = sorted(model.iterdir())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", None)  # nor is anything read
        try:
            found = main(["translate", str(model), "--source", str(tmp_path / "in.txt"), "--device", "cpu", *given])
        except SystemExit as ended:  # argparse's own
            found = int(str(ended.code))
    assert found == code
    assert message in capsys.readouterr().err
    assert sorted(model.iterdir()) == before


@pytest.mark.parametrize(
    "options",
    [
        ("score", "--source", "IN", "--target", "IN", "--length-penalty", "99"),
        ("calibrate", "--source", "IN", "--reference", "IN", "--beam-size", "100000"),
        ("calibrate", "--source", "IN", "--reference", "IN", "--threshold", "nan"),
        ("parse", "run", "--source", "IN", "--max-extra-tokens", "-1"),
    ],
    ids=" ".join,
)
def test_other_commands_refuse_before_they_load(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    (tmp_path / "in.txt").write_text("A dog runs.\n" * 60, encoding="utf-8")
    *command, first = options[: 2 + (options[0] == "parse")]
    given = [str(tmp_path / "in.txt") if word == "IN" else word for word in (first, *options[len(command) + 1 :])]
    try:
        found = main([*command, str(model), *given])
    except SystemExit as ended:
        found = int(str(ended.code))
    assert found == 2
    assert re.search(r"must be|chrF goes from 0 to 100", capsys.readouterr().err)


def test_auto_without_torch_says_what_to_install(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "find_spec", lambda name: None)
    (tmp_path / "in.txt").write_text("A dog runs.\n", encoding="utf-8")
    for options in (["--temperature", "1"], ["--ensemble", str(model)]):
        assert main(["translate", str(model), "--source", str(tmp_path / "in.txt"), *options]) == 6
        said = capsys.readouterr().err
        assert install_command("train") in said
        assert options[0] in said or "2 models" in said
