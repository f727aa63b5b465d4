"""Whether two versions of the source give the same results, byte for byte: for changes that must change nothing.

    python benchmarks/same_results.py HEAD~20                       against the working tree
    python benchmarks/same_results.py v0.1.0 main --output result.json

Each version trains a small translator and a small parser by the command line, resumes one of them, translates in every
mode with both engines, parses, and exports to every format. Files are compared by SHA-256, with one thread. Ends with
exit code 1 where any differ.
"""

import argparse
import datetime
import hashlib
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import onnx

_REPOSITORY = Path(__file__).resolve().parents[1]
_WORDS = {
    "a": "ein", "the": "das", "red": "rote", "small": "kleine", "old": "alte", "dog": "Tier", "house": "Haus",
    "man": "Kind", "runs": "rennt", "sits": "sitzt", "sleeps": "schläft", "here": "hier", "there": "dort",
}  # fmt: skip
_RECIPE = """
name = "same"
[model]
num_encoder_layers = 2
num_decoder_layers = 2
d_model = 32
d_ff = 64
num_heads = 2
d_k = 16
d_v = 16
dropout = 0.1
[text]
vocab_size = 300
[data]
folder = "."
{data}
[train]
source_batch_tokens = 400
target_batch_tokens = 400
warmup_steps = 40
learning_rate_factor = 2.0
max_steps = 120
checkpoint_minutes = 0.0
checkpoint_steps = 20
validate_steps = 60
log_steps = 20
device = "cpu"
precision = "fp32"
{train}
"""
_TRANSLATIONS = {
    "beam": [],
    "greedy": ["--beam-size", "1"],
    "n-best": ["--n-best", "4", "--scores"],
    "batch of 3": ["--batch-size", "3", "--length-penalty", "0"],
    "limits": ["--min-tokens", "4", "--max-tokens", "9", "--no-repeat-ngram", "2"],
    "glossary": ["--glossary", "terms.tsv", "--beam-size", "6"],
    "forbidden": ["--forbid", "never.txt"],
    "prefix": ["--prefix", "begun.txt"],
    "markup, guard, split": ["--markup", "html", "--guard", "--split-sentences", "always"],
    "confidence": ["--confidence"],
    "diverse": ["--beam-size", "4", "--diversity-groups", "2", "--n-best", "4"],
    "sampled": ["--temperature", "1", "--top-p", "0.9", "--n-best", "3", "--seed", "7"],
    "coverage": ["--coverage-penalty", "0.2"],
    "int8": ["--quantization", "int8"],
}


def write_corpora(folder: Path) -> None:
    """Writes the made-up corpus, treebank and inputs that both versions read."""
    generator, english = random.Random(0), list(_WORDS)
    for name, count in (("train", 400), ("dev", 40)):
        lines = [[generator.choice(english) for _ in range(generator.randint(2, 9))] for _ in range(count)]
        (folder / f"{name}.en").write_text("".join(" ".join(line) + ".\n" for line in lines))
        (folder / f"{name}.de").write_text("".join(" ".join(_WORDS[w] for w in line) + ".\n" for line in lines))
        trees = [" ".join(f"(NP (DT a) (NN {generator.choice(english)}))" for _ in line[:3]) for line in lines]
        (folder / f"{name}.trees").write_text("".join(f"(TOP (S {tree} (VP (VB runs))))\n" for tree in trees))
    source = (folder / "dev.en").read_text().splitlines()[:12]
    (folder / "source.txt").write_text(
        "".join(line + "\n" for line in [*source, "", "A <b>red</b> dog. The man sits."])
    )
    (folder / "begun.txt").write_text("ein\n" * 14)
    (folder / "terms.tsv").write_text("dog\tHund\nhouse\tHaus\n")
    (folder / "never.txt").write_text("das Haus\n")
    (folder / "sentences.txt").write_text("a dog a man runs\nthe house runs\n")
    translator = 'train = [["train.en", "train.de"]]\nvalidation = ["dev.en", "dev.de"]'
    (folder / "translator.toml").write_text(_RECIPE.format(data=translator, train="validate_bleu = true"))
    parser = 'format = "trees"\ntrain = [["train.trees"]]\nvalidation = ["dev.trees"]'
    (folder / "parser.toml").write_text(_RECIPE.format(data=parser, train="guided_attention = 0.3"))


def results_of(source: Path, folder: Path) -> dict[str, str]:
    """Runs everything with the package in `source`, in the empty folder `folder`, and returns checksums by name."""
    write_corpora(folder)
    environment = os.environ | {"PYTHONPATH": str(source / "src"), "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}
    results: dict[str, str] = {}

    def run(*arguments: str, name: str = "") -> None:
        done = subprocess.run(
            [sys.executable, "-m", "transduce", *arguments], cwd=folder, env=environment, capture_output=True
        )
        if name:
            results[name] = hashlib.sha256(done.stdout).hexdigest() if done.returncode == 0 else "refused"
        elif done.returncode:
            raise SystemExit(f"{source}: transduce {' '.join(arguments)}:\n{done.stderr.decode()}")

    def add(name: str, path: Path) -> None:
        content = path.read_bytes()
        if path.suffix == ".onnx":  # which also names the version of Transduce
            content = onnx.load(path, load_external_data=False).graph.SerializeToString(deterministic=True)
        results[name] = hashlib.sha256(content).hexdigest()

    run("train", "translator.toml", "--output", "run", "--quiet")
    run("train", "translator.toml", "--output", "resumed", "--quiet", "--set", "train.max_steps=60")
    run("train", "translator.toml", "--output", "resumed", "--quiet", "--resume", "--set", "train.max_steps=120")
    run("parse", "train", "parser.toml", "--output", "parser", "--quiet")
    for name in ("run", "resumed", "parser"):
        for file in ("model.safetensors", "tokenizer.json"):
            add(f"{name}: {file}", folder / name / "model" / file)
    for file in sorted((folder / "run" / "data").glob("*.arrow")):
        add(f"prepared: {file.name}", file)
    for engine in ("torch", "ctranslate2"):
        for name, options in _TRANSLATIONS.items():
            run(
                *("translate", "run/model", "--source", "source.txt", "--engine", engine, "--quiet", "--threads", "1"),
                *options,
                name=f"{engine}: {name}",
            )
    run("parse", "run", "parser/model", "--source", "sentences.txt", "--quiet", name="parse run")
    run("score", "run/model", "--source", "dev.en", "--target", "dev.de", name="score")
    run("evaluate", "--hypothesis", "dev.en", "--reference", "dev.de", name="evaluate")
    for kind, file in (("ctranslate2", "model.bin"), ("huggingface", "model.safetensors"), ("onnx", "decoder.onnx")):
        output = folder / f"exported-{kind}"
        run("export", "run/model", "--format", kind, "--output", str(output), "--force", "--sample", "5", name=kind)
        found = sorted(output.rglob(file)) or sorted(output.rglob("*.onnx")) if output.exists() else []
        results[kind] = "refused" if not found else ""
        for each in found:
            add(f"export: {kind}: {each.name}", each)
    return results


def main() -> int:
    """Compares two versions, prints what differs, and returns 1 if anything does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="a commit")
    parser.add_argument("after", nargs="?", help="a commit; default: the working tree")
    parser.add_argument("--output", type=Path, help="also write the result here, as JSON")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        sides = []
        for number, commit in enumerate((given.before, given.after)):
            source = _REPOSITORY
            if commit:
                source = Path(scratch) / f"source-{number}"
                source.mkdir()
                archive = subprocess.run(
                    ["git", "archive", commit, "src"], cwd=_REPOSITORY, check=True, capture_output=True
                )
                subprocess.run(["tar", "-x"], cwd=source, input=archive.stdout, check=True)
            folder = Path(scratch) / "work"  # the same path for both: some files name it
            folder.mkdir()
            sides.append(results_of(source, folder))
            folder.rename(Path(scratch) / f"work-{number}")
    before, after = sides
    differing = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    for name in differing:
        print(f"differs: {name}: {before.get(name, 'absent')[:12]} → {after.get(name, 'absent')[:12]}")
    refused = sorted(name for name, value in after.items() if value == "refused")
    print(
        f"{len(after) - len(differing)} of {len(after)} results are the same; refused: {', '.join(refused) or 'none'}"
    )
    if given.output:
        commits = [
            subprocess.run(
                ["git", "rev-parse", "--short", each or "HEAD"], cwd=_REPOSITORY, capture_output=True, text=True
            )
            for each in (given.before, given.after)
        ]
        result = {
            "date": datetime.date.today().isoformat(),
            "what": "SHA-256 of what two versions train, translate, parse and export, one thread",
            "machine": {
                "processor": platform.machine(),
                "python": platform.python_version(),
                "torch": version("torch"),
            },
            "before": commits[0].stdout.strip(),
            "after": commits[1].stdout.strip(),
            "differing": differing,
            "results": after,
        }
        given.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
