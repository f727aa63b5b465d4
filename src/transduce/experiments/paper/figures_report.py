"""The report of `transduce paper figures`: pictures like Figures 3 to 5, and their numbers."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from transduce.experiments.paper.experiment import Measured, Values
from transduce.experiments.paper.report import claims_table, differences, listed, page
from transduce.inspection import Panel, Unit, View, draw_panels
from transduce.reporting.tables import table


def render(scale: str, measured: Measured) -> str:
    """Returns the report as Markdown."""
    third, fourth, fifth = (measured[name] for name in ("figure3", "figure4", "figure5"))
    layer = f"layer {third['layer']} of {third['num_layers']}"
    words = " ".join(third["related"])
    related = {f"to “{words}”": _formatted(third["on_related"], ".0%")} if words else {}
    anaphora = {
        f"from “{fourth['word']}” to “{fourth['antecedent']}”": _formatted(fourth["on_antecedent"], ".0%"),
        "its entropy, bits": _formatted(fourth["entropy"], ".2f"),
        "of all words": _formatted(fourth["usual_entropy"], ".2f"),
    }
    scores = {"score": fifth["scores"], **fifth["statistics"]}
    structure = {name: _formatted(values, ".2f") for name, values in scores.items()}
    return page(
        f"The encoder's {layer} of {measured['model']['name']} (the paper: layer 5 of 6).",
        claims_table(_CLAIMS, _about_claims(third, fourth, fifth), heading="figure"),
        "## Figure 3: a dependency over a long distance",
        f"> {third['sentence']}",
        "![](figure3.png)",
        _by_head({"to distant words": _formatted(third["far"], ".0%"), "most of it to": third["most_far"], **related}),
        f"All heads, “{third['word']}” alone. Distant: more than three words away; a head that attends to "
        f"all words equally would give them {third['even_share']:.0%}.",
        "## Figure 4: anaphora",
        f"> {fourth['sentence']}",
        "![](figure4.png)",
        _by_head(anaphora, fourth["heads"]),
        f"Heads {listed(fourth['heads'], ' and ')} were chosen, for they give most of the weight of "
        f"“{fourth['word']}” to “{fourth['antecedent']}”. Left: head {fourth['heads'][0]} in full; right: "
        "both for that word alone.",
        "## Figure 5: sentence structure",
        f"> {fifth['sentence']}",
        "![](figure5.png)",
        _by_head(structure, fifth["heads"]),
        f"Heads {listed(fifth['heads'], ' and ')} were chosen. Score: peak, less the greatest of previous, "
        "diagonal and next: it is high for a head that attends to single words, but not at a fixed distance. The first "
        "has the highest score; for the second, the score is multiplied by the share of its weight that goes to other "
        "words than the first's.",
        *_about_relations(measured.get("relations")),
        differences(_differences(measured), scale, "a model trained for seconds, which has learned next to nothing."),
    )


_CLAIMS = {  # with what the paper prints
    "Fig. 3: many heads attend to a distant dependency of the verb": "shown for “making”",
    "Fig. 4: two heads apparently involved in anaphora": "shown for “its”",
    "Fig. 4: their attention is very sharp for this word": "shown",
    "Fig. 5: heads that seem related to the sentence's structure": "two shown",
}


def _about_claims(third: Values, fourth: Values, fifth: Values) -> list[str]:
    """Returns what was measured for each of `_CLAIMS`."""
    far = np.array(third["far"])
    best, many = int(np.argmax(far)), int((far > third["even_share"]).sum())
    heads = [head - 1 for head in fourth["heads"]]
    sharp = ", ".join(
        f"head {head + 1} {fourth['entropy'][head]:.2f} bits (all words {fourth['usual_entropy'][head]:.2f})"
        for head in heads
    )
    given = ", ".join(f"head {head + 1} {fourth['on_antecedent'][head]:.0%}" for head in heads)
    scores = ", ".join(f"head {head} {fifth['scores'][head - 1]:.2f}" for head in fifth["heads"])
    return [
        f"“{third['word']}”: {many} of {len(far)} heads give words more than three away more than an even share "
        f"({third['even_share']:.0%}); at most {far[best]:.0%} (head {best + 1}, most of it to "
        f"“{third['most_far'][best]}”)",
        f"from “{fourth['word']}” to “{fourth['antecedent']}”: {given} (an even share: {fourth['even_share']:.0%})",
        sharp,
        f"score: {scores}",
    ]


def _about_relations(found: Values | None) -> list[str]:
    """Returns the section about a treebank, if there is one."""
    if found is None:
        return []
    header = ["relation", "cases", "layer.head", "right", "fixed distance", "chance", "gain [95 %]", "verdict"]
    others = [(name, each) for name, each in _by_gain(found) if "elsewhere" in each]
    return [
        "## Relations over a treebank",
        f"{found['sentences']} sentences. A head is right where it gives its greatest weight from one of the two words "
        "to the other. Each second sentence chose the head, its direction and the distance that is right most often; "
        "the others score them. The gain is over the better of a fixed distance and chance, its interval over "
        "sentences. “distant”: any relation over more than three words. “antecedent”: of a pronoun, by Hobbs' "
        "algorithm.",
        table(header, [_relation_row(name, each, _rivals(each)) for name, each in _by_gain(found)]),
        "Only the pairs at other distances than that, with a head chosen for them; the gain is over chance:",
        table(
            [*header[:4], *header[6:]],
            [_relation_row(name, each["elsewhere"], []) for name, each in others],
        ),
        "![](relations.png)",
        "Heads that these numbers chose, in the sentences above: "
        + "; ".join(f"{each['layer']}.{each['heads'][0]} for {each['relation']}" for each in found["shown"])
        + ".",
    ]


def _by_gain(found: Values) -> list[tuple[str, Values]]:
    return sorted(found["relations"].items(), key=lambda item: -item[1]["gain"][0])


def _rivals(each: Values) -> list[str]:
    return [f"{each['share_at_distance']:.0%} ({each['distance']:+d})", f"{each['chance']:.0%}"]


def _relation_row(name: str, each: Values, rivals: Sequence[str]) -> list[str]:
    head = f"{each['layer']}.{each['head']}, {each['direction']}"
    gain = "{:+.0%} [{:+.0%}, {:+.0%}]".format(*each["gain"])
    seen = "seen" if each["seen"] else "not seen"
    return [name, str(each["cases"]), head, f"{each['share']:.0%}", *rivals, gain, seen]


def _by_head(columns: Mapping[str, Sequence[str]], chosen: Sequence[int] = ()) -> str:
    """Returns a table with a row for each head; the chosen heads are bold."""
    cells_by_head = enumerate(zip(*columns.values(), strict=True), start=1)
    rows = [[f"**{head}**" if head in chosen else str(head), *cells] for head, cells in cells_by_head]
    return table(["head", *columns], rows)


def _formatted(values: Sequence[float], form: str) -> list[str]:
    return [f"{value:{form}}" for value in values]


def _differences(measured: Measured) -> list[str]:
    model, third = measured["model"], measured["figure3"]
    shape = model["shape"]
    return [
        f"- The model: {model['name']}, {shape['num_encoder_layers']} encoder layers of {shape['num_heads']} heads, "
        f"d_model {shape['d_model']}; the paper's figures have 6 layers, and do not say which of its models it is.",
        f"- The layer: {third['layer']} of {third['num_layers']}; the paper's is 5 of 6.",
        "- The paper's heads were chosen by eye; these by the numbers above, in one sentence. That a head attends to "
        "an antecedent there does not mean that it does so elsewhere, nor that the translation depends on it.",
        "- Words are separated by white space. The weights of a word's pieces are summed over keys and averaged over "
        "queries.",
    ]


def draw(measured: Measured, folder: Path) -> None:
    """Writes figure3.png, figure4.png, figure5.png, and relations.png where a treebank chose heads."""
    third, fourth, fifth = (measured[name] for name in ("figure3", "figure4", "figure5"))
    row = _view(third)
    columns = [index for index, label in enumerate(third["words"]) if label == third["word"]]
    row.weights[third["layer"] - 1][:, columns] = np.array(third["weights"])[:, None]
    draw_panels([Panel(row, third["layer"], word=third["word"])], folder / "figure3.png")
    both = _view(fourth, fourth["heads"])
    panels = [
        Panel(both, fourth["layer"], fourth["heads"][:1]),
        Panel(both, fourth["layer"], fourth["heads"], word=fourth["word"]),
    ]
    draw_panels(panels, folder / "figure4.png")
    structure = _view(fifth, fifth["heads"])
    draw_panels([Panel(structure, fifth["layer"], [head]) for head in fifth["heads"]], folder / "figure5.png")
    if "relations" in measured:
        panels = [
            Panel(_view(each, each["heads"]), each["layer"], each["heads"]) for each in measured["relations"]["shown"]
        ]
        draw_panels(panels, folder / "relations.png")


def _view(values: Values, heads: Sequence[int] = ()) -> View:
    """Returns a view with the weights that results.json has; all others are zero."""
    units = tuple(Unit(label, number) for number, label in enumerate(values["words"]))
    weights = np.zeros((values["num_layers"], values["num_heads"], len(units), len(units)))
    for head, kept in zip(heads, values["weights"], strict=False):
        weights[values["layer"] - 1, head - 1] = kept
    return View("encoder", weights, units, units)
