"""The configuration: typed, frozen, validated where it is made.

A `Config` has one section for each part of the system. Keys have the names that are usual in the literature. Defaults
are those of the paper's base model (§3, §5) unless a comment says otherwise. Values come from a preset, then a recipe
file, then `--set section.key=value`: see `transduce.config.loading`.
"""

from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Literal, TypedDict

from transduce.config.corpora import CorpusConfig, PhaseConfig, require_phases, with_names
from transduce.config.ranges import Flag, Range, check_ranges, shown
from transduce.config.start import InitConfig
from transduce.errors import ConfigError


def _refused(section: Any, key: str, demand: str) -> ConfigError:
    """Returns the error for the value of a section's key, such as "model.d_model", which must be what `demand` says."""
    value = getattr(section, key.partition(".")[2])
    return ConfigError(f"{key} = {shown([*value] if isinstance(value, tuple) else value)}: must be {demand}.")


# Numeric types, named after what they count or measure. The bounds catch typing errors: nobody trains with more.
Layers = Annotated[int, Range(1, 1000)]
Width = Annotated[int, Range(1, 1_000_000)]
Heads = Annotated[int, Range(1, 1024)]
Vocabulary = Annotated[int, Range(1, 10_000_000)]
VocabularyOrNone = Annotated[int, Range(0, 10_000_000)]
Pieces = Annotated[int, Range(260, 10_000_000)]
Length = Annotated[int, Range(1, 1_000_000)]
LengthOrNone = Annotated[int, Range(0, 1_000_000)]
Limit = Annotated[int, Range(0, 100_000)]
MinimumTokens = Annotated[int, Range(0, 2_000)]  # each costs a step of the search, whatever the model says
Beam = Annotated[int, Range(1, 1024)]
BatchSize = Annotated[int, Range(1, 65_536)]
Count = Annotated[int, Range(1, 1_000_000_000)]
CountOrNone = Annotated[int, Range(0, 1_000_000_000)]
Seed = Annotated[int, Range(0, 2**62 - 1)]
Rate = Annotated[float, Range(0, 1, below=True)]
Fraction = Annotated[float, Range(0, 1, above=True)]
Exponent = Annotated[float, Range(0, 10)]
Weight = Annotated[float, Range(0, 1000)]
Factor = Annotated[float, Range(0, 1_000_000, above=True)]
Ratio = Annotated[float, Range(0, 1_000_000)]
Minutes = Annotated[float, Range(0, 10_000_000)]
Norm = Annotated[float, Range(0, 1_000_000_000)]
Temperature = Annotated[float, Range(0, 1000)]

_REPEATS = Range(1, 1_000_000)  # of `data.repeat`
_STEPS = Range(1, 1_000_000_000)  # in `train.skip_steps`
_LEAST_TEMPERATURE = 0.001


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The shape of an encoder-decoder Transformer (§3; the columns of Table 3)."""

    vocab_size: Vocabulary = 37000  # rows of the embedding table; training sets it to the tokeniser's size
    num_encoder_layers: Layers = 6  # layers of the encoder: N (§3.1)
    num_decoder_layers: Layers = 6  # layers of the decoder
    d_model: Width = 512  # width of embeddings and of sub-layer outputs
    d_ff: Width = 2048  # inner width of the feed-forward networks (§3.3)
    num_heads: Heads = 8  # h, the heads of each attention (§3.2.2)
    d_k: Width = 64  # width of a head's queries and keys; independent of d_model: Table 3 (B)
    d_v: Width = 64  # width of a head's values
    dropout: Rate = 0.1  # on each sub-layer's output and on embedding + position (§5.4)
    attention_dropout: Rate = 0.0  # on attention weights; the parser's only (§6.3)
    ffn_dropout: Rate = 0.0  # between the two layers of the FFN; not in the paper
    attention_window: LengthOrNone = 0  # r: self-attention sees r // 2 positions to each side (§4, Table 1); 0 disables
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"  # §3.5, Table 3 (E)
    sinusoid_layout: Literal["interleaved", "concatenated"] = "interleaved"  # alternating, or sines first
    max_positions: Length = 1024  # rows of a learned position table; sinusoids have no limit
    tie_embeddings: Literal["all", "target", "none"] = "all"  # all: source, target and output (§3.4)
    norm: Literal["post", "pre"] = "post"  # after each sub-layer (§3.1), or before it, and after each stack
    layer_norm_epsilon: Fraction = 1e-6  # added to the variance
    attention_bias: bool = False  # biases on the projections W_Q, W_K, W_V, W_O
    target_space_embedding: bool = False  # t2t: a learned vector (of a 32-row table) added to the encoder input
    decoder_start: Literal["bos", "zero"] = "bos"  # t2t starts from a zero vector

    def __post_init__(self) -> None:
        check_ranges("model", self)
        if self.positions == "sinusoidal" and self.d_model % 2 != 0:
            raise _refused(self, "model.d_model", "even for sinusoidal positions, which pair each sine with a cosine")


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """The subword tokeniser, learned from the training text of both sides together (§5.1)."""

    algorithm: Literal["bpe", "wordpiece"] = "bpe"  # BPE is the paper's en-de, word pieces its en-fr
    vocab_size: Pieces = 37000  # pieces to learn, the 4 special tokens and 256 bytes included
    min_frequency: Count = 2  # a pair of pieces must occur this often to be merged
    sample_pairs: Count = 2_000_000  # sentence pairs that the tokeniser learns from, evenly spread

    def __post_init__(self) -> None:
        check_ranges("text", self)


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the parallel text is, and which pairs are kept.

    A pair of files is `["a.en", "a.de"]`; one file with tab-separated columns is `["a.tsv"]`. Names may end in
    `.gz` or `.zst`. Relative names start at `folder`.

    `train` and `repeat` are the short form of `corpora`. Whoever reads the corpora asks for `training_corpora`.

    With the format "trees" the names are treebanks: files of bracketed trees, folders of them, and patterns such as
    "wsj/0[2-9]". Each tree becomes a pair, its words and its brackets, and the model becomes a parser (§6.3).

    DEVIATION: the paper drops no pairs. `max_tokens` is the released code's limit; the other limits are ours.
    """

    format: Literal["text", "trees"] = "text"  # pairs of lines, or treebanks (§6.3)
    source_language: str = ""  # BCP 47 code, for model cards, sentence splitting and the paper's BLEU
    target_language: str = ""  # BCP 47 code
    folder: str = ""  # where relative names start; in a recipe: relative to the recipe file
    download: str = ""  # a named corpus (`transduce.data.named_corpora`), fetched into `folder` if it is not there
    train: tuple[tuple[str, ...], ...] = ()  # pairs of files, or TSV files
    repeat: tuple[int, ...] = ()  # how often an epoch repeats each entry of `train`; empty: once
    corpora: tuple[CorpusConfig, ...] = ()  # instead of `train`: files, name, weight and languages of each corpus
    temperature: Temperature = 0.0  # T ≥ 1: a corpus of n pairs has the share n^(1/T) of an epoch; 0: by `weight`
    validation: tuple[str, ...] = ()  # a pair of files, or a TSV file
    test: dict[str, tuple[str, ...]] = field(default_factory=dict)  # named test sets, never trained on
    # Treebanks only: rare words are cut into pieces, or replaced by one token for their shape (a signature).
    rare_words: Literal["pieces", "signatures"] = "pieces"
    max_tokens: Length = 256  # longest side of a training pair, in subwords
    max_ratio: Ratio = 4.0  # greatest length ratio of the two sides, in subwords; 0: no limit
    ratio_slack_tokens: LengthOrNone = 8  # the ratio counts where the lengths differ by more than this
    drop_leaked: bool = True  # drop pairs with a side in validation or test, but for short lines (data/doctor.py)
    drop_wrong_language: bool = False  # drop pairs with a side in the other side's language (data/wrong_language.py)
    drop_duplicates: bool = False  # drop pairs that repeat an earlier one
    allow_misaligned: bool = False  # accept a corpus whose sides do not match line by line (data/doctor.py)

    def __post_init__(self) -> None:
        check_ranges("data", self)
        if self.rare_words != "pieces" and self.format != "trees":
            demand = "'pieces' where data.format is not 'trees': a translator needs the words themselves"
            raise _refused(self, "data.rare_words", demand)
        named = [("train", names) for names in self.train] + [("corpora", corpus.files) for corpus in self.corpora]
        given = [corpus.name for corpus in self.corpora if corpus.name]
        if twice := next((name for name in given if given.count(name) > 1), ""):
            raise ConfigError(f"data.corpora: two corpora have the name '{twice}'. Give each a name of its own.")
        named += [("validation", self.validation)] if self.validation else []
        named += [(f"test.{name}", names) for name, names in self.test.items()]
        demand = "one or more files of trees" if self.format == "trees" else "a pair of files or one TSV file"
        for key, names in named:
            if not names or (self.format == "text" and len(names) > 2):
                raise ConfigError(f"data.{key} = {shown([*names])}: must be {demand}.")
        fits = len(self.repeat) == len(self.train) and all(number in _REPEATS for number in self.repeat)
        if self.repeat and not fits:
            demand = f"a number {_REPEATS} for each of the {len(self.train)} entries of data.train, or empty"
            raise _refused(self, "data.repeat", demand)
        if self.train and self.corpora:
            raise _refused(self, "data.train", "left out where there are [[data.corpora]]: it is their short form")
        self._check_weights()

    def _check_weights(self) -> None:
        weights = [corpus.weight for corpus in self.corpora]
        if weights and not any(weights):
            raise ConfigError("data.corpora: weight = 0 for all corpora: nothing would be left to train on.")
        if self.temperature:
            if self.temperature < 1:
                raise _refused(self, "data.temperature", "0, or at least 1")
            if self.repeat or any(weight != 1 for weight in weights):
                raise _refused(self, "data.temperature", "0 where corpora have weights: it gives them all")

    @property
    def training_corpora(self) -> tuple[CorpusConfig, ...]:
        """The corpora to train on, each with a name, a weight and languages, whichever form the recipe has."""
        repeats = self.repeat or (1,) * len(self.train)
        short = [CorpusConfig(files=files, weight=float(n)) for files, n in zip(self.train, repeats, strict=True)]
        return tuple(
            replace(
                corpus,
                source_language=corpus.source_language or self.source_language,
                target_language=corpus.target_language or self.target_language,
            )
            for corpus in with_names(self.corpora or short)
        )


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Training (§5)."""

    max_steps: Count = 100_000  # updates
    max_minutes: Minutes = 0.0  # of training, all resumed parts together; 0: no limit
    source_batch_tokens: Count = 25_000  # source tokens of a batch, padding included, over all devices
    target_batch_tokens: Count = 25_000  # target tokens of a batch; it stays within both limits
    micro_batch_tokens: CountOrNone = 0  # target tokens of one pass on a device; 0: its whole share of the batch
    label_smoothing: Rate = 0.1  # ε_ls (§5.4)
    # Parsers only: weight of a loss that makes a head of each inner decoder layer attend to the current word.
    guided_attention: Weight = 0.0
    smoothing: Literal["uniform", "others"] = "uniform"  # ε spread over V (Szegedy et al.) or over V - 1 (t2t)
    phases: tuple[PhaseConfig, ...] = ()  # from which step on other weights of the corpora hold
    learning_rate_factor: Factor = 1.0  # multiplies eq. 3
    warmup_steps: Count = 4000  # warmup of eq. 3
    cooldown_steps: CountOrNone = 0  # the learning rate falls to 0 over the last steps; 0 disables (the paper)
    adam_beta1: Rate = 0.9  # β₁ of Adam (§5.3)
    adam_beta2: Rate = 0.98  # β₂ of Adam
    adam_epsilon: Fraction = 1e-9  # ε of Adam
    max_gradient_norm: Norm = 0.0  # clip gradients to this norm; 0 disables (the paper)
    skip_steps: tuple[int, ...] = ()  # steps whose update is left out, such as those in a run's quarantine.jsonl
    max_skipped_steps: Count = 20  # training ends after this many updates in a row whose loss or gradient is not finite
    # A loss a token this many deviations above the median of the last 100 steps is reported as a spike; 0 disables.
    spike_deviations: Weight = 8.0
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # auto: bf16 where the device computes in it
    compile: bool = False  # use torch.compile; on a CPU it takes minutes and gains nothing
    device: str = "auto"  # auto: a GPU if there is one; or cpu, cuda, cuda:1, …
    seed: Seed = 1  # seed of initialisation, order and dropout
    checkpoint_steps: CountOrNone = 0  # steps between checkpoints; 0 disables
    checkpoint_minutes: Minutes = 10.0  # minutes between checkpoints (§6.1); 0 disables
    keep_checkpoints: Count = 5  # how many of the last checkpoints stay
    validate_steps: CountOrNone = 1000  # steps between validations; 0: only at the end
    validate_bleu: bool = True  # decode the validation set for BLEU (a parser: for F1)
    validate_bleu_sentences: Count = 500  # sentences decoded at most
    validate_beam_size: Beam = 1  # beam width of that decoding; 1: greedy
    early_stopping: CountOrNone = 0  # stop after this many validations without a better score; 0 disables
    best_by: Literal["score", "perplexity"] = "score"  # what decides which is best; score: BLEU, or a parser's F1
    average_last: Count = 5  # checkpoints averaged into the final model; 1: no averaging (Table 3)
    log_steps: Count = 50  # steps between lines of metrics.jsonl

    def __post_init__(self) -> None:
        check_ranges("train", self)
        if self.early_stopping > 0 and self.validate_steps == 0:
            raise _refused(self, "train.early_stopping", "0 where train.validate_steps is 0: it counts validations")
        if self.cooldown_steps > self.max_steps:
            demand = f"at most train.max_steps ({self.max_steps}): they are the last of these steps"
            raise _refused(self, "train.cooldown_steps", demand)
        if self.cooldown_steps > 0 and (self.max_minutes > 0 or self.early_stopping > 0):
            demand = "0 with train.max_minutes or train.early_stopping: the rate falls towards train.max_steps"
            raise _refused(self, "train.cooldown_steps", demand)
        if self.average_last > self.keep_checkpoints:
            demand = f"at most train.keep_checkpoints ({self.keep_checkpoints}): only kept checkpoints can be averaged"
            raise _refused(self, "train.average_last", demand)
        if not all(step in _STEPS for step in self.skip_steps):
            raise _refused(self, "train.skip_steps", f"numbers of steps, {_STEPS}")


@dataclass(frozen=True, kw_only=True)
class DecodeConfig:
    """How outputs are found: by beam search (§6.1), greedy search or sampling; see docs/guides/decoding.md.

    Each key is an option of the command line too: `Flag` has the group it stands in, its placeholder and its help.
    """

    beam_size: Annotated[Beam, Flag("search", "N", "beam width; 1 is greedy search")] = 4
    length_penalty: Annotated[Exponent, Flag("search", "A", "GNMT's alpha, in ((5 + length) / 6)^alpha")] = 0.6
    coverage_penalty: Annotated[Weight, Flag("search", "B", "GNMT's beta: cover the whole source; 0 disables")] = 0.0
    max_extra_tokens: Annotated[Limit, Flag("search", "N", "longest output: N tokens more than the source")] = 50
    max_tokens: Annotated[Limit, Flag("limits", "N", "longest output, whatever the source length; 0: no limit")] = 0
    min_tokens: Annotated[MinimumTokens, Flag("limits", "N", "shortest output, in tokens")] = 0
    no_repeat_ngram: Annotated[Limit, Flag("limits", "N", "no N-gram occurs twice in an output; 0 disables")] = 0
    diversity_groups: Annotated[Beam, Flag("diversity", "G", "groups of the beam that avoid each other's tokens")] = 1
    diversity_penalty: Annotated[Weight, Flag("diversity", "L", "how strongly they do (Vijayakumar et al. 2016)")] = 0.5
    temperature: Annotated[Weight, Flag("sampling", "T", "1 samples from the model's distribution; 0 searches")] = 0.0
    top_k: Annotated[VocabularyOrNone, Flag("sampling", "K", "sample from the K most probable tokens; 0: from all")] = 0
    top_p: Annotated[Fraction, Flag("sampling", "P", "sample from the fewest tokens that have probability P")] = 1.0
    seed: Annotated[Seed, Flag("sampling", "N", "seed of the random numbers")] = 1
    batch_size: Annotated[BatchSize, Flag("machine", "N", "lines decoded together; changes speed only")] = 32

    def __post_init__(self) -> None:
        check_ranges("decode", self)
        if 0 < self.temperature < _LEAST_TEMPERATURE:
            demand = f"0, or at least {_LEAST_TEMPERATURE}: below that, sampling finds the most probable token only"
            raise _refused(self, "decode.temperature", demand)
        if 0 < self.max_tokens < self.min_tokens:
            raise _refused(self, "decode.min_tokens", f"at most decode.max_tokens ({self.max_tokens})")
        if self.temperature > 0:
            of_others = {"coverage_penalty": 0, "diversity_groups": 1}
            reason = "above 0: sampling does not search"
        else:
            of_others = {"top_k": 0, "top_p": 1}
            reason = "0: it is for sampling (temperature=1 samples)"
        for key, disabled in of_others.items():
            if getattr(self, key) != disabled:
                raise _refused(self, f"decode.{key}", f"{disabled} where decode.temperature is {reason}")
        if self.temperature == 0 and self.beam_size % self.diversity_groups != 0:
            demand = f"a divisor of decode.beam_size ({self.beam_size}): all groups have the same width"
            raise _refused(self, "decode.diversity_groups", demand)
        if self.coverage_penalty > 0 and self.beam_size == 1:
            demand = "0 where decode.beam_size is 1: it ranks the outputs of a beam"
            raise _refused(self, "decode.coverage_penalty", demand)

    def require_n_best(self, n_best: int) -> None:
        """Raises ConfigError where a search does not return `n_best` outputs."""
        if n_best < 1 or (self.temperature == 0 and n_best > self.beam_size):
            raise ConfigError(f"n-best = {n_best}: must be at least 1 and at most the beam size, {self.beam_size}.")


class DecodeOptions(TypedDict, total=False):
    """The keys of `DecodeConfig` that a call may name besides those in its own signature; None keeps the model's value.

    A type checker cannot derive this from `DecodeConfig`: tests/unit/test_config.py compares the two.
    """

    coverage_penalty: float | None
    max_tokens: int | None
    min_tokens: int | None
    no_repeat_ngram: int | None
    diversity_groups: int | None
    diversity_penalty: float | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    seed: int | None


@dataclass(frozen=True, kw_only=True)
class Config:
    """The whole configuration of a run: written to the run folder, and read back from there."""

    name: str = "transducer"
    model: ModelConfig = field(default_factory=ModelConfig)
    text: TextConfig = field(default_factory=TextConfig)
    data: DataConfig = field(default_factory=DataConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    init: InitConfig = field(default_factory=InitConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)

    def __post_init__(self) -> None:
        if self.train.phases:
            require_phases(self.train.phases, self.data.training_corpora)


TABLES = {"data.corpora": CorpusConfig, "train.phases": PhaseConfig}  # keys that are arrays of tables
SECTIONS = {f.name: f.default_factory for f in fields(Config) if f.name != "name"}
