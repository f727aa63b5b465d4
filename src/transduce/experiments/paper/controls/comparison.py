"""Table 2's claim put to the test: a Transformer, a recurrent and a convolutional system at equal cost (§6.1, §7).

Each system is trained until it has spent the budget of counted operations and the budget of minutes. At whichever comes
first it is measured, and again at the other. Settings of each system are tried before, as many for each, with a share
of the operations, and the ones with the lowest validation perplexity are trained.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from transduce.config import Config
from transduce.errors import ConfigError
from transduce.experiments.paper.controls.report import draw, render
from transduce.experiments.paper.controls.systems import MOST_TRIALS, SYSTEMS, System
from transduce.experiments.paper.controls.training import Budget, Run, clock_of
from transduce.experiments.paper.experiment import Experiment, Measurement, Say, Values
from transduce.experiments.paper.scales import Scale, at_scale
from transduce.experiments.paper.trained_models import checksums_of_tests, comparable, make_demo
from transduce.training.device import Compute

TRIAL_SHARE = 0.25  # of the operations
BUDGETS: dict[Scale, Budget] = {
    "smoke": Budget(flops=2e9, minutes=0.02),
    "laptop": Budget(flops=3e13, minutes=20),
    "paper": Budget(flops=3.3e18, minutes=720),  # the base model's (Table 2, §5.2)
}


@dataclass(frozen=True)
class Settings:
    """What is compared; the scale decides on what is None."""

    scale: str
    recipe: Config  # of the Transformer; its corpus, text, batches and search are those of all systems
    output: Path
    flops: float | None = None
    minutes: float | None = None
    seeds: int = 1
    systems: Sequence[str] = ()  # names of those that are trained now; none: all
    trials: int = 1  # settings of each system that are tried; 1: the first are taken
    tokenized: bool = False
    demo: bool = False  # whether the corpus is the demo's, to be made
    show_progress: bool = True

    @property
    def budget(self) -> Budget:
        """What each training may cost."""
        usual = at_scale(BUDGETS, self.scale)
        flops = usual.flops if self.flops is None else self.flops
        return Budget(flops, usual.minutes if self.minutes is None else self.minutes)


def experiment(settings: Settings) -> Experiment:
    """Returns the experiment.

    Raises:
        ConfigError: a number is out of its range, there is no validation or test set, a test set would need tags, or
            the recipe trains a parser or begins with a model.
    """
    recipe, budget = settings.recipe, settings.budget
    for flag, number, most in (("--seeds", settings.seeds, 1000), ("--trials", settings.trials, MOST_TRIALS)):
        if not 1 <= number <= most:
            raise ConfigError(f"{flag} {number}: must be from 1 to {most}.")
    names = [system.name for system in SYSTEMS]
    if unknown := [name for name in settings.systems if name not in names]:
        raise ConfigError(f"--systems {unknown[0]}: must be of {', '.join(names)}.")
    if budget.flops <= 0 or budget.minutes <= 0:
        raise ConfigError(f"--flops {budget.flops:g}, --minutes {budget.minutes:g}: must be greater than 0.")
    if not recipe.data.validation_corpora or not recipe.data.test_corpora:
        raise ConfigError(f"{recipe.name}: needs data.validation and data.test, by which systems are compared.")
    if recipe.data.format == "trees":
        raise ConfigError(f"{recipe.name}: trains a parser, and systems are compared by BLEU.")
    if recipe.data.tagged_languages or any(test.domain for test in recipe.data.test_corpora):
        raise ConfigError(f"{recipe.name}: its test sets must have no domain and one target language: none gets tags.")
    if recipe.init.model:
        raise ConfigError(f"{recipe.name}: init.model must be empty: all systems begin with random weights.")
    clock = clock_of(Compute.of(recipe.train.device, recipe.train.precision))
    return Experiment(
        name="table2",
        title="Table 2: recurrent, convolutional and attention-only systems at equal cost",
        settings={
            "scale": settings.scale,
            "controls": {"flops": budget.flops, "minutes": budget.minutes, "trials": settings.trials, "clock": clock},
            "tokenized": settings.tokenized,
            "recipe": comparable(recipe),
            "tests": None if settings.demo else checksums_of_tests(recipe),
        },
        measurements=list(_measurements(settings, settings.systems or names)),
        render=partial(render, settings.scale),
        draw=draw,
        order=[each.name for each in _measurements(settings, names)],  # systems of earlier calls are shown too
    )


def _measurements(settings: Settings, names: Sequence[str]) -> Iterator[Measurement]:
    systems = [system for system in SYSTEMS if system.name in names]
    for system in systems:
        for trial in range(settings.trials if settings.trials > 1 else 0):
            yield Measurement(f"trial/{system.name}/{trial}", partial(_try, settings, system, trial))
    for seed in range(settings.recipe.train.seed, settings.recipe.train.seed + settings.seeds):
        for system in systems:
            for leg in (1, 2):
                yield Measurement(f"leg/{system.name}/{seed}/{leg}", partial(_train, settings, system, seed, leg))


def _run(settings: Settings, system: System, trial: int, name: str, seed: int) -> Run:
    if settings.demo:
        make_demo(settings.recipe)
    config = system.config(settings.recipe, trial)
    config = replace(config, name=name, train=replace(config.train, seed=seed))
    folder, data = settings.output / "runs" / name, settings.output / "runs" / "data"
    return Run(system, config, folder, data, settings.tokenized, settings.show_progress)


def _trial_run(settings: Settings, system: System, trial: int) -> Run:
    return _run(settings, system, trial, f"{system.name}-trial{trial}", settings.recipe.train.seed)


def _try(settings: Settings, system: System, trial: int, say: Say) -> Values:
    """Trains with a share of the operations."""
    run = _trial_run(settings, system, trial)
    run.train(Budget(flops=TRIAL_SHARE * settings.budget.flops))
    return {"system": system.name, "trial": trial, "settings": list(system.trials[trial]), **run.cost()}


def _chosen(settings: Settings, system: System) -> int:
    """Returns the trial whose perplexity on the validation set is the lowest."""
    if settings.trials == 1:
        return 0
    found = [_trial_run(settings, system, trial).cost()["perplexity"] for trial in range(settings.trials)]
    return found.index(min(found))


def _train(settings: Settings, system: System, seed: int, leg: int, say: Say) -> Values:
    """Trains up to a budget and measures the mean of the last checkpoints."""
    trial = _chosen(settings, system)
    run = _run(settings, system, trial, f"{system.name}-seed{seed}", seed)
    budget = run.train_leg(settings.budget, leg)
    model = run.config.model
    return {
        "system": system.name,
        "title": system.title,
        "pair": "-".join(run.config.data.held_out_languages),
        "seed": seed,
        "budget": budget,
        "trial": trial,
        "layers": [model.num_encoder_layers, model.num_decoder_layers],
        "settings": list(system.trials[trial]),
        **run.cost(),
        "curve": run.curve(),
        **run.measure(),
    }
