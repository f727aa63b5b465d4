"""All checks: each with what it guarantees, and what to do if it fails."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from transduce.bundle import Bundle
from transduce.export.exported_folder import ExportedFolder
from transduce.verification import drafts, folder, greedy, invariances, kernels, search
from transduce.verification.engines import OTHERS, Other
from transduce.verification.exports import certified_again, certified_files
from transduce.verification.findings import Finding
from transduce.verification.model_under_test import ModelUnderTest

S = TypeVar("S")

_MODEL_FAULT = (
    "do not trust its translations: the code does not compute what it should. Reinstall Transduce and PyTorch. If it "
    "still fails, report it with the file that --report writes"
)
_SEARCH_FAULT = (
    "decode with --batch-size 1 for now. Reinstall Transduce and PyTorch. If it still fails, report it with the file "
    "that --report writes"
)


@dataclass(frozen=True, slots=True)
class Check(Generic[S]):
    """One guarantee, and the function that tests it."""

    name: str
    promise: str  # what holds if it passes
    run: Callable[[S], Finding]
    advice: str = _MODEL_FAULT  # what to do if it fails


_BATCHES = "a translation does not depend on batch size, order or the other sentences of the batch"
_N_BEST = "n-best lists are sorted, have no duplicates, and begin with the list of any smaller n"
_SCORES = "the score of a hypothesis is the one that it gets as a given translation"

# Of the folder alone, in this order. If the last one fails, there is no model to check.
FOLDER_CHECKS: tuple[Check[Bundle], ...] = (
    Check(
        "checksums",
        "the files have not changed since the model was made",
        folder.checksums,
        "get the folder again from where it was made: this is not the model that was measured",
    ),
    Check(
        "loads",
        "weights and tokenizer can be read and fit the configuration, and all numbers are finite",
        folder.loads,
        "get the folder again, or average other checkpoints (transduce average RUN --last N)",
    ),
)


def _of_search(name: str, promise: str, run: Callable[[search.Search], Finding]) -> Check[ModelUnderTest]:
    """Returns a check of the search of the model's own engine."""
    return Check(name, promise, lambda tested: run(tested.search), _SEARCH_FAULT)


CHECKS: tuple[Check[ModelUnderTest], ...] = (
    Check(
        "saved = loaded",
        "a model that is saved and loaded again is the same, bit for bit",
        folder.saved_is_loaded,
        "do not copy or average this model for now: check the disk, then reinstall Transduce",
    ),
    Check(
        "tokenizer",
        "every text is the same after encoding and decoding (with SentencePiece, once it is normalised), and none "
        "becomes a special token",
        folder.tokenizer,
        "copy tokenizer.json from the run of the model: this one was changed, or was not made by Transduce",
    ),
    Check("causality", "the prediction at a position depends only on the tokens before it", invariances.causality),
    Check(
        "cache = no cache",
        "decoding step by step gives the same log-probabilities as decoding whole sequences",
        invariances.cached_steps,
    ),
    Check(
        "cache, beams moved",
        "the same holds after beams were expanded, reordered and dropped",
        invariances.cached_beams,
    ),
    Check(
        "padding",
        "encoder states and log-probabilities of a sentence do not depend on padding or on the rest of the batch",
        invariances.padding,
    ),
    Check(
        "evaluation repeats",
        "evaluation is deterministic: the same input gives the same bits twice",
        invariances.repeats,
        "dropout or something else random is still on, or kernels are not deterministic: try --device cpu",
    ),
    Check(
        "train = evaluate",
        "training mode with every dropout at 0 gives the same results as evaluation mode",
        invariances.training_mode,
    ),
    Check(
        "attention = eq. 1",
        "the fast attention kernels compute equation 1; with a window, equation 1 with all else masked",
        kernels.attention,
        "kernels of PyTorch or of Transduce are wrong on this machine: try another version of PyTorch, and report it",
    ),
    Check(
        "prepacked = plain",
        "weights in the layout of this machine give the same results as those on disk",
        kernels.prepacked,
        "kernels of PyTorch are wrong on this machine: try another version of PyTorch, and report it",
    ),
    Check(
        "precision",
        "rounding does not matter: the engine gives the same results as float64",
        kernels.precision,
        "the weights may be too large for float32, as after a training that diverged: average other checkpoints",
    ),
    _of_search("batch size and order", _BATCHES, search.batches),
    Check(
        "beam 1 = greedy",
        "a beam of 1 is greedy search: the most probable token at each step",
        greedy.greedy,
        _SEARCH_FAULT,
    ),
    Check(
        "drafts = greedy",
        "greedy search with drafts writes what greedy search writes for each sentence alone",
        drafts.drafts,
        "do not use --draft with this model for now, and report it with the file that --report writes",
    ),
    _of_search("n-best", _N_BEST, search.n_best),
    _of_search("scores = forced", _SCORES, search.scores),
)


def of_exports(exports: Sequence[ExportedFolder]) -> list[tuple[Check[ModelUnderTest], ...]]:
    """Returns the checks of each exported folder; if the first fails, the second is not made."""
    advice = "do not use this folder: export the model again (transduce export)"
    files = "the files are those that were certified, of this model"
    native = "the export gives what the model gives, within the thresholds of its certificate"
    return [
        (
            Check(f"export {each.folder}: files", files, partial(certified_files, each), advice),
            Check(f"export {each.folder}: = native", native, partial(certified_again, each), advice),
        )
        for each in exports
    ]


def of_other_engines(tested: ModelUnderTest, threads: int | None) -> list[tuple[Check[ModelUnderTest], ...]]:
    """Returns the checks of every other engine in each precision; if the first fails, the others are not made."""
    return [_of_engine(Other(tested, name, quantization, threads)) for name, quantization in OTHERS]


def _of_engine(other: Other) -> tuple[Check[ModelUnderTest], ...]:
    advice = f"use --engine torch for now, and report it: {other.name} does not give what this model gives"
    checks: tuple[tuple[str, str, Callable[[ModelUnderTest], Finding]], ...] = (
        ("loads", "the engine supports this model", lambda _: other.loads()),
        ("forced scores", "the engine gives translations the same scores as the reference", lambda _: other.forced()),
        ("outputs", "it translates as the reference does, apart from its search rules", lambda _: other.outputs()),
        ("batches", _BATCHES, lambda _: search.batches(other.search)),
        ("n-best", _N_BEST, lambda _: search.n_best(other.search)),
        ("scores", _SCORES, lambda _: search.scores(other.search)),
    )
    return tuple(Check(f"{other.name}: {name}", promise, run, advice) for name, promise, run in checks)
