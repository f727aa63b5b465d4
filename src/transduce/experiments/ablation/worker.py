"""The process of one trial of an ablation: trains one row with one seed, measures it, writes `result.json`.

    python -m transduce.experiments.ablation.worker FOLDER

FOLDER holds `cell.json`, the request, and becomes a run folder. Started again, the process resumes from the last
checkpoint; where there is a result already, it does nothing. The end of its standard input means that the process that
started it is gone: it then finishes its step, writes a checkpoint and exits.
"""

import fcntl
import os
import signal
import sys
import threading
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from transduce import files
from transduce.bundle import Bundle
from transduce.config import from_dict
from transduce.data.prepared import load_prepared
from transduce.data.store import ParallelStore
from transduce.engines.allocator import enter_command
from transduce.engines.torch import load_model
from transduce.errors import ConfigError, DataError, TransduceError
from transduce.evaluation.bleu import Metric, bleu, paper_bleu, tokenized_bleu
from transduce.experiments.ablation.results import TrialResult
from transduce.experiments.ablation.source import training_source
from transduce.experiments.ablation.trials import REQUEST, RESULT
from transduce.runs import bleu_scorer, train
from transduce.training.device import Compute
from transduce.training.run_folder import data_folder


def main(folder: Path) -> int:
    """Trains and measures to the end, or trains to a checkpoint, and returns the exit code."""
    _stop_with_starter()
    try:
        with (folder / ".cell.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # an earlier process may still be writing its last checkpoint
            if (folder / RESULT).is_file():
                return 0
            request = files.read_json(folder / REQUEST)
            source = training_source()
            if source != request.get("source", source):
                raise ConfigError(
                    f"the source code was changed after this ablation began (from {request['source']} to {source}). "
                    "Train from a git worktree of one commit: docs/guides/ablations.md."
                )
            config = from_dict(request["config"], str(folder / REQUEST))
            outcome = train(config, folder, resume=True, data=folder / request["data"])
            if outcome.signal is not None:
                return 128 + outcome.signal
            metric = bleu_metric(
                config.data.held_out_languages[1],
                tokenized=request["tokenized"],
                in_paper_way=request.get("paper_bleu", False),
            )
            result = measure(folder, request["row"], request["seed"], metric)
            files.write_json(folder / RESULT, asdict(replace(result, source=source)))
            return 0
    except TransduceError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def bleu_metric(language: str, *, tokenized: bool, in_paper_way: bool) -> Metric:
    """Returns the BLEU of an ablation: the paper's, that of tokens as they are, or sacreBLEU's."""
    if in_paper_way:
        return partial(paper_bleu, language=language, tokenized=tokenized)
    return tokenized_bleu if tokenized else bleu


def measure(run: Path, row: str, seed: int, metric: Metric) -> TrialResult:
    """Returns the figures of a finished run's model: its last checkpoint, no average of several (§6.2).

    Raises:
        DataError: the run has no validation data.
    """
    bundle = Bundle.load(run / "model")
    prepared = load_prepared(data_folder(run), checksums=False)
    if prepared.validation is None:
        raise DataError(f"{prepared.folder}: has no validation data, by which rows are compared: set data.validation.")
    validation, training = (ParallelStore.open(path) for path in (prepared.validation, prepared.train))
    model = load_model(bundle, Compute.of(bundle.config.train.device).device).eval()
    beam_size = bundle.config.decode.beam_size  # the search of `decode`, on every pair
    every = replace(bundle.config.train, validate_beam_size=beam_size, validate_bleu_sentences=len(validation))
    scorer = bleu_scorer(replace(bundle.config, train=every), bundle.tokenizer, validation, metric=metric)
    names = ("steps", "training_seconds", "training_flops", "training_flops_estimate")
    costs: dict[str, Any] = {name: bundle.metrics.get(name) for name in names}
    return TrialResult(
        row,
        seed,
        perplexity=bundle.metrics["validation_perplexity"],
        bleu=scorer(model)["bleu"],
        parameters=model.num_parameters,
        epochs=bundle.metrics["target_tokens_seen"] / int(training.target_lengths.sum()),
        **costs,
    )


def _stop_with_starter() -> None:
    """Sends SIGTERM to this process when standard input ends, which the starting process holds open."""

    def wait() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="starter", daemon=True).start()


if __name__ == "__main__":
    enter_command()
    sys.exit(main(Path(sys.argv[1])))
