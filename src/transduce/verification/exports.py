"""Checks of exported folders: their files are those that were certified, and they still give what the model gives."""

from dataclasses import dataclass
from pathlib import Path

from transduce.errors import MissingDependencyError
from transduce.export.exported_folder import ExportedFolder
from transduce.export.exports import certify
from transduce.export.sentences import Sentences
from transduce.reporting.tables import counted
from transduce.verification.findings import Finding
from transduce.verification.model_under_test import ModelUnderTest


@dataclass(frozen=True)
class ExportChecks:
    """The checks of one exported folder; each reads its certificate again."""

    folder: Path

    @property
    def name(self) -> str:
        """What the report calls it."""
        return f"export {self.folder}"

    def files(self, tested: ModelUnderTest) -> Finding:
        """Compares the files with the checksums in the certificate, and the model with the one that was exported."""
        export = ExportedFolder.read(self.folder)
        faults = export.changes(tested.bundle)
        if export.verdict == "failed":
            faults = (*faults, "its certificate says that it failed")
        compared = f"SHA-256 of {counted(len(export.sha256), 'file')} in {self.folder}, {export.format}, certificate: "
        compared += export.verdict
        return Finding(compared, faults=faults)

    def again(self, tested: ModelUnderTest) -> Finding:
        """Compares export and model on the sentences, with the thresholds of the certificate.

        An export that was written with --force has missed some. It must do nearly as well as when it was certified.
        """
        export = ExportedFolder.read(self.folder)
        try:
            system = export.load(tested.bundle)
        except MissingDependencyError as error:
            return Finding("", skipped=str(error))
        lines = tuple(line for line in tested.sample.lines if line.strip())
        found = certify(tested.bundle, system, Sentences(tested.sample.origin, lines), export.bounds)
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
