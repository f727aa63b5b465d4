"""Mixtures: each pair as often as its weight says, the same plan on each rank, and resuming at any index."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.config import Config, DataConfig, TrainConfig
from transduce.config.corpora import CorpusConfig, PhaseConfig
from transduce.data.batching import share
from transduce.data.mixture import CorpusRows, Mixture, draw, temperature_weights
from transduce.data.mixture_report import corpus_shares, describe_shares
from transduce.data.store import ParallelStore, StoreWriter
from transduce.errors import ConfigError, DataError, TrainingError
from transduce.training.batch_order import BatchOrder
from transduce.training.progress import Progress

WEIGHTS = st.fractions(min_value=0, max_value=4, max_denominator=12)


@given(size=st.integers(1, 40), weight=WEIGHTS, seed=st.integers(0, 99), first=st.integers(0, 50))
@settings(max_examples=200, deadline=None)
def test_each_row_comes_as_often_as_its_weight_says(size: int, weight: Fraction, seed: int, first: int) -> None:
    """From any epoch on: all rows equally often, or once more than others."""
    seen: Counter[int] = Counter()
    for count, epoch in enumerate(range(first, first + 12), start=1):
        rows = draw(size, weight, seed=seed, epoch=epoch, corpus=0)
        assert len(rows) == int(weight * size * (epoch + 1)) - int(weight * size * epoch)
        seen.update(rows.tolist())
        times = [seen[row] for row in range(size)]
        assert max(times) - min(times) <= 1
        assert abs(sum(times) - weight * size * count) < 1


@given(size=st.integers(5, 60), parts=st.integers(2, 5), seed=st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_down_sampling_shows_all_pairs_before_any_comes_again(size: int, parts: int, seed: int) -> None:
    epochs = [draw(size * parts, Fraction(1, parts), seed=seed, epoch=e, corpus=3).tolist() for e in range(parts)]
    assert sorted(row for rows in epochs for row in rows) == list(range(size * parts))
    assert len(epochs[0]) == size


def test_the_order_depends_on_seed_and_corpus() -> None:
    drawn = {
        (seed, corpus): draw(1000, Fraction(1, 10), seed=seed, epoch=0, corpus=corpus).tolist()
        for seed in (1, 2)
        for corpus in (0, 1)
    }
    assert len({str(rows) for rows in drawn.values()}) == 4
    assert all(rows == sorted(rows) for rows in drawn.values())


def test_a_draw_does_not_change_between_versions() -> None:
    """Resuming depends on it: whoever changes it must bump the checkpoint's version."""
    rows = [draw(7, Fraction("1.5"), seed=3, epoch=epoch, corpus=1).tolist() for epoch in (0, 1)]
    assert rows == PINNED


PINNED = [[0, 1, 2, 3, 4, 5, 6, 1, 5, 6], [0, 1, 2, 3, 4, 5, 6, 0, 2, 3, 4]]


def test_a_weight_of_three_is_the_store_three_times() -> None:
    """As earlier versions stored the pairs of `data.repeat`: the plan of such a recipe is the same."""
    mixture = mixture_of((4, 2), (3.0, 1.0))
    rows = mixture.rows(mixture.phases[0], 1, epoch=5)
    assert rows is not None
    assert rows.tolist() == [0, 1, 2, 3] * 3 + [4, 5]


def mixture_of(sizes: tuple[int, ...], weights: tuple[float, ...], *phases: PhaseConfig) -> Mixture:
    return Mixture.of(config_of(weights, *phases), corpora_of(*sizes))


def corpora_of(*sizes: int) -> tuple[CorpusRows, ...]:
    return tuple(CorpusRows("abc"[index], size, 3 * size, 4 * size) for index, size in enumerate(sizes))


def config_of(weights: tuple[float, ...], *phases: PhaseConfig, **train: int) -> Config:
    corpora = tuple(CorpusConfig(files=("x.tsv",), name="abc"[index], weight=w) for index, w in enumerate(weights))
    budgets = {"source_batch_tokens": 40, "target_batch_tokens": 40, "cooldown_steps": 0} | train
    return Config(data=DataConfig(corpora=corpora), train=TrainConfig(phases=phases, **budgets))


# --- the order of batches ---------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> ParallelStore:
    generator = np.random.default_rng(5)
    path = tmp_path / "train.arrow"
    with StoreWriter.open(path, tokenizer_fingerprint="f", vocab_size=300) as writer:
        for row in range(60):
            lengths = generator.integers(1, 9, 2)
            writer.write([[row % 200 + 4] * int(lengths[0])], [[5] * int(lengths[1])])
    return ParallelStore.open(path, corpora_of(40, 15, 5))


PHASES = (PhaseConfig(from_step=7, weights={"a": 0.3}), PhaseConfig(from_step=23, weights={"a": 0.0, "c": 2.5}))


def walk(order: BatchOrder, progress: Progress, steps: int) -> list[list[int]]:
    batches = []
    for _ in range(steps):
        batches.append(order.next_rows(progress).tolist())
        order.advance(progress)
    return batches


def test_without_weights_the_plan_is_that_of_the_store(store: ParallelStore) -> None:
    plain = replace(config_of((1.0, 1.0, 1.0)), data=DataConfig(train=(("x",), ("y",), ("z",))))
    for config in (config_of((1.0, 1.0, 1.0)), plain):
        found, expected = BatchOrder(store, config).plan(0, 4), store.plan_epoch(config.train, 4)
        for name in ("rows", "starts", "order"):
            assert getattr(found, name).tobytes() == getattr(expected, name).tobytes()


def test_a_batch_mixes_corpora_and_stays_within_the_budgets(store: ParallelStore) -> None:
    plan = BatchOrder(store, config_of((0.5, 2.0, 3.0))).plan(0, 0)
    batches = [plan.batch(index) for index in range(len(plan))]
    counts = Counter(np.concatenate(batches).tolist())
    assert [sum(counts[row] for row in rows) for rows in (range(40), range(40, 55), range(55, 60))] == [20, 30, 15]
    for batch in batches:
        for lengths in (store.source_lengths, store.target_lengths):
            assert len(batch) * lengths[batch].max() <= 40
    assert plan.real_tokens == tuple(
        int(lengths[plan.rows].sum()) for lengths in (store.source_lengths, store.target_lengths)
    )
    assert any({int(np.searchsorted([40, 55], row, side="right")) for row in batch} == {0, 1} for batch in batches)


def test_training_resumes_at_any_index(store: ParallelStore) -> None:
    config = config_of((1.0, 0.4, 2.0), *PHASES)
    whole_progress, whole = Progress(), []
    order = BatchOrder(store, config)
    states = []
    for _ in range(60):
        states.append((whole_progress.step, whole_progress.epoch, whole_progress.batch))
        whole += walk(order, whole_progress, 1)
    for step, epoch, batch in states:
        resumed = Progress(step=step, epoch=epoch, batch=batch)
        assert walk(BatchOrder(store, config), resumed, 60 - step) == whole[step:]


def test_a_look_at_later_phases_does_not_change_what_comes_next(store: ParallelStore) -> None:
    """As before training begins: updates of every phase are tried for their memory."""
    config = config_of((1.0, 0.4, 2.0), *PHASES)
    order = BatchOrder(store, config)
    for step in (23, 7):
        order.plan(step, 0)
    assert walk(order, Progress(), 12) == walk(BatchOrder(store, config), Progress(), 12)


def test_the_batch_after_the_next_is_told_within_an_epoch(store: ParallelStore) -> None:
    order, progress = BatchOrder(store, config_of((1.0, 0.4, 2.0), *PHASES)), Progress()
    for _ in range(60):
        ahead, epoch = order.rows_after_next(progress), progress.epoch
        order.advance(progress)
        expected = order.next_rows(progress).tolist() if progress.epoch == epoch else None
        assert (None if ahead is None else ahead.tolist()) == expected, progress.step
    size = len(order.plan(0, 0))
    with pytest.raises(TrainingError, match=f"batch {size} of epoch 0 is next, and an epoch has {size}: "):
        order.next_rows(Progress(batch=size))


def test_the_rows_of_an_epoch_are_drawn_from_the_seed_of_the_run(store: ParallelStore) -> None:
    for seed in (1, 5):
        order = BatchOrder(store, config_of((0.3, 0.4, 2.0), seed=seed))
        expected = order.mixture.rows(order.mixture.phases[0], seed, 3)
        assert expected is not None
        assert sorted(order.plan(0, 3).rows.tolist()) == sorted(expected.tolist())


@pytest.mark.parametrize("world_size", [1, 2, 3, 7])
def test_the_batches_do_not_depend_on_the_number_of_ranks(store: ParallelStore, world_size: int) -> None:
    config = config_of((1.0, 0.4, 2.0), *PHASES)
    expected = walk(BatchOrder(store, config), Progress(), 40)
    ranks = [(BatchOrder(store, config), Progress()) for _ in range(world_size)]
    for batch in expected:
        shares = []
        for rank, (order, progress) in enumerate(ranks):
            shares += share(order.next_rows(progress), rank, world_size).tolist()
            order.advance(progress)
        assert sorted(shares) == sorted(batch)


def test_a_phase_begins_at_its_step_with_an_epoch_of_its_own(store: ParallelStore) -> None:
    order, progress = BatchOrder(store, config_of((1.0, 0.4, 2.0), *PHASES)), Progress()
    corpora_seen: dict[int, set[int]] = {0: set(), 7: set(), 23: set()}
    epochs: dict[int, set[int]] = {0: set(), 7: set(), 23: set()}
    for _ in range(60):
        begun = order.mixture.phase_at(progress.step).from_step
        epochs[begun].add(progress.epoch)
        corpora_seen[begun] |= {int(np.searchsorted([40, 55], row, side="right")) for row in order.next_rows(progress)}
        order.advance(progress)
    assert corpora_seen == {0: {0, 1, 2}, 7: {0, 1, 2}, 23: {1, 2}}
    assert not epochs[0] & epochs[7]
    assert not epochs[7] & epochs[23]


# --- what is said of it, and what is refused --------------------------------------------------------------------------


def test_shares_are_told_by_phase() -> None:
    mixture = mixture_of((100, 10), (1.0, 2.0), PhaseConfig(from_step=80, weights={"a": 0.1}))
    shares = corpus_shares(mixture, TrainConfig(max_steps=100), target_tokens_a_batch=24.0)
    assert [(s.from_step, s.to_step, s.name) for s in shares] == [
        (0, 80, "a"),
        (0, 80, "b"),
        (80, 100, "a"),
        (80, 100, "b"),
    ]
    # 400 + 2 × 40 target tokens an epoch: 80 batches of 24 tokens are four epochs. Then 40 + 80: 20 batches are four.
    assert [s.token_share for s in shares] == pytest.approx([400 / 480, 80 / 480, 40 / 120, 80 / 120])
    assert [s.times_in_all for s in shares] == pytest.approx([4, 8, 0.4, 8])
    text = describe_shares(shares)
    assert "| 80 to 100 | b " in text
    assert "66.7%" in text
    assert describe_shares(shares[:1]) == ""
    alike = corpus_shares(mixture_of((100, 10), (1.0, 1.0)), TrainConfig(max_steps=100), 24.0)
    assert "| b      |    10 |           1.00 |" in describe_shares(alike)  # two corpora have shares all the same
    single = corpus_shares(mixture_of((100,), (2.0,)), TrainConfig(max_steps=100), 24.0)
    assert "about 100.0%" in describe_shares(single, estimated=True)
    assert "steps" not in describe_shares(single).splitlines()[0].split("|")[1]


def test_shares_are_worked_out_from_target_tokens(store: ParallelStore) -> None:
    config = config_of((0.3, 0.4, 2.0))
    order = BatchOrder(store, config)
    plan = order.plan(0, 0)
    tokens = store.target_lengths[plan.rows].sum() / len(plan)
    assert order.description(plan) == describe_shares(corpus_shares(order.mixture, config.train, tokens))


def test_a_phase_after_the_last_step_is_not_told() -> None:
    mixture = mixture_of((100, 10), (1.0, 2.0), PhaseConfig(from_step=80, weights={"a": 0.1}))
    assert {s.from_step for s in corpus_shares(mixture, TrainConfig(max_steps=80), 24.0)} == {0}


def test_a_temperature_gives_shares_of_powers() -> None:
    weights = temperature_weights([1_000_000, 10_000, 0], 2.0)
    assert weights[:2] == [1, 10]
    assert temperature_weights([800, 100], 1.0) == [1, 1]
    sizes = [120_000, 7_000, 333]
    shares = [float(w) * n for w, n in zip(temperature_weights(sizes, 5.0), sizes, strict=True)]
    assert shares[1] / shares[0] == pytest.approx((sizes[1] / sizes[0]) ** 0.2, rel=1e-4)


def test_a_temperature_is_used() -> None:
    config = replace(config_of((1.0, 1.0)), data=replace(config_of((1.0, 1.0)).data, temperature=2.0))
    mixture = Mixture.of(config, corpora_of(100, 25))
    assert mixture.phases[0].weights == (1, 2)


def test_data_of_other_corpora_are_refused_where_weights_matter() -> None:
    with pytest.raises(
        DataError, match=r"have the corpora a, but the recipe has weights for a, b\. Prepare them again"
    ):
        Mixture.of(config_of((1.0, 2.0)), corpora_of(5))
    with pytest.raises(DataError, match="do not say which pairs belong to which corpus"):
        Mixture.of(config_of((1.0, 2.0)), ())
    assert (
        Mixture.of(config_of((1.0, 1.0)), corpora_of(5)).rows(Mixture.of(config_of((1.0,)), ()).phases[0], 1, 0) is None
    )


def test_data_that_an_earlier_version_repeated_are_not_repeated_again() -> None:
    config = Config(data=DataConfig(train=(("x",), ("y",)), repeat=(3, 1)))
    mixture = Mixture.of(config, ())
    assert mixture.rows(mixture.phases[0], 1, 0) is None


def test_weights_that_leave_nothing_are_refused() -> None:
    with pytest.raises(DataError, match=r"from step 0 on are so small .* less than one pair .*a: 5 pairs, b: 9 pairs"):
        mixture_of((5, 9), (0.1, 0.1))


def test_weights_that_fill_the_memory_are_refused() -> None:
    """200 pairs a million times are 2 × 10⁸ rows, of 8 bytes, several times over."""
    with pytest.raises(
        DataError, match=r"data\.corpora .* weight = 1e\+06 of b: an epoch would have 200,000,900 pairs"
    ):
        mixture_of((900, 200), (1.0, 1e6))
    assert mixture_of((900, 200), (1.0, 1e5)).phases


@pytest.mark.parametrize(
    ("phases", "message"),
    [
        ([PhaseConfig(from_step=5), PhaseConfig(from_step=5)], "must begin after the one before"),
        ([PhaseConfig(weights={"aa": 1.0})], "'aa', which is not a corpus. The corpora are: a, b. Did you mean 'a'?"),
        ([PhaseConfig(weights={"a": 0.0, "b": 0.0})], "gives all corpora the weight 0"),
    ],
)
def test_phases_that_contradict_themselves_are_refused(phases: list[PhaseConfig], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        config_of((1.0, 1.0), *phases)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"train": (("x",),), "corpora": (CorpusConfig(files=("x",)),)}, "Give its files as an entry [[data.corpora]]"),
        ({"corpora": (CorpusConfig(),)}, "a pair of files, or one TSV or TMX file"),
        ({"corpora": (CorpusConfig(files=("x",), weight=0.0),)}, "nothing would be left"),
        ({"corpora": (CorpusConfig(files=("x",), name="n"),) * 2}, "two entries have the name 'n'"),
        ({"train": (("x",),), "repeat": (2,), "temperature": 2.0}, "0 if corpora have weights"),
        ({"train": (("x",),), "temperature": 0.5}, "0, or at least 1"),
    ],
)
def test_corpora_that_contradict_themselves_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        DataConfig(**values)  # type: ignore[arg-type]
    assert message in str(error.value)


@pytest.mark.parametrize("values", [{"name": "two words"}, {"weight": -1.0}, {"weight": float("nan")}])
def test_a_wrong_corpus_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"data\.corpora"):
        CorpusConfig(files=("x",), **values)  # type: ignore[arg-type]


def test_corpora_without_a_name_are_called_after_their_files() -> None:
    files = (("a/news.en.gz", "a/news.de.gz"), ("b/news.tsv",), ("wsj/0[2-9]",), ("my web.en", "x"))
    named = [corpus.name for corpus in DataConfig(train=files).training_corpora]
    assert named == ["news", "news-2", "0[2-9]", "my-web"]


def test_corpora_have_the_languages_of_the_recipe_unless_they_name_their_own() -> None:
    corpora = (CorpusConfig(files=("x",)), CorpusConfig(files=("y",), target_language="fr"))
    data = DataConfig(corpora=corpora, source_language="en", target_language="de")
    languages = [(corpus.source_language, corpus.target_language) for corpus in data.training_corpora]
    assert languages == [("en", "de"), ("en", "fr")]


def test_sets_have_the_languages_of_the_recipe_or_of_all_its_corpora() -> None:
    def data(*pairs: tuple[str, str], source: str = "", target: str = "") -> DataConfig:
        corpora = tuple(CorpusConfig(files=("x",), source_language=own, target_language=to) for own, to in pairs)
        return DataConfig(corpora=corpora, validation=("v",), source_language=source, target_language=target)

    several = data(("en", "de"), ("en", "fr"), source="en", target="fr")
    assert several.held_out_languages == ("en", "fr")
    assert data(("en", "de"), ("en", "de"), source="en").held_out_languages == ("en", "de")
    assert data(("en", ""), ("de", ""), source="en").held_out_languages == ("en", "")
    assert [(each.source_language, each.target_language) for each in several.validation_corpora] == [("en", "fr")]
    assert several.described_languages("?", "!") == "en → de, fr"
    assert data(("", "de"), ("en", "de")).described_languages("?", "!") == "en → de"
    assert DataConfig(target_language="nl").described_languages("?", "!") == "? → nl"
