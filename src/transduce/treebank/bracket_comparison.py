"""Compares two trees of one sentence: the words and brackets that count, and the brackets that both have."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Literal

from transduce.errors import DataError, EvaluationError
from transduce.reporting.tables import counted
from transduce.treebank.bracket_parameters import BracketParameters
from transduce.treebank.normalise import strip_functions
from transduce.treebank.trees import Leaf, Node, parse_line


@dataclass(frozen=True, slots=True, eq=False)
class Bracket:
    """A constituent that counts. Two are never equal, since a label may span the same words twice.

    Attributes:
        label: Its label, without function tags.
        start: Its first word, among those that count, from 0.
        end: The word after its last.
        parent: The innermost constituent around it that counts.
    """

    label: str
    start: int
    end: int
    parent: "Bracket | None"


@dataclass(slots=True)
class BracketedSentence:
    """The gold tree or the parse.

    Attributes:
        nodes: Usually one tree; but a line may also have several, leaves alone, or nothing.
        parameters: What counts.
        leaves: The leaves from left to right.
        kept: Which of them count.
    """

    nodes: Sequence[Node]
    parameters: BracketParameters
    leaves: list[Leaf] = field(init=False)
    kept: list[bool] = field(init=False)

    def __post_init__(self) -> None:
        self.leaves = [leaf for node in self.nodes for leaf in ([node] if isinstance(node, Leaf) else node.leaves())]
        self.kept = [leaf.tag not in self.parameters.deleted_labels for leaf in self.leaves]

    def words(self) -> list[Leaf]:
        """Returns the leaves that count."""
        return [leaf for leaf, kept in zip(self.leaves, self.kept, strict=True) if kept]

    def brackets(self) -> list[Bracket]:
        """Returns the constituents that count, measured in words that count, parents first."""
        before = [0, *accumulate(self.kept)]  # words that count before each leaf
        brackets: list[Bracket] = []

        def visit(nodes: Sequence[Node], first: int, parent: Bracket | None) -> None:
            for node in nodes:
                end = first + 1
                if not isinstance(node, Leaf):
                    end, label, around = first + len(node.leaves()), strip_functions(node.label), parent
                    if before[first] < before[end] and not self.parameters.is_deleted(label):
                        around = Bracket(label, before[first], before[end], parent)
                        brackets.append(around)
                    visit(node.children, first, around)
                first = end

        visit(self.nodes, 0, None)
        return brackets

    def length(self) -> int:
        """Returns the length of the sentence in words: traces do not count, punctuation does."""
        return sum(leaf.tag not in self.parameters.deleted_for_length for leaf in self.leaves)

    def quotes(self) -> list[int]:
        """Returns the leaves that are quotation marks, deleted or not."""
        labels = self.parameters.quote_labels
        return [index for index, leaf in enumerate(self.leaves) if leaf.tag in labels and leaf.word in _QUOTES]


_QUOTES = ("'", '"', "/")  # a slash too: EVALB's list


@dataclass(frozen=True, kw_only=True)
class SentenceBrackets:
    """The counts of one sentence; all 0 unless its status is "valid".

    Attributes:
        number: The sentence's line, from 1.
        length: Words of the gold tree, without traces.
        status: "error" if the words of the trees differ or one is malformed, "skipped" if there is no parse.
        matched: Brackets that both trees have.
        gold: Brackets of the gold tree.
        parsed: Brackets of the parse.
        crossing: Brackets of the parse that overlap one of the gold tree without one being inside the other.
        words: Words compared.
        correct_tags: Words that have the right tag.
        message: What is wrong, if the status is "error".
    """

    number: int
    length: int
    status: Literal["valid", "error", "skipped"] = "valid"
    matched: int = 0
    gold: int = 0
    parsed: int = 0
    crossing: int = 0
    words: int = 0
    correct_tags: int = 0
    message: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether all brackets match."""
        return self.status == "valid" and self.matched == self.gold == self.parsed


@dataclass(frozen=True)
class Comparison:
    """The words and brackets of two trees of one sentence; none unless its status is "valid".

    Attributes:
        counts: How many there are.
        gold_words: The words that count, with the tags of the gold tree.
        parsed_words: The same words with the tags of the parse.
        gold: The gold tree's brackets, parents first.
        parsed: The parse's.
        matched: Gold brackets, each with the one of the parse that it was matched with.
    """

    counts: SentenceBrackets
    gold_words: Sequence[Leaf] = ()
    parsed_words: Sequence[Leaf] = ()
    gold: Sequence[Bracket] = ()
    parsed: Sequence[Bracket] = ()
    matched: Sequence[tuple[Bracket, Bracket]] = ()


def compare_sentences(
    gold: Sequence[str],
    parsed: Sequence[str],
    parameters: BracketParameters,
    *,
    names: tuple[str, str],
    gold_punctuation: bool,
    max_words: int | None,
) -> Iterator[Comparison]:
    """Yields a comparison for each sentence, or for each of at most `max_words` words.

    Raises:
        EvaluationError: Line counts differ, nothing is left to compare, or too many sentences cannot be compared.
    """
    if len(gold) != len(parsed):
        raise EvaluationError(
            f"{names[0]} has {counted(len(gold), 'line')} and {names[1]} has {len(parsed):,}: line n of one must be "
            "the same sentence as line n of the other; a sentence without a parse is an empty line."
        )
    if not gold:
        raise EvaluationError(f"{names[0]} has no lines: there is nothing to score.")
    errors: list[SentenceBrackets] = []
    is_empty = True
    for number, lines in enumerate(zip(gold, parsed, strict=True), start=1):
        comparison = _compare(number, lines, names, parameters, gold_punctuation)
        if max_words is not None and comparison.counts.length > max_words:
            continue
        is_empty = False
        if comparison.counts.status == "error":
            errors.append(comparison.counts)
        if len(errors) > parameters.max_errors + 1:  # as EVALB, which compares before it counts
            raise EvaluationError(
                f"more than {parameters.max_errors} of the first {number} sentences cannot be compared; the first is "
                f"line {errors[0].number}: {errors[0].message} Do both files have one tree a line, of the same "
                "tokens? If only tags of punctuation differ, use --gold-punctuation. --max-errors, or MAX_ERROR in a "
                "parameter file, allows more of them. They are left out, which may raise the score."
            )
        yield comparison
    if is_empty:
        raise EvaluationError(f"{names[0]} has no sentence of {max_words} words or less: there is nothing to score.")


def _compare(
    number: int, lines: tuple[str, str], names: tuple[str, str], parameters: BracketParameters, gold_punctuation: bool
) -> Comparison:
    gold = BracketedSentence([], parameters)
    try:
        gold = BracketedSentence(parse_line(lines[0], names[0], number), parameters)
        parsed = BracketedSentence(parse_line(lines[1], names[1], number), parameters)
    except DataError as error:
        return Comparison(SentenceBrackets(number=number, length=gold.length(), status="error", message=str(error)))
    counts = SentenceBrackets(number=number, length=gold.length())
    if gold_punctuation and [leaf.word for leaf in gold.leaves] == [leaf.word for leaf in parsed.leaves]:
        parsed.kept = list(gold.kept)
    if not parsed.words():
        return Comparison(replace(counts, status="skipped"))
    if len(gold.words()) != len(parsed.words()):
        _restore_quotes(gold, parsed)
    gold_words, parsed_words = gold.words(), parsed.words()
    if message := _difference(gold_words, parsed_words, parameters):
        return Comparison(replace(counts, status="error", message=message))
    gold_brackets, parsed_brackets = gold.brackets(), parsed.brackets()
    matched = _match(gold_brackets, parsed_brackets, parameters)
    pairs = zip(gold_words, parsed_words, strict=True)
    counts = replace(
        counts,
        matched=len(matched),
        gold=len(gold_brackets),
        parsed=len(parsed_brackets),
        crossing=sum(any(_cross(bracket, other) for other in gold_brackets) for bracket in parsed_brackets),
        words=len(gold_words),
        correct_tags=sum(parameters.same_label(right.tag, given.tag) for right, given in pairs),
    )
    return Comparison(counts, gold_words, parsed_words, gold_brackets, parsed_brackets, matched)


def _difference(gold: list[Leaf], parsed: list[Leaf], parameters: BracketParameters) -> str:
    """Returns how the words of the two trees differ; empty if they do not."""
    if len(gold) != len(parsed):
        return f"the gold tree has {counted(len(gold), 'word')} that count and the parse has {len(parsed)}."
    for position, (right, given) in enumerate(zip(gold, parsed, strict=True), start=1):
        if not parameters.same_word(right.word, given.word):
            return f"word {position} is {right.word!r} in the gold tree and {given.word!r} in the parse."
    return ""


def _restore_quotes(gold: BracketedSentence, parsed: BracketedSentence) -> None:
    """Keeps a quotation mark that one tree deletes and the other, because of its tag, does not."""
    for theirs in parsed.quotes():
        for ours in gold.quotes():
            same_place = sum(gold.kept[:ours]) == sum(parsed.kept[:theirs])
            if same_place and gold.kept[ours] != parsed.kept[theirs]:
                gold.kept[ours] = parsed.kept[theirs] = True


def _match(gold: list[Bracket], parsed: list[Bracket], parameters: BracketParameters) -> list[tuple[Bracket, Bracket]]:
    """Returns pairs of a gold bracket and the parsed bracket that it is matched with, each used once."""
    parsed_at: dict[tuple[int, int], list[Bracket]] = {}
    for bracket in parsed:
        parsed_at.setdefault((bracket.start, bracket.end), []).append(bracket)
    matched = []
    for bracket in gold:
        free = parsed_at.get((bracket.start, bracket.end), [])
        for other in free:
            if not parameters.labelled or parameters.same_label(bracket.label, other.label):
                free.remove(other)
                matched.append((bracket, other))
                break
    return matched


def _cross(bracket: Bracket, other: Bracket) -> bool:
    return (
        bracket.start < other.start < bracket.end < other.end or other.start < bracket.start < other.end < bracket.end
    )
