"""Leakage: lines of a test set that are also in the training data, so that a model may have memorised them."""

from collections.abc import Iterable, Mapping, Sequence

from transduce.evaluation.texts import Text
from transduce.reporting.tables import counted

# Shorter lines, such as "Thank you.", occur everywhere. The data doctor (data/doctor.py) has the same limit.
MIN_LEAK_BYTES = 16


def leakage_warnings(texts: Sequence[Text], training: Mapping[str, Iterable[str]]) -> list[str]:
    """Returns a warning for each text with lines that are in the training data; outer white space is ignored.

    The training data is read once, line by line. Only `texts` are held in memory.

    Args:
        texts: the source and the references of a test set.
        training: lines by file name, of either language. Each tab-separated column of a line is compared.
    """
    tested = {line.strip() for text in texts for line in text.lines}
    found_at = {line: "" for line in tested if len(line.encode()) >= MIN_LEAK_BYTES}
    for name, lines in training.items():
        for number, line in enumerate(lines, start=1):
            for column in map(str.strip, line.split("\t")):
                if found_at.get(column) == "":
                    found_at[column] = f"line {number} of {name}"
    warnings = []
    for text in texts:
        leaked = [(number, line.strip()) for number, line in enumerate(text.lines, 1) if found_at.get(line.strip())]
        if leaked:
            first, line = leaked[0]
            warnings.append(
                f"{text.name}: the training data has {counted(len(leaked), 'line')} of it "
                f"({len(leaked) / len(text.lines):.1%}); line {first} is {found_at[line]}. The model may have "
                "memorised them, so the score says little about new text. Remove such lines from the test set, or "
                "from the training data (data.drop_leaked)."
            )
    return warnings
