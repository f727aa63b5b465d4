"""What a student is: its configuration, from a recipe or from its teacher, and whether it fits the teacher."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from transduce.bundle import Bundle
from transduce.config import Config, TrainConfig, apply_settings, load_recipe, preset
from transduce.config.corpora import CorpusConfig
from transduce.config.loading import read_toml, recipe_start, setting_key
from transduce.config.start import InitConfig
from transduce.config.weights import count_parameters
from transduce.engines.ctranslate2_limits import require_convertible
from transduce.errors import ConfigError
from transduce.translation.directions import Directions

DEFAULT_SHAPE = "student-6-2"
TUNING_KEY = "train.int8_tuning_steps"
_SHAPES = "student-"  # what the names of the presets begin with
_TUNED_STEPS = 10  # every so many steps, one of the last


def student_config(
    recipe: str | Path, settings: Sequence[str] = (), shape: str = "", *, from_teacher: str | Path | None = None
) -> Config:
    """Returns the configuration of a student.

    Data and training are the recipe's. So is the shape, if the recipe starts from a preset of students. Otherwise the
    shape is that of a preset, the search is greedy, and the model that the recipe starts from is ignored: it has
    another shape. Settings come last.

    Unless the recipe or a setting says otherwise, the last tenth of the steps tunes for int8, if it is known which
    steps are the last.

    With `from_teacher`, only the numbers of layers come from there. The student has the teacher's width, and starts
    from some of its layers (`transduce.training.ancestor.kept_layers`).

    Args:
        recipe: may be the teacher's own.
        settings: each `section.key=value`.
        shape: the preset of the shape; "" is the recipe's, or `DEFAULT_SHAPE`.
        from_teacher: the teacher's model folder, if the student starts from its weights.

    Raises:
        ConfigError: the recipe or a setting is wrong, there is no such preset, or it makes a parser.
        BundleError: the teacher's folder is incomplete or damaged.
    """
    recipe = Path(recipe)
    config = load_recipe(recipe)
    if config.data.format == "trees":
        raise ConfigError(
            f"{recipe}: data.format = 'trees': this recipe makes a parser, and a student must be a translator."
        )
    name, _ = recipe_start(recipe)
    if shape or not name.startswith(_SHAPES):
        chosen = preset(shape or DEFAULT_SHAPE)
        search = replace(config.decode, beam_size=1)
        name = f"{config.name}-{chosen.name}"
        config = replace(config, name=name, model=chosen.model, decode=search, init=InitConfig())
    if from_teacher is not None:
        config = _as_wide(Bundle.load(from_teacher), config)
    config = apply_settings(config, settings)
    train = config.train
    limited = train.max_minutes or train.max_flops or train.early_stopping
    if _says_how_to_tune(recipe, settings) or limited:
        return config
    return replace(config, train=replace(config.train, int8_tuning_steps=usual_tuning_steps(config.train)))


def usual_tuning_steps(train: TrainConfig) -> int:
    """Returns how many steps of a student tune for int8 where nothing says how many."""
    return train.max_steps // _TUNED_STEPS


def _says_how_to_tune(recipe: Path, settings: Sequence[str]) -> bool:
    section, _, key = TUNING_KEY.partition(".")
    return TUNING_KEY in map(setting_key, settings) or key in read_toml(recipe, "recipe").get(section, {})


def _as_wide(teacher: Bundle, config: Config) -> Config:
    """Returns the configuration of a student that has the teacher's shape, but not more layers than `config` says."""
    theirs, ours = teacher.config.model, config.model
    num_encoder_layers = min(theirs.num_encoder_layers, ours.num_encoder_layers)
    num_decoder_layers = min(theirs.num_decoder_layers, ours.num_decoder_layers)
    shape = replace(theirs, num_encoder_layers=num_encoder_layers, num_decoder_layers=num_decoder_layers)
    shape = replace(shape, block_size=1)  # no heads for later tokens: the student's format has none
    return replace(config, model=shape, text=teacher.config.text, init=InitConfig(model=str(teacher.path)))


def require_fit(teacher: Bundle, config: Config) -> None:
    """Checks, before hours of work, that the student has a pair of the teacher's languages, and can be compared.

    Raises:
        ConfigError: it has not.
    """
    require_convertible(teacher.config.model)
    require_convertible(config.model)
    theirs = Directions.of(teacher.tokenizer, teacher).pairs
    ours = {(corpus.source_language, corpus.target_language): corpus.name for corpus in config.data.training_corpora}
    for pair, name in ours.items():
        if all(pair) and not any(pair == other or not all(other) for other in theirs):
            known = ", ".join(" → ".join(other) for other in theirs)
            raise ConfigError(
                f"{name}: is {' → '.join(pair)}, but the teacher in {teacher.path} translates {known}. Name corpora of "
                "its languages."
            )
    if len(ours) > 1:
        listed = ", ".join(" → ".join(pair) for pair in ours)
        raise ConfigError(
            f"data.corpora: are {listed}, but a student has one language pair. Name the corpora of one pair."
        )
    compared = config.data.test_corpora or config.data.validation_corpora
    if len(domains := list(dict.fromkeys(each.domain for each in compared))) > 1:
        listed = ", ".join(f"'{domain}'" for domain in domains)
        raise ConfigError(
            f"data.test_sets: have the domains {listed}. Name sets of one domain: teacher and student are compared on "
            "all of them together."
        )
    for each in compared:
        pair = (each.source_language, each.target_language)
        if all(pair) and not any(pair == other or not all(other) for other in ours):
            raise ConfigError(
                f"{each.name}: is {' → '.join(pair)}, but the student translates {' → '.join(next(iter(ours)))}. Leave "
                "this set out: teacher and student are compared on it."
            )


def larger_than_teacher(teacher: Bundle, config: Config, *, own_vocabulary: bool) -> str:
    """Returns a warning where the student has no fewer parameters than its teacher; "" where it has."""
    vocab_size = config.text.vocab_size if own_vocabulary else teacher.config.model.vocab_size
    models = (replace(config.model, vocab_size=vocab_size), teacher.config.model)
    sizes = [count_parameters(model) for model in models]
    if sizes[0] < sizes[1]:
        return ""
    return (
        f"the student has {sizes[0]:,} parameters, and its teacher in {teacher.path} has {sizes[1]:,}, so it "
        "may be no faster. Make it smaller with --preset student-tiny, or --set model.d_model=… and model.d_ff=…"
    )


def teacher_languages(teacher: Bundle, corpus: CorpusConfig) -> tuple[str, str]:
    """Returns the source and the target language to ask the teacher for; "" for one that it needs no tag of.

    Only M2M100 and NLLB need that of the source.
    """
    source = corpus.source_language if teacher.config.data.language_tags == "both" else ""
    return source, corpus.target_language if teacher.tokenizer.target_languages else ""
