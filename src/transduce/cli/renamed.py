"""Old names of options: they still work, with a warning, until the release after next.

An option has the same name in all commands: docs/decisions/0018-names-of-options.md.
"""

import sys
from collections.abc import Sequence

_LAST = "0.3"  # the release without the old names

_CERTIFICATE = {"--sentences": "--source", "--references": "--reference"}
_CORPUS = {"--data": "--corpus"}

# For each command, the old names with the new ones.
RENAMED: dict[str, dict[str, str]] = {
    "translate": {"--input": "--source", "--language": "--source-language"},
    "parse run": {"--input": "--source"},
    "parse score": {"--gold": "--reference", "--parsed": "--hypothesis"},
    "inspect": {"--input": "--source", "--target-file": "--target", "--data": "--arrays"},
    "verify": {"--sentences": "--source", "--count": "--sample", "--json": "--report"},
    "export": _CERTIFICATE,
    "import": _CERTIFICATE,
    "evaluate": {"--training": "--train", "--language": "--target-language", "--confidence": "--intervals"},
    "sweep": {"--language": "--target-language"},
    "shortlist": {"--test-target": "--test-reference"},
    "prepare": {"--workers": "--threads"},
    "paper table2": _CORPUS,
    "paper table3": _CORPUS,
    "paper table4": _CORPUS,
}


def with_new_names(command: str, arguments: Sequence[str]) -> list[str]:
    """Returns a command's arguments with the new names; warns once of each old one."""
    renamed = RENAMED.get(command, {})
    changed = list(arguments)
    for index, argument in enumerate(arguments):
        if argument == "--":
            break
        old, equals, value = argument.partition("=")
        if old in renamed:
            changed[index] = f"{renamed[old]}{equals}{value}"
            if index == next(first for first, each in enumerate(arguments) if each.partition("=")[0] == old):
                warn_of_old_name(f"{old} is now {renamed[old]}")
    return changed


def warn_of_old_name(message: str) -> None:
    """Warns on standard error of an old name."""
    print(f"transduce: warning: {message}; the old name will be removed in {_LAST}.", file=sys.stderr)
