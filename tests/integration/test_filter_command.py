"""`transduce filter`: what it finds in a corpus with faults, what it writes, and what it refuses."""

import gzip
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import made_parallel
from made_models import made_bundle
from transduce.augmentation.filtering import FilterOptions, filter_corpus
from transduce.bundle import save_bundle
from transduce.cli.main import main
from transduce.config import DataConfig
from transduce.data.compression import zstd
from transduce.errors import ConfigError, DataError

KINDS = ("slip", "swapped", "copy", "language", "near", "repeat", "encoding")
_NUM_PAIRS = 2600


def faulty_pairs() -> tuple[list[made_parallel.Pair], dict[int, str]]:
    """Returns a corpus with faults, and the kind of each by its index."""
    pairs, third = made_parallel.pairs(_NUM_PAIRS), made_parallel.pairs(200, languages=(0, 2))
    kinds = dict.fromkeys(range(1000, 1030), "slip")
    targets = [pairs[i][1] for i in kinds]
    for i, target in zip(kinds, [*targets[1:], targets[0]], strict=True):
        pairs[i] = pairs[i][0], target
    free = random.Random(1).sample([i for i in range(500, _NUM_PAIRS) if i not in kinds], 20 * 6)
    for number, i in enumerate(free):
        kind = kinds[i] = KINDS[1 + number % 6]
        source, target = pairs[i]
        original = pairs[number]  # the first 500 are as they should be
        pairs[i] = {
            "swapped": (target, source),
            "copy": (source, source),
            "language": (source, third[number][1]),
            "near": (original[0].upper(), original[1] + "!"),
            "repeat": original,
            "encoding": (source, target[:10] + "\ufffd" + target[11:]),
        }[kind]
    return pairs, kinds


PAIRS, FAULTS = faulty_pairs()


def write(folder: Path, pairs: list[made_parallel.Pair]) -> tuple[str, str]:
    for side, name in enumerate(("train.en", "train.fr")):
        (folder / name).write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    return str(folder / "train.en"), str(folder / "train.fr")


@pytest.fixture
def corpus(tmp_path: Path) -> tuple[str, str]:
    return write(tmp_path, PAIRS)


@pytest.fixture
def few(tmp_path: Path) -> tuple[str, str]:
    return write(tmp_path, PAIRS[:200] + PAIRS[:5])


def log(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "dropped.jsonl").read_text(encoding="utf-8").splitlines()]


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def test_faults_are_found_and_each_dropped_line_has_a_reason(
    corpus: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "clean"
    assert main(["filter", "--train", *corpus, "--output", str(output), "--quiet"]) == 0
    rows = log(output)
    rules = {row["line"] - 1: row["rule"] for row in rows}
    for kind in KINDS:
        planted = [i for i, each in FAULTS.items() if each == kind]
        assert sum(i in rules for i in planted) >= 0.95 * len(planted), kind
    assert sum(i not in FAULTS for i in rules) < 0.01 * len(PAIRS)
    expected = {"copy": "copy", "language": "language", "near": "near-duplicate", "repeat": "duplicate"}
    for kind, rule in expected.items():
        found = [rules[i] for i, each in FAULTS.items() if each == kind and i in rules]
        assert found.count(rule) > len(found) / 2, (kind, found)
    assert all(row["reason"] and (row["source"], row["target"]) == PAIRS[row["line"] - 1] for row in rows)
    slipped = [row["reason"] for row in rows if FAULTS.get(row["line"] - 1) == "slip"]
    assert sum("previous target line" in reason for reason in slipped) > len(slipped) / 2
    kept = [pair for i, pair in enumerate(PAIRS) if i not in rules]
    assert lines(output / "train.en") == [source for source, _ in kept]
    assert lines(output / "train.fr") == [target for _, target in kept]
    report = json.loads((output / "report.json").read_text())
    assert report["num_kept"] == len(kept) == report["num_pairs"] - sum(report["dropped"].values())
    assert sum(report["distributions"][0]["before"]) == len(PAIRS)
    assert f"{len(kept):,} pairs kept of {len(PAIRS):,}" in capsys.readouterr().out


def test_the_page_needs_nothing_else_and_shows_text_as_it_is(tmp_path: Path) -> None:
    pairs = [("<b>one</b> & two", "<b>one</b> & two")] * 3 + made_parallel.pairs(30)
    (tmp_path / "a.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    filter_corpus(DataConfig(train=((str(tmp_path / "a.tsv"),),)), tmp_path / "clean")
    page = (tmp_path / "clean" / "report.html").read_text()
    assert "&lt;b&gt;one&lt;/b&gt; &amp; two" in page
    assert "<b>one" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert "fewer than 2,000 pairs" in page


def test_compression_columns_and_parts_stay_as_they_are(tmp_path: Path) -> None:
    rows = [f"{source}\t{target}\tmore\t{i}" for i, (source, target) in enumerate(made_parallel.pairs(30))]
    rows[3] = "one\t\tempty\t3"
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress("".join(row + "\n" for row in rows).encode()))
    for name, text in (("b.en.zst", "a dog\nrows[3]\n"), ("b.fr.zst", "un chien\nligne 3\n")):
        (tmp_path / name).write_bytes(zstd.compress(text.encode()))
    arguments = [
        "--train",
        str(tmp_path / "a.tsv.gz"),
        "--train",
        str(tmp_path / "b.en.zst"),
        str(tmp_path / "b.fr.zst"),
    ]
    for output in ("one", "two"):
        assert main(["filter", *arguments, "--output", str(tmp_path / output), "--quiet"]) == 0
    clean = gzip.decompress((tmp_path / "one" / "a.tsv.gz").read_bytes()).decode()
    assert clean == "".join(row + "\n" for i, row in enumerate(rows) if i != 3)
    assert zstd.decompress((tmp_path / "one" / "b.fr.zst").read_bytes()) == b"un chien\nligne 3\n"
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_lines_that_are_no_utf_8_are_dropped_unless_the_rule_is_off(tmp_path: Path) -> None:
    for name, text in (("a.en", b"a dog\na cat\n"), ("a.fr", b"un chien\nun ch\xe2t\n")):
        (tmp_path / name).write_bytes(text)
    data = DataConfig(folder=str(tmp_path), train=(("a.en", "a.fr"),))
    filter_corpus(data, tmp_path / "clean")
    assert lines(tmp_path / "clean" / "a.en") == ["a dog"]
    with pytest.raises(DataError, match=r"a\.fr, line 2: not UTF-8"):
        filter_corpus(data, None, FilterOptions(off=("encoding",)))


def test_a_dry_run_writes_no_corpus(few: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["filter", "--train", *few, "--dry-run", "--quiet", "--off", "alignment", "language"]) == 0
    shown = capsys.readouterr().out
    assert "| duplicate " in shown
    assert "| alignment " not in shown
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.en", "train.fr"]
    output = tmp_path / "report"
    assert main(["filter", "--train", *few, "--dry-run", "--quiet", "--output", str(output)]) == 0
    assert sorted(path.name for path in output.iterdir()) == ["dropped.jsonl", "report.html", "report.json"]


def test_the_corpus_of_a_recipe_is_filtered_by_languages(tmp_path: Path) -> None:
    for name in ("a.en", "a.fr", "b.en", "b.de"):
        (tmp_path / name).write_text("a dog\n\n")
    recipe = tmp_path / "r.toml"
    corpora = [("a", "fr"), ("b", "de")]
    recipe.write_text(
        '[data]\nfolder = "."\n'
        + "".join(
            f'[[data.corpora]]\nname = "{name}"\nfiles = ["{name}.en", "{name}.{code}"]\n'
            f'source_language = "en"\ntarget_language = "{code}"\n'
            for name, code in corpora
        )
    )
    output = tmp_path / "clean"
    command = ["filter", str(recipe), "--output", str(output), "--quiet"]
    assert main(command) == 2  # two pairs of languages
    assert not output.exists()
    assert main([*command, "--languages", "en", "es"]) == 2
    assert main([*command, "--languages", "en", "de"]) == 0
    assert sorted(path.name for path in output.iterdir() if path.name.startswith(("a", "b"))) == ["b.de", "b.en"]


def test_what_is_there_is_not_overwritten(few: tuple[str, str], tmp_path: Path) -> None:
    output = tmp_path / "clean"
    output.mkdir()
    (output / "mine.txt").write_text("mine")
    command = ["filter", "--train", *few, "--quiet", "--off", "alignment", "language", "--output"]
    assert main([*command, str(output)]) == 3
    assert main([*command, str(output), "--overwrite"]) == 3  # no filter has written it
    assert (output / "mine.txt").read_text() == "mine"
    assert main([*command, str(tmp_path), "--overwrite"]) == 3  # the corpus itself
    (tmp_path / "report.json").write_text("{}")  # as in a folder that a filter has written
    deeper = tmp_path / "deeper"
    deeper.mkdir()
    for name in few:
        Path(name).rename(deeper / Path(name).name)
    command[2:4] = [str(deeper / Path(name).name) for name in few]
    assert main([*command, str(tmp_path), "--overwrite"]) == 3  # it would be replaced, with the corpus in it
    assert all(Path(name).is_file() for name in command[2:4])
    outside = tmp_path.with_name(f"{tmp_path.name}-link")
    outside.symlink_to(deeper)
    linked = [command[0], command[1], *(str(outside / Path(name).name) for name in few), *command[4:]]
    assert main([*linked, str(tmp_path), "--overwrite"]) == 3  # likewise, by another name
    assert all(Path(name).is_file() for name in command[2:4])
    assert main([*command, str(tmp_path / "other")]) == 0
    assert main([*command, str(tmp_path / "other")]) == 3
    assert main([*command, str(tmp_path / "other"), "--overwrite"]) == 0


def test_files_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.tsv").write_text("a\tb\n")
    train = tuple((str(tmp_path / folder / "a.tsv"),) for folder in ("one", "two"))
    with pytest.raises(DataError, match="have the same name"):
        filter_corpus(DataConfig(train=train), tmp_path / "clean")
    assert filter_corpus(DataConfig(train=train), None).num_kept == 1


def test_a_file_with_the_name_of_a_report_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dropped.jsonl").write_text("a\tb\n")
    with pytest.raises(DataError, match="the name of a report"):
        filter_corpus(DataConfig(train=((str(tmp_path / "dropped.jsonl"),),)), tmp_path / "clean")


def test_an_empty_file_stays_empty_and_an_empty_corpus_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a dog\tun chien\n")
    (tmp_path / "b.tsv").write_text("")
    data = DataConfig(folder=str(tmp_path), train=(("a.tsv",), ("b.tsv",)))
    assert filter_corpus(data, tmp_path / "clean").num_kept == 1
    assert (tmp_path / "clean" / "b.tsv").read_text() == ""
    with pytest.raises(DataError, match=r"no pairs to filter: .*b\.tsv has no lines"):
        filter_corpus(DataConfig(folder=str(tmp_path), train=(("b.tsv",),)), tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_arguments_that_make_no_sense_are_refused(corpus: tuple[str, str], tmp_path: Path) -> None:
    assert main(["filter", "--train", *corpus]) == 2  # nowhere to write
    assert main(["filter", "--output", str(tmp_path / "clean")]) == 2  # nothing to filter
    assert main(["filter", "--train", *corpus, "--dry-run", "--forward", "model"]) == 2
    with pytest.raises(ConfigError, match="only pairs of lines"):
        filter_corpus(DataConfig(train=(("a.mrg",),), format="trees"), None)


@pytest.mark.computes
def test_two_models_judge_what_the_other_rules_keep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(made_bundle(tmp_path / "model", ending=3.0).path)
    pairs = [("A dog runs.", "Two dogs run."), ("Two dogs run.", ""), ("Two dogs run over the grass.", "A dog")]
    (tmp_path / "a.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    command = ["filter", "--train", str(tmp_path / "a.tsv"), "--quiet", "--forward", model, "--backward", model]
    command += ["--off", "ratio", "--output"]
    assert main([*command, str(tmp_path / "none"), "--max-cross-entropy", "0.001"]) == 0
    rules = [row["rule"] for row in log(tmp_path / "none")]
    assert rules == ["cross-entropy", "empty", "cross-entropy"]
    assert main([*command, str(tmp_path / "all"), "--max-cross-entropy", "1000"]) == 0
    report = json.loads((tmp_path / "all" / "report.json").read_text())
    assert report["dropped"]["cross-entropy"] == 0
    assert report["distributions"][-1]["name"] == "dual conditional cross-entropy"
    assert sum(report["distributions"][-1]["before"]) == 2
    # No pair is left for the models: no limit can be computed, and JSON has no infinity.
    (tmp_path / "a.tsv").write_text("a dog\t\n")
    assert main([*command, str(tmp_path / "nothing")]) == 0
    text = (tmp_path / "nothing" / "report.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail)["settings"]["max_cross_entropy"] == 0


@pytest.mark.computes
def test_models_of_the_other_direction_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = made_bundle(tmp_path / "model", ending=3.0)
    for source, target in (("en", "deu_Latn"), ("de", "en")):
        data = DataConfig(source_language=source, target_language=target)
        save_bundle(tmp_path / source, replace(made.config, data=data), made.weights(), made.tokenizer, {})
    (tmp_path / "a.tsv").write_text("A dog runs.\tA man with a ball.\n")
    command = ["filter", "--train", str(tmp_path / "a.tsv"), "--languages", "en", "de", "--dry-run", "--quiet"]
    forward, backward = str(tmp_path / "en"), str(tmp_path / "de")
    assert main([*command, "--forward", backward, "--backward", forward]) == 2
    message = f"--forward {backward}: translates de → en, and a model of en → de is needed here."
    assert message in capsys.readouterr().err
    assert main([*command, "--forward", forward, "--backward", forward]) == 2
    message = f"--backward {forward}: translates en → deu_Latn, and a model of de → en is needed here."
    assert message in capsys.readouterr().err
    assert main([*command, "--forward", forward, "--backward", backward]) == 0
