"""The tokeniser that a corpus is prepared with where none is learned: that of a model to start from, or of a file."""

from collections.abc import Sequence
from pathlib import Path

from transduce.config import Config, InitConfig
from transduce.config.ancestor import ancestor_folder
from transduce.config.home import expanded
from transduce.data.readers import read_lines
from transduce.errors import ConfigError, TokenizerError
from transduce.text import Tokenizer, load_tokenizer
from transduce.text.new_words import with_new_words

_FILE = "tokenizer.json"


def given_tokenizer(config: Config, path: Path | None = None) -> Tokenizer | None:
    """Returns the tokeniser of `path`, or that of `init.model` with the words of `[init]`; None: it is to be learned.

    Args:
        config: `init` counts.
        path: a `tokenizer.json`, or a folder with one.

    Raises:
        ConfigError: both are given, or `init.model` names no model folder.
        DataError: the file of words cannot be read.
        TokenizerError: the tokeniser cannot be read, or a word cannot be added to it.
    """
    if path is not None:
        if config.init.model:
            raise ConfigError(f"--tokenizer {path}: init.model has its own tokenizer. Leave one of them out.")
        return load_tokenizer(path / _FILE if path.is_dir() else path)
    if not config.init.model:
        return None
    tokenizer = ancestor_tokenizer(config.init)
    try:
        return with_new_words(tokenizer, _words(config.init))
    except TokenizerError as error:
        raise TokenizerError(f"New words of [init]: {error}") from None


def ancestor_tokenizer(init: InitConfig) -> Tokenizer:
    """Returns the tokeniser of the model to start from, without new words."""
    return load_tokenizer(ancestor_folder(init.model) / _FILE)


def _words(init: InitConfig) -> Sequence[str]:
    """Returns the words that `[init]` lists, here and in a file."""
    if not init.words_file:
        return init.words
    lines = map(str.strip, read_lines(expanded(init.words_file)))
    return [*init.words, *(line for line in lines if line)]
