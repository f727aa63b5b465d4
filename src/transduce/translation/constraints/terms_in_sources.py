"""Terms that a model reads in the source, after the words that they translate.

A model that was trained with the modifier `terms` then writes most of them without a search that is made to (Dinu et
al. 2019, "Training neural machine translation to apply terminology constraints").
"""

from collections.abc import Sequence

from transduce.config.special_ids import UNK
from transduce.translation.constraints.glossary import Glossary
from transduce.translation.text_model import TextModel, encode_lines


def encode_with_terms(model: TextModel, glossary: Glossary | None, texts: Sequence[str]) -> list[list[int]]:
    """Returns the token ids of each text, with the glossary's terms in it if the model was trained with such texts.

    A text that would be too long with its terms has none.
    """
    encoded = encode_lines(model.tokenizer, texts)
    if glossary is None or not _reads_terms(model):
        return encoded
    written = [glossary.written_into(text) for text in texts]
    changed = [index for index, (text, new) in enumerate(zip(texts, written, strict=True)) if text != new]
    for index, ids in zip(changed, encode_lines(model.tokenizer, [written[index] for index in changed]), strict=True):
        is_readable = ids.count(UNK) <= encoded[index].count(UNK)  # an imported vocabulary may lack a character
        if is_readable and len(ids) <= model.engine.max_source_tokens:
            encoded[index] = ids
    return encoded


def _reads_terms(model: TextModel) -> bool:
    return model.bundle is not None and any(each.name == "terms" for each in model.bundle.config.train.modifiers)
