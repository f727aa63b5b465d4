"""Trains one of the systems up to a budget, and measures it: the same trainer, batches, search and scores for all."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from transduce import files
from transduce.config import Config
from transduce.data.prepare import prepare
from transduce.data.prepared import Prepared, difference_from, is_prepared, load_prepared
from transduce.data.store import ParallelStore
from transduce.errors import ConfigError, TrainingError
from transduce.evaluation import bleu, paper_bleu, tokenized_bleu
from transduce.experiments.paper.controls.search import search
from transduce.experiments.paper.controls.systems import System
from transduce.experiments.paper.experiment import Values
from transduce.experiments.paper.trained_models import read_test
from transduce.runs import with_vocabulary
from transduce.text import Tokenizer, load_tokenizer
from transduce.training.averaging import average_checkpoints
from transduce.training.device import Compute
from transduce.training.outcome import End
from transduce.training.progress import last_progress
from transduce.training.resume import changes_on_resume, save_run_config
from transduce.training.run_folder import CONFIG, METRICS
from transduce.training.trainer import Trainer
from transduce.training.validation import Validation

_WITHOUT_LIMIT = 10**9  # steps
_CLOCKS: dict[str, Callable[[], float]] = {"processor": time.process_time, "wall": time.perf_counter}
_SHOWN = ("step", "seconds", "flops", "perplexity", "bleu")  # of a validation in metrics.jsonl


@dataclass(frozen=True)
class Budget:
    """What training may cost; 0: no limit. It ends at the first that is reached."""

    flops: float = 0.0
    minutes: float = 0.0

    def of(self, kind: str) -> "Budget":
        """Returns the budget of "flops" or "minutes" alone."""
        return Budget(flops=self.flops) if kind == "flops" else Budget(minutes=self.minutes)


def clock_of(compute: Compute) -> str:
    """Returns what counts minutes: "processor" time where one thread does all, which other programs hardly change."""
    return "processor" if compute.device.type == "cpu" and torch.get_num_threads() == 1 else "wall"


@dataclass(frozen=True)
class Run:
    """A training in a folder, which is continued where it stopped."""

    system: System
    config: Config  # without the size of the vocabulary
    folder: Path
    data: Path  # prepared once for all systems
    tokenized: bool
    show_progress: bool

    def train(self, budget: Budget) -> str:
        """Trains until the budget is spent; returns which one was: "flops" or "minutes".

        Raises:
            ConfigError: the data were prepared for another recipe.
            Stopped: a signal ended the training, after a checkpoint.
            TrainingError: another process trains here, or the folder has a training of other settings.
        """
        train = replace(self._config.train, max_steps=_WITHOUT_LIMIT)
        train = replace(train, max_flops=budget.flops, max_minutes=budget.minutes)
        config = replace(self._config, train=train)
        self.folder.mkdir(parents=True, exist_ok=True)
        with files.exclusive(self.folder) as alone:
            if not alone:
                raise TrainingError(f"{self.folder}: another training is at work here. Stop it, or wait.")
            prepared = self._prepared
            if differs := difference_from(self.config, prepared):
                raise ConfigError(
                    f"{self.data}: was prepared differently from what the recipe says: {differs}. Choose another "
                    "--output, or remove the whole output folder to start over."
                )
            if (self.folder / CONFIG).is_file():
                changes_on_resume(self.folder, config, ())
            save_run_config(self.folder, config, ())
            store = ParallelStore.open(prepared.train, prepared.corpora)
            model, compute = self._model()
            trainer = Trainer(
                model, config, self.folder, store, self._validation(config), compute=compute,
                show_progress=self.show_progress,
            )  # fmt: skip
            trainer.clock = _CLOCKS[clock_of(compute)]
            trainer.resume()
            trainer.prepare()
            outcome = trainer.fit()
        outcome.require_finished("the same command continues")
        return "flops" if outcome.end == End.MAX_FLOPS else "minutes"

    def train_leg(self, budget: Budget, leg: int) -> str:
        """Trains up to the first budget that is spent, and with leg 2 on to the other; returns which one this was.

        Raises what `train` does.
        """
        noted = self.folder / "first_budget.json"
        if leg == 1:
            first = self.train(budget)
            files.write_json(noted, {"budget": first})
            return first
        other = "minutes" if files.read_json(noted)["budget"] == "flops" else "flops"
        self.train(budget.of(other))
        return other

    def cost(self) -> Values:
        """Returns what was spent so far, and the perplexity of the last checkpoint."""
        progress = last_progress(self.folder)
        if progress is None:
            raise ConfigError(f"{self.folder}: has no checkpoint. Remove the whole output folder to start over.")
        cost = {"steps": progress.step, "flops": progress.cost.flops, "minutes": progress.seconds / 60}
        return {**cost, "estimate": progress.cost.estimate, "perplexity": progress.validations["perplexity"]}

    def curve(self) -> list[Values]:
        """Returns all validations: `_SHOWN`."""
        with (self.folder / METRICS).open(encoding="utf-8") as lines:
            records = [json.loads(line) for line in lines]
        return [{key: each.get(key) for key in _SHOWN} for each in records if each["kind"] == "validation"]

    def measure(self) -> Values:
        """Returns the scores of the mean of the last checkpoints: on the validation set, and on each test set."""
        config = self._config
        model, compute = self._model()
        steps, weights = average_checkpoints(self.folder, config.train.average_last, config.train)
        model.load_weights(weights)
        whole = replace(config.train, validate_bleu_sentences=_WITHOUT_LIMIT)
        whole = replace(whole, validate_beam_size=config.decode.beam_size)
        scores = self._validation(replace(config, train=whole)).scores(model, compute)
        tests = {test.name: self._test(model, test.name) for test in config.data.test_corpora}
        averaged = [each.step for each in steps]
        return {"parameters": model.num_parameters, "averaged": averaged, "validation": scores, "tests": tests}

    # --- parts --------------------------------------------------------------------------------------------------

    @cached_property
    def _prepared(self) -> Prepared:
        if not is_prepared(self.data):
            with files.in_turn(self.data.parent):  # of several commands the first prepares
                if not is_prepared(self.data):
                    prepare(self.config, self.data, progress=self.show_progress)
        return load_prepared(self.data, checksums=False)

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return load_tokenizer(self._prepared.tokenizer)

    @property
    def _config(self) -> Config:
        return with_vocabulary(self.config, self._tokenizer)

    def _model(self) -> tuple[Any, Compute]:
        compute = Compute.of(self.config.train.device, self.config.train.precision)
        torch.manual_seed(self.config.train.seed)
        return self.system.make(self._config.model).to(compute.device), compute

    def _validation(self, config: Config) -> Validation:
        prepared, tokenizer = self._prepared, self._tokenizer
        if prepared.validation is None:
            raise ConfigError(f"{config.name}: data.validation is not set, and systems are compared by it.")
        store = ParallelStore.open(prepared.validation, prepared.validation_sets)
        rows = range(min(len(store), config.train.validate_bleu_sentences))
        sources = [store.source(row).tolist() for row in rows]
        references = tokenizer.target.decode_batch([store.target(row).tolist() for row in rows])
        options = replace(config.decode, beam_size=config.train.validate_beam_size)

        def score(model: Any) -> dict[str, float]:
            texts = tokenizer.target.decode_batch(search(model, sources, options))
            return {"bleu": (tokenized_bleu if self.tokenized else bleu)(texts, [references]).value}

        return Validation(store, score)

    def _test(self, model: Any, name: str) -> Values:
        config, tokenizer = self._config, self._tokenizer
        sources, references = read_test(config, name)
        outputs = search(model, tokenizer.encode_batch(sources), config.decode)
        texts = tokenizer.target.decode_batch(outputs)
        language = config.data.held_out_languages[1]
        papers = paper_bleu(texts, [references], language=language, tokenized=self.tokenized)
        plain = (tokenized_bleu if self.tokenized else bleu)(texts, [references])
        return {"paper": papers.value, "sacrebleu": plain.value, "signature": plain.signature, "lines": len(texts)}
