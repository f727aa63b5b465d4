"""How often the package tokenizers gives other token ids than SentencePiece for the same model, and how fast both are.

    python benchmarks/sentencepiece_ids.py --text a.en b.de c.fr --output benchmarks/results/DATE-sentencepiece-ids.json

Models of five kinds are learned from the files, and converted for tokenizers in the usual way: the table of the
normaliser as `Precompiled`, then white space, then `Metaspace`. Lines are those of the files, composed (NFC) and
decomposed (NFD), names of languages and countries in 40 scripts, and random strings of combining marks, control
characters and letters. Needs babel and sentencepiece.
"""

import argparse
import io
import json
import random
import struct
import time
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import sentencepiece
from babel import Locale, UnknownLocaleError
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from transduce.reporting.machine import describe_machine

_LINES = 20_000
KINDS: dict[str, dict[str, Any]] = {
    "unigram, nmt_nfkc": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc"},
    "unigram, nmt_nfkc_cf": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc_cf"},
    "unigram, nfkc, bytes": {"model_type": "unigram", "normalization_rule_name": "nfkc", "byte_fallback": True},
    "bpe, nmt_nfkc": {"model_type": "bpe", "normalization_rule_name": "nmt_nfkc"},
    "bpe, identity, bytes": {"model_type": "bpe", "normalization_rule_name": "identity", "byte_fallback": True},
}
LOCALES = (
    "am ar as bn bo ccp chr cs cy el en ff_Adlm fa ga gu he hi hnj hy ii ja ka km kn ko lo ml mn mn_Mong_CN mni "
    "mni_Mtei my ne nqo or osa pa rhg ru sat si su syr ta te th ti tzm_Tfng ur vai vi yi zgh zh_Hans zh_Hant"
)


def read_files(paths: Sequence[Path]) -> list[str]:
    """Returns lines of the files, in turn from all of them."""
    columns = [path.read_text(encoding="utf-8").split("\n")[:-1] for path in paths]
    return [line for row in zip_longest(*columns) for line in row if line is not None][:_LINES]


def in_scripts() -> tuple[list[str], int]:
    """Returns names of languages and countries in many scripts, and the number of scripts among their letters."""
    lines, scripts = [], set()
    for code in LOCALES.split():
        try:
            locale = Locale.parse(code)
        except (UnknownLocaleError, ValueError):
            continue
        names = [*map(str, locale.languages.values()), *map(str, locale.territories.values())]
        scripts |= {unicodedata.name(letter, "?").split()[0] for name in names for letter in name if letter.isalpha()}
        lines += [", ".join(names[at : at + 5]) for at in range(0, len(names), 5)]
    return lines, len(scripts)


def at_random() -> list[str]:
    """Returns strings of combining marks, control characters, ligatures and a few letters."""
    generator = random.Random(3)
    signs = [*map(chr, range(0x300, 0x370)), *map(chr, range(1, 0x20)), *"\u200b\u200d\ufeff\u00ad\u2028\u0085\u3099"]
    signs = [sign for sign in signs if sign not in "\n\r"] + list("abcéǖ①ﬁ ㎏가각ᄀ한がガᅡᆨำ")
    return ["".join(generator.choices(signs, k=generator.randint(1, 25))) for _ in range(_LINES)]


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yields the number and the value of each field of a protocol buffer."""

    def varint(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            byte = data[at]
            value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
            if byte < 128:
                return value, at

    at = 0
    while at < len(data):
        key, at = varint(at)
        if key & 7 == 0:
            value, at = varint(at)
        else:
            length, at = varint(at) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], at)
            value, at = data[at : at + length], at + length
        yield key >> 3, value


def converted(model: bytes) -> Tokenizer:
    """Returns the model as a tokenizer of the package tokenizers."""
    parts = [(number, value) for number, value in fields(model) if number < 4]
    pieces = [dict(fields(value)) for number, value in parts if number == 1]
    trainer, rule = (dict(fields(next(value for number, value in parts if number == which))) for which in (2, 3))
    scores = [(piece[1].decode(), struct.unpack("<f", piece[2])[0] if 2 in piece else 0.0) for piece in pieces]
    unknown, in_bytes = next(k for k, piece in enumerate(pieces) if piece.get(3) == 2), bool(trainer.get(35))
    if trainer.get(3, 1) == 1:
        tokenizer = Tokenizer(models.Unigram(scores, unk_id=unknown, byte_fallback=in_bytes))
    else:
        ids = {name: index for index, (name, _) in enumerate(scores)}
        known = {name for (name, _), piece in zip(scores, pieces, strict=True) if piece.get(3, 1) == 1}
        splits = ((name, score, cut) for name, score in scores if name in known for cut in range(1, len(name)))
        merges = [(-s, ids[n[:c]], n[:c], n[c:]) for n, s, c in splits if n[:c] in known and n[c:] in known]
        pairs = [(first, second) for *_, first, second in sorted(merges)]
        name = scores[unknown][0]
        tokenizer = Tokenizer(models.BPE(ids, pairs, unk_token=name, fuse_unk=True, byte_fallback=in_bytes))
    steps: list[Any] = [normalizers.Precompiled(rule[2])] if rule.get(2) else []
    steps += [normalizers.Replace(Regex("^ +| +$"), ""), normalizers.Replace(Regex(" {2,}"), " ")]
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer


def main() -> None:
    """Learns, compares, and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, nargs="+", required=True)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    lines = read_files(args.text)
    scripts, num_scripts = in_scripts()
    sets = {form: [unicodedata.normalize(form, line) for line in lines] for form in ("NFC", "NFD")}
    sets |= {f"{num_scripts} scripts": scripts, "combining marks and control characters": at_random()}
    result: dict[str, Any] = {"machine": describe_machine(), "kinds": {}}
    for kind, settings in KINDS.items():
        written = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=written, vocab_size=4000, minloglevel=2, **settings
        )
        theirs = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
        other = converted(written.getvalue())
        rows = result["kinds"][kind] = {}
        for name, texts in sets.items():
            started = time.perf_counter()
            expected = theirs.encode(texts, num_threads=1)
            between = time.perf_counter()
            found = [encoding.ids for encoding in other.encode_batch_fast(texts, add_special_tokens=False)]
            seconds = time.perf_counter() - between
            different = [text for text, a, b in zip(texts, expected, found, strict=True) if a != b]
            rows[name] = {
                "lines": len(texts),
                "other ids": len(different),
                "examples": different[:5],
                "seconds, sentencepiece": round(between - started, 3),
                "seconds, tokenizers": round(seconds, 3),
            }
            print(kind, name, len(texts), len(different), flush=True)
    args.output.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
