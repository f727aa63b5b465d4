"""Which pair a translation is of where only some of it is asked for, and the tags that the model reads."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from text_engine import text_translator
from transduce.config import DataConfig
from transduce.config.corpora import CorpusConfig
from transduce.errors import ConfigError
from transduce.translation.directions import (
    Direction,
    Directions,
    default_tags,
    default_target,
    directed,
    languages_of,
)

PLAIN = text_translator().tokenizer
TAGGED = PLAIN.with_tags(["<2de>", "<2fr>", "<domain:law>"])


def data_of(*pairs: tuple[str, str], **own: str) -> DataConfig:
    """Returns the data of a model of corpora in these languages."""
    corpora = tuple(
        CorpusConfig(files=("x",), source_language=source, target_language=target) for source, target in pairs
    )
    return DataConfig(corpora=corpora, **own)  # type: ignore[arg-type]


def model_of(data: DataConfig | None, tokenizer: Any = TAGGED) -> Any:
    bundle = None if data is None else SimpleNamespace(config=SimpleNamespace(data=data))
    return cast(Any, SimpleNamespace(tokenizer=tokenizer, bundle=bundle, engine=text_translator().engine))


@pytest.mark.parametrize(
    ("data", "pairs"),
    [
        (DataConfig(train=(("a",),), source_language="en", target_language="de"), (("en", "de"),)),
        (DataConfig(train=(("a",),)), (("", ""),)),
        (data_of(("en", "de"), ("en", "fr"), ("en", "de")), (("en", "de"), ("en", "fr"))),  # each once
        (
            data_of(("en", "de"), ("en", "fr"), source_language="en", target_language="fr"),
            (("en", "fr"), ("en", "de")),  # that of the recipe is the first
        ),
        (
            data_of(("en", "de"), ("es", "fr"), ("en", "fr"), target_language="fr"),
            (("es", "fr"), ("en", "fr"), ("en", "de")),  # those into the language of the recipe
        ),
    ],
)
def test_the_pairs_of_a_model_are_those_of_its_corpora(data: DataConfig, pairs: tuple[tuple[str, str], ...]) -> None:
    found = Directions.of_data(TAGGED, data)
    assert (found.pairs, found.targets, found.domains) == (pairs, ("de", "fr"), ("law",))
    model = model_of(data)
    assert languages_of(model) == pairs[0]
    chosen = pairs[0][1] or "de"
    assert default_target(TAGGED, model.bundle) == chosen
    assert default_tags(TAGGED, model.bundle) == [TAGGED.tags[f"<2{chosen}>"]]
    assert default_target(PLAIN, model.bundle) == ""  # of one target language
    assert default_tags(PLAIN, model.bundle) == []


def test_a_model_without_a_folder_has_the_languages_of_its_tags() -> None:
    found = Directions.of(TAGGED, None)
    assert (found.pairs, found.targets, found.domains) == ((("", ""),), ("de", "fr"), ("law",))
    assert default_target(TAGGED, None) == "de"
    assert languages_of(model_of(None)) == ("", "")


MANY = Directions((("en", "de"), ("en", "fr"), ("es", "fr"), ("fr", "en")), ("de", "fr", "en"), ("law",))
ONE = Directions((("en", "de"),), (), ("law",))
TWO_SOURCES = Directions((("en", "de"), ("fr", "de")), (), ())
UNKNOWN = Directions((("", ""),), (), ())
NO_PAIRS = Directions((("", ""),), ("de", "fr"), ())


@pytest.mark.parametrize(
    ("known", "asked", "source", "target", "zero_shot"),
    [
        (MANY, {}, "en", "de", False),
        (MANY, {"target": "fr"}, "en", "fr", False),  # the model's own source, as it was trained on the pair
        (MANY, {"target": "en"}, "fr", "en", False),  # else that of the first pair
        (MANY, {"source": "es"}, "es", "de", True),
        (MANY, {"source": "es", "target": "fr"}, "es", "fr", False),
        (MANY, {"source": "de", "target": "fr"}, "de", "fr", True),  # a language that it writes
        (MANY, {"source": "EN_gb", "target": "DE-at"}, "en", "de", False),
        (ONE, {}, "en", "de", False),
        (ONE, {"source": "nl"}, "nl", "de", False),  # for the rules of its sentences
        (ONE, {"target": "DE"}, "en", "de", False),
        (TWO_SOURCES, {"source": "nl"}, "nl", "de", True),
        (TWO_SOURCES, {"source": "FR-ca"}, "FR-ca", "de", False),
        (UNKNOWN, {"source": "nl"}, "nl", "", False),
        (NO_PAIRS, {"source": "nl", "target": "fr"}, "nl", "fr", False),
    ],
)
def test_what_is_not_asked_for_is_the_default(
    known: Directions, asked: dict[str, str], source: str, target: str, zero_shot: bool
) -> None:
    tags = (f"<2{target}>",) if known.targets else ()
    assert known.choose(**asked) == Direction(source, target, "", zero_shot, tags)
    if known.domains:
        assert known.choose(**asked, domain="LAW") == Direction(
            source, target, "law", zero_shot, (*tags, "<domain:law>")
        )


@pytest.mark.parametrize(
    ("known", "asked", "message"),
    [
        (
            UNKNOWN,
            {"target": "de"},
            "target language 'de': this model does not know it. It has no target language to choose.",
        ),
        (ONE, {"target": "dx"}, "target language 'dx': this model does not know it. It knows: de."),
        (MANY, {"source": "it"}, "source language 'it': this model does not know it. It knows: en, es, fr, de."),
        (MANY, {"domain": "law-x"}, "domain 'law-x': this model does not know it. It knows: law."),
        (NO_PAIRS, {}, "this model has several target languages: name one (--target). It knows: de, fr."),
    ],
)
def test_what_is_not_known_is_refused(known: Directions, asked: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        known.choose(**asked)
    assert str(error.value).startswith(message)


def test_a_model_in_a_direction_reads_its_tags() -> None:
    data = data_of(("en", "de"), ("en", "fr"))
    asked: list[list[int]] = []
    model = model_of(data)
    model.engine.num_workers = model.engine.batch_tokens = 1
    model.engine.score = lambda sources, targets: asked.extend(sources) or [[]]
    found = directed(model, "en", "fr", "law")
    assert (found.direction.source, found.direction.target, found.direction.domain) == ("en", "fr", "law")
    assert (found.tokenizer, found.bundle, languages_of(found)) == (TAGGED, model.bundle, ("en", "fr"))
    found.engine.score([[9]], [[8]])
    directed(model).engine.score([[9]], [[8]])
    assert asked == [[TAGGED.tags["<2fr>"], TAGGED.tags["<domain:law>"], 9], [TAGGED.tags["<2de>"], 9]]


def test_pairs_that_are_served() -> None:
    trained = dict.fromkeys(MANY.pairs, False)
    assert MANY.served(zero_shot=False) == trained
    others = [("en", "en"), ("es", "de"), ("es", "en"), ("fr", "de"), ("fr", "fr")]
    assert MANY.served(zero_shot=True) == trained | {pair: True for pair in others if pair[0] != pair[1]}
    assert NO_PAIRS.served(zero_shot=True) == {}
