"""Other engine = reference: every installed engine that supports the model, compared with PyTorch in float32."""

from dataclasses import dataclass, replace
from functools import cached_property

from transduce.engines.capabilities import ENGINES, REFERENCE
from transduce.engines.interface import Engine
from transduce.engines.loading import EngineChoice, load_engine
from transduce.errors import ConfigError, MissingDependencyError
from transduce.evaluation import bleu, tokenized_bleu
from transduce.reporting.tables import counted
from transduce.verification.differences import Differences
from transduce.verification.findings import Finding
from transduce.verification.model_under_test import ModelUnderTest
from transduce.verification.search import Search


@dataclass(frozen=True, slots=True)
class Thresholds:
    """How much another engine may differ from the reference, by the precision that it computes in.

    Attributes:
        token: the greatest mean difference of a target token's log-probability.
        bleu: the least BLEU of its outputs, with those of the reference engine as references, or the least share of
            identical lines in %. It is below 100 even in float32, because engines search by different rules.
        batch: the greatest difference of a line's log-probability between batch sizes, and from its score as a given
            translation.
    """

    token: float
    bleu: float
    batch: float


THRESHOLDS = {
    "float32": Thresholds(token=1e-3, bleu=90.0, batch=1e-3),
    "int8": Thresholds(token=0.1, bleu=75.0, batch=0.3),
}

# The engines and precisions that are compared with the reference, which is torch in float32.
OTHERS = tuple(
    (name, quantization)
    for name, engine in ENGINES.items()
    for quantization in engine.verified
    if (engine, quantization) != (REFERENCE, "float32")
)


class Other:
    """Another engine for the tested model, loaded when it is first needed."""

    def __init__(self, tested: ModelUnderTest, name: str, quantization: str, threads: int | None) -> None:
        self.tested, self.name = tested, f"{name} {quantization}"
        self.thresholds = THRESHOLDS[quantization]
        self._choice, self._quantization, self._threads = EngineChoice(name), quantization, threads

    @cached_property
    def engine(self) -> Engine:
        """The engine, which converts the model first where necessary."""
        device, threads = str(self.tested.device), self._threads
        loaded = load_engine(
            self.tested.bundle, self._choice, device=device, threads=threads, quantization=self._quantization
        )
        return self.tested.begun(loaded)

    def loads(self) -> Finding:
        """Loads the engine; skipped if it is not installed, or does not support the model, the device or the numbers.

        Raises:
            BundleError: the folder cannot be converted.
        """
        try:
            return Finding(self.engine.name)
        except (MissingDependencyError, ConfigError) as error:
            return Finding("", skipped=str(error))

    @cached_property
    def search(self) -> Search:
        """Its search on the sentences of the tested model."""
        sources = [source[: self.engine.max_source_tokens] for source in self.tested.sources]
        return replace(self.tested.search, engine=self.engine, sources=sources, tolerance=self.thresholds.batch)

    def forced(self) -> Finding:
        """Scores the reference's translations with both engines, token by token."""
        tested, seen, total = self.tested, Differences(), 0.0
        targets = [found[0].ids for found in tested.search.found]
        theirs, ours = (each.score(tested.sources, targets) for each in (self.engine, tested.search.engine))
        for name, one, two in zip(tested.sample.names, ours, theirs, strict=True):
            if len(one) != len(two):
                seen.faults.append(f"{name}: {counted(len(two), 'score')} for {counted(len(one), 'token')}")
            for position, (native, exported) in enumerate(zip(one, two, strict=False), start=1):
                seen.add(native - exported, f"{name}, token {position}")
                total += abs(native - exported)
        mean = total / max(seen.count, 1)
        return Finding(
            f"{counted(seen.count, 'token')} of {counted(len(targets), 'translation')}, mean difference of a "
            "log-probability",
            float("inf") if mean != mean else mean,
            self.thresholds.token,
            seen.where,
            tuple(seen.faults) if seen.count else ("nothing was compared",),
            note=f"greatest {seen.worst:.3g}",
        )

    def outputs(self) -> Finding:
        """Translates the sentences with both engines, and compares BLEU between the outputs with the threshold."""
        tested = self.tested
        decode = tested.bundle.tokenizer.target.decode_batch
        ours = decode([found[0].ids for found in tested.search.found])
        theirs = decode([found[0].ids for found in self.search.run()])
        trees = tested.bundle.config.data.format == "trees"
        score = (tokenized_bleu if trees else bleu)(theirs, [ours]).value
        same = sum(one == two for one, two in zip(ours, theirs, strict=True))
        faults = []
        # Of outputs without 4-grams BLEU is 0, however many are the same.
        if not max(score, 100 * same / len(ours)) >= self.thresholds.bleu:
            faults.append(f"BLEU {score:.1f} between the outputs; at least {self.thresholds.bleu:.0f} is required")
        note = (
            f"BLEU {score:.1f} (at least {self.thresholds.bleu:.0f}), {same} of {counted(len(ours), 'line')} identical"
        )
        return Finding(f"{counted(len(ours), 'translation')} by both", faults=tuple(faults), note=note)
