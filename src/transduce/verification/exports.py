"""Checks of exported folders: their files are those that were certified, and they still give what the model gives."""

from functools import partial

from transduce.export.exported_folder import ExportedFolder
from transduce.export.exports import certify, load_system
from transduce.export.sentences import Sentences
from transduce.reporting.tables import counted
from transduce.verification.findings import Finding
from transduce.verification.model_under_test import ModelUnderTest


def certified_files(export: ExportedFolder, tested: ModelUnderTest) -> Finding:
    """Compares the files with the checksums in the certificate, and the model with the one that was exported."""
    faults = export.changes(tested.bundle)
    if export.verdict == "failed":
        faults = (*faults, "its certificate says that it failed")
    compared = f"SHA-256 of {counted(len(export.sha256), 'file')} in {export.folder}, {export.format}, certificate: "
    return Finding(compared + export.verdict, faults=faults)


def certified_again(export: ExportedFolder, tested: ModelUnderTest) -> Finding:
    """Compares export and model on the sentences, with the thresholds of the certificate.

    An export that was written with --force has missed some. It must do nearly as well as when it was certified.
    """
    load = partial(load_system, export.format, export.folder, tested.bundle, export.quantization)
    lines = tuple(line for line in tested.sample.lines if line.strip())
    found = certify(tested.bundle, load, Sentences(tested.sample.origin, lines), export.bounds)
    measured = found.measured
    between = "" if measured.bleu_between is None else f"; BLEU between the outputs {measured.bleu_between:.1f}"
    tokens, outputs = counted(measured.target_tokens, "token"), counted(measured.lines, "translation")
    compared = f"{tokens} of {outputs}, mean difference of a log-probability"
    note = f"token agreement {measured.token_agreement:.2%}, greatest {measured.max_difference:.3g}{between}"
    if export.verdict == "forced":
        then = export.measured
        note += (
            f"; exported with --force, certified at {then.token_agreement:.2%}, mean {then.mean_difference:.3g}, "
            f"greatest {then.max_difference:.3g}"
        )
    bound = export.bounds.mean_difference
    return Finding(compared, measured.mean_difference, bound, faults=tuple(export.failures(found)), note=note)
