"""JSON files that notice when one of their values was changed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from transduce.config.checked_json import format_problem, read_checked, read_or_empty, without_checksum, write_checked
from transduce.errors import BundleError, TrainingError
from transduce.training.cost import CostAccount
from transduce.training.micro_batches import read_splits
from transduce.training.progress import CheckpointKind, Progress, checkpoint_kind, read_progress, write_state
from transduce.training.spikes import RecentSteps

PROGRESS = Progress(
    *(7, 1, 2, 900, 12.5, 1),
    best_score=11.25,
    best_by="bleu",
    best_step=5,
    validations={"bleu": 11.25, "step": 5.0},
    cost=CostAccount(),
    recent=RecentSteps([4.5, 4.25], 1),
)
SHA256 = {"model.safetensors": "0" * 64, "optimizer.safetensors": "1" * 64}
SPLITS = [
    {
        "from_step": 1,
        "setting": "auto",
        "target_tokens": [1250, 625],
        "activation_checkpointing": False,
        "peak_bytes": 12345,
        "reason": "tried",
    }
]


def with_one_byte_changed(path: Path) -> Iterator[int]:
    """Writes the file again and again, each time with another byte changed: by one bit, or to another letter case."""
    content = path.read_bytes()
    for place in range(len(content)):
        for bit in (1, 32):
            path.write_bytes(content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :])
            yield place
    path.write_bytes(content)


def test_no_byte_of_a_state_changes_what_a_checkpoint_is(tmp_path: Path) -> None:
    """A checkpoint that was only to be resumed from would be averaged, say."""
    write_state(tmp_path, PROGRESS, CheckpointKind.RESUME_ONLY, SHA256)
    assert read_progress(tmp_path) == PROGRESS
    assert checkpoint_kind(tmp_path) == CheckpointKind.RESUME_ONLY
    refused = 0
    for place in with_one_byte_changed(tmp_path / "state.json"):
        try:
            assert read_progress(tmp_path) == PROGRESS, place
            assert checkpoint_kind(tmp_path) == CheckpointKind.RESUME_ONLY, place
        except BundleError as error:
            assert str(error).startswith(f"{tmp_path}: incomplete or damaged checkpoint: ")  # noqa: PT017
            refused += 1
    assert refused > 1000


@pytest.mark.parametrize("name", ["checksum", "format", "purpose", "progress", "recent", "sha256"])
def test_a_state_without_one_of_its_fields_is_damaged(tmp_path: Path, name: str) -> None:
    write_state(tmp_path, PROGRESS, CheckpointKind.FINAL, SHA256)
    values = json.loads((tmp_path / "state.json").read_text())
    del values[name]
    (tmp_path / "state.json").write_text(json.dumps(values))
    with pytest.raises(BundleError, match="damaged checkpoint"):
        read_progress(tmp_path)


@pytest.mark.parametrize("others", [{}, {"purpose": "interim", "recent": {"losses": [1.5], "skipped": 0}}])
def test_a_state_of_an_earlier_version_is_read(tmp_path: Path, others: dict[str, Any]) -> None:
    """0.1.0 wrote no purpose; versions after it a purpose, but a checksum of the progress only."""
    progress = {"step": 3, "epoch": 0, "batch": 3, "seconds": 1.5}
    state = {"format": 1, "progress": progress, "sha256": SHA256, **others}
    (tmp_path / "state.json").write_text(json.dumps(state))
    assert read_progress(tmp_path).step == 3
    assert checkpoint_kind(tmp_path) == others.get("purpose", "scheduled")
    (tmp_path / "state.json").write_text(json.dumps(state | {"progress_sha256": "0" * 64}))
    with pytest.raises(BundleError, match=r"the progress in state\.json was changed"):
        read_progress(tmp_path)


def test_no_byte_of_the_splits_changes_what_they_are(tmp_path: Path) -> None:
    """A resumed training would split its batches in another way, and round in another way."""
    path = tmp_path / "micro_batches.json"
    write_checked(path, {"splits": SPLITS})
    whole = read_splits(path)
    assert whole[0].target_tokens == [1250, 625]
    for place in with_one_byte_changed(path):
        try:
            assert read_splits(path) == whole, place
        except TrainingError as error:
            assert str(path) in str(error)  # noqa: PT017


def test_a_file_without_a_checksum_is_one_of_an_earlier_version(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": 1}')
    assert read_checked(tmp_path / "a.json") == {"a": 1}
    with pytest.raises(ValueError, match="differs from its checksum"):
        without_checksum({"a": 1}, required=True)


@pytest.mark.parametrize("found", ["1", True, 1.0, None, [1], 3])
def test_a_format_is_a_number(found: object) -> None:
    """ "format 1, but this version reads format 1" would say nothing."""
    assert format_problem({"format": 1}, 1, 2) == ""
    shown = json.dumps(found)
    assert format_problem({"format": found}, 1, 2) == f"format {shown}, but this version reads format 1 or 2"


@pytest.mark.parametrize(
    ("text", "found"),
    [(None, {}), ("", {}), ("{", {}), ("[1]", {}), ('"a"', {}), ("\udcff", {}), ('{"a": 1}', {"a": 1})],
)
def test_a_file_that_is_missing_or_damaged_is_read_as_an_empty_object(
    tmp_path: Path, text: str | None, found: dict[str, int]
) -> None:
    if text is not None:
        (tmp_path / "a.json").write_bytes(text.encode(errors="surrogateescape"))
    assert read_or_empty(tmp_path / "a.json") == found
