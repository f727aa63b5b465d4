"""A folder of CTranslate2 as one of our models: the inverse of `engines/ctranslate2_model.py`; needs no torch.

Weights in fewer bits are read back into float32, so that every engine and further training work with them. An export
of ours names what it was made from (`transduce.json`), and comes back bit for bit.

The vocabulary map, `vmap.txt`, becomes our shortlist: the candidates of single source pieces, and those of all
sentences. Candidates of several source pieces together (n-grams) are left out: ours has none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec

import numpy as np

from transduce.config import Config, DataConfig, DecodeConfig, ModelConfig, TextConfig, from_dict
from transduce.config.aligning_heads import AligningHeads
from transduce.config.choices import learns_positions
from transduce.config.special_ids import EOS
from transduce.engines.aligning_heads import with_heads_back
from transduce.engines.shortlist.table import Shortlist
from transduce.errors import ConfigError, ExportError
from transduce.export.ctranslate2_binary import Variables, read_variables
from transduce.export.ctranslate2_settings import STACKS, Settings, read_settings
from transduce.export.ctranslate2_vocabulary import (
    Vocabulary,
    is_of_fairseq,
    language_tag,
    read_vocabulary,
)
from transduce.export.ctranslate2_weights import read_shape, to_model
from transduce.export.foreign_files import ForeignFiles
from transduce.export.foreign_model import ForeignModel
from transduce.export.foreign_vocabulary import ForeignTokenizer
from transduce.export.huggingface_reading import AT_LEAST_AS_TIED
from transduce.export.huggingface_settings import ORIGINAL
from transduce.export.system import System
from transduce.text.tags import LANGUAGE, names_among

MODEL = "model.bin"
_VOCABULARY_MAP = "vmap.txt"
_OTHER_PIECES = 4  # ours before the first that is none of the special ones
_MOST_CANDIDATES = 1000  # of a source piece


@dataclass(frozen=True)
class _Original:
    """What an export of ours was made from."""

    config: Config
    heads: AligningHeads | None


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What a folder does not say: how its callers use it.

    Attributes:
        data: names its languages.
        decode: how outputs are found.
        first: the piece that all outputs begin with, the code of a language; "" for none.
        appends_end: whether callers append EOS to sources where CTranslate2 does not, as tokenizers of transformers do.
    """

    data: DataConfig = field(default_factory=DataConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    first: str = ""
    appends_end: bool = True


def read_ctranslate2(files: ForeignFiles, texts: ForeignFiles, usage: Usage | None = None) -> ForeignModel:
    """Reads a folder that a converter of CTranslate2, or our export, wrote.

    Args:
        files: of the folder.
        texts: where its tokenizer is.
        usage: how its callers use it; None: as usual.

    Raises:
        BundleError: a file is missing or damaged, or the tokenizer cannot become ours.
        ExportError: our model cannot compute what this one does; all reasons are named.
    """
    usage = usage or Usage()
    with files.reading(MODEL) as stream:
        variables = read_variables(stream, files.size(MODEL), files.where(MODEL))
    settings = read_settings(variables, files, appends_end=usage.appends_end)
    shape = read_shape(variables, settings)
    vocabulary = _vocabulary(files, texts, settings, variables, usage)
    data = _with_language(usage, vocabulary, settings, texts)
    original = _original(files)
    model, weights = to_model(
        variables, settings, shape, vocabulary.tokenizer, original.config.model if original else None
    )
    own = vocabulary.tokenizer.tokenizer
    text = TextConfig(algorithm=own.algorithm, vocab_size=max(260, own.vocab_size))
    config = Config(name=files.path.resolve().name, model=model, text=text, data=data, decode=usage.decode)
    heads = None if settings.aligning is None else AligningHeads(settings.aligning[0], (*range(settings.aligning[1]),))
    if original is not None and _fits(original.config, model):
        config = replace(original.config, model=_as_read(original.config.model, model))
        if original.heads is not None and heads is not None:
            weights, heads = with_heads_back(config.model, weights, original.heads), original.heads
    shortlist = _shortlist(files, vocabulary) if files.has(_VOCABULARY_MAP) else None

    def system() -> System:
        from transduce.export.ctranslate2_original import OriginalSystem

        return OriginalSystem(files, vocabulary, settings, config)

    return ForeignModel(
        config,
        weights,
        vocabulary.tokenizer,
        system if all(find_spec(name) is not None for name in ("ctranslate2", "torch")) else None,
        heads,
        shortlist,
    )


def check_ctranslate2(files: ForeignFiles, texts: ForeignFiles, usage: Usage | None = None) -> None:
    """Raises what `read_ctranslate2` would raise, as far as can be seen without the weights."""
    with files.reading(MODEL) as stream:
        variables = read_variables(stream, files.size(MODEL), files.where(MODEL), weights=False)
    usage = usage or Usage()
    settings = read_settings(variables, files, appends_end=usage.appends_end)
    _with_language(usage, _vocabulary(files, texts, settings, variables, usage), settings, texts)


def _with_language(usage: Usage, vocabulary: Vocabulary, settings: Settings, texts: ForeignFiles) -> DataConfig:
    """Returns the languages of a model, and where its tags of languages are.

    Raises:
        ExportError: all outputs begin with a piece that names no language.
    """
    if not usage.first:
        is_given_both = is_of_fairseq(vocabulary.target) and settings.start == settings.end
        return replace(usage.data, language_tags="both") if is_given_both else usage.data
    tag = language_tag(usage.first)
    if tag not in vocabulary.tokenizer.tokenizer.target.tags:
        raise ExportError(
            f"{texts.path}: cannot be imported: its outputs begin with {usage.first[:40]!r} (target_prefix), "
            "which is no code of a language in its vocabulary."
        )
    [name] = names_among([tag], LANGUAGE)
    return replace(usage.data, language_tags="target", target_language=name)


def _vocabulary(
    files: ForeignFiles, texts: ForeignFiles, settings: Settings, variables: Variables, usage: Usage
) -> Vocabulary:
    source, target = (variables.shape(settings.embeddings[stack]) for stack in STACKS)
    if not source or not target:
        raise variables.damaged("its embeddings are no tables")

    def names_language(code: str) -> bool:
        """Returns whether callers use a code: OPUS-MT's, or of fairseq's models, whose decoders begin with EOS."""
        is_usual = code.startswith(">>") or settings.start == settings.end
        return is_usual if usage.appends_end else bool(usage.first)

    return read_vocabulary(files, texts, settings, (source[0], target[0]), names_language)


def _original(files: ForeignFiles) -> _Original | None:
    if not files.has(ORIGINAL):
        return None
    values = files.json_object(ORIGINAL)
    try:
        config = from_dict(values["config"], files.where(ORIGINAL))
        named = values.get("aligning_heads")
        heads = (
            AligningHeads(int(named["layer"]), (*map(int, named["heads"]),), named.get("guided") is True)
            if named
            else None
        )
    except (KeyError, TypeError, ValueError, AttributeError, ConfigError):
        return None
    if heads is not None:
        layers, known = config.model.num_decoder_layers, range(config.model.num_heads)
        is_valid = 0 <= heads.layer < layers and len({*heads.heads} & {*known}) == len(heads.heads) > 0
        heads = heads if is_valid else None
    return _Original(config, heads)


# What a converted model does not say, or says in another way.
_UNSAID = ("dropout", "attention_dropout", "ffn_dropout", "max_length", "target_space_embedding", "tie_embeddings")


def _as_read(original: ModelConfig, model: ModelConfig) -> ModelConfig:
    """Returns the original configuration, with what was changed by the conversion as it is now."""
    unsaid = {key: getattr(original, key) for key in _UNSAID}
    if not original.target_space_embedding and not learns_positions(original):
        unsaid["max_positions"] = original.max_positions
    if original.target_space_embedding:  # it went into the encoder's table
        unsaid |= {"target_space_embedding": False, "tie_embeddings": model.tie_embeddings}
    return replace(model, **unsaid)


def _fits(original: Config, model: ModelConfig) -> bool:
    """Returns whether a model is still the one that an export was made from: it may be another one's transduce.json."""
    same = _as_read(original.model, model)
    expected = replace(original.model, target_space_embedding=False, tie_embeddings=same.tie_embeddings)
    return same == expected and model.tie_embeddings in AT_LEAST_AS_TIED[same.tie_embeddings]


def _shortlist(files: ForeignFiles, vocabulary: Vocabulary) -> Shortlist | None:
    """Returns the vocabulary map as our shortlist; None where nothing of it can be kept."""
    order, target_order = vocabulary.tokenizer.both
    sources, targets = _ours(vocabulary.source, order), _ours(vocabulary.target, target_order)
    rows: dict[int, list[int]] = {}
    frequent: list[int] = []
    left_out = 0
    for line in files.text(_VOCABULARY_MAP).split("\n"):  # a piece may be any other line separator
        source, _, names = line.rpartition("\t")
        found = [targets[name] for name in names.split(" ") if name in targets]
        if not source:
            frequent += found
        elif source in sources:
            rows.setdefault(sources[source], []).extend(found)
        else:
            left_out += 1
    if not rows and not frequent:
        return None
    width = min(_MOST_CANDIDATES, max(map(len, rows.values()), default=0)) + 1
    table_VK = np.full((len(order), width), EOS, np.int32)
    same = _same_pieces(vocabulary.tokenizer)
    for index, found in rows.items():
        mine = list(dict.fromkeys([same[index], *found] if index in same else found))[:width]
        table_VK[index, : len(mine)] = mine
    facts = {"origin": _VOCABULARY_MAP, "source_pieces": len(rows), "rules_left_out": left_out}
    ids = np.array([index for index in dict.fromkeys(frequent) if index >= _OTHER_PIECES], np.int32)
    return Shortlist(table_VK, ids, facts, len(target_order))


def _ours(names: Sequence[str], order: np.ndarray) -> dict[str, int]:
    """Returns our id of each of their pieces: the last, where special tokens of ours share one."""
    return {names[theirs]: ours for ours, theirs in enumerate(order.tolist())}


def _same_pieces(tokenizer: ForeignTokenizer) -> Mapping[int, int]:
    """Returns the target id of each source piece that is a target piece, too: names and numbers are copied."""
    targets = {name: index for index, name in enumerate(tokenizer.tokenizer.target.tokens())}
    names = tokenizer.tokenizer.tokens()
    return {index: targets[name] for index, name in enumerate(names) if index >= _OTHER_PIECES and name in targets}
