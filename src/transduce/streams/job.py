"""A whole file through a translator: read, translated and written window by window, in bounded memory."""

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from transduce.config import DecodeConfig
from transduce.constraints import Constraints
from transduce.data.progress import progress_bar
from transduce.data.readers import STDIN, read_lines
from transduce.glossary import Glossary
from transduce.passages import Handling
from transduce.passages.calibration import load_calibration
from transduce.streams.layouts import Layout, PlainLines
from transduce.streams.output import ResumableOutput, StreamOutput, open_stream
from transduce.translator import Translation, Translator, windows


@dataclass(frozen=True, slots=True)
class Summary:
    """What a job did."""

    num_lines: int  # of input, in all
    num_resumed: int  # of these, those that an earlier run had done
    num_terms: int = 0  # that were required, of the lines of this run
    num_honoured: int = 0  # of these, those that came out


def translate_file(
    translator: Translator,
    source: Path,
    output: Path | None,
    *,
    layout: Layout | None = None,
    options: DecodeConfig | None = None,
    n_best: int = 1,
    handling: Handling | None = None,
    constraints: Iterable[Constraints] | None = None,
    glossary: Glossary | None = None,
    constraints_name: str = "",
    check_end: Callable[[], None] | None = None,
    window: int | None = None,
    resume: bool = False,
    progress: bool = False,
    warn: Callable[[str], None] | None = None,
) -> Summary:
    """Translates the lines of a file, in order, into a file of the same layout.

    Memory holds one window of lines, however long the file is. The output appears under its name when it is whole;
    before that, it and a journal lie beside it (`streams.output`), and a job that was stopped goes on with `resume`.

    Args:
        translator: the model.
        source: plain, `.gz` or `.zst`; "-" is standard input.
        output: likewise; None is standard output.
        layout: what a line is; None: a text.
        options: of the search; None takes the model's own.
        n_best: translations of each line; the layout must have a place for them.
        handling: of long lines, markup and doubtful output; None takes the default.
        constraints: an entry for each line, read alongside.
        glossary: the terms of its source that a line holds must come out as it says.
        constraints_name: tells these and the glossary from others, for `resume`: checksums of their files.
        check_end: called after the last line, before the output is whole; what it raises leaves the job to be resumed.
        window: lines translated together; None chooses by batch size.
        resume: whether to go on with what an earlier run of the same job left; where none did, it begins.
        progress: whether to show a bar with an estimate of the time left.
        warn: called with each warning; None issues Python's.

    Raises:
        ConfigError: an option is wrong, or is not the one with which the job was begun.
        DataError: a file cannot be read or written; the message names file and line.
    """
    layout, options, handling = layout or PlainLines(), options or translator.options, handling or Handling()
    tell = warn or (lambda message: warnings.warn(message, stacklevel=3))
    lines = read_lines(source)
    job = {**_description(translator, layout, options, n_best, handling, window), "constraints": constraints_name}
    asked = None if constraints is None else iter(constraints)
    with open_stream(output, job, resume=resume) as sink, _hint(sink, output, warn):
        sink.skip(lines)
        num_resumed = sink.num_lines
        num_terms = num_honoured = 0
        if asked is not None:
            next(islice(asked, num_resumed, num_resumed), None)  # reads over those of the lines that are done
        total = sum(1 for _ in read_lines(source)) if progress and source != STDIN and source.is_file() else None
        with progress_bar("translating", total, unit=" lines", shown=progress) as bar:
            bar.initial = bar.n = num_resumed
            for chunk in windows(lines, window or translator.window_lines(options)):
                first = sink.num_lines + 1
                texts = [layout.text(line, f"{source}, line {first + i}") for i, line in enumerate(chunk)]
                found = list(
                    translator.stream(
                        texts,
                        options=options,
                        n_best=n_best,
                        window=len(texts),
                        handling=handling,
                        constraints=None if asked is None else islice(asked, len(texts)),
                        glossary=glossary,
                        first_line=first,
                    )
                )
                _report(found, f"{source}, line", first, translator.engine.max_source_tokens, tell)
                _write(sink, layout, chunk, found)
                came = [came for best, *_ in found for _, came in best.required]
                num_terms, num_honoured = num_terms + len(came), num_honoured + sum(came)
                bar.update(len(chunk))
        if check_end is not None:
            check_end()
        return Summary(sink.num_lines, num_resumed, num_terms, num_honoured)


@contextlib.contextmanager
def _hint(sink: StreamOutput, output: Path | None, warn: Callable[[str], None] | None) -> Iterator[None]:
    """Says, where somebody is told at all, that a job which stops here can go on."""
    try:
        yield
    except BaseException:
        if warn is not None and isinstance(sink, ResumableOutput) and sink.num_lines:
            warn(f"{output}: stopped; {sink.num_lines:,} lines are done and kept. The same with --resume goes on.")
        raise


def _write(sink: StreamOutput, layout: Layout, lines: Sequence[str], found: Sequence[list[Translation]]) -> None:
    numbered = enumerate(zip(lines, found, strict=True), start=sink.num_lines + 1)
    sink.write(lines, [row for number, (line, best) in numbered for row in layout.rows(line, number, best)])


def _description(
    translator: Translator,
    layout: Layout,
    options: DecodeConfig,
    n_best: int,
    handling: Handling,
    window: int | None,
) -> dict[str, Any]:
    """Returns all that the rows depend on, but for the input; by the names that users know."""
    checksums = translator.bundle.checksums if translator.bundle is not None else {}
    model = {f"sha256 of the model's {name}": digest for name, digest in checksums.items()}
    return {
        **asdict(options),
        **asdict(handling),
        **model,
        "engine": translator.engine.name,
        "layout": repr(layout),
        "calibration": repr(load_calibration(translator.bundle)) if handling.confidence else None,
        "n_best": n_best,
        "window": window,
    }


def _report(
    found: Sequence[list[Translation]], where: str, first: int, limit: int, warn: Callable[[str], None]
) -> None:
    for number, (best, *_) in enumerate(found, start=first):
        for message in _doubts(best, limit):
            warn(f"{where} {number}: {message}")


def _doubts(best: Translation, limit: int) -> Iterator[str]:
    if best.source_truncated:
        yield f"longer than the {limit} tokens that the model reads; only its beginning is translated."
    yield from best.warnings
