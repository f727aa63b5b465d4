"""Who may use the service, and how much: what every protocol calls before it translates."""

import contextlib
import time
from collections.abc import AsyncIterator, Callable
from ipaddress import IPv6Address, ip_address, ip_network

from starlette.types import Scope

from transduce.errors import TransduceError
from transduce.serve.operations.keys import ANONYMOUS, Key, KeyRing
from transduce.serve.operations.limits import Budgets, MinuteBudget, seconds_of_day_left
from transduce.serve.operations.request_record import record_of

_WRONG_KEYS = 10  # a minute from one address
_MAX_ADDRESSES = 10_000  # that are remembered


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


class WrongKeysError(LimitError):
    """The client's address has sent too many wrong keys."""


class KeyChecks:
    """Limits how many wrong keys an address may send, so that keys cannot be guessed.

    Above the limit every key, right or wrong, gets the same answer, except those that the address has used before: of
    clients that share an address, one with a wrong key does not stop the others.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Takes a function that returns the time in seconds."""
        self._clock = clock
        self._known: dict[str, tuple[MinuteBudget, set[str]]] = {}  # by address: what is left, and the accepted keys

    def check(self, address: str, key: Key | None) -> Key:
        """Returns the key that a secret from an address belongs to; None: to none.

        Raises:
            UnknownKeyError: it is wrong.
            WrongKeysError: too many were.
        """
        network = _network(address)
        budget, accepted = self._known.pop(network, (MinuteBudget(_WRONG_KEYS, self._clock), set()))
        self._known[network] = budget, accepted  # as the last: the first is the one that was silent for longest
        if len(self._known) > _MAX_ADDRESSES:
            del self._known[next(iter(self._known))]
        if key is not None and key.sha256 in accepted:
            return key
        if budget.left < 1:
            seconds = budget.seconds_until(1)
            raise WrongKeysError(f"Too many wrong keys came from this address: try again in {seconds} s.", seconds)
        if key is None:
            budget.change(1)
            raise UnknownKeyError("This key is not valid.")
        accepted.add(key.sha256)
        return key


def _network(address: str) -> str:
    """Returns an address; of IPv6 its network of 64 bits, all of which one client may have."""
    try:
        parsed = ip_address(address)
    except ValueError:  # none that the network knows
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(ip_network((parsed, 64), strict=False))
    return address


class Access:
    """Knows the keys and what each has left."""

    def __init__(self, keys: KeyRing | None, budgets: Budgets, *, required: bool = True) -> None:
        """Takes the keys (None: everybody may use the service), and whether each client needs one."""
        self.keys, self.budgets = keys, budgets
        self.required = required and keys is not None
        self._checks = KeyChecks()

    def authorise(self, scope: Scope, secret: str | None) -> Key:
        """Returns the key of a client, and notes its name for the access log.

        Args:
            scope: of the request.
            secret: what the client sent, where its protocol has the key; None or "" if nothing.

        Raises:
            KeyRequiredError: there is none, but the service needs one.
            UnknownKeyError: it is wrong. Also where keys are not required: whoever sends one means to be known by it.
            WrongKeysError: too many wrong ones came from its address.
        """
        key = ANONYMOUS
        if self.keys is not None and secret:
            client = scope.get("client")
            key = self._checks.check(client[0] if client else "", self.keys.identify(secret))
        elif self.required:
            raise KeyRequiredError("A key is needed.")
        record = record_of(scope)
        record.key_name = key.name
        record.headers = self.budgets.headers(key)
        return key

    def key_named(self, name: str) -> Key:
        """Returns the key of an owner of documents; raises UnknownKeyError where there is none any more."""
        if not name:
            return ANONYMOUS
        found = self.keys.named(name) if self.keys is not None else None
        if found is None:
            raise UnknownKeyError("The key that sent this is not valid any more.")
        return found

    def require_characters(self, key: Key) -> None:
        """Raises MinuteLimitError where a key has none left of this minute."""
        minute = self.budgets.minute(key)
        if minute is not None and minute.left < 1:
            seconds = minute.seconds_until(1)
            raise MinuteLimitError(
                f"This key has used up its {minute.limit:,} characters a minute: try again in {seconds} s.", seconds
            )

    @contextlib.asynccontextmanager
    async def charged(self, scope: Scope, key: Key, characters: int) -> AsyncIterator[None]:
        """Charges a key with the characters that this block translates; gives them back if the block raises.

        Raises:
            MinuteLimitError, DayLimitError: the key has none left.
        """
        record = record_of(scope)
        self.require_characters(key)
        day = await self.budgets.take(key, characters)
        record.headers = self.budgets.headers(key)
        if day is None:
            raise day_limit_error(key, "today")
        record.characters = characters
        try:
            yield
        except BaseException:
            self.budgets.refund(key.name, characters, day)  # at midnight it may be another one
            record.characters = 0
            record.headers = self.budgets.headers(key)
            raise


def day_limit_error(key: Key, day: str) -> DayLimitError:
    """Returns the error of a key that has no characters left of a day."""
    message = f"This key has used up its {key.characters_per_day:,} characters of {day} (UTC)."
    return DayLimitError(message, seconds_of_day_left())
