"""Codes of languages: which name the same one, and what the tags of a model of many languages are made of."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from made_models import TEXT, made_bundle
from transduce.bundle import Bundle, save_bundle
from transduce.config import Config, DataConfig, DecodeConfig
from transduce.config.corpora import CorpusConfig, HeldOutSetConfig
from transduce.config.special_ids import BOS, EOS
from transduce.data.corpus_tags import CorpusTags
from transduce.decoding.scores import NEVER_GENERATED
from transduce.engines.ctranslate2 import CTranslate2Engine
from transduce.engines.interface import Engine, TokenConstraints
from transduce.engines.torch import TorchEngine, load_model
from transduce.errors import ConfigError
from transduce.serve.models import ServedPair
from transduce.serve.web.languages import grouped, language_name, served_language
from transduce.text.languages import codes_meant, same_language, without_region
from transduce.translation.directions import Direction, Directions
from transduce.translation.translator import Translator


@pytest.mark.parametrize(
    ("code", "language"),
    [
        *[("PT_br", "pt"), ("deu_Latn", "de"), ("zho_Hans", "zh"), ("ceb", "ceb"), ("eng", "en"), ("zul", "zu")],
        *[("arb_Arab", "ar"), ("arz_Arab", "arz"), ("cmn_Hans", "zh"), ("pes_Arab", "fa"), ("", "")],
    ],
)
def test_the_language_of_a_code_has_two_letters_where_it_can(code: str, language: str) -> None:
    assert without_region(code) == language


NLLB = ("eng_Latn", "deu_Latn", "zho_Hans", "zho_Hant", "por_Latn", "ceb_Latn")


@pytest.mark.parametrize(
    ("code", "known", "meant"),
    [
        ("DE", ("en", "de"), ["de"]),
        ("de-AT", ("en", "de"), ["de"]),
        ("deu", ("en", "de"), ["de"]),
        ("deu_Latn", ("en", "de"), ["de"]),
        ("de", ("eng", "deu"), ["deu"]),
        ("de", NLLB, ["deu_Latn"]),
        ("DEU-latn", NLLB, ["deu_Latn"]),
        ("ceb", NLLB, ["ceb_Latn"]),
        ("zh", NLLB, ["zho_Hans", "zho_Hant"]),
        ("zh-Hant", NLLB, ["zho_Hant"]),
        ("pt-BR", NLLB, ["por_Latn"]),
        ("pt", ("pt-BR", "pt-PT"), ["pt-BR", "pt-PT"]),
        ("fr", NLLB, []),
        ("ar", ("arb_Arab", "arz_Arab"), ["arb_Arab"]),
        ("fa", ("pes_Arab", "prs_Arab"), ["pes_Arab"]),
        ("zh", ("cmn", "cmn_Hans", "yue"), ["cmn"]),
    ],
)
def test_the_known_codes_that_are_meant(code: str, known: tuple[str, ...], meant: list[str]) -> None:
    assert codes_meant(code, known) == meant


@pytest.mark.parametrize(
    ("code", "known", "same"),
    [
        ("de", ("deu",), "deu"),
        ("deu", ("de",), "de"),
        ("de", NLLB, "deu_Latn"),
        ("zh", NLLB, "zh"),  # two fit
        ("de-AT", ("de",), "de-AT"),  # a region is a tag of its own, as it was
        ("DE", ("de",), "DE"),
        ("fr", NLLB, "fr"),
        ("", NLLB, ""),
    ],
)
def test_tags_are_those_that_a_vocabulary_has(code: str, known: tuple[str, ...], same: str) -> None:
    assert same_language(code, known) == same


def test_clients_may_use_either_code() -> None:
    assert [served_language(code, NLLB) for code in ("DE", "en-GB", "zh-TW", "fr")] == [
        "deu_Latn",
        "eng_Latn",
        "zho_Hant",
        None,
    ]
    assert (language_name("deu"), language_name("zho_Hans")) == ("German", "Chinese (Simplified)")


# --- tags of both languages ------------------------------------------------------------------------------------------


def data_of(*pairs: tuple[str, str], **changes: Any) -> DataConfig:
    corpora = tuple(CorpusConfig(files=("x",), source_language=one, target_language=two) for one, two in pairs)
    return DataConfig(corpora=corpora, **changes)


def test_tags_of_both_languages_and_of_the_target_only() -> None:
    held_out = (HeldOutSetConfig(files=("y",), source_language="de", target_language="en", domain="law"),)
    corpora = (CorpusConfig(files=("x",), source_language="en", target_language="de", domain="law", tag="bt"),)
    corpora += (CorpusConfig(files=("x",), source_language="de", target_language="en"),)
    data = DataConfig(corpora=corpora, validation_sets=held_out, language_tags="both")
    tags = CorpusTags.of(data)
    assert tags.train == (("<2en>", "<domain:law>", "<tag:bt>"), ("<2de>",))
    assert tags.train_targets == (("<2de>",), ("<2en>",))
    assert (tags.validation, tags.validation_targets) == ((("<2de>", "<domain:law>"),), (("<2en>",),))
    assert CorpusTags.of(data, ("eng", "deu_Latn")).train_targets == (("<2deu_Latn>",), ("<2eng>",))
    one = replace(data, language_tags="target")
    assert CorpusTags.of(one).train == (("<domain:law>", "<tag:bt>"), ())
    assert CorpusTags.of(one).train_targets == (("<2de>",), ("<2en>",))
    assert CorpusTags.of(replace(data, language_tags="source")).train_targets == ()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: data_of(("", "de"), language_tags="both"),
            r"'x' has source_language = '': .*language_tags = \"both\"",
        ),
        (lambda: data_of(("en", ""), language_tags="target"), r"'x' has target_language = '': .* = \"target\""),
        (
            lambda: DataConfig(format="trees", train=(("x",),), language_tags="target"),
            r"data\.language_tags = 'target': must be 'source' where data\.format is 'trees'",
        ),
    ],
)
def test_languages_that_tags_need_must_be_named(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


LETTERS = tuple(f"l{chr(97 + index)}" for index in range(24))
BOTH = Directions((("", ""),), ("en", "de", "fr"), ("law",), "both")
TUNED = Directions((("en", "deu"),), ("en", "de", "fr"), (), "both")
MANY = Directions((("", ""),), LETTERS, (), "both")


@pytest.mark.parametrize(
    ("known", "named", "source", "target"),
    [
        (BOTH, {"source": "EN", "target": "deu"}, "en", "de"),
        (TUNED, {}, "en", "de"),
        (TUNED, {"target": "fr"}, "en", "fr"),
        (TUNED, {"source": "fr", "target": "en"}, "fr", "en"),
    ],
)
def test_a_direction_between_any_two_languages(
    known: Directions, named: dict[str, str], source: str, target: str
) -> None:
    assert known.choose(**named) == Direction(source, target, "", False, (f"<2{source}>",), (f"<2{target}>",))


def test_what_is_not_named_or_not_known_of_many_languages() -> None:
    with pytest.raises(ConfigError) as error:
        BOTH.choose(target="de")
    expected = "this model translates between any two of its 3 languages: name them (--source-language missing). "
    assert str(error.value) == f"{expected}It knows: en, de, fr."
    with pytest.raises(ConfigError) as error:
        MANY.choose("lz", "la")
    expected = "source language 'lz': this model does not know it. It knows 24, such as "
    assert str(error.value).startswith(expected)
    assert "'transduce info' lists them all." in str(error.value)
    scripts = Directions((("", ""),), NLLB, (), "both")
    with pytest.raises(ConfigError, match=r"'zh': several fit: zho_Hans, zho_Hant\."):
        scripts.choose("en", "zh")
    assert BOTH.choose("en", "de", "law").tags == ("<2en>", "<domain:law>")
    assert (BOTH.example().source, BOTH.example().target) == ("de", "en")
    assert BOTH.example(source="en").target == "de"
    assert len(MANY.served(zero_shot=False)) == 24 * 23


def test_pairs_of_many_languages_are_one_group() -> None:
    def pairs(languages: tuple[str, ...], model: str) -> list[ServedPair]:
        return [ServedPair(a, b, model) for a in languages for b in languages if a != b]

    few, many = pairs(("en", "de"), "small"), pairs(LETTERS, "large")
    single, groups = grouped([*many, *few])
    assert single == few
    [(languages, model)] = groups
    assert (languages, model.model) == ([*LETTERS], "large")
    assert grouped(many[1:]) == (many[1:], [])  # one pair is missing


# --- a language as the first token of a target, and no tag in front of the source ------------------------------------


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A model of one language, whose targets begin with a tag, as some packages of Argos have it."""
    folder = tmp_path_factory.mktemp("first")
    tokenizer = made_bundle(folder / "plain").tokenizer.with_tags(["<2de>"])
    made = made_bundle(folder / "wide", ending=0.4, vocab_size=tokenizer.vocab_size)
    data = DataConfig(source_language="en", target_language="de", language_tags="target")
    return save_bundle(folder / "model", Config(model=made.config.model, data=data), made.weights(), tokenizer, {})


def test_a_first_token_of_the_target_alone(first: Bundle) -> None:
    """Both engines write what the most probable token at each step gives, one step after the other."""
    tag, model = first.tokenizer.tags["<2de>"], load_model(first).eval()
    translators = [
        Translator(kind.load(first), first.tokenizer, DecodeConfig(beam_size=1, max_tokens=7), first)
        for kind in (TorchEngine, CTranslate2Engine)
    ]
    for line in TEXT:
        source, written = torch.tensor([[*first.tokenizer.encode(line), EOS]]), [tag]
        memory = model.encode(source, torch.tensor([source.size(1)]))
        while len(written) <= 7:
            logits = model.decode(memory, torch.tensor([[*written, EOS]]))[0, -1]
            logits[[*NEVER_GENERATED, tag]] = -torch.inf
            if (token := int(logits.argmax())) == EOS:
                break
            written.append(token)
        for translator in translators:
            [[best]] = translator.translate_n_best([line], 1)
            assert list(best.ids) == written[1:]
            [scored] = translator.score([line], [best.text])
            assert scored.pieces[0] != "<2de>"
    assert BOS not in written


def test_sources_of_one_call_have_starts_of_one_length(first: Bundle) -> None:
    engines: tuple[Engine, ...] = (TorchEngine.load(first), CTranslate2Engine.load(first))
    for engine in engines:
        given = [TokenConstraints(start=(first.tokenizer.tags["<2de>"],)), TokenConstraints()]
        with pytest.raises(ConfigError, match="some sources have a 'start' and others do not"):
            engine.translate([[5], [6]], DecodeConfig(), 1, given)


def test_without_the_key_tags_are_in_front_of_sources() -> None:
    assert DataConfig().language_tags == "source"
    assert Directions((("en", "de"),), ("de", "fr"), ()).choose() == Direction("en", "de", "", False, ("<2de>",))
