"""Clients that leave: what was begun for them is given up."""

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
    task = asyncio.create_task(work)
    watch = asyncio.create_task(disconnection(request))
    try:
        await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientLeftError
        return task.result()
    finally:
        task.cancel()
        watch.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)


async def disconnection(request: Request) -> None:
    """Returns when the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
