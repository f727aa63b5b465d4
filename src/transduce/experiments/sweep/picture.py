"""A sweep as a picture: score by beam size, a line for each length penalty, a panel for each average."""

from pathlib import Path

from transduce.experiments.sweep.results import SweepResults
from transduce.reporting.charts import log_sizes, new_chart, save_chart


def draw(results: SweepResults, path: Path) -> None:
    """Draws into `path`, whose name ends in .png, .svg or .pdf.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    averages = sorted({one.point.average for one in results.measured})
    penalties = sorted({one.point.length_penalty for one in results.measured})
    figure, panels = new_chart(len(averages), width=4.0, share_y=True)
    for panel, average in zip(panels, averages, strict=True):
        for penalty in penalties:
            scores = {
                one.point.beam_size: one.score
                for one in results.measured
                if (one.point.average, one.point.length_penalty) == (average, penalty)
            }
            sizes = sorted(scores)
            panel.plot(sizes, [scores[size] for size in sizes], marker="o", markersize=4, label=f"α = {penalty:g}")
        log_sizes(panel, sorted({one.point.beam_size for one in results.measured}), base=2)
        panel.set_xlabel("beam size")
        if average:
            panel.set_title(f"{average} checkpoint{'s averaged' if average > 1 else ', not averaged'}")
    panels[0].set_ylabel(results.comparability.metric)
    panels[-1].legend(title="length penalty")
    figure.suptitle(results.subject)
    save_chart(figure, path)
