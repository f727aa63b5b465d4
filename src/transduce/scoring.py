"""How a model does on the validation set, once it has decoded it: BLEU of a translator, F1 of a parser."""

from transduce.config import Config, DecodeConfig
from transduce.data.store import ParallelStore
from transduce.engines.torch import TorchEngine
from transduce.evaluation.bleu import bleu, tokenized_bleu
from transduce.model import Transformer
from transduce.text import SubwordTokenizer
from transduce.training.trainer import Scorer
from transduce.treebank import delinearise
from transduce.treebank.brackets import parse_scores
from transduce.treebank.pairs import from_output, sentence_words


def scorer_of(config: Config, tokenizer: SubwordTokenizer, validation: ParallelStore) -> Scorer:
    """Returns a function that decodes the validation sources with a model and scores the result."""
    make = bracket_scorer if config.data.format == "trees" else bleu_scorer
    return make(config, tokenizer, validation)


def bleu_scorer(
    config: Config, tokenizer: SubwordTokenizer, validation: ParallelStore, *, tokenized: bool = False
) -> Scorer:
    """Returns a function that translates the validation sources with a model and scores the result.

    Source and reference are decoded from the store: the tokeniser is lossless, so this is the corpus's own text. BLEU
    is sacreBLEU's, or that of the tokens as they stand where the corpus is `tokenized` already.
    """
    count = min(len(validation), config.train.validate_bleu_sentences)
    sources = [validation.source(row).tolist() for row in range(count)]
    references = tokenizer.decode_batch([validation.target(row).tolist() for row in range(count)])
    options = _options(config)

    def score(model: Transformer) -> dict[str, float]:
        hypotheses = TorchEngine(model, record_steps=False).translate(sources, options)
        lines = tokenizer.decode_batch([best.ids for best, *_ in hypotheses])
        scored = tokenized_bleu(lines, [references]) if tokenized else bleu(lines, [references])
        return {"bleu": scored.value}

    return score


def bracket_scorer(config: Config, tokenizer: SubwordTokenizer, validation: ParallelStore) -> Scorer:
    """Returns a function that parses the validation sentences with a model, repairs the trees and scores them (§6.3).

    Where not all are to be parsed, those that are lie evenly spread: a validation set may be of several treebanks.
    """
    count = min(len(validation), config.train.validate_bleu_sentences)
    rows = [place * len(validation) // count for place in range(count)]
    sources = [validation.source(row).tolist() for row in rows]
    words = [sentence_words(text) for text in tokenizer.decode_batch(sources)]
    targets = tokenizer.decode_batch([validation.target(row).tolist() for row in rows])
    gold = [delinearise(text.split(" "), each) for text, each in zip(targets, words, strict=True)]
    options = _options(config)

    def score(model: Transformer) -> dict[str, float]:
        hypotheses = TorchEngine(model, record_steps=False).translate(sources, options)
        texts = tokenizer.decode_batch([best.ids for best, *_ in hypotheses])
        return parse_scores(gold, [from_output(text, each) for text, each in zip(texts, words, strict=True)])

    return score


def _options(config: Config) -> DecodeConfig:
    return DecodeConfig(
        beam_size=config.train.validate_beam_size,
        length_penalty=config.decode.length_penalty,
        max_extra_tokens=config.decode.max_extra_tokens,
        batch_size=64,
    )
