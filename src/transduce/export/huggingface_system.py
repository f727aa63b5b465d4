"""A folder of `transformers`, run as its users run it: `AutoTokenizer`, `AutoModelForSeq2SeqLM`, `generate`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from transduce.config.special_ids import EOS
from transduce.engines.torch_search import padded
from transduce.errors import ExportError
from transduce.export.system import BATCH, System, in_batches


class HuggingFaceSystem(System):
    """A folder that `transformers` loads; nothing is unpickled and no code of the folder runs."""

    num_positions: int

    def __init__(self, folder: Path, order: np.ndarray | None = None) -> None:
        """Loads it from `folder` alone. `order` gives their id of each of our ids, where they differ.

        Rows that are not in `order`, such as the one that a decoder starts from, come last.
        """
        local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        messages: Any = transformers.utils.logging
        messages.set_verbosity_error()
        messages.disable_progress_bar()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), **local)
        self.model, loading = transformers.AutoModelForSeq2SeqLM.from_pretrained(
            str(folder), dtype=torch.float32, use_safetensors=True, output_loading_info=True, **local
        )
        wrong = {kind: sorted(loading[kind]) for kind in ("missing_keys", "unexpected_keys") if loading[kind]}
        if wrong:
            raise ExportError(f"{folder}: transformers {transformers.__version__} loads other weights: {wrong}.")
        self.model.eval()
        self.name = f"transformers {transformers.__version__}, {type(self.model).__name__}"
        self.num_positions = int(self.model.config.max_position_embeddings)
        self._bound_outputs(self.num_positions)
        ids, given = np.arange(int(self.model.config.vocab_size)), np.array([] if order is None else order, np.int64)
        self._theirs = np.concatenate([given, np.setdiff1d(ids, given)])
        self._ours = {int(theirs): ours for ours, theirs in enumerate(self._theirs)}

    def _bound_outputs(self, num_positions: int) -> None:
        """Has `generate` end where the model's positions do, overriding the folder's generation_config.json."""
        settings = self.model.generation_config
        if settings.max_length is not None:
            settings.max_length = min(settings.max_length, num_positions)
        if settings.max_new_tokens is not None:
            settings.max_new_tokens = min(settings.max_new_tokens, num_positions - 1)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Returns our ids of each line; the EOS that the tokeniser appends is checked and taken off."""
        rows = self.tokenizer(list(lines))["input_ids"]
        ids = [[self._ours[index] for index in row] for row in rows]
        if any(not row or row[-1] != EOS for row in ids):
            raise ExportError(f"{self.name}: its tokenizer appends no end-of-sentence token.")
        return [row[:-1] for row in ids]

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Calls `generate` as the folder's generation_config.json has it; longer lines are cut, as by our engines."""
        results: list[str] = []
        cut = {"truncation": True, "max_length": min(self.tokenizer.model_max_length, self.num_positions)}
        for batch_lines in in_batches(lines, BATCH):
            batch = self.tokenizer(list(batch_lines), return_tensors="pt", padding=True, **cut)
            with torch.inference_mode():
                written = self.model.generate(**batch)
            results += self.tokenizer.batch_decode(written, skip_special_tokens=True)
        return [text.replace("\n", " ") for text in results]

    def logits(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Iterable[np.ndarray]:
        """Runs the model over whole targets; see `System.logits`."""
        start = int(self.model.config.decoder_start_token_id)
        source_BS, lengths_B = padded([self._theirs[[*source, EOS]].tolist() for source in sources])
        input_BT, _ = padded([[start, *self._theirs[[*target]].tolist()] for target in targets])
        mask_BS = (torch.arange(source_BS.size(1)) < lengths_B[:, None]).long()
        with torch.inference_mode():
            logits_BTV = self.model(input_ids=source_BS, attention_mask=mask_BS, decoder_input_ids=input_BT).logits
        chosen: np.ndarray = logits_BTV[:, :, torch.from_numpy(self._theirs)].numpy()
        return chosen
