"""The arguments of §3.2 and §3.5 that `transduce paper` measures, against what can be worked out by hand."""

import argparse
import dataclasses
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch

from transduce.cli.main import build_parser
from transduce.config import Config, apply_settings
from transduce.errors import ConfigError
from transduce.experiments.paper import positions
from transduce.experiments.paper.catalogue import EXPERIMENTS
from transduce.experiments.paper.compatibility import KINDS, CompatibilityAttention, attend_by, scores, softmax_gradient
from transduce.experiments.paper.positions import linear_map, rotation
from transduce.experiments.paper.scales import SCALES
from transduce.experiments.paper.scaling import _MIRROR, _TWO_PLACES
from transduce.experiments.paper.tagging import Tagger, train_tagger
from transduce.model.attention import attention_weights
from transduce.model.positions import sinusoids


def parser_of(name: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = build_parser().parse_args(["paper", name]).parser
    return parser


def test_the_command_offers_what_the_catalogue_has() -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(["paper", "table5"])
    for name, (_, options) in EXPERIMENTS.items():
        offered = {action.dest for action in parser_of(name)._actions} - {"help"}
        assert offered == {field.name for field in dataclasses.fields(options)}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_examples_of_an_experiment_parse(name: str) -> None:
    begin = f"  transduce paper {name} "
    examples = [line.removeprefix(begin) for line in (parser_of(name).epilog or "").splitlines() if begin in line]
    assert examples
    for example in examples:
        args = build_parser().parse_args(["paper", name, *shlex.split(example)])
        assert args.experiment == name
        apply_settings(Config(), getattr(args, "settings", []))


TRAINED = ("table2", "table3", "table4", "figures")


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("scale", SCALES)
def test_smoke_alone_needs_nothing_of_the_user(name: str, scale: str, tmp_path: Path) -> None:
    make, options = EXPERIMENTS[name]
    if name in TRAINED and scale != "smoke":
        with pytest.raises(ConfigError, match=r"--corpus DIR|--model DIR|no such recipe"):
            make(options(scale, tmp_path))
        return
    experiment = make(options(scale, tmp_path))
    assert experiment.name == name
    assert experiment.settings["scale"] == scale
    assert list(tmp_path.iterdir()) == []  # nothing is written before it is run


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name not in TRAINED])
@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_has_cells_of_different_names(name: str, scale: str) -> None:
    make, options = EXPERIMENTS[name]
    names = [each.name for each in make(options(scale)).measurements]
    assert len(names) == len(set(names)) >= 4


# --- positions ------------------------------------------------------------------------------------------------


def test_a_rotation_moves_positions_on() -> None:
    table = sinusoids(60, 12).double().numpy()
    for shift in (0, 1, 7):
        np.testing.assert_allclose(table[: 60 - shift] @ rotation(shift, 12).T, table[shift:], atol=1e-6)
    np.testing.assert_allclose(rotation(3, 12) @ rotation(4, 12), rotation(7, 12), atol=1e-12)
    np.testing.assert_allclose(rotation(5, 12) @ rotation(5, 12).T, np.eye(12), atol=1e-12)
    assert np.abs(table[: 60 - 7] @ rotation(6, 12).T - table[7:]).max() > 0.5


def test_a_map_is_tried_on_positions_that_it_was_not_found_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """A map fits any four vectors of width 8; of random ones it says nothing about the next four."""
    table = torch.randn(9, 8, generator=torch.Generator().manual_seed(0))
    monkeypatch.setattr(positions, "sinusoids", lambda *_: table)
    settings = dataclasses.replace(positions.SETTINGS["smoke"], table_width=8, table_positions=8)
    values = positions._shift(settings, 1, print)
    assert values["found"] < 1e-9
    assert values["found_beyond"] > 0.1


def test_least_squares_finds_a_linear_map_and_no_map_between_random_vectors() -> None:
    generator = np.random.default_rng(0)
    rows, matrix = generator.normal(size=(100, 6)), generator.normal(size=(6, 6))
    np.testing.assert_allclose(linear_map(rows, rows @ matrix.T), matrix, atol=1e-10)
    other = generator.normal(size=(100, 6))
    assert np.abs(rows @ linear_map(rows, other).T - other).max() > 1


# --- compatibility functions ----------------------------------------------------------------------------------


def test_scores_are_as_they_are_written() -> None:
    torch.manual_seed(0)
    query, key, weight = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 6, 5), torch.randn(5)
    found = {kind: scores(kind, query, key, weight) for kind in KINDS}
    for t in range(4):
        for s in range(6):
            q, k = query[1, 2, t], key[1, 2, s]
            assert float(found["dot product"][1, 2, t, s]) == pytest.approx(float(q @ k), abs=1e-5)
            assert float(found["scaled dot product"][1, 2, t, s]) == pytest.approx(float(q @ k) / 5**0.5, abs=1e-5)
            assert float(found["additive"][1, 2, t, s]) == pytest.approx(float(weight @ (q + k).tanh()), abs=1e-5)
    torch.testing.assert_close(found["scaled dot product"].softmax(-1), attention_weights(query, key))
    value = torch.randn(2, 3, 6, 7)
    torch.testing.assert_close(
        attend_by("scaled dot product", query, key, value, weight), attention_weights(query, key) @ value
    )


def test_the_size_of_softmaxs_derivative() -> None:
    rows = torch.linspace(-1, 1, 7, dtype=torch.float64) * torch.tensor([[0.0], [0.1], [1.0], [5.0], [100.0]])
    found = softmax_gradient(rows)
    for row, size in zip(rows, found, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda x: x.softmax(-1), row)
        assert float(size) == pytest.approx(float(jacobian.norm()), abs=1e-9)
    assert float(found[0]) == pytest.approx((6 / 49) ** 0.5)  # equal weights of 1/7: (I - 1/7) / 7
    assert float(found[-1]) < 1e-6


def test_queries_and_keys_have_unit_variance_whatever_d_k_is() -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 50, 64)
    for d_k in (4, 256):
        attention = CompatibilityAttention("dot product", 64, 2, d_k, 32)
        for projection in (attention.query, attention.key):
            assert float(projection(x).detach().var()) == pytest.approx(1.0, rel=0.15)
        assert attention(x).shape == x.shape


# --- tasks ----------------------------------------------------------------------------------------------------


def test_the_answers_stand_elsewhere() -> None:
    symbols, answers = _MIRROR.draw(torch.Generator().manual_seed(1))
    assert answers.shape == (32, 16, 1)
    assert answers[3, 2, 0] == symbols[3, 13]
    symbols, answers = _TWO_PLACES.draw(torch.Generator().manual_seed(1))
    assert answers.shape == (32, 16, 2)
    assert answers[3, 2].tolist() == [symbols[3, 13], symbols[3, 5]]
    assert answers[3, 14, 1] == symbols[3, 1]


def test_a_tagger_learns_and_is_the_same_each_time() -> None:
    from dataclasses import replace

    device = torch.device("cpu")
    tagging = replace(_MIRROR, length=4, num_symbols=4, d_model=16, d_k=16, max_steps=150, learning_rate=0.01)
    said: list[str] = []
    first, again = (train_tagger(tagging, "scaled dot product", 1, device, said.append) for _ in range(2))
    assert first == again
    assert first["right"] > 0.6  # chance is 0.25
    assert said[0].startswith("step 50 of 150, loss ")
    assert Tagger(_TWO_PLACES, "additive")(torch.zeros(2, 16, dtype=torch.int64)).shape == (2, 16, 2, 16)
