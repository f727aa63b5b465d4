"""Small models of random numbers, and searches by them: for tests that run one model in several ways."""

from typing import Any

import torch

from transduce.config import ModelConfig
from transduce.engines.interface import TokenConstraints
from transduce.model import Transformer

SMALL = ModelConfig(
    vocab_size=40,
    num_encoder_layers=1,
    num_decoder_layers=2,
    d_model=16,
    d_ff=24,
    num_heads=2,
    d_k=8,
    d_v=8,
    dropout=0.0,
)
# Options, the number of outputs of each source, and constraints of five sources.
SEARCHES: dict[str, tuple[dict[str, Any], int, list[TokenConstraints] | None]] = {
    "beam": ({"beam_size": 4}, 4, None),
    "greedy": ({"beam_size": 1}, 1, None),
    "groups": ({"beam_size": 4, "diversity_groups": 2, "diversity_penalty": 0.5}, 4, None),
    "coverage": ({"beam_size": 3, "coverage_penalty": 0.2}, 3, None),
    "drawn": ({"temperature": 1.0, "seed": 3, "top_k": 5, "top_p": 0.9}, 3, None),
    "no repeats": ({"beam_size": 2, "no_repeat_ngram": 2, "min_tokens": 3}, 1, None),
    "conditions": ({"beam_size": 4}, 2, [TokenConstraints(prefix=(5,), required=(((6, 7),),), forbidden=((9,),))] * 5),
}


def random_model(config: ModelConfig = SMALL) -> Transformer:
    """Returns a model for inference whose biases and norms are random too: as initialised they would hide much."""
    torch.manual_seed(1)
    model = Transformer(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, 0.0, 0.3)
    return model
