"""`transduce demo` from Python: makes a corpus, trains on it, and tries the model in several ways."""

import dataclasses
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from transduce import files
from transduce.config import Config
from transduce.data.demo_corpus import demo_files, make_demo_corpus
from transduce.data.readers import read_lines
from transduce.errors import TrainingError
from transduce.evaluation.bleu import Score, bleu
from transduce.inspection import explorer_page
from transduce.runs import train
from transduce.training.outcome import Outcome
from transduce.translation.translator import Translator

_MARK = "transduce-demo.json"  # marks the folder of a demo, which may be overwritten
_EXAMPLES = {("en", "de"): "The train to Berlin leaves at 4:35 PM on March 12."}  # for other pairs, the first test line


@dataclass(frozen=True)
class Translated:
    """Test lines as one engine translates them.

    Attributes:
        seconds: what the engine took for all lines.
    """

    lines: list[str]
    references: list[str]
    seconds: float

    @property
    def exact_match(self) -> float:
        """The share of lines whose translation equals the reference."""
        same = sum(ours == theirs for ours, theirs in zip(self.lines, self.references, strict=True))
        return same / len(self.references)

    @property
    def bleu(self) -> Score:
        """BLEU of the lines."""
        return bleu(self.lines, [self.references])


@dataclass(frozen=True)
class DemoResult:
    """The result of a demo.

    Attributes:
        translated: the test lines by the torch engine, in float32.
        translated_int8: the same by the ctranslate2 engine, in int8.
        example: a sentence that is in no part of the corpus, and its translation.
        page: what each attention head looks at in the example, as a web page.
        seconds: what all of it took.
    """

    model: Path
    outcome: Outcome
    sources: list[str]
    translated: Translated
    translated_int8: Translated
    example: tuple[str, str]
    page: Path
    seconds: float


def run_demo(
    config: Config,
    folder: Path,
    *,
    languages: tuple[str, str] = ("en", "de"),
    num_train: int = 60_000,
    num_test: int = 1_000,
    overwrite: bool = False,
    show_progress: bool = True,
    show: Callable[[str], None] = print,
) -> DemoResult:
    """Makes a corpus in `folder`/corpus, trains on it in `folder`/run, and measures `folder`/model on its test lines.

    Args:
        config: how to train; its `data` section is filled in here.
        folder: the output; `overwrite` replaces an earlier demo there.
        languages: source and target, two locales of CLDR.
        num_train: training pairs to make.
        num_test: held-out pairs to make and translate.
        show: called with each line for the user.

    Raises:
        TrainingError: `folder` has other files, or a demo and `overwrite` is off.
        Stopped: a signal ended the training.
        MissingDependencyError: `babel` or `num2words`, which the corpus is made with, is not installed.
    """
    source_language, target_language = languages
    started = time.perf_counter()
    _clear(folder, overwrite)
    show(f"making {num_train:,} {source_language}-{target_language} sentence pairs: dates, times, amounts, numbers …")
    corpus = make_demo_corpus(
        folder / "corpus",
        source_language=source_language,
        target_language=target_language,
        num_train=num_train,
        num_test=num_test,
    )
    sources, references = (list(read_lines(path)) for path in corpus["test"])
    for source, target in list(zip(sources, references, strict=True))[:3]:
        show(f"  {source}  →  {target}")
    run = folder / "run"
    config = with_corpus(config, folder / "corpus", source_language, target_language)
    outcome = train(config, run, show_progress=show_progress)
    outcome.require_finished("the demo starts over each time")
    model = (run / "model").replace(folder / "model")
    show(f"translating {len(sources):,} held-out lines …")
    translator = Translator.load(model, engine="torch")
    int8 = Translator.load(model, engine="ctranslate2", quantization="int8")
    translated = _translated(translator, sources, references)
    translated_int8 = _translated(int8, sources, references)
    attention = translator.attend(_EXAMPLES.get(languages, sources[0]))
    page = folder / "attention.html"
    files.write_text(page, explorer_page(attention, model=config.name))
    example = (attention.source, attention.target)
    return DemoResult(
        model, outcome, sources, translated, translated_int8, example, page, time.perf_counter() - started
    )


def _translated(translator: Translator, sources: list[str], references: list[str]) -> Translated:
    translator.translate(sources[:1])  # converts the model, where the engine needs that
    started = time.perf_counter()
    return Translated(translator.translate(sources), references, time.perf_counter() - started)


def with_corpus(config: Config, folder: Path, source_language: str, target_language: str) -> Config:
    """Returns `config` with the demo corpus that is, or will be, in `folder`."""
    files = demo_files(folder, source_language, target_language)
    names = {part: tuple(path.name for path in paths) for part, paths in files.items()}
    data = dataclasses.replace(
        config.data,
        source_language=source_language,
        target_language=target_language,
        folder=str(folder),
        train=(names["train"],),
        validation=names["validation"],
        test={"test": names["test"]},
    )
    return dataclasses.replace(config, data=data)


def _clear(folder: Path, overwrite: bool) -> None:
    """Makes `folder` an empty demo folder; other folders are never emptied."""
    foreign = "" if (folder / _MARK).is_file() else "it is not a demo's"
    files.require_free(folder, overwrite=overwrite, foreign=foreign, error=TrainingError)
    for name in ("corpus", "run", "model"):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "attention.html").unlink(missing_ok=True)
    files.write_json(folder / _MARK, {"made_by": "transduce demo"})
