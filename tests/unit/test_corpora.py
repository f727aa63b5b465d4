"""Names and languages of corpora that a recipe leaves open, and sets that do not fit the corpora."""

from typing import Any

import pytest

from transduce.config import DataConfig
from transduce.config.corpora import CorpusConfig, HeldOutSetConfig, filled_in
from transduce.errors import ConfigError


def test_corpora_without_a_name_are_called_after_their_files_and_never_alike() -> None:
    given = [
        CorpusConfig(files=("a/train.en.gz", "a/train.de.gz"), target_language="fr"),
        CorpusConfig(files=("b/train.en", "b/train.de"), source_language="nl"),
        CorpusConfig(files=("c/news 1.tsv",), name="train"),
        CorpusConfig(files=("c/news, 1.tsv.zst",)),
    ]
    found = [(each.name, each.source_language, each.target_language) for each in filled_in(given, "en", "de")]
    assert found == [("train-2", "en", "fr"), ("train-3", "nl", "de"), ("train", "en", "de"), ("news-1", "en", "de")]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"domain": "laws"}, r"set 's': domain = 'laws' must be a domain of the corpora"),
        ({"target_language": "fr"}, r"set 's': 'fr' must be a target language of the corpora \(de\)"),
    ],
)
@pytest.mark.parametrize("kind", ["validation", "test"])
def test_sets_are_of_the_domains_and_languages_of_the_corpora(kind: str, values: dict[str, str], message: str) -> None:
    def data(**of_set: Any) -> DataConfig:
        corpora = (CorpusConfig(files=("x",), domain="law", source_language="en", target_language="de"),)
        sets: dict[str, Any] = {f"{kind}_sets": (HeldOutSetConfig(files=("y",), name="s", **of_set),)}
        return DataConfig(corpora=corpora, **sets)

    with pytest.raises(ConfigError, match=f"{kind} {message}"):
        data(**values)
    assert data(domain="law", target_language="de").corpora
