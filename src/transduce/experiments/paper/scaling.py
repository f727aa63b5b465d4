"""What §3.2 and §4 say about cost: 1 / √d_k, additive attention, one head or many, and where recurrence is cheaper."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product

import torch

from transduce.experiments.paper import compatibility, scaling_report
from transduce.experiments.paper.experiment import Experiment, Measurement, Options, Say, Values
from transduce.experiments.paper.layer_types import Kind as LayerKind
from transduce.experiments.paper.layer_types import Shape, layer_cost
from transduce.experiments.paper.measure import peak_bytes, shortest_seconds
from transduce.experiments.paper.scales import Scale, at_scale
from transduce.experiments.paper.tagging import Tagging, train_tagger
from transduce.training.device import Compute


@dataclass(frozen=True)
class Settings:
    """The sizes that are measured."""

    score_widths: tuple[int, ...]  # d_k at which scores are drawn
    score_keys: int  # keys that a softmax is over
    trained_widths: tuple[int, ...]  # d_k of trained models
    mirror: Tagging
    two_places: Tagging
    trained_heads: tuple[int, ...]
    seeds: tuple[int, ...]
    additive_lengths: tuple[int, ...]  # n at which additive attention is timed, at d_k = 64
    head_counts: tuple[int, ...]  # h of the layers that are timed
    head_width: int  # d_model of those
    head_length: int  # n of those
    crossover_width: int  # d
    crossover_lengths: tuple[int, ...]  # n
    seconds_a_cell: float


_MIRROR = Tagging(
    "mirror", length=16, num_symbols=16, num_layers=2, d_model=64, num_heads=1, d_k=64,
    max_steps=300, batch_sequences=32, learning_rate=2e-3,
)  # fmt: skip
_TWO_PLACES = replace(_MIRROR, task="two places", num_layers=1, max_steps=600)

SETTINGS: dict[Scale, Settings] = {
    "smoke": Settings(
        (4, 64), 16, (4, 16), replace(_MIRROR, max_steps=10), replace(_TWO_PLACES, max_steps=10), (1, 2), (1,),
        (16, 32), (1, 4), 64, 32, 32, (16, 32, 64), 0.0,
    ),
    "laptop": Settings(
        (4, 16, 64, 256, 1024), 64, (4, 16, 64, 256), _MIRROR, _TWO_PLACES, (1, 2, 4, 8), (1, 2),
        (64, 128, 256, 512), (1, 2, 4, 8, 16, 32), 512, 512, 256, (32, 64, 128, 256, 512, 1024, 2048, 4096), 0.3,
    ),
    "paper": Settings(
        (4, 16, 64, 256, 1024, 4096), 64, (4, 16, 64, 256, 1024), replace(_MIRROR, length=64, max_steps=5000),
        replace(_TWO_PLACES, length=64, max_steps=5000), (1, 2, 4, 8, 16), (1, 2, 3, 4, 5),
        (64, 128, 256, 512, 1024), (1, 2, 4, 8, 16, 32), 512, 2048, 512,
        (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384), 1.0,
    ),
}  # fmt: skip

CROSSOVER_KINDS: tuple[LayerKind, ...] = ("attention", "attention layer", "simple recurrent", "recurrent")
_ADDITIVE_WIDTH = 64  # the base model's d_k
_SAMPLES = 4096  # rows of scores


def experiment(options: Options) -> Experiment:
    """Returns the experiment at its scale."""
    settings = at_scale(SETTINGS, options.scale)
    return Experiment(
        name="scaling",
        title="Scaling: 1/√d_k, additive attention, heads, and the crossover with recurrence",
        settings={"scale": options.scale, **asdict(settings)},
        measurements=list(_measurements(settings)),
        render=scaling_report.render,
        draw=scaling_report.draw,
    )


def _measurements(settings: Settings) -> Iterator[Measurement]:
    kinds, seeds = compatibility.KINDS, settings.seeds
    for kind, d_k in product(kinds, settings.score_widths):
        yield Measurement(f"scores/{kind}/d_k={d_k}", partial(_scores, kind, d_k, settings.score_keys))
    for n, kind in product(settings.additive_lengths, kinds):
        yield Measurement(f"speed/{kind}/n={n}", partial(_speed, kind, n, settings.seconds_a_cell))
    for heads in settings.head_counts:
        yield Measurement(f"heads/h={heads}", partial(_heads, heads, settings))
    for layer_kind, n in product(CROSSOVER_KINDS, settings.crossover_lengths):
        yield Measurement(f"crossover/{layer_kind}/n={n}", partial(_crossover, layer_kind, n, settings))
    for d_k, kind, seed in product(settings.trained_widths, kinds, seeds):
        yield Measurement(f"mirror/{kind}/d_k={d_k}/seed={seed}", partial(_mirror, settings, kind, d_k, seed))
    for heads, seed in product(settings.trained_heads, seeds):
        yield Measurement(f"two places/h={heads}/seed={seed}", partial(_two_places, settings, heads, seed))


def _scores(kind: compatibility.Kind, d_k: int, num_keys: int, say: Say) -> Values:
    """Draws queries and keys as the paper assumes (§3.2.1): independent components of mean 0 and variance 1.

    Each row is one query, against `num_keys` keys of its own.
    """
    torch.manual_seed(0)
    weight = compatibility.draw_weight(d_k)
    parts = []
    for _ in range(max(1, _SAMPLES * d_k // 2**16)):  # in parts: additive attention holds all hidden units
        rows = min(_SAMPLES, 2**16 // d_k)
        query = torch.randn(rows, 1, 1, d_k)
        key = torch.randn(rows, 1, num_keys, d_k)
        parts.append(compatibility.scores(kind, query, key, weight).flatten(0, 2))
    scores_NS = torch.cat(parts)
    return {
        "kind": kind,
        "d_k": d_k,
        "keys": num_keys,
        "variance": float(scores_NS.var()),
        "gradient": float(compatibility.softmax_gradient(scores_NS).median()),
        "greatest_weight": float(scores_NS.softmax(dim=-1).amax(dim=-1).mean()),
    }


def _speed(kind: compatibility.Kind, n: int, budget_seconds: float, say: Say) -> Values:
    torch.manual_seed(0)
    device = Compute.of("auto", "fp32").device
    query, key, value = (torch.randn(1, 1, n, _ADDITIVE_WIDTH).to(device) for _ in range(3))
    weight = compatibility.draw_weight(_ADDITIVE_WIDTH).to(device)
    run = partial(compatibility.attend_by, kind, query, key, value, weight)
    with torch.no_grad():
        spent, peak = shortest_seconds(run, device, budget_seconds=budget_seconds), peak_bytes(run, device)
    return {"kind": kind, "n": n, "d_k": _ADDITIVE_WIDTH, "seconds": spent, "peak_bytes": peak}


def _heads(num_heads: int, settings: Settings, say: Say) -> Values:
    d, n = settings.head_width, settings.head_length
    cost = layer_cost("attention layer", Shape(d, num_heads), n, budget_seconds=settings.seconds_a_cell)
    return {"heads": num_heads, "d_model": d, "n": n, **cost}


def _crossover(kind: LayerKind, n: int, settings: Settings, say: Say) -> Values:
    shape = Shape(settings.crossover_width)
    cost = layer_cost(kind, shape, n, budget_seconds=settings.seconds_a_cell, memory=False)
    return {"kind": kind, "n": n, "d": shape.d, **cost}


def _mirror(settings: Settings, kind: compatibility.Kind, d_k: int, seed: int, say: Say) -> Values:
    device = Compute.of("auto", "fp32").device
    learned = train_tagger(replace(settings.mirror, d_k=d_k), kind, seed, device, say)
    return {"kind": kind, "d_k": d_k, "seed": seed, **learned}


def _two_places(settings: Settings, num_heads: int, seed: int, say: Say) -> Values:
    """Trains with h heads of width d_model / h: the number of operations and parameters does not depend on h."""
    device = Compute.of("auto", "fp32").device
    tagging = replace(settings.two_places, num_heads=num_heads, d_k=settings.two_places.d_model // num_heads)
    return {"heads": num_heads, "seed": seed, **train_tagger(tagging, "scaled dot product", seed, device, say)}
