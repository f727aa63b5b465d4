"""Table 2: BLEU and the cost of training, of the paper's systems as printed and of ours as measured (§6.1).

Ours are trained from recipes, or are finished model folders. Each is scored on the test sets of its recipe by BLEU as
the paper's authors computed it, and reports the cost of its training.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from transduce.bundle import Bundle
from transduce.config import Config, apply_settings
from transduce.config.corpora import HeldOutSetConfig
from transduce.config.weights import count_parameters
from transduce.data.prepared import load_prepared
from transduce.data.store import ParallelStore
from transduce.errors import ConfigError
from transduce.evaluation import bleu, paper_bleu, tokenized_bleu
from transduce.experiments.paper.controls import comparison
from transduce.experiments.paper.controls.systems import FIXED
from transduce.experiments.paper.experiment import Experiment, Measurement, Options, Say, Values
from transduce.experiments.paper.scales import Scale, at_scale
from transduce.experiments.paper.table2_report import PAIRS, draw, render
from transduce.experiments.paper.trained_models import (
    RECIPES,
    checksums_of_tests,
    comparable,
    demo_config,
    make_demo,
    read_test,
    recipe_config,
    refuse_without_effect,
    trained,
    with_data,
)
from transduce.training.run_folder import data_folder
from transduce.translation.pipeline import TextOptions
from transduce.translation.translator import Translator

# Trained where neither recipes nor models are named; at smoke scale, the target languages of the demo's corpus.
DEFAULTS: dict[Scale, tuple[str, ...]] = {
    "smoke": ("de", "fr"),
    "laptop": ("multi30k-en-de",),
    "paper": ("wmt14-en-de-base", "wmt14-en-de-big", "wmt14-en-fr-base", "wmt14-en-fr-big"),
}
_PAIR = re.compile(r"(.+):([a-z]{2,3}-[a-z]{2,3})")


@dataclass(frozen=True)
class System:
    """A system of ours."""

    name: str
    pair: str
    config: Config
    model: Path
    run: Path | None  # the folder where it is trained; None: it is finished
    demo: bool = False  # whether it learns the demo's corpus, which is made when it is needed

    def __post_init__(self) -> None:
        if self.pair not in PAIRS:
            raise ConfigError(
                f"{self.name}: translates '{self.pair}'. Table 2 has {' and '.join(PAIRS)}: set "
                "data.source_language and data.target_language, or for a model write --model FOLDER:PAIR."
            )
        if not self.tests:
            raise ConfigError(f"{self.name}: names no test set (data.test) of such a pair to be measured on.")

    @property
    def tests(self) -> list[HeldOutSetConfig]:
        """Its test sets, of the pairs that Table 2 has."""
        return [test for test in self.config.data.test_corpora if self.pair_of(test) in PAIRS]

    def pair_of(self, test: HeldOutSetConfig) -> str:
        """Returns the pair of a test set; a model of several pairs has sets of each."""
        languages = (test.source_language, test.target_language)
        is_own = languages == self.config.data.held_out_languages or not all(languages)
        return self.pair if is_own else "-".join(languages)


@dataclass(frozen=True)
class Table2Options(Options):
    """Options of Table 2; without recipes and models, the scale decides what is trained."""

    recipes: Sequence[Path] = ()  # systems to train
    models: Sequence[str] = ()  # finished systems, as FOLDER or FOLDER:PAIR
    data: Path | None = None  # a corpus, or a folder of corpora; None: where recipes and models have theirs
    settings: Sequence[str] = ()  # changes to the recipes, as `section.key=value`
    tokenized: bool = False  # whether the corpora are tokenised already
    controls: bool = False  # whether a recurrent and a convolutional system are trained too, at equal cost
    flops: float | None = None  # of each training of these; None: as the scale says
    minutes: float | None = None
    seeds: int | None = None  # None: 1
    systems: Sequence[str] = ()  # names of those that are trained now; none: all
    trials: int | None = None  # settings of each system that are tried; None: 1, nothing is tried


def experiment(options: Table2Options) -> Experiment:
    """Returns the experiment.

    Raises:
        ConfigError: a recipe, a model or its corpus is not there, or translates a pair that Table 2 does not have; or
            an option has no effect.
    """
    if options.controls:
        return comparison.experiment(_compared(options))
    of_controls = {f"--{key}": getattr(options, key) for key in ("flops", "minutes", "seeds", "systems", "trials")}
    refuse_without_effect(of_controls, "it is an option of --controls")
    scale, recipes, tokenized = options.scale, options.recipes, options.tokenized
    names = at_scale(DEFAULTS, scale)
    if recipes or options.models:
        if not recipes:
            refuse_without_effect({"--set": options.settings}, "finished models are measured as they are")
        systems = [_from_recipe(recipe, options) for recipe in recipes]
        systems += [_from_model(model, options.data) for model in options.models]
    elif scale == "smoke":
        given = {"--set": options.settings, "--corpus": options.data}
        refuse_without_effect(given, f"table2 --scale {scale} trains on a corpus that it makes")
        systems = [_from_demo(language, options.output) for language in names]
    else:
        systems = [_from_recipe(RECIPES / f"{name}.toml", options) for name in names]
    _require_different(systems)
    return Experiment(
        name="table2",
        title="Table 2: BLEU and training cost",
        settings={"scale": scale, "tokenized": tokenized, "systems": {s.name: _identity(s) for s in systems}},
        measurements=[each for system in systems for each in _measurements(system, options)],
        render=partial(render, scale),
        draw=draw,
    )


def _compared(options: Table2Options) -> comparison.Settings:
    """Returns what is compared with --controls: the recipe's system, or the first one of the scale."""
    names = at_scale(DEFAULTS, options.scale)
    if options.models or len(options.recipes) > 1:
        raise ConfigError("--controls compares what it trains itself: give one --recipe at most, and no --model.")
    fixed = {f"--set {each}": True for each in options.settings if each.partition("=")[0].strip() in FIXED}
    refuse_without_effect(fixed, "--controls has its own value, the same for all systems")
    demo = options.scale == "smoke" and not options.recipes
    if demo:
        given = {"--corpus": options.data}
        refuse_without_effect(given, f"table2 --scale {options.scale} trains on a corpus that it makes")
        recipe = apply_settings(demo_config(options.output / "runs" / "corpus", names[0]), options.settings)
    else:
        path = options.recipes[0] if options.recipes else RECIPES / f"{names[0]}.toml"
        recipe = recipe_config(path, options.data, options.settings)
    return comparison.Settings(
        options.scale,
        recipe,
        options.output,
        options.flops,
        options.minutes,
        seeds=1 if options.seeds is None else options.seeds,
        systems=options.systems,
        trials=1 if options.trials is None else options.trials,
        tokenized=options.tokenized,
        demo=demo,
        show_progress=not options.quiet,
    )


def _from_recipe(recipe: Path, options: Table2Options) -> System:
    config = recipe_config(recipe, options.data, options.settings)
    run = options.output / "runs" / recipe.stem
    return System(recipe.stem, _pair(config), config, run / "model", run)


def _from_model(named: str, data: Path | None) -> System:
    match = None if Path(named).is_dir() else _PAIR.fullmatch(named)
    folder = Path(match[1] if match else named)
    config = Bundle.load(folder).config
    if config.data.test_corpora:
        config = with_data(config, data, "name the folder of its test sets: --corpus DIR", test_only=True)
    return System(str(folder), match[2] if match else _pair(config), config, folder, None)


def _from_demo(language: str, output: Path) -> System:
    run = output / "runs" / f"demo-en-{language}"
    config = demo_config(run / "corpus", language)
    return System(config.name, _pair(config), config, run / "model", run, demo=True)


def _pair(config: Config) -> str:
    return "-".join(config.data.held_out_languages)


def _require_different(systems: Sequence[System]) -> None:
    names = [system.name for system in systems]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{name}: is named twice.")


def _identity(system: System) -> Values:
    """Returns what decides a system's results."""
    bundle = Bundle.load(system.model) if system.run is None else None
    return {
        "pair": system.pair,
        "given": bundle.metrics if bundle else None,  # another training, other metrics
        "sha256": dict(bundle.checksums) if bundle else None,
        "config": comparable(system.config),
        "tests": None if system.demo else checksums_of_tests(system.config),  # made when needed, the same each time
    }


def _measurements(system: System, options: Table2Options) -> Iterator[Measurement]:
    yield Measurement(f"train/{system.name}", partial(_train, system, not options.quiet))
    for test in system.tests:
        yield Measurement(f"test/{system.name}/{test.name}", partial(_test, system, test, options.tokenized))


def _train(system: System, show_progress: bool, say: Say) -> Values:
    """Trains, unless the model is finished, and returns the model's figures."""
    pairs = None
    if system.demo:
        make_demo(system.config)
    if system.run is not None:
        trained(system.config, system.run, say, show_progress=show_progress)
        pairs = len(ParallelStore.open(load_prepared(data_folder(system.run), checksums=False).train))
    bundle = Bundle.load(system.model)
    config, data = bundle.config, bundle.config.data
    named = data.download or Path(data.folder).name or "a corpus without a name"
    return {
        "name": system.name,
        "pair": system.pair,
        "trained_here": system.run is not None,
        "corpus": "the demo's corpus" if system.demo else named,
        "training_pairs": pairs,
        "parameters": count_parameters(config.model),
        "model": asdict(config.model),
        "max_steps": config.train.max_steps,
        "batch_tokens": config.train.target_batch_tokens,
        "decode": asdict(config.decode),
        "metrics": bundle.metrics,
    }


def _test(system: System, test: HeldOutSetConfig, tokenized: bool, say: Say) -> Values:
    """Translates a test set and scores it."""
    pair = system.pair_of(test)
    sources, references = read_test(system.config, test.name)
    translator, lines = Translator.load(system.model, engine="torch"), []
    options = TextOptions(language=test.source_language, target=test.target_language, domain=test.domain)
    for found in translator.stream(sources, text_options=options):
        lines.append(found[0].text)
        if len(lines) % 20 == 0 or len(lines) == len(sources):
            say(f"translated {len(lines):,} of {len(sources):,}")
    papers = paper_bleu(lines, [references], language=pair[-2:], tokenized=tokenized)
    sacre = tokenized_bleu(lines, [references]) if tokenized else bleu(lines, [references])
    return {
        "system": system.name,
        "pair": pair,
        "test": test.name,
        "lines": len(sources),
        "bleu": papers.value,
        "signature": papers.signature,
        "sacrebleu": sacre.value,
        "sacrebleu_signature": sacre.signature,
    }
