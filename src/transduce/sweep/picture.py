"""A sweep as a picture: score by beam size, a line for each length penalty, a panel for each average."""

from pathlib import Path

from transduce.plots import new_figure, save_figure
from transduce.sweep.results import SweepResults


def draw(results: SweepResults, path: Path) -> None:
    """Draws into `path`, whose name ends in .png, .svg or .pdf.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    averages = sorted({one.point.average for one in results.measured})
    penalties = sorted({one.point.length_penalty for one in results.measured})
    figure = new_figure(1.5 + 3.2 * len(averages), 3.6)
    panels = figure.subplots(1, len(averages), sharey=True, squeeze=False)[0]
    for panel, average in zip(panels, averages, strict=True):
        for penalty in penalties:
            scores = {
                one.point.beam_size: one.score
                for one in results.measured
                if (one.point.average, one.point.length_penalty) == (average, penalty)
            }
            sizes = sorted(scores)
            panel.plot(sizes, [scores[size] for size in sizes], marker="o", markersize=4, label=f"α = {penalty:g}")
        sizes = sorted({one.point.beam_size for one in results.measured})
        panel.set_xscale("log", base=2)
        panel.set_xticks(sizes, [str(size) for size in sizes])
        panel.minorticks_off()
        panel.set_xlabel("beam size")
        panel.grid(color="0.93")
        if average:
            panel.set_title(f"{average} checkpoint{'s averaged' if average > 1 else ', not averaged'}")
    panels[0].set_ylabel(results.comparability.metric)
    panels[-1].legend(title="length penalty")
    figure.suptitle(results.subject)
    save_figure(figure, path)
