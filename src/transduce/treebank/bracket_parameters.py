"""What counts when trees are compared: EVALB's settings, and its parameter files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.errors import ConfigError, suggestion


@dataclass(frozen=True, kw_only=True)
class BracketParameters:
    """Settings of the bracket scorer; each field is a keyword of EVALB's parameter files.

    Attributes:
        max_errors: Number of sentences that may be impossible to compare (MAX_ERROR).
        cutoff_length: Sentences up to this length, in words, get a second summary (CUTOFF_LEN).
        labelled: Whether a bracket must have the right label, or only span the right words (LABELED).
        deleted_labels: Constituents that do not count, and tags whose words are removed (DELETE_LABEL).
        deleted_for_length: Tags whose words do not count in a sentence's length (DELETE_LABEL_FOR_LENGTH).
        equal_labels: Pairs of labels or tags taken as the same (EQ_LABEL).
        equal_words: Pairs of words taken as the same (EQ_WORD).
        quote_labels: Tags that a quotation mark may have. A quotation mark that is deleted in only one of the trees,
            because the parser tagged it differently, is kept in both (QUOTE_LABEL).
    """

    max_errors: int = 10
    cutoff_length: int = 40
    labelled: bool = True
    deleted_labels: frozenset[str] = frozenset()
    deleted_for_length: frozenset[str] = frozenset()
    equal_labels: frozenset[frozenset[str]] = frozenset()
    equal_words: frozenset[frozenset[str]] = frozenset()
    quote_labels: frozenset[str] = frozenset()

    def same_label(self, label: str, other: str) -> bool:
        """Says whether two labels or tags count as equal. This is not transitive: only the given pairs do."""
        return label == other or frozenset((label, other)) in self.equal_labels

    def same_word(self, word: str, other: str) -> bool:
        """Says whether two words count as equal."""
        return word == other or frozenset((word, other)) in self.equal_words

    def is_deleted(self, label: str) -> bool:
        """Says whether a constituent of this label, its function tags removed, does not count."""
        return any(self.same_label(label, deleted) for deleted in self.deleted_labels)


# The field has used these values to compare parsers on the Penn Treebank since Collins (1997).
COLLINS = BracketParameters(
    deleted_labels=frozenset(("TOP", "-NONE-", ",", ":", "``", "''", ".")),
    deleted_for_length=frozenset(("-NONE-",)),
    equal_labels=frozenset((frozenset(("ADVP", "PRT")),)),
)


def read_bracket_parameters(path: str | Path) -> BracketParameters:
    """Reads an EVALB parameter file: a keyword and its value on each line; "#" begins a comment line.

    Other parameters keep the defaults of `BracketParameters`. DEBUG is ignored.

    Raises:
        ConfigError: The file cannot be read, or a line has an unknown keyword or value; names the line.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8. Is this an EVALB parameter file?") from None
    fields: dict[str, Any] = {}
    for number, line in enumerate(lines, start=1):
        if line.startswith("#") or not line.strip():
            continue
        where = f"{path}, line {number}"
        keyword, *values = line.split()
        if keyword not in _FIELDS:
            raise ConfigError(f"{where}: unknown keyword {keyword!r}.{suggestion(keyword, _FIELDS)}")
        if len(values) != (2 if keyword in _PAIRS else 1):
            wanted = "2 values" if keyword in _PAIRS else "one value"
            raise ConfigError(f"{where}: {keyword} takes {wanted}, and has {len(values)}.")
        field = _FIELDS[keyword]
        if keyword in _NUMBERS:
            if not values[0].isdecimal():
                raise ConfigError(f"{where}: {keyword} takes a whole number, not {values[0]!r}.")
            fields[field] = int(values[0])
        else:
            value = frozenset(values) if keyword in _PAIRS else values[0]
            fields[field] = fields.get(field, frozenset()) | {value}
    fields.pop(_FIELDS["DEBUG"], None)
    fields["labelled"] = bool(fields.get("labelled", True))
    return BracketParameters(**fields)


_FIELDS = {
    "DEBUG": "debug",
    "MAX_ERROR": "max_errors",
    "CUTOFF_LEN": "cutoff_length",
    "LABELED": "labelled",
    "DELETE_LABEL": "deleted_labels",
    "DELETE_LABEL_FOR_LENGTH": "deleted_for_length",
    "EQ_LABEL": "equal_labels",
    "EQ_WORD": "equal_words",
    "QUOTE_LABEL": "quote_labels",
}
_NUMBERS = ("DEBUG", "MAX_ERROR", "CUTOFF_LEN", "LABELED")
_PAIRS = ("EQ_LABEL", "EQ_WORD")
