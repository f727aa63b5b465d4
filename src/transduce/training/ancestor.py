"""Training that starts from a model, its ancestor: what is checked, the first weights, and what stays frozen.

RUN/ancestor.json says which model it was. The model itself is needed until the first checkpoint is written.
"""

import json
import math
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from transduce.bundle import WEIGHTS, Bundle
from transduce.config import Config
from transduce.config.aligning_heads import AligningHeads
from transduce.config.ancestor import ancestor_folder
from transduce.config.checked_json import write_checked
from transduce.config.choices import EMBEDDINGS, learns_positions
from transduce.config.differences import differences
from transduce.config.parts import weights_of_parts
from transduce.config.terms import terms_of, write_terms
from transduce.config.weights import BLOCK_HEADS, weight_shapes
from transduce.data.corpus_tags import CorpusTags
from transduce.data.given_tokenizer import given_tokenizer
from transduce.data.prepared import Prepared
from transduce.data.treebank_reader import sentence_reader
from transduce.errors import ConfigError, TokenizerError, TrainingError
from transduce.model import Transformer
from transduce.reporting.tables import counted
from transduce.text import Tokenizer, load_tokenizer
from transduce.text.new_words import added_pieces, former_pieces
from transduce.training.run_folder import (
    ANCESTOR,
    ANCESTOR_HEAD,
    ANCESTOR_ROWS,
    TERMS,
    checkpoints,
    read_ancestor_record,
)
from transduce.training.schedule import describe_rate

# Of the model's configuration.
_MAY_DIFFER = {"vocab_size", "dropout", "attention_dropout", "ffn_dropout", "block_size"}
_LAYERS = {"encoder": "num_encoder_layers", "decoder": "num_decoder_layers"}  # of which there may be fewer
_KEPT = "layers"  # key of ancestor.json: the ancestor's layers that the model has, if it has fewer
_OF_TOKENIZER = ("algorithm", "vocab_size")  # keys of `text` that say which tokeniser it is


def require_ancestor(run: Path, config: Config) -> None:
    """Checks, before the data are prepared, that training can start from `init.model`, if it does and has not yet.

    Raises:
        ConfigError: there is no such model; the recipe describes another model; it names an unknown part; or it guides
            the attention of a frozen model.
        BundleError: the model folder is incomplete or damaged.
        TokenizerError: a word cannot be added to its vocabulary.
    """
    init, train = config.init, config.train
    if not init.model or checkpoints(run):
        return
    bundle = Bundle.load(ancestor_folder(init.model))
    bundle.require_shapes()
    bundle.verify()
    _require_same(config, bundle.config, init.model)
    given_tokenizer(config)
    grows = bool(init.freeze) and _vocabulary_grows(config, bundle.tokenizer)
    frozen = weights_of_parts(config.model, init.freeze, new_rows=grows)
    trained = [name for name in weight_shapes(config.model) if name not in frozen]
    if train.guided_attention and not grows and all(name.startswith(BLOCK_HEADS) for name in trained):
        raise ConfigError(
            "train.guided_attention: must be 0 where init.freeze leaves the heads for later tokens only: attention "
            "stays as it is."
        )
    if train.warmup_steps >= train.max_steps:
        raise ConfigError(
            f"train.warmup_steps = {train.warmup_steps}: must be less than train.max_steps ({train.max_steps}), or the "
            "learning rate never reaches init.learning_rate. A tenth of the steps is usual."
        )


def _vocabulary_grows(config: Config, tokenizer: Tokenizer) -> bool:
    """Returns whether the ancestor's vocabulary lacks words or tags that the recipe wants."""
    tags = CorpusTags.of(config.data, tokenizer.target_languages)
    given = given_tokenizer(config) or tokenizer
    return config.init.new_words > 0 or given.with_tags(tags.all).vocab_size > tokenizer.vocab_size


def _require_same(config: Config, ancestor: Config, name: str) -> None:
    ignored = _MAY_DIFFER | (set() if learns_positions(ancestor.model) else {"max_positions"})
    ignored |= {key for key in _LAYERS.values() if getattr(config.model, key) <= getattr(ancestor.model, key)}
    before, now = (
        {
            "model": asdict(each.model),
            "text": {key: getattr(each.text, key) for key in _OF_TOKENIZER},
            "data": {"language_tags": each.data.language_tags},
        }
        for each in (ancestor, config)
    )
    if changed := differences(before, now, ignore={f"model.{key}" for key in ignored}):
        lines = [f"  {key} = {_shown(now)}: the model has {_shown(before)}" for key, (before, now) in changed.items()]
        raise ConfigError(
            f"init.model = {_shown(name)}: the recipe describes another model. Leave these keys out, which are "
            "inherited:\n" + "\n".join(lines)
        )


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# --- the beginning of a training -------------------------------------------------------------------------------------


def record_ancestor(run: Path, config: Config, prepared: Prepared) -> None:
    """Writes RUN/ancestor.json, unless training began already or starts from random weights.

    Nothing stays of the ancestor of an earlier attempt in the folder: neither its head nor its terms.
    """
    if checkpoints(run):
        return
    if (run / ANCESTOR).is_file():
        if (run / TERMS).is_dir():
            shutil.rmtree(run / TERMS)
        (run / ANCESTOR).unlink()
    if not config.init.model:
        return
    bundle = Bundle.load(ancestor_folder(config.init.model))
    new = load_tokenizer(prepared.tokenizer)
    num_words = sum(piece not in new.tags for piece in _new_pieces(bundle, prepared, new))
    values: dict[str, Any] = {"name": bundle.config.name, "path": config.init.model, "sha256": bundle.checksum(WEIGHTS)}
    values |= {"new_words": num_words, ANCESTOR_ROWS: bundle.tokenizer.vocab_size}
    if kept := _fewer_layers(bundle.config, config):
        values[_KEPT] = kept
    if head := _guided_head(bundle, kept.get("decoder", range(config.model.num_decoder_layers))):
        values[ANCESTOR_HEAD] = head
    write_checked(run / ANCESTOR, values)
    write_terms(terms_of(bundle.path), run / TERMS)


def _guided_head(bundle: Bundle, layers: Sequence[int]) -> list[int]:
    """Returns the layer, of those that are kept, and the heads that the ancestor was trained to align with."""
    heads = bundle.aligning_heads
    return [layers.index(heads.layer), *heads.heads] if heads and heads.guided and heads.layer in layers else []


def inherited_head(run: Path) -> AligningHeads | None:
    """Returns the head that the ancestor was trained to align with; None if there is none."""
    found = read_ancestor_record(run).get(ANCESTOR_HEAD)
    return AligningHeads(found[0], tuple(found[1:]), guided=True) if found else None


def first_weights(run: Path, config: Config, prepared: Prepared) -> dict[str, np.ndarray]:
    """Returns the ancestor's weights, as far as the model has them.

    A row of a new word or tag is the mean of the rows that it was made of. If the model has fewer layers, it has those
    of `kept_layers`.

    Raises:
        TrainingError: the model changed since the run began.
        BundleError: the model is damaged.
    """
    bundle = Bundle.load(ancestor_folder(config.init.model))
    if bundle.checksum(WEIGHTS) != read_ancestor_record(run).get("sha256"):
        raise TrainingError(f"{bundle.path}: changed since {run} was started from it. Start anew in another --output.")
    weights = bundle.weights()
    for stack, kept in _fewer_layers(bundle.config, config).items():
        weights = with_layers(weights, stack, kept)
    new = _new_pieces(bundle, prepared, load_tokenizer(prepared.tokenizer))
    pieces = former_pieces(bundle.tokenizer, new, sentence_reader(config.data, bundle.tokenizer))
    if pieces:
        has_bias = config.model.output_bias and not config.model.target_vocab_size
        for name in (*_growing_tables(config), *(["output_bias"] if has_bias else [])):
            weights[name] = with_rows(weights[name], pieces)
    return weights


def _growing_tables(config: Config) -> Sequence[str]:
    """Returns the tables that have a row for each new word and tag; where each side has its own, the source's alone."""
    return ["source_embedding"] if config.model.target_vocab_size else EMBEDDINGS[config.model.tie_embeddings]


def _fewer_layers(ancestor: Config, config: Config) -> dict[str, list[int]]:
    """Returns, of each stack that has fewer layers than the ancestor's, which ones it has."""
    counts = {stack: (getattr(ancestor.model, key), getattr(config.model, key)) for stack, key in _LAYERS.items()}
    return {stack: kept_layers(had, wanted) for stack, (had, wanted) in counts.items() if wanted < had}


def kept_layers(had: int, wanted: int) -> list[int]:
    """Returns which of an ancestor's layers a shallower model has: the first, the last, and others evenly between.

    A single layer is the first. Such a model learns in a fraction of the steps (Shleifer and Rush 2020).
    """
    return [round(index * (had - 1) / max(wanted - 1, 1)) for index in range(wanted)]


def with_layers(weights: Mapping[str, np.ndarray], stack: str, kept: Sequence[int]) -> dict[str, np.ndarray]:
    """Returns the weights with some layers of a stack, which are numbered anew; all other weights stay."""
    found = {}
    for name, value in weights.items():
        head, _, rest = name.partition(".")
        number, _, rest = rest.partition(".")
        if head != stack:
            found[name] = value
        elif int(number) in kept:
            found[f"{stack}.{kept.index(int(number))}.{rest}"] = value
    return found


def with_rows(table_VD: np.ndarray, pieces: Collection[tuple[int, ...]]) -> np.ndarray:
    """Returns the table, or the biases (V,), with one more row for each of `pieces`: the mean of their rows."""
    rows = [table_VD[list(ids)].mean(axis=0, dtype=np.float64) for ids in pieces]
    return np.concatenate([table_VD, np.asarray(rows, table_VD.dtype)])


def with_block_heads(weights: Mapping[str, np.ndarray], drawn: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the weights with as many heads for later tokens as `drawn` has: the ancestor's, and then new ones."""
    found = {name: value for name, value in weights.items() if not name.startswith(BLOCK_HEADS)}
    for name, new in drawn.items():
        kept = weights.get(name, new)[: len(new)]
        found[name] = np.concatenate([kept, new[len(kept) :]])
    return found


def _new_pieces(bundle: Bundle, prepared: Prepared, tokenizer: Tokenizer) -> list[str]:
    """Returns the words and tags that the prepared data's `tokenizer` has more than the ancestor's."""
    try:
        return added_pieces(bundle.tokenizer, tokenizer)
    except TokenizerError:
        raise TrainingError(
            f"{prepared.folder}: was prepared with another tokenizer than that of {bundle.path}. Prepare it again, "
            "with the recipe that has [init]."
        ) from None


def start_from_ancestor(model: Transformer, run: Path, config: Config, prepared: Prepared) -> None:
    """Gives a new model its ancestor's weights, unless a checkpoint will, and keeps the parts of `init.freeze` as is.

    Of a frozen table of pieces, the rows of new words and tags are trained. Without an ancestor it does nothing.

    Raises:
        ConfigError: all is frozen, and there are no new words or tags.
        TrainingError: the model to start from changed since the run began, or the data have another tokenizer.
        BundleError: it is damaged.
    """
    if not config.init.model:
        return
    if not checkpoints(run):
        drawn = {name: weight.cpu().numpy() for name, weight in model.weights().items() if name.startswith(BLOCK_HEADS)}
        model.load_weights(with_block_heads(first_weights(run, config, prepared), drawn), config.init.model)
    frozen, tables, num_rows = _frozen(run, config)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen or name in tables)
        if name in tables:
            parameter.register_post_accumulate_grad_hook(partial(_freeze_rows, num_rows))


def _frozen(run: Path, config: Config) -> tuple[list[str], set[str], int]:
    """Returns the frozen weights; the tables of pieces among them that have new rows; and how many rows are not new."""
    num_rows: int = read_ancestor_record(run).get(ANCESTOR_ROWS, 0)
    has_new = 0 < num_rows < config.model.vocab_size
    frozen = weights_of_parts(config.model, config.init.freeze, new_rows=has_new)
    tables = _growing_tables(config) if has_new else ()
    return frozen, {*frozen} & {*tables}, num_rows


def _freeze_rows(count: int, table_VD: Tensor) -> None:
    """Clears the gradient of the first rows: Adam then never moves them, as their moments stay 0."""
    if table_VD.grad is not None:
        table_VD.grad[:count] = 0


def describe_start(run: Path, config: Config) -> list[str]:
    """Returns lines about the ancestor, the rates to come, and what is frozen; none without an ancestor."""
    if not config.init.model:
        return []
    record: dict[str, Any] = {"name": "a model", "path": config.init.model, "new_words": 0} | read_ancestor_record(run)
    words = f", with {counted(record['new_words'], 'new word')}" if record["new_words"] else ""
    lines = [f"starts from {record['name']} ({record['path']}){words}", describe_rate(config)]
    for stack, kept in record.get(_KEPT, {}).items():
        lines.append(f"{stack}: has {counted(len(kept), 'layer')} of it: {', '.join(map(str, kept))}, counted from 0")
    frozen, tables, num_rows = _frozen(run, config)
    if frozen:
        sizes = {name: math.prod(shape) for name, shape in weight_shapes(config.model).items()}
        num_new = config.model.vocab_size - num_rows
        count = sum(sizes[name] for name in frozen) - num_new * config.model.d_model * len(tables)
        share = f"{count:,} of {counted(sum(sizes.values()), 'parameter')}"
        trained = (
            f"; the rows of {counted(num_new, 'new word or tag', 'new words and tags')} are trained" if tables else ""
        )
        lines.append(f"frozen: {', '.join(config.init.freeze)}: {share}{_tied(config, frozen)}{trained}")
    return lines


def _tied(config: Config, frozen: Collection[str]) -> str:
    """Returns, in brackets, what a frozen table is for where it is several tables at once."""
    tie = config.model.tie_embeddings
    tables = {"all": "source, target and output", "target": "target and output", "none": ""}[tie]
    shared = EMBEDDINGS[tie][-1]
    return f" ({shared} is one table for {tables})" if tables and shared in frozen else ""
