"""An imported model against the system that it comes from: token ids, logits, and what greedy search writes.

    python benchmarks/import_agreement.py opus-en-de --text a.en b.en --pairs dev.en dev.de --output results/today.json

The checkpoint is one of MarianMTModel, in a folder as transformers writes it. It is compared with transformers, and
with CTranslate2 running its own conversion of the same folder. Neither may write <unk> here, because Transduce never
does. CTranslate2's converter has the decoder start from a zero vector: where the embedding of padding is not zero, its
conversion computes something else than the checkpoint, and the result says so.

Needs transformers, sentencepiece, ctranslate2 and PyTorch.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import torch
from transformers import MarianMTModel, MarianTokenizer

from transduce import Translator
from transduce.config import DecodeConfig
from transduce.config.special_ids import EOS
from transduce.export.imports import import_model
from transduce.reporting.machine import describe_machine

_BATCH, _TIE = 32, 1e-4


def read_lines(paths: Sequence[Path], number: int) -> list[str]:
    """Returns up to `number` lines that are not empty, in turn from all files."""
    columns = [path.read_text(encoding="utf-8").split("\n")[:-1] for path in paths]
    lines = [line for row in zip(*columns, strict=False) for line in row if line.strip()]
    return lines[:number]


def compare_ids(ours: Any, theirs: MarianTokenizer, lines: Sequence[str]) -> dict[str, int]:
    """Counts the lines with the same pieces, composed and decomposed, and those whose pieces give the same text."""
    names = ours.tokens()
    id_of = {name: index for index, name in enumerate(names)}
    counts = {"lines": len(lines)}
    for form in ("NFC", "NFD"):
        texts = [unicodedata.normalize(form, line) for line in lines]
        pieces = [theirs.tokenize(text) for text in texts]
        found = [[names[index] for index in ids] for ids in ours.encode_batch(texts)]
        expected = [[piece if piece in id_of else "<unk>" for piece in each] for each in pieces]
        counts[f"{form}, same pieces"] = sum(a == b for a, b in zip(found, expected, strict=True))
        back = [(each, theirs.convert_tokens_to_string(each)) for each in found if "<unk>" not in each]
        decoded = [ours.target.decode([id_of[piece] for piece in each]) for each, _ in back]
        counts[f"{form}, lines without <unk>"] = len(back)
        counts[f"{form}, of these the same text"] = sum(
            a.strip() == b.strip() for a, (_, b) in zip(decoded, back, strict=True)
        )
    return counts


def compare_logits(translator: Translator, theirs: MarianMTModel, order: np.ndarray, pairs: Sequence[Any]) -> float:
    """Returns the greatest difference of a logit, over all pieces and positions of the pairs."""
    from transduce.engines.torch import load_model

    ours = load_model(translator.bundle).eval()
    rows = [index for index in range(len(order)) if index not in (0, 1)]  # padding and the start share a row there
    greatest = 0.0
    for source, target in pairs:
        source_BS, target_BT = torch.tensor([[*source, EOS]]), torch.tensor([[*target, EOS]])
        start = int(theirs.config.decoder_start_token_id)
        with torch.inference_mode():
            mine = ours.decode(ours.encode(source_BS, torch.tensor([source_BS.size(1)])), target_BT)[0, :, rows]
            input_BT = torch.tensor([[start, *order[list(target)].tolist()]])
            given = torch.from_numpy(order[source_BS.numpy()])
            other = theirs(input_ids=given, decoder_input_ids=input_BT).logits[0][:, order[rows].tolist()]
        greatest = max(greatest, float((mine - other).abs().max()))
    return greatest


def compare_outputs(
    translator: Translator, sources: Sequence[Sequence[int]], found: Sequence[Any], expected: Sequence[Sequence[int]]
) -> dict[str, Any]:
    """Counts equal outputs; of each other one, the log-probabilities of the first token that differs."""
    same, ties, differences = 0, 0, []
    for number, (source, mine, theirs) in enumerate(zip(sources, found, expected, strict=True), start=1):
        shared = min(len(mine.ids), len(theirs)) if not mine.finished else max(len(mine.ids), len(theirs))
        if list(mine.ids)[:shared] == list(theirs)[:shared]:
            same += 1
            continue
        pairs = zip([*mine.ids, EOS], [*theirs, EOS], strict=False)
        at = next(index for index, (a, b) in enumerate(pairs) if a != b)
        scores_V = translator.engine.next_scores(source, list(mine.ids)[:at])[at]
        gap = float(scores_V[[*mine.ids, EOS][at]] - scores_V[[*theirs, EOS][at]])
        ties += abs(gap) < _TIE
        differences.append({"line": number, "position": at, "difference of log-probabilities": gap})
    return {"lines": len(found), "same": same, "ties": ties, "differences": differences[:50]}


def main() -> None:
    """Imports, compares, and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--text", type=Path, nargs="+", required=True, help="files of source lines")
    parser.add_argument("--pairs", type=Path, nargs=2, required=True, help="source and target lines, for logits")
    parser.add_argument("--lines", type=int, nargs=2, default=(20_000, 3000), help="for token ids, and for searches")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    import_model(args.checkpoint, folder / "model", compare=False)
    translator = Translator.load(folder / "model", engine="torch")
    fast = Translator.load(folder / "model", engine="ctranslate2")
    tokenizer = MarianTokenizer.from_pretrained(str(args.checkpoint))
    model = MarianMTModel.from_pretrained(str(args.checkpoint)).eval()
    ours = translator.tokenizer
    theirs = tokenizer.get_vocab()
    start, pad = model.config.decoder_start_token_id, tokenizer.pad_token_id
    order = np.array([pad, start, *(theirs[name] for name in ours.tokens()[2:])])
    id_of = {name: index for index, name in enumerate(ours.tokens())}

    result: dict[str, Any] = {"machine": describe_machine(), "checkpoint": args.checkpoint.name}
    result["parameters"] = model.num_parameters()
    result["token ids"] = compare_ids(ours, tokenizer, read_lines(args.text, args.lines[0]))
    sides = zip(*(read_lines([path], 200) for path in args.pairs), strict=False)
    pairs = [(ours.encode(source)[:200], ours.target.encode(target)[:200]) for source, target in sides]
    result["logits, greatest difference"] = compare_logits(translator, model, order, pairs)

    lines = read_lines(args.text, args.lines[1])
    sources = [ids[:500] for ids in ours.encode_batch(lines)]
    options = DecodeConfig(beam_size=1, max_extra_tokens=20)
    found = {
        each: engine.engine.translate(sources, options)
        for each, engine in (("torch", translator), ("ctranslate2", fast))
    }
    never = [[pad], [tokenizer.unk_token_id]]
    expected: list[list[int]] = []
    for first in range(0, len(lines), _BATCH):
        batch = tokenizer(lines[first : first + _BATCH], return_tensors="pt", padding=True, truncation=True)
        longest = int(batch["input_ids"].size(1)) + 20
        written = model.generate(
            **batch,
            num_beams=1,
            do_sample=False,
            max_new_tokens=longest,
            bad_words_ids=never,
            forced_eos_token_id=None,
        )
        for row in written.tolist():
            pieces = tokenizer.convert_ids_to_tokens([index for index in row if index not in (pad, start)])
            ids = [id_of[piece] for piece in pieces]
            expected.append(ids[: ids.index(EOS)] if EOS in ids else ids)
    converter = [sys.executable, "-m", "ctranslate2.converters.transformers", "--model", str(args.checkpoint)]
    subprocess.run([*converter, "--output_dir", str(folder / "own")], check=True, capture_output=True)
    own = ctranslate2.Translator(str(folder / "own"))
    named = [[*(ours.tokens()[index] for index in ids), "</s>"] for ids in sources]
    results = own.translate_batch(named, beam_size=1, max_batch_size=_BATCH, max_decoding_length=500, disable_unk=True)
    of_own = [[id_of[piece] for piece in each.hypotheses[0]] for each in results]
    result["padding has a zero embedding"] = not bool(model.get_input_embeddings().weight[pad].abs().max())
    for name, outputs in found.items():
        best = [each[0] for each in outputs]
        result[f"{name} engine against transformers"] = compare_outputs(translator, sources, best, expected)
        result[f"{name} engine against CTranslate2's conversion"] = compare_outputs(translator, sources, best, of_own)
    args.output.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps(result, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
