"""Axes of counts have marks at whole numbers only; legends hide no curve."""

import pytest

pytest.importorskip("matplotlib")

from matplotlib.backends.backend_agg import FigureCanvasAgg

from transduce.reporting.charts import count_axis, legend_below, new_chart


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
