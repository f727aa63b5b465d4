"""Decodes a text with one model under many settings and scores each: `transduce sweep` from Python."""

import contextlib
import hashlib
import itertools
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from transduce import files
from transduce.bundle import Bundle
from transduce.config import Config
from transduce.engines.torch import TorchEngine
from transduce.errors import BundleError, ConfigError
from transduce.evaluation import Text, evaluate
from transduce.evaluation.evaluation import require_metrics
from transduce.evaluation.texts import require_aligned
from transduce.experiments import store
from transduce.experiments.store import RESULTS, TABLE
from transduce.experiments.sweep.results import Axes, Comparability, Measured, Point, SweepResults, draw, render
from transduce.model import Transformer
from transduce.model.device import choose_device
from transduce.reporting.tables import counted
from transduce.text import load_tokenizer
from transduce.text.languages import without_region
from transduce.text.tags import source_tags
from transduce.training.averaging import average, tuned_checkpoints
from transduce.training.progress import recorded_checksum
from transduce.training.run_folder import load_run_config, load_run_data
from transduce.translation.pipeline import TextOptions
from transduce.translation.translator import Translator

PICTURE = "sweep.png"


@dataclass(frozen=True)
class Task:
    """What is translated, and how the translations are scored."""

    source: Text
    references: Sequence[Text]
    metric: str = "bleu"  # one of `transduce.evaluation.METRICS`
    tokenized: bool = False
    lowercase: bool = False
    language: str = ""  # of the target, for the paper's BLEU
    target: str = ""  # the language to ask for, of a model of several; "": the model's default
    domain: str = ""  # for a model that was trained on domains
    source_language: str = ""  # of the source, for a model that reads its tag; "": the model's default

    def __post_init__(self) -> None:
        require_metrics([self.metric], tokenized=self.tokenized)

    @property
    def comparability(self) -> Comparability:
        """What other scores must share with these to be comparable."""
        references = [line for reference in self.references for line in reference.lines]
        named = [*filter(None, [self.source_language]), *source_tags(target_language=self.target, domain=self.domain)]
        return Comparability(
            _sha256([*named, *self.source.lines]),
            _sha256(references),
            self.metric,
            self.tokenized,
            self.lowercase,
            without_region(self.language) if _depends_on_language(self.metric, tokenized=self.tokenized) else "",
        )


def sweep(
    subject: Path,
    task: Task,
    axes: Axes,
    output: Path,
    *,
    device: str = "auto",
    batch_size: int | None = None,
    show_progress: bool = True,
) -> SweepResults:
    """Measures every point of `axes` and writes results, table and picture into `output`; called again, it resumes.

    Points of earlier calls stay if they were decoded with the weights that the subject has now. Others are dropped,
    and decoded again if `axes` has them.

    Args:
        subject: a run folder, or a model folder: of that, `axes.averages` must be (0,).
        task: what is translated and how it is scored.
        axes: the settings.
        output: the folder.
        device: as `Translator.load` takes it.
        batch_size: lines decoded together, which changes the seconds only; None: the model's own setting.
        show_progress: whether to print results on standard error as they come.

    Raises:
        BundleError: `subject` is neither, or has too few checkpoints to average.
        ConfigError: `subject` is a parser, or `output` has scores that do not compare with these, or another sweep.
        EvaluationError: source and reference are not aligned.
    """
    require_aligned(task.source, task.references)
    if subject_config(subject).data.format == "trees":
        raise ConfigError(f"{subject}: this model is a parser. 'transduce parse run --trees' scores its trees.")
    for count in axes.averages:
        _weights(subject, count)  # raises if they are missing, before anything is decoded
    store.require_folder(output)
    with files.exclusive(output) as alone:
        if not alone:
            raise ConfigError(f"{output}: another sweep is at work here. Wait until it is done: what it finds is kept.")
        results = _begin(subject, task.comparability, output)
        say = partial(store.say, show_progress)
        current = results.current(_current_weights(subject, {point.average for point in results.points}))
        if dropped := len(results.measured) - len(current.measured):
            say(f"{output}: {dropped} points were decoded with weights that {subject} no longer has: dropped")
        results = current
        for count in axes.averages:
            points = [Point(count, *values) for values in itertools.product(axes.beam_sizes, axes.length_penalties)]
            if all(point in results.points for point in points):
                continue
            translator, weights = _translator(subject, count, device)
            results = results.current({count: weights})  # the run may have been trained further
            for point in points:
                if point not in results.points:
                    results = _with_point(results, translator, task, point, weights, batch_size)
                    _save(results, output)
                    say(_describe(results.points[point]))
        _save(results, output)
        store.draw_if_possible(partial(draw, results, output / PICTURE), shown=show_progress)
        return results


def _begin(subject: Path, comparability: Comparability, output: Path) -> SweepResults:
    """Returns the results of earlier calls; raises ConfigError where they do not compare with these."""
    if not (output / RESULTS).is_file():
        return SweepResults(str(subject), comparability, "", ())
    known = SweepResults.load(output / RESULTS)
    before = known.comparability
    if before.language is None:  # of an older version: the model's language, unless --target-language was given
        depends = _depends_on_language(before.metric, tokenized=before.tokenized)
        before = replace(before, language=subject_config(subject).data.target_language if depends else "")
    store.require_same(
        {"subject": known.subject, **asdict(before)},
        {"subject": str(subject), **asdict(comparability)},
        f"{output}: holds scores of",
    )
    return replace(known, comparability=comparability)


def _save(results: SweepResults, output: Path) -> None:
    results.save(output / RESULTS)
    files.write_text(output / TABLE, render(results))


def _with_point(
    results: SweepResults, translator: Translator, task: Task, point: Point, weights: str, batch_size: int | None
) -> SweepResults:
    """Returns the results with one more point, which is measured unless another one is the same search."""
    twin = next((one for one in results.measured if _same_search(point, one.point)), None)
    if twin is not None:
        return results.with_point(replace(twin, point=point), results.signature)
    return results.with_point(*_measure(translator, task, point, weights, batch_size))


def _measure(
    translator: Translator, task: Task, point: Point, weights: str, batch_size: int | None
) -> tuple[Measured, str]:
    started = time.perf_counter()
    lines = translator.translate(
        task.source.lines,
        beam_size=point.beam_size,
        length_penalty=point.length_penalty,
        batch_size=batch_size,
        text_options=TextOptions(language=task.source_language, target=task.target, domain=task.domain),
    )
    seconds = time.perf_counter() - started
    evaluation = evaluate(
        Text("the translations", lines),
        task.references,
        metrics=[task.metric],
        language=task.language,
        tokenized=task.tokenized,
        lowercase=task.lowercase,
    )
    score = evaluation.scores[task.metric]
    return Measured(point, weights, score.value, score.length_ratio, seconds), score.signature


def _current_weights(subject: Path, counts: Iterable[int]) -> dict[int, str | None]:
    """Returns the checksums of the weights that the subject has now; None where it has too few checkpoints."""
    found: dict[int, str | None] = dict.fromkeys(counts)
    for count in found:
        with contextlib.suppress(BundleError, ConfigError):
            _, found[count] = _weights(subject, count)
    return found


def _same_search(one: Point, other: Point) -> bool:
    return one.beam_size == other.beam_size == 1 and one.average == other.average


def _depends_on_language(metric: str, *, tokenized: bool) -> bool:
    """Whether a score depends on the language: the paper's BLEU does, where it splits words itself."""
    return metric == "bleu-paper" and not tokenized


def _describe(one: Measured) -> str:
    averaged = f"{one.point.average} averaged, " if one.point.average else ""
    return (
        f"{averaged}beam {one.point.beam_size}, length penalty {one.point.length_penalty:g}: "
        f"{one.score:.2f} in {one.seconds:.1f} s"
    )


def subject_config(subject: Path) -> Config:
    """Returns the configuration of a run folder or a model folder; raises BundleError where it is neither."""
    return load_run_config(subject) if _is_run(subject) else Bundle.load(subject).config


def default_averages(subject: Path) -> tuple[int, ...]:
    """Returns the default of how many checkpoints are averaged: as many as training does, 0 for a model folder.

    That is the recipe's number, or all where a run has fewer.
    """
    if not _is_run(subject):
        return (0,)
    train = subject_config(subject).train
    return (max(1, min(train.average_last, len(tuned_checkpoints(subject, train)))),)


def _is_run(subject: Path) -> bool:
    return (subject / "checkpoints").is_dir() and not (subject / "model.safetensors").is_file()


def _weights(subject: Path, count: int) -> tuple[list[Path], str]:
    """Returns the last `count` checkpoints that may be averaged, and a checksum of the weights of a point."""
    if count == 0:
        return [], Bundle.load(subject).checksums["model.safetensors"]
    if not _is_run(subject):
        raise ConfigError(f"{subject}: is not a run folder; a model folder has no checkpoints to average.")
    found = tuned_checkpoints(subject, subject_config(subject).train)
    if len(found) < count:
        raise BundleError(
            f"{subject}: has {counted(len(found), 'checkpoint')}, {count} are to be averaged. Training keeps "
            "train.keep_checkpoints of them."
        )
    paths = found[-count:]
    return paths, _sha256([recorded_checksum(path) for path in paths])


def _translator(subject: Path, count: int, device: str) -> tuple[Translator, str]:
    """Returns the translator with these weights, and their checksum."""
    paths, weights = _weights(subject, count)
    if not paths:
        return Translator.load(subject, engine="torch", device=device), weights
    config = load_run_config(subject)
    model = Transformer.from_weights(config.model, average(paths), str(subject))
    tokenizer = load_tokenizer(load_run_data(subject, checksums=False).tokenizer)
    engine = TorchEngine(model.to(choose_device(device)), tags=tokenizer.target.tags.values())
    return Translator(engine, tokenizer, config.decode, Bundle(subject, config, {})), weights  # which has the languages


def _sha256(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
