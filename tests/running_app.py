"""An application that a real HTTP server answers for, in a thread of the test."""

import contextlib
import threading
import time
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

_SECONDS = 30  # to start, and to end


@contextlib.contextmanager
def running(app: ASGIApp) -> Iterator[str]:
    """Runs an application on a free port of this machine; yields its address."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="on", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        end = time.monotonic() + _SECONDS
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            assert time.monotonic() < end, "the server did not start in time"
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(_SECONDS)
        assert not thread.is_alive(), "the server did not end"
