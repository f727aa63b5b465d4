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
    if not source.strip():
        raise DataError("The source is empty: there is nothing to attend to.")
    source_ids = model.tokenizer.encode(source)
    if target is None:
        [[best]] = model.engine.translate([source_ids], options)
        target_ids, target = best.ids, model.tokenizer.decode(best.ids).replace("\n", " ")
    else:
        target_ids = model.tokenizer.encode(target)
    limit = model.engine.max_source_tokens  # a learned position table bounds both sides alike
    read, written = source_ids[:limit], target_ids[:limit]
    weights = model.engine.attend(read, written)
    read = [*tags_of(model.engine), *read]
    return Attention(
        source=source,
        target=target,
        source_pieces=(*model.tokenizer.pieces(read), EOS_TOKEN),
        target_pieces=(*model.tokenizer.pieces(written), EOS_TOKEN),
        source_words=(*word_of_each(model.tokenizer.piece_bytes(read)), None),
        target_words=(*word_of_each(model.tokenizer.piece_bytes(written)), None),
        encoder=weights.encoder,
        decoder=weights.decoder,
        cross=weights.cross,
        source_truncated=len(source_ids) > limit,
        target_truncated=len(target_ids) > limit,
    )
