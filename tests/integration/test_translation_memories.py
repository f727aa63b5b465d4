"""Commands that read a translation memory in place of aligned files: the results must be those of the files."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

import made_parallel
from made_memories import write_memory
from made_models import made_tagged_bundle
from small_corpus import sentences
from transduce import Translator
from transduce.cli.main import main
from transduce.config import DataConfig, load_recipe
from transduce.data.origins import origins
from transduce.errors import DataError
from transduce.translation.set_scores import read_test_sets

Pair = tuple[str, str]


def units_of(pairs: list[Pair], languages: Pair = ("en-US", "de-DE")) -> list[dict[str, str]]:
    """The pairs, and two units without a German text in front of every tenth one."""
    single = {"en-US": "Only here.", "fr-FR": "Seulement ici."}
    made = []
    for number, pair in enumerate(pairs):
        made += [single, single] if number % 10 == 0 else []
        made.append(dict(zip(languages, pair, strict=True)))
    return made


def write_lines(folder: Path, name: str, pairs: list[Pair]) -> list[str]:
    paths = [folder / f"{name}.{code}" for code in ("en", "de")]
    for side, path in enumerate(paths):
        path.write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    return [str(path) for path in paths]


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_from_a_memory_to_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = sentences(300, 1)
    pairs[7] = ("", pairs[7][1])
    memory = write_memory(tmp_path / "memory.tmx", units_of(pairs))
    recipe, run = tmp_path / "mine.toml", tmp_path / "run"
    assert main(["init", "--train", str(memory), "--output", str(recipe)]) == 3
    assert f"{memory}: it is not clear which languages are meant. The languages in it: de-DE, en-US, fr-FR." in (
        capsys.readouterr().err
    )
    assert not recipe.exists()
    assert main(["init", "--train", str(memory), "--languages", "en", "de", "--output", str(recipe)]) == 0
    said = capsys.readouterr().err
    assert "299 pairs, en → de" in said
    assert "skipped: 60 units without a text in both languages" in said
    data = load_recipe(recipe).data
    assert (data.train, data.source_language, data.target_language) == ((("memory.tmx",),), "en", "de")
    with_text = [pair for pair in pairs if pair[0]]
    for side, code in enumerate(("en", "de")):
        held_out = (tmp_path / f"mine.validation.{code}").read_text(encoding="utf-8").splitlines()
        assert held_out == [pair[side] for pair in with_text[::20]]

    settings = ["--set", "train.max_steps=2", "--set", "train.device=cpu", "--set", "train.average_last=1", "--quiet"]
    assert main(["train", str(recipe), "--output", str(run), *settings]) == 0
    report = json.loads((run / "data" / "report.json").read_text(encoding="utf-8"))
    assert report["train"]["num_read"] == 300
    assert report["train"]["num_kept"] == 300 - 15 - 1
    assert report["findings"]["skipped_units"] == {
        "count": 60,
        "examples": [f"{memory}: unit {number}" for number in (1, 2, 13)],
    }
    assert len(Translator.load(run / "model").translate(["big dog"])) == 1

    dropped = rows(run / "data" / "dropped.jsonl")
    unit_of = [number + 1 + 2 * (number // 10 + 1) for number in range(300)]  # two more before every tenth
    indices = [index for index, pair in enumerate(pairs) if pair in with_text[::20]]
    expected = {unit_of[7]: "empty"} | {unit_of[index]: "leak" for index in indices}
    assert {row["unit"]: row["rule"] for row in dropped} == expected
    assert all(row["file"] == str(memory) and "line" not in row for row in dropped)
    kept = [f"{memory}: unit {unit}" for unit in unit_of if unit not in expected]
    assert origins(run / "data", range(len(kept))) == [(place, place) for place in kept]  # type: ignore[arg-type]


def test_a_memory_is_prepared_as_the_two_files_of_its_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Training, validation and test sets, each as a memory and as files; in one the target comes first."""
    sets = {"train": sentences(400, 1), "dev": sentences(30, 2)}
    sets["test"] = [*sentences(30, 3), sets["train"][5]]
    files, memories = {}, {}
    for name, pairs in sets.items():
        files[name] = write_lines(tmp_path, name, pairs)
        units = units_of(pairs) if name != "dev" else units_of([(b, a) for a, b in pairs], ("de-DE", "en-US"))
        memories[name] = [str(write_memory(tmp_path / f"{name}.tmx", units))]
    found = []
    for kind, named in (("files", files), ("memories", memories)):
        recipe = tmp_path / f"{kind}.toml"
        recipe.write_text(
            f'preset = "tiny"\n[data]\nsource_language = "en"\ntarget_language = "de"\n'
            f"train = [{json.dumps(named['train'])}]\nvalidation = {json.dumps(named['dev'])}\n"
            f"test = {{ test = {json.dumps(named['test'])} }}\n[text]\nvocab_size = 300\n",
            encoding="utf-8",
        )
        output = tmp_path / kind
        assert main(["prepare", str(recipe), "--output", str(output), "--quiet"]) == 0
        names = ("tokenizer.json", "train.arrow", "validation.arrow")
        found.append({name: (output / name).read_bytes() for name in names})
        sets_read = read_test_sets(load_recipe(recipe).data)
        assert [[*text.lines] for text in sets_read[0].texts] == [[*side] for side in zip(*sets["test"], strict=True)]
    assert found[0] == found[1]
    assert [text.name for text in sets_read[0].texts] == [
        f"{tmp_path}/test.tmx, {side}" for side in ("source", "target")
    ]
    said = capsys.readouterr().out
    assert "94 units of a translation memory without a text in both languages (skipped)\n" in said
    assert f"        {tmp_path}/train.tmx: unit 8 is {tmp_path}/test.tmx: unit 39\n" in said  # 4 × 2 come before it


def test_filter_writes_a_table_of_a_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = made_parallel.pairs(2200)
    faulty = random.Random(1).sample(range(2200), 20)
    for index in faulty:
        pairs[index] = (pairs[index][0], "")
    memory = write_memory(tmp_path / "memory.tmx", units_of(pairs))
    files = write_lines(tmp_path, "lines", pairs)
    for name, given in (("of-files", files), ("of-memory", [str(memory)])):
        command = ["filter", "--train", *given, "--languages", "en", "de", "--output", str(tmp_path / name), "--quiet"]
        assert main(command) == 0
    said = capsys.readouterr().out
    assert f"note: 440 units without a text in both languages skipped, the first is {memory}: unit 1\n" in said
    by_line, by_unit = (rows(tmp_path / name / "dropped.jsonl") for name in ("of-files", "of-memory"))
    unit_of = [number + 1 + 2 * (number // 10 + 1) for number in range(2200)]
    assert [(row["file"], row["unit"], row["rule"]) for row in by_unit] == [
        ("memory.tmx", unit_of[row["line"] - 1], row["rule"]) for row in by_line
    ]
    assert {row["unit"] for row in by_unit if row["rule"] == "empty"} == {unit_of[index] for index in faulty}
    table = (tmp_path / "of-memory" / "memory.tsv").read_text(encoding="utf-8").splitlines()
    sides = [
        (tmp_path / "of-files" / f"lines.{code}").read_text(encoding="utf-8").splitlines() for code in ("en", "de")
    ]
    assert table == ["\t".join(pair) for pair in zip(*sides, strict=True)]
    assert sorted(path.name for path in (tmp_path / "of-memory").iterdir()) == [
        "dropped.jsonl",
        "memory.tsv",
        "report.html",
        "report.json",
    ]


@pytest.fixture
def measured(tmp_path: Path) -> tuple[list[str], str, str]:
    """Two files, a memory of the same 60 pairs whose header names the target, and a model from English to German."""
    pairs = sentences(60, 4)
    (tmp_path / "test.out").write_text("".join(f"{target} Und?\n" for _, target in pairs), encoding="utf-8")
    files = write_lines(tmp_path, "test", pairs)
    memory = write_memory(tmp_path / "test.tmx", units_of(pairs), source="de")
    data = DataConfig(source_language="en", target_language="de")
    return files, str(memory), str(made_tagged_bundle(tmp_path / "m", data).path)


@pytest.mark.computes
@pytest.mark.parametrize(
    "command",
    [
        ["evaluate", "--hypothesis", "OUTPUT", "--source", "SOURCE", "--reference", "TARGET", "--paper", "--json"],
        ["evaluate", "--model", "MODEL", "--source", "SOURCE", "--reference", "TARGET", "--json"],
        ["evaluate", "--model", "MODEL", "--translate", "--source", "SOURCE", "--reference", "TARGET", "--json"],
        ["score", "MODEL", "--source", "SOURCE", "--target", "TARGET"],
        ["inspect", "MODEL", "--source", "SOURCE", "--target", "TARGET", "--pharaoh", "-"],
    ],
    ids=lambda command: " ".join(word for word in command if word.islower() and word != "-"),
)
def test_a_memory_named_for_both_sides(
    measured: tuple[list[str], str, str], command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    files, memory, model = measured
    both = ["--source-language", "en", "--target-language", "de"] if "--hypothesis" in command else []
    printed = []
    for source, target in (files, (memory, memory)):
        names = {"SOURCE": source, "TARGET": target, "MODEL": model, "OUTPUT": str(Path(model).parent / "test.out")}
        assert main([*(names.get(word, word) for word in command), *both]) == 0
        printed.append(capsys.readouterr().out.replace(Path(source).name, ""))
    assert printed[0] == printed[1] != ""


def test_calibrate_reads_a_memory(measured: tuple[list[str], str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    def measure(_: object, *texts: list[str], **__: object) -> None:
        given.append(texts)
        raise DataError("that is enough")

    monkeypatch.setattr("transduce.translation.calibrating.measure", measure)
    files, memory, model = measured
    for source, target in (files, (memory, memory)):
        assert main(["calibrate", model, "--source", source, "--reference", target]) == 3
    assert given[0] == given[1] == tuple(map(list, zip(*sentences(60, 4), strict=True)))


def test_training_text_of_a_memory_is_compared(
    measured: tuple[list[str], str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    files, memory, _ = measured
    output = str(Path(files[0]).parent / "test.out")
    given = ["--source", files[0], "--reference", files[1], "--hypothesis", output, "--json"]
    languages = ["--source-language", "en", "--target-language", "de"]
    assert main(["evaluate", *given, *languages, "--train", memory]) == 0
    warnings = json.loads(capsys.readouterr().out)["warnings"]
    found = f"the training data has 60 lines of it (100.0%); line 1 is line 1 of the pairs of {memory}."
    assert [said.startswith(f"{name}: {found}") for name, said in zip(files, warnings, strict=True)] == [True, True]
