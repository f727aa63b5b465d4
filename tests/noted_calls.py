"""Fakes in the place of what does the work, which note how they were called."""

from collections.abc import Callable
from typing import Any

import pytest

Calls = list[tuple[tuple[Any, ...], dict[str, Any]]]
Noting = Callable[..., Calls]


def noting_in(monkeypatch: pytest.MonkeyPatch) -> Noting:
    """Returns a function that puts a fake in the place of another, and returns the list of its calls."""

    def put(place: str | tuple[Any, str], result: Any = None) -> Calls:
        calls: Calls = []

        def fake(*args: Any, **options: Any) -> Any:
            calls.append((args, options))
            return result

        if isinstance(place, str):
            monkeypatch.setattr(place, fake)
        else:
            monkeypatch.setattr(*place, fake)
        return calls

    return put
