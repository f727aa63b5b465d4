"""Checkpoints in the form of OPUS-MT: token ids, logits and outputs are those of transformers and of CTranslate2."""

import json
import pickle
import unicodedata
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from made_marian import SOURCE_TEXT, TARGET_TEXT, make_marian
from transduce import Translator
from transduce.bundle import Bundle
from transduce.config import DecodeConfig
from transduce.config.special_ids import EOS
from transduce.engines.torch import load_model
from transduce.errors import BundleError, ExportError, TransduceError
from transduce.export.checkpoint_files import read_arrays
from transduce.export.exports import export_model
from transduce.export.huggingface_reading import read_checkpoint
from transduce.export.imports import import_model

transformers = pytest.importorskip("transformers")
pytestmark = [pytest.mark.computes, pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")]

GREEDY = DecodeConfig(beam_size=1, max_extra_tokens=6)
LINES = [" ".join(words) for words in zip(*(text.split() * 3 for text in SOURCE_TEXT), strict=False)] + [*SOURCE_TEXT]
FORMS: dict[str, dict[str, Any]] = {
    "one vocabulary": {},
    "two vocabularies": {"separate": True},
    "a pickle": {"pickled": True},
    "relu, embeddings as they are": {"activation_function": "relu", "scale_embedding": False},
    "gelu": {"activation_function": "gelu", "zero_padding": False},
    "more layers on one side": {"encoder_layers": 3, "decoder_layers": 1},
}


def imported(tmp_path: Path, **form: Any) -> tuple[Any, Any, Translator]:
    network = make_marian(tmp_path / "theirs", **form)
    import_model(tmp_path / "theirs", tmp_path / "ours", compare=False)
    tokenizer = transformers.MarianTokenizer.from_pretrained(str(tmp_path / "theirs"))
    return network, tokenizer, Translator.load(tmp_path / "ours", engine="torch")


def their_ids(translator: Translator, theirs: Any, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Returns their id of each of our ids, on each side."""
    found = []
    for ours, name in ((translator.tokenizer, "vocab.json"), (translator.tokenizer.target, "target_vocab.json")):
        path = folder / name
        ids = json.loads((path if path.is_file() else folder / "vocab.json").read_text(encoding="utf-8"))
        pad = ids["<pad>"]
        names = [name.replace("<2", ">>").replace(">", "<<") if name in ours.tags else name for name in ours.tokens()]
        names = [f">>{name[2:-2]}<<" if name.startswith(">>") else name for name in names]
        found.append(np.array([pad, pad, *(ids[name] for name in names[2:])]))
    return found[0], found[1]


@pytest.mark.parametrize("form", FORMS)
def test_it_computes_what_transformers_computes(tmp_path: Path, form: str) -> None:
    network, theirs, translator = imported(tmp_path, **FORMS[form])
    sources, targets = their_ids(translator, theirs, tmp_path / "theirs")
    lines = [unicodedata.normalize(kind, line) for line in LINES for kind in ("NFC", "NFD")] + ["日本 dog ﬁne  x"]
    ours = translator.tokenizer.encode_batch(lines)
    assert [sources[[*ids, EOS]].tolist() for ids in ours] == theirs(lines)["input_ids"]
    ours = [*ours[::7], *ours[-3:]]  # decomposed and composed ones, the whole sentences and the unknown signs

    model = load_model(translator.bundle).eval()
    written = translator.engine.translate(ours, GREEDY)
    for ids, [best] in zip(ours, written, strict=True):
        source, target = torch.tensor([[*ids, EOS]]), [*translator.tokenizer.target.encode(TARGET_TEXT[0]), EOS]
        with torch.inference_mode():
            logits = model.decode(model.encode(source, torch.tensor([source.size(1)])), torch.tensor([target]))[0]
            given = {"input_ids": torch.from_numpy(sources[source]), "max_new_tokens": len(ids) + 6}
            inputs = torch.tensor([[network.config.decoder_start_token_id, *targets[target[:-1]].tolist()]])
            expected = network(input_ids=given["input_ids"], decoder_input_ids=inputs).logits[0][:, targets.tolist()]
            never = [[network.config.pad_token_id], [1]]  # Transduce writes no <unk>
            row = network.generate(**given, num_beams=1, bad_words_ids=never, forced_eos_token_id=None, max_length=None)
        torch.testing.assert_close(logits[:, 2:], expected[:, 2:], rtol=0, atol=1e-4)
        assert float(logits[:, 1].max()) < float(expected.max()) - 50  # BOS, which repeats padding, is never written
        ours_again = [int(np.flatnonzero(targets == index)[-1]) for index in row[0].tolist()[1:]]
        assert (best.ids + [EOS] * best.finished)[: len(ours_again)] == ours_again


@pytest.mark.parametrize("form", ["one vocabulary", "two vocabularies"])
def test_it_writes_what_the_conversion_of_ctranslate2_writes(tmp_path: Path, form: str) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    _, theirs, translator = imported(tmp_path, **FORMS[form])
    if form == "two vocabularies":  # its converter knows one vocabulary: only scores of our own engines are compared
        both = [translator, Translator.load(tmp_path / "ours", engine="ctranslate2")]
        ids = [each.tokenizer.encode_batch(LINES) for each in both]
        targets = [translator.tokenizer.target.encode(TARGET_TEXT[1])] * len(LINES)
        first, second = (each.engine.score(of_each, targets) for each, of_each in zip(both, ids, strict=True))
        assert np.concatenate(first) == pytest.approx(np.concatenate(second), abs=1e-4)
        return
    ctranslate2.converters.TransformersConverter(str(tmp_path / "theirs")).convert(str(tmp_path / "own"))
    own = ctranslate2.Translator(str(tmp_path / "own"))
    pieces = [theirs.convert_ids_to_tokens(ids) for ids in theirs(LINES)["input_ids"]]
    for beam in (1, 3):
        options = DecodeConfig(beam_size=beam, length_penalty=0.0, max_extra_tokens=6)
        fast = Translator.load(tmp_path / "ours", engine="ctranslate2")
        found = fast.engine.translate(fast.tokenizer.encode_batch(LINES), options)
        names = fast.tokenizer.target.tokens()
        num_same = 0
        for line, [best] in zip(pieces, found, strict=True):
            [expected] = own.translate_batch(
                [line],
                beam_size=beam,
                length_penalty=0,
                min_decoding_length=0,
                max_decoding_length=len(line) - 1 + 6,
                disable_unk=True,
                patience=2,
            )
            num_same += [names[index] for index in best.ids] == expected.hypotheses[0]
        assert num_same >= len(LINES) - (beam > 1)  # a beam has one whose end is a token off


def test_targets_become_tags_and_padding_is_what_the_decoder_starts_from(tmp_path: Path) -> None:
    network, theirs, translator = imported(tmp_path, targets=("deu", "fra"), zero_padding=False)
    assert translator.tokenizer.target_languages == ("deu", "fra")
    for code in ("deu", "fra"):
        [ours] = translator.translate([SOURCE_TEXT[1]], target=code, beam_size=1, max_extra_tokens=20)
        batch = theirs([f">>{code}<< {SOURCE_TEXT[1]}"], return_tensors="pt")
        never = [[network.config.pad_token_id], [1]]
        row = network.generate(
            **batch, num_beams=1, bad_words_ids=never, forced_eos_token_id=None, max_length=None, max_new_tokens=20
        )
        expected = theirs.decode(row[0], skip_special_tokens=True).strip()
        assert len(expected) > 8
        assert ours.strip()[: len(expected)] == expected
    ids = translator.tokenizer.encode(">>deu<< A dog")
    assert not {*ids} & {*translator.tokenizer.tags.values()}  # text is text: a tag is asked for by `target`


def test_positions_that_were_rounded_are_read_as_they_are(tmp_path: Path) -> None:
    """Of a checkpoint in float16 that stores its sinusoids, as older ones do: transformers computes with them, too."""
    network = make_marian(tmp_path / "theirs", pickled=True)
    state = {name: each.half() for name, each in network.state_dict().items()}
    assert "model.encoder.embed_positions.weight" in state
    torch.save(state, tmp_path / "theirs" / "pytorch_model.bin")
    certificate = import_model(tmp_path / "theirs", tmp_path / "ours")
    assert certificate is not None
    assert certificate.measured.token_agreement == 1
    assert certificate.measured.max_difference < 1e-4


def test_tokens_added_later_and_rows_without_a_piece_count(tmp_path: Path) -> None:
    """As after `add_tokens` and `resize_token_embeddings`: 2 more tokens, and 5 rows that no token has."""
    folder = tmp_path / "theirs"
    network = make_marian(folder)
    theirs = transformers.MarianTokenizer.from_pretrained(str(folder))
    first = network.config.vocab_size
    assert theirs.add_tokens([">>xyz<<", "<entity>"]) == 2
    network.resize_token_embeddings(first + 7)
    network.save_pretrained(folder)
    theirs.save_pretrained(folder)
    certificate = import_model(folder, tmp_path / "ours")
    assert certificate is not None
    assert certificate.measured.lines_cut_alike == 1
    assert certificate.measured.max_difference < 1e-4
    for name in ("tokenizer_config.json", "added_tokens.json"):  # each of them lists the tokens
        read = read_checkpoint(folder).tokenizer
        assert {*read.order.tolist()} == {*range(first + 7)}, name
        assert read.order[read.tokenizer.tags["<2xyz>"]] == theirs.convert_tokens_to_ids(">>xyz<<"), name
        (folder / name).unlink()


@pytest.mark.parametrize("form", ["one vocabulary", "two vocabularies"])
def test_there_and_back(tmp_path: Path, form: str) -> None:
    imported(tmp_path, **FORMS[form])
    for format in ("huggingface", "onnx", "ctranslate2"):
        certificate = export_model(tmp_path / "ours", tmp_path / format, format, sample=8)
        assert certificate.verdict == "passed", format
        assert certificate.measured.lines_cut_alike == 1
        assert certificate.measured.max_difference < 1e-4
    again = import_model(tmp_path / "huggingface", tmp_path / "again")
    assert again is not None
    assert again.verdict == "passed"
    one, two = Bundle.load(tmp_path / "ours"), Bundle.load(tmp_path / "again")
    assert one.config.model == two.config.model
    assert one.tokenizer.tokens() == two.tokenizer.tokens()
    assert one.tokenizer.target.tokens() == two.tokenizer.target.tokens()
    assert all(np.array_equal(weight, two.weights()[name]) for name, weight in one.weights().items())


def test_the_certificate_is_of_the_original(tmp_path: Path) -> None:
    make_marian(tmp_path / "theirs", zero_padding=False)
    (tmp_path / "theirs" / "README.md").write_text("---\nlanguage: en\nlicense: cc-by-4.0\n---\n# OPUS\n")
    (tmp_path / "theirs" / "LICENSE").write_text("CC-BY 4.0")
    certificate = import_model(tmp_path / "theirs", tmp_path / "ours")
    assert certificate is not None
    assert certificate.verdict == "passed"
    assert certificate.measured.token_agreement == 1
    assert {"vocab.json", "source.spm", "model.safetensors"} <= certificate.original_sha256.keys()
    bundle = Bundle.load(tmp_path / "ours")
    assert bundle.metrics["licence"] == "cc-by-4.0"
    assert bundle.config.data.source_language == "en"
    assert bundle.config.model.max_length == 64
    assert "cc-by-4.0" in (tmp_path / "ours" / "README.md").read_text()
    for name in ("ORIGINAL_README.md", "LICENSE"):
        assert (tmp_path / "ours" / name).is_file()
    export_model(tmp_path / "ours", tmp_path / "onnx", "onnx", sample=4)
    assert (tmp_path / "onnx" / "LICENSE").read_text() == "CC-BY 4.0"


class _Call:
    """A pickle that writes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.write_text, (self.path, "executed"))


def _hostile_pickles(folder: Path) -> dict[str, bytes]:
    """Returns pickles that run code, or that claim what they do not hold."""
    canary = folder / "canary"
    found = {"a call": pickle.dumps(_Call(canary)), "a call in a table": pickle.dumps({"weight": _Call(canary)})}
    for protocol in range(6):
        found[f"protocol {protocol}"] = pickle.dumps([_Call(canary)], protocol=protocol)
    calls = ("os.system", "builtins.eval", "subprocess.call", "builtins.exec", "posix.system", "runpy.run_path")
    for number, call in enumerate((*calls, "shutil.rmtree", "torch.hub load", "torch.serialization load")):
        name = "\n".join(call.rsplit(" " if " " in call else ".", 1)).encode()
        found[f"global {number}"] = b"c" + name + b"\n(S'touch " + str(canary).encode() + b"'\ntR."
    path = folder / "good.bin"
    torch.save({"weight": torch.zeros(3)}, path)
    good = path.read_bytes()
    found |= {f"cut at {at}": good[:at] for at in (0, 1, 10, len(good) // 2, len(good) - 30)}
    for seed in range(6):
        generator = np.random.default_rng(seed)
        damaged = bytearray(good)
        for at in generator.integers(0, len(damaged), 40):
            damaged[at] ^= int(generator.integers(1, 256))
        found[f"damaged {seed}"] = bytes(damaged)
    torch.save([torch.zeros(3)], path)
    found["a list"] = path.read_bytes()
    torch.save({"weight": 3}, path)
    found["a number"] = path.read_bytes()
    torch.save({"weight": torch.tensor([float("nan")])}, path)
    found["not finite"] = path.read_bytes()
    with zipfile.ZipFile(folder / "bomb.bin", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", good)
        archive.writestr("archive/data/0", bytes(1 << 24))
    for name, value in (
        ("more numbers than there are", torch.zeros(1, dtype=torch.float16).expand(20_000, 20_000)),
        ("a sparse tensor", torch.eye(3).to_sparse()),
    ):
        torch.save({"weight": value}, folder / "odd.bin")
        found[name] = (folder / "odd.bin").read_bytes()
    found |= {"nothing on the stack": b"\x80\x02.", "a call without a function": b"\x80\x02}q\x00R."}
    found["a compressed archive"] = (folder / "bomb.bin").read_bytes()
    return found


def test_hostile_pickles_are_refused_in_one_line_and_run_nothing(tmp_path: Path) -> None:
    make_marian(tmp_path / "theirs", pickled=True)
    hostile = _hostile_pickles(tmp_path)
    assert len(hostile) >= 30
    for name, data in hostile.items():
        (tmp_path / "theirs" / "pytorch_model.bin").write_bytes(data)
        with pytest.raises(TransduceError) as caught:
            import_model(tmp_path / "theirs", tmp_path / "ours", compare=False)
        assert "pytorch_model.bin" in str(caught.value) or "checkpoint" in str(caught.value), name
        assert "\n" not in str(caught.value).split(":\n  ")[0], name
        assert not (tmp_path / "canary").exists(), name
        assert not (tmp_path / "ours").exists(), name


def test_parameters_are_read_as_tensors(tmp_path: Path) -> None:
    make_marian(tmp_path / "theirs", pickled=True)
    path = tmp_path / "theirs" / "pytorch_model.bin"
    weights = torch.load(path, weights_only=True)
    torch.save({name: torch.nn.Parameter(each) for name, each in weights.items()}, path)
    found = read_arrays([path])
    assert all(np.array_equal(found[name], each.numpy()) for name, each in weights.items())


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("vocab.json", lambda text: text[: len(text) // 2], "vocab.json: damaged"),
        ("vocab.json", lambda text: text.replace("{", '{"": -1, ', 1), "'' has id -1, and the model has"),
        ("vocab.json", lambda _: '{"a": "b"}', "vocab.json: damaged: it does not map pieces to numbers"),
        ("vocab.json", lambda text: text.replace('"</s>": 0', '"</s>": 99999'), "belongs to another model"),
        ("vocab.json", lambda text: text.replace('"</s>": 0', '"</s>": 1'), "two pieces have the same id"),
        ("vocab.json", lambda text: text.replace('"</s>"', '"end"'), "has no </s>"),
        ("config.json", lambda text: text.replace('"swish"', '"mish"'), "activation_function 'mish'"),
        ("config.json", lambda text: text.replace('"d_model": 16', '"d_model": 18'), "does not fit the weights"),
        ("tokenizer_config.json", lambda _: "[", "tokenizer_config.json: damaged"),
    ],
)
def test_damaged_folders_are_refused_by_name(tmp_path: Path, name: str, change: Any, message: str) -> None:
    make_marian(tmp_path / "theirs")
    path = tmp_path / "theirs" / name
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises((BundleError, ExportError)) as caught:
        import_model(tmp_path / "theirs", tmp_path / "ours", compare=False)
    assert message in str(caught.value)
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize("name", ["source.spm", "target.spm", "vocab.json"])
def test_missing_and_cut_files_are_named(tmp_path: Path, name: str) -> None:
    make_marian(tmp_path / "theirs")
    path = tmp_path / "theirs" / name
    data = path.read_bytes()
    for damage in (data[: len(data) // 2], b"", None):
        if damage is None:
            path.unlink()
        else:
            path.write_bytes(damage)
        with pytest.raises(BundleError) as caught:
            import_model(tmp_path / "theirs", tmp_path / "ours", compare=False)
        assert str(tmp_path / "theirs") in str(caught.value)
        assert not (tmp_path / "ours").exists()


def test_a_prefix_and_terms_with_characters_that_the_model_does_not_know(tmp_path: Path) -> None:
    _, _, translator = imported(tmp_path)
    [source] = [SOURCE_TEXT[1]]
    for prefix in ("Ein ﬁ", "Ein 日本", "日本語 Ein Hu", "Ein Hund e\u0301 r"):
        for engine in ("torch", "ctranslate2"):
            each = translator if engine == "torch" else Translator.load(tmp_path / "ours", engine=engine)
            [found] = each.translate([source], prefixes=[prefix], beam_size=2)
            assert found.startswith(prefix), (prefix, engine)
            words = each.alternatives(source, f"{prefix} ", 3)
            assert all(word.translation.text.startswith(prefix) for word in words), (prefix, engine)
    [[best, *_]] = translator.translate_n_best([source], 2, required=[["日本語", "Hund"]], beam_size=4)
    assert ("日本語",) not in [choice for choice, found in best.required if found]
    assert any("日本語" in warning for warning in best.warnings)
    assert "Hund" in best.text
