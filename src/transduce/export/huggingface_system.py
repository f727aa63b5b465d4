"""A folder of `transformers`, run as its users run it: `AutoTokenizer`, `AutoModelForSeq2SeqLM`, `generate`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from transduce.config.special_ids import BOS, EOS
from transduce.engines.torch_search import padded
from transduce.errors import ExportError
from transduce.export.foreign_vocabulary import ForeignTokenizer, repeats_start
from transduce.export.huggingface_weights import NEVER_WRITTEN
from transduce.export.sentencepiece_files import opus_tag
from transduce.export.system import BATCH, System, in_batches
from transduce.translation.directions import Direction, tag_ids


class HuggingFaceSystem(System):
    """A folder that `transformers` loads; no code of the folder runs."""

    num_positions: int
    _first: Sequence[int] = ()  # what each output begins with
    _before = ""  # what each line begins with

    def __init__(
        self, folder: Path, tokenizer: ForeignTokenizer | None = None, direction: Direction | None = None
    ) -> None:
        """Loads it from `folder` alone. `tokenizer` gives their id of each of our ids, where they differ.

        Rows that are not in it, such as the one that a decoder starts from, come last. A model of several languages
        translates in `direction`.
        """
        local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        messages: Any = transformers.utils.logging
        messages.set_verbosity_error()
        messages.disable_progress_bar()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), **local)
        self.model, loading = transformers.AutoModelForSeq2SeqLM.from_pretrained(
            str(folder), dtype=torch.float32, output_loading_info=True, **local
        )
        wrong = {kind: sorted(loading[kind]) for kind in ("missing_keys", "unexpected_keys") if loading[kind]}
        if wrong:
            raise ExportError(f"{folder}: transformers {transformers.__version__} loads other weights: {wrong}.")
        self.model.eval()
        self.name = f"transformers {transformers.__version__}, {type(self.model).__name__}"
        self.num_positions = int(self.model.config.max_position_embeddings)
        self._bound_outputs(self.num_positions)
        sizes = self.model.config.vocab_size, self.model.get_output_embeddings().weight.size(0)
        orders = [np.zeros(0, np.int64)] * 2 if tokenizer is None else tokenizer.both
        self._source_ids, self._target_ids = (
            np.concatenate([order, np.setdiff1d(np.arange(int(size)), order)])
            for size, order in zip(sizes, orders, strict=True)
        )
        self._ours = {int(theirs): ours for ours, theirs in enumerate(self._source_ids)}
        self._repeats_start = tokenizer is not None and repeats_start(self._target_ids)
        if direction is not None and isinstance(self.tokenizer, transformers.MarianTokenizer):
            self._before = "".join(f"{opus_tag(tag)} " for tag in direction.tags)
        elif tokenizer is not None and direction is not None and direction.target_tags:
            self.tokenizer.src_lang = direction.source
            self._first = self._target_ids[tag_ids(tokenizer.tokenizer, direction)[1]].tolist()

    def _bound_outputs(self, num_positions: int) -> None:
        """Has `generate` end where the model's positions do, overriding the folder's generation_config.json."""
        settings = self.model.generation_config
        if settings.max_length is not None:
            settings.max_length = min(settings.max_length, num_positions)
        if settings.max_new_tokens is not None:
            settings.max_new_tokens = min(settings.max_new_tokens, num_positions - 1)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns our ids of each line; the EOS that the tokeniser appends is checked and taken off."""
        rows = self.tokenizer([self._before + line for line in lines])["input_ids"]
        ids = [[self._ours[index] for index in row] for row in rows]
        if any(not row or row[-1] != EOS for row in ids):
            raise ExportError(f"{self.name}: its tokenizer appends no end-of-sentence token.")
        return [row[:-1] for row in ids]

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Calls `generate` as the folder's generation_config.json has it; longer lines are cut, as by our engines."""
        results: list[str] = []
        cut = {"truncation": True, "max_length": min(self.tokenizer.model_max_length, self.num_positions)}
        for batch_lines in in_batches(lines, BATCH):
            tagged = [self._before + line for line in batch_lines]
            batch = self.tokenizer(tagged, return_tensors="pt", padding=True, **cut)
            if self._first:
                batch["forced_bos_token_id"] = self._first[0]
            with torch.inference_mode():
                written = self.model.generate(**batch)
            texts = [row[1 + len(self._first) :] for row in written]  # after the decoder's start
            results += self.tokenizer.batch_decode(texts, skip_special_tokens=True)
        return [text.replace("\n", " ") for text in results]

    def logits(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Iterable[np.ndarray]:
        """Runs the model over whole targets; see `System.logits`."""
        source_BS, lengths_B = padded([self._source_ids[[*source, EOS]].tolist() for source in sources])
        start = [int(self.model.config.decoder_start_token_id), *self._first]
        input_BT, _ = padded([[*start, *self._target_ids[[*target]].tolist()] for target in targets])
        mask_BS = (torch.arange(source_BS.size(1)) < lengths_B[:, None]).long()
        with torch.inference_mode():
            logits_BTV = self.model(input_ids=source_BS, attention_mask=mask_BS, decoder_input_ids=input_BT).logits
        logits_BTV = logits_BTV[:, len(self._first) :]
        chosen: np.ndarray = logits_BTV[:, :, torch.from_numpy(self._target_ids)].numpy()
        if self._repeats_start:
            chosen[:, :, BOS] = NEVER_WRITTEN
        return chosen
