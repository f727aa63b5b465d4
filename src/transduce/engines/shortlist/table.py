"""The subwords that a translation may use, given its source: a table in the model folder, numpy only.

    shortlist.safetensors    candidates (V, K), frequent (F,); fingerprint of the tokenizer, facts, checksum

The shortlist of a sentence is the union of the candidates of its source subwords, the subwords that are frequent in all
targets, and EOS. It includes the subwords of the source, because names and numbers are copied.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from transduce import files
from transduce.bundle import Bundle
from transduce.config.special_ids import EOS
from transduce.config.tensors import read_tensors
from transduce.engines.shortlist import FILE, has_shortlist, require_shortlist
from transduce.errors import BundleError

_FORMAT = 1
_SPECIAL_IDS = 4


@dataclass(frozen=True, eq=False)
class Shortlist:
    """Candidates for each source id, and for all.

    Attributes:
        candidates_VK: int32; row s holds s itself and its most likely translations, best first; the rest of the row is
            EOS.
        frequent_F: int32, the most frequent targets.
        facts: how it was learned and what it covers, for display.
        vocab_size: of the target side.
    """

    candidates_VK: np.ndarray
    frequent_F: np.ndarray
    facts: dict[str, Any]
    vocab_size: int

    def allowed(self, sources: Sequence[Sequence[int] | np.ndarray]) -> np.ndarray:
        """Returns the ids that the translation of each source may use, (B, V), booleans."""
        allowed_BV = np.zeros((len(sources), self.vocab_size), dtype=np.bool_)
        allowed_BV[:, EOS] = True
        allowed_BV[:, self.frequent_F] = True
        for row, source in enumerate(sources):
            allowed_BV[row, self.candidates_VK[np.asarray(source, dtype=np.int64)].ravel()] = True
        return allowed_BV

    def vocabulary_map(self, sources: Sequence[str], targets: Sequence[str]) -> Iterator[str]:
        """Yields the lines of CTranslate2's `vmap.txt`: a source subword, a tab, its candidates separated by spaces.

        The line without a source subword is for all sentences; CTranslate2 adds EOS, BOS and unknown to them.
        """
        yield "\t" + " ".join(targets[index] for index in self.frequent_F.tolist())
        for source, row in enumerate(self.candidates_VK.tolist()):
            candidates = [targets[index] for index in row if index != EOS]
            if candidates and source >= _SPECIAL_IDS:
                yield f"{sources[source]}\t{' '.join(candidates)}"


def save_shortlist(bundle: Bundle, shortlist: Shortlist) -> Path:
    """Writes the shortlist into the model folder, atomically; an existing one is replaced."""
    path = bundle.path / FILE
    metadata = {
        "format": str(_FORMAT),
        "tokenizer_fingerprint": bundle.tokenizer.fingerprint,
        "facts": json.dumps(shortlist.facts),
    }
    arrays = {
        "candidates": np.ascontiguousarray(shortlist.candidates_VK, np.int32),
        "frequent": np.ascontiguousarray(shortlist.frequent_F, np.int32),
    }
    metadata["sha256"] = _checksum(arrays, metadata)
    with files.atomic_path(path) as temporary:
        save_file(arrays, temporary, metadata)
    return path


def load_shortlist(bundle: Bundle) -> Shortlist:
    """Reads the shortlist of a model folder.

    Raises:
        BundleError: there is none, it is damaged, or it is that of another tokenizer.
    """
    path = bundle.path / FILE
    remedy = f"'transduce shortlist {bundle.path} --overwrite' makes it again."
    require_shortlist(bundle)
    try:
        arrays, metadata = read_tensors(path)
        candidates, frequent = arrays["candidates"], arrays["frequent"]
        if metadata["format"] != str(_FORMAT):
            raise ValueError(f"format {metadata['format']}, but this version reads format {_FORMAT}")
        # Files of 0.1.0 have no checksum.
        if "sha256" in metadata and metadata["sha256"] != _checksum(arrays, metadata):
            raise ValueError("changed or damaged: its checksum differs")
        facts = dict(json.loads(metadata["facts"]))
        fingerprint = metadata["tokenizer_fingerprint"]
    except (BundleError, ValueError, KeyError, TypeError, RecursionError) as error:
        reason = str(error).removeprefix(f"{path}: cannot be read: ")
        raise BundleError(f"{path}: cannot be read ({reason}). {remedy}") from None
    if fingerprint != bundle.tokenizer.fingerprint:
        raise BundleError(f"{path}: was learned with another tokenizer than the model's. {remedy}")
    vocab_size, num_targets = bundle.tokenizer.vocab_size, bundle.tokenizer.target.vocab_size
    is_table = candidates.dtype == frequent.dtype == np.int32 and (candidates.ndim, frequent.ndim) == (2, 1)
    if not is_table or len(candidates) != vocab_size or not _within(num_targets, candidates, frequent):
        raise BundleError(f"{path}: damaged: its ids are not those of a vocabulary of {vocab_size} pieces. {remedy}")
    return Shortlist(candidates, frequent, facts, num_targets)


def shortlist_facts(bundle: Bundle) -> dict[str, Any] | None:
    """Returns how the model folder's shortlist was learned and what it covers, or None if it has none."""
    return load_shortlist(bundle).facts if has_shortlist(bundle) else None


def _checksum(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> str:
    """Returns the SHA-256 of everything in the file except this checksum."""
    digest = hashlib.sha256(json.dumps({**metadata, "sha256": ""}, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape} ".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _within(vocab_size: int, *arrays: np.ndarray) -> bool:
    return all(not array.size or (array.min() >= 0 and array.max() < vocab_size) for array in arrays)
