"""Who may use the service, and how much: what every protocol calls before it translates."""

import contextlib
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

from transduce.errors import TransduceError
from transduce.serve.operations.keys import ANONYMOUS, Key, KeyRing
from transduce.serve.operations.limits import Budgets, seconds_of_day_left
from transduce.serve.operations.request_record import record_of

Scope = MutableMapping[str, Any]


class AccessError(TransduceError):
    """A client may not do what it asks for; each protocol words it, and chooses the status, in its own way."""


class KeyRequiredError(AccessError):
    """The client sent no key."""


class UnknownKeyError(AccessError):
    """The client sent a key that is not one of ours."""


class LimitError(AccessError):
    """The key has used up its characters."""

    def __init__(self, message: str, retry_after_seconds: int) -> None:
        """Takes the message, and when to try again."""
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class MinuteLimitError(LimitError):
    """The key has used up its characters of the minute."""


class DayLimitError(LimitError):
    """The key has used up its characters of the day."""


class Access:
    """Knows the keys and what each has left."""

    def __init__(self, keys: KeyRing | None, budgets: Budgets, *, required: bool = True) -> None:
        """Takes the keys (None: everybody may use the service), and whether each client needs one."""
        self.keys, self.budgets = keys, budgets
        self.required = required and keys is not None

    def authorise(self, scope: Scope, secret: str | None) -> Key:
        """Returns the key of a client, and notes its name for the access log.

        Args:
            scope: of the request.
            secret: what the client sent, where its protocol has the key; None or "" if nothing.

        Raises:
            KeyRequiredError: there is none, but the service needs one.
            UnknownKeyError: it is wrong. Also where keys are not required: whoever sends one means to be known by it.
        """
        key = ANONYMOUS
        if self.keys is not None and secret:
            found = self.keys.identify(secret)
            if found is None:
                raise UnknownKeyError("This key is not valid.")
            key = found
        elif self.required:
            raise KeyRequiredError("A key is needed.")
        record = record_of(scope)
        record.key_name = key.name
        record.headers = self.budgets.headers(key)
        return key

    @contextlib.asynccontextmanager
    async def charged(self, scope: Scope, key: Key, characters: int) -> AsyncIterator[None]:
        """Charges a key with the characters that this block translates; gives them back if the block raises.

        Raises:
            MinuteLimitError, DayLimitError: the key has none left.
        """
        record = record_of(scope)
        minute = self.budgets.minute(key)
        if minute is not None and minute.left < 1:
            seconds = minute.seconds_until(1)
            raise MinuteLimitError(
                f"This key has used up its {minute.limit:,} characters a minute: try again in {seconds} s.", seconds
            )
        day = await self.budgets.take(key, characters)
        if day is None:
            record.headers = self.budgets.headers(key)
            raise DayLimitError(
                f"This key has used up its {key.characters_per_day:,} characters of today (UTC).", seconds_of_day_left()
            )
        record.characters = characters
        record.headers = self.budgets.headers(key)
        try:
            yield
        except BaseException:
            self.budgets.give_back(key.name, characters, day)  # at midnight it may be another one
            record.characters = 0
            record.headers = self.budgets.headers(key)
            raise
