"""What `export_model`, `import_huggingface` and `import_torch` have in common: the comparison, and what is kept."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from transduce.config import Config
from transduce.export.certificate import Thresholds
from transduce.export.sentences import Sentences, choose_sentences


class ComparisonOptions(TypedDict, total=False):
    """The keywords of `Comparison`, for signatures."""

    sentences: Path | None
    references: Path | None
    sample: int
    threshold: float | None
    max_difference: float | None
    force: bool
    overwrite: bool
    compare: bool


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """On which sentences two systems are compared, how much they may differ, and what may be written.

    Attributes:
        sentences: a file of source lines; None takes the model's validation data, or else built-in sentences.
        references: their translations, for BLEU.
        sample: the number of sentences, evenly spread over the file.
        threshold: the least share of positions at which both find the same token most probable; None: the default.
        max_difference: the greatest mean difference of log-probabilities; None: the default.
        force: whether to write what fails, too; the certificate then says so.
        overwrite: whether to replace an earlier export (or import).
        compare: whether an import is compared with its original, where that runs here; an export always is.
    """

    sentences: Path | None = None
    references: Path | None = None
    sample: int = 200
    threshold: float | None = None
    max_difference: float | None = None
    force: bool = False
    overwrite: bool = False
    compare: bool = True

    def choose_sentences(self, config: Config) -> Sentences:
        """Returns the sentences to compare on; see `sentences.choose_sentences`."""
        return choose_sentences(config, self.sentences, self.references, limit=self.sample)

    def thresholds(self, default: Thresholds) -> Thresholds:
        """Returns what must be reached: what is given here, and the rest from `default`."""
        given = {"token_agreement": self.threshold, "mean_difference": self.max_difference}
        return replace(default, **{name: value for name, value in given.items() if value is not None})
