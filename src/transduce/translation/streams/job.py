"""A whole file through a translator: read, translated and written window by window, in bounded memory."""

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from transduce.config import DecodeConfig
from transduce.data.progress import progress_bar
from transduce.data.readers import STDIN, read_lines, shown_name
from transduce.engines.loading import NAME_OF_SHORTLIST
from transduce.reporting.tables import counted
from transduce.translation.constraints.glossary import GlossaryLike, glossary_of
from transduce.translation.constraints.search import Constraints
from transduce.translation.pipeline import Handling
from transduce.translation.streams.layouts import Layout, PlainLines
from transduce.translation.streams.output import ResumableOutput, StreamOutput, open_stream
from transduce.translation.streams.windows import Facts, OneTranslator, Request, Rows, Window, Workers
from transduce.translation.translator import Translator
from transduce.translation.windows import windows


@dataclass(frozen=True, slots=True)
class Summary:
    """What a job did."""

    num_lines: int  # of input, in all
    num_resumed: int  # of these, those that an earlier run had done
    num_terms: int = 0  # that were required, of the lines of this run
    num_honoured: int = 0  # of these, those that came out where the model saw a place for them
    num_forced: int = 0  # and those that came out elsewhere, with a warning for each
    was_finished: bool = False  # an earlier run had finished the same job, and the output is as that left it


def translate_file(
    translator: Translator | Workers,
    source: Path,
    output: Path | None,
    *,
    layout: Layout | None = None,
    options: DecodeConfig | None = None,
    n_best: int = 1,
    handling: Handling | None = None,
    constraints: Iterable[Constraints] | None = None,
    glossary: GlossaryLike = None,
    constraints_name: str = "",
    inline_terms: bool = False,
    check_end: Callable[[], None] | None = None,
    window: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = False,
    warn: Callable[[str], None] | None = None,
) -> Summary:
    """Translates the lines of a file, in order, into a file of the same layout.

    Memory holds one window of lines, however long the file is. The output appears under its name when it is whole;
    before that, it and a journal lie beside it (`streams.output`), and a job that was stopped goes on with `resume`.

    Args:
        translator: the model, or workers that have it (`streams.cluster`).
        source: plain, `.gz` or `.zst`; "-" is standard input.
        output: likewise; None is standard output.
        layout: what a line is; None: a text.
        options: of the search; None takes the model's own.
        n_best: translations of each line; the layout must have a place for them.
        handling: of long lines, markup and doubtful output; None takes the default.
        constraints: an entry for each line, read alongside.
        glossary: a file or dictionary; the terms of its source that a line holds must come out as it says.
        inline_terms: whether texts mark terms that must appear; see `inline_terms.read_inline_terms`.
        constraints_name: tells what is asked of all lines from what else could be, for `resume`: checksums of files.
        check_end: called after the last line, before the output is whole; where it raises, the job can be resumed with
            other constraints behind those that were used.
        window: lines translated together; None chooses by batch size.
        resume: whether to go on with what an earlier run of the same job left; where none did, it begins. An output
            that the same job has finished stays as it is, and that of another job is refused.
        overwrite: whether to replace a file that stands at `output`; not together with `resume`.
        progress: whether to show a bar with an estimate of the time left.
        warn: called with each warning; None issues Python's.

    Raises:
        ConfigError: an option is wrong, or is not the one with which the job was begun.
        DataError: a file cannot be read or written, or `output` exists; the message names file and line.
    """
    workers = OneTranslator(translator) if isinstance(translator, Translator) else translator
    request = Request(
        shown_name(source),
        layout or PlainLines(),
        options or workers.options,
        n_best,
        handling or Handling(),
        glossary_of(glossary),
        inline_terms,
    )
    if inline_terms:
        request.handling.of_whole_lines()  # what contradicts it is refused before the first line
    tell = warn or (lambda message: warnings.warn(message, stacklevel=3))
    lines = read_lines(source)
    job = {**_description(workers.facts(request), request, window), "constraints": constraints_name}
    asked = None if constraints is None else iter(constraints)
    with open_stream(output, job, resume=resume, overwrite=overwrite) as sink, _hint(sink, output, warn):
        sink.skip(lines if asked is None else _beside(lines, asked))
        num_resumed = sink.num_lines
        tally = _Tally(source, tell)
        total = sum(1 for _ in read_lines(source)) if progress and source != STDIN and source.is_file() else None
        with progress_bar("translating", total, unit=" lines", shown=progress) as bar:
            bar.initial = bar.n = num_resumed
            chunks = windows(lines, window or Translator.window_lines(request.options))
            for done, rows in workers.translate(_numbered(chunks, asked, num_resumed + 1), request):
                tally.add(rows)
                read = done.lines if done.constraints is None else list(_beside(done.lines, done.constraints))
                sink.write(read, rows.rows)
                bar.update(len(done.lines))
        tally.end()
        if check_end is not None:
            check_end()
        was_finished = isinstance(sink, ResumableOutput) and sink.already_whole
        return Summary(sink.num_lines, num_resumed, tally.num_terms, tally.num_honoured, tally.num_forced, was_finished)


@dataclass
class _Tally:
    """What is said of lines and counted over a job."""

    source: Path
    tell: Callable[[str], None]
    num_terms: int = 0
    num_honoured: int = 0
    num_forced: int = 0
    num_of_many_sentences: int = 0

    def add(self, rows: Rows) -> None:
        """Counts the rows of a window, and passes on what is to be said of them."""
        for message in rows.warnings:
            self.tell(message)
        self.num_terms += rows.num_terms
        self.num_honoured += rows.num_honoured
        self.num_forced += rows.num_forced
        if rows.of_many_sentences and not self.num_of_many_sentences:
            first = f"{shown_name(self.source)}, line {rows.of_many_sentences[0]}"
            self.tell(
                f"{first}: has more sentences than the lines that the model was trained on: what follows may be lost. "
                "--split-sentences always translates each by itself."
            )
        self.num_of_many_sentences += len(rows.of_many_sentences)

    def end(self) -> None:
        """Says what is known at the end only."""
        if (count := self.num_of_many_sentences) > 1:
            self.tell(
                f"{self.source}: {counted(count, 'line')} in all have more sentences than the model was trained on."
            )


def _beside(lines: Iterable[str], asked: Iterable[Constraints]) -> Iterator[str]:
    """Yields each line with what is asked of it: what its rows depend on."""
    return (f"{line}\n{each}" for line, each in zip(lines, asked, strict=False))


def _numbered(chunks: Iterable[list[str]], asked: Iterator[Constraints] | None, first: int) -> Iterator[Window]:
    for chunk in chunks:
        yield Window(first, chunk, None if asked is None else list(islice(asked, len(chunk))))
        first += len(chunk)


@contextlib.contextmanager
def _hint(sink: StreamOutput, output: Path | None, warn: Callable[[str], None] | None) -> Iterator[None]:
    """Says, where somebody is told at all, that a job which stops here can go on."""
    try:
        yield
    except BaseException:
        if warn is not None and isinstance(sink, ResumableOutput) and sink.num_lines and not sink.already_whole:
            lines = "1 line is" if sink.num_lines == 1 else f"{sink.num_lines:,} lines are"
            warn(f"{output}: stopped; {lines} done and kept. Go on with --resume.")
        raise


def _description(facts: Facts, request: Request, window: int | None) -> dict[str, Any]:
    """Returns all that the rows depend on, but for the input; by the names that users know."""
    model = {f"sha256 of {name}": digest for name, digest in facts.checksums.items()}
    options = asdict(request.options)
    batches = {"with a shortlist, batch_size and window": [options.pop("batch_size"), window]}
    # What goes together changes speed and memory only, but for an engine that gives a whole batch one shortlist.
    return {
        **options,
        **(batches if NAME_OF_SHORTLIST in facts.checksums and facts.engine.startswith("ctranslate2") else {}),
        **asdict(request.handling),
        **model,
        "engine": facts.engine,
        "layout": repr(request.layout),
        "calibration": facts.calibration,
        "n_best": request.n_best,
        "inline_terms": request.inline_terms,
    }
