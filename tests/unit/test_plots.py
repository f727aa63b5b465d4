"""Axes of counts have marks at whole numbers only."""

import pytest

pytest.importorskip("matplotlib")

from transduce.reporting.charts import count_axis, new_chart


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
