"""Which settings a resumed training has."""

from transduce.training.resume import merge_settings


def test_of_two_settings_of_a_key_the_later_one_holds() -> None:
    at_the_start = ["train.max_steps=7", "model.dropout=0.2", "train.max_steps=8"]
    assert merge_settings(at_the_start, ["train.seed=3", "train.max_steps = 9"]) == [
        "train.max_steps = 9",
        "model.dropout=0.2",
        "train.seed=3",
    ]
    assert merge_settings(at_the_start, []) == ["train.max_steps=8", "model.dropout=0.2"]
