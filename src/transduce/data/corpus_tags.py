"""The tags of each corpus and of each validation set: in front of sources, and at the beginning of targets."""

from collections.abc import Sequence
from dataclasses import dataclass

from transduce.config import DataConfig
from transduce.config.corpora import CorpusConfig, HeldOutSetConfig
from transduce.text.languages import same_language
from transduce.text.tags import source_tags

Tags = tuple[str, ...]


@dataclass(frozen=True)
class CorpusTags:
    """The tags of each corpus and of each validation set, in the order of the recipe."""

    train: tuple[Tags, ...]  # in front of each source
    validation: tuple[Tags, ...]
    train_targets: tuple[Tags, ...] = ()  # the first tokens of each target; none where no target has any
    validation_targets: tuple[Tags, ...] = ()

    @classmethod
    def of(cls, data: DataConfig, known: Sequence[str] = ()) -> "CorpusTags":
        """Returns the tags that a recipe asks for.

        Args:
            data: says them.
            known: the languages that have tags already, as those of a model of several: then a single target language
                has one, too. Tags are written as these are: that of "de" is that of "deu" where this is known.
        """
        corpora, held_out = data.training_corpora, data.validation_corpora
        tagged = bool(known or data.tagged_languages)

        def language(each: CorpusConfig | HeldOutSetConfig, side: str) -> str:
            return same_language(getattr(each, f"{side}_language"), known) if tagged else ""

        def of_source(each: CorpusConfig | HeldOutSetConfig, corpus: str = "") -> Tags:
            side = {"source": "target", "both": "source", "target": ""}[data.language_tags]
            code = language(each, side) if side else ""
            return source_tags(target_language=code, domain=each.domain, corpus=corpus)

        def of_target(each: CorpusConfig | HeldOutSetConfig) -> Tags:
            return source_tags(target_language=language(each, "target"))

        in_targets = data.language_tags != "source"
        return cls(
            tuple(of_source(each, each.tag) for each in corpora),
            tuple(of_source(each) for each in held_out),
            tuple(map(of_target, corpora)) if in_targets else (),
            tuple(map(of_target, held_out)) if in_targets else (),
        )

    @property
    def of_train(self) -> list[tuple[Tags, Tags]]:
        """The tags of sources and of targets of each corpus."""
        return list(zip(self.train, self.train_targets or [()] * len(self.train), strict=True))

    @property
    def all(self) -> list[str]:
        """All tags, in the order of the recipe, each once."""
        parts = (*self.train, *self.validation, *self.train_targets, *self.validation_targets)
        return list(dict.fromkeys(tag for tags in parts for tag in tags))
