"""The framework of `transduce paper`: each measurement is made once, kept at once, and never mixed with others."""

import contextlib
import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from transduce import files
from transduce.errors import ConfigError
from transduce.experiments.paper import experiment as experiment_module
from transduce.experiments.paper.experiment import Experiment, Measured, Measurement, Say, Values, run_experiment
from transduce.experiments.paper.scales import at_scale
from transduce.reporting.machine import describe_machine, machine_line
from transduce.reporting.tables import mebibytes, seconds, short, table


class Counting:
    """Measurements that note when they are made; the one called `stop` interrupts."""

    def __init__(self) -> None:
        self.measured: list[str] = []

    def experiment(self, names: str, stop: str = "", settings: Mapping[str, Any] | None = None) -> Experiment:
        def measure(name: str, say: Say) -> Values:
            if name == stop:
                raise KeyboardInterrupt
            self.measured.append(name)
            say("half done")
            return {"value": ord(name)}

        return Experiment(
            name="letters",
            title="Letters",
            settings={"scale": "smoke"} | dict(settings or {}),
            measurements=[Measurement(name, lambda say, name=name: measure(name, say)) for name in names],  # type: ignore[misc]
            render=lambda measured: ", ".join(f"{name} = {values['value']}" for name, values in measured.items()),
            draw=draw,
        )


def draw(measured: Measured, folder: Path) -> None:
    (folder / "letters.png").write_text(str(len(measured)))


def results(folder: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return values


def test_a_stopped_experiment_resumes(tmp_path: Path) -> None:
    counting = Counting()
    with pytest.raises(KeyboardInterrupt):
        run_experiment(counting.experiment("abcd", stop="c"), tmp_path, show_progress=False)
    assert list(results(tmp_path)["cells"]) == ["a", "b"]
    assert not (tmp_path / "table.md").exists()
    path = run_experiment(counting.experiment("abcd"), tmp_path, show_progress=False)
    assert counting.measured == ["a", "b", "c", "d"]
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# Letters\n\na = 97, b = 98, c = 99, d = 100\n")
    assert "4 cells" in text
    assert "scale `smoke`" in text
    assert (tmp_path / "letters.png").read_text() == "4"


def test_a_finished_experiment_measures_nothing_again(tmp_path: Path) -> None:
    counting = Counting()
    run_experiment(counting.experiment("ab"), tmp_path, show_progress=False)
    before = (tmp_path / "results.json").read_bytes()
    (tmp_path / "table.md").unlink()
    run_experiment(counting.experiment("ab"), tmp_path, show_progress=False)
    assert counting.measured == ["a", "b"]
    assert (tmp_path / "results.json").read_bytes() == before
    assert (tmp_path / "table.md").is_file()


def test_measurements_of_earlier_calls_are_shown_in_their_order(tmp_path: Path) -> None:
    counting = Counting()

    def page(names: str) -> str:
        ordered = replace(counting.experiment(names), order="dcba")
        return run_experiment(ordered, tmp_path, show_progress=False).read_text(encoding="utf-8")

    assert "\n\nc = 99, a = 97\n" in page("ac")
    assert "\n\nc = 99, b = 98, a = 97\n" in page("b")
    assert counting.measured == ["a", "c", "b"]
    assert (tmp_path / "letters.png").read_text() == "3"


def test_two_commands_may_measure_into_one_folder_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One, on another machine, begins and ends while the other measures: both keep all."""
    here, there, outer = describe_machine(), {**describe_machine(), "processor": "another"}, Counting()

    def measure(say: Say) -> Values:
        with monkeypatch.context() as patch:
            patch.setattr(experiment_module, "describe_machine", lambda: there)
            run_experiment(Counting().experiment("xy"), tmp_path, show_progress=False)
        return {"value": 0}

    slow = replace(outer.experiment("b"), measurements=[Measurement("a", measure), *outer.experiment("b").measurements])
    run_experiment(slow, tmp_path, show_progress=False)
    found = results(tmp_path)
    assert {name: found["machines"][cell["machine"]] for name, cell in found["cells"].items()} == {
        "a": here, "b": here, "x": there, "y": there,
    }  # fmt: skip


def test_results_of_other_settings_that_came_meanwhile_are_not_mixed(tmp_path: Path) -> None:
    def measure(say: Say) -> Values:
        run_experiment(Counting().experiment("x", settings={"flops": 2}), tmp_path, show_progress=False)
        return {"value": 0}

    slow = replace(Counting().experiment(""), measurements=[Measurement("a", measure)])
    with pytest.raises(ConfigError, match="holds results of"):
        run_experiment(slow, tmp_path, show_progress=False)
    assert list(results(tmp_path)["cells"]) == ["x"]


def test_the_last_of_two_commands_shows_all(tmp_path: Path) -> None:
    """The other measures and ends, if it can, while this one draws."""
    order = ["a", "b"]
    other = replace(Counting().experiment("b"), order=order)
    thread = threading.Thread(target=run_experiment, args=(other, tmp_path), kwargs={"show_progress": False})

    def draw_slowly(measured: Measured, folder: Path) -> None:
        thread.start()
        thread.join(0.5)

    run_experiment(replace(Counting().experiment("a"), order=order, draw=draw_slowly), tmp_path, show_progress=False)
    thread.join()
    assert "a = 97, b = 98" in (tmp_path / "table.md").read_text(encoding="utf-8")


def test_a_result_waits_until_the_folder_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    with contextlib.ExitStack() as held:
        assert held.enter_context(files.exclusive(tmp_path))

        def wait(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                held.close()

        monkeypatch.setattr(files.time, "sleep", wait)
        run_experiment(Counting().experiment("a"), tmp_path, show_progress=False)
    assert len(waits) == 3
    assert list(results(tmp_path)["cells"]) == ["a"]


def test_a_file_in_place_of_the_folder_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    counting = Counting()
    with pytest.raises(ConfigError, match="file: is a file; name a folder for --output"):
        run_experiment(counting.experiment("a"), tmp_path / "file", show_progress=False)
    assert counting.measured == []


def test_results_of_other_settings_are_not_mixed_in(tmp_path: Path) -> None:
    counting = Counting()
    run_experiment(counting.experiment("a", settings={"lengths": (1, 2)}), tmp_path, show_progress=False)
    run_experiment(counting.experiment("a", settings={"lengths": (1, 2)}), tmp_path, show_progress=False)
    message = r"settings\.lengths was \[1, 2\], now \[1, 3\]\. Choose another --output, or remove the whole folder "
    with pytest.raises(ConfigError, match=message):
        run_experiment(counting.experiment("a", settings={"lengths": (1, 3)}), tmp_path, show_progress=False)
    assert counting.measured == ["a"]


def test_the_message_names_the_settings_that_differ(tmp_path: Path) -> None:
    counting = Counting()
    first, then = {"deep": {"same": 1, "down": {"x": 1}}, "gone": 2}, {"deep": {"same": 1, "down": {"x": "y" * 99}}}
    run_experiment(counting.experiment("a", settings=first), tmp_path, show_progress=False)
    message = r"other settings: settings\.deep\.down\.x was 1, now 'y.*y'; settings\.gone was 2, now not set\. Choose"
    with pytest.raises(ConfigError, match=message):
        run_experiment(counting.experiment("a", settings=then), tmp_path, show_progress=False)
    assert counting.measured == ["a"]


@pytest.mark.parametrize("text", ["not JSON", "[]", '{"experiment": "letters"}'])
def test_a_file_that_is_something_else_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(ConfigError, match=r"results\.json: not the results of 'transduce paper'"):
        run_experiment(Counting().experiment("a"), tmp_path, show_progress=False)
    assert (tmp_path / "results.json").read_text() == text


def test_each_measurement_names_its_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting, here = Counting(), describe_machine()
    with pytest.raises(KeyboardInterrupt):
        run_experiment(counting.experiment("ab", stop="b"), tmp_path, show_progress=False)
    monkeypatch.setattr(experiment_module, "describe_machine", lambda: here | {"processor": "another"})
    text = run_experiment(counting.experiment("ab"), tmp_path, show_progress=False).read_text(encoding="utf-8")
    found = results(tmp_path)
    assert [machine["processor"] for machine in found["machines"]] == [here["processor"], "another"]
    assert [cell["machine"] for cell in found["cells"].values()] == [0, 1]
    assert machine_line(here) in text
    assert "Times of different machines" in text


def test_the_footer_counts_the_minutes_of_all_measurements(tmp_path: Path) -> None:
    results = experiment_module._Results(Counting().experiment("ab"), tmp_path / "results.json")
    results.add("a", {}, 90.0)
    results.add("b", {}, 30.0)
    assert "; 2 cells in 2.0 minutes, scale `smoke`." in results.footer()
    assert "different machines" not in results.footer()
    results.cells["b"]["machine"] = len(results._values["machines"])
    results._values["machines"].append(describe_machine())
    assert "**Times of different machines are in one table" in results.footer()


def test_progress_names_the_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Bar:
        def __init__(self, *_: object, **__: object) -> None: ...
        def __enter__(self) -> "Bar":
            return self

        def __exit__(self, *_: object) -> None: ...
        def update(self, count: int = 1) -> None:
            shown.append(f"+{count}")

        def set_postfix_str(self, text: str, refresh: bool) -> None:
            shown.append(text)

    monkeypatch.setattr(experiment_module, "progress_bar", Bar)
    run_experiment(Counting().experiment("ab"), tmp_path)
    assert shown == ["+0", "a", "a: half done", "+1", "b", "b: half done", "+1"]


def test_an_unknown_scale_is_refused() -> None:
    assert at_scale({"smoke": 1, "laptop": 2}, "laptop") == 2
    with pytest.raises(ConfigError, match=r"No scale is called 'lapptop'\. Did you mean 'laptop'\?"):
        at_scale({"smoke": 1, "laptop": 2}, "lapptop")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1.0, "1.00"),
        (12.34, "12.3"),
        (999.6, "1,000"),
        (1234.5, "1,230"),
        (0.04512, "0.0451"),
        (-2.5, "-2.50"),
        (1e-7, "1.0e-07"),
        (2.5e6, "2.5e+06"),
    ],
)
def test_three_digits(value: float, text: str) -> None:
    assert short(value) == text


def test_units_and_tables() -> None:
    assert [seconds(value) for value in (1.5, 0.0123, 4.2e-6)] == ["1.50 s", "12.3 ms", "4.20 µs"]
    assert mebibytes(3 * 2**19) == "1.50 MiB"
    assert table(["a", "b"], [["1", "x|y"]]) == "| a | b |\n| --- | ---: |\n| 1 | x\\|y |"
    assert table(["a", "b"], [], text_columns=2) == "| a | b |\n| --- | --- |"


def test_memory_is_kept_before_anything_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting, kept = Counting(), list[int]()
    monkeypatch.setattr(experiment_module, "keep_memory", lambda: kept.append(len(counting.measured)))
    run_experiment(counting.experiment("ab"), tmp_path, show_progress=False)
    assert (kept, counting.measured) == ([0], ["a", "b"])
