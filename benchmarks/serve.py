"""How the HTTP service does under load: throughput, waiting, overload, long runs, stops, and its start.

    python benchmarks/serve.py throughput latency startup --text test.en --train-text train.en --output result.json
    python benchmarks/serve.py overload --shape tiny --seconds 300 --text test.en
    python benchmarks/serve.py soak --shape tiny --quantization float32 --seconds 1800 --text test.en

The service and its competitors run on core 0, with one thread of CTranslate2; the load generator has core 1 to itself.
Models have random weights and outputs of 30 steps (`ending_models.py`). Sentences and tokeniser are real.
In an open loop requests arrive at random times (Poisson), and waiting counts from the time of arrival.

batches     processor time of a sentence in batches of several sizes, without a service
throughput  64 clients and one client, against `Translator.translate` without a service on the same core, and against a
            plain handler that calls `Translator.translate` for each request
threads     which threads take the processor time of a sentence: event loop, search, pipeline
latency     requests at half of the greatest throughput, against one request alone
beside_bulk one client of single sentences, alone and beside one that sends 50 at a time
overload    twice the greatest throughput: what is refused, how fast, memory, and recovery
soak        requests of all kinds at 70 % of the greatest throughput: each answer must equal the one without a service
stops       SIGHUP and SIGTERM under load: accepted requests without an answer
large_documents  a document of 300,000 paragraphs, in three formats, beside one client of single sentences
startup     from the start of the process to the first /ready, and the greatest memory
"""

import argparse
import datetime
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import ending_models
from ending_models import SHAPES, made_lines
from serving import mixed
from serving.processes import pin_generator
from serving.scenarios import SCENARIOS, Subject

_TOKENISER_LINES = 200_000
_CONFIG = """[text]
guard = false  # the outputs of random weights repeat a word, and would all be searched again

[state]
url = "serve.db"  # of this run only
"""


def subject_of(folder: Path, args: argparse.Namespace) -> Subject:
    """Makes the model, and returns what is measured."""
    from transduce.bundle import Bundle
    from transduce.data.readers import read_lines

    model = folder / args.shape
    text = []
    if args.train_text is not None:
        sample = folder / "tokeniser.txt"
        with sample.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in itertools.islice(read_lines(args.train_text), _TOKENISER_LINES))
        text = [str(sample)]
    subprocess.run([sys.executable, ending_models.__file__, str(model), args.shape, *text], check=True)
    bundle = Bundle.load(model)
    if args.text is None:
        sentences = made_lines(model, args.sentences)
    else:
        lines = [line for line in read_lines(args.text) if line.strip()]
        lengths = map(len, bundle.tokenizer.encode_batch(lines))
        sentences = [line for line, length in zip(lines, lengths, strict=True) if length <= args.longest]
        sentences = sentences[: args.sentences]
    (folder / "serve.toml").write_text(_CONFIG, encoding="utf-8")
    return Subject(folder, model, args.quantization, sentences)


def measure(name: str, subject: Subject, args: argparse.Namespace) -> dict[str, Any]:
    """Runs one scenario."""
    print(f"{name}: {args.shape}, {args.quantization}", flush=True)
    if name in ("batches", "throughput", "threads"):
        return SCENARIOS[name](subject, args.rounds)
    if name in ("stops", "startup"):
        return SCENARIOS[name](subject, args.times)
    if name == "large_documents":
        return SCENARIOS[name](subject, args.paragraphs)
    if name == "soak":
        return SCENARIOS[name](subject, mixed.calls(subject), args.seconds)
    return SCENARIOS[name](subject, args.seconds)


def main() -> None:
    """Reads the command line and runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="+", choices=SCENARIOS)
    parser.add_argument("--shape", default="tiny", choices=SHAPES)
    parser.add_argument("--quantization", default="int8")
    parser.add_argument("--text", type=Path, help="sentences to translate, one a line; default: made-up ones")
    parser.add_argument("--train-text", type=Path, help="text that the tokeniser is learned from")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--longest", type=int, default=60, help="tokens of the longest sentence that is used")
    parser.add_argument("--rounds", type=int, default=3, help="of batches and throughput")
    parser.add_argument("--times", type=int, default=7, help="of startup and stops")
    parser.add_argument("--paragraphs", type=int, default=300_000, help="of large_documents")
    parser.add_argument("--seconds", type=float, default=60.0, help="of latency, beside_bulk, overload and soak")
    parser.add_argument("--output", type=Path, help="also write the result here, as JSON")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        subject = subject_of(Path(folder), args)
        pin_generator()
        found = {name: measure(name, subject, args) for name in args.scenarios}
    result = {
        "date": datetime.date.today().isoformat(),
        "what": f"the HTTP service, {args.shape}, {args.quantization}, one core and one thread; the load generator has "
        "the other core; random weights, outputs of 30 steps",
        "machine": {"python": platform.python_version(), "cores": os.cpu_count(), "load": os.getloadavg()[0]},
        "sentences": len(subject.sentences),
        **found,
    }
    print(json.dumps(result, indent=2))
    if args.output is not None:
        args.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
