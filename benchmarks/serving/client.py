"""A load generator for HTTP services: closed loops and open loops, on few cycles of one core.

In a closed loop each client sends its next request when it has the answer to the last: it measures throughput. In an
open loop requests arrive when they arrive, however long the others take: it measures waiting. Seconds of a request
count from the time at which it should have been sent, so that a slow service cannot hide behind a late client.
"""

import asyncio
import json
import random
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """One request to send, and what its answer must be."""

    body: bytes
    path: str = "/translate"
    content_type: str = "application/json"
    expected: dict[tuple[str | int, ...], Any] | None = None  # parts of the JSON answer, by the way to them


@dataclass(slots=True)
class Outcome:
    """What came of the requests of one run."""

    seconds: list[float] = field(default_factory=list)  # of each request that was answered with 200
    refused_seconds: list[float] = field(default_factory=list)  # of each that was answered with 503
    statuses: Counter[int] = field(default_factory=Counter)  # 0: the connection broke
    wrong: list[str] = field(default_factory=list)  # answers that are not what they must be; the first ten
    num_wrong: int = 0
    wall_seconds: float = 0.0
    late_seconds: float = 0.0  # the greatest delay of the generator itself

    def percentile(self, share: float) -> float:
        """Returns the seconds within which this share of the accepted requests was answered."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")

    def summary(self) -> dict[str, Any]:
        """Returns the figures for a result file."""
        accepted = len(self.seconds)
        found: dict[str, Any] = {"answered": accepted, "per_second": round(accepted / self.wall_seconds, 2)}
        if self.seconds:
            found |= {
                "mean_ms": round(1000 * statistics.fmean(self.seconds), 1),
                "p50_ms": round(1000 * self.percentile(0.5), 1),
                "p99_ms": round(1000 * self.percentile(0.99), 1),
                "max_ms": round(1000 * max(self.seconds), 1),
            }
        if self.refused_seconds:
            slowest = sorted(self.refused_seconds)[int(0.99 * (len(self.refused_seconds) - 1))]
            found |= {"refused": len(self.refused_seconds), "refused_p99_ms": round(1000 * slowest, 1)}
        found["statuses"] = {str(status): count for status, count in sorted(self.statuses.items())}
        found |= {"wrong": self.num_wrong, "generator_late_ms": round(1000 * self.late_seconds, 1)}
        return found


class Connection:
    """One kept-alive connection; as much of HTTP/1.1 as these services answer with."""

    def __init__(self, host: str, port: int) -> None:
        """Takes the address of the service."""
        self._host, self._port = host, port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def send(self, call: Call) -> tuple[int, bytes]:
        """Returns the status and the body of the answer; status 0 where the connection broke."""
        try:
            if self._reader is None or self._writer is None:
                self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
            head = (
                f"POST {call.path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: {call.content_type}\r\n"
                f"Content-Length: {len(call.body)}\r\n\r\n"
            )
            self._writer.write(head.encode() + call.body)
            return await self._answer(self._reader)
        except (OSError, asyncio.IncompleteReadError):
            await self.close()
            return 0, b""

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[int, bytes]:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        status, length = int(head.split(" ", 2)[1]), 0
        for line in head.split("\r\n")[1:]:
            name, _, value = line.partition(":")
            if name == "content-length":
                length = int(value)
        body = await reader.readexactly(length)
        if "connection: close" in head:
            await self.close()
        return status, body

    async def close(self) -> None:
        """Closes the connection; the next request opens another."""
        writer, self._reader, self._writer = self._writer, None, None
        if writer is not None:
            writer.close()


def record(outcome: Outcome, call: Call, status: int, body: bytes, seconds: float) -> None:
    """Adds one answer to the outcome."""
    outcome.statuses[status] += 1
    if status == 200:
        outcome.seconds.append(seconds)
        if call.expected is not None:
            answer = json.loads(body)
            if any(_part(answer, way) != value for way, value in call.expected.items()):
                outcome.num_wrong += 1
                if len(outcome.wrong) < 10:
                    outcome.wrong.append(f"{call.body!r} gave {body!r}, not {call.expected!r}")
    elif status == 503:
        outcome.refused_seconds.append(seconds)


def _part(answer: Any, way: tuple[str | int, ...]) -> Any:
    for step in way:
        answer = answer[step]
    return answer


async def closed_loop(host: str, port: int, calls: Sequence[Call], num_clients: int) -> Outcome:
    """Sends each call once, `num_clients` at a time."""
    outcome, waiting = Outcome(), iter(calls)

    async def client() -> None:
        connection = Connection(host, port)
        for call in waiting:
            start = time.perf_counter()
            status, body = await connection.send(call)
            record(outcome, call, status, body, time.perf_counter() - start)
        await connection.close()

    begin = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(num_clients)))
    outcome.wall_seconds = time.perf_counter() - begin
    return outcome


async def translations(host: str, port: int, calls: Sequence[Call]) -> list[str]:
    """Returns the `translatedText` of each call, sent one after another."""
    connection, found = Connection(host, port), []
    for call in calls:
        status, body = await connection.send(call)
        if status != 200:
            raise RuntimeError(f"{call.body!r} got the status {status}: {body[:500]!r}")
        found.append(json.loads(body)["translatedText"])
    await connection.close()
    return found


async def open_loop(
    host: str, port: int, calls: Sequence[Call], rate: float, seconds: float, *, seed: int = 0
) -> Outcome:
    """Sends calls, again and again from the first, at random times: `rate` a second on average (Poisson)."""
    outcome, generator, free = Outcome(), random.Random(seed), list[Connection]()
    running: set[asyncio.Task[None]] = set()
    begin = time.perf_counter()

    async def one(call: Call, due: float) -> None:
        connection = free.pop() if free else Connection(host, port)
        status, body = await connection.send(call)
        record(outcome, call, status, body, time.perf_counter() - due)
        free.append(connection)

    due, number = begin, 0
    while due < begin + seconds:
        due += generator.expovariate(rate)
        if (wait := due - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        outcome.late_seconds = max(outcome.late_seconds, time.perf_counter() - due)
        task = asyncio.create_task(one(calls[number % len(calls)], due))
        running.add(task)
        task.add_done_callback(running.discard)
        number += 1
    await asyncio.gather(*running)
    outcome.wall_seconds = time.perf_counter() - begin
    for connection in free:
        await connection.close()
    return outcome
