"""Rules of the configuration: which values go together, the small presets, and how values are shown."""

from dataclasses import asdict
from typing import Any

import pytest

from transduce.config import (
    Config,
    DataConfig,
    DecodeConfig,
    InitConfig,
    ModelConfig,
    TextConfig,
    TrainConfig,
    apply_settings,
    preset,
)
from transduce.config.corpora import CorpusConfig, HeldOutSetConfig
from transduce.config.data import DataConfig as Data
from transduce.config.filter_options import RULES, FilterOptions
from transduce.config.loading import with_decode_options
from transduce.config.parts import weights_of_parts
from transduce.config.ranges import Range, check_ranges, ranges_of, shown, word_or_value
from transduce.config.weights import count_parameters, require_memory, weight_shapes
from transduce.errors import ConfigError

# --- presets that are ours: the guides give these sizes ---------------------------------------------------------------

SHAPES = {
    # layers of encoder and decoder, d_model, d_ff, heads, d_k and d_v, dropout, norm, pieces, beam
    "tiny": (4, 4, 128, 256, 4, 32, 0.1, "post", 10_000, 4),
    "student-6-2": (6, 2, 192, 768, 3, 64, 0.1, "pre", 10_000, 1),
    "student-6-1": (6, 1, 192, 768, 3, 64, 0.1, "pre", 10_000, 1),
    "student-tiny": (6, 2, 128, 512, 2, 64, 0.1, "pre", 10_000, 1),
    "demo": (2, 2, 128, 256, 8, 16, 0.0, "pre", 1000, 4),
}


@pytest.mark.parametrize("name", SHAPES)
def test_small_presets(name: str) -> None:
    config = preset(name)
    model, decode = config.model, config.decode
    found = (model.num_encoder_layers, model.num_decoder_layers, model.d_model, model.d_ff, model.num_heads, model.d_k)
    assert (*found, model.dropout, model.norm, model.vocab_size, decode.beam_size) == SHAPES[name]
    assert (model.d_v, config.text.vocab_size, config.text.algorithm) == (model.d_k, model.vocab_size, "bpe")
    assert (decode.length_penalty, decode.max_extra_tokens) == (0.6, 50)
    train = {key: value for key, value in asdict(config.train).items() if value != asdict(TrainConfig())[key]}
    if name == "demo":
        assert train == {
            "source_batch_tokens": 512,
            "target_batch_tokens": 512,
            "label_smoothing": 0.05,
            "learning_rate_factor": 0.8,
            "warmup_steps": 500,
            "max_steps": 4200,
            "cooldown_steps": 2000,
            "checkpoint_minutes": 0.0,
            "checkpoint_steps": 1050,
            "keep_checkpoints": 10,
            "average_last": 1,
            "validate_steps": 1050,
            "validate_bleu_sentences": 200,
        }
    else:
        batches = {"source_batch_tokens": 4096, "target_batch_tokens": 4096}
        assert train == batches | {"warmup_steps": 2000, "max_steps": 20_000}


def test_defaults_that_are_not_the_papers() -> None:
    train, data, text = TrainConfig(), DataConfig(), Config().text
    assert (train.validate_steps, train.validate_bleu, train.validate_bleu_sentences, train.validate_beam_size) == (
        1000,
        True,
        500,
        1,
    )
    assert (train.max_skipped_steps, train.spike_deviations, train.keep_checkpoints, train.log_steps) == (
        20,
        8.0,
        5,
        50,
    )
    assert (train.micro_batch_tokens, train.activation_checkpointing, train.precision) == ("auto", "auto", "auto")
    assert (train.seed, train.best_by, train.smoothing, train.device) == (1, "score", "uniform", "auto")
    assert (data.max_tokens, data.max_ratio, data.ratio_slack_tokens) == (256, 4.0, 8)
    drops = (data.drop_leaked, data.drop_near_copies, data.drop_wrong_language, data.drop_duplicates)
    assert (*drops, data.allow_misaligned) == (True, False, False, False, False)
    assert (text.min_frequency, text.sample_pairs) == (2, 2_000_000)
    assert (ModelConfig().max_positions, ModelConfig().layer_norm_epsilon) == (1024, 1e-6)
    rules = FilterOptions()
    limits = (rules.max_words, rules.max_ratio, rules.max_copied, rules.min_alignment, rules.min_similarity)
    assert (*limits, rules.max_cross_entropy, rules.off) == (200, 3.0, 0.8, 0.5, 0.8, 0.0, ())


# --- what goes together -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "values", "said"),
    [
        (TrainConfig, {"cooldown_steps": 9, "early_stopping": 2}, "train.cooldown_steps = 9: must be 0 with"),
        (TrainConfig, {"skip_steps": (3, 0)}, "train.skip_steps = [3, 0]: must be numbers of steps, from 1 to"),
        (TrainConfig, {"skip_steps": (1_000_000_001,)}, "train.skip_steps"),
        (DecodeConfig, {"temperature": 0.0009}, "decode.temperature = 0.0009: must be 0, or at least 0.001"),
        (DecodeConfig, {"max_tokens": 4, "min_tokens": 5}, "decode.min_tokens = 5: must be at most decode.max_tokens"),
        (DecodeConfig, {"temperature": 1.0, "coverage_penalty": 0.1}, "decode.coverage_penalty = 0.1: must be 0 where"),
        (DecodeConfig, {"top_k": 3}, "decode.top_k = 3: must be 0 where decode.temperature is 0"),
        (DecodeConfig, {"diversity_groups": 3}, "decode.diversity_groups = 3: must be a divisor of decode.beam_size"),
        (
            DecodeConfig,
            {"beam_size": 1, "coverage_penalty": 0.1},
            "decode.coverage_penalty = 0.1: must be 0 where deco",
        ),
        (Data, {"rare_words": "signatures"}, "data.rare_words = 'signatures': must be 'pieces' where"),
        (
            Data,
            {"train": (("a",),), "repeat": (1, 2)},
            "data.repeat = [1, 2]: must be a number from 1 to 1,000,000 for",
        ),
        (Data, {"train": (("a",),), "repeat": (0,)}, "data.repeat = [0]"),
        (Data, {"train": (("a",),), "temperature": 0.5}, "data.temperature = 0.5: must be 0, or at least 1"),
        (Data, {"train": (("a",),), "temperature": 2.0, "repeat": (1,)}, "data.temperature = 2.0: must be 0 if"),
        (
            Data,
            {"corpora": (CorpusConfig(files=("a",), weight=2),), "temperature": 2.0},
            "data.temperature = 2.0: must be 0 if",
        ),
        (Data, {"corpora": (CorpusConfig(files=("a",), weight=0),)}, "weight = 0 for all corpora"),
        (Data, {"train": (("a",),), "corpora": (CorpusConfig(files=("b",)),)}, "data.train = "),
        (Data, {"validation": ("a",), "validation_sets": (HeldOutSetConfig(files=("b",)),)}, "data.validation = "),
        (Data, {"test": {"x": ("a",)}, "test_sets": (HeldOutSetConfig(files=("b",)),)}, "data.test = "),
        (
            Data,
            {"corpora": (CorpusConfig(),)},
            "data.corpora[0].files = []: must be a pair of files, or one TSV or TMX file",
        ),
        (Data, {"validation_sets": (HeldOutSetConfig(),)}, "data.validation_sets[0].files = []"),
        (Data, {"test_sets": (HeldOutSetConfig(files=("a", "b", "c")),)}, "data.test_sets[0].files = ['a', 'b', 'c']"),
        (Data, {"format": "trees", "train": ((),)}, "data.train = []: must be one or more files of trees"),
        (FilterOptions, {"off": ("copi",)}, "There is no rule 'copi'. Did you mean 'copy'?"),
        (FilterOptions, {"max_copied": 0.0}, "filter.max_copied = 0.0: must be greater than 0 and at most 1"),
        (FilterOptions, {"min_similarity": 0.4}, "filter.min_similarity = 0.4: must be from 0.5 to 1"),
    ],
)
def test_values_that_do_not_go_together(section: Any, values: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        section(**values)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("section", "values"),
    [
        (TrainConfig, {"cooldown_steps": 100_000, "int8_tuning_steps": 100_000}),
        (TrainConfig, {"cooldown_steps": 0, "max_flops": 1e9, "max_minutes": 1.0, "early_stopping": 2}),
        (TrainConfig, {"average_last": 5, "keep_checkpoints": 5, "skip_steps": (1, 1_000_000_000)}),
        (DecodeConfig, {"temperature": 0.001, "top_k": 3, "top_p": 0.5}),
        (DecodeConfig, {"max_tokens": 5, "min_tokens": 5}),
        (DecodeConfig, {"max_tokens": 0, "min_tokens": 5}),
        (DecodeConfig, {"beam_size": 6, "diversity_groups": 3, "coverage_penalty": 0.5}),
        (DecodeConfig, {"beam_size": 4, "temperature": 1.0}),
        (Data, {"format": "trees", "rare_words": "signatures", "train": (("a", "b", "c"),)}),
        (Data, {"train": (("a",), ("b",)), "repeat": (1, 1_000_000)}),
        (Data, {"train": (("a",),), "temperature": 1.0}),
        (Data, {"corpora": (CorpusConfig(files=("a",), weight=0), CorpusConfig(files=("b",), weight=1))}),
        (FilterOptions, {"off": tuple(RULES), "max_copied": 1.0, "min_similarity": 0.5}),
    ],
)
def test_values_at_the_edge(section: Any, values: dict[str, Any]) -> None:
    section(**values)


@pytest.mark.parametrize(
    ("temperature", "n_best", "refused"),
    [(0.0, 4, False), (0.0, 5, True), (1.0, 5, False), (0.0, 0, True), (1.0, 0, True)],
)
def test_a_search_returns_no_more_outputs_than_its_beam_has(temperature: float, n_best: int, refused: bool) -> None:
    options = DecodeConfig(beam_size=4, temperature=temperature)
    if refused:
        with pytest.raises(ConfigError, match=f"n-best = {n_best}: must be at least 1 and at most the beam size, 4"):
            options.require_n_best(n_best)
    else:
        options.require_n_best(n_best)


def test_options_that_are_none_keep_the_models_value() -> None:
    options = DecodeConfig(beam_size=7, length_penalty=0.3)
    assert with_decode_options(options, {"beam_size": None, "seed": 5}) == DecodeConfig(
        beam_size=7, length_penalty=0.3, seed=5
    )
    with pytest.raises(ConfigError, match=r"decode\.beam_size = 0"):
        with_decode_options(options, {"beam_size": 0})


# --- languages of sets ------------------------------------------------------------------------------------------------


def test_sets_that_name_no_languages_have_those_of_the_corpora() -> None:
    def data(*pairs: tuple[str, str], **given: Any) -> DataConfig:
        corpora = tuple(
            CorpusConfig(files=(f"{index}.tsv",), source_language=source, target_language=target)
            for index, (source, target) in enumerate(pairs)
        )
        return DataConfig(corpora=corpora, **given)

    own = {"source_language": "en", "target_language": "de"}
    assert data(("fr", "it"), **own).held_out_languages == ("en", "de")
    assert data(("fr", "it")).held_out_languages == ("fr", "it")
    assert data(("fr", "it"), ("fr", "it"), source_language="en").held_out_languages == ("fr", "it")
    assert data(("fr", "it"), ("es", "it")).held_out_languages == ("", "")
    many = data(("en", "de"), ("en", "fr"), ("it", "de"))
    assert (many.tagged_languages, data(("en", "de"), ("it", "de")).tagged_languages) == (("de", "fr"), ())
    assert many.described_languages("?", "?") == "en, it → de, fr"
    assert DataConfig(target_language="de").described_languages("source", "?") == "source → de"
    sets = data(("fr", "it"), validation=("v.tsv",), test={"news": ("n.tsv",)})
    [validation], [test] = sets.validation_corpora, sets.test_corpora
    assert (validation.name, validation.files, validation.target_language) == ("validation", ("v.tsv",), "it")
    assert (test.name, test.files, test.source_language) == ("news", ("n.tsv",), "fr")
    short = DataConfig(train=(("a.en.gz", "a.de.gz"), ("dir/b.tsv",)), repeat=(2, 3), **own).training_corpora
    assert [(each.name, each.weight, each.target_language) for each in short] == [("a", 2.0, "de"), ("b", 3.0, "de")]


# --- numbers and weights ----------------------------------------------------------------------------------------------


def test_ranges_and_how_they_are_said() -> None:
    assert [value in Range(1, 3) for value in (0, 1, 3, 4, float("nan"), float("inf"))] == [False, True, True] + [
        False
    ] * 3
    assert [value in Range(0, 1, above=True) for value in (0, 1)] == [False, True]
    assert [value in Range(0, 1, below=True) for value in (0, 1)] == [True, False]
    assert str(Range(1, 2_000)) == "from 1 to 2,000"
    assert str(Range(0, 0.5, above=True)) == "greater than 0 and at most 0.5"
    assert str(Range(0, 1, below=True)) == "at least 0 and less than 1"
    assert shown("x" * 500).startswith("'xxxx")
    assert len(shown("x" * 500)) <= 200
    assert shown(list(range(20))) == "[0, 1, 2, 3, 4, 5, 6, 7, ...]"
    assert word_or_value(TrainConfig.__annotations__["seed"])[0] == ()
    with pytest.raises(ConfigError, match=r"x\.seed = True: must be a whole number"):
        check_ranges("x", _with(TrainConfig(), seed=True))
    check_ranges("x", TrainConfig(micro_batch_tokens="auto"))
    with pytest.raises(ConfigError, match=r"train\.micro_batch_tokens = -1: must be from 0"):
        TrainConfig(micro_batch_tokens=-1)


# By section: numbers that may be 0, those that must be at least 1, those between 0 and 1.
MAY_BE_0 = {
    ModelConfig: "dropout attention_dropout ffn_dropout attention_window target_vocab_size first_position max_length "
    "position_deviation",
    TrainConfig: "max_minutes max_flops momentum micro_batch_tokens num_workers label_smoothing "
    "guided_attention cooldown_steps int8_tuning_steps adam_beta1 adam_beta2 max_gradient_norm spike_deviations seed "
    "checkpoint_steps "
    "checkpoint_minutes validate_steps early_stopping",
    DecodeConfig: "length_penalty coverage_penalty max_extra_tokens max_tokens min_tokens no_repeat_ngram "
    "diversity_penalty temperature top_k seed",
    DataConfig: "temperature max_ratio ratio_slack_tokens",
    FilterOptions: "min_alignment max_cross_entropy",
    InitConfig: "new_words",
}
AT_LEAST_1 = {
    ModelConfig: "vocab_size num_encoder_layers num_decoder_layers d_model d_ff num_heads d_k d_v max_positions "
    "block_size",
    TrainConfig: "max_steps source_batch_tokens target_batch_tokens warmup_steps max_skipped_steps keep_checkpoints "
    "validate_bleu_sentences validate_beam_size average_last log_steps",
    DecodeConfig: "beam_size diversity_groups batch_size",
    DataConfig: "max_tokens",
    FilterOptions: "max_words",
    TextConfig: "min_frequency sample_pairs",
}
BELOW_1 = "dropout attention_dropout ffn_dropout label_smoothing adam_beta1 adam_beta2 momentum"
UP_TO_1 = "layer_norm_epsilon adam_epsilon top_p max_copied min_alignment min_similarity learning_rate"
ABOVE_0 = "layer_norm_epsilon adam_epsilon top_p max_copied learning_rate learning_rate_factor"


def test_sinusoids_have_no_deviation() -> None:
    with pytest.raises(ConfigError, match=r"model\.position_deviation = 0\.5: must be 0 for sinusoids"):
        ModelConfig(position_deviation=0.5)


def test_which_numbers_may_be_0_or_1() -> None:
    named: dict[type, set[str]] = {}
    for keys, lowest in ((MAY_BE_0, 0), (AT_LEAST_1, 1)):
        for section, names in keys.items():
            named.setdefault(section, set()).update(names.split())
            for key in names.split():
                bounds = ranges_of(section)[key][1]
                assert (lowest in bounds, lowest - 1 in bounds, lowest - 0.001 in bounds) == (True, False, False), key
    every = {key: bounds for section in named for key, (_, bounds) in ranges_of(section).items()}
    for key in BELOW_1.split():
        assert (0.999 in every[key], 1 in every[key]) == (True, False), key
    for key in UP_TO_1.split():
        assert (1 in every[key], 1.001 in every[key]) == (True, False), key
    for key in ABOVE_0.split():
        assert (0 in every[key], 1e-12 in every[key]) == (False, True), key
    others = {key for section, names in named.items() for key in ranges_of(section).keys() - names}
    assert others == {*ABOVE_0.split(), "vocab_size", "max_ratio", "min_similarity"}
    assert [value in every["max_ratio"] for value in (1, 1.001)] == [False, True]  # of the filter
    assert [value in ranges_of(TextConfig)["vocab_size"][1] for value in (259, 260)] == [False, True]


def _with(section: Any, **values: Any) -> Any:
    """Returns a copy with values that its own checks would refuse."""
    made = object.__new__(type(section))
    for key, value in (vars(section) | values).items():
        object.__setattr__(made, key, value)
    return made


@pytest.mark.parametrize(
    ("settings", "keys"),
    [
        (["model.vocab_size=10000000"], "model.vocab_size = 10000000:"),
        (["model.d_ff=900000", "model.d_model=8"], "model.d_ff = 900000:"),
        (
            ["model.num_encoder_layers=1000", "model.num_decoder_layers=1000"],
            "model.num_encoder_layers = 1000, model.num_decoder_layers = 1000:",
        ),
    ],
)
def test_the_keys_that_make_a_model_too_large_are_named(settings: list[str], keys: str) -> None:
    model = apply_settings(Config(), settings).model
    needed = 4 * count_parameters(model)
    require_memory(model, needed)
    with pytest.raises(ConfigError) as caught:
        require_memory(model, needed - 1)
    assert str(caught.value).startswith(keys)
    assert f"would take {needed / 1e9:,.0f} GB" in str(caught.value)


def test_parts_of_a_model() -> None:
    model = apply_settings(Config(), ["model.positions=learned", "model.norm=pre", "model.tie_embeddings=target"]).model
    weights = [*weight_shapes(model)]
    tables = ["source_embedding", "target_embedding"]
    positions = ["source_positions.table", "target_positions.table"]
    assert weights_of_parts(model, ["embeddings"]) == tables
    assert weights_of_parts(model, ["positions", "source_embedding"]) == ["source_embedding", *positions]
    encoder = weights_of_parts(model, ["encoder"])
    assert encoder == [name for name in weights if name.startswith(("encoder.", "encoder_norm."))]
    assert "encoder_norm.weight" in encoder
    layer = weights_of_parts(model, ["decoder.1"])
    assert layer == [name for name in weights if name.startswith("decoder.1.")]
    everything = ["encoder", "decoder", "embeddings", "positions"]
    with pytest.raises(ConfigError, match="leaves nothing to train"):
        weights_of_parts(model, everything)
    assert weights_of_parts(model, everything, new_rows=True) == weights
    for part, said in (
        ("decodr", "unknown part 'decodr'. Did you mean 'decoder'?"),
        ("output_embedding", "'output_embedding' is no weight of its own: with model.tie_embeddings = 'target' it is"),
        ("encoder.6", "unknown part 'encoder.6'."),
    ):
        with pytest.raises(ConfigError) as caught:
            weights_of_parts(model, [part])
        assert said in str(caught.value)
    with pytest.raises(ConfigError, match="'positions' are no weights with"):
        weights_of_parts(Config().model, ["positions"])
