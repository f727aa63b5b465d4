"""Causality (§3.2.3): the prediction at a position depends on the tokens before it, and on no later one."""

from random import Random

from transduce.reporting.tables import counted
from transduce.verification.differences import Differences
from transduce.verification.findings import Finding
from transduce.verification.model_under_test import NUM_SPECIAL, ModelUnderTest, Pairs, forced


def causality(tested: ModelUnderTest) -> Finding:
    """Changes targets from a position on: predictions up to it must stay the same, and a later one must change.

    Row t of the log-probabilities predicts target token t from those before it, so a change from token c on may show in
    rows c + 1 and later only.
    """
    model, pairs = tested.engine.model, tested.pairs
    before = forced(model, pairs)
    seen, after = Differences(), Differences()
    cuts = _cuts(max(map(len, pairs.targets)), tested.settings.num_changes)
    for cut in cuts:
        changed = forced(model, _changed(tested, pairs, cut))
        for row, (old_TV, new_TV) in enumerate(zip(before, changed, strict=True)):
            if len(pairs.targets[row]) < cut + 2:  # no input token was changed: the last one is never an input
                continue
            name = f"{pairs.names[row]}, with its target changed from token {cut + 1} on"
            seen.compare(old_TV[: cut + 1], new_TV[: cut + 1], f"{name}, position {{}}")
            after.compare(old_TV[cut + 1 :], new_TV[cut + 1 :], name)
    if after.count and after.worst == 0:
        seen.faults.append("no later prediction changes: the decoder does not read its own output")
    compared = f"{counted(len(pairs), 'sentence')}, targets changed from {counted(len(cuts), 'position')} on"
    return seen.finding(compared, tested.settings.log_probability, f"after the change up to {after.worst:.3g}")


def _cuts(longest: int, number: int) -> list[int]:
    """Returns at most `number` positions spread over a target, the first among them."""
    last = max(longest - 2, 0)
    return sorted({index * last // max(number - 1, 1) for index in range(number)})


def _changed(tested: ModelUnderTest, pairs: Pairs, cut: int) -> Pairs:
    """Returns the pairs with every target token from `cut` on, but the EOS at the end, replaced by another one."""
    random, ordinary = Random(cut), tested.bundle.config.model.vocab_size - NUM_SPECIAL

    def other(token: int) -> int:
        return NUM_SPECIAL + (token - NUM_SPECIAL + random.randrange(1, ordinary)) % ordinary

    targets = tuple((*target[:cut], *map(other, target[cut:-1]), target[-1]) for target in pairs.targets)
    targets = tuple(new if len(old) > cut else old for new, old in zip(targets, pairs.targets, strict=True))
    return Pairs(pairs.names, pairs.sources, targets)
