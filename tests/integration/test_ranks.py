"""Training in several processes: the same losses, and what happens where one of them fails."""

import json
import signal
from pathlib import Path

import pytest

from several_processes import finish, start
from small_training import batches_an_epoch
from transduce.cli.main import main as command_line
from transduce.config import Config
from transduce.errors import TrainingError
from transduce.training.progress import check_checkpoint, checkpoint_kind
from transduce.training.run_folder import checkpoints
from warm_start import END_WITH_PYTHON

EXACT = """
import atexit, json, os, sys
from pathlib import Path

@atexit.register  # first, so it runs last
def no_thread_of_gloo_is_left():
    if os.path.exists("/proc/self/task"):
        names = [Path("/proc/self/task", task, "comm").read_text() for task in os.listdir("/proc/self/task")]
        if any("gloo" in name for name in names):
            print(*names, file=sys.stderr, flush=True)
            os._exit(99)

import numpy as np
import torch

from small_training import with_train, without_dropout
from transduce.config import load_recipe
from transduce.data.batching import share
from transduce.data.modifiers import modified
from transduce.data.store import ParallelStore
from transduce.runs import scorer_of, with_vocabulary
from transduce.training.trainable import new_model
from transduce.text import SubwordTokenizer
from transduce.training.device import Compute
from transduce.training.trainer import Trainer
from transduce.training.validation import Validation

modified._EXACT_LINES = 0  # lengths are estimated, as in a long epoch
recipe, data, run, steps = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
run.mkdir(exist_ok=True)
# A usual rate for so small a model would make it chaotic: rounding errors would grow by a half in each step.
config = with_train(without_dropout(load_recipe(recipe, sys.argv[5:])), max_steps=steps, learning_rate_factor=0.1)
tokenizer = SubwordTokenizer.load(data / "tokenizer.json")
config = with_vocabulary(config, tokenizer)
compute = Compute(torch.device("cpu"), torch.float64)
model, store = new_model(config, compute).double(), ParallelStore.open(data / "train.arrow")
trainer = Trainer(model, config, run, store, compute=compute, show_progress=False)
untrained, held_out = new_model(config, compute).double(), ParallelStore.open(data / "validation.arrow")
validation = Validation(held_out, scorer_of(config, tokenizer, held_out, trainer.ranks))
scores = validation.scores(untrained, compute, trainer.ranks)
(run / f"scores-{trainer.ranks.rank}.json").write_text(json.dumps(scores))
pairs = trainer.order.pairs(trainer.progress)
own = share(np.arange(48), trainer.ranks.rank, trainer.ranks.world_size)
targets = [int(pairs.target_lengths[own].sum()), sum(len(ids) + 1 for ids in pairs.pairs(own)[1])]
(run / f"targets-{trainer.ranks.rank}.json").write_text(json.dumps(targets))
trainer.fit()
"""


def noted(run: Path, name: str) -> list[float]:
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [record[name] for record in records if record["kind"] == "train"]


MODIFIERS = ", ".join(
    f'{{name = "{name}", probability = 0.3}}'
    for name in ("merge", "copies", "upper_case", "items", "punctuation", "typos")
)


SETTINGS = {
    "modifiers": [f"train.modifiers=[{MODIFIERS}]"],
    "heads and rounded weights": ["model.block_size=3", "train.int8_tuning_steps=12"],
}


@pytest.mark.computes
@pytest.mark.parametrize("name", SETTINGS)
def test_any_number_of_processes_has_the_same_losses(
    name: str, recipe: Path, config: Config, data: Path, tmp_path: Path, warm_python: Path
) -> None:
    """In float64, over 25 steps of several epochs: batches of fewer pairs than processes are among them.

    With modifiers, each process has another ratio of real to planned target tokens, and all divide by the real ones.
    Two processes then have a worker each, which makes their own pairs.
    """
    assert batches_an_epoch(config, data) < 12
    program = tmp_path / "exact.py"
    program.write_text(EXACT)
    for world_size in (1, 2, 3):
        run = tmp_path / str(world_size)
        settings = [*SETTINGS[name], f"train.num_workers={int(world_size == 2)}"]
        arguments = [str(program), str(recipe), str(data), str(run), "25", *settings]
        # How Python itself ends is seen of three processes.
        ends = END_WITH_PYTHON if world_size == 3 and name == "modifiers" else {}
        for code, said in finish(start(world_size, arguments, warm_python, ends)):
            assert code == 0, said
    alone = noted(tmp_path / "1", "loss")
    assert len(alone) == 25
    assert sum(alone[-5:]) < sum(alone[:5]) - 2.5  # it learns
    for world_size in (2, 3):
        run = tmp_path / str(world_size)
        assert noted(run, "loss") == pytest.approx(alone, rel=0, abs=1e-9)
        assert noted(run, "gradient_norm") == pytest.approx(noted(tmp_path / "1", "gradient_norm"), rel=1e-7)
        targets = [json.loads(path.read_text()) for path in run.glob("targets-*.json")]
        assert len({planned / real for planned, real in targets}) == (world_size if name == "modifiers" else 1)
    scores = {path.read_text() for path in tmp_path.glob("*/scores-*.json")}
    assert len(scores) == 1, scores  # on every process of any number of them
    of_heads = {"tokens_per_pass", "head_2", "head_3"} if "heads" in name else set()
    assert json.loads(scores.pop()).keys() == {"perplexity", "bleu"} | of_heads


FAILING = """
import os, signal, sys
import torch
from transduce.cli.main import main
from transduce.training.trainer import Trainer

rank, step, how = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
train_step = Trainer.train_step

def failing(trainer, rows):
    if trainer.ranks.rank == rank and trainer.progress.step + 1 == step:
        if how == "memory":
            raise torch.OutOfMemoryError("CUDA out of memory.")
        if how == "bug":
            raise ZeroDivisionError("an accident")
        os.kill(os.getpid(), getattr(signal, how))
    return train_step(trainer, rows)

Trainer.train_step = failing
sys.exit(main(sys.argv[4:]))
"""


def train_arguments(recipe: Path, data: Path, run: Path, *settings: str) -> list[str]:
    words = [word for setting in settings for word in ("--set", setting)]
    return ["train", str(recipe), "--data", str(data), "--output", str(run), "--quiet", *words]


def fail(python: Path, tmp_path: Path, rank: int, step: int, how: str, arguments: list[str]) -> list[tuple[int, str]]:
    program = tmp_path / "failing.py"
    program.write_text(FAILING)
    return finish(start(2, [str(program), str(rank), str(step), how, *arguments], python))


@pytest.fixture(scope="module")
def whole(recipe: Path, data: Path, warm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of two processes of which none failed."""
    run = tmp_path_factory.mktemp("whole") / "run"
    arguments = train_arguments(recipe, data, run, "train.checkpoint_steps=5", "train.max_steps=9")
    ends = finish(start(2, ["-m", "transduce", *arguments], warm_python))
    assert_done(ends)
    return run


def assert_done(ends: list[tuple[int, str]]) -> None:
    assert [ended for ended, _ in ends] == [0, 0], ends
    assert ["done after step 9." in words for _, words in ends] == [True, False]


@pytest.mark.parametrize(
    ("how", "code", "named"),
    [
        ("SIGKILL", -signal.SIGKILL, "ended without giving a reason"),
        ("memory", TrainingError.exit_code, "ran out of memory"),
        ("bug", 1, "failed: ZeroDivisionError: an accident"),
    ],
)
def test_a_process_that_fails_is_named_and_nothing_is_lost(
    recipe: Path, data: Path, tmp_path: Path, warm_python: Path, whole: Path, how: str, code: int, named: str
) -> None:
    """The main process writes a checkpoint of the last step that both made."""
    run = tmp_path / "run"
    arguments = train_arguments(recipe, data, run, "train.checkpoint_steps=5", "train.max_steps=9")
    (main_code, said), (other_code, own) = fail(warm_python, tmp_path, 1, 8, how, arguments)
    assert (main_code, other_code) == (TrainingError.exit_code, code), said + own
    assert "rank 1 (on " in said
    assert named in said
    assert "The checkpoint after step 7 is complete. Continue with --resume." in said
    assert [(check_checkpoint(path).step, checkpoint_kind(path)) for path in checkpoints(run)] == [
        (5, "scheduled"),
        (7, "interim"),
    ]
    assert_done(finish(start(2, ["-m", "transduce", *arguments, "--resume"], warm_python)))
    ours, theirs = (folder / "model" / "model.safetensors" for folder in (run, whole))
    assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize("how", ["SIGKILL", "bug"])
def test_the_main_process_that_fails_is_named_too(
    recipe: Path, data: Path, tmp_path: Path, warm_python: Path, how: str
) -> None:
    run = tmp_path / "run"
    arguments = train_arguments(recipe, data, run, "train.checkpoint_steps=3", "train.max_steps=9")
    (_, own), (other_code, said) = fail(warm_python, tmp_path, 0, 7, how, arguments)
    assert other_code == TrainingError.exit_code, own + said
    assert "rank 0 (on " in said
    assert ("ended without giving a reason" if how == "SIGKILL" else "an accident") in said
    # The second checkpoint begins when the first is complete; a kill may come before it is complete itself.
    assert [check_checkpoint(path).step for path in checkpoints(run)] in ([3], [3, 6])
    assert command_line([*arguments, "--resume"]) == 0  # one process continues what two began
    assert check_checkpoint(checkpoints(run)[-1]).step == 9


RESUMING = """
import os, shutil, sys
from pathlib import Path
from transduce.cli.main import main
from transduce.errors import BundleError
from transduce.training import trainer

def damaged(path, *given):
    if path.name == "step-00000006":
        raise BundleError(f"{path.name}: damaged.")
    return load(path, *given)

how, load, found = sys.argv[1], trainer.load_checkpoint, trainer.checkpoints
if os.environ["RANK"] == "1" and how == "damaged":
    trainer.load_checkpoint = damaged
if os.environ["RANK"] == "1" and how == "fewer":
    trainer.checkpoints = lambda run: found(run)[:-1]
if os.environ["RANK"] == "1" and how == "another":
    trainer.checkpoints = lambda run: found(run.with_name("another"))
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("how", ["damaged", "fewer", "another", "none"])
def test_all_processes_resume_from_the_same_checkpoint(
    recipe: Path, data: Path, tmp_path: Path, warm_python: Path, how: str
) -> None:
    """The other process cannot read the last one, does not see it, or has one of another training; or none is there.

    It begins at step 6 with the weights of step 3 otherwise.
    """
    run, program = tmp_path / "run", tmp_path / "resuming.py"
    program.write_text(RESUMING)
    arguments = train_arguments(recipe, data, run, "train.checkpoint_steps=3")
    if how != "none":
        assert command_line([*arguments, "--set", "train.max_steps=6"]) == 0
    if how == "another":
        other = train_arguments(recipe, data, tmp_path / "another", "train.checkpoint_steps=3", "train.seed=2")
        assert command_line([*other, "--set", "train.max_steps=6"]) == 0
    arguments = [str(program), how, *arguments, "--set", "train.max_steps=9", "--resume"]
    (code, said), (other_code, other_said) = finish(start(2, arguments, warm_python))
    if how == "fewer":
        assert (code, other_code) == (TrainingError.exit_code,) * 2, said + other_said
        assert f"{run}: checkpoints: rank 0 sees [3, 6], and rank 1 [3]. All must see the same." in said
        return
    if how == "another":
        assert (code, other_code) == (TrainingError.exit_code,) * 2, said + other_said
        assert "step-00000006: checksums of the weights, as numbers: rank 0 sees [" in said
        return
    assert (code, other_code) == (0, 0), said + other_said
    assert check_checkpoint(checkpoints(run)[-1]).step == 9
    aside = run / "checkpoints" / "damaged-step-00000006"
    assert aside.is_dir() == (f"set aside as {aside}" in said) == (how == "damaged")
    warning = "warning: rank 1: step-00000006: damaged. Trying the checkpoint before it."
    assert (warning in other_said) == (how == "damaged")


def test_a_signal_to_one_process_stops_all_with_a_checkpoint(
    recipe: Path, data: Path, tmp_path: Path, warm_python: Path
) -> None:
    run = tmp_path / "run"
    arguments = train_arguments(recipe, data, run, "train.max_steps=1000000")
    said = fail(warm_python, tmp_path, 1, 4, "SIGTERM", arguments)
    assert [code for code, _ in said] == [128 + signal.SIGTERM] * 2, said
    assert [(check_checkpoint(path).step, checkpoint_kind(path)) for path in checkpoints(run)] == [(4, "interim")]


def test_preparing_fails_in_the_main_process_and_the_others_end(
    recipe: Path, tmp_path: Path, warm_python: Path
) -> None:
    """They wait for the data, which may take hours."""
    arguments = ["train", str(recipe), "--output", str(tmp_path / "run"), "--quiet"]
    arguments = ["-m", "transduce", *arguments, "--set", 'data.train=[["absent.en","absent.de"]]']
    (main_code, own), (other_code, said) = finish(start(2, arguments, warm_python))
    assert (main_code, other_code) == (3, TrainingError.exit_code), own + said
    assert "rank 0 (on " in said
    assert "absent.en: no such file" in said
