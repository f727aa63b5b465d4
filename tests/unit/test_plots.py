"""Charts: their size and colours, marks at whole numbers for counts, legends that hide no curve, files."""

import struct
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex

from transduce.errors import MissingDependencyError
from transduce.reporting.charts import COLOURS, count_axis, legend_below, log_sizes, name_rows, new_chart, save_chart


@pytest.mark.parametrize("top", [2.2, 3, 7, 40, 1e5])
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_counts_are_whole_numbers(scale: str, top: float) -> None:
    figure, (panel,) = new_chart()
    panel.plot([1, 2], [1, top])
    panel.set_yscale(scale)
    count_axis(panel.yaxis)
    figure.canvas.draw()
    labels = [label.get_text().replace(",", "").replace("−", "-") for label in panel.yaxis.get_ticklabels(which="both")]
    assert all(label == "" or label.lstrip("-").isdecimal() for label in labels), labels
    assert any(labels)
    assert len({label for label in labels if label}) == sum(label != "" for label in labels)


@pytest.mark.parametrize(("columns", "height"), [(1, 3.4), (2, 3.6)])
def test_a_legend_below_lies_under_the_panel_and_its_label(columns: int, height: float) -> None:
    figure, panels = new_chart(2, height=height)
    for panel in panels:
        panel.plot([1, 2], [1, 2], label="one")
        panel.plot([1, 2], [2, 1], label="two")
        panel.set_xlabel("x")
        legend_below(panel, columns=columns)
    FigureCanvasAgg(figure).draw()  # lays it out
    for panel in panels:
        legend = panel.get_legend().get_window_extent()
        assert legend.y1 <= panel.xaxis.label.get_window_extent().y0 + 1
        assert legend.y0 >= 0


def test_panels_are_as_large_as_is_asked_and_come_row_by_row() -> None:
    figure, panels = new_chart(3, 2, width=2.0, height=1.5, share_y=True)
    assert (tuple(figure.get_size_inches()), len(panels)) == ((6.0, 3.0), 6)
    panels[5].set_ylim(0, 7)
    assert {panel.get_ylim() for panel in panels} == {(0, 7)}
    where = [panel.get_subplotspec() for panel in panels]
    assert [(each.rowspan.start, each.colspan.start) for each in where] == [(i // 3, i % 3) for i in range(6)]
    figure, (panel, other) = new_chart(2)
    assert tuple(figure.get_size_inches()) == (10.0, 3.6)
    panel.set_ylim(0, 7)
    assert other.get_ylim() != (0, 7)
    lines = [panel.plot([1, 2], [1, number])[0] for number in range(9)]
    assert [to_hex(line.get_color()) for line in lines] == [*COLOURS, COLOURS[0]]
    visible = {side: spine.get_visible() for side, spine in panel.spines.items()}
    assert visible == {"left": True, "bottom": True, "top": False, "right": False}
    assert panel.get_axisbelow() is True


def test_sizes_are_marked_on_a_logarithmic_axis_and_nothing_else_is() -> None:
    figure, (panel,) = new_chart()
    panel.plot([1, 20_000], [1, 2])
    log_sizes(panel, [1, 100, 20_000], base=2)
    FigureCanvasAgg(figure).draw()
    assert [label.get_text() for label in panel.get_xticklabels()] == ["1", "100", "20,000"]
    assert (panel.get_xscale(), panel.xaxis.get_transform().base) == ("log", 2)
    assert list(panel.get_xticks(minor=True)) == []


def test_the_first_row_is_on_top_and_whole() -> None:
    _, (panel,) = new_chart()
    name_rows(panel, ["a", "b", "c"], fontsize=7)
    assert panel.get_ylim() == (2.5, -0.5)
    labels = panel.get_yticklabels()
    assert ([label.get_text() for label in labels], labels[0].get_fontsize()) == (["a", "b", "c"], 7)
    assert list(panel.get_yticks()) == [0, 1, 2]


def test_a_chart_is_written_in_the_format_of_its_name(tmp_path: Path) -> None:
    """A PNG has 130 dots an inch; its size is in its bytes 16 to 24."""
    figure, _ = new_chart(width=4.0, height=2.0)
    for name in ("a.png", "a.svg"):
        save_chart(figure, tmp_path / name)
    assert struct.unpack(">II", (tmp_path / "a.png").read_bytes()[16:24]) == (520, 260)
    assert "<svg" in (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.png", "a.svg"]


def test_without_matplotlib_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependencyError, match=r"Pictures need matplotlib.*figures"):
        new_chart()
