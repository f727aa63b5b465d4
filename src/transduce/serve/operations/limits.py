"""How many characters a key may translate: a budget for each minute, and one for each day."""

import asyncio
import contextlib
import logging
import math
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from transduce.serve.operations.keys import Key
from transduce.serve.state.database import StateError
from transduce.serve.state.store import Store

_MINUTE_SECONDS = 60.0
_DAY_SECONDS = 86_400
_SAVE_SECONDS = 1.0
_LOG = logging.getLogger("transduce.serve")


class MinuteBudget:
    """A budget that is always being refilled, up to the characters of one minute.

    A request passes while anything is left, even if it takes more than that. The debt is paid off before the next one
    passes. So a text that is longer than a minute's characters can be translated too, and the average stays.
    """

    def __init__(self, characters_per_minute: int, clock: Callable[[], float]) -> None:
        """Takes the characters of a minute, and a function that returns the time in seconds."""
        self.limit = characters_per_minute
        self._clock = clock
        self._left, self._at = float(characters_per_minute), clock()

    @property
    def left(self) -> float:
        """The characters that are left now; negative where they were overdrawn."""
        now = self._clock()
        self._left = min(float(self.limit), self._left + (now - self._at) * self.limit / _MINUTE_SECONDS)
        self._at = now
        return self._left

    def change(self, characters: int) -> None:
        """Takes characters, or gives them back where negative."""
        self._left = self.left - characters

    def seconds_until(self, characters: float) -> int:
        """Returns after how many whole seconds this many characters are left."""
        return max(0, math.ceil((characters - self.left) * _MINUTE_SECONDS / self.limit))


class Usage:
    """The characters of each key on each day: counted in memory, and added to the store every second.

    Those of a key with a limit are added to the store before they are used, so that replicas spend a limit once.
    The service keeps running when the store fails: counts stay in memory until it is available again, and each replica
    applies the limit to the counts that it knows.
    """

    def __init__(self, store: Store, on_failure: Callable[[], None], today: Callable[[], str] | None = None) -> None:
        """Takes the store, a function that is called when it fails, and one that returns the day."""
        self._store, self._on_failure = store, on_failure
        self._today = today or (lambda: datetime.now(UTC).strftime("%Y-%m-%d"))
        self._unsaved: dict[str, Counter[str]] = {}  # by day, by name of the key
        self._saved: dict[str, Counter[str]] = {}  # the totals that the store returned last
        self._saving = asyncio.Lock()

    async def load(self) -> None:
        """Reads what was counted today before this service started. Raises StateError where the store fails."""
        day = self._today()
        self._saved[day] = Counter(await asyncio.to_thread(self._store.usage_of_day, day))

    async def take(self, name: str, characters: int, limit: int) -> str | None:
        """Counts characters of a key if fewer than `limit` were counted today in all replicas; 0 for no limit.

        Args:
            name: of the key.
            characters: how many.
            limit: of the day.

        Returns:
            The day; None where the key has none left.
        """
        day = self._today()
        if limit and not self._store.is_failing:
            left = limit - self._unsaved.get(day, Counter())[name]
            if left <= 0:
                return None
            take = partial(self._store.take_usage, day, name, characters, left)
            taking = asyncio.ensure_future(asyncio.to_thread(take))
            try:
                taken, total = await asyncio.shield(taking)
            except StateError:
                self._on_failure()
            except asyncio.CancelledError:  # the client left, and the store may count them yet
                with contextlib.suppress(StateError):
                    if (await taking)[0]:
                        self.change(name, -characters, day)
                raise
            else:
                self.note(name, total, day)
                return day if taken else None
        if limit and self.known(name, day) >= limit:
            return None
        return self.change(name, characters, day)

    def change(self, name: str, characters: int, day: str | None = None) -> str:
        """Counts characters of a key; negative where they are given back.

        Args:
            name: of the key.
            characters: how many.
            day: on which they were counted; None: today.

        Returns:
            The day.
        """
        day = day or self._today()
        self._unsaved.setdefault(day, Counter())[name] += characters
        return day

    def note(self, name: str, total: int, day: str) -> None:
        """Notes what the store has of a key on a day."""
        self._saved.setdefault(day, Counter())[name] = total

    def of_today(self, name: str) -> int:
        """Returns the characters of a key today, as far as known here."""
        return self.known(name, self._today())

    def known(self, name: str, day: str) -> int:
        """Returns the characters of a key on a day, as far as known here."""
        return sum(counts[day][name] for counts in (self._unsaved, self._saved) if day in counts)

    async def total_of_today(self, name: str) -> int:
        """Returns the characters of a key today in all replicas, or as far as known here where the store fails."""
        day = self._today()
        try:
            saved = await asyncio.to_thread(self._store.usage, name, day, day)
        except StateError:
            return self.of_today(name)
        return max(saved + self._unsaved.get(day, Counter())[name], self.of_today(name))

    async def save(self) -> bool:
        """Adds what was counted to the store; returns whether it could."""
        async with self._saving:  # a document that is charged saves, too
            for day in sorted(self._unsaved):
                counted = self._unsaved.pop(day)
                self._saved.setdefault(day, Counter()).update(counted)  # so that `of_today` counts them meanwhile
                try:
                    totals = await asyncio.to_thread(self._store.add_usage, day, counted)
                except StateError:
                    self._saved[day].subtract(counted)
                    self._unsaved.setdefault(day, Counter()).update(counted)
                    self._on_failure()
                    return False
                for name, total in totals.items():
                    self._saved[day][name] = total
            for day in [day for day in self._saved if day != self._today()]:
                del self._saved[day]
            return True

    async def keep_saving(self) -> None:
        """Saves every second until cancelled, and once more then."""
        saving: asyncio.Task[bool] | None = None
        try:
            while True:
                await asyncio.sleep(_SAVE_SECONDS)
                saving = asyncio.create_task(self.save())
                await asyncio.shield(saving)  # what it saves would be lost where the store then fails
        finally:
            if saving is not None:
                await saving
            if not await self.save():
                unsaved = sum(sum(counts.values()) for counts in self._unsaved.values())
                _LOG.error("the store failed: the usage of the last %d characters is lost", unsaved)


class Budgets:
    """What each key has left. Keys without limits have no budget."""

    def __init__(self, usage: Usage, clock: Callable[[], float] = time.monotonic) -> None:
        """Takes the usage of the day, and a function that returns the time in seconds."""
        self.usage = usage
        self._clock = clock
        self._minutes: dict[str, MinuteBudget] = {}

    def minute(self, key: Key) -> MinuteBudget | None:
        """Returns the budget of the minute; None where the key has no such limit."""
        if not key.characters_per_minute:
            return None
        budget = self._minutes.get(key.name)
        if budget is None or budget.limit != key.characters_per_minute:  # it has changed with the file of keys
            budget = self._minutes[key.name] = MinuteBudget(key.characters_per_minute, self._clock)
        return budget

    def left_today(self, key: Key) -> int | None:
        """Returns the characters that are left of the day; None where the key has no such limit."""
        return max(0, key.characters_per_day - self.usage.of_today(key.name)) if key.characters_per_day else None

    async def take(self, key: Key, characters: int) -> str | None:
        """Takes characters from the budgets of a key; see `Usage.take`."""
        budget = self.minute(key)
        if budget is not None:
            budget.change(characters)  # first: other requests of the key come meanwhile
        taken = None
        try:
            taken = await self.usage.take(key.name, characters, key.characters_per_day)
        finally:
            if taken is None and budget is not None:
                budget.change(-characters)
        return taken

    def note_taken(self, key: Key, characters: int, total: int, day: str) -> None:
        """Takes characters that the store has counted already: it had `total` of the key on that day then."""
        budget = self.minute(key)
        if budget is not None:
            budget.change(characters)
        self.usage.note(key.name, total, day)

    def refund(self, name: str, characters: int, day: str) -> None:
        """Refunds characters to a key, perhaps long after they were taken, on the day when that was."""
        budget = self._minutes.get(name)
        if budget is not None:
            budget.change(-characters)
        self.usage.change(name, -characters, day)

    def headers(self, key: Key) -> list[tuple[bytes, bytes]]:
        """Returns the headers for the client, as in the IETF's draft of RateLimit header fields.

        `RateLimit-Policy` has for each limit its quota and its window in seconds; `RateLimit` has what remains, and
        the seconds until the whole quota is available again.
        """
        policies, states = [], []
        budget = self.minute(key)
        if budget is not None:
            policies.append(f'"minute";q={budget.limit};w={_MINUTE_SECONDS:.0f}')
            states.append(f'"minute";r={max(0, int(budget.left))};t={budget.seconds_until(budget.limit)}')
        left = self.left_today(key)
        if left is not None:
            policies.append(f'"day";q={key.characters_per_day};w={_DAY_SECONDS}')
            states.append(f'"day";r={left};t={seconds_of_day_left()}')
        if not states:
            return []
        return [(b"ratelimit-policy", ", ".join(policies).encode()), (b"ratelimit", ", ".join(states).encode())]


def seconds_of_day_left() -> int:
    """Returns the seconds until midnight, UTC."""
    return _DAY_SECONDS - int(time.time()) % _DAY_SECONDS
