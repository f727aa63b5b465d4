"""A Python that starts with PyTorch loaded: tests that start many trainings save seconds of each.

`warm_interpreter` makes a command that takes the arguments of `python`. What it starts is forked from a process that
has imported what a training needs; it has the command's arguments, environment, folder and standard streams, and the
command ends as it does. Signals that can be handled are passed on. Where a test is about the start of a process or its
memory, it uses `sys.executable`; where it is about its last moments, that or `END_WITH_PYTHON`.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

END_WITH_PYTHON = {"WARM_START_END": "python"}
"""In the environment of the command: the process takes down its modules, as Python does. It takes a second."""

_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@contextlib.contextmanager
def warm_interpreter(path: Sequence[str] | None = None, modules: Sequence[str] = ()) -> Iterator[Path]:
    """Yields the command.

    Args:
        path: the folders to import from, before those of every Python; default: this process's.
        modules: more to import than PyTorch and what a training needs.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="warm-")))  # a short path: it has a socket
        command = folder / "python"
        program = shlex.join([sys.executable, "-I", "-S", __file__, str(folder / "socket")])
        command.write_text(f'#!/bin/sh\nexec {program} "$@"\n', encoding="utf-8")
        command.chmod(0o755)
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(folder / "socket"))
        listener.listen()
        server = subprocess.Popen(
            [sys.executable, "-P", __file__, "--serve", str(listener.fileno()), *modules],
            pass_fds=[listener.fileno()],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path if path is None else path))},
            stdin=subprocess.PIPE,  # its end tells the process to stop
        )
        stack.callback(server.communicate)
        listener.close()  # the server has its own: where that has ended, the command fails and does not wait for ever
        yield command


def _serve(listener: socket.socket, modules: Sequence[str]) -> list[str]:
    """Forks at each request; returns the arguments of the program, in the process that is to run it."""
    import torch._dynamo  # noqa: F401  an optimiser needs it

    import transduce.evaluation.bleu
    import transduce.runs

    with contextlib.suppress(ModuleNotFoundError):  # of tensorboard, which a test may hide
        import transduce.training.event_file  # noqa: F401
    for name in modules:
        importlib.import_module(name)
    gc.freeze()  # collections in the forked processes leave alone, and so share, what is here
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            with contextlib.suppress(ChildProcessError):
                while True:
                    os.wait()
            os._exit(0)
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            return _begin(connection)
        connection.close()


def _begin(connection: socket.socket) -> list[str]:
    """Reads a request and forks the process of its program; the other process waits for it and reports its end."""
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    with connection.makefile("rb") as file:
        request = json.loads(file.readline())
    child = os.fork()
    if child:
        _wait(connection, child)
    connection.close()
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path += [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path not in sys.path]
    return list(request["arguments"])


def _wait(connection: socket.socket, child: int) -> None:
    """Says which process it is and how it ended; ends it where nobody wants to know any more."""
    connection.sendall(b"%d\n" % child)
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if select.select([connection], [], [], 0.02)[0]:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            break
    with contextlib.suppress(OSError):
        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _run(arguments: list[str]) -> None:
    """Runs `python ARGUMENTS`."""
    is_safe = arguments[0] == "-P"
    kind, *given = arguments[is_safe:]
    if kind == "-c":
        sys.argv = ["-c", *given[1:]]
        exec(compile(given[0], "<string>", "exec"), {"__name__": "__main__"})
    elif kind == "-m":
        sys.argv = given
        if not is_safe:
            sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(given[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path.insert(0, str(Path(kind).parent))
        runpy.run_path(kind, run_name="__main__")


def _run_and_end(arguments: list[str]) -> NoReturn:
    """Runs it and ends as Python does, but takes down modules only on request: see `END_WITH_PYTHON`."""
    code: object = 0
    try:
        _run(arguments)
    except SystemExit as ended:
        code = ended.code
    except BaseException as error:
        code = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
        sys.excepthook(*sys.exc_info())
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    if END_WITH_PYTHON.items() <= os.environ.items():
        sys.exit(code)
    threading._shutdown()  # type: ignore[attr-defined]  # waits for the threads that are no daemons
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = 120
    if code == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code or 0)


def _request(address: str, arguments: list[str]) -> None:
    """What the command does: asks for the process, passes signals on to it, and ends as it did."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        socket.send_fds(connection, [b"+"], [0, 1, 2])
        request = {"arguments": arguments, "environment": dict(os.environ), "folder": str(Path.cwd())}
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as file:
            process = int(file.readline())
            for number in _PASSED_ON:
                signal.signal(number, lambda received, _: os.kill(process, received))
            code = int(file.readline())
    if code < 0:
        if -code in _PASSED_ON:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        _run_and_end(_serve(socket.socket(fileno=int(sys.argv[2])), sys.argv[3:]))
    else:
        _request(sys.argv[1], sys.argv[2:])
