"""The certificate of an export: how far two systems agree, on which sentences, and whether that is enough."""

import contextlib
import importlib.metadata
import json
import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from transduce import files
from transduce.__about__ import __version__
from transduce.config.differences import flat
from transduce.errors import BundleError, ExportError
from transduce.evaluation.bleu import bleu
from transduce.export.system import Forced, System
from transduce.reporting import tables as markdown

FORMAT = 1
CERTIFICATE, CARD = "certificate.json", "README.md"
_PACKAGES = ("torch", "transformers", "tokenizers", "onnx", "onnxruntime", "ctranslate2", "numpy")


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """What an export must reach."""

    token_agreement: float  # share of positions at which both find the same token most probable
    mean_difference: float  # of the log-probabilities of given tokens, absolute


EXACT = Thresholds(token_agreement=0.999, mean_difference=1e-3)  # the same arithmetic in another order
ROUNDED = Thresholds(token_agreement=0.97, mean_difference=0.1)  # weights in fewer bits


@dataclass(frozen=True, kw_only=True)
class Measured:
    """How two systems compare; shares are from 0 to 1, BLEU from 0 to 100."""

    lines: int
    target_tokens: int
    lines_cut_alike: float  # share of lines that both encode as the same tokens
    token_agreement: float
    mean_difference: float
    max_difference: float
    identical_translations: float | None = None  # None: the other system has no search
    bleu_between: float | None = None  # of the export's translations, the original's as references
    bleu_original: float | None = None  # None: no references
    bleu_export: float | None = None
    bleu_signature: str | None = None

    @property
    def bleu_difference(self) -> float | None:
        """The export's BLEU less the original's."""
        if self.bleu_original is None or self.bleu_export is None:
            return None
        return self.bleu_export - self.bleu_original


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What `certificate.json` says."""

    original: str
    export: str
    sentences: str
    measured: Measured
    thresholds: Thresholds
    forced: bool = False  # written although it failed
    notes: tuple[str, ...] = ()  # known, intended differences
    format: str = ""  # of an export, as `export_model` has it
    quantization: str = ""
    original_sha256: Mapping[str, str] = field(default_factory=dict)

    @property
    def failures(self) -> list[str]:
        """What fails, in words; empty if the export passes."""
        measured, bounds = self.measured, self.thresholds
        reasons = []
        if measured.lines_cut_alike < 1:
            reasons.append(f"{1 - measured.lines_cut_alike:.2%} of the lines give other tokens")
        if not measured.token_agreement >= bounds.token_agreement:
            reasons.append(
                f"token agreement {measured.token_agreement:.3%}, less than the {bounds.token_agreement:.3%} required"
            )
        if not measured.mean_difference <= bounds.mean_difference:
            reasons.append(
                f"log-probabilities differ by {measured.mean_difference:.2g} on average, more than the "
                f"{bounds.mean_difference:g} allowed"
            )
        return reasons

    @property
    def verdict(self) -> str:
        """`passed`, `failed`, or `forced`: failed, but written."""
        if not self.failures:
            return "passed"
        return "forced" if self.forced else "failed"

    def to_dict(self, folder: str | Path) -> dict[str, Any]:
        """Returns what is written to `folder`, with the checksums of its files; that of the card is separate.

        JSON has no NaN and no infinity: such a number is null, and `not_finite` says what it was.
        """
        folder = Path(folder)
        measured = asdict(self.measured) | {"bleu_difference": self.measured.bleu_difference}
        sections: dict[str, dict[str, Any]] = {
            "measured": {key: value for key, value in measured.items() if value is not None},
            "thresholds": asdict(self.thresholds),
        }
        numbers = {key: value for key, value in flat(sections).items() if isinstance(value, float)}
        not_finite = {key: str(value) for key, value in numbers.items() if not math.isfinite(value)}
        for section, key in (name.split(".") for name in not_finite):
            sections[section][key] = None
        return {
            "format": FORMAT,
            "verdict": self.verdict,
            "failures": self.failures,
            "original": {"system": self.original, "sha256": dict(self.original_sha256)},
            "export": {
                "system": self.export,
                "format": self.format,
                "quantization": self.quantization,
                "sha256": checksums(folder),
                "card_sha256": _card_checksum(folder),
            },
            "sentences": self.sentences,
            **sections,
            **({"not_finite": not_finite} if not_finite else {}),
            "notes": list(self.notes),
            "versions": versions(),
        }

    def to_markdown(self) -> str:
        """Returns the certificate as Markdown."""
        found, bounds = self.measured, self.thresholds
        rows = [
            ["lines, target tokens", f"{found.lines:,}, {found.target_tokens:,}", ""],
            ["lines that give the same tokens", f"{found.lines_cut_alike:.2%}", "100 %"],
            [
                "token agreement (most probable token, given those before)",
                f"{found.token_agreement:.3%}",
                f"≥ {bounds.token_agreement:.3%}",
            ],
            ["log-probability difference, mean", f"{found.mean_difference:.2e}", f"≤ {bounds.mean_difference:g}"],
            ["log-probability difference, greatest", f"{found.max_difference:.2e}", ""],
        ]
        if found.identical_translations is not None:
            rows.append(["identical translations, each by its own search", f"{found.identical_translations:.1%}", ""])
            rows.append(["BLEU of one against the other", f"{found.bleu_between:.2f}", ""])
        if found.bleu_difference is not None:
            shown = f"{found.bleu_original:.2f} → {found.bleu_export:.2f} ({found.bleu_difference:+.2f})"
            rows.append([f"BLEU against references, original → {'export' if self.format else 'import'}", shown, ""])
        notes = "".join(f"\n- {note}" for note in self.notes)
        return (
            f"**{self.verdict}**: {self.export}, against {self.original}, on {self.sentences}.\n\n"
            f"{markdown.table(['', 'measured', 'required'], rows)}\n"
            + (f"\nSignature: `{found.bleu_signature}`\n" if found.bleu_signature else "")
            + (f"\nKnown differences:\n{notes}\n" if notes else "")
        )

    def require(self, what: str) -> None:
        """Raises ExportError where the export failed and is not forced."""
        if self.verdict == "failed":
            raise ExportError(
                f"{what}: not written, because its results differ from the original's (on {self.sentences}):\n  "
                + "\n  ".join(self.failures)
                + "\nLower --threshold or raise --max-difference if that is good enough; --force writes it as it is."
            )


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What one system gave, all that a comparison needs: so the two need not be in memory at the same time."""

    name: str
    encoded: list[list[int]]  # the lines
    forced: list[Forced]  # the targets
    translations: list[str] | None  # of the lines, by its own search; None: it has none


def ask(
    system: System, lines: Sequence[str], sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> Answers:
    """Has a system encode and translate `lines`, and score `targets` for `sources`."""
    encoded, forced = system.encode(lines), system.force(sources, targets)
    return Answers(name=system.name, encoded=encoded, forced=forced, translations=system.translate(lines))


def measure(original: Answers, export: Answers, references: Sequence[str] | None) -> Measured:
    """Compares what two systems gave for the same lines, sources and targets."""
    pairs = list(zip(original.forced, export.forced, strict=True))
    chosen = np.array([a == b for x, y in pairs for a, b in zip(x.choices, y.choices, strict=True)])
    differences = np.abs(
        [a - b for x, y in pairs for a, b in zip(x.log_probabilities, y.log_probabilities, strict=True)]
    )
    return Measured(
        lines=len(pairs),
        target_tokens=len(chosen),
        lines_cut_alike=float(np.mean([a == b for a, b in zip(original.encoded, export.encoded, strict=True)])),
        token_agreement=float(chosen.mean()),
        mean_difference=float(differences.mean()),
        max_difference=float(differences.max()),
        **_compare_translations(original.translations, export.translations, references),
    )


def _compare_translations(
    ours: list[str] | None, theirs: list[str] | None, references: Sequence[str] | None
) -> dict[str, Any]:
    if ours is None or theirs is None:
        return {}
    same = float(np.mean([a == b for a, b in zip(ours, theirs, strict=True)]))
    between = bleu(theirs, [ours])
    values = {"identical_translations": same, "bleu_between": between.value, "bleu_signature": between.signature}
    if references is not None:
        values["bleu_original"] = bleu(ours, [references]).value
        values["bleu_export"] = bleu(theirs, [references]).value
    return values


def versions(packages: Iterable[str] = _PACKAGES) -> dict[str, str]:
    """Returns the versions of Transduce, Python, and those of the packages that are installed."""
    found = {"transduce": __version__, "python": platform.python_version()}
    for package in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def write_certificate(folder: Path, certificate: Certificate) -> None:
    """Writes `certificate.json`, with the checksums of all other files in the folder: the last one to be written."""
    files.write_json(folder / CERTIFICATE, certificate.to_dict(folder))


def require_replaceable(output: Path, *, is_export: bool, overwrite: bool) -> None:
    """Refuses to replace what is not an unchanged export (or import), and any of these without `overwrite`.

    Raises:
        ExportError: `output` may not be replaced by an export.
        BundleError: `output` may not be replaced by an import.
    """
    foreign = why_not_replaceable(output, is_export=is_export)
    files.require_free(output, overwrite=overwrite, foreign=foreign, error=ExportError if is_export else BundleError)


def why_not_replaceable(folder: Path, *, is_export: bool) -> str:
    """Returns why a folder may not be replaced by a new export (or import), in words; "" for an unchanged old one.

    It must hold, to the byte, what an export (or import) wrote: no further training in place, no calibration or
    shortlist that was learned since, no edited card.
    """
    kind = "export" if is_export else "import"
    try:
        written = json.loads((folder / CERTIFICATE).read_text(encoding="utf-8"))["export"]
        was_export, sha256 = bool(written["format"]), dict(written["sha256"])
        card, is_noted = written.get("card_sha256"), "card_sha256" in written
    except (OSError, ValueError, KeyError, TypeError):
        return f"no {kind} of Transduce wrote it, or one that compared nothing"
    if was_export != is_export:
        return f"it is an {'export' if was_export else 'import'}"
    if not is_noted and (folder / CARD).is_file():
        return f"its certificate, of an earlier version, does not record whether {CARD} was edited since"
    then, now = {**sha256, CARD: card}, {**checksums(folder), CARD: _card_checksum(folder)}
    changed = sorted(name for name in now.keys() | then.keys() if now.get(name) != then.get(name))
    return f"{', '.join(changed[:3])} changed or came since the {kind}" if changed else ""


def checksums(folder: Path) -> dict[str, str]:
    """Returns the SHA-256 of each file of an export, except the certificate and the card."""
    named = sorted(path for path in folder.rglob("*") if path.is_file())
    unlisted = {folder / CERTIFICATE, folder / CARD}
    return {str(path.relative_to(folder)): files.sha256(path) for path in named if path not in unlisted}


def _card_checksum(folder: Path) -> str | None:
    """Returns the card's SHA-256, or None if there is no card. It is separate because the card is not run."""
    card = folder / CARD
    return files.sha256(card) if card.is_file() else None
