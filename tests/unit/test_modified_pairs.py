"""The pairs of an epoch under modifiers: what they depend on, what they keep, and how they are planned."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_corpus import made_corpus, sentences
from transduce.config import Config, DataConfig, ModelConfig, TrainConfig
from transduce.config.modifiers import MODIFIERS, ModifierConfig
from transduce.config.special_ids import UNK
from transduce.data.mixture import CorpusRows
from transduce.data.modifiers import modified as modified_module
from transduce.data.modifiers.lines import merged_lines, single_lines
from transduce.data.modifiers.modified import ModifiedPairs, Modifiers
from transduce.data.prepare import prepare
from transduce.data.store import ParallelStore, StoreWriter, plan_lengths
from transduce.errors import ConfigError, DataError
from transduce.text import Tokenizer, load_tokenizer
from transduce.text.subword import SubwordTokenizer
from transduce.training.batch_order import BatchOrder
from transduce.training.progress import Progress

TAGS = ("<2de>", "<domain:law>")


def modified(config: Config, probability: float | None = None, *names: str) -> Config:
    """Returns the configuration with these modifiers, or with all, as often as usual or with a probability."""
    entries = tuple(
        ModifierConfig(name=name, probability=probability or MODIFIERS[name].usual) for name in names or MODIFIERS
    )
    return dataclasses.replace(config, train=dataclasses.replace(config.train, modifiers=entries))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    lines = [line for pair in sentences(300, 5) for line in pair]
    return SubwordTokenizer.train(lines, algorithm="bpe", vocab_size=320).with_tags(TAGS)


def store_of(
    path: Path, tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]], tags: Sequence[str] = (), **options: Any
) -> ParallelStore:
    head = [tokenizer.tags[tag] for tag in tags]
    sources, targets = zip(*pairs, strict=True)
    with StoreWriter.open(
        path / "train.arrow", tokenizer_fingerprint=tokenizer.fingerprint, vocab_size=tokenizer.vocab_size
    ) as writer:
        writer.write([head + ids for ids in tokenizer.encode_batch(sources)], tokenizer.encode_batch(targets))
    tokenizer.save(path / "tokenizer.json")
    return ParallelStore.open(path / "train.arrow", **options)


def read(pairs: ModifiedPairs, tokenizer: Tokenizer, indices: Sequence[int]) -> list[tuple[str, str]]:
    sources, targets = pairs.pairs(np.array(indices))
    return list(
        zip(tokenizer.decode_batch(map(list, sources)), tokenizer.decode_batch(map(list, targets)), strict=True)
    )


# --- what they depend on ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> ParallelStore:
    return store_of(tmp_path_factory.mktemp("store"), tokenizer, sentences(200, 6))


@settings(deadline=None, max_examples=15)
@given(
    seed=st.integers(0, 2**62 - 1),
    epoch=st.integers(0, 1000),
    batch=st.lists(st.integers(0, 150), min_size=1, max_size=40),
)
def test_a_modified_pair_depends_on_seed_epoch_and_row_alone(
    seed: int, epoch: int, batch: list[int], store: ParallelStore, tokenizer: Tokenizer
) -> None:
    """Whatever batch it is in, and whichever object makes it."""
    config = Config()
    config = dataclasses.replace(config, train=dataclasses.replace(config.train, seed=seed))
    config = modified(config, 0.5)
    first = Modifiers(config, store, tokenizer).epoch(epoch)
    batch = [line for line in batch if line < len(first)]
    together = [[side.tolist() for side in sides] for sides in first.pairs(np.array(batch, np.int64))]
    again = Modifiers(config, store, tokenizer).epoch(epoch)
    alone = [again.pairs(np.array([line])) for line in batch]
    assert together == [[sides[side][0].tolist() for sides in alone] for side in (0, 1)]


def test_another_seed_and_another_epoch_modify_other_pairs(store: ParallelStore, tokenizer: Tokenizer) -> None:
    def upper(seed: int, epoch: int) -> list[int]:
        config = dataclasses.replace(Config(), train=TrainConfig(seed=seed))
        pairs = Modifiers(modified(config, 0.3, "upper_case"), store, tokenizer).epoch(epoch)
        return [line for line, (source, _) in enumerate(read(pairs, tokenizer, range(200))) if source.isupper()]

    found = [upper(1, 0), upper(1, 1), upper(2, 0)]
    assert all(30 < len(each) < 90 for each in found)
    assert found[0] != found[1] != found[2] != found[0]


def test_pairs_that_no_modifier_meets_are_those_of_the_store(store: ParallelStore, tokenizer: Tokenizer) -> None:
    pairs = Modifiers(modified(Config(), 0.3, "upper_case"), store, tokenizer).epoch(0)
    sources, targets = pairs.pairs(np.arange(200))
    untouched = 0
    for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
        if not tokenizer.decode(source.tolist()).isupper():
            assert (source.tolist(), target.tolist()) == (store.source(row).tolist(), store.target(row).tolist())
            untouched += 1
    assert untouched > 100


def test_a_row_that_an_epoch_repeats_is_modified_each_time_anew(store: ParallelStore, tokenizer: Tokenizer) -> None:
    pairs = Modifiers(modified(Config(), 0.5, "upper_case"), store, tokenizer).epoch(0, np.array([5] * 40 + [6]))
    found = Counter(source.isupper() for source, _ in read(pairs, tokenizer, range(40)))
    assert min(found[True], found[False]) >= 8
    assert pairs.store_rows(np.array([0, 39, 40])).tolist() == [5, 5, 6]


# --- what they keep --------------------------------------------------------------------------------------------------


def test_tags_stay_in_front_of_a_modified_source(tmp_path: Path, tokenizer: Tokenizer) -> None:
    store = store_of(tmp_path, tokenizer, sentences(60, 7), TAGS)
    for name in MODIFIERS:
        pairs = Modifiers(modified(Config(), 1.0, name), store, tokenizer).epoch(0)
        sources, targets = pairs.pairs(np.arange(len(pairs)))
        ids = [tokenizer.tags[tag] for tag in TAGS]
        assert all(source[:2].tolist() == ids for source in sources), name
        assert not any({*ids} & {*source[2:].tolist()} for source in [*sources, *targets]), name


def test_a_line_that_would_be_too_long_stays_as_it_was(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """In capitals, words of this vocabulary are spelled letter by letter: three times as many tokens."""
    store = store_of(tmp_path, tokenizer, [("big dog runs", "groß Hund läuft"), ("dog", "Hund")])
    length = max(store.source_lengths[0], store.target_lengths[0])
    for config in (
        Config(data=DataConfig(max_tokens=int(length) + 1)),
        Config(model=ModelConfig(positions="learned", max_positions=int(length) + 2)),
        Config(model=ModelConfig(max_length=int(length) + 2)),
    ):
        pairs = Modifiers(modified(config, 1.0, "upper_case"), store, tokenizer).epoch(0)
        assert read(pairs, tokenizer, [0, 1]) == [("big dog runs", "groß Hund läuft"), ("DOG", "HUND")]


def test_what_the_vocabulary_lacks_is_not_written(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an imported vocabulary without capitals of one side: the pair stays as it was, on both."""
    store = store_of(tmp_path, tokenizer, [("a dog", "ein Hund"), ("no cat", "keine Katze")])
    plain = tokenizer.encode_batch
    for lacking in ("A DOG", "KEINE KATZE"):

        def encode(texts: Sequence[str], lacking: str = lacking) -> list[list[int]]:
            return [[5, UNK] if text == lacking else ids for text, ids in zip(texts, plain(texts), strict=True)]

        with monkeypatch.context() as patch:
            patch.setattr(tokenizer, "encode_batch", encode)
            pairs = Modifiers(modified(Config(), 1.0, "upper_case"), store, tokenizer).epoch(0)
            found = read(pairs, tokenizer, [0, 1])
        of_first, of_second = ("a dog", "ein Hund"), ("NO CAT", "KEINE KATZE")
        if lacking == "KEINE KATZE":
            of_first, of_second = ("A DOG", "EIN HUND"), ("no cat", "keine Katze")
        assert found == [of_first, of_second]


def test_a_tokenizer_that_is_missing_or_another_is_an_error(tmp_path: Path, tokenizer: Tokenizer) -> None:
    store, config = store_of(tmp_path, tokenizer, [("a dog", "ein Hund")]), modified(Config(), None, "typos")
    assert BatchOrder(store, config).pairs(Progress()).store_rows(np.array([0])).tolist() == [0]
    tokenizer.with_tags(["<2fr>"]).save(tmp_path / "tokenizer.json")
    with pytest.raises(DataError, match=r"tokenizer.json: is not the tokenizer of train.arrow, which train.modifiers"):
        BatchOrder(store, config)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(DataError, match=r"tokenizer.json: is missing"):
        BatchOrder(store, config)
    assert BatchOrder(store, Config()).pairs(Progress()) is store  # nothing needs it


def test_an_aligner_that_is_missing_is_an_error(tmp_path: Path, tokenizer: Tokenizer) -> None:
    store = store_of(tmp_path, tokenizer, [("a dog", "ein Hund")])
    message = rf"{tmp_path}: was prepared without aligner.safetensors, .* transduce prepare RECIPE --output {tmp_path} "
    with pytest.raises(DataError, match=message):
        BatchOrder(store, modified(Config(), None, "typos", "terms"))


# --- merged lines ----------------------------------------------------------------------------------------------------


def test_merged_lines_have_each_pair_once_and_are_of_one_corpus() -> None:
    lengths = np.full(1000, 10, np.int32)
    lines = merged_lines(
        single_lines(np.arange(1000), 1000), [300, 1000], (lengths, lengths), probability=0.5, most_tokens=100,
        seed=1, epoch=0,
    )  # fmt: skip
    found = [lines.of(line) for line in range(len(lines))]
    assert sorted(row for rows in found for row in rows) == [*range(1000)]
    assert all(max(rows) < 300 or min(rows) >= 300 for rows in found)
    sizes = Counter(map(len, found))
    assert sorted(sizes) == [1, 2, 3, 4]
    assert 0.4 < 1 - sizes[1] / len(found) < 0.6
    assert len({*lines.keys.tolist()}) == len(lines)
    assert lines.lengths(lengths).tolist() == [9 * len(rows) + 1 for rows in found]  # EOS once


def test_lines_that_would_be_too_long_are_not_merged() -> None:
    source, target = np.full(500, 5, np.int32), np.full(500, 20, np.int32)
    lines = merged_lines(
        single_lines(np.arange(500), 500), [500], (source, target), probability=1.0, most_tokens=40, seed=1, epoch=0
    )
    sizes = Counter(len(lines.of(line)) for line in range(len(lines)))
    assert sorted(sizes) == [1, 2]  # two have 39 tokens, three 58
    assert lines.lengths(target).max() == 39


def test_merged_text_is_that_of_its_lines_with_spaces_and_the_tags_of_the_first(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    pairs = sentences(50, 8)
    store = store_of(tmp_path, tokenizer, pairs, TAGS)
    merged = Modifiers(modified(Config(), 1.0, "merge"), store, tokenizer).epoch(3)
    found = read(merged, tokenizer, range(len(merged)))
    starts = merged.store_rows(np.arange(len(merged))).tolist()
    places = {source: row for row, (source, _) in enumerate(pairs)}
    seen = []
    for first, (source, target) in zip(starts, found, strict=True):
        rows = [places[f"{sentence}."] for sentence in source[:-1].split(". ")]
        assert rows[0] == first
        assert target == " ".join(pairs[row][1] for row in rows)
        seen += rows
    assert sorted(seen) == [*range(50)]
    assert len(found) < 30


# --- the plan --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exact_lines", [500_000, 0])
def test_planned_lengths_are_the_real_ones_or_what_few_exceed_and_batches_keep_their_budgets(
    tmp_path: Path, exact_lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an epoch of few lines, all are counted beforehand."""
    monkeypatch.setattr(modified_module, "_EXACT_LINES", exact_lines)
    config = modified(made_corpus(tmp_path / "corpus"))
    prepare(config, tmp_path / "data", progress=False)
    tokenizer = load_tokenizer(tmp_path / "data" / "tokenizer.json")
    store = ParallelStore.open(
        tmp_path / "data" / "train.arrow",
        [CorpusRows("one", 350, 0, 0), CorpusRows("two", len_of(tmp_path) - 350, 0, 0)],
    )
    pairs = Modifiers.of(config, store).epoch(0)
    sources, targets = pairs.pairs(np.arange(len(pairs)))
    assert any("|" in text for text in tokenizer.decode_batch(map(list, sources)))  # terms, by the prepared aligner
    for side, planned in ((sources, pairs.source_lengths), (targets, pairs.target_lengths)):
        real = np.array([len(ids) + 1 for ids in side])
        if exact_lines:
            assert planned.tolist() == real.tolist()
        assert (real > planned).mean() < 0.05
        assert 0.9 < real.sum() / planned.sum() < 1.01
    budget = dataclasses.replace(config.train, source_batch_tokens=600, target_batch_tokens=600)
    plan = plan_lengths((pairs.source_lengths, pairs.target_lengths), budget, 0)
    assert sorted(plan.rows.tolist()) == [*range(len(pairs))]
    for index in range(len(plan)):
        rows = plan.batch(index)
        assert len(rows) == 1 or len(rows) * int(pairs.source_lengths[rows].max()) <= 600


@pytest.mark.parametrize("name", ["upper_case", "title_case", "items"])
def test_lengths_in_capitals_and_with_items_are_estimated_line_by_line(
    name: str, store: ParallelStore, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modified_module, "_EXACT_LINES", 0)
    pairs = Modifiers(modified(Config(), 1.0, name), store, tokenizer).epoch(0)
    for side, planned, stored in zip(
        pairs.pairs(np.arange(200)),
        (pairs.source_lengths, pairs.target_lengths),
        (store.source_lengths, store.target_lengths),
        strict=True,
    ):
        real = np.array([len(ids) + 1 for ids in side])
        assert (np.abs(real - planned) <= 1).mean() > 0.8  # a tenth of the items replace their lines
        assert (real - stored).std() > 2


def len_of(folder: Path) -> int:
    return len(ParallelStore.open(folder / "data" / "train.arrow"))


def test_the_order_of_batches_is_that_of_the_modified_lines(store: ParallelStore, tokenizer: Tokenizer) -> None:
    config = modified(Config(train=TrainConfig(source_batch_tokens=500, target_batch_tokens=500)), 0.5, "merge")
    order, progress = BatchOrder(store, config), Progress()
    seen: list[int] = []
    while progress.epoch == 0:
        pairs, rows = order.pairs(progress), order.next_rows(progress)
        seen += [row for line in rows.tolist() for row in [*pairs.store_rows(np.array([line]))]]
        order.advance(progress)
    assert len(seen) == len({*seen}) < 150  # lines, by their first rows
    assert order.stored_plan(0, 0).real_tokens == (int(store.source_lengths.sum()), int(store.target_lengths.sum()))


# --- the recipe ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            [{"name": "upercase", "probability": 0.1}],
            r"unknown modifier 'upercase'. Did you mean 'upper_case'\? There are: merge,",
        ),
        ([{"probability": 0.1}], r"train.modifiers: an entry has no name. There are: merge"),
        (
            [{"name": "typos"}],
            r"train.modifiers: typos: probability = 0.0: must be greater than 0 and at most 1; usual is 0.05",
        ),
        (
            [{"name": "typos", "probability": 1.5}],
            r"train.modifiers: typos: probability = 1.5: must be greater than 0 and at",
        ),
        ([{"name": "typos", "probability": 0.1}] * 2, r"train.modifiers: 'typos' occurs twice. Leave out one of them."),
        ([{"name": "typos", "rate": 0.1}], r"unknown key 'train.modifiers\[0\].rate'"),
    ],
)
def test_a_wrong_modifier_is_an_error_of_the_recipe(entries: list[dict[str, Any]], message: str) -> None:
    from transduce.config.loading import apply

    with pytest.raises(ConfigError, match=message):
        apply(Config(), {"train": {"modifiers": entries}})


def test_a_parser_has_no_modifiers() -> None:
    with pytest.raises(ConfigError, match=r"train.modifiers: must be left out where data.format is 'trees'"):
        modified(Config(data=DataConfig(format="trees", train=(("a.mrg",),))))
