"""A folder of CTranslate2 as it was downloaded, run by CTranslate2 with its own vocabulary and tokenizer.

It computes in float32 what is stored, so that a difference is one of the import, and not of rounded products.
"""

import io
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import ctranslate2
import numpy as np

from transduce.config import Config
from transduce.config.choices import longest_sequence
from transduce.config.special_ids import UNK
from transduce.engines import ctranslate2_forced
from transduce.engines.ctranslate2 import CTranslate2Engine
from transduce.engines.ctranslate2_loading import load_model
from transduce.engines.tagged import with_tags
from transduce.export.ctranslate2_settings import SETTINGS, Settings
from transduce.export.ctranslate2_vocabulary import Vocabulary
from transduce.export.foreign_files import ForeignFiles
from transduce.export.foreign_vocabulary import repeated
from transduce.export.huggingface_weights import NEVER_WRITTEN
from transduce.export.system import Forced, System
from transduce.text import SentencePieceTokenizer, Tokenizer
from transduce.translation.directions import Directions, tag_ids

_MODEL_FILES = ("model.bin", SETTINGS)


class _Engine(CTranslate2Engine):
    """Searches in the original's own vocabulary; appends the end of sources where CTranslate2 does not."""

    appended: tuple[str, ...] = ()

    def _source_named(self, ids: Sequence[int]) -> list[str]:
        return [*super()._source_named(ids), *self.appended]


class OriginalSystem(System):
    """The original folder, on the CPU."""

    def __init__(self, files: ForeignFiles, vocabulary: Vocabulary, settings: Settings, config: Config) -> None:
        tokenizer = vocabulary.tokenizer.tokenizer
        model = load_model(_files(files), "cpu", 0, "float32", None)
        self._orders = vocabulary.tokenizer.both
        self._repeated = repeated(self._orders[1])
        self._num_targets = len(vocabulary.target)
        names = [
            [theirs[index] for index in order.tolist()]
            for theirs, order in zip((vocabulary.source, vocabulary.target), self._orders, strict=True)
        ]
        for index in self._repeated:  # never written, as the unknown token
            names[1][index] = names[1][UNK]
        self._ours = {name: index for index, name in enumerate(names[0])}
        self._untagged = _Engine(
            model, (names[0], names[1]), config.model, "ctranslate2", tags=tokenizer.target.tags.values()
        )
        if settings.has_source_end and not settings.adds_source_end:
            self._untagged.appended = (settings.end,)
        self._tags, self._first = tag_ids(tokenizer, Directions.of_data(tokenizer, config.data).example())
        self.engine = with_tags(self._untagged, (), self._first)  # sources have their tags already
        self.name = f"ctranslate2 {ctranslate2.__version__}, the original, in float32"
        self.num_positions = longest_sequence(config.model)
        self._tokenizer, self._options = tokenizer, config.decode
        self._processor = _processor(tokenizer)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns our ids of the pieces that SentencePiece alone gives, after the tags of the default direction."""
        if self._processor is None:
            return [[*self._tags, *ids] for ids in self._tokenizer.encode_batch(lines)]
        get = self._ours.get
        return [
            [*self._tags, *(get(piece, UNK) for piece in pieces)]
            for pieces in self._processor.encode(list(lines), out_type=str)
        ]

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Translates as the imported model's configuration says, in the default direction."""
        found = self.engine.translate(self.encode(lines), self._options)
        return self._tokenizer.target.decode_batch([best[0].ids for best in found])

    def force(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Forced]:
        """Scores the targets as CTranslate2 does, and finds the most probable next token after each prefix of them."""
        scores = self.engine.score(sources, targets)
        found = zip(super().force(sources, targets), scores, strict=True)
        return [replace(each, log_probabilities=of_target) for each, of_target in found]

    def logits(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Iterable[np.ndarray]:
        """Returns log-probabilities, which are logits, too; a pair at a time, because a vocabulary of them is large."""
        for source, target in zip(sources, targets, strict=True):
            pairs = self._untagged._pairs([source], [[*self._first, *target]])
            [theirs_TV] = ctranslate2_forced.next_scores(
                self._untagged._model, *pairs, [slice(None)], self._num_targets
            )
            ours_TV = theirs_TV[len(self._first) :, self._orders[1]]
            ours_TV[:, self._repeated] = NEVER_WRITTEN
            yield ours_TV


def _files(files: ForeignFiles) -> Path | dict[str, IO[bytes]]:
    """Returns what CTranslate2 loads: the folder, or what it needs of an archive."""
    if files.path.is_dir():
        return files.path
    needed = [name for name in files.names() if name in _MODEL_FILES or "_vocabulary." in name]
    made: dict[str, IO[bytes]] = {}
    for name in needed:
        with files.reading(name) as stream:
            made[name] = io.BytesIO(stream.read())
    return made


def _processor(tokenizer: Tokenizer) -> Any:
    """Returns SentencePiece itself for the source; None for a tokenizer of another kind."""
    if not isinstance(tokenizer, SentencePieceTokenizer) or not isinstance(tokenizer.models[0], bytes):
        return None
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor()
    processor.load_from_serialized_proto(tokenizer.models[0])
    return processor
