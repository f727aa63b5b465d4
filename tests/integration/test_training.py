"""Training from prepared data to a model folder: what must not change an update, and what must survive a stop."""

import dataclasses
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from transduce import files
from transduce import runs as runs_module
from transduce.bundle import Bundle
from transduce.cli.main import main as command_line
from transduce.config import Config, DecodeConfig, load_recipe
from transduce.config.tensors import read_weights
from transduce.data.batching import BatchPlan, plan_epoch
from transduce.data.prepare import prepare
from transduce.data.store import ParallelStore
from transduce.engines.torch import TorchEngine
from transduce.errors import BundleError, ConfigError, DataError, TrainingError
from transduce.runs import average_run, load_run_config, load_run_data, train
from transduce.training import step as step_module
from transduce.training import trainer as trainer_module
from transduce.training.averaging import average
from transduce.training.device import Compute
from transduce.training.distributed import Ranks
from transduce.training.schedule import cooldown, noam
from transduce.training.state import Progress, check_checkpoint, checkpoint_weights, checkpoints, read_progress
from transduce.training.trainer import Outcome, Trainer
from transduce.translation.translator import Translator

pytestmark = pytest.mark.computes

RECIPE = """
name = "small"

[model]
num_encoder_layers = 1
num_decoder_layers = 2
d_model = 16
d_ff = 32
num_heads = 2
d_k = 8
d_v = 8
dropout = 0.1
attention_dropout = 0.1
ffn_dropout = 0.1

[text]
vocab_size = 300

[data]
folder = "."
train = [["train.en", "train.de"]]
validation = ["dev.en", "dev.de"]
max_tokens = 1000

[train]
source_batch_tokens = 300
target_batch_tokens = 300
warmup_steps = 20
max_steps = 12
device = "cpu"
precision = "fp32"
checkpoint_minutes = 0.0
validate_steps = 0
validate_bleu = false
log_steps = 1
"""

# Both sides of one pair are longer than a batch's budget: it is a batch of its own, and one of two ranks gets nothing.
LONG = "a b c d e " * 40


def lines(count: int, seed: int) -> list[str]:
    generator = np.random.default_rng(seed)
    words = ["red", "blue", "dog", "man", "runs", "sits", "on", "a", "the", "hill"]
    return [" ".join(generator.choice(words, int(generator.integers(1, 12)))) + f" {seed}{n}" for n in range(count)]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    for split, count, seed in (("train", 80, 1), ("dev", 10, 2)):
        sources = lines(count, seed) + ([LONG] if split == "train" else [])
        (folder / f"{split}.en").write_text("\n".join(sources) + "\n")
        (folder / f"{split}.de").write_text("\n".join(line.upper() for line in sources) + "\n")
    (folder / "recipe.toml").write_text(RECIPE)
    prepare(load_recipe(folder / "recipe.toml"), folder / "prepared", progress=False)
    return folder / "recipe.toml"


@pytest.fixture(scope="module")
def data(recipe: Path) -> Path:
    return recipe.parent / "prepared"


@pytest.fixture(scope="module")
def config(recipe: Path) -> Config:
    loaded = load_recipe(recipe)
    return dataclasses.replace(loaded, model=dataclasses.replace(loaded.model, vocab_size=300))


def with_train(config: Config, **changes: Any) -> Config:
    return dataclasses.replace(config, train=dataclasses.replace(config.train, **changes))


def without_dropout(config: Config) -> Config:
    model = dataclasses.replace(config.model, dropout=0.0, attention_dropout=0.0, ffn_dropout=0.0)
    return dataclasses.replace(config, model=model)


def make_trainer(config: Config, run: Path, data: Path, **arguments: Any) -> Trainer:
    run.mkdir(parents=True, exist_ok=True)
    return Trainer(config, run, ParallelStore.open(data / "train.arrow"), show_progress=False, **arguments)


def validation_store(data: Path) -> ParallelStore:
    return ParallelStore.open(data / "validation.arrow")


def batches_an_epoch(config: Config, data: Path) -> int:
    store, settings = ParallelStore.open(data / "train.arrow"), config.train
    plan = plan_epoch(
        store.source_lengths,
        store.target_lengths,
        source_budget=settings.source_batch_tokens,
        target_budget=settings.target_batch_tokens,
        seed=settings.seed,
        epoch=0,
    )
    return len(plan)


def state_of(trainer: Trainer) -> dict[str, Tensor]:
    """Weights and Adam's moments, each under a name of its own."""
    weights = {f"weight {name}": value.clone() for name, value in trainer.model.weights().items()}
    moments = {
        f"{key} {name}": trainer.optimizer.state[parameter][key].clone()
        for name, parameter in trainer.model.named_parameters()
        for key in ("exp_avg", "exp_avg_sq", "step")
    }
    return weights | moments


def assert_identical(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []


def assert_close(ours: dict[str, Tensor], theirs: dict[str, Tensor], tolerance: float = 1e-5) -> None:
    assert ours.keys() == theirs.keys()
    for name in ours:
        torch.testing.assert_close(
            ours[name], theirs[name], rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
        )


def final_weights(run: Path) -> dict[str, Tensor]:
    weights = read_weights(checkpoint_weights(checkpoints(run)[-1]))
    return {name: torch.from_numpy(weight) for name, weight in weights.items()}


def without_clock(progress: Progress) -> dict[str, Any]:
    """All but times: of the cost, what was counted."""
    values = {key: value for key, value in dataclasses.asdict(progress).items() if key not in ("seconds", "cost")}
    return values | {"flops": progress.cost.flops, "counted_steps": progress.cost.steps}


def stop_after(trainer: Trainer, step: int) -> None:
    """Makes this process get a SIGTERM during step number `step`."""
    original = trainer_module.train_step

    def interrupted(*arguments: Any) -> Any:
        if arguments[4] == step:
            os.kill(os.getpid(), signal.SIGTERM)
        return original(*arguments)

    trainer_module.train_step = interrupted
    try:
        outcome = trainer.fit()
    finally:
        trainer_module.train_step = original
    assert (outcome.reason, outcome.signal, outcome.progress.step) == ("stopped", signal.SIGTERM, step)


# --- what must not change an update ---------------------------------------------------------------------------


@pytest.mark.parametrize("micro_batch_tokens", [1, 60])
def test_many_micro_batches_are_one_batch(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, micro_batch_tokens: int
) -> None:
    num_batches = 0
    collate = step_module.collate

    def counted(*arguments: Any) -> Any:
        nonlocal num_batches
        num_batches += 1
        return collate(*arguments)

    monkeypatch.setattr(step_module, "collate", counted)
    config = with_train(without_dropout(config), max_steps=2)
    whole = make_trainer(config, tmp_path / "whole", data)
    whole.fit()
    assert num_batches == 2
    parts = make_trainer(with_train(config, micro_batch_tokens=micro_batch_tokens), tmp_path / "parts", data)
    parts.fit()
    assert num_batches >= 2 + 4
    assert_close(dict(whole.model.weights()), dict(parts.model.weights()))


def test_two_processes_are_one(recipe: Path, config: Config, data: Path, tmp_path: Path) -> None:
    steps = batches_an_epoch(config, data)  # so that the batch of one pair, which leaves a process idle, is among them
    settings = [
        f"train.max_steps={steps}",
        *(f"model.{name}=0.0" for name in ("dropout", "attention_dropout", "ffn_dropout")),
    ]
    arguments = ["train", str(recipe), "--data", str(data)]
    arguments += [word for setting in settings for word in ("--set", setting)]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "transduce.cli.main", *arguments, "--output", str(tmp_path / "two")],
            env=os.environ | world | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    assert command_line([*arguments, "--output", str(tmp_path / "one"), "--quiet"]) == 0
    for process in processes:
        _, messages = process.communicate(timeout=300)
        assert process.returncode == 0, messages
    assert_close(final_weights(tmp_path / "one"), final_weights(tmp_path / "two"))
    records = [
        [
            r
            for r in map(json.loads, (tmp_path / run / "metrics.jsonl").read_text().splitlines())
            if r["kind"] == "train"
        ]
        for run in ("one", "two")
    ]
    assert [r["target_tokens"] for r in records[0]] == [r["target_tokens"] for r in records[1]]
    np.testing.assert_allclose([r["loss"] for r in records[0]], [r["loss"] for r in records[1]], rtol=1e-5)
    np.testing.assert_allclose(
        [r["gradient_norm"] for r in records[0]], [r["gradient_norm"] for r in records[1]], rtol=1e-4
    )
    costs = [read_progress(checkpoints(tmp_path / run)[-1]).cost for run in ("one", "two")]
    assert [cost.steps for cost in costs] == [steps, steps]
    # Halves of a batch are padded less than the whole, or as much; apart from that, the same is computed.
    assert 0.8 * costs[0].flops < costs[1].flops <= costs[0].flops


# --- stop and resume ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def uninterrupted(
    config: Config, data: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Tensor], Any]:
    steps = 2 * batches_an_epoch(config, data) + 2
    trainer = make_trainer(with_train(config, max_steps=steps), tmp_path_factory.mktemp("whole") / "run", data)
    outcome = trainer.fit()
    assert outcome.reason == "finished"
    return state_of(trainer), outcome.progress


@pytest.mark.parametrize("place", ["first step", "within an epoch", "before its end", "at its end", "after its end"])
def test_a_resumed_training_is_the_uninterrupted_one_bit_for_bit(
    config: Config, data: Path, tmp_path: Path, uninterrupted: tuple[dict[str, Tensor], Any], place: str
) -> None:
    epoch = batches_an_epoch(config, data)
    step = {
        "first step": 1,
        "within an epoch": epoch // 2,
        "before its end": epoch - 1,
        "at its end": epoch,
        "after its end": epoch + 1,
    }[place]
    config = with_train(config, max_steps=2 * epoch + 2)
    stop_after(make_trainer(config, tmp_path / "run", data), step)
    torch.manual_seed(12345)  # a new process has other random numbers
    torch.rand(7)
    resumed = make_trainer(config, tmp_path / "run", data)
    assert resumed.resume()
    assert resumed.progress.step == step
    assert (resumed.progress.epoch, resumed.progress.batch) == divmod(step, epoch)
    outcome = resumed.fit()
    assert_identical(state_of(resumed), uninterrupted[0])
    assert without_clock(outcome.progress) == without_clock(uninterrupted[1])
    assert outcome.progress.seconds > 0
    (device,) = outcome.progress.cost.devices.values()
    assert device.seconds == pytest.approx(outcome.progress.seconds)
    assert outcome.progress.cost.estimate is not None


def test_a_model_with_an_attention_window_trains_resumes_and_translates(
    config: Config, data: Path, tmp_path: Path
) -> None:
    """Sentences of up to hundreds of subwords against a window of 6."""
    full = make_trainer(with_train(config, max_steps=6), tmp_path / "full", data)
    full.fit()
    config = with_train(config, max_steps=6)
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, attention_window=6))
    whole = make_trainer(config, tmp_path / "whole", data)
    assert whole.fit().reason == "finished"
    stop_after(make_trainer(config, tmp_path / "run", data), 3)
    resumed = make_trainer(config, tmp_path / "run", data)
    assert resumed.resume()
    resumed.fit()
    assert_identical(state_of(resumed), state_of(whole))
    assert not torch.equal(state_of(full)["weight source_embedding"], state_of(whole)["weight source_embedding"])
    hypotheses = TorchEngine(whole.model).translate([list(range(10, 50))], DecodeConfig(beam_size=3))
    assert hypotheses[0]


def test_dropout_was_on_while_resuming_was_tested(
    config: Config, data: Path, tmp_path: Path, uninterrupted: tuple[dict[str, Tensor], Any]
) -> None:
    quiet = make_trainer(with_train(without_dropout(config), max_steps=uninterrupted[1].step), tmp_path / "run", data)
    quiet.fit()
    assert not torch.equal(state_of(quiet)["weight source_embedding"], uninterrupted[0]["weight source_embedding"])


def test_a_damaged_checkpoint_is_passed_over(
    config: Config,
    data: Path,
    tmp_path: Path,
    uninterrupted: tuple[dict[str, Tensor], Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = with_train(config, max_steps=uninterrupted[1].step, checkpoint_steps=2, keep_checkpoints=100)
    stop_after(make_trainer(config, tmp_path / "run", data), 5)
    damaged = checkpoints(tmp_path / "run")[-1] / "optimizer.safetensors"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    resumed = make_trainer(config, tmp_path / "run", data)
    resumed.report.show = True
    assert resumed.resume()
    assert resumed.progress.step == 4
    warning = capsys.readouterr().err
    assert str(damaged) in warning
    assert "checksum" in warning
    resumed.fit()
    assert_identical(state_of(resumed), uninterrupted[0])
    # The last checkpoints can be averaged: the damaged one, which no later one has overwritten, is not among them.
    assert [check_checkpoint(path).step for path in checkpoints(tmp_path / "run")][:2] == [2, 4]
    average(checkpoints(tmp_path / "run"))
    assert (tmp_path / "run" / "checkpoints" / "damaged-step-00000005").is_dir()


def test_a_training_is_resumed_without_its_corpus(recipe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    shutil.copytree(recipe.parent, folder)
    arguments = ["train", str(folder / recipe.name), "--output", str(tmp_path / "run"), "--quiet"]
    assert command_line([*arguments, "--set", "train.max_steps=1"]) == 0
    for file in folder.glob("*.??"):
        file.unlink()
    settings = ["train.max_steps=2", "train.micro_batch_tokens=50", "data.source_language=en"]
    changed = [word for setting in settings for word in ("--set", setting)]
    assert command_line([*arguments, "--resume", *changed]) == 0
    assert check_checkpoint(checkpoints(tmp_path / "run")[-1]).step == 2


def test_sigterm_stops_the_command_and_resume_goes_on(recipe: Path, data: Path, tmp_path: Path) -> None:
    stopped, whole = tmp_path / "stopped", tmp_path / "whole"
    arguments = ["train", str(recipe), "--data", str(data), "--quiet"]
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "transduce.cli.main", *arguments),
            *("--output", str(stopped), "--set", "train.max_steps=1000000"),
        ],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(
        lambda: (stopped / "metrics.jsonl").is_file() and (stopped / "metrics.jsonl").stat().st_size > 0, process
    )
    process.send_signal(signal.SIGTERM)
    _, messages = process.communicate(timeout=300)
    assert process.returncode == 143, messages
    (checkpoint,) = checkpoints(stopped)
    step = check_checkpoint(checkpoint).step
    assert f"stopped by SIGTERM after step {step}" in messages
    assert not (stopped / "model").exists()

    end = ["--set", f"train.max_steps={step + 3}"]
    assert command_line([*arguments, "--output", str(stopped), "--resume", *end]) == 0
    assert command_line([*arguments, "--output", str(whole), *end]) == 0
    assert check_checkpoint(checkpoints(stopped)[-1]).step == step + 3
    assert_close(final_weights(stopped), final_weights(whole), tolerance=1e-6)
    records = [json.loads(line) for line in (stopped / "metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records if record["kind"] == "train"] == list(range(1, step + 4))


def test_a_process_that_another_one_stopped_does_not_claim_to_be_done(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runs_module, "train", lambda *_, **__: Outcome("stopped", Progress(step=3)))
    assert command_line(["train", str(recipe), "--output", str(tmp_path / "run")]) == 143
    assert "stopped by SIGTERM after step 3" in capsys.readouterr().err


def wait_until(condition: Callable[[], bool], process: "subprocess.Popen[str]", seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.02)


def test_a_second_signal_is_not_held_back(config: Config, data: Path, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with trainer_module._StopSignals() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.received == signal.SIGTERM
        assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        ("model.dropout=0.3", "model.dropout: was 0.1, now 0.3"),
        ("train.seed=2", "train.seed: was 1, now 2"),
        ("train.warmup_steps=30", "train.warmup_steps: was 20, now 30"),
        ("data.max_tokens=999", "data.max_tokens: was 1000, now 999"),
    ],
)
def test_another_training_cannot_be_resumed(
    recipe: Path, data: Path, finished_run: Path, capsys: pytest.CaptureFixture[str], setting: str, key: str
) -> None:
    arguments = ["train", str(recipe), "--output", str(finished_run), "--resume", "--quiet"]
    assert command_line([*arguments, "--set", setting]) == TrainingError.exit_code
    assert key in capsys.readouterr().err


def test_where_a_cooldown_ends_cannot_be_moved(
    recipe: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", str(recipe), "--data", str(data), "--output", str(tmp_path), "--quiet"]
    settings = ["--set", "train.cooldown_steps=3", "--set", "train.max_steps=4"]
    assert command_line([*arguments, *settings]) == 0
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    rates = {each["step"]: each["learning_rate"] for each in records if "learning_rate" in each}
    train = load_run_config(tmp_path).train
    for step, rate in rates.items():
        plain = noam(step, load_run_config(tmp_path).model.d_model, train.warmup_steps, train.learning_rate_factor)
        assert rate == pytest.approx(plain * cooldown(step, 4, 3), rel=1e-6)
    assert max(rates) > 1  # where it has begun to fall
    assert command_line([*arguments[:2], *arguments[4:], *settings[:2], "--set", "train.max_steps=8", "--resume"]) != 0
    assert "train.max_steps: was 4, now 8" in capsys.readouterr().err


def test_resume_on_other_data_is_refused(recipe: Path, config: Config, finished_run: Path, tmp_path: Path) -> None:
    other = dataclasses.replace(config, text=dataclasses.replace(config.text, vocab_size=280))
    prepare(other, tmp_path / "other", progress=False)
    before = final_weights(finished_run)
    with pytest.raises(TrainingError, match="other data"):
        train(load_recipe(recipe), finished_run, resume=True, data=tmp_path / "other", show_progress=False)
    assert_identical(final_weights(finished_run), before)
    assert json.loads((finished_run / "data.json").read_text())["folder"] != str(tmp_path / "other")


@pytest.mark.parametrize("key", ["train_sha256", "tokenizer_fingerprint"])
def test_other_text_or_another_tokenizer_alone_are_other_data(finished_run: Path, tmp_path: Path, key: str) -> None:
    noted = json.loads((finished_run / "data.json").read_text())
    (tmp_path / "data.json").write_text(json.dumps(noted))
    load_run_data(tmp_path)
    (tmp_path / "data.json").write_text(json.dumps(noted | {key: "0" * 64}))
    with pytest.raises(TrainingError, match="other data"):
        load_run_data(tmp_path)


def test_prepared_data_that_differ_from_the_recipe_are_named(
    recipe: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*settings: str) -> str:
        config = load_recipe(recipe, ["train.max_steps=1", *settings])
        train(config, tmp_path / f"run {' '.join(settings)}", data=data)
        return capsys.readouterr().err

    assert "warning" not in said("data.folder=elsewhere")
    warning = f"warning: {data}: was prepared differently from what the recipe says: data.max_tokens was 1000, now 9."
    assert warning in said("data.max_tokens=9")
    assert "text.vocab_size was 300, now 999" in said("text.vocab_size=999")


# --- one run, looked at from all sides ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished_run(recipe: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("finished") / "run"
    settings = ["train.checkpoint_steps=2", "train.keep_checkpoints=3", "train.average_last=2"]
    settings += ["train.validate_steps=4", "train.validate_bleu=true", "train.max_steps=10", "train.log_steps=2"]
    arguments = ["train", str(recipe), "--data", str(data), "--output", str(run), "--quiet"]
    assert command_line([*arguments, *(word for setting in settings for word in ("--set", setting))]) == 0
    return run


def test_the_last_checkpoints_are_kept(finished_run: Path) -> None:
    assert [path.name for path in checkpoints(finished_run)] == ["step-00000006", "step-00000008", "step-00000010"]
    assert sorted(path.name for path in (finished_run / "checkpoints").iterdir()) == [
        path.name for path in checkpoints(finished_run)
    ]


def test_metrics_have_a_line_for_each_record(finished_run: Path, config: Config, data: Path) -> None:
    records = [json.loads(line) for line in (finished_run / "metrics.jsonl").read_text().splitlines()]
    trained = [record for record in records if record["kind"] == "train"]
    assert [record["step"] for record in trained] == [1, 2, 4, 6, 8, 10]
    assert [record["step"] for record in records if record["kind"] == "validation"] == [4, 8, 10]
    for record in trained:
        assert record.keys() == {
            *("kind", "step", "epoch", "seconds", "target_tokens", "loss", "perplexity"),
            *("learning_rate", "gradient_norm", "target_tokens_per_second", "source_tokens_per_second"),
        }
        assert 0 < record["loss"] < 2 * math.log(300)
        assert record["learning_rate"] == pytest.approx(16**-0.5 * record["step"] * 20**-1.5)
        assert record["gradient_norm"] > 0
    assert trained[0]["target_tokens"] < trained[-1]["target_tokens"]
    for record in records:
        if record["kind"] == "validation":
            assert record["perplexity"] > 1
            assert 0 <= record["bleu"] <= 100
    epoch = batches_an_epoch(config, data)
    assert [record["epoch"] for record in trained] == [step // epoch for step in (1, 2, 4, 6, 8, 10)]
    assert list((finished_run / "tensorboard").iterdir())


def test_the_model_is_the_mean_of_the_last_checkpoints_and_translates(finished_run: Path) -> None:
    bundle = Bundle.load(finished_run / "model")
    bundle.verify()
    weights = bundle.weights()
    last = [read_weights(checkpoint_weights(path)) for path in checkpoints(finished_run)[-2:]]
    assert weights.keys() == last[0].keys()
    for name, weight in weights.items():
        np.testing.assert_allclose(weight, (last[0][name] + last[1][name]) / 2, rtol=1e-6, atol=1e-7)
    assert bundle.metrics["averaged_steps"] == "8, 10"
    assert bundle.metrics["steps"] == 10
    assert bundle.metrics["sentences_per_line"] == 1
    assert bundle.metrics["validation_perplexity"] > 1
    assert bundle.metrics["training_flops"] == read_progress(checkpoints(finished_run)[-1]).cost.flops > 10**6
    assert bundle.metrics["training_flops_steps"] == 10
    assert bundle.metrics["training_flops_estimate"] > 0
    assert f"| training_flops | {bundle.metrics['training_flops']} |" in (finished_run / "model/README.md").read_text()
    assert len(Translator.load(finished_run / "model").translate(["a dog", ""])) == 2


def test_average_command(finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["average", str(finished_run), "--last", "3", "--output", str(tmp_path / "three")]) == 0
    assert Bundle.load(tmp_path / "three").metrics["averaged_steps"] == "6, 8, 10"
    assert "6, 8, 10" in capsys.readouterr().err
    assert command_line(["average", str(finished_run), "--best", "--output", str(tmp_path / "best")]) == 0
    best = read_weights(finished_run / "best" / "model.safetensors")
    assert f"the checkpoint after step {read_progress(finished_run / 'best').step};" in capsys.readouterr().err
    for name, weight in Bundle.load(tmp_path / "best").weights().items():
        np.testing.assert_array_equal(weight, best[name])
    capsys.readouterr()

    assert command_line(["average", str(finished_run), "--last", "0", "--output", str(tmp_path / "none")]) == 2
    assert "--last 0" in capsys.readouterr().err
    assert command_line(["average", str(tmp_path), "--output", str(tmp_path / "none")]) == TrainingError.exit_code
    assert "not a run folder" in capsys.readouterr().err
    again = ["average", str(finished_run), "--last", "2", "--output", str(tmp_path / "best")]
    assert command_line(again) == BundleError.exit_code
    assert "exists already. Add --overwrite" in capsys.readouterr().err
    assert Bundle.load(tmp_path / "best").metrics["averaged_steps"] != "8, 10"
    assert command_line([*again, "--overwrite"]) == 0
    assert Bundle.load(tmp_path / "best").metrics["averaged_steps"] == "8, 10"
    capsys.readouterr()
    (tmp_path / "occupied").mkdir()
    (tmp_path / "occupied" / "thesis.tex").touch()
    assert command_line(["average", str(finished_run), "--output", str(tmp_path / "occupied")]) == 4
    assert "not a model folder" in capsys.readouterr().err
    assert (tmp_path / "occupied" / "thesis.tex").exists()
    assert command_line(["average", str(finished_run), "--output", str(tmp_path / "occupied" / "thesis.tex")]) == 4
    assert "thesis.tex" in capsys.readouterr().err


def test_averaging_a_run_that_goes_on(finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest checkpoint is removed, as a new one comes, while it is being read."""
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    check = check_checkpoint

    def train_on(path: Path) -> Progress:
        if path.name == "step-00000006" and path.is_dir():
            shutil.rmtree(path)
        return check(path)

    monkeypatch.setattr(runs_module, "check_checkpoint", train_on)
    assert average_run(run, tmp_path / "model", last=3, show_progress=False).metrics["averaged_steps"] == "8, 10"

    (run / "checkpoints" / "step-00000008" / "model.safetensors").write_bytes(b"")
    with pytest.raises(BundleError, match=r"step-00000008/model\.safetensors: damaged"):
        average_run(run, tmp_path / "model", last=3, overwrite=True, show_progress=False)


def test_info_command(finished_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for subject, kind in ((finished_run, "run folder"), (finished_run / "model", "model folder")):
        assert command_line(["info", str(subject), "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert shown["kind"] == kind
        assert shown["parameters"] == sum(w.size for w in Bundle.load(finished_run / "model").weights().values())
        assert shown["config"]["model"]["vocab_size"] == 300
        assert ("validation_bleu" in shown["metrics"]) == (kind == "model folder")
        assert shown["metrics"]["training_flops"] == Bundle.load(finished_run / "model").metrics["training_flops"]
    assert command_line(["info", "tinny"]) == 2
    assert "Did you mean 'tiny'?" in capsys.readouterr().err


def test_the_cost_is_said_at_the_end(
    recipe: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", str(recipe), "--data", str(data), "--output", str(tmp_path / "run"), "--quiet"]
    assert command_line([*arguments, "--set", "train.max_steps=2"]) == 0
    cost = Bundle.load(tmp_path / "run" / "model").metrics
    assert f"cost: {cost['training_flops']:.2e} FLOPs counted over 2 steps" in capsys.readouterr().err


def test_a_checkpoint_of_before_there_were_accounts_goes_on(config: Config, data: Path, tmp_path: Path) -> None:
    make_trainer(with_train(config, max_steps=3), tmp_path / "run", data).fit()
    state = checkpoints(tmp_path / "run")[-1] / "state.json"
    values = json.loads(state.read_text())
    whole = values["progress"].pop("cost")
    del values["progress_sha256"]
    state.write_text(json.dumps(values))
    resumed = make_trainer(with_train(config, max_steps=5), tmp_path / "run", data)
    assert resumed.resume()
    cost = resumed.fit().progress.cost
    assert (cost.steps, whole["steps"]) == (2, 3)
    assert 0 < cost.flops < whole["flops"]


def test_a_budget_of_minutes_ends_training_over_all_sittings(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that stands still but in a step, which takes four seconds: 0.2 minutes are three steps."""
    now = [0.0]
    train_step = trainer_module.train_step

    def slow(*arguments: Any) -> Any:
        now[0] += 4.0
        return train_step(*arguments)

    monkeypatch.setattr(trainer_module.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(trainer_module, "train_step", slow)
    config = with_train(config, max_steps=100, max_minutes=0.2)
    stop_after_step_two = with_train(config, max_steps=2)
    assert make_trainer(stop_after_step_two, tmp_path / "run", data).fit().progress.step == 2
    resumed = make_trainer(config, tmp_path / "run", data)
    assert resumed.resume()
    outcome = resumed.fit()
    assert (outcome.reason, outcome.progress.step, outcome.progress.seconds) == ("finished", 3, 12.0)


def test_a_second_training_in_the_same_folder_is_refused(
    recipe: Path, data: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = final_weights(finished_run)
    arguments = ["train", str(recipe), "--data", str(data), "--output", str(finished_run), "--quiet"]
    assert command_line(arguments) == TrainingError.exit_code
    message = capsys.readouterr().err
    assert str(finished_run) in message
    assert "--resume" in message
    assert_identical(final_weights(finished_run), before)


def test_two_trainings_do_not_share_a_folder(
    recipe: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", str(recipe), "--data", str(data), "--output", str(tmp_path / "run"), "--quiet", "--resume"]
    arguments += ["--set", "train.max_steps=1"]
    with files.exclusive(tmp_path / "run") as alone:
        assert alone
        assert command_line(arguments) == TrainingError.exit_code
    assert "run: another training is at work here" in capsys.readouterr().err
    assert not checkpoints(tmp_path / "run")
    assert command_line(arguments) == 0


def test_the_output_must_not_be_a_file(
    recipe: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    arguments = ["train", str(recipe), "--data", str(data), "--output", str(tmp_path / "notes.txt"), "--quiet"]
    assert command_line(arguments) == TrainingError.exit_code
    assert "notes.txt" in capsys.readouterr().err
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_training_prepares_the_data_by_itself(recipe: Path, tmp_path: Path) -> None:
    outcome = train(load_recipe(recipe, ["train.max_steps=1"]), tmp_path / "run", show_progress=False)
    assert outcome.reason == "finished"
    assert (tmp_path / "run" / "data" / "manifest.json").is_file()
    assert Bundle.load(tmp_path / "run" / "model").config.model.vocab_size == 300


# --- trouble and choice ---------------------------------------------------------------------------------------


def poison(monkeypatch: pytest.MonkeyPatch, steps: set[int]) -> None:
    """Makes the loss of the given steps NaN."""
    original, train_step = step_module.batch_loss, trainer_module.train_step
    now = 0

    def counted(*arguments: Any) -> Any:
        nonlocal now
        now = arguments[4]
        return train_step(*arguments)

    def poisoned(*arguments: Any) -> tuple[Tensor, Tensor]:
        loss, nll = original(*arguments)
        return (loss * math.nan if now in steps else loss), nll

    monkeypatch.setattr(trainer_module, "train_step", counted)
    monkeypatch.setattr(step_module, "batch_loss", poisoned)


def test_an_update_that_is_not_finite_is_left_out(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch, {3})
    seen: list[dict[str, Tensor]] = []
    trainer = make_trainer(with_train(config, max_steps=4), tmp_path / "run", data)
    original = trainer.report.step

    def spy(*arguments: Any) -> None:
        seen.append(state_of(trainer))
        original(*arguments)

    trainer.report.step = spy  # type: ignore[method-assign]
    trainer.fit()
    assert_identical(seen[2], seen[1])
    assert not torch.equal(seen[3]["weight source_embedding"], seen[2]["weight source_embedding"])
    assert trainer.progress.skipped_steps == 1
    assert trainer.progress.step == 4
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [record["gradient_norm"] is None for record in records] == [False, False, True, False]


def test_training_ends_when_no_update_is_finite(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch, set(range(2, 100)))
    trainer = make_trainer(with_train(config, max_steps=50, checkpoint_steps=1), tmp_path / "run", data)
    with pytest.raises(TrainingError, match="not finite"):
        trainer.fit()
    assert trainer.progress.step == 1 + 20
    assert all(bool(weight.isfinite().all()) for weight in trainer.model.weights().values())


def test_updates_left_out_are_counted_in_a_row(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nineteen bad ones, a good one and nineteen bad ones go on: twenty in a row would end the training."""
    poison(monkeypatch, set(range(2, 41)) - {21})
    trainer = make_trainer(with_train(config, max_steps=41), tmp_path / "run", data)
    assert trainer.fit().reason == "finished"
    assert (trainer.progress.step, trainer.progress.skipped_steps) == (41, 38)


def test_the_plan_is_that_of_its_epoch(config: Config, data: Path, tmp_path: Path) -> None:
    trainer, store = make_trainer(config, tmp_path / "run", data), ParallelStore.open(data / "train.arrow")

    def batches(plan: BatchPlan) -> list[list[int]]:
        return [plan.batch(index).tolist() for index in range(len(plan))]

    plans = {epoch: batches(trainer.plan(epoch)) for epoch in (0, 1, 1, 0, 2)}
    assert len({str(plan) for plan in plans.values()}) == 3
    for epoch, plan in plans.items():
        expected = plan_epoch(
            store.source_lengths,
            store.target_lengths,
            source_budget=config.train.source_batch_tokens,
            target_budget=config.train.target_batch_tokens,
            seed=config.train.seed,
            epoch=epoch,
        )
        assert plan == batches(expected)


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "cpu:x"])
def test_a_device_that_is_not_there(device: str) -> None:
    for precision in ("auto", "fp32"):
        with pytest.raises(ConfigError, match=rf"train\.device = '{device}': cannot be used here: .* Write auto, cpu"):
            Compute.of(device, precision)


def test_too_little_memory_says_what_to_set(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(trainer_module, "train_step", exhausted)
    trainer = make_trainer(config, tmp_path / "run", data)
    with pytest.raises(TrainingError, match=r"step 1: CPU.* not enough memory.*--set train\.micro_batch_tokens="):
        trainer.fit()


def scripted(values: list[float]) -> Callable[[Any], dict[str, float]]:
    remaining = iter(values)
    return lambda model: {"bleu": next(remaining)}


def test_early_stopping_and_the_best_checkpoint(config: Config, data: Path, tmp_path: Path) -> None:
    config = with_train(config, max_steps=50, validate_steps=2, validate_bleu=True, early_stopping=2)
    arguments: dict[str, Any] = {"validation": validation_store(data)}
    trainer = make_trainer(config, tmp_path / "run", data, scorer=scripted([10.0, 30.0, 20.0, 30.0]), **arguments)
    outcome = trainer.fit()
    assert (outcome.reason, outcome.progress.step) == ("early", 8)
    assert (outcome.progress.best_score, outcome.progress.best_step) == (30.0, 4)
    assert check_checkpoint(tmp_path / "run" / "best").step == 4
    assert check_checkpoint(checkpoints(tmp_path / "run")[-1]).step == 8

    again = make_trainer(config, tmp_path / "run", data, scorer=scripted([]), **arguments)
    assert again.resume()
    assert (again.fit().reason, again.progress.step) == ("early", 8)

    patient = with_train(config, early_stopping=3)
    again = make_trainer(patient, tmp_path / "run", data, scorer=scripted([31.0, 1.0, 1.0, 1.0]), **arguments)
    assert again.resume()
    assert (again.fit().reason, again.progress.step, again.progress.best_step) == ("early", 16, 10)


def test_a_score_that_is_not_a_number_is_never_the_best(config: Config, data: Path, tmp_path: Path) -> None:
    config = with_train(config, max_steps=4, validate_steps=2, validate_bleu=True)
    scorer = scripted([math.nan, 3.0])
    trainer = make_trainer(config, tmp_path / "run", data, validation=validation_store(data), scorer=scorer)
    progress = trainer.fit().progress
    assert (progress.best_score, progress.best_step) == (3.0, 4)
    assert check_checkpoint(tmp_path / "run" / "best").step == 4


class Follower(Ranks):
    """A process among several, whose leader has measured something else."""

    def of_leader(self, values: Any, device: torch.device) -> list[float]:
        return [value + 5.0 for value in values]


def test_processes_go_by_the_scores_of_the_leading_one(config: Config, data: Path, tmp_path: Path) -> None:
    config = with_train(config, max_steps=2, validate_steps=1, validate_bleu=True)
    trainer = make_trainer(
        config, tmp_path / "run", data, validation=validation_store(data), scorer=scripted([10.0, 9.0])
    )
    trainer.ranks = Follower()
    trainer.fit()
    assert (trainer.progress.best_score, trainer.progress.best_step) == (15.0, 1)
    assert trainer.progress.validations["bleu"] == 14.0


@pytest.mark.parametrize("split", ["train", "validation"])
def test_a_text_beyond_the_learned_positions_is_refused_before_the_first_step(
    config: Config, data: Path, tmp_path: Path, split: str
) -> None:
    train, validation = ParallelStore.open(data / "train.arrow"), validation_store(data)
    longest = {
        name: int(max(store.source_lengths.max(), store.target_lengths.max()))
        for name, store in (("train", train), ("validation", validation))
    }
    assert longest["validation"] < longest["train"]
    stores = {"train": train, "validation": validation}
    if split == "validation":
        stores = {"train": validation, "validation": train}

    def trainer(max_positions: int) -> Trainer:
        model = dataclasses.replace(config.model, positions="learned", max_positions=max_positions)
        return Trainer(dataclasses.replace(config, model=model), tmp_path, show_progress=False, **stores)

    trainer(longest["train"])
    with pytest.raises(DataError, match=rf"has {longest['train']} tokens, .* for {longest['train'] - 1}\. Raise"):
        trainer(longest["train"] - 1)


def test_early_stopping_needs_something_to_measure_by(recipe: Path, tmp_path: Path) -> None:
    settings = ["train.early_stopping=3", "train.validate_steps=1", "data.validation=[]"]
    with pytest.raises(TrainingError, match=r"train\.early_stopping needs data\.validation"):
        train(load_recipe(recipe, settings), tmp_path / "run", show_progress=False)


def test_without_bleu_the_lowest_perplexity_is_best(
    config: Config, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = iter([90.0, 70.0, 80.0])
    monkeypatch.setattr(trainer_module, "perplexity", lambda *_: next(values))
    trainer = make_trainer(
        with_train(config, max_steps=3, validate_steps=1), tmp_path / "run", data, validation=validation_store(data)
    )
    trainer.fit()
    assert (trainer.progress.best_score, trainer.progress.best_step) == (-70.0, 2)


def test_a_new_measure_of_the_best_starts_anew(config: Config, data: Path, tmp_path: Path) -> None:
    """A perplexity is no BLEU: a resumed training that changes its mind must not compare the two."""
    config = with_train(config, max_steps=2, validate_steps=1, validate_bleu=True)
    first = make_trainer(
        config, tmp_path / "run", data, validation=validation_store(data), scorer=scripted([10.0, 30.0])
    )
    first.fit()
    assert first.progress.best_score == 30.0
    config = with_train(config, max_steps=3, best_by="perplexity")
    second = make_trainer(config, tmp_path / "run", data, validation=validation_store(data), scorer=scripted([20.0]))
    assert second.resume()
    second.fit()
    assert second.progress.best_step == 3
    assert second.progress.best_score is not None
    assert second.progress.best_score < 0


def test_decoding_past_the_table_of_positions_does_not_disturb_training(
    config: Config, data: Path, tmp_path: Path
) -> None:
    """The table of sinusoids grows inside the scorer's inference mode; training goes on with the grown one."""

    def scorer(model: Any) -> dict[str, float]:
        with torch.inference_mode():
            model.encode(torch.full((1, 700), 5), torch.tensor([700]))
            model.target_positions(0, 700)
        return {"bleu": 1.0}

    config = with_train(config, max_steps=3, validate_steps=1, validate_bleu=True)
    grown = make_trainer(config, tmp_path / "grown", data, validation=validation_store(data), scorer=scorer)
    assert grown.fit().reason == "finished"
    plain = make_trainer(config, tmp_path / "plain", data)
    plain.fit()
    assert_identical(state_of(grown), state_of(plain))


def test_bf16_trains_as_fp32_does(config: Config, data: Path, tmp_path: Path) -> None:
    config = with_train(without_dropout(config), max_steps=3, source_batch_tokens=60, target_batch_tokens=60)
    losses = {}
    for precision in ("fp32", "bf16"):
        trainer = make_trainer(config, tmp_path / precision, data, compute=Compute.of("cpu", precision))
        trainer.fit()
        assert trainer.progress.skipped_steps == 0
        assert {weight.dtype for weight in trainer.model.weights().values()} == {torch.float32}
        records = (tmp_path / precision / "metrics.jsonl").read_text().splitlines()
        losses[precision] = [json.loads(line)["loss"] for line in records]
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=0.02)
    assert losses["bf16"] != losses["fp32"]
