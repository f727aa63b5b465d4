"""Prints how many lines of code the package has, and which words new lines should not have: advice, never an error.

    python tests/house.py                since the last commit
    python tests/house.py --since HEAD~5

A line of code is one that has a token of Python which is no comment and no docstring.
"""

import argparse
import ast
import io
import re
import subprocess
import tokenize
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parents[1]
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_WORDS = re.compile(
    r"\b(asked|tells?|told|stands?|standing|beside|behind|mends?|mended|whatever|each its own|require_apart"
    r"|give[ns]? up|places_\w+|sitting)\b",
    re.IGNORECASE,
)


def lines_of_code(text: str) -> int:
    """Returns the number of lines of code of a module."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                found.difference_update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(found)


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=_REPOSITORY, capture_output=True, text=True, check=True)
    return done.stdout


def _lines(name: str) -> int:
    path = _REPOSITORY / name
    return lines_of_code(path.read_text(encoding="utf-8")) if path.exists() else 0


def added_since(commit: str) -> int:
    """Returns by how many lines of code the package has grown since a commit."""
    changed = _git("diff", "--name-only", "--no-renames", commit, "--", "src/*.py").splitlines()
    before = set(_git("ls-tree", "-r", "--name-only", commit, "src").splitlines())
    new = _git("ls-files", "--others", "--exclude-standard", "src/*.py").splitlines()
    return sum(_lines(name) for name in [*changed, *new]) - sum(
        lines_of_code(_git("show", f"{commit}:{name}")) for name in changed if name in before
    )


def words_in(diff: str) -> list[tuple[str, str, str]]:
    """Returns file, word and line of each added line that has a word of the list."""
    found, file = [], ""
    for line in diff.splitlines():
        if line.startswith("+++ "):
            file = line[4:].removeprefix("b/")
        elif line.startswith("+"):
            found += [(file, match[0], line[1:].strip()) for match in _WORDS.finditer(line)]
    return found


def main() -> None:
    """Prints the count and the advice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--since", default="HEAD", metavar="COMMIT")
    since = parser.parse_args().since
    now = sum(lines_of_code(path.read_text(encoding="utf-8")) for path in (_REPOSITORY / "src").rglob("*.py"))
    try:
        added, diff = added_since(since), _git("diff", "-U0", since, "--", "src", "docs", "*.md", "benchmarks/*.py")
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive
        print(f"{now:,} lines of code")
        return
    print(f"{now:,} lines of code, {added:+,} since {since}")
    for file, word, line in words_in(diff):
        print(f'advice: {file}: a plainer word than "{word}"? {line[:100]}')


if __name__ == "__main__":
    main()
