"""Every option of a command is passed on, as what it is called, to what does the work."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from made_models import made_tagged_bundle
from noted_calls import Calls, Noting
from transduce.cli import calibrate, student
from transduce.cli.main import main
from transduce.config import Config, DataConfig, DecodeConfig
from transduce.config.corpora import CorpusConfig
from transduce.config.filter_options import FilterOptions
from transduce.export.hub import Origin
from transduce.translation.translator import Translator

_CERTIFICATE = SimpleNamespace(to_markdown=lambda: "as good")
_COMPARED = "--source s.en --reference r.de --sample 7 --threshold 0.9 --max-difference 0.2 --force --overwrite"
_COMPARISON = {"sentences": Path("s.en"), "references": Path("r.de"), "sample": 7, "threshold": 0.9}
_COMPARISON |= {"max_difference": 0.2, "force": True, "overwrite": True}
_DEFAULTS = {"sentences": None, "references": None, "sample": 200, "threshold": None, "max_difference": None}
_DEFAULTS |= {"force": False, "overwrite": False}


def test_export(noting: Noting, capsys: pytest.CaptureFixture[str]) -> None:
    calls = noting("transduce.export.exports.export_model", _CERTIFICATE)
    noting("transduce.cli.requirements.require")  # nothing here uses PyTorch
    given = "export m --format ctranslate2 --output o"
    assert main(f"{given} --quantization int8 --shortlist {_COMPARED}".split()) == 0
    assert main(given.split()) == 0
    names = (Path("m"), Path("o"), "ctranslate2")
    assert calls == [
        (names, {"quantization": "int8", "shortlist": True, **_COMPARISON}),
        (names, {"quantization": "float32", "shortlist": False, **_DEFAULTS}),
    ]
    assert capsys.readouterr().out == "as good\n" * 2


def test_import(noting: Noting, capsys: pytest.CaptureFixture[str]) -> None:
    of_torch = noting("transduce.export.imports.import_torch", _CERTIFICATE)
    of_others = noting("transduce.export.imports.import_model")
    noting("transduce.export.hub.find_origin", Origin(Path("s")))
    given = "import s --output o --format"
    assert main(f"{given} torch --description d --tokenizer t {_COMPARED}".split()) == 0
    assert of_torch == [((Path("s"), Path("d"), Path("t"), Path("o")), _COMPARISON | {"compare": True})]
    assert "nothing was compared" not in capsys.readouterr().err
    for form in ("huggingface", "marian"):
        assert main(f"{given} {form} {_COMPARED}".split()) == 0
        assert of_others.pop() == ((Origin(Path("s")), Path("o"), form), _COMPARISON | {"compare": True})
    assert "nothing was compared" in capsys.readouterr().err
    for wrong in ("torch --description d", "torch --tokenizer t", "huggingface --tokenizer t"):
        assert main(f"{given} {wrong}".split()) == 2
    assert (len(of_torch), len(of_others)) == (1, 0)


def test_filter(noting: Noting, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = noting("transduce.augmentation.filtering.filter_corpus", "report")
    one, many = (
        SimpleNamespace(directions=SimpleNamespace(targets=targets, pairs=[("", "")], language_tags="source"))
        for targets in ((), ("de", "fr"))
    )
    many.directions.choose = lambda source, target: SimpleNamespace(target=target)
    loaded: Calls = []

    def load(*args: Any, **options: Any) -> Any:
        loaded.append((args, options))
        return many if args == (Path("f"),) else one

    monkeypatch.setattr(Translator, "load", load)
    options = "--off copy junk --max-words 9 --max-ratio 2 --max-copied 0.5 --min-alignment 0.25 --max-cross-entropy 4"
    options += " --min-similarity 0.75 --forward f --backward b --engine torch --device cpu --threads 3"
    corpora = "filter --train a.en a.fr --train b.tsv --languages en fr --output o"
    assert main([*corpora.split(), *options.split(), "--overwrite", "--dry-run", "--quiet"]) == 0
    [((data, output, found), further)] = calls
    assert (data.train, data.held_out_languages) == ((("a.en", "a.fr"), ("b.tsv",)), ("en", "fr"))
    assert output == Path("o")
    assert found == FilterOptions(
        off=("copy", "junk"),
        max_words=9,
        max_ratio=2.0,
        max_copied=0.5,
        min_alignment=0.25,
        max_cross_entropy=4.0,
        min_similarity=0.75,
    )
    forward, backward = further.pop("models")
    assert (forward.model, forward.target_language, backward) == (many, "fr", one)
    assert further == {"dry_run": True, "overwrite": True, "progress": False}
    machine = {"engine": "torch", "device": "cpu", "threads": 3}
    assert loaded == [((Path("f"),), machine), ((Path("b"),), machine)]
    assert main([*corpora.split(), "--forward", "b", "--backward", "f"]) == 0
    forward, backward = calls[1][1]["models"]
    assert (forward, backward.model, backward.target_language) == (one, many, "en")
    unknown = "filter --train a.tsv --output o --forward b --backward f"
    assert main(unknown.split()) == 2  # of a model of several languages, which one?
    del calls[1:]
    assert main(["filter", "--train", "a.tsv", "--output", "o"]) == 0
    assert calls[1][0][2] == FilterOptions()
    assert calls[1][1] == {"models": None, "dry_run": False, "overwrite": False, "progress": True}


def test_serve(noting: Noting) -> None:
    from contextlib import nullcontext

    served = noting("transduce.serve.server.serve")
    logs = noting("transduce.serve.operations.log.service_logs", nullcontext())
    address = "--host h --port 7 --public-url http://h:7"
    options = f"{address} --keys k.toml --state memory --engine torch --quantization int8 --threads 3"
    assert main(["serve", "a", "b", *options.split(), "--shortlist", "auto", "--quiet"]) == 0
    [((config,), _)] = served
    assert (config.server.host, config.server.port, config.state.url) == ("h", 7, "memory")
    assert (Path(config.keys.file).name, config.server.public_url) == ("k.toml", "http://h:7")
    assert [Path(each.path).name for each in config.models] == ["a", "b"]
    assert {(m.engine, m.quantization, m.threads, m.shortlist) for m in config.models} == {("torch", "int8", 3, "auto")}
    assert logs[0][1] == {"access_log": False, "quiet": True}
    assert main(["serve", "a"]) == 0
    assert logs[1][1] == {"access_log": True, "quiet": False}
    assert (served[1][0][0].server.host, served[1][0][0].server.port) == ("127.0.0.1", 5000)
    for wrong in ("--bulk", "--characters-per-day 5", "--characters-per-minute 5", "--add-key x", "--max-loaded 2"):
        assert main(["serve", "a", *wrong.split()]) == 2
    assert len(served) == 2


def test_check_asks_the_service_of_the_same_options(
    noting: Noting, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from transduce.serve.listening import ListenError

    asked = noting("transduce.serve.aliveness.require_alive")
    served = noting("transduce.serve.server.serve")
    assert main(["serve", "a", "--port", "7", "--check"]) == 0
    assert (asked[0][0][0].port, served) == (7, [])

    def fail(_: Any) -> None:
        raise ListenError("nobody answers")

    monkeypatch.setattr("transduce.serve.aliveness.require_alive", fail)
    assert main(["serve", "a", "--check"]) == 1  # what Docker takes for unhealthy
    assert capsys.readouterr().err == "transduce: nobody answers\n"


def test_usage_is_a_table_or_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from datetime import UTC, datetime

    from transduce.serve.state.store import open_store

    state = str(tmp_path / "serve.db")
    store, today = open_store(state), datetime.now(UTC).strftime("%Y-%m-%d")
    store.add_usage(today, {"weblate": 1234, "": 5})
    store.add_usage("2020-01-01", {"weblate": 10_000})
    store.close()
    assert main(["serve", "--usage", "--state", state]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        f"| (without a key) | 5 | 5 | 5 | {today} |",
        "| weblate | 1,234 | 1,234 | 11,234 | 2020-01-01 |",
    ]
    (tmp_path / "serve.toml").write_text('[state]\nurl = "serve.db"\n', encoding="utf-8")
    assert main(["serve", "--usage", "--json", "--config", str(tmp_path / "serve.toml")]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["day"] == today
    assert printed["keys"][1] == {
        "key": "weblate",
        "today": 1234,
        "month": 1234,
        "total": 11_234,
        "since": "2020-01-01",
    }
    assert main(["serve", "a", "--json"]) == 2
    assert main(["serve", "--usage", "--state", str(tmp_path / "other.db")]) == 2


def test_a_new_key(noting: Noting, capsys: pytest.CaptureFixture[str]) -> None:
    calls = noting("transduce.serve.operations.keys.add_key", "secret")
    given = ["serve", "--keys", "k", "--add-key", "me"]
    assert main([*given, "--characters-per-minute", "5", "--characters-per-day", "9", "--bulk"]) == 0
    assert main(given) == 0
    names = (Path("k"), "me")
    assert calls == [
        (names, {"per_minute": 5, "per_day": 9, "bulk": True}),
        (names, {"per_minute": 0, "per_day": 0, "bulk": False}),
    ]
    assert capsys.readouterr().out == "secret\n" * 2


def test_student(noting: Noting, capsys: pytest.CaptureFixture[str]) -> None:
    configs = noting("transduce.augmentation.student.student_config", "config")
    noting((student, "open_translator"), SimpleNamespace(options=DecodeConfig(beam_size=3)))
    result = SimpleNamespace(comparison=_CERTIFICATE, model="m", exported="e")
    made = noting("transduce.augmentation.student.make_student", result)
    options = "--preset student-tiny --set model.d_ff=8 --set train.seed=2 --from-teacher --own-vocabulary"
    options += " --candidates 4 --frequent 5 --nearest-reference chrf --quiet"
    assert main(["student", "t", "r.toml", "--output", "o", *options.split()]) == 0
    assert main(["student", "t", "r.toml", "--output", "o"]) == 0
    settings = ["model.d_ff=8", "train.seed=2"]
    assert configs == [
        ((Path("r.toml"), settings, "student-tiny"), {"from_teacher": Path("t")}),
        ((Path("r.toml"), [], ""), {"from_teacher": None}),
    ]
    jobs = [dict(vars(job)) for (job, _), _ in made]
    same = {"teacher": Path("t"), "config": "config", "output": Path("o"), "search": DecodeConfig(beam_size=3)}
    jobs[0].pop("warn")("too long")
    assert jobs[0] == {
        **same,
        "settings": settings,
        "nearest": "chrf",
        "own_vocabulary": True,
        "candidates": 4,
        "frequent": 5,
        "progress": False,
    }
    assert jobs[1] | {"warn": None} == {
        **same,
        "settings": [],
        "nearest": None,
        "own_vocabulary": False,
        "candidates": 50,
        "frequent": 100,
        "progress": True,
        "warn": None,
    }
    assert "transduce: warning: too long\n" in capsys.readouterr().err


@pytest.mark.parametrize("tags", ["source", "both"])
def test_a_students_recipe_names_the_languages(noting: Noting, tmp_path: Path, tags: str) -> None:
    """A teacher of several languages that was imported has no default: OPUS-MT to many, M2M100 and NLLB."""
    corpora = tuple(CorpusConfig(files=("x",), source_language="en", target_language=code) for code in ("de", "fr"))
    path = made_tagged_bundle(tmp_path / "teacher", DataConfig(corpora=corpora)).path / "config.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    del values["config_sha256"]
    values["config"]["data"] = {"language_tags": tags}
    path.write_text(json.dumps(values), encoding="utf-8")
    noting("transduce.augmentation.student.student_config", "config")
    result = SimpleNamespace(comparison=_CERTIFICATE, model="m", exported="e")
    made = noting("transduce.augmentation.student.make_student", result)
    assert main(["student", str(path.parent), "r.toml", "--output", "o"]) == 0
    assert len(made) == 1


def test_sweep(noting: Noting, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = "transduce.experiments.sweep"
    calls = noting(f"{place}.sweep.sweep", "results")
    noting(f"{place}.results.render", "| table |")
    noting(f"{place}.sweep.default_averages", (5,))
    corpus = CorpusConfig(files=("a", "b"), source_language="en", target_language="de")  # named by the corpus alone
    noting(f"{place}.sweep.subject_config", Config(data=DataConfig(corpora=(corpus,))))
    for name in ("s", "r", "q"):
        (tmp_path / name).write_text(f"{name} text\n")
    source, first, second = (str(tmp_path / name) for name in ("s", "r", "q"))
    given = ["sweep", "run", "--source", source, "--output", "o", "--reference", first]
    options = "--beam-size 1,4,1 --length-penalty 0.5,2 --average 3,1 --metric chrf --tokenized --lowercase"
    options += " --target-language cs --source-language nl --target fr --domain law --batch-size 9 --device cpu --quiet"
    assert main([*given, second, *options.split()]) == 0
    [((subject, task, axes, output), further)] = calls
    assert (subject, output) == (Path("run"), Path("o"))
    assert (task.source.name, task.source.lines) == (source, ["s text"])
    assert [(each.name, each.lines) for each in task.references] == [(first, ["r text"]), (second, ["q text"])]
    assert (task.metric, task.tokenized, task.lowercase) == ("chrf", True, True)
    assert (task.language, task.source_language, task.target, task.domain) == ("cs", "nl", "fr", "law")
    assert tuple(vars(axes).values()) == ((3, 1), (1, 4), (0.5, 2.0))
    assert further == {"device": "cpu", "batch_size": 9, "show_progress": False}
    assert main(given) == 0
    (_, task, axes, _), further = calls[1]
    assert (task.metric, task.tokenized, task.lowercase, task.language, task.domain) == ("bleu", False, False, "de", "")
    assert tuple(vars(axes).values()) == ((5,), (1, 2, 4, 8), (0.0, 0.6, 1.0))
    assert further == {"device": "auto", "batch_size": None, "show_progress": True}
    assert main([*given, "--target", "fr"]) == 0
    assert (calls[2][0][1].language, calls[2][0][1].target) == ("fr", "fr")
    assert capsys.readouterr().out == "| table |\n" * 3


def test_calibrate(noting: Noting, tmp_path: Path) -> None:
    for name in ("s", "r", "t", "u"):
        (tmp_path / name).write_text(f"{name} one\n{name} two\n")
    place = "transduce.translation"
    bundle = SimpleNamespace()
    noting((calibrate, "open_translator"), SimpleNamespace(bundle=bundle))
    noting((calibrate, "load_translator"), SimpleNamespace(bundle=bundle))
    named = noting((calibrate, "require_named_target"))
    noting(f"{place}.calibrating.require_lines")
    measured = noting(f"{place}.calibrating.measure", ("confidences", "scores"))
    fits = noting(
        f"{place}.calibrating.calibrate",
        SimpleNamespace(threshold=70.0, num_lines=2, share_good=0.5, ece=0.125, ece_uncalibrated=0.25),
    )
    rates = {"auc": None, "auc_uncalibrated": 0.5, "brier": 0.0, "brier_uncalibrated": 0.0}
    tested = noting(
        f"{place}.calibrating.measure_fit",
        {"lines": 2, "share_good": 0.5, "ece": 0.0, "ece_uncalibrated": 0.0, **rates},
    )
    saved = noting(f"{place}.pipeline.calibration.save_calibration")
    files = {name: str(tmp_path / name) for name in "srtu"}
    given = ["calibrate", str(tmp_path), "--source", files["s"], "--reference", files["r"], "--threshold", "70"]
    given += ["--test-source", files["t"], "--test-reference", files["u"], "--target", "fr", "--domain", "law"]
    given += ["--source-language", "en"]
    assert main([*given, "--beam-size", "3"]) == 0
    texts = [[[f"{name} one", f"{name} two"] for name in pair] for pair in ("sr", "tu")]
    assert [list(args[1:]) for args, _ in measured] == texts
    asked = [{key: value for key, value in options.items() if value is not None} for _, options in measured]
    assert asked == [{"source_language": "en", "target": "fr", "domain": "law", "beam_size": 3}] * 2
    assert fits[0][0] == ("confidences", "scores", 70.0)
    assert tested[0][0][1:] == ("confidences", "scores")
    assert (named[0][0][1], saved[0][0][0]) == ("fr", bundle)


def test_inspect(noting: Noting, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    attention = SimpleNamespace(source="a", target="b", source_truncated=False, target_truncated=False)
    attended: Calls = []

    def attend(*args: Any, **options: Any) -> Any:
        attended.append((args, options))
        return attention

    loaded = noting((Translator, "load"), SimpleNamespace(attend=attend, bundle=None))
    noting("transduce.cli.requirements.require")  # nothing here uses PyTorch
    place = "transduce.inspection"
    views, drawn, arrays = noting(f"{place}.view", "view"), noting(f"{place}.draw"), noting(f"{place}.write_arrays")
    pages = noting(f"{place}.explorer_page", "page")
    noting("transduce.bundle.Bundle.load", SimpleNamespace(config=SimpleNamespace(name="mine")))
    aligned = noting(f"{place}.alignment.align_all", (["1.2"], [[(0, 1)], []]))
    for name in ("s", "t"):
        (tmp_path / name).write_text(f"{name} one\n{name} two\n")
    figure, page, data, links = (tmp_path / name for name in ("f.svg", "o.html", "a.npz", "p"))
    given = ["inspect", "m", "--source", str(tmp_path / "s"), "--target", str(tmp_path / "t"), "--line", "2"]
    given += ["--output", str(page), "--figure", str(figure), "--arrays", str(data), "--pharaoh", str(links)]
    given += ["--words", "--attention", "cross", "--layer", "3", "--heads", "1, 4", "--word", "one"]
    given += ["--align-heads", "best:5", "--target-language", "fr", "--domain", "law", "--device", "cpu"]
    given += ["--source-language", "en"]
    assert main([*given, "--threads", "2"]) == 0
    assert loaded == [((Path("m"),), {"engine": "torch", "device": "cpu", "threads": 2})]
    languages = {"source_language": "en", "target_language": "fr", "domain": "law"}
    assert attended == [(("s two", "t two"), languages)]
    assert views == [((attention, "cross"), {"words": True})]
    assert drawn == [(("view", figure), {"layer": 3, "heads": [1, 4], "word": "one"})]
    assert arrays == [((attention, data), {})]
    assert pages == [((attention,), {"model": "mine", "words": True})]
    assert page.read_text() == "page"
    assert aligned[0][0][1] == "best:5"
    assert links.read_text() == "0-1\n\n"
    assert f"{links}: 2 pairs aligned by heads 1.2" in capsys.readouterr().err
    for wrong in ("--heads 1", "--word a", "--layer 1", "--align-heads mean", "--translation a", "--line 3"):
        assert main([*given[:6], *wrong.split()]) == 2
    for heads in ("one", "1,two", "1,"):
        assert main([*given, "--overwrite", "--heads", heads]) == 2
    assert main(given) == 3  # the page is there
