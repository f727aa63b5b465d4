"""Draws how many tokens a pass gives, by the tokens that it may give, beside published figures.

    python docs/pictures/drafts.py benchmarks/results/2026-11-26-drafts-by-k-frozen.json \\
        benchmarks/results/2026-11-26-drafts-by-k-tuned.json docs/pictures/drafts.png

The files are those of `benchmarks/drafts.py --always --most …` for a model whose heads were trained alone, and one
that was trained with its heads.
"""

import json
import sys
from pathlib import Path
from typing import Any

from transduce.reporting.charts import GREY, count_axis, new_chart, save_chart

_PUBLISHED = {1.76: "Stern et al. 2018, heads alone", 4.69: "Stern et al. 2018, with the model, its own translations"}
_PUBLISHED_K = 8


def curve(path: str, draft: str) -> tuple[list[int], list[float]]:
    """Returns the tokens that a pass may give, one more than are proposed, and the tokens that it gives."""
    ways: dict[str, Any] = json.loads(Path(path).read_text())["results"][0]["ways"]
    found = {1: 1.0} | {
        1 + int(name.split()[1]): way["tokens_a_pass"] for name, way in ways.items() if name.startswith(f"{draft}, ")
    }
    return list(found), list(found.values())


def main() -> None:
    """Reads the arguments, and draws the picture."""
    frozen, tuned, path = sys.argv[1:]
    figure, [panel] = new_chart(width=6.5)
    panel.plot(*curve(tuned, "blockwise"), marker="o", label="heads, trained with the model")
    panel.plot(*curve(frozen, "self"), marker="o", label="self")
    panel.plot(*curve(frozen, "blockwise"), marker="o", label="heads alone")
    for tokens, name in _PUBLISHED.items():
        panel.plot(_PUBLISHED_K, tokens, marker="D", color=GREY)
        panel.annotate(name, (_PUBLISHED_K, tokens), (-8, -14), textcoords="offset points", ha="right", fontsize=8)
    panel.set_xlabel("k: tokens that a pass may give")
    panel.set_ylabel("tokens a pass")
    panel.set_ylim(1, 5)
    count_axis(panel.xaxis)
    panel.legend(fontsize=8, loc="upper left")
    save_chart(figure, Path(path))


if __name__ == "__main__":
    main()
