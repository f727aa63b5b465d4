"""An ablation's results as a picture: perplexity and BLEU of each row, a dot for each seed."""

from pathlib import Path

from transduce.ablation.results import Results
from transduce.plots import new_figure, save_figure

_PANELS = (("perplexity", "perplexity per subword (left is better)"), ("bleu", "BLEU (right is better)"))


def draw(results: Results, path: Path) -> None:
    """Draws into `path`, whose name ends in .png, .svg or .pdf; nothing where there are no results yet.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    rows = [row.name for row in results.rows if results.statistic(row.name, "perplexity") is not None]
    if not rows:
        return
    figure = new_figure(9.0, 1.2 + 0.28 * len(rows))
    panels = figure.subplots(1, len(_PANELS), sharey=True)
    for panel, (measure, label) in zip(panels, _PANELS, strict=True):
        base = results.statistic("base", measure)
        if base is not None:
            panel.axvline(base.mean, color="0.8", linewidth=1, zorder=0)
        for place, row in enumerate(rows):
            values = [getattr(cell, measure) for cell in results.cells if cell.row == row and not cell.error]
            mean = results.statistic(row, measure)
            panel.plot(values, [place] * len(values), "o", color="tab:blue", alpha=0.35, markersize=5)
            if mean is not None:
                panel.plot([mean.mean], [place], "|", color="tab:blue", markersize=12, markeredgewidth=2)
        panel.set_xlabel(label)
        panel.grid(axis="x", color="0.93")
    panels[0].set_yticks(range(len(rows)), rows)
    panels[0].set_ylim(len(rows) - 0.5, -0.5)  # the first row on top
    figure.suptitle(f"{results.grid}: {results.base}")
    save_figure(figure, path)
