"""From parallel text to a prepared folder: check, learn the tokeniser, encode, report, and write the manifest last.

The corpus is read three times, each time streamed: to check it, to learn the tokeniser, and to encode it. Memory holds
the held-out lines, one byte for each training pair (whether it is kept), 16 bytes for each duplicate that is dropped,
and for a while some tens of bytes more for each pair, to find duplicates and to plan the epoch for the report. The
pairs that are dropped are logged as they are read: first those whose text says why, then duplicates and odd lengths.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from transduce.__about__ import __version__
from transduce.config import Config, DataConfig
from transduce.config.ancestor import CONFIG
from transduce.config.checked_json import write_checked
from transduce.data.corpus import CorpusFiles, locate, read_chunks
from transduce.data.corpus_tags import CorpusTags
from transduce.data.doctor import Examination, examine, require_aligned
from transduce.data.dropped import LOG_NAME, Log, open_log
from transduce.data.encoding import EncodedSplit, encode_split
from transduce.data.given_tokenizer import ancestor_tokenizer, given_tokenizer
from transduce.data.learned_tokenizer import learn_tokenizer, with_frequent_words
from transduce.data.mixture import CorpusRows, Mixture
from transduce.data.mixture_report import corpus_shares
from transduce.data.origins import FileRows, Origins
from transduce.data.prepare_report import EpochReport, PrepareReport
from transduce.data.prepared import (
    ALIGNER,
    FORMAT_VERSION,
    LINES,
    MANIFEST,
    REPORT,
    TOKENIZER,
    TRAIN,
    VALIDATION,
    difference,
    identity,
    load_prepared,
    read_manifest,
    require_aligner,
    with_checksums,
)
from transduce.data.progress import elapsed_time
from transduce.data.treebank_reader import sentence_reader
from transduce.data.word_links import learn_aligner, needs_aligner
from transduce.errors import DataError
from transduce.files import atomic_path, exclusive, read_json_object, remove_leftovers, sha256, write_json
from transduce.text import Tokenizer
from transduce.text.new_words import added_words


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
    """Makes `output` a prepared folder for `config.text` and `config.data`, unless it is one already.

    Args:
        config: `text` and `data` determine the result; `train` only affects what the report says of an epoch.
        output: the folder.
        progress: whether to show progress on standard error.
        num_workers: number of threads that encode; None: all cores.
        tokenizer: a `tokenizer.json`, or a folder with one, to use instead of learning one.
        mirror: a folder to fetch the corpus from, instead of the network.
        overwrite: prepare again, even if the folder was prepared, perhaps with another configuration.

    Raises:
        DataError: the corpus cannot be used, the folder holds something else, or another process is preparing it.
        TokenizerError: the given tokenizer cannot be read, or a word cannot be added to it.
    """
    if output.exists() and not output.is_dir():
        raise DataError(f"{output}: is a file; name a folder to write to.")
    if (output / CONFIG).exists():  # its tokenizer.json would be replaced
        raise DataError(f"{output}: is the folder of a model or a run: it has a {CONFIG}. Name another folder.")
    files = locate(config.data, mirror=mirror, progress=progress)
    given = given_tokenizer(config, tokenizer)
    wanted = identity(config, files, given.fingerprint if given else None, given.target_languages if given else ())
    if not overwrite and (report := _reuse(output, wanted, config)):
        return report
    with exclusive(output) as is_alone:
        if not is_alone:
            raise DataError(f"{output}: another process is preparing it. Wait until it is done.")
        (output / MANIFEST).unlink(missing_ok=True)
        remove_leftovers(output, TOKENIZER, TRAIN, LINES, VALIDATION, ALIGNER, LOG_NAME, REPORT, MANIFEST)
        with atomic_path(output / LOG_NAME) as path, open_log(path) as log:
            report, training_files = _prepare(
                config, files, output, given, log, progress=progress, num_workers=num_workers
            )
        write_json(output / REPORT, asdict(report))
        _write_manifest(output, config, wanted, report, training_files)
    return report


def _prepare(
    config: Config,
    files: CorpusFiles,
    output: Path,
    given: Tokenizer | None,
    log: Log,
    *,
    progress: bool,
    num_workers: int | None,
) -> tuple[PrepareReport, list[FileRows]]:
    """Writes the tokeniser and the stores. The report includes the time of each stage."""
    seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def stage(name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        seconds[name] = round(time.perf_counter() - started, 2)

    with stage("check"):
        examination = examine(files, config.data, progress=progress, log=log)
        _require_pairs(examination)
        require_aligned(examination.findings, config.data)
    with stage("tokenizer"):
        learned = given or learn_tokenizer(files, examination.kept, config, progress=progress)
        if config.init.new_words:
            learned = with_frequent_words(learned, files, examination.kept, config, progress=progress)
        tags = CorpusTags.of(config.data, learned.target_languages)
        tokenizer = learned.with_tags(tags.all)
        tokenizer.save(output / TOKENIZER)
    with stage("encode"):
        encode = partial(
            encode_split,
            tokenizer=tokenizer,
            read=sentence_reader(config.data, tokenizer),
            num_workers=num_workers,
        )
        chunks = read_chunks(files.train, "encoding", progress=progress)
        of_train = (tags.train, tags.train_targets)
        train, origins = encode(chunks, output / TRAIN, tags=of_train, examination=examination, limits=config.data)
        _require_kept(train, config.data)
        origins.save_lines(output / LINES)
        validation = _encode_validation(files, output, encode, tags, progress=progress)
    (output / ALIGNER).unlink(missing_ok=True)  # left by an earlier preparation
    if needs_aligner(config):
        with stage("aligner"), elapsed_time("learning word alignments", shown=progress):
            _learn_aligner(output, tokenizer)
    with stage("plan"):
        mixture = Mixture.of(config, _corpora(config, train))
        epoch = _epoch_report(output, config, mixture)
    report = PrepareReport(
        folder=str(output),
        tokenizer={
            "algorithm": tokenizer.algorithm,
            "vocab_size": tokenizer.vocab_size,
            "vocab_size_asked": tokenizer.vocab_size if given else config.text.vocab_size,
            "fingerprint": tokenizer.fingerprint,
            "new_words": added_words(ancestor_tokenizer(config.init), tokenizer) if config.init.model else [],
        },
        findings=examination.findings,
        train=train,
        validation=validation,
        held_out_pairs=examination.num_held_out,
        epoch=epoch,
        has_log=True,
        shares=corpus_shares(mixture, config.train, epoch.target_tokens / max(1, epoch.num_batches)),
        seconds=seconds,
    )
    return report, origins.files


def check(config: Config, *, progress: bool = True, mirror: Path | None = None) -> Examination:
    """Checks the corpus, writes nothing, and returns what was found.

    Raises:
        DataError: the corpus cannot be read, or no pairs are left.
        TokenizerError: a word cannot be added to the tokenizer of the model to start from.
    """
    given_tokenizer(config)
    files = locate(config.data, mirror=mirror, progress=progress)
    examination = examine(files, config.data, progress=progress)
    _require_pairs(examination)
    return examination


def _reuse(output: Path, wanted: dict[str, Any], config: Config) -> PrepareReport | None:
    """Returns the report of `output` if it is prepared as required, None if it is not prepared.

    Raises:
        DataError: it is prepared differently, or damaged.
    """
    manifest = read_manifest(output)
    if manifest is None:
        return None
    if differs := difference(manifest["identity"], wanted):
        raise DataError(
            f"{output}: was prepared differently: {differs}. Name another folder, or prepare this one again: "
            f"transduce prepare RECIPE --output {output} --overwrite"
        )
    prepared = load_prepared(output)
    if needs_aligner(config):
        require_aligner(output)
    report = PrepareReport.from_dict(read_json_object(output / REPORT))
    report.folder, report.reused = str(output), True
    mixture = Mixture.of(config, prepared.corpora)  # the weights may be others than before
    report.shares = corpus_shares(mixture, config.train, report.epoch.target_tokens / max(1, report.epoch.num_batches))
    return report


def _require_pairs(examination: Examination) -> None:
    if examination.kept.any():
        return
    findings, num_read = examination.findings, len(examination.kept)
    raise DataError(
        f"no training pairs are left of {num_read}: {findings.empty.count} have an empty side, "
        f"{findings.leaks_dropped.count} are also in validation or test (data.drop_leaked), "
        f"{findings.wrong_language_dropped.count} have a side in the wrong language (data.drop_wrong_language)."
        if num_read
        else "the training files are empty. Check data.train."
    )


def _require_kept(train: EncodedSplit, limits: DataConfig) -> None:
    if train.num_kept:
        return
    long, odd = train.over_long, train.odd_ratio
    example = next(iter(odd.examples or long.examples), "")
    raise DataError(
        f"no training pairs are left of {train.num_read}: {long.count} are longer than data.max_tokens = "
        f"{limits.max_tokens} subwords, {odd.count} have a length ratio above data.max_ratio = {limits.max_ratio}"
        f"{f', for example {example}' if example else ''}. "
        f"{'Check that the files are translations of each other, or raise' if odd.count else 'Raise'} the limits."
    )


def _encode_validation(
    files: CorpusFiles,
    output: Path,
    encode: Callable[..., tuple[EncodedSplit, Origins]],
    tags: CorpusTags,
    *,
    progress: bool,
) -> EncodedSplit | None:
    """Writes the validation sets into one store. No limits apply, so that scores do not depend on them."""
    parts = list(files.validation.values())
    if not parts:
        (output / VALIDATION).unlink(missing_ok=True)  # left by an earlier preparation
        return None
    chunks = read_chunks(parts, "encoding validation", progress=progress)
    of_sets = (tags.validation, tags.validation_targets)
    validation, _ = encode(chunks, output / VALIDATION, tags=of_sets, examination=None, limits=None)
    for name, rows in zip(files.validation, validation.rows([*files.validation]), strict=True):
        if not rows.num_pairs:
            raise DataError(f"{files.validation[name]}: no validation pairs with text on both sides.")
    return validation


def _corpora(config: Config, train: EncodedSplit) -> list[CorpusRows]:
    return train.rows([corpus.name for corpus in config.data.training_corpora])


def _learn_aligner(output: Path, tokenizer: Tokenizer) -> None:
    from transduce.data.store import ParallelStore  # as in `_epoch_report`

    learn_aligner(ParallelStore.open(output / TRAIN), tokenizer).save(output / ALIGNER)


def _epoch_report(output: Path, config: Config, mixture: Mixture) -> EpochReport:
    from transduce.data.store import ParallelStore  # only here: it needs pyarrow, and a check needs none

    rows = mixture.rows(mixture.phases[0], config.train.seed, epoch=0)
    plan = ParallelStore.open(output / TRAIN).plan_epoch(config.train, epoch=0, rows=rows)
    budgets = (config.train.source_batch_tokens, config.train.target_batch_tokens)
    return EpochReport(*budgets, len(plan), *plan.padding_shares, plan.padding_share, *plan.real_tokens)


def _write_manifest(
    output: Path, config: Config, wanted: dict[str, Any], report: PrepareReport, training_files: Sequence[FileRows]
) -> None:
    """Writes the manifest, which makes the folder a prepared one."""
    names = [TOKENIZER, TRAIN, LINES, LOG_NAME, REPORT] + ([VALIDATION] if report.validation else [])
    names += [ALIGNER] if needs_aligner(config) else []
    set_names = [each.name for each in config.data.validation_corpora]
    sets = report.validation.rows(set_names) if report.validation else []
    manifest = {
        "format_version": FORMAT_VERSION,
        "transduce_version": __version__,
        "tokenizer_fingerprint": report.tokenizer["fingerprint"],
        "vocab_size": report.tokenizer["vocab_size"],
        "num_pairs": {
            "train": report.train.num_kept,
            "validation": report.validation.num_kept if report.validation else 0,
        },
        "corpora": [asdict(corpus) for corpus in _corpora(config, report.train)],
        "validation_sets": [asdict(each) for each in sets],
        "training_files": [asdict(each) for each in training_files],
        "identity": wanted | {"inputs": with_checksums(wanted["inputs"])},
        "files": {name: {"bytes": (output / name).stat().st_size, "sha256": sha256(output / name)} for name in names},
    }
    write_checked(output / MANIFEST, manifest)
