"""What the heads of a model attend to: as data, pictures, word alignments and a web page (Figures 3 to 5).

attention = translator.attend("A dog runs.")
draw(view(attention, "encoder"), "layer-5.svg", layer=5)
Path("attention.html").write_text(explorer_page(attention, model="m30k"), encoding="utf-8")
"""

from transduce.decoding.alignment import BEST_HEADS, Head, alignment_scores, best_heads
from transduce.inspection.alignment import align, choose_heads, parse_heads, pharaoh, word_weights
from transduce.inspection.arrays import write_arrays
from transduce.inspection.explorer import explorer_page
from transduce.inspection.figure import Panel, draw, draw_panels
from transduce.inspection.statistics import HeadStatistics, head_statistics
from transduce.inspection.view import KINDS, Unit, View, view, views

__all__ = [
    "BEST_HEADS",
    "KINDS",
    "Head",
    "HeadStatistics",
    "Panel",
    "Unit",
    "View",
    "align",
    "alignment_scores",
    "best_heads",
    "choose_heads",
    "draw",
    "draw_panels",
    "explorer_page",
    "head_statistics",
    "parse_heads",
    "pharaoh",
    "view",
    "views",
    "word_weights",
    "write_arrays",
]
