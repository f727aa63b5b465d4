"""The model card: what a model is, what was measured, and how it is used."""

from collections.abc import Mapping
from typing import Any

from transduce.__about__ import __version__
from transduce.config.schema import Config

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

Each output is a tree over the words of its sentence: malformed ones are repaired (`repaired`: % of them).
It knows the kind of text that it was trained on, and that treebank's labels. The terms of the treebank may bind uses of
the model. Scores are of labelled brackets as EVALB counts them with COLLINS.prm, in %, punctuation by the gold tags."""


def model_card(config: Config, num_parameters: int, metrics: Mapping[str, Any]) -> str:
    """Returns the card as Markdown; it uses only the configuration and the measurements."""
    model, data, train = config.model, config.data, config.train
    is_parser = data.format == "trees"
    languages = (
        f"{data.source_language} sentences → trees".strip()
        if is_parser
        else data.described_languages("source", "target")
    )
    corpus = data.download or ", ".join(" + ".join(corpus.files) for corpus in data.training_corpora) or "not recorded"
    sides = f" of sources, {model.target_vocab_size:,} of targets" if model.target_vocab_size else ", shared"
    rows = "\n".join(
        f"| {name} | {format_metric(value)} |" for name, value in metrics.items() if not isinstance(value, dict)
    )
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
| vocabulary | {model.vocab_size:,} {config.text.algorithm} pieces{sides} |
| trained on | {corpus} |{_origin_rows(metrics)}
| training | at most {train.max_steps:,} steps, dropout {model.dropout}, label smoothing {train.label_smoothing} |

## Measured

{measured}

## Use

{_PARSER_USE if is_parser else _TRANSLATOR_USE}
"""


def _origin_rows(metrics: Mapping[str, Any]) -> str:
    """Returns rows of the card: of the model that training started from, of the repository that an import is from."""
    rows = ""
    if isinstance(ancestor := metrics.get("ancestor"), dict):
        words = f", {ancestor.get('new_words')} new words" if ancestor.get("new_words") else ""
        name, path, checksum = (ancestor.get(key, "not recorded") for key in ("name", "path", "sha256"))
        rows += f"\n| started from | {name} (`{path}`{words}), SHA-256 of its weights `{checksum}` |"
    if isinstance(origin := metrics.get("imported_from"), dict):
        name, url, revision = (origin.get(key, "not recorded") for key in ("repository", "url", "revision"))
        rows += f"\n| imported from | [{name}]({url}), revision `{revision}` |"
    if licence := metrics.get("licence"):
        rows += f"\n| licence of the original | {licence}, see `ORIGINAL_README.md` |"
    return rows


def format_metric(value: Any) -> str:
    """Returns a measured value as text: two decimals, large numbers as 3.2e+15; of a table, each entry but tables."""
    if isinstance(value, dict):
        entries = {name: entry for name, entry in value.items() if not isinstance(entry, dict)}
        return ", ".join(f"{name} {format_metric(entry)}" for name, entry in entries.items())
    if isinstance(value, int | float) and abs(value) >= 1e12:
        return f"{value:.3e}"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
