"""Grid files: rows and axes become configurations, and what is wrong is named with file, row and key."""

from dataclasses import replace
from pathlib import Path

import pytest

from transduce.config import Config, preset
from transduce.errors import ConfigError
from transduce.experiments.ablation.built_in import BUILT_IN, find_grid
from transduce.experiments.ablation.grid import load_grid

RECIPES = Path(__file__).parents[2] / "recipes"

ROWS = """
base = "recipes/mine.toml"

[rows.base]

[rows.none]
model.dropout = 0.0

[rows.wide-and-slow]
model.d_ff = 4096
train.warmup_steps = 8000
printed = { perplexity = 4.75, bleu = 26, parameters = 90 }
"""

AXES = """
name = "two by three"

[axes]
model.dropout = [0.0, 0.1, 0.3]
model.norm = ["pre", "post"]
"""


def grid_file(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_rows(tmp_path: Path) -> None:
    grid = load_grid(grid_file(tmp_path, ROWS))
    assert (grid.name, grid.base) == ("mine", tmp_path / "recipes" / "mine.toml")
    base = preset("paper-base")
    configs = grid.configs(base)
    assert list(configs) == ["base", "none", "wide-and-slow"]
    assert configs["base"] == base
    assert (configs["none"].model.dropout, configs["none"].model.d_ff) == (0.0, 2048)
    wide = configs["wide-and-slow"]
    assert (wide.model.d_ff, wide.train.warmup_steps, wide.model.dropout) == (4096, 8000, 0.1)
    assert [dict(row.printed) for row in grid.rows][1:] == [{}, {"perplexity": 4.75, "bleu": 26.0, "parameters": 90.0}]


def test_axes_are_multiplied(tmp_path: Path) -> None:
    grid = load_grid(grid_file(tmp_path, AXES))
    assert grid.name == "two by three"
    assert grid.base is None
    configs = grid.configs(Config())
    assert [(c.model.dropout, c.model.norm) for c in configs.values()] == [
        *((0.0, "pre"), (0.0, "post"), (0.1, "pre"), (0.1, "post"), (0.3, "pre"), (0.3, "post")),
    ]
    assert list(configs)[1] == "dropout=0.0+norm=post"


def test_axes_of_one_name_keep_their_sections(tmp_path: Path) -> None:
    text = "[axes]\nmodel.vocab_size = [500]\ntext.vocab_size = [500, 600]\ntrain.compile = [true]\n"
    names = [row.name for row in load_grid(grid_file(tmp_path, text)).rows]
    assert names[0] == "model.vocab_size=500+text.vocab_size=500+compile=true"


def test_a_selection_keeps_the_grids_order(tmp_path: Path) -> None:
    grid = load_grid(grid_file(tmp_path, ROWS))
    assert [row.name for row in grid.select(["none", "base"]).rows] == ["base", "none"]
    with pytest.raises(ConfigError, match=r"grid mine has no row 'nonne'\. Did you mean 'none'\?"):
        grid.select(["nonne"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rows = [", "not a TOML file"),
        ("[row.base]", r"unknown key 'row'\. Did you mean 'rows'\?"),
        ("name = 'x'", "either .rows.NAME. tables or one .axes. table"),
        ("[rows.a]\n[axes]\nmodel.dropout=[0.0]", "either .rows.NAME. tables or one .axes. table"),
        ("[rows]", "empty"),
        ("[rows]\na = 1", r"'rows\.a' is a table"),
        ("rows = 3", "'rows' is a table"),
        ("name = 3\n[rows.a]", "name = 3: must be a text"),
        ("[rows.a]\nmodle.dropout = 0.1", r"unknown key 'rows\.a\.modle'\. Did you mean 'model'\?"),
        ("[rows.a]\nmodel = 3", r"rows\.a\.model: is a section"),
        ("[rows.a]\ntrain.seed = 3", r"rows\.a\.train\.seed.*--seeds"),
        ("[rows.'a b']", "row 'a b'"),
        ("[rows.'a/b']", "row 'a/b'"),
        ("[rows.a]\nprinted = 4", r"rows\.a\.printed: must be a table"),
        ("[rows.a]\nprinted = { blue = 3 }", r"unknown key 'rows\.a\.printed\.blue'\. Did you mean 'bleu'\?"),
        ("[rows.a]\nprinted = { bleu = '3' }", r"rows\.a\.printed\.bleu = '3': must be a number"),
        ("[axes]", "empty"),
        ("[axes]\nmodel.dropout = 0.1", r"axes\.model\.dropout = 0\.1: must be a list"),
        ("[axes]\nmodel.dropout = []", r"axes\.model\.dropout = \[\]"),
        ("[axes]\ndata.train = [['a', 'b']]", r"axes\.data\.train"),
        ("[axes]\nmodel.dropout = [0.1, 0.2, 0.1]", r"axes\.model\.dropout = \[0\.1, 0\.2, 0\.1\]: has 0\.1 twice"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = grid_file(tmp_path, text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_grid(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[rows.a]\nmodel.droput = 0.1", r"row a: unknown key 'model\.droput'\. Did you mean 'dropout'\?"),
        ("[rows.a]\nmodel.dropout = 'much'", r"row a: model\.dropout = 'much': must be a number"),
        ("[rows.ok]\n[rows.a]\nmodel.dropout = 1.5", r"row a: model\.dropout = 1\.5"),
        ("[axes]\nmodel.norm = ['pre', 'pots']", r"row norm=pots: model\.norm = 'pots'.*Did you mean 'post'\?"),
    ],
)
def test_what_no_base_can_take_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = grid_file(tmp_path, text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_grid(path).configs(Config())
    assert str(caught.value).startswith(f"{path}: ")


def test_grids_are_found_by_name_or_file(tmp_path: Path) -> None:
    assert find_grid("table3") is BUILT_IN["table3"]
    assert find_grid(str(grid_file(tmp_path, ROWS))).name == "mine"
    with pytest.raises(ConfigError, match=r"'tabel3'\. Did you mean 'table3'\?"):
        find_grid("tabel3")
    with pytest.raises(ConfigError, match="no such grid"):
        find_grid(str(tmp_path / "none.toml"))


@pytest.mark.parametrize("path", sorted((RECIPES / "grids").glob("*.toml")), ids=lambda path: path.stem)
def test_the_grids_beside_the_recipes_fit_their_base(path: Path) -> None:
    from transduce.config import load_recipe

    grid = load_grid(path)
    assert grid.name == path.stem
    assert grid.base is not None
    assert len(grid.configs(load_recipe(grid.base))) >= 4


def test_label_smoothing_is_that_of_table_3() -> None:
    configs = find_grid("label-smoothing").configs(preset("tiny"))
    assert [config.train.label_smoothing for config in configs.values()] == [0.0, 0.1, 0.2]
    table3 = {row.name: dict(row.printed) for row in find_grid("table3").rows}
    for row, same in zip(find_grid("label-smoothing").rows, ("D3", "base", "D4"), strict=True):
        assert dict(row.printed) == {key: table3[same][key] for key in ("perplexity", "bleu")}


def test_three_times_the_steps_stay_within_the_greatest_number_of_steps() -> None:
    """As where minutes alone bound a training: `ablate --minutes` gives the base a thousand million steps."""
    base = preset("paper-base")
    for steps, of_big in ((1000, 3000), (1_000_000_000, 1_000_000_000)):
        configs = find_grid("table3").configs(replace(base, train=replace(base.train, max_steps=steps)))
        assert (configs["base"].train.max_steps, configs["big"].train.max_steps) == (steps, of_big)
