"""Every option of the commands that translate and score is passed on to what does the work."""

import json
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from noted_calls import Calls, Noting
from transduce.cli import document, evaluate, score, translate
from transduce.cli.main import main
from transduce.config import DataConfig, DecodeConfig
from transduce.errors import DataError
from transduce.translation.documents import DocumentJob, Languages
from transduce.translation.forced_scores import TargetScore
from transduce.translation.pipeline import TextOptions
from transduce.translation.streams import FileJob, JsonLines, PlainLines, Summary

_SEARCH = DecodeConfig(beam_size=5)


def file_of(folder: Path, name: str, text: str = "a\nb\n") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def say_terminal(monkeypatch: pytest.MonkeyPatch, *streams: str) -> None:
    for name in streams:
        monkeypatch.setattr(getattr(sys, name), "isatty", lambda: True, raising=False)


def test_translate(
    noting: Noting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = noting((translate, "open_translator"), SimpleNamespace(options=_SEARCH, bundle="bundle"))
    noting((translate, "loaded_workers"), nullcontext("translator"))
    noting("transduce.translation.pipeline.calibration.load_calibration")
    calls = noting("transduce.translation.streams.translate_file", Summary(2, 0))
    source, output = Path(file_of(tmp_path, "s")), tmp_path / "o"
    given = ["translate", "m", "--source", str(source)]
    options = "--n-best 3 --resume --overwrite --field text --into new --scores --confidence --alignment --window 7"
    options += " --source-language en --target fr --domain law --inline-terms --markup none --split-sentences never"
    options += f" --glossary {file_of(tmp_path, 'terms', 'dog' + chr(9) + 'Hund')}"
    say_terminal(monkeypatch, "stderr")
    assert main([*given, "--output", str(output), *options.split()]) == 0
    [((*names, job), _)] = calls
    assert names == ["translator", source, output]
    job.warn("long")
    assert job.glossary.required_in("a dog") == (("Hund",),)
    assert job.constraints_name.startswith("glossary ")
    assert callable(job.check_end)
    text_options = TextOptions(
        split="never", markup="none", confidence=True, alignment=True, language="en", target="fr", domain="law"
    )
    assert replace(job, warn=None, glossary=None, constraints_name="", check_end=None) == FileJob(
        layout=JsonLines("text", "new", many=True, scores=True, confidence=True, alignment=True),
        options=_SEARCH,
        n_best=3,
        text_options=text_options,
        inline_terms=True,
        window=7,
        resume=True,
        overwrite=True,
        progress=True,
    )
    assert opened[0][1] == {"required": True}
    shown = capsys.readouterr().err
    assert "transduce: warning: long\n" in shown
    assert "this model is not calibrated" in shown
    assert main([*given, "--forbid", file_of(tmp_path, "f")]) == 0
    (_, _, nowhere, job), _ = calls[1]
    assert nowhere is None
    assert next(job.constraints).forbidden == ("a", "b")
    assert replace(job, warn=None, constraints=None, constraints_name="", check_end=None) == FileJob(
        layout=PlainLines(), options=_SEARCH, text_options=TextOptions(markup="placeholders")
    )
    assert opened[1][1] == {"required": False}
    assert main([*given, "--require-by-line", file_of(tmp_path, "r"), "--split-sentences", "always"]) == 2
    assert main([*given, "--format", "html"]) == main([*given, "--target-language", "fr"]) == 2
    assert main([*given, "--output", str(output), "--quiet"]) == 0
    assert not calls[2][0][3].progress
    output.write_text("mine")
    assert main([*given, "--output", str(output)]) == 3
    assert len(calls) == 3


@pytest.mark.parametrize(("options", "terminal", "window"), [("", True, 1), ("--window 7", True, 7), ("", False, None)])
def test_typed_lines_are_translated_one_by_one(
    options: str, terminal: bool, window: int | None, noting: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    noting((translate, "open_translator"), SimpleNamespace(options=_SEARCH, bundle="bundle"))
    noting((translate, "loaded_workers"), nullcontext("translator"))
    calls = noting("transduce.translation.streams.translate_file", Summary(2, 0))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: terminal))
    assert main(["translate", "m", *options.split()]) == 0
    assert calls[0][0][3].window == window


def test_translate_a_document(
    noting: Noting, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = noting((translate, "open_translator"), SimpleNamespace(options=_SEARCH, bundle="bundle"))
    directions = SimpleNamespace(
        choose=lambda source, target, domain: SimpleNamespace(source=source or "en", target=target or "de")
    )
    translator = SimpleNamespace(directions=directions)
    noting((document, "load_translator"), translator)
    calls = noting("transduce.translation.documents.translate_document", SimpleNamespace(num_segments=1200))
    page, output = Path(file_of(tmp_path, "p.txt")), tmp_path / "o.txt"
    given = ["translate", "m", str(page), "--output", str(output)]
    terms = file_of(tmp_path, "terms", "dog\tHund\n")
    options = f"--overwrite --markup none --no-signs --glossary {terms} --target-language de-CH --source-language fr"
    assert main([*given, *options.split(), "--format", "text", "--columns", "a, b"]) == 0
    [((*names, job), _)] = calls
    assert names == [translator, page, output]
    job.warn("long")
    job.on_progress(1, 2)
    assert job.glossary.required_in("a dog") == (("Hund",),)
    assert replace(job, warn=None, on_progress=None, glossary=None) == DocumentJob(
        options=_SEARCH,
        text_options=TextOptions(markup="none", guard=True, capitals=True, language="fr"),
        document_format="text",
        languages=Languages("fr", "de-CH"),
        columns=("a", "b"),
        overwrite=True,
    )
    assert opened[0][1] == {"required": True}
    shown = capsys.readouterr().err
    assert shown == f"transduce: {output}: 1,200 texts translated.\ntransduce: warning: long\n"
    assert main([*given, "--quiet", "--target", "fr"]) == 0
    job = calls[1][0][3]
    assert (job.languages, job.glossary) == (Languages("en", "fr"), None)
    assert (job.overwrite, job.document_format) == (False, "")
    assert capsys.readouterr().err == ""
    say_terminal(monkeypatch, "stderr")
    bars = noting("transduce.data.progress.progress_bar", nullcontext())
    assert main(given) == main([*given, "--quiet"]) == 0
    assert [options["shown"] for _, options in bars] == [True, False]
    for wrong in ("--n-best 2", "--scores", "--confidence", "--resume", "--window 3", "--replace", "--inline-terms"):
        assert main([*given, *wrong.split()]) == 2
    for name in ("source", "prefix", "forbid", "forbid-by-line", "require-by-line", "field", "into", "ray"):
        assert main([*given, f"--{name}", str(page)]) == 2
    output.write_text("mine")
    assert main(given) == 3
    assert len(calls) == 4


def test_score(
    noting: Noting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(score, "_WINDOW", 2)
    asked: Calls = []

    def scored(*args: Any, **options: Any) -> list[TargetScore]:
        asked.append((args, options))
        if "broken" in args[1]:
            raise DataError("has no pieces")
        return [TargetScore(("</s>",), (-0.5,), -0.25, source_truncated=source == "long") for source in args[0]]

    engine = SimpleNamespace(max_source_tokens=9)
    opened = noting((score, "open_model"), SimpleNamespace(bundle="bundle"))
    named = noting((score, "require_named_target"))
    noting((score, "load_translator"), SimpleNamespace(score=scored, bundle=None, engine=engine))
    source, target = file_of(tmp_path, "s", "a\nb\nlong\n"), file_of(tmp_path, "t", "x\ny\nz\n")
    given = ["score", "m", "--source", source, "--target", target]
    options = "--tokens --length-penalty 0.5 --source-language en --target-language fr --domain law"
    assert main([*given, *options.split()]) == 0
    asked_for = {"length_penalty": 0.5, "source_language": "en", "target_language": "fr", "domain": "law"}
    assert asked == [((["a", "b"], ("x", "y")), asked_for), ((["long"], ("z",)), asked_for)]
    assert opened[0][1] == {"search": False}
    assert named == [(("bundle", "fr", Path(target), "--target-language"), {})]
    shown = capsys.readouterr()
    assert shown.out == "".join(f"{number}\t</s>\t-0.500000\n" for number in (1, 2, 3))
    assert f"{source}, line 3: longer than the 9 tokens that the model reads; only its beginning is read." in shown.err
    assert main([*given, "--json", "--output", str(tmp_path / "o")]) == 0
    assert [json.loads(row)["line"] for row in (tmp_path / "o").read_text().splitlines()] == [1, 2, 3]
    assert asked[-1][1] == {"length_penalty": None, "source_language": "", "target_language": "", "domain": ""}
    assert "3 lines, 3 pieces" in capsys.readouterr().err
    assert main([*given, "--output", str(tmp_path / "p"), "--quiet"]) == 0
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("transduce: warning: ")
    assert main([*given, "--json", "--output", str(tmp_path / "o")]) == 3
    file_of(tmp_path, "t", "x\ny\nbroken\n")
    capsys.readouterr()
    assert main(given) == 3
    assert f"{target}, from line 3 on: has no pieces" in capsys.readouterr().err


def test_evaluate_files(noting: Noting, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluation = SimpleNamespace(warnings=("odd",), to_text=lambda: "scores", to_dict=lambda: {"bleu": 1})
    calls = noting("transduce.evaluation.evaluate", evaluation)
    bundle = SimpleNamespace(config=SimpleNamespace(data=DataConfig()), tokenizer=None)
    opened = noting((evaluate, "open_model"), SimpleNamespace(bundle=bundle))
    named = noting((evaluate, "require_named_target"))
    asked: Calls = []

    def scored(*args: Any, **options: Any) -> list[TargetScore]:
        asked.append((args, options))
        return [TargetScore(("</s>",), (0.0,), 0.0, source_truncated=False)] * 2

    noting((evaluate, "load_translator"), SimpleNamespace(score=scored))
    out, first, second, source, train = (file_of(tmp_path, name) for name in ("h", "r.de", "q.de", "s.en", "t"))
    given = ["evaluate", "--hypothesis", out, "--reference", first, second]
    options = f"--metrics chrf --paper --tokenized --lowercase --target-language cs --intervals --train {train}"
    options += f" --model m --source {source} --source-language en --target fr --domain law"
    assert main([*given, *options.split()]) == 0
    [((hypothesis, references), further)] = calls
    assert (hypothesis.name, [each.name for each in references]) == (out, [first, second])
    assert further.pop("source").name == source
    assert [*further.pop("training")] == [train]
    metrics = ["chrf", "bleu-paper"]
    assert further == {
        "metrics": metrics,
        "language": "cs",
        "tokenized": True,
        "lowercase": True,
        "confidence": True,
    }
    languages = {"source_language": "en", "target_language": "fr", "domain": "law"}
    assert asked == [((["a", "b"], ["a", "b"]), languages)]
    assert (opened[0][1], named[0][0]) == ({"search": False}, (bundle, "fr", Path(first)))
    shown = capsys.readouterr()
    assert shown.out == "perplexity 1.000 per subword of m (2 subwords, EOS counted)\nscores\n"
    assert "transduce: warning: odd\n" in shown.err
    assert main([*given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"bleu": 1}
    (_, further) = calls[1]
    assert (further["source"], further["training"], further["language"]) == (None, {}, "de")
    assert further["metrics"] == ["bleu", "chrf"]
    perplexity = ["--model", "m", "--source", source, "--reference", first]
    assert main(["evaluate", *perplexity]) == 0
    for wrong in (
        [*perplexity, "--paper"],
        [*perplexity, "--metrics", "chrf"],
        [*perplexity, "--tokenized"],
        [*perplexity, "--lowercase"],
        [*perplexity, "--intervals"],
        ["--source", source],
        [*given, "--sets", "a"],
        [*given, "--beam-size", "2"],
        [*given, "--model", "m"],
    ):
        assert main(wrong if wrong[0] == "evaluate" else ["evaluate", *wrong]) == 2


def test_evaluate_sets(noting: Noting, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = SimpleNamespace(data=SimpleNamespace())
    opened = SimpleNamespace(bundle=SimpleNamespace(config=config), options=_SEARCH)
    noting((evaluate, "open_translator"), opened)
    noting((evaluate, "load_translator"), "translator")
    named = noting((evaluate, "require_named_target"))
    one = SimpleNamespace(evaluation=SimpleNamespace(warnings=("odd",)), to_dict=lambda: {"name": "one"})
    calls = noting("transduce.translation.set_scores.score_sets", [one])
    noting("transduce.translation.set_scores.scores_table", "| table |")
    read = noting("transduce.translation.set_scores.read_test_sets", ["sets"])
    source, first, second = (file_of(tmp_path, name) for name in ("s.en", "r.fr", "q.fr"))
    given = ["evaluate", "--model", "m", "--translate", "--source", source, "--reference", first, second]
    options = "--target fr --source-language en --domain law --intervals --metrics chrf --signs"
    assert main([*given, *options.split()]) == 0
    [((translator, [found]), further)] = calls
    assert (translator, found.name, found.source.name) == ("translator", "s.en", source)
    assert [each.name for each in found.references] == [first, second]
    assert (found.source_language, found.target_language, found.domain) == ("en", "fr", "law")
    assert further == {
        "search": _SEARCH,
        "metrics": ["chrf"],
        "progress": False,
        "text_options": TextOptions(signs=True),
        "options": {"tokenized": False, "lowercase": False, "confidence": True},
    }
    assert named[0][0][1:] == ("fr", Path(first))
    shown = capsys.readouterr()
    assert (shown.out, "transduce: warning: odd\n" in shown.err) == ("| table |\n", True)
    assert main(["evaluate", "--model", "m", "--sets", "a", "b", "--json"]) == 0
    assert read == [((config.data, ["a", "b"]), {})]
    assert calls[1][0] == ("translator", ["sets"])
    assert json.loads(capsys.readouterr().out) == {"sets": [{"name": "one"}], "warnings": ["odd"]}
    recipe = file_of(tmp_path, "r.toml", '[data]\nfolder = "here"\ntest = { news = ["a.tsv"] }\n')
    assert main(["evaluate", "--model", "m", "--recipe", recipe, "--corpus", "there"]) == 0
    assert (read[1][0][0].folder, [*read[1][0][0].test], read[1][0][1]) == ("there", ["news"], [])
