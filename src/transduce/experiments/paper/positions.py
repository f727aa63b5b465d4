"""Positions: sinusoids against a learned table, within and beyond the lengths seen in training; PE(pos + k) (§3.5).

The paper chose sinusoids for two reasons. They "may allow the model to extrapolate" to longer sequences: measured by
copying random symbols, at lengths seen in training and at longer ones. And PE(pos + k) is a linear function of PE(pos):
shown by constructing it, a rotation of each sine-cosine pair, and by finding it with least squares.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from transduce.config import Config, ModelConfig, TrainConfig
from transduce.experiments.paper.experiment import Experiment, Measured, Measurement, Options, Say, Values
from transduce.experiments.paper.learning import FIRST_SYMBOL, copying, draw_sequences, right_tokens, train
from transduce.experiments.paper.report import claims_table, page, select
from transduce.experiments.paper.scales import Scale, at_scale
from transduce.model.positions import sinusoids
from transduce.reporting.charts import count_axis, legend_below, log_sizes, new_chart, save_chart
from transduce.reporting.tables import short, table
from transduce.training.batch import Batch
from transduce.training.device import Compute

Kind = Literal["sinusoidal", "learned"]
KINDS: tuple[Kind, ...] = get_args(Kind)
# 2π · 10000. On fewer positions the slowest sinusoids are almost straight lines: least squares then finds a map that
# fits those positions and no later ones.
_LONGEST_WAVELENGTH = 62832


@dataclass(frozen=True)
class Settings:
    """The task, the model, and the tables of positions."""

    trained_length: int  # the longest sequence of training, in symbols; the shortest has 1
    tested_lengths: tuple[int, ...]
    num_symbols: int
    d_model: int
    num_layers: int
    num_heads: int
    max_steps: int
    batch_sequences: int
    seeds: tuple[int, ...]
    test_sequences: int  # of each length
    table_width: int  # d of the table for which the linear function is sought
    table_positions: int
    shifts: tuple[int, ...]  # k


SETTINGS: dict[Scale, Settings] = {
    "smoke": Settings(4, (2, 4, 6), 6, 16, 1, 2, 30, 16, (1,), 20, 16, 200, (1, 7)),
    "laptop": Settings(
        12, (2, 4, 6, 8, 10, 11, 12, 13, 14, 16, 20, 24, 36), 20, 64, 2, 4, 1000, 64, (1, 2, 3), 200,
        64, 2 * _LONGEST_WAVELENGTH, (1, 3, 10, 30, 100, 300, 1000),
    ),
    "paper": Settings(
        64, (8, 16, 32, 48, 60, 64, 66, 68, 72, 80, 96, 128, 256), 1000, 512, 6, 8, 20_000, 400, (1, 2, 3), 500,
        512, 2 * _LONGEST_WAVELENGTH, (1, 3, 10, 30, 100, 300, 1000, 3000),
    ),
}  # fmt: skip


def experiment(options: Options) -> Experiment:
    """Returns the experiment at its scale."""
    settings = at_scale(SETTINGS, options.scale)
    return Experiment(
        name="positions",
        title="Positions: sinusoids and a learned table",
        settings={"scale": options.scale, **asdict(settings)},
        measurements=list(_measurements(settings)),
        render=partial(_render, settings),
        draw=partial(_draw, settings),
    )


def _measurements(settings: Settings) -> Iterator[Measurement]:
    for shift in settings.shifts:
        yield Measurement(f"shift/k={shift}", partial(_shift, settings, shift))
    for seed, kind in product(settings.seeds, KINDS):
        yield Measurement(f"copy/{kind}/seed={seed}", partial(_copy, settings, kind, seed))


# --- PE(pos + k) as a linear function of PE(pos) --------------------------------------------------------------


def rotation(shift: int, d_model: int) -> np.ndarray:
    """Returns the (d, d) matrix M with PE(pos + k) = M PE(pos) for every pos: each pair is turned by k·ω_i.

    sin(ω(pos + k)) = cos(ωk) sin(ω pos) + sin(ωk) cos(ω pos), and likewise cos: the sums of angles, with
    ω_i = 10000^(-2i/d).
    """
    matrix = np.zeros((d_model, d_model))
    for pair in range(d_model // 2):
        angle = shift * math.exp(-math.log(10000.0) * 2 * pair / d_model)
        sine, cosine = math.sin(angle), math.cos(angle)
        matrix[2 * pair : 2 * pair + 2, 2 * pair : 2 * pair + 2] = [[cosine, sine], [-sine, cosine]]
    return matrix


def linear_map(rows: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Returns the matrix M, (d, d), for which M row is closest to its image over all rows, by least squares."""
    solution, *_ = np.linalg.lstsq(rows, images, rcond=None)
    return np.asarray(solution.T)


def _shift(settings: Settings, shift: int, say: Say) -> Values:
    """Finds the map on the first half of the positions and tries it on the second; random vectors are the control."""
    d, half = settings.table_width, settings.table_positions // 2
    encoding = sinusoids(2 * half + shift, d).double().numpy()
    drawn = np.random.default_rng(0).normal(0.0, 0.5**0.5, encoding.shape)  # of the sinusoids' variance
    constructed = rotation(shift, d)

    def error(matrix: np.ndarray, rows: np.ndarray, start: int, stop: int) -> float:
        return float(np.abs(rows[start:stop] @ matrix.T - rows[start + shift : stop + shift]).max())

    found, control = (linear_map(rows[:half], rows[shift : half + shift]) for rows in (encoding, drawn))
    return {
        "shift": shift,
        "constructed": error(constructed, encoding, 0, 2 * half),
        "found": error(found, encoding, 0, half),
        "found_beyond": error(found, encoding, half, 2 * half),
        "matrices_differ": float(np.abs(found - constructed).max()),
        "random_table": error(control, drawn, 0, half),
    }


# --- copying, within and beyond the trained lengths -----------------------------------------------------------


def copy_config(settings: Settings, kind: Kind, seed: int) -> Config:
    """Returns the configuration of one training: pre-norm, without dropout, with room for the longest test."""
    d_k = settings.d_model // settings.num_heads
    model = ModelConfig(
        vocab_size=FIRST_SYMBOL + settings.num_symbols,
        num_encoder_layers=settings.num_layers,
        num_decoder_layers=settings.num_layers,
        d_model=settings.d_model,
        d_ff=2 * settings.d_model,
        num_heads=settings.num_heads,
        d_k=d_k,
        d_v=d_k,
        dropout=0.0,
        norm="pre",
        positions=kind,
        max_positions=max(settings.tested_lengths) + 1,  # rows beyond the trained length stay as they were drawn
    )
    return Config(
        name=f"copy-{kind}",
        model=model,
        train=TrainConfig(
            max_steps=settings.max_steps,
            warmup_steps=max(1, settings.max_steps // 6),
            learning_rate_factor=0.2,
            max_gradient_norm=0.5,
            label_smoothing=0.0,
            seed=seed,
        ),
    )


def _copy(settings: Settings, kind: Kind, seed: int, say: Say) -> Values:
    compute = Compute.of("auto", "fp32")

    def make_batch(generator: np.random.Generator) -> Batch:
        lengths = generator.integers(1, settings.trained_length + 1, settings.batch_sequences)
        return copying(draw_sequences(generator, lengths.tolist(), settings.num_symbols), compute.device)

    model, loss = train(copy_config(settings, kind, seed), make_batch, compute, say)
    generator = np.random.default_rng(0)  # the same tests for all
    tokens, sequences = {}, {}
    for length in settings.tested_lengths:
        drawn = draw_sequences(generator, [length] * settings.test_sequences, settings.num_symbols)
        right = right_tokens(model, copying(drawn, compute.device)).view(settings.test_sequences, length + 1)
        tokens[str(length)] = float(right.float().mean())
        sequences[str(length)] = float(right.all(dim=1).float().mean())
    return {"kind": kind, "seed": seed, "loss": loss, "tokens_right": tokens, "sequences_right": sequences}


# --- results --------------------------------------------------------------------------------------------------


def accuracy(measured: Measured, kind: Kind, of: str, length: int) -> list[float]:
    """Returns the share that was right at a length, for each seed."""
    return [values[of][str(length)] for values in select(measured, f"copy/{kind}")]


def _share(values: list[float]) -> str:
    spread = f" ({min(values):.1%} – {max(values):.1%})" if len(values) > 1 else ""
    return f"{float(np.mean(values)):.1%}{spread}"


def _render(settings: Settings, measured: Measured) -> str:
    limit, half = settings.trained_length, settings.table_positions // 2
    return page(
        claims_table(_CLAIMS, _about_claims(settings, measured)),
        "## Copying, by length",
        _copying_table(settings, measured),
        f"Mean of {len(settings.seeds)} trainings (least – greatest), each of {settings.max_steps:,} steps on "
        f"lengths 1 – {limit}; {settings.test_sequences} sequences per length. Every token is predicted from the "
        "true ones before it; a sequence is right if all of them and its end are.",
        "## PE(pos + k) from PE(pos)",
        _shift_table(settings, measured),
        f"Greatest absolute error of any component, d = {settings.table_width}; least squares saw positions below "
        f"{half}, later ones go up to {2 * half}. The table is the model's own, of 32-bit numbers: 6e-08 is "
        "their rounding. The last column is a control: random vectors have no such map.",
        "## What differs from the paper",
        _DIFFERENCES,
    )


_CLAIMS = {  # with what the paper prints
    "learned positions do nearly as well (Table 3 E)": "PPL 4.92 and BLEU 25.7, against 4.92 and 25.8",
    "sinusoids may extrapolate to longer sequences (§3.5)": "a conjecture, no figure",
    "PE(pos + k) is a linear function of PE(pos) (§3.5)": "for any fixed k",
}


def _about_claims(settings: Settings, measured: Measured) -> list[str]:
    """Returns what was measured for each of `_CLAIMS`."""
    limit = settings.trained_length

    def over(lengths: list[int]) -> str:
        shares = []
        for kind in KINDS:
            by_seed = np.mean([accuracy(measured, kind, "tokens_right", length) for length in lengths], axis=0)
            shares.append(f"{kind} {_share(by_seed.tolist())}")
        return ", ".join(shares)

    within = over([length for length in settings.tested_lengths if length <= limit])
    beyond = over([length for length in settings.tested_lengths if length > limit])
    worst = max(measured[f"shift/k={shift}"]["constructed"] for shift in settings.shifts)
    return [
        f"tokens right, lengths up to {limit}: {within}",
        f"tokens right, longer than {limit}: {beyond}",
        f"greatest error of the constructed rotation, all k and pos: {short(worst)}",
    ]


def _copying_table(settings: Settings, measured: Measured) -> str:
    measures = [(of, kind) for of in ("tokens_right", "sequences_right") for kind in KINDS]
    rows = []
    for length in settings.tested_lengths:
        name = f"{length}" if length <= settings.trained_length else f"{length} (longer than any seen)"
        rows.append([name, *(_share(accuracy(measured, kind, of, length)) for of, kind in measures)])
    return table(["symbols", *(f"{of.replace('_', ' ')}: {kind}" for of, kind in measures)], rows)


def _shift_table(settings: Settings, measured: Measured) -> str:
    columns = {
        "constructed": "rotation, constructed",
        "found": "least squares",
        "found_beyond": "the same on later positions",
        "matrices_differ": "its matrix against the rotation",
        "random_table": "least squares on random vectors",
    }
    shifts = [measured[f"shift/k={shift}"] for shift in settings.shifts]
    rows = [[str(values["shift"]), *(short(values[name]) for name in columns)] for values in shifts]
    return table(["k", *columns.values()], rows)


_DIFFERENCES = """\
- The paper compared the two on English-German translation with its base model (Table 3, rows base and E); this is
  copying random symbols with a pre-norm model, where every prediction depends on position.
- The two start at different scales: sinusoids have a root mean square of 0.71 a component, learned positions start at
  1/√d_model, but embeddings at 1. What differs within the trained lengths may come from that.
- The paper measured nothing beyond training lengths. Rows of the learned table that no training sequence reached are
  random here, as drawn at the start.
- Copying can also be done by content (find the symbol just written, take the next): what sinusoids keep beyond the
  trained lengths may come from either."""


def _draw(settings: Settings, measured: Measured, folder: Path) -> None:
    figure, (left, right) = new_chart(2)
    for kind in KINDS:
        runs = np.array([accuracy(measured, kind, "tokens_right", length) for length in settings.tested_lengths])
        (line,) = left.plot(settings.tested_lengths, runs.mean(axis=1), marker="o", ms=4, label=kind)
        left.fill_between(
            settings.tested_lengths, runs.min(axis=1), runs.max(axis=1), color=line.get_color(), alpha=0.2, linewidth=0
        )
    left.axvline(settings.trained_length + 0.5, color="#888888", linestyle="--", linewidth=1)
    left.text(settings.trained_length + 0.7, 0.02, "not seen in training", color="#555555", fontsize=8)
    left.set(xlabel="symbols to copy", ylabel="tokens right", ylim=(0, 1.03), title="Copying, by length")
    count_axis(left.xaxis)
    legend_below(left, columns=2)
    for name, label, size in (  # the last three lie on one another: each shows around the next
        ("random_table", "random vectors: least squares", 4),
        ("found_beyond", "sinusoids: least squares, on later positions", 10),
        ("found", "sinusoids: least squares", 7),
        ("constructed", "sinusoids: rotation", 4),
    ):
        errors = [max(measured[f"shift/k={shift}"][name], 1e-12) for shift in settings.shifts]
        right.plot(settings.shifts, errors, marker="o", ms=size, label=label)
    log_sizes(right, settings.shifts)
    right.set(yscale="log", xlabel="k", ylabel="greatest error", title="PE(pos + k) from PE(pos)")
    legend_below(right, columns=2)
    save_chart(figure, folder / "positions.png")
