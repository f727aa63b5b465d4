"""Records: for each line of a text a JSON object with its translation, and the reason if the pair is left out.

    {"text": "Ein Hund läuft.", "translation": "A dog runs.", "score": -0.31}
    {"text": "", "translation": "", "score": 0.0, "left_out": "empty line"}

They are what a job writes while it runs, and what the pair of files is made from.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from transduce.errors import ConfigError
from transduce.evaluation.sentence_scores import sentence_bleu, sentence_chrf
from transduce.translation.pipeline.guard import repeats
from transduce.translation.result import Translation

Nearness = Literal["bleu", "chrf"]
NEARNESS: Mapping[Nearness, Callable[[str, str], float]] = {"bleu": sentence_bleu, "chrf": sentence_chrf}

_SCORE_DIGITS = 4


@dataclass(frozen=True, repr=False)
class TranslationRecords:
    """A layout (`streams.layouts.Layout`) that writes a record for each line.

    With `nearest`, a line is a JSON list of a text and its reference (`line_of_pair`). Of its translations, the one
    nearest to the reference is taken, by this metric.
    """

    kind: str  # the command, so that its output is not resumed as that of another one
    nearest: Nearness | None = None
    guard: bool = True  # whether the guard checks translations

    def __post_init__(self) -> None:
        if self.nearest is not None and self.nearest not in NEARNESS:
            raise ConfigError(f"nearest = {self.nearest!r}: must be one of {', '.join(NEARNESS)}.")

    def __repr__(self) -> str:
        """Returns the description of the job in the error about another job. The guard is an option."""
        return f"{self.kind}, nearest to the reference by {self.nearest}" if self.nearest else self.kind

    def text(self, line: str, where: str) -> str:
        """Returns the text of the line."""
        return line if self.nearest is None else str(json.loads(line)[0])

    def rows(self, line: str, number: int, translations: Sequence[Translation]) -> Iterator[str]:
        """Yields the record of the line."""
        text = self.text(line, "")
        chosen, record = translations[0], {}
        if self.nearest is not None:
            _, reference = json.loads(line)
            chosen, nearness = self._nearest(text, reference, translations, NEARNESS[self.nearest])
            record = {"reference": reference, self.nearest: round(nearness, _SCORE_DIGITS)}
        record = {"text": text, "translation": chosen.text, "score": round(chosen.score, _SCORE_DIGITS)} | record
        if faults := faults_of(text, chosen):
            record["left_out"] = ", ".join(faults)
        yield json.dumps(record, ensure_ascii=False)

    def _nearest(
        self, text: str, reference: str, translations: Sequence[Translation], metric: Callable[[str, str], float]
    ) -> tuple[Translation, float]:
        """Returns the translation nearest to the reference, the best of several equal ones, and how near it is."""
        # The guard has checked the best one only. A copy of the source is not near to the reference, but a loop may be.
        sound = [each for each in translations if not faults_of(text, each) and not self._loops(text, each)]
        measured = [(metric(each.text, reference), each) for each in sound or translations[:1]]
        nearness, chosen = max(measured, key=lambda pair: pair[0])
        return chosen, nearness

    def _loops(self, text: str, translation: Translation) -> bool:
        return self.guard and repeats(translation.text, text)


def line_of_pair(text: str, reference: str) -> str:
    """Returns a line that holds a text and its reference."""
    return json.dumps([text, reference], ensure_ascii=False)


def faults_of(text: str, translation: Translation) -> tuple[str, ...]:
    """Returns why the pair of a text and its translation is left out; nothing if it is not."""
    if not text.strip():
        return ("empty line",)
    faults = []
    if translation.source_truncated:
        faults.append("line cut: longer than the model reads")
    if not translation.finished:
        faults.append("translation cut: it reached the length limit")
    if not translation.text.strip():
        faults.append("empty translation")
    return (*faults, *translation.warnings)
