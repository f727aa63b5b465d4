"""The section `[data]`: where the parallel text is, and which pairs are kept."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from transduce.config.corpora import (
    CorpusConfig,
    HeldOutSetConfig,
    filled_in,
    require_languages,
    require_names,
)
from transduce.config.quantities import Length, LengthOrNone, Ratio, Temperature, refused
from transduce.config.ranges import Range, check_ranges, require_text, shown
from transduce.errors import ConfigError

_REPEATS = Range(1, 1_000_000)  # of `data.repeat`
_SHORT_FORMS = {"train": "corpora", "validation": "validation_sets", "test": "test_sets"}


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the parallel text is, and which pairs are kept.

    A pair of files is `["a.en", "a.de"]`; one file with tab-separated columns is `["a.tsv"]`; a translation memory, of
    which `source_language` and `target_language` choose two languages, is `["a.tmx"]`. Names may end in `.gz` or
    `.zst`. Relative names start at `folder`.

    `train` and `repeat` are the short form of `corpora`, `validation` is that of `validation_sets`, and `test` that of
    `test_sets`. Whoever reads them asks for `training_corpora`, `validation_corpora` and `test_corpora`.

    With the format "trees" the names are treebanks: files of bracketed trees, folders of them, and patterns such as
    "wsj/0[2-9]". Each tree becomes a pair, its words and its brackets, and the model becomes a parser (§6.3).

    DEVIATION: the paper drops no pairs. `max_tokens` is the released code's limit; the other limits are ours.
    """

    format: Literal["text", "trees"] = "text"  # pairs of lines, or treebanks (§6.3)
    source_language: str = ""  # BCP 47 code, for translation memories, model cards, sentence splitting, BLEU
    target_language: str = ""  # BCP 47 code
    # Where tags name languages. "source": the target's tag precedes the source, if there are several targets. "target":
    # it is the first token of the target. "both": also, the source's tag precedes the source (M2M100, NLLB).
    language_tags: Literal["source", "target", "both"] = "source"
    folder: str = ""  # where relative names start; in a recipe: relative to the recipe file
    download: str = ""  # a named corpus (`transduce.data.named_corpora`), fetched into `folder` if it is not there
    train: tuple[tuple[str, ...], ...] = ()  # pairs of files, or TSV or TMX files
    repeat: tuple[int, ...] = ()  # how often an epoch repeats each entry of `train`; empty: once
    corpora: tuple[CorpusConfig, ...] = ()  # instead of `train`: files, name, weight and languages of each corpus
    temperature: Temperature = 0.0  # T ≥ 1: a corpus of n pairs has the share n^(1/T) of an epoch; 0: by `weight`
    validation: tuple[str, ...] = ()  # a pair of files, or a TSV or TMX file
    validation_sets: tuple[HeldOutSetConfig, ...] = ()  # instead of `validation`: named sets; their mean decides
    test: dict[str, tuple[str, ...]] = field(default_factory=dict)  # named test sets, never trained on
    test_sets: tuple[HeldOutSetConfig, ...] = ()  # instead of `test`: sets that name their languages and domain
    # Treebanks only: rare words are cut into pieces, or replaced by one token for their shape (a signature).
    rare_words: Literal["pieces", "signatures"] = "pieces"
    max_tokens: Length = 256  # longest side of a training pair, in subwords
    max_ratio: Ratio = 4.0  # greatest length ratio of the two sides, in subwords; 0: no limit
    ratio_slack_tokens: LengthOrNone = 8  # the ratio counts where the lengths differ by more than this
    drop_leaked: bool = True  # drop pairs with a side in validation or test, but for short lines (data/doctor.py)
    drop_near_copies: bool = False  # drop pairs with a side in which one word differs from a validation or test line
    drop_wrong_language: bool = False  # drop pairs with a side in the other side's language (data/wrong_language.py)
    drop_duplicates: bool = False  # drop pairs that repeat an earlier one
    allow_misaligned: bool = False  # accept a corpus whose sides do not match line by line (data/doctor.py)

    def __post_init__(self) -> None:
        check_ranges("data", self)
        if self.rare_words != "pieces" and self.format != "trees":
            demand = "'pieces' where data.format is not 'trees': a translator needs the words themselves"
            raise refused(self, "data.rare_words", demand)
        named = [("train", names) for names in self.train]
        for key in _SHORT_FORMS.values():
            require_names(f"data.{key}", getattr(self, key))
            named += [(f"{key}[{index}].files", each.files) for index, each in enumerate(getattr(self, key))]
        named += [("validation", self.validation)] if self.validation else []
        named += [(f"test.{name}", names) for name, names in self.test.items()]
        demand = "one or more files of trees" if self.format == "trees" else "a pair of files, or one TSV or TMX file"
        for key, names in named:
            for name in names:
                require_text(name, f"data.{key}")
            if not names or (self.format == "text" and len(names) > 2):
                raise ConfigError(f"data.{key} = {shown([*names])}: must be {demand}.")
        fits = len(self.repeat) == len(self.train) and all(number in _REPEATS for number in self.repeat)
        if self.repeat and not fits:
            demand = f"a number {_REPEATS} for each of the {len(self.train)} entries of data.train, or empty"
            raise refused(self, "data.repeat", demand)
        for short, key in _SHORT_FORMS.items():
            if getattr(self, short) and getattr(self, key):
                demand = (
                    f"left out where there are [[data.{key}]]: it is their short form. Give its files as an entry "
                    f"[[data.{key}]] with a name, too"
                )
                raise refused(self, f"data.{short}", demand)
        self._check_weights()
        self._check_tags()

    def _check_weights(self) -> None:
        weights = [corpus.weight for corpus in self.corpora]
        if weights and not any(weights):
            raise ConfigError("data.corpora: weight = 0 for all corpora: nothing would be left to train on.")
        if self.temperature:
            if self.temperature < 1:
                raise refused(self, "data.temperature", "0, or at least 1")
            if self.repeat or any(weight != 1 for weight in weights):
                raise refused(self, "data.temperature", "0 if corpora have weights: it sets the weights itself")

    @cached_property
    def training_corpora(self) -> tuple[CorpusConfig, ...]:
        """The corpora to train on, each with a name, a weight and languages, whichever form the recipe has."""
        repeats = self.repeat or (1,) * len(self.train)
        short = [CorpusConfig(files=files, weight=float(n)) for files, n in zip(self.train, repeats, strict=True)]
        return filled_in(self.corpora or short, self.source_language, self.target_language)

    @cached_property
    def held_out_languages(self) -> tuple[str, str]:
        """The languages of sets that name none: those of the recipe, or else of all its corpora."""
        own = (self.source_language, self.target_language)
        of_corpora = {(corpus.source_language, corpus.target_language) for corpus in self.training_corpora}
        return own if all(own) or len(of_corpora) != 1 else of_corpora.pop()

    @cached_property
    def validation_corpora(self) -> tuple[HeldOutSetConfig, ...]:
        """The validation sets, each with a name and languages, whichever form the recipe has."""
        short = [HeldOutSetConfig(files=self.validation, name="validation")] if self.validation else []
        return filled_in(self.validation_sets or short, *self.held_out_languages)

    @cached_property
    def test_corpora(self) -> tuple[HeldOutSetConfig, ...]:
        """The test sets, each with a name and languages, whichever form the recipe has."""
        short = [HeldOutSetConfig(files=files, name=name) for name, files in self.test.items()]
        return filled_in(self.test_sets or short, *self.held_out_languages)

    def described_languages(self, source: str, target: str) -> str:
        """Returns the languages of all corpora: "en → de, fr"; unknown ones are `source` and `target`."""
        corpora = self.training_corpora
        sources = dict.fromkeys([corpus.source_language for corpus in corpora] or [self.source_language])
        targets = dict.fromkeys([corpus.target_language for corpus in corpora] or [self.target_language])
        return " → ".join(
            ", ".join(filter(None, each)) or word for each, word in ((sources, source), (targets, target))
        )

    @cached_property
    def tagged_languages(self) -> tuple[str, ...]:
        """The target languages that have tags: all if there are several, or `language_tags` puts them into targets."""
        targets = tuple(dict.fromkeys(corpus.target_language for corpus in self.training_corpora))
        return targets if len(targets) > 1 or self.language_tags != "source" else ()

    def _check_tags(self) -> None:
        corpora, validation = self.training_corpora, self.validation_corpora
        tests = self.test_corpora if self.test_sets else ()  # the short form may leave its languages open
        domains = {corpus.domain for corpus in corpora}
        targets = tuple(dict.fromkeys(corpus.target_language for corpus in corpora)) or ("",)
        if self.format == "trees" and self.language_tags != "source":
            raise refused(self, "data.language_tags", "'source' where data.format is 'trees'")
        if self.format == "trees" and (self.tagged_languages or any(each.tag or each.domain for each in corpora)):
            raise ConfigError("data.corpora: tags and several target languages are for data.format = 'text'.")
        if languages := self.tagged_languages:
            require_languages("data.corpora", corpora, self.language_tags)
            require_languages("data.validation_sets", validation, self.language_tags)
            require_languages("data.test_sets", tests, self.language_tags)
        for kind, each in [("validation", each) for each in validation] + [("test", each) for each in tests]:
            if (languages or (each.target_language and all(targets))) and each.target_language not in targets:
                demand = f"a target language of the corpora ({', '.join(targets)})"
                raise ConfigError(f"{kind} set '{each.name}': '{each.target_language}' must be {demand}.")
            if each.domain and each.domain not in domains:
                demand = "a domain of the corpora"
                raise ConfigError(f"{kind} set '{each.name}': domain = '{each.domain}' must be {demand}.")
