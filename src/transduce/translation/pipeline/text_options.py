"""Options for lines that are more than one sentence of plain text."""

from dataclasses import dataclass, fields, replace
from typing import Literal, get_args

from transduce.config.ranges import shown
from transduce.errors import ConfigError, suggestion

Split = Literal["auto", "always", "never"]
Markup = Literal["none", "html", "placeholders"]
SPLIT_KINDS: tuple[Split, ...] = get_args(Split)
MARKUP_KINDS: tuple[Markup, ...] = get_args(Markup)


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """What is done with a line around the search."""

    split: Split = "auto"  # which lines are split into sentences: those longer than the model reads, all, or none
    markup: Markup = "none"  # what is kept as it is: nothing, all that is no prose in HTML, or in plain text
    guard: bool = False  # whether an output that loops or copies the source is searched for again
    capitals: bool = False  # whether text in capitals is read as ordinary text, and its translation gets the capitals
    signs: bool = False  # whether signs that the vocabulary lacks are read as those that it has
    confidence: bool = False  # whether translations carry a confidence and the probability of each word
    alignment: bool = False  # whether translations tell which word of the source each of their words came from
    language: str = ""  # code of the source language, for the sentence splitter; "": the model's
    target: str = ""  # code of the target language, for a model of several; "": the model's default
    domain: str = ""  # for a model that was trained on domains

    def __post_init__(self) -> None:
        for field in fields(self):
            value, kind = getattr(self, field.name), type(field.default)
            if not isinstance(value, kind):
                demand = "True or False" if kind is bool else "a text"
                raise ConfigError(f"{field.name} = {shown(value)}: must be {demand}.")
        for key, value, known in (("split", self.split, SPLIT_KINDS), ("markup", self.markup, MARKUP_KINDS)):
            if value not in known:
                raise ConfigError(f"{key} = '{value}': must be {', '.join(known)}.{suggestion(value, known)}")

    @property
    def notation(self) -> Literal["html", "placeholders"]:
        """The notation by which stages before `protect` find what is no prose, and leave it alone."""
        return "html" if self.markup == "html" else "placeholders"

    def require_whole_lines(self) -> None:
        """Raises ConfigError if an option works on parts of lines: a line with a prefix or terms is one search."""
        given = {
            "markup = 'html'": self.markup == "html",
            "guard": self.guard,
            "split = 'always'": self.split == "always",
        }
        for name, is_given in given.items():
            if is_given:
                raise ConfigError(
                    f"{name} does not go with prefixes or required terms by line, which apply to whole lines."
                )


def text_options_of(given: TextOptions | None, target: str = "") -> TextOptions:
    """Returns the options of a call, None being all defaults; a `target` takes the place of theirs.

    Raises:
        TypeError: they are something else, such as a dictionary.
    """
    if given is not None and not isinstance(given, TextOptions):
        raise TypeError("Give text_options as transduce.translation.pipeline.TextOptions(guard=True), for example.")
    options = given or TextOptions()
    return replace(options, target=target) if target else options
