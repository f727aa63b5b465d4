"""Table 4: a Transformer as a parser, trained on a treebank alone and with silver trees as well (§6.3).

The package makes its own silver trees: the first parser, trained on the treebank alone, parses sentences without trees.
The second learns from its well-formed parses in addition to the gold trees.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from transduce import files
from transduce.bundle import Bundle
from transduce.config import Config, DataConfig, load_recipe
from transduce.config.weights import count_parameters
from transduce.data.corpus import absolute, locate
from transduce.data.readers import read_lines
from transduce.data.treebank_reader import read_normalised, read_treebank, treebank_files
from transduce.errors import ConfigError, TrainingError
from transduce.experiments.paper.experiment import Experiment, Measurement, Options, Say, Values
from transduce.experiments.paper.scales import Scale, at_scale
from transduce.experiments.paper.table4_report import SHORT_WORDS, Baseline, draw, render
from transduce.experiments.paper.toy_treebank import make_toy_treebank
from transduce.experiments.paper.trained_models import (
    RECIPES,
    checksums_of_tests,
    comparable,
    recipe_config,
    refuse_without_effect,
    seconds_config,
    trained,
)
from transduce.parser import Parser
from transduce.runs import read_test_trees
from transduce.treebank import Tree, parse_scores
from transduce.treebank.pairs import tree_words

SUPERVISED, SEMI = "supervised", "semi-supervised"

_TOY_SIZES = {"test": 10, "validation": 10, "raw": 30, "train": 100}
_TOY_SETTINGS = (
    "model.num_encoder_layers=1",
    "model.num_decoder_layers=1",
    "text.vocab_size=400",
    "decode.length_penalty=0.3",
    "decode.max_extra_tokens=40",
)


@dataclass(frozen=True)
class Settings:
    """What is trained at a scale."""

    recipe: Path | None = None  # None: a toy treebank
    semi_recipe: Path | None = None  # None: the same as `recipe`, with silver trees
    seeds: int = 1


SETTINGS: dict[Scale, Settings] = {
    "smoke": Settings(),
    "laptop": Settings(RECIPES / "treebank-small.toml", seeds=3),
    "paper": Settings(RECIPES / "wsj-parsing.toml", RECIPES / "wsj-parsing-semi.toml"),
}


@dataclass(frozen=True)
class Task:
    """What is trained and where."""

    config: Config  # of the supervised parser
    semi: Config | None  # of the other, silver trees still to be added; None: it is not trained
    output: Path
    raw: Path | None  # sentences without trees
    silver: Path  # made from `raw`, or given
    toy: bool
    show_progress: bool
    constrained: bool = False  # whether test sets are parsed by searches among well-formed trees

    def run(self, setting: str, seed: int) -> Path:
        """Returns the run folder of a training."""
        return self.output / "runs" / f"{setting}-seed{seed}"


@dataclass(frozen=True)
class Table4Options(Options):
    """Options of Table 4; the scale decides what is not given."""

    recipe: Path | None = None  # of a parser
    data: Path | None = None  # its treebanks; None: where the recipe has them
    settings: Sequence[str] = ()  # changes to the recipe, as `section.key=value`
    raw: Path | None = None  # tokenised sentences, one a line, to be parsed into silver trees
    silver: Path | None = None  # silver trees, in place of `raw`; with neither, only the supervised parser is trained
    seeds: int | None = None  # trainings of each
    baseline: Path | None = None  # another parser's results on the same test sets: see `read_baseline`
    constrained: bool = False  # test sets are parsed by searches among well-formed trees; the paper's are not


def experiment(options: Table4Options) -> Experiment:
    """Returns the experiment.

    Raises:
        ConfigError: a recipe, its treebanks or a file is not there, or an option has no effect.
        DataError: `raw` cannot be read as text, or `silver` holds what is no tree.
    """
    scale, chosen = options.scale, at_scale(SETTINGS, options.scale)
    num_seeds = chosen.seeds if options.seeds is None else options.seeds
    if num_seeds < 1:
        raise ConfigError(f"--seeds {num_seeds}: must be greater than 0.")
    task = _task(chosen, options)
    baselines = read_baseline(options.baseline) if options.baseline else []
    return Experiment(
        name="table4",
        title="Table 4: constituency parsing",
        settings={
            "scale": scale,
            "seeds": num_seeds,
            "config": comparable(task.config),
            "semi": comparable(task.semi) if task.semi else None,
            "silver": _identity(options.raw or options.silver),
            "tests": None if task.toy else checksums_of_tests(task.config),  # made when needed, the same each time
            **({"constrained": True} if task.constrained else {}),
        },
        measurements=list(_measurements(task, num_seeds)),
        render=partial(render, scale, baselines=baselines),
        draw=partial(draw, baselines=baselines),
    )


def _task(chosen: Settings, options: Table4Options) -> Task:
    output, data, settings = options.output, options.data, options.settings
    raw, silver = options.raw, options.silver
    recipe = options.recipe or chosen.recipe
    if raw is not None and silver is not None:
        raise ConfigError("--raw is parsed into silver trees, and --silver are such: give one of them.")
    for path in (raw, silver):
        if path is not None and not path.exists():
            raise ConfigError(f"{path}: no such file.")
    if recipe is None:
        made = "at this scale, table4 makes its treebank and silver trees"
        refuse_without_effect({"--corpus": data, "--silver": silver}, made)
        config = _toy_config(output / "treebank", settings)
        raw = raw or output / "treebank" / "raw.txt"
    else:
        config = recipe_config(recipe, data, settings)
    if config.data.format != "trees":
        raise ConfigError(f"{config.name}: trains no parser: data.format is '{config.data.format}', not 'trees'.")
    if not config.data.test_corpora:
        raise ConfigError(f"{config.name}: names no test set (data.test), on which the parser could be measured.")
    # Before hours of training, which a corrected file could not use: results are of the file that they began with.
    if options.raw is not None and not any(line.strip() for line in read_lines(options.raw)):
        raise ConfigError(f"{options.raw}: has no sentences to parse.")
    if silver is not None:
        for _ in read_normalised([silver]):  # raises what is wrong
            pass
    semi = config if raw is not None or silver is not None else None
    if semi and semi.data.corpora:
        raise ConfigError(f"{config.name}: silver trees are added to data.train, and it has data.corpora instead.")
    if semi and options.recipe is None and chosen.semi_recipe:
        semi = _semi_recipe(chosen.semi_recipe, config, settings)
    return Task(
        config,
        semi,
        output,
        raw,
        silver or output / "silver.trees",
        recipe is None,
        not options.quiet,
        options.constrained,
    )


def _semi_recipe(recipe: Path, config: Config, settings: Sequence[str]) -> Config:
    """Returns the recipe of the semi-supervised parser, with the treebank of `config` as its data."""
    if not recipe.is_file():
        raise ConfigError(f"{recipe}: no such recipe. They come with the source: start where {RECIPES}/ is.")
    semi = load_recipe(recipe, settings)
    repeat = (semi.data.repeat or (1,))[:1] * len(config.data.train)
    return replace(semi, data=replace(config.data, repeat=repeat))


def _toy_config(folder: Path, settings: Sequence[str]) -> Config:
    data = DataConfig(
        format="trees",
        source_language="en",
        folder=str(folder),
        train=(("train.trees",),),
        validation=("validation.trees",),
        test={"toy": ("test.trees",)},
        max_ratio=0.0,
    )
    return replace(seconds_config("toy-treebank", max_steps=25, settings=[*_TOY_SETTINGS, *settings]), data=data)


def _identity(path: Path | None) -> Any:
    """Returns what identifies sentences or trees: their name, and the SHA-256 of the file or of a folder's files."""
    if path is None:
        return None
    found = [path] if path.is_file() else treebank_files(path) if path.is_dir() else []
    return {"name": path.name, "sha256": [files.sha256(file) for file in found]}


def read_baseline(path: Path) -> list[Baseline]:
    """Reads another parser's results: what `benchmarks/pcfg.py` writes, several of those as `{"runs": […]}`, or
    `{"f1": …}`.

    Raises:
        ConfigError: the file cannot be read, or has no F1.
    """
    try:
        values = files.read_json(path)
        found = [each for run in values.get("runs", [values]) for each in _baselines(run, path.stem)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path}: no result of a parser, which is JSON with 'f1' or 'tests' ({error}).") from None
    if not found:
        raise ConfigError(f"{path}: no result of a parser: it names no test set.")
    return found


def _baselines(run: Values, name: str) -> Iterator[Baseline]:
    """Yields the results of one training of a baseline, one for each test set."""
    name = str(run.get("what", name)).partition(";")[0]
    if "tests" not in run:
        yield Baseline(name, str(run.get("data", "")), float(run["f1"]))
        return
    for test, result in run["tests"].items():
        trained_on = f"{name}, trained on {run['train']['name']}"
        yield Baseline(trained_on, test, float(result["scores"]["f1"]), int(run["settings"]["max_words"]))


def _measurements(task: Task, num_seeds: int) -> Iterator[Measurement]:
    seeds = range(task.config.train.seed, task.config.train.seed + num_seeds)
    for seed in seeds:
        yield Measurement(f"{SUPERVISED}/seed={seed}", partial(_train, task, SUPERVISED, seed))
    if task.semi is None:
        return
    if task.raw is not None:
        yield Measurement("silver", partial(_silver, task, task.raw, seeds[0]))
    for seed in seeds:
        yield Measurement(f"{SEMI}/seed={seed}", partial(_train, task, SEMI, seed))


def _train(task: Task, setting: str, seed: int, say: Say) -> Values:
    """Trains a parser and parses its test sets."""
    if task.toy:
        _make_toy(task)
    config = task.config if setting == SUPERVISED or task.semi is None else _with_silver(task.semi, task.silver)
    config = replace(config, name=f"{config.name}-{setting}", train=replace(config.train, seed=seed))
    model = trained(config, task.run(setting, seed), say, show_progress=task.show_progress)
    engine = "torch" if task.constrained else "auto"  # the other engine constrains no search
    bundle, parser = Bundle.load(model), Parser.load(model, engine=engine, constrained=task.constrained)
    scores, short = {}, {}
    for name, gold in read_test_trees(config).items():
        say(f"parsing {name}")
        parses = parser.reparse(gold, label=f"parsing {name}" if task.show_progress else "")
        _write_parses(task.run(setting, seed) / "parses", name, gold, [tree for tree, _ in parses])
        pairs = list(zip(gold, parses, strict=True))
        scores[name] = _scores(pairs)
        short[name] = _scores([pair for pair in pairs if len(pair[0].leaves()) <= SHORT_WORDS])
    return {
        "setting": setting,
        "seed": seed,
        "recipe": task.config.name,
        "gold_trees": _count(_gold(task.config)),
        "silver_trees": _count([task.silver]) if setting == SEMI else 0,
        "parameters": count_parameters(bundle.config.model),
        "model": {key: getattr(bundle.config.model, key) for key in _SHAPE},
        "decode": {
            **{key: getattr(bundle.config.decode, key) for key in ("beam_size", "length_penalty")},
            "constrained": task.constrained,
        },
        "metrics": bundle.metrics,
        "scores": scores,
        "short_scores": short,
    }


def _scores(pairs: Sequence[tuple[Tree, tuple[Tree, bool]]]) -> dict[str, float]:
    """Returns the scores of parses, and the number of sentences."""
    figures = parse_scores([gold for gold, _ in pairs], [parse for _, parse in pairs]) if pairs else {}
    return {**figures, "sentences": len(pairs)}


def _write_parses(folder: Path, name: str, gold: Sequence[Tree], parsed: Sequence[Tree]) -> None:
    """Writes a test set's trees, a line each, for `transduce parse score --gold-punctuation --analysis`."""
    for side, trees in (("gold", gold), ("parsed", parsed)):
        files.write_text(folder / f"{name}.{side}", "".join(f"{tree}\n" for tree in trees))


_SHAPE = ("num_encoder_layers", "num_decoder_layers", "d_model", "d_ff", "num_heads", "vocab_size", "norm")


def _make_toy(task: Task) -> None:
    folder = Path(task.config.data.folder)
    if (folder / "raw.txt").is_file():
        return
    make_toy_treebank(folder, _TOY_SIZES)
    sentences = (" ".join(tree_words(tree)) for tree in read_treebank([folder / "raw.trees"]))
    files.write_text(folder / "raw.txt", "".join(f"{sentence}\n" for sentence in sentences))


def _with_silver(config: Config, silver: Path) -> Config:
    """Returns `config` with silver trees to train on; by default gold trees are repeated until they are as many."""
    data = config.data
    repeat = data.repeat or (max(1, round(_count([silver]) / _count(_gold(config)))),) * len(data.train)
    return replace(config, data=replace(data, train=(*data.train, (str(absolute(silver)),)), repeat=(*repeat, 1)))


def _gold(config: Config) -> list[Path]:
    """Returns the treebanks that a parser is trained on."""
    return [path for part in locate(config.data, progress=False).train for path in part.paths]


def _count(paths: Sequence[Path]) -> int:
    return sum(1 for _ in read_treebank(paths))


def _silver(task: Task, raw: Path, seed: int, say: Say) -> Values:
    """Parses the raw sentences by the first supervised parser, greedily, and keeps what needed no repair.

    The toy treebank's parser, trained for seconds, may need repair everywhere: all of its parses are kept.

    Raises:
        TrainingError: nothing was kept.
    """
    parser = Parser.load(task.run(SUPERVISED, seed) / "model", constrained=False)
    greedy = parser.translator.with_options(beam_size=1)
    num_sentences = num_whole = num_kept = 0
    with files.atomic_path(task.silver) as temporary, temporary.open("w", encoding="utf-8") as file:
        for parse in parser.stream((line for line in read_lines(raw) if line.strip()), options=greedy):
            num_sentences += 1
            num_whole += not parse.repaired
            if task.toy or not parse.repaired:
                num_kept += 1
                file.write(f"{parse.tree}\n")
            if num_sentences % 20 == 0:
                say(f"parsed {num_sentences:,} sentences")
        if not num_kept:
            raise TrainingError(
                f"{raw}: none of {num_sentences:,} sentences got a tree without repair: no silver trees."
            )
    return {"source": raw.name, "sentences": num_sentences, "well_formed": num_whole, "kept": num_kept}
