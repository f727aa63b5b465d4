"""The learning rate of eq. 3, by hand."""

import math

import pytest

from transduce.config import Config, apply_settings
from transduce.errors import ConfigError
from transduce.training.schedule import cooldown, describe_rate, learning_rate, noam


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        (1, 1 / math.sqrt(512) * 4000**-1.5),  # 1.747e-7
        (1, 1.7469e-7),
        (2, 2 * 1.7469e-7),
        (4000, 1 / math.sqrt(512 * 4000)),  # where both branches meet: the highest
        (4000, 6.98771e-4),
        (16_000, 6.98771e-4 / 2),
        (100_000, 1.39754e-4),
    ],
)
def test_noam_of_the_base_model(step: int, rate: float) -> None:
    assert noam(step, 512, 4000) == pytest.approx(rate, rel=1e-4)


def test_noam_rises_to_the_end_of_the_warm_up_and_falls_after() -> None:
    rates = [noam(step, 64, 10) for step in range(1, 30)]
    assert rates.index(max(rates)) == 10 - 1
    assert rates[:10] == sorted(rates[:10])
    assert rates[9:] == sorted(rates[9:], reverse=True)
    assert rates[0] == pytest.approx(max(rates) / 10)


def test_noam_depends_on_the_width_and_the_factor() -> None:
    assert noam(7, 4 * 512, 4000) == pytest.approx(noam(7, 512, 4000) / 2)
    assert noam(5000, 512, 4000, 0.3) == pytest.approx(0.3 * noam(5000, 512, 4000))


def test_a_cooldown_is_a_line_to_zero_over_the_last_steps() -> None:
    assert [cooldown(step, 10, 4) for step in range(1, 12)] == [1, 1, 1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2, 0]
    assert [cooldown(step, 10, 0) for step in (1, 10, 11)] == [1, 1, 1]


def test_the_rate_of_a_configuration_has_its_factor_and_its_cooldown() -> None:
    """At step 8 of 10 with a cooldown over 4 steps, three fifths of it are left."""
    config = apply_settings(Config(), [f"train.{key}" for key in ("warmup_steps=4", "learning_rate_factor=0.3")])
    assert learning_rate(3, config) == pytest.approx(0.3 * 512**-0.5 * 3 * 4**-1.5)
    config = apply_settings(config, ["train.max_steps=10", "train.cooldown_steps=4"])
    assert learning_rate(8, config) == pytest.approx(0.3 * 512**-0.5 * 8**-0.5 * 0.6)
    assert describe_rate(config) == (
        f"learning rate: rises from 0 to {0.3 * 512**-0.5 / 2:.1e} (init.learning_rate × train.learning_rate_factor "
        f"0.3) at step 4 and falls to {0.3 * 512**-0.5 * 10**-0.5 / 5:.1e} at step 10"
    )


def test_a_rate_in_place_of_eq_3_stays_after_its_warm_up() -> None:
    """It does not depend on d_model: 0.25 × 2, of which a quarter at the first of four steps."""
    settings = ("learning_rate=0.25", "learning_rate_factor=2", "warmup_steps=4")
    config = apply_settings(Config(), [f"train.{each}" for each in settings])
    assert [learning_rate(step, config) for step in (1, 4, 5, 10_000)] == [0.125, 0.5, 0.5, 0.5]
    with pytest.raises(ConfigError, match=r"train\.learning_rate: must be 0 with init\.model"):
        apply_settings(config, ["init.model=general"])
