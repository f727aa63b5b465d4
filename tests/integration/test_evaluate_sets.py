"""`transduce evaluate --model`: the test sets of a recipe, each in its own direction."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from made_models import TEXT, made_tagged_bundle
from transduce.bundle import save_bundle
from transduce.cli.main import main
from transduce.config import DataConfig, load_recipe
from transduce.config.corpora import CorpusConfig, HeldOutSetConfig
from transduce.data.prepare import prepare
from transduce.errors import ConfigError
from transduce.evaluation import Text, bleu, chrf
from transduce.translation.pipeline import TextOptions
from transduce.translation.set_scores import EvaluationSet, read_test_sets, score_sets
from transduce.translation.translator import Translator

pytestmark = pytest.mark.computes

PAIRS = {"en-de": ("en", "de"), "en-fr": ("en", "fr"), "de-fr": ("de", "fr")}


def recipe_data(folder: Path) -> DataConfig:
    """Returns what a model of English to German and French was trained on, with a zero-shot test set."""
    trained = [("de", ""), ("fr", "law")]
    return DataConfig(
        folder=str(folder),
        source_language="en",
        target_language="de",
        corpora=tuple(
            CorpusConfig(files=("t.en", f"t.{language}"), target_language=language, domain=domain)
            for language, domain in trained
        ),
        test_sets=tuple(
            HeldOutSetConfig(
                files=("test.en", "test.out"),
                name=name,
                source_language=source,
                target_language=target,
                domain="law" if name == "en-fr" else "",
            )
            for name, (source, target) in PAIRS.items()
        ),
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets")
    (folder / "test.en").write_text("".join(f"{line}\n" for line in TEXT))
    (folder / "test.out").write_text("".join(f"{line}\n" for line in reversed(TEXT)))
    made_tagged_bundle(folder / "model", recipe_data(folder))
    return folder / "model"


def test_each_set_is_translated_in_its_own_direction(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--model", str(model), "--engine", "torch", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    translator = Translator.load(model, engine="torch")
    references = [*reversed(TEXT)]
    written = {}
    for each in report["sets"]:
        source, target = PAIRS[each["name"]]
        domain = "law" if each["name"] == "en-fr" else ""
        zero_shot = pytest.warns(UserWarning, match="zero-shot") if source == "de" else contextlib.nullcontext()
        options = TextOptions(language="de" if source == "de" else "", target=target, domain=domain)
        with zero_shot:
            written[each["name"]] = translator.translate(TEXT, text_options=options)
        scores = translator.score(TEXT, references, target_language=target, domain=domain)
        total = -sum(score.log_probability for score in scores)
        assert each["subwords"] == sum(len(score.pieces) for score in scores)
        assert each["scores"]["bleu"]["value"] == bleu(written[each["name"]], [references]).value
        assert each["scores"]["chrf"]["value"] == chrf(written[each["name"]], [references]).value
        assert total > 0
        assert (each["source_language"], each["target_language"], each["domain"]) == (source, target, domain)
        assert each["zero_shot"] == (source == "de")
    assert list(written) == [*PAIRS]
    assert written["en-de"] != written["en-fr"] != written["de-fr"]


def test_each_set_is_translated_with_its_own_tags(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, stream = [], Translator.stream

    def recorded(translator: Translator, lines: Any, **options: Any) -> Any:
        given = options["text_options"]
        seen.append((given.language, given.target, given.domain))
        return stream(translator, lines, **options)

    monkeypatch.setattr(Translator, "stream", recorded)
    assert main(["evaluate", "--model", str(model), "--engine", "torch"]) == 0
    assert seen == [("en", "de", ""), ("en", "fr", "law"), ("de", "fr", "")]


def test_warnings_of_leaks_come_beside_the_others(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    train = tmp_path / "train.en"
    train.write_text("A man with a red ball walks through the park.\n")
    for more in ((), ("--train", str(train))):
        assert main(["evaluate", "--model", str(model), "--engine", "torch", "--json", *more]) == 0
        found.append(json.loads(capsys.readouterr().out)["warnings"])
    assert found[0]
    assert found[1][: len(found[0])] == found[0]


def test_the_table_has_a_row_for_each_set_and_marks_zero_shot(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["evaluate", "--model", str(model), "--engine", "torch"]
    assert main([*common, "--metrics", "chrf", "--intervals"]) == 0
    header, _, *rows = capsys.readouterr().out.splitlines()
    assert header == "| test set | languages | domain | lines | perplexity | chrF2 |"
    assert [row.split(" | ")[1] for row in rows[:3]] == ["en → de", "en → fr", "de → fr (zero-shot)"]
    assert [row.split(" | ")[2] for row in rows[:3]] == ["", "law", ""]
    assert all("±" in row for row in rows[:3])
    assert rows[3] == ""
    assert rows[4].startswith("chrF2: nrefs:1|")
    assert main([*common, "--sets", "de-fr", "--beam-size", "1"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0] == "| test set | languages | lines | perplexity | BLEU, 13a | chrF2 |"
    assert [row for row in rows if row.startswith("| de-fr | de → fr (zero-shot) | 3 |")]


def test_files_given_by_hand_are_translated_as_asked(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = model.parent
    files = ["--source", str(folder / "test.en"), "--reference", str(folder / "test.out")]
    common = ["evaluate", "--model", str(model), "--engine", "torch", "--json"]
    assert main([*common, "--sets", "en-fr"]) == 0
    [by_recipe] = json.loads(capsys.readouterr().out)["sets"]
    assert main([*common, "--translate", *files, "--target", "fr", "--domain", "law"]) == 0
    [by_hand] = json.loads(capsys.readouterr().out)["sets"]
    assert by_hand | {"name": "en-fr", "warnings": []} == by_recipe | {"warnings": []}
    assert main([*common, "--translate", *files, "--target", "fr", "--source-language", "de"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["sets"][0]["zero_shot"]
    assert "de → fr is zero-shot" in shown.err


def test_versions_of_a_set_have_a_row_each(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["evaluate", "--model", str(model), "--engine", "torch", "--beam-size", "1", "--robustness"]
    assert main([*common, "--sets", "en-fr", "--metrics", "chrf"]) == 0
    header, _, *rows = capsys.readouterr().out.splitlines()
    assert header == "| test set | version | lines | chrF2 | copied | loops |"
    assert [row.split(" | ")[1].strip() for row in rows[:2]] == ["clean", "upper case"]
    assert len(rows) == 11 + 2
    assert rows[-1].startswith("chrF2: nrefs:1|")
    files = ["--source", str(model.parent / "test.en"), "--reference", str(model.parent / "test.out")]
    assert main([*common, "--translate", *files, "--target", "fr", "--json"]) == 0
    versions = json.loads(capsys.readouterr().out)["versions"]
    assert [each["kept_share"] is None for each in versions] == [True] * 6 + [False] * 4 + [True]
    assert {each["num_lines"] for each in versions} == {3}


def test_a_recipe_may_name_other_sets(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "other.toml"
    recipe.write_text('[data]\nfolder = "."\ntarget_language = "fr"\ntest = { one = ["test.en", "test.out"] }\n')
    arguments = ["evaluate", "--model", str(model), "--recipe", str(recipe), "--engine", "torch", "--json"]
    assert main(arguments) != 0
    missing = f"test set 'one': {tmp_path / 'test.en'}: no such file. Name its folder: --corpus DIR."
    assert missing in capsys.readouterr().err
    assert main([*arguments, "--corpus", str(model.parent)]) == 0
    [scores] = json.loads(capsys.readouterr().out)["sets"]
    assert (scores["name"], scores["target_language"]) == ("one", "fr")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sets", "en-dee"], "There is no test set 'en-dee'; there are: en-de, en-fr, de-fr."),
        (["--target", "fr"], "each test set of the recipe says its own"),
        (["--translate"], "--translate needs --model, --source and --reference"),
        (["--sets", "en-de", "--source", "x", "--reference", "y"], "--sets is for the test sets of a recipe"),
        (["--source", "test.en", "--reference", "test.out", "--beam-size", "1"], "add --translate"),
        (["--source", "test.en", "--reference", "test.fr"], "add --target fr, or --target de if that is meant"),
        (["--translate", "--source", "test.en", "--reference", "test.fr"], "the model writes 'de' where no language"),
        (["--robustness", "--source", "x", "--reference", "y"], "--robustness translates: give --model MODEL without"),
        (["--robustness", "--train", "x"], "--train looks for test lines as they are: leave it out with --robustness."),
        (["--translate", "--source", "a.tsv", "--reference", "a.tsv"], "a.tsv is named as source and as reference"),
        (["--translate", "--source", "-", "--reference", "-"], "standard input ('-') can be only one of the files"),
    ],
)
def test_what_is_refused(
    model: Path,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(model.parent)
    Path("test.fr").write_text("".join(f"{line}\n" for line in TEXT))
    assert main(["evaluate", "--model", "model", *arguments]) != 0
    assert message in capsys.readouterr().err


def test_sets_without_a_language_are_refused_where_the_model_has_several(tmp_path: Path) -> None:
    data = replace(recipe_data(tmp_path), target_language="", test_sets=(), test={"any name": ("test.en", "test.out")})
    with pytest.raises(
        ConfigError, match=r"'any name': does not say which of the target languages it is in \(de, fr\)"
    ):
        read_test_sets(data)
    with pytest.raises(ConfigError, match="names no test sets"):
        read_test_sets(replace(data, test={}))


def test_a_model_that_does_not_know_a_language_is_told_before_work_begins(model: Path) -> None:
    translator = Translator.load(model, engine="torch")
    sets = read_test_sets(recipe_data(model.parent))
    with pytest.raises(ConfigError, match="test set 'en-de': target language 'it': this model does not know it"):
        score_sets(translator, [replace(sets[0], target_language="it"), *sets[1:]])


def test_a_model_of_one_pair_has_a_row_too(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Recipes of before: named test sets, and no tags."""
    from made_models import made_bundle

    made = made_bundle(tmp_path / "made", ending=0.4)
    data = DataConfig(
        folder=str(model.parent),
        source_language="en",
        target_language="de",
        train=(("t.en", "t.de"),),
        test={"old": ("test.en", "test.out")},
    )
    save_bundle(tmp_path / "model", replace(made.config, data=data), made.weights(), made.tokenizer, {})
    assert main(["evaluate", "--model", str(tmp_path / "model"), "--engine", "torch"]) == 0
    assert capsys.readouterr().out.splitlines()[2].startswith("| old | en → de | 3 |")


def test_the_name_of_a_reference_tells_its_language_where_the_model_does_not(tmp_path: Path) -> None:
    """It matters for the paper's BLEU, which splits apostrophes as the language does."""
    from made_models import made_bundle

    translator = Translator.load(made_bundle(tmp_path / "made", ending=0.4).path, engine="torch")
    one = EvaluationSet(name="one", source=Text("test.en", TEXT), references=[Text("folder/test.fr", TEXT)])
    [scores] = score_sets(translator, [one], metrics=["bleu-paper"])
    assert "tok:moses-like-fr+" in scores.evaluation.scores["bleu-paper"].signature
    [scores] = score_sets(translator, [one], metrics=["bleu-paper"], options={"language": "de"})
    assert "tok:moses-like-de+" in scores.evaluation.scores["bleu-paper"].signature


def test_both_forms_of_test_sets_are_prepared_alike(tmp_path: Path) -> None:
    for name in ("t.en", "t.de", "x.en", "x.de"):
        (tmp_path / name).write_text("".join(f"{name} {number} and more text\n" for number in range(30)))
    recipe = tmp_path / "recipe.toml"
    start = '[text]\nvocab_size = 300\n[data]\nfolder = "."\ntrain = [["t.en", "t.de"]]\n'
    recipe.write_text(f'{start}test = {{ x = ["x.en", "x.de"] }}\n')
    assert not prepare(load_recipe(recipe), tmp_path / "data", progress=False).reused
    recipe.write_text(f'{start}[[data.test_sets]]\nname = "x"\nfiles = ["x.en", "x.de"]\n')
    report = prepare(load_recipe(recipe), tmp_path / "data", progress=False)
    assert report.reused
    assert report.held_out_pairs == {"test.x": 30}
