"""The report of the filter as an HTML page: numbers of pairs, what each rule dropped, and examples."""

import html
from collections.abc import Iterator

from transduce.augmentation.filtering.report import FilterReport
from transduce.config.filter_options import RULES
from transduce.data.dropped import LOG_NAME, Dropped
from transduce.reporting.page import histogram, page, share_bar

_MAX_SHOWN = 600  # characters of a line
_SETTINGS = {
    "length": ("max_words", "at most {:,} words"),
    "ratio": ("max_ratio", "at most {:g} times the usual ratio"),
    "copy": ("max_copied", "less than {:.0%} of the words"),
    "alignment": ("min_alignment", "probability at least {:g}"),
    "cross-entropy": ("max_cross_entropy", "at most {:.2f}"),
    "near-duplicate": ("min_similarity", "less than {:.0%} of the words"),
}


def report_page(report: FilterReport) -> str:
    """Returns the report as one HTML page."""
    title = f"Filtered: {', '.join(names[0] for names in report.files)}"
    parts = [*_head(report), *_rules(report), *_pictures(report), *_examples(report), *_files(report)]
    return page(title, "\n".join(parts))


def _share(count: int, total: int) -> str:
    return f"{count / max(1, total):.2%}"


def _head(report: FilterReport) -> Iterator[str]:
    dropped = report.num_pairs - report.num_kept
    yield "<main>\n<h1>What the filter kept, and what it dropped</h1>"
    names = ", ".join(f"<code>{html.escape(' + '.join(names))}</code>" for names in report.files)
    yield f'<p class="soft">{names}</p>'
    yield '<ul class="figures">'
    for number, words in (
        (f"{report.num_pairs:,}", "pairs read"),
        (f"{report.num_kept:,}", f"kept, {_share(report.num_kept, report.num_pairs)}"),
        (f"{dropped:,}", f"dropped, {_share(dropped, report.num_pairs)}"),
    ):
        yield f'<li><b>{number}</b> <span class="soft">{words}</span></li>'
    yield "</ul>"
    for note in report.notes:
        yield f"<p>Note: {html.escape(note)}.</p>"


def _rules(report: FilterReport) -> Iterator[str]:
    yield '<h2>Dropped, by rule</h2>\n<div class="panel"><table class="rules">\n<thead><tr><th>rule</th>'
    yield '<th class="wide">drops</th><th class="wide">setting</th><th class="number">pairs</th>'
    yield '<th class="number">share</th><th></th></tr></thead><tbody>'
    most = max([1, *report.dropped.values()])
    for rule, count in report.dropped.items():
        key, words = _SETTINGS.get(rule, ("", ""))
        setting = words.format(report.settings[key]) if key else ""
        name = f'<a href="#{rule}">{rule}</a>' if rule in report.examples else rule
        kind = "" if count else ' class="none"'
        yield (
            f'<tr{kind}><td>{name}</td><td class="wide">{RULES[rule]}</td><td class="wide small">{setting}</td>'
            f'<td class="number">{count:,}</td><td class="number">{_share(count, report.num_pairs)}</td>'
            f"<td>{share_bar(count / most)}</td></tr>"
        )
    yield "</tbody></table></div>"
    off = report.settings["off"]
    if off:
        yield f'<p class="soft small">Not applied: {", ".join(off)}.</p>'
    yield '<p class="soft small">A pair is dropped by the first rule that it breaks.</p>'


def _pictures(report: FilterReport) -> Iterator[str]:
    yield '<h2>Before and after</h2>\n<p class="small"><span class="key">kept</span>'
    yield '<span class="key lost">dropped</span>'
    yield '<span class="soft">Heights are square roots of the number of pairs.</span></p>\n<div class="pictures">'
    for each in report.distributions:
        label = f"Histogram of the {each.name}: {sum(each.before):,} pairs before, {sum(each.after):,} after."
        picture = histogram(each.edges, each.before, each.after, label)
        yield f'<figure class="panel"><figcaption>{html.escape(each.name)}</figcaption>{picture}</figure>'
    yield "</div>"


def _examples(report: FilterReport) -> Iterator[str]:
    if report.examples:
        yield f'<h2>Examples</h2>\n<p class="soft small">All of them are in <code>{LOG_NAME}</code>.</p>'
    for rule, examples in report.examples.items():
        words = f"{RULES[rule]}; {report.dropped[rule]:,}"
        yield f'<details id="{rule}" open><summary>{rule} <span>{words}</span></summary>'
        yield from map(_example, examples)
        yield "</details>"


def _example(dropped: Dropped) -> str:
    texts = "".join(f'<p dir="auto">{html.escape(_cut(text)) or "—"}</p>' for text in (dropped.source, dropped.target))
    where = f"<code>{html.escape(dropped.location)}</code> {html.escape(dropped.reason)}"
    return f'<div class="example"><p class="small soft">{where}</p><div class="texts">{texts}</div></div>'


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _files(report: FilterReport) -> Iterator[str]:
    if len(report.files) > 1:
        yield '<h2>By file</h2>\n<div class="panel"><table><thead><tr><th>files</th><th class="number">pairs</th>'
        yield '<th class="number">kept</th><th class="number">share</th></tr></thead><tbody>'
        for names, size, kept in zip(report.files, report.part_sizes, report.part_kept, strict=True):
            yield (
                f"<tr><td><code>{html.escape(' + '.join(names))}</code></td>"
                f'<td class="number">{size:,}</td><td class="number">{kept:,}</td>'
                f'<td class="number">{_share(kept, size)}</td></tr>'
            )
        yield "</tbody></table></div>"
    yield "</main>"
