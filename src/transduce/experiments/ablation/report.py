"""An ablation's results as a page, with the table and which of the paper's conclusions hold, and as a picture."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transduce.experiments.ablation.conclusions import LONG_TRAINING, judge
from transduce.experiments.ablation.results import Results, RowInfo, Statistic
from transduce.reporting.charts import COLOURS, GREY, name_rows, new_chart, save_chart
from transduce.reporting.tables import counted, table

_PANELS = (("perplexity", "perplexity per subword (left is better)"), ("bleu", "BLEU (right is better)"))


def render(results: Results) -> str:
    """Returns the page; results that are missing yet are left blank."""
    return f"# {results.grid}: variations of {results.base}\n\n{render_body(results)}"


def render_body(results: Results) -> str:
    """Returns the page without its title."""
    seeds = sorted({trial.seed for trial in results.trials if not trial.error})
    parts = [
        f"Perplexity per subword and BLEU ({results.bleu}) on the validation set, from the last checkpoint, no "
        f"checkpoints averaged. {_about_seeds(seeds)}{_about_sources(results)}\n",
        _table(results),
        _conclusions(results),
        _failures(results),
        _total(results),
    ]
    return "\n".join(part for part in parts if part)


def _about_seeds(seeds: list[int]) -> str:
    if len(seeds) < 2:
        return "One seed: these figures do not show how much of a difference is chance."
    return f"Mean over seeds {', '.join(map(str, seeds))}; ± is their standard deviation."


def _about_sources(results: Results) -> str:
    sources = sorted({trial.source or "not noted" for trial in results.trials if not trial.error})
    return f" Trained by different source code: {', '.join(sources)}." if len(sources) > 1 else ""


def _table(results: Results) -> str:
    printed = any(row.printed for row in results.rows)
    header = ["row", "what it changes"]
    for name in ("perplexity", "BLEU", "parameters × 10⁶"):
        header += [f"{name}, printed", name] if printed else [name]
    header += ["steps", "seconds", "FLOPs"]
    return table(header, [_row(results, row, printed) for row in results.rows], text_columns=2) + "\n"


def _row(results: Results, row: RowInfo, printed: bool) -> list[str]:
    line = [row.name, describe_settings(row.settings)]
    for measure, decimals, scale in (("perplexity", 2, 1.0), ("bleu", 1, 1.0), ("parameters", 2, 1e-6)):
        if printed:
            form = "g" if measure == "parameters" else f".{decimals}f"
            line.append(f"{row.printed[measure]:{form}}" if measure in row.printed else "")
        line.append(_measured(results.statistic(row.name, measure), decimals, scale))
    line.append(_measured(results.statistic(row.name, "steps"), 0))
    line.append(_measured(results.statistic(row.name, "training_seconds"), 0))
    flops = results.statistic(row.name, "training_flops")
    return [*line, f"{flops.mean:.2e}" if flops else ""]


def describe_settings(settings: Mapping[str, Any]) -> str:
    """Returns what a row changes in few words, such as `num_heads 1, d_k 512`; equal numbers of layers become one."""
    short = {key.rpartition(".")[2]: value for key, value in settings.items()}
    if "num_encoder_layers" in short and short["num_encoder_layers"] == short.get("num_decoder_layers"):
        short = {"num_layers": short["num_encoder_layers"]} | {
            key: value for key, value in short.items() if not key.endswith("coder_layers")
        }
    return ", ".join(f"{key} {value}" for key, value in short.items())


def _measured(statistic: Statistic | None, decimals: int, scale: float = 1.0) -> str:
    if statistic is None:
        return ""
    mean = f"{statistic.mean * scale:,.{decimals}f}"
    if not statistic.spread:  # one seed, or what does not depend on it
        return mean
    return f"{mean} ± {statistic.spread * scale:,.{decimals}f}"


def _conclusions(results: Results) -> str:
    if not (findings := judge(results)):
        return ""
    lines = ["## The paper's conclusions\n"]
    for text in dict.fromkeys(finding.claim.text for finding in findings):
        found = [finding for finding in findings if finding.claim.text == text]
        if all(finding.verdict == "not measured" for finding in found):
            lines.append(f"- {text}: **not measured**.")
            continue
        lines.append(f"- {text}:")
        for finding in found:
            name = "BLEU" if finding.measure == "bleu" else finding.measure
            lines.append(f"    - {name}: **{finding.verdict}**. {'; '.join(finding.details)}.")
    spread = {measure: results.pooled_spread(measure) for measure in ("perplexity", "bleu")}
    if spread["perplexity"] is None or spread["bleu"] is None:
        lines.append("\nWith one seed there is no spread to judge by: every difference counts.")
    else:
        lines.append(
            f"\nStandard deviation over seeds, all rows together: {spread['perplexity']:.3f} of perplexity, "
            f"{spread['bleu']:.2f} of BLEU. A difference counts where it exceeds two standard errors."
        )
    if any("not testable" in detail for finding in findings for detail in finding.details):
        lines.append(
            f"\nNot testable: it shows after long training only, and this was less than {LONG_TRAINING:.0f} epochs."
        )
    return "\n".join(lines) + "\n"


def _failures(results: Results) -> str:
    lines = [f"- {trial.row}, seed {trial.seed}: {trial.error}" for trial in results.trials if trial.error]
    return "\n".join(["## Failed\n", *lines]) + "\n" if lines else ""


def _total(results: Results) -> str:
    seconds = sum(trial.training_seconds or 0.0 for trial in results.trials)
    flops = sum(trial.training_flops or 0 for trial in results.trials)
    if not seconds:
        return ""
    untimed = sum(trial.training_seconds is None and not trial.error for trial in results.trials)
    without = f" ({counted(untimed, 'training')} without a time left out)" if untimed else ""
    return f"In total: {seconds / 3600:.1f} hours of training{without}, {flops:.2e} FLOPs counted.\n"


def draw(results: Results, path: Path) -> None:
    """Draws perplexity and BLEU of each row, a dot for each seed, into a .png, .svg or .pdf file, if there are results.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    rows = [row.name for row in results.rows if results.statistic(row.name, "perplexity") is not None]
    if not rows:
        return
    figure, panels = new_chart(len(_PANELS), width=4.5, height=1.2 + 0.28 * len(rows), share_y=True)
    for panel, (measure, label) in zip(panels, _PANELS, strict=True):
        if (base := results.statistic("base", measure)) is not None:
            panel.axvline(base.mean, color=GREY, linewidth=1, zorder=0)
        for index, row in enumerate(rows):
            values = [getattr(trial, measure) for trial in results.trials if trial.row == row and not trial.error]
            mean = results.statistic(row, measure)
            panel.plot(values, [index] * len(values), "o", color=COLOURS[0], alpha=0.35, markersize=5)
            if mean is not None:
                panel.plot([mean.mean], [index], "|", color=COLOURS[0], markersize=12, markeredgewidth=2)
        panel.set_xlabel(label)
        panel.grid(visible=False, axis="y")
    name_rows(panels[0], rows)
    figure.suptitle(f"{results.grid}: {results.base}")
    save_chart(figure, path)
