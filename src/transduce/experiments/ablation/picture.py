"""An ablation's results as a picture: perplexity and BLEU of each row, a dot for each seed."""

from pathlib import Path

from transduce.experiments.ablation.results import Results
from transduce.reporting.charts import COLOURS, GREY, new_chart, save_chart

_PANELS = (("perplexity", "perplexity per subword (left is better)"), ("bleu", "BLEU (right is better)"))


def draw(results: Results, path: Path) -> None:
    """Draws into `path`, whose name ends in .png, .svg or .pdf; nothing where there are no results yet.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    rows = [row.name for row in results.rows if results.statistic(row.name, "perplexity") is not None]
    if not rows:
        return
    figure, panels = new_chart(len(_PANELS), width=4.5, height=1.2 + 0.28 * len(rows), share_y=True)
    for panel, (measure, label) in zip(panels, _PANELS, strict=True):
        base = results.statistic("base", measure)
        if base is not None:
            panel.axvline(base.mean, color=GREY, linewidth=1, zorder=0)
        for place, row in enumerate(rows):
            values = [getattr(cell, measure) for cell in results.cells if cell.row == row and not cell.error]
            mean = results.statistic(row, measure)
            panel.plot(values, [place] * len(values), "o", color=COLOURS[0], alpha=0.35, markersize=5)
            if mean is not None:
                panel.plot([mean.mean], [place], "|", color=COLOURS[0], markersize=12, markeredgewidth=2)
        panel.set_xlabel(label)
        panel.grid(visible=False, axis="y")
    panels[0].set_yticks(range(len(rows)), rows)
    panels[0].set_ylim(len(rows) - 0.5, -0.5)  # the first row on top
    figure.suptitle(f"{results.grid}: {results.base}")
    save_chart(figure, path)
