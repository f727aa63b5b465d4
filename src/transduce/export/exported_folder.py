"""An exported folder: what its certificate says, whether that still holds, and its model, to run it again."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from transduce.bundle import Bundle
from transduce.errors import ExportError
from transduce.export.certificate import CERTIFICATE, Certificate, Measured, Thresholds, checksums
from transduce.export.exports import FORMATS

# How much worse than certified a forced export may be on other sentences, or on another machine.
_SHARE_MARGIN = 0.05  # of positions, or of lines
_DIFFERENCE_FACTOR, _DIFFERENCE_MARGIN = 1.25, 1e-3  # of a log-probability, on average


@dataclass(frozen=True)
class ExportedFolder:
    """An export as its certificate describes it."""

    folder: Path
    format: str
    quantization: str
    thresholds: Thresholds
    measured: Measured
    verdict: str
    sha256: Mapping[str, str]  # of its files, when it was certified
    original_sha256: Mapping[str, str]  # of the model's

    @classmethod
    def read(cls, folder: Path) -> "ExportedFolder":
        """Reads the certificate of an exported folder.

        Raises:
            ExportError: there is none, or it cannot be read.
        """
        path = folder / CERTIFICATE
        again = "Export the model again: transduce export MODEL --format FORMAT --output DIR"
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            for name, number in values.get("not_finite", {}).items():  # null there: see `Certificate.to_dict`
                section, key = name.split(".")
                values[section][key] = float(number)
            export, original = values["export"], values["original"]
            found = cls(
                folder,
                export["format"],
                export["quantization"],
                Thresholds(**values["thresholds"]),
                Measured(**{key: value for key, value in values["measured"].items() if key in _FIGURES}),
                values["verdict"],
                dict(export["sha256"]),
                dict(original["sha256"]),
            )
        except OSError as error:
            raise ExportError(f"{path}: cannot be read ({error.strerror}): no export of a model. {again}") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ExportError(f"{path}: no certificate of an export ({error!r}). {again}") from None
        if found.format not in FORMATS:
            raise ExportError(f"{path}: the format '{found.format}' is none of {', '.join(FORMATS)}. {again}")
        return found

    def changes(self, bundle: Bundle) -> tuple[str, ...]:
        """Returns what has changed since it was certified, in words: files of the export, and the model.

        New files in the folder, such as a download may add, are ignored: they are not run.
        """
        now, certificate = checksums(self.folder), self.folder / CERTIFICATE
        changed = [name for name, digest in self.sha256.items() if name in now and now[name] != digest]
        found = [f"{name}: changed since it was certified" for name in changed]
        found += [f"{name}: missing" for name in self.sha256 if name not in now]
        if not self.sha256:
            found.append(f"{certificate}: has no checksum of any file: it does not say what was certified")
        if not self.original_sha256:
            found.append(f"{certificate}: has no checksum of the model: it does not say which one was exported")
        if other := [name for name, digest in self.original_sha256.items() if bundle.checksums.get(name) != digest]:
            found.append(f"made of another model than {bundle.path}: its {' and '.join(other)} differ")
        return tuple(found)

    @property
    def bounds(self) -> Thresholds:
        """What it must reach when it is run again: the thresholds, or nearly what it reached where it missed one."""
        required, reached = self.thresholds, self.measured
        mean_difference = required.mean_difference
        if math.isfinite(reached.mean_difference) and reached.mean_difference > mean_difference:
            mean_difference = reached.mean_difference * _DIFFERENCE_FACTOR + _DIFFERENCE_MARGIN
        token_agreement = _loosened(required.token_agreement, reached.token_agreement)
        return Thresholds(token_agreement=token_agreement, mean_difference=mean_difference)

    def failures(self, found: Certificate) -> list[str]:
        """Returns what fails, in words, in a new comparison `found`, which was made with `bounds`.

        If lines gave other tokens when it was certified, nearly as many may do so again.
        """
        measured = found.measured
        if measured.lines_cut_alike >= _loosened(1.0, self.measured.lines_cut_alike):
            measured = replace(measured, lines_cut_alike=1.0)
        return replace(found, measured=measured).failures


_FIGURES = {each.name for each in fields(Measured)}


def _loosened(required: float, reached: float) -> float:
    """Returns the share to require again: `required`, or a little less than was `reached` where that is lower."""
    return required if reached >= required else reached - _SHARE_MARGIN
