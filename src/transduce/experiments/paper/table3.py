"""Table 3: the paper's variations of its base model, trained by `ablation`, printed next to measured (§6.2).

Each row is a measurement: it is trained with all its seeds in OUTPUT/ablation, where a stopped training resumes.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from transduce.config import Config, apply_settings, preset
from transduce.config.weights import count_parameters
from transduce.errors import ConfigError, TrainingError
from transduce.experiments.ablation.ablate import ablate
from transduce.experiments.ablation.built_in import TABLE3 as GRID
from transduce.experiments.ablation.built_in import at_width
from transduce.experiments.ablation.report import render_body
from transduce.experiments.ablation.results import Results, TrialResult, row_infos
from transduce.experiments.ablation.trials import Ablation
from transduce.experiments.paper.experiment import Experiment, Measured, Measurement, Options, Say, Values
from transduce.experiments.paper.report import differences, page
from transduce.experiments.paper.scales import Scale, at_scale
from transduce.experiments.paper.trained_models import (
    RECIPES,
    comparable,
    demo_config,
    make_demo,
    recipe_config,
    refuse_without_effect,
)
from transduce.reporting.charts import COLOURS, GREY, name_rows, new_chart, save_chart
from transduce.reporting.tables import counted, table

_SMOKE = "models trained for seconds on a generated corpus. The figures only show that it runs."
_MEASURES = {"perplexity": "perplexity per subword", "bleu": "BLEU"}


@dataclass(frozen=True)
class Settings:
    """What is trained at a scale."""

    recipe: Path | None = None  # None: the demo's corpus
    width: int = 0  # d_model of a base in the paper's proportions; 0: the recipe's model as it is
    changes: tuple[str, ...] = ()  # of the recipe, as `section.key=value`
    seeds: int = 1
    tokenized: bool = False
    paper_bleu: bool = False  # whether BLEU is computed as the paper's authors did, to compare with the printed scores
    rows: tuple[str, ...] = tuple(row.name for row in GRID.rows)


SETTINGS: dict[Scale, Settings] = {
    "smoke": Settings(
        width=32,
        changes=("model.num_encoder_layers=1", "model.num_decoder_layers=1", "model.norm=post"),
        rows=("base", "A1", "D3", "E"),
    ),
    "laptop": Settings(
        recipe=RECIPES / "multi30k-en-de-tok.toml",
        width=64,
        changes=(
            "model.num_encoder_layers=3",
            "model.num_decoder_layers=3",
            "model.dropout=0.1",
            "train.source_batch_tokens=2048",
            "train.target_batch_tokens=2048",
            "train.max_steps=4000",
        ),
        seeds=2,
        tokenized=True,
    ),
    "paper": Settings(recipe=RECIPES / "wmt14-en-de-base.toml", paper_bleu=True),
}


@dataclass(frozen=True)
class Table3Options(Options):
    """Options of Table 3; the scale decides what is not given."""

    recipe: Path | None = None  # the base, given the scale's width and changes all the same
    data: Path | None = None  # its corpus, or a folder of corpora; None: where the recipe has it
    settings: Sequence[str] = ()  # more changes, as `section.key=value`
    rows: Sequence[str] = ()  # rows of Table 3 besides the base; others may follow later
    seeds: int | None = None  # trainings of each row
    jobs: int = 1  # trainings of a row in parallel
    tokenized: bool = False  # whether the corpus of `recipe` is tokenised already
    any_source: bool = False  # whether trainings of other source code count too


def experiment(options: Table3Options) -> Experiment:
    """Returns the experiment.

    Raises:
        ConfigError: a recipe, its corpus or a row is not there, or an option has no effect.
    """
    scale, chosen = options.scale, at_scale(SETTINGS, options.scale)
    recipe = options.recipe or chosen.recipe
    if recipe is None:
        refuse_without_effect({"--corpus": options.data}, f"table3 --scale {scale} trains on a corpus that it makes")
    if options.recipe is None and not chosen.tokenized:
        refuse_without_effect({"--tokenized": options.tokenized}, "it describes the corpus of a --recipe")
    base = _base(recipe, chosen, options)
    num_seeds = chosen.seeds if options.seeds is None else options.seeds
    if num_seeds < 1 or options.jobs < 1:
        raise ConfigError(f"--seeds {num_seeds}, --jobs {options.jobs}: must be greater than 0.")
    tokenized = chosen.tokenized if options.recipe is None else options.tokenized
    study = Study(
        Ablation(GRID, base, options.output / "ablation", num_seeds, tokenized, chosen.paper_bleu, options.any_source),
        jobs=min(options.jobs, num_seeds),
        demo=recipe is None,
        show_progress=not options.quiet,
    )
    settings = {"scale": scale, "seeds": num_seeds, "tokenized": tokenized, "base": comparable(base)}
    rows = GRID.select(["base", *(options.rows or chosen.rows)]).rows  # which every row is compared with
    return Experiment(
        name="table3",
        title="Table 3: variations of the base model",
        settings=settings | ({"bleu": "the paper's way"} if chosen.paper_bleu else {}),
        measurements=[Measurement(row.name, partial(study.measure, row.name)) for row in rows],
        render=partial(_render, scale, study),
        draw=partial(_draw, study),
        order=[row.name for row in GRID.rows],  # rows of earlier calls are shown too
    )


def _base(recipe: Path | None, chosen: Settings, options: Table3Options) -> Config:
    if recipe is None:
        base = demo_config(options.output / "corpus", "de", max_steps=10)
    else:
        base = recipe_config(recipe, options.data)
    if chosen.width:
        base = at_width(base, chosen.width)
    return apply_settings(base, [*chosen.changes, *options.settings])


@dataclass(frozen=True)
class Study:
    """An ablation over Table 3's grid, row by row."""

    ablation: Ablation
    jobs: int
    demo: bool  # whether the corpus is the demo's, to be made
    show_progress: bool

    def measure(self, row: str, say: Say) -> Values:
        """Trains a row with all its seeds and returns the results.

        Raises:
            TrainingError: one of them failed; the same command tries it again.
        """
        if self.demo:
            make_demo(self.ablation.base)
        results = ablate(self.ablation, [row], jobs=self.jobs, show_progress=self.show_progress)
        trials = [trial for trial in results.trials if trial.row == row and trial.seed in self.ablation.seeds]
        for trial in trials:
            if trial.error:
                raise TrainingError(f"table3, row {row}, seed {trial.seed}: {trial.error}")
        return {"bleu": results.bleu, "seeds": [asdict(trial) for trial in trials]}

    def results(self, measured: Measured) -> Results:
        """Returns the rows of `measured` as an ablation's results."""
        rows = row_infos(GRID.select(list(measured)), self.ablation.base)
        trials = tuple(TrialResult(**trial) for row in rows for trial in measured[row.name]["seeds"])
        (first, *_) = measured.values()
        return Results(GRID.name, self.ablation.base.name, first["bleu"], rows, trials)


def parameter_rows() -> list[list[str]]:
    """Returns for each row of Table 3 its parameters × 10⁶: as printed, and of both families of presets."""
    rows = []
    for row in GRID.rows:
        if not row.printed:  # not in the paper
            continue
        printed = row.printed.get("parameters")
        models = (preset(f"{family}-{row.name.lower()}").model for family in ("t2t-2017", "paper"))
        counts = [f"{count_parameters(model) / 1e6:.2f}" for model in models]
        rows.append([row.name, f"{printed:.0f}" if printed else "", *counts])
    return rows


def _render(scale: str, study: Study, measured: Measured) -> str:
    return page(
        render_body(study.results(measured)).rstrip(),
        "## Parameters × 10⁶ at the paper's sizes",
        table(["row", "printed", "`t2t-2017`", "`paper`"], parameter_rows()),
        "`t2t-2017` follows the code that the authors released, `paper` the text: see docs/paper-map.md. Where "
        "nothing is printed, it is as base, or nearly.",
        differences(_differences(study, measured), scale, _SMOKE),
    )


def _differences(study: Study, measured: Measured) -> list[str]:
    base, num_seeds = study.ablation.base, study.ablation.num_seeds
    model, data, train = base.model, base.data, base.train
    corpus = "the demo's generated corpus" if study.demo else data.download or f"that of {base.name}"
    results, seeds = study.results(measured), counted(num_seeds, "seed")
    epochs = results.statistic("base", "epochs")
    seen = f" ({epochs.mean:.1f} epochs)" if epochs else ""
    lines = [
        f"- Data: {corpus}; the paper trained on WMT 2014 English-German, and measured on newstest2013.",
        f"- Base: {model.num_encoder_layers} + {model.num_decoder_layers} layers, d_model {model.d_model}, d_ff "
        f"{model.d_ff}, {model.num_heads} heads of {model.d_k}, dropout {model.dropout:g}, {model.norm}-norm; the "
        "paper's: 6 + 6, 512, 2048, 8 of 64, 0.1, post-norm. Rows vary it in the paper's proportions.",
        f"- Training: {train.max_steps:,} steps of at most {train.target_batch_tokens:,} target tokens{seen}, {seeds}; "
        "the paper's: 100,000 of 25,000 (about 20 epochs), one seed as far as it says.",
        f"- Perplexity is per subword, of {base.text.vocab_size:,} pieces here and 37,000 there: rows can be "
        "compared with each other, not with the printed ones.",
        f"- BLEU: {results.bleu}; the paper's: tokenised, compounds split, on its own data. "
        "Differences between rows can be compared, scores "
        + ("on newstest2013 only." if study.ablation.paper_bleu else "cannot."),
    ]
    if "E" in measured:
        lines.append(
            "- Row E: the two kinds of positions start at different scales. Sinusoids have a root mean square of 0.71 "
            f"a component, learned positions start at {model.d_model**-0.5:.3f} (1/√d_model), but embeddings at 1. "
            "So the row changes two things at once; in row E2, learned positions start at 0.71. The paper does not "
            "say how its own started."
        )
    left_out = [row.name for row in GRID.rows if row.name not in measured]
    return [*lines, f"- Not trained here: rows {', '.join(left_out)}."] if left_out else lines


def _draw(study: Study, measured: Measured, folder: Path) -> None:
    """Writes table3.png: what each row changes against the base, as printed and as measured."""
    results = study.results(measured)
    names = [row.name for row in results.rows if row.name != "base"] or ["base"]
    printed = {row.name: row.printed for row in GRID.rows}
    figure, panels = new_chart(len(_MEASURES), width=4.8, height=1.6 + 0.28 * len(names), share_y=True)
    for panel, (measure, label) in zip(panels, _MEASURES.items(), strict=True):
        panel.axvline(0.0, color=GREY, linewidth=1)
        for index, name in enumerate(names):
            if printed[name]:
                there = printed[name][measure] - printed["base"][measure]
                legend = "printed" if index == 0 else None
                panel.plot([there], [index - 0.12], "o", color=GREY, markersize=5, label=legend)
            base, row = results.statistic("base", measure), results.statistic(name, measure)
            if base is not None and row is not None:
                here = [row.mean - base.mean]
                error = results.pooled_spread(measure)
                bar = error * (1 / base.count + 1 / row.count) ** 0.5 if error is not None else None
                panel.errorbar(
                    here, [index + 0.12], xerr=bar, fmt="D", color=COLOURS[1], markersize=5,
                    label="measured" if index == 0 else None,
                )  # fmt: skip
        panel.set_xlabel(f"{label}: change against base")
    name_rows(panels[0], names)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8)
    figure.suptitle(f"Table 3: {results.base}")
    save_chart(figure, folder / "table3.png")
