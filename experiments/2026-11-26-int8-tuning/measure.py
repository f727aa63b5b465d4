"""BLEU and chrF of students in float32 and int8, with and without tuning, and of their teacher; writes results.json.

python measure.py TEACHER OUTPUT [SEED …]

OUTPUT is what run.sh makes. Students search greedily, without shortlists; the teacher has a beam of 4. Differences are
those of the same lines, with 95 % intervals by a paired bootstrap of 1000 resamples (Koehn 2004). Perplexities are
those of the validation set, by the float32 weights and by the rounded ones.
"""

import itertools
import json
import sys
from pathlib import Path
from typing import Any

from sacrebleu.metrics import BLEU, CHRF

from transduce import Translator
from transduce.bundle import Bundle
from transduce.data.store import ParallelStore
from transduce.evaluation.bleu import bleu, chrf
from transduce.model import Transformer
from transduce.training.device import Compute
from transduce.training.int8_tuning import rounded_weights
from transduce.training.validation import perplexity

sys.path.append(str(Path(__file__).resolve().parents[1]))
from score_models import gain, read

STUDENTS = ("plain", "tuned")
SYSTEMS = tuple(itertools.product(("torch", "ctranslate2"), ("float32", "int8")))


class Translations:
    """Translations of the test set, each made once and kept in a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "translations"
        self.folder.mkdir(exist_ok=True)
        self.sources, self.references = (read([str(folder / "data" / f"test.{side}")]) for side in ("en", "de"))

    def of(self, model: Path, name: str, engine: str, quantization: str, beam_size: int) -> list[str]:
        """Returns the translations of a model."""
        path = self.folder / f"{name}-{engine}-{quantization}-{beam_size}.txt"
        if not path.exists():
            translator = Translator.load(model, engine=engine, quantization=quantization, shortlist="off", threads=1)
            found = translator.translate(self.sources, beam_size=beam_size)
            path.write_text("".join(f"{line}\n" for line in found), encoding="utf-8")
        return read([str(path)])

    def scores(self, lines: list[str]) -> dict[str, Any]:
        """Returns BLEU and chrF."""
        both = {"bleu": bleu(lines, [self.references]), "chrf": chrf(lines, [self.references])}
        return {name: round(score.value, 2) for name, score in both.items()}

    def difference(self, ours: list[str], theirs: list[str]) -> dict[str, Any]:
        """Returns ours less theirs, with intervals, and the share of lines that are the same."""
        found = {each: gain(ours, theirs, self.references, kind()) for each, kind in (("bleu", BLEU), ("chrf", CHRF))}
        same = sum(a == b for a, b in zip(ours, theirs, strict=True)) / len(ours)
        return found | {"same_lines": round(same, 4)}


def perplexities(folder: Path) -> dict[str, float]:
    """Returns the validation perplexity of a student's model by its float32 weights, and by the rounded ones."""
    bundle = Bundle.load(folder / "run" / "model")
    model = Transformer.from_weights(bundle.config.model, bundle.weights())
    store, compute = ParallelStore.open(folder / "data" / "validation.arrow"), Compute.of("cpu", "fp32")
    found = {"float32": perplexity(model, store, compute)}
    with rounded_weights(model):
        found["rounded"] = perplexity(model, store, compute)
    return {name: round(value, 4) for name, value in found.items()}


def main() -> None:
    """Translates, scores and writes."""
    teacher, folder, seeds = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:] or ["1"]
    translations = Translations(folder)
    beams = {kind: translations.of(teacher, "teacher", "ctranslate2", kind, 4) for kind in ("float32", "int8")}
    results: dict[str, Any] = {
        "lines": len(translations.sources),
        "teacher, beam 4": {kind: translations.scores(lines) for kind, lines in beams.items()},
        "cost": json.loads((folder / "cost.json").read_text(encoding="utf-8")),
    }
    for seed in seeds:
        made: dict[tuple[str, str, str], list[str]] = {}
        rows: dict[str, Any] = {}
        for student in STUDENTS:
            name = f"{student}-{seed}"
            row: dict[str, Any] = {"perplexity": perplexities(folder / name)}
            for engine, kind in SYSTEMS:
                lines = translations.of(folder / name / "run" / "model", name, engine, kind, 1)
                made[student, engine, kind] = lines
                row[f"{engine}, {kind}"] = translations.scores(lines)
                row[f"{engine}, {kind}"]["share_of_teacher"] = round(
                    row[f"{engine}, {kind}"]["bleu"] / results["teacher, beam 4"][kind]["bleu"], 4
                )
            for engine in ("torch", "ctranslate2"):
                both = made[student, engine, "int8"], made[student, engine, "float32"]
                row[f"{engine}, int8 less float32"] = translations.difference(*both)
            if student != STUDENTS[0]:
                for engine, kind in SYSTEMS:
                    both = made[student, engine, kind], made[STUDENTS[0], engine, kind]
                    row[f"{engine}, {kind}, less plain"] = translations.difference(*both)
            rows[student] = row
        results[f"seed {seed}"] = rows
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
