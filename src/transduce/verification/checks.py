"""The list of what is verified: each check with its promise, and what to do where it fails."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from transduce.bundle import Bundle
from transduce.verification import cache, causality, folder, greedy, kernels, modes, padding, search
from transduce.verification.engines import LOADERS, OTHERS, Other
from transduce.verification.exports import ExportChecks
from transduce.verification.findings import Finding
from transduce.verification.model_under_test import ModelUnderTest
from transduce.verification.search import Search

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Check(Generic[S]):
    """One promise, and what puts it to the test."""

    name: str
    promise: str  # what holds where it passes
    advice: str  # what to do where it fails
    run: Callable[[S], Finding]


_MODEL_FAULT = (
    "the model's code does not compute what it should, and translations cannot be trusted: reinstall Transduce and "
    "PyTorch; if it stays, report it with the output of --json"
)
_SEARCH_FAULT = (
    "decode with --batch-size 1 until it is mended; reinstall Transduce and PyTorch, and report it with the output of "
    "--json if it stays"
)


def _native(tested: ModelUnderTest) -> Search:
    settings = tested.settings
    return Search(
        tested.engine,
        tested.sample.names,
        tested.sources,
        tested.options,
        tested.bundle.tokenizer,
        settings.log_probability,
        settings.tie,
    )


def _batches(tested: ModelUnderTest) -> Finding:
    return search.batches(_native(tested), tested.settings.batch_sizes, tested.settings.seed)


# Of the folder alone, in this order: where the last fails, there is no model to look at.
FOLDER_CHECKS: tuple[Check[Bundle], ...] = (
    Check(
        "checksums",
        "the files are those that were written when the model was made",
        "get the folder again from where it was made: this is not the model that was measured",
        folder.checksums,
    ),
    Check(
        "loads",
        "weights and tokenizer can be read, fit the configuration, and are finite",
        "get the folder again, or average other checkpoints (transduce average RUN --last N)",
        folder.loads,
    ),
)

CHECKS: tuple[Check[ModelUnderTest], ...] = (
    Check(
        "saved = loaded",
        "a model that is saved and loaded is the same, bit for bit",
        "do not copy or average this model before it is mended: check the disk, then reinstall Transduce",
        folder.saved_is_loaded,
    ),
    Check(
        "tokenizer",
        "every text comes back from its subwords unchanged, and none is read as a special token",
        "take tokenizer.json from the run that the model comes from; it was changed, or is not one of Transduce",
        folder.tokenizer,
    ),
    Check(
        "causality",
        "what is predicted at a position depends on the tokens before it only",
        _MODEL_FAULT,
        causality.causality,
    ),
    Check(
        "cache = no cache",
        "decoding step by step gives the same log-probabilities as whole sequences",
        _MODEL_FAULT,
        cache.steps,
    ),
    Check(
        "cache, beams moved",
        "it does so after beams were expanded, reordered and dropped",
        _MODEL_FAULT,
        cache.beams,
    ),
    Check(
        "padding",
        "a sentence's encoder states and log-probabilities do not depend on the padding or the neighbours in its batch",
        _MODEL_FAULT,
        padding.padding,
    ),
    Check(
        "evaluation repeats",
        "evaluation has no randomness: the same input gives the same bits twice",
        "something random is left on, such as dropout, or the device's kernels are not deterministic: try --device cpu",
        modes.repeats,
    ),
    Check(
        "train = evaluate",
        "training mode with every dropout at 0 computes what evaluation mode does",
        _MODEL_FAULT,
        modes.training_mode,
    ),
    Check(
        "attention = eq. 1",
        "the fast attention kernels compute equation 1; with a window, full attention with the rest masked",
        "PyTorch's kernels go wrong on this machine, or Transduce's: try another PyTorch, and report it",
        kernels.attention,
    ),
    Check(
        "prepacked = plain",
        "weights laid out for this machine give what the weights on disk give",
        "PyTorch's kernels go wrong on this machine: try another PyTorch, and report it",
        kernels.prepacked,
    ),
    Check(
        "precision",
        "rounding does not matter: the engine agrees with float64",
        "the weights may be too large for float32 (a training that diverged): average other checkpoints",
        kernels.precision,
    ),
    Check(
        "batch size and order",
        "a translation does not depend on batch size, order or neighbours",
        _SEARCH_FAULT,
        _batches,
    ),
    Check(
        "beam 1 = greedy",
        "a beam of 1 is greedy search, which takes the most probable token each time",
        _SEARCH_FAULT,
        greedy.greedy,
    ),
    Check(
        "n-best",
        "n-best lists are sorted and distinct, begin with the best, and with the list of any smaller n",
        _SEARCH_FAULT,
        lambda tested: search.n_best(_native(tested), tested.found),
    ),
    Check(
        "scores = forced",
        "a hypothesis has the score that the model gives it when it is forced",
        _SEARCH_FAULT,
        lambda tested: search.scores(_native(tested), tested.found),
    ),
)


def of_exports(folders: Sequence[Path]) -> list[tuple[Check[ModelUnderTest], ...]]:
    """Returns the checks of each exported folder; where the first fails, the other is pointless."""
    advice = "export the model again (transduce export), and do not use this folder before it passes"
    return [
        (
            Check(f"{each.name}: files", "it is what was certified, of this model", advice, each.files),
            Check(
                f"{each.name}: = native", "it gives what the model gives, as its certificate says", advice, each.again
            ),
        )
        for each in map(ExportChecks, folders)
    ]


def of_other_engines(tested: ModelUnderTest, threads: int | None) -> list[tuple[Check[ModelUnderTest], ...]]:
    """Returns the checks of every other engine in each precision; where the first fails, the others are pointless."""
    return [_of_engine(Other(tested, name, quantization, LOADERS[name], threads)) for name, quantization in OTHERS]


def _of_engine(other: Other) -> tuple[Check[ModelUnderTest], ...]:
    advice = f"use --engine torch until it is mended, and report it: {other.name} is not this model"
    described: tuple[tuple[str, str, Callable[[], Finding]], ...] = (
        ("loads", "it can hold this model", other.loads),
        ("forced scores", "it gives translations the scores that the reference gives", other.forced),
        ("outputs", "it translates as the reference does, up to its own rules of search", other.outputs),
        ("batches", "its translations do not depend on batch size, order or neighbours", other.batches),
        ("n-best", "its n-best lists are sorted, distinct, and begin with those of any smaller n", other.n_best),
        ("scores", "its hypotheses have the scores that it gives them when they are forced", other.scores),
    )
    return tuple(
        Check(f"{other.name}: {name}", promise, advice, _whatever_the_subject(run)) for name, promise, run in described
    )


def _whatever_the_subject(run: Callable[[], Finding]) -> Callable[[ModelUnderTest], Finding]:
    return lambda _: run()
