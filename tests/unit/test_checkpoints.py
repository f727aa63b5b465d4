"""Checkpoints: what goes in comes out, damage is noticed, and a crash leaves nothing behind."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from transduce import files
from transduce.config import Config, ModelConfig
from transduce.errors import BundleError
from transduce.model import Transformer
from transduce.training import checkpoints as checkpoints_module
from transduce.training.checkpoints import (
    last_finite_checkpoint,
    load_checkpoint,
    prune,
    remove_leftovers,
    save_checkpoint,
    set_aside,
)
from transduce.training.progress import (
    CheckpointKind,
    Progress,
    averageable_checkpoints,
    check_checkpoint,
    checkpoint_kind,
)
from transduce.training.run_folder import checkpoint_path, checkpoints
from transduce.training.step import make_optimizer

SHAPE = ModelConfig(
    vocab_size=20, num_encoder_layers=1, num_decoder_layers=1, d_model=8, d_ff=12, num_heads=2, d_k=4, d_v=4
)
PROGRESS = Progress(
    step=7,
    epoch=2,
    batch=3,
    target_tokens=12345,
    seconds=0.1 + 0.2,
    skipped_steps=1,
    best_score=-1 / 3,
    best_step=5,
    best_by="perplexity",
    validations_since_best=2,
    validations={"perplexity": 1 / 7, "step": 7.0},
)


def trained(seed: int, steps: int = 2) -> tuple[Transformer, torch.optim.Adam]:
    torch.manual_seed(seed)
    model = Transformer(SHAPE)
    optimizer = make_optimizer(model, Config(model=SHAPE))
    for _ in range(steps):
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter)
        for group in optimizer.param_groups:
            group["lr"] = 0.01
        optimizer.step()
    return model, optimizer


def flip_last_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_round_trip(tmp_path: Path) -> None:
    model, optimizer = trained(1)
    save_checkpoint(tmp_path / "a", model, optimizer, PROGRESS)
    other, other_optimizer = trained(2, steps=5)
    assert load_checkpoint(tmp_path / "a", other, other_optimizer) == PROGRESS
    assert check_checkpoint(tmp_path / "a") == PROGRESS
    for (name, ours), (_, theirs) in zip(model.named_parameters(), other.named_parameters(), strict=True):
        assert torch.equal(ours, theirs), name
        before, after = optimizer.state[ours], other_optimizer.state[theirs]
        assert before.keys() == after.keys() == {"step", "exp_avg", "exp_avg_sq"}
        assert float(before["step"]) == 2.0
        for key in before:
            assert before[key].dtype == after[key].dtype
            assert torch.equal(before[key], after[key]), (name, key)


def test_a_loaded_optimizer_makes_the_same_next_step(tmp_path: Path) -> None:
    model, optimizer = trained(1)
    save_checkpoint(tmp_path / "a", model, optimizer, PROGRESS)
    torch.manual_seed(9)
    other = Transformer(SHAPE)
    other_optimizer = make_optimizer(other, Config(model=SHAPE))
    load_checkpoint(tmp_path / "a", other, other_optimizer)
    for each, its_optimizer in ((model, optimizer), (other, other_optimizer)):
        torch.manual_seed(3)
        for parameter in each.parameters():
            parameter.grad = torch.randn_like(parameter)
        its_optimizer.param_groups[0]["lr"] = 0.01
        its_optimizer.step()
    for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_before_the_first_step_there_are_no_moments(tmp_path: Path) -> None:
    model, optimizer = trained(1, steps=0)
    save_checkpoint(tmp_path / "a", model, optimizer, Progress())
    other, other_optimizer = trained(2, steps=0)
    assert load_checkpoint(tmp_path / "a", other, other_optimizer) == Progress()
    assert not other_optimizer.state
    assert torch.equal(model.source_embedding, other.source_embedding)


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors"])
def test_damage_is_noticed_and_changes_nothing(tmp_path: Path, name: str) -> None:
    model, optimizer = trained(1)
    save_checkpoint(tmp_path / "a", model, optimizer, PROGRESS)
    flip_last_byte(tmp_path / "a" / name)
    other, other_optimizer = trained(2)
    before = other.source_embedding.detach().clone()
    with pytest.raises(BundleError, match=rf"a/{name}: damaged: its checksum differs"):
        load_checkpoint(tmp_path / "a", other, other_optimizer)
    assert torch.equal(other.source_embedding, before)


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "[]", '"text"', '{"progress": {}}', '{"sha256": {}, "progress": {"nonsense": 1}}'),
        '{"format": 1, "sha256": []}',
        '{"a": ' * 100_000,
    ],
)
def test_a_damaged_description_is_noticed(tmp_path: Path, content: str) -> None:
    model, optimizer = trained(1)
    save_checkpoint(tmp_path / "a", model, optimizer, PROGRESS)
    (tmp_path / "a" / "state.json").write_text(content)
    with pytest.raises(BundleError, match="incomplete or damaged checkpoint"):
        check_checkpoint(tmp_path / "a")


def rewrite(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    state = json.loads((path / "state.json").read_text())
    change(state)
    (path / "state.json").write_text(json.dumps(state))


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors"])
@pytest.mark.parametrize("value", [None, "", "0", 7])
def test_without_a_checksum_a_file_is_not_verified(tmp_path: Path, name: str, value: Any) -> None:
    save_checkpoint(tmp_path / "a", *trained(1), PROGRESS)
    rewrite(tmp_path / "a", lambda state: state["sha256"].update({name: value}))
    with pytest.raises(BundleError, match="incomplete or damaged checkpoint"):
        check_checkpoint(tmp_path / "a")
    rewrite(tmp_path / "a", lambda state: state["sha256"].pop(name))
    with pytest.raises(BundleError, match=rf"incomplete or damaged checkpoint: state.json has no '{name}'"):
        check_checkpoint(tmp_path / "a")


def test_a_changed_place_in_the_plan_is_noticed(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "a", *trained(1), PROGRESS)
    rewrite(tmp_path / "a", lambda state: state["progress"].update(batch=4))
    with pytest.raises(BundleError, match=r"the progress in state\.json was changed"):
        check_checkpoint(tmp_path / "a")


@pytest.mark.parametrize(
    ("key", "value"), [("step", "7"), ("batch", -1), ("epoch", 1.5), ("seconds", "soon"), ("best_score", "high")]
)
def test_progress_of_the_wrong_type_is_refused(tmp_path: Path, key: str, value: Any) -> None:
    """Version 0.1.0 wrote no checksum of them."""
    save_checkpoint(tmp_path / "a", *trained(1), PROGRESS)
    rewrite(tmp_path / "a", lambda state: (state.pop("progress_sha256"), state["progress"].update({key: value})))
    with pytest.raises(BundleError, match="incomplete or damaged checkpoint"):
        check_checkpoint(tmp_path / "a")


@pytest.mark.parametrize("poisoned", ["weight", "moment"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_is_neither_written_nor_resumed_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, poisoned: str, value: float
) -> None:
    save_checkpoint(checkpoint_path(tmp_path, 1), *trained(1), PROGRESS)
    model, optimizer = trained(1)
    parameter = next(model.parameters())
    with torch.no_grad():
        (parameter if poisoned == "weight" else optimizer.state[parameter]["exp_avg_sq"]).view(-1)[3] = value
    with pytest.raises(BundleError, match="source_embedding is not finite after step 7"):
        save_checkpoint(checkpoint_path(tmp_path, 2), model, optimizer, PROGRESS)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000001"]

    with monkeypatch.context() as patch:  # as version 0.1.0 did
        patch.setattr(checkpoints_module, "first_not_finite", lambda _: None)
        save_checkpoint(checkpoint_path(tmp_path, 2), model, optimizer, PROGRESS)
    other, other_optimizer = trained(2)
    before = other.source_embedding.detach().clone()
    with pytest.raises(BundleError, match=r"step-00000002/\w+\.safetensors: .*source_embedding.* NaN"):
        load_checkpoint(checkpoint_path(tmp_path, 2), other, other_optimizer)
    assert torch.equal(other.source_embedding, before)
    assert last_finite_checkpoint(tmp_path) == checkpoint_path(tmp_path, 1)
    shutil.rmtree(checkpoint_path(tmp_path, 1))
    assert last_finite_checkpoint(tmp_path) is None


def test_a_missing_file_is_noticed(tmp_path: Path) -> None:
    model, optimizer = trained(1)
    save_checkpoint(tmp_path / "a", model, optimizer, PROGRESS)
    (tmp_path / "a" / "optimizer.safetensors").unlink()
    with pytest.raises(BundleError, match=r"incomplete or damaged checkpoint.*optimizer\.safetensors"):
        check_checkpoint(tmp_path / "a")


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    model, optimizer = trained(1)
    save_checkpoint(tmp_path / "a", model, optimizer, PROGRESS)
    wider = Transformer(ModelConfig(**{**SHAPE.__dict__, "d_ff": 13}))
    with pytest.raises(BundleError, match=r"encoder\.0\.feed_forward\.inner\.weight: \(12, 8\).* \(13, 8\)"):
        load_checkpoint(tmp_path / "a", wider, make_optimizer(wider, Config(model=SHAPE)))


@pytest.mark.parametrize("failing", ["first file", "second file", "state"])
def test_a_crash_while_writing_leaves_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    model, optimizer = trained(1)
    save_checkpoint(checkpoint_path(tmp_path, 1), model, optimizer, PROGRESS)
    save_file, calls = checkpoints_module.save_file, 0

    def crash(*_: Any) -> None:
        raise OSError("No space left on device")

    def half(tensors: Any, path: Path) -> None:
        nonlocal calls
        calls += 1
        save_file(tensors, path)
        if calls == (1 if failing == "first file" else 2):
            crash()

    if failing == "state":
        monkeypatch.setattr(checkpoints_module.files, "write_json", crash)
    else:
        monkeypatch.setattr(checkpoints_module, "save_file", half)
    for step in (1, 2):  # over one that stands there, and anew
        calls = 0
        with pytest.raises(OSError, match="No space"):
            save_checkpoint(checkpoint_path(tmp_path, step), *trained(2), Progress(step=9))
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000001"]
    assert check_checkpoint(checkpoint_path(tmp_path, 1)) == PROGRESS


def test_the_librarys_own_errors_are_those_of_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(checkpoints_module, "save_file", full)
    with pytest.raises(OSError, match="No space left"):
        save_checkpoint(tmp_path / "a", *trained(1), PROGRESS)
    assert not [*tmp_path.iterdir()]


def test_writing_again_replaces(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "best", *trained(1), PROGRESS)
    model, optimizer = trained(2)
    save_checkpoint(tmp_path / "best", model, optimizer, Progress(step=8))
    other, other_optimizer = trained(3)
    assert load_checkpoint(tmp_path / "best", other, other_optimizer).step == 8
    assert torch.equal(model.source_embedding, other.source_embedding)
    assert [path.name for path in tmp_path.iterdir()] == ["best"]


def fake(run: Path, *steps: int, purpose: str = "scheduled") -> None:
    for step in steps:
        path = checkpoint_path(run, step)
        path.mkdir(parents=True)
        (path / "state.json").write_text(json.dumps({"format": 1, "purpose": purpose}))
        (path / "model.safetensors").touch()


def test_checkpoints_are_listed_by_step_and_only_whole_ones(tmp_path: Path) -> None:
    assert checkpoints(tmp_path) == []
    fake(tmp_path, 900, 10_000, 1000, 99)
    (checkpoint_path(tmp_path, 5000)).mkdir()  # half removed
    for foreign in ("step-abc", "step-00000099.bak", "step-7", "step-000000099x"):
        (tmp_path / "checkpoints" / foreign).mkdir()
        (tmp_path / "checkpoints" / foreign / "state.json").write_text("{}")
    (tmp_path / "checkpoints" / ".step-00006000.x.part").mkdir()
    assert [path.name for path in checkpoints(tmp_path)] == [
        "step-00000099",
        "step-00000900",
        "step-00001000",
        "step-00010000",
    ]


@pytest.mark.parametrize(("keep", "left"), [(1, [4]), (2, [3, 4]), (4, [1, 2, 3, 4]), (9, [1, 2, 3, 4])])
def test_prune_keeps_the_last(tmp_path: Path, keep: int, left: list[int]) -> None:
    fake(tmp_path, 1, 2, 3, 4)
    prune(tmp_path, keep)
    assert checkpoints(tmp_path) == [checkpoint_path(tmp_path, step) for step in left]
    assert len(list((tmp_path / "checkpoints").iterdir())) == len(left)


def test_what_a_crash_left_of_a_checkpoint_is_removed(tmp_path: Path) -> None:
    fake(tmp_path, 1, 2)
    for name in ("checkpoints/.step-00000003.abcd_123.part", ".best.01234567.part"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").touch()
    checkpoint_path(tmp_path, 4).mkdir()  # half removed, by version 0.1.0
    foreign = ("notes", "step-abc", "step-00000009", ".step-mine", ".other.01234567.part")
    for name in foreign:
        (tmp_path / "checkpoints" / name).mkdir()
    (checkpoint_path(tmp_path, 9) / "model.safetensors").touch()  # not empty: whatever that is, it is not lost
    remove_leftovers(tmp_path)
    assert {path.name for path in (tmp_path / "checkpoints").iterdir()} == {
        *(*foreign, "step-00000001", "step-00000002")
    }
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"]


def test_only_averageable_checkpoints_are_averaged_and_counted(tmp_path: Path) -> None:
    def steps(paths: list[Path]) -> list[int]:
        return [int(path.name.removeprefix("step-")) for path in paths]

    fake(tmp_path, 10, 20, 30)
    fake(tmp_path, 25, purpose="interim")
    fake(tmp_path, 33, purpose="end")
    assert steps(averageable_checkpoints(tmp_path)) == [10, 20, 30, 33]
    fake(tmp_path, 36, purpose="interim")  # training has gone on beyond its end
    assert steps(averageable_checkpoints(tmp_path)) == [10, 20, 30]
    prune(tmp_path, 2)
    assert steps(checkpoints(tmp_path)) == [20, 30, 36]
    fake(tmp_path, 40)
    prune(tmp_path, 2)
    assert steps(checkpoints(tmp_path)) == [30, 40]
    rewrite(checkpoint_path(tmp_path, 40), lambda state: state.pop("purpose"))  # as version 0.1.0 wrote it
    assert checkpoint_kind(checkpoint_path(tmp_path, 40)) == CheckpointKind.REGULAR
    (checkpoint_path(tmp_path, 30) / "state.json").write_text("{")  # whoever reads it will say so
    assert steps(averageable_checkpoints(tmp_path)) == [30, 40]


def test_a_damaged_checkpoint_is_set_aside(tmp_path: Path) -> None:
    for _ in range(2):  # the step may come again, and be damaged again
        fake(tmp_path, 1, 2)
        aside = set_aside(checkpoint_path(tmp_path, 2))
        assert aside == tmp_path / "checkpoints" / "damaged-step-00000002"
        assert (aside / "model.safetensors").is_file()
        assert checkpoints(tmp_path) == [checkpoint_path(tmp_path, 1)]
        shutil.rmtree(checkpoint_path(tmp_path, 1))


def test_what_is_half_removed_is_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, 1, 2)

    def crash(path: Path) -> None:
        (path / "model.safetensors").unlink()
        raise OSError("interrupted")

    monkeypatch.setattr(checkpoints_module.shutil, "rmtree", crash)
    with pytest.raises(OSError, match="interrupted"):
        prune(tmp_path, 1)
    assert checkpoints(tmp_path) == [checkpoint_path(tmp_path, 2)]


@pytest.mark.parametrize("change", ["removed", "renamed", "reshaped", "cut short"])
def test_moments_that_are_not_the_models_are_refused_and_change_nothing(tmp_path: Path, change: str) -> None:
    """With a checksum that is right: someone has written the file anew."""
    save_checkpoint(tmp_path / "a", *trained(1), PROGRESS)
    file = tmp_path / "a" / "optimizer.safetensors"
    moments = load_file(file)
    moment = moments.pop("exp_avg:source_embedding")
    if change == "renamed":
        moments["nonsense"] = moment
    elif change == "reshaped":
        moments["exp_avg:source_embedding"] = moment[:1].contiguous()
    save_file(moments, file)
    if change == "cut short":
        file.write_bytes(file.read_bytes()[:-4])
    rewrite(tmp_path / "a", lambda state: state["sha256"].update({file.name: files.sha256(file)}))
    other, other_optimizer = trained(2)
    before = other.source_embedding.detach().clone()
    with pytest.raises(BundleError, match=r"a/optimizer\.safetensors: "):
        load_checkpoint(tmp_path / "a", other, other_optimizer)
    assert torch.equal(other.source_embedding, before)


def test_a_damaged_purpose_does_not_leave_a_checkpoint_out_of_the_average(tmp_path: Path) -> None:
    save_checkpoint(checkpoint_path(tmp_path, 1), *trained(1), PROGRESS)
    rewrite(checkpoint_path(tmp_path, 1), lambda state: state.update(purpose="schedulad"))
    assert averageable_checkpoints(tmp_path) == [checkpoint_path(tmp_path, 1)]
    with pytest.raises(BundleError, match=r"incomplete or damaged checkpoint: .* purpose 'schedulad'"):
        check_checkpoint(checkpoint_path(tmp_path, 1))
