"""Clients that disconnect: the work for their requests is cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request

Result = TypeVar("Result")


class ClientLeftError(Exception):
    """The client closed its connection: nobody reads the answer."""


async def while_connected(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Returns the result of `work`; the body of the request must have been read.

    Raises:
        ClientLeftError: the client left before; then `work` was cancelled.
    """
    task, has_left = asyncio.current_task(), False
    assert task is not None

    async def watch() -> None:
        nonlocal has_left
        await disconnection(request)
        has_left = True
        task.cancel()

    watching = asyncio.create_task(watch())
    try:
        return await work
    except asyncio.CancelledError:
        if not has_left or task.uncancel():  # cancelled by another, too
            raise
        raise ClientLeftError from None
    finally:
        watching.cancel()


async def disconnection(request: Request) -> None:
    """Returns when the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
