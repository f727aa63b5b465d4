"""A run from its data to its model: what is asked of each part, which texts are scored, and what is measured."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from fake_tokenizer import FakeTokenizer
from noted_calls import Noting
from transduce import files, runs
from transduce.config import Config, DecodeConfig, apply_settings, preset
from transduce.decoding.constraints import TokenConstraints
from transduce.errors import BundleError, TrainingError
from transduce.reporting.tables import counted
from transduce.training.cost import CostAccount
from transduce.training.distributed import Ranks
from transduce.training.outcome import End, Outcome
from transduce.training.progress import Progress
from transduce.training.run_folder import checkpoint_path
from transduce.translation.pipeline.sentences import SENTENCES_METRIC

TINY = apply_settings(preset("tiny"), ["data.train=[['a.tsv']]", "train.device=cpu", "train.precision=fp32"])


class Texts:
    """Stands for a store: row n has the source N, which is "sN", and the target 100 + N, which is "tN"."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def source(self, row: int) -> np.ndarray:
        return np.array([row])

    def target(self, row: int) -> np.ndarray:
        return np.array([100 + row])

    def rows_of_corpora(self) -> dict[str, range]:
        return {"a": range(2), "b": range(2, 4)}


def names_of(side: str, first: int) -> FakeTokenizer:
    """Returns a tokenizer that names each row of one side."""
    return FakeTokenizer(decode_batch=lambda ids: [f"{side}{each[0] - first}" for each in ids])


TOKENIZER: Any = names_of("s", 0)
TOKENIZER.target_side = names_of("t", 100)
TOKENIZER.tags, TOKENIZER.target_side.tags = {"x": 8}, {"x": 7}


class Echo:
    """An engine that translates row n into "tN" and notes how."""

    made: ClassVar[list[Any]] = []
    asked: ClassVar[list[Any]] = []

    def __init__(self, model: Any, **options: Any) -> None:
        Echo.made.append((model, options))

    def translate(self, sources: Any, options: DecodeConfig, n_best: int, constraints: Any) -> list[Any]:
        assert (n_best, constraints) == (1, [TokenConstraints()] * len(sources))
        Echo.asked.append((list(sources), options))
        return [[SimpleNamespace(ids=[100 + source[0]]), "another"] for source in sources]


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> type[Echo]:
    Echo.made, Echo.asked = [], []
    monkeypatch.setattr(runs, "TorchEngine", Echo)
    return Echo


def test_validation_sentences_are_decoded_as_the_recipe_says(echo: type[Echo]) -> None:
    settings = ["train.validate_bleu_sentences=3", "train.validate_beam_size=2", "decode.length_penalty=0.3"]
    config = apply_settings(TINY, [*settings, "decode.max_extra_tokens=9", "decode.beam_size=7"])
    texts: Any = Texts(10)
    scored: list[Any] = []

    def metric(lines: Any, references: Any) -> Any:
        scored.append((lines, references))
        return SimpleNamespace(value=12.5)

    found = runs.bleu_scorer(config, TOKENIZER, texts, metric=metric)("model")
    assert found == {"bleu": 12.5}
    assert scored == [(["t0", "t1", "t2"], [["t0", "t1", "t2"]])]
    assert [(model, options["record_steps"], [*options["tags"]]) for model, options in echo.made] == [
        ("model", False, [7])
    ]
    search = DecodeConfig(beam_size=2, length_penalty=0.3, max_extra_tokens=9, batch_size=64)
    assert echo.asked == [([[0], [1], [2]], search)]
    runs.bleu_scorer(config, TOKENIZER, texts, rows=range(4, 9), metric=metric)("model")
    runs.bleu_scorer(config, TOKENIZER, texts, rows=range(4, 6), metric=metric)("model")
    assert [lines for lines, _ in scored[1:]] == [["t4", "t5", "t6"], ["t4", "t5"]]


def test_sentences_of_a_parser_are_spread_over_its_treebanks(noting: Noting, monkeypatch: pytest.MonkeyPatch) -> None:
    config = apply_settings(TINY, ["data.format=trees", "train.validate_bleu_sentences=4"])
    texts: Any = Texts(10)
    decoded = noting((runs, "_decode"), ["p0", "p2", "p5", "p7"])
    scores = noting((runs, "parse_scores"), {"f1": 1.0})
    monkeypatch.setattr(runs, "delinearise", lambda symbols, words: (symbols, words))
    monkeypatch.setattr(runs, "from_output", lambda text, words: (text, words))
    ranks = Ranks(1, 2)
    assert runs.scorer_of(config, TOKENIZER, texts, ranks)("model") == {"f1": 1.0}
    rows = [0, 2, 5, 7]  # of ten, every two and a half
    assert decoded == [(("model", [[row] for row in rows], config, TOKENIZER, ranks), {})]
    gold, parses = [[symbols[0] for symbols, _ in scores[0][0][0]], scores[0][0][1]]
    assert gold == [f"t{row}" for row in rows]
    assert parses == [(f"p{row}", [f"s{row}"]) for row in rows]
    noting((runs, "_decode"), ["p0", "p1", "p2"])
    assert runs.scorer_of(config, TOKENIZER, Texts(3))("model") == {"f1": 1.0}  # type: ignore[arg-type]


def test_each_validation_set_has_a_scorer_of_its_own(noting: Noting) -> None:
    made, texts = noting((runs, "bleu_scorer"), lambda _: {"bleu": 4.0}), Texts(4)
    scorer = runs.scorer_of(TINY, texts, texts, Ranks(1, 2))  # type: ignore[arg-type]
    given = (TINY, texts, texts, Ranks(1, 2))
    assert made == [(given, {"rows": range(2)}), (given, {"rows": range(2, 4)})]
    assert scorer("model") == {"bleu": 4.0, "bleu.a": 4.0, "bleu.b": 4.0}


class Names:
    """Stands for a tokeniser that names each row."""

    def decode_batch(self, ids: list[list[int]]) -> list[str]:
        return [f"s{each[0]}" for each in ids]


def test_a_thousand_lines_of_the_training_text_are_looked_at(noting: Noting) -> None:
    counts = noting((runs, "usual_sentences"), 3)
    config = apply_settings(TINY, ["data.source_language=en"])
    for count in (2001, 3):
        assert runs._usual_sentences(config, Names(), Texts(count)) == 3  # type: ignore[arg-type]
    lines, language = counts[0][0]
    assert (len(lines), lines[0], lines[1], language) == (1000, "s0", "s2", "en")
    assert counts[1][0][0] == ["s0", "s1", "s2"]


def test_what_is_measured_of_an_average(noting: Noting, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = noting("transduce.runs.Validation.scores", {"perplexity": 4.0, "bleu": 9.0})
    stores = noting("transduce.runs.ParallelStore.open", Texts(4))
    noting((runs, "_usual_sentences"), 2)
    noting((runs, "scorer_of"), "scorer")
    model = SimpleNamespace(to=lambda device: ("model", device.type))
    made = noting("transduce.runs.Transformer.from_weights", model)
    progress = [Progress(step=step, seconds=5.0, target_tokens=step, cost=CostAccount()) for step in (10, 20)]
    prepared: Any = SimpleNamespace(train="t.arrow", validation="v.arrow", validation_sets=("sets",))
    config = apply_settings(TINY, ["train.validate_bleu=false"])
    found = runs._measure(config, {}, "tokenizer", prepared, progress)  # type: ignore[arg-type]
    assert found == {
        "steps": 20,
        "training_seconds": 5.0,
        "target_tokens_seen": 20,
        "averaged_steps": "10, 20",
        SENTENCES_METRIC: 2,
        "validation_perplexity": 4.0,
        "validation_bleu": 9.0,
    }
    assert stores == [(("t.arrow",), {}), (("v.arrow", ("sets",)), {})]
    assert made == [((config.model, {}), {})]
    _, scored, compute = scores[0][0]
    assert (scored, compute.device.type) == (("model", "cpu"), "cpu")
    runs._measure(TINY, {}, "tokenizer", prepared, progress)  # type: ignore[arg-type]
    assert [given[0].scorer for given, _ in scores] == [None, "scorer"]
    prepared.validation = None
    trees = apply_settings(TINY, ["data.format=trees"])
    alone = runs._measure(trees, {}, "tokenizer", prepared, progress)  # type: ignore[arg-type]
    assert [*alone] == ["steps", "training_seconds", "target_tokens_seen", "averaged_steps"]


@pytest.mark.parametrize(("best", "show", "note"), [(False, True, True), (False, False, False), (True, True, False)])
def test_a_run_is_averaged_into_a_model_folder(
    best: bool, show: bool, note: bool, noting: Noting, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = apply_settings(TINY, ["train.average_last=2"])
    noting((runs, "load_run_config"), config)
    averaged = noting((runs, "average_checkpoints"), ([Progress(step=3)], {"a": 1}))
    noting((runs, "load_run_data"), SimpleNamespace(tokenizer="t"))
    noting("transduce.runs.load_tokenizer", "tokenizer")
    noting((runs, "_measure"), {"steps": 3})
    noting((runs, "ancestor_metrics"), {"ancestor": {"name": "general"}})
    found = noting((runs, "find_aligning_heads"), "heads")
    saved = noting((runs, "save_bundle"), "bundle")
    run, output = tmp_path / "run", tmp_path / "model"
    made: Any = runs.average_run(run, output, last=4, best=best, show_progress=show)
    assert made == "bundle"
    assert averaged == [((run, 4, config.train), {"best": best})]
    metrics = {"steps": 3, "ancestor": {"name": "general"}}
    assert saved == [((output, config, {"a": 1}, "tokenizer", metrics, "heads", {}), {})]
    assert found == [((config.model, {"a": 1}, "tokenizer"), {})]
    said = f"note: {run} has {counted(1, 'checkpoint')} to average, not 4\n"
    assert capsys.readouterr().err == (said if note else "")
    output.mkdir()
    (output / "model.safetensors").touch()
    with pytest.raises(BundleError, match="Add --overwrite to replace it"):
        runs.average_run(run, output)
    runs.average_run(run, output, overwrite=True)
    assert averaged[1] == ((run, 2, config.train), {"best": False})  # as many as training averages
    (output / "model.safetensors").rename(output / "mine")
    with pytest.raises(BundleError, match="it is not a model folder"):
        runs.average_run(run, output, overwrite=True)


def test_scores_of_test_sets_are_added_to_a_parsers_metrics(noting: Noting, tmp_path: Path) -> None:
    scored: list[Any] = []

    def score(trees: Any, *, label: str) -> dict[str, float]:
        scored.append((trees, label))
        return {"f1": 90.0, "recall": 80.0}

    loaded = noting("transduce.runs.Parser.load", SimpleNamespace(score=score))
    saved = noting((runs, "save_metrics"))
    bundle: Any = SimpleNamespace(path=tmp_path, config=apply_settings(TINY, []), metrics={"steps": 3})
    tests: Any = {"wsj": ["tree"] * 3, "brown": ["tree"]}
    assert runs.measure_parser(bundle, tests, show_progress=False) is bundle
    runs.measure_parser(bundle, tests)
    assert loaded[0] == ((tmp_path,), {"device": "cpu", "constrained": False})
    assert [label for _, label in scored] == ["", "", "parsing wsj", "parsing brown"]
    assert saved[0][0][1] == {
        "steps": 3,
        "test_wsj_f1": 90.0,
        "test_wsj_recall": 80.0,
        "test_wsj_sentences": 3,
        "test_brown_f1": 90.0,
        "test_brown_recall": 80.0,
        "test_brown_sentences": 1,
    }


# --- the order of a training ------------------------------------------------------------------------------------------


@pytest.fixture
def parts(noting: Noting, monkeypatch: pytest.MonkeyPatch) -> Callable[[Outcome], dict[str, Any]]:
    """Returns a function that puts fakes in the place of all parts of a training, which ends as it is told."""

    def put(outcome: Outcome) -> dict[str, Any]:
        said: list[str] = []
        trainer = SimpleNamespace(prepare=lambda: None, fit=lambda: outcome, log=SimpleNamespace(say=said.append))
        trainer.resume = lambda: False
        calls: dict[str, Any] = {"said": said, "memory": noting((runs, "require_memory"))}
        calls["prepare"] = noting((runs, "prepare"), "prepared as follows")
        prepared = SimpleNamespace(tokenizer="t", folder=Path("d"))
        calls["load"] = noting((runs, "load_prepared"), prepared)
        noting((runs, "save_run_data"))
        noting((runs, "record_ancestor"))
        noting("transduce.runs.load_tokenizer", SimpleNamespace(vocab_size=321, target_vocab_size=0))
        calls["saved"] = noting((runs, "save_run_config"))
        calls["trainer"] = noting((runs, "_trainer"), trainer)
        calls["aside"] = noting((runs, "set_aside_damaged"), ["broken."])
        calls["average"] = noting((runs, "average_run"), SimpleNamespace(metrics={"steps": 7}))
        calls["compare"] = noting((runs, "compare_with_single"))
        return calls

    return put


def test_a_training_from_the_beginning(
    parts: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = apply_settings(TINY, ["model.vocab_size=500", "text.vocab_size=400", "train.average_last=3"])
    outcome, run, made = Outcome(End.MAX_STEPS, Progress(step=7)), tmp_path / "run", list[Any]()
    calls = parts(outcome)
    given = {"mirror": Path("w"), "settings": ["train.seed=1"]}
    assert runs.train(config, run, finish=made.append, **given) == outcome  # type: ignore[arg-type]
    assert calls["memory"][0][0][0].vocab_size == 400  # the size is a limit of both
    assert calls["prepare"] == [((config, run / "data"), {"mirror": Path("w"), "progress": True})]
    assert calls["load"] == [((run / "data",), {})]
    grown = apply_settings(config, ["model.vocab_size=321"])
    assert [args for args, _ in calls["saved"]] == [(run, config, ["train.seed=1"]), (run, grown, ["train.seed=1"])]
    [((used, folder, prepared, compute, shown), _)] = calls["trainer"]
    assert (used, folder, prepared.folder, str(compute.device), shown) == (grown, run, Path("d"), "cpu", True)
    assert calls["aside"] == [((run, 3), {})]
    assert calls["average"] == [((run, run / "model"), {"last": 3, "overwrite": True, "show_progress": True})]
    assert calls["compare"] == [((run, {"steps": 7}, outcome.progress), {"show": True})]
    assert made == [SimpleNamespace(metrics={"steps": 7})]
    assert capsys.readouterr().err == (
        "prepared as follows\nwarning: broken. The model is the mean of the undamaged ones.\n"
    )
    assert calls["said"] == []
    runs.train(config, run, resume=True, show_progress=False)
    assert calls["said"] == [f"{run}: no checkpoint to resume from; starting from the beginning"]
    assert (calls["trainer"][1][0][4], calls["compare"][1][1]) == (False, {"show": False})
    assert calls["average"][1][1]["show_progress"] is False


def test_a_training_that_a_signal_stopped_makes_no_model(parts: Callable[..., Any], tmp_path: Path) -> None:
    outcome, made = Outcome(End.SIGNAL, Progress(step=7), 2), list[Any]()
    calls = parts(outcome)
    assert runs.train(TINY, tmp_path / "run", finish=made.append) == outcome
    assert (calls["average"], calls["aside"], made) == ([], [], [])
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(TrainingError, match="is a file; name a folder"):
        runs.train(TINY, file)
    with files.exclusive(tmp_path / "run"), pytest.raises(TrainingError, match="another training is at work"):
        runs.train(TINY, tmp_path / "run")


def test_a_finished_run_is_left_as_it_is(
    parts: Callable[..., Any], noting: Noting, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome, made = Outcome(End.MAX_STEPS, Progress(step=7)), list[Any]()
    calls = parts(outcome)
    noting((runs, "finished"), outcome)
    loaded = noting("transduce.runs.Bundle.load", "the model")
    assert runs.train(TINY, tmp_path, resume=True, finish=made.append) == outcome
    assert (calls["trainer"], made, loaded) == ([], ["the model"], [((tmp_path / "model",), {})])
    assert capsys.readouterr().err == f"{tmp_path}: is finished already, and left as it is\n"


def test_each_change_of_a_resumed_run_is_printed(
    parts: Callable[..., Any], noting: Noting, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = parts(Outcome(End.SIGNAL, Progress(step=7), 2))
    noting((runs, "changes_on_resume"), {"train.log_steps": "train.log_steps was 5, now 9"})
    noting((runs, "finished"))
    noting((runs, "load_run_data"), SimpleNamespace(tokenizer="t", folder=Path("d")))
    checkpoint = checkpoint_path(tmp_path, 3)
    checkpoint.mkdir(parents=True)
    (checkpoint / "state.json").touch()
    runs.train(TINY, tmp_path, resume=True, show_progress=False)
    assert capsys.readouterr().err == "resuming with a change: train.log_steps was 5, now 9\n"
    assert len(calls["saved"]) == 1  # after the vocabulary is known
    assert calls["prepare"] == []


def test_data_prepared_elsewhere_are_used_as_they_are(
    parts: Callable[..., Any], noting: Noting, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = parts(Outcome(End.SIGNAL, Progress(step=7), 2))
    noting((runs, "difference_from"), "data.max_tokens was 5, now 6")
    runs.train(TINY, tmp_path, data=Path("d"))
    assert (calls["prepare"], calls["load"]) == ([], [((Path("d"),), {})])
    said = "warning: d: was prepared differently from what the recipe says: data.max_tokens was 5, now 6. It is used as"
    assert capsys.readouterr().err.startswith(said)
    runs.train(TINY, tmp_path, data=Path("d"), show_progress=False)
    assert capsys.readouterr().err.startswith(said)  # a warning is no progress


def test_early_stopping_needs_validation_data(noting: Noting) -> None:
    noting("transduce.runs.load_tokenizer")
    config: Config = apply_settings(TINY, ["train.early_stopping=2"])
    prepared: Any = SimpleNamespace(tokenizer="t", validation=None)
    with pytest.raises(TrainingError, match=r"train\.early_stopping needs data\.validation"):
        runs._trainer(config, Path("run"), prepared, None, False)  # type: ignore[arg-type]


def test_early_stopping_without_validation_data_is_refused_before_they_are_prepared(
    parts: Callable[..., Any], tmp_path: Path
) -> None:
    calls = parts(Outcome(End.SIGNAL, Progress(step=7), 2))
    with pytest.raises(TrainingError, match=r"train\.early_stopping needs data\.validation"):
        runs.train(apply_settings(TINY, ["train.early_stopping=2"]), tmp_path / "run")
    assert calls["prepare"] == []
