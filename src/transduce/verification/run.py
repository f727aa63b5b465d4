"""Runs all checks on one model folder."""

import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

from transduce.bundle import Bundle
from transduce.data.progress import progress_bar
from transduce.engines.capabilities import ENGINES
from transduce.engines.torch import TorchEngine
from transduce.errors import TransduceError
from transduce.export.certificate import versions
from transduce.export.exported_folder import ExportedFolder
from transduce.export.exports import require_installed
from transduce.model.device import choose_device
from transduce.reporting.tables import counted
from transduce.translation.directions import Directions
from transduce.verification.checks import CHECKS, FOLDER_CHECKS, Check, of_exports, of_other_engines
from transduce.verification.findings import CheckResult, Finding, Report
from transduce.verification.model_under_test import ModelUnderTest
from transduce.verification.sample import Sample, choose
from transduce.verification.settings import QUICK, Settings

S = TypeVar("S")


def verify(
    model: str | Path,
    *,
    sentences: str | Path | Sequence[str] | None = None,
    quick: bool = False,
    settings: Settings | None = None,
    device: str = "auto",
    threads: int | None = None,
    other_engines: bool = True,
    exports: Sequence[str | Path] = (),
    progress: bool = False,
) -> Report:
    """Checks on a user's own model that what Transduce promises holds. A failed check is reported and raises nothing.

    Args:
        model: a model folder.
        sentences: a file (plain, gz, zst) or a list of lines; None takes the model's validation set where it is on this
            machine, and else generated sentences.
        quick: checks fewer sentences.
        settings: how much is checked, what may differ, and in which direction a model of several translates; None has
            the defaults, or those of `quick`. Exports are compared in the default direction.
        device: "auto", "cpu", "cuda", …
        threads: PyTorch's CPU threads for the whole process.
        other_engines: whether to compare the other engines that are installed with PyTorch.
        exports: folders that `export_model` wrote; each is compared with the model and with its certificate.
        progress: whether to show a progress bar.

    Raises:
        BundleError: there is no model folder at `model`, or its configuration cannot be read.
        DataError: `sentences` has none, or cannot be read.
        ConfigError: there is no such device, or the model does not know the language or the domain.
        ExportError: a folder of `exports` has no certificate.
        MissingDependencyError: what runs one of them is not installed.
    """
    start = time.perf_counter()
    exported = [ExportedFolder.read(Path(folder)) for folder in exports]  # a mistyped name fails now, not at the end
    for export in exported:
        require_installed(export.format)
    bundle = Bundle.load(model)
    chosen = choose_device(device)
    settings = settings or (Settings(**QUICK) if quick else Settings())
    given = Path(sentences) if isinstance(sentences, str) else sentences
    results = [_run(check, bundle) for check in FOLDER_CHECKS]
    if results[-1].outcome == "failed":  # it does not load, or has weights that are not finite
        reason = f"this model cannot be used: see '{results[-1].name}'"
        results += [_result(check, Finding("", skipped=reason), 0.0) for check in CHECKS]
        return _report(bundle, str(chosen), None, "", results, start)
    directions = Directions.of(bundle.tokenizer, bundle)
    direction = directions.example(settings.source_language, settings.target_language, settings.domain)
    sample = choose(bundle, given, settings.num_sentences, direction.target)
    engine = TorchEngine.load(bundle, device=str(chosen), threads=threads)
    tested = ModelUnderTest(bundle, sample, engine, settings, direction)
    groups: list[tuple[Check[ModelUnderTest], ...]] = [(check,) for check in CHECKS]
    groups += of_other_engines(tested, threads) if other_engines else []
    groups += of_exports(exported)
    num_checks = len(results) + sum(map(len, groups))
    with torch.inference_mode(), progress_bar("verify", num_checks, unit=" checks", shown=progress) as bar:
        bar.update(len(results))
        for group in groups:
            for number, check in enumerate(group, start=1):
                bar.set_postfix_str(check.name, refresh=False)
                results.append(_run(check, tested))
                bar.update()
                if number == 1 and results[-1].outcome != "passed":  # then the others of the group say nothing
                    bar.total -= len(group) - 1
                    break
    options = tested.options
    search = f"beam {options.beam_size}, length penalty {options.length_penalty}"
    return _report(bundle, tested.engine.name, sample, search, results, start)


def _run(check: Check[S], tested: S) -> CheckResult:
    """Makes one check. An error in it is a failure, and the other checks are still made."""
    start = time.perf_counter()
    try:
        finding = check.run(tested)
    except TransduceError as error:
        finding = Finding("", faults=(str(error),))
    except Exception as error:  # a broken model may raise anything in PyTorch: it belongs in the report
        frame = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__}: {error} ({Path(frame.filename).name}, line {frame.lineno})"
        finding = Finding("", faults=(f"stopped by {what}",))
    return _result(check, finding, time.perf_counter() - start)


def _result(check: Check[Any], finding: Finding, seconds: float) -> CheckResult:
    return CheckResult(check.name, check.promise, check.advice, finding, seconds)


def _report(
    bundle: Bundle, engine: str, sample: Sample | None, search: str, results: list[CheckResult], start: float
) -> Report:
    shape = bundle.config.model
    layers = f"{shape.num_encoder_layers} + {shape.num_decoder_layers} layers, d_model {shape.d_model}"
    kind = "parser" if bundle.config.data.format == "trees" else "translator"
    return Report(
        model=f"{bundle.path} ({bundle.config.name}, a {kind} of {layers}, {shape.vocab_size:,} subwords)",
        engine=f"{engine}, {counted(torch.get_num_threads(), 'CPU thread')}",
        sentences=f"{len(sample.lines)}, from {sample.origin}" if sample else "none",
        search=search,
        versions=versions(ENGINES),
        checks=tuple(results),
        seconds=time.perf_counter() - start,
    )
