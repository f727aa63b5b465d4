"""Event files for TensorBoard, written at once.

`torch.utils.tensorboard` writes from a thread of its own, which prints a traceback where the disk is full.
"""

import os
import socket
import time
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter


class EventFile:
    """A new file of scalars in `folder`; its readers drop steps after `step` that earlier files have.

    Raises:
        OSError: here and in each method, the file cannot be written; it is closed then.
    """

    def __init__(self, folder: Path, step: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard looks for this name; time and process make it unique.
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self._records = RecordWriter((folder / name).open("xb", buffering=0))
        self._write(file_version="brain.Event:2")
        self._write(step=step + 1, session_log=SessionLog(status=SessionLog.START))

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        """Writes one number of the curve `tag`."""
        self._write(step=step, summary=Summary(value=[Summary.Value(tag=tag, simple_value=value)]))

    def close(self) -> None:
        """Closes the file."""
        self._records.close()

    def _write(self, **fields: Any) -> None:
        try:
            self._records.write(Event(wall_time=time.time(), **fields).SerializeToString())
        except OSError:
            self._records.close()
            raise
