"""Training data made by models: back-translation, forward translation, distillation.

made = back_translate(Translator.load("models/de-en"), "mono.de", "data/bt")
made.num_pairs, made.files, made.recipe_lines("bt")
"""

from transduce.augmentation.made_corpus import MadeCorpus
from transduce.augmentation.translated_text import CorpusJob, back_translate, distill, forward_translate

__all__ = ["CorpusJob", "MadeCorpus", "back_translate", "distill", "forward_translate"]
