"""Reports as one HTML file that needs neither network nor scripts, light or dark as the reader's system is."""

import html
from collections.abc import Sequence
from importlib.resources import files

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 640, 230, 8, 32  # of a histogram, in units of its picture


def page(title: str, body: str) -> str:
    """Returns a whole page; `body` is HTML, `title` is text."""
    style = files("transduce.reporting").joinpath("page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n<link rel="icon" href="data:,">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def share_bar(share: float) -> str:
    """Returns a bar whose length shows a share from 0 to 1; the number itself belongs next to it."""
    return f'<span class="bar" aria-hidden="true"><i style="width:{min(1.0, max(0.0, share)):.2%}"></i></span>'


def histogram(edges: Sequence[float], before: Sequence[int], after: Sequence[int], label: str) -> str:
    """Returns a picture of two histograms over the same bins, the second in front of the first.

    Heights are square roots of the counts, so that few pairs among many are seen.

    Args:
        edges: of the bins; one more than there are bins.
        before: the counts in the background.
        after: the counts in the foreground.
        label: what the picture shows, for those who cannot see it.
    """
    highest = max(max(before, default=0), max(after, default=0), 1) ** 0.5
    step = (_WIDTH - 2 * _LEFT) / max(1, len(before))
    bars = []
    for name, counts in (("before", before), ("after", after)):
        for number, count in enumerate(counts):
            if count:
                height = max(1.0, (_HEIGHT - _BOTTOM - 6) * count**0.5 / highest)
                x, y = _LEFT + number * step, _HEIGHT - _BOTTOM - height
                bars.append(
                    f'<rect class="{name}" x="{x:.1f}" y="{y:.1f}" width="{step - 1:.1f}" height="{height:.1f}"/>'
                )
    ticks = []
    for number in range(0, len(edges), max(1, (len(edges) - 1) // 4)):
        x = _LEFT + number * step
        anchor = "start" if number == 0 else "end" if number == len(edges) - 1 else "middle"
        ticks.append(f'<text x="{x:.1f}" y="{_HEIGHT - 8}" text-anchor="{anchor}">{edges[number]:.3g}</text>')
    line = f'<line x1="0" x2="{_WIDTH}" y1="{_HEIGHT - _BOTTOM}" y2="{_HEIGHT - _BOTTOM}"/>'
    drawing = "".join([*bars, line, *ticks])
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{html.escape(label)}">{drawing}</svg>'
