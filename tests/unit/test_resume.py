"""Which settings a resumed training has, and what it may be resumed with."""

from dataclasses import fields
from pathlib import Path

import pytest

from transduce.config import Config, TrainConfig, apply_settings, preset
from transduce.config.loading import merge_settings
from transduce.errors import TrainingError
from transduce.training import resume
from transduce.training.outcome import End, Outcome
from transduce.training.progress import CheckpointKind, Progress, write_state
from transduce.training.resume import changes_on_resume, finished, save_run_config, trainable_config
from transduce.training.run_folder import CONFIG, checkpoint_path

# No key of these changes an update.
FREE = (
    "train.max_steps=9 train.max_minutes=3 train.max_flops=3 train.device=cuda:1 train.compile=true train.log_steps=3 "
    "train.checkpoint_steps=7 train.checkpoint_minutes=2 train.keep_checkpoints=6 train.average_last=2 "
    "train.validate_steps=4 train.validate_bleu=false train.validate_bleu_sentences=8 train.validate_beam_size=2 "
    "train.early_stopping=3 train.best_by=perplexity train.max_skipped_steps=2 train.spike_deviations=0 "
    "train.micro_batch_tokens=64 train.activation_checkpointing=true train.rounded_shapes=true train.num_workers=2 "
    "name=other data.folder=elsewhere data.source_language=en data.target_language=de data.test.news=['x.tsv'] "
    "decode.beam_size=2 decode.length_penalty=0.5 decode.max_extra_tokens=9 decode.batch_size=4"
)
# Each of these makes another training.
FIXED = (
    "model.dropout=0.3 model.norm=pre model.d_ff=64 text.vocab_size=400 text.min_frequency=3 train.seed=2 "
    "train.source_batch_tokens=99 train.target_batch_tokens=99 train.label_smoothing=0.2 train.smoothing=others "
    "train.warmup_steps=3 train.cooldown_steps=3 train.int8_tuning_steps=19999 train.adam_beta1=0.8 "
    "train.adam_beta2=0.9 train.adam_epsilon=1e-8 train.optimizer=nesterov train.momentum=0.5 train.learning_rate=0.1 "
    "train.precision=bf16 train.guided_attention=0.5 train.modifiers=[{name='typos',probability=0.1}] "
    "train.phases=[{from_step=3}] data.max_tokens=9 data.max_ratio=2 "
    "data.drop_leaked=false data.temperature=2 data.validation=['w.tsv']"
)
# A training that diverged needs these: they may be set by hand, and an edited recipe may not change them.
BY_HAND = "train.learning_rate_factor=3 train.max_gradient_norm=1 train.skip_steps=[3]"


@pytest.fixture
def config() -> Config:
    return apply_settings(preset("tiny"), ["data.train=[['a.tsv']]", "data.validation=['v.tsv']"])


def run_of(config: Config, folder: Path, step: int = 3) -> Path:
    """Returns a run folder with a checkpoint after `step`."""
    save_run_config(folder, config, [])
    path = checkpoint_path(folder, step)
    path.mkdir(parents=True)
    write_state(path, Progress(step=step), CheckpointKind.RESUME_ONLY, {})
    return folder


def test_of_two_settings_of_a_key_the_later_one_holds() -> None:
    at_the_start = ["train.max_steps=7", "model.dropout=0.2", "train.max_steps=8"]
    assert merge_settings(at_the_start, ["train.seed=3", "train.max_steps = 9"]) == [
        "train.max_steps = 9",
        "model.dropout=0.2",
        "train.seed=3",
    ]
    assert merge_settings(at_the_start, []) == ["train.max_steps=8", "model.dropout=0.2"]


def test_what_changes_no_update_may_change_and_nothing_else(config: Config, tmp_path: Path) -> None:
    run = run_of(config, tmp_path)
    for setting in FREE.split():
        key = setting.partition("=")[0]
        assert list(changes_on_resume(run, apply_settings(config, [setting]), [])) == [key], setting
    for setting in f"{FIXED} {BY_HAND}".split():
        key = setting.partition("=")[0]
        with pytest.raises(TrainingError, match=f"(?s)another configuration.*  {key} was .*, now .*or choose another"):
            changes_on_resume(run, apply_settings(config, [setting]), [setting] if setting in FIXED.split() else [])
    for setting in BY_HAND.split():
        assert len(changes_on_resume(run, apply_settings(config, [setting]), [setting])) == 1
    named = {setting.split("=")[0].removeprefix("train.") for setting in f"{FREE} {FIXED} {BY_HAND}".split()}
    assert {each.name for each in fields(TrainConfig)} <= named  # whoever adds a key decides where it belongs


@pytest.mark.parametrize(
    ("begun", "now", "fits"),
    [
        ((9, 0), (9, 2), True),  # steps 8 and 9, of which none is made
        ((9, 0), (9, 3), False),  # step 7 is made, and was not tuned
        ((9, 3), (9, 0), False),
        ((9, 4), (9, 3), False),  # from step 6, or from step 7 on
        ((9, 2), (9, 1), True),
        ((9, 4), (11, 6), True),  # from step 6 on, as before
        ((9, 4), (11, 4), False),
        ((9, 2), (11, 2), True),
        ((7, 0), (9, 2), True),  # a run that had ended goes on, tuned
    ],
)
def test_which_steps_are_tuned_may_change_until_they_are_made(
    config: Config, tmp_path: Path, begun: tuple[int, int], now: tuple[int, int], fits: bool
) -> None:
    """Seven steps are made; a pair is `max_steps` and `int8_tuning_steps`."""
    before, after = (
        apply_settings(config, [f"train.max_steps={steps}", f"train.int8_tuning_steps={tuned}"])
        for steps, tuned in (begun, now)
    )
    run = run_of(before, tmp_path, step=7)
    if fits:
        assert changes_on_resume(run, after, [])
    else:
        with pytest.raises(TrainingError, match=r"(?s)another configuration.*train\.(int8_tuning|max)_steps was "):
            changes_on_resume(run, after, [])


def test_a_vocabulary_that_was_learned_is_no_change_and_a_missing_configuration_is_an_error(
    config: Config, tmp_path: Path
) -> None:
    other = apply_settings(config, ["train.seed=2"])
    save_run_config(tmp_path, config, [])
    assert changes_on_resume(tmp_path, other, []) == {}
    run_of(config, tmp_path)
    assert changes_on_resume(tmp_path, apply_settings(config, ["model.vocab_size=300"]), []) == {}
    two = ["model.tie_embeddings=none", "model.target_vocab_size=300"]  # of an imported tokenizer
    save_run_config(tmp_path, apply_settings(config, two), [])
    assert changes_on_resume(tmp_path, apply_settings(config, two[:1]), []) == {}
    (tmp_path / CONFIG).unlink()
    with pytest.raises(TrainingError, match=r"config\.json: missing"):
        changes_on_resume(tmp_path, config, [])


def test_a_run_is_finished_at_its_last_step_only(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(config, tmp_path)
    rate = {"train.learning_rate_factor": "train.learning_rate_factor was 1.0, now 3.0"}
    steps = {"train.log_steps": "train.log_steps was 50, now 3"}
    assert finished(run, apply_settings(config, ["train.max_steps=4"]), rate) is None
    at_end = apply_settings(config, ["train.max_steps=3"])
    assert finished(run, at_end, steps) is None  # the model is still to be made
    with pytest.raises(TrainingError, match=r"(?s)finished after step 3.*factor was 1\.0.*Raise train\.max_steps"):
        finished(run, at_end, rate | steps)
    assert finished(tmp_path / "none", at_end, rate) is None
    monkeypatch.setattr(resume, "_is_made", lambda model, progress: (model, progress.step) == (run / "model", 3))
    assert finished(run, at_end, {}) == Outcome(End.MAX_STEPS, Progress(step=3))
    with pytest.raises(TrainingError, match=r"(?s)finished after step 3.*log_steps was 50, now 3"):
        finished(run, at_end, steps)
    assert finished(run, apply_settings(config, ["train.max_steps=4"]), steps) is None


def test_a_run_keeps_its_own_number_for_micro_batches_unless_auto_is_set(config: Config, tmp_path: Path) -> None:
    auto = "train.micro_batch_tokens=auto"
    assert trainable_config(config, tmp_path, False, []) == config
    run = run_of(apply_settings(config, ["train.micro_batch_tokens=80"]), tmp_path)
    with pytest.raises(TrainingError, match="there is a training here already"):
        trainable_config(config, run, False, [])
    found = [trainable_config(config, run, True, settings) for settings in ([], [auto])]
    assert [each.train.micro_batch_tokens for each in found] == [80, "auto"]
    fixed = apply_settings(config, ["train.micro_batch_tokens=50"])
    assert trainable_config(fixed, run, True, []) == fixed
