"""Every option of the commands that make data, shortlists and reports of a model is passed on to what does the work."""

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fake_tokenizer import FakeTokenizer
from noted_calls import Noting
from transduce.augmentation import CorpusJob
from transduce.augmentation.made_corpus import MadeCorpus
from transduce.cli import augment_job
from transduce.cli.main import main
from transduce.config import DataConfig, DecodeConfig
from transduce.engines.shortlist.learning import Coverage
from transduce.translation.directions import Direction
from transduce.translation.pipeline import TextOptions
from transduce.verification import Settings

_SEARCH = DecodeConfig(beam_size=5)


def file_of(folder: Path, name: str, text: str = "a\nb\n") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


@pytest.mark.parametrize(
    ("command", "work", "tag"),
    [
        ("back-translate", "back_translate", "back-translated"),
        ("forward-translate", "forward_translate", "forward-translated"),
        ("distill", "distill", ""),
    ],
)
def test_augment(
    command: str,
    work: str,
    tag: str,
    noting: Noting,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bundle = SimpleNamespace(tokenizer=None, path=Path("m"), summary="a model")
    noting((augment_job, "open_translator"), SimpleNamespace(options=_SEARCH, bundle=bundle))
    noting((augment_job, "loaded_workers"), nullcontext("translator"))
    chosen: list[Any] = []

    def choose(*given: str) -> Any:
        chosen.append(given)
        return Direction("en", "FR", "Law", False, ())

    noting("transduce.translation.directions.Directions.of", SimpleNamespace(choose=choose))
    made = MadeCorpus(tmp_path, 9, 7, {"empty": 2}, {"job": {}, "command": command}, num_resumed=3)
    calls = noting(f"transduce.augmentation.{work}", made)
    text = file_of(tmp_path, "t")
    given = ["augment", command, "m", text, "--output", "o"]
    options = "--overwrite --split-sentences never --no-guard --window 5 --target fr --domain law"
    assert main([*given, *options.split()]) == 0
    [(names, further)] = calls
    assert names == ("translator",)
    job = further.pop("job")
    job.warn("long")
    about_text = {"corpus" if command == "distill" else "text": Path(text)}
    assert further == {"output": Path("o"), **about_text}
    texts = TextOptions(split="never", guard=False, target="FR", domain="Law")
    expected = CorpusJob(options=_SEARCH, text_options=texts, window=5, overwrite=True, progress=False)
    assert replace(job, warn=None) == expected
    shown = capsys.readouterr()
    assert shown.err == (
        "transduce: m: a model\ntransduce: continued after 3 lines done before.\ntransduce: 7 pairs of 9 lines\n"
        "transduce: left out: 2: empty\ntransduce: to train on these pairs, add to the recipe:\n"
        "transduce: warning: long\n"
    )
    assert (f'tag = "{tag}"' in shown.out) == bool(tag)
    assert main([*given, "--quiet"]) == 0
    job = calls[1][1]["job"]
    assert job.text_options == TextOptions(guard=True, domain="Law")  # no language is asked for
    assert (job.window, job.overwrite) == (None, False)
    assert chosen == [("", "fr", "law"), ("", "", "")]
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(given) == main([*given, "--quiet"]) == 0
    assert [further["job"].progress for _, further in calls[2:]] == [True, False]


def test_distill_nearest_to_references(noting: Noting, tmp_path: Path) -> None:
    from transduce.cli import augment_distill

    jobs = noting((augment_distill, "run_job"), 0)
    text, reference = Path(file_of(tmp_path, "t")), Path(file_of(tmp_path, "r"))
    given = ["augment", "distill", "m", str(text), "--output", "o"]
    near = ["--nearest-reference", "chrf"]
    assert main([*given, *near, "--reference", str(reference), "--n-best", "4"]) == 0
    assert main([*given, *near, "--columns"]) == 0
    assert [jobs[0][0][1].keywords, jobs[1][0][1].keywords] == [
        {"corpus": [text, reference], "nearest": "chrf", "n_best": 4},
        {"corpus": [text], "nearest": "chrf", "n_best": None},
    ]
    asked = noting((augment_distill, "languages_of_memory"), ("en", "fr"))
    memory = Path(file_of(tmp_path, "t.tmx"))
    of_memory = ["augment", "distill", "m", str(memory), "--output", "o", "--target", "fr"]
    assert main(of_memory) == main([*of_memory, *near, "--columns"]) == 0
    assert asked == [((Path("m"),), {"target": "fr"})] * 2
    assert [jobs.pop()[0][1].keywords, jobs.pop()[0][1].keywords] == [
        {"corpus": [memory], "nearest": "chrf", "n_best": None, "languages": ("en", "fr")},
        {"corpus": memory, "languages": ("en", "fr")},
    ]
    for wrong in (["--columns"], ["--n-best", "3"], ["--reference", str(reference)], near):
        assert main([*given, *wrong]) == 2
    assert main([*given, *near, "--columns", "--reference", str(reference)]) == 2
    assert len(jobs) == 2


def test_shortlist(noting: Noting, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = SimpleNamespace(
        path=tmp_path,
        tokenizer=FakeTokenizer(
            vocab_size=400, target_side=FakeTokenizer(vocab_size=300), target_languages=(), domains=()
        ),
        config=SimpleNamespace(data=DataConfig()),
    )
    noting("transduce.bundle.Bundle.load", bundle)
    place = "transduce.engines.shortlist"
    read, held = (
        noting(f"{place}.learning.read_files", ["pair"]),
        noting(f"{place}.learning.hold_out", ("some", "rest")),
    )
    prepared = noting(f"{place}.learning.read_prepared", ("pairs", ["validation"]))
    noting(f"{place}.learning.same_pieces", "same")
    learned = noting(f"{place}.learning.learn", "learned")
    facts = {"pairs": 1200, "candidates": 20, "frequent": 30, "coverage": {"pairs": 1}}
    rows = [Coverage(num_candidates=n, share_of_tokens=0.5, share_of_sentences=0.25, mean_ids=1234.0) for n in (10, 20)]
    made = noting(f"{place}.learning.learn_shortlist", (SimpleNamespace(facts=facts), rows))
    noting(f"{place}.table.save_shortlist", Path("list"))
    source, target, other, reference = (Path(name) for name in ("s", "t", "u", "r"))
    given = ["shortlist", "m", "--source", "s", "--target", "t"]
    numbers = "--candidates 20 --frequent 30 --max-pairs 40 --iterations 2"
    assert main([*given, *numbers.split()]) == 0
    assert read == [(((source, target), bundle.tokenizer, 40), {"progress": False})]
    assert held == [((["pair"],), {})]
    assert learned == [(("some", 300, "same"), {"iterations": 2, "progress": False})]
    assert made == [(("learned", "rest"), {"num_candidates": 20, "num_frequent": 30})]
    assert capsys.readouterr().out == (
        "list: learned from 1,200 pairs; 20 candidates of each piece, 30 frequent pieces.\n"
        "Of the references of 1 other pair, with 30 frequent pieces:\n\n"
        "  candidates   pieces covered   whole sentences   shortlist of a sentence\n"
        "          10          50.00 %           25.0 %              1,234 pieces\n"
        "*         20          50.00 %           25.0 %              1,234 pieces\n"
    )
    assert main([*given, "--test-source", "u", "--test-reference", "r"]) == 0
    assert read[1:] == [
        (((source, target), bundle.tokenizer, 500_000), {"progress": False}),
        (((other, reference), bundle.tokenizer, 500_000), {}),
    ]
    assert (learned[1], made[1][0]) == (
        ((["pair"], 300, "same"), {"iterations": 5, "progress": False}),
        ("learned", ["pair"]),
    )
    assert made[1][1] == {"num_candidates": 100, "num_frequent": 300}
    assert main(["shortlist", "m", "--data", "d"]) == 0
    assert prepared == [((Path("d"), bundle.tokenizer, 500_000), {})]
    assert (learned[2][0], made[2][0]) == (("pairs", 300, "same"), ("learned", ["validation"]))
    for wrong in (given[:4], [*given, "--test-source", "u"], [*given, "--data", "d"], given[:2]):
        assert main(wrong) == 2
    (tmp_path / "shortlist.safetensors").write_text("mine")
    assert main(given) == 3
    assert main([*given, "--overwrite"]) == 0


def test_verify(noting: Noting, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = SimpleNamespace(to_dict=lambda: {"checks": []}, to_text=lambda: "text", passed=True)
    calls = noting("transduce.verification.verify", report)
    options = "--source s --sample 9 --tolerance 0.5 --tie 0.25 --device cpu --threads 2 --target fr --domain law"
    written = tmp_path / "r.json"
    assert main(["verify", "m", *options.split(), "--no-engines", "--export", "e", "f", "--report", str(written)]) == 0
    assert main(["verify", "m", "--quick", "--tie", "0.125"]) == 0
    assert main(["verify", "m"]) == 0
    rest: dict[str, Any] = {"sentences": None, "device": "auto", "threads": None}
    rest |= {"other_engines": True, "exports": [], "progress": True}
    quick: dict[str, Any] = {"num_sentences": 16, "num_pairs": 4, "num_changes": 3, "max_target_tokens": 24}
    assert calls == [
        (
            (Path("m"),),
            {
                "sentences": Path("s"),
                "settings": Settings(
                    num_sentences=9, log_probability=0.5, tie=0.25, target_language="fr", domain="law"
                ),
                "device": "cpu",
                "threads": 2,
                "other_engines": False,
                "exports": [Path("e"), Path("f")],
                "progress": True,
            },
        ),
        ((Path("m"),), rest | {"settings": Settings(**quick, tie=0.125)}),
        ((Path("m"),), rest | {"settings": Settings()}),
    ]
    assert written.read_text() == '{\n  "checks": []\n}\n'
    assert capsys.readouterr().out == "text\n" * 3
    assert main(["verify", "m", "--report", str(written)]) == 3
    report.passed = False
    assert main(["verify", "m", "--report", str(written), "--overwrite"]) == 1


def test_init(noting: Noting, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = "transduce.data.first_recipe"
    corpus = SimpleNamespace(num_pairs=1200, languages=("en", "de"), num_skipped=0)
    measured = noting(f"{place}.measure_corpus", corpus)
    config = SimpleNamespace(
        train=SimpleNamespace(max_steps=900), data=SimpleNamespace(validation=("x/v.en", "x/v.de"))
    )
    written = noting(f"{place}.write_recipe", config)
    recipe = tmp_path / "my recipe.toml"
    given = ["init", "--train", "a.en", "a.de", "--output", str(recipe)]
    assert main(given) == 0
    assert measured == [(([Path("a.en"), Path("a.de")], ("", "")), {})]
    assert written == [((corpus, ("en", "de"), recipe, [], None), {})]
    assert capsys.readouterr().err == (
        f"{recipe}: 1,200 pairs, en → de; 900 steps\n"
        "validation set: v.en v.de, pairs of the corpus that training leaves out\n"
        f"next: transduce prepare '{recipe}' --check-only\n"
        f"then: transduce train '{recipe}' --output runs/'my recipe'\n"
    )
    assert main([*given, "--languages", "pt-BR", "fr", "--validation", "v", "w"]) == 0
    assert measured[1] == (([Path("a.en"), Path("a.de")], ("pt-BR", "fr")), {})
    assert written[1] == ((corpus, ("en", "de"), recipe, [Path("v"), Path("w")], None), {})
    assert "validation set" not in capsys.readouterr().err
    corpus.languages, corpus.num_skipped = ("", "de"), 7
    assert main(["init", "--train", "a.tmx", "--output", str(recipe)]) == 0
    said = capsys.readouterr().err
    assert "skipped: 7 units without a text in both languages\n" in said
    assert "1,200 pairs, languages unknown: name them in the recipe; 900 steps" in said
    for wrong in (["--languages", "en!", "de"], ["--languages", "en", "d e"]):
        assert main([*given, *wrong]) == 2
    assert main(["init", "--train", "a", "b", "--output", "r.txt"]) == 2
    recipe.touch()
    assert main(given) == 2
    assert len(written) == 3


def test_filter_the_corpora_of_a_recipe(noting: Noting, tmp_path: Path) -> None:
    calls = noting("transduce.augmentation.filtering.filter_corpus", "report")
    pair = '[[data.corpora]]\nfiles = ["{0}.tsv"]\nsource_language = "en"\ntarget_language = "{0}"\n'
    recipe = Path(file_of(tmp_path, "r.toml", pair.format("de") + pair.format("fr")))
    open_ended = Path(file_of(tmp_path, "o.toml", '[data]\ntrain = [["a.tsv"]]\n'))
    assert main(["filter", str(recipe), "--dry-run", "--languages", "en", "fr"]) == 0
    assert main(["filter", str(recipe), "--output", "o"]) == 0
    assert main(["filter", str(open_ended), "--dry-run", "--languages", "en", "fr"]) == 0
    data = [args[0] for args, _ in calls]
    assert [[corpus.files for corpus in each.training_corpora] for each in data] == [
        [("fr.tsv",)],
        [("de.tsv",), ("fr.tsv",)],
        [("a.tsv",)],
    ]
    assert [(each.source_language, each.target_language) for each in data] == [("en", "fr"), ("", ""), ("en", "fr")]
    for wrong in (
        [str(recipe), "--dry-run", "--languages", "fr", "en"],
        [str(recipe), "--train", "a.tsv", "--dry-run"],
        ["--dry-run"],
        [str(recipe)],
        [str(recipe), "--dry-run", "--forward", "m"],
    ):
        assert main(["filter", *wrong]) == 2
    assert len(calls) == 3
