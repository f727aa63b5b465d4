"""BLEU and chrF of several models on the same test sets, and what each gains on the first, with 95 % intervals.

    python experiments/score_models.py --test captions=test.en:test.de --model unadapted=models/general \
        --model adapted=runs/adapted-1/model,runs/adapted-2/model --output results.json

The files of a test set are separated by ":"; several pairs of files, separated by ",", are scored as one. The models
of a name, separated by ",", are seeds of one training: their figures are also averaged. Translations are those of the
CTranslate2 engine in float32, with the search that each model's recipe sets. A gain is that of the first seed over the
first model, with a paired bootstrap of 1000 resamples (Koehn 2004).
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics import BLEU

from transduce import Translator
from transduce.evaluation.bleu import bleu, chrf

_RESAMPLES = 1000


def gain(ours: list[str], baseline: list[str], references: list[str], metric: Any = None) -> dict[str, float]:
    """Returns the difference of BLEU, or of another of sacreBLEU's metrics, and the bounds of its interval."""
    metric = metric or BLEU()
    statistics_of = [
        np.array(metric._extract_corpus_statistics(lines, [references]), dtype=np.int64) for lines in (ours, baseline)
    ]
    chance = np.random.default_rng(1)

    def difference(rows: Any) -> float:
        first, second = (metric._compute_score_from_stats(each[rows].sum(0).tolist()).score for each in statistics_of)
        return float(first - second)

    drawn = [difference(chance.integers(len(references), size=len(references))) for _ in range(_RESAMPLES)]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return {
        type(metric).__name__.lower(): round(difference(slice(None)), 2),
        "low": round(float(low), 2),
        "high": round(float(high), 2),
    }


def read(files: list[str]) -> list[str]:
    """Returns the lines of several files."""
    return [line for name in files for line in Path(name).read_text(encoding="utf-8").splitlines()]


def score(translations: list[str], references: list[str]) -> dict[str, Any]:
    """Returns BLEU and chrF with their intervals."""
    scores = {"bleu": bleu(translations, [references], confidence=True)}
    scores["chrf"] = chrf(translations, [references], confidence=True)
    return {name: each.to_dict() for name, each in scores.items()}


def main() -> None:
    """Translates and scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--test", action="append", required=True, metavar="NAME=SOURCE:REFERENCE,…")
    parser.add_argument("--model", action="append", required=True, metavar="NAME=MODEL,…")
    parser.add_argument("--target", help="target language, for models of several")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    options = {"target": args.target} if args.target else {}
    tests = {}
    for text in args.test:
        name, _, pairs = text.partition("=")
        sources, references = zip(*(pair.split(":") for pair in pairs.split(",")), strict=True)
        tests[name] = (read(list(sources)), read(list(references)))
    translations: dict[str, dict[str, list[list[str]]]] = {name: {} for name in tests}
    result: dict[str, Any] = {"tests": {name: len(lines) for name, (lines, _) in tests.items()}, "models": {}}
    for text in args.model:
        model_name, _, folders = text.partition("=")
        rows: dict[str, list[Any]] = {name: [] for name in tests}
        for folder in folders.split(","):
            translator = Translator.load(folder, engine="ctranslate2", threads=args.threads)
            for name, (sources, references) in tests.items():
                found = translator.translate(sources, **options)
                translations[name].setdefault(model_name, []).append(found)
                rows[name].append(score(found, references))
                print(model_name, name, rows[name][-1]["bleu"]["value"], flush=True)
        first = next(iter(translations[name]))
        result["models"][model_name] = {
            name: {
                "seeds": rows[name],
                "mean_bleu": round(statistics.fmean(row["bleu"]["value"] for row in rows[name]), 2),
                **(
                    {
                        f"gain_over_{first}": gain(
                            translations[name][model_name][0], translations[name][first][0], tests[name][1]
                        )
                    }
                    if model_name != first
                    else {}
                ),
            }
            for name in tests
        }
    args.output.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
