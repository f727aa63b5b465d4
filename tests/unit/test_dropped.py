"""A line of the log of dropped pairs."""

import json
from pathlib import Path

from transduce.data.dropped import Dropped, open_log


def test_a_row_of_the_log(tmp_path: Path) -> None:
    with open_log(tmp_path / "log") as log:
        log(Dropped("C:/my:corpus/a.en:12", "copy", "why", "grün", "日"))
        log(Dropped("a b.mrg: tree 3", "empty", "why", "\n", ""))
    first, second = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert first.endswith('"source": "grün", "target": "日"}')
    texts = {"source": "grün", "target": "日"}
    assert json.loads(first) == {"file": "C:/my:corpus/a.en", "line": 12, "rule": "copy", "reason": "why"} | texts
    texts = {"source": "\n", "target": ""}
    assert json.loads(second) == {"file": "a b.mrg", "tree": 3, "rule": "empty", "reason": "why"} | texts
