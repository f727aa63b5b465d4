"""The training corpora of a recipe with a model's translations in place of their targets.

FOLDER/distilled/NUMBER/   the translations of each training corpus: see `made_corpus`
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from transduce.augmentation.made_corpus import SOURCE, TARGET, MadeCorpus
from transduce.augmentation.student_config import teacher_languages
from transduce.augmentation.translated_text import CorpusJob, distill
from transduce.augmentation.translation_records import Nearness
from transduce.bundle import Bundle
from transduce.config import Config
from transduce.config.home import expanded
from transduce.data.corpus import Part, absolute
from transduce.translation.pipeline import TextOptions
from transduce.translation.streams.workers import Workers
from transduce.translation.translator import Translator

DISTILLED = "distilled"


def distill_parts(
    translator: Translator | Workers,
    teacher: Bundle,
    config: Config,
    parts: Sequence[Part],
    folder: Path,
    job: CorpusJob,
    nearest: Nearness | None = None,
) -> list[MadeCorpus]:
    """Translates the sources of each training corpus of `config`; continues where it was stopped.

    Args:
        translator: the teacher, or workers that have it.
        teacher: its model folder.
        config: of the training.
        parts: the files of each training corpus.
        folder: the translations go below it.
        job: how; the languages and the domain are those of each corpus.
        nearest: see `distill`.
    """
    made = []
    for number, (part, corpus) in enumerate(zip(parts, config.data.training_corpora, strict=True), start=1):
        domain = corpus.domain if corpus.domain in teacher.tokenizer.domains else ""
        source, target = teacher_languages(teacher, corpus)
        texts = TextOptions(guard=True, language=source, target=target, domain=domain)
        how = replace(job, text_options=texts)
        output = folder / DISTILLED / str(number)
        made.append(distill(translator, part.paths, output, how, nearest=nearest, languages=part.languages))
    return made


def with_distilled_data(config: Config, folder: Path) -> Config:
    """Returns `config` with the translations in `folder` in place of the training corpora.

    Their names start at the folder, so that it can be moved.
    """
    data = config.data
    numbers = range(1, len(data.training_corpora) + 1)
    files = [(f"{DISTILLED}/{number}/{SOURCE}", f"{DISTILLED}/{number}/{TARGET}") for number in numbers]
    if data.corpora:
        named = zip(data.training_corpora, files, strict=True)
        data = replace(data, corpora=tuple(replace(corpus, files=pair) for corpus, pair in named))
    else:
        data = replace(data, train=tuple(files))

    def held_out(names: Sequence[str]) -> tuple[str, ...]:
        paths = (expanded(data.folder) / expanded(name) for name in names)
        return tuple(str(absolute(path)) for path in paths)

    found = replace(
        data,
        folder=str(folder.resolve()),
        validation=held_out(data.validation),
        validation_sets=tuple(replace(each, files=held_out(each.files)) for each in data.validation_sets),
        test={name: held_out(names) for name, names in data.test.items()},
        test_sets=tuple(replace(each, files=held_out(each.files)) for each in data.test_sets),
        download="",
    )
    return replace(config, data=found)
