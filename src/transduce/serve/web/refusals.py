"""Errors as answers: the HTTP status of each error, and the message for the client."""

from transduce.errors import ConfigError, DataError, TokenizerError, TransduceError
from transduce.serve.requests import TooLongError, UnavailableError, UnknownPairError


class Refusal(TransduceError):
    """A request that is not answered as it was meant to be: a status from 400 on, a code and a message."""

    def __init__(self, status: int, code: str, message: str, retry_after_seconds: int | None = None) -> None:
        """Takes the HTTP status, a short name of the reason, the message, and when it may be tried again."""
        super().__init__(message)
        self.status, self.code, self.retry_after_seconds = status, code, retry_after_seconds

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the answer."""
        headers = {} if self.retry_after_seconds is None else {"Retry-After": str(self.retry_after_seconds)}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        if self.status in (408, 413):  # the rest of the body is not read
            headers["Connection"] = "close"
        return headers


def bad_request(message: str, code: str = "bad_request") -> Refusal:
    """Returns the refusal of a request that its client has to change."""
    return Refusal(400, code, message)


def refusal_of(error: Exception) -> Refusal | None:
    """Returns an error as a refusal; None if a client can do nothing about it, and may not know about it."""
    match error:
        case Refusal():
            return error
        case UnknownPairError():
            return bad_request(str(error), "unknown_pair")
        case TooLongError():
            return bad_request(str(error), "too_long")
        case UnavailableError():
            return Refusal(503, "unavailable", str(error), error.retry_after_seconds)
        case ConfigError() | DataError() | TokenizerError():
            return bad_request(str(error))
    return None
