"""Learning a shortlist, keeping it in a model folder, and searching with it in both engines."""

import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from fake_tokenizer import FakeTokenizer
from made_models import made_bundle, made_tokenizer
from transduce.bundle import Bundle
from transduce.config import DecodeConfig
from transduce.config.special_ids import BOS, EOS, PAD, UNK
from transduce.decoding.scores import Hypothesis
from transduce.engines.ctranslate2 import CTranslate2Engine
from transduce.engines.ctranslate2_cache import converted
from transduce.engines.interface import TokenConstraints
from transduce.engines.loading import uses_shortlist
from transduce.engines.shortlist import FILE
from transduce.engines.shortlist.learning import (
    Learned,
    Pairs,
    _add,
    coverage,
    hold_out,
    learn,
    learn_shortlist,
    read_files,
    same_pieces,
)
from transduce.engines.shortlist.table import Shortlist, load_shortlist, save_shortlist
from transduce.engines.torch import TorchEngine
from transduce.errors import BundleError, ConfigError, DataError
from transduce.files import sha256
from transduce.model import DecoderState, Transformer, prepack
from transduce.model.inference_weights import narrow_projection
from transduce.text import SubwordTokenizer
from transduce.translation.translator import Translator

pytestmark = pytest.mark.computes

_VOCAB = made_tokenizer().vocab_size
_OPTIONS = DecodeConfig(beam_size=4, max_extra_tokens=4)


def made_shortlist(width: int = 4, seed: int = 0) -> Shortlist:
    """Returns random candidates: whatever a model says, other sentences may say other things."""
    generator = np.random.default_rng(seed)
    table = generator.integers(4, _VOCAB, size=(_VOCAB, width + 1)).astype(np.int32)
    table[:, 0] = np.arange(_VOCAB)
    table[:4] = EOS
    return Shortlist(table, np.array([50, 60, 70], np.int32), {"candidates": width, "frequent": 3}, len(table))


def made_sources(count: int, seed: int = 0, longest: int = 14) -> list[list[int]]:
    generator = random.Random(seed)
    return [generator.choices(range(4, _VOCAB), k=generator.randrange(longest)) for _ in range(count)]


def learned(pairs: Pairs) -> Learned:
    return learn(pairs, _VOCAB, iterations=5)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    made = made_bundle(tmp_path_factory.mktemp("models") / "m", ending=1.5, tie_embeddings="none")
    save_shortlist(made, made_shortlist())
    return made


# --- learning -------------------------------------------------------------------------------------------------


def made_pairs(count: int = 200) -> Pairs:
    """Returns pairs in which id e is always translated with e + 100."""
    generator = np.random.default_rng(0)
    sources = [generator.choice(np.arange(10, 60), size=6, replace=False) for _ in range(count)]
    return Pairs(sources, [generator.permutation(source + 100) for source in sources])


def test_a_learned_table_holds_the_piece_itself_and_its_translation_first() -> None:
    shortlist = learned(made_pairs()).shortlist(2, 5)
    assert shortlist.candidates_VK.shape == (_VOCAB, 3)
    for source in range(10, 60):
        assert shortlist.candidates_VK[source, :2].tolist() == [source, source + 100]
    assert shortlist.candidates_VK[200].tolist() == [200, EOS, EOS]  # never seen
    assert (shortlist.candidates_VK[:3] == EOS).all()
    assert len(shortlist.frequent_F) == 5


def test_a_table_is_no_wider_than_the_longest_list_of_candidates() -> None:
    pairs = Pairs([np.array([10, 11])] * 30, [np.array([20, 21, 22])] * 30)
    shortlist = learned(pairs).shortlist(10**12, 0)  # 4 TB for each piece of the vocabulary
    assert shortlist.candidates_VK.shape == (_VOCAB, 4)  # a piece itself, and three translations
    assert set(shortlist.candidates_VK[10]) == {10, 20, 21, 22}
    assert shortlist.facts["candidates"] == 10**12


def test_the_most_frequent_targets_are_in_every_shortlist() -> None:
    targets = [np.array(ids, np.int32) for ids in ([109, 109, 108], [109, 107], [108])]
    made = learn(Pairs([np.array([5], np.int32)] * 3, targets), _VOCAB, iterations=1)
    assert made.by_frequency.tolist() == [109, 108, 107]  # three, two and one time
    assert made.shortlist(1, 2).frequent_F.tolist() == [109, 108]


def test_a_piece_that_translates_to_itself_takes_no_place_of_another() -> None:
    targets = [np.array([], np.int32)] * 5 + [np.array([5, 7, 8, 9], np.int32)]
    lexicon = SimpleNamespace(targets=targets)
    made = Learned(lexicon, np.array([9, 8]), 10, np.arange(6), 1, 1).shortlist(2, 1)  # type: ignore[arg-type]
    assert made.candidates_VK[5].tolist() == [5, 7, 8]
    assert made.frequent_F.tolist() == [9]


def test_a_piece_of_the_source_has_another_id_or_none_on_the_target_side() -> None:
    written = FakeTokenizer(tokens=lambda: ["<pad>", "<s>", "</s>", "<unk>", "b", "a", "d"])
    read = FakeTokenizer(tokens=lambda: ["<pad>", "<s>", "</s>", "<unk>", "a", "c"], target_side=written)
    read.target_vocab_size = 7
    same_V = same_pieces(cast(Any, read))
    assert same_V.tolist() == [0, 1, 2, 3, 5, EOS]
    pairs = Pairs([np.array([4, 5], np.int32)] * 3, [np.array([4, 6], np.int32)] * 3)
    made = learn(pairs, 7, same_V, iterations=1).shortlist(2, 1)
    assert made.candidates_VK.shape == (6, 3)
    assert made.candidates_VK[4:, 0].tolist() == [5, EOS]
    assert [sorted(row[1:]) for row in made.candidates_VK[4:].tolist()] == [[4, 6], [4, 6]]
    assert made.vocab_size == 7


def test_coverage_counts_tokens_sentences_and_sizes() -> None:
    shortlist = Shortlist(np.full((_VOCAB, 1), EOS, np.int32), np.array([30, 31], np.int32), {"candidates": 1}, _VOCAB)
    shortlist.candidates_VK[10, 0] = 40
    found = coverage(shortlist, Pairs([np.array([10]), np.array([11])], [np.array([40, 30]), np.array([40, 31])]))
    assert (found.share_of_tokens, found.share_of_sentences, found.mean_ids) == (0.75, 0.5, 3.5)


def test_what_is_chosen_is_among_what_is_shown() -> None:
    pairs, held_out = hold_out(made_pairs())
    assert (len(pairs), len(held_out)) == (180, 20)
    shortlist, shown = learn_shortlist(learned(pairs), held_out, num_candidates=3, num_frequent=0)
    assert [each.num_candidates for each in shown] == [3, 10, 20, 50, 100, 200]
    assert shown[0].share_of_tokens == shortlist.facts["coverage"]["share_of_tokens"] == 1.0
    assert [each.mean_ids for each in shown] == sorted(each.mean_ids for each in shown)
    with pytest.raises(ConfigError, match="0 candidates"):
        learn_shortlist(learned(pairs), held_out, num_candidates=0, num_frequent=300)
    with pytest.raises(DataError, match="nothing to learn"):
        learned(Pairs([], []))


def test_of_many_pairs_some_are_read_evenly_spread(tmp_path: Path) -> None:
    tokenizer = made_tokenizer()
    for name in ("a", "b"):
        (tmp_path / name).write_text("".join(f"{name} dog {number}\n" for number in range(100)) + "\n")
    found = read_files((tmp_path / "a", tmp_path / "b"), tokenizer, 10)
    assert [tokenizer.decode(ids.tolist()) for ids in found.targets[:3]] == ["b dog 0", "b dog 10", "b dog 20"]
    assert len(read_files((tmp_path / "a", tmp_path / "b"), tokenizer, 1000)) == 100  # not the empty pair


@pytest.mark.parametrize(
    ("num_source", "num_target", "is_kept"),
    [(1, 1, True), (256, 256, True), (257, 1, False), (1, 257, False), (0, 1, False), (1, 0, False)],
)
def test_pairs_have_words_on_both_sides_and_no_more_than_256(num_source: int, num_target: int, is_kept: bool) -> None:
    found = Pairs([], [])
    _add(found, [[5], [6] * num_source], [[7], [8] * num_target])
    assert (len(found), found.sources[0].tolist(), found.targets[0].tolist()) == (1 + is_kept, [5], [7])


@pytest.mark.parametrize(("count", "held"), [(9, 0), (10, 1), (9_999, 999), (10_000, 1000), (20_000, 1000)])
def test_a_tenth_is_held_out_and_at_most_a_thousand(count: int, held: int) -> None:
    numbers = np.arange(count)
    rest, held_out = hold_out(Pairs([*numbers], [*-numbers]))
    assert (len(rest), len(held_out)) == (count - held, held)
    assert sorted([*rest.sources, *held_out.sources]) == numbers.tolist()
    assert [-each for each in held_out.targets] == held_out.sources == [i * count // held for i in range(held)]


def test_a_shortlist_says_what_it_was_learned_from() -> None:
    pairs, held_out = hold_out(made_pairs(50))
    shortlist, _ = learn_shortlist(learn(pairs, _VOCAB, iterations=2), held_out, num_candidates=3, num_frequent=4)
    found = shortlist.facts.pop("coverage")
    assert shortlist.facts == {"pairs": 45, "iterations": 2, "candidates": 3, "frequent": 4}
    assert (found["num_candidates"], found["pairs"]) == (3, 5)
    with pytest.raises(ConfigError, match="3 candidates and -1 frequent pieces: at least 1 and 0"):
        learn_shortlist(learned(pairs), held_out, num_candidates=3, num_frequent=-1)


def test_special_ids_are_no_frequent_targets() -> None:
    targets = [np.array([0, 1, 2, 2, 2, 3, 9], np.int32)]
    made = learn(Pairs([np.array([5], np.int32)], targets), 12, iterations=1)
    assert sorted(made.by_frequency.tolist()) == [3, 9]  # unknown pieces occur in text, the others do not


# --- the file -------------------------------------------------------------------------------------------------


def test_a_shortlist_comes_back_as_it_was_saved(bundle: Bundle) -> None:
    found, saved = load_shortlist(bundle), made_shortlist()
    assert np.array_equal(found.candidates_VK, saved.candidates_VK)
    assert np.array_equal(found.frequent_F, saved.frequent_F)
    assert found.facts == saved.facts


def test_a_missing_foreign_or_damaged_shortlist_is_refused(tmp_path: Path) -> None:
    bundle = made_bundle(tmp_path / "model")
    with pytest.raises(BundleError, match=r"has no shortlist.*transduce shortlist"):
        load_shortlist(bundle)
    path = save_shortlist(bundle, made_shortlist())
    other = SubwordTokenizer.train(["other text is this"] * 3, algorithm="bpe", vocab_size=_VOCAB)
    other.save(tmp_path / "model" / "tokenizer.json")
    shape = replace(bundle.config.model, vocab_size=other.vocab_size)
    checksums = {"tokenizer.json": sha256(tmp_path / "model" / "tokenizer.json")}
    with pytest.raises(BundleError, match="another tokenizer"):
        load_shortlist(Bundle(bundle.path, replace(bundle.config, model=shape), checksums))
    made_tokenizer().save(tmp_path / "model" / "tokenizer.json")
    save_shortlist(bundle, replace(made_shortlist(), frequent_F=np.array([_VOCAB], np.int32)))
    with pytest.raises(BundleError, match="damaged"):
        load_shortlist(bundle)
    save_shortlist(bundle, made_shortlist())
    data = bytearray(path.read_bytes())
    data[-3] ^= 1  # of an id, so that it is another one of the vocabulary
    path.write_bytes(data)
    with pytest.raises(BundleError, match="changed or damaged: its checksum differs"):
        load_shortlist(bundle)
    arrays = {"candidates": np.zeros((_VOCAB, 2), np.float32), "frequent": np.zeros(1, np.float32)}
    metadata = {"format": "1", "facts": "{}", "tokenizer_fingerprint": bundle.tokenizer.fingerprint}
    save_file(arrays, path, metadata)
    with pytest.raises(BundleError, match="damaged: its ids are not those of"):
        load_shortlist(bundle)
    save_file({name: array.astype(np.int32) for name, array in arrays.items()}, path, metadata)
    assert load_shortlist(bundle).facts == {}  # as 0.1.0 wrote them, without a checksum
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(BundleError, match="cannot be read"):
        load_shortlist(bundle)


def test_translations_depend_on_the_shortlist_where_one_is_used(bundle: Bundle) -> None:
    narrow, whole = (Translator.load(bundle.path, engine="torch", shortlist=wish).checksums for wish in ("on", "off"))
    assert narrow == whole | {"the model's shortlist": sha256(bundle.path / FILE)}


def test_who_gets_a_shortlist(bundle: Bundle, tmp_path: Path) -> None:
    without = made_bundle(tmp_path / "model")
    assert not uses_shortlist(bundle, "torch", "off")
    assert uses_shortlist(bundle, "torch", "auto")
    assert not uses_shortlist(bundle, "ctranslate2", "auto")  # there, neighbours matter
    assert uses_shortlist(bundle, "ctranslate2", "on")
    assert not uses_shortlist(without, "torch", "auto")
    for load in (load_shortlist, lambda each: converted(each, "int8", shortlisted=True)):
        with pytest.raises(BundleError, match="has no shortlist"):
            load(without)
    with pytest.raises(ConfigError, match="one of on, off, auto"):
        uses_shortlist(without, "torch", "maybe")


def test_what_the_other_engine_cannot_do_is_searched_in_the_shortlist_of_torch(bundle: Bundle) -> None:
    lines, draws = ["A dog runs.", "a man with a ball"], {"temperature": 1.0, "seed": 3}
    automatic = Translator.load(bundle.path, device="cpu", shortlist="auto")
    narrow, whole = (Translator.load(bundle.path, engine="torch", shortlist=wish) for wish in ("auto", "off"))
    assert automatic.translate(lines) == whole.translate(lines)  # by ctranslate2, which has none of its own
    found = automatic.translate(lines, **draws)  # type: ignore[arg-type]
    assert found == narrow.translate(lines, **draws) != whole.translate(lines, **draws)  # type: ignore[arg-type]
    assert automatic.checksums == narrow.checksums


def test_a_map_has_the_first_ordinary_piece_and_no_special_one() -> None:
    """Row by row: the piece, a tab, its candidates; that of a piece without any is left out."""
    table = np.full((7, 2), EOS, np.int32)
    table[0], table[3], table[4], table[5] = (5, 6), (3, 6), (4, EOS), (5, 6)
    names = ["<pad>", "<s>", "</s>", "<unk>", "a", "b", "c"]
    found = Shortlist(table, np.array([6, 4], np.int32), {}, len(table)).vocabulary_map(names, names)
    assert list(found) == ["\tc a", "a\ta", "b\tb c"]


@pytest.mark.parametrize("format", ["0", "2"])
def test_another_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    bundle = made_bundle(tmp_path / "model")
    with monkeypatch.context() as patch:
        patch.setattr("transduce.engines.shortlist.table._FORMAT", format)
        save_shortlist(bundle, made_shortlist())
    with pytest.raises(BundleError, match=rf"format {format}, but this version reads format 1\)\. .*--overwrite"):
        load_shortlist(bundle)


# --- the torch engine -----------------------------------------------------------------------------------------


def own_part(source: list[int]) -> set[int]:
    return set(np.flatnonzero(made_shortlist().allowed([source])[0]).tolist())


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_narrow_projection_has_the_columns_of_the_whole(bundle: Bundle, precision: str) -> None:
    model = Transformer(bundle.config.model)
    model.load_weights(bundle.weights())
    packed, ids = prepack(model, precision), torch.tensor([0, 1, 2, 3, 17, 90, 201])  # type: ignore[arg-type]
    with torch.inference_mode():
        states = torch.randn(9, bundle.config.model.d_model, generator=torch.Generator().manual_seed(0))
        narrow, whole = narrow_projection(packed, ids)(states), packed.logits(states)[:, ids]
        assert torch.equal(narrow, whole) if precision == "int8" else torch.allclose(narrow, whole, atol=1e-5)
        assert torch.allclose(narrow_projection(model, ids)(states), model.logits(states)[:, ids], atol=1e-5)


def translate_masked(engine: TorchEngine, source: list[int], options: DecodeConfig, n_best: int) -> list[Hypothesis]:
    """Returns what is found where the whole projection gives nothing outside of the source's part."""
    step, banned = engine.model.step, torch.tensor(sorted(set(range(_VOCAB)) - own_part(source)))

    def masked_step(tokens_R: torch.Tensor, state: DecoderState) -> tuple[torch.Tensor, DecoderState]:
        logits_RV, state = step(tokens_R, state)
        logits_RV[:, banned] = -torch.inf
        return logits_RV, state

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine.model, "step", masked_step)
        [found] = engine.translate([source], options, n_best)
    return found


@pytest.mark.parametrize(
    "options",
    [
        _OPTIONS,
        replace(_OPTIONS, beam_size=1),
        replace(_OPTIONS, coverage_penalty=0.2),
        replace(_OPTIONS, diversity_groups=2),
        replace(_OPTIONS, no_repeat_ngram=2, min_tokens=3),
        replace(_OPTIONS, beam_size=1, temperature=1.0, top_p=0.9, seed=3),
    ],
    ids=["beam", "greedy", "coverage", "diverse", "restricted", "drawn"],
)
def test_a_search_is_that_of_the_whole_vocabulary_with_the_rest_at_no_probability(
    bundle: Bundle, options: DecodeConfig
) -> None:
    engine = TorchEngine.load(bundle, device="cpu", shortlist=load_shortlist(bundle))
    plain = TorchEngine.load(bundle, device="cpu")
    sources = [source for source in made_sources(9) if source]
    n_best = 3 if options.beam_size > 1 or options.temperature else 1
    for source, found in zip(sources, engine.translate(sources, options, n_best), strict=True):
        expected = translate_masked(plain, source, options, n_best)
        assert [(h.ids, h.finished) for h in found] == [(h.ids, h.finished) for h in expected]
        assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=1e-4)
        assert {index for h in found for index in h.ids} <= own_part(source)
        assert not {PAD, BOS, EOS, UNK} & {index for h in found for index in h.ids}


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_translation_depends_on_its_own_line_only(bundle: Bundle, precision: str) -> None:
    engine = TorchEngine.load(bundle, device="cpu", precision=precision, shortlist=load_shortlist(bundle))  # type: ignore[arg-type]
    sources = made_sources(16, seed=4)
    order = random.Random(5).sample(range(len(sources)), k=len(sources))
    alone = engine.translate(sources, replace(_OPTIONS, batch_size=1), 4)
    assert_same(alone, engine.translate(sources, replace(_OPTIONS, batch_size=64), 4))
    shuffled = engine.translate([sources[place] for place in order], replace(_OPTIONS, batch_size=5), 4)
    assert_same([alone[place] for place in order], shuffled)


def test_many_outputs_that_are_drawn_keep_to_the_part_of_their_own_source(bundle: Bundle) -> None:
    """More than share one past: the sources of a batch are repeated for them."""
    engine = TorchEngine.load(bundle, device="cpu", shortlist=load_shortlist(bundle))
    sources = [source for source in made_sources(6, seed=9) if source]
    drawn = replace(_OPTIONS, beam_size=1, temperature=1.0, seed=3, max_extra_tokens=3)
    together = engine.translate(sources, drawn, 20)
    for source, found in zip(sources, together, strict=True):
        assert len(found) == 20
        assert {index for h in found for index in h.ids} <= own_part(source)
    assert_same(engine.translate(sources, replace(drawn, batch_size=1), 20), together)


def assert_same(expected: list[list[Hypothesis]], found: list[list[Hypothesis]]) -> None:
    for ours, theirs in zip(expected, found, strict=True):
        assert [(h.ids, h.finished) for h in ours] == [(h.ids, h.finished) for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-4)


def test_a_prefix_from_outside_of_the_shortlist_holds_and_forbidden_phrases_do_not_come(bundle: Bundle) -> None:
    engine = TorchEngine.load(bundle, device="cpu", shortlist=load_shortlist(bundle))
    sources = [source for source in made_sources(12, seed=6) if source]
    free = engine.translate(sources, _OPTIONS)
    outside = [next(i for i in range(100, _VOCAB) if i not in own_part(source)) for source in sources]
    asked = [TokenConstraints(prefix=(index,), completions=((index + 1, 7),)) for index in outside]
    for prefix, [best] in zip(outside, engine.translate(sources, _OPTIONS, constraints=asked), strict=True):
        assert best.ids[0] in (prefix, prefix + 1, 7)
    first = [best.ids[0] if best.ids else 9 for [best] in free]
    asked = [
        TokenConstraints(forbidden=((index,), (index, other))) for index, other in zip(first, outside, strict=True)
    ]
    for index, [best] in zip(first, engine.translate(sources, _OPTIONS, constraints=asked), strict=True):
        assert index not in best.ids


def test_an_ensemble_of_one_model_twice_says_what_the_model_says(bundle: Bundle) -> None:
    shortlist = load_shortlist(bundle)
    alone = TorchEngine.load(bundle, device="cpu", shortlist=shortlist)
    twice = TorchEngine.load(bundle, device="cpu", others=[bundle], shortlist=shortlist)
    sources = made_sources(15, seed=7)
    assert_same(alone.translate(sources, _OPTIONS, 2), twice.translate(sources, _OPTIONS, 2))


def test_forced_scores_are_those_of_the_whole_vocabulary_and_lower(bundle: Bundle) -> None:
    engine, plain = (TorchEngine.load(bundle, device="cpu", shortlist=s) for s in (load_shortlist(bundle), None))
    sources = [source for source in made_sources(10, seed=8) if source]
    found = [best for [best] in engine.translate(sources, _OPTIONS)]
    scores = engine.score(sources, [best.ids for best in found])
    assert scores == plain.score(sources, [best.ids for best in found])
    for best, tokens in zip(found, scores, strict=True):
        assert best.log_probability > sum(tokens if best.finished else tokens[:-1])
    assert "shortlist" in engine.name
    assert "shortlist" not in plain.name


# --- the ctranslate2 engine -----------------------------------------------------------------------------------


def test_ctranslate2_writes_with_the_shortlists_of_the_batch(bundle: Bundle) -> None:
    engine = CTranslate2Engine.load(bundle, device="cpu", threads=1, shortlisted=True)
    reference = TorchEngine.load(bundle, device="cpu", shortlist=load_shortlist(bundle))
    sources = [source for source in made_sources(30, seed=9) if source]
    alone, greedy = replace(_OPTIONS, batch_size=1), replace(_OPTIONS, batch_size=1, beam_size=1)
    for source, found in zip(sources, engine.translate(sources, alone, 4), strict=True):
        assert {index for h in found for index in h.ids} <= own_part(source)
    ours, theirs = reference.translate(sources, greedy), engine.translate(sources, greedy)
    same = [a.ids == b.ids for [a], [b] in zip(ours, theirs, strict=True)]
    assert sum(same) >= len(same) - 2  # BOS and unknown take part in CTranslate2's softmax, and in nothing else
    union = set().union(*(own_part(source) for source in sources))
    together = engine.translate(sources, replace(_OPTIONS, batch_size=64))
    assert {index for [best] in together for index in best.ids} <= union
    assert "shortlist" in engine.name


def test_ctranslate2_keeps_prefixes_and_bans_with_a_shortlist(bundle: Bundle) -> None:
    engine = CTranslate2Engine.load(bundle, device="cpu", threads=1, shortlisted=True)
    source = [20, 21, 22, 23]
    outside = [index for index in range(100, _VOCAB) if index not in own_part(source)][:2]
    [[best]] = engine.translate([source], _OPTIONS, constraints=[TokenConstraints(prefix=(outside[0],))])
    assert best.ids[0] == outside[0]
    [[free]] = engine.translate([source], _OPTIONS)
    banned = TokenConstraints(forbidden=((free.ids[0],), (outside[1],)))
    [[other]] = engine.translate([source], _OPTIONS, constraints=[banned])
    assert free.ids[0] not in other.ids


def test_conversions_with_and_without_a_shortlist_stay_side_by_side(tmp_path: Path) -> None:
    bundle = made_bundle(tmp_path / "model")
    save_shortlist(bundle, made_shortlist())
    plain, mapped = converted(bundle, "int8"), converted(bundle, "int8", shortlisted=True)
    assert plain is not None
    assert mapped is not None
    assert converted(bundle, "int8") == plain != mapped
    assert not (plain / "vmap.txt").exists()
    names = bundle.tokenizer.tokens()
    lines = (mapped / "vmap.txt").read_text(encoding="utf-8").split("\n")
    assert lines[0] == "\t" + " ".join(names[index] for index in (50, 60, 70))
    row = next(line for line in lines if line.startswith(f"{names[40]}\t"))
    assert row.split("\t")[1].split(" ") == [names[i] for i in made_shortlist().candidates_VK[40].tolist() if i != EOS]
    save_shortlist(bundle, made_shortlist(seed=1))
    newer = converted(bundle, "int8", shortlisted=True)
    assert newer != mapped
    assert plain.exists()
    assert not mapped.exists()
