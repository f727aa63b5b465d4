"""A folder of Marian as CTranslate2 converts and runs it: an import is compared with that, not with Marian itself."""

import json
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import sentencepiece
from ctranslate2.converters import MarianConverter

from transduce.config import Config
from transduce.config.special_ids import UNK
from transduce.engines import ctranslate2_forced as forced
from transduce.export.foreign_vocabulary import ForeignTokenizer
from transduce.export.huggingface_weights import NEVER_WRITTEN
from transduce.export.marian_options import read_decoder
from transduce.export.marian_vocabulary import read_pieces, spm_files
from transduce.export.system import BATCH, System, in_batches
from transduce.translation.directions import Directions


class MarianSystem(System):
    """CTranslate2's own conversion, in float32 on the CPU; text is cut by the package `sentencepiece`.

    As in our engines, no output holds `<unk>`.
    """

    num_positions: int

    def __init__(self, folder: Path, config: Config, tokenizer: ForeignTokenizer) -> None:
        """Converts the folder into a temporary one, and loads that; `config` and `tokenizer` are the import's."""
        decoder = read_decoder(folder)
        self.name = f"ctranslate2 {ctranslate2.__version__}, its conversion of Marian's model (float32)"
        self.num_positions, self._decode = config.model.max_length, config.decode
        with tempfile.TemporaryDirectory(prefix="transduce-marian-") as temporary:
            vocabularies = [_readable(path, Path(temporary)) for path in decoder.vocabularies]
            converted = Path(temporary) / "model"
            MarianConverter(str(decoder.model), [*map(str, vocabularies)]).convert(str(converted))
            self._model = ctranslate2.Translator(str(converted), device="cpu", compute_type="float32")
            source, target = _names(converted)
        files = spm_files(folder, decoder.vocabularies)
        self._source_pieces, self._target_pieces = (sentencepiece.SentencePieceProcessor(str(file)) for file in files)
        order, self._target_order = tokenizer.both
        # Padding and start have no name there, and are never read.
        self._source_names = [*source, ""]
        self._target_names = [*target, ""]
        self._order, self._size = order, len(target)
        self._ours = {self._source_names[theirs]: ours for ours, theirs in enumerate(order)}
        self._tags = [
            tokenizer.tokenizer.tags[tag] for tag in Directions.of_data(tokenizer.tokenizer, config.data).example().tags
        ]

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns our ids of each line, after the tag of the default direction."""
        cut = self._source_pieces.encode(list(lines), out_type=str)
        return [[*self._tags, *(self._ours.get(piece, UNK) for piece in pieces)] for pieces in cut]

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Searches as CTranslate2 does, which divides by length^α; longer lines are cut, as by our engines."""
        results: list[str] = []
        for batch in in_batches(self.encode(lines), BATCH):
            sources = [self._source(ids[: self.num_positions - 1]) for ids in batch]
            found = self._model.translate_batch(
                sources,
                beam_size=self._decode.beam_size,
                length_penalty=self._decode.length_penalty,
                disable_unk=True,
                max_input_length=0,
                max_decoding_length=max(map(len, sources)) + self._decode.max_extra_tokens,
            )
            results += [self._target_pieces.decode(each.hypotheses[0]) for each in found]
        return [text.replace("\n", " ") for text in results]

    def logits(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Iterable[np.ndarray]:
        """Returns log-probabilities, which are logits, too; a pair at a time, because a vocabulary of them is large."""
        for source, target in zip(sources, targets, strict=True):
            prefix = [self._target_names[self._target_order[index]] for index in target]
            [scores_TV] = forced.next_scores(self._model, [self._source(source)], [prefix], [slice(None)], self._size)
            never_T1 = np.full((len(scores_TV), 1), NEVER_WRITTEN, np.float32)
            yield np.hstack([scores_TV, never_T1])[:, self._target_order]

    def _source(self, ids: Sequence[int]) -> list[str]:
        return [self._source_names[self._order[index]] for index in ids]


def _readable(path: Path, temporary: Path) -> Path:
    """Returns a vocabulary that CTranslate2's converter reads; the pieces of a SentencePiece model are listed."""
    if path.suffix != ".spm":
        return path
    listed = temporary / f"{path.stem}.yml"
    pieces = sorted(read_pieces(path).items(), key=lambda item: item[1])
    quoted = ((piece.replace("\\", "\\\\").replace('"', '\\"'), index) for piece, index in pieces)
    listed.write_text("".join(f'"{piece}": {index}\n' for piece, index in quoted), encoding="utf-8")
    return listed


def _names(converted: Path) -> list[list[str]]:
    """Returns the names of the source's and the target's ids, as CTranslate2 reads them."""
    shared = converted / "shared_vocabulary.json"
    paths = (
        [shared, shared]
        if shared.is_file()
        else [converted / f"{side}_vocabulary.json" for side in ("source", "target")]
    )
    found: list[Any] = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    return found
