"""Every command that translates or scores can be told the target language and the domain."""

import json
from pathlib import Path

import pytest

from made_models import TEXT, made_tagged_bundle
from transduce.augmentation.filtering.cross_entropy import ScorerTowards
from transduce.bundle import Bundle
from transduce.cli.main import main
from transduce.config import DataConfig
from transduce.config.corpora import CorpusConfig, HeldOutSetConfig
from transduce.engines.torch import TorchEngine
from transduce.errors import ConfigError
from transduce.evaluation import bleu
from transduce.translation.directions import Directions
from transduce.translation.pipeline import TextOptions
from transduce.translation.translator import Translator
from transduce.verification.model_under_test import ModelUnderTest
from transduce.verification.run import verify
from transduce.verification.sample import choose
from transduce.verification.settings import QUICK, Settings

pytestmark = pytest.mark.computes

LINES = [f"{line} {word}" for line in TEXT for word in ("dog", "grass", "man", "ball", "runs", "green")]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose default is German, though its first corpus is French."""
    folder = tmp_path_factory.mktemp("directions")
    for language in ("en", "de", "fr"):
        (folder / f"dev.{language}").write_text("".join(f"{language} {line}\n" for line in TEXT))
    languages = ("fr", "de")
    data = DataConfig(
        folder=str(folder),
        source_language="en",
        target_language="de",
        corpora=tuple(CorpusConfig(files=("t.tsv",), target_language=code, domain="law") for code in languages),
        validation_sets=tuple(
            HeldOutSetConfig(files=("dev.en", f"dev.{code}"), name=code, target_language=code) for code in languages
        ),
    )
    made_tagged_bundle(folder / "model", data)
    (folder / "lines.en").write_text("".join(f"{line}\n" for line in LINES))
    return folder / "model"


@pytest.fixture(scope="module")
def translator(model: Path) -> Translator:
    return Translator.load(model, engine="torch")


def test_inspect(model: Path, translator: Translator, tmp_path: Path) -> None:
    shown = {}
    for language in ("de", "fr"):
        output = tmp_path / f"{language}.json"
        asked = ["--target-language", language, "--domain", "law", "--arrays", str(output)]
        assert main(["inspect", str(model), "--sentence", LINES[1], *asked]) == 0
        shown[language] = json.loads(output.read_text())
        assert shown[language]["source_pieces"][:2] == [f"<2{language}>", "<domain:law>"]
        attention = translator.attend(LINES[1], target_language=language, domain="law")
        assert shown[language]["target_pieces"] == list(attention.target_pieces)
    assert shown["de"]["encoder"] != shown["fr"]["encoder"]
    alignments = []
    for language in ("de", "fr"):
        output = tmp_path / f"{language}.align"
        lines = str(model.parent / "lines.en")
        files = ["--source", lines, "--target", lines, "--pharaoh", str(output)]
        assert main(["inspect", str(model), *files, "--target-language", language, "--align-heads", "mean"]) == 0
        alignments.append(output.read_text())
    assert alignments[0] != alignments[1]


def test_calibrate(model: Path, translator: Translator, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half of the references are what the model writes when it is asked for French, and so good."""
    source, reference = tmp_path / "s", tmp_path / "r"
    written = translator.translate(LINES, text_options=TextOptions(target="fr", domain="law"))
    assert all(written)
    pairs = [
        (line, found if index % 2 else "0") for index, (line, found) in enumerate(zip(LINES, written, strict=True))
    ]
    source.write_text("".join(f"{line}\n" for line, _ in pairs * 4))
    reference.write_text("".join(f"{line}\n" for _, line in pairs * 4))
    command = ["calibrate", str(model), "--source", str(source), "--reference", str(reference), "--engine", "torch"]
    command += ["--json", "--overwrite", "--threshold", "99"]
    assert main([*command, "--target", "fr", "--domain", "law"]) == 0
    assert json.loads(capsys.readouterr().out)["share_good"] == 0.5
    assert (model / "confidence.json").is_file()
    (model / "confidence.json").unlink()
    # The default is that of the recipe, which is not the first tag of the vocabulary.
    written = translator.translate(LINES)
    reference.write_text("".join(f"{found if index % 2 else '0'}\n" for index, found in enumerate(written)) * 4)
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["share_good"] == 0.5
    (model / "confidence.json").unlink()


def test_sweep(model: Path, translator: Translator, tmp_path: Path) -> None:
    source, reference = str(model.parent / "lines.en"), tmp_path / "reference"
    reference.write_text("".join(f"{line}\n" for line in LINES))
    common = ["sweep", str(model), "--source", source, "--reference", str(reference), "--quiet"]
    common += ["--beam-size", "2", "--length-penalty", "0.6"]
    scores = {}
    for target in ("", "de", "fr"):
        output = tmp_path / f"sweep-{target}"
        assert main([*common, "--output", str(output), *(["--target", target] if target else [])]) == 0
        [point] = json.loads((output / "results.json").read_text())["measured"]
        scores[target] = point["score"]
        written = translator.translate(LINES, target=target, beam_size=2, length_penalty=0.6)
        assert point["score"] == bleu(written, [LINES]).value
    assert scores[""] == scores["de"]
    assert main([*common, "--output", str(tmp_path / "sweep-de"), "--target", "fr"]) != 0  # they cannot be compared


def test_the_models_of_a_filter(model: Path, translator: Translator, capsys: pytest.CaptureFixture[str]) -> None:
    scores = ScorerTowards(translator, "", "fr").score(LINES, LINES)
    assert scores == translator.score(LINES, LINES, target_language="fr") != translator.score(LINES, LINES)
    files = [str(model.parent / "dev.en"), str(model.parent / "dev.fr")]
    command = ["filter", "--train", *files, "--dry-run", "--quiet", "--engine", "torch"]
    command += ["--forward", str(model), "--backward", str(model)]
    assert main(command) != 0
    message = f"--forward {model}: writes fr, de: say which pair this is: --languages SOURCE TARGET."
    assert message in capsys.readouterr().err
    assert main([*command, "--languages", "en", "it"]) != 0
    assert "target language 'it': this model does not know it. It knows: fr, de." in capsys.readouterr().err
    assert main([*command, "--languages", "de", "fr"]) == 0


def test_verify(model: Path) -> None:
    bundle = Bundle.load(model)
    direction = Directions.of(bundle.tokenizer, bundle).choose("", "fr", "law")
    assert choose(bundle, None, 3, direction.target).origin.endswith("dev.en")
    tested = ModelUnderTest(bundle, choose(bundle, LINES, 4), TorchEngine.load(bundle), Settings(**QUICK), direction)
    tags = [bundle.tokenizer.tags[tag] for tag in ("<2fr>", "<domain:law>")]
    assert all(source[:2] == tags for source in tested.sources)
    with pytest.raises(ConfigError, match="It knows: fr, de"):
        verify(model, sentences=LINES, settings=Settings(target_language="it"))


@pytest.mark.parametrize(
    "command",
    [
        ["score", "MODEL", "--source", "dev.en", "--target", "dev.fr"],
        ["inspect", "MODEL", "--source", "dev.en", "--target", "dev.fr", "--pharaoh", "-"],
        ["evaluate", "--model", "MODEL", "--source", "dev.en", "--reference", "dev.fr"],
        ["calibrate", "MODEL", "--source", "lines.en", "--reference", "lines.fr"],
    ],
    ids=lambda command: command[0],
)
def test_a_reference_in_another_language_than_the_default_is_refused_unless_told(
    model: Path, command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(model.parent)
    Path("lines.en").write_text("".join(f"{line}\n" for line in LINES * 4))
    Path("lines.fr").write_text("".join(f"{line}\n" for line in LINES * 4))
    assert main([str(model) if each == "MODEL" else each for each in command]) != 0
    [line] = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    option = "--target" if command[0] in ("evaluate", "calibrate") else "--target-language"
    assert f"is 'fr' by its name, and the model writes 'de' where no language is named: add {option} fr" in line
