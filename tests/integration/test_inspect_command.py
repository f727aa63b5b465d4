"""`transduce inspect` and `Translator.attend` on a tiny model with random weights."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from transduce import Attention, Translator
from transduce.bundle import Bundle, save_bundle
from transduce.cli import main as command_line
from transduce.config import Config, DecodeConfig, ModelConfig
from transduce.decoding.scores import Hypothesis
from transduce.errors import ConfigError, DataError, MissingDependencyError
from transduce.inspection import BEST_HEADS, align, alignment_scores, best_heads, parse_heads, pharaoh, word_weights
from transduce.model.attention import attention_weights
from transduce.model.transformer import Transformer
from transduce.text import SubwordTokenizer

pytestmark = pytest.mark.computes

SOURCE, TARGET = "Two dogs run over the green grass.", "a man with <s> dogs"
SHAPE = {"num_encoder_layers": 2, "num_decoder_layers": 3, "num_heads": 2}
EOS = 2


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    corpus = ["A dog runs.", "Two dogs run over the green grass.", "a man with a ball"] * 3
    tokenizer = SubwordTokenizer.train(corpus, algorithm="bpe", vocab_size=300)
    shape = ModelConfig(
        vocab_size=tokenizer.vocab_size,
        d_model=32,
        d_ff=64,
        d_k=16,
        d_v=16,
        positions="learned",  # so that there is a longest source
        max_positions=64,
        **SHAPE,
    )
    torch.manual_seed(3)
    weights = {name: weight.numpy() for name, weight in Transformer(shape).weights().items()}
    config = Config(model=shape, decode=DecodeConfig(max_extra_tokens=5), name="tiny & random")
    folder: Path = tmp_path_factory.mktemp("models") / "tiny"
    save_bundle(folder, config, weights, tokenizer, {})
    return folder


@pytest.fixture(scope="module")
def translator(model_folder: Path) -> Translator:
    return Translator.load(model_folder, device="cpu")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def inspect(model: Path, *options: str) -> int:
    return command_line.main(["inspect", str(model), "--device", "cpu", *options])


# --- the Python face --------------------------------------------------------------------------------------


def test_arrays_have_a_place_for_each_piece(translator: Translator) -> None:
    attention = translator.attend(SOURCE, TARGET)
    num_source, num_target = len(attention.source_pieces), len(attention.target_pieces)
    assert attention.encoder.shape == (2, 2, num_source, num_source)
    assert attention.decoder.shape == (3, 2, num_target, num_target)
    assert attention.cross.shape == (3, 2, num_target, num_source)
    for weights in (attention.encoder, attention.decoder, attention.cross):
        assert weights.dtype == np.float32
        np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
    assert not np.triu(attention.decoder, 1).any()
    assert attention.source_pieces[-1] == attention.target_pieces[-1] == "</s>"
    assert attention.input_pieces == ("<s>", *attention.target_pieces[:-1])
    assert "".join(attention.source_pieces[:-1]).replace("▁", " ") == " " + SOURCE
    assert max(word for word in attention.target_words if word is not None) == 4
    assert not attention.source_truncated


def test_weights_are_those_of_eq_1(translator: Translator, model_folder: Path) -> None:
    """The first layers' weights, computed step by step from embeddings, are what `attend` returns."""
    attention = translator.attend(SOURCE, TARGET)
    bundle = Bundle.load(model_folder)
    model = Transformer(bundle.config.model).eval()
    model.load_weights(bundle.weights())
    source = torch.tensor([[*translator.tokenizer.encode(SOURCE), EOS]])
    target = torch.tensor([[1, *translator.tokenizer.encode(TARGET)]])  # shifted right, after BOS

    def embed(ids: torch.Tensor, positions: Any) -> torch.Tensor:
        embedded = model.source_embedding[ids] * 32**0.5
        return embedded + positions(0, ids.size(1))

    with torch.inference_mode():
        layer = model.encoder[0].self_attention
        query, key, _ = layer.project(embed(source, model.source_positions))
        expected = attention_weights(query, key)[0]
        np.testing.assert_allclose(attention.encoder[0], expected.numpy(), atol=1e-6)

        decoder = model.decoder[0]
        x = embed(target, model.target_positions)
        query, key, _ = decoder.self_attention.project(x)
        expected = attention_weights(query, key, causal=True)[0]
        np.testing.assert_allclose(attention.decoder[0], expected.numpy(), atol=1e-6)

        memory = model.encode(source, torch.tensor([source.size(1)])).states_BSD
        attended = decoder.self_attention(x, None, causal=True)
        x = decoder.self_attention_residual.leave(x, attended)
        query = decoder.cross_attention.query(x).unflatten(-1, (2, 16)).transpose(1, 2)
        key, _ = decoder.cross_attention.project_memory(memory)
        expected = attention_weights(query, key)[0]
        np.testing.assert_allclose(attention.cross[0], expected.numpy(), atol=1e-5)


def test_without_a_target_the_models_own_translation_is_looked_at(translator: Translator) -> None:
    attention = translator.attend(SOURCE)
    [best] = translator.translate_n_best([SOURCE], 1)[0]
    assert attention.target == best.text
    assert attention.target_pieces == (*best.tokens, "</s>")


def test_texts_too_long_are_cut(translator: Translator) -> None:
    attention = translator.attend("a man " * 100, "a dog " * 100)
    assert attention.source_truncated
    assert attention.target_truncated
    assert attention.cross.shape[-2:] == (64, 64)
    assert word_weights(attention).shape[-2:] == (200, 200)


def test_what_cannot_be_attended_says_why(translator: Translator) -> None:
    for source in ("", " \t"):
        with pytest.raises(DataError, match="source is empty"):
            translator.attend(source)

    class Silent:
        name, max_source_tokens, independent_lines = "silent engine", 100, True

        def translate(self, sources: Any, options: Any, n_best: int = 1) -> Any:
            return [[Hypothesis([], 0.0, 0.0, True)] for _ in sources]

    silent = Translator(Silent(), translator.tokenizer, translator.options)
    with pytest.raises(ConfigError, match="silent engine: cannot tell its attention weights"):
        silent.attend(SOURCE)


# --- the command ------------------------------------------------------------------------------------------


def test_the_page_is_made_where_nothing_is_asked_for(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert inspect(model_folder, "--sentence", SOURCE, "--translation", TARGET) == 0
    page = (tmp_path / "attention.html").read_text(encoding="utf-8")
    assert "<title>Attention of tiny &amp; random</title>" in page
    assert SOURCE in page
    assert "attention.html: " in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["attention.html"]


def test_a_large_page_is_warned_of(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("transduce.cli.inspect._LARGE_PAGE", 10_000)
    assert inspect(model_folder, "--sentence", SOURCE, "--words") == 0
    assert "warning" not in capsys.readouterr().err
    assert inspect(model_folder, "--sentence", SOURCE) == DataError.exit_code
    assert "attention.html: exists already. Add --overwrite" in capsys.readouterr().err
    assert inspect(model_folder, "--sentence", SOURCE, "--overwrite") == 0
    assert "--words makes it smaller" in capsys.readouterr().err


def test_page_picture_and_data_at_once(model_folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need transduce[figures]")
    options = ["--output", "pages/p.html", "--figure", "f.svg", "--arrays", "d.npz", "--words"]
    chosen = ["--attention", "cross", "--layer", "3", "--heads", "2,1", "--word", "dogs"]
    assert inspect(model_folder, "--sentence", SOURCE, "--translation", TARGET, *options, *chosen) == 0
    picture = (tmp_path / "f.svg").read_text(encoding="utf-8")
    assert "layer 3 of 3" in picture
    assert 'id="head-2"' in picture
    assert (tmp_path / "pages" / "p.html").is_file()


def test_data_is_what_attend_returns(model_folder: Path, translator: Translator, tmp_path: Path) -> None:
    attention = translator.attend(SOURCE, TARGET)
    for name in ("d.npz", "d.json"):
        assert inspect(model_folder, "--sentence", SOURCE, "--translation", TARGET, "--arrays", name) == 0
    with np.load(tmp_path / "d.npz") as arrays:  # without pickles, NumPy's default
        assert list(arrays["source_pieces"]) == list(attention.source_pieces)
        assert arrays["source_words"][-1] == -1
        for name in ("encoder", "decoder", "cross"):
            np.testing.assert_allclose(arrays[name], getattr(attention, name), atol=1e-6)
    values = json.loads((tmp_path / "d.json").read_text(encoding="utf-8"))
    assert values["target"] == TARGET
    assert values["source_words"][-1] is None
    assert values["input_pieces"] == list(attention.input_pieces)
    np.testing.assert_allclose(values["cross"], attention.cross, atol=1e-6)
    assert not (tmp_path / "attention.html").exists()


def expected_lines(attentions: list[Attention | None], text: str) -> list[str]:
    """Returns alignments by the heads that `text` names, computed one by one."""
    weights = [word_weights(attention) if attention else None for attention in attentions]
    if text == "best":
        scores = [alignment_scores(one) for one in weights if one is not None]
        heads = best_heads(np.mean(scores, axis=0), BEST_HEADS)
    else:
        heads = parse_heads(text, 3, 2)
    return ["" if one is None else pharaoh(align(one, heads)) for one in weights]


@pytest.mark.parametrize("heads", ["best", "2", "3.2,1.1", "mean"])
def test_a_file_is_aligned_line_by_line(
    model_folder: Path, translator: Translator, tmp_path: Path, heads: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = [SOURCE, "", "a man", "A dog runs.", " "]
    targets = [TARGET, "a", "", "two dogs", "x"]
    for name, lines in (("source", sources), ("target", targets)):
        (tmp_path / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    files = ["--source", "source", "--target", "target", "--pharaoh", "out"]
    assert inspect(model_folder, *files, *(["--align-heads", heads] if heads != "best" else [])) == 0
    attentions = [
        translator.attend(source, target) if source.strip() and target else None
        for source, target in zip(sources, targets, strict=True)
    ]
    expected = expected_lines(attentions, heads)
    assert (tmp_path / "out").read_text().split("\n")[:-1] == expected
    assert [bool(line) for line in expected] == [True, False, False, True, False]
    assert "5 pairs aligned by heads" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "source", "target"]


def test_own_translations_of_standard_input_are_aligned_to_standard_output(
    model_folder: Path, translator: Translator, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"A dog runs.\n\na man with a ball")))
    assert inspect(model_folder, "--pharaoh", "-", "--align-heads", "3.1") == 0
    attentions = [translator.attend("A dog runs."), None, translator.attend("a man with a ball")]
    assert capsys.readouterr().out.split("\n")[:-1] == expected_lines(attentions, "3.1")


def test_a_line_of_a_file_is_shown(model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "source").write_text(f"x\n{SOURCE}\n" + "a man " * 100, encoding="utf-8")
    assert inspect(model_folder, "--source", "source", "--line", "2") == 0
    assert SOURCE in (tmp_path / "attention.html").read_text(encoding="utf-8")
    assert "warning" not in capsys.readouterr().err
    assert inspect(model_folder, "--source", "source", "--line", "3", "--overwrite") == 0
    assert "line 3: longer than the 63 tokens" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sentence", "a", "--figure", "f.gif"], "pictures end in .png or .svg"),
        (["--sentence", "a", "--figure", "f.svg", "--layer", "3"], "layer 3: the encoder attention has layers 1 to 2"),
        (["--sentence", "a", "--figure", "f.svg", "--heads", "1,3"], "head 3: each layer has heads 1 to 2"),
        (["--sentence", "a", "--figure", "f.svg", "--heads", "1;2"], "--heads '1;2'"),
        (["--sentence", "a", "--layer", "1"], "add --figure"),
        (["--sentence", "a", "--attention", "cross"], "add --figure"),
        (["--source", "source", "--pharaoh", "p", "--line", "2"], "--pharaoh aligns all"),
        (["--sentence", "a", "--align-heads", "1"], "add --pharaoh"),
        (["--sentence", "a", "--arrays", "d.npz", "--words"], "--words is for the page and the picture"),
        (["--source", "source", "--pharaoh", "p", "--words"], "--words is for the page and the picture"),
        (["--sentence", "a", "--pharaoh", "p", "--align-heads", "4.1"], "layers 1 to 3 with heads 1 to 2"),
        (["--sentence", "a", "--arrays", "d.txt"], "data files end in .npz or .json"),
        (["--sentence", "a", "--output", "a.PNG"], "a.PNG: the page is HTML. For a picture: --figure a.PNG"),
        (["--sentence", "a", "--output", "a.pdf"], "a.pdf: the page is HTML. For a picture: --figure a.svg"),
        (["--sentence", "a", "--source", "source"], "not both"),
        (["--translation", "a"], "--translation needs --sentence"),
        (["--source", "m.tmx"], "m.tmx: a translation memory has both sides: add --target m.tmx"),
        (["--source", "source", "--line", "3"], "--line 3: the input has 2 lines"),
        (["--source", "source", "--line", "0"], "--line 0: must be a whole number from 1"),
    ],
)
def test_bad_options_are_one_line_and_leave_no_output(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    if "--figure" in options:
        pytest.importorskip("matplotlib", reason="pictures need transduce[figures]")
    (tmp_path / "source").write_text("a man\na dog\n", encoding="utf-8")
    assert inspect(model_folder, *options) == ConfigError.exit_code
    errors = capsys.readouterr().err
    assert message in errors
    assert errors.startswith("transduce: error: ")
    assert errors.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_the_page_is_no_standard_output(model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(model_folder, "--sentence", "a", "--output", "-") == DataError.exit_code
    assert "--output -: standard output cannot be used here" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("options", "read"),
    [
        (["--source", "test.en", "--pharaoh", "test.en"], "test.en"),
        (["--source", "test.en", "--target", "test.de", "--pharaoh", "./test.de"], "test.de"),
        (["--source", "test.en", "--output", "test.en"], "test.en"),
        (["--source", "attention.html"], "attention.html"),  # what is written where nothing is asked for
        (["--source", "test.json", "--arrays", "test.json"], "test.json"),
        (["--sentence", "a man", "--arrays", "model/tokenizer.json"], "model/tokenizer.json"),
    ],
)
def test_what_is_read_is_not_written_over(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], read: str
) -> None:
    (tmp_path / "model").symlink_to(model_folder)
    for name in ("test.en", "test.de", "test.json", "attention.html"):
        (tmp_path / name).write_text("a man\na dog\n", encoding="utf-8")
    before = (tmp_path / read).read_bytes()
    assert inspect(model_folder, *options) == DataError.exit_code
    assert "is an input of this command, and would be overwritten" in capsys.readouterr().err
    assert (tmp_path / read).read_bytes() == before


def test_an_empty_source_is_an_error_of_the_data(model_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(model_folder, "--sentence", " ") == DataError.exit_code
    assert "source is empty" in capsys.readouterr().err


def test_without_torch_the_advice_names_the_extra_and_no_other_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command has no --engine: only PyTorch returns attention weights."""
    monkeypatch.setattr("transduce.cli.requirements.find_spec", lambda name: None)
    assert command_line.main(["inspect", str(tmp_path)]) == MissingDependencyError.exit_code
    message = capsys.readouterr().err
    assert message.startswith("transduce: error: torch not installed. This command needs: pip install ")
    assert "ctranslate2" not in message
