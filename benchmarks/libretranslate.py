"""LibreTranslate and Argos Translate beside `transduce serve --models` and `Translator`, with the same package.

    python benchmarks/libretranslate.py service api --peer VENV/bin/python --text test.en --train-text train.en
    python benchmarks/libretranslate.py service api --peer VENV/bin/python --text test.en --package translate-en_de

VENV is an environment with `pip install libretranslate sentencex`. Without --package, one of the usual size is made:
6 + 6 layers, d_model 512, 32,000 pieces, int8, random weights, and outputs of 30 steps (`ending_models.py`). Both
systems search with a beam of 4 and Argos' length penalty, on one core and one thread of CTranslate2. The load
generator has the other core.

service  1, 8 and 64 clients, one sentence a request, in turns; answers, memory, and the first start
api      as many lines by Python: one call a line, and one call in all; processor seconds

`serving/libretranslate_peer.py` says what is replaced in the peer.
"""

import argparse
import datetime
import io
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ending_models import write_model
from serving.client import Call
from serving.processes import SERVICE_CORE, free_port, pin_generator
from serving.scenarios import Running

_PEER = Path(__file__).parent / "serving" / "libretranslate_peer.py"
_PIECES, _TOKENISER_LINES = 32_000, 200_000
_CLIENTS = {1: 8, 8: 2, 64: 1}  # clients, and the share of the sentences that they send: one in so many
_METADATA = {"package_version": "1.0", "argos_version": "1.9", "from_code": "en", "from_name": "English"}
_CONFIG = """[text]
guard = false  # the outputs of random weights repeat a word, and would all be searched again

[state]
url = "serve.db"  # of this run only
"""


def make_package(folder: Path, lines: Iterable[str]) -> None:
    """Writes an unpacked Argos package with random weights, whose SentencePiece model is learned from `lines`."""
    import sentencepiece

    from transduce.bundle import Bundle
    from transduce.config import preset
    from transduce.engines.ctranslate2_model import convert
    from transduce.text import SPECIAL_TOKENS, SentencePieceTokenizer

    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=written, vocab_size=_PIECES, minloglevel=2
    )
    model = written.getvalue()
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [processor.id_to_piece(index) for index in range(processor.get_piece_size())]
    names = [*SPECIAL_TOKENS, *(piece for piece in pieces if piece not in SPECIAL_TOKENS)]
    with tempfile.TemporaryDirectory() as bundle:
        write_model(Path(bundle, "model"), preset("paper-base").model, SentencePieceTokenizer.of(names, model))
        convert(Bundle.load(Path(bundle, "model")), folder / "model", "int8")
    (folder / "sentencepiece.model").write_bytes(model)
    (folder / "metadata.json").write_text(json.dumps({**_METADATA, "to_code": "de", "to_name": "German"}))


def ours(folder: Path) -> Running:
    """Returns our service of all packages in `folder`."""
    port = free_port()
    (folder.parent / "serve.toml").write_text(_CONFIG, encoding="utf-8")
    common = ["--port", str(port), "--engine", "ctranslate2", "--quantization", "int8", "--threads", "1"]
    command = [sys.executable, "-m", "transduce", "serve", "--models", str(folder), *common]
    return Running([*command, "--config", str(folder.parent / "serve.toml")], port, folder.parent / "ours.log")


def peer_environment(folder: Path) -> list[str]:
    """Returns the beginning of the peer's command: one thread, packages of `folder`, and nothing in the user's home."""
    settings = {"ARGOS_PACKAGES_DIR": folder, "ARGOS_INTRA_THREADS": 1, "OMP_NUM_THREADS": 1, "HOME": folder.parent}
    return ["env", *(f"{name}={value}" for name, value in settings.items())]


def peers(folder: Path, args: argparse.Namespace) -> Running:
    """Returns LibreTranslate with the packages in `folder`."""
    port = free_port()
    command = [*peer_environment(folder), str(args.peer), str(_PEER), "serve", str(port), str(args.peer_threads)]
    return Running(command, port, folder.parent / "peer.log", "/health")


def service(folder: Path, sentences: list[str], args: argparse.Namespace) -> dict[str, Any]:
    """Compares both services in turns."""
    begin = time.perf_counter()
    with ours(folder):
        first_start = time.perf_counter() - begin  # imports the package
    calls = [Call(json.dumps({"q": each, "source": "en", "target": "de"}).encode()) for each in sentences]
    rates: dict[str, dict[int, list[float]]] = {}
    memory: dict[str, float] = {}
    answers: dict[str, list[str]] = {}
    for _ in range(args.rounds):
        for name, system in (("ours", ours(folder)), ("LibreTranslate", peers(folder, args))):
            with system as running:
                found = running.closed(calls[:8], 1)
                if name not in answers:
                    answers[name] = running.answers(calls)
                for clients, share in _CLIENTS.items():
                    found = running.closed(calls[: len(calls) // share], clients)
                    if len(found.seconds) < len(calls) // share:
                        raise RuntimeError(f"{name}: requests failed: {found.statuses}")
                    rate = len(found.seconds) / found.wall_seconds
                    rates.setdefault(name, {}).setdefault(clients, []).append(round(rate, 2))
                    print(f"  {name}, {clients} clients: {rate:.2f} sentences/s", flush=True)
                memory[name] = running.service.memory_mb("VmHWM")
    medians = {name: {n: statistics.median(each) for n, each in found.items()} for name, found in rates.items()}
    return {
        "sentences_per_second": medians,
        "rounds": rates,
        "ratio": {n: round(medians["ours"][n] / medians["LibreTranslate"][n], 2) for n in _CLIENTS},
        "peak_memory_mb": memory,
        "seconds_of_first_start_with_import": round(first_start, 1),
        "answers": compared(answers["ours"], answers["LibreTranslate"]),
    }


def compared(first: list[str], second: list[str]) -> dict[str, Any]:
    """Counts the lines on which two systems agree, and gives ten on which they do not."""
    pairs = list(zip(first, second, strict=True))
    differ = [pair for pair in pairs if _plain(pair[0]) != _plain(pair[1])]
    return {
        "lines": len(pairs),
        "equal": sum(one == other for one, other in pairs),
        "equal_but_for_the_last_mark_and_case": len(pairs) - len(differ),
        "examples": differ[:10],
    }


def _plain(text: str) -> str:
    """Returns a text without what LibreTranslate changes after the search: the last mark, and the case of letters."""
    return text.rstrip("!?.,;。").lower()


def api(folder: Path, sentences: list[str], args: argparse.Namespace) -> dict[str, Any]:
    """Compares the Python interfaces in turns."""
    source, imported = folder.parent / "lines.txt", folder.parent / "imported"
    source.write_text("".join(f"{each}\n" for each in sentences), encoding="utf-8")
    [package] = [each for each in folder.iterdir() if each.name != ".transduce"]
    command = [sys.executable, "-m", "transduce", "import", str(package), "--output", str(imported), "--no-compare"]
    subprocess.run([*command, "--overwrite"], check=True, capture_output=True)
    own = [sys.executable, str(Path(__file__).parent / "serving" / "lines_of_api.py"), str(imported)]
    argos = [*peer_environment(folder), str(args.peer), str(_PEER), "lines"]
    seconds: dict[str, list[tuple[float, float]]] = {"ours": [], "Argos Translate": []}
    output = {name: folder.parent / f"{name}.txt" for name in seconds}
    for _ in range(args.rounds):
        for name, start in (("ours", own), ("Argos Translate", argos)):
            full = ["taskset", "--cpu-list", str(SERVICE_CORE), *start, str(source), str(output[name])]
            printed = subprocess.run(full, check=True, capture_output=True, text=True).stdout.split()
            one_by_one, together = map(float, printed[-2:])
            seconds[name].append((round(one_by_one, 2), round(together, 2)))
            print(f"  {name}: {one_by_one:.1f} s one by one, {together:.1f} s together", flush=True)
    medians = {
        name: dict(zip(("one_by_one", "together"), map(statistics.median, zip(*found, strict=True)), strict=True))
        for name, found in seconds.items()
    }
    texts = [output[name].read_text(encoding="utf-8").splitlines() for name in seconds]
    return {
        "lines": len(sentences),
        "seconds": medians,
        "rounds": seconds,
        "times_as_fast_one_by_one": round(medians["Argos Translate"]["one_by_one"] / medians["ours"]["one_by_one"], 2),
        "times_as_fast_together": round(medians["Argos Translate"]["together"] / medians["ours"]["together"], 2),
        "answers": compared(*texts),
    }


def main() -> None:
    """Reads the command line and runs."""
    from transduce.data.readers import read_lines
    from transduce.reporting.machine import describe_machine

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="+", choices=("service", "api"))
    parser.add_argument("--peer", type=Path, required=True, help="the Python of LibreTranslate's environment")
    parser.add_argument("--peer-threads", type=int, default=4, help="of LibreTranslate; 4 is its default")
    parser.add_argument("--package", type=Path, help="an unpacked Argos package; default: one is made")
    parser.add_argument("--text", type=Path, required=True, help="sentences to translate, one a line")
    parser.add_argument("--train-text", type=Path, help="text that the SentencePiece model is learned from")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--most-words", type=int, default=40, help="of a sentence that is used")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="also write the result here, as JSON")
    args = parser.parse_args()
    if args.package is None and args.train_text is None:
        parser.error("name a package (--package), or the text to make one from (--train-text)")
    kept = (line for line in read_lines(args.text) if 0 < len(line.split()) <= args.most_words)
    sentences = list(itertools.islice(kept, args.sentences))
    with tempfile.TemporaryDirectory() as folder:
        packages = Path(folder, "packages")
        package = packages / "translate-en_de-1_0"
        if args.package is None:
            package.mkdir(parents=True)
            make_package(package, itertools.islice(read_lines(args.train_text), _TOKENISER_LINES))
        else:
            shutil.copytree(args.package, package)
        pin_generator()
        scenarios = {"service": service, "api": api}
        found = {name: scenarios[name](packages, sentences, args) for name in args.scenarios}
    result = {
        "date": datetime.date.today().isoformat(),
        "what": __doc__.splitlines()[0],
        "package": "made: random weights, outputs of 30 steps" if args.package is None else args.package.name,
        "machine": describe_machine() | {"load": os.getloadavg()[0]},
        "peer_threads": args.peer_threads,
        **found,
    }
    print(json.dumps(result, indent=2, ensure_ascii=False))
    if args.output is not None:
        args.output.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
