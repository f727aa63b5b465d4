"""Imports one package of another system in a process of its own.

So an import takes no memory and no time of Python's lock from a service that runs, and one that fails in native code,
or for lack of memory, ends itself only.
"""

import multiprocessing
import signal
from multiprocessing.connection import Connection
from pathlib import Path

from transduce.errors import BundleError, TransduceError
from transduce.serve.config import EngineConfig


def find_package(path: Path) -> str:
    """Returns the format of a package.

    Raises:
        BundleError: it is none that can be imported.
    """
    from transduce.export.imports import find_format  # imported here, as it is slow, and most services need it never

    return find_format(path)


def import_package(package: Path, model: Path, engine: EngineConfig) -> None:
    """Makes the model folder `model` from a package, without a comparison, and translates with it once.

    Raises:
        BundleError: the package cannot be imported, or its model cannot be run; there may be a part of `model` then.
    """
    processes = multiprocessing.get_context("spawn")
    receiver, sender = processes.Pipe(duplex=False)
    process = processes.Process(target=_import, args=(sender, package, model, engine), daemon=True)
    process.start()
    sender.close()  # so that the end of the process is an end of the file here
    try:
        message = receiver.recv()
    except EOFError:
        process.join()
        message = f"{package}: its import was ended (exit status {process.exitcode}), perhaps for lack of memory."
    except BaseException:  # such as Ctrl-C
        process.terminate()
        raise
    finally:
        receiver.close()
        process.join()
    if message:
        raise BundleError(message)


def _import(sender: Connection, package: Path, model: Path, engine: EngineConfig) -> None:
    """Runs in the process: sends why the import failed, or ""."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    from transduce.export.imports import import_model
    from transduce.translation.translator import Translator

    try:
        import_model(package, model, compare=False)
        translator = Translator.load(  # converts the model for its engine, so that no request waits for that
            model,
            engine=engine.engine,
            quantization=engine.quantization or None,
            threads=engine.threads or None,
            shortlist=engine.shortlist,
            draft=engine.draft,
        )
        translator.translate(["1"])
    except TransduceError as error:
        sender.send(str(error))
    except Exception as error:
        sender.send(f"{package}: cannot be imported: {type(error).__name__}: {error}")
    else:
        sender.send("")
