"""A folder of Marian, imported, against CTranslate2's own conversion of it: tokens, and log-probabilities."""

from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest
import sentencepiece
import torch
import transformers
from ctranslate2.converters import MarianConverter

from made_marian_npz import (
    D_FF,
    D_MODEL,
    HEADS,
    LAYERS,
    OPTIONS,
    PRE_NORM,
    TARGET_WORDS,
    WORDS,
    made_lines,
    made_pieces,
    make_marian,
    write_npz,
    write_vocabulary,
)
from transduce.bundle import Bundle
from transduce.config import DecodeConfig
from transduce.config.special_ids import EOS
from transduce.engines.ctranslate2 import CTranslate2Engine
from transduce.engines.torch import TorchEngine, load_model
from transduce.export.imports import find_format, import_model
from transduce.export.marian_reading import read_marian

pytestmark = pytest.mark.computes

_PRE = {name.replace("-", "_"): value for name, value in PRE_NORM.items()}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "all tied, swish": ("all", {}),
    "source and target tied, relu": ("src", {"transformer_ffn_activation": "relu"}),
    "target tied, gelu": ("target", {"transformer_ffn_activation": "gelu", "tied_embeddings": True}),
    "nothing tied": ("none", {}),
    "pre-norm, all tied": ("all", _PRE),
    "pre-norm, nothing tied, relu": ("none", _PRE | {"transformer_ffn_activation": "relu"}),
}
NUM_LINES, LONGEST = 300, 12


@pytest.mark.parametrize("kind", KINDS)
def test_an_import_computes_what_the_conversion_of_ctranslate2_does(kind: str, tmp_path: Path) -> None:
    tied, options = KINDS[kind]
    folder, model = tmp_path / "opus", tmp_path / "model"
    make_marian(folder, tied, **options)
    certificate = import_model(folder, model, sample=2)
    assert certificate is not None
    assert certificate.verdict == "passed"
    assert "ctranslate2" in certificate.original

    vocabularies = sorted(map(str, folder.glob("*.yml")))
    names = [name for name in vocabularies if not name.endswith("decoder.yml")]
    MarianConverter(str(folder / "opus.npz"), names).convert(str(tmp_path / "converted"))
    converted = ctranslate2.Translator(str(tmp_path / "converted"), device="cpu")
    source_pieces = sentencepiece.SentencePieceProcessor(str(folder / "source.spm"))

    bundle = Bundle.load(model)
    engine, tokenizer = TorchEngine(load_model(bundle).eval()), bundle.tokenizer
    lines = made_lines(NUM_LINES, seed=7)
    sources = tokenizer.encode_batch(lines)
    cut = source_pieces.encode(lines, out_type=str)
    assert [[tokenizer.tokens()[index] for index in ids] for ids in sources] == cut

    search = DecodeConfig(beam_size=1, max_tokens=LONGEST)
    ours = [found[0].ids for found in engine.translate(sources, search)]
    limits = {"beam_size": 1, "disable_unk": True, "max_decoding_length": LONGEST}
    theirs = [each.hypotheses[0] for each in converted.translate_batch(cut, **limits)]
    target_names = tokenizer.target.tokens()
    assert [[target_names[index] for index in ids] for ids in ours] == theirs
    assert len({tuple(names) for names in theirs}) >= 10  # they depend on the source

    targets = tokenizer.target.encode_batch(made_lines(NUM_LINES, seed=8, words=TARGET_WORDS))
    named = [[target_names[index] for index in ids] for ids in targets]
    expected = converted.score_batch(cut, named)
    for found, wanted in zip(engine.score(sources, targets), expected, strict=True):
        assert found == pytest.approx(wanted.log_probs, abs=1e-4)
    quick = CTranslate2Engine.load(bundle, "cpu", threads=1)
    assert [found[0].ids for found in quick.translate(sources[:50], search)] == ours[:50]


def test_the_vocabulary_may_be_a_sentencepiece_model(tmp_path: Path) -> None:
    make_marian(tmp_path / "opus", joint=True)
    certificate = import_model(tmp_path / "opus", tmp_path / "model", sample=2)
    assert certificate is not None
    assert certificate.verdict == "passed"
    processor = sentencepiece.SentencePieceProcessor(str(tmp_path / "opus" / "vocab.spm"))
    [line] = made_lines(1)
    tokenizer = Bundle.load(tmp_path / "model").tokenizer
    # Ours are <pad>, <s>, </s> and <unk>; theirs begin with </s> and <unk>.
    assert tokenizer.encode(line) == [index + 2 for index in processor.encode(line)]


def test_several_target_languages_become_tags(tmp_path: Path) -> None:
    make_marian(tmp_path / "opus", tags=("deu", "fra"))
    (tmp_path / "opus" / "README.md").write_text("* source language(s): eng\n* target language(s): deu fra\n")
    certificate = import_model(tmp_path / "opus", tmp_path / "model", sample=2)
    assert certificate is not None
    assert certificate.verdict == "passed"
    bundle = Bundle.load(tmp_path / "model")
    assert bundle.tokenizer.target_languages == ("deu", "fra")
    assert (bundle.config.data.source_language, bundle.config.data.target_language) == ("eng", "")


def test_the_same_weights_in_transformers_give_the_same_logits(tmp_path: Path) -> None:
    folder = tmp_path / "opus"
    folder.mkdir()
    pieces = made_pieces(folder, "source", WORDS)
    pieces = list(dict.fromkeys([*pieces, *made_pieces(folder, "target", TARGET_WORDS)]))
    torch.manual_seed(3)
    config = transformers.MarianConfig(
        vocab_size=len(pieces) + 1,  # padding comes last
        d_model=D_MODEL,
        encoder_layers=LAYERS[0],
        decoder_layers=LAYERS[1],
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=D_FF,
        decoder_ffn_dim=D_FF,
        activation_function="swish",
        scale_embedding=True,
        max_position_embeddings=512,
        pad_token_id=len(pieces),
        eos_token_id=0,
        forced_eos_token_id=None,
        decoder_start_token_id=len(pieces),
        init_std=0.3,
    )
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("bias") or "norm" in name:
                weight.add_(torch.randn_like(weight) * 0.1)
        model.model.shared.weight[-1] = 0
        model.final_logits_bias.normal_(0, 0.3)
    state = {name: value.numpy() for name, value in model.state_dict().items()}
    write_npz(folder / "opus.npz", _as_marian(state), OPTIONS)
    write_vocabulary(folder / "vocab.yml", pieces)
    (folder / "decoder.yml").write_text(
        "models: [opus.npz]\nvocabs: [vocab.yml, vocab.yml]\nbeam-size: 3\nnormalize: 0\n"
    )
    assert find_format(folder) == "marian"
    read = read_marian(folder)
    assert (read.config.decode.beam_size, read.config.decode.length_penalty) == (3, 0.0)

    import_model(folder, tmp_path / "model", sample=3)
    bundle = Bundle.load(tmp_path / "model")
    ours = load_model(bundle).eval()
    order = read.tokenizer.order
    assert order[:4].tolist() == [len(pieces), len(pieces), 0, 1]
    for line, target in zip(made_lines(20, seed=5), made_lines(20, seed=6, words=TARGET_WORDS), strict=True):
        source = [*bundle.tokenizer.encode(line), EOS]
        written = bundle.tokenizer.target.encode(target)
        begun = torch.tensor([[len(pieces), *order[written]]])
        with torch.inference_mode():
            wanted = model(input_ids=torch.from_numpy(order[source])[None], decoder_input_ids=begun).logits[0].numpy()
            encoded = ours.encode(torch.tensor([source]), torch.tensor([len(source)]))
            found = ours.decode(encoded, torch.tensor([[*written, EOS]]))[0].numpy()
        np.testing.assert_allclose(found[:, 2:], wanted[:, order[2:]], atol=1e-4)


def _as_marian(state: dict[str, Any]) -> dict[str, np.ndarray]:
    """Returns a state dict of transformers by Marian's names: the inverse of its own conversion."""
    found = {"Wemb": state["model.shared.weight"][:-1], "decoder_ff_logit_out_b": state["final_logits_bias"][:, :-1]}
    modules = {"self_attn": "self", "encoder_attn": "context", "fc1": "ffn_W1", "fc2": "ffn_W2"}
    norms = {"self_attn_layer_norm": "self_Wo", "encoder_attn_layer_norm": "context_Wo", "final_layer_norm": "ffn_ffn"}
    for name, array in state.items():
        _, _, layer = name.partition(".layers.")
        if not layer:
            continue
        number, *modules_of, kind = layer.split(".")
        start = f"{'encoder' if '.encoder.' in name else 'decoder'}_l{int(number) + 1}"
        if modules_of[0] in norms:
            found[f"{start}_{norms[modules_of[0]]}_ln_{'scale' if kind == 'weight' else 'bias'}"] = array[None]
        else:
            letters = f"_W{modules_of[1][0]}" if len(modules_of) == 2 else ""
            theirs = f"{start}_{modules[modules_of[0]]}{letters}"
            if kind == "weight":
                found[theirs] = array.T
            else:
                found[f"{theirs[:-2]}b{theirs[-1]}"] = array[None]
    return found
