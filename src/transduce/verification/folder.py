"""Checks of the model folder: complete, unchanged, and the same after saving and loading."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from transduce.bundle import Bundle, save_bundle
from transduce.config import to_dict
from transduce.config.differences import describe, differences
from transduce.config.special_ids import UNK
from transduce.engines.torch import TorchEngine, load_model
from transduce.errors import BundleError, TransduceError
from transduce.reporting.tables import counted
from transduce.text import Tokenizer
from transduce.verification.findings import Finding
from transduce.verification.model_under_test import ModelUnderTest

_TRANSLATED = 8

# Text that tokenisers often lose: empty and white space, odd line ends, controls, combining marks, scripts without
# spaces, emoji with zero-width joiners, both directions, private and unassigned code points, what looks like markup.
NASTY = (
    "",
    " ",
    "   two  spaces ",
    "\ttab\t",
    "\r\n\x0b\x0c\x1c\x85\u2028\u2029",
    "\x00\x01\x7f",
    "\ufeffbyte order mark",
    "no\u00a0break\u202fspaces\u3000here",
    "zero\u200bwidth\u200djoin\u200c\u2060er",
    "e\u0301 and é, o\u0308\u0323, Å Å Å",
    "ﬁ ﬀ Ⅷ ½ ² ™ ＡＢＣ",
    "日本語のテキスト。中文文本！한국어 텍스트",
    "العربية עברית \u202eright to left\u202c \u2066isolated\u2069",
    "हिन्दी ไทย မြန်မာ ꦗꦮ",
    "😀 👩‍👩‍👧‍👦 👍🏽 🇩🇪 ☃️",
    "\ue000 \U000f0000 \U0010ffff \ufffe \ufffd",
    "<s> </s> <pad> <unk> <0x41> &nbsp; {name} %1$s",
    "▁Ġ## Ċ Ã© @@ ￨",
    "''``\"\"''‚„“”‘’«»",
    "a" * 300,
    "1234567890" * 12,
    "Z" + "\u0300" * 64,
)


def checksums(bundle: Bundle) -> Finding:
    """Compares the files with the checksums that were written when the model was made."""
    faults = []
    for name in bundle.checked_files:
        try:
            bundle.check_checksum(name)
        except BundleError as error:
            faults.append(str(error))
    return Finding(f"SHA-256 of {', '.join(bundle.checked_files)}", faults=tuple(faults))


def loads(bundle: Bundle) -> Finding:
    """Reads everything; weights must be finite, and tokeniser and metrics readable.

    Raises:
        BundleError: something cannot be read, is not finite, or does not fit the configuration.
        TokenizerError: the tokenizer cannot be read.
    """
    model = load_model(bundle)
    _ = bundle.metrics
    tensors = counted(len(model.weights()), "tensor")
    subwords = f"{bundle.tokenizer.vocab_size:,} subwords"
    return Finding(f"{tensors}, {model.num_parameters:,} numbers, all finite; {subwords}")


def saved_is_loaded(tested: ModelUnderTest) -> Finding:
    """Saves the model to a temporary folder, loads it again and compares everything, including translations."""
    bundle = tested.bundle
    with tempfile.TemporaryDirectory(prefix="transduce-verify-") as temporary:
        weights = bundle.weights()
        rest = (bundle.tokenizer, bundle.metrics, bundle.aligning_heads)
        again = save_bundle(Path(temporary) / "model", bundle.config, weights, *rest)
        again.verify()
        faults = _unequal_weights(weights, again.weights())
        if changed := differences(to_dict(bundle.config), to_dict(again.config)):
            faults.append(f"config.json: {describe(changed)}")
        if again.tokenizer.to_json() != bundle.tokenizer.to_json():
            faults.append("tokenizer.json: differs")
        if json.dumps(again.metrics) != json.dumps(bundle.metrics):
            faults.append("metrics.json: differs")
        sources, names = tested.sources[:_TRANSLATED], tested.sample.names
        engine = TorchEngine.load(again, device=str(tested.device))
        outputs = [each.translate(sources, tested.options) for each in (tested.engine, engine)]
    for name, [one], [two] in zip(names, *outputs, strict=False):
        if (one.ids, one.log_probability) != (two.ids, two.log_probability):
            faults.append(f"{name}: translated as {tested.text(one.ids)!r}, after loading as {tested.text(two.ids)!r}")
    compared = f"{counted(len(weights), 'tensor')} bit for bit, configuration, tokeniser, "
    compared += counted(len(sources), "translation")
    return Finding(compared, faults=tuple(faults))


def _unequal_weights(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> list[str]:
    faults = [f"{name}: in only one of the two folders" for name in sorted(ours.keys() ^ theirs.keys())]
    for name in sorted(ours.keys() & theirs.keys()):
        one, two = ours[name], theirs[name]
        if one.shape != two.shape or one.dtype != two.dtype or one.tobytes() != two.tobytes():
            faults.append(f"{name}: the numbers differ after saving and loading")
    return faults


def tokenizer(tested: ModelUnderTest) -> Finding:
    """Encodes and decodes the sentences, and text that tokenisers often lose: every character must come back.

    The tokenizer of an imported model normalises text, and does not know all characters. Where it knows them, what it
    gives back must be the same when it is encoded again.
    """
    tokens = tested.bundle.tokenizer
    texts = [(*pair, "") for pair in zip(tested.sample.names, tested.sample.lines, strict=True)]
    texts += [(f"odd text {number}", text, repr(text[:40])) for number, text in enumerate(NASTY, start=1)]
    faults = _round_trips(tokens, texts)
    if tokens.target is not tokens:
        faults += [f"target: {fault}" for fault in _round_trips(tokens.target, texts)]
    return Finding(
        f"{counted(len(tested.sample.lines), 'sentence')} and {len(NASTY)} odd texts, encoded and decoded",
        faults=tuple(faults),
    )


def _round_trips(tokens: Tokenizer, texts: Sequence[tuple[str, str, str]]) -> list[str]:
    """Returns what is wrong with texts that are encoded and decoded; each has a name, and how it is shown."""
    faults = []
    together = tokens.encode_batch([text for _, text, _ in texts])
    for (name, text, shown), ids in zip(texts, together, strict=True):
        try:
            alone, back = tokens.encode(text), tokens.decode(ids)
            expected = text if tokens.exact else back if UNK in ids else tokens.decode(tokens.encode(back))
        except TransduceError as error:
            faults.append(f"{name} {shown}: {error}")
            continue
        if back != expected:
            faults.append(f"{name} {shown}: comes back as {back[:60]!r}")
        if alone != ids:
            faults.append(f"{name} {shown}: encoded alone, it gives other pieces than in a batch")
        if ids and min(ids) < (UNK + 1 if tokens.exact else UNK):
            faults.append(f"{name} {shown}: becomes a special token")
        if ids and max(ids) >= tokens.vocab_size:
            faults.append(f"{name} {shown}: a piece is outside of the vocabulary")
    return faults
