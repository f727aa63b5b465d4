"""How an ablation prepares its data and runs its processes, without training anything."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from transduce import files
from transduce.errors import TokenizerError
from transduce.experiments.ablation import ablate


def trial_of(name: str, data: str = "d") -> Any:
    return SimpleNamespace(row=name, data=Path(data), config=f"config {name}", folder=Path(name))


def test_data_are_prepared_once_and_an_error_is_that_of_all_trials_that_share_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    asked: list[Any] = []

    class Report:
        def __init__(self, reused: bool) -> None:
            self.reused = reused

        def __str__(self) -> str:
            return "the report"

    def prepare(config: Any, folder: Path, **options: Any) -> Report:
        asked.append((config, folder, options))
        with files.exclusive(folder.parent) as alone:
            assert not alone, "another command waits until the data are prepared"
        if folder == Path("broken"):
            raise TokenizerError("no such tokenizer.")
        return Report(folder == Path("old"))

    monkeypatch.setattr(ablate, "prepare", prepare)
    trials = [trial_of("a", "new"), trial_of("b", "broken"), trial_of("c", "new"), trial_of("d", "old")]
    trials.append(trial_of("e", "broken"))
    assert ablate._prepare_data(trials, Path("w"), True) == {Path("broken"): "no such tokenizer."}
    options = {"mirror": Path("w"), "progress": True}
    names = (("config a", "new"), ("config b", "broken"), ("config d", "old"))
    assert asked == [(config, Path(folder), options) for config, folder in names]
    assert capsys.readouterr().err == "the report\n"  # not of what was prepared before
    ablate._prepare_data(trials[:1], None, False)
    assert (asked[-1][2], capsys.readouterr().err) == ({"mirror": None, "progress": False}, "")
    with pytest.raises(TokenizerError, match="no such tokenizer"):  # of the only data
        ablate._prepare_data([trials[1], trials[4]], None, False)
    assert ablate._prepare_data([], None, True) == {}


def test_a_process_imports_nothing_from_the_working_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "json.py").write_text("raise SystemExit(9)\n", encoding="utf-8")
    (tmp_path / "a").mkdir()
    process = ablate._start(trial_of("a"), 0, 1)
    assert process.wait(60) == 1, "the folder has nothing to train"
    ablate._request_stop(process)


class Process:
    """Ends after it was looked at a number of times."""

    def __init__(self, polls: int, code: int) -> None:
        self.polls, self.returncode = polls, code
        self.waited = False
        self.stdin = SimpleNamespace(closed=False, close=self.close)

    def close(self) -> None:
        self.stdin.closed = True

    def poll(self) -> int | None:
        self.polls -= 1
        return self.returncode if self.polls < 0 else None

    def wait(self) -> None:
        self.waited = True


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Returns each start: the row, its slot, and the process."""
    found: list[Any] = []
    polls = iter([3, 1, 1, 0, 0, 0])

    def start(trial: Any, slot: int, jobs: int) -> Process:
        process = Process(next(polls), len(found))
        found.append((trial.row, slot, jobs, process))
        return process

    monkeypatch.setattr(ablate, "_start", start)
    monkeypatch.setattr(ablate.time, "sleep", lambda _: None)
    return found


def test_a_slot_is_used_again_when_its_process_has_ended(started: list[Any]) -> None:
    trials = [trial_of(name) for name in "abcd"]
    ended: Iterator[Any] = ablate._run(trials, 2)
    assert sorted((trial.row, code) for trial, code in ended) == [("a", 0), ("b", 1), ("c", 2), ("d", 3)]
    assert [(row, slot, jobs) for row, slot, jobs, _ in started][:3] == [("a", 0, 2), ("b", 1, 2), ("c", 1, 2)]
    assert {row for row, *_ in started} == set("abcd")
    assert all(process.stdin.closed for *_, process in started)


def test_processes_that_still_run_are_told_to_stop_and_waited_for(started: list[Any]) -> None:
    ended = ablate._run([trial_of(name) for name in "abc"], 2)
    trial, code = next(ended)
    assert (trial.row, code) == ("b", 1)
    ended.close()
    (_, _, _, first), (_, _, _, second), *rest = started
    assert (first.stdin.closed, first.waited) == (True, True)
    assert (second.stdin.closed, second.waited) == (True, False)
    assert rest == []
