"""Cleans a parallel corpus: learns its usual properties, checks each pair, writes good ones and logs the others."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path

from transduce.augmentation.filtering.cross_entropy import Scorer, score_corpus, usual_limit
from transduce.augmentation.filtering.judgement import judge
from transduce.augmentation.filtering.page import report_page
from transduce.augmentation.filtering.profile import learn_profile
from transduce.augmentation.filtering.report import FilterReport, make_report
from transduce.augmentation.filtering.writing import Writer, require_distinct_names
from transduce.config import DataConfig
from transduce.config.filter_options import FilterOptions
from transduce.data.corpus import Part, locate
from transduce.data.dropped import LOG_NAME
from transduce.errors import ConfigError, DataError
from transduce.files import atomic_folder, require_free, write_json, write_text

REPORT_NAME, PAGE_NAME = "report.json", "report.html"


def filter_corpus(
    data: DataConfig,
    output: str | Path | None,
    options: FilterOptions | None = None,
    *,
    models: tuple[Scorer, Scorer] | None = None,
    dry_run: bool = False,
    overwrite: bool = False,
    progress: bool = False,
) -> FilterReport:
    """Cleans the training files of a corpus.

    `output` gets the pairs that are kept, in files of the same names and compression (of a translation memory, in a TSV
    file); `dropped.jsonl` with file, line, rule and reason of each pair that is not; `report.json` and `report.html`.
    It appears when all is written, or not at all.

    Args:
        data: names the training files, which must all be of one pair of languages.
        output: folder to write; None: only the report is returned.
        options: which rules are applied, and how strictly.
        models: translators from source to target and from target to source, for dual conditional cross-entropy.
        dry_run: write the reports, not the corpus.
        overwrite: replace a folder that a filter has written before.
        progress: show progress bars on standard error.

    Raises:
        ConfigError: the corpus is a treebank, or has several pairs of languages.
        DataError: the output exists, a file is missing or damaged, two files differ in their number of lines, or there
            are no pairs.
    """
    output = None if output is None else Path(output)
    options = options or FilterOptions()
    if data.format != "text":
        raise ConfigError("data.format = 'trees': only pairs of lines can be filtered.")
    only_training = replace(data, validation=(), validation_sets=(), test={}, test_sets=())
    files = locate(only_training, progress=progress)
    lenient = options.applies("encoding")  # this rule drops lines that are not UTF-8; else they are an error
    parts = tuple(replace(part, replace_invalid=lenient) for part in dict.fromkeys(files.train))
    if output is not None:
        require_distinct_names(parts, (LOG_NAME, REPORT_NAME, PAGE_NAME))
        _require_output(output, parts, overwrite=overwrite)
    profile = learn_profile(parts, progress=progress)
    judgement = judge(parts, profile, options, progress=progress)
    if not len(judgement.rules):
        read = ", ".join(map(str, parts))
        raise DataError(f"There are no pairs to filter: {read or 'data.train'} has no lines.")
    settings = asdict(options)
    if models is not None and options.applies("cross-entropy"):
        scores = judgement.cross_entropy = score_corpus(parts, judgement.kept, models, progress=progress)
        limit = settings["max_cross_entropy"] = options.max_cross_entropy or usual_limit(scores)
        judgement.drop(scores > limit, "cross-entropy")
    writer = Writer(parts, profile, options, judgement)
    written: AbstractContextManager[Path | None] = nullcontext() if output is None else atomic_folder(output)
    with written as folder:
        examples = writer.run(folder, corpus=not dry_run, progress=progress)
        names = [[path.name for path in part.paths] for part in parts]
        report = make_report(names, profile, judgement, examples, settings)
        if folder is not None:
            write_json(folder / REPORT_NAME, report.to_dict())
            write_text(folder / PAGE_NAME, report_page(report))
    return report


def _require_output(output: Path, parts: tuple[Part, ...], *, overwrite: bool) -> None:
    inputs = [path for part in parts for path in part.paths]
    folders = {folder for path in inputs for each in (path.absolute(), path.resolve()) for folder in each.parents}
    if output.is_dir() and any(output.samefile(folder) for folder in folders):
        raise DataError(f"{output}: contains files that are to be filtered. Name another --output.")
    foreign = "" if not output.exists() or (output / REPORT_NAME).is_file() else "no filter has written it"
    require_free(output, overwrite=overwrite, foreign=foreign)
