"""From parallel text to a prepared folder: check, learn the tokeniser, encode, describe, and sign last.

Three passes over the corpus, each streamed: the doctor's, the tokeniser's, and the one that encodes. Memory holds the
held-out lines, one byte a training pair (kept or not) and, for a while, some tens of bytes: to find duplicates, and to
plan the epoch that the report describes.
"""

import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transduce.__about__ import __version__
from transduce.config import Config, TextConfig
from transduce.data.batching import plan_epoch
from transduce.data.corpus import CorpusFiles, Part, locate, read_chunks
from transduce.data.doctor import Examination, examine, require_aligned
from transduce.data.encoding import EncodedSplit, encode_split
from transduce.data.prepare_report import EpochReport, PrepareReport
from transduce.data.prepared import (
    FORMAT_VERSION,
    MANIFEST,
    REPORT,
    TOKENIZER,
    TRAIN,
    VALIDATION,
    Prepared,
    difference,
    difference_from,
    identity,
    is_prepared,
    load_prepared,
    read_manifest,
    with_checksums,
)
from transduce.data.progress import elapsed_time
from transduce.data.store import ParallelStore
from transduce.data.treebank_reader import sentence_reader
from transduce.errors import DataError
from transduce.files import remove_leftovers, sha256, write_json
from transduce.text import SubwordTokenizer
from transduce.treebank import pairs, rare_words
from transduce.treebank.pairs import sentence_words

__all__ = ["PrepareReport", "Prepared", "difference_from", "is_prepared", "load_prepared", "prepare"]

_OFTEN = 1000  # times that what must be a piece is shown to whoever learns the vocabulary


def prepare(
    config: Config,
    output: Path,
    *,
    progress: bool = True,
    num_workers: int | None = None,
    tokenizer: Path | None = None,
    mirror: Path | None = None,
    overwrite: bool = False,
) -> PrepareReport:
    """Makes `output` a prepared folder for `config.text` and `config.data`, or finds that it is one already.

    Args:
        config: its `text` and `data` sections decide the result; `train` only what the report says of an epoch.
        output: the folder.
        progress: whether to show it on standard error.
        num_workers: threads that encode; None: all cores.
        tokenizer: a `tokenizer.json` to use instead of learning one.
        mirror: a folder that stands in for the network when the corpus is fetched.
        overwrite: prepare again, even if the folder was prepared, with another configuration perhaps.

    Raises:
        DataError: the corpus cannot be used, or the folder holds something else.
        TokenizerError: the given tokenizer cannot be read.
    """
    if output.exists() and not output.is_dir():
        raise DataError(f"{output}: is a file; name a folder to write to.")
    files = locate(config.data, mirror=mirror, progress=progress)
    given = SubwordTokenizer.load(tokenizer) if tokenizer else None
    wanted = identity(config, files, given.fingerprint if given else None)
    if overwrite:
        (output / MANIFEST).unlink(missing_ok=True)
    elif report := _reuse(output, wanted):
        return report
    output.mkdir(parents=True, exist_ok=True)
    remove_leftovers(output, TOKENIZER, TRAIN, VALIDATION, REPORT, MANIFEST)
    report = _prepare(config, files, output, given, progress=progress, num_workers=num_workers)
    write_json(output / REPORT, report.to_dict())
    _sign(output, wanted, report)
    return report


def _prepare(
    config: Config,
    files: CorpusFiles,
    output: Path,
    given: SubwordTokenizer | None,
    *,
    progress: bool,
    num_workers: int | None,
) -> PrepareReport:
    """Writes the tokeniser and the stores, and reports what came of it and how long each stage took."""
    seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def stage(name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        seconds[name] = round(time.perf_counter() - started, 2)

    with stage("check"):
        examination = examine(files, config.data, progress=progress)
        _require_pairs(examination)
        require_aligned(examination.findings, config.data)
    with stage("tokenizer"):
        by_shape = config.data.rare_words == "signatures"
        tokenizer = given or _learn_tokenizer(
            files, examination.kept, config.text, by_shape=by_shape, progress=progress
        )
        tokenizer.save(output / TOKENIZER)
    with stage("encode"):
        train, validation = _encode(files, output, tokenizer, examination, config, progress, num_workers)
    with stage("plan"):
        epoch = _epoch_report(output, config)
    return PrepareReport(
        folder=str(output),
        tokenizer={
            "algorithm": tokenizer.algorithm,
            "vocab_size": tokenizer.vocab_size,
            "vocab_size_asked": tokenizer.vocab_size if given else config.text.vocab_size,
            "fingerprint": tokenizer.fingerprint,
        },
        findings=examination.findings,
        train=train,
        validation=validation,
        held_out_pairs=examination.num_held_out,
        epoch=epoch,
        seconds=seconds,
    )


def check(config: Config, *, progress: bool = True, mirror: Path | None = None) -> Examination:
    """Runs the doctor alone, writes nothing, and returns what it found.

    Raises:
        DataError: the corpus cannot be read, or no pairs are left.
    """
    files = locate(config.data, mirror=mirror, progress=progress)
    examination = examine(files, config.data, progress=progress)
    _require_pairs(examination)
    return examination


def _reuse(output: Path, wanted: dict[str, Any]) -> PrepareReport | None:
    """Returns the report of `output` if it is prepared as wanted, None if it is not prepared.

    Raises:
        DataError: it is prepared in another way, or damaged.
    """
    manifest = read_manifest(output)
    if manifest is None:
        return None
    if differs := difference(manifest["identity"], wanted):
        raise DataError(
            f"{output}: was prepared differently: {differs}. Name another folder, or prepare this one again: "
            f"transduce prepare RECIPE --output {output} --overwrite"
        )
    load_prepared(output)
    report = PrepareReport.from_dict(json.loads((output / REPORT).read_text(encoding="utf-8")))
    report.folder, report.reused = str(output), True
    return report


def _require_pairs(examination: Examination) -> None:
    if examination.kept.any():
        return
    findings, num_read = examination.findings, len(examination.kept)
    raise DataError(
        f"no training pairs are left of {num_read}: {findings.empty.count} have an empty side, "
        f"{findings.leaks_dropped.count} stand in validation or test (data.drop_leaked), "
        f"{findings.wrong_language_dropped.count} have a side in the wrong language (data.drop_wrong_language)."
        if num_read
        else "the training files are empty. Check data.train."
    )


def _learn_tokenizer(
    files: CorpusFiles, kept: NDArray[np.bool_], text: TextConfig, *, by_shape: bool, progress: bool
) -> SubwordTokenizer:
    sample = spread(kept, text.sample_pairs)
    whole = pairs.WHOLE if any(part.trees for part in files.train) else ""
    read: Callable[[str], str] = str
    if by_shape:
        whole, read = rare_words.WHOLE, _reading_as_learned(files, sample, progress=progress)
    with contextlib.ExitStack() as stack:

        def lines() -> Iterator[str]:
            if by_shape:
                yield " ".join([rare_words.ANY] * _OFTEN)
            for source, target in _sampled_pairs(files, sample, progress=progress):
                yield read(source)
                yield target
            stack.enter_context(elapsed_time("learning the vocabulary", shown=progress))

        return SubwordTokenizer.train(
            lines(),
            algorithm=text.algorithm,
            vocab_size=text.vocab_size,
            min_frequency=text.min_frequency,
            whole=whole,
        )


def _reading_as_learned(files: CorpusFiles, sample: NDArray[np.bool_], *, progress: bool) -> Callable[[str], str]:
    """Returns what makes rare words of the sample their signatures."""
    words: Counter[str] = Counter()
    for source, _ in _sampled_pairs(files, sample, progress=progress):
        words.update(sentence_words(source))
    spelling = rare_words.Spelling.learned(words)
    return lambda source: spelling(sentence_words(source))


def spread(kept: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
    """Returns `kept` with at most `count` entries left, evenly spread."""
    positions = np.flatnonzero(kept)
    count = min(count, len(positions))
    sample = np.zeros_like(kept)
    sample[positions[np.arange(count) * len(positions) // max(1, count)]] = True
    return sample


def _sampled_pairs(files: CorpusFiles, sample: NDArray[np.bool_], *, progress: bool) -> Iterator[tuple[str, str]]:
    for chunk in read_chunks(files.train, "reading for the tokenizer", progress=progress):
        for i in np.flatnonzero(sample[chunk.start : chunk.start + len(chunk.pairs)]).tolist():
            yield chunk.pairs[i]


def _encode(
    files: CorpusFiles,
    output: Path,
    tokenizer: SubwordTokenizer,
    examination: Examination,
    config: Config,
    progress: bool,
    num_workers: int | None,
) -> tuple[EncodedSplit, EncodedSplit | None]:
    """Writes the stores. Validation is held to no limits: what is measured must not depend on them."""
    read = sentence_reader(config.data, tokenizer)
    parts, kept = repeated(files.train, examination, config.data.repeat)
    train = encode_split(
        parts,
        output / TRAIN,
        tokenizer,
        label="encoding",
        read=read,
        kept=kept,
        limits=config.data,
        progress=progress,
        num_workers=num_workers,
    )
    if not train.num_kept:
        raise DataError(
            f"no training pairs are left of {train.num_read}: {train.over_long.count} are longer than "
            f"data.max_tokens = {config.data.max_tokens} subwords, {train.odd_ratio.count} have lengths beyond "
            f"data.max_ratio = {config.data.max_ratio}, for example {', '.join(train.odd_ratio.examples)}. "
            "Check that the files belong together, or raise the limits."
        )
    if files.validation is None:
        (output / VALIDATION).unlink(missing_ok=True)  # of an earlier preparation
        return train, None
    validation = encode_split(
        [files.validation],
        output / VALIDATION,
        tokenizer,
        label="encoding validation",
        read=read,
        kept=None,
        limits=None,
        progress=progress,
        num_workers=num_workers,
    )
    if not validation.num_kept:
        raise DataError(f"{files.validation}: no validation pairs with text on both sides.")
    return train, validation


def repeated(
    parts: Sequence[Part], examination: Examination, repeat: Sequence[int]
) -> tuple[list[Part], NDArray[np.bool_]]:
    """Returns the training parts, each as often as `repeat` says (nothing: once), and which of their pairs stay."""
    counts = repeat or [1] * len(parts)
    masks = np.split(examination.kept, np.cumsum(examination.part_sizes)[:-1])
    chosen = [place for place, count in enumerate(counts) for _ in range(count)]
    return [parts[place] for place in chosen], np.concatenate([masks[place] for place in chosen])


def _epoch_report(output: Path, config: Config) -> EpochReport:
    store = ParallelStore.open(output / TRAIN)
    plan = plan_epoch(
        store.source_lengths,
        store.target_lengths,
        source_budget=config.train.source_batch_tokens,
        target_budget=config.train.target_batch_tokens,
        seed=config.train.seed,
        epoch=0,
    )
    return EpochReport(
        source_budget=config.train.source_batch_tokens,
        target_budget=config.train.target_batch_tokens,
        num_batches=len(plan),
        source_padding_share=plan.source_padding_share,
        target_padding_share=plan.target_padding_share,
        padding_share=plan.padding_share,
    )


def _sign(output: Path, wanted: dict[str, Any], report: PrepareReport) -> None:
    """Writes the manifest: from here on the folder counts as prepared."""
    names = [TOKENIZER, TRAIN, REPORT] + ([VALIDATION] if report.validation else [])
    manifest = {
        "format_version": FORMAT_VERSION,
        "transduce_version": __version__,
        "tokenizer_fingerprint": report.tokenizer["fingerprint"],
        "vocab_size": report.tokenizer["vocab_size"],
        "num_pairs": {
            "train": report.train.num_kept,
            "validation": report.validation.num_kept if report.validation else 0,
        },
        "identity": wanted | {"inputs": with_checksums(wanted["inputs"])},
        "files": {name: {"bytes": (output / name).stat().st_size, "sha256": sha256(output / name)} for name in names},
    }
    write_json(output / MANIFEST, manifest)
