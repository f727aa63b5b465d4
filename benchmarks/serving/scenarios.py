"""The scenarios of `benchmarks/serve.py`. Each returns the figures that it measured."""

import asyncio
import json
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serving import large_documents as large
from serving.client import Call, Outcome, closed_loop, open_loop, translations
from serving.processes import HOST, SERVICE_CORE, Service, free_port, plain_command, running, service_command

NUM_CLIENTS = 64


@dataclass(frozen=True, slots=True)
class Subject:
    """What is measured: a model in some numbers, and real sentences for it."""

    folder: Path  # for files of the run
    model: Path
    quantization: str
    sentences: list[str]

    @property
    def config(self) -> Path:
        """The configuration of the service, which is also that of `offline`."""
        return self.folder / "serve.toml"

    def service(self) -> "Running":
        """Returns our service, to be started with `with`."""
        port = free_port()
        command = service_command(self.model, port, self.quantization, self.config)
        return Running(command, port, self.folder / "serve.log")

    def plain(self) -> "Running":
        """Returns the plain handler, to be started with `with`."""
        port = free_port()
        command = plain_command(self.model, port, self.quantization, self.config)
        return Running(command, port, self.folder / "plain.log")

    def calls(self, translations: list[str] | None = None) -> list[Call]:
        """Returns a request for each sentence, with its expected answer where translations are given."""
        return [
            Call(
                json.dumps({"q": sentence, "source": "en", "target": "de"}).encode(),
                expected=None if translations is None else {("translatedText",): translations[index]},
            )
            for index, sentence in enumerate(self.sentences)
        ]


class Running:
    """A service and its load."""

    def __init__(self, command: list[str], port: int, log: Path, ready: str = "/ready") -> None:
        """Takes the command that starts it, its port, the file for what it prints, and a path that answers then."""
        self._running, self.port = running(command, port, log, ready=ready), port
        self.service: Service

    def __enter__(self) -> "Running":
        """Starts the service."""
        self.service = self._running.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """Ends the service."""
        self._running.__exit__(None, None, None)

    def closed(self, calls: list[Call], num_clients: int) -> Outcome:
        """Sends each call once, by so many clients."""
        return asyncio.run(closed_loop(HOST, self.port, calls, num_clients))

    def answers(self, calls: list[Call]) -> list[str]:
        """Returns the translation of each call, sent one after another."""
        return asyncio.run(translations(HOST, self.port, calls))

    def open(self, calls: list[Call], rate: float, seconds: float) -> Outcome:
        """Sends calls at random times."""
        return asyncio.run(open_loop(HOST, self.port, calls, rate, seconds))


def offline(subject: Subject) -> tuple[float, float, list[str]]:
    """Returns sentences a second, and a processor second, without a service on its core, and the translations."""
    source, output = subject.folder / "lines.txt", subject.folder / "translations.txt"
    source.write_text("".join(f"{line}\n" for line in subject.sentences), encoding="utf-8")
    printed = _without_service("offline.py", subject, source, output, subject.config)
    translations = output.read_text(encoding="utf-8").splitlines()
    seconds, processor_seconds = map(float, printed.split())
    return len(subject.sentences) / seconds, len(subject.sentences) / processor_seconds, translations


def _without_service(script: str, subject: Subject, *arguments: object) -> str:
    """Runs a script beside this one on the service's core; returns what it prints."""
    command = ["taskset", "--cpu-list", str(SERVICE_CORE), sys.executable, str(Path(__file__).with_name(script))]
    command += [str(subject.model), subject.quantization, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def batches(subject: Subject, rounds: int) -> dict[str, Any]:
    """Measures what a sentence costs in batches of several sizes."""
    source = subject.folder / "lines.txt"
    source.write_text("".join(f"{line}\n" for line in subject.sentences), encoding="utf-8")
    return {"cpu_ms_a_sentence": json.loads(_without_service("batch_cost.py", subject, source, subject.config, rounds))}


def throughput(subject: Subject, rounds: int) -> dict[str, Any]:
    """Compares 64 clients and one client of the service, of the plain handler, and no service, in alternation.

    Each is measured by the clock, and by the processor time of the process, which other work on the machine hardly
    changes.
    """
    measured: dict[str, list[tuple[float, float]]] = {}
    _, _, translations = offline(subject)
    calls = subject.calls(translations)
    few, num_wrong = max(len(calls) // 8, 1), 0

    def add(name: str, per_second: float, per_processor_second: float) -> None:
        measured.setdefault(name, []).append((round(per_second, 2), round(per_processor_second, 2)))
        print(f"  {name}: {per_second:.1f} sentences/s, {per_processor_second:.1f} a processor second", flush=True)

    def load(name: str, running: Running, sent: list[Call], num_clients: int) -> int:
        before = running.service.processor_seconds()
        outcome = running.closed(sent, num_clients)
        answered = len(outcome.seconds)
        add(name, answered / outcome.wall_seconds, answered / (running.service.processor_seconds() - before))
        return outcome.num_wrong + len(sent) - answered

    for _ in range(rounds):
        add("offline", *offline(subject)[:2])
        for name, system, share in (("ours", subject.service(), 1), ("plain handler", subject.plain(), 2)):
            with system as running:
                running.closed(calls[:NUM_CLIENTS], NUM_CLIENTS)
                num_wrong += load(f"{name}, 64 clients", running, calls[: len(calls) // share], NUM_CLIENTS)
                num_wrong += load(f"{name}, one client", running, calls[:few], 1)
    medians = {name: tuple(map(statistics.median, zip(*each, strict=True))) for name, each in measured.items()}

    def ratios(which: int) -> dict[str, float]:
        found = {name: values[which] for name, values in medians.items()}
        return {
            "service_over_offline": round(found["ours, 64 clients"] / found["offline"], 3),
            "service_over_plain_64_clients": round(found["ours, 64 clients"] / found["plain handler, 64 clients"], 2),
            "service_over_plain_one_client": round(found["ours, one client"] / found["plain handler, one client"], 3),
        }

    return {
        "sentences_per_second": {name: values[0] for name, values in medians.items()},
        "sentences_per_processor_second": {name: values[1] for name, values in medians.items()},
        "rounds": measured,
        "wrong_or_missing_answers": num_wrong,
        **ratios(0),
        "by_processor_time": ratios(1),
    }


def threads(subject: Subject, rounds: int) -> dict[str, Any]:
    """Measures which threads take the processor time of a sentence, in ms: the event loop, and the next two by time."""
    found: dict[str, dict[str, float]] = {}
    calls = subject.calls()
    for name, system in (("ours", subject.service), ("plain handler", subject.plain)):
        for clients in (1, NUM_CLIENTS):
            with system() as running:
                running.closed(calls[:NUM_CLIENTS], NUM_CLIENTS)
                before = running.service.seconds_by_thread()
                for _ in range(rounds):
                    running.closed(calls, clients)
                after = running.service.seconds_by_thread()
            sentences = rounds * len(calls)
            taken = {each: 1000 * (after[each] - before.get(each, 0.0)) / sentences for each in after}
            event_loop = taken.pop(running.service.process.pid)
            search, pipeline, *others = sorted(taken.values(), reverse=True)
            parts = {"event loop": event_loop, "search": search, "pipeline": pipeline, "others": sum(others)}
            found[f"{name}, clients: {clients}"] = {key: round(value, 3) for key, value in parts.items()}
            print(f"  {name}, clients: {clients}: {found[f'{name}, clients: {clients}']}", flush=True)
    return found


def latency(subject: Subject, seconds: float) -> dict[str, Any]:
    """Compares requests at half of the greatest throughput with one request alone."""
    calls = subject.calls(offline(subject)[2])
    with subject.service() as ours:
        greatest = _greatest(ours, calls)
        alone = ours.closed(calls[: max(len(calls) // 8, 20)], 1)
        half = ours.open(calls, greatest / 2, seconds)
    return {
        "greatest_per_second": round(greatest, 2),
        "alone": alone.summary(),
        "half_load": half.summary(),
        "p50_over_alone": round(half.percentile(0.5) / alone.percentile(0.5), 2),
        "p99_over_alone": round(half.percentile(0.99) / alone.percentile(0.5), 2),
    }


def beside_bulk(subject: Subject, seconds: float) -> dict[str, Any]:
    """Measures one client of single sentences alone, and beside one that sends requests of 50 sentences."""
    calls = subject.calls(offline(subject)[2])
    texts = [subject.sentences[start : start + 50] for start in range(0, len(subject.sentences), 50)]
    bulk = [Call(json.dumps({"q": each, "source": "en", "target": "de"}).encode()) for each in texts]

    async def both(port: int) -> tuple[Outcome, int]:
        num_bulk, end = 0, time.perf_counter() + seconds

        async def send_bulk() -> None:
            nonlocal num_bulk
            while True:
                for call, sent in zip(bulk, texts, strict=True):
                    await closed_loop(HOST, port, [call], 1)
                    num_bulk += len(sent)

        task, found = asyncio.create_task(send_bulk()), Outcome()
        while time.perf_counter() < end:
            part = await closed_loop(HOST, port, calls[:50], 1)
            found.seconds += part.seconds
            found.statuses += part.statuses
            found.num_wrong += part.num_wrong
            found.wall_seconds += part.wall_seconds
        task.cancel()
        return found, num_bulk

    with subject.service() as ours:
        _greatest(ours, calls)
        alone = ours.closed(calls[: max(len(calls) // 4, 20)], 1)
        beside, num_bulk = asyncio.run(both(ours.port))
    return {
        "alone": alone.summary(),
        "beside_bulk": beside.summary(),
        "bulk_sentences_per_second": round(num_bulk / beside.wall_seconds, 1),
    }


def _greatest(ours: Running, calls: list[Call]) -> float:
    ours.closed(calls[:NUM_CLIENTS], NUM_CLIENTS)
    outcome = ours.closed(calls, NUM_CLIENTS)
    return len(outcome.seconds) / outcome.wall_seconds


def overload(subject: Subject, seconds: float) -> dict[str, Any]:
    """Sends twice what the service can bear; then measures how soon a request takes its usual time again."""
    calls = subject.calls(offline(subject)[2])
    with subject.service() as ours:
        greatest = _greatest(ours, calls)
        alone = ours.closed(calls[:50], 1)
        before = ours.service.memory_mb()
        parts, memory = [], []
        for _ in range(5):
            parts.append(ours.open(calls, 2 * greatest, seconds / 5))
            memory.append(ours.service.memory_mb())
        begin = time.perf_counter()
        while ours.closed(calls[:1], 1).percentile(0.5) > 2 * alone.percentile(0.99):
            if time.perf_counter() - begin > 60:
                break
        recovery = time.perf_counter() - begin
    return {
        "greatest_per_second": round(greatest, 2),
        "alone": alone.summary(),
        "parts": [part.summary() for part in parts],
        "memory_mb": {"before": before, "after_each_part": memory},
        "recovery_seconds": round(recovery, 2),
    }


def soak(subject: Subject, calls: list[Call], seconds: float, share: float = 0.7) -> dict[str, Any]:
    """Sends mixed requests for a long time; every answer must be the expected one, and memory must stay."""
    parts, memory = [], []
    num_parts = 30
    with subject.service() as ours:
        greatest = _greatest(ours, calls)
        for number in range(num_parts):
            parts.append(ours.open(calls, share * greatest, seconds / num_parts))
            memory.append(ours.service.memory_mb())
            print(f"  part {number + 1} of {num_parts}: {json.dumps(parts[-1].summary())}, {memory[-1]} MB", flush=True)
    warm = memory[num_parts // 10 :]
    return {
        "greatest_per_second": round(greatest, 2),
        "requests": sum(sum(part.statuses.values()) for part in parts),
        "answered": sum(len(part.seconds) for part in parts),
        "wrong": sum(part.num_wrong for part in parts),
        "examples_of_wrong": [each for part in parts for each in part.wrong][:10],
        "statuses": {str(s): sum(part.statuses[s] for part in parts) for s in {s for p in parts for s in p.statuses}},
        "p99_ms_first_and_last_part": [parts[0].summary()["p99_ms"], parts[-1].summary()["p99_ms"]],
        "memory_mb": memory,
        "memory_change_after_warm_up": round(max(abs(each / warm[0] - 1) for each in warm), 4),
    }


def stops(subject: Subject, times: int) -> dict[str, Any]:
    """Reloads the model under load, then ends the service by SIGTERM under load.

    A request was accepted if the access log has it. It is lost if its client got no answer. A connection that breaks
    before the service read a request from it, or is refused, is counted apart: HTTP clients send such a request again.
    """
    calls = subject.calls(offline(subject)[2])
    with subject.service() as ours:
        rate = 0.7 * _greatest(ours, calls)
    lost, broken, codes, outcomes = 0, 0, set(), list[Outcome]()
    for number in range(times):
        log = subject.folder / "serve.log"
        log.unlink(missing_ok=True)
        with subject.service() as ours:
            reloaded = asyncio.run(_with_signal(ours, calls, rate, signal.SIGHUP, after=0.5, seconds=4))
            ended = asyncio.run(_with_signal(ours, calls, rate, signal.SIGTERM, after=1.0, seconds=2))
            codes.add(ours.service.process.wait(60))
        outcomes += [reloaded, ended]
        received = reloaded.statuses + ended.statuses
        broken += received.pop(0, 0)
        logged = _logged_requests(log)
        lost += max(0, logged - received.total())
        print(f"  round {number + 1}: {logged} accepted, {received.total()} answered, exit {codes}", flush=True)
    answered = sum((outcome.statuses for outcome in outcomes), start=Counter[int]())
    return {
        "rounds": times,
        "statuses": {str(status): count for status, count in sorted(answered.items())},
        "accepted_without_answer": lost,
        "never_accepted": broken,
        "wrong": sum(outcome.num_wrong for outcome in outcomes),
        "exit_codes": sorted(codes),
    }


def _logged_requests(log: Path) -> int:
    """Returns how many translation requests the access log has."""
    entries = (json.loads(line) for line in log.read_text(encoding="utf-8").splitlines() if line.startswith("{"))
    return sum(entry.get("route") == "/translate" for entry in entries)


async def _with_signal(
    ours: Running, calls: list[Call], rate: float, number: signal.Signals, *, after: float, seconds: float
) -> Outcome:
    asyncio.get_running_loop().call_later(after, ours.service.process.send_signal, number)
    return await open_loop(HOST, ours.port, calls, rate, seconds)


def startup(subject: Subject, repeats: int) -> dict[str, Any]:
    """Measures from the start of the process until /ready answers, and the memory at that time."""
    seconds, memory = [], []
    for _ in range(repeats + 1):
        with subject.service() as ours:
            seconds.append(ours.service.ready_seconds)
            memory.append(ours.service.memory_mb("VmHWM"))
    return {"seconds": round(statistics.median(seconds[1:]), 3), "peak_memory_mb": round(max(memory[1:]), 1)}


def large_documents(subject: Subject, num_paragraphs: int) -> dict[str, Any]:
    """Sends documents of very many paragraphs, and one client's requests meanwhile."""
    with subject.config.open("a", encoding="utf-8") as file:
        file.write("[limits]\ndocument_characters = 100_000_000\ndocument_bytes = 100_000_000\n")
    with subject.service() as ours:
        ours.closed(subject.calls()[:NUM_CLIENTS], NUM_CLIENTS)
        return large.measure(ours.port, subject.sentences, subject.calls(), num_paragraphs)


SCENARIOS: dict[str, Callable[..., dict[str, Any]]] = {
    "batches": batches,
    "throughput": throughput,
    "threads": threads,
    "latency": latency,
    "beside_bulk": beside_bulk,
    "overload": overload,
    "soak": soak,
    "stops": stops,
    "startup": startup,
    "large_documents": large_documents,
}
