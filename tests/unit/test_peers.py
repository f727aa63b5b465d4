"""Who of several processes failed first: real connections over the loopback, in one process and in several."""

import contextlib
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from transduce.errors import LostPeerError, TrainingError
from transduce.training import peers as peers_module
from transduce.training.peers import Failure, Peers
from waiting import wait_until


def connected(count: int, address: str = "127.0.0.1") -> list[Peers]:
    main = Peers(0, address, grace_seconds=600)
    others = [Peers(rank, address, main.port, main.token, grace_seconds=600) for rank in range(1, count)]
    wait_until(lambda: len(main._peers) == count - 1)
    return [main, *others]


def leave(*peers: Peers, error: BaseException | None = None) -> None:
    """Makes all leave at once, as processes do, and waits until they have left."""
    with ThreadPoolExecutor(len(peers)) as pool:
        left = [pool.submit(each.__exit__, type(error) if error else None, error, None) for each in peers]
    for each in left:
        each.result()


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
    leave(*others[1:], error=TrainingError("a third one"))
    wait_until(lambda: not threads_of_peers())
    assert f"rank {first} (on" in capsys.readouterr().err


def test_a_process_that_connects_after_a_failure_learns_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    main, other = connected(2)
    main._fail(Failure(0, "a", "ran out of memory"), own=True)
    late = Peers(2, "127.0.0.1", main.port, main.token, grace_seconds=600)
    wait_until(lambda: other.failure is not None and late.failure is not None)
    for each in (other, late):
        with pytest.raises(LostPeerError, match=r"^rank 0 \(on a\) ran out of memory\.$"):
            each.check()
    leave(main, other, late, error=TrainingError("another"))
    wait_until(lambda: not threads_of_peers())
    capsys.readouterr()


def test_no_process_leaves_before_all_have_finished() -> None:
    """One that leaves earlier closes connections that the last collective of another may still read."""
    peers = connected(3)
    left: list[bool] = []  # which have, when the main one has

    def finish(rank: int) -> None:
        leave(peers[rank])
        if rank == 0:
            left.extend(each._left for each in peers)

    leaving = {rank: threading.Thread(target=finish, args=[rank]) for rank in range(3)}
    for rank in (1, 0):
        leaving[rank].start()
        wait_until(lambda: peers[0]._peers[1].is_done)
        time.sleep(0.2)
        assert not any(each._left for each in peers)
    leaving[2].start()
    for thread in leaving.values():
        thread.join()
    assert left == [True] * 3
    wait_until(lambda: not threads_of_peers())
    assert [each.failure for each in peers] == [None] * 3


@pytest.mark.parametrize("has_said_so", [True, False])
def test_a_process_that_ends_after_the_last_collective_has_not_failed(
    has_said_so: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """The main process, which writes the model for minutes, hears of it and succeeds."""
    main = Peers(0, "127.0.0.1", grace_seconds=0.2)
    ending = other(main, 1, "peers.finish()" if has_said_so else "")
    wait_until(lambda: 1 in main._peers and main._peers[1].is_done == has_said_so)
    main.finish()
    ending.kill()
    ending.communicate(timeout=300)
    wait_until(lambda: not main._peers)
    time.sleep(0.4)  # longer than processes wait before they end
    main.check()
    leave(main)
    assert ("rank 1 (on" in capsys.readouterr().err) != has_said_so
    wait_until(lambda: not threads_of_peers())


def test_the_main_process_fails_after_the_others_have_finished(capsys: pytest.CaptureFixture[str]) -> None:
    """They wait until the model is written, and end as it does."""
    peers = connected(2)
    for each in peers:
        each.finish()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(leave, peers[1])
        leave(peers[0], error=TrainingError("the disk is full."))
    with pytest.raises(LostPeerError, match=r"^rank 0 \(on .*\) failed: the disk is full\. Continue with --resume\.$"):
        waiting.result()
    wait_until(lambda: not threads_of_peers())
    capsys.readouterr()


def test_a_stopped_process_is_named_and_may_go_on(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Within seconds, without an end of the training; one that computes for as long is not named."""
    assert peers_module._SILENT_SECONDS + 2 * peers_module._BEAT_SECONDS < 20
    monkeypatch.setattr(peers_module, "_SILENT_SECONDS", 5.0)
    main = Peers(0, "127.0.0.1", grace_seconds=600)
    stopped, busy = (
        other(main, 1),
        other(main, 2, "deadline = time.monotonic() + 30\n    while time.monotonic() < deadline: pass"),
    )
    wait_until(lambda: len(main._peers) == 2)
    stopped.send_signal(signal.SIGSTOP)
    wait_until(lambda: main._peers[1].is_silent)
    stopped.send_signal(signal.SIGCONT)
    wait_until(lambda: not main._peers[1].is_silent)
    said = capfd.readouterr().err
    assert "rank 1 (on " in said
    assert "does not answer: it is stopped" in said
    assert said.rstrip().endswith("answers again.")
    assert "rank 2" not in said
    assert main.failure is None
    for process in (stopped, busy):
        process.kill()
        process.communicate(timeout=300)
    leave(main)
    wait_until(lambda: not threads_of_peers())


@pytest.mark.parametrize("address", ["localhost", socket.gethostname()])
def test_the_main_process_is_found_by_its_name(address: str) -> None:
    try:
        socket.getaddrinfo(address, 1)
    except socket.gaierror:
        pytest.skip("this machine does not find itself by its name")
    peers = connected(2, address)
    leave(*peers)
    wait_until(lambda: not threads_of_peers())
    assert [each.failure for each in peers] == [None] * 2


def test_strangers_are_not_listened_to() -> None:
    peers = connected(2)
    for said in (
        b"GET / HTTP/1.1\r\n\r\n",
        b'{"token": 1, "rank": 1, "host": "x"}\n{"rank": 1, "host": "x", "reason": "x"}\n',
        b'[1]\n"x"\n',
    ):
        with socket.create_connection(("127.0.0.1", peers[0].port)) as stranger:
            stranger.sendall(said)
            stranger.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(100) == b""  # closed, without a word
    assert peers[0].failure is None
    leave(*peers)
    assert peers[1].failure is None
    wait_until(lambda: not threads_of_peers())


PROGRAM = """
import sys, time
from transduce.training.peers import Failure, Peers

rank, port, token = map(int, sys.argv[1:])
with Peers(rank, "127.0.0.1", port, token, grace_seconds=0.2) as peers:
    print("here", flush=True)
    WORK
    time.sleep(3600)  # as in a collective that never returns
"""


def other(main: Peers, rank: int, work: str = "") -> "subprocess.Popen[str]":
    """Starts another process of these peers; it does its `work` and then waits."""
    command = [sys.executable, "-c", PROGRAM.replace("WORK", work), str(rank), str(main.port), str(main.token)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    return process


def test_a_killed_process_is_named_and_those_that_wait_for_it_are_ended(capsys: pytest.CaptureFixture[str]) -> None:
    main = Peers(0, "127.0.0.1", grace_seconds=600)
    killed, waiting = other(main, 1), other(main, 2)
    wait_until(lambda: len(main._peers) == 2)
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
