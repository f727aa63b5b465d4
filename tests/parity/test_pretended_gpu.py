"""What works on a CPU works on another device: nothing is left behind on the host, and the host seldom waits.

On the device of `pretended_gpu`, in a process of its own.
"""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # where this file is run, and not collected
import pretended_gpu
from pretended_gpu import begin, waits
from random_models import SEARCHES, SMALL, random_model
from transduce.config import Config, DecodeConfig, ModelConfig, TrainConfig
from transduce.data.store import ParallelStore, StoreWriter
from transduce.engines.torch import TorchEngine
from transduce.model.cuda_graphs import GraphDecoder
from transduce.training.device import Compute
from transduce.training.guidance import CurrentWord, Guidance
from transduce.training.prefetch import Prefetch
from transduce.training.progress import Progress
from transduce.training.trainer import Trainer
from transduce.training.validation import perplexity

_CONFIGS = {
    "post-norm": SMALL,
    "released code": replace(SMALL, decoder_start="zero", attention_bias=True, target_space_embedding=True),
    "learned positions": replace(SMALL, positions="learned", max_positions=200, norm="pre", tie_embeddings="none"),
    "window": replace(SMALL, attention_window=4),
}
_SOURCES = [[7, 8, 9], [10, 11, 10, 8, 7, 5, 6], [4], [5, 6, 7, 8], [9] * 12]
_SEARCHES = SEARCHES | {"long": ({"beam_size": 2, "max_extra_tokens": 56, "min_tokens": 66}, 1, None)}


def _found(engine: TorchEngine, name: str) -> list[list[list[int]]]:
    options, n_best, conditions = _SEARCHES[name]
    found = engine.translate(_SOURCES, DecodeConfig(**{"max_extra_tokens": 9, **options}), n_best, conditions)
    return [[each.ids for each in of_source] for of_source in found]


def _decode() -> dict[str, Any]:
    """Returns what differs from the CPU, and how often plain searches waited for the device."""
    # In double precision a difference is one, and no rounding.
    models = {name: random_model(config).double() for name, config in _CONFIGS.items()}
    here = {name: TorchEngine(model) for name, model in models.items()}
    searches = {name: [*_SEARCHES] if name == "post-norm" else ["beam", "greedy"] for name in models}
    expected = {(name, each): _found(engine, each) for name, engine in here.items() for each in searches[name]}
    scores = {name: engine.score(_SOURCES, _SOURCES) for name, engine in here.items()}
    maps = {name: engine.attend([4, 5, 6], [7, 8]).cross for name, engine in here.items()}
    different, waited = [], {}
    with begin() as device:
        for name, model in models.items():
            engine = TorchEngine(model.to(device), record_steps=False)
            for graphs in (False, True):
                if graphs and model.config.attention_window:
                    continue
                engine.graph_decoders = [GraphDecoder(engine.model, record=False)] if graphs else None
                for search in searches[name]:
                    waits.clear()
                    if _found(engine, search) != expected[name, search]:
                        different.append(f"{name}, {search}, CUDA graphs: {graphs}")
                    if search in ("beam", "greedy"):
                        waited[f"{name}, {search}, CUDA graphs: {graphs}"] = Counter(waits)
            pairs = zip(engine.score(_SOURCES, _SOURCES), scores[name], strict=True)
            if not all(np.allclose(*pair, atol=1e-6) for pair in pairs):
                different.append(f"{name}, score")
            if not np.allclose(engine.attend([4, 5, 6], [7, 8]).cross, maps[name], atol=1e-6):
                different.append(f"{name}, attend")
    return {"different": different, "waited": waited}


def _train(folder: str) -> dict[str, Any]:
    """Returns the greatest difference in weights, and what two updates waited for: with a guidance and without."""
    store = _store(Path(folder) / "train.arrow")
    guide = Guidance(0.5, CurrentWord([token % 2 == 0 for token in range(40)], [token % 3 == 0 for token in range(40)]))
    settings = TrainConfig(
        label_smoothing=0.1,
        warmup_steps=3,
        max_gradient_norm=0.5,
        micro_batch_tokens=40,
        target_batch_tokens=40,
        adam_epsilon=1e-2,
    )
    rows, found = np.arange(len(store)), {}  # in two micro-batches
    make_next = Prefetch.make_next

    def noted(prefetch: Prefetch, progress: Progress) -> None:
        waits.append("next batch made")
        make_next(prefetch, progress)

    Prefetch.make_next = noted  # type: ignore[method-assign]

    def trained(config: ModelConfig, device: torch.device) -> tuple[dict[str, np.ndarray], list[str], float]:
        whole = Config(model=config, train=settings)
        model = random_model(config).to(device)
        guide.watch(model)
        compute = Compute(device, torch.float32)
        trainer = Trainer(model, whole, Path(folder), store, guidance=guide, compute=compute, show_progress=False)
        waited: list[str] = []
        for step in range(4):
            trainer.progress.step = step
            trainer.guidance = guide if step < 3 else None
            waits.clear()
            trainer.train_step(rows)
            waited += waits if step > 1 else []  # the first moves the tables of the guidance
        weights = {name: weight.cpu().numpy() for name, weight in model.weights().items()}
        return weights, waited, perplexity(model, store, compute)

    with begin() as device:  # first: where autograd has begun, it knows no new devices
        away = {name: trained(config, device) for name, config in _CONFIGS.items()}
    for name, config in _CONFIGS.items():
        here, (weights, waited, measured) = trained(config, torch.device("cpu")), away[name]
        difference = max(float(abs(weights[key] - here[0][key]).max()) for key in weights)
        found[name] = {"difference": difference, "waited": waited, "perplexity": abs(measured / here[2] - 1)}
    return found


def _store(path: Path) -> ParallelStore:
    random = np.random.default_rng(1)
    with StoreWriter.open(path, tokenizer_fingerprint="none", vocab_size=40) as writer:
        for length in (3, 5, 8, 12, 4, 6):
            writer.write([random.integers(4, 40, length)], [random.integers(4, 40, length + 2)])
    return ParallelStore.open(path)


def _run(python: Path, *arguments: str) -> Any:
    done = subprocess.run([python, __file__, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


needs_pretending = pytest.mark.skipif(not pretended_gpu.AVAILABLE, reason="this PyTorch lets no one make up a device")


@needs_pretending
def test_every_way_of_decoding_stays_on_the_device(warm_python: Path) -> None:
    """And a search waits for the device where it looks at what has finished, and nowhere else."""
    result = _run(warm_python, "decode")
    assert result["different"] == []
    for name, waited in result["waited"].items():
        assert set(waited) == {"to the CPU"}, (name, waited)


@needs_pretending
def test_an_update_stays_on_the_device_and_waits_once_when_the_next_batch_is_made(
    tmp_path: Path, warm_python: Path
) -> None:
    for name, found in _run(warm_python, "train", str(tmp_path)).items():
        assert found["difference"] < 1e-5, name
        assert found["perplexity"] < 1e-4, name
        assert found["waited"] == ["next batch made", "tolist"] * 2, name


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps({"decode": _decode, "train": _train}[sys.argv[1]](*sys.argv[2:])))
