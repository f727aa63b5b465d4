"""Real models of others, imported by their names on the Hugging Face Hub, next to transformers on a public test set.

    python benchmarks/pretrained.py                      # needs the network: three models, wmt14 by sacreBLEU
    python benchmarks/pretrained.py --models facebook/m2m100_418M=de --source test.en --reference test.de
    python benchmarks/pretrained.py --check FOLDER       # the same with the folders in FOLDER and four lines

A model is named as for `transduce import`, with its target language after "=" if it has several. Both systems search
with the same beam, on the same threads, a line at a time as it is: nothing is split or protected. Each model's result
has the commit and the checksums of its files. The result is written to results/ with its date; --check writes only
where --output says. Needs the extras hub, train and huggingface, and for some models the package sentencepiece.
"""

import argparse
import datetime
import importlib.metadata
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MODELS = ["Helsinki-NLP/opus-mt-en-de", "Helsinki-NLP/opus-mt-en-mul=deu", "facebook/m2m100_418M=de"]
RESULTS = Path(__file__).resolve().parent / "results"
BATCH_LINES = 16
CHECKED = [
    ("A dog runs over the grass.", "Ein Hund läuft über das Gras."),
    ("Two men are talking.", "Zwei Männer unterhalten sich."),
    ("A woman waits for a train.", "Eine Frau wartet auf einen Zug."),
    ("It is late.", "Es ist spät."),
]


def with_transformers(
    folder: Path, lines: Sequence[str], source: str, target: str, beam: int
) -> tuple[list[str], float]:
    """Returns what `generate` writes, in batches of lines of similar length, and its seconds without loading."""
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, local_files_only=True, dtype=torch.float32).eval()
    options, prefix = {"num_beams": beam}, ""
    if model.config.model_type == "m2m_100":
        tokenizer.src_lang = source
        to_id = getattr(tokenizer, "get_lang_id", tokenizer.convert_tokens_to_ids)  # M2M100's codes are no tokens
        options["forced_bos_token_id"] = to_id(target)
    elif target:
        prefix = f">>{target}<< "
    results, began = [""] * len(lines), time.perf_counter()
    order = sorted(range(len(lines)), key=lambda index: len(lines[index]))
    for start in range(0, len(order), BATCH_LINES):
        chosen = order[start : start + BATCH_LINES]
        texts = [prefix + lines[index] for index in chosen]
        batch = tokenizer(texts, return_tensors="pt", padding=True, truncation=True)
        with torch.inference_mode():
            written = model.generate(**batch, **options)
        for index, text in zip(chosen, tokenizer.batch_decode(written, skip_special_tokens=True), strict=True):
            results[index] = text.replace("\n", " ")
    return results, time.perf_counter() - began


def measure(model: str, texts: tuple[list[str], list[str]], args: argparse.Namespace) -> dict[str, Any]:
    """Imports a model, translates with both systems, and returns their scores and times."""
    import torch

    from transduce import Translator
    from transduce.evaluation.bleu import bleu, chrf
    from transduce.export.hub import find_origin
    from transduce.export.imports import import_model
    from transduce.translation.pipeline.text_options import TextOptions

    lines, references = texts
    name, _, target = model.partition("=")
    source = args.langpair.partition("-")[0]
    origin = find_origin(name)
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        certificate = import_model(origin, Path(folder) / "model", sample=args.sample)
        seconds = {"import": time.perf_counter() - began}
        ours = Translator.load(Path(folder) / "model", device="cpu", threads=torch.get_num_threads())
        options = TextOptions(split="never", language=source if target else "", target=target)
        began = time.perf_counter()
        translations = {"transduce": ours.translate(lines, text_options=options, beam_size=args.beam)}
        seconds["transduce"] = time.perf_counter() - began
    written, seconds["transformers"] = with_transformers(origin.path, lines, source, target, args.beam)
    translations["transformers"] = written
    same = sum(map(str.__eq__, *translations.values()))
    return {
        "model": model,
        "origin": origin.recorded,
        "certificate": certificate.verdict if certificate is not None else None,
        "identical_translations": same / len(lines),
        "seconds": {system: round(value, 2) for system, value in seconds.items()},
        "scores": {
            system: [score(written, [references]).to_dict() for score in (bleu, chrf)]
            for system, written in translations.items()
        },
    }


def read_test_set(args: argparse.Namespace) -> tuple[list[str], list[str], str]:
    """Returns source lines, references, and what they are."""
    from transduce.data.readers import read_lines

    if args.check is not None:
        sources, references = ([pair[side] for pair in CHECKED] for side in (0, 1))
        return sources, references, "four lines"
    files, what = (args.source, args.reference), str(args.source)
    if args.source is None:
        from sacrebleu.utils import get_reference_files, get_source_file

        reference = get_reference_files(args.test_set, args.langpair)[0]
        files, what = (Path(get_source_file(args.test_set, args.langpair)), Path(reference)), args.test_set
    sources, references = ([*read_lines(file)] for file in files)
    if len(sources) != len(references):
        sys.exit(f"{files[0]} has {len(sources)} lines, {files[1]} has {len(references)}.")
    return sources[: args.lines], references[: args.lines], what


def main() -> None:
    """Measures, prints a table and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=MODELS, metavar="NAME[=TARGET]", help="folders, or hub names")
    parser.add_argument("--test-set", default="wmt14/full", help="of sacreBLEU; default: %(default)s")
    parser.add_argument("--langpair", default="en-de", help="of the test set; default: %(default)s")
    parser.add_argument("--source", type=Path, help="a test set of your own")
    parser.add_argument("--reference", type=Path, help="its translations")
    parser.add_argument("--lines", type=int, default=500, help="the first ones; default: %(default)s")
    parser.add_argument("--beam", type=int, default=4, help="default: %(default)s")
    parser.add_argument("--sample", type=int, default=32, help="sentences of a certificate; default: %(default)s")
    parser.add_argument("--check", type=Path, metavar="FOLDER", help="run on the model folders in FOLDER")
    parser.add_argument("--output", type=Path, help="default: results/DATE-pretrained.json")
    args = parser.parse_args()
    if (args.source is None) != (args.reference is None):
        parser.error("--source and --reference go together")
    from transduce.reporting.machine import describe_machine
    from transduce.reporting.tables import table

    if args.check is not None:
        args.models = [str(each) for each in sorted(args.check.iterdir()) if each.is_dir()]
    date = datetime.date.today().isoformat()
    output = args.output or (None if args.check is not None else RESULTS / f"{date}-pretrained.json")
    sources, references, what = read_test_set(args)
    versions = {name: importlib.metadata.version(name) for name in ("transformers", "ctranslate2", "sacrebleu")}
    rows: list[dict[str, Any]] = []
    result = {
        "date": date,
        "what": __doc__.splitlines()[0],
        "machine": describe_machine() | versions,
        "test_set": {"name": what, "langpair": args.langpair, "lines": len(sources)},
        "beam": args.beam,
        "models": rows,
    }
    for model in args.models:
        rows.append(measure(model, (sources, references), args))
        print(f"{model}: seconds: {rows[-1]['seconds']}", file=sys.stderr)
        if output is not None:  # after each model: they take long
            output.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    header = ["model", "BLEU", "of transformers", "identical", "import, s", "translate, s", "transformers, s"]
    cells = [
        [
            row["model"],
            *(f"{row['scores'][system][0]['value']:.2f}" for system in ("transduce", "transformers")),
            f"{row['identical_translations']:.1%}",
            *(f"{row['seconds'][system]:.1f}" for system in ("import", "transduce", "transformers")),
        ]
        for row in rows
    ]
    print(table(header, cells))


if __name__ == "__main__":
    main()
