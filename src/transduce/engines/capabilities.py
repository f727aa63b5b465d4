"""What each engine can do: one table, for the documents (docs/guides/engines.md) and for what an engine refuses."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from transduce.config import DecodeConfig, ModelConfig
from transduce.config.choices import learns_positions
from transduce.engines.ctranslate2_limits import MAX_SINUSOIDS
from transduce.engines.interface import MAX_SOURCE_TOKENS, TokenConstraints
from transduce.errors import ConfigError
from transduce.reporting.tables import table

_NO = "no"


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing to ask of an engine, and how each does it; "no" where it refuses."""

    what: str
    torch: str
    ctranslate2: str
    options: tuple[str, ...] = ()  # fields of `DecodeConfig` or `TokenConstraints` that ask for it


CAPABILITIES = (
    Capability("needs", "the extra `[train]`", "the base install"),
    Capability("devices", "CPU, CUDA", "CPU, CUDA"),
    Capability(
        "numbers (`--quantization`)",
        "float32, bfloat16; int8 on a CPU",
        "float32, bfloat16, float16, int8, int16, and int8 with each of the first three",
    ),
    Capability("models", "all", "all but those with `model.attention_window`"),
    Capability("ensembles (`--ensemble`)", "yes", _NO),
    Capability("greedy and beam search", "yes", "yes", ("beam_size",)),
    Capability(
        "end of a search",
        "when nothing open can beat what has finished, which is proved",
        "when 2 K outputs have finished, K being the width of the beam; one finishes where the end is among the best K "
        "continuations, not 2 K",
    ),
    Capability(
        "length penalty",
        "GNMT's",
        "GNMT's, over the outputs that the search returns, up to 2 K",
        ("length_penalty",),
    ),
    Capability(
        "longest output, for each line",
        "yes",
        "yes: a line that outgrows its own limit in a batch is searched again with that limit",
        ("max_extra_tokens", "max_tokens"),
    ),
    Capability("longest sequence (sinusoidal positions)", "any", "4096 positions"),
    Capability("least length", "yes", "yes", ("min_tokens",)),
    Capability("no repeated n-grams", "yes", "yes", ("no_repeat_ngram",)),
    Capability("n-best lists with scores", "yes", "yes"),
    Capability("scores of given translations", "yes", "yes"),
    Capability("given first words", "yes", "yes, in the pieces that they have by themselves", ("prefix",)),
    Capability("forbidden phrases", "yes", "yes", ("forbidden",)),
    Capability("required phrases", "yes, with a beam", _NO, ("required", "joining")),
    Capability("coverage penalty", "yes", _NO, ("coverage_penalty",)),
    Capability("diverse beam search", "yes", _NO, ("diversity_groups", "diversity_penalty")),
    Capability("sampling", "yes", _NO, ("temperature", "top_k", "top_p", "seed")),
    Capability(
        "shortlist (`--shortlist on`)",
        "of each line its own",
        "of each batch the union of its lines': a translation may depend on its neighbours",
    ),
    Capability("attention weights", "yes", _NO),
)

_LACKING = {option: row.what for row in CAPABILITIES if row.ctranslate2 == _NO for option in row.options}
# These change nothing by themselves: each says more of another option, which is looked for instead.
_SECONDARY = ("diversity_penalty", "seed", "joining")


@dataclass(frozen=True, slots=True)
class Lack:
    """Something that a call needs and the ctranslate2 engine does not have."""

    what: str  # as in the table
    option: str  # the field of `DecodeConfig`, `TokenConstraints` or `ModelConfig` that needs it
    shown: str  # that field, as people write it
    of_long_lines: bool = False  # whether only outputs of long lines need it

    @property
    def reason(self) -> str:
        """Why another engine was chosen."""
        return f"ctranslate2 has no {self.what}: {self.shown}"


def capability_table() -> str:
    """Returns the table as Markdown."""
    rows = [[row.what, _with_options(row), row.torch, row.ctranslate2] for row in CAPABILITIES]
    return table(["", "options", "`torch`", "`ctranslate2`"], rows, text_columns=4)


def _with_options(row: Capability) -> str:
    return ", ".join(f"`{option}`" for option in row.options)


def lack_of_ctranslate2(
    options: DecodeConfig, constraints: Sequence[TokenConstraints] = (), model: ModelConfig | None = None
) -> Lack | None:
    """Returns what a search needs that the ctranslate2 engine does not have, or None.

    With `model`, outputs that may grow beyond its positions count too, whatever the length of the source.
    """
    plain = DecodeConfig()
    for name in (field.name for field in fields(DecodeConfig)):
        value = getattr(options, name)
        if name in _LACKING and name not in _SECONDARY and value != getattr(plain, name):
            return Lack(_LACKING[name], name, f"decode.{name} = {value}")
    for name in (field.name for field in fields(TokenConstraints)):
        if name in _LACKING and name not in _SECONDARY and any(getattr(condition, name) for condition in constraints):
            return Lack(_LACKING[name], name, f"'{name}' phrases")
    return _lack_of_positions(options, model) if model is not None else None


def _lack_of_positions(options: DecodeConfig, model: ModelConfig) -> Lack | None:
    if learns_positions(model):  # their table bounds every engine alike
        return None
    longest = MAX_SOURCE_TOKENS + options.max_extra_tokens
    name = "max_extra_tokens"
    if options.max_tokens and options.max_tokens < longest:
        longest, name = options.max_tokens, "max_tokens"
    if longest < MAX_SINUSOIDS:
        return None
    return Lack(f"outputs of {MAX_SINUSOIDS} tokens or more", name, f"decode.{name} = {getattr(options, name)}", True)


def require_ctranslate2_can(options: DecodeConfig, constraints: Sequence[TokenConstraints]) -> None:
    """Raises ConfigError, naming the option, where a call needs what the ctranslate2 engine does not have."""
    lack = lack_of_ctranslate2(options, constraints)
    if lack is not None:
        raise ConfigError(refusal(lack))


def refusal(lack: Lack) -> str:
    """Returns the message for what was named for the ctranslate2 engine, and is not to be had there."""
    return f"{lack.shown}: the ctranslate2 engine has no {lack.what}. Use the torch engine (--engine torch)."


def require_plain_beam(options: DecodeConfig) -> None:
    """Raises ConfigError, naming the option, where a search cannot look for required phrases."""
    for name, value, wrong, instead in (
        ("temperature", options.temperature, options.temperature > 0, "0: what is drawn cannot be made to hold them"),
        ("diversity_groups", options.diversity_groups, options.diversity_groups > 1, "1: one beam is shared out"),
        ("beam_size", options.beam_size, options.beam_size < 2, "2 or more (4 or more is better)"),
    ):
        if wrong:
            raise ConfigError(f"decode.{name} = {value}: required phrases need {instead}.")
