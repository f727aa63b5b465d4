"""What `verify` makes its checks of: sentences, pairs, changes, ties, exports, and what it hands on to each."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import made_marian_npz
from made_models import made_tagged_bundle
from transduce.bundle import Bundle, save_bundle
from transduce.config import Config, DataConfig, DecodeConfig
from transduce.config.aligning_heads import AligningHeads
from transduce.config.corpora import CorpusConfig
from transduce.decoding.scores import Hypothesis
from transduce.engines.capabilities import CTRANSLATE2, TORCH
from transduce.engines.torch import TorchEngine
from transduce.errors import ConfigError, DataError
from transduce.export.certificate import Certificate, Measured, Thresholds
from transduce.export.exported_folder import ExportedFolder
from transduce.export.imports import import_model
from transduce.export.sentences import Sentences
from transduce.text import SubwordTokenizer, Tokenizer
from transduce.translation.directions import Directions
from transduce.verification import (
    QUICK,
    Finding,
    Settings,
    drafts,
    engines,
    exports,
    folder,
    greedy,
    invariances,
    kernels,
    run,
    verify,
)
from transduce.verification.checks import CHECKS, Check, of_exports, of_other_engines
from transduce.verification.differences import Differences
from transduce.verification.engines import OTHERS, Other
from transduce.verification.model_under_test import ModelUnderTest, Pairs, padded
from transduce.verification.sample import Sample, choose
from transduce.verification.search import Search
from verified_model import LINES, save_model

MANY = DataConfig(
    corpora=(
        CorpusConfig(files=("x",), source_language="en", target_language="de", domain="law"),
        CorpusConfig(files=("y",), source_language="en", target_language="fr"),
    )
)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A model of two target languages and a domain."""
    return made_tagged_bundle(tmp_path_factory.mktemp("models") / "many", MANY)


# --- the folder --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda file: file.write_text(file.read_text().replace("[", "[ ")), "changed or damaged"),
        (Path.unlink, "missing, though config.json has its checksum"),
    ],
)
def test_the_heads_that_align_have_a_checksum_too(tmp_path: Path, damage: Callable[[Path], Any], said: str) -> None:
    bundle = save_model(tmp_path / "model")
    heads = AligningHeads(0, (0,))
    made = save_bundle(tmp_path / "aligned", bundle.config, bundle.weights(), bundle.tokenizer, {}, heads)
    assert folder.checksums(made).faults == ()
    damage(made.path / "alignment.json")
    (fault,) = folder.checksums(made).faults
    assert fault.startswith(f"{made.path / 'alignment.json'}: {said}")


class LowersCase(SubwordTokenizer):
    """A tokenizer that does not restore text."""

    def decode(self, ids: Sequence[int]) -> str:
        return super().decode(ids).lower()


class TwoSides(SubwordTokenizer):
    """A tokenizer whose target side is another one."""

    @property
    def target(self) -> Tokenizer:
        return LowersCase.from_json(self.to_json())


def test_the_tokenizer_of_the_target_is_checked_too() -> None:
    plain = SubwordTokenizer.train(["a b c"], algorithm="bpe", vocab_size=300)
    sample = Sample(("A dog runs.",), ("line 1",), "a file")
    for kind, expected in ((SubwordTokenizer, ()), (TwoSides, ("target: line 1 : comes back as 'a dog runs.'",))):
        tested: Any = SimpleNamespace(bundle=SimpleNamespace(tokenizer=kind.from_json(plain.to_json())), sample=sample)
        assert folder.tokenizer(tested).faults[:1] == expected


# --- exports ----------------------------------------------------------------------------------------------------


def exported(verdict: str = "passed", **measured: float) -> ExportedFolder:
    figures: dict[str, Any] = {"lines": 2, "target_tokens": 9, "lines_cut_alike": 1.0, "token_agreement": 0.9}
    figures |= {"mean_difference": 0.25, "max_difference": 2.5}
    found = Measured(**figures | measured)
    bounds = Thresholds(token_agreement=0.8, mean_difference=0.5)
    checksums = {"a": "1", "b": "2"}
    return ExportedFolder(Path("there"), "onnx", "float32", bounds, found, verdict, checksums, {"m": "3"})


@pytest.mark.parametrize(
    ("verdict", "changed", "faults"),
    [
        ("passed", (), ()),
        ("forced", (), ()),
        ("failed", (), ("its certificate says that it failed",)),
        ("failed", ("a: missing",), ("a: missing", "its certificate says that it failed")),
        ("passed", ("a: missing",), ("a: missing",)),
    ],
)
def test_an_export_is_what_was_certified(
    monkeypatch: pytest.MonkeyPatch, verdict: str, changed: tuple[str, ...], faults: tuple[str, ...]
) -> None:
    asked: list[Any] = []

    def changes(self: ExportedFolder, bundle: Any) -> tuple[str, ...]:
        asked.append(bundle)
        return changed

    monkeypatch.setattr(ExportedFolder, "changes", changes)
    tested: Any = SimpleNamespace(bundle="the model")
    found = exports.certified_files(exported(verdict), tested)
    assert (found.faults, asked) == (faults, ["the model"])
    assert found.compared == f"SHA-256 of 2 files in there, onnx, certificate: {verdict}"


@pytest.mark.parametrize("verdict", ["passed", "forced"])
def test_an_export_is_compared_again_on_the_sentences_of_the_check(
    monkeypatch: pytest.MonkeyPatch, verdict: str
) -> None:
    calls: list[Any] = []
    measured = replace(exported().measured, token_agreement=0.85, mean_difference=0.375, max_difference=3.0)
    measured = replace(measured, bleu_between=88.25)

    def certify(*given: Any) -> Certificate:
        calls.append((given[0], given[1](), *given[2:]))
        return Certificate(original="a", export="b", sentences="c", measured=measured, thresholds=given[3])

    monkeypatch.setattr(exports, "load_system", lambda *given: calls.append(given) or "a system")  # type: ignore[func-returns-value]
    monkeypatch.setattr(exports, "certify", certify)
    sample = Sample(("one", " ", "two"), ("1", "2", "3"), "a file")
    tested: Any = SimpleNamespace(bundle="the model", sample=sample)
    export = exported(verdict)
    found = exports.certified_again(export, tested)
    assert calls == [
        ("onnx", Path("there"), "the model", "float32"),
        ("the model", "a system", Sentences("a file", ("one", "two")), export.bounds),
    ]
    assert (found.worst, found.tolerance, found.faults) == (0.375, 0.5, ())
    assert found.compared == "9 tokens of 2 translations, mean difference of a log-probability"
    forced = "; exported with --force, certified at 90.00%, mean 0.25, greatest 2.5" if verdict == "forced" else ""
    assert found.note == f"token agreement 85.00%, greatest 3; BLEU between the outputs 88.2{forced}"
    worse = exports.certified_again(exported(verdict, token_agreement=0.79), tested)
    assert worse.faults == (), "what missed a threshold may miss it again by a little"
    strict = replace(export, thresholds=Thresholds(token_agreement=0.86, mean_difference=0.5))
    assert "token agreement 85.000%" in exports.certified_again(strict, tested).faults[0]


def test_each_export_has_both_checks_of_its_own() -> None:
    first, second = exported(), replace(exported(), folder=Path("elsewhere"))
    groups = of_exports([first, second])
    assert [[check.name for check in group] for group in groups] == [
        [f"export {name}: files", f"export {name}: = native"] for name in ("there", "elsewhere")
    ]
    assert [check.run.args for group in groups for check in group] == [(first,)] * 2 + [(second,)] * 2  # type: ignore[attr-defined]


# --- other engines ----------------------------------------------------------------------------------------------


def test_every_engine_is_compared_in_all_numbers_that_it_is_held_to() -> None:
    assert OTHERS == (("torch", "int8"), ("ctranslate2", "float32"), ("ctranslate2", "int8"))
    assert TORCH.verified == CTRANSLATE2.verified == ("float32", "int8")
    tested: Any = SimpleNamespace()
    names = [[check.name for check in group] for group in of_other_engines(tested, 2)]
    parts = ("loads", "forced scores", "outputs", "batches", "n-best", "scores")
    assert names == [[f"{' '.join(each)}: {part}" for part in parts] for each in OTHERS]


@pytest.mark.parametrize(("quantization", "tolerance"), [("float32", 1e-3), ("int8", 0.3)])
def test_another_engine_searches_what_it_reads_with_its_own_tolerance(
    monkeypatch: pytest.MonkeyPatch, quantization: str, tolerance: float
) -> None:
    loaded: list[Any] = []
    engine = SimpleNamespace(max_source_tokens=2, name="it")

    def load(*given: Any, **options: Any) -> Any:
        loaded.append((given, options))
        return engine

    monkeypatch.setattr(engines, "load_engine", load)
    options, settings = DecodeConfig(), Settings()
    own = Search("reference", ("a",), [[5, 6, 7], [8]], options, "tokenizer", settings, 9.0)  # type: ignore[arg-type]
    begun: list[Any] = []
    tested: Any = SimpleNamespace(bundle="m", device=torch.device("cpu"), sources=own.sources, search=own)
    tested.begun = lambda given: begun.append(given) or given  # with the target's tags
    other = Other(tested, "ctranslate2", quantization, 3)
    assert other.loads() == Finding("it")
    assert other.search == replace(own, engine=engine, sources=[[5, 6], [8]], tolerance=tolerance)
    [((bundle, choice), further)] = loaded  # once
    assert begun == [engine]
    assert (bundle, choice.name, choice.fallback) == ("m", "ctranslate2", "")
    assert further == {"device": "cpu", "threads": 3, "quantization": quantization}


# --- the whole --------------------------------------------------------------------------------------------------


class Made:
    """Stands for what `verify` calls, and notes what it is given."""

    def __init__(self, patch: pytest.MonkeyPatch, outcomes: dict[str, bool]) -> None:
        self.tested: list[Any] = []
        self.chosen: list[Any] = []
        self.loaded: list[Any] = []
        self.others: list[Any] = []
        sample, engine = Sample(("one", "two"), ("1", "2"), "a file"), SimpleNamespace(name="an engine")

        def check(name: str) -> Check[Any]:
            def make(tested: Any) -> Finding:
                self.tested.append((name, tested))
                return Finding("x", faults=() if outcomes.get(name, True) else ("no",))

            return Check(name, f"{name} holds", make, f"mend {name}")

        def noting(calls: list[Any], result: Any) -> Any:
            def fake(*given: Any, **options: Any) -> Any:
                calls.append((given, options))
                return result

            return fake

        patch.setattr(run, "FOLDER_CHECKS", (check("first"), check("loads")))
        patch.setattr(run, "CHECKS", (check("c"), check("d")))
        patch.setattr(run, "choose", noting(self.chosen, sample))
        patch.setattr(run.TorchEngine, "load", noting(self.loaded, engine))
        patch.setattr(run, "of_other_engines", noting(self.others, [(check("e"), check("f")), (check("g"),)]))


def test_verify_hands_on_what_it_is_asked_for(monkeypatch: pytest.MonkeyPatch, bundle: Bundle) -> None:
    made = Made(monkeypatch, {"e": False})
    settings = Settings(**QUICK, target_language="fr", domain="law")
    report = verify(bundle.path, sentences="lines.txt", settings=settings, device="cpu", threads=3)
    assert [result.name for result in report.checks] == ["first", "loads", "c", "d", "e", "g"]  # f would say nothing
    [((folder, given, count, target), _)] = made.chosen
    assert (folder.path, given, count, target) == (bundle.path, Path("lines.txt"), 16, "fr")
    [((_,), options)] = made.loaded
    assert options == {"device": "cpu", "threads": 3}
    [((tested, threads), _)] = made.others
    assert (threads, tested.settings, tested.engine.name) == (
        3,
        Settings(**QUICK, target_language="fr", domain="law"),
        "an engine",
    )
    assert (tested.direction.target, tested.direction.tags) == ("fr", ("<2fr>", "<domain:law>"))
    assert [each for name, each in made.tested if name in "cdeg"] == [tested] * 4
    assert report.model == (
        f"{bundle.path} (many, a translator of 2 + 2 layers, d_model 32, {bundle.tokenizer.vocab_size:,} subwords)"
    )
    assert report.engine.startswith("an engine, ")
    assert (report.sentences, report.search) == ("2, from a file", "beam 2, length penalty 0.6")
    assert [(each.promise, each.advice) for each in report.checks[:1]] == [("first holds", "mend first")]
    assert not report.passed


def test_verify_as_it_is_called_without_options(monkeypatch: pytest.MonkeyPatch, bundle: Bundle) -> None:
    made = Made(monkeypatch, {})
    report = verify(bundle.path, sentences=["a", "b"], device="cpu", other_engines=False)
    assert [result.name for result in report.checks] == ["first", "loads", "c", "d"]
    [((_, given, count, target), _)] = made.chosen
    assert (given, count, target) == (["a", "b"], 40, "de")
    assert (made.others, made.tested[-1][1].direction.tags) == ([], ("<2de>",))
    verify(bundle.path, settings=Settings(num_sentences=7), quick=True, device="cpu", other_engines=False)
    assert made.chosen[1][0][1:3] == (None, 7)  # settings come before `quick`
    with pytest.raises(TypeError, match="unexpected keyword argument 'precision'"):
        verify(bundle.path, precision="int8")  # type: ignore[call-arg]
    for wrong in ({"target_language": "it"}, {"domain": "medicine"}):
        with pytest.raises(ConfigError, match=f"'{next(iter(wrong.values()))}': this model does not know it"):
            verify(bundle.path, device="cpu", settings=Settings(**wrong))  # type: ignore[arg-type]


def test_a_model_that_does_not_load_is_checked_no_further(monkeypatch: pytest.MonkeyPatch, bundle: Bundle) -> None:
    made = Made(monkeypatch, {"first": False})
    report = verify(bundle.path, device="cpu")
    assert [result.outcome for result in report.checks] == ["failed", *["passed"] * 6]  # the first is no obstacle
    made = Made(monkeypatch, {"loads": False})
    report = verify(bundle.path, device="cpu")
    assert [result.outcome for result in report.checks] == ["passed", "failed", "skipped", "skipped"]
    assert report.checks[2].finding.skipped == "this model cannot be used: see 'loads'"
    assert (report.engine.partition(",")[0], report.sentences, report.search) == ("cpu", "none", "")
    assert (made.loaded, made.chosen) == ([], [])


# --- sentences and pairs ----------------------------------------------------------------------------------------


def test_sentences_are_spread_and_named_by_their_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle: Any = SimpleNamespace(config=Config(), tokenizer=None)
    lines = ["one", "", "two", "three", "four", "five"]
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    found = choose(bundle, tmp_path / "lines", 2)
    assert (found.lines, found.names, found.origin) == (("one", "three"), ("line 1", "line 4"), str(tmp_path / "lines"))
    given = choose(bundle, lines, 9)
    assert given.names == tuple(f"sentence {number}" for number in (1, 3, 4, 5, 6))
    assert given.origin == "those given"
    monkeypatch.setattr("transduce.verification.sample._MAX_READ", 4)
    assert choose(bundle, lines, 9).lines == ("one", "two", "three")  # of what is read
    with pytest.raises(DataError, match="those given: no sentences"):
        choose(bundle, ["", " "], 2)
    with pytest.raises(ConfigError, match="count = 0: verify on at least one"):
        choose(bundle, lines, 0)


def test_sentences_of_a_validation_set_are_those_of_the_language(tmp_path: Path) -> None:
    for name in ("dev.en", "dev.fr"):
        (tmp_path / name).write_text(f"{name}\n", encoding="utf-8")
    data = DataConfig(folder=str(tmp_path), validation=("dev.en", "dev.fr"), source_language="en")
    bundle: Any = SimpleNamespace(config=Config(data=data), tokenizer=None)
    found = choose(bundle, None, 2)
    assert found == Sample(("dev.en",), ("line 1",), f"the validation set, {tmp_path / 'dev.en'}")
    (tmp_path / "dev.tsv").write_text("a\tb\nc\td\n", encoding="utf-8")
    table: Any = SimpleNamespace(config=Config(data=replace(data, validation=("dev.tsv",))), tokenizer=None)
    assert choose(table, None, 2) == Sample(
        ("a", "c"), ("sentence 1", "sentence 2"), f"the validation set, {tmp_path / 'dev.tsv'}"
    )


def test_attention_is_checked_where_the_target_has_a_smaller_vocabulary_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(made_marian_npz, "TARGET_WORDS", ["ein", "der", "Hund"])
    made_marian_npz.make_marian(tmp_path / "opus", "none")
    import_model(tmp_path / "opus", tmp_path / "model", compare=False)
    bundle = Bundle.load(tmp_path / "model")
    engine = TorchEngine.load(bundle, device="cpu")
    sample = Sample(("zebra jug", "a dog"), ("line 1", "line 2"), "made")  # letters have the last ids
    tested = ModelUnderTest(bundle, sample, engine, Settings(), Directions.of(bundle.tokenizer, bundle).choose())
    assert max(tested.sources[0]) >= bundle.config.model.output_vocab_size
    with torch.inference_mode():
        assert kernels.attention(tested).outcome == "passed"


@pytest.mark.parametrize("check", [greedy.greedy, drafts.drafts])
def test_searches_are_checked_where_positions_end_before_outputs_do(
    tmp_path: Path, check: Callable[[ModelUnderTest], Finding]
) -> None:
    bundle = save_model(tmp_path / "model", positions="learned", max_positions=9)
    engine, direction = TorchEngine.load(bundle, device="cpu"), Directions.of(bundle.tokenizer, bundle).choose()
    tested = ModelUnderTest(bundle, choose(bundle, LINES, 4), engine, Settings(num_pairs=4), direction)
    with torch.inference_mode():
        assert check(tested).faults == ()
        assert max(len(best.ids) for best, *_ in tested.search.found) == 8, "without EOS"


def model_of_pairs(bundle: Bundle, **settings: Any) -> tuple[ModelUnderTest, list[Any]]:
    """Returns a model whose greedy outputs are as many tokens, 30 and on, as its source has."""
    searched: list[Any] = []

    def translate(sources: Sequence[Sequence[int]], options: DecodeConfig) -> list[list[Hypothesis]]:
        searched.append((sources, options))
        return [[Hypothesis(list(range(30, 30 + len(source))), -1.0, -1.0, True)] for source in sources]

    engine: Any = SimpleNamespace(max_source_tokens=19, translate=translate, device=torch.device("cpu"), model=None)
    lines = ["", *LINES]
    sample = Sample(tuple(lines), tuple(f"line {number}" for number in range(len(lines))), "made")
    direction = Directions.of(bundle.tokenizer, bundle).choose()
    return ModelUnderTest(bundle, sample, engine, Settings(**settings), direction), searched


def test_pairs_go_from_the_shortest_sentence_to_the_longest(tmp_path: Path) -> None:
    bundle = save_model(tmp_path / "model", decode=DecodeConfig(beam_size=1, max_extra_tokens=9, length_penalty=0.25))
    tested, searched = model_of_pairs(bundle, num_pairs=3, max_target_tokens=12)
    assert (tested.options.beam_size, tested.options.length_penalty) == (4, 0.25)  # one beam would say little
    lengths = {name: len(source) for name, source in zip(tested.sample.names, tested.sources, strict=True)}
    assert max(lengths.values()) == 19  # what is read
    by_length = sorted(lengths, key=lambda name: lengths[name])
    # Of nine sentences the first, the fifth and the last; the first is empty, and no pair.
    assert tested.pairs.names == (by_length[4], by_length[8])
    [(sources, options)] = searched
    assert (options.beam_size, options.max_extra_tokens) == (1, 9)
    assert tested.pairs.sources == tuple((*source, 2) for source in sources)
    for source, target in zip(sources, tested.pairs.targets, strict=True):
        written = list(range(30, 30 + len(source)))[:11]
        assert list(target[: len(written)]) == written
        assert (len(target), target[-1]) == (min(max(len(source), 6), 11) + 1, 2)
        assert all(4 <= token < bundle.config.model.vocab_size for token in target[:-1])
    assert tested.position_limit == 20
    again, _ = model_of_pairs(bundle, num_pairs=3, max_target_tokens=12)
    assert again.pairs == tested.pairs
    assert model_of_pairs(bundle, max_target_tokens=40)[0].max_target_tokens == 20  # as far as its positions reach
    assert len(tested.pairs.select([1])) == 1
    assert tested.pairs.select([1]).names == tested.pairs.names[1:]


def test_a_wide_beam_is_kept_and_a_source_begins_with_its_tags(bundle: Bundle) -> None:
    tested, _ = model_of_pairs(bundle)
    tag = bundle.tokenizer.tags["<2de>"]
    assert tested.options.beam_size == 2
    assert [source[0] for source in tested.sources] == [tag] * 9
    assert tested.never_generated == (0, 1, 3, *bundle.tokenizer.tags.values())
    assert tested.sources[1][1:] == bundle.tokenizer.encode(LINES[0])[:18]


def test_padding_of_other_ids_fills_up_what_is_behind_a_sentence() -> None:
    fill = torch.arange(100, 116).view(2, 8)
    ids, lengths = padded([[5, 2], [6, 7, 2]], torch.device("cpu"), 4, fill)
    assert ids.tolist() == [[5, 2, 102, 103], [6, 7, 2, 111]]
    assert (lengths.tolist(), fill[0, 0]) == ([2, 3], 100)
    assert padded([[5, 2], [6, 7, 2]], torch.device("cpu"))[0].tolist() == [[5, 2, 0], [6, 7, 2]]


# --- changes and ties -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("longest", "number", "expected"),
    [(10, 3, [0, 4, 8]), (10, 1, [0]), (16, 3, [0, 7, 14]), (4, 9, [0, 1, 2]), (2, 3, [0]), (1, 3, [0])],
)
def test_targets_are_changed_from_spread_positions_on(longest: int, number: int, expected: list[int]) -> None:
    """The last two are left: the end is never an input, and something must follow what is changed."""
    assert invariances._cuts(longest, number) == expected


def test_all_tokens_but_the_end_are_changed_into_others() -> None:
    model = SimpleNamespace(vocab_size=40, output_vocab_size=12)
    tested: Any = SimpleNamespace(bundle=SimpleNamespace(config=SimpleNamespace(model=model)))
    pairs = Pairs(("a", "b", "c"), ((5, 2),) * 3, ((5, 6, 7, 8, 2), (5, 2), (5, 6, 11, 2)))
    first, second, third = invariances._changed(tested, pairs, 2).targets
    assert (first[:2], first[4], second, third[:2], third[3]) == ((5, 6), 2, (5, 2), (5, 6), 2)
    for new, old in ((first[2], 7), (first[3], 8), (third[2], 11)):
        assert new != old
        assert 4 <= new < 12
    assert len({invariances._changed(tested, pairs, cut).targets[0] for cut in (0, 1, 2)}) == 3


@pytest.mark.parametrize(
    ("first", "second", "scores", "said"),
    [
        ([7, 8], [7, 8], [], None),
        ([7, 8], [7, 9], [-1.0, -1.00005], "tie: line, how, token 2"),
        ([7, 8], [7, 9], [-1.0, -1.5], "fault: line, how: '7 8' and '7 9' differ from token 2 on; the log"),
        ([7], [7, 9], [-1.0, -1.5], "fault: line, how: '7' and '7 9' differ from token 2 on; the log"),
    ],
)
def test_outputs_differ_by_a_tie_or_a_fault(
    first: list[int], second: list[int], scores: list[float], said: str | None
) -> None:
    """What counts are the scores of the first tokens that differ, where that may be the end of one."""
    asked: list[Any] = []

    def score(sources: Any, targets: Any) -> list[list[float]]:
        asked.append((sources, targets))
        return [[0.0, value, 9.0] for value in scores]

    tested: Any = SimpleNamespace(
        pairs=Pairs(("line",), ((5, 6, 2),), ((7, 2),)),
        engine=SimpleNamespace(score=score),
        text=lambda ids: " ".join(map(str, ids)),
        settings=Settings(),
    )
    seen = Differences()
    assert greedy._same(tested, 0, first, second, "how", seen) is (said is None)
    found = [f"tie: {tie.sentence}" for tie in seen.ties] + [f"fault: {fault}" for fault in seen.faults]
    assert (found == []) if said is None else (len(found) == 1 and found[0].startswith(said))
    assert asked == ([] if said is None else [([[5, 6]] * 2, [first[:2], second[:2]])])
    assert seen.count == 1


def test_the_checks_of_every_model() -> None:
    assert [check.name for check in CHECKS] == [
        *("saved = loaded", "tokenizer", "causality", "cache = no cache", "cache, beams moved", "padding"),
        *("evaluation repeats", "train = evaluate", "attention = eq. 1", "prepacked = plain", "precision"),
        *("batch size and order", "beam 1 = greedy", "drafts = greedy", "n-best", "scores = forced"),
    ]
