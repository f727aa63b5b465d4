"""The configuration: typed, frozen, validated where it is made.

A `Config` has one section for each part of the system. Keys have the names that are usual in the literature. Defaults
are those of the paper's base model (§3, §5) unless a comment says otherwise. Values come from a preset, then a recipe
file, then `--set section.key=value`: see `transduce.config.loading`.
"""

from dataclasses import dataclass, field, fields
from typing import Annotated, Literal, TypedDict

from transduce.config.corpora import PhaseConfig, require_phases
from transduce.config.data import DataConfig
from transduce.config.modifiers import ModifierConfig, require_modifiers
from transduce.config.quantities import (
    BatchSize,
    Beam,
    Block,
    Count,
    CountOrNone,
    Exponent,
    Factor,
    Fraction,
    Heads,
    Layers,
    Length,
    LengthOrNone,
    Limit,
    MinimumTokens,
    Minutes,
    Norm,
    Operations,
    Pieces,
    Processes,
    Rate,
    Ratio,
    Seed,
    Vocabulary,
    VocabularyOrNone,
    Weight,
    Width,
    refused,
)
from transduce.config.ranges import Flag, Range, check_ranges, shown
from transduce.config.start import InitConfig
from transduce.errors import ConfigError

_STEPS = Range(1, 1_000_000_000)  # in `train.skip_steps`
_LEAST_TEMPERATURE = 0.001


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The shape of an encoder-decoder Transformer (§3; the columns of Table 3)."""

    vocab_size: Vocabulary = 37000  # rows of the embedding table; training sets it to the tokeniser's size
    target_vocab_size: VocabularyOrNone = 0  # rows of the target's own tables; 0: both sides share one vocabulary
    num_encoder_layers: Layers = 6  # layers of the encoder: N (§3.1)
    num_decoder_layers: Layers = 6  # layers of the decoder
    d_model: Width = 512  # width of embeddings and of sub-layer outputs
    d_ff: Width = 2048  # inner width of the feed-forward networks (§3.3)
    # Between their layers: eq. 2 has relu; "gelu_tanh" and "gelu_sigmoid" approximate gelu (Hendrycks & Gimpel 2016).
    activation: Literal["relu", "swish", "gelu", "gelu_tanh", "gelu_sigmoid"] = "relu"
    num_heads: Heads = 8  # h, the heads of each attention (§3.2.2)
    d_k: Width = 64  # width of a head's queries and keys; independent of d_model: Table 3 (B)
    d_v: Width = 64  # width of a head's values
    dropout: Rate = 0.1  # on each sub-layer's output and on embedding + position (§5.4)
    attention_dropout: Rate = 0.0  # on attention weights; the parser's only (§6.3)
    ffn_dropout: Rate = 0.0  # between the two layers of the FFN; not in the paper
    # A query and a key are scored by q · k / √d_k (eq. 1), by q · k, or by w · tanh(q + k) (Bahdanau et al. 2014).
    attention_score: Literal["scaled_dot", "dot", "additive"] = "scaled_dot"
    attention_window: LengthOrNone = 0  # r: self-attention sees r // 2 positions to each side (§4, Table 1); 0 disables
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"  # §3.5, Table 3 (E)
    sinusoid_layout: Literal["interleaved", "concatenated"] = "interleaved"  # alternating, or sines first
    first_position: LengthOrNone = 0  # the sinusoid of a sequence's first token: 0 in the paper, 2 in fairseq
    max_positions: Length = 1024  # rows of a learned position table; sinusoids have no limit
    position_deviation: Ratio = 0.0  # standard deviation of learned positions at the start; 0: 1/√d_model
    max_length: LengthOrNone = 0  # longest sequence with sinusoids, EOS counted, where they have a limit; 0: none
    tie_embeddings: Literal["all", "target", "none"] = "all"  # all: source, target and output (§3.4)
    norm: Literal["post", "pre"] = "post"  # after each sub-layer (§3.1), or before it, and after each stack
    layer_norm_epsilon: Fraction = 1e-6  # added to the variance
    attention_bias: bool = False  # biases on the projections W_Q, W_K, W_V, W_O
    output_bias: bool = False  # a bias on the logits; the paper has none (§3.4)
    target_space_embedding: bool = False  # t2t: a learned vector (of a 32-row table) added to the encoder input
    decoder_start: Literal["bos", "zero"] = "bos"  # t2t starts from a zero vector
    source_end: Literal["eos", "none"] = "eos"  # "none": EOS after a source is not read, as in models of OpenNMT
    block_size: Block = 1  # k: further heads predict tokens 2 … k to come (Stern et al. 2018); 1: none

    def __post_init__(self) -> None:
        check_ranges("model", self)
        if self.positions == "sinusoidal" and self.d_model % 2 != 0:
            raise refused(self, "model.d_model", "even for sinusoidal positions, which pair each sine with a cosine")
        if self.positions == "learned" and self.first_position:
            raise refused(self, "model.first_position", "0 for learned positions: the table begins with the first one")
        if self.positions != "learned" and self.position_deviation:
            raise refused(self, "model.position_deviation", "0 for sinusoids, which are not drawn")
        if self.tie_embeddings == "all" and self.target_vocab_size:
            raise refused(
                self, "model.target_vocab_size", "0 where model.tie_embeddings = 'all': both sides share a table"
            )

        if self.attention_score == "additive" and self.attention_window:
            demand = "0 where model.attention_score = 'additive': such scores have no form for a window"
            raise refused(self, "model.attention_window", demand)

    @property
    def output_vocab_size(self) -> int:
        """The number of logits: rows of the target's tables."""
        return self.target_vocab_size or self.vocab_size


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """The subword tokeniser, learned from the training text of both sides together (§5.1)."""

    # BPE is the paper's en-de, word pieces its en-fr; "sentencepiece" is that of an imported model, and is not learned.
    algorithm: Literal["bpe", "wordpiece", "sentencepiece"] = "bpe"
    vocab_size: Pieces = 37000  # pieces to learn, the 4 special tokens and 256 bytes included
    min_frequency: Count = 2  # a pair of pieces must occur this often to be merged
    sample_pairs: Count = 2_000_000  # sentence pairs that the tokeniser learns from, evenly spread

    def __post_init__(self) -> None:
        check_ranges("text", self)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Training (§5)."""

    max_steps: Count = 100_000  # updates
    max_minutes: Minutes = 0.0  # of training, all resumed parts together; 0: no limit
    max_flops: Operations = 0.0  # of matrix products, counted, all resumed parts together; 0: no limit
    source_batch_tokens: Count = 25_000  # source tokens of a batch, padding included, over all devices
    target_batch_tokens: Count = 25_000  # target tokens of a batch; it stays within both limits
    # Target tokens of one pass on a device. "auto": as many as fit into its memory; 0: its whole share of the batch.
    micro_batch_tokens: Literal["auto"] | CountOrNone = "auto"
    # Keep only the input of each layer, and compute the layer again for its gradient: less memory, the same gradients.
    activation_checkpointing: Literal["auto"] | bool = "auto"  # auto: on where memory is short
    label_smoothing: Rate = 0.1  # ε_ls (§5.4)
    # Weight of a loss that makes a decoder head attend to the word that is translated; a parser's, to the current word.
    guided_attention: Weight = 0.0
    smoothing: Literal["uniform", "others"] = "uniform"  # ε spread over V (Szegedy et al.) or over V - 1 (t2t)
    phases: tuple[PhaseConfig, ...] = ()  # from which step on other weights of the corpora hold
    modifiers: tuple[ModifierConfig, ...] = ()  # how training pairs are changed as batches are made
    # Processes that make modified pairs ahead of training. "auto": up to 4 on a GPU, by its share of the cores; else 0.
    num_workers: Literal["auto"] | Processes = "auto"
    learning_rate: Ratio = 0.0  # after a warm-up, the rate of all updates, in place of eq. 3; 0: eq. 3
    learning_rate_factor: Factor = 1.0  # multiplies eq. 3, or the rate in its place
    warmup_steps: Count = 4000  # warmup of eq. 3
    cooldown_steps: CountOrNone = 0  # the learning rate falls to 0 over the last steps; 0 disables (the paper)
    # How many of the last steps compute with weights rounded as int8 inference rounds them; 0 disables (the paper).
    int8_tuning_steps: CountOrNone = 0
    optimizer: Literal["adam", "nesterov"] = "adam"  # Adam (§5.3), or gradient descent with Nesterov's momentum
    momentum: Rate = 0.99  # of Nesterov's momentum
    adam_beta1: Rate = 0.9  # β₁ of Adam (§5.3)
    adam_beta2: Rate = 0.98  # β₂ of Adam
    adam_epsilon: Fraction = 1e-9  # ε of Adam
    max_gradient_norm: Norm = 0.0  # clip gradients to this norm; 0 disables (the paper)
    skip_steps: tuple[int, ...] = ()  # steps whose update is left out, such as those in a run's quarantine.jsonl
    max_skipped_steps: Count = 20  # training ends after this many updates in a row whose loss or gradient is not finite
    # A loss per token this many deviations above the median of the last 100 steps is reported as a spike; 0 disables.
    spike_deviations: Weight = 8.0
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # auto: bf16 where the device computes in it
    compile: bool = False  # use torch.compile; on a CPU it takes minutes and gains nothing
    # Round the sizes of batches up to few, for a GPU's allocator and kernels: the same updates, a little more padding.
    rounded_shapes: bool = False
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
            raise refused(self, "train.early_stopping", "0 where train.validate_steps is 0: it counts validations")
        for key in ("cooldown_steps", "int8_tuning_steps"):
            if (steps := getattr(self, key)) > self.max_steps:
                demand = f"at most train.max_steps ({self.max_steps}): they are the last of these steps"
                raise refused(self, f"train.{key}", demand)
            if steps > 0 and (self.max_minutes > 0 or self.max_flops > 0 or self.early_stopping > 0):
                others = "train.max_minutes, train.max_flops or train.early_stopping"
                demand = f"0 with {others}: they are the last before train.max_steps"
                raise refused(self, f"train.{key}", demand)
        if self.average_last > self.keep_checkpoints:
            demand = f"at most train.keep_checkpoints ({self.keep_checkpoints}): only kept checkpoints can be averaged"
            raise refused(self, "train.average_last", demand)
        require_modifiers(self.modifiers)
        if not all(step in _STEPS for step in self.skip_steps):
            raise refused(self, "train.skip_steps", f"numbers of steps, {_STEPS}")


@dataclass(frozen=True, kw_only=True)
class DecodeConfig:
    """How outputs are found: by beam search (§6.1), greedy search or sampling; see docs/guides/decoding.md.

    Each key is an option of the command line too: `Flag` has its group, its placeholder and its help.
    """

    beam_size: Annotated[Beam, Flag("search", "N", "beam width; 1 is greedy search")] = 4
    length_penalty: Annotated[Exponent, Flag("search", "A", "GNMT's alpha, in ((5 + length) / 6)^alpha")] = 0.6
    coverage_penalty: Annotated[Weight, Flag("search", "B", "GNMT's beta: cover the whole source; 0 disables")] = 0.0
    max_extra_tokens: Annotated[Limit, Flag("search", "N", "longest output: N tokens more than the source")] = 50
    max_tokens: Annotated[Limit, Flag("limits", "N", "longest output, regardless of the source; 0: no limit")] = 0
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
            raise refused(self, "decode.temperature", demand)
        if 0 < self.max_tokens < self.min_tokens:
            raise refused(self, "decode.min_tokens", f"at most decode.max_tokens ({self.max_tokens})")
        if self.temperature > 0:
            of_others = {"coverage_penalty": 0, "diversity_groups": 1}
            reason = "above 0: sampling does not search"
        else:
            of_others = {"top_k": 0, "top_p": 1}
            reason = "0: it is for sampling (temperature=1 samples)"
        for key, disabled in of_others.items():
            if getattr(self, key) != disabled:
                raise refused(self, f"decode.{key}", f"{disabled} where decode.temperature is {reason}")
        if self.temperature == 0 and self.beam_size % self.diversity_groups != 0:
            demand = f"a divisor of decode.beam_size ({self.beam_size}): all groups have the same width"
            raise refused(self, "decode.diversity_groups", demand)
        if self.coverage_penalty > 0 and self.beam_size == 1:
            demand = "0 where decode.beam_size is 1: it ranks the outputs of a beam"
            raise refused(self, "decode.coverage_penalty", demand)

    def require_n_best(self, n_best: int) -> None:
        """Raises ConfigError where a search does not return `n_best` outputs."""
        if isinstance(n_best, bool) or not isinstance(n_best, int):
            raise ConfigError(f"n-best = {shown(n_best)}: must be a whole number.")
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
        if self.init.model and self.train.learning_rate:
            raise ConfigError("train.learning_rate: must be 0 with init.model, whose rate is init.learning_rate.")
        if self.train.phases:
            require_phases(self.train.phases, self.data.training_corpora)
        if self.train.modifiers and self.data.format == "trees":
            raise ConfigError("train.modifiers: must be left out where data.format is 'trees': they change text.")


SECTIONS = {f.name: f.default_factory for f in fields(Config) if f.name != "name"}
