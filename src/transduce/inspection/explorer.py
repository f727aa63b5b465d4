"""The explorer: every head of every layer in one HTML file that needs neither network nor server.

A server may also give out its parts, and send the data to them.

`page/` holds its parts: the HTML, the style and the scripts. The data is JSON, with each weight as one byte (0 to 255),
which is as fine as a shade on a screen. Statistics are computed before, from the exact weights.
"""

import base64
import html
import json
import re
from importlib.resources import files
from typing import Any

import numpy as np

from transduce.decoding.alignment import alignment_scores, best_heads
from transduce.inspection.alignment import align, pharaoh, word_weights
from transduce.inspection.palette import head_colours
from transduce.inspection.statistics import head_statistics
from transduce.inspection.view import View, views
from transduce.text import split_words
from transduce.translation.result import Attention

# They become one script: each part can call the functions of all, and the last one starts the page.
_SCRIPTS = ("data.js", "choices.js", "words.js", "heads.js", "tables.js", "start.js")
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
_POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:\">\n"
    '<link rel="icon" href="data:,">'  # else the browser asks for one
)


def explorer_page(attention: Attention, *, model: str, words: bool = False) -> str:
    """Returns the page for one pair, the same text each time. It first shows the head that aligns the two best.

    Args:
        attention: what `Translator.attend` returned.
        model: the model's name, for the title.
        words: whether to leave out the weights by subword pieces, which keeps the page of a long pair smaller.
    """
    return _page(
        title=html.escape(f"Attention of {model}"),
        policy=_POLICY,
        style=f"<style>\n{_part('explorer.css')}\n</style>",
        script=f"<script>\n{_script()}\n</script>",
        data=_json_in_html(explorer_data(attention, model, words=words)),
    )


def explorer_files(script: str) -> dict[str, str]:
    """Returns the page without data as files for a server, whose pages may have no script inside: name → content.

    Args:
        script: the address of a script that puts `explorer_data`, as JSON, into the element with the id "data", and
            loads "explorer.js" then.
    """
    page = _page(
        title="Attention",
        policy="",
        style='<link rel="stylesheet" href="explorer.css">',
        script=f'<script src="{html.escape(script)}"></script>',
        data="",
    )
    return {"explorer.html": page, "explorer.css": _part("explorer.css"), "explorer.js": _script()}


def _page(**parts: str) -> str:
    # One pass over the HTML, so that inserted text that looks like a placeholder is not replaced.
    return _PLACEHOLDER.sub(lambda match: parts[match[1]], _part("explorer.html"))


def _script() -> str:
    return '"use strict";\n\n' + "\n".join(map(_part, _SCRIPTS))


def _part(name: str) -> str:
    return (files("transduce.inspection") / "page" / name).read_text(encoding="utf-8")


def explorer_data(attention: Attention, model: str, *, words: bool = False) -> dict[str, Any]:
    """Returns what the page shows, ready for JSON; for the arguments see `explorer_page`."""
    weights = word_weights(attention)
    scores = alignment_scores(weights)
    best = best_heads(scores)
    links = align(weights, best)
    by_word = views(attention, words=True)
    units = {"word": by_word} if words else {"word": by_word, "piece": views(attention)}
    return {
        "model": model,
        "source": attention.source,
        "target": attention.target,
        "colours": head_colours(by_word[0].num_heads),
        "units": [{"unit": unit, "views": [_view(view, scores) for view in shown]} for unit, shown in units.items()],
        "alignment": {
            "best": best,
            "source": split_words(attention.source),
            "target": split_words(attention.target),
            "links": links,
            "pharaoh": pharaoh(links),
        },
    }


def _view(view: View, alignment: np.ndarray) -> dict[str, Any]:
    statistics = {name: values.round(4).tolist() for name, values in vars(head_statistics(view)).items()}
    if view.kind == "cross":
        statistics["alignment"] = alignment.round(4).tolist()
    quantised = np.rint(np.clip(view.weights, 0.0, 1.0) * 255).astype(np.uint8)
    return {
        "kind": view.kind,
        "layers": view.num_layers,
        "heads": view.num_heads,
        "queries": [unit.label for unit in view.queries],
        "keys": [unit.label for unit in view.keys],
        "weights": base64.b64encode(quantised.tobytes()).decode("ascii"),  # [layer][head][query][key], a byte each
        "statistics": statistics,
    }


def _json_in_html(value: Any) -> str:
    """Returns JSON for a script: `<`, as in `</script>`, is escaped, so that no text can end the script."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
