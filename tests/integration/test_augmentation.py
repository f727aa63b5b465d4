"""Pairs made by a model: aligned, without what is doubtful, killed and continued, and the same with any batches."""

import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from made_models import made_bundle
from text_engine import text_translator
from transduce.augmentation import CorpusJob, MadeCorpus, back_translate, distill, forward_translate
from transduce.config import DecodeConfig
from transduce.data.readers import read_lines
from transduce.errors import ConfigError, DataError
from transduce.files import sha256
from transduce.translation.directions import Directions
from transduce.translation.pipeline import TextOptions
from transduce.translation.translator import Translator

_TESTS = Path(__file__).resolve().parents[1]
_NAMES = ["left-out.tsv", "manifest.json", "source.txt", "target.txt", "translations.jsonl.zst"]

# A job that takes its time; run again and again, and killed each time but the last.
_SLOW = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from text_engine import text_translator
from transduce.augmentation import CorpusJob, back_translate

def slowly(text):
    time.sleep(0.02)
    return text.upper()

back_translate(text_translator(slowly), Path(sys.argv[2]), Path(sys.argv[3]), CorpusJob(window=3))
"""


def upper() -> Translator:
    return text_translator(str.upper)


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def contents(folder: Path) -> dict[str, bytes]:
    """Returns the bytes of each file of a folder that is not hidden."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if not path.name.startswith(".")}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return write(tmp_path / "mono.txt", [f"line {number} of the dog" for number in range(40)])


def test_back_translation_makes_the_text_the_target_side(tmp_path: Path, text: Path) -> None:
    made = back_translate(upper(), text, tmp_path / "bt")
    source, target = made.files
    assert lines_of(target) == lines_of(text)
    assert lines_of(source) == [line.upper() for line in lines_of(text)]
    assert (made.num_lines, made.num_pairs, made.left_out) == (40, 40, {})
    assert sorted(contents(tmp_path / "bt")) == _NAMES


def test_forward_translation_makes_the_text_the_source_side(tmp_path: Path, text: Path) -> None:
    source, target = forward_translate(upper(), text, tmp_path / "ft").files
    assert lines_of(source) == lines_of(text)
    assert lines_of(target) == [line.upper() for line in lines_of(text)]


def test_doubtful_lines_are_left_out_of_both_sides_and_logged(tmp_path: Path) -> None:
    looping = " ".join(["dog"] * 9)
    text = write(tmp_path / "mono", ["one dog", "", "a\tdog", "loop", "two dogs", "  "])
    made = back_translate(
        text_translator(lambda each: looping if each == "loop" else each.upper()), text, tmp_path / "o"
    )
    source, target = made.files
    assert lines_of(source) == ["ONE DOG", "A\tDOG", "TWO DOGS"]
    assert lines_of(target) == ["one dog", "a\tdog", "two dogs"]
    assert lines_of(tmp_path / "o" / "left-out.tsv") == [
        "line\treason\ttext\ttranslation",
        "2\tempty line\t\t",
        f"4\trepeats itself\tloop\t{looping}",
        "6\tempty line\t  \t",
    ]
    assert made.left_out == {"empty line": 2, "repeats itself": 1}
    kept = back_translate(
        text_translator(lambda each: looping if each == "loop" else each.upper()),
        text,
        tmp_path / "unguarded",
        CorpusJob(text_options=TextOptions()),
    )
    assert kept.num_pairs == 4


def test_the_manifest_says_what_made_the_files(tmp_path: Path, text: Path) -> None:
    folder = tmp_path / "bt"
    made_bundle(tmp_path / "model", ending=1.0)
    translator = Translator.load(tmp_path / "model", device="cpu")
    made = back_translate(translator, text, folder, CorpusJob(options=DecodeConfig(beam_size=2)))
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest == made.manifest
    assert manifest["command"] == "back-translate"
    assert manifest["input"]["files"] == [str(text)]
    assert manifest["input"]["sha256_of_lines"] == sha256(text)
    assert manifest["job"]["beam_size"] == 2
    assert manifest["job"]["guard"] is True
    checksums = {name: digest for name, digest in manifest["job"].items() if name.startswith("sha256 of")}
    assert sha256(tmp_path / "model" / "model.safetensors") in checksums.values()
    assert manifest["files"] == {name: sha256(folder / name) for name in ("source.txt", "target.txt", "left-out.tsv")}
    counts = manifest["counts"]
    assert counts["pairs"] + sum(counts["left_out"].values()) == counts["lines"] == 40


def test_killed_at_any_time_and_continued(tmp_path: Path, text: Path) -> None:
    output, whole = tmp_path / "out", tmp_path / "whole"
    back_translate(upper(), text, whole, CorpusJob(window=3))
    command = [sys.executable, "-c", _SLOW, str(_TESTS), str(text), str(output)]
    journal = output / "translations.jsonl.zst.partial.json"
    chance = random.Random(7)
    for _ in range(3):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        before = lines_done(journal)
        while process.poll() is None and lines_done(journal) == before:  # not before it has done something
            time.sleep(0.01)
        time.sleep(chance.random() * 0.03)
        process.send_signal(signal.SIGKILL)
        _, errors = process.communicate()
        assert process.returncode == -signal.SIGKILL, errors.decode()
        assert not (output / "manifest.json").exists()
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert contents(output) == contents(whole)


def lines_done(journal: Path) -> int:
    """Returns how many lines the journal says are done; 0 without one."""
    try:
        return int(json.loads(journal.read_text())["lines"])
    except FileNotFoundError:
        return 0


@pytest.mark.parametrize("failing", ["source.txt", "target.txt", "left-out.tsv", "manifest.json"])
def test_killed_while_the_files_are_written(
    tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """Whichever of the files is not written yet: the folder has no manifest, and the next start completes it."""
    rename = Path.replace

    def killed(self: Path, target: Path) -> Path:
        if Path(target).name == failing:
            raise KeyboardInterrupt
        return rename(self, target)

    whole = back_translate(upper(), text, tmp_path / "whole")
    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        back_translate(upper(), text, tmp_path / "out")
    monkeypatch.undo()
    assert not (tmp_path / "out" / "manifest.json").exists()
    again = back_translate(upper(), text, tmp_path / "out")
    assert (again.was_finished, again.num_resumed) == (False, again.num_lines)
    assert contents(tmp_path / "out") == contents(whole.folder)


def test_a_second_start_finds_the_job_finished(tmp_path: Path, text: Path) -> None:
    folder = tmp_path / "bt"
    first = back_translate(upper(), text, folder)
    translator = upper()
    second = back_translate(translator, text, folder)
    assert not first.was_finished
    assert second.was_finished
    assert second.manifest == first.manifest
    assert translator.engine.seen == []  # type: ignore[attr-defined]
    (folder / "source.txt").write_text("changed\n")
    back_translate(translator, text, folder)
    assert lines_of(folder / "source.txt") == [line.upper() for line in lines_of(text)]


def test_another_job_is_refused_until_it_may_overwrite(tmp_path: Path, text: Path) -> None:
    folder = tmp_path / "bt"
    back_translate(upper(), text, folder)
    with pytest.raises(ConfigError, match=r"made with beam_size = 4, and now beam_size = 2\. .*--overwrite"):
        back_translate(upper(), text, folder, CorpusJob(options=DecodeConfig(beam_size=2, batch_size=4)))
    with pytest.raises(ConfigError, match="layout = back-translate, and now layout = forward-translate"):
        forward_translate(upper(), text, folder)
    other = write(tmp_path / "other", ["another dog"])
    with pytest.raises(DataError, match="another input"):
        back_translate(upper(), other, folder)
    made = back_translate(upper(), other, folder, CorpusJob(overwrite=True))
    assert lines_of(made.files[1]) == ["another dog"]


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, text: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "thesis.txt").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(DataError, match="it is not a folder of this command"):
            back_translate(upper(), text, folder, CorpusJob(overwrite=overwrite))
    with pytest.raises(DataError, match="is a file"):
        back_translate(upper(), text, text)
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]


def test_a_stopped_job_says_how_to_go_on(tmp_path: Path, text: Path) -> None:
    messages: list[str] = []

    def stop(line: str) -> str:
        if line.startswith("line 9 "):
            raise KeyboardInterrupt
        return line.upper()

    with pytest.raises(KeyboardInterrupt):
        back_translate(text_translator(stop), text, tmp_path / "bt", CorpusJob(window=4, warn=messages.append))
    assert [message.partition(": ")[2] for message in messages] == [
        "stopped; 8 lines are done and kept. The same command continues."
    ]


# --- distillation ---------------------------------------------------------------------------------------------


def test_distillation_takes_the_translation_nearest_to_the_reference(tmp_path: Path) -> None:
    """The engine's translations of "dog" are "DOG", "DOG!", "DOG!!", "DOG!!!", the best first."""
    source = write(tmp_path / "s", ["one dog", "two dogs", "three"])
    reference = write(tmp_path / "r", ["ONE DOG!!", "TWO DOGS", "THREE!!!!!!"])
    made = distill(upper(), [source, reference], tmp_path / "near", nearest="chrf")
    assert lines_of(made.files[0]) == ["one dog", "two dogs", "three"]
    assert lines_of(made.files[1]) == ["ONE DOG!!", "TWO DOGS", "THREE!!!"]
    fewer = distill(upper(), [source, reference], tmp_path / "two", nearest="bleu", n_best=2)
    assert lines_of(fewer.files[1])[2] == "THREE!"
    plain = distill(upper(), source, tmp_path / "best")
    assert lines_of(plain.files[1]) == ["ONE DOG", "TWO DOGS", "THREE"]


def test_distillation_reads_the_columns_of_one_file(tmp_path: Path) -> None:
    corpus = write(tmp_path / "pairs.tsv", ["one dog\tONE DOG!", "two dogs\tTWO DOGS!!"])
    made = distill(upper(), [corpus], tmp_path / "near", nearest="chrf")
    assert [lines_of(path) for path in made.files] == [["one dog", "two dogs"], ["ONE DOG!", "TWO DOGS!!"]]
    best = distill(upper(), [corpus], tmp_path / "best")
    assert [lines_of(path) for path in best.files] == [["one dog", "two dogs"], ["ONE DOG", "TWO DOGS"]]


@pytest.mark.parametrize("name", ["-", "pipe", "device"])
def test_pairs_that_can_be_read_once_only_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"a dog\tein Hund\n")))
    os.mkfifo(tmp_path / "pipe")
    path = {"-": "-", "pipe": str(tmp_path / "pipe"), "device": "/dev/null"}[name]
    for nearest in ("bleu", None):
        with pytest.raises(DataError, match=r"not a regular file\. Pairs are read twice"):
            distill(text_translator(), [path], tmp_path / "made", nearest=nearest)  # type: ignore[arg-type]
    assert not (tmp_path / "made").exists()


def test_unequal_sides_are_refused_before_anything_is_translated(tmp_path: Path) -> None:
    source, reference = write(tmp_path / "s", ["one", "two"]), write(tmp_path / "r", ["ONE"])
    translator = upper()
    with pytest.raises(DataError, match="must be aligned"):
        distill(translator, [source, reference], tmp_path / "near", nearest="chrf")
    assert translator.engine.seen == []  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="has no references"):
        distill(translator, source, tmp_path / "near", nearest="chrf")
    with pytest.raises(ConfigError, match="name `nearest`"):
        distill(translator, [source, source], tmp_path / "near", n_best=3)


def test_a_reference_that_changed_is_noticed(tmp_path: Path) -> None:
    source, reference = write(tmp_path / "s", ["one", "two"]), write(tmp_path / "r", ["ONE", "TWO"])
    distill(upper(), [source, reference], tmp_path / "near", nearest="chrf")
    write(reference, ["ONE", "ZWEI"])
    with pytest.raises(DataError, match="another input"):
        distill(upper(), [source, reference], tmp_path / "near", nearest="chrf")


# --- a real search ---------------------------------------------------------------------------------------------

Make = Callable[[Path, DecodeConfig, int], MadeCorpus]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    folder = tmp_path_factory.mktemp("real")
    made_bundle(folder / "model", ending=1.0)
    text = write(folder / "text", [f"A dog runs over {number} {'green ' * (number % 5)}balls." for number in range(30)])
    translator = Translator.load(folder / "model", device="cpu", engine="torch", threads=1)

    def translated(output: Path, options: DecodeConfig, window: int) -> MadeCorpus:
        return back_translate(translator, text, output, CorpusJob(options=options, window=window))

    return translated


@pytest.mark.computes
def test_random_draws_depend_on_seed_and_line_only(make: Make, tmp_path: Path) -> None:
    def texts(name: str, window: int, options: DecodeConfig) -> list[str]:
        folder = make(tmp_path / name, options, window).folder
        return [json.loads(row)["translation"] for row in read_lines(folder / "translations.jsonl.zst")]

    options = DecodeConfig(temperature=1.0, top_p=0.95, max_extra_tokens=8)
    drawn = texts("a", 30, options)
    assert len(set(drawn)) > 20
    assert texts("b", 7, replace(options, batch_size=3)) == drawn
    assert texts("c", 30, replace(options, seed=2)) != drawn
    assert texts("d", 30, DecodeConfig(max_extra_tokens=8)) != drawn


@pytest.mark.computes
def test_sampling_killed_and_continued_is_the_same(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = DecodeConfig(temperature=1.0, max_extra_tokens=8, batch_size=4)
    whole = make(tmp_path / "whole", options, 5)
    fsync, calls = os.fsync, iter(range(10**6))

    def stopped(descriptor: int) -> None:
        if next(calls) == 9:
            raise KeyboardInterrupt
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", stopped)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "out", options, 5)
    monkeypatch.undo()
    again = make(tmp_path / "out", options, 5)
    assert 0 < again.num_resumed < 30
    assert contents(again.folder) == contents(whole.folder)


def test_a_text_that_is_named_by_the_language_of_the_translations_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Translator, "directions", Directions((("en", "de"),), (), ()))
    english, german = write(tmp_path / "mono.en", ["a dog"]), write(tmp_path / "mono.de", ["ein Hund"])
    for make in (back_translate, forward_translate, distill):
        with pytest.raises(ConfigError, match=r"mono\.de: by its name its language is de, but the model translates"):
            make(upper(), german, tmp_path / "out")
        assert not (tmp_path / "out").exists()
        assert make(upper(), english, tmp_path / make.__name__).num_pairs == 1


def test_what_is_nearest_is_measured_by_a_metric_that_there_is(tmp_path: Path) -> None:
    pairs = [write(tmp_path / "a.en", ["a dog"]), write(tmp_path / "a.de", ["ein Hund"])]
    with pytest.raises(ConfigError, match=r"^nearest = 'bleux': must be one of bleu, chrf\.$"):
        distill(upper(), pairs, tmp_path / "out", nearest=cast(Any, "bleux"))
    with pytest.raises(ConfigError, match=r"^n-best = 0: must be at least 1"):
        distill(upper(), pairs, tmp_path / "out", nearest="bleu", n_best=0)
