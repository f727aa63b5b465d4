"""Tags: ids that no text is encoded as and no search writes, in front of a source; and the directions they ask for."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_models import TEXT, made_bundle
from transduce.bundle import Bundle, save_bundle
from transduce.config import Config, DataConfig, DecodeConfig
from transduce.config.corpora import CorpusConfig, HeldOutSetConfig
from transduce.data.corpus_tags import CorpusTags
from transduce.engines.ctranslate2 import CTranslate2Engine
from transduce.engines.interface import Engine
from transduce.engines.tagged import tags_of, with_tags
from transduce.engines.torch import TorchEngine
from transduce.errors import ConfigError, TokenizerError
from transduce.text import EOS_TOKEN, SubwordTokenizer
from transduce.text.subword import Algorithm
from transduce.text.tags import source_tags
from transduce.translation.directions import Directions
from transduce.translation.pipeline import TextOptions
from transduce.translation.translator import Translator

TAGS = ("<2de>", "<2pt-BR>", "<domain:law>", "<tag:bt>")


@cache
def tagged(algorithm: Algorithm = "bpe") -> SubwordTokenizer:
    lines = (*TEXT, "a <2de> and <2de>", "<domain:law> <tag:bt>")
    return SubwordTokenizer.train(lines * 5, algorithm=algorithm, vocab_size=320).with_tags(TAGS)


# --- the vocabulary ---------------------------------------------------------------------------------------------------

SPELLED = st.lists(st.sampled_from((*TAGS, "<2fr>", "<", ">", "2de", " ", "dog", "<2", "de>", "é")), max_size=12)


@pytest.mark.parametrize("algorithm", ["bpe", "wordpiece"])
@given(parts=SPELLED, text=st.text(max_size=20))
@settings(max_examples=100, deadline=None)
def test_no_text_is_encoded_as_a_tag(algorithm: Algorithm, parts: list[str], text: str) -> None:
    tokenizer = tagged(algorithm)
    for each in ("".join(parts), " ".join(parts), text):
        if any("\ud800" <= character <= "\udfff" for character in each):
            continue
        ids = tokenizer.encode(each)
        assert not {*tokenizer.tags.values()} & {*ids}
        assert tokenizer.decode(ids) == each
        assert tokenizer.decode([*tokenizer.tags.values(), *ids]) == each


def test_tags_stand_behind_all_pieces_and_change_none() -> None:
    plain = SubwordTokenizer.train(TEXT * 3, algorithm="bpe", vocab_size=300)
    first = plain.with_tags(TAGS[:2])
    second = first.with_tags(TAGS)
    assert first.tags == {"<2de>": plain.vocab_size, "<2pt-BR>": plain.vocab_size + 1}
    assert {**second.tags} == {tag: plain.vocab_size + index for index, tag in enumerate(TAGS)}
    assert plain.tokens() == second.tokens()[: plain.vocab_size]
    assert second.vocab_size == plain.vocab_size + 4
    assert second.encode(TEXT[0]) == plain.encode(TEXT[0])
    assert second.with_tags(TAGS) is second
    assert second.fingerprint != first.fingerprint != plain.fingerprint
    assert SubwordTokenizer.from_json(second.to_json()).tags == second.tags
    mixed = plain.with_tags(["<2fr>", "<2de>", "<domain:web>", "<domain:law>"])  # in the order of their ids
    assert (mixed.target_languages, mixed.domains) == (("fr", "de"), ("web", "law"))
    definition = json.loads(mixed.to_json())
    definition["model"]["vocab"] = dict(sorted(definition["model"]["vocab"].items()))
    again = SubwordTokenizer.from_json(json.dumps(definition))
    assert (again.target_languages, again.domains) == (("fr", "de"), ("web", "law"))


def test_tags_are_shown_by_name_and_have_no_text() -> None:
    tokenizer = tagged()
    ids = [tokenizer.tags["<domain:law>"], *tokenizer.encode("dog")]
    assert tokenizer.pieces(ids)[0] == "<domain:law>"
    assert tokenizer.piece_bytes(ids)[0] == b""
    assert ids[0] not in tokenizer.ids_beginning_with(b"<")
    assert (tokenizer.target_languages, tokenizer.domains) == (("de", "pt-BR"), ("law",))


@pytest.mark.parametrize("name", ["<fr>", "2fr", "<2>", "<2 fr>", "<domain:>", "<2fr> ", "<2fré>"])
def test_what_is_no_tag_is_refused(name: str) -> None:
    with pytest.raises(TokenizerError, match="not the name of a tag"):
        tagged().with_tags([name])


def test_a_tag_of_a_name_with_other_characters_is_refused() -> None:
    with pytest.raises(TokenizerError, match="must consist of A-Z"):
        source_tags(domain="a b")
    assert source_tags(target_language="fr", corpus="bt", domain="law") == ("<2fr>", "<domain:law>", "<tag:bt>")


# --- which corpus has which tags --------------------------------------------------------------------------------------


def data_of(*targets: str, **changes: object) -> DataConfig:
    corpora = tuple(CorpusConfig(files=("x",), name=f"n{i}", target_language=t) for i, t in enumerate(targets))
    return DataConfig(corpora=corpora, source_language="en", **changes)  # type: ignore[arg-type]


def test_languages_have_tags_where_there_are_several() -> None:
    assert CorpusTags.of(data_of("de", "de")).all == []
    assert CorpusTags.of(data_of("de", "de"), known=("fr",)).train == (("<2de>",), ("<2de>",))
    sets = (HeldOutSetConfig(files=("y",), target_language="fr"),)
    tags = CorpusTags.of(data_of("de", "fr", validation_sets=sets))
    assert (tags.train, tags.validation, tags.all) == ((("<2de>",), ("<2fr>",)), (("<2fr>",),), ["<2de>", "<2fr>"])


def test_domain_and_tag_of_a_corpus_are_tags() -> None:
    corpora = (
        CorpusConfig(files=("x",), domain="law", tag="bt"),
        CorpusConfig(files=("y",), domain="law"),
        CorpusConfig(files=("z",)),
    )
    sets = (HeldOutSetConfig(files=("v",), domain="law"), HeldOutSetConfig(files=("w",)))
    tags = CorpusTags.of(DataConfig(corpora=corpora, validation_sets=sets))
    assert tags.train == (("<domain:law>", "<tag:bt>"), ("<domain:law>",), ())
    assert tags.validation == (("<domain:law>",), ())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"validation": ("v",)}, "'validation' has target_language = ''"),
        ({"validation_sets": (HeldOutSetConfig(files=("v",), target_language="it"),)}, "(de, fr)"),
        ({"validation": ("v",), "validation_sets": (HeldOutSetConfig(files=("v",)),)}, "their short form"),
        ({"target_language": "de", "validation_sets": (HeldOutSetConfig(files=("v",), domain="x"),)}, "a domain of"),
        ({"test_sets": (HeldOutSetConfig(files=("t",)),)}, "data.test_sets: 't' has target_language = ''"),
        ({"test_sets": (HeldOutSetConfig(files=("t",), target_language="it"),)}, "test set 't': 'it' must be"),
        ({"test": {"t": ("t",)}, "test_sets": (HeldOutSetConfig(files=("t",)),)}, "data.test"),
        ({"test_sets": (HeldOutSetConfig(files=("t",), name="a b", target_language="de"),)}, "name = 'a b'"),
        ({"test_sets": (HeldOutSetConfig(files=("t",), target_language="de", domain="ä"),)}, "domain = 'ä'"),
    ],
)
def test_held_out_sets_that_do_not_fit_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        data_of("de", "fr", **values)
    assert message in str(error.value)


def test_a_held_out_set_in_another_language_than_the_only_target_is_refused() -> None:
    sets = (HeldOutSetConfig(files=("t",), target_language="fr"),)
    with pytest.raises(ConfigError, match=r"test set 't': 'fr' must be a target language of the corpora \(de\)"):
        data_of("de", "de", test_sets=sets)
    with pytest.raises(ConfigError, match="validation set 't'"):
        data_of("de", "de", validation_sets=sets)
    assert data_of("", "", test_sets=sets).test_corpora[0].target_language == "fr"  # that of the corpora is not known


def test_test_sets_know_their_languages_in_both_forms() -> None:
    sets = (
        HeldOutSetConfig(files=("a.en", "a.fr"), target_language="fr"),
        HeldOutSetConfig(files=("b.tsv",), name="b"),
    )
    long = data_of("de", "fr", target_language="de", test_sets=sets)
    assert [(each.name, each.source_language, each.target_language) for each in long.test_corpora] == [
        ("a", "en", "fr"),
        ("b", "en", "de"),
    ]
    short = data_of("de", "fr", test={"any name": ("a.en", "a.fr")})  # old recipes may leave the language open
    assert [(each.name, each.target_language) for each in short.test_corpora] == [("any name", "")]


def test_several_target_languages_must_all_be_named() -> None:
    with pytest.raises(ConfigError, match="'n1' has target_language = ''"):
        data_of("de", "")
    with pytest.raises(ConfigError, match="domain = 'ä'"):
        CorpusConfig(files=("x",), domain="ä")


# --- directions -------------------------------------------------------------------------------------------------------

MANY = Directions((("en", "de"), ("en", "pt-BR"), ("de", "en")), ("de", "pt-BR", "en"), ("law",))


def test_a_direction_is_chosen() -> None:
    default = MANY.choose()
    assert (default.source, default.target, default.tags, default.zero_shot) == ("en", "de", ("<2de>",), False)
    assert MANY.choose(target="PT-br").tags == ("<2pt-BR>",)
    assert MANY.choose(target="en").source == "de"  # the only pair that writes English
    assert MANY.choose(target="de-AT").target == "de"
    assert MANY.choose(target="de", domain="law").tags == ("<2de>", "<domain:law>")
    assert not MANY.choose(source="de", target="en").zero_shot


def test_another_source_language_is_zero_shot_for_a_model_of_several() -> None:
    into_english = Directions((("de", "en"), ("fr", "en")), (), ())
    assert into_english.choose(source="es").zero_shot
    assert not into_english.choose(source="fr-CA").zero_shot
    assert not Directions((("de", "en"),), (), ()).choose(source="nl").zero_shot  # it may split sentences by it


def test_an_untrained_pair_is_zero_shot() -> None:
    direction = MANY.choose(source="de", target="pt-BR")
    assert direction.zero_shot
    assert direction.notice == "de → pt-BR is zero-shot: the model was not trained on this pair."
    assert MANY.choose().notice == ""


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"target": "fr"}, "target language 'fr': this model does not know it. It knows: de, pt-BR, en."),
        ({"source": "fr"}, "source language 'fr': this model does not know it. It knows: en, de, pt-BR."),
        ({"domain": "lw"}, "domain 'lw': this model does not know it. It knows: law. Did you mean 'law'?"),
    ],
)
def test_what_a_model_does_not_know_is_refused_with_a_list(asked: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        MANY.choose(**asked)
    assert str(error.value) == message


def test_a_model_of_one_pair_knows_its_own_target_only() -> None:
    one = Directions((("en", "de"),), (), ())
    assert one.choose("xx", "de").tags == ()  # its source is a hint for splitting sentences, and may be any
    with pytest.raises(ConfigError, match=r"target language 'fr': .* It knows: de\."):
        one.choose(target="fr")
    with pytest.raises(ConfigError, match=r"It has no domain to choose\."):
        one.choose(domain="law")


# --- engines ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A random model of which every third token of the vocabulary is a tag."""
    folder = tmp_path_factory.mktemp("tagged")
    plain = made_bundle(folder / "plain", ending=0.4)
    tokenizer = plain.tokenizer.with_tags([*TAGS, *(f"<tag:x{n}>" for n in range(plain.tokenizer.vocab_size // 2))])
    made = made_bundle(folder / "wide", ending=0.4, vocab_size=tokenizer.vocab_size)
    corpora = tuple(
        CorpusConfig(files=("x",), source_language="en", target_language=language) for language in ("de", "pt-BR")
    )
    config = Config(name="tagged", model=made.config.model, data=DataConfig(corpora=corpora))
    return save_bundle(folder / "model", config, made.weights(), tokenizer, {})


@pytest.fixture(scope="module", params=["torch", "ctranslate2"])
def engine(bundle: Bundle, request: pytest.FixtureRequest) -> Engine:
    return TorchEngine.load(bundle) if request.param == "torch" else CTranslate2Engine.load(bundle)


@pytest.mark.parametrize("options", [DecodeConfig(beam_size=1), DecodeConfig(beam_size=4)])
def test_no_search_writes_a_tag(bundle: Bundle, engine: Engine, options: DecodeConfig) -> None:
    sources = bundle.tokenizer.encode_batch([*TEXT, "dog", "two grass", "a ball over a man"])
    options = replace(options, max_extra_tokens=20)
    tags = {*bundle.tokenizer.tags.values()}
    for found in engine.translate(sources, options):
        assert found[0].ids
        assert not tags & {*found[0].ids}


def test_a_sample_holds_no_tag(bundle: Bundle) -> None:
    options = DecodeConfig(temperature=1.0, max_extra_tokens=20)
    found = TorchEngine.load(bundle).translate(bundle.tokenizer.encode_batch([*TEXT]), options, n_best=8)
    assert not {*bundle.tokenizer.tags.values()} & {token for each in found for draw in each for token in draw.ids}


def test_an_engine_with_tags_is_the_engine_with_tagged_sources(bundle: Bundle, engine: Engine) -> None:
    tags = [bundle.tokenizer.tags["<2de>"], bundle.tokenizer.tags["<domain:law>"]]
    sources, options = bundle.tokenizer.encode_batch([TEXT[0], "", TEXT[1]]), DecodeConfig(max_extra_tokens=10)
    tagged_sources = [[*tags, *source] if source else [] for source in sources]
    tagged_engine = with_tags(engine, tags)
    assert tagged_engine.translate(sources, options) == engine.translate(tagged_sources, options)
    targets = [[5, 6], [], [7]]
    assert tagged_engine.score(sources, targets) == engine.score(tagged_sources, targets)
    ours, theirs = tagged_engine.align(sources, targets), engine.align(tagged_sources, targets)
    assert [each.shape for each in ours] == [(2, len(sources[0])), (0, 0), (1, len(sources[2]))]
    assert (ours[0] == theirs[0][:, 2:]).all()
    assert (tagged_engine.next_scores(sources[0], [5]) == engine.next_scores(tagged_sources[0], [5])).all()
    assert tagged_engine.max_source_tokens == engine.max_source_tokens - 2
    assert (tags_of(tagged_engine), tags_of(engine)) == ((tuple(tags), ()), ((), ()))
    assert with_tags(engine, ()) is engine


def test_a_translator_writes_the_language_it_is_asked_for(bundle: Bundle) -> None:
    translator = Translator.load(bundle.path, engine="torch")
    default, german, portuguese = (
        translator.translate_n_best(TEXT, 1, text_options=TextOptions(target=target), max_extra_tokens=12)
        for target in ("", "de", "pt-BR")
    )
    assert default == german != portuguese
    text = [best.text for [best] in portuguese]
    assert translator.translate(TEXT, target="pt-BR", max_extra_tokens=12) == text
    ids = bundle.tokenizer.encode(TEXT[0])
    [[best]] = translator.engine.translate(
        [[bundle.tokenizer.tags["<2pt-BR>"], *ids]], replace(translator.options, max_extra_tokens=12)
    )
    assert tuple(best.ids) == portuguese[0][0].ids
    [scored] = translator.score([TEXT[0]], ["x"], target_language="pt-BR")
    assert [scored] != translator.score([TEXT[0]], ["x"])
    with pytest.raises(ConfigError, match="It knows: de, pt-BR"):
        translator.translate(["x"], target="fr")


def test_a_zero_shot_pair_is_told(bundle: Bundle) -> None:
    translator = Translator.load(bundle.path, engine="torch")
    with pytest.warns(UserWarning, match="de → pt-BR is zero-shot"):
        translator.translate(["dog"], target="pt-BR", text_options=TextOptions(language="de"), max_extra_tokens=2)


def test_attention_shows_the_tags(bundle: Bundle) -> None:
    found = Translator.load(bundle.path, engine="torch").attend("A dog", "ball", target_language="pt-BR")
    assert found.source_pieces[0] == "<2pt-BR>"
    assert found.source_pieces[-1] == EOS_TOKEN
    assert found.source_words[0] is None
    assert found.encoder.shape[-1] == len(found.source_pieces)


def test_alternatives_are_no_tags(bundle: Bundle) -> None:
    found = Translator.load(bundle.path, engine="torch").alternatives("A dog", "", 5, target_language="pt-BR")
    assert not any(bundle.tokenizer.tags.keys() & {each.word} for each in found)


def test_the_folder_of_a_tagged_model_keeps_its_tags(bundle: Bundle, tmp_path: Path) -> None:
    again = Bundle.load(bundle.path)
    assert again.tokenizer.tags == bundle.tokenizer.tags
    assert Directions.of(again.tokenizer, again).targets == ("de", "pt-BR")
