"""The grids that come with the package: Table 3, in proportion to any base, and label smoothing.

In Table 3, sizes keep their ratio to the base's, and numbers of layers are rounded; rates keep their difference (0.1
more dropout, not twice as much). Over the paper's base model, that gives the paper's rows exactly. With `at_width`, the
base itself takes the proportions of the paper's base at a smaller width: at 128, 8 heads of 16 and a d_ff of 512, and
rows (A) with 1, 4, 16 and 32 heads of 128, 32, 8 and 4.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from transduce.config import Config, TrainConfig, preset
from transduce.config.ranges import ranges_of
from transduce.errors import ConfigError, suggestion
from transduce.experiments.ablation.grid import Changes, Grid, Row, constant, load_grid

_Change = Callable[[Config], Changes]


def at_width(base: Config, width: int) -> Config:
    """Returns `base` with the layers and proportions of the paper's base model at d_model = `width`.

    Raises:
        ConfigError: the paper's number of heads does not divide the width.
    """
    paper = preset("paper-base").model
    if width < paper.num_heads or width % paper.num_heads:
        raise ConfigError(f"width {width}: must be a multiple of {paper.num_heads}, the heads of the paper's base.")
    same = {key: getattr(paper, key) for key in ("num_encoder_layers", "num_decoder_layers", "num_heads")}
    scaled = {key: getattr(paper, key) * width // paper.d_model for key in ("d_model", "d_ff", "d_k", "d_v")}
    return replace(base, model=replace(base.model, **same, **scaled))


def _sizes(**ratios: Fraction | int) -> _Change:
    def change(base: Config) -> Changes:
        return {"model": {key: _whole(getattr(base.model, key) * ratio, key) for key, ratio in ratios.items()}}

    return change


def _heads(ratio: Fraction | int) -> _Change:
    """Returns a change to `ratio` times the heads, each as much narrower: the cost stays the same (rows A)."""
    return _sizes(num_heads=ratio, d_k=1 / Fraction(ratio), d_v=1 / Fraction(ratio))


def _one_head(base: Config) -> Changes:
    return _heads(Fraction(1, base.model.num_heads))(base)


def _layers(ratio: Fraction) -> _Change:
    def change(base: Config) -> Changes:
        keys = ("num_encoder_layers", "num_decoder_layers")
        return {"model": {key: max(1, round(getattr(base.model, key) * ratio)) for key in keys}}

    return change


def _more(section: str, rate: str, by: float = 0.1) -> _Change:
    return lambda base: {section: {rate: round(getattr(getattr(base, section), rate) + by, 6)}}


def _big(base: Config) -> Changes:
    model = _sizes(d_model=2, d_ff=2, num_heads=2)(base)["model"] | _more("model", "dropout", 0.2)(base)["model"]
    most = int(ranges_of(TrainConfig)["max_steps"][1].most)  # of a base that minutes alone bound
    return {"model": model, "train": {"max_steps": min(3 * base.train.max_steps, most)}}


def _whole(value: Fraction | int, key: str) -> int:
    if value.denominator != 1:
        raise ConfigError(f"model.{key} would be {float(value):g}, not a whole number. A base that fits: --width 128.")
    return int(value)


SINUSOIDS_DEVIATION = 0.5**0.5  # the root mean square of sines and cosines

_HALF, _QUARTER = Fraction(1, 2), Fraction(1, 4)

TABLE3 = Grid(
    "table3",
    (
        Row("base", constant({}), {"perplexity": 4.92, "bleu": 25.8, "parameters": 65}),
        Row("A1", _one_head, {"perplexity": 5.29, "bleu": 24.9}),
        Row("A2", _heads(_HALF), {"perplexity": 5.00, "bleu": 25.5}),
        Row("A3", _heads(2), {"perplexity": 4.91, "bleu": 25.8}),
        Row("A4", _heads(4), {"perplexity": 5.01, "bleu": 25.4}),
        Row("B1", _sizes(d_k=_QUARTER), {"perplexity": 5.16, "bleu": 25.1, "parameters": 58}),
        Row("B2", _sizes(d_k=_HALF), {"perplexity": 5.01, "bleu": 25.4, "parameters": 60}),
        Row("C1", _layers(Fraction(1, 3)), {"perplexity": 6.11, "bleu": 23.7, "parameters": 36}),
        Row("C2", _layers(Fraction(2, 3)), {"perplexity": 5.19, "bleu": 25.3, "parameters": 50}),
        Row("C3", _layers(Fraction(4, 3)), {"perplexity": 4.88, "bleu": 25.5, "parameters": 80}),
        Row("C4", _sizes(d_model=_HALF, d_k=_HALF, d_v=_HALF), {"perplexity": 5.75, "bleu": 24.5, "parameters": 28}),
        Row("C5", _sizes(d_model=2, d_k=2, d_v=2), {"perplexity": 4.66, "bleu": 26.0, "parameters": 168}),
        Row("C6", _sizes(d_ff=_HALF), {"perplexity": 5.12, "bleu": 25.4, "parameters": 53}),
        Row("C7", _sizes(d_ff=2), {"perplexity": 4.75, "bleu": 26.2, "parameters": 90}),
        Row("D1", constant({"model": {"dropout": 0.0}}), {"perplexity": 5.77, "bleu": 24.6}),
        Row("D2", _more("model", "dropout"), {"perplexity": 4.95, "bleu": 25.5}),
        Row("D3", constant({"train": {"label_smoothing": 0.0}}), {"perplexity": 4.67, "bleu": 25.3}),
        Row("D4", _more("train", "label_smoothing"), {"perplexity": 5.47, "bleu": 25.7}),
        Row("E", constant({"model": {"positions": "learned"}}), {"perplexity": 4.92, "bleu": 25.7}),
        # Not in the paper: E changes the kind and the scale of positions, this one the kind alone.
        Row("E2", constant({"model": {"positions": "learned", "position_deviation": SINUSOIDS_DEVIATION}}), {}),
        Row("big", _big, {"perplexity": 4.33, "bleu": 26.4, "parameters": 213}),
    ),
)


def _smoothing(epsilon: float, perplexity: float, bleu: float) -> Row:
    change = constant({"train": {"label_smoothing": epsilon}})
    return Row(f"smoothing-{epsilon}", change, {"perplexity": perplexity, "bleu": bleu})


LABEL_SMOOTHING = Grid(
    "label-smoothing", (_smoothing(0.0, 4.67, 25.3), _smoothing(0.1, 4.92, 25.8), _smoothing(0.2, 5.47, 25.7))
)

# "A more sophisticated compatibility function than dot product may be beneficial" (§6.2 on rows B), and 1 / √d_k.
ATTENTION_SCORE = Grid(
    "attention-score",
    tuple(Row(score, constant({"model": {"attention_score": score}})) for score in ("scaled_dot", "dot", "additive")),
)

BUILT_IN = {grid.name: grid for grid in (TABLE3, LABEL_SMOOTHING, ATTENTION_SCORE)}


def find_grid(name: str) -> Grid:
    """Returns the built-in grid of that name, or that of the file, whose name ends in `.toml`.

    Raises:
        ConfigError: there is no such grid, or the file is not one.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name.endswith(".toml"):
        return load_grid(Path(name))
    known = ", ".join(BUILT_IN)
    raise ConfigError(f"no grid is called '{name}'.{suggestion(name, BUILT_IN)} There are {known}, and files (.toml).")
