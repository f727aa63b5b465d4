"""The Arrow store: what goes in comes out, and damage is noticed."""

from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from transduce.config import TrainConfig
from transduce.data import store as store_module
from transduce.data.mixture import CorpusRows
from transduce.data.store import ParallelStore, StoreWriter, id_type
from transduce.errors import DataError


def write(path: Path, sources: list[list[int]], targets: list[list[int]], vocab_size: int = 1000) -> None:
    with StoreWriter.open(path, tokenizer_fingerprint="abc", vocab_size=vocab_size) as writer:
        writer.write(sources, targets)


def rows(count: int, seed: int) -> list[list[int]]:
    generator = np.random.default_rng(seed)
    return [generator.integers(0, 1000, generator.integers(0, 9)).tolist() for _ in range(count)]


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 40])
def test_round_trip_across_record_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(store_module, "BATCH_ROWS", 8)
    sources, targets = rows(count, 1), rows(count, 2)
    with StoreWriter.open(tmp_path / "a.arrow", tokenizer_fingerprint="abc", vocab_size=1000) as writer:
        for start in range(0, count, 3):
            writer.write(sources[start : start + 3], targets[start : start + 3])
        assert writer.num_pairs == count
    store = ParallelStore.open(tmp_path / "a.arrow")
    assert len(store) == count
    assert store.tokenizer_fingerprint == "abc"
    assert store.vocab_size == 1000
    assert [store.source(i).tolist() for i in range(count)] == sources
    assert [store.target(i).tolist() for i in range(count)] == targets
    assert store.source_lengths.tolist() == [len(row) + 1 for row in sources]
    assert store.target_lengths.tolist() == [len(row) + 1 for row in targets]
    assert store.source_lengths.dtype == np.int32
    shuffled = np.random.default_rng(3).permutation(count)
    got_sources, got_targets = store.pairs(shuffled)
    assert [row.tolist() for row in got_sources] == [sources[i] for i in shuffled]
    assert [row.tolist() for row in got_targets] == [targets[i] for i in shuffled]


@pytest.mark.parametrize(("vocab_size", "dtype"), [(65536, np.uint16), (65537, np.int32)])
def test_ids_take_the_smallest_type(tmp_path: Path, vocab_size: int, dtype: type) -> None:
    write(tmp_path / "a.arrow", [[vocab_size - 1]], [[1, 2]], vocab_size)
    row = ParallelStore.open(tmp_path / "a.arrow").source(0)
    assert row.dtype == dtype == id_type(vocab_size)
    assert row.tolist() == [vocab_size - 1]


def test_rows_are_views_not_copies(tmp_path: Path) -> None:
    write(tmp_path / "a.arrow", [[1, 2, 3]], [[4]])
    row = ParallelStore.open(tmp_path / "a.arrow").source(0)
    assert not row.flags.owndata
    assert not row.flags.writeable


def test_rows_outlive_the_store(tmp_path: Path) -> None:
    write(tmp_path / "a.arrow", [[1, 2, 3]], [[4]])
    row = ParallelStore.open(tmp_path / "a.arrow").source(0)
    assert row.tolist() == [1, 2, 3]


def test_failure_leaves_no_file(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match="outside the vocabulary"),
        StoreWriter.open(tmp_path / "a.arrow", tokenizer_fingerprint="x", vocab_size=9) as writer,
    ):
        writer.write([[1], [10]], [[2], [3]])
    assert list(tmp_path.iterdir()) == []


def test_failure_in_the_last_flush_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: StoreWriter, *, whole: bool) -> None:
        if not whole:
            raise OSError("no space left on device")

    monkeypatch.setattr(StoreWriter, "_flush", fail)
    with pytest.raises(OSError, match="no space"):
        write(tmp_path / "a.arrow", [[1]], [[2]])
    assert list(tmp_path.iterdir()) == []


def test_writer_rejects_what_does_not_fit(tmp_path: Path) -> None:
    with StoreWriter.open(tmp_path / "a.arrow", tokenizer_fingerprint="x", vocab_size=10) as writer:
        for wrong in (10, -1, 1 << 17):
            with pytest.raises(ValueError, match="outside the vocabulary of 10"):
                writer.write([[wrong]], [[2]])
        with pytest.raises(ValueError, match="1 sources and 2 targets"):
            writer.write([[1]], [[2], [3]])


def test_missing_truncated_and_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    with pytest.raises(DataError, match=r"no such file\. Run 'transduce prepare' again"):
        ParallelStore.open(path)
    write(path, rows(50, 1), rows(50, 2))
    whole = path.read_bytes()
    for cut in (0, 1, 5, 7, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(DataError, match="damaged, cut short, or not an Arrow file"):
            ParallelStore.open(path)
    path.write_text("not arrow at all, " * 100)
    with pytest.raises(DataError, match="damaged, cut short, or not an Arrow file"):
        ParallelStore.open(path)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, pa.schema([("x", pa.int8())])) as writer:
        writer.write_batch(pa.record_batch([pa.array([1], pa.int8())], names=["x"]))
    with pytest.raises(DataError, match="that 'transduce prepare' did not write"):
        ParallelStore.open(path)


@pytest.mark.parametrize("version", [0, 2, 99])
def test_another_format_is_refused(version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "FORMAT_VERSION", version)
    write(tmp_path / "a.arrow", [[1]], [[2]])
    monkeypatch.undo()
    with pytest.raises(DataError, match=f"format_version {version}, but this version reads format_version 1"):
        ParallelStore.open(tmp_path / "a.arrow")


def test_negative_row_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "a.arrow", [[1]], [[2]])
    with pytest.raises(IndexError, match="counted from 0"):
        ParallelStore.open(tmp_path / "a.arrow").source(-1)


def test_the_rows_of_each_corpus(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    write(path, rows(6, 1), rows(6, 2))
    corpora = (CorpusRows("a", 1, 0, 0), CorpusRows("b", 3, 0, 0), CorpusRows("c", 2, 0, 0))
    found = ParallelStore.open(path, corpora).rows_of_corpora()
    assert found == {"a": range(1), "b": range(1, 4), "c": range(4, 6)}
    assert ParallelStore.open(path).rows_of_corpora() == {"": range(6)}
    with pytest.raises(DataError, match="has 6 pairs, and the corpora of its manifest do not"):
        ParallelStore.open(path, corpora[1:])


def test_a_plan_has_the_budgets_the_seed_and_the_rows_that_are_asked_for(tmp_path: Path) -> None:
    """Sides of 3 tokens, EOS counted: a batch of at most 12 and 6 has two rows, one of 12 and 12 four."""
    path = tmp_path / "a.arrow"
    write(path, [[1, 2]] * 16, [[3, 4]] * 16)
    store = ParallelStore.open(path)

    def batches(source: int, target: int, *, seed: int = 1, chosen: list[int] | None = None) -> list[list[int]]:
        train = TrainConfig(source_batch_tokens=source, target_batch_tokens=target, seed=seed)
        plan = store.plan_epoch(train, 0, None if chosen is None else np.array(chosen))
        return [plan.batch(index).tolist() for index in range(len(plan))]

    assert {len(batch) for batch in batches(12, 6)} == {len(batch) for batch in batches(6, 12)} == {2}
    assert {len(batch) for batch in batches(12, 12)} == {4}
    assert batches(12, 12, seed=2) != batches(12, 12)
    assert sorted(chain(*batches(12, 12, chosen=[5, 5, 9]))) == [5, 5, 9]
