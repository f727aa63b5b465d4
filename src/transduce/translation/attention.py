"""What every head attends to in one pair."""

from transduce.config import DecodeConfig
from transduce.engines.interface import AttendingEngine
from transduce.engines.tagged import tags_of
from transduce.errors import ConfigError, DataError, install_command
from transduce.text import EOS_TOKEN, word_of_each
from transduce.translation.result import Attention
from transduce.translation.text_model import TextModel


def attend(model: TextModel, options: DecodeConfig, source: str, target: str | None) -> Attention:
    """Returns the attention weights of one pair; see `Translator.attend`. `options` are those of a translation."""
    if not isinstance(model.engine, AttendingEngine):
        raise ConfigError(
            f"{model.engine.name}: cannot tell its attention weights. Load with engine='torch', "
            f"which needs PyTorch: {install_command('train')}"
        )
    if not isinstance(source, str) or not isinstance(target, str | None):
        raise TypeError("Give one line, a str, and its translation, a str or None.")
    if not source.strip():
        raise DataError("The source is empty: there is nothing to attend to.")
    tokenizer = model.tokenizer.target
    source_ids = model.tokenizer.encode(source)
    if target is None:
        [[best]] = model.engine.translate([source_ids], options)
        target_ids, target = best.ids, tokenizer.decode(best.ids).replace("\n", " ")
    else:
        target_ids = tokenizer.encode(target)
    limit = model.engine.max_source_tokens  # a learned position table bounds both sides alike
    tags, target_tags = tags_of(model.engine)
    target_limit = limit - max(0, len(target_tags) - len(tags))
    read, written = source_ids[:limit], target_ids[:target_limit]
    weights = model.engine.attend(read, written)
    words = [None] * len(tags) + word_of_each(model.tokenizer.covered(source, read))
    target_words = [None] * len(target_tags) + word_of_each(tokenizer.covered(target, written))
    return Attention(
        source=source,
        target=target,
        source_pieces=(*model.tokenizer.pieces([*tags, *read]), EOS_TOKEN),
        target_pieces=(*tokenizer.pieces([*target_tags, *written]), EOS_TOKEN),
        source_words=(*words, None),
        target_words=(*target_words, None),
        encoder=weights.encoder,
        decoder=weights.decoder,
        cross=weights.cross,
        source_truncated=len(source_ids) > limit,
        target_truncated=len(target_ids) > target_limit,
    )
