"""The configuration of a run: written when it starts, and what of it may change when it is resumed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from transduce.__about__ import __version__
from transduce.bundle import Bundle
from transduce.config import Config, TrainConfig, to_dict
from transduce.config.checked_json import write_checked
from transduce.config.differences import describe, differences
from transduce.config.loading import setting_key
from transduce.errors import BundleError, TrainingError
from transduce.training.outcome import Outcome, end_of
from transduce.training.progress import Progress, last_progress
from transduce.training.run_folder import CONFIG, checkpoint_step, checkpoints, load_run_config
from transduce.training.schedule import untuned_steps

# What may change when a run is resumed: nothing here changes an update.
_MAY_CHANGE = {
    "train.max_steps", "train.max_minutes", "train.max_flops", "train.device", "train.compile", "train.log_steps",
    "train.num_workers",
    "train.checkpoint_steps", "train.checkpoint_minutes", "train.keep_checkpoints", "train.average_last",
    "train.validate_steps", "train.validate_bleu", "train.validate_bleu_sentences", "train.validate_beam_size",
    "train.early_stopping", "train.best_by", "train.max_skipped_steps", "train.spike_deviations",
    "train.micro_batch_tokens",  # as the number of processes: rounding, and which numbers dropout draws
    "train.activation_checkpointing", "train.rounded_shapes",
    "name", "data.folder", "data.download", "data.source_language", "data.target_language", "data.test",
    "data.test_sets",
    "decode.beam_size", "decode.length_penalty", "decode.max_extra_tokens", "decode.batch_size",
}  # fmt: skip
# These change updates. A training that diverged needs them, so --set may change them; an edited recipe may not.
_MAY_CHANGE_IF_SET = {"train.learning_rate_factor", "train.max_gradient_norm", "train.skip_steps"}


def changes_on_resume(run: Path, config: Config, settings: Sequence[str]) -> dict[str, str]:
    """Returns how `config` differs from the run's own configuration, a line by each key.

    Raises:
        TrainingError: a key differs that must not change, or the run's own configuration is missing.
    """
    if not checkpoints(run):  # nothing is trained yet
        return {}
    if not (run / CONFIG).is_file():
        raise TrainingError(
            f"{run / CONFIG}: missing, which says what this training was started with. Put it back, or choose another "
            "--output."
        )
    # The vocabulary of a recipe is a limit, that of a run what training the tokeniser gave.
    sizes = {"model.vocab_size", "model.target_vocab_size"}
    begun = load_run_config(run)
    changed = differences(to_dict(begun), to_dict(config), ignore=sizes)
    free = _MAY_CHANGE | (_MAY_CHANGE_IF_SET & {setting_key(setting) for setting in settings})
    if are_tuned_alike := _are_tuned_alike(run, begun.train, config.train):
        free |= {"train.int8_tuning_steps"}
    if config.train.cooldown_steps or not are_tuned_alike:
        free -= {"train.max_steps"}  # the rate depends on where it ends, and so do the steps that tune for int8
    lines = {key: describe({key: values}) for key, values in sorted(changed.items())}
    refused = [f"  {line}" for key, line in lines.items() if key not in free and not key.startswith("data.test.")]
    if refused:
        raise TrainingError(
            f"{run}: cannot be resumed with another configuration than it was started with:\n"
            + "\n".join([*refused, "Go back to these values, or choose another --output for another training."])
        )
    return lines


def _are_tuned_alike(run: Path, before: TrainConfig, now: TrainConfig) -> bool:
    """Returns whether both configurations tune for int8 in the same steps of those made so far."""
    made = checkpoint_step(checkpoints(run)[-1])
    return min(made, untuned_steps(before)) == min(made, untuned_steps(now))


def finished(run: Path, config: Config, changes: Mapping[str, str]) -> Outcome | None:
    """Returns how a run ended that has no update left by `config`, and a complete model; None if there is work to do.

    Raises:
        TrainingError: there are `changes`, by `changes_on_resume`, of what is finished.
    """
    try:
        progress = last_progress(run)
    except BundleError:  # damaged: an earlier one is resumed from
        return None
    if progress is None or (end := end_of(config.train, progress)) is None:
        return None
    is_made = _is_made(run / "model", progress)
    late = [line for key, line in changes.items() if is_made or key in _MAY_CHANGE_IF_SET]
    if late:
        raise TrainingError(
            f"{run}: is finished after step {progress.step}, and no update is left that this would change:\n"
            + "\n".join(f"  {line}" for line in late)
            + f"\nRaise train.{end.value} to train further, or choose another --output for another training."
        )
    return Outcome(end, progress) if is_made else None


def _is_made(model: Path, progress: Progress) -> bool:
    """Returns whether a model folder is undamaged, and of the steps of `progress`."""
    try:
        bundle = Bundle.load(model)
        bundle.verify()
        return bool(bundle.metrics.get("steps") == progress.step)
    except BundleError:
        return False


def trainable_config(config: Config, run: Path, resume: bool, settings: Sequence[str]) -> Config:
    """Checks, before the data are prepared, that `config` can be trained in `run`; returns it as the run continues.

    Raises:
        TrainingError: `run` has a training already, and `resume` is off.
    """
    if checkpoints(run) and not resume:
        raise TrainingError(
            f"{run}: there is a training here already. Add --resume to continue it, or choose another --output."
        )
    return _with_own_micro_batches(config, run, settings)


def _with_own_micro_batches(config: Config, run: Path, settings: Sequence[str]) -> Config:
    """Returns `config` with the run's own number of `train.micro_batch_tokens` where `config` has "auto".

    So a training that was started with a number, by a version without "auto" too, continues exactly. `settings` may ask
    for "auto" explicitly.
    """
    key = "train.micro_batch_tokens"
    if config.train.micro_batch_tokens != "auto" or key in map(setting_key, settings) or not checkpoints(run):
        return config
    kept = load_run_config(run).train.micro_batch_tokens if (run / CONFIG).is_file() else "auto"
    return replace(config, train=replace(config.train, micro_batch_tokens=kept))


def save_run_config(run: Path, config: Config, settings: Sequence[str]) -> None:
    """Writes the configuration of a run, and which of its values --set gave."""
    made_by = {"transduce": __version__, "torch": torch.__version__}
    write_checked(run / CONFIG, made_by | ({"set": [*settings]} if settings else {}) | to_dict(config))
