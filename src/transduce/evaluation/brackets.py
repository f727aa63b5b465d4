"""How good parses are: labelled brackets compared as EVALB compares them (§6.3, Table 4: F1 on WSJ section 23).

A bracket is a constituent's label, without function tags, and the words it spans. Words with certain tags are taken out
beforehand, punctuation and traces above all, and constituents with certain labels do not count: `BracketParameters`.

What comes out is what EVALB comes to, but for this: unequal numbers of lines are an error, and no note; an outer
bracket without a label is called TOP; what is no tree, such as `(NN)`, makes its sentence impossible to compare, where
EVALB guesses; and a ratio of nothing to nothing is 0.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from typing import Any, Literal

from transduce.errors import DataError, EvaluationError
from transduce.evaluation.bracket_parameters import COLLINS, BracketParameters
from transduce.parsing.normalise import strip_functions
from transduce.parsing.trees import Leaf, Node, parse_line

_Span = tuple[str, int, int]  # label, first word, word after the last


@dataclass(frozen=True, kw_only=True)
class SentenceBrackets:
    """What was counted in one sentence; nothing, unless its status is "valid".

    Attributes:
        number: The sentence's line, from 1.
        length: Words of the gold tree, without traces.
        status: "error" if the trees are not over the same words or one is malformed, "skipped" if there is no parse.
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


@dataclass(frozen=True, kw_only=True)
class BracketSummary:
    """Sums over sentences. Rates are percentages of the brackets, words or valid sentences of all of them together."""

    num_sentences: int
    num_errors: int
    num_skipped: int
    matched: int
    gold: int
    parsed: int
    crossing: int
    words: int
    correct_tags: int
    num_complete: int
    num_no_crossing: int
    num_few_crossing: int  # two or less

    @property
    def num_valid(self) -> int:
        """Sentences that were compared."""
        return self.num_sentences - self.num_errors - self.num_skipped

    @property
    def recall(self) -> float:
        """Gold brackets that the parses have."""
        return percentage(self.matched, self.gold)

    @property
    def precision(self) -> float:
        """Brackets of the parses that the gold trees have."""
        return percentage(self.matched, self.parsed)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return percentage(2 * self.matched, self.gold + self.parsed)

    @property
    def complete_match(self) -> float:
        """Sentences all of whose brackets match."""
        return percentage(self.num_complete, self.num_valid)

    @property
    def average_crossing(self) -> float:
        """Crossing brackets per sentence; not a percentage."""
        return self.crossing / self.num_valid if self.num_valid else 0.0

    @property
    def no_crossing(self) -> float:
        """Sentences without a crossing bracket."""
        return percentage(self.num_no_crossing, self.num_valid)

    @property
    def few_crossing(self) -> float:
        """Sentences with two crossing brackets or less."""
        return percentage(self.num_few_crossing, self.num_valid)

    @property
    def tagging_accuracy(self) -> float:
        """Words with the right tag."""
        return percentage(self.correct_tags, self.words)

    def to_dict(self) -> dict[str, Any]:
        """Returns counts and rates for JSON."""
        rates = ("recall", "precision", "f1", "complete_match", "average_crossing", "no_crossing", "few_crossing")
        derived = {name: getattr(self, name) for name in ("num_valid", *rates, "tagging_accuracy")}
        return asdict(self) | derived


@dataclass(frozen=True)
class BracketEvaluation:
    """The scores of a file of parses, sentence by sentence."""

    sentences: tuple[SentenceBrackets, ...]
    parameters: BracketParameters

    def summary(self, max_length: int | None = None) -> BracketSummary:
        """Returns the sums over all sentences, or over those of at most `max_length` words."""
        chosen = [each for each in self.sentences if max_length is None or each.length <= max_length]
        valid = [each for each in chosen if each.status == "valid"]
        return BracketSummary(
            num_sentences=len(chosen),
            num_errors=sum(each.status == "error" for each in chosen),
            num_skipped=sum(each.status == "skipped" for each in chosen),
            matched=sum(each.matched for each in valid),
            gold=sum(each.gold for each in valid),
            parsed=sum(each.parsed for each in valid),
            crossing=sum(each.crossing for each in valid),
            words=sum(each.words for each in valid),
            correct_tags=sum(each.correct_tags for each in valid),
            num_complete=sum(each.is_complete for each in valid),
            num_no_crossing=sum(each.crossing == 0 for each in valid),
            num_few_crossing=sum(each.crossing <= 2 for each in valid),
        )

    def to_dict(self, *, per_sentence: bool = False) -> dict[str, Any]:
        """Returns the evaluation for JSON."""
        cutoff = self.parameters.cutoff_length
        result: dict[str, Any] = {
            "all": self.summary().to_dict(),
            "cutoff_length": cutoff,
            "up_to_cutoff": self.summary(cutoff).to_dict(),
            "errors": {str(each.number): each.message for each in self.sentences if each.status == "error"},
        }
        if per_sentence:
            result["sentences"] = [asdict(each) for each in self.sentences]
        return result


def score_brackets(
    gold: Sequence[str],
    parsed: Sequence[str],
    parameters: BracketParameters = COLLINS,
    *,
    names: tuple[str, str] = ("the gold file", "the parsed file"),
    gold_punctuation: bool = False,
) -> BracketEvaluation:
    """Compares parses with gold trees, sentence by sentence.

    Args:
        gold: One tree a line, in brackets.
        parsed: The parse of the same sentence in the same line; an empty line where there is none.
        parameters: What counts.
        names: What errors call the two, such as their files' names.
        gold_punctuation: Whether the gold tree says which words do not count, where both trees have the same words.
            EVALB asks each tree's own tags, and cannot compare a sentence in which the parser mistook a comma's tag.

    Raises:
        EvaluationError: Line counts differ, there are no lines, or too many sentences cannot be compared (like EVALB,
            this lets one more than MAX_ERROR through).
    """
    if len(gold) != len(parsed):
        raise EvaluationError(
            f"{names[0]} has {len(gold)} lines and {names[1]} has {len(parsed)}: line n of one must be the same "
            "sentence as line n of the other; a sentence without a parse is an empty line."
        )
    if not gold:
        raise EvaluationError(f"{names[0]} has no lines: there is nothing to score.")
    sentences: list[SentenceBrackets] = []
    errors: list[SentenceBrackets] = []
    for number, lines in enumerate(zip(gold, parsed, strict=True), start=1):
        sentence = _score_sentence(number, lines, names, parameters, gold_punctuation)
        sentences.append(sentence)
        if sentence.status == "error":
            errors.append(sentence)
        if len(errors) > parameters.max_errors + 1:
            raise EvaluationError(
                f"more than {parameters.max_errors} of the first {number} sentences cannot be compared; the first is "
                f"line {errors[0].number}: {errors[0].message} Is it one tree a line on both sides, of the same "
                "tokens? Where tags of punctuation differ, --gold-punctuation helps; MAX_ERROR in a parameter file "
                "lets more sentences through."
            )
    return BracketEvaluation(tuple(sentences), parameters)


def percentage(part: float, whole: float) -> float:
    """Returns part / whole × 100, and 0 of nothing."""
    return 100 * part / whole if whole else 0.0


@dataclass(slots=True)
class _Sentence:
    """One side: its leaves, which of them count, and its brackets, as (label, first leaf, leaf after the last)."""

    parameters: BracketParameters
    leaves: list[Leaf] = field(default_factory=list)
    kept: list[bool] = field(default_factory=list)
    brackets: list[_Span] = field(default_factory=list)

    def add(self, node: Node) -> None:
        if isinstance(node, Leaf):
            self.leaves.append(node)
            self.kept.append(node.tag not in self.parameters.deleted_labels)
            return
        first = len(self.leaves)
        self.brackets.append((strip_functions(node.label), first, first + len(node.leaves())))
        for child in node.children:
            self.add(child)

    def words(self) -> list[Leaf]:
        """Returns the leaves that count."""
        return [leaf for leaf, kept in zip(self.leaves, self.kept, strict=True) if kept]

    def spans(self) -> list[_Span]:
        """Returns the brackets that count, measured in words that count."""
        before = [0, *accumulate(self.kept)]  # words that count before each leaf
        spans = [(label, before[first], before[end]) for label, first, end in self.brackets]
        return [span for span in spans if span[1] < span[2] and not self.parameters.is_deleted(span[0])]

    def length(self) -> int:
        return sum(leaf.tag not in self.parameters.deleted_for_length for leaf in self.leaves)

    def quotes(self) -> list[int]:
        """Returns the leaves that are quotation marks, deleted or not."""
        labels = self.parameters.quote_labels
        return [place for place, leaf in enumerate(self.leaves) if leaf.tag in labels and leaf.word in _QUOTES]


_QUOTES = ("'", '"', "/")  # a slash too: EVALB's list


def _score_sentence(
    number: int,
    lines: tuple[str, str],
    names: tuple[str, str],
    parameters: BracketParameters,
    gold_punctuation: bool,
) -> SentenceBrackets:
    sides = (_Sentence(parameters), _Sentence(parameters))
    gold, parsed = sides
    try:
        for side, line, name in zip(sides, lines, names, strict=True):
            for node in parse_line(line, name, number):
                side.add(node)
    except DataError as error:
        return SentenceBrackets(number=number, length=gold.length(), status="error", message=str(error))
    length = gold.length()
    if gold_punctuation and [leaf.word for leaf in gold.leaves] == [leaf.word for leaf in parsed.leaves]:
        parsed.kept = list(gold.kept)
    if not parsed.words():
        return SentenceBrackets(number=number, length=length, status="skipped")
    if len(gold.words()) != len(parsed.words()):
        _restore_quotes(gold, parsed)
    if message := _difference(gold.words(), parsed.words(), parameters):
        return SentenceBrackets(number=number, length=length, status="error", message=message)
    gold_spans, parsed_spans = gold.spans(), parsed.spans()
    pairs = zip(gold.words(), parsed.words(), strict=True)
    return SentenceBrackets(
        number=number,
        length=length,
        matched=_count_matched(gold_spans, parsed_spans, parameters),
        gold=len(gold_spans),
        parsed=len(parsed_spans),
        crossing=sum(any(_cross(span, other) for other in gold_spans) for span in parsed_spans),
        words=len(gold.words()),
        correct_tags=sum(parameters.same_label(right.tag, given.tag) for right, given in pairs),
    )


def _difference(gold: list[Leaf], parsed: list[Leaf], parameters: BracketParameters) -> str:
    """Returns how the words of the two sides differ, or nothing."""
    if len(gold) != len(parsed):
        return f"the gold tree has {len(gold)} words that count and the parse has {len(parsed)}."
    for position, (right, given) in enumerate(zip(gold, parsed, strict=True), start=1):
        if not parameters.same_word(right.word, given.word):
            return f"word {position} is {right.word!r} in the gold tree and {given.word!r} in the parse."
    return ""


def _restore_quotes(gold: _Sentence, parsed: _Sentence) -> None:
    """Keeps a quotation mark that one side deletes and the other, for its tag, does not."""
    for theirs in parsed.quotes():
        for ours in gold.quotes():
            same_place = sum(gold.kept[:ours]) == sum(parsed.kept[:theirs])
            if same_place and gold.kept[ours] != parsed.kept[theirs]:
                gold.kept[ours] = parsed.kept[theirs] = True


def _count_matched(gold: list[_Span], parsed: list[_Span], parameters: BracketParameters) -> int:
    """Counts the gold brackets that can each be given a parsed one of its own."""
    labels_at: dict[tuple[int, int], list[str]] = {}
    for label, start, end in parsed:
        labels_at.setdefault((start, end), []).append(label)
    matched = 0
    for label, start, end in gold:
        labels = labels_at.get((start, end), [])
        for other in labels:
            if not parameters.labelled or parameters.same_label(label, other):
                labels.remove(other)
                matched += 1
                break
    return matched


def _cross(span: _Span, other: _Span) -> bool:
    _, start, end = span
    _, other_start, other_end = other
    return start < other_start < end < other_end or other_start < start < other_end < end
