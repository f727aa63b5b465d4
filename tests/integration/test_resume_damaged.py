"""A run whose checkpoints are all damaged is not begun anew in silence."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from transduce.config import Config, preset
from transduce.data.store import ParallelStore, StoreWriter
from transduce.errors import TrainingError
from transduce.training.device import Compute
from transduce.training.run_folder import checkpoints
from transduce.training.trainable import new_model
from transduce.training.trainer import Trainer

pytestmark = pytest.mark.computes


def small_config() -> Config:
    config = preset("tiny")
    model = replace(config.model, vocab_size=20, d_model=8, d_ff=8, num_heads=2, d_k=4, d_v=4, num_encoder_layers=1)
    train = replace(config.train, max_steps=2, checkpoint_steps=1, validate_steps=0, device="cpu")
    return replace(config, model=replace(model, num_decoder_layers=1), train=train)


def new_trainer(run: Path, store: ParallelStore) -> Trainer:
    config = small_config()
    return Trainer(new_model(config, Compute.of("cpu")), config, run, store, show_progress=False)


def test_all_checkpoints_damaged_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(0)
    with StoreWriter.open(tmp_path / "train.arrow", tokenizer_fingerprint="x", vocab_size=20) as writer:
        rows = [random.integers(4, 20, 5).tolist() for _ in range(10)]
        writer.write(rows, rows)
    store = ParallelStore.open(tmp_path / "train.arrow")
    run = tmp_path / "run"
    run.mkdir()
    new_trainer(run, store).fit()
    assert len(checkpoints(run)) == 2
    for path in checkpoints(run):
        file = path / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-1] + b"\x55")
    with pytest.raises(TrainingError, match="all 2 checkpoints are damaged"):
        new_trainer(run, store).resume()
