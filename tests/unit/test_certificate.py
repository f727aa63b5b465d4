"""A certificate says what was measured, and fails where it should."""

import gzip
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from transduce.bundle import Bundle
from transduce.config import Config, DataConfig
from transduce.errors import DataError, ExportError
from transduce.export.certificate import (
    EXACT,
    Certificate,
    Measured,
    ask,
    measure,
    why_not_replaceable,
    write_certificate,
)
from transduce.export.exported_folder import ExportedFolder
from transduce.export.exports import certify
from transduce.export.sentences import Sentences, choose_sentences
from transduce.export.system import Forced, forced

MEASURED = Measured(
    lines=2, target_tokens=10, lines_cut_alike=1.0, token_agreement=1.0, mean_difference=1e-6, max_difference=1e-5
)


def certificate(**changes: float) -> Certificate:
    measured = replace(MEASURED, **changes)  # type: ignore[arg-type]
    return Certificate(original="a", export="b", sentences="some", measured=measured, thresholds=EXACT)


def test_forced_log_probabilities_and_choices_by_hand() -> None:
    logits = np.log([[1.0, 2.0, 1.0], [8.0, 1.0, 1.0], [5.0, 5.0, 5.0]])
    found = forced(logits, [1, 2])  # the third row is padding
    assert found.log_probabilities == pytest.approx([math.log(0.5), math.log(0.1)])
    assert found.choices == [1, 0]


class Table:
    """A system whose every answer is written down."""

    num_positions: int | None = None

    def __init__(self, name: str, found: list[Forced], translations: list[str] | None) -> None:
        self.name, self.found, self.translations = name, found, translations

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return [[len(line)] for line in lines]

    def force(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Forced]:
        return self.found

    def translate(self, lines: Sequence[str]) -> list[str] | None:
        return self.translations


def test_measured_by_hand() -> None:
    first = Table("a", [Forced([-1.0, -2.0], [5, 2]), Forced([-0.5, -0.5], [7, 2])], ["a b c d", "x y z w"])
    second = Table("b", [Forced([-1.0, -1.5], [5, 2]), Forced([-0.6, -0.5], [8, 2])], ["a b c d", "x y z v"])

    def compared(original: Table, export: Table, references: tuple[str, ...], lines: Sequence[str]) -> Measured:
        return measure(*(ask(each, lines, [[3], [5]], [[5], [7]]) for each in (original, export)), references)

    lines, references = ("one", "three"), ("a b c d", "x y z w")
    found = compared(first, second, references, lines)
    assert (found.lines, found.target_tokens, found.lines_cut_alike) == (2, 4, 1.0)
    assert found.token_agreement == 0.75
    assert found.mean_difference == pytest.approx(0.15)
    assert found.max_difference == pytest.approx(0.5)
    assert found.identical_translations == 0.5
    assert found.bleu_original == pytest.approx(100)
    assert found.bleu_difference == pytest.approx(found.bleu_export - 100)  # type: ignore[operator]
    assert found.bleu_difference < -5  # type: ignore[operator]
    # A translation of half the length has only words that are right, and BLEU's penalty for brevity, e^(1 - 8/4).
    short, whole = Table("c", second.found, ["a b c d"]), Table("d", first.found, ["a b c d e f g h"])
    found = compared(whole, short, ("a b c d e",), lines[:1])
    assert found.bleu_between == pytest.approx(100 * math.exp(-1))
    assert found.bleu_export == pytest.approx(100 * math.exp(-0.25))
    assert found.bleu_original != found.bleu_export
    silent = compared(first, Table("c", second.found, None), references, lines)
    assert silent.identical_translations is None


@pytest.mark.parametrize(("positions", "num_source", "num_target"), [(None, 8, 8), (6, 5, 5), (100, 8, 8)])
@pytest.mark.parametrize("imported", [False, True])
def test_pairs_end_where_the_positions_of_either_end(
    monkeypatch: pytest.MonkeyPatch, imported: bool, positions: int | None, num_source: int, num_target: int
) -> None:
    """The model has nine positions, and one of them is for the end."""
    seen: list[tuple[str, int, int]] = []

    class Counting(Table):
        num_positions = positions

        def encode(self, lines: Sequence[str]) -> list[list[int]]:
            return [[7] * 20 for _ in lines]

        def translate_ids(self, sources: Sequence[Sequence[int]]) -> list[list[int]]:
            return [[8] * 30 for _ in sources]

        def force(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Forced]:
            seen.append((self.name, len(sources[0]), len(targets[0])))
            return self.found

    native, other = (Counting(name, [Forced([-1.0], [5])], None) for name in ("native", "other"))
    monkeypatch.setattr("transduce.export.native_system.NativeSystem", lambda _: native)
    monkeypatch.setattr("transduce.export.exports.position_limit", lambda _: 9)
    bundle = Bundle(Path(), None, {"model.safetensors": "12"})  # type: ignore[arg-type]
    found = certify(bundle, lambda: other, Sentences("some", ("a",), None), EXACT, imported=imported)
    assert seen[-2:] == [("native", num_source, num_target), ("other", num_source, num_target)]
    assert (found.original, found.export) == (("other", "native") if imported else ("native", "other"))
    assert found.original_sha256 == ({} if imported else {"model.safetensors": "12"})


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"token_agreement": 0.99}, "token agreement 99.000%"),
        ({"token_agreement": math.nan}, "token agreement"),
        ({"mean_difference": 0.01}, "differ by 0.01"),
        ({"mean_difference": math.nan}, "differ by nan"),
        ({"lines_cut_alike": 0.5}, "50.00% of the lines"),
    ],
)
def test_it_fails_below_each_threshold(changes: dict[str, float], named: str) -> None:
    failed = certificate(**changes)
    assert failed.verdict == "failed"
    with pytest.raises(ExportError, match=named):
        failed.require("there")
    replace(failed, forced=True).require("there")
    assert replace(failed, forced=True).verdict == "forced"
    assert named in "\n".join(failed.failures)


def test_it_passes_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"numbers")
    (tmp_path / "README.md").write_text("not listed")
    passed = certificate()
    passed.require("there")
    write_certificate(tmp_path, passed)
    said = json.loads((tmp_path / "certificate.json").read_text())
    assert said["verdict"] == "passed"
    assert list(said["export"]["sha256"]) == ["model.bin"]
    assert "bleu_original" not in said["measured"]
    assert said["versions"]["transduce"]
    assert "passed" in passed.to_markdown()


def test_only_an_unchanged_export_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"numbers")
    (tmp_path / "README.md").write_text("the card")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "README.md").write_text("a file as any other")
    write_certificate(tmp_path, replace(certificate(), format="onnx"))
    said = json.loads((tmp_path / "certificate.json").read_text())
    assert list(said["export"]["sha256"]) == ["docs/README.md", "model.bin"]
    assert why_not_replaceable(tmp_path, is_export=True) == ""
    assert why_not_replaceable(tmp_path, is_export=False) == "it is an export"
    for name in ("README.md", "docs/README.md", "model.bin"):
        before = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(before + b".")
        assert why_not_replaceable(tmp_path, is_export=True) == f"{name} changed or came since the export"
        (tmp_path / name).unlink()
        assert why_not_replaceable(tmp_path, is_export=True) == f"{name} changed or came since the export"
        (tmp_path / name).write_bytes(before)
    (tmp_path / "calibration.json").write_text("{}")
    assert why_not_replaceable(tmp_path, is_export=True) == "calibration.json changed or came since the export"
    (tmp_path / "calibration.json").unlink()
    del said["export"]["card_sha256"]
    (tmp_path / "certificate.json").write_text(json.dumps(said))
    assert "does not record whether README.md was edited" in why_not_replaceable(tmp_path, is_export=True)


@pytest.mark.parametrize(
    ("reached", "again", "fails"),
    [
        # What passed is held to the thresholds, what did not to little less than it reached.
        ({}, {"token_agreement": 0.9985}, "token agreement 99.850%, less than the 99.900%"),
        ({}, {"mean_difference": 2e-3}, "more than the 0.001 allowed"),
        ({}, {"lines_cut_alike": 0.99}, "1.00% of the lines"),
        ({"token_agreement": 0.9}, {"token_agreement": 0.86}, ""),
        ({"token_agreement": 0.9}, {"token_agreement": 0.84}, "token agreement 84.000%, less than the 85.000%"),
        ({"token_agreement": 0.9}, {"token_agreement": 0.9, "mean_difference": 2e-3}, "more than the 0.001 allowed"),
        ({"mean_difference": 0.4}, {"mean_difference": 0.5}, ""),
        ({"mean_difference": 0.4}, {"mean_difference": 0.51}, "differ by 0.51 on average, more than the 0.501"),
        ({"mean_difference": 0.4}, {"mean_difference": math.nan}, "differ by nan"),
        ({"mean_difference": math.nan}, {"mean_difference": 0.4}, "differ by 0.4"),
        ({"mean_difference": math.inf}, {"mean_difference": math.inf}, "differ by inf"),
        ({"lines_cut_alike": 0.5}, {"lines_cut_alike": 0.46}, ""),
        ({"lines_cut_alike": 0.5}, {"lines_cut_alike": 0.44}, "56.00% of the lines"),
    ],
)
def test_an_export_that_was_forced_may_be_no_worse_than_it_was(
    tmp_path: Path, reached: dict[str, float], again: dict[str, float], fails: str
) -> None:
    write_certificate(tmp_path, replace(certificate(**reached), format="onnx", forced=True))
    export = ExportedFolder.read(tmp_path)
    assert export.verdict == ("forced" if reached else "passed")
    found = export.failures(replace(certificate(**again), thresholds=export.bounds))
    assert bool(found) == bool(fails)
    assert fails in "\n".join(found)


def test_numbers_that_json_does_not_have_are_null_and_named(tmp_path: Path) -> None:
    def refuse(constant: str) -> float:
        raise ValueError(f"{constant} is not JSON")

    forced_through = certificate(mean_difference=math.nan, max_difference=math.inf)
    thresholds = replace(EXACT, mean_difference=math.inf)
    write_certificate(tmp_path, replace(forced_through, format="onnx", forced=True, thresholds=thresholds))
    said = json.loads((tmp_path / "certificate.json").read_text(), parse_constant=refuse)
    assert said["measured"]["mean_difference"] is said["measured"]["max_difference"] is None
    assert said["measured"]["token_agreement"] == 1.0
    assert said["not_finite"] == {
        "measured.mean_difference": "nan",
        "measured.max_difference": "inf",
        "thresholds.mean_difference": "inf",
    }
    export = ExportedFolder.read(tmp_path)
    assert math.isnan(export.measured.mean_difference)
    assert (export.measured.max_difference, export.thresholds.mean_difference) == (math.inf, math.inf)
    write_certificate(tmp_path, replace(certificate(), format="onnx"))
    assert "not_finite" not in json.loads((tmp_path / "certificate.json").read_text())


def test_a_certificate_without_checksums_certifies_nothing(tmp_path: Path) -> None:
    bundle = Bundle(tmp_path, None, {"model.safetensors": "12"})  # type: ignore[arg-type]
    (tmp_path / "model.bin").write_bytes(b"numbers")
    write_certificate(tmp_path, replace(certificate(), format="onnx", original_sha256=bundle.checksums))
    assert ExportedFolder.read(tmp_path).changes(bundle) == ()
    whole = json.loads((tmp_path / "certificate.json").read_text())
    for key, named in (("export", "no checksum of any file"), ("original", "no checksum of the model")):
        (tmp_path / "certificate.json").write_text(json.dumps(whole | {key: whole[key] | {"sha256": {}}}))
        [fault] = ExportedFolder.read(tmp_path).changes(bundle)
        assert named in fault


def test_sentences_come_from_a_file_then_validation_then_the_package(tmp_path: Path) -> None:
    (tmp_path / "dev.en").write_text("".join(f"line {n}\n" for n in range(10)) + "\n", encoding="utf-8")
    with gzip.open(tmp_path / "dev.de.gz", "wt", encoding="utf-8") as file:
        file.write("".join(f"Zeile {n}\n" for n in range(10)) + "leer\n")
    data = DataConfig(folder=str(tmp_path), validation=("dev.en", "dev.de.gz"), source_language="de-AT")
    config = Config(data=data)
    found = choose_sentences(config, limit=5)
    assert found.origin == "validation data (dev.en, dev.de.gz)"
    assert found.sources == tuple(f"line {n}" for n in (0, 2, 4, 6, 8))
    assert found.references == tuple(f"Zeile {n}" for n in (0, 2, 4, 6, 8))
    given = choose_sentences(config, tmp_path / "dev.en", tmp_path / "dev.de.gz")
    assert (len(given.sources), given.references[-1]) == (10, "Zeile 9")  # type: ignore[index]
    assert choose_sentences(config, tmp_path / "dev.en").references is None
    moved = Config(data=replace(data, folder=str(tmp_path / "elsewhere")))
    built_in = choose_sentences(moved)
    assert built_in.origin.startswith("built-in sentences (de)")
    assert "Hund" in built_in.sources[0]
    assert choose_sentences(Config()).origin.startswith("built-in sentences (en)")


def test_sentences_of_a_parser_are_its_treebanks(tmp_path: Path) -> None:
    (tmp_path / "dev.mrg").write_text("(S (NP (DT The) (NN dog)) (VP (VBZ barks)) (. .))\n", encoding="utf-8")
    config = Config(data=DataConfig(format="trees", folder=str(tmp_path), validation=("dev.mrg",)))
    found = choose_sentences(config)
    assert found.sources == ("The dog barks .",)
    assert found.references is not None


def test_missing_sentences_are_errors(tmp_path: Path) -> None:
    (tmp_path / "blank").write_text("\n  \n", encoding="utf-8")
    (tmp_path / "one").write_text("a line\n", encoding="utf-8")
    with pytest.raises(DataError, match="has no sentences"):
        choose_sentences(Config(), tmp_path / "blank")
    with pytest.raises(DataError, match="has 2 lines"):
        choose_sentences(Config(), tmp_path / "blank", tmp_path / "one")
    with pytest.raises(DataError, match="of which sentences"):
        choose_sentences(Config(), None, tmp_path / "one")
    with pytest.raises(DataError, match="at least 1"):
        choose_sentences(Config(), limit=0)
