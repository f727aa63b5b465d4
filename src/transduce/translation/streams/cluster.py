"""Translation on many machines: workers in a Ray cluster, each a process with its own engine.

    with ray_workers("models/m30k", address="auto") as workers:
        translate_file(workers, Path("big.en.zst"), Path("big.de.zst"), FileJob(resume=True))

Windows of lines are sent to the workers. Their rows are sent back and written here, in order, by the code that also
writes those of a single translator. So the file and its journal are the same, byte for byte. A job that was begun on
one machine can be resumed on many, and the other way round. Input and output are on the machine of the command; the
model folder must be on every machine, under one path.
"""

import contextlib
import functools
import inspect
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from transduce.__about__ import __version__
from transduce.bundle import Bundle
from transduce.config import DecodeConfig
from transduce.engines.loading import DRAFT_WAYS, checksums_of, require_engine
from transduce.errors import ConfigError, MissingDependencyError, TransduceError, install_command
from transduce.translation.call_options import LoadOptions, require_folders
from transduce.translation.streams.file_job import translate_window
from transduce.translation.streams.workers import FileRequest, JobFingerprint, Rows, Submit, fingerprint_of, in_order
from transduce.translation.translator import Translator
from transduce.translation.windows import Window

_AHEAD = 3  # windows for each worker: one in work, one waiting for the worker, one waiting to be written
_RESTARTS = 3  # of a worker whose machine or process is lost
_START_SECONDS = 600.0


class Worker:
    """One process with one engine, loaded on first use: Ray restarts a lost worker with these arguments."""

    def __init__(self, model: str, loading: Mapping[str, Any]) -> None:
        self._model, self._loading = model, dict(loading)

    @functools.cached_property
    def _translator(self) -> Translator:
        return Translator.load(self._model, **self._loading)

    def introduce(self, request: FileRequest) -> tuple[str, str, JobFingerprint]:
        """Returns the machine's name, the version of Transduce there, and what rows depend on."""
        return socket.gethostname(), __version__, fingerprint_of(self._translator, request)

    def translate(self, window: Window, request: FileRequest) -> Rows:
        """Returns the rows of a window."""
        _, rows = translate_window(self._translator, request, window)
        return rows


class RayWorkers:
    """Workers in a Ray cluster, as `translate_file` takes them; `ray_workers` starts them.

    Attributes:
        bundle: the model folder, as this machine sees it.
        options: the model's own decoding options.
    """

    def __init__(self, bundle: Bundle, actors: Sequence[Any]) -> None:
        self.bundle = bundle
        self.options: DecodeConfig = bundle.config.decode
        self._actors = actors

    @property
    def num_workers(self) -> int:
        """The number of workers."""
        return len(self._actors)

    def fingerprint(self, request: FileRequest) -> JobFingerprint:
        """Waits until all workers have loaded the model, and returns the fingerprint that they share.

        Raises:
            BundleError: the model is not on a worker's machine.
            ConfigError: workers have other models, engines or versions of Transduce than each other, or do not start.
        """
        import ray

        calls = [actor.introduce.remote(request) for actor in self._actors]
        ready, late = ray.wait(calls, num_returns=len(calls), timeout=_START_SECONDS)
        if late:
            raise ConfigError(
                f"Only {len(ready)} of {len(calls)} workers started within {_START_SECONDS:.0f} s: the cluster's other "
                "processors may be busy ('ray status' shows). Ask for fewer with --workers."
            )
        return _common([_got(call) for call in calls], self.bundle)

    def translate(self, windows: Iterable[Window], request: FileRequest) -> Iterator[tuple[Window, Rows]]:
        """Yields each window with its rows, in order; see `streams.workers.Workers`."""
        return in_order(windows, _dispatcher(self._actors, request), _AHEAD * len(self._actors))


def _dispatcher(actors: Sequence[Any], request: FileRequest) -> Submit:
    """Returns a function that starts a window on the worker that has the least to do."""
    import ray

    shared = ray.put(request)  # once for all windows
    under_way: dict[Any, int] = {}  # the worker of each call that has not ended, as far as known

    def submit(window: Window) -> Callable[[], Rows]:
        if under_way:
            ended, _ = ray.wait(list(under_way), num_returns=len(under_way), timeout=0)
            for call in ended:
                del under_way[call]
        load = Counter(under_way.values())
        actor = min(range(len(actors)), key=lambda index: load[index])
        call = actors[actor].translate.remote(window, shared)
        under_way[call] = actor
        return functools.partial(_got, call)

    return submit


@contextlib.contextmanager
def ray_workers(
    model: str | Path,
    *,
    address: str = "local",
    num_workers: int | None = None,
    **loading: Unpack[LoadOptions],
) -> Iterator[RayWorkers]:
    """Starts workers, each with the model loaded, and ends them with the block.

    Args:
        model: a model folder, there under this path on every machine.
        address: "local" starts Ray on this machine alone; "auto" finds the cluster that this machine is part of;
            "HOST:6379" is a head node, "ray://HOST:10001" one that this machine is no part of.
        num_workers: None: one for each GPU; without GPUs, or with `device` "cpu", as many as there are processors for.
        loading: keywords of `Translator.load`. device "auto" is a GPU if the cluster has any. threads are processors of
            each worker; None is 1. Many workers of one thread do more than few of many.

    Raises:
        BundleError: the model folder is incomplete or damaged.
        ConfigError: there is no cluster at `address`, or it is too small for so many workers.
        MissingDependencyError: Ray is not installed.
    """
    inspect.signature(Translator.load).bind(model, **loading)  # raises TypeError for a keyword that it does not have
    require_folders(loading.get("ensemble", ()))
    ray = imported_ray()
    require_engine(loading.get("engine", "auto"), loading.get("quantization"))  # before anything starts
    bundle = Bundle.load(Path(model))
    device, threads = loading.get("device", "auto"), loading.get("threads") or 1
    with _connected(ray, address) as ours:
        num_cpus, num_gpus = (ray.cluster_resources().get(name, 0) for name in ("CPU", "GPU"))
        on_gpu = device.startswith("cuda") or (device == "auto" and num_gpus >= 1)
        most = int(min(num_cpus // threads, num_gpus) if on_gpu else num_cpus // threads)
        wanted = max(most, 1) if num_workers is None else num_workers
        if not 1 <= wanted <= most:
            raise ConfigError(
                f"{wanted} workers of {threads} thread{'s' * (threads > 1)}{' and a GPU' * on_gpu} each: there is room "
                f"for {most} ({num_cpus:.0f} processors, {num_gpus:.0f} GPUs). "
                "Ask for fewer with --workers, or let more machines join first (ray start --address=…)."
            )
        if device == "auto":
            device = "cuda" if on_gpu else "cpu"
        ensemble = [str(Path(other).absolute()) for other in loading.get("ensemble", ())]
        arguments = {**loading, "device": device, "threads": threads, "ensemble": ensemble}
        if (draft := loading.get("draft")) and draft not in DRAFT_WAYS:
            arguments["draft"] = str(Path(draft).absolute())
        remote = ray.remote(num_cpus=threads, num_gpus=int(on_gpu), max_restarts=_RESTARTS, max_task_retries=_RESTARTS)(
            Worker
        )
        actors = [remote.remote(str(bundle.path.absolute()), arguments) for _ in range(wanted)]
        try:
            yield RayWorkers(bundle, actors)
        finally:
            if not ours:  # otherwise they end with our connection, without a message
                for actor in actors:
                    ray.kill(actor)


def imported_ray() -> Any:
    """Returns the module; raises MissingDependencyError if it is not installed."""
    try:
        import ray
    except ModuleNotFoundError:
        raise MissingDependencyError(
            f"Many machines need Ray, which is not installed here: {install_command('ray')}"
        ) from None
    return ray


@contextlib.contextmanager
def _connected(ray: Any, address: str) -> Iterator[bool]:
    """Joins or starts a cluster, and yields True; False if the program had joined one before."""
    if ray.is_initialized():
        yield False
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would report to its makers
    os.environ.setdefault("RAY_worker_niceness", "0")  # no lower priority than others: the user waits for them
    # Workers are given their device; Ray need not hide the others.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    alone = {"include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error", **alone)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ConfigError(
            f"--ray {address}: no Ray cluster answers ({reason}). Start one with 'ray start --head', or use "
            "--ray local."
        ) from None
    try:
        yield True
    finally:
        ray.shutdown()


def _got(call: Any) -> Any:
    """Waits for what a worker returns; our own errors come back as if they were raised here."""
    import ray
    from ray.exceptions import RayActorError, RayTaskError

    try:
        return ray.get(call)
    except RayTaskError as error:
        if isinstance(error.cause, TransduceError):
            raise error.cause from None
        raise
    except RayActorError as error:
        lines = str(error).strip().splitlines() or [""]
        if error.actor_init_failed:
            raise TransduceError(
                f"A worker did not start ({lines[-1]}). Is the same transduce installed on every machine?"
            ) from None
        raise TransduceError(
            f"A worker was lost {_RESTARTS + 1} times ({lines[0]}). Has its machine enough memory? "
            "Fewer workers need less: --workers."
        ) from None


def _common(introduced: Sequence[tuple[str, str, JobFingerprint]], bundle: Bundle) -> JobFingerprint:
    """Returns the fingerprint of all workers; raises ConfigError if two differ, as the file would be a mixture.

    Their model must be that of `bundle`, too: its options are used, and its translations are expected.
    """
    first_host, first_version, first = introduced[0]
    for host, version, other in introduced:
        for what, one, another in (
            ("the version of Transduce", first_version, version),
            ("the engine", first.engine, other.engine),
            (f"the model in {bundle.path}", dict(first.checksums), dict(other.checksums)),
            ("the calibration", first.calibration, other.calibration),
        ):
            if one != another:
                shown = f": {one} and {another}" if isinstance(one, str) and len(one) < 80 else ""
                raise ConfigError(
                    f"{what} is not the same on {first_host} and {host}{shown}. Make the machines alike: a "
                    "translation must not depend on the machine."
                )
    if not checksums_of(bundle).items() <= first.checksums.items():
        raise ConfigError(
            f"the model in {bundle.path} is not the same here and on {first_host}. Copy the folder there again."
        )
    return first
