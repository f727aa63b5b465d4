"""Table 4 as printed, and the report and picture of what `transduce paper table4` measured for comparison."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.experiments.paper.experiment import Measured, Values
from transduce.experiments.paper.report import differences, mean_and_spread, page
from transduce.reporting.charts import COLOURS, GREY, name_rows, new_chart, save_chart
from transduce.reporting.tables import table

# Table 4 as printed: parser, training, F1 on section 23 of the Wall Street Journal.
LITERATURE = (
    ("Vinyals & Kaiser et al. (2014)", "WSJ only, discriminative", 88.3),
    ("Petrov et al. (2006)", "WSJ only, discriminative", 90.4),
    ("Zhu et al. (2013)", "WSJ only, discriminative", 90.4),
    ("Dyer et al. (2016)", "WSJ only, discriminative", 91.7),
    ("Transformer (4 layers)", "WSJ only, discriminative", 91.3),
    ("Zhu et al. (2013)", "semi-supervised", 91.3),
    ("Huang & Harper (2009)", "semi-supervised", 91.3),
    ("McClosky et al. (2006)", "semi-supervised", 92.1),
    ("Vinyals & Kaiser et al. (2014)", "semi-supervised", 92.1),
    ("Transformer (4 layers)", "semi-supervised", 92.7),
    ("Luong et al. (2015)", "multi-task", 93.0),
    ("Dyer et al. (2016)", "generative", 93.3),
)
_PAPER_SILVER = {False: "", True: ", and about 17 million silver ones"}
SHORT_WORDS = 25  # words at most, so that exact CKY with a treebank's grammar is fast enough

_SMOKE = "models trained for seconds on trees of a toy grammar. The figures only show that it runs."
_FIGURES = ("f1", "precision", "recall", "complete_match", "tagging_accuracy", "repaired")


@dataclass(frozen=True)
class Baseline:
    """The result of another parser on a test set."""

    name: str
    test: str
    f1: float
    max_words: int | None = None  # longer sentences were not parsed

    @property
    def data(self) -> str:
        """The test set as the table names it."""
        if self.max_words in (None, SHORT_WORDS):
            return self.test
        return f"{self.test}, up to {self.max_words} words"

    @property
    def is_short(self) -> bool:
        """Whether it compares with our short sentences."""
        return self.max_words == SHORT_WORDS


def _trained(measured: Measured) -> list[Values]:
    return [values for values in measured.values() if "setting" in values]


def our_scores(measured: Measured, *, short: bool = False) -> dict[tuple[str, str], list[dict[str, float]]]:
    """Returns the scores of each training and test set, one for each seed, of all or of short sentences."""
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    for values in _trained(measured):
        for test, scores in values.get("short_scores" if short else "scores", {}).items():
            if scores["sentences"]:
                found.setdefault((values["setting"], test), []).append(scores)
    return found


def render(scale: str, measured: Measured, *, baselines: Sequence[Baseline] = ()) -> str:
    """Returns the report as Markdown."""
    scores = our_scores(measured)
    figures = [
        [setting, test, f"{found[0]['sentences']:,}", *(_over_seeds(found, name) for name in _FIGURES)]
        for (setting, test), found in scores.items()
    ]
    seeds = max(map(len, scores.values()))
    spread = f"Mean of {seeds} seeds ± their standard deviation." if seeds > 1 else "One seed: there is no spread."
    return page(
        "Labelled F1. Rows as printed, then ours as measured.",
        table(
            ["parser", "training", "test set", "F1, printed", "F1, measured", f"up to {SHORT_WORDS} words"],
            list(_rows(measured, baselines)),
            text_columns=3,
        ),
        "## Ours",
        table(["training", "test set", "sentences", *(n.replace("_", " ") for n in _FIGURES)], figures, text_columns=2),
        f"{spread} Per cent; “repaired” is the share of outputs that were no tree over the words.",
        differences(_differences(measured), scale, _SMOKE),
    )


def _rows(measured: Measured, baselines: Sequence[Baseline]) -> Iterator[list[str]]:
    """Yields the rows of the first table: printed ones, baselines, ours."""
    for parser, training, printed in LITERATURE:
        yield [parser, training, "WSJ 23", f"{printed:.1f}", "", ""]
    for each in baselines:
        whole, short = ("", f"{each.f1:.2f}") if each.is_short else (f"{each.f1:.2f}", "")
        yield [f"baseline: {each.name}", "", each.data, "", whole, short]
    recipe = _trained(measured)[0]["recipe"]
    of_short = our_scores(measured, short=True)
    for (setting, test), found in our_scores(measured).items():
        short = _over_seeds(of_short.get((setting, test), ()), "f1")
        yield [f"**measured: {recipe}**", setting, test, "", _over_seeds(found, "f1"), short]


def _over_seeds(scores: Sequence[Mapping[str, float]], name: str) -> str:
    return mean_and_spread([each[name] for each in scores]) if scores else ""


def _differences(measured: Measured) -> Iterator[str]:
    for setting in dict.fromkeys(values["setting"] for values in _trained(measured)):
        values = next(values for values in _trained(measured) if values["setting"] == setting)
        model, metrics = values["model"], values["metrics"]
        silver = f" and {values['silver_trees']:,} silver ones" if values["silver_trees"] else ""
        yield (
            f"- {setting}: {values['gold_trees']:,} gold trees{silver} (the paper: about 40,000"
            f"{_PAPER_SILVER[bool(silver)]}); {model['num_encoder_layers']} + {model['num_decoder_layers']} layers of "
            f"d_model {model['d_model']} (4 of 1024), {model['vocab_size']:,} pieces (16,000; with silver 32,000), "
            f"{model['norm']}-norm (post-norm); {metrics['steps']:,} steps; beam {values['decode']['beam_size']}, α "
            f"{values['decode']['length_penalty']:g} (21, 0.3){_among_trees(values)}."
        )
    if "silver" in measured:
        made = measured["silver"]
        repaired = made["kept"] - made["well_formed"]
        doubt = f" **{repaired:,} of them were no trees as they were written, and were repaired.**" if repaired else ""
        yield (
            f"- Silver trees: our own parser's, by greedy search, of {made['kept']:,} of {made['sentences']:,} "
            f"sentences ({made['source']}); the paper's: a high-confidence corpus, and output of the Berkeley "
            f"parser.{doubt}"
        )
    elif not any(values["silver_trees"] for values in _trained(measured)):
        yield "- The semi-supervised parser was not trained: it needs --raw or --silver."
    yield from (
        "- Test sets: ours are in the table; the printed rows are all of section 23 of the Wall Street Journal.",
        "- F1 is that of EVALB with the parameters of Collins, by our own scorer, which is tested against EVALB's "
        "samples; gold tags say what is punctuation, so that no sentence is left out.",
        "- Other parsers' rows are as quoted by the paper; they were not measured here.",
    )


def _among_trees(values: Values) -> str:
    """Returns a clause where the search was constrained; results of earlier versions do not have the key."""
    return (
        ", searched among well-formed trees only (the paper constrains no search)"
        if values["decode"].get("constrained")
        else ""
    )


def draw(measured: Measured, folder: Path, *, baselines: Sequence[Baseline] = ()) -> None:
    """Writes table4.png: F1 of every row."""
    rows: list[tuple[str, float, float, str]] = [
        (f"{parser}, {training.partition(',')[0]}", f1, 0.0, COLOURS[0] if parser.startswith("Transformer") else GREY)
        for parser, training, f1 in LITERATURE
    ]
    for each in baselines:
        words = f", up to {each.max_words} words" if each.is_short else ""
        rows.append((f"baseline: {each.name}, {each.data}{words}", each.f1, 0.0, COLOURS[2]))
    rows += _bars(our_scores(measured))
    if any(each.is_short for each in baselines):
        rows += _bars(our_scores(measured, short=True), f", up to {SHORT_WORDS} words")
    figure, (panel,) = new_chart(width=8.0, height=1.2 + 0.26 * len(rows))
    for index, (_, score, spread, colour) in enumerate(rows):
        panel.errorbar([score], [index], xerr=spread or None, fmt="o", color=colour, markersize=6, capsize=3)
        figures = f"{score:.1f} ± {spread:.1f}" if spread else f"{score:.1f}"
        right = ("axes fraction", "data")
        panel.annotate(figures, (1.01, index), xycoords=right, va="center", fontsize=8, color=colour)
    name_rows(panel, [name for name, *_ in rows], fontsize=8)
    panel.set_xlabel("labelled F1")
    green = "green another parser, " if baselines else ""
    panel.set_title(f"Table 4: grey and blue as printed (WSJ 23), {green}red as measured", fontsize=10, loc="right")
    save_chart(figure, folder / "table4.png")


def _bars(
    scores: dict[tuple[str, str], list[dict[str, float]]], words: str = ""
) -> Iterator[tuple[str, float, float, str]]:
    """Yields our rows of the picture: name, mean F1, spread and colour."""
    for (setting, test), found in scores.items():
        f1 = [each["f1"] for each in found]
        spread = statistics.stdev(f1) if len(f1) > 1 else 0.0
        yield f"ours: {setting}, {test}{words}", statistics.fmean(f1), spread, COLOURS[1]
