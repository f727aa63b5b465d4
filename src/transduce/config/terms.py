"""The terms of what a model was made from: licence files and the original model card, which travel with it."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from transduce import files

ORIGINAL_CARD = "ORIGINAL_README.md"
_LICENCES = re.compile(r"(licen[cs]e|copying|notice|copyright|model[ _-]?card)([._-].*)?", re.IGNORECASE)
_FIELD = re.compile(r"^licen[cs]e:([^\n]*)$", re.IGNORECASE | re.MULTILINE)
_MOST_BYTES = 1 << 20

Terms = Mapping[str, bytes]  # the contents of files by their names in a model folder


def terms_of(folder: Path, *, card: str = ORIGINAL_CARD) -> Terms:
    """Returns the licence files in a folder, and its `card`, which becomes the original model card; none of 1 MB."""
    if not folder.is_dir():
        return {}
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()}
    return terms_among(sizes, lambda name: (folder / name).read_bytes(), card=card)


def terms_among(sizes: Mapping[str, int], read: Callable[[str], bytes], *, card: str) -> Terms:
    """Returns what `terms_of` does, of files with these names and sizes in bytes."""
    named = [
        name for name, size in sizes.items() if size <= _MOST_BYTES and (name == card or _LICENCES.fullmatch(name))
    ]
    return {ORIGINAL_CARD if name == card else name: read(name) for name in named}


def licence_in(terms: Terms) -> str:
    """Returns the licence that the original card declares in its first lines, as the hub has it; "" for none."""
    text = terms.get(ORIGINAL_CARD, b"").decode("utf-8", "replace")
    declared = text.partition("\n---")[0] if text.startswith("---") else ""
    match = _FIELD.search(declared)
    return match[1].strip().strip("\"'") if match else ""


def write_terms(terms: Terms, folder: Path) -> None:
    """Writes the files into a folder, which is made where it is missing; nothing where there are none."""
    for name, data in terms.items():
        folder.mkdir(parents=True, exist_ok=True)
        with files.atomic_path(folder / name) as path:
            path.write_bytes(data)
