"""Files for TensorBoard, written as the numbers come.

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
    """A new file of scalars in `folder`, whose readers drop what earlier files have of steps after `step`.

    Raises:
        OSError: here and in each method, the file cannot be written; it is closed then.
    """

    def __init__(self, folder: Path, step: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # The name that TensorBoard looks for; time and process keep it from that of another file.
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
