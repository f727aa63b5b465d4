"""A folder with a corpus that was made: a pair of aligned files, what was left out and why, and a manifest.

    source.txt                the source side, line by line
    target.txt                the target side
    left-out.tsv              line number of the input, reason, text, translation
    translations.jsonl.zst    a record for each line of the input, from which the files above are made
    manifest.json             what made it: command, model, options, counts, checksums

The manifest is written last and removed first: a folder without one is not complete.
"""

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from transduce import files
from transduce.__about__ import __version__
from transduce.config.checked_json import format_problem
from transduce.data.readers import read_lines
from transduce.errors import DataError
from transduce.files import read_json_object, remove_leftovers, sha256, write_json

SOURCE, TARGET, LEFT_OUT = "source.txt", "target.txt", "left-out.tsv"
RECORDS, MANIFEST = "translations.jsonl.zst", "manifest.json"
_FORMAT = 1


@dataclass(frozen=True)
class MadeCorpus:
    """A complete folder."""

    folder: Path
    num_lines: int  # of the input
    num_pairs: int
    left_out: Mapping[str, int]  # lines by reason
    manifest: Mapping[str, Any]
    num_resumed: int = 0  # lines that an earlier run had translated
    was_finished: bool = False  # whether an earlier run had finished the same job

    @property
    def files(self) -> tuple[Path, Path]:
        """The source side and the target side."""
        return self.folder / SOURCE, self.folder / TARGET

    def recipe_lines(self, tag: str = "") -> str:
        """Returns the lines of a recipe that name the pair as a corpus, with a tag where one is given.

        Where one of the model's languages or domains was requested, they name it too.
        """
        name = "-".join(re.findall(r"[^\s,=]+", self.folder.resolve().name))
        values = {"name": name, "files": [str(path) for path in self.files]} | ({"tag": tag} if tag else {})
        job = self.manifest["job"]
        if written := job.get("target"):
            side = "source" if self.manifest["command"] == "back-translate" else "target"
            values[f"{side}_language"] = written
        if domain := job.get("domain"):
            values["domain"] = domain
        lines = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items())
        return "\n".join(["[[data.corpora]]", *lines])


def require_own(folder: Path, kind: str, *, ours: bool) -> None:
    """Checks that an output is new, or is a folder of this kind, which `ours` says.

    Raises:
        DataError: it is something else.
    """
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder}: is a file; name a folder to write to.")
    if not ours:
        files.require_free(folder, overwrite=False, foreign=f"it is not {kind}")


def prepare_folder(folder: Path, *, overwrite: bool) -> None:
    """Makes the folder, and removes what killed processes left in it.

    Raises:
        DataError: there is something else.
    """
    ours = any((folder / name).exists() for name in (RECORDS, f"{RECORDS}.partial", MANIFEST))
    require_own(folder, "a folder of this command", ours=ours)
    folder.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder, SOURCE, TARGET, LEFT_OUT, MANIFEST)
    if overwrite:
        (folder / MANIFEST).unlink(missing_ok=True)


def complete(folder: Path) -> dict[str, Any] | None:
    """Returns the manifest of a folder whose files are those it names, or None."""
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        manifest = read_json_object(path)
        whole = not format_problem(manifest, _FORMAT) and all(
            (folder / name).is_file() and sha256(folder / name) == digest for name, digest in manifest["files"].items()
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # damaged: it is written again from the records
    return manifest if whole else None


def write_corpus(folder: Path, made_by: Mapping[str, Any], *, text_is_target: bool) -> dict[str, Any]:
    """Writes the pair of files, what was left out and the manifest from the records of a folder.

    Args:
        folder: has the records of all lines.
        made_by: the first part of the manifest: command, input, model, options.
        text_is_target: whether the text is the target side, and its translation the source side.
    """
    (folder / MANIFEST).unlink(missing_ok=True)
    reasons: Counter[str] = Counter()
    num_lines = 0
    with contextlib.ExitStack() as stack:
        source, target, left_out = (stack.enter_context(_opened(folder / name)) for name in (SOURCE, TARGET, LEFT_OUT))
        left_out.write("line\treason\ttext\ttranslation\n")
        for num_lines, row in enumerate(read_lines(folder / RECORDS), start=1):
            record = json.loads(row)
            text, translation = record["text"], record["translation"]
            if reason := record.get("left_out"):
                reasons[reason] += 1
                columns = [str(num_lines), reason, *(side.replace("\t", " ") for side in (text, translation))]
                left_out.write("\t".join(columns) + "\n")
                continue
            sides = (translation, text) if text_is_target else (text, translation)
            for file, side in zip((source, target), sides, strict=True):
                file.write(side + "\n")
    counts = {"lines": num_lines, "pairs": num_lines - reasons.total(), "left_out": dict(sorted(reasons.items()))}
    digests = {name: sha256(folder / name) for name in (SOURCE, TARGET, LEFT_OUT)}
    manifest = {"format": _FORMAT, "transduce": __version__, **made_by, "counts": counts, "files": digests}
    write_json(folder / MANIFEST, manifest)
    return manifest


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    with files.atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        yield file
