"""The tags in front of the sources of each corpus and of each validation set."""

from dataclasses import dataclass

from transduce.config import DataConfig
from transduce.config.corpora import CorpusConfig, HeldOutSetConfig
from transduce.text.tags import source_tags

Tags = tuple[str, ...]


@dataclass(frozen=True)
class CorpusTags:
    """The tags of each corpus and of each validation set, in the order of the recipe."""

    train: tuple[Tags, ...]
    validation: tuple[Tags, ...]

    @classmethod
    def of(cls, data: DataConfig, *, languages: bool = False) -> "CorpusTags":
        """Returns the tags that a recipe asks for.

        Args:
            data: says them.
            languages: whether target languages have tags even if there is only one, as where the vocabulary is one of
                a model of several.
        """
        tagged = languages or bool(data.tagged_languages)

        def tags_of(each: CorpusConfig | HeldOutSetConfig, corpus: str = "") -> Tags:
            return source_tags(target_language=each.target_language * tagged, domain=each.domain, corpus=corpus)

        return cls(
            tuple(tags_of(each, each.tag) for each in data.training_corpora),
            tuple(tags_of(each) for each in data.validation_corpora),
        )

    @property
    def all(self) -> list[str]:
        """All tags, in the order of the recipe, each once."""
        return list(dict.fromkeys(tag for tags in (*self.train, *self.validation) for tag in tags))
