"""The README.md of a model folder: what the model is, what it was trained on, how good it is, how to use it."""

from collections.abc import Mapping
from typing import Any

from transduce import __version__
from transduce.config import Config

_TRANSLATOR_USE = """```sh
echo "…" | transduce translate PATH_OF_THIS_FOLDER
```

```python
from transduce import Translator

print(Translator.load("PATH_OF_THIS_FOLDER").translate(["…"]))
```

## Limits

It knows what its training text knew, in the domain of that text; other input may come out wrong and fluent.
Check translations that matter. The terms of the training corpus may bind uses of the model."""

_PARSER_USE = """Sentences are tokenised as the training trees are, words with a space between them.

```sh
echo "…" | transduce parse run PATH_OF_THIS_FOLDER
```

```python
from transduce import Parser

print(*Parser.load("PATH_OF_THIS_FOLDER").parse(["…"]))
```

## Limits

Each output is a tree over the words of its sentence: what the model writes amiss is repaired (`repaired`: % of them).
It knows the kind of text that it was trained on, and that treebank's labels. The terms of the treebank may bind uses of
the model. Scores are of labelled brackets as EVALB counts them with COLLINS.prm, in %, punctuation by the gold tags."""


def model_card(config: Config, num_parameters: int, metrics: Mapping[str, Any]) -> str:
    """Returns the card as Markdown; it says only what the configuration and the measurements say."""
    model, data, train = config.model, config.data, config.train
    is_parser = data.format == "trees"
    languages = (
        f"{data.source_language} sentences → trees".strip()
        if is_parser
        else f"{data.source_language or 'source'} → {data.target_language or 'target'}"
    )
    corpus = data.download or ", ".join(" + ".join(pair) for pair in data.train) or "not recorded"
    rows = "\n".join(f"| {name} | {shown(value)} |" for name, value in metrics.items() if not isinstance(value, dict))
    measured = (
        f"| measure | value |\n|---|---|\n{rows}" if rows else "Nothing was measured when this folder was written."
    )
    return f"""# {config.name}: {languages}

A Transformer encoder-decoder (Vaswani et al., 2017), trained with Transduce {__version__}.

| | |
|---|---|
| parameters | {num_parameters:,} |
| layers | {model.num_encoder_layers} encoder, {model.num_decoder_layers} decoder |
| d_model, d_ff | {model.d_model}, {model.d_ff} |
| heads, d_k, d_v | {model.num_heads}, {model.d_k}, {model.d_v} |
| norm, positions | {model.norm}-norm, {model.positions} |
| vocabulary | {model.vocab_size:,} {config.text.algorithm} pieces, shared |
| trained on | {corpus} |
| training | at most {train.max_steps:,} steps, dropout {model.dropout}, label smoothing {train.label_smoothing} |

## Measured

{measured}

## Use

{_PARSER_USE if is_parser else _TRANSLATOR_USE}
"""


def shown(value: Any) -> str:
    """Returns a measured value for people: two decimals, and large numbers as 3.2e+15."""
    if isinstance(value, int | float) and abs(value) >= 1e12:
        return f"{value:.3e}"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
