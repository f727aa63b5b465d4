"""Translates a whole file: it is read, translated and written window by window, in bounded memory."""

import contextlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from transduce.config import DecodeConfig
from transduce.data.progress import progress_bar
from transduce.data.readers import STDIN, read_lines, shown_name
from transduce.reporting.tables import counted
from transduce.translation.constraints.glossary import GlossaryLike, glossary_of
from transduce.translation.constraints.line_constraints import Constraints
from transduce.translation.pipeline import Request, TextOptions, run_pipeline
from transduce.translation.pipeline.text_options import text_options_of
from transduce.translation.result import Translation
from transduce.translation.streams.layouts import Layout, PlainLines
from transduce.translation.streams.output import ResumableOutput, StreamOutput, open_stream
from transduce.translation.streams.remarks import MANY, Remark, remarks_on
from transduce.translation.streams.workers import FileRequest, JobFingerprint, Rows, Workers, fingerprint_of
from transduce.translation.text_model import TextModel
from transduce.translation.translator import Translator
from transduce.translation.windows import Window, cut_windows

# Options that came later: left out where unused, so that jobs begun before go on.
_LATER = ("target", "domain", "capitals", "signs")


@dataclass(frozen=True, slots=True)
class Summary:
    """What a job did."""

    num_lines: int  # of the input
    num_resumed: int  # of these, those that an earlier run had translated
    num_terms: int = 0  # required terms of the lines of this run
    num_honoured: int = 0  # of these, those that came out where the model expected them
    num_forced: int = 0  # and those that came out elsewhere, with a warning for each
    was_finished: bool = False  # whether an earlier run had finished the same job


@dataclass(frozen=True, kw_only=True)
class FileJob:
    """How `translate_file` translates a file.

    Attributes:
        layout: where a line holds its text; None: the line is the text.
        options: of the search; None takes the model's own.
        n_best: translations of each line; the layout must have a place for them.
        text_options: what is done with long lines, markup and doubtful output; None takes the default.
        constraints: one for each line, read alongside.
        glossary: a file or dictionary of source terms and their required translations.
        constraints_name: tells the constraints on all lines from others, for `resume`: checksums of files, that of the
            glossary too. Without it, a job is resumed with the same terms only.
        inline_terms: whether texts mark required terms: see `inline_terms.read_inline_terms`.
        check_end: called after the last line, before the output is complete. If it raises, the job can be resumed:
            constraints that follow those already used may then be others.
        window: lines translated together; None chooses by batch size.
        resume: whether to resume what an earlier run of the same job left; without one, the job begins. The finished
            output of the same job stays as it is; that of another job is refused.
        overwrite: whether to replace a file at the output; not together with `resume`.
        progress: whether to show a bar with an estimate of the time left, and one within very long lines.
        warn: called with each warning; None issues Python's.
        warn_of_lines: whether to warn of what is doubtful in a line.
        lines: read in place of those of the source, which is then their name and has as many.
        to_continue: what the warning of a job that was stopped advises.
    """

    layout: Layout | None = None
    options: DecodeConfig | None = None
    n_best: int = 1
    text_options: TextOptions | None = None
    constraints: Iterable[Constraints] | None = None
    glossary: GlossaryLike = None
    constraints_name: str = ""
    inline_terms: bool = False
    check_end: Callable[[], None] | None = None
    window: int | None = None
    resume: bool = False
    overwrite: bool = False
    progress: bool = False
    warn: Callable[[str], None] | None = None
    warn_of_lines: bool = True
    lines: Iterable[str] | None = None
    to_continue: str = "Add --resume to continue."


def translate_file(
    translator: Translator | Workers, source: str | Path, output: str | Path | None, job: FileJob | None = None
) -> Summary:
    """Translates the lines of a file, in order, into a file of the same layout.

    Memory holds one window of lines, however long the file is. The output appears under its name when it is complete.
    Before that, a partial file and a journal are next to it (`streams.output`), from which `resume` continues.

    Args:
        translator: the model, or workers that have it (`streams.cluster`).
        source: plain, `.gz` or `.zst`; "-" is standard input.
        output: likewise; None is standard output.
        job: how; None takes all defaults.

    Raises:
        ConfigError: an option is wrong, or is not the one with which the job was begun.
        DataError: a file cannot be read or written, or `output` exists; the message names file and line.
    """
    source, output = Path(source), None if output is None else Path(output)
    job = job or FileJob()
    workers = _OneTranslator(translator, job.progress) if isinstance(translator, Translator) else translator
    text_options = text_options_of(job.text_options)
    options = workers.options if job.options is None else job.options
    translation = Request(options, job.n_best, text_options, glossary_of(job.glossary))
    request = FileRequest(translation, job.layout or PlainLines(), job.inline_terms)
    if job.inline_terms:
        text_options.require_whole_lines()
    description = _description(workers.fingerprint(request), request, job.window)
    description["constraints"] = job.constraints_name
    if translation.glossary is not None and not job.constraints_name:  # which names the file of a glossary
        description["glossary"] = translation.glossary.checksum
    lines = read_lines(source) if job.lines is None else iter(job.lines)
    constraints = None if job.constraints is None else iter(job.constraints)
    with (
        open_stream(output, description, resume=job.resume, overwrite=job.overwrite) as sink,
        _hint(sink, output, job),
    ):
        sink.skip(lines if constraints is None else _with_constraints(lines, constraints))
        num_resumed = sink.num_lines
        tally = _Tally(source, job.warn or (lambda message: warnings.warn(message, stacklevel=3)))
        total = sum(1 for _ in read_lines(source)) if job.progress and source != STDIN and source.is_file() else None
        with progress_bar("translating", total, unit=" lines", shown=job.progress) as bar:
            bar.initial = bar.n = num_resumed
            origin = f"{shown_name(source)}, "
            size = Translator.window_lines(translation.options) if job.window is None else job.window
            windows = cut_windows(lines, size, constraints, first=num_resumed + 1, origin=origin)
            for done, rows in workers.translate(windows, request):
                tally.add(rows if job.warn_of_lines else _without_doubts(rows))
                read = done.lines if done.constraints is None else _with_constraints(done.lines, done.constraints)
                sink.write(list(read), rows.rows)
                bar.update(len(done.lines))
        tally.end()
        if job.check_end:
            job.check_end()
        was_finished = isinstance(sink, ResumableOutput) and sink.already_whole
        return Summary(sink.num_lines, num_resumed, tally.num_terms, tally.num_honoured, tally.num_forced, was_finished)


def _without_doubts(rows: Rows) -> Rows:
    """Returns the rows without warnings; of the remarks, the one on lines of many sentences stays."""
    return replace(rows, warnings=(), remarks={key: lines for key, lines in rows.remarks.items() if key == MANY})


class _OneTranslator:
    """A translator as the only worker: a window is read when the one before was written."""

    def __init__(self, translator: Translator, progress: bool) -> None:
        self.translator, self.progress = translator, progress
        self.options = translator.options

    def fingerprint(self, request: FileRequest) -> JobFingerprint:
        return fingerprint_of(self.translator, request)

    def translate(self, windows: Iterable[Window], request: FileRequest) -> Iterator[tuple[Window, Rows]]:
        return map(partial(translate_window, self.translator, request, progress=self.progress), windows)


def translate_window(
    model: TextModel, request: FileRequest, window: Window, *, progress: bool = False
) -> tuple[Window, Rows]:
    """Returns the window with its rows; raises DataError, which names file and line, if a line is wrong."""
    texts = [request.layout.text(line, window.name(index)) for index, line in enumerate(window.lines)]
    plain = replace(window, lines=texts)
    if request.inline_terms:
        plain = _without_inline_terms(plain)
    found = run_pipeline(model, plain, request.translation, progress=progress)
    came = [came for best, *_ in found for _, came in best.required]
    num_forced = sum(len(best.forced) for best, *_ in found)
    numbered = enumerate(zip(window.lines, found, strict=True), start=window.first)
    rows = Rows(
        rows=[row for number, (line, each) in numbered for row in request.layout.rows(line, number, each)],
        warnings=[
            f"{window.name(index)}: {warning}"
            for index, (best, *_) in enumerate(found)
            for warning in _warnings(best, model.engine.max_source_tokens)
        ],
        num_terms=len(came),
        num_honoured=sum(came) - num_forced,
        num_forced=num_forced,
        remarks=remarks_on(model, plain, found, request.translation.text_options),
    )
    return window, rows


def _without_inline_terms(window: Window) -> Window:
    """Returns the window without the marks in its texts; the marked terms are constraints."""
    from transduce.translation.constraints.inline_terms import read_inline_terms

    lines, constraints = [], []
    for index, text in enumerate(window.lines):
        given = window.constraints_of(index)
        plain, terms = read_inline_terms(text, window.name(index))
        lines.append(plain)
        constraints.append(replace(given, required=(*given.required, *terms)))
    return replace(window, lines=lines, constraints=constraints)


def _warnings(best: Translation, limit: int) -> Iterator[str]:
    if best.source_truncated:
        yield f"longer than the {limit} tokens that the model reads; only its beginning is translated."
    yield from best.warnings


def _with_constraints(lines: Iterable[str], constraints: Iterable[Constraints]) -> Iterator[str]:
    """Yields each line with its constraints: what its rows depend on."""
    of_lines = iter(constraints)  # they may be endless, and end before lines that the input has got since
    return (f"{line}\n{next(of_lines, None)}" for line in lines)


@dataclass
class _Tally:
    """Counts over a job, and the warnings about its lines."""

    source: Path
    warn: Callable[[str], None]
    num_terms: int = 0
    num_honoured: int = 0
    num_forced: int = 0
    remarks: Counter[Remark] = field(default_factory=Counter)

    def add(self, rows: Rows) -> None:
        """Counts the rows of a window, and passes their warnings on."""
        for message in rows.warnings:
            self.warn(message)
        self.num_terms += rows.num_terms
        self.num_honoured += rows.num_honoured
        self.num_forced += rows.num_forced
        for remark, numbers in rows.remarks.items():
            if not self.remarks[remark]:
                self.warn(f"{shown_name(self.source)}, line {numbers[0]}: {remark.of_first}")
            self.remarks[remark] += len(numbers)

    def end(self) -> None:
        """Warns of what is known at the end only."""
        for remark, count in self.remarks.items():
            if count > 1:
                self.warn(f"{shown_name(self.source)}: {counted(count, 'line')} in all {remark.of_all}")


@contextlib.contextmanager
def _hint(sink: StreamOutput, output: Path | None, job: FileJob) -> Iterator[None]:
    """Warns that a job which was stopped can be resumed, and how."""
    try:
        yield
    except BaseException:
        if job.warn is not None and isinstance(sink, ResumableOutput) and sink.num_lines and not sink.already_whole:
            verb = "is" if sink.num_lines == 1 else "are"
            done = f"{counted(sink.num_lines, 'line')} {verb} done and kept"
            job.warn(f"{output}: stopped; {done}. {job.to_continue}")
        raise


def _description(fingerprint: JobFingerprint, request: FileRequest, window: int | None) -> dict[str, Any]:
    """Returns all that the rows depend on besides the input, by the names that users know."""
    model = {f"sha256 of {name}": digest for name, digest in fingerprint.checksums.items()}
    options, texts = asdict(request.translation.options), asdict(request.translation.text_options)
    batches = {"with a shortlist, batch_size and window": [options.pop("batch_size"), window]}
    # Batches change speed and memory only, unless the engine searches a whole batch in one shortlist.
    return {
        **options,
        **({} if fingerprint.independent_lines else batches),
        **{key: value for key, value in texts.items() if value or key not in _LATER},
        **model,
        "engine": fingerprint.engine,
        "layout": repr(request.layout),
        "calibration": fingerprint.calibration,
        "n_best": request.translation.n_best,
        "inline_terms": request.inline_terms,
    }
