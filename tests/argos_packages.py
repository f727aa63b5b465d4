"""Packages of Argos Translate with random weights."""

import json
import zipfile
from pathlib import Path
from typing import Any

from ctranslate2_folders import opennmt_folder

METADATA = {
    "package_version": "1.9", "argos_version": "1.9.0", "from_code": "en", "from_name": "English", "to_code": "de",
    "to_name": "German",
}  # fmt: skip


def argos_folder(folder: Path, **changes: Any) -> Path:
    """Makes an unpacked package."""
    opennmt_folder(folder / "model", "int8", codes=("__de__", "__fr__"))
    (folder / "model" / "sentencepiece.model").rename(folder / "sentencepiece.model")
    (folder / "metadata.json").write_text(json.dumps(METADATA | changes))
    (folder / "README.md").write_text("# English → German\n\nCC0.\n")
    (folder / "stanza").mkdir()
    (folder / "stanza" / "resources.json").write_text("{}")
    return folder


def argos_archive(path: Path, folder: Path, top: str = "translate-en_de-1_9/") -> Path:
    """Packs a folder as Argos does: in a folder of its own, or without one."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in sorted(folder.rglob("*")):
            if each.is_file():
                archive.write(each, top + str(each.relative_to(folder)))
    return path
