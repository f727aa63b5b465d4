"""What differs between two configurations, or other nested settings, key by key."""

from collections.abc import Collection, Mapping
from typing import Any

from transduce.config.ranges import shown


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested settings on one level: `{"model": {"d_ff": 64}}` becomes `{"model.d_ff": 64}`."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


def differences(
    before: Mapping[str, Any], now: Mapping[str, Any], *, ignore: Collection[str] = ()
) -> dict[str, tuple[Any, Any]]:
    """Returns each key with another value now, and both values; a key that is missing has None.

    Args:
        before: nested settings, such as `to_dict` makes of a configuration.
        now: likewise.
        ignore: keys that do not count, such as "data.folder"; "data.test" stands for all keys below it too.
    """
    old, new = flat(before), flat(now)
    return {
        key: (old.get(key), new.get(key))
        for key in old | new
        if old.get(key) != new.get(key) and not any(f"{key}.".startswith(f"{each}.") for each in ignore)
    }


def describe(changed: Mapping[str, tuple[Any, Any]], *, limit: int = 3) -> str:
    """Returns the first differences in words: "model.d_ff was 512, now 1024; model.dropout was not set, now 0.1"."""
    lines = [f"{key} was {_shown(before)}, now {_shown(now)}" for key, (before, now) in changed.items()]
    return "; ".join(lines[:limit])


def _shown(value: Any) -> str:
    return "not set" if value is None else shown(value)
