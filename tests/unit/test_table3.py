"""Table 3 as a grid: over the paper's base its rows are the paper's; over others, in proportion."""

from dataclasses import replace

import pytest

from transduce.config import Config, preset
from transduce.config import presets as absolute
from transduce.config.weights import count_parameters
from transduce.errors import ConfigError
from transduce.experiments.ablation.built_in import TABLE3, at_width


def test_what_the_paper_prints() -> None:
    """Perplexity, BLEU and, where they differ from the base's, parameters × 10⁶."""
    printed = (
        "base 4.92 25.8 65|A1 5.29 24.9|A2 5.00 25.5|A3 4.91 25.8|A4 5.01 25.4|B1 5.16 25.1 58|B2 5.01 25.4 60|"
        "C1 6.11 23.7 36|C2 5.19 25.3 50|C3 4.88 25.5 80|C4 5.75 24.5 28|C5 4.66 26.0 168|C6 5.12 25.4 53|"
        "C7 4.75 26.2 90|D1 5.77 24.6|D2 4.95 25.5|D3 4.67 25.3|D4 5.47 25.7|E 4.92 25.7|big 4.33 26.4 213"
    )
    expected = {}
    for line in printed.split("|"):
        name, *figures = line.split()
        expected[name] = dict(zip(("perplexity", "bleu", "parameters"), map(float, figures), strict=False))
    assert {row.name: dict(row.printed) for row in TABLE3.rows} == expected | {"E2": {}}  # E2 is not the paper's


def test_over_the_papers_base_the_rows_are_the_papers() -> None:
    base = preset("paper-base")
    configs = TABLE3.configs(base)
    assert list(configs) == ["base", *(row.upper() for row in absolute.TABLE3), "E2", "big"]
    assert configs["base"] == base
    for row in absolute.TABLE3:
        expected = preset(f"paper-{row}")
        assert configs[row.upper()].model == expected.model, row
        assert configs[row.upper()].train == replace(expected.train, average_last=base.train.average_last), row
    assert configs["E2"].model == replace(configs["E"].model, position_deviation=0.5**0.5)
    big = preset("paper-big")
    assert configs["big"].model == big.model
    assert configs["big"].train.max_steps == big.train.max_steps


def test_the_printed_parameters_are_those_of_the_rows() -> None:
    """Over the released code's base; its big model must have had a smaller vocabulary (docs/paper-map.md)."""
    configs = TABLE3.configs(preset("t2t-2017-base"))
    for row in TABLE3.rows:
        if "parameters" in row.printed and row.name != "big":
            assert round(count_parameters(configs[row.name].model) / 1e6) == row.printed["parameters"], row.name


def shape(config: Config) -> tuple[int, ...]:
    model = config.model
    return (model.num_encoder_layers, model.d_model, model.d_ff, model.num_heads, model.d_k, model.d_v)


def test_at_a_small_width_all_keeps_its_proportion() -> None:
    tiny = replace(preset("tiny"), model=replace(preset("tiny").model, norm="pre"))
    base = at_width(tiny, 128)
    assert shape(base) == (6, 128, 512, 8, 16, 16)
    assert (base.model.norm, base.model.vocab_size, base.train) == ("pre", 10000, tiny.train)
    configs = {name: shape(config) for name, config in TABLE3.configs(base).items()}
    assert configs["A1"] == (6, 128, 512, 1, 128, 128)
    assert configs["A4"] == (6, 128, 512, 32, 4, 4)
    assert configs["B1"] == (6, 128, 512, 8, 4, 16)
    assert configs["C1"] == (2, 128, 512, 8, 16, 16)
    assert configs["C4"] == (6, 64, 512, 8, 8, 8)
    assert configs["C7"] == (6, 128, 1024, 8, 16, 16)
    assert configs["big"] == (6, 256, 1024, 16, 16, 16)


def test_over_a_recipe_of_another_shape() -> None:
    """4 layers and 4 heads of 32, dropout 0.2: A1 is one head, layers are rounded, rates keep their difference."""
    tiny = preset("tiny")
    base = replace(tiny, model=replace(tiny.model, dropout=0.2), train=replace(tiny.train, max_steps=1000))
    configs = TABLE3.configs(base)
    assert shape(configs["A1"])[3:] == (1, 128, 128)
    assert [shape(configs[row])[0] for row in ("C1", "C2", "C3")] == [1, 3, 5]
    assert [configs[row].model.dropout for row in ("D1", "D2", "big")] == [0.0, 0.3, 0.4]
    assert [configs[row].train.label_smoothing for row in ("D3", "base", "D4")] == [0.0, 0.1, 0.2]
    assert configs["big"].train.max_steps == 3000


def test_what_does_not_come_out_whole_is_refused_by_row_and_key() -> None:
    tiny = preset("tiny")
    odd = replace(tiny, model=replace(tiny.model, num_heads=3, d_k=6, d_v=6))
    with pytest.raises(ConfigError, match=r"grid table3: row A2: model\.num_heads would be 1\.5"):
        TABLE3.configs(odd)
    assert TABLE3.select(["base", "D1"]).configs(odd)["D1"].model.dropout == 0.0


@pytest.mark.parametrize("width", [0, 4, 100])
def test_a_width_that_eight_heads_cannot_share_is_refused(width: int) -> None:
    with pytest.raises(ConfigError, match=f"width {width}: must be a multiple of 8"):
        at_width(preset("tiny"), width)
