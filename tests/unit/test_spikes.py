"""When a loss is a spike."""

import random

import pytest

from transduce.training.spikes import RecentSteps


def test_the_limit_by_hand() -> None:
    """Median 5, median distance 0.5."""
    recent = RecentSteps([4.0, 4.5, 5.0, 5.5, 6.0] * 4)
    assert recent.limit(8.0) == pytest.approx(5.0 + 8 * 1.4826 * 0.5)


def test_a_few_steps_tell_nothing() -> None:
    recent = RecentSteps()
    for _ in range(19):
        recent.add(5.0)
    assert recent.limit(8.0) is None
    recent.add(5.0)
    assert recent.limit(8.0) == pytest.approx(5.0 + 8 * 0.25)  # equal losses: a twentieth of the median


def test_the_last_hundred_count_and_one_spike_moves_little() -> None:
    recent = RecentSteps()
    for loss in range(1, 301):
        recent.add(float(loss))
    assert recent.losses == [float(loss) for loss in range(201, 301)]
    before = recent.limit(8.0)
    recent.add(1e6)
    assert recent.limit(8.0) == pytest.approx(before, rel=0.02)


def test_losses_that_fall_with_noise_are_no_spikes() -> None:
    """As of a training: from 9 to 4, with batches of short and of long sentences."""
    generator = random.Random(1)
    recent, spikes = RecentSteps(), 0
    for step in range(2000):
        loss = 4 + 5 * 0.997**step + generator.gauss(0, 0.15)
        limit = recent.limit(8.0)
        spikes += limit is not None and loss > limit
        recent.add(loss)
    assert spikes == 0


def test_an_update_that_was_made_ends_a_row_of_those_left_out() -> None:
    assert (RecentSteps().skipped, RecentSteps().losses) == (0, [])
    recent = RecentSteps(skipped=7)
    recent.add(1.0)
    assert recent.skipped == 0


@pytest.mark.parametrize("wrong", [{"losses": 3}, {"losses": [1, "2"]}, {"skipped": "1"}, {"skipped": None}])
def test_what_no_checkpoint_holds_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="recent"):
        RecentSteps(**wrong)  # type: ignore[arg-type]
