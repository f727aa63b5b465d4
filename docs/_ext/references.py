"""Writes the references into their pages, for those who read them outside the site: `make reference`.

    python docs/_ext/references.py             writes what is made from the code into the pages
    python docs/_ext/references.py --check     writes nothing; 1 if a page is not up to date

What is made stands between two comments, which GitHub does not show:

    <!-- site: configuration -->        tables of all keys
    <!-- site: commands -->             the command line
    <!-- site: python -->               the Python interface
    <!-- site: http -->                 the HTTP interface
    <!-- end -->

The site makes it again, with links and types that Markdown does not have (`generated`).
"""

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

import command_reference
import configuration_reference
import http_reference
import python_reference

SITE = {
    "commands": command_reference.reference,
    "configuration": configuration_reference.reference,
    "http": http_reference.reference,
    "python": python_reference.reference,
}
PAGES = ("guides/configuration.md", "reference/command-line.md", "reference/http.md", "reference/python.md")
_DOCS = Path(__file__).resolve().parents[1]
_MARKED = re.compile(rf"^(<!-- site: ({'|'.join(SITE)}) -->\n)(.*?)^(<!-- end -->)$", re.MULTILINE | re.DOTALL)


def made_for_site(text: str) -> str:
    """Returns a page with what only the site can show."""
    return _MARKED.sub(lambda match: SITE[match[2]]() + "\n", text)


def written(text: str) -> str:
    """Returns a page with the same in plain Markdown."""
    return _MARKED.sub(lambda match: f"{match[1]}\n{_plain(match[2])}\n\n{match[4]}", text)


def _plain(kind: str) -> str:
    makers: dict[str, Callable[[], str]] = SITE | {"python": python_reference.plain_reference}
    return makers[kind]().replace("{.entries}\n", "")


def main(arguments: list[str] | None = None) -> int:
    """Writes or checks the pages; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; the exit code is 1 if a page is old")
    check = parser.parse_args(arguments).check
    old = 0
    for name in PAGES:
        path = _DOCS / name
        text = path.read_text(encoding="utf-8")
        if (new := written(text)) == text:
            continue
        old += 1
        print(f"docs/{name}: {'not up to date: make reference' if check else 'written'}", file=sys.stderr)
        if not check:
            path.write_text(new, encoding="utf-8")
    return int(check and old > 0)


if __name__ == "__main__":
    sys.exit(main())
