"""Translates a text, and makes a pair of aligned files of it, ready for a recipe.

The work is done by `translate_file`: any engine, any number of machines, resumed where it was stopped. It writes a
record for each line. The files are made from the records at the end, in one pass.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path

from transduce.augmentation.made_corpus import RECORDS, MadeCorpus, complete, prepare_folder, write_corpus
from transduce.augmentation.translation_records import Nearness, TranslationRecords, line_of_pair
from transduce.config import DecodeConfig
from transduce.data.readers import STDIN, PairReader, read_lines, shown_name
from transduce.data.tmx import is_tmx
from transduce.errors import ConfigError, DataError
from transduce.translation.pipeline import TextOptions
from transduce.translation.streams import FileJob, translate_file
from transduce.translation.streams.journal import finished_journal, read_journal
from transduce.translation.streams.workers import Workers
from transduce.translation.translator import Translator


@dataclass(frozen=True, kw_only=True)
class CorpusJob:
    """How `back_translate`, `forward_translate` and `distill` translate.

    Attributes:
        options: of the search or of sampling; None takes the model's own.
        text_options: what is done with long lines, markup and doubtful output.
        window: lines translated together; None chooses by batch size.
        overwrite: whether to start again; else a second call continues or finds the job finished.
        progress: whether to show a bar with an estimate of the time left.
        warn: called with each warning; None issues Python's.
    """

    options: DecodeConfig | None = None
    text_options: TextOptions = field(default_factory=lambda: TextOptions(guard=True))
    window: int | None = None
    overwrite: bool = False
    progress: bool = False
    warn: Callable[[str], None] | None = None


def back_translate(
    translator: Translator | Workers, text: str | Path, output: str | Path, job: CorpusJob | None = None
) -> MadeCorpus:
    """Makes pairs of a text in the target language: its lines are the target side, their translations the source side.

    Args:
        translator: a model of the reverse direction, or workers that have it (`streams.cluster`).
        text: plain, `.gz` or `.zst`; "-" is standard input.
        output: a folder: see `made_corpus`.
        job: how; None takes all defaults.

    Raises:
        ConfigError: an option is wrong, or is not the one with which the job was begun.
        DataError: a file cannot be read or written, or `output` is something else.
    """
    return _make(translator, [Path(text)], output, TranslationRecords("back-translate"), job or CorpusJob())


def forward_translate(
    translator: Translator | Workers, text: str | Path, output: str | Path, job: CorpusJob | None = None
) -> MadeCorpus:
    """Makes pairs of a text in the source language: its lines are the source side, their translations the target side.

    For the arguments see `back_translate`; the model is one of the direction that is to be trained.
    """
    return _make(translator, [Path(text)], output, TranslationRecords("forward-translate"), job or CorpusJob())


def distill(
    translator: Translator | Workers,
    corpus: str | Path | Sequence[str | Path],
    output: str | Path,
    job: CorpusJob | None = None,
    *,
    nearest: Nearness | None = None,
    n_best: int | None = None,
    languages: tuple[str, str] = ("", ""),
) -> MadeCorpus:
    """Makes pairs of a teacher's translations, for a student (Kim and Rush 2016: sequence-level distillation).

    Args:
        translator: the teacher, or workers that have it.
        corpus: a text in the source language; or a list as in recipes: two aligned files, one TSV or one translation
            memory. `nearest` needs a list.
        output: a folder: see `made_corpus`.
        nearest: takes of each line's translations the one nearest to the reference, by sentence BLEU or chrF ("sequence
            interpolation"); None takes the best.
        n_best: translations to choose from; None: as many as the beam has.
        languages: codes of source and target, to choose from a translation memory; "": see `data/tmx.py`.
        job: how; None takes all defaults.

    Raises:
        ConfigError: an option is wrong, or is not the one with which the job was begun.
        DataError: a file cannot be read or written, or not twice, both sides have not as many lines, or `output` is
            something else.
    """
    job, records = job or CorpusJob(), TranslationRecords("distill", nearest)
    if nearest is None and n_best is not None:
        raise ConfigError("n_best is for choosing among translations: name `nearest` as well.")
    paths = [Path(corpus)] if isinstance(corpus, str | Path) else [*map(Path, corpus)]
    if isinstance(corpus, str | Path) and not is_tmx(paths[0]):
        if nearest is not None:
            raise ConfigError(f"{corpus}: has no references: give two aligned files, or one TSV or TMX, in a list.")
        return _make(translator, paths, output, records, job)
    pairs = PairReader(paths, languages=languages)
    for path in paths:
        if path == STDIN or not path.is_file():
            raise DataError(
                f"{shown_name(path)}: not a regular file. Pairs are read twice: write them to a file first."
            )
    for _ in pairs:  # before hours of work: both sides have as many lines, and all are UTF-8
        pass
    if nearest is None:
        return _make(translator, paths, output, records, job, lines=(text for text, _ in pairs))
    n_best = (job.options or translator.options).beam_size if n_best is None else n_best
    return _make(translator, paths, output, records, job, n_best=n_best, lines=(line_of_pair(*pair) for pair in pairs))


def _make(
    translator: Translator | Workers,
    inputs: Sequence[Path],
    output: str | Path,
    records: TranslationRecords,
    job: CorpusJob,
    *,
    n_best: int = 1,
    lines: Iterable[str] | None = None,
) -> MadeCorpus:
    """Translates `lines`, by default those of the first input, and makes the folder."""
    output = Path(output)
    if isinstance(translator, Translator):  # for workers, the command has done so
        texts = job.text_options
        translator.directions.choose(texts.language, texts.target, texts.domain).require_source(inputs[0])
    lines = read_lines(inputs[0]) if lines is None else iter(lines)
    lines = chain([*islice(lines, 1)], lines)  # an input that cannot be read is an error before the folder is made
    prepare_folder(output, overwrite=job.overwrite)
    summary = translate_file(
        translator,
        inputs[0],
        output / RECORDS,
        FileJob(
            layout=replace(records, guard=job.text_options.guard),
            options=job.options,
            n_best=n_best,
            text_options=job.text_options,
            window=job.window,
            resume=not job.overwrite,
            overwrite=job.overwrite,
            progress=job.progress,
            warn=job.warn,
            warn_of_lines=False,  # the folder says which lines are left out, and why
            to_continue="The same command continues.",
            lines=lines,
        ),
    )
    manifest = complete(output) if summary.was_finished else None
    was_finished = manifest is not None
    if manifest is None:
        journal = read_journal(finished_journal(output / RECORDS))
        assert journal is not None  # written with the records
        read = {"files": [str(path) for path in inputs], "sha256_of_lines": journal["read_sha256"]}
        made_by = {"command": records.kind, "input": read, "job": journal["job"]}
        manifest = write_corpus(output, made_by, text_is_target=records.kind == "back-translate")
    num_lines, num_pairs, left_out = (manifest["counts"][name] for name in ("lines", "pairs", "left_out"))
    return MadeCorpus(output, num_lines, num_pairs, left_out, manifest, summary.num_resumed, was_finished)
