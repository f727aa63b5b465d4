"""The declared capabilities of each engine, known before it is loaded.

The documents show it as a table (docs/guides/engines.md), an engine refuses what it has not declared, and "auto"
chooses by it. A new engine adds its declaration to `ENGINES` here, and how it is loaded to `engines.loading`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from transduce.config import DecodeConfig, ModelConfig
from transduce.config.choices import choices, longest_sequence
from transduce.config.special_ids import EOS
from transduce.decoding.scores import NEVER_GENERATED
from transduce.engines import ctranslate2_limits
from transduce.engines.interface import MAX_SOURCE_TOKENS, TokenConstraints
from transduce.errors import ConfigError
from transduce.reporting.tables import table

_NO = "no"
ENSEMBLES = "ensembles (`--ensemble`)"
WELL_FORMED = "search among well-formed trees only"


# The rows of the table: what an engine may be able to do, and the fields of `DecodeConfig` or `TokenConstraints` that
# need it.
CAPABILITIES: dict[str, tuple[str, ...]] = {
    "needs": (),
    "devices": (),
    "numbers (`--quantization`)": (),
    "models": (),
    ENSEMBLES: (),
    "greedy and beam search": ("beam_size",),
    "end of a search": (),
    "length penalty": ("length_penalty",),
    "longest output, for each line": ("max_extra_tokens", "max_tokens"),
    "longest sequence (sinusoidal positions)": (),
    "least length": ("min_tokens",),
    "no repeated n-grams": ("no_repeat_ngram",),
    "n-best lists with scores": (),
    "scores of given translations": (),
    "language codes as first tokens": ("start",),
    "given first words": ("prefix",),
    "forbidden phrases": ("forbidden",),
    "required phrases": ("required", "joining"),
    WELL_FORMED: ("brackets",),
    "coverage penalty": ("coverage_penalty",),
    "diverse beam search": ("diversity_groups", "diversity_penalty"),
    "sampling": ("temperature", "top_k", "top_p", "seed"),
    "shortlist (`--shortlist on`)": (),
    "alternatives at a word": (),
    "word alignments": (),
    "attention weights": (),
}
# These change nothing by themselves: each belongs to another option, which is checked instead.
_SECONDARY = ("diversity_penalty", "seed", "joining")


@dataclass(frozen=True, slots=True)
class Lack:
    """Something that a call needs and an engine does not have."""

    engine: str
    what: str  # as in the table
    option: str  # the field of `DecodeConfig`, `TokenConstraints` or `ModelConfig` that needs it
    shown: str  # that field, as people write it
    optional: bool = False  # whether the call works without it, for most lines or less well

    @property
    def reason(self) -> str:
        """Why another engine was chosen."""
        return f"{self.engine} has no {self.what}: {self.shown}"

    @property
    def refusal(self) -> str:
        """The message where this engine was named."""
        return f"{self.shown}: the {self.engine} engine has no {self.what}. Use the torch engine (--engine torch)."


@dataclass(frozen=True, slots=True)
class EngineCapabilities:
    """What one engine can do."""

    name: str
    answers: Mapping[str, str]  # how it does each row of the table; "yes" where none is given, "no" where it does not
    quantizations: tuple[str, ...]  # numbers that it can compute with
    shortlist_per_line: bool  # whether each line is searched in a shortlist of its own, not a batch in their union
    attention_windows: bool  # whether it runs models with `model.attention_window`
    attention_scores: tuple[str, ...]  # values of `model.attention_score` that it computes
    # Those of its quantizations that `transduce verify` compares with the reference. Not bfloat16: its coarse rounding
    # depends on the number of rows of a product, so results may depend on the batch.
    verified: tuple[str, ...] = ("float32", "int8")
    max_sinusoids: int | None = None  # longest sequence of a model with sinusoidal positions; None: any

    def answer(self, what: str) -> str:
        """Returns how it does a row of the table."""
        return self.answers.get(what, "yes")

    def has(self, what: str) -> bool:
        """Whether it can do a row of the table."""
        return self.answer(what) != _NO

    def lack(
        self,
        options: DecodeConfig,
        constraints: Sequence[TokenConstraints] = (),
        model: ModelConfig | None = None,
    ) -> Lack | None:
        """Returns the first capability that a search needs and this engine lacks, or None.

        With `model`, outputs that may grow beyond its positions count too, for a source of any length.
        """
        plain = DecodeConfig()
        missing = {option: what for what, needed in CAPABILITIES.items() if not self.has(what) for option in needed}
        for name in (field.name for field in fields(DecodeConfig) if field.name in missing):
            value = getattr(options, name)
            if name not in _SECONDARY and value != getattr(plain, name):
                return Lack(self.name, missing[name], name, f"decode.{name} = {value}")
        for name in (field.name for field in fields(TokenConstraints) if field.name in missing):
            if name not in _SECONDARY and any(getattr(each, name) for each in constraints):
                return Lack(self.name, missing[name], name, f"the constraint '{name}'")
        return self._lack_of_positions(options, model) if model is not None else None

    def _lack_of_positions(self, options: DecodeConfig, model: ModelConfig) -> Lack | None:
        if self.max_sinusoids is None or longest_sequence(model) is not None:  # which bounds every engine alike
            return None
        longest, name = MAX_SOURCE_TOKENS + options.max_extra_tokens, "max_extra_tokens"
        if options.max_tokens and options.max_tokens < longest:
            longest, name = options.max_tokens, "max_tokens"
        if longest < self.max_sinusoids:
            return None
        what = f"outputs of {self.max_sinusoids} tokens or more"
        return Lack(self.name, what, name, f"decode.{name} = {getattr(options, name)}", optional=True)


TORCH = EngineCapabilities(
    name="torch",
    answers={
        "needs": "the extra `[train]`",
        "devices": "CPU, CUDA",
        "numbers (`--quantization`)": "float32, bfloat16; int8 on a CPU",
        "models": "all",
        "end of a search": "when nothing open can beat what has finished, which is proved",
        "length penalty": "GNMT's",
        "longest sequence (sinusoidal positions)": "any",
        "required phrases": "yes, with a beam",
        WELL_FORMED: "yes, without a shortlist",
        "shortlist (`--shortlist on`)": "of each line its own",
    },
    quantizations=("float32", "bfloat16", "int8"),
    shortlist_per_line=True,
    attention_windows=True,
    attention_scores=choices()["attention_score"],
)
CTRANSLATE2 = EngineCapabilities(
    name="ctranslate2",
    answers={
        "needs": "the base install",
        "devices": "CPU, CUDA",
        "numbers (`--quantization`)": "float32, bfloat16, float16, int8, int16, and int8 with each of the first three",
        "models": "all but those with `model.attention_window`, or a `model.attention_score` that is not eq. 1",
        ENSEMBLES: _NO,
        "end of a search": "when 2 K outputs have finished, K being the width of the beam; one finishes where the end "
        "is among the best K continuations, not 2 K",
        "length penalty": "GNMT's, over the outputs that the search returns, up to 2 K",
        "longest output, for each line": "yes: a line that outgrows its own limit in a batch is searched again with "
        "that limit",
        "longest sequence (sinusoidal positions)": f"{ctranslate2_limits.MAX_SINUSOIDS} positions",
        "language codes as first tokens": "yes; an output is empty only where its end is the most probable token",
        "given first words": "yes, in the pieces that they have by themselves",
        "required phrases": "yes, with a beam: outputs are cut before each word, and continued after the phrase",
        WELL_FORMED: _NO,
        "coverage penalty": _NO,
        "diverse beam search": _NO,
        "sampling": _NO,
        "shortlist (`--shortlist on`)": "of each batch the union of its lines': a translation may depend on its "
        "neighbours",
        "attention weights": _NO,
    },
    quantizations=ctranslate2_limits.QUANTIZATIONS,
    shortlist_per_line=False,
    attention_windows=False,
    attention_scores=(ModelConfig().attention_score,),
    max_sinusoids=ctranslate2_limits.MAX_SINUSOIDS,
)
ENGINES = {each.name: each for each in (TORCH, CTRANSLATE2)}
# "auto" on a CPU: the fast engine for all that it can do, and the reference for the rest (`engines.automatic`).
FAST, REFERENCE = CTRANSLATE2, TORCH
ENGINE_NAMES = ("auto", *ENGINES)
QUANTIZATIONS = tuple(dict.fromkeys(name for each in (FAST, *ENGINES.values()) for name in each.quantizations))


def tried_first(name: str) -> EngineCapabilities:
    """Returns the capabilities of the named engine; for "auto", those of the fast engine, which it tries first."""
    return FAST if name == "auto" else ENGINES[name]


def capability_table() -> str:
    """Returns the table as Markdown."""
    rows = [
        [what, ", ".join(f"`{option}`" for option in options), *(each.answer(what) for each in ENGINES.values())]
        for what, options in CAPABILITIES.items()
    ]
    return table(["", "options", *(f"`{name}`" for name in ENGINES)], rows, text_columns=2 + len(ENGINES))


def require_plain_beam(options: DecodeConfig) -> None:
    """Raises ConfigError, naming the option, where a search does not support required phrases."""
    for name, value, wrong, instead in (
        ("temperature", options.temperature, options.temperature > 0, "0: what is drawn cannot be made to hold them"),
        ("diversity_groups", options.diversity_groups, options.diversity_groups > 1, "1: one beam is shared out"),
        ("beam_size", options.beam_size, options.beam_size < 2, "2 or more (4 or more is better)"),
    ):
        if wrong:
            raise ConfigError(f"decode.{name} = {value}: required phrases need {instead}.")


def check(options: DecodeConfig, n_best: int, constraints: Sequence[TokenConstraints] | None, num_sources: int) -> None:
    """Raises ConfigError for invalid options or constraints."""
    options.require_n_best(n_best)
    if constraints is None:
        return
    if any(each.required for each in constraints):
        require_plain_beam(options)
    if len(constraints) != num_sources:
        raise ConfigError(f"{num_sources} sources and constraints for {len(constraints)}: give one for each source.")
    if len({len(each.start) for each in constraints}) > 1:
        raise ConfigError("some sources have a 'start' and others do not, or one of another length: search them apart.")
    special = (*NEVER_GENERATED, EOS)
    for number, each in enumerate(constraints, start=1):
        if not all(entry and all(entry) for entry in each.required):
            raise ConfigError(f"source {number}: a phrase of 'required', or a choice of phrases, is empty.")
        if any(token in special for entry in each.required for phrase in entry for token in phrase):
            raise ConfigError(f"source {number}: a phrase of 'required' holds a special token.")
        if any(token in special for token in each.prefix):
            raise ConfigError(f"source {number}: 'prefix' holds a special token.")
        if not all(each.forbidden):
            raise ConfigError(f"source {number}: a phrase of 'forbidden' is empty.")
