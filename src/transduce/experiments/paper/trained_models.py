"""What experiments train: recipes with their corpora, or models trained in seconds. A stopped training resumes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from transduce import files
from transduce.bundle import Bundle
from transduce.config import Config, apply_settings, load_recipe, preset, to_dict
from transduce.config.home import expanded
from transduce.data.corpus import locate, locate_tests
from transduce.data.demo_corpus import demo_files, make_demo_corpus
from transduce.errors import ConfigError, DataError
from transduce.experiments import store
from transduce.experiments.demo import with_corpus
from transduce.experiments.paper.experiment import Say
from transduce.runs import train

RECIPES = Path("recipes")  # of a checkout of the source

# Keys that change neither a finished model nor its translations. Training sets the vocabulary's size.
_IRRELEVANT = (
    "name",
    *("model.vocab_size", "data.folder", "data.test", "data.test_sets"),
    *("train.device", "train.compile", "train.num_workers", "train.log_steps", "decode.batch_size"),
)


def recipe_config(recipe: Path, data: Path | None, settings: Sequence[str] = ()) -> Config:
    """Returns the configuration of a recipe whose corpus is there.

    Args:
        recipe: a TOML file.
        data: the corpus, or a folder that has it under the name of the recipe's folder; None: where the recipe says.
        settings: as `section.key=value`.

    Raises:
        ConfigError: there is no such recipe, or its corpus is missing; says how to get or name it.
    """
    if not recipe.is_file():
        raise ConfigError(
            f"{recipe}: no such recipe. They come with the source: name one, or start where {RECIPES}/ is."
        )
    config = load_recipe(recipe, settings)
    fetch = f"get it with 'transduce prepare {recipe} --check-only', or " if config.data.download else ""
    return with_data(config, data, f"{fetch}name its folder: --corpus DIR")


def with_data(config: Config, data: Path | None, remedy: str, *, test_only: bool = False) -> Config:
    """Returns `config` with its corpus in `data`, in a subfolder of `data`, or where it was; fetches nothing.

    Raises:
        ConfigError: the corpus, or with `test_only` a test set, is not there.
    """
    folder = expanded(config.data.folder)
    if data is not None:
        folder = data / folder.name if folder.name and (data / folder.name).is_dir() else data
    found = replace(config, data=replace(config.data, folder=str(folder)))
    needed = replace(found.data, download="")
    if test_only:
        tests = tuple(each.files for each in needed.test_corpora)
        nothing: dict[str, Any] = dict.fromkeys(("repeat", "corpora", "validation", "validation_sets", "test_sets"), ())
        needed = replace(needed, train=tests, test={}, **nothing)
    try:
        locate(needed, progress=False)
    except DataError as error:
        raise ConfigError(f"{config.name}: its corpus is not in {folder}: {error} Please {remedy}.") from None
    return found


def seconds_config(name: str, *, max_steps: int, settings: Sequence[str] = ()) -> Config:
    """Returns the preset of the demo, without its data, small enough to be trained in seconds."""
    shape = {"num_encoder_layers": 2, "num_decoder_layers": 2, "d_model": 32, "d_ff": 64, "d_k": 4, "d_v": 4}
    small = [
        f"name={name}",
        *(f"model.{key}={value}" for key, value in shape.items()),
        "text.vocab_size=300",
        f"train.max_steps={max_steps}",
        "train.cooldown_steps=0",
        "train.warmup_steps=10",
        "train.learning_rate_factor=0.2",
        "train.validate_steps=0",
        "train.validate_bleu=false",
        f"train.checkpoint_steps={max(1, max_steps // 3)}",
        "train.average_last=1",
        "decode.beam_size=2",
    ]
    return apply_settings(preset("demo"), [*small, *settings])


def demo_config(folder: Path, target_language: str, *, max_steps: int = 20) -> Config:
    """Returns a configuration that learns a little of the demo's corpus in seconds, in `folder`: see `make_demo`."""
    config = seconds_config(f"demo-en-{target_language}", max_steps=max_steps)
    return with_corpus(config, folder, "en", target_language)


def make_demo(config: Config) -> None:
    """Makes the small corpus of a `demo_config`, the same each time, unless it is there.

    Raises:
        MissingDependencyError: `babel` or `num2words`, which it is made with, is not installed.
    """
    folder, target_language = Path(config.data.folder), config.data.target_language
    made = demo_files(folder, "en", target_language).values()
    if not all(path.is_file() for pair in made for path in pair):
        make_demo_corpus(folder, target_language=target_language, num_train=150, num_validation=12, num_test=12)


def trained(config: Config, run: Path, say: Say, *, show_progress: bool) -> Path:
    """Trains to the end in the folder `run`, resuming what is there, and returns the model folder.

    Raises:
        ConfigError: a finished model is there, of another configuration.
        Stopped: a signal ended the training, after a checkpoint.
    """
    model = run / "model"
    if (model / "model.safetensors").is_file():
        made = Bundle.load(model).config  # the run folder may have begun another training since
        remedy = "Choose another --output, or remove the whole output folder to start over."
        where = f"{model}: is a finished model of"
        store.require_same(to_dict(made), to_dict(config), where, ignore=_IRRELEVANT, remedy=remedy)
        return model
    say("training")
    train(config, run, resume=True, show_progress=show_progress).require_finished("the same command continues")
    return model


def comparable(config: Config) -> dict[str, Any]:
    """Returns the configuration without the corpus's folder, which does not change results."""
    values = to_dict(config)
    values["data"].pop("folder")
    return values


def read_test(config: Config, name: str) -> tuple[list[str], list[str]]:
    """Returns the sources and the references of a test set."""
    pairs = list(locate_tests(config.data)[name].open())
    return [source for source, _ in pairs], [reference for _, reference in pairs]


def checksums_of_tests(config: Config) -> dict[str, dict[str, str]]:
    """Returns the SHA-256 of the files of each test set, by their names within the corpus.

    Raises:
        DataError: a treebank is missing.
    """
    folder = expanded(config.data.folder)
    found = {name: part.paths for name, part in locate_tests(config.data).items()}
    return {name: {_name_in(folder, path): files.sha256(path) for path in paths} for name, paths in found.items()}


def _name_in(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name


def refuse_without_effect(options: Mapping[str, object], why: str) -> None:
    """Refuses options that have no effect.

    Args:
        options: values by flag; None, False or empty where it was not given.
        why: a clause that says why.

    Raises:
        ConfigError: one was given; names it.
    """
    for flag, value in options.items():
        if value:
            raise ConfigError(f"{flag} has no effect here: {why}. Leave it out.")
