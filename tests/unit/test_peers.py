"""Who of several processes failed first: real connections over the loopback, in one process and in several."""

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from transduce.errors import LostPeerError, TrainingError
from transduce.training.peers import Peers


def wait_until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.01)


def connected(count: int, address: str = "127.0.0.1") -> list[Peers]:
    main = Peers(0, address, grace_seconds=600)
    others = [Peers(rank, address, main.port, main.token, grace_seconds=600) for rank in range(1, count)]
    wait_until(lambda: len(main._connections) == count - 1)
    return [main, *others]


def leave(*peers: Peers, error: BaseException | None = None) -> None:
    for each in peers:
        each.__exit__(type(error) if error else None, error, None)


def threads_of_peers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "peers"]


@pytest.mark.parametrize("first", [0, 2])
def test_all_learn_who_failed_first_and_why(first: int, capsys: pytest.CaptureFixture[str]) -> None:
    peers = connected(4)
    leave(peers[first], error=TrainingError("memory ran out."))
    others = [each for each in peers if each.rank != first]
    wait_until(lambda: all(each.failure is not None for each in others))
    leave(others[0], error=TrainingError("a second one"))
    for each in others:
        with pytest.raises(LostPeerError, match=rf"^rank {first} \(on .*\) failed: memory ran out\.$"):
            each.check()
    leave(*others[1:])
    wait_until(lambda: not threads_of_peers())
    assert f"rank {first} (on" in capsys.readouterr().err


def test_who_leaves_in_peace_has_not_failed() -> None:
    peers = connected(3)
    leave(peers[1])
    leaving = threading.Thread(target=leave, args=[peers[0]])
    leaving.start()
    wait_until(lambda: len(peers[0]._connections) == 1)
    assert leaving.is_alive(), "the main process leaves last"
    leave(peers[2])
    leaving.join()
    wait_until(lambda: not threads_of_peers())
    assert [each.failure for each in peers] == [None] * 3


@pytest.mark.parametrize("address", ["localhost", socket.gethostname()])
def test_the_main_process_is_found_by_its_name(address: str) -> None:
    try:
        socket.getaddrinfo(address, 1)
    except socket.gaierror:
        pytest.skip("this machine does not find itself by its name")
    peers = connected(2, address)
    leave(peers[1], peers[0])
    wait_until(lambda: not threads_of_peers())
    assert [each.failure for each in peers] == [None] * 2


def test_strangers_are_not_listened_to() -> None:
    peers = connected(2)
    for said in (b"GET / HTTP/1.1\r\n\r\n", b'{"token": 1, "rank": 1, "host": "x"}\n{"failed": "x"}\n', b'[1]\n"x"\n'):
        with socket.create_connection(("127.0.0.1", peers[0].port)) as stranger:
            stranger.sendall(said)
            stranger.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(100) == b""  # closed, without a word
    assert peers[0].failure is None
    leave(peers[1], peers[0])
    assert peers[1].failure is None
    wait_until(lambda: not threads_of_peers())


PROGRAM = """
import sys, time
from transduce.training.peers import Peers

rank, port, token = map(int, sys.argv[1:])
with Peers(rank, "127.0.0.1", port, token, grace_seconds=0.2):
    print("here", flush=True)
    time.sleep(3600)  # as in a collective that never returns
"""


def other(main: Peers, rank: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", PROGRAM, str(rank), str(main.port), str(main.token)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    return process


def test_a_killed_process_is_named_and_those_that_wait_for_it_are_ended(capsys: pytest.CaptureFixture[str]) -> None:
    main = Peers(0, "127.0.0.1", grace_seconds=600)
    killed, waiting = other(main, 1), other(main, 2)
    wait_until(lambda: len(main._connections) == 2)
    killed.kill()
    killed.communicate(timeout=300)
    _, said = waiting.communicate(timeout=300)
    assert waiting.returncode == TrainingError.exit_code
    assert said.startswith("transduce: error: rank 1 (on ")
    assert "ended without giving a reason" in said
    with pytest.raises(LostPeerError, match="rank 1"):
        main.check()
    leave(main)
    wait_until(lambda: not threads_of_peers())
    assert "rank 1 (on " in capsys.readouterr().err
