"""Which weights of its ancestor a model has, and which of their rows stay as they are."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from made_models import made_bundle
from transduce.config import Config, apply_settings
from transduce.config.ancestor import inherited
from transduce.config.checked_json import write_checked
from transduce.errors import ConfigError, TrainingError
from transduce.model import Transformer
from transduce.training import ancestor
from transduce.training.ancestor import (
    _freeze_rows,
    describe_start,
    first_weights,
    kept_layers,
    record_ancestor,
    require_ancestor,
    start_from_ancestor,
    with_layers,
    with_rows,
)
from transduce.training.run_folder import ancestor_metrics, read_ancestor_record


@pytest.mark.parametrize(
    ("had", "wanted", "kept"),
    [(6, 6, [0, 1, 2, 3, 4, 5]), (6, 1, [0]), (6, 2, [0, 5]), (6, 3, [0, 2, 5]), (12, 4, [0, 4, 7, 11]), (1, 1, [0])],
)
def test_layers_that_are_kept(had: int, wanted: int, kept: list[int]) -> None:
    assert kept_layers(had, wanted) == kept


def test_kept_layers_are_numbered_anew_and_other_stacks_stay() -> None:
    names = [f"{stack}.{number}.ffn.weight" for stack in ("encoder", "decoder") for number in range(3)]
    weights = {name: np.array(index) for index, name in enumerate([*names, "source_embedding"])}
    found = {name: int(value) for name, value in with_layers(weights, "decoder", [0, 2]).items()}
    assert found == {
        "encoder.0.ffn.weight": 0,
        "encoder.1.ffn.weight": 1,
        "encoder.2.ffn.weight": 2,
        "decoder.0.ffn.weight": 3,
        "decoder.1.ffn.weight": 5,
        "source_embedding": 6,
    }


def test_a_new_row_is_the_mean_of_the_rows_of_its_pieces() -> None:
    table = np.array([[0, 0], [1, 2], [3, 6], [8, 1]], dtype=np.float32)
    found = with_rows(table, [(1, 2), (3,), (1, 1, 3)])
    assert found.dtype == np.float32
    assert found.tolist() == [*table.tolist(), [2, 4], [8, 1], [pytest.approx(10 / 3), pytest.approx(5 / 3)]]


def test_the_gradient_of_the_first_rows_is_cleared() -> None:
    table = torch.zeros(4, 2, requires_grad=True)
    _freeze_rows(3, table)  # nothing to clear
    table.grad = torch.ones(4, 2)
    _freeze_rows(3, table)
    assert table.grad.tolist() == [[0, 0], [0, 0], [0, 0], [1, 1]]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Returns a configuration that starts from a small model, with all that is inherited."""
    bundle = made_bundle(tmp_path_factory.mktemp("models") / "general")
    settings = [f"init.model={bundle.path}", "train.warmup_steps=4", "train.max_steps=5"]
    return inherited(apply_settings(Config(), settings), bundle.config)


@pytest.mark.parametrize(
    "settings",
    [
        "model.dropout=0.3 model.attention_dropout=0.3 model.ffn_dropout=0.3 model.vocab_size=9",
        "model.num_encoder_layers=1 model.num_decoder_layers=1",
        "model.max_positions=7",  # sinusoids have no limit
        "text.min_frequency=7 text.sample_pairs=7",
        "init.freeze=['encoder','decoder']",
        "init.freeze=['encoder','decoder','embeddings'] init.new_words=3",  # their rows are trained
        "init.freeze=['encoder','decoder','embeddings'] init.words=['zebra']",
        "init.freeze=['encoder','decoder','embeddings'] data.corpora=[{files=['x.tsv'],domain='law'}]",
    ],
)
def test_what_may_differ_from_an_ancestor(settings: str, started: Config, tmp_path: Path) -> None:
    require_ancestor(tmp_path, apply_settings(started, settings.split()))


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("model.d_ff=8", "model.d_ff = 8: the model has 64"),
        ("model.norm=pre", 'model.norm = "pre": the model has "post"'),
        ("model.num_encoder_layers=3", "model.num_encoder_layers = 3: the model has 2"),
        ("model.num_decoder_layers=3", "model.num_decoder_layers = 3: the model has 2"),
        ("text.vocab_size=777", "text.vocab_size = 777: the model has"),
        ("text.algorithm=wordpiece", 'text.algorithm = "wordpiece": the model has "bpe"'),
        ("init.freeze=['encoder','decoder','embeddings']", "leaves nothing to train"),
        ("init.freeze=['encodr']", "unknown part 'encodr'"),
        (
            "init.freeze=['model'] model.block_size=2 train.guided_attention=0.2",
            r"train\.guided_attention: must be 0 where init\.freeze leaves the heads for later tokens only",
        ),
        ("train.max_steps=4", r"train.warmup_steps = 4: must be less than train.max_steps \(4\)"),
        ("init.model=none", "no such folder"),
    ],
)
def test_a_recipe_that_does_not_fit_its_ancestor_is_refused(
    setting: str, said: str, started: Config, tmp_path: Path
) -> None:
    config = apply_settings(started, setting.split())
    with pytest.raises(ConfigError, match=said):
        require_ancestor(tmp_path, config)
    checkpoint = tmp_path / "checkpoints" / "step-00000001"
    checkpoint.mkdir(parents=True)
    (checkpoint / "state.json").touch()
    require_ancestor(tmp_path, config)  # training began: the model may be gone


def test_learned_positions_of_an_ancestor_are_its_weights(tmp_path: Path) -> None:
    bundle = made_bundle(tmp_path / "general", positions="learned", max_positions=20)
    config = inherited(apply_settings(Config(), [f"init.model={bundle.path}"]), bundle.config)
    require_ancestor(tmp_path, config)
    with pytest.raises(ConfigError, match=r"model\.max_positions = 9: the model has 20"):
        require_ancestor(tmp_path, apply_settings(config, ["model.max_positions=9"]))


def test_what_is_said_of_an_ancestor(started: Config, tmp_path: Path) -> None:
    assert describe_start(tmp_path, Config()) == []
    path = started.init.model
    first, rate = describe_start(tmp_path, started)
    assert (first, rate.startswith("learning rate: rises")) == (f"starts from a model ({path})", True)
    (tmp_path / "ancestor.json").write_text(
        f'{{"name": "general", "path": "p", "new_words": 2, "vocab_size": {started.model.vocab_size - 3},'
        ' "layers": {"decoder": [0, 5]}}'
    )
    frozen = apply_settings(started, ["init.freeze=['embeddings']"])
    lines = describe_start(tmp_path, frozen)
    assert lines[0] == "starts from general (p), with 2 new words"
    assert lines[2] == "decoder: has 2 layers of it: 0, 5, counted from 0"
    rows = started.model.vocab_size - 3  # of width 32
    assert lines[3].startswith(f"frozen: embeddings: {32 * rows:,} of ")
    assert lines[3].endswith(
        " (source_embedding is one table for source, target and output); the rows of 3 new words and tags are trained"
    )


# --- the first weights ------------------------------------------------------------------------------------------------


class Grown:
    """A model folder with small tables, and data whose tokeniser has two words and a tag more."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        bundle = made_bundle(folder / "general", tie_embeddings="none")
        self.bundle, self.run = bundle, folder / "run"
        settings = [f"init.model={bundle.path}", "model.num_decoder_layers=1"]
        config = inherited(apply_settings(Config(), settings[:1]), bundle.config)
        self.config = apply_settings(config, [*settings, f"model.vocab_size={bundle.config.model.vocab_size + 3}"])
        self.prepared: Any = SimpleNamespace(tokenizer="t.json", folder=Path("d"))
        monkeypatch.setattr(ancestor, "load_tokenizer", lambda _: SimpleNamespace(tags={"<law>": 301}))
        monkeypatch.setattr(ancestor, "added_pieces", lambda *_: ["▁zebra", "▁yak", "<law>"])
        monkeypatch.setattr(ancestor, "former_pieces", lambda tokenizer, new, read: [(4, 6), (5,), (3,)])

    def read_back(self) -> dict[str, Any]:
        record_ancestor(self.run, self.config, self.prepared)
        return read_ancestor_record(self.run)


@pytest.fixture
def grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Grown:
    return Grown(tmp_path, monkeypatch)


def test_a_run_records_its_ancestor(grown: Grown) -> None:
    bundle = grown.bundle
    assert grown.read_back() == {
        "name": bundle.config.name,
        "path": str(bundle.path),
        "sha256": bundle.checksums["model.safetensors"],
        "new_words": 2,  # a tag is no word
        "vocab_size": bundle.config.model.vocab_size,
        "layers": {"decoder": [0]},
    }
    grown.config = apply_settings(grown.config, ["model.num_decoder_layers=2"])
    assert "layers" not in grown.read_back()


def test_nothing_of_the_ancestor_of_an_earlier_attempt_stays(grown: Grown) -> None:
    """A training that failed before its first checkpoint may begin again in its folder, from another model or none."""
    record_ancestor(grown.run, Config(), grown.prepared)
    assert not grown.run.exists()
    (grown.bundle.path / "LICENSE").write_text("theirs")
    grown.read_back()
    assert (grown.run / "terms" / "LICENSE").is_file()
    (grown.bundle.path / "LICENSE").unlink()
    assert grown.read_back()["name"] == grown.bundle.config.name
    assert not (grown.run / "terms").exists()
    (grown.bundle.path / "LICENSE").write_text("theirs")
    grown.read_back()
    record_ancestor(grown.run, Config(), grown.prepared)
    assert list(grown.run.iterdir()) == []
    assert (read_ancestor_record(grown.run), ancestor_metrics(grown.run)) == ({}, {})


def test_first_weights_are_the_ancestors_with_new_rows_in_each_table(grown: Grown) -> None:
    grown.read_back()
    before = grown.bundle.weights()
    found = first_weights(grown.run, grown.config, grown.prepared)
    assert {name for name in before if name not in found} == {name for name in before if name.startswith("decoder.1.")}
    for name, value in found.items():
        if name in ("source_embedding", "target_embedding", "output_embedding"):
            table = before[name]
            rows = [(table[4].astype(float) + table[6]) / 2, table[5], table[3]]
            np.testing.assert_allclose(value, [*table, *rows], rtol=1e-6)
        else:
            np.testing.assert_array_equal(value, before[name])
    write_checked(grown.run / "ancestor.json", read_ancestor_record(grown.run) | {"sha256": "0" * 64})
    with pytest.raises(TrainingError, match=rf"{grown.bundle.path}: changed since {grown.run} was started from it"):
        first_weights(grown.run, grown.config, grown.prepared)


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("freeze", ["", "embeddings", "encoder"])
def test_frozen_parts_stay_and_rows_of_new_words_are_trained(freeze: str, begun: bool, grown: Grown) -> None:
    grown.read_back()
    config = apply_settings(grown.config, [f"init.freeze={[freeze] if freeze else []}"])
    if begun:
        checkpoint = grown.run / "checkpoints" / "step-00000001"
        checkpoint.mkdir(parents=True)
        (checkpoint / "state.json").touch()
    model = Transformer(config.model)
    start_from_ancestor(model, grown.run, config, grown.prepared)
    weights = grown.bundle.weights()
    loaded = {name: value.detach().numpy() for name, value in model.weights().items()}
    same = np.array_equal(loaded["encoder.0.feed_forward.inner.weight"], weights["encoder.0.feed_forward.inner.weight"])
    assert same != begun  # a checkpoint has its own
    rows = grown.bundle.config.model.vocab_size
    for name, parameter in model.named_parameters():
        table = name.endswith("_embedding")
        trained = not (freeze == "encoder" and name.startswith(("encoder.", "encoder_norm.")))
        assert parameter.requires_grad == trained, name
        if table and freeze == "embeddings":
            (parameter * torch.ones_like(parameter)).sum().backward()
            assert parameter.grad is not None
            assert (parameter.grad[:rows] == 0).all()
            assert (parameter.grad[rows:] == 1).all()


def test_new_tags_of_the_source_leave_a_frozen_table_of_the_target_as_it_is(tmp_path: Path) -> None:
    """Where each side has its own pieces, new rows are the source's, however long the target's table is."""
    bundle = made_bundle(tmp_path / "general", tie_embeddings="target")
    settings = [f"init.model={bundle.path}", "init.freeze=['embeddings']"]
    rows = bundle.config.model.vocab_size
    sizes = [f"model.vocab_size={rows + 1}", f"model.target_vocab_size={rows + 5}"]
    config = apply_settings(inherited(apply_settings(Config(), settings), bundle.config), [*settings, *sizes])
    run = tmp_path / "run"
    write_checked(run / "ancestor.json", {"name": "general", "path": "p", "new_words": 0, "vocab_size": rows})
    checkpoint = run / "checkpoints" / "step-00000001"
    checkpoint.mkdir(parents=True)
    (checkpoint / "state.json").touch()
    model = Transformer(config.model)
    start_from_ancestor(model, run, config, None)  # type: ignore[arg-type]  # a checkpoint has the weights
    trained = [name for name, weight in model.named_parameters() if weight.requires_grad and "embedding" in name]
    assert trained == ["source_embedding"]
    frozen = f"{config.model.d_model * (rows + rows + 5):,} of "
    assert describe_start(run, config)[2].startswith(f"frozen: embeddings: {frozen}")
