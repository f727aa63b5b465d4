"""Names and languages of corpora that a recipe leaves open."""

from transduce.config.corpora import CorpusConfig, filled_in


def test_corpora_without_a_name_are_called_after_their_files_and_never_alike() -> None:
    given = [
        CorpusConfig(files=("a/train.en.gz", "a/train.de.gz"), target_language="fr"),
        CorpusConfig(files=("b/train.en", "b/train.de"), source_language="nl"),
        CorpusConfig(files=("c/news 1.tsv",), name="train"),
        CorpusConfig(files=("c/news, 1.tsv.zst",)),
    ]
    found = [(each.name, each.source_language, each.target_language) for each in filled_in(given, "en", "de")]
    assert found == [("train-2", "en", "fr"), ("train-3", "nl", "de"), ("train", "en", "de"), ("news-1", "en", "de")]
