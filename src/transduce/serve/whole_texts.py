"""Short texts of several requests that go through the pipeline together.

This costs less than one pipeline for each request, each on its own thread. It is done only where it cannot change a
result: what the pipeline returns for a text depends on the text and its options only.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from transduce.serve.requests import TranslationRequest
from transduce.text import Tokenizer
from transduce.translation.pipeline import Request, run_pipeline
from transduce.translation.pipeline.checkpoints import Checkpoint, checked, never
from transduce.translation.pipeline.many_sentences import MANY_SENTENCES, lines_of_many_sentences
from transduce.translation.result import Translation
from transduce.translation.text_model import TextModel
from transduce.translation.windows import Window

# More texts fill batches by themselves; the sentences of each batch are then chosen by their length.
_MAX_TEXTS = 64
# Characters of a text in a group. A longer text is queued sentence by sentence, so that it does not delay others.
_MAX_CHARACTERS = 1000
_CHARACTERS_PER_TOKEN = 4
# For long texts, tokens are counted in this many samples of this many characters.
_SAMPLES, _SAMPLE_CHARACTERS = 32, 200
# Scripts whose words have a character or two: Chinese, Japanese, Korean.
_SHORT_WORDS = re.compile(r"[\u1100-\u11ff\u3000-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]+")


@dataclass(frozen=True, slots=True)
class WholeTexts:
    """The pipeline as work for a scheduler: its inputs are texts, its results their translations."""

    request: Request

    def __call__(self, model: TextModel, inputs: list[str]) -> list[list[Translation]]:
        """Returns the translations of each text."""
        return translate_window(model, Window(1, inputs), self.request)


def translate_window(
    model: TextModel, window: Window, request: Request, checkpoint: Checkpoint = never
) -> list[list[Translation]]:
    """Returns the result of `run_pipeline`, with a warning on the translation of each line of many sentences."""
    found = run_pipeline(model, window, request, checkpoint)
    lines = checked(window.lines, checkpoint)
    for index in lines_of_many_sentences(model, lines, found, request.text_options):
        found[index] = [replace(each, warnings=(*each.warnings, MANY_SENTENCES)) for each in found[index]]
    return found


def are_short(request: TranslationRequest) -> bool:
    """Returns whether a request has few texts, all of them short, and no prefix, term or glossary."""
    bound = request.prefixes or request.forbidden or request.required or request.glossary is not None
    few = len(request.texts) <= _MAX_TEXTS
    return few and not bound and all(len(text) <= _MAX_CHARACTERS for text in request.texts)


def estimated_tokens(texts: Sequence[str]) -> list[int]:
    """Returns an estimate of each text's tokens; in scripts with short words, each character counts as one."""
    return list(map(_estimated_tokens, texts))


def sampled_tokens(texts: Sequence[str], tokenizer: Tokenizer) -> int:
    """Returns an estimate of the tokens of all texts together, corrected by samples taken at regular distances.

    The estimate alone can be wrong by a factor of two: a small vocabulary has short subwords.
    """
    text = "\n".join(texts)
    step = max(_SAMPLE_CHARACTERS, len(text) // _SAMPLES)
    samples = [text[start : start + _SAMPLE_CHARACTERS] for start in range(0, max(1, len(text)), step)]
    counted = sum(map(len, tokenizer.encode_batch(samples)))
    return math.ceil(sum(estimated_tokens(texts)) * counted / sum(estimated_tokens(samples)))


def _estimated_tokens(text: str) -> int:
    num_others = len(text) if text.isascii() else len(_SHORT_WORDS.sub("", text))
    return len(text) - num_others + num_others // _CHARACTERS_PER_TOKEN + 1
